"""Ahead-of-time compilation: the stages `Traced`, `Lowered` and `Compiled`, each inspectable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import compiling as _compiling
from xlab.backend import dispatch as _native
from xlab.backend.client import default_backend
from xlab.backend.values import replaced
from xlab.compile import ahead, layouts, runtime_checks, tracing
from xlab.compile.executable import Executable
from xlab.compile.lowering import MeshComputation, on_devices
from xlab.compile.placement import arg_sharding, as_sharding, is_open, shard_arg
from xlab.compile.ref_discharge import copied, discharge_refs
from xlab.compile.tracing import TracedProgram
from xlab.core import dtypes
from xlab.core.avals import ManualAxisType, ShapedArray
from xlab.core.dims import dim_indices
from xlab.core.hi_types import is_high
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters.lojax import lower_hi_types, uses_hi_types
from xlab.interpreters.mlir.locations import strip_locations
from xlab.sharding.indices import check_rank
from xlab.sharding.named import NamedSharding
from xlab.sharding.placement import Format, default_layout
from xlab.sharding.typed import memory_space

AHEAD = "compiled ahead of time, by Lowered.compile()"


_PICKLED = {"_sharding": "sharding", "_dll": "_layout"}  # as pickles made under JAX say it


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist, optionally with a sharding.

    Args:
        shape, dtype: of the array.
        sharding: where it lies, or how its layout is to be chosen.
        weak_type: whether its dtype gives way to that of others, as that of Python numbers does.
        manual_axis_type: a `sharding.ManualAxisType`: over which axes it varies inside a `shard_map`.
        is_ref: whether it stands for a reference to such an array, as `new_ref` makes one.

    Example:
        >>> import numpy as np
        >>> ShapeDtypeStruct((8, 4), np.float32)
        ShapeDtypeStruct(shape=(8, 4), dtype=float32)
    """

    __slots__ = ("_layout", "dtype", "is_ref", "manual_axis_type", "shape", "sharding", "weak_type")

    def __init__(
        self, shape, dtype, *, sharding=None, weak_type=False, manual_axis_type=None, is_ref=False
    ):
        if dtype is None:
            raise ValueError(
                "ShapeDtypeStruct: dtype must be specified, as in ShapeDtypeStruct((8, 4), np.float32)"
            )
        if manual_axis_type is not None and not isinstance(manual_axis_type, ManualAxisType):
            raise TypeError(
                f"ShapeDtypeStruct: manual_axis_type has to be a xlab.sharding.ManualAxisType, such as "
                f"ManualAxisType(varying={{'x'}}); got {manual_axis_type!r}"
            )
        self.manual_axis_type, self.is_ref = manual_axis_type, is_ref
        self.shape = dim_indices(shape)
        self.dtype = dtypes.to_dtype(dtype)
        self.sharding, self.weak_type, self._layout = (
            as_sharding(sharding),
            weak_type,
            layouts.requested_layout(sharding),
        )
        if isinstance(self.sharding, NamedSharding):
            check_rank(self.sharding.spec, self.shape, f"Sharding {self.sharding}")

    def __setstate__(self, state):
        for name, value in state[1].items():
            setattr(self, _PICKLED.get(name, name), value)

    ndim = property(lambda self: len(self.shape))
    format = property(lambda self: Format(self._layout, self.sharding))
    size = property(lambda self: math.prod(self.shape))

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object: a ShapeDtypeStruct of shape () has no rows")
        return self.shape[0]

    def _aval(self):
        inner = ShapedArray(
            self.shape,
            dtypes.canonicalize_dtype(self.dtype),
            self.weak_type,
            sharding=self.sharding,
            memory_space=None if self.sharding is None else memory_space(self.sharding),
            **{} if self.manual_axis_type is None else {"mat": self.manual_axis_type},
        )
        return AbstractRef(inner) if self.is_ref else inner

    def _what(self):
        return (
            self.shape,
            self.dtype,
            self.sharding,
            self.weak_type,
            self._layout,
            self.manual_axis_type,
            self.is_ref,
        )

    def update(self, **changes) -> ShapeDtypeStruct:
        """The same with other values of what the constructor takes.

        Example:
            >>> ShapeDtypeStruct((8, 4), "float32").update(shape=(3,))
            ShapeDtypeStruct(shape=(3,), dtype=float32)
        """
        kept = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding if self._layout is None else self.format,
            "weak_type": self.weak_type,
            "manual_axis_type": self.manual_axis_type,
            "is_ref": self.is_ref,
        }
        return ShapeDtypeStruct(**kept | changes)

    @classmethod
    def like(cls, x) -> ShapeDtypeStruct:
        """The `ShapeDtypeStruct` of an array: its shape, dtype, weak type and sharding."""
        return cls(
            x.shape,
            x.dtype,
            sharding=getattr(x, "sharding", None),
            weak_type=getattr(x, "weak_type", False),
        )

    def __repr__(self):
        extra = f", sharding={self.sharding}" if self.sharding is not None else ""
        extra += ", weak_type=True" if self.weak_type else ""
        extra += (
            f", manual_axis_type={self.manual_axis_type}"
            if self.manual_axis_type is not None
            else ""
        )
        extra += f", is_ref={self.is_ref}" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{extra})"

    def __eq__(self, other):
        return isinstance(other, ShapeDtypeStruct) and self._what() == other._what()

    def __hash__(self):
        return hash(self._what())


def _register():
    from xlab.core.avals import aval_makers

    aval_makers[ShapeDtypeStruct] = lambda x: x._aval()


_register()


# `hi_boundary.py`: (traced, its program on arrays, platforms) -> the `Lowered`, where arguments or results are of hi types.
_lowered_on_arrays: Callable[..., Lowered] = None  # type: ignore[assignment]


def set_lowered_on_arrays(lowered: Callable[..., Lowered]) -> None:
    """Called by the file that defines it."""
    global _lowered_on_arrays
    _lowered_on_arrays = lowered


class Traced:
    """A function traced for given argument types."""

    known_shardings: tuple = ()
    """Of the results, where whoever made the function knows them and did not ask for them: a `pmap` does."""

    def __init__(self, owner, program: TracedProgram, flat, in_tree, static=()):
        self._owner, self._program, self._flat, self._in_tree, self._static = (
            owner,
            program,
            flat,
            in_tree,
            static,
        )

    fun_name = property(lambda self: self._owner.name)
    jaxpr = property(lambda self: self._program.closed)
    in_tree = property(lambda self: self._in_tree)
    out_tree = property(lambda self: self._program.out_tree)
    in_avals = property(lambda self: _tree.unflatten(self._in_tree, self.jaxpr.in_avals))

    @property
    def out_info(self):
        """Shapes and dtypes of the results, with the shardings that `out_shardings` asks for or their types have."""
        asked = self._owner.of_results(self._program, as_sharding)
        return self._results(self.known_shardings or asked)

    def _results(self, shardings):
        """Types of the results over `shardings`, of which None is for one that only the compiler knows."""
        return _tree.unflatten(
            self.out_tree,
            [
                a
                if is_high(a)
                else ShapeDtypeStruct(
                    a.shape,
                    a.dtype,
                    weak_type=a.weak_type,
                    sharding=a.explicit_sharding if s is None or is_open(s) else s,
                )
                for a, s in zip(self.jaxpr.out_avals, shardings, strict=True)
            ],
        )

    out_avals = property(lambda self: _tree.unflatten(self.out_tree, self.jaxpr.out_avals))

    @property
    def args_info(self):
        """Per argument its type and whether it is donated."""
        return _args_info(self.in_tree, self.jaxpr.in_avals, self.donate_argnums)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions of the donated leaves among the flat arguments."""
        donated = self._owner.donated(self._in_tree, len(self.jaxpr.in_avals))
        return tuple([i for i, d in enumerate(donated) if d])

    @property
    def effects(self):
        return self.jaxpr.effects

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None) -> Lowered:
        """The program as StableHLO, for the platform of its devices or for others (of which it can be compiled here for its own)."""
        program = self._program
        if uses_hi_types(program.closed):
            low = lower_hi_types(program.closed)
            if low.at_boundary:
                return _lowered_on_arrays(self, low, lowering_platforms)
            program = program._replace(closed=low.closed)
        program = discharge_refs(program)
        given = (
            self._flat if program.ref_discharge is None else program.ref_discharge.given(self._flat)
        )
        placements = tuple(map(_placement, given))
        if not lowering_platforms:
            return Lowered(
                self,
                self._owner.lowered(program, placements, given, self._in_tree),
                program.ref_discharge,
            )
        found = {
            p: self._owner.lower(program, placements, given, self._in_tree, platform=p)
            for p in lowering_platforms
        }
        own = found.get(default_backend()) or next(iter(found.values()))
        return Lowered(
            self, own, program.ref_discharge, {p: one.module.text for p, one in found.items()}
        )

    def __repr__(self):
        return f"Traced({self.fun_name}, {len(self.jaxpr.eqns)} equations)"


def _placement(x):
    return x.sharding if isinstance(x, ShapeDtypeStruct) else arg_sharding(x)


class Lowered:
    """A traced function lowered to StableHLO for particular devices and shardings."""

    def __init__(
        self,
        traced: Traced,
        lowered: MeshComputation,
        ref_discharge=None,
        texts: dict[str, str] | None = None,
    ):
        self._traced, self._lowered, self._ref_discharge = traced, lowered, ref_discharge
        self._texts = texts or {}  # by platform, where these were asked for
        self._compiled: Compiled | None = None

    def is_trivial(self) -> bool:
        """Whether the program has no operations: every result is an argument or a constant. It is compiled as others are."""
        return not self._lowered.closed.jaxpr.eqns

    name = property(lambda self: self._lowered.name)
    in_tree = property(lambda self: self._traced.in_tree)
    out_tree = property(lambda self: self._traced.out_tree)
    in_avals = property(lambda self: self._traced.in_avals)
    kept_var_idx = property(lambda self: frozenset(self._lowered.kept))
    traced = property(lambda self: self._traced)

    @property
    def out_info(self):
        """Shapes and dtypes of the results, with the shardings that are known before the program is compiled."""
        if any(map(is_high, self._traced.jaxpr.out_avals)):
            return self._traced.out_info
        n = len(self._traced.jaxpr.out_avals)
        known = self._traced.known_shardings
        return self._traced._results(known or self._lowered.out_shardings[:n])

    @property
    def args_info(self):
        """Per argument its type and whether it is donated."""
        return _args_info(self.in_tree, self._traced.jaxpr.in_avals, self._lowered.donated)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        return self._lowered.donated

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        """The program as text: 'stablehlo' or 'hlo'. Where it was lowered for platforms whose programs differ, all of them, one after the other."""
        if dialect not in ("stablehlo", "hlo"):
            raise ValueError(f"unknown dialect {dialect!r}: expected 'stablehlo' or 'hlo'")
        if len(set(self._texts.values())) > 1:
            return "\n".join(
                f"// for {p}\n{self._shown(text, p, dialect, debug_info)}"
                for p, text in self._texts.items()
            )
        platform = next(iter(self._texts), self._lowered.devices[0].platform)
        return self._shown(self._lowered.module.text, platform, dialect, debug_info)

    def _shown(self, text: str, platform: str, dialect: str, debug_info: bool) -> str:
        if dialect == "hlo":
            count = len(self._lowered.kept) + len(self._lowered.module.hoisted)
            return _compiling.stablehlo_to_hlo_text(
                text, _compiling.should_tuple_args(count, platform)
            )
        return text if debug_info else strip_locations(text)

    def compiler_ir(self, dialect: str = "stablehlo"):
        """The program as an MLIR module ('stablehlo'), or as the compiler's own computation ('hlo')."""
        if dialect == "hlo":
            return _compiling.stablehlo_to_hlo(self._lowered.module.text)
        if dialect != "stablehlo":
            return self.as_text(dialect)
        from xlab.backend import ir

        return ir.parse(self._lowered.module.text)

    def compile(
        self,
        compiler_options: dict[str, Any] | None = None,
        device_assignment: Sequence | None = None,
    ) -> Compiled:
        """Compiles; without arguments the executable is remembered.

        Args:
            compiler_options: XLA options by name, before those of the jit.
            device_assignment: the devices it runs on, in order, where it was lowered for a mesh without devices; else those it has.
        """
        if compiler_options is not None or device_assignment is not None:
            there = (
                self._lowered
                if device_assignment is None
                else on_devices(self._lowered, tuple(device_assignment))
            )
            options = {**self._lowered.compiler_options, **(compiler_options or {})}
            return Compiled(
                self, Executable(replaced(there, compiler_options=options, key=()), AHEAD)
            )
        if self._compiled is None:
            made = (
                self._traced._owner.compiled(self._lowered, self.in_tree, AHEAD)
                if self._lowered.key
                else Executable(self._lowered, AHEAD)
            )
            self._compiled = Compiled(self, made)
        return self._compiled

    def cost_analysis(self) -> dict[str, float]:
        """Estimated operations and bytes by name, of the program as it is written: nothing is compiled."""
        if self._compiled is not None:
            return self._compiled.cost_analysis()
        return _compiling.unoptimized_cost(self._lowered.module.text)

    def __repr__(self):
        return f"Lowered({self.name}, {len(self._lowered.module.text)} bytes of StableHLO)"


def _args_info(in_tree, avals, donated):
    return _tree.unflatten(in_tree, [ArgInfo(a, i in donated) for i, a in enumerate(avals)])


class ArgInfo:
    """An argument of a lowered program."""

    __slots__ = ("_aval", "donated")

    def __init__(self, aval, donated):
        self._aval, self.donated = aval, donated

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)

    def __repr__(self):
        return f"ArgInfo({self._aval}, donated={self.donated})"


class Compiled:
    """An executable program; call it with arguments of the types it was made for."""

    def __init__(self, lowered: Lowered, executable: Executable):
        self._lowered, self._executable = lowered, executable
        self._native = _native_call(lowered, executable)

    def is_trivial(self) -> bool:
        """Whether the program has no operations: every result is an argument or a constant."""
        return self._lowered.is_trivial()

    in_tree = property(lambda self: self._lowered.in_tree)
    out_tree = property(lambda self: self._lowered.out_tree)
    in_avals = property(lambda self: self._lowered.in_avals)
    lowered = property(lambda self: self._lowered)
    args_info = property(lambda self: self._lowered.args_info)
    donate_argnums = property(lambda self: self._lowered.donate_argnums)

    @property
    def out_info(self):
        """Shapes, dtypes, shardings and layouts of the results."""
        flat = zip(_tree.leaves(self._lowered.out_info), _tree.leaves(self.output_formats))
        return _tree.unflatten(
            self.out_tree, [info.update(sharding=s if s.layout else s.sharding) for info, s in flat]
        )

    @property
    def input_shardings(self):
        """Shardings of positional and keyword arguments, nested like them."""
        n = len(self._lowered._traced.jaxpr.in_avals)
        flat: list[Any] = [None] * n
        for i, s in zip(self._executable.kept, self._executable.in_shardings):
            flat[i] = s
        return _tree.unflatten(self.in_tree, flat)

    @property
    def output_shardings(self):
        return _tree.unflatten(
            self.out_tree, list(self._executable.out_shardings[: self.out_tree.num_leaves])
        )

    @property
    def input_formats(self):
        """Layouts and shardings of positional and keyword arguments, nested like them."""
        avals = self._lowered._traced.jaxpr.in_avals
        flat: list[Any] = [None] * len(avals)
        asked = self._executable.lowered.in_layouts or [None] * len(avals)
        for i, s, w in zip(self._executable.kept, self._executable.in_shardings, asked):
            flat[i] = _format(avals[i], s, w)
        return _tree.unflatten(self.in_tree, flat)

    @property
    def output_formats(self):
        """Layouts and shardings of the results."""
        avals = self._lowered._traced.jaxpr.out_avals
        asked = self._executable.lowered.out_layouts or [None] * len(avals)
        return _tree.unflatten(
            self.out_tree,
            [
                _format(a, s, w)
                for a, s, w in zip(
                    avals, self._executable.out_shardings[: self.out_tree.num_leaves], asked
                )
            ],
        )

    def as_text(self) -> str:
        """The optimized HLO that runs."""
        return _compiling.hlo_text(self._executable.native)

    def cost_analysis(self):
        """Estimated operations and bytes, by name."""
        return _compiling.cost_analysis(self._executable.native)

    def memory_analysis(self):
        """Bytes of arguments, results, temporaries and aliased buffers on one device."""
        return _compiling.memory_stats(self._executable.native)

    def runtime_executable(self):
        return self._executable.native

    def call(self, *args, **kwargs):
        """Runs the program, as calling the object does."""
        return self._native(*args, **kwargs)

    __call__ = call

    def __repr__(self):
        why = self._executable.python_reason()
        return (
            f"Compiled({self._lowered.name}, {len(self._executable.devices)} device(s), "
            f"{f'each call starts in Python: {why}' if why else 'calls are repeated by native code'})"
        )


def _native_call(lowered: Lowered, executable: Executable) -> Callable[..., Any]:
    """The call of a compiled program. Arguments are checked the first time that their types and shardings appear."""
    plain = lowered._ref_discharge is None and not executable.donated

    def call(*args, **kwargs):
        return _checked_call(lowered, executable, args, kwargs)

    def miss(*args, **kwargs):
        out = call(*args, **kwargs)
        if not plain or runtime_checks.observed():
            return out, None
        flat, in_tree = _tree.flatten((args, kwargs))
        # With static arguments, whose values native code does not compare, every call is checked.
        if in_tree != lowered.in_tree or layouts.has_custom_layout(flat):
            return out, None
        return out, executable.fast_path(lowered.out_tree, out)

    return _native.native_jit(
        lowered.name, call, miss, (), (), key=("compiled",), shard_arg=shard_arg
    )


def _checked_call(lowered: Lowered, executable: Executable, args: tuple, kwargs: dict):
    traced, ref_discharge = lowered._traced, lowered._ref_discharge
    names = traced.jaxpr.jaxpr.debug_info.arg_names
    refs = ahead.leaves(
        traced._owner,
        traced._static,
        lowered.in_tree,
        names[: lowered.in_tree.num_leaves],
        args,
        kwargs,
    )
    flat = refs if ref_discharge is None else ref_discharge.arguments(refs)
    ahead.check(lowered.name, executable, names, flat, traced._flat)
    if executable.donated and runtime_checks.watching():
        # Running again to find the failing operation needs the arguments.
        outs = executable.call(
            [copied(x) if i in executable.lowered.donated else x for i, x in enumerate(flat)]
        )
    else:
        outs = executable.call(flat)
    kind = runtime_checks.find(outs)
    if kind is not None:  # before references take what came out
        closed = traced.jaxpr
        runtime_checks.explain(
            kind, traced.fun_name, lambda: eval_jaxpr(closed.jaxpr, closed.consts, *refs)
        )
    if ref_discharge is not None:
        return _tree.unflatten(lowered.out_tree, ref_discharge.finish(refs, outs))
    return _tree.unflatten(lowered.out_tree, outs)


def attach(wrapped, owner, native):
    """Gives a jitted function its ahead-of-time methods; `native` is the callable that runs it."""

    def trace(*args, **kwargs) -> Traced:
        flat, in_tree, static = owner.flatten(args, kwargs)
        return Traced(owner, owner.program(flat, in_tree, static), flat, in_tree, static)

    def lower(*args, **kwargs) -> Lowered:
        return trace(*args, **kwargs).lower()

    def eval_shape(*args, **kwargs):
        return trace(*args, **kwargs).out_info

    def clear_cache():
        owner.programs.forget()
        tracing.forget(owner.fun)
        native._clear_cache()

    wrapped.trace, wrapped.lower, wrapped.eval_shape, wrapped.clear_cache = (
        trace,
        lower,
        eval_shape,
        clear_cache,
    )
    wrapped._xlab_jit = owner
    if wrapped is not native:  # native methods are no part of what the garbage collector sees
        wrapped._cache_size = lambda: native._cache_size()
        wrapped._clear_cache = lambda: native._clear_cache()


def _format(aval, sharding, layout) -> Format:
    return (
        Format(layout or default_layout(aval.ndim), sharding)
        if isinstance(aval, ShapedArray)
        else Format(None, sharding)
    )
