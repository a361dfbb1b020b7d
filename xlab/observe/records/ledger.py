"""Why programs were compiled: a sentence per compile, its key beside the earlier ones, the fix."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source
from xlab.observe.records.text import add_form, indented
from xlab.observe.records.units import plural, table, time_text

MOST_ROWS = 12

_NTH = (
    "",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)


@record_type
class Difference(Record):
    """One part of a cache key that changed. `cause`: shape, dtype, weak type, structure, static value, sharding, …"""

    cause: str
    what: str = ""
    was: str = ""
    now: str = ""


@record_type
class Compilation(Record):
    """One compile in the ledger: the `nth` of its function, `reason` as a sentence, the `fix` as code, `spent_us` all of them until then.

    `cache`: `disk hit` or `disk miss` where the persistent cache was asked, `disk` why it missed. `key` has `(part, text)` for parts that
    differ from an earlier key of the function; `earlier` are these keys, `(nth, parts)`, oldest first. `shared` is the equal program whose executable
    it uses: nothing was compiled.
    """

    function: str
    nth: int = 1
    duration_us: float = 0.0
    reason: str = ""
    fix: str = ""
    differences: tuple[Difference, ...] = ()
    source: Source | None = None
    cache: str = ""
    disk: str = ""
    key: tuple[tuple[str, str], ...] = ()
    earlier: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    spent_us: float = 0.0
    shared: str = ""


@record_type
class Ledger(Record):
    """Every compile of the session, oldest first."""

    entries: tuple[Compilation, ...] = ()


def nth_word(n: int) -> str:
    """A number of order.

    >>> nth_word(3), nth_word(12), nth_word(22)
    ('third', '12th', '22nd')
    """
    if n < len(_NTH):
        return _NTH[n]
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def sentence(c: Compilation, times: bool = True) -> str:
    """Why it was compiled, in one sentence, and what all compiles of the function took.

    >>> sentence(Compilation("step", 3, 4e5, "`x` went from f32[8] to f32[9]", spent_us=1.2e6))
    '`step` compiled again because `x` went from f32[8] to f32[9]; third compile, 1.20 s so far'
    """
    if c.shared:
        other = "before" if c.shared == c.function else f"`{c.shared}`"
        return f"`{c.function}` is the same program as {other} and uses its executable: nothing was compiled"
    done = "was loaded from disk" if c.cache == "disk hit" else "compiled"
    time = f", {time_text(c.spent_us)} so far" if times and c.spent_us else ""
    if c.nth == 1 and c.reason == f"`{c.function}` was never seen before":
        return f"`{c.function}` {done}, for the first time"
    again = f"`{c.function}` {done} again" if c.nth > 1 else f"`{c.function}` {done}"
    reason = (
        f"`{c.function}` was defined anew"
        if c.reason == f"`{c.function}` was never seen before"
        else c.reason
    )
    why = f" because {reason}" if c.nth > 1 and reason else f": {reason}" if reason else ""
    return f"{again}{why}" + (f"; {nth_word(c.nth)} compile{time}" if c.nth > 1 else "")


def difference_text(d: Difference) -> str:
    """What changed, in one line."""
    return (
        f"{d.cause} of {d.what}: {d.was} → {d.now}" if d.what else f"{d.cause}: {d.was} → {d.now}"
    )


def key_table(c: Compilation, limit: int | None = MOST_ROWS) -> str:
    """Earlier keys, one row each, where they differ from this one; what differs has a mark.

    >>> print(key_table(Compilation("f", 2, key=(("x", "f32[9]"), ("w", "f32[3]")), earlier=((1, (("x", "f32[8]"), ("w", "f32[3]"))),))))
      compile   x          w
            1   f32[8] *   f32[3]
         this   f32[9]     f32[3]
    """
    if not c.earlier:
        return ""
    shown = c.earlier if limit is None else c.earlier[-limit:]
    now = dict(c.key)
    head = ("compile", *now)
    rows = [
        (
            str(n),
            *(f"{value or '–'}{' *' if value != now.get(part) else ''}" for part, value in parts),
        )
        for n, parts in shown
    ]
    left = c.nth - 1 - len(shown)
    note = [f"  {plural(left, 'older key')} not shown"] if left > 0 else []
    return "\n".join(
        [table([head, *rows, ("this", *(v or "–" for v in now.values()))], "r"), *note]
    )


def compilation_text(c: Compilation, times: bool = False, limit: int | None = MOST_ROWS) -> str:
    """Head, the disk cache's word, what changed, the keys, the fix."""
    cached = {"disk hit": ", from disk", "disk miss": ", not on disk"}.get(c.cache, "")
    cached += f", shared: the same program as `{c.shared}`" if c.shared else ""
    head = f"{c.function}, compile {c.nth}{cached}" + (
        f", {time_text(c.duration_us)}" if times else ""
    )
    lines = [head + (f": {c.reason}" if c.reason else "")]
    lines += [f"  {c.disk}"] if c.disk else []
    lines += ["  " + difference_text(d) for d in c.differences if d.cause != "disk cache"]
    if c.nth > 2 and c.earlier:  # against one earlier key the differences say it all
        lines += ["  " + line for line in key_table(c, limit).split("\n")]
    return "\n".join(lines + ([f"  fix: {c.fix}"] if c.fix else []))


def compiles(ledger: Ledger) -> str:
    """How many programs were compiled, and how many used the executable of an equal one.

    >>> compiles(Ledger((Compilation("f"), Compilation("g", shared="f"))))
    '1 compile, and 1 equal program that used its executable'
    """
    shared = sum(bool(e.shared) for e in ledger.entries)
    made = plural(len(ledger.entries) - shared, "compile")
    return made + (
        f", and {plural(shared, 'equal program')} that used {'its' if made[0:2] == '1 ' else 'an'} executable"
        if shared
        else ""
    )


def ledger_text(ledger: Ledger, times: bool = False, limit: int | None = None) -> str:
    """All of them; of too many the latest."""
    total = f", {time_text(sum(e.duration_us for e in ledger.entries))} in all" if times else ""
    shown = ledger.entries if limit is None else ledger.entries[-limit:]
    more = len(ledger.entries) - len(shown)
    return "\n".join(
        [
            compiles(ledger) + total,
            *(
                [f"  … {plural(more, 'earlier compile')}: text(record, limit=None) shows all"]
                if more
                else []
            ),
            *(indented(compilation_text(e, times)) for e in shown),
        ]
    )


add_form(Difference, lambda d, o: difference_text(d))
add_form(Compilation, lambda c, o: compilation_text(c, o.times))
add_form(Ledger, lambda ledger, o: ledger_text(ledger, o.times, o.limit))
