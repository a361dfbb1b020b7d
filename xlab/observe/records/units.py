"""How numbers and tables are written, everywhere: three significant digits, a unit, aligned columns."""

from __future__ import annotations

import math
from collections.abc import Sequence


def size_text(count: float | None) -> str:
    """Bytes with three significant digits; 1 KB is 1000 B.

    >>> size_text(16), size_text(8192), size_text(1_210_000), size_text(None)
    ('16 B', '8.19 KB', '1.21 MB', '?')
    """
    if count is None:
        return "?"
    value = float(count)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            break
        value /= 1000.0
    return f"{significant(value, trim=True)} {unit}"


def processes_text(numbers: Sequence[int]) -> str:
    """Processes by their numbers.

    >>> processes_text([1]), processes_text([0, 2])
    ('process 1', 'processes 0, 2')
    """
    return f"process{'es' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def listed(parts: Sequence[str], most: int, noun: str = "") -> str:
    """Parts with commas between them; of many the first, and how many more there are.

    >>> listed(["a", "b"], 2), listed("abcd", 2), listed("abcd", 3, "argument")
    ('a, b', 'a, b and 2 more', 'a, b, c and 1 more argument')
    """
    left = len(parts) - most
    more = "" if left <= 0 else f" and {plural(left, f'more {noun}') if noun else f'{left:,} more'}"
    return ", ".join(parts[:most]) + more


def time_text(us: float | None) -> str:
    """Microseconds with three significant digits.

    >>> time_text(31.0), time_text(3100.0), time_text(1_420_000.0), time_text(None)
    ('31.0 µs', '3.10 ms', '1.42 s', '?')
    """
    if us is None:
        return "?"
    if abs(us) < 999.5:
        return f"{significant(us)} µs"
    return f"{significant(us / 1e3)} ms" if abs(us) < 999_500 else f"{significant(us / 1e6)} s"


def significant(value: float, trim: bool = False) -> str:
    """Three significant digits, no exponent between 1e-3 and 1e6.

    >>> significant(0.123456), significant(31.0), significant(40.0, trim=True), significant(1e-9)
    ('0.123', '31.0', '40', '1e-09')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    value = float(f"{value:.3g}")
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    shown = f"{value:.{digits}f}"
    return shown.rstrip("0").rstrip(".") if trim and "." in shown else shown


def plural(count: int, noun: str) -> str:
    """`1 copy`, `2 copies`, `3 equations`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("py") else f"{count:,} {noun}s"


def table(
    rows: Sequence[Sequence[str]], align: str = "", indent: str = "  ", gap: str = "   "
) -> str:
    """Align columns; `align` has `l` or `r` per column, the last one is never padded.

    >>> print(table([("op", "bytes"), ("all_reduce", "8 B")], "lr"))
      op           bytes
      all_reduce     8 B
    """
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(w) if align[i : i + 1] == "r" else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + gap.join(cells)).rstrip())
    return "\n".join(lines)


def an(word: str) -> str:
    """A word with its article.

    >>> an("all_gather"), an("collective_permute")
    ('an all_gather', 'a collective_permute')
    """
    return f"{'an' if word[:1] in 'aeio' else 'a'} {word}"
