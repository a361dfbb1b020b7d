"""What a view is, and what its page may ask the kernel.

A view turns one kind of record into a tree (`draw.py`) and the data its page needs. The page is the same with and without a
kernel; with one, it may send the requests its view lists and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from xlab.notebook import assets
from xlab.notebook.views.draw import Node, clean_json, h
from xlab.notebook.views.saved import saved_html
from xlab.notebook.views.static_svg import static_svg
from xlab.observe.records import Record
from xlab.observe.records.text import text

Json = Any


@dataclass(frozen=True)
class Field:
    """One argument of a request: its type, and the values or range it may take."""

    type: type
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Request:
    """A question the page may ask: its arguments, the record it answers with, and what it means."""

    name: str
    fields: Mapping[str, Field]
    answer: type[Record]
    meaning: str


VIEWS: list[View] = []
"""One of each view, in the order they were defined."""


class View:
    """Base of views. A subclass names its record, and draws; defining it is all that makes it known.

    Its script and style sheet are the `.js` and `.css` files of its name, in this room's `js/views` or beside the file that defines it. The
    script says which tabs it brings to life; a saved page without these tabs goes without it.

    Attributes:
        name: word shared by the Python file, the JavaScript file and the test.
        record_type: the record it draws.
        requests: what its page may ask the kernel.
        height: pixels of the frame a saved picture stands in; where scripts run, it fits itself.
        scripted: whether a saved page carries the script; a picture that is whole without it stays small.
    """

    name: ClassVar[str]
    record_type: ClassVar[type[Record]]
    requests: ClassVar[tuple[Request, ...]] = ()
    height: ClassVar[int] = 640
    scripted: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "record_type" in cls.__dict__:
            VIEWS[:] = [view for view in VIEWS if view.record_type is not cls.record_type] + [cls()]
            file = getattr(sys.modules.get(cls.__module__), "__file__", None)
            if file is not None:  # a view that is defined in a cell has no files
                assets.add(Path(file).parent, cls.name)

    def title(self, record: Any) -> str:
        """One line that names the record."""
        return str(getattr(record, "title", "") or getattr(record, "name", "") or self.name)

    def tree(self, record: Any) -> Node:
        """The picture: complete and readable with no script."""
        raise TypeError(f"{type(self).__name__} draws nothing: define tree(record)")

    def data(self, record: Any) -> Json:
        """What the page needs beyond the tree, as JSON."""
        return {}

    def handlers(self, record: Any) -> Mapping[str, Handler]:
        """Answers to requests that need nothing but the record."""
        return {}

    def payload(self, record: Any) -> dict[str, Json]:
        """Everything a live page is given."""
        tree = self.tree(record)
        if by := getattr(record, "made_by", ""):
            place = 3 if len(tree) > 2 and tree[2][0] == "header" else 2
            tree.insert(place, h("p", {"class": "xl-dim"}, by))
        return {"view": self.name, "tree": tree, "data": self.data(record)}

    def static_html(
        self, record: Any, payload: dict[str, Json] | None = None, code: bool = True
    ) -> str:
        """The HTML of an output; `payload` where it is made already, without `code` where another output has the script."""
        return saved_html(self, record, payload, code)

    def bundle(
        self, record: Any, payload: dict[str, Json] | None = None, code: bool = True
    ) -> dict[str, str]:
        """The display bundle of a record: its text form, its HTML, and its first drawing as an image."""
        payload = payload or self.payload(record)
        made = {"text/plain": text(record), "text/html": self.static_html(record, payload, code)}
        image = static_svg(payload["tree"])
        return made if image is None else {**made, "image/svg+xml": image}


Handler = Callable[..., Record]


def check_request(view: type[View] | View, message: Any) -> tuple[Request, dict[str, Any]]:
    """Return the request a message from the page makes, with its arguments; nothing unlisted passes.

    Raises:
        ValueError: the message is not a listed request with arguments of the listed types.
    """
    if not isinstance(message, dict) or not isinstance(message.get("ask"), str):
        raise ValueError("a message from the page is {'id': int, 'ask': name, 'arguments': {…}}")
    known = {r.name: r for r in view.requests}
    request = known.get(message["ask"])
    if request is None:
        raise ValueError(
            f"this view answers {sorted(known) or 'no requests'}; asked {message['ask'][:40]!r}"
        )
    given = message.get("arguments", {})
    if not isinstance(given, dict) or set(given) - set(request.fields):
        raise ValueError(f"{request.name} takes {sorted(request.fields)}")
    arguments = {}
    for name, field in request.fields.items():
        if name not in given:
            raise ValueError(f"{request.name} needs {name}")
        value = given[name]
        fits = type(value) is field.type and (not field.choices or value in field.choices)
        if fits and field.type in (int, float):
            fits = (field.low is None or value >= field.low) and (
                field.high is None or value <= field.high
            )
        if not fits:
            raise ValueError(
                f"{request.name}: {name} must be {field.type.__name__}"
                + (f", one of {field.choices}" if field.choices else "")
                + f"; given {str(value)[:40]!r}"
            )
        arguments[name] = value
    return request, arguments


def answer(view: View, handlers: Mapping[str, Handler], message: Any) -> dict[str, Json]:
    """Answer one message: `{'id', 'answer': record}` or `{'id', 'error': text}`; never raises."""
    number = (
        message.get("id") if isinstance(message, dict) and type(message.get("id")) is int else -1
    )
    try:
        request, arguments = check_request(view, message)
        if request.name not in handlers:
            raise ValueError(f"{request.name} needs a running kernel session; this output has none")
        record = handlers[request.name](**arguments)
        if not isinstance(record, request.answer):
            raise TypeError(
                f"{request.name} must answer with {request.answer.__name__}, not {type(record).__name__}"
            )
        return {"id": number, "answer": clean_json(record.to_json())}
    except Exception as error:
        return {"id": number, "error": f"{type(error).__name__}: {error}"[:2000]}
