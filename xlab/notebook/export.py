"""A report as one self-contained HTML file, readable by people who have no kernel, no network and no script."""

from __future__ import annotations

import os
from pathlib import Path

from xlab.notebook.views import page, view_for
from xlab.observe.records import Record


def write_html(record: Record, path: str | os.PathLike[str]) -> Path:
    """Write a report, or any record a view draws, as one HTML file; return its path.

    >>> import tempfile
    >>> from xlab.observe.records import Report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_html(Report("step"), f"{folder}/step.html").name
    'step.html'
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {target}: the folder {target.parent} does not exist; create it first."
        )
    target.write_text(page.document(view_for(record), record), encoding="utf-8", errors="replace")
    return target


def to_html(record: Record) -> str:
    """The same document as a str."""
    return page.document(view_for(record), record)
