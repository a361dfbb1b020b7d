"""Shared by control flow primitives: tracing a body, pruning a loop, and making types agree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from xlab import tree as _tree
from xlab.compile.tracing import function_name, trace_flat
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from xlab.core.primitive import Primitive
from xlab.core.source_info import is_internal
from xlab.core.trace import state
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import LoopFlow, control_flow_rules, flow_of, loop_params
from xlab.lax.convert import convert


def trace_body(fun: Callable, in_tree, in_avals) -> tuple[ClosedJaxpr, list, object]:
    """Traces `fun(*args)`: a program whose leading inputs are what it closes over, those values, and the output tree."""
    closed, out_tree = trace_flat(fun, in_tree, in_avals)
    if not closed.consts:
        return closed, [], out_tree
    opened = closed.memo("opened", lambda: ClosedJaxpr(pe.convert_constvars_jaxpr(closed.jaxpr)))
    return opened, closed.consts, out_tree


def args_tree(*args):
    """Leaves of positional arguments, and the structure `(args, {})` that tracing expects."""
    return _tree.flatten((args, {}))


def with_outputs(closed: ClosedJaxpr, out_avals: Sequence) -> ClosedJaxpr:
    """The program with results converted to the given types, where they differ in weakness or dtype."""
    if all(a is b or a == b for a, b in zip(closed.out_avals, out_avals)):
        return closed

    def make():
        from xlab.core.jaxpr import eval_jaxpr

        def fun(*args):
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
            return [
                convert(o, a.dtype, a.weak_type) if isinstance(a, ShapedArray) else o
                for o, a in zip(outs, out_avals)
            ]

        return pe.trace_to_closed_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info)

    return closed.memo(("outputs", tuple(out_avals)), make)


def reorder(
    closed: ClosedJaxpr, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None
) -> ClosedJaxpr:
    """The program with inputs and outputs chosen by position."""
    j = closed.jaxpr
    invars = j.invars if inputs is None else [j.invars[i] for i in inputs]
    outvars = j.outvars if outputs is None else [j.outvars[i] for i in outputs]
    return ClosedJaxpr(
        Jaxpr(j.constvars, invars, outvars, j.eqns, debug_info=j.debug_info), closed.consts
    )


def add_inputs(closed: ClosedJaxpr, before: Sequence, after: Sequence) -> ClosedJaxpr:
    """The program with more inputs that it ignores."""
    j = closed.jaxpr
    return ClosedJaxpr(
        j.replace(invars=[*map(Var, before), *j.invars, *map(Var, after)]), closed.consts
    )


# -- loops ----------------------------------------------------------------------------------------------


def settled(flags: Sequence[bool], step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The fixed point of a loop's carry flags, starting from `flags`; `step(flags)` is one iteration."""
    flags = list(flags)
    while True:
        new = [a or b for a, b in zip(flags, step(flags))]
        if new == flags:
            return flags
        flags = new


def define_loop(
    prim: Primitive, flow: Callable[[dict], LoopFlow], params: Callable[[LoopFlow], dict]
) -> None:
    """Registers how values flow through a loop, and by that how it is pruned; `params(flow)` are the parameters of such a loop."""
    control_flow_rules[prim] = flow
    loop_params[prim] = params
    pe.dce_rules[prim] = functools.partial(_prune_loop, params)


def _prune_loop(params, used_outputs, eqn):
    """Drops what neither a used result nor the condition nor another round needs."""
    flow, used_outputs = flow_of(eqn), list(used_outputs)
    nc, nb, k, body = flow.cond_consts, flow.num_consts, flow.num_carry, flow.body
    if not any(used_outputs) and not _effects.prevents_dce(eqn.effects):
        return [False] * len(eqn.invars), None
    carry, ys = used_outputs[:k], used_outputs[k:]
    if flow.cond is not None:
        _, asked = pe.dce_jaxpr(flow.cond.jaxpr, [True])
        carry = [c or a for c, a in zip(carry, asked[nc:])]
    carry = settled(carry, lambda c: pe.dce_jaxpr(body.jaxpr, [*c, *ys])[1][nb : nb + k])
    rows = len(body.in_avals) - nb - k
    new, used = pe.dce_jaxpr(
        body.jaxpr, [*carry, *ys], instantiate=[*[False] * nb, *carry, *[False] * rows]
    )
    used_in = [*[True] * nc, *used]
    if all(used_in) and all(ys):
        return used_in, eqn
    flow = flow._replace(
        body=ClosedJaxpr(new, body.consts), num_consts=sum(used[:nb]), num_carry=sum(carry)
    )
    if flow.cond is not None:
        flow = flow._replace(
            cond=reorder(flow.cond, [*range(nc), *(nc + i for i, c in enumerate(carry) if c)])
        )
    return used_in, eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used_in) if u],
        outvars=[v for v, u in zip(eqn.outvars, (*carry, *ys)) if u],
        params={**eqn.params, **params(flow)},
    )


# -- types ----------------------------------------------------------------------------------------------


def describe(avals) -> str:
    return ", ".join(f"{a}{' (weak)' if getattr(a, 'weak_type', False) else ''}" for a in avals)


def check_callables(api: str, **funs):
    for role, fun in funs.items():
        if not callable(fun):
            raise TypeError(
                f"lax.{api}: {role} must be a function, got {fun!r} of type {type(fun).__name__}"
            )


def name_of(fun) -> str:
    return function_name(fun)


def join_weak(a: ShapedArray, b: ShapedArray):
    """The common type of two that are equal up to weak typing (and varying axes), else None."""
    if a is b:
        return a
    if not (isinstance(a, ShapedArray) and isinstance(b, ShapedArray)):
        return a if a == b else None
    if (
        a.shape != b.shape
        or a.dtype != b.dtype
        or a.mat != b.mat
        or a.explicit_sharding != b.explicit_sharding
        or a.memory_space != b.memory_space
    ):
        return None
    return a.update(weak_type=a.weak_type and b.weak_type)


def rounds_of(body_fun, init) -> int:
    """How often a loop's body is traced until the types of its carry settle."""
    return 3 + (len(init) if state.manual is not None and of_library(body_fun) else 0)


def of_library(fun) -> bool:
    """Whether a loop's body is a function of ours. Those start with constants, whatever mesh axes their arguments vary over."""
    while True:
        inner = getattr(fun, "__wrapped__", None) or getattr(fun, "func", None)
        if inner is None:
            code = getattr(fun, "__code__", None)
            return code is not None and is_internal(code.co_filename)
        fun = inner


def cast_hint(pairs: Sequence[tuple[str, object, str, object]]) -> str:
    """What makes the members of pairs vary over the same mesh axes, as a sentence of an error; empty where all do.

    Args:
        pairs: the name and the type of one, and of the other.
    """
    casts, other = [], False
    for a, x, b, y in pairs:
        mx, my = getattr(x, "mat", None), getattr(y, "mat", None)
        if mx is None or my is None or mx == my:
            continue
        every = mx.varying | my.varying
        summands = mx.unreduced | my.unreduced
        if mx.unreduced != my.unreduced or summands & every or (mx.reduced ^ my.reduced) - every:
            other = True  # a cast to varying is not enough
            continue
        for name, mat in ((a, mx), (b, my)):
            if missing := tuple(sorted(map(str, every - mat.varying))):
                axes = missing[0] if len(missing) == 1 else missing
                casts.append(f"cast {name} with lax.pcast(x, {axes!r}, to='varying')")
    hints = []
    if casts:
        more = f", and so on for {len(casts) - 3} more" if len(casts) > 3 else ""
        hints.append(f"They vary over different mesh axes: {', and '.join(casts[:3])}{more}.")
    if other:
        hints.append(
            "They are in different states over mesh axes: lax.psum(x, axis) adds up the parts of a sum (U), lax.pcast makes a varying value "
            "(V) such parts, or one that is the same on all devices reduced (R)."
        )
    return " ".join(hints)


def join_carry(given, got, own: bool = False):
    """The type a loop's carry enters with, so that the body's result fits: `given`, a promoted one to trace again with, or None.

    Weakness may differ: the values are the same. A weak value (a Python number) takes the dtype of the result if it promotes to it. In loops
    of our `own` a value that is the same on all devices becomes one that varies.
    """
    if given is got:
        return given
    if not (isinstance(given, ShapedArray) and isinstance(got, ShapedArray)):
        return given if given == got else None
    if own and given.mat != got.mat and given.mat.varying <= got.mat.varying:
        joined = join_carry(given.update(mat=got.mat), got)
        same = (given.mat.unreduced, given.mat.reduced) == (got.mat.unreduced, got.mat.reduced)
        return joined if same else None
    if (
        given.shape != got.shape
        or given.mat != got.mat
        or given.explicit_sharding != got.explicit_sharding
        or given.memory_space != got.memory_space
    ):
        return None
    if given.dtype == got.dtype:
        return given
    if given.weak_type and not dtypes.is_extended(got.dtype):
        joined, _ = dtypes.lattice_result_type(given, got)
        if joined == got.dtype:
            return got
    return None


def as_carry(x, given, joined):
    """An initial value in the type `join_carry` found; Python numbers stay literals of the program."""
    if joined is given:
        return x
    missing = joined.mat.varying - given.mat.varying
    if missing:
        x = state.vary(x, tuple(sorted(missing, key=str)))
        if (given.dtype, given.weak_type) == (joined.dtype, joined.weak_type):
            return x
    if isinstance(x, (bool, int, float, complex)):
        return np.asarray(x, joined.dtype)[()]
    return convert(x, joined.dtype, joined.weak_type)
