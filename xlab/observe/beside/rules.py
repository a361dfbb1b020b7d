"""Derivative rules and callbacks of JAX's as parameters of our equations. The rules are traced by JAX when they are first applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xlab.interpreters import ad
from xlab.lax.callback_calls import FlatCallback
from xlab.observe.beside import values
from xlab.observe.beside.recognize import extended, jax
from xlab.tree import structure


def params(
    name: str, given: dict[str, Any], closed: Callable[[Any], ClosedJaxpr]
) -> dict[str, Any]:
    """The parameters of a call with its own derivative."""
    theirs = given["call_jaxpr"]
    call = closed(theirs)
    out = {
        "call_jaxpr": call,
        "name": call.jaxpr.debug_info.name,
        "num_consts": given["num_consts"],
        "symbolic_zeros": False,
    }
    if name == "custom_jvp_call":
        return {**out, "jvp": _Forward(given["jvp_jaxpr_fun"], given["num_consts"], closed)}
    return {
        **out,
        "fwd": _Residuals(
            given["fwd_jaxpr_thunk"], given["num_consts"], closed, given["out_trees"]
        ),
        "bwd": _Backward(given["bwd"], given["num_consts"], call, closed),
    }


class _Forward:
    """A rule for tangents: all of them, zeros made."""

    def __init__(self, rule: Any, skip: int, closed: Any):
        self.rule, self.skip, self.closed, self.__name__ = rule, skip, closed, "jvp"
        self.made: ClosedJaxpr | None = None

    def __call__(self, *args: Any) -> list[Any]:
        n = len(args) // 2
        args = tuple(map(ad.instantiate_zeros, args))
        primals, tangents = args[self.skip : n], args[n + self.skip :]
        if self.made is None:
            jaxpr, consts, zeros = self.rule.call_wrapped(*[False] * len(tangents))
            self.zeros = list(zeros)
            self.made = self.closed(extended().ClosedJaxpr(jaxpr, consts))
        outs = eval_jaxpr(self.made.jaxpr, self.made.consts, *primals, *tangents)
        count = len(self.zeros)
        primals_out, given = outs[:count], iter(outs[count:])
        tangents_out = [
            ad.Zero(aval_of(p).to_tangent_aval()) if zero else next(given)
            for p, zero in zip(primals_out, self.zeros)
        ]
        return [*primals_out, *map(ad.instantiate_zeros, tangents_out)]


class _Residuals:
    """The forward part of a rule for cotangents: residuals, then results."""

    def __init__(self, rule: Any, skip: int, closed: Any, trees: Any):
        self.rule, self.skip, self.closed, self.trees = rule, skip, closed, trees
        self.__name__ = "fwd"
        self.made: ClosedJaxpr | None = None

    def __call__(self, *args: Any) -> list[Any]:
        if self.made is None:
            jaxpr, consts = self.rule.call_wrapped(*[False] * (len(args) - self.skip))
            self.made = self.closed(extended().ClosedJaxpr(jaxpr, consts))
        args = args[self.skip :]
        outs = iter(eval_jaxpr(self.made.jaxpr, self.made.consts, *args))
        # Residuals that are arguments handed on are no results of JAX's program.
        residuals = [next(outs) if i is None else args[i] for i in self.trees()[2]]
        return [*outs, *residuals]


class _Backward:
    """The backward part, traced by JAX for the types it is given."""

    def __init__(self, rule: Any, skip: int, call: ClosedJaxpr, closed: Any):
        self.rule, self.skip, self.call, self.closed = rule, skip, call, closed
        self.__name__ = "bwd"
        self.n_outputs = len(call.out_avals)
        self.made: dict[Any, ClosedJaxpr] = {}

    def __call__(self, *args: Any) -> list[Any]:
        args = tuple(map(ad.instantiate_zeros, args))
        key: tuple[Any, ...] = tuple(map(aval_of, args))
        if key not in self.made:
            types = [jax().ShapeDtypeStruct(a.shape, _dtype(a.dtype)) for a in key]
            self.made[key] = self.closed(
                jax().make_jaxpr(lambda *xs: tuple(self.rule.call_wrapped(*xs)))(*types)
            )
        made = self.made[key]
        return [None] * self.skip + list(eval_jaxpr(made.jaxpr, made.consts, *args))


def _dtype(d: Any) -> Any:
    return jax().random.key(0, impl=d.impl.name).dtype if hasattr(d, "impl") else d


def callback(name: str, theirs: Any) -> FlatCallback:
    """A callback that gives the user's function arrays as JAX would, and takes what it returns."""

    def run(*flat: Any) -> list[Any]:
        return [values.array(x) for x in theirs(*map(values.back, flat))]

    run.__name__ = getattr(theirs.callback_func, "__name__", name)
    n = theirs.in_tree.num_leaves
    return FlatCallback(run, structure((tuple(range(n)), {})), name)
