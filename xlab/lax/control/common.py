"""What the structured primitives share: tracing a body, and making types agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab import tree as _tree
from xlab.compile.tracing import function_name, trace_flat
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from xlab.interpreters import partial_eval as pe
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
    if all(a is b for a, b in zip(closed.out_avals, out_avals)):
        return closed

    def make():
        from xlab.core.jaxpr import eval_jaxpr

        def fun(*args):
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
            return [convert(o, a.dtype, a.weak_type) if isinstance(a, ShapedArray) else o
                    for o, a in zip(outs, out_avals)]
        return pe.trace_to_closed_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info)
    return closed.memo(("outputs", tuple(out_avals)), make)


def drop_unused_inputs(closed: ClosedJaxpr, candidates: Sequence[bool]) -> tuple[ClosedJaxpr, list[bool]]:
    """Removes those candidate inputs that the program does not read."""
    used = {v for e in closed.jaxpr.eqns for v in e.invars if type(v) is Var}
    used.update(v for v in closed.jaxpr.outvars if type(v) is Var)
    keep = [not c or v in used for v, c in zip(closed.jaxpr.invars, candidates)]
    return reorder(closed, [i for i, k in enumerate(keep) if k]), keep


def reorder(closed: ClosedJaxpr, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None) -> ClosedJaxpr:
    """The program with inputs and outputs chosen by position."""
    j = closed.jaxpr
    invars = j.invars if inputs is None else [j.invars[i] for i in inputs]
    outvars = j.outvars if outputs is None else [j.outvars[i] for i in outputs]
    return ClosedJaxpr(Jaxpr(j.constvars, invars, outvars, j.eqns, debug_info=j.debug_info), closed.consts)


def add_inputs(closed: ClosedJaxpr, before: Sequence, after: Sequence) -> ClosedJaxpr:
    """The program with more inputs that it ignores."""
    j = closed.jaxpr
    return ClosedJaxpr(j.replace(invars=[*map(Var, before), *j.invars, *map(Var, after)]), closed.consts)


def describe(avals) -> str:
    return ", ".join(f"{a}{' (weak)' if getattr(a, 'weak_type', False) else ''}" for a in avals)


def check_callables(api: str, **funs):
    for role, fun in funs.items():
        if not callable(fun):
            raise TypeError(f"lax.{api}: {role} must be a function, got {fun!r} of type {type(fun).__name__}")


def name_of(fun) -> str:
    return function_name(fun)


def join_weak(a: ShapedArray, b: ShapedArray):
    """The type both of two types fit: equal up to weakness (and what varies), else None."""
    if a is b:
        return a
    if not (isinstance(a, ShapedArray) and isinstance(b, ShapedArray)):
        return None
    if a.shape != b.shape or a.dtype != b.dtype or a.mat != b.mat:
        return None
    return a.update(weak_type=a.weak_type and b.weak_type)
