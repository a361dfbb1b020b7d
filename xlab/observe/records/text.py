"""The text form of every record: its `repr`, the terminal's answer, a notebook's `text/plain`, what tests compare.

Each stands beside its record; here is how they are found. Calm, aligned and deterministic: no measured time appears unless asked
for, and a cut says what was cut.

>>> from xlab.observe.records import ArrayLayout, MeshInfo, Type
>>> mesh = MeshInfo(("data", "model"), (4, 2))
>>> print(text(ArrayLayout("", Type("f32", (8, 4), (("data",), ("model",))), mesh, shard_shape=(2, 2))))
f32[8@data,4@model] over data=4 model=2: shard f32[2,2], 1 copy
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xlab.observe.records.base import Record, fields_text, set_text_form
from xlab.observe.records.units import plural

LIMIT = 200


@dataclass(frozen=True)
class Options:
    """Options of a text form: whether to show measured times, and how many rows of a list."""

    times: bool = False
    limit: int | None = LIMIT


_forms: dict[type, Callable[[Any, Options], str]] = {}
_tables: dict[type, Callable[[Sequence[Any], Options], str]] = {}


def text(record: Any, *, times: bool = False, limit: int | None = LIMIT) -> str:
    """Return the text form of a record, or of a tuple of records of one kind.

    Args:
        record: any record, or a tuple of them (a tuple of transfers or phases becomes one table).
        times: include measured times, which differ from run to run.
        limit: how many rows of one list to show; None shows all.

    >>> from xlab.observe.records import Source
    >>> print(text(Source("cell", 3, function="f", text="  y = sin(x)")))
    cell:3 (f)  y = sin(x)
    """
    return signed(_unsigned(record, Options(times, limit)), record)


def indented(words: str) -> str:
    """Lines of a section, two spaces in."""
    return "  " + words.replace("\n", "\n  ")


def _unsigned(record: Any, options: Options) -> str:
    form = _forms.get(type(record))
    if form is None and isinstance(record, tuple):
        if not record:
            return "nothing recorded"
        table = _tables.get(type(record[0]))
        if table is not None:
            return table(record, options)
        return "\n".join(text(x, times=options.times, limit=options.limit) for x in record)
    if form is None and isinstance(record, Record):
        return fields_text(record)
    if form is None:
        raise TypeError(
            f"text() takes a record of xlab.observe or a tuple of them; given {type(record).__name__}."
        )
    return form(record, options)


def signed(body: str, record: Any) -> str:
    """A text with the line that says who traced and who compiled what it is about, where that was not this package.

    It stands under the heading; over a table or a listing, which have none.

    >>> signed("nothing recorded", OneProgram((), made_by="compiled by another"))
    'compiled by another\\nnothing recorded'
    """
    by = getattr(record, "made_by", "")
    if not by:
        return body
    if isinstance(record, tuple) or body.startswith(" "):
        return f"{by}\n{body}"
    head, *rest = body.split("\n", 1)
    return "\n".join([head, f"  {by}", *rest])


class OneProgram(tuple):
    """Records of one program.

    Attributes:
        made_by: who traced and who compiled it, where that was not this package.
    """

    made_by: str = ""

    def __new__(cls, records: Iterable[Any] = (), made_by: str = "") -> OneProgram:
        made = super().__new__(cls, records)
        if made_by:
            made.made_by = made_by
        return made

    def __repr__(self) -> str:
        return signed(super().__repr__(), self)


def add_form(kind: type, form: Callable[[Any, Options], str]) -> None:
    """Gives a record its text form."""
    _forms[kind] = form


def add_table(kind: type, form: Callable[[Sequence[Any], Options], str]) -> None:
    """Gives tuples of a record a text form as one table."""
    _tables[kind] = form


def limited(
    items: Sequence[Any], o: Options, noun: str, indent: str = "  "
) -> tuple[Sequence[Any], list[str]]:
    """The first items of a list, and a line that says how many more there are."""
    if o.limit is None or len(items) <= o.limit:
        return items, []
    more = len(items) - o.limit
    return items[: o.limit], [
        f"{indent}… {plural(more, 'more ' + noun)}: text(record, limit=None) shows all"
    ]


set_text_form(text)
