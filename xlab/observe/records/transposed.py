"""The collectives of a program beside those of its transpose."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.transfers import Transfer, run_line, transfer_name, transfer_over
from xlab.observe.records.units import plural, size_text, table


@record_type
class Transposed(Record):
    """What a program sends forwards, and what its transpose sends for it.

    Args:
        forward: the collectives of the program, in the order they are written.
        backward: those of its transpose, in the order they are written there.
        beside: for each of `forward` the positions in `backward` of those that come from the same call; a collective whose transpose
            sends nothing has none.
        made_by: who traced and who transposed it, where that was not this package alone.
    """

    title: str
    forward: tuple[Transfer, ...] = ()
    backward: tuple[Transfer, ...] = ()
    beside: tuple[tuple[int, ...], ...] = ()
    made_by: str = ""

    def contradiction(self) -> str:
        """Collectives beside others that are not there."""
        if len(self.beside) != len(self.forward):
            return f"beside has {len(self.beside)} entries for {plural(len(self.forward), 'collective')} of forward"
        if any(not 0 <= j < len(self.backward) for found in self.beside for j in found):
            return f"beside names what backward, of {plural(len(self.backward), 'collective')}, has not"
        return ""

    @property
    def alone(self) -> tuple[int, ...]:
        """Positions in `backward` of what no collective of the program stands beside, such as the sum of a broadcast argument's gradient."""
        known = {j for found in self.beside for j in found}
        return tuple(j for j in range(len(self.backward)) if j not in known)


def said(t: Transfer) -> str:
    """`psum over i, 8 B × 3`."""
    times = "?" if t.times is None else str(t.times)
    return f"{t.call or transfer_name(t)} over {transfer_over(t)}, {size_text(t.bytes_in)}" + (
        f" × {times}" if times != "1" else ""
    )


def _text(r: Transposed, o: Options) -> str:
    rows = [("line", "forwards", "backwards")]
    for t, found in zip(r.forward, r.beside, strict=True):
        line = str(t.source.line) if t.source else ""
        others = [said(r.backward[j]) for j in found] or ["sends nothing"]
        rows.append((line, said(t), others[0]))
        rows += [("", "", other) for other in others[1:]]
    for j in r.alone:
        t = r.backward[j]
        rows.append((str(t.source.line) if t.source else "", "", said(t)))
    head = (
        f"{r.title}: {plural(len(r.forward), 'collective')} forwards, {len(r.backward)} backwards"
    )
    lines = [head]
    if len(rows) > 1:
        lines.append(table(rows, "rll"))
    for word, moves in (("forwards", r.forward), ("backwards", r.backward)):
        if moves:
            lines.append(f"  {word}: {run_line(moves)}")
    return "\n".join(lines)


add_form(Transposed, _text)
