"""What is stepped through: the program of whatever a caller has, the values it is run on, and the structure of its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.compile.stages import Compiled, Lowered, Traced
from xlab.compile.tracing import argument_names, function_name, own
from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo
from xlab.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerIntegerConversionError,
)
from xlab.interpreters.followed import follow
from xlab.observe.beside.checking import given_by_jax
from xlab.observe.beside.held import our_held_of, without
from xlab.observe.beside.recognize import belongs_to_jax, held_stage
from xlab.observe.programs.stages import (
    ProgramStages,
    beside_stages,
    is_specialized,
    program_stages,
    traced_by,
)


def started(fun: Any, args: tuple, kwargs: dict) -> tuple[ProgramStages, list, Any]:
    """A program, the values it is run on, and the structure of its results."""
    fun = held_stage(fun)
    if isinstance(fun, ClosedJaxpr):
        if len(args) != len(fun.in_avals):
            raise TypeError(f"the jaxpr takes {len(fun.in_avals)} values, given {len(args)}")
        return program_stages(fun, as_traced=True), list(args), None
    if belongs_to_jax(fun, args, kwargs):
        has_them = is_specialized(fun)
        stages = beside_stages(fun, () if has_them else args, {} if has_them else kwargs)
        assert stages.beside is not None
        return stages, *given_by_jax(stages.beside, args, kwargs)
    if isinstance(fun, (Lowered, Compiled)):
        fun = fun.traced if isinstance(fun, Lowered) else fun.lowered.traced
    if not isinstance(fun, Traced):
        if not callable(fun):
            raise TypeError(
                f"a function and its arguments are needed, given {fun!r} of type {type(fun).__name__}"
            )
        try:
            traced = traced_by(fun, args, kwargs)
        except (
            ConcretizationTypeError,
            TracerArrayConversionError,
            TracerIntegerConversionError,
        ):
            if own(fun, "_xlab_jit") is not None:
                raise
            return _followed(fun, args, kwargs)
        return program_stages(traced, as_traced=True), list(traced._flat), traced.out_tree
    flat = _tree.leaves((args, kwargs)) if args or kwargs else list(fun._flat)
    return program_stages(fun, as_traced=True), flat, fun.out_tree


def _followed(fun: Callable, args: tuple, kwargs: dict) -> tuple[ProgramStages, list, Any]:
    """The program of a function that Python branches in on values, as it runs with these."""
    if held := our_held_of(fun, args, kwargs):
        fun, (args, kwargs) = without(fun, held), held.dynamic(args, kwargs)
    flat, in_tree = _tree.flatten((args, kwargs))
    out_trees = []

    def flat_fun(*leaves):
        a, k = _tree.unflatten(in_tree, leaves)
        outs, out_tree = _tree.flatten(fun(*a, **k))
        out_trees.append(out_tree)
        return outs

    debug_info = DebugInfo(function_name(fun), argument_names(fun, in_tree, len(flat)))
    jaxpr, consts = follow(flat_fun, flat, list(map(aval_of, flat)), debug_info)
    closed = ClosedJaxpr(jaxpr, consts)
    return program_stages(closed, as_traced=True), flat, out_trees[-1]
