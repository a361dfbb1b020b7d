"""What a program does that costs something and need not be so, and what is known and right."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.text import Options, add_form, add_table, limited
from xlab.observe.records.units import plural, size_text, time_text


@record_type
class Amount(Record):
    """An amount of a program before and after a change, as both were compiled.

    Args:
        name: `peak per device`, `sent per device`, `instructions`, ….
        unit: `B` of bytes, `operations`, or empty of a count.
    """

    name: str
    before: float
    after: float
    unit: str = "B"


def amount_text(a: Amount) -> str:
    """An amount in words.

    >>> amount_text(Amount("peak per device", 2048, 16)), amount_text(Amount("instructions", 1200, 40, ""))
    ('peak per device 2.05 KB → 16 B', 'instructions 1,200 → 40')
    """
    spelled = {"B": size_text, "": lambda n: f"{n:,.0f}"}
    shown = spelled.get(a.unit, lambda n: f"{n:.4g}")
    return f"{a.name} {shown(a.before)} → {shown(a.after)}"


@record_type
class Finding(Record):
    """One thing that could be otherwise.

    Args:
        kind: `unused argument`, `missed donation`, `captured constant`, `widened type`, `removable collective`, ….
        text: what is the case, in the user's names.
        nbytes: bytes on each device that it takes, 0 if not known or none.
        us: predicted time that it takes in one run, 0 if not known or none.
        change: what to write instead; empty if nothing is known.
        proof: what changed when the program was compiled with the change, before → after.
        outcome: the amounts of the proof; empty only where there is none.
        measured_us: what a run took before and after the change, where both were run; empty where they were not.
        tab: the tab of a report that shows it.
        source, equation, program: where.
        call: the function it is in, or the named scopes.
        collectives: how many collectives that nobody wrote it is about; over all findings of a program these are its surprises.
        times: at how many equations of the line it is the case; `nbytes`, `us` and `collectives` are of all.
    """

    kind: str
    text: str
    nbytes: int = 0
    us: float = 0.0
    change: str = ""
    proof: str = ""
    tab: str = "program"
    source: Source | None = None
    equation: int = -1
    program: int = 0
    call: str = ""
    measured_us: tuple[float, ...] = ()
    collectives: int = 0
    times: int = 1
    outcome: tuple[Amount, ...] = ()

    @property
    def provable(self) -> bool:
        """Whether something is left to compile or to run.

        >>> Finding("", "").provable, Finding("", "", change="drop it").provable
        (True, False)
        """
        return not self.measured_us and bool(self.proof or not self.change)

    @property
    def layer(self) -> str:
        """The function it is in as one would say it; empty where that has no name.

        >>> [Finding("", "", call=c).layer for c in ("decoder/block", "make.<locals>.block", "f.<locals>.<lambda>")]
        ['decoder/block', 'block', '']
        """
        name = self.call.rpartition("<locals>.")[2]
        return "" if "<" in name else name

    @property
    def measured(self) -> str:
        """What the change made of the time of a run, in words.

        >>> Finding("", "", measured_us=(2000.0, 500.0)).measured
        'measured a run: 2.00 ms → 500 µs'
        """
        if len(self.measured_us) != 2:
            return ""
        before, after = self.measured_us
        return f"measured a run: {time_text(before)} → {time_text(after)}"

    @property
    def amount(self) -> str:
        """What it costs, in words.

        >>> Finding("", "", nbytes=2048).amount, Finding("", "", nbytes=2048, collectives=2).amount
        ('2.05 KB', '2 collectives, 2.05 KB')
        >>> Finding("", "", nbytes=2048, times=3).amount
        '3 times, 2.05 KB'
        """
        parts = [plural(self.collectives, "collective")] * (self.collectives > 1)
        parts = parts or [f"{self.times} times"] * (self.times > 1)
        parts += [time_text(self.us)] * bool(self.us) + [size_text(self.nbytes)] * bool(self.nbytes)
        return ", ".join(parts)


@record_type
class Pattern(Record):
    """A way to divide work that is known by a name: the collectives that belong to it are no findings.

    Args:
        name: `data-parallel gradient sum`, ….
        count: how many collectives belong to it.
        sent: bytes that a device sends for it in one run.
        axes: the mesh axes it runs over.
        equations: of these collectives.
    """

    name: str
    count: int = 1
    sent: int = 0
    axes: tuple[str, ...] = ()
    equations: tuple[int, ...] = ()
    program: int = 0


def finding_line(f: Finding) -> str:
    """A finding with its change, as text of a line or two."""
    amount = f" ({f.amount})" if f.amount else ""
    where = f", {line_text(f.source)}" if f.source else ""
    where += f" in {f.layer}" if f.layer else ""
    lines = [f"{f.kind}: {f.text}{amount}{where}"]
    if f.change:
        lines.append(
            f"  change: {f.change}"
            + (f"  [{'; '.join(filter(None, (f.proof, f.measured)))}]" if f.proof else "")
        )
    return "\n".join(lines)


def _findings(found: Sequence[Finding], o: Options) -> str:
    shown, more = limited(found, o, "finding")
    return "\n".join([*map(finding_line, shown), *more])


def pattern_text(p: Pattern) -> str:
    """`data-parallel gradient sum over data: 12 collectives, 1.20 MB sent`."""
    over = f" over {', '.join(p.axes)}" if p.axes else ""
    return f"{p.name}{over}: {plural(p.count, 'collective')}, {size_text(p.sent)} sent"


def surprise_text(collectives: int, surprises: int) -> str:
    """How many collectives nobody would expect.

    >>> surprise_text(25, 2)
    '2 of 25 collectives are surprises'
    >>> surprise_text(7600, 1900)
    '1,900 of 7,600 collectives are surprises'
    >>> surprise_text(1, 0)
    'no surprise: 1 collective'
    """
    if not surprises:
        return f"no surprise: {plural(collectives, 'collective')}"
    return f"{surprises:,} of {plural(collectives, 'collective')} {'is a surprise' if surprises == 1 else 'are surprises'}"


add_form(Amount, lambda a, o: amount_text(a))
add_form(Finding, lambda f, o: finding_line(f))
add_table(Finding, _findings)
add_form(Pattern, lambda p, o: pattern_text(p))
