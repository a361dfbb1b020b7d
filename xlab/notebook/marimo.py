"""marimo: objects and records display themselves there by their method `_mime_`, and `show` appends to the cell's output.

A page stands in a frame of its own, which marimo leaves as it is. Its cells have no magics: `from xlab.notebook import show`.
"""

from __future__ import annotations

import importlib
from typing import Any

from xlab.notebook import formatters


def mime(value: Any) -> tuple[str, str]:
    """What marimo asks of an object: a type, and data.

    >>> from xlab.sharding import AbstractMesh
    >>> mime(AbstractMesh((2,), ("data",)))[0]
    'text/html'
    """
    from xlab.notebook.views import view_for
    from xlab.notebook.views.saved import framed_html

    sharding = getattr(value, "sharding", None)
    if sharding is not None and len(sharding.device_set) < 2:
        return "text/plain", repr(value)
    shape = None
    if hasattr(value, "spec") and hasattr(value, "mesh"):  # a sharding, of no array: its mesh
        value = value.mesh
    record = formatters.record_of(value, shape)
    return "text/html", framed_html(view_for(record), record)


def register() -> None:
    """Gives the classes that have a picture the method."""
    from xlab.observe.records import Record

    for module, name in (*formatters._BUNDLES, *formatters._PAGES):
        found = getattr(importlib.import_module(module), name, None)
        if found is not None:
            found._mime_ = mime
    Record._mime_ = _of_record  # type: ignore[attr-defined]


def _of_record(record: Any) -> tuple[str, str]:
    """A record that no view draws is its text."""
    try:
        return mime(record)
    except TypeError:
        return "text/plain", repr(record)
