"""Records survive JSON, refuse what is not data, and say so in words."""

import importlib
import inspect
import json
import math
import subprocess
import sys

import pytest

from tests.notebook.views import sample
from xlab.observe import records as r
from xlab.observe.records import Record, base, diff, targets

REPORT = sample.report()


def test_report_round_trips_through_json_text():
    assert Record.from_json(json.loads(json.dumps(REPORT.to_json(), allow_nan=False))) == REPORT


def test_schema_is_written_once_and_a_newer_one_is_refused():
    data = r.Type("f32").to_json()
    assert data == {"record": "Type", "dtype": "f32", "schema": 2}
    with pytest.raises(ValueError, match="upgrade xlab"):
        Record.from_json({**data, "schema": 99})


def test_unknown_fields_of_the_same_schema_are_ignored():
    assert Record.from_json({"record": "Type", "dtype": "f32", "later": 1}) == r.Type("f32")


@pytest.mark.parametrize("data", [None, 3, [], {}, {"record": "os.system"}])
def test_what_is_not_a_record_is_refused(data):
    with pytest.raises(ValueError, match=r"Record\.to_json"):
        Record.from_json(data)


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_infinities_survive(number):
    assert Record.from_json(r.Value("x", "f32[]", max=number).to_json()).max == number


def test_nan_survives_and_zero_is_not_absent():
    back = Record.from_json(r.Value("x", "f32[]", min=0.0, mean=math.nan).to_json())
    assert back.min == 0.0
    assert math.isnan(back.mean)


def test_a_live_object_is_refused_with_advice():
    with pytest.raises(TypeError, match="where the record is made"):
        r.Value("x", "f32[]", preview=([1],)).to_json()


def test_records_are_frozen():
    with pytest.raises(AttributeError):
        r.Type("f32").dtype = "f64"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (r.Type("f32", (8, 4), (("data",), ("model",))), "f32[8@data,4@model]"),
        (
            r.Type("bf16", (8,), (("a", "b"),), varying=("a",), unreduced=("b",)),
            "bf16[8@a+b]{V:a U:b}",
        ),
        (r.Type("f32"), "f32[]"),
        (r.Type("token", label="token[]"), "token[]"),
    ],
)
def test_type_text(made, text):
    assert made.text == text
    assert repr(made) in (text, text)


def test_walk_visits_nested_programs_in_reading_order():
    p = REPORT.programs[0]
    ids = [e.id for e, _ in p.walk()]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert sum(n for _, n in p.counts) == len(ids)
    assert max(d for _, d in p.walk()) == 1


def test_a_record_of_the_first_schema_is_still_read():
    old = {
        "record": "Transfer",
        "kind": "all_gather",
        "reason": "`y` is f32[8], sin needs f32[8]",
        "schema": 1,
    }
    made = Record.from_json(old)
    assert (
        made == r.Transfer("all_gather", reason=old["reason"])
        and not made.full_rematerialization
        and made.value == ""
    )


@pytest.mark.parametrize(
    ("old", "now"),
    [
        (
            {
                "record": "Scheduled",
                "target": "t",
                "function": "f",
                "flights": [{"record": "Flight", "kind": "copy", "start": "a", "done": "b"}],
            },
            targets.Scheduled(
                "t", "f", async_operations=(targets.AsyncOperation("copy", "a", "b"),)
            ),
        ),
        ({"record": "Comparison", "left": "one", "right": "two"}, diff.Diff("one", "two")),
        (
            {
                "record": "Value",
                "name": "x",
                "type": "f32[2]",
                "shards": [{"record": "Shard", "device": 1}],
            },
            r.Value("x", "f32[2]", shards=(r.ShardSummary(1),)),
        ),
        (
            {"record": "Trace", "program": {"record": "Program", "name": "f"}},
            r.StepTrace(r.Program("f")),
        ),
        (
            {"record": "Layout", "name": "x", "type": {"record": "Type", "dtype": "f32"}},
            r.ArrayLayout("x", r.Type("f32")),
        ),
    ],
    ids=["targets", "diff", "value", "trace", "layout"],
)
def test_records_that_were_written_under_other_names_are_still_read(old, now):
    assert Record.from_json({**old, "schema": 1}) == now


@pytest.mark.parametrize("facade", ["xlab", "xlab.sharding", "xlab.experimental.layout", "xlab.nn"])
def test_classes_that_programs_use_share_no_name_with_a_record(facade):
    public = importlib.import_module(facade)
    classes = {name for name in dir(public) if inspect.isclass(getattr(public, name))}
    assert not classes & set(base._classes)


def test_rooms_are_attributes_of_observe():
    code = "import xlab.observe; print(xlab.observe.records.Record.__name__, xlab.observe.stepping.__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["Record", "xlab.observe.stepping"], ran.stderr
