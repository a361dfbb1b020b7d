"""Records from elsewhere are data: whatever is in their JSON, a record comes of it that can be shown, or one error that names the field."""

import dataclasses
import functools
import json
import math

import pytest

from tests.notebook.test_export import of_every_view
from tests.notebook.views import sample
from xlab.notebook.views import VIEWS, view_for
from xlab.observe import records as r
from xlab.observe.records import Record, base
from xlab.observe.records.drawing import Drawing
from xlab.observe.records.kernel import KernelMoment
from xlab.observe.records.text import text


def wrapped(times, inner, around):
    return functools.reduce(lambda inside, _: around(inside), range(times), inner)


def call(inside):
    return {
        "record": "Equation",
        "id": 1,
        "primitive": "jit",
        "nested": [{"record": "Program", "name": "p", "equations": [inside]}],
    }


CALL = {"record": "Equation", "id": 1, "primitive": "add"}
ODD = {
    "null": None, "true": True, "a number": 3, "a negative number": -1, "a large number": 1 << 63, "a longer number": 10 ** 400, "a part": 1.5,
    "nan": math.nan, "infinity": math.inf, "text": "<script>alert(1)</script>", "half a character": "\ud800\u202e", "a list": [],
    "a list of null": [None], "a list of lists": [[]], "numbers": [1, 2, 3], "texts": ["a"], "lists in lists": wrapped(3000, [], lambda x: [x]), "a dict": {},
    "a foreign record": {"record": "os.system"}, "a record of no name": {"record": []}, "another record": {"record": "Source", "file": "f", "line": 1},
    "records in records": wrapped(3000, CALL, call), "a float of markup": {"float": "<b>"}, "a float of a list": {"float": []},
}  # fmt: skip


@functools.cache
def of_every_type():
    """The smallest record of each type in the sample, as JSON."""
    found = {}

    def walk(value):
        if isinstance(value, Record):
            name, size = type(value).__name__, len(value.to_json())
            if size < found.get(name, (1000,))[0]:
                found[name] = size, value
            for field, _ in base._defaults[name]:
                walk(getattr(value, field))
        elif isinstance(value, tuple):
            for v in value:
                walk(v)

    report = sample.report().replace(error=r.Failure("ValueError", "x", sample.source(3), "trace"))
    steps = sample.trace(report.programs[0])
    of_runs = sample.nan_path(steps), sample.series(steps)
    others = (
        Drawing("timings"),
        KernelMoment(3),
        *sample.findings(),
        *sample.patterns(),
        *of_runs,
        sample.processes(),
    )
    for value in (*of_every_view(report, "a").values(), *others):
        walk(value)
    return {
        name: {
            field: v
            for field, v in value.to_json().items()
            if field in needed(name) or len(json.dumps(v)) < 2000
        }
        for name, (_, value) in found.items()
    }


def needed(name):
    return {
        "record",
        "schema",
        *(field for field, default in base._defaults[name] if default is dataclasses.MISSING),
    }


def read(data):
    """The record, or why there is none."""
    try:
        return Record.from_json(data), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("name", sorted(base._classes))
def test_every_field_of_every_record(name):
    data = of_every_type()[name]
    assert Record.from_json(data).to_json() == data
    fields = [field for field, _ in base._defaults[name]]
    refused = 0
    for field in (*fields, "schema", "record"):
        for odd in (*ODD, "nothing"):
            changed = {
                k: v
                for k, v in {**data, field: ODD.get(odd, data)}.items()
                if k != field or odd != "nothing"
            }
            made, words = read(changed)
            if made is None:
                assert field in words and len(words) < 800, (field, odd, words)
                refused += 1
                continue
            assert odd != "nothing" or field not in needed(name) - {"schema"}
            assert text(made)
            json.dumps(made.to_json(), allow_nan=False)
    assert refused > 8 * len(fields)


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_what_is_read_can_be_drawn(view):
    """A field of every viewed record at a time, and the numbers, lists and texts within it, as strange as they are read."""
    small = of_every_type()[view.record_type.__name__]
    for field, _ in base._defaults[view.record_type.__name__]:
        for odd in ODD.values():
            made, _ = read({**small, field: odd})
            assert made is None or "<script>alert" not in view_for(made).static_html(made)


def big(mesh):
    return {"record": "MeshInfo", "axis_names": ["a"], "axis_sizes": [mesh]}


TYPE = {"record": "Type", "dtype": "f32"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"record": "ArrayLayout", "name": "x", "type": TYPE, "mesh": big(1 << 62)},
            r"^ArrayLayout\.mesh: axis_sizes must be from 1, and of up to 131,072 devices",
        ),
        (big(0), r"^MeshInfo: axis_sizes must be from 1"),
        (
            {**big(2), "axis_names": ["a", "b"]},
            r"^MeshInfo: axis_names, axis_sizes and axis_types are of 2, 1 and 0 axes",
        ),
        ({**big(4), "device_ids": [0, 1]}, r"^MeshInfo: device_ids has 2 entries for 4 devices"),
        (
            {
                "record": "Memory",
                "buffers": [{"record": "Buffer", "name": "b", "size": 1, "end": 1 << 62}],
            },
            r"^Memory: buffers\[0\] must start and end",
        ),
        ({"record": "Pair", "state": "<b>"}, r"^Pair: state must be one of same, .*given '<b>'"),
        (
            {
                "record": "Report",
                "title": "t",
                "phases": [{"record": "Phase", "kind": "trace", "function": 3}],
            },
            r"^Report\.phases\[0\]\.function must be text; given 3",
        ),
        (
            {
                "record": "Report",
                "title": "t",
                "programs": [{"record": "Program", "name": "p", "mesh": TYPE}],
            },
            r"^Report\.programs\[0\]\.mesh must be a MeshInfo or null; given a dict of 2 with 'record' 'Type'",
        ),
        (
            {"record": "Value", "name": "x", "type": "f32[]", "mean": {"float": "1e3"}},
            r"^Value\.mean must be a number.*given '1e3'",
        ),
        (
            {"record": "Level", "name": "hlo", "text": "", "links": [[1, [2]], [1, 2, 3]]},
            r"^Level\.links\[1\] must be \[a whole number, a list of a whole number\]",
        ),
        (wrapped(99, CALL, call), None),
        (wrapped(100, CALL, call), "more than 200 records are nested in one another$"),
        (
            {"record": "Type", "dtype": "f32", "schema": 10**5000},
            "a number of 16610 bits, this xlab reads up to 2; upgrade",
        ),
    ],
)
def test_what_is_wrong_is_named(data, words):
    if words is None:
        made = Record.from_json(data)
        assert text(made) and Record.from_json(json.loads(json.dumps(made.to_json()))) == made
        return
    with pytest.raises(ValueError, match=words):
        Record.from_json(data)


def test_a_cut_file_is_refused_by_json():
    whole = json.dumps(sample.report().to_json())
    for at in range(0, len(whole), len(whole) // 50):
        with pytest.raises(ValueError):
            Record.from_json(json.loads(whole[:at]))


def test_a_record_without_a_text_form_shows_its_fields():
    @base.record_type
    class Plain(Record):
        name: str
        size: int = 3

    try:
        assert repr(Plain("x")) == text(Plain("x")) == "Plain(name='x', size=3)"
    finally:
        del base._classes["Plain"], base._defaults["Plain"]
