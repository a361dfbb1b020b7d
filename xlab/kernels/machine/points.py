"""Grid points: fetching the blocks of a step, putting them back, and the events of both, also without running."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from xlab import tree as _tree
from xlab.kernels.blocks import Blocked, BlockMapping, Indirect
from xlab.kernels.machine.buffers import BlockWindow, MemoryBuffer, uninitialized_value
from xlab.kernels.machine.events import BlockEvent
from xlab.kernels.machine.failures import OutOfBoundsError, with_place
from xlab.kernels.machine.placement import BlockPlacement, PlacedBlock, numpy_index, whole_block
from xlab.kernels.machine.programs import KernelPair, KernelProgram, RefSource, coordinates
from xlab.kernels.machine.regions import element_numbers, locate, outside

if TYPE_CHECKING:
    from xlab.kernels.machine.engine import Engine
    from xlab.kernels.machine.state import MachineCore


def begin_point(engine: Engine, core: MachineCore) -> None:
    """Fetches the blocks of the core's grid point."""
    pair = core.pair
    core.coords = coordinates(core.step, pair.grid)
    if engine.params.grid_point_recorder is not None and not engine.replaying:
        engine.params.grid_point_recorder(core.coords, core.number)
    if pair.mesh is not None:
        return
    blocks: list = []
    for source, place in zip(pair.sources, core.refs):
        if source.operand is None:
            blocks.append(None)
            continue
        mapping = source.mapping
        if mapping is None:
            blocks.append(None)
            if place.number == source.operand:
                continue
            _fetch_whole(engine, core, source, place.number)
            continue
        block = _block(engine, core, pair, source, mapping)
        blocks.append(block)
        _fetch(engine, core, source, mapping, block, place.number)
    core.windows = tuple(blocks)
    if engine.telling_blocks:
        for source, block in zip(pair.sources, blocks):
            if source.operand is not None and _role(engine, source) == "input":
                tell_block(engine, core, source, block, "read")


def finish_point(engine: Engine, core: MachineCore) -> None:
    """Puts back the blocks that the kernel wrote, inputs first."""
    pair = core.pair
    if pair.mesh is not None:
        return
    buffers = engine.now.buffers
    for source, place, block in zip(pair.sources, core.refs, core.windows):
        if source.operand is None:
            continue
        buffer = buffers[place.number]
        role = _role(engine, source)
        if buffer.dirty and role == "input":
            _wrote_input(engine, core, source)
        if place.number != source.operand and buffer.dirty:
            _put_back(engine, core, source, block, buffer)
        if engine.telling_blocks and (role == "output" or (role == "input" and buffer.dirty)):
            tell_block(engine, core, source, block, "write")
        buffer.dirty = False


def _role(engine: Engine, source: RefSource) -> str:
    assert source.operand is not None
    return engine.program.operands[source.operand].role


def _block(engine, core, pair: KernelPair, source: RefSource, mapping: BlockMapping) -> PlacedBlock:
    def read(i, tree, leaves):
        buffer = engine.now.buffers[pair.prefetch[i]]
        transforms = _tree.unflatten(tree, leaves)
        region = locate(transforms, buffer.shape, buffer.dtype)
        if region.moved and engine.params.out_of_bounds_reads == "raise":
            raise with_place(
                OutOfBoundsError(
                    f"the index map of {source.name} reads outside {buffer.name} of shape {buffer.shape} at grid point "
                    f"{core.coords}: {'; '.join(outside(transforms))}"
                ),
                engine.place(core),
            )
        return buffer.read(region, uninitialized_value(buffer.dtype, engine.zero))

    block = engine.placement(mapping).at(core.coords, read)
    if block.outside and engine.params.out_of_bounds_reads == "raise":
        raise with_place(
            OutOfBoundsError(
                f"the block of {source.name} at grid point {core.coords} is outside the array of shape "
                f"{mapping.array_aval.shape}: {block.outside}. The index map gives {block.index} for the block shape "
                f"{mapping.sizes}, at {_origin(mapping)}. Compiled programs move the block inside; "
                f"InterpretParams(out_of_bounds_reads='clamp') does the same."
            ),
            engine.place(core),
        )
    return block


def _origin(mapping: BlockMapping) -> str:
    info = mapping.index_map.jaxpr.debug_info
    return info.position or f"index map {info.name}"


def _fetch(engine, core, source, mapping, block: PlacedBlock, number: int) -> None:
    root, buffer = engine.now.buffers[source.operand], engine.now.buffers[number]
    take = numpy_index(block)
    values = np.array(root.values[take])
    written = None if root.written is None else np.array(root.written[take])
    if not block.whole:
        lost = _lost(engine, mapping, block)
        hidden = _hidden(block, lost)
        values[hidden] = uninitialized_value(values.dtype, engine.zero)
        written = np.ones(values.shape, bool) if written is None else written
        written[hidden] = False
    if block.squeezed:
        values = values.squeeze(block.squeezed)
        written = None if written is None else written.squeeze(block.squeezed)
    if written is not None and written.all():
        written = None
    buffer.fill(values, written, BlockWindow(block.starts, block.kept, len(block.starts)))
    if engine.detector is not None and _role(engine, source) == "input":
        _follow(engine, core, root, take, "read", block)


def _fetch_whole(engine, core, source, number) -> None:
    root, buffer = engine.now.buffers[source.operand], engine.now.buffers[number]
    buffer.fill(np.array(root.values), None if root.written is None else root.written.copy(), None)


def _lost(engine, mapping, block: PlacedBlock):
    """Per dimension the positions of the block that stay outside, where such elements read as uninitialized."""
    if not block.outside or engine.params.out_of_bounds_reads != "uninitialized":
        return None
    out = []
    for dim, i, n, b in zip(mapping.block_shape, block.index, mapping.padded_shape, mapping.sizes):
        if type(dim) is Indirect:
            places = np.asarray(i, np.int64)
        else:
            first = i[0] if isinstance(i, tuple) else i * b if type(dim) is Blocked else i
            places = first + np.arange(b)
        places = np.where(places < 0, places + n, places) if type(dim) is Indirect else places
        out.append((places < 0) | (places >= n))
    return out


def _hidden(block: PlacedBlock, lost) -> np.ndarray:
    """Which elements of a block do not count."""
    out = np.zeros(block.shape, bool)
    for d, size in enumerate(block.sizes):
        column = np.zeros(block.shape[d], bool)
        if size is not None:
            column |= np.arange(block.shape[d]) >= size
        if lost is not None:
            column |= lost[d]
        out |= column.reshape([-1 if k == d else 1 for k in range(len(block.shape))])
    return out


def _put_back(engine, core, source, block: PlacedBlock | None, buffer: MemoryBuffer) -> None:
    root = engine.now.buffers[source.operand]
    if block is None:
        root.values, root.written = buffer.values.copy(), buffer.written
        root.kept, root.dirty, root.touched = False, True, True
        return
    mapping = source.mapping
    take = numpy_index(block)
    values, written = buffer.values, buffer.written
    if block.squeezed:
        values = np.expand_dims(values, block.squeezed)
        written = None if written is None else np.expand_dims(written, block.squeezed)
    root.own()
    kept = None
    if not block.whole:
        lost = _lost(engine, mapping, block)
        kept = ~_hidden(block, lost)
        values = np.where(kept, values, root.values[take])
    root.values[take] = values
    if root.written is not None:
        new: Any = True if written is None else written
        root.mark(take, new if kept is None else kept & new)
    root.dirty = root.touched = True
    if engine.detector is not None:
        _follow(engine, core, root, take, "write", block)


def _follow(engine, core, root: MemoryBuffer, take, kind: str, block: PlacedBlock) -> None:
    """Tells the race detector of a block that is moved."""
    if len(engine.now.cores) == 1:
        return
    elements = element_numbers(root.shape)[take].reshape(-1)
    box = tuple((s, s + n) for s, n in zip(block.starts, block.shape))
    where = "fetch" if kind == "read" else "write-back"
    line = core.pair.jaxpr.jaxpr.debug_info.position or core.pair.name
    engine.detector.access(core, root, elements, kind, box, (engine.now.t, where, line))


def _wrote_input(engine, core, source) -> None:
    operand = engine.program.operands[source.operand]
    if operand.is_reference:
        return
    engine.note_lint(
        "write to input",
        (operand.name,),
        f"{engine.program.name} writes to its input {operand.name}: later steps of the grid see it, the caller's array does not "
        f"change. Return it as an output, aliased to the input (input_output_aliases).",
        ref=operand.name,
    )


def tell_block(engine, core, source, block: PlacedBlock | None, io: str) -> None:
    """The event of a block that is fetched or put back."""
    operand = engine.program.operands[source.operand]
    if block is None:
        block = whole_block(operand.aval.shape)
    history = engine.visits.setdefault((core.number, source.operand), {}).setdefault(
        block.index, []
    )
    if not history or history[-1] < core.at:
        history.append(core.at)
    visit = bisect.bisect_right(history, core.at)
    engine.tell(
        block.event(core.step, core.coords, operand.name, io, visit, core.number, core.pair.number)
    )


# -- without running ----------------------------------------------------------------------------------------


def static_events(program: KernelProgram) -> Iterator[BlockEvent]:
    """The block events of a `kernel_call` whose index maps do not depend on data, core by core."""
    for number, share in enumerate(program.pairs[0].shares):
        pair = program.pairs[0]
        visits: dict[tuple, int] = {}
        placements: dict[int, BlockPlacement] = {}
        for step in share:
            coords = coordinates(step, pair.grid)
            late = []
            for source in pair.sources:
                if source.operand is None or program.operands[source.operand].role not in IO:
                    continue
                operand = program.operands[source.operand]
                m = source.mapping
                if m is None:
                    block = whole_block(operand.aval.shape)
                else:
                    block = placements.setdefault(id(m), BlockPlacement(m)).at(coords, None)
                key = (source.operand, block.index)
                visits[key] = visits.get(key, 0) + 1
                io = IO[operand.role]
                event = block.event(step, coords, operand.name, io, visits[key], number, 0)
                if io == "read":
                    yield event
                else:
                    late.append(event)
            yield from late


IO = {"input": "read", "output": "write"}
