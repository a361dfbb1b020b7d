"""Rules of the value interpreter for semaphores and copies.

A semaphore keeps, besides its count, the signals that nobody has waited for, first come, first served: each with its turn and the
clock of its core, so that a wait knows after what it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xlab import tree as _tree
from xlab.kernels.copies import dma_start_p, dma_wait_p
from xlab.kernels.machine.accesses import (
    accumulate,
    array_box,
    followed,
    load,
    out_of_bounds,
    region_of,
)
from xlab.kernels.machine.buffers import MemoryBuffer, RefPlace, digest
from xlab.kernels.machine.engine import WAIT, machine_rules
from xlab.kernels.machine.events import Access
from xlab.kernels.machine.failures import KernelRunError, SemaphoreError, with_place
from xlab.kernels.machine.frames import Op
from xlab.kernels.machine.regions import BufferRegion, locate
from xlab.kernels.machine.state import Waiting
from xlab.kernels.semaphores import (
    MAX_COUNT,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
)

if TYPE_CHECKING:
    from xlab.kernels.machine.engine import Engine
    from xlab.kernels.machine.state import MachineCore


class Units(NamedTuple):
    """What a signal has added and nobody has waited for."""

    count: int
    t: int
    clock: tuple[int, ...] | None


class Copy(NamedTuple):
    """A copy that was started and is performed when it is waited for."""

    core: int
    semaphore: tuple[int, int]
    src: int
    src_region: BufferRegion
    dst: int
    dst_region: BufferRegion
    add: bool
    units: int
    agent: tuple | None
    t: int


def _one(
    engine: Engine, core: MachineCore, place: RefPlace, transforms, number=None
) -> tuple[MemoryBuffer, int, BufferRegion]:
    """The semaphore that is meant: its buffer, its number there, and its region."""
    buffers = engine.now.buffers
    buffer = buffers[place.number]
    family = engine.now.families.get(place.number)
    if family is None and number is not None and not 0 <= int(number) < len(engine.now.cores):
        raise _error(
            engine,
            core,
            f"{buffer.name} is to be signaled on core {int(number)}, but the kernel runs on {len(engine.now.cores)} cores, "
            f"numbered from 0",
        )
    if family is not None:
        if number is not None:
            which = int(number)
            if not 0 <= which < len(family):
                raise _error(
                    engine,
                    core,
                    f"{buffer.name} belongs to {len(family)} cores, none is core {which}",
                )
            buffer = buffers[family[which]]
        elif buffer.owner != core.number and len(family) > 1:
            raise _error(
                engine,
                core,
                f"{buffer.name} belongs to the cores of another mesh: say whose is meant, as semaphore_signal(sem, core=0)",
            )
    region = locate(transforms, buffer.shape, buffer.dtype)
    if region.moved and engine.params.out_of_bounds_reads == "raise":
        raise out_of_bounds(engine, core, buffer, transforms)
    element = int(region.elements(buffer.shape, buffer.dtype.itemsize)[0])
    return buffer, element, region


def _error(engine, core, text: str) -> KernelRunError:
    place = engine.place(core)
    return with_place(SemaphoreError(f"{text}. {place['line']}: {place['text']}"), place)


def _label(buffer: MemoryBuffer, element: int) -> str:
    if not buffer.shape:
        return buffer.name
    at = np.unravel_index(element, buffer.shape)
    return f"{buffer.name}[{', '.join(str(int(i)) for i in at)}]"


def _count(buffer: MemoryBuffer, element: int) -> int:
    return int(buffer.values.reshape(-1)[element])


def _set(buffer: MemoryBuffer, element: int, count: int) -> None:
    buffer.own()
    buffer.values.reshape(-1)[element] = count


def add_units(
    engine: Engine,
    buffer: MemoryBuffer,
    element: int,
    inc: int,
    clock: tuple[int, ...] | None,
    t: int,
) -> None:
    """Counts a signal, or the elements that a copy has brought."""
    _set(buffer, element, _count(buffer, element) + inc)
    if inc > 0:
        key = (buffer.number, element)
        units = engine.now.units
        units[key] = (*units.get(key, ()), Units(inc, t, clock))


def take_units(
    engine: Engine,
    core: MachineCore,
    buffer: MemoryBuffer,
    element: int,
    needed: int,
    decrement: bool,
):
    """The turns of the signals that let a wait pass; the core now knows what came before them."""
    units = engine.now.units
    key = (buffer.number, element)
    left, turns, rest = needed, [], []
    for u in units.get(key, ()):
        if left <= 0:
            rest.append(u)
            continue
        used = min(left, u.count)
        left -= used
        turns.append(u.t)
        if engine.detector is not None:
            engine.detector.acquire(core.number, u.clock)
        if used < u.count:
            rest.append(u._replace(count=u.count - used))
    if decrement:
        _set(buffer, element, _count(buffer, element) - needed)
        units[key] = tuple(rest)
    return tuple(turns)


def _tell_semaphore(engine, core, buffer, element, region, kind, more) -> None:
    if not engine.watching:
        return
    frame = core.frames[-1]
    if buffer.owner is not None:
        more = (*more, ("owner", buffer.owner))
    event = Access(
        engine.now.t,
        core.pair.number,
        core.number,
        core.coords,
        frame.path,
        buffer.name,
        kind,
        region.box if region.index != (Ellipsis,) else (),
        0,
        0,
        more,
    )
    engine.tell(event)
    engine.stop_at(event, buffer.values)


# -- signal, wait, read -------------------------------------------------------------------------------------


def _signal(engine: Engine, core: MachineCore, op: Op, values: list):
    place, inc, *leaves = values
    transforms, number = _tree.unflatten(op.params["tree"], leaves)
    buffer, element, region = _one(engine, core, place, transforms, number)
    inc = int(inc)
    count = _count(buffer, element) + inc
    if count > MAX_COUNT:
        raise _error(
            engine,
            core,
            f"semaphore {_label(buffer, element)} would count to {count}, more than the {MAX_COUNT} it can hold",
        )
    clock = None
    if engine.detector is not None:
        clock = engine.detector.release(core.number)
    add_units(engine, buffer, element, inc, clock, engine.now.t)
    more = (("count", inc), ("present", _count(buffer, element)))
    _tell_semaphore(engine, core, buffer, element, region, "signal", more)
    return ()


def _wait(engine: Engine, core: MachineCore, op: Op, values: list):
    place, value, *leaves = values
    (transforms,) = _tree.unflatten(op.params["tree"], leaves)
    found = _one(engine, core, place, transforms)
    return _wait_for(engine, core, *found, int(value), op.params["decrement"])


def _wait_for(engine, core, buffer, element, region, needed: int, decrement: bool):
    present = _count(buffer, element)
    facts = (("count", needed), ("present", present))
    if present < needed:
        if core.waiting is None:
            core.waiting = Waiting(buffer.number, element, _label(buffer, element), needed)
            _tell_semaphore(
                engine, core, buffer, element, region, "wait", (*facts, ("blocked", True))
            )
        return WAIT
    turns = take_units(engine, core, buffer, element, needed, decrement)
    _tell_semaphore(engine, core, buffer, element, region, "wait", (*facts, ("signals", turns)))
    return ()


def _read(engine: Engine, core: MachineCore, op: Op, values: list):
    place, *leaves = values
    (transforms,) = _tree.unflatten(op.params["tree"], leaves)
    buffer, element, region = _one(engine, core, place, transforms)
    present = _count(buffer, element)
    _tell_semaphore(engine, core, buffer, element, region, "read", (("present", present),))
    return (np.int32(present),)


# -- copies -------------------------------------------------------------------------------------------------


def _copy_views(engine, core, op: Op, values: list):
    src, dst, sem, *leaves = values
    src_at, dst_at, sem_at = _tree.unflatten(op.params["tree"], leaves)
    semaphore, element, region = _one(engine, core, sem, sem_at)
    out = []
    for place, transforms, writing in ((src, src_at, False), (dst, dst_at, True)):
        buffer = engine.now.buffers[place.number]
        flat, tree = _tree.flatten(tuple(transforms))
        out.append(
            (
                buffer,
                region_of(engine, core, op, buffer, tree, flat, writing)
                if flat
                else locate(transforms, buffer.shape, buffer.dtype, False, writing),
            )
        )
    return out, (semaphore, element, region)


def _dma_start(engine: Engine, core: MachineCore, op: Op, values: list):
    ((src, src_at), (dst, dst_at)), (semaphore, element, _) = _copy_views(engine, core, op, values)
    agent = None
    if engine.detector is not None:
        agent = engine.detector.start_copy(core.number, (semaphore.number, element))
    copy = Copy(
        core.number,
        (semaphore.number, element),
        src.number,
        src_at,
        dst.number,
        dst_at,
        op.params["add"],
        src_at.count,
        agent,
        engine.now.t,
    )
    eager = engine.params.dma_execution_mode == "eager"
    if eager:
        perform(engine, core, copy)
    else:
        engine.now.copies = (*engine.now.copies, copy)
        if engine.watching:
            _tell_copy(engine, core, copy, src, dst)
    return ()


def _dma_wait(engine: Engine, core: MachineCore, op: Op, values: list):
    _, (semaphore, element, region) = _copy_views(engine, core, op, values)
    src_at = _tree.unflatten(op.params["tree"], values[3:])[0]
    src = engine.now.buffers[values[0].number]
    needed = locate(src_at, src.shape, src.dtype).count
    key = (semaphore.number, element)
    pending = [c for c in engine.now.copies if c.semaphore == key]
    for copy in pending:
        if _count(semaphore, element) >= needed:
            break
        engine.now.copies = tuple(c for c in engine.now.copies if c is not copy)
        perform(engine, core, copy)
    return _wait_for(engine, core, semaphore, element, region, needed, True)


def perform(engine: Engine, core: MachineCore, copy: Copy) -> None:
    """Moves the elements of a copy and counts them."""
    st = engine.now
    src, dst = st.buffers[copy.src], st.buffers[copy.dst]
    who = st.cores[copy.core]
    agent = copy.agent
    value, unwritten = load(engine, core, src, copy.src_region)
    if engine.detector is not None and agent:
        line = str(core.frames[-1].next.eqn.source_info) if core.frames else ""
        place = (st.t, core.path, line)
        for buffer, region, kind in (
            (src, copy.src_region, "read"),
            (dst, copy.dst_region, "accum" if copy.add else "write"),
        ):
            if followed(engine, who, buffer):
                elements = region.elements(buffer.shape, buffer.dtype.itemsize)
                box = array_box(buffer, region.box)
                engine.detector.access(who, buffer, elements, kind, box, place, *agent)
    if copy.add:
        watching, engine.watching = engine.watching, False
        try:
            accumulate(engine, core, dst, copy.dst_region, value)
        finally:
            engine.watching = watching
    else:
        dst.write(copy.dst_region, value)
        if unwritten:
            _mark_unwritten(src, copy.src_region, dst, copy.dst_region)
    number, element = copy.semaphore
    clock = agent[1] if agent else None
    add_units(engine, st.buffers[number], element, copy.units, clock, st.t)
    if engine.watching:
        _tell_copy(engine, core, copy, src, dst, value)


def _mark_unwritten(
    src: MemoryBuffer, src_at: BufferRegion, dst: MemoryBuffer, dst_at: BufferRegion
) -> None:
    """What nobody wrote stays so where it is copied to."""
    if src.written is None or src_at.dtype is not None or dst_at.dtype is not None:
        return
    if src_at.ids is not None and (src_at.ids < 0).any():
        return
    known = src.written.reshape(-1)[src_at.elements(src.shape, src.dtype.itemsize)]
    if dst.written is None:
        dst.written = np.ones(dst.shape, bool)
    dst.written.reshape(-1)[dst_at.elements(dst.shape, dst.dtype.itemsize)] = known


def _tell_copy(engine, core, copy: Copy, src: MemoryBuffer, dst: MemoryBuffer, moved=None) -> None:
    """A copy that starts, or that is done and has moved values."""
    frame = core.frames[-1]
    event = Access(
        engine.now.t,
        core.pair.number,
        copy.core,
        core.coords,
        frame.path,
        src.name,
        "copy",
        array_box(src, copy.src_region.box),
        0,
        0 if moved is None else digest(moved),
        (
            ("to", dst.name),
            ("to_slice", array_box(dst, copy.dst_region.box)),
            ("done", moved is not None),
            ("started", copy.t),
        ),
    )
    engine.tell(event)
    engine.stop_at(event, dst.values)


machine_rules[semaphore_signal_p] = _signal
machine_rules[semaphore_wait_p] = _wait
machine_rules[semaphore_read_p] = _read
machine_rules[dma_start_p] = _dma_start
machine_rules[dma_wait_p] = _dma_wait
