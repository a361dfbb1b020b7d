"""Collectives: who sends how much to whom, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from xlab.interpreters import communication
from xlab.interpreters.communication_costs import sent_in_all
from xlab.observe.records.base import Record, record_type
from xlab.observe.records.overlap import Overlap, between_text, ideal_text, span_text
from xlab.observe.records.program import MeshInfo
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.text import Options, add_form, add_table, limited
from xlab.observe.records.units import plural, size_text, table, time_text

CAUTION = "(!)"
"""Stands behind what the partitioner moves because two shardings disagree."""


@record_type
class Transfer(Record):
    """One collective: its messages, its cost, and why it is there.

    Args:
        kind: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `collective_permute`, …
        reduction: `add`, `max`, …; empty when nothing is reduced.
        axes: mesh axes it runs over; empty when the groups are not whole axes.
        groups: device ids, one tuple per group.
        pairs: `(source, target)` device ids of a permute.
        bytes_in, bytes_out: what each device has before and after, each time it runs.
        times: how often it runs (loop trips multiplied), None = not known.
        predicted_us, measured_us, wait_us: one time it runs; the last two of the slowest device, waiting for others counted in.
            None = not known, as the waiting for other processes is in the report of one of them.
        runs: how often it ran where it was measured.
        formula: the text of the prediction, numbers included.
        origin: `user` (written in the program) or `partitioner` (added by the compiler).
        call: what the user wrote, for origin `user` (`psum`).
        reason: why the partitioner needed it, one sentence.
        fix: what would remove it; `tried` says that the program was compiled like that and it is gone, with nothing larger in its place.
        operand: the type it moves, as text.
        dtype: of what it moves.
        type_in, type_out: types before and after with how they vary over manual axes, for origin `user`.
        stablehlo: the line of the lowered program, for origin `user`.
        sent_as_written: where another collective carries out the one that was written, the bytes a device would send for that, as the mean.
        instruction: its name in the compiled module.
        rounds: per round, `(source, target, bytes)` per message.
        value, needed: the user's name of the value that the partitioner moves, and what needs it otherwise, in words.
        full_rematerialization: every device rebuilds a whole array to keep a part of it.
        pattern: the way to divide work that it belongs to, by its name.
        arrivals: of a run in several processes `(process, device, wait_us, move_us)`: how long each device waited for the last one to come, and
            what it took from then on.
        overlap: of one that is started and waited for later, what is computed in between.
    """

    kind: str
    reduction: str = ""
    axes: tuple[str, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    times: int | None = None
    predicted_us: float | None = None
    formula: str = ""
    measured_us: float | None = None
    wait_us: float | None = None
    origin: str = "user"
    call: str = ""
    reason: str = ""
    fix: str = ""
    operand: str = ""
    instruction: str = ""
    equation: int = -1
    program: int = 0
    source: Source | None = None
    rounds: tuple[tuple[tuple[int, int, int], ...], ...] = ()
    mesh: MeshInfo | None = None
    runs: int | None = None
    tried: bool = False
    value: str = ""
    needed: str = ""
    full_rematerialization: bool = False
    overlap: Overlap | None = None
    dtype: str = ""
    type_in: str = ""
    type_out: str = ""
    stablehlo: str = ""
    sent_as_written: float | None = None
    pattern: str = ""
    arrivals: tuple[tuple[int, int, float, float], ...] = ()

    @property
    def sent(self) -> float:
        """Bytes a device sends each time it runs, in a bandwidth-optimal algorithm: the mean over all devices of the mesh.

        >>> Transfer("all_gather", groups=((0, 1, 2, 3),), bytes_in=8).sent
        24.0
        """
        if not self.groups and not self.pairs:
            sizes = (
                dict(zip(self.mesh.axis_names, self.mesh.axis_sizes))
                if self.mesh is not None
                else {}
            )
            known = (
                bool(self.axes)
                and set(self.axes) <= set(sizes)
                and not communication.by_pairs(self.kind)
            )
            n = math.prod(sizes[a] for a in self.axes) if known else 0
            return (
                sent_in_all(self.kind, (tuple(range(n)),), (), self.bytes_in) / n
                if known
                else float(self.bytes_in)
            )
        devices = (
            self.mesh.size
            if self.mesh is not None
            else len({d for g in (*self.groups, *self.pairs) for d in g})
        )
        return sent_in_all(self.kind, self.groups, self.pairs, self.bytes_in) / max(1, devices)

    @property
    def sent_in_run(self) -> int:
        """`sent`, loop trips multiplied; a loop of unknown length counts once."""
        return round(self.sent * (1 if self.times is None else self.times))

    @property
    def removed(self) -> bool:
        """Whether the program says it and no run has it: the compiled module has none, which costs nothing."""
        return self.times == 0

    @property
    def reshards(self) -> bool:
        """Whether the partitioner moves data only because two shardings disagree; sums of parts, and what belongs to a known pattern, are part of
        the work."""
        return (
            self.origin == "partitioner"
            and not self.pattern
            and not communication.reduces(self.kind)
        )

    @property
    def surprises(self) -> bool:
        """Whether nobody wrote it, and it belongs to no known way to divide work."""
        return self.origin == "partitioner" and not self.pattern


def transfer_name(t: Transfer) -> str:
    """`all_reduce add`."""
    return f"{t.kind} {t.reduction}".strip()


def transfer_over(t: Transfer) -> str:
    """The mesh axes, or the groups, it runs over."""
    if t.axes:
        return ",".join(t.axes)
    if t.groups:
        return f"{plural(len(t.groups), 'group')} of {len(t.groups[0])}"
    return f"{plural(len(t.pairs), 'pair')}" if t.pairs else "all"


def times_text(t: Transfer) -> str:
    """How often it runs.

    >>> [times_text(Transfer("all_gather", times=n)) for n in (3, None, 0)]
    ['3', '?', 'removed']
    """
    return "removed" if t.removed else "?" if t.times is None else str(t.times)


def transfer_origin(t: Transfer, caution: str = CAUTION) -> str:
    """`you (psum)`, `partitioner`, or `partitioner (!)` where two shardings disagree; behind it the pattern that it belongs to.

    >>> transfer_origin(Transfer("all_gather", origin="partitioner", pattern="FSDP gather"))
    'partitioner: FSDP gather'
    """
    who = "partitioner" if t.origin != "user" else f"you ({t.call})" if t.call else "you"
    return who + (f": {t.pattern}" if t.pattern else f" {caution}" if t.reshards else "")


def how_many_run(transfers: Iterable[Transfer]) -> int:
    """How many collectives a run has: not those that the compiler removed."""
    return sum(not t.removed for t in transfers)


def advice_word(tried: bool) -> str:
    """The word before advice: another one where the advice was tried and worked."""
    return "Remove it: " if tried else "Might remove it (not tried): "


def sentences(reason: str, fix: str, tried: bool = True) -> str:
    """A reason and what to do about it, as sentences.

    >>> sentences("w is split", "keep it whole"), sentences("", "keep it whole", tried=False)
    ('w is split. Remove it: keep it whole.', 'Might remove it (not tried): keep it whole.')
    """
    return " ".join(
        s + "." * (not s.endswith("."))
        for s in (reason, f"{advice_word(tried)}{fix}" if fix else "")
        if s
    )


def transfer_cost(t: Transfer) -> float:
    """A sort key: the predicted time if known, else bytes, times how often the collective runs."""
    us = t.predicted_us if t.predicted_us is not None else max(t.bytes_in, t.bytes_out) / 1e6
    return us * (1 if t.times is None else t.times)


def alike(transfers: Sequence[Transfer]) -> list[list[int]]:
    """Positions of collectives that are told in one row: of one kind, size, line and origin; those that cost most first.

    >>> alike([Transfer("all_gather", bytes_in=n, predicted_us=5.0) for n in (1, 8, 8)])
    [[1, 2], [0]]
    """
    groups: dict[tuple, list[int]] = {}
    for n, t in enumerate(transfers):
        what = (t.program, transfer_name(t), transfer_over(t), t.bytes_in, t.bytes_out, t.times)
        who = (transfer_origin(t), t.full_rematerialization, t.overlap is not None)
        where = (t.source.file, t.source.line) if t.source else None
        groups.setdefault((*what, *who, where), []).append(n)
    for found in groups.values():
        found.sort(key=lambda n: -transfer_cost(transfers[n]))
    return sorted(groups.values(), key=lambda g: -sum(transfer_cost(transfers[n]) for n in g))


def reason_key(t: Transfer) -> tuple:
    """What reasons that are said once have in common: a pattern, or the sentence, whichever layer and line it is about.

    >>> a, b = (Transfer("all_gather", reason=f"`p[{n}]` is split, dot (line {n}) needs it") for n in (1, 2))
    >>> reason_key(a) == reason_key(b)
    True
    """
    if t.pattern:
        return transfer_name(t), t.pattern
    said = (re.sub(r"`[^`]*`|\(\D*line \d+\)", _without_digits, x) for x in (t.reason, t.fix))
    return transfer_name(t), *said, t.tried


def _without_digits(found: re.Match) -> str:
    return re.sub(r"\d+", "#", found[0])


def why_of(t: Transfer) -> str:
    """Why a collective is there and what to do about it; one of a known pattern needs nothing done."""
    return (
        sentences(f"{t.pattern}: {t.reason}" if t.reason else t.pattern, "")
        if t.pattern
        else sentences(t.reason, t.fix, t.tried)
    )


def overlap_text(o: Overlap) -> str:
    """The span of a collective that is started, in a line."""
    return span_text(o) if o.done < 0 else f"{span_text(o)}, {between_text(o)}; {ideal_text(o)}"


def transfers_table(transfers: Sequence[Transfer], o: Options) -> str:
    groups, more = limited(alike(transfers), o, "row")
    shown = [transfers[n] for g in groups for n in g]
    rows = [
        (
            "op",
            "over",
            "in → out per device",
            "× times",
            "predicted",
            *(("measured", "wait") if o.times else ()),
            "origin",
            "line",
        )
    ]
    for g in groups:
        t = transfers[g[0]]
        measured = (time_text(t.measured_us), time_text(t.wait_us)) if o.times else ()
        rows.append(
            (
                transfer_name(t),
                transfer_over(t),
                f"{size_text(t.bytes_in)} → {size_text(t.bytes_out)}",
                times_text(t)
                if t.times is not None
                else f"? ({t.runs} measured)"
                if o.times and t.runs
                else "?",
                time_text(t.predicted_us),
                *measured,
                transfer_origin(t),
                (f"{len(g)} × " if len(g) > 1 else "") + line_text(t.source),
            )
        )
    lines = [table(rows, "llrrr" + ("rr" if o.times else "") + "ll")]
    reasons: dict[tuple, dict[str, None]] = {}
    for t in shown:
        if t.reason or t.pattern:
            reasons.setdefault(reason_key(t), {})[f"  {transfer_name(t)}: {why_of(t)}"] = None
    for said in reasons.values():
        lines.append(next(iter(said)) + (f" {len(said) - 1} more like it." * (len(said) > 1)))
    for t in shown:
        if t.overlap is not None:
            lines.append(f"  {transfer_name(t)}: {overlap_text(t.overlap)}")
    if len(transfers) > 1:
        lines.append("  in one run: " + run_line(transfers))
    if o.times and any(t.measured_us is not None for t in shown):
        lines.append(
            "  measured: each time it ran, on its slowest device, waiting for the others included"
        )
    return "\n".join(lines + more)


def run_line(transfers: Sequence[Transfer]) -> str:
    """What one run of a program sends over each axis, and what all of it should take; trips of loops multiplied.

    >>> run_line([Transfer("all_gather", axes=("a",), groups=((0, 1),), bytes_in=8, times=3, predicted_us=2.0)])
    'each device sends 24 B over a; 6.00 µs predicted'
    """
    sent: dict[str, int] = {}
    us = 0.0
    for t in transfers:
        times = 1 if t.times is None else t.times
        sent[transfer_over(t)] = sent.get(transfer_over(t), 0) + t.sent_in_run
        us += (t.predicted_us or 0.0) * times
    parts = [f"{size_text(n)} over {name}" for name, n in sorted(sent.items())]
    unknown = " (loops of unknown length counted once)" * any(t.times is None for t in transfers)
    return f"each device sends {', '.join(parts)}; {time_text(us)} predicted{unknown}"


def _transfer(t: Transfer, o: Options) -> str:
    times = ", removed" if t.removed else f" × {times_text(t)}"
    line = (
        f"{transfer_name(t)} over {transfer_over(t)}: {size_text(t.bytes_in)} → {size_text(t.bytes_out)} per device"
        f"{times}, {transfer_origin(t)}" + (f", {line_text(t.source)}" if t.source else "")
    )
    extra = [
        f"{t.type_in} → {t.type_out}" if t.type_in and t.type_out else "",
        t.reason,
        overlap_text(t.overlap) if t.overlap is not None else "",
        f"{advice_word(t.tried)}{t.fix}" if t.fix and not t.pattern else "",
        f"t = {t.formula}" if t.formula else "",
    ]
    return "\n".join([line, *("  " + e for e in extra if e)])


add_form(Transfer, _transfer)
add_table(Transfer, transfers_table)
