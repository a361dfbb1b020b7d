"""A figure as text, for files and pages: what matplotlib drew of a record."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import add_form


@record_type
class Drawing(Record):
    """One figure; `kind` is its media type, `parts` are the file cut into pieces that a page takes whole."""

    of: str
    kind: str = "image/svg+xml"
    parts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole file."""
        return "".join(self.parts)


add_form(Drawing, lambda d, o: f"figure of the {d.of}, {d.kind}, {len(d.text):,} characters")
