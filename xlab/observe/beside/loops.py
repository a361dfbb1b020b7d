"""Loops of JAX's whose condition is one truth for each example, as loops of ours, whose condition is one.

JAX keeps what `vmap` makes of such a loop in the loop's types: it goes on while any example does, and examples that are done stay as they are,
which it says when it lowers. Our programs say it in equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var
from xlab.interpreters import partial_eval as pe
from xlab.lax import broadcast_in_dim, reduce_or, select_n
from xlab.observe.beside.values import Untranslatable

__all__ = ["has_examples", "with_one_truth"]


def has_examples(params: dict[str, Any]) -> bool:
    """Whether the condition of a loop is an array of truths."""
    return bool(params["cond_jaxpr"].out_avals[0].shape)


def with_one_truth(params: dict[str, Any], place: tuple) -> dict[str, Any]:
    """The parameters of the loop that does the same with one truth. Its first operands are those of the condition, twice.

    Raises:
        Untranslatable: a value of the loop has no place for each example.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    carry = body.in_avals[n_body:]
    pred = cond.out_avals[0]
    rank = len(pred.shape)
    if any(a.shape[:rank] != pred.shape for a in carry):
        raise Untranslatable(f"a loop over {pred.shape} examples with a carry that is not theirs")

    def any_of(which: Any) -> Any:
        return [reduce_or(which, tuple(range(rank)))]

    def going_on(which: Any, *values: Any) -> list[Any]:
        olds, news = values[: len(carry)], values[len(carry) :]
        wide = [broadcast_in_dim(which, a.shape, tuple(range(rank))) for a in carry]
        return [select_n(w, old, new) for w, old, new in zip(wide, olds, news)]

    one = _Program(place)
    # Their own equations, which JAX's are joined to by number; of the condition, which is asked again in the body, copies there.
    outs = one.add(any_of, [pred], one.own(cond))
    two = _Program(place)
    consts, own = [Var(a) for a in cond.in_avals[:n_cond]], body.jaxpr.invars
    (which,) = two.copied(cond, [*consts, *own[n_body:]])
    news = two.own(body)
    kept = two.add(going_on, [pred, *carry, *carry], [which, *own[n_body:], *news])
    return {
        "cond_nconsts": n_cond,
        "cond_jaxpr": one.closed(cond.jaxpr.invars, outs, cond),
        "body_nconsts": n_cond + n_body,
        "body_jaxpr": two.closed([*consts, *own], kept, body),
    }


class _Program:
    """Equations of several programs, one after the other."""

    def __init__(self, place: tuple):
        self.place = place
        self.eqns: list[JaxprEqn] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []

    def own(self, closed: ClosedJaxpr) -> list[Any]:
        """The equations of a program themselves; its results."""
        self.constvars += closed.jaxpr.constvars
        self.consts += closed.consts
        self.eqns += closed.jaxpr.eqns
        return list(closed.jaxpr.outvars)

    def copied(self, closed: ClosedJaxpr, ins: Sequence[Any]) -> list[Any]:
        """The equations of a program on other operands; its results."""
        jaxpr = closed.jaxpr
        env: dict[Var, Any] = dict(zip(jaxpr.invars, ins))
        for var, const in zip(jaxpr.constvars, closed.consts):
            env[var] = Var(var.aval)
            self.constvars.append(env[var])
            self.consts.append(const)
        atom = lambda a: a if isinstance(a, Literal) else env.setdefault(a, Var(a.aval))
        for e in jaxpr.eqns:
            self.eqns.append(JaxprEqn(list(map(atom, e.invars)), list(map(atom, e.outvars)), e.primitive, e.params, e.effects, e.raw_source_info))  # fmt: skip
        return list(map(atom, jaxpr.outvars))

    def add(self, fun: Callable[..., Any], avals: Sequence[Any], ins: Sequence[Any]) -> list[Any]:
        """What a function of ours does, at the loop's place."""
        first = len(self.eqns)
        outs = self.copied(pe.trace_to_closed_jaxpr(fun, list(avals)), ins)
        for e in self.eqns[first:]:
            e.raw_source_info = self.place
        return outs

    def closed(self, ins: Sequence[Var], outs: Sequence[Any], like: ClosedJaxpr) -> ClosedJaxpr:
        info = DebugInfo(like.jaxpr.debug_info.name)
        return ClosedJaxpr(Jaxpr(self.constvars, list(ins), outs, self.eqns, debug_info=info), self.consts)  # fmt: skip
