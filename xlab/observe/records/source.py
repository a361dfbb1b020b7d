"""Places in the user's code."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form


@record_type
class Source(Record):
    """A place in the user's code: `line` counts from 1, columns from 0, `text` is the whole line."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    text: str = ""


@record_type
class Listing(Record):
    """Consecutive source lines of one file; `lines[0]` is line number `first`. `name` is shown instead of `file`."""

    file: str
    first: int
    lines: tuple[str, ...]
    name: str = ""


def line_text(source: Source | None) -> str:
    return f"{source.file.rsplit('/', 1)[-1]}:{source.line}" if source else ""


def source_text(s: Source, o: Options) -> str:
    function = f" ({s.function})" if s.function else ""
    return f"{s.file}:{s.line}{function}" + (f"  {s.text.strip()}" if s.text else "")


def _listing(record: Listing, o: Options) -> str:
    digits = len(str(record.first + len(record.lines)))
    return "\n".join(
        [
            record.name or record.file,
            *(
                f"  {str(record.first + i).rjust(digits)}  {line}"
                for i, line in enumerate(record.lines)
            ),
        ]
    )


add_form(Source, source_text)
add_form(Listing, _listing)
