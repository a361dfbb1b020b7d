"""Rules of the value interpreter for memory: reading, writing, adding, references that a kernel makes, and its position.

An access is atomic: nothing of another core comes between its reading and its writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlab import tree as _tree
from xlab.kernels.access import masked_load_p, masked_swap_p
from xlab.kernels.machine.buffers import (
    COUNTS,
    MemoryBuffer,
    RefPlace,
    digest,
    empty,
    uninitialized_value,
)
from xlab.kernels.machine.engine import machine_rules
from xlab.kernels.machine.events import Access
from xlab.kernels.machine.failures import KernelSpaceError, OutOfBoundsError, with_place
from xlab.kernels.machine.frames import KernelFrame, Op, plan_of, program_of
from xlab.kernels.machine.regions import BufferRegion, boxed, element_numbers, locate, outside
from xlab.kernels.program import num_programs_p, program_id_p
from xlab.kernels.scoped import run_scoped_p
from xlab.lax.arithmetic import add_p
from xlab.lax.refs import addupdate_p, empty_ref_p, free_ref_p, freeze_p, get_p, new_ref_p, swap_p

if TYPE_CHECKING:
    from xlab.kernels.machine.engine import Engine
    from xlab.kernels.machine.state import MachineCore


# -- what accesses have in common ---------------------------------------------------------------------------


def buffer_of(engine: Engine, core: MachineCore, place: RefPlace) -> MemoryBuffer:
    """The buffer of a reference."""
    buffer = engine.now.buffers[place.number]
    if engine.params.strict_spaces and buffer.space == "any":
        where = engine.place(core)
        raise with_place(
            KernelSpaceError(
                f"{buffer.name} is in the memory space 'any', which kernels cannot access directly on hardware: copy it to local "
                f"memory first (sync_copy, async_copy), or leave out strict_spaces. {where['line']}: {where['text']}"
            ),
            where,
        )
    return buffer


def region_of(
    engine: Engine,
    core: MachineCore,
    op: Op,
    buffer: MemoryBuffer,
    tree: Any,
    leaves: list,
    writing: bool = False,
) -> BufferRegion:
    """The region of an access, inside the buffer; one that reaches outside is treated as the options say."""
    if not leaves:
        key = (buffer.shape, buffer.dtype, writing)
        found = op.memo.get(key)
        if found is None:
            found = op.memo[key] = locate(
                _tree.unflatten(tree, ()), buffer.shape, buffer.dtype, False, writing
            )
        return found
    transforms = _tree.unflatten(tree, leaves)
    region = locate(transforms, buffer.shape, buffer.dtype, False, writing)
    if region.moved:
        policy = engine.params.out_of_bounds_reads
        if policy == "raise":
            raise out_of_bounds(engine, core, buffer, transforms)
        if policy == "uninitialized":
            return locate(transforms, buffer.shape, buffer.dtype, True, writing)
    return region


def out_of_bounds(engine, core, buffer: MemoryBuffer, transforms) -> OutOfBoundsError:
    """The error for an access outside a reference."""
    place = engine.place(core)
    window = buffer.window
    block = f", the block at {window.starts} of its array" if window is not None else ""
    error = OutOfBoundsError(
        f"equation {place['eqn']} of core {core.number} at grid point {core.coords} reaches outside {buffer.name} of shape "
        f"{buffer.shape}{block}: {'; '.join(outside(transforms))}. {place['line']}: {place['text']}"
    )
    return with_place(error, place)  # type: ignore[return-value]


def array_box(buffer: MemoryBuffer, box: tuple) -> tuple:
    """A box in coordinates of the whole array."""
    return box if buffer.window is None else buffer.window.box(box)


def load(
    engine: Engine, core: MachineCore, buffer: MemoryBuffer, region: BufferRegion
) -> tuple[np.ndarray, int]:
    """The elements, and how many of them nobody has written."""
    unwritten = buffer.unwritten(region) if buffer.written is not None else 0
    if region.moved:
        unwritten += _missing(region)
    if unwritten:
        box = array_box(buffer, region.box)
        engine.uninitialized(core, buffer.name, box, unwritten, "")
    return buffer.read(region, _fill(engine, region, buffer)), unwritten


def _missing(region: BufferRegion) -> int:
    return 0 if region.ids is None else int(np.count_nonzero(region.ids < 0))


def _fill(engine, region: BufferRegion, buffer: MemoryBuffer):
    if region.index is not None:
        return None
    return uninitialized_value(region.dtype or buffer.dtype, engine.zero)


def followed(engine: Engine, core: MachineCore, buffer: MemoryBuffer) -> bool:
    """Whether the race detector looks at an access: several cores see the buffer, or a copy of the core may be in flight."""
    detector = engine.detector
    if detector is None:
        return False
    several = len(engine.now.cores) > 1 and buffer.owner is None
    return several or detector.started[core.number] > 0


def tell(
    engine: Engine,
    core: MachineCore,
    buffer: MemoryBuffer,
    kind: str,
    region: BufferRegion,
    value: Any,
    masked: int = 0,
    more: tuple = (),
    agent: tuple | None = None,
) -> None:
    """Tells of an access: to the log, the race detector and breakpoints."""
    frame = core.frames[-1]
    path = f"{frame.prefix}/{frame.pc}"
    st = engine.now
    box = array_box(buffer, region.box)
    if followed(engine, core, buffer):
        line = str(frame.plan.ops[frame.pc].eqn.source_info)
        elements = region.elements(buffer.shape, buffer.dtype.itemsize)
        engine.detector.access(
            core, buffer, elements, kind, box, (st.t, path, line), *(agent or ())
        )
    if buffer.owner is not None and buffer.root is None:
        more = (*more, ("owner", buffer.owner))
    event = Access(
        st.t,
        core.pair.number,
        core.number,
        core.coords,
        path,
        buffer.name,
        kind,
        box,
        masked,
        digest(value),
        more,
    )
    engine.tell(event)
    engine.stop_at(event, value)


# -- get, swap, addupdate -----------------------------------------------------------------------------------


def _get(engine: Engine, core: MachineCore, op: Op, values: list):
    buffer = buffer_of(engine, core, values[0])
    region = region_of(engine, core, op, buffer, op.params["tree"], values[1:])
    value, unwritten = load(engine, core, buffer, region)
    if engine.watching:
        more = (("unwritten", unwritten),) if unwritten else ()
        tell(engine, core, buffer, "read", region, value, 0, more)
    return (value,)


def _swap(engine: Engine, core: MachineCore, op: Op, values: list):
    place, new, *leaves = values
    buffer = buffer_of(engine, core, place)
    region = region_of(engine, core, op, buffer, op.params["tree"], leaves, True)
    old = None
    if op.outs[0] not in op.dead:
        source = region_of(engine, core, op, buffer, op.params["tree"], leaves)
        old, unwritten = load(engine, core, buffer, source)
        if engine.watching:
            more = (("unwritten", unwritten),) if unwritten else ()
            tell(engine, core, buffer, "read", source, old, 0, more)
    new = np.asarray(new)
    buffer.write(region, new)
    if engine.watching:
        tell(engine, core, buffer, "write", region, new)
    return (old,)


def _addupdate(engine: Engine, core: MachineCore, op: Op, values: list):
    place, x, *leaves = values
    buffer = buffer_of(engine, core, place)
    region = region_of(engine, core, op, buffer, op.params["tree"], leaves, True)
    accumulate(engine, core, buffer, region, x)
    return ()


def accumulate(
    engine, core, buffer: MemoryBuffer, region: BufferRegion, x: Any, more: tuple = (), agent=None
) -> None:
    """Adds to elements; where an element is named twice, both are added."""
    unwritten = buffer.unwritten(region)
    if unwritten:
        engine.uninitialized(core, buffer.name, array_box(buffer, region.box), unwritten, "")
    x = np.asarray(x)
    if region.ids is not None and region.dtype is None and region.ids.size > 1:
        flat, amounts = region.ids.reshape(-1), np.broadcast_to(x, region.ids.shape).reshape(-1)
        known = flat >= 0
        flat, amounts = flat[known], amounts[known]
        for part in _distinct(flat):  # elements named once more in each round
            sub = BufferRegion(None, flat[part], region.box, part.size)
            old = buffer.read(sub, None)
            buffer.write(sub, np.asarray(add_p.bind(old, amounts[part])))
        new = x
    else:
        new = np.asarray(add_p.bind(buffer.read(region, _fill(engine, region, buffer)), x))
        buffer.write(region, new)
    if engine.watching:
        tell(engine, core, buffer, "accum", region, new, 0, more, agent)


def _distinct(ids: np.ndarray) -> list[np.ndarray]:
    """Positions in groups: within each, no element is named twice; the order of namings is kept."""
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]] if ids.size else np.zeros(0, bool)
    starts = np.maximum.accumulate(np.where(first, np.arange(ids.size), 0))
    rank = np.empty(ids.size, np.int64)
    rank[order] = np.arange(ids.size) - starts
    return [np.flatnonzero(rank == r) for r in range(int(rank.max()) + 1 if ids.size else 0)]


# -- masked accesses ----------------------------------------------------------------------------------------


def _masked_region(
    engine, core, buffer: MemoryBuffer, transforms, mask, writing
) -> tuple[BufferRegion, Any]:
    """The region, and which of its elements are accessed. What is outside is uninitialized, as padding would be."""
    region = locate(transforms, buffer.shape, buffer.dtype, False, writing)
    if mask is not None:
        mask = np.asarray(mask)
    if region.moved:
        region = locate(transforms, buffer.shape, buffer.dtype, True, writing)
        assert region.ids is not None
        gone = region.ids < 0 if region.dtype is None else (region.ids < 0).any(-1)
        asked = gone if mask is None else gone & mask
        if asked.any() and engine.params.out_of_bounds_reads == "raise":
            raise out_of_bounds(engine, core, buffer, transforms)
    return region, mask


def _masked_load(engine: Engine, core: MachineCore, op: Op, values: list):
    place, *leaves = values
    transforms, mask, other = _tree.unflatten(op.params["tree"], leaves)
    buffer = buffer_of(engine, core, place)
    region, mask = _masked_region(engine, core, buffer, transforms, mask, False)
    fill = uninitialized_value(region.dtype or buffer.dtype, engine.zero)
    value = buffer.read(region, fill)
    unwritten = _asked_unwritten(buffer, region, mask)
    if unwritten:
        engine.uninitialized(core, buffer.name, array_box(buffer, region.box), unwritten, "")
    masked = 0
    if mask is not None:
        masked = int(mask.size - np.count_nonzero(mask))
        value = np.where(mask, value, fill if other is None else np.asarray(other))
        value = np.asarray(value, region.dtype or buffer.dtype)
    if engine.watching:
        more = (("unwritten", unwritten),) if unwritten else ()
        tell(engine, core, buffer, "read", _within(buffer, region, mask), value, masked, more)
    return (value,)


def _asked_unwritten(buffer: MemoryBuffer, region: BufferRegion, mask) -> int:
    """Elements that are read and hold nothing, those outside among them."""
    missing = 0
    if region.moved:
        assert region.ids is not None
        gone = region.ids < 0 if region.dtype is None else (region.ids < 0).any(-1)
        missing = int(np.count_nonzero(gone if mask is None else gone & mask))
    if buffer.written is None:
        return missing
    return missing + buffer.unwritten(_within(buffer, region, mask))


def _within(buffer: MemoryBuffer, region: BufferRegion, mask) -> BufferRegion:
    """The part of a region that a mask leaves."""
    if mask is None or mask.all():
        return region
    if region.index is not None:
        ids = element_numbers(buffer.shape)[region.index][mask]
    elif region.dtype is None:
        assert region.ids is not None
        ids = region.ids[mask]
    else:
        assert region.ids is not None
        ids = np.unique(region.ids[mask] // buffer.dtype.itemsize)
    return boxed(ids.reshape(-1), buffer.shape)


def _masked_swap(engine: Engine, core: MachineCore, op: Op, values: list):
    place, new, *leaves = values
    transforms, mask = _tree.unflatten(op.params["tree"], leaves)
    buffer = buffer_of(engine, core, place)
    region, mask = _masked_region(engine, core, buffer, transforms, mask, True)
    old = None
    if op.outs[0] not in op.dead:
        source, _ = _masked_region(engine, core, buffer, transforms, mask, False)
        old = buffer.read(source, uninitialized_value(source.dtype or buffer.dtype, engine.zero))
        unwritten = _asked_unwritten(buffer, source, mask)
        if unwritten:
            engine.uninitialized(core, buffer.name, array_box(buffer, source.box), unwritten, "")
        if engine.watching:
            tell(engine, core, buffer, "read", _within(buffer, source, mask), old)
    new = np.asarray(new)
    masked = 0 if mask is None else int(mask.size - np.count_nonzero(mask))
    told = _within(buffer, region, mask)
    buffer.write(region, new, mask)
    if engine.watching:
        tell(engine, core, buffer, "write", told, new, masked)
    return (old,)


# -- references that a kernel makes -------------------------------------------------------------------------


def _scoped_name(engine: Engine) -> str:
    return f"scoped[{engine.now.made}]"


def _new_ref(engine: Engine, core: MachineCore, op: Op, values: list):
    space = str(op.params.get("memory_space") or "local")
    made = engine.now.add(_scoped_name(engine), space, core.number, np.array(values[0]))
    return (RefPlace(made.number),)


def _empty_ref(engine: Engine, core: MachineCore, op: Op, values: list):
    aval = op.params["ty"]
    space = str(op.params.get("memory_space") or "local")
    values = empty(aval, engine.zero)
    made = engine.now.add(
        _scoped_name(engine), space, core.number, values, np.zeros(aval.shape, bool)
    )
    return (RefPlace(made.number),)


def _freeze(engine: Engine, core: MachineCore, op: Op, values: list):
    buffer = engine.now.buffers.pop(values[0].number)
    return (np.array(buffer.values),)


def _free(engine: Engine, core: MachineCore, op: Op, values: list):
    engine.now.buffers.pop(values[0].number, None)
    return ()


def _run_scoped(engine: Engine, core: MachineCore, op: Op, values: list) -> KernelFrame:
    closed = op.params["jaxpr"]
    made = []
    for aval in closed.in_avals[len(values) :]:
        made.append(_scoped(engine, core, op, aval, len(made)))
    engine.check_bytes(core)
    jaxpr, given = program_of(closed, [*values, *(RefPlace(n) for n in made)])
    path = core.frames[-1].path
    plan = plan_of(jaxpr, machine_rules)
    return KernelFrame(plan, given, f"{path}/scope", "run_scoped", op, None, _Leave(tuple(made)))


def _scoped(engine: Engine, core: MachineCore, op: Op, aval, position: int) -> int:
    """A buffer for a scope. Programs that differ only along the collective axes share one."""
    axes = tuple(a for a in op.params["collective_axes"] if a != ())
    space = str(getattr(aval.memory_space, "memory_space", aval.memory_space) or "local")
    semaphore = space == "semaphore"
    values = np.zeros(aval.shape, COUNTS) if semaphore else empty(aval.inner_aval, engine.zero)
    written = None if semaphore else np.zeros(aval.shape, bool)
    shared = engine.now.shared
    key = None
    if axes:
        names = core.pair.grid_names or ()
        rest = tuple(c for n, c in zip(names, core.coords) if n not in axes)
        key = (core.pair.number, core.frames[-1].path, position, rest)
        found = shared.get(key)
        if found is not None:
            return found
    owner = None if axes else core.number
    made = engine.now.add(_scoped_name(engine), space, owner, values, written)
    if key is not None:
        shared[key] = made.number
    return made.number


class _Leave:
    """Ends the references of a scope; shared ones stay for those that come later."""

    def __init__(self, numbers: tuple[int, ...]):
        self.numbers = numbers

    def __call__(self, engine: Engine, core: MachineCore) -> None:
        buffers = engine.now.buffers
        for n in self.numbers:
            if n in buffers and buffers[n].owner is not None:
                left_signals(engine, buffers[n])
                del buffers[n]


def left_signals(engine: Engine, buffer: MemoryBuffer) -> None:
    """Remarks on a semaphore that ends with signals that nobody waited for."""
    if buffer.space == "semaphore" and buffer.values.any():
        engine.note_lint(
            "semaphore leftover",
            (buffer.name, buffer.owner),
            f"semaphore {buffer.name} ends with the count {buffer.values.tolist()}: signals that nobody waited for",
            ref=buffer.name,
        )


_run_scoped.enters = True  # type: ignore[attr-defined]


# -- the position -------------------------------------------------------------------------------------------


def _program_id(engine: Engine, core: MachineCore, op: Op, values: list):
    pair = core.pair
    return (np.int32(core.coords[pair.seen_axes[op.params["axis"]]]),)


def _num_programs(engine: Engine, core: MachineCore, op: Op, values: list):
    pair = core.pair
    return (np.int32(pair.grid[pair.seen_axes[op.params["axis"]]]),)


_program_id.takes_no_turn = _num_programs.takes_no_turn = True  # type: ignore[attr-defined]

machine_rules[get_p] = _get
machine_rules[swap_p] = _swap
machine_rules[addupdate_p] = _addupdate
machine_rules[masked_load_p] = _masked_load
machine_rules[masked_swap_p] = _masked_swap
machine_rules[new_ref_p] = _new_ref
machine_rules[empty_ref_p] = _empty_ref
machine_rules[freeze_p] = _freeze
machine_rules[free_ref_p] = _free
machine_rules[run_scoped_p] = _run_scoped
machine_rules[program_id_p] = _program_id
machine_rules[num_programs_p] = _num_programs
