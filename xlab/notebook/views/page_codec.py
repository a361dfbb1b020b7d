"""The encoding of a page's data: JSON, delta-coded, deflate behind the usual text, base64. `unpack` and `swell` in `js/views` decode it.

What repeats in programs is not the text but its form: lines that differ in numbers alone, and numbers that grow by one. What repeats
from page to page, fields and lines that nearly all have, stands once in the script, and the data of a page refers to it.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import re
import zlib
from collections.abc import Sequence
from itertools import chain
from operator import sub
from typing import Any

from xlab.notebook import assets

LONG = 32
"""Length from which a list is worth squeezing."""

WORDY = 24
"""Characters that the lines of a list have on average from which they are."""

MOST_LINES = 20_000
"""Lines of a longer list go as they are: opening it soon is worth more than its size."""

_NUMBER = re.compile(r"([0-9](?<![0-9][0-9])(?:(?<!0)[0-9]{0,14})?(?![0-9]))")
"""A number that is written as it is read: all its digits, no zero in front. It begins with a digit, so that what is none is passed over quickly."""


def squeeze(value: Any) -> Any:
    """Encodes long lists of ints, of lists of ints and of lines as differences, ten times smaller.

    >>> squeeze([7] * 40)["~d"][:3]
    [7, 0, 0]
    >>> squeeze([[1, 5], [2, 6, 7]] * 20)["~r"][:7]
    [2, 1, 5, 3, 1, 1, 1]
    >>> made = squeeze([f"  %add.{i} = f32[8] add(%mul.{i + 3})" for i in range(40)])["~t"]
    >>> made[0], made[2][:4]
    (['  %add.\\x00 = f\\x00[\\x00] add(%mul.\\x00)'], [0, 1, 1, 1])
    """
    if isinstance(value, dict):
        return {k: squeeze(v) for k, v in value.items()}
    if not isinstance(value, list) or not value:
        return value
    if set(map(type, value)) == {int}:
        return {"~d": _steps(value)} if len(value) >= LONG else value
    if type(value[0]) is str:
        return _lines(value) if LONG <= len(value) <= MOST_LINES and _wordy(value) else value
    if not isinstance(value[0], (list, dict)):
        return value
    if (
        len(value) < LONG
        or set(map(type, value)) != {list}
        or not set(map(type, chain.from_iterable(value))) <= {int}
    ):
        return [squeeze(x) for x in value]
    # The first of each row follows the first of the row before, the others follow one another.
    flat: list[int] = []
    first = last = 0
    for row in value:
        flat.append(len(row))
        for i, x in enumerate(row):
            flat.append(x - (last if i else first))
            first, last = (first, x) if i else (x, last)
    return {"~r": flat}


def _steps(values: Sequence[int]) -> list[int]:
    return list(map(sub, values, chain((0,), values)))


def _wordy(value: list[Any]) -> bool:
    if set(map(type, value)) != {str} or sum(map(len, value)) < WORDY * len(value):
        return False
    return not any("\0" in x or "\n" in x for x in value)


def _lines(lines: list[str]) -> dict[str, Any]:
    """Forms of lines with a hole for each number, the form of each line, and per form the numbers of its holes, one hole after the other."""
    parts = _NUMBER.split("\n".join(lines))
    numbers = list(map(int, parts[1::2]))
    forms: dict[str, int] = {}
    rows: list[list[list[int]]] = []
    which = []
    end = 0
    for form in "\0".join(parts[::2]).split("\n"):
        at = forms.setdefault(form, len(forms))
        if at == len(rows):
            rows.append([])
        which.append(at)
        begin, end = end, end + form.count("\0")
        rows[at].append(numbers[begin:end])
    steps = (_steps(column) for of in rows for column in zip(*of, strict=True))
    return {"~t": [list(forms), which, list(chain.from_iterable(steps))]}


def pack(value: Any) -> str:
    """JSON, deflate with the usual text as its dictionary, base64: what the page unpacks with `DecompressionStream`."""
    text = json.dumps(squeeze(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    press = zlib.compressobj(_level(text), zlib.DEFLATED, -15, zdict=usual())
    return base64.b64encode(press.compress(text.encode()) + press.flush()).decode()


@functools.cache
def usual() -> bytes:
    """The text that the script has: the strings of `js/kit/usual.js`, one after the other.

    >>> 3_000 < len(usual()) < 32_768
    True
    """
    source = (assets.ROOT / "kit/usual.js").read_text(encoding="utf-8")
    return "".join(json.loads(source[source.index("[") : source.rindex("]") + 1])).encode("ascii")


def _level(text: str) -> int:
    """Of very long text the last percents are not worth the wait."""
    return 9 if len(text) < 2_000_000 else 1


def pack_text(text: str) -> str:
    """Text as gzip in base64."""
    return base64.b64encode(gzip.compress(text.encode(), _level(text), mtime=0)).decode()
