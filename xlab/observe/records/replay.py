"""One collective carried out step by step: which slice goes where, and what every device holds after each step."""

from __future__ import annotations

from xlab.interpreters.communication import by_pairs
from xlab.observe.records.base import Record, record_type
from xlab.observe.records.program import MeshInfo, Type
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, size_text, table

SHOWN = 40


@record_type
class FlowEvent(Record):
    """A slice of one device's buffer that becomes a slice of another's, or is added to it (`reduce`); `keep` stays on its device.

    Slices are `(start, stop)` per dimension. `src` is -1 where nobody sends and `fill` is what stands there then. `reads` and `writes`
    are `input` (the operand), `output` (the result), `work` (in between) or `result` (what a ragged exchange writes into).
    """

    step: int
    src: int
    dst: int
    bytes: int
    kind: str
    group: int = 0
    chunk: int = 0
    src_slice: tuple[tuple[int, int], ...] = ()
    dst_slice: tuple[tuple[int, int], ...] = ()
    reads: str = "input"
    writes: str = "output"
    fill: int | None = None
    op: str = ""
    eqn: int = -1

    @property
    def moves(self) -> bool:
        """Whether something goes from one device to another."""
        return self.src >= 0 and self.src != self.dst

    @property
    def text(self) -> str:
        """`3 → 4  [0:8] → [8:16]  reduce`."""
        if self.src < 0:
            return f"{self.dst} gets nothing: {self.fill}"
        spans = [
            "[" + ", ".join(f"{a}:{b}" for a, b in box) + "]"
            for box in (self.src_slice, self.dst_slice)
        ]
        return f"{self.src} → {self.dst}  {' → '.join(spans)}" + (
            "  added" if self.kind == "reduce" else ""
        )


@record_type
class Replay(Record):
    """A collective of a program, as events on its devices.

    Args:
        call: what the user wrote (`psum`).
        algorithm, asked: the algorithm of the events, and the one that was asked for where that does not fit.
        before, after: types on one device, with how they vary over manual axes.
        wire_bytes: bytes that go from one device to another, all together.
        carried_out: the kind of collective that the compiled program has instead, with `actual_bytes` sent by all devices together.
        exact: False where how much is sent is data that is not known; the events then send as much as there can be.
        devices: ids, in the order of `tiles`.
        tiles: after each step, for each device, the entries of its buffer as text, row by row; the first is before the first step.
            None of them where the values are not known or too many to be shown.
        inputs: for each device the entries of its operand.
        nan_devices: ids of the devices whose operand has a NaN, where the values are known.
        times: how often it runs, None = not known.
    """

    title: str
    call: str
    kind: str
    algorithm: str
    before: Type
    after: Type
    mesh: MeshInfo
    reduction: str = ""
    asked: str = ""
    axes: tuple[str, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    wire_bytes: int = 0
    steps: int = 0
    carried_out: str = ""
    actual_bytes: int | None = None
    predicted_us: float | None = None
    formula: str = ""
    stablehlo: str = ""
    source: Source | None = None
    equation: int = -1
    times: int | None = 1
    exact: bool = True
    events: tuple[FlowEvent, ...] = ()
    devices: tuple[int, ...] = ()
    inputs: tuple[tuple[str, ...], ...] = ()
    tiles: tuple[tuple[tuple[str, ...], ...], ...] = ()
    nan_devices: tuple[int, ...] = ()

    @property
    def caution(self) -> str:
        """What to beware of: a NaN that goes into a maximum or a minimum between devices."""
        if not self.nan_devices or self.reduction not in ("max", "min"):
            return ""
        few = ", ".join(map(str, self.nan_devices[:8])) + (", …" if self.nan_devices[8:] else "")
        return (
            f"⚠ NaN on {'device' if len(self.nan_devices) == 1 else 'devices'} {few}: between devices a NaN may or may not win. "
            f"With nan_safe=True, {self.call} gives NaN wherever one of them has it"
        )

    @property
    def one_sided(self) -> bool:
        """Whether two equations make it up: one that sends, one that receives."""
        return self.call == "precv"

    @property
    def ragged(self) -> bool:
        """Whether rows of different numbers go to each."""
        return self.kind == "ragged_all_to_all"

    @property
    def order(self) -> str:
        """How ranks count where there are several axes: a permutation counts devices by position, whatever the order of the axes."""
        if len(self.axes) < 2:
            return ""
        if by_pairs(self.kind):
            return "ranks are positions in the mesh, in any order of the axes"
        return f"ranks count {self.axes[-1]} fastest, {self.axes[0]} slowest"

    def contradiction(self) -> str:
        """Devices, steps and slices that do not fit together."""
        known = set(self.devices)
        ids = self.mesh.device_ids or range(self.mesh.size)
        if not known <= set(ids) or len(known) < len(self.devices):
            return "devices must be of mesh, each once"
        for word, found in (("inputs", self.inputs), *(("tiles", x) for x in self.tiles)):
            if found and len(found) != len(known):
                return (
                    f"{word} has {len(found)} entries for {plural(len(known), 'device')} of devices"
                )
        for e in self.events:
            if e.dst not in known or (e.src >= 0 and e.src not in known):
                return f"events go from {e.src} to {e.dst}, which are not both in devices"
        steps = len({e.step for e in self.events})
        if self.tiles and (len(self.tiles) != steps + 1 or not self.inputs):
            return f"tiles has {len(self.tiles)} frames, with inputs of {len(self.inputs)} devices, for {plural(steps, 'step')} of events"
        return ""

    def sentence(self) -> str:
        """What happens, in one line."""
        over = ", ".join(self.axes)
        found = (
            f"{self.call} over {over}: {self.before.text} → {self.after.text}, {plural(self.steps, 'step')} by {self.algorithm}, "
            f"{size_text(self.wire_bytes)} between devices"
        )
        if self.order:
            found += f"; {self.order}"
        if self.asked:
            found += f" ({self.asked} does not fit it)"
        if self.carried_out and self.actual_bytes is not None:
            found += (
                f"; carried out as {self.carried_out}, which sends {size_text(self.actual_bytes)}"
            )
        return found + ("" if self.exact else "; how much is sent is data: this is the most")


def _text(r: Replay, o: Options) -> str:
    lines = [f"{r.title}   {line_text(r.source)}".rstrip(), "  " + r.sentence()]
    if r.caution:
        lines.append("  " + r.caution)
    if r.formula:
        lines.append(f"  t = {r.formula}")
    if r.stablehlo:
        lines.append(f"  {r.stablehlo}")
    rows = [(str(e.step), size_text(e.bytes), e.text) for e in r.events if e.moves or e.src < 0]
    shown = rows if o.limit is None else rows[:SHOWN]
    if shown:
        lines.append(table([("step", "bytes", "from → to"), *shown], "rrl"))
    if len(rows) > len(shown):
        lines.append(f"  {plural(len(rows) - len(shown), 'more event')}")
    if r.tiles:
        held = [
            (str(d), " ".join(r.inputs[k]), " ".join(r.tiles[-1][k]))
            for k, d in enumerate(r.devices)
        ]
        lines.append(table([("device", "before", "after"), *held], "rll"))
    return "\n".join(lines)


add_form(Replay, _text)
