"""The live widget: one anywidget class for every view, imported only when a live output is made."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from xlab.notebook import assets
from xlab.notebook.views import page
from xlab.notebook.views.base import Handler, View, answer
from xlab.observe.records import Record

PACKED_FROM = 1000
"""Lines of programs from which on a live page is sent its data packed."""
TICK = 2.0
"""Seconds between two looks at a widget that a page has left. A kernel busy with a cell looks once, however long the cell takes."""
CHOICE = "application/vnd.xlab.view+json"
"""What `labextension/` draws in JupyterLab: the live view where there is one, and otherwise the saved page of the same output."""
WIDGET = "application/vnd.jupyter.widget-view+json"
"""What any front end with widgets draws, and shows as an error in a notebook opened again. Sent only where XLAB_WIDGETS=1 asks for it."""
WAIT, CALL = 30, 15
"""Ticks that a deleted output may be taken back in, and ticks that other pages have to say they still show it."""


class Front(anywidget.AnyWidget):
    """Module and styles of all views. A page gets them beside the first view it is sent, so no view waits for a kernel that is busy."""

    _esm = "export default {};"
    module = traitlets.Unicode().tag(sync=True)
    css = traitlets.Unicode().tag(sync=True)


_fronts: list[Front] = []


def front() -> str:
    """The name of this kernel's `Front`, made when first asked for, and again when a view with files has been added since."""
    module, css = assets.module(), assets.styles()
    if (
        not _fronts
        or _fronts[0].comm is None
        or (_fronts[0].module, _fronts[0].css) != (module, css)
    ):
        _fronts[:] = [Front(module=module, css=css)]
    return str(_fronts[0].model_id)


class ReportWidget(anywidget.AnyWidget):
    """A record drawn live. The page may ask only what the view lists; `handlers` answer, by request name. `ended` hears of its end.

    A page says when it shows the widget, and when nobody there looks any more because the output is gone: after a while in which the
    output may come back, and in which any other page may say that it still shows it, the widget closes. A page that is loaded again, or
    closed, says nothing, and nothing ends. Each widget carries a small loader; the module of all views stands in `front`.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    front = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        view: View,
        record: Record,
        handlers: Mapping[str, Handler] | None = None,
        ended: Callable[[], None] = lambda: None,
        payload: dict[str, Any] | None = None,
        code: bool = True,
    ) -> None:
        whole = payload or view.payload(record)
        saved = view.bundle(record, whole, code)
        super().__init__(payload=_sent(whole), front=front(), _esm=assets.loader())
        self._saved = saved
        self._view = view
        self._handlers = {**view.handlers(record), **(handlers or {})}
        self._ended = ended
        self._leaving: asyncio.TimerHandle | None = None
        self.on_msg(self._hear)
        if self.comm is not None and hasattr(self.comm, "on_close"):
            self.comm.on_close(lambda _message: self.close())

    def _hear(self, _widget: Any, message: Any, _buffers: Any) -> None:
        asked = message.get("ask") if isinstance(message, dict) else None
        if asked == "module":
            self.send({"module": assets.module(), "css": assets.styles()})
        elif asked == "here":
            self._stay()
        elif asked == "gone":
            self._stay()
            with contextlib.suppress(
                RuntimeError
            ):  # no event loop: it stays until its cell runs again
                self._leave(WAIT + CALL)
        else:
            self.send(answer(self._view, self._handlers, message))

    def _stay(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def _leave(self, ticks: int) -> None:
        """Closes in so many ticks, unless a page says that it shows this widget; all are asked before."""
        if ticks == CALL:
            self.send({"roll": True})
        if ticks <= 0:
            self.close()
        else:
            self._leaving = asyncio.get_running_loop().call_later(TICK, self._leave, ticks - 1)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Text and a saved page, and the name of the live view for a JupyterLab that has the extension: all others draw the page."""
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if isinstance(live, tuple) else (live, {})
        data = {**(data or {}), CHOICE: {"model_id": self.model_id}, **self._saved}
        if os.environ.get("XLAB_WIDGETS", "0") in ("", "0"):
            data.pop(WIDGET, None)
        return data, metadata

    @property
    def is_open(self) -> bool:
        """Whether the widget is still open."""
        return self.comm is not None

    def close(self) -> None:
        """Stop answering and let the record's session go; the same where the page closes its end."""
        self._stay()
        self._handlers.clear()
        self._saved = {}
        layout = self.layout
        super().close()
        layout.close()  # a widget of its own, which would stay behind
        self._ended()


def _sent(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload, its data packed where it is large: a program of many equations is ten times smaller then."""
    programs = (payload["data"] or {}).get("programs") or ()
    if sum(len(p["rows"]["text"]) for p in programs) < PACKED_FROM:
        return {name: payload[name] for name in ("view", "tree", "data")}
    return {"view": payload["view"], "tree": payload["tree"], "packed": page.packed_data(payload)}
