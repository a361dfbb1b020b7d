"""Recordings: what is seen, nesting, phases, timings, the ledger, and that nothing is left behind."""

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import events, lax, observe
from xlab.compile.history import explain

X = np.ones(5, np.float32)


def test_cold_and_warm_calls_are_seen():
    f = xlab.jit(lambda x: lax.sin(x), name="wave")
    y = f(xlab.device_put(X))
    f(y)
    f(y)
    with observe.record() as session:
        f(y)
        f(y)
    assert [e.kind for e in session.events] == ["cache_hit", "execute"] * 2
    assert [s.name for s in session.subjects] == ["wave"]
    assert [p.steady for p in observe.phases(session) if p.kind == "execute"] == [False, True]
    assert observe.timings(session) == ()  # it was compiled before: nothing cold, nothing measured


def test_what_is_compiled_and_not_run_is_recorded():
    with observe.record() as session:
        xlab.jit(lambda x: lax.mul(lax.sin(x), x), name="ahead").lower(X).compile()
    assert [s.name for s in session.subjects] == ["ahead"]
    assert [p.name for p in observe.report(session).programs] == ["ahead"]


def test_nested_recorders_see_what_is_inside_them():
    with observe.record() as outer:
        xlab.jit(lambda x: lax.sin(x), name="one")(X)
        with observe.record() as inner:
            xlab.jit(lambda x: lax.cos(x), name="two")(X)
    assert [s.name for s in outer.subjects] == ["one", "two"]
    assert [s.name for s in inner.subjects] == ["two"]
    assert not events.listeners


def test_an_error_ends_the_recording_and_stays_in_it():
    with pytest.raises(ZeroDivisionError), observe.record() as session:
        xlab.jit(lambda x: lax.sin(x), name="before")(X)
        1 / 0
    assert not events.listeners
    report = observe.report(session)
    assert report.error.kind == "ZeroDivisionError" and report.error.source.text == "1 / 0"
    assert [p.name for p in report.programs] == ["before"]


def test_eager_operations_are_phases_but_no_programs():
    with observe.record() as session:
        lax.sinh(X)
    assert session.subjects == [] and "sinh" in {p.function for p in observe.phases(session)}


def test_phases_nest_and_say_why(clock):
    inner = xlab.jit(lambda x: lax.sin(x), name="inner")
    with observe.record() as session:
        xlab.jit(lambda x: inner(inner(x)), name="outer")(X)
    found = observe.phases(session)
    trace = next(i for i, p in enumerate(found) if (p.kind, p.function) == ("trace", "outer"))
    nested = next(p for p in found if (p.kind, p.function) == ("trace", "inner"))
    assert nested.parent == trace and nested.depth == found[trace].depth + 1
    assert "never seen before" in next(p.reason for p in found if p.cache == "miss")
    assert all(p.duration_us % 1000 == 0 for p in found)
    (timing,) = observe.timings(session)
    assert timing.function == "outer" and timing.cold_us > 0 and timing.warm_us is None


def test_time_is_cold_or_warm_never_both():
    f = xlab.jit(lambda x: lax.sin(x), name="timed")
    first = observe.time(f, X, repeat=3)
    again = observe.time(f, X, repeat=3)
    assert first.cold_us is not None and first.runs == 3 and first.warm_us < first.cold_us
    assert again.cold_us is None
    with observe.record() as session:
        observe.time(f, X, repeat=3)
    assert not session.events and observe.report(session).timings[0].runs == 3
    with pytest.raises(ValueError, match="at least 1"):
        observe.time(f, X, repeat=0)
    with pytest.raises(TypeError, match="takes a function"):
        observe.time(3)


def test_the_ledger_says_why_and_what_to_do():
    f = xlab.jit(lambda step_input: lax.sin(step_input), name="ledger_step")
    f(np.ones(8, np.float32))
    f(np.ones(9, np.float32))
    f(np.ones(9, np.float16))
    entries = [e for e in observe.ledger().entries if e.function == "ledger_step"]
    assert [e.nth for e in entries] == [1, 2, 3]
    assert (
        "`step_input` went from f32[8] to f32[9]" in entries[1].reason
        and "pad step_input" in entries[1].fix
    )
    assert [d.cause for e in entries for d in e.differences] == ["shape", "dtype"]
    assert entries[1].differences[0].was == "f32[8]" and entries[1].source.file == __file__


def test_a_new_function_object_on_the_same_line():
    for _ in range(2):
        xlab.jit(lambda x: lax.sin(x), name="made_in_a_loop")(X)
    entries = [e for e in observe.ledger().entries if e.function == "made_in_a_loop"]
    assert "new function object" in entries[1].reason and "outside the loop" in entries[1].fix


def compiles(name):
    return [e for e in observe.ledger().entries if e.function == name]


def test_another_value_that_a_function_closes_over():
    def make(factor):
        def scaled_by(x):
            return lax.mul(x, factor)

        return scaled_by

    for factor in (np.float32(2), np.float32(2)), (2.0, 3.0):
        for value in factor:
            xlab.jit(make(value))(X)
    last = compiles("scaled_by")[-1]
    assert last.differences == (observe.records.Difference("closure", "factor", "2.0", "3.0"),)
    assert (
        "`factor`, which went from 2.0 to 3.0" in last.reason
        and "static_argnames='factor'" in last.fix
    )


def test_another_jit_of_the_same_function():
    def jitted_twice(x):
        return lax.sin(lax.sin(x))

    for options in ({}, {}, {"donate_argnums": 0}, {"keep_unused": True}):
        xlab.jit(jitted_twice, **options)(xlab.device_put(X))
    entries = compiles("jitted_twice")
    assert [d.cause for e in entries for d in e.differences] == [
        "donated set",
        "donated set",
        "option",
    ]  # equal options share
    assert "another jit of `jitted_twice`" in entries[1].reason


def test_a_cleared_jit_says_so():
    f = xlab.jit(lambda x: lax.sin(lax.cos(x)), name="cleared")
    f(X)
    f.clear_cache()
    f(X)
    assert "its programs were cleared" in compiles("cleared")[-1].reason


def test_an_option_is_named():
    f = xlab.jit(lambda x: lax.sin(lax.tan(x)), name="under_options")
    f(X)
    with xlab.default_matmul_precision("highest"):
        f(X)
    (difference,) = compiles("under_options")[-1].differences
    assert (
        difference.cause == "context"
        and "matmul_precision" in difference.what
        and "highest" in difference.now
    )


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        (np.float32(1) + X, np.ones((5, 1), np.float32), "shape"),
        (X, X.astype(np.int32), "dtype"),
        (np.float32(1), 1.0, "weak type"),
        ({"a": X}, {"b": X}, "structure"),
        (xlab.device_put(X), xlab.device_put(X, xlab.devices()[1]), "committed"),
        (xlab.device_put(X, xlab.devices()[0]), xlab.device_put(X, xlab.devices()[1]), "sharding"),
    ],
)
def test_each_cause_is_named_with_a_fix(first, second, cause):
    name = f"caused_by_{cause.replace(' ', '_')}"
    f = xlab.jit(lambda x: xlab.tree.map(lambda a: lax.neg(lax.mul(a, a)), x), name=name)
    f(first)
    f(second)
    entry = compiles(name)[-1]
    assert [d.cause for d in entry.differences] == [cause] and entry.fix


def test_another_mesh_is_a_reason():
    f = xlab.jit(lambda x: lax.mul(x, x), name="under_a_mesh")
    f(X)
    with xlab.sharding.set_mesh(xlab.sharding.make_mesh((2,), ("data",))):
        f(X)
    entry = compiles("under_a_mesh")[-1]
    assert entry.differences[0].cause == "mesh" and "set_mesh" in entry.fix


def test_another_backend_is_a_reason():
    class On:
        def __init__(self, platform):
            self.device_set = [type("Device", (), {"platform": platform})]

    f = xlab.jit(lambda x: lax.mul(x, x), name="on_a_backend")
    program = f.trace(X)._program
    f(X)
    (executable,) = f._xlab_jit.executables.values()
    owner = type(
        "Owner", (), {"name": "on_a_backend", "executables": {(0, (On("cpu"),), None): executable}}
    )
    _, ((cause, what, _, _),) = explain.compile_miss(owner, program.closed, (0, (On("gpu"),), None))
    assert (cause, what) == ("backend", "x")


def test_a_static_value_is_named():
    f = xlab.jit(lambda x, n: lax.mul(x, x) if n else x, static_argnames="n", name="with_static")
    f(X, n=1)
    f(X, n=2)
    entry = compiles("with_static")[-1]
    assert entry.differences[0].cause == "static value" and "n" in entry.reason


def test_the_package_compiles_on_its_own_account():
    from xlab.compile.history import ledger

    ledger.entries.clear()
    xlab.random.normal(xlab.random.key(0), (3, 77))
    assert not [e for e in observe.ledger().entries if e.function.startswith("_")]
    entry = [e for e in observe.ledger(eager=True).entries if e.function == "normal"][-1]
    assert entry.source.file == __file__ and "`normal`" in entry.reason


def test_another_placement_is_a_reason():
    f = xlab.jit(lambda x: lax.sin(x), name="placed")
    f(programs.put(np.ones(8), "data"))
    f(programs.put(np.ones(8), "model"))
    entry = [e for e in observe.ledger().entries if e.function == "placed"][-1]
    assert entry.differences[0].cause == "sharding" and "placement of `x`" in entry.reason


def test_results_are_the_same_under_a_recorder():
    f = xlab.jit(programs.control)
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    plain = f(x)
    with observe.record():
        seen = f(x)
    for a, b in zip(xlab.tree.leaves(plain), xlab.tree.leaves(seen)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_after_a_recording_warm_calls_run_without_python(python_calls):
    f = xlab.jit(lambda x: lax.sin(x), name="native")
    x = xlab.device_put(X)
    f(x)
    f(x)
    with observe.record():
        f(x)
    f(x)
    assert python_calls(f, x)[1] == []


def test_many_events_are_counted_not_kept(monkeypatch):
    from xlab.observe.programs import recorder

    monkeypatch.setattr(recorder, "LIMIT", 4)
    with recorder.record() as session:
        session.events = type(session.events)(session.events, maxlen=4)
        for size in range(1, 4):
            xlab.jit(lambda x: lax.sin(x), name=f"sized_{size}")(np.ones(size, np.float32))
    assert len(session.events) == 4 and session.dropped == 11
    assert any("11 early events were dropped" in n.text for n in observe.report(session).notices)


def test_a_program_that_is_only_compiled_is_among_those_recorded():
    with observe.record() as session:
        xlab.jit(lambda x: lax.sin(x) + 1, name="ahead").lower(np.ones(3, np.float32)).compile()
    assert [s.name for s in session.subjects] == ["ahead"]
