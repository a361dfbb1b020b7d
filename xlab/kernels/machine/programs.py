"""What the machine runs: operands in memory, and pairs of a kernel and the cores that run it.

A `kernel_call` is one pair, whose cores share the steps of a grid; an `mpmd_map` has several, each with a mesh of cores that
run its kernel once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr
from xlab.core.refs import AbstractRef, is_ref
from xlab.kernels.blocks import BlockMapping
from xlab.kernels.grid import GridMapping
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.mesh import mesh_of
from xlab.kernels.pairs import CALL, owner_of
from xlab.kernels.params import given_params


@dataclass(frozen=True)
class Operand:
    """An array in memory that lives as long as the call: an argument, a captured reference, an output, or shared scratch.

    `value` is what it starts with, None for uninitialized memory; `starts_as` the number of the operand that an output starts as.
    """

    name: str
    role: str  # "captured", "prefetch", "input", "output" or "scratch"
    aval: ShapedArray
    space: str
    value: np.ndarray | None = None
    padding: tuple[tuple[int, int], ...] = ()
    starts_as: int | None = None
    is_reference: bool = False  # of the caller, who sees what is written


@dataclass(frozen=True)
class RefSource:
    """What a reference of the kernel is: an operand, a block of one, or scratch of the core.

    `home` is the pair to whose cores scratch belongs, None for those of every pair.
    """

    operand: int | None  # None: scratch
    mapping: BlockMapping | None = None
    aval: AbstractRef | None = None
    name: str = ""
    home: int | None = None


@dataclass(frozen=True)
class KernelPair:
    """A kernel and its cores. `grid` counts grid points; each core runs its share of them, one after the other."""

    number: int
    jaxpr: ClosedJaxpr
    name: str
    sources: tuple[RefSource, ...]
    grid: tuple[int, ...]
    grid_names: tuple | None = None
    seen_axes: tuple[int, ...] = ()
    mesh: Mapping[Any, int] | None = None
    core_type: str | None = None
    shares: tuple[Sequence[int], ...] = ()  # per core the numbers of its grid points
    prefetch: tuple[int, ...] = ()  # operands that index maps read


@dataclass(frozen=True)
class KernelProgram:
    """A call, ready to run."""

    name: str
    operands: tuple[Operand, ...]
    pairs: tuple[KernelPair, ...]
    device: Any = None  # its number, where each device has a machine
    cost: Any = None
    alias_mode: str = "copy"  # "shared": an output and the input it starts as are one buffer
    results: tuple[int, ...] = field(default=())  # operands that are the results
    position: Mapping[Any, int] = field(default_factory=dict)  # of the device along its mesh

    @property
    def nbytes(self) -> int:
        """Bytes of the operands."""
        return sum(math.prod(o.aval.shape) * o.aval.dtype.itemsize for o in self.operands)

    @property
    def num_cores(self) -> int:
        return sum(len(p.shares) for p in self.pairs)

    @property
    def ref_names(self) -> list[str]:
        """What events call the operands and the scratch of cores."""
        found = [o.name for o in self.operands]
        found += [s.name for p in self.pairs for s in p.sources if s.name]
        return list(dict.fromkeys(found))


def space_name(space: Any) -> str:
    """A memory space as text; None is the default space."""
    return "default" if space is None else str(space)


def on_host(x: Any) -> np.ndarray:
    """A concrete operand as a NumPy array."""
    if is_ref(x):
        return np.array(x.peek())  # the reference may be written later
    if dtypes.is_extended(getattr(x, "dtype", None)):
        raise NotImplementedError(
            f"the value interpreter keeps arrays of numbers, got random keys of type {x.dtype}: pass their bits "
            f"(xlab.random.key_data) or run the kernel with interpret=True"
        )
    return np.array(x) if isinstance(x, np.ndarray) else np.asarray(x)


def _array(aval: Any) -> ShapedArray:
    return aval.inner_aval if isinstance(aval, AbstractRef) else aval


def kernel_program(
    operands: Sequence[Any],
    params: InterpretParams,
    *,
    jaxpr: ClosedJaxpr,
    grid_mapping: GridMapping,
    input_output_aliases: Sequence[tuple[int, int]],
    name: str,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    alias_mode: str = "copy",
    device: Any = None,
    **_: Any,
) -> KernelProgram:
    """The program of a `kernel_call` equation on concrete operands."""
    g = grid_mapping
    values = [on_host(x) for x in operands]
    sizes = iter(int(v) for v in values[g.dynamic_operands])
    grid = tuple(n if isinstance(n, int) else next(sizes) for n in g.grid)
    ref_avals = jaxpr.in_avals
    found: list[Operand] = []
    sources: list[RefSource] = []

    def whole(role, names, values, avals):
        for n, v, a in zip(names, values, avals):
            sources.append(RefSource(len(found)))
            found.append(Operand(n, role, _array(a), space_name(a.memory_space), v))

    captured, prefetch = values[g.captured_operands], values[g.prefetch_operands]
    names = [f"captured[{i}]" for i in range(g.num_captured)]
    whole("captured", names, captured, ref_avals[g.captured_refs])
    names = jaxpr.jaxpr.debug_info.arg_names[: g.num_prefetch]
    if len(names) < g.num_prefetch:
        names = [f"args[{i}]" for i in range(g.num_prefetch)]
    whole("prefetch", names, prefetch, ref_avals[g.prefetch_refs])
    first = g.num_captured
    starts = {o: first + i for i, o in input_output_aliases}
    # Two blocks of one buffer are written back one after the other, so they stay blocks even where they are all of it.
    blocks = {*starts.values()} if alias_mode == "shared" else set()
    inputs = zip(g.input_mappings, values[g.input_operands], operands[g.input_operands])
    for m, v, given in inputs:
        sources.append(_source(m, len(found), len(found) in blocks))
        found.append(
            Operand(
                m.origin,
                "input",
                m.array_aval,
                space_name(m.memory_space),
                v,
                m.padding,
                is_reference=is_ref(given),
            )
        )
    outputs = []
    for i, m in enumerate(g.output_mappings):
        sources.append(_source(m, len(found), starts.get(i) in blocks))
        outputs.append(len(found))
        found.append(
            Operand(
                _output_name(m.origin, i),
                "output",
                m.array_aval,
                space_name(m.memory_space),
                None,
                m.padding,
                starts.get(i),
            )
        )
    for i, a in enumerate(g.scratch_avals):
        sources.append(RefSource(None, None, a, f"scratch[{i}]"))
    pair = KernelPair(
        0,
        jaxpr,
        name,
        tuple(sources),
        grid,
        g.grid_names,
        g.seen_axes,
        shares=_shares(grid, _parallel_axes(compiler_params, len(grid)), params),
        prefetch=tuple(range(g.num_captured, g.num_captured + g.num_prefetch)),
    )
    return KernelProgram(
        name, tuple(found), (pair,), device, cost_estimate, alias_mode, tuple(outputs)
    )


def _output_name(path: str, i: int) -> str:
    """The name of an output; one that stands alone has the empty path."""
    return f"outputs[{i}]" if path in ("", "outputs") else path


def _source(m: BlockMapping, operand: int, as_block: bool) -> RefSource:
    whole = m.has_trivial_window() and not as_block
    return RefSource(operand, None if whole else m, None, m.origin)


def _parallel_axes(compiler_params: Any, rank: int) -> tuple[int, ...]:
    compiler_params = given_params(compiler_params)
    semantics = getattr(compiler_params, "dimension_semantics", None)
    if semantics is None and isinstance(compiler_params, Mapping):
        semantics = compiler_params.get("dimension_semantics")
    if semantics is None:
        return ()
    return tuple(
        i for i, s in enumerate(semantics[:rank]) if str(getattr(s, "value", s)) == "parallel"
    )


def _shares(grid, parallel, params: InterpretParams) -> tuple[Sequence[int], ...]:
    """The grid points of each core: positions along the parallel axes are dealt out in runs, the others stay together."""
    total, cores = math.prod(grid), params.num_cores_or_threads
    if not parallel or (cores == 1 and params.random_seed is None):
        return (range(total), *((),) * (cores - 1))
    sizes = [grid[a] for a in parallel]
    count = math.prod(sizes)
    numbers = np.arange(total).reshape(grid)
    rest = [a for a in range(len(grid)) if a not in parallel]
    # One row per position along the parallel axes, its grid points in row-major order of the others.
    rows = numbers.transpose([*parallel, *rest]).reshape(count, -1)
    if params.random_seed is not None:
        rows = rows[np.random.default_rng(params.random_seed).permutation(count)]
    shares = []
    for c in range(cores):
        part = rows[c * count // cores : (c + 1) * count // cores]
        points = part.reshape(-1)
        if params.random_seed is None:  # row-major, as without other cores
            points = np.sort(points)
        shares.append(tuple(int(p) for p in points))
    return tuple(shares)


def mesh_program(
    operands: Sequence[Any],
    *,
    meshes: Sequence[Any],
    jaxprs: Sequence[ClosedJaxpr],
    out_avals: Sequence[Any],
    input_output_aliases: Any = (),
    num_captured: int = 0,
    name: str = "mpmd_map",
    names: Sequence[str] = (),
    cost_estimate: Any = None,
    device: Any = None,
    **_: Any,
) -> KernelProgram:
    """The program of an `mpmd_map` equation on concrete operands: every core sees every operand whole."""
    refs = jaxprs[0].in_avals
    n_in, n_out = len(operands), len(out_avals)
    num_args, paths = n_in - num_captured, jaxprs[0].jaxpr.debug_info.arg_names
    found = []
    for i, (x, a) in enumerate(zip(operands, refs)):
        captured = i >= num_args
        label = paths[i] if i < len(paths) else f"args[{i}]"
        role = "captured" if captured else "input"
        found.append(Operand(label, role, _array(a), space_name(a.memory_space), on_host(x)))
    aliases = {o: i for i, o in dict(input_output_aliases).items()}
    for i, a in enumerate(refs[n_in : n_in + n_out]):
        found.append(
            Operand(
                _output_name(paths[n_in + i] if n_in + i < len(paths) else "", i),
                "output",
                _array(a),
                space_name(a.memory_space),
                starts_as=aliases.get(i),
            )
        )
    sources = [RefSource(i) for i in range(n_in + n_out)]
    for i, a in enumerate(refs[n_in + n_out :]):
        label = f"scratch[{i}]"
        home = mesh_of(a.memory_space)
        if owner_of(a, True) == CALL or (home is not None and home not in meshes):
            sources.append(RefSource(len(found)))
            found.append(Operand(label, "scratch", _array(a), space_name(a.memory_space)))
        else:
            sources.append(
                RefSource(None, None, a, label, None if home is None else list(meshes).index(home))
            )
    pairs = []
    for k, (mesh, jaxpr) in enumerate(zip(meshes, jaxprs)):
        shape = dict(mesh.shape)
        sizes = tuple(shape.values())
        pairs.append(
            KernelPair(
                k,
                jaxpr,
                names[k] if k < len(names) else jaxpr.jaxpr.debug_info.name,
                tuple(sources),
                sizes,
                tuple(shape),
                tuple(range(len(sizes))),
                mesh=shape,
                core_type=str(mesh.core_type),
                shares=tuple((c,) for c in range(math.prod(sizes))),
            )
        )
    results = tuple(range(n_in, n_in + n_out))
    return KernelProgram(
        name or "mpmd_map", tuple(found), tuple(pairs), device, cost_estimate, results=results
    )


def coordinates(number: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    """The grid point with a number in row-major order."""
    out = []
    for n in reversed(grid):
        number, r = divmod(number, n)
        out.append(r)
    return tuple(reversed(out))
