"""Messages from the page, fuzzed: whatever arrives, only a listed request with listed arguments reaches a handler."""

from __future__ import annotations

import json

import pytest

from xlab import numpy as jnp
from xlab import observe
from xlab.notebook.magics.xstep import handlers, numbers
from xlab.notebook.views import VIEWS
from xlab.notebook.views.base import answer, check_request
from xlab.observe.records import Record

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

WORDS = st.sampled_from(["", "__class__", "__init__", "to_json", "eval", "exec", "module", "move", "run", "replace", "whole", "restore",
                         "'; import os", "</script>", "name", "value", "nan", "1", "[1, 2]", "-1", "x" * 3000])  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | WORDS
    | st.text(max_size=20)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
ASKED = sorted({request.name for view in VIEWS for request in view.requests} | {"eval"})
ARGUMENTS = sorted({name for view in VIEWS for request in view.requests for name in request.fields})


def near(view):
    """Messages that are almost requests of a view: right names, values of any kind."""
    names = st.sampled_from([r.name for r in view.requests] or ASKED)
    arguments = st.dictionaries(st.sampled_from(ARGUMENTS) | WORDS, JSON, max_size=4)
    return st.fixed_dictionaries(
        {"ask": names}, optional={"id": JSON, "arguments": arguments | JSON}
    )


def fits(field, value):
    """What a field says of a value, said again by hand."""
    if type(value) is not field.type or (field.choices and value not in field.choices):
        return False
    return field.type not in (int, float) or (
        (field.low is None or value >= field.low) and (field.high is None or value <= field.high)
    )


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
@hypothesis.given(data=st.data())
def test_only_what_is_listed_reaches_a_handler(view, data):
    message = data.draw(JSON | near(view))
    reached = []

    def handler(name):
        return lambda **given: reached.append((name, given))

    every = {name: handler(name) for name in [*ASKED, "__class__", "module"]}
    made = answer(view, every, message)
    json.dumps(made, allow_nan=False)
    assert set(made) <= {"id", "answer", "error"} and type(made["id"]) is int
    assert "error" in made, "the handlers answer with no record"
    for name, given in reached:
        request = next(r for r in view.requests if r.name == name)
        assert message["ask"] == name and set(given) == set(request.fields)
        assert all(fits(field, given[key]) for key, field in request.fields.items())


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_every_request_says_what_it_takes(view):
    for request in view.requests:
        assert request.meaning and issubclass(request.answer, Record)
        assert all(field.type in (str, int, float, bool) for field in request.fields.values())
        with pytest.raises(ValueError, match="takes"):
            check_request(view, {"ask": request.name, "arguments": {"more": 1}})


STEPPED = observe.Stepper(lambda x: jnp.log(jnp.sin(x) * 2), jnp.ones(3))


@hypothesis.given(message=near(next(v for v in VIEWS if v.name == "stepper")))
def test_a_live_stepper_survives_anything(message):
    view = next(v for v in VIEWS if v.name == "stepper")
    made = answer(view, handlers(STEPPED), message)
    json.dumps(made, allow_nan=False)
    assert len(made.get("error", "")) <= 2000
    # It still answers, and what-if can be taken back.
    back = answer(view, handlers(STEPPED), {"id": 7, "ask": "restore", "arguments": {"index": 0}})
    assert back["id"] == 7 and back["answer"]["record"] == "Step"


@hypothesis.given(
    text=st.text(max_size=60)
    | st.sampled_from(
        [
            "__import__('os')",
            "1e999",
            "[" * 5000,
            "[[1], [2, 3]]",
            "{}",
            "true",
            "null",
            '"1"',
            "NaN",
            "-Infinity",
            "0x10",
            "1_000",
            "9" * 400,
        ]
    )
)
def test_a_value_from_the_page_is_numbers_or_refused(text):
    try:
        made, error = numbers(text), None
    except ValueError as refused:
        made, error = None, refused
    if made is None:
        assert "a value is a number" in str(error)
    else:
        assert made.dtype.kind in "iuf"
        json.loads(text)
