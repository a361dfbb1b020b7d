"""Values of hi types at the boundary of a compiled program: their arrays go in and come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile import ahead
from xlab.compile.placement import as_sharding
from xlab.compile.stages import Compiled, Lowered, ShapeDtypeStruct, Traced, set_lowered_on_arrays
from xlab.core.hi_states import typed
from xlab.core.hi_types import HiType, is_high
from xlab.interpreters.lojax import LoProgram, lower_hi_types, parts_of, uses_hi_types

# `jit.py`: (closed, parameters of its equation) -> the compiled callable.
_compiled_jaxpr: Callable[..., Any] = None  # type: ignore[assignment]


def set_compiled_jaxpr(compiled_jaxpr: Callable[..., Any]) -> None:
    """Called by the file that defines it."""
    global _compiled_jaxpr
    _compiled_jaxpr = compiled_jaxpr


def callable_on_arrays(owner, program, low: LoProgram, in_tree) -> Callable:
    """The compiled function of the arrays of a program's arguments; options of `owner` for a value are those for each of its arrays."""
    n = in_tree.num_leaves

    def of_inputs(given: Sequence, added: Any) -> tuple:
        given = (*given, *[added] * len(low.captured))
        return tuple(e for e, k in zip(given, low.in_counts) for _ in range(k))

    outs = owner.of_results(program, as_sharding)
    last = sum(len(low.ins[i].aval.lo_ty_qdd(qdd)) for i, qdd in low.written)
    params = {
        "name": owner.name,
        "in_shardings": of_inputs(owner.of_arguments(in_tree, n, as_sharding), None),
        "out_shardings": (
            *(s for s, k in zip(outs, low.out_counts) for _ in range(k)),
            *[None] * last,
        ),
        "donated_invars": of_inputs(owner.donated(in_tree, n), False),
        "keep_unused": owner.keep_unused,
        "compiler_options_kvs": tuple(sorted(owner.compiler_options.items())),
    }
    return _compiled_jaxpr(low.closed, params)


def call(owner, program, low: LoProgram, flat: Sequence, in_tree) -> Any:
    """Calls the program with values of hi types: what it returns, nested as it does."""
    outs = callable_on_arrays(owner, program, low, in_tree)(*low.arguments(flat))
    return _tree.unflatten(program.out_tree, low.results(flat, outs))


def on_arrays(traced: Traced) -> Traced:
    """The program on arrays that is compiled in place of a traced one, as what is traced for these arrays; itself if it has no hi types."""
    program = traced._program
    if not uses_hi_types(program.closed):
        return traced
    low = lower_hi_types(program.closed)
    if not low.at_boundary:
        return Traced(
            traced._owner,
            program._replace(closed=low.closed),
            traced._flat,
            traced.in_tree,
            traced._static,
        )
    run = callable_on_arrays(traced._owner, program, low, traced.in_tree)
    return run.trace(*_arrays_of(low, traced._flat))


# -- ahead of time ------------------------------------------------------------------------------------------


class LoweredHi(Lowered):
    """Of a program with values of hi types among its arguments or results: the program on their arrays, lowered."""

    def __init__(self, traced: Traced, low: LoProgram, platforms: tuple[str, ...] | None):
        run = callable_on_arrays(traced._owner, traced._program, low, traced.in_tree)
        self._low = low
        self._on_arrays = run.trace(*_arrays_of(low, traced._flat)).lower(
            lowering_platforms=platforms
        )
        inner = self._on_arrays
        super().__init__(traced, inner._lowered, inner._ref_discharge, inner._texts)

    donate_argnums = property(lambda self: self._traced.donate_argnums)
    args_info = property(lambda self: self._traced.args_info)

    def compile(self, compiler_options=None, device_assignment=None) -> CompiledHi:
        """Compiles, as other programs are."""
        return CompiledHi(self, self._on_arrays.compile(compiler_options, device_assignment))


def _arrays_of(low, flat) -> list:
    """The arrays of arguments, or what stands for them where an argument is a type."""
    out: list = []
    for a, x in zip(low.ins, (*flat, *low.captured)):
        if isinstance(x, HiType):
            out += [ShapeDtypeStruct(p.shape, p.dtype) for p in a.lo_ty()]
        else:
            out += parts_of(a, x)
    return out


class CompiledHi(Compiled):
    """A compiled program with values of hi types among its arguments or results. Shardings and layouts are said of the arrays, in order."""

    def __init__(self, lowered: LoweredHi, compiled: Compiled):
        self._lowered, self._on_arrays = lowered, compiled
        self._executable = compiled._executable

    out_info = property(lambda self: self._lowered.out_info)
    input_shardings = property(lambda self: self._on_arrays.input_shardings)
    output_shardings = property(lambda self: self._on_arrays.output_shardings)
    input_formats = property(lambda self: self._on_arrays.input_formats)
    output_formats = property(lambda self: self._on_arrays.output_formats)

    def call(self, *args, **kwargs):
        """Runs the program, as calling the object does."""
        traced, low = self._lowered._traced, self._lowered._low
        names = traced.jaxpr.jaxpr.debug_info.arg_names
        flat = ahead.leaves(traced._owner, traced._static, self.in_tree, names, args, kwargs)
        for name, a, x in zip(names, low.ins, flat):
            if is_high(a) and typed(x) != a:
                raise TypeError(
                    f"{self._lowered.name} was compiled for argument `{name}` of type {a}, and called with {typed(x)}"
                )
        outs = self._on_arrays(*low.arguments(flat))
        return _tree.unflatten(self.out_tree, low.results(flat, outs))

    __call__ = call


set_lowered_on_arrays(LoweredHi)
