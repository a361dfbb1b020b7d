"""The live widget: one anywidget class for every view, imported only when a live output is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from xlab.notebook import assets
from xlab.notebook.views import page
from xlab.notebook.views.base import Handler, View, answer
from xlab.observe.records import Record

PACKED_FROM = 1000
"""Lines of programs from which on a live page is sent its data packed."""


class ReportWidget(anywidget.AnyWidget):
    """A record drawn live. The page may ask only what the view lists; `handlers` answer, by request name.

    Each widget carries a small loader; the module of all views is sent once per page.
    """

    _esm = assets.loader()
    payload = traitlets.Dict().tag(sync=True)

    def __init__(
        self, view: View, record: Record, handlers: Mapping[str, Handler] | None = None
    ) -> None:
        whole = view.payload(record)
        super().__init__(payload=_sent(whole))
        self._saved = view.bundle(record, whole)
        self._view = view
        self._handlers = {**view.handlers(record), **(handlers or {})}
        self.on_msg(self._hear)
        if self.comm is not None and hasattr(self.comm, "on_close"):
            self.comm.on_close(lambda _message: self.close())

    def _hear(self, _widget: Any, message: Any, _buffers: Any) -> None:
        if isinstance(message, dict) and message.get("ask") == "module":
            self.send({"module": assets.module(), "css": assets.styles()})
        else:
            self.send(answer(self._view, self._handlers, message))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Text and a saved page beside the live view, so that the output reads where no kernel is."""
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if isinstance(live, tuple) else (live, {})
        return {**(data or {}), **self._saved}, metadata

    @property
    def is_open(self) -> bool:
        """Whether it is still there for a page."""
        return self.comm is not None

    def close(self) -> None:
        """Stop answering and let the record's session go; the same where the page closes its end."""
        self._handlers.clear()
        self._saved = {}
        layout = self.layout
        super().close()
        layout.close()          # a widget of its own, which would stay behind


def _sent(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload, its data packed where it is large: a program of many equations is ten times smaller then."""
    programs = (payload["data"] or {}).get("programs") or ()
    if sum(len(p["rows"]["text"]) for p in programs) < PACKED_FROM:
        return {name: payload[name] for name in ("view", "tree", "data")}
    return {"view": payload["view"], "tree": payload["tree"], "packed": page.packed_data(payload)}
