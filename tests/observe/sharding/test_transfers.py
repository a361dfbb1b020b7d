"""Collectives against the compiled module read by hand: who asked for each, what it moves, how often, and why."""

import functools
import re

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.interpreters import communication_costs
from xlab.lax import collectives  # noqa: F401
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

RING = (np.arange(64, dtype=np.float32).reshape(8, 8), np.ones((8, 4), np.float32))


def test_added_by_the_partitioner_with_reasons():
    first, second = observe.transfers(programs.dense, *programs.sharded_operands())
    assert (first.kind, first.reduction, first.axes, first.origin) == (
        "all_reduce",
        "add",
        ("model",),
        "partitioner",
    )
    assert (
        first.groups == ((0, 1), (2, 3), (4, 5), (6, 7)) and first.bytes_in == first.bytes_out == 32
    )
    assert (
        "dot_general" in first.reason
        and "`x` f32[8@data,16@model]" in first.reason
        and "split over model" in first.reason
    )
    assert first.source.function == "matmul" and first.equation == 0 and first.times == 1
    assert second.axes == ("data",) and "reduce_sum" in second.reason and second.equation == 2
    us = communication_costs.cost("all_reduce", 2, 32)[0]
    assert first.predicted_us == us and "n=2, S=32 B" in first.formula
    assert {(s, t) for r in first.rounds for s, t, _ in r} == {
        (a + i, a + 1 - i) for a in (0, 2, 4, 6) for i in (0, 1)
    }


def test_written_by_the_user_and_not_counted_twice():
    found = observe.transfers(programs.ring(), *RING)
    assert [(t.kind, t.call, t.origin, t.axes, t.times) for t in found] == [
        ("all_reduce", "psum", "user", ("model",), 1),
        ("collective_permute", "ppermute", "user", ("data",), 3),
        ("all_gather", "all_gather", "user", ("data",), 1),
    ]
    compiled = xlab.jit(programs.ring()).lower(*RING).compile()
    text = compiled.as_text()
    assert len(re.findall(r" (?:all-reduce|all-gather|collective-permute)\(", text)) == len(found)
    assert all(t.instruction in text for t in found)
    assert found[1].pairs == ((0, 2), (2, 4), (4, 6), (6, 0), (1, 3), (3, 5), (5, 7), (7, 1))
    assert [t.bytes_in for t in found] == [2 * 4 * 4, 2 * 4 * 4, 2 * 4 * 4] and found[
        2
    ].bytes_out == 4 * 32
    lines = [t.source.text.strip() for t in found]
    assert (
        lines[0].startswith("y = lax.psum") and "ppermute" in lines[1] and "all_gather" in lines[2]
    )


def test_without_compiling_only_what_was_written():
    found = observe.transfers(programs.ring(), *RING, compile=False)
    assert [t.kind for t in found] == ["all_reduce", "collective_permute", "all_gather"]
    assert [t.times for t in found] == [1, 3, 1] and not any(t.instruction for t in found)
    assert observe.transfers(programs.dense, *programs.sharded_operands(), compile=False) == ()


def test_bytes_of_a_ragged_exchange_are_at_most_those_of_the_operand():
    def body(x):
        one = np.ones(8, np.int32)
        return lax.ragged_all_to_all(
            x,
            np.zeros(8, np.float32),
            np.arange(8, dtype=np.int32),
            one,
            lax.broadcast(lax.axis_index("i"), (8,)),
            one,
            axis_name="i",
        )

    mesh = xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
    f = xlab.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    found = observe.transfers(f, np.ones(64, np.float32), compile=False)
    (ragged,) = [t for t in found if t.kind == "ragged_all_to_all"]
    assert ragged.call == "ragged_all_to_all" and ragged.bytes_in == 32
    assert "bytes are at most this" in ragged.reason and "at most" in observe.text(ragged)
    (other, *_) = observe.transfers(programs.ring(), *RING)
    assert "at most" not in other.reason


def test_a_collective_that_the_compiler_dropped_is_said_to_be():
    def body(x):
        lax.psum(x, "data")
        return x

    f = xlab.shard_map(body, mesh=programs.mesh(), in_specs=P("data"), out_specs=P("data"))
    (t,) = observe.transfers(f, np.ones(8, np.float32))
    assert t.times == 0 and "not in the compiled module" in t.reason and t.instruction == ""
    assert t.removed and (t.predicted_us, t.formula) == (0.0, "")
    observe.assert_collectives(f, (np.ones(8, np.float32),))


def test_reshards_say_from_what_to_what():
    mesh = programs.mesh()
    x, w = (
        programs.put(np.ones((8, 16)), "data", None),
        programs.put(np.ones((16, 8)), None, "data"),
    )
    f = xlab.jit(programs.matmul, out_shardings=NamedSharding(mesh, P("data", "model")))
    found = observe.transfers(f, x, w)
    assert found and all(t.origin == "partitioner" for t in found)
    assert any(
        "`w` is f32[16,8@data], dot_general" in t.reason and "needs f32[16,8@model]" in t.reason
        for t in found
    )
    assert any(
        t.fix == "give `w` the sharding P(None, 'model') where it is made" and t.tried
        for t in found
    )


def test_a_constraint_that_holds_already_and_a_finer_split_are_no_reason():
    mesh = programs.mesh()

    def f(w, x):
        x = lax.with_sharding_constraint(
            programs.matmul(x, w), NamedSharding(mesh, P("data", "model"))
        )
        return programs.matmul(x, w)

    x, w = (
        programs.put(np.ones((16, 16)), "data", None),
        programs.put(np.ones((16, 16)), None, None),
    )
    (found,) = observe.transfers(f, w, x)
    assert found.kind == "all_gather" and found.axes == ("model",)
    assert "f32[16@data,16@model] and `w` f32[16@model,16] that is split over model" in found.reason
    assert "instead of adding up parts of the result" in found.reason and not found.fix


def test_the_suggested_fix_removes_the_collective():
    mesh = programs.mesh()
    x, w = (
        programs.put(np.ones((8, 16)), "data", None),
        programs.put(np.ones((16, 8)), None, "model"),
    )
    f = xlab.jit(programs.matmul, out_shardings=NamedSharding(mesh, P("data", "model")))
    assert observe.transfers(f, x, w) == ()
    observe.assert_collectives(f, (x, w), allow={})


def test_assertion_names_what_is_unexpected():
    with pytest.raises(AssertionError) as caught:
        observe.assert_collectives(
            programs.dense, programs.sharded_operands(), allow={"all_reduce": 1}
        )
    message = str(caught.value)
    assert (
        "1 unexpected" in message
        and "16 B" in message
        and "programs.py:" in message
        and "split over data" in message
    )
    observe.assert_collectives(programs.dense, programs.sharded_operands(), allow={"all_reduce": 2})
    with pytest.raises(ValueError, match="unknown kinds"):
        observe.assert_collectives(programs.dense, programs.sharded_operands(), allow={"psum": 1})


def test_loops_and_branches():
    mesh = programs.mesh()

    def body(x):
        def turn(v):
            return lax.mul(lax.psum(v, "model"), np.float32(0.5))

        y = lax.while_loop(
            lambda v: lax.lt(lax.pmax(lax.reduce_max(v, (0,)), ("data", "model")), np.float32(9)),
            turn,
            x,
        )
        return y

    f = xlab.shard_map(body, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
    found = observe.transfers(f, np.ones(8, np.float32))
    assert {t.call for t in found} == {"psum", "pmax"} and all(t.times is None for t in found)


def test_links_and_algorithms():
    slow = observe.transfers(
        programs.dense,
        *programs.sharded_operands(),
        link=communication_costs.Interconnect("slow", 100.0, 1.0),
    )
    assert slow[0].predicted_us == pytest.approx(2 * (100 + 16))
    direct = observe.transfers(programs.dense, *programs.sharded_operands(), algorithm="direct")
    assert len(direct[1].rounds) == 2
    with pytest.raises(ValueError, match="unknown link"):
        observe.transfers(programs.dense, *programs.sharded_operands(), link="carrier pigeon")


def test_totals_per_axis():
    found = observe.transfers(programs.ring(), *RING)
    assert observe.totals(found) == {"model": 32, "data": 3 * 32 + 3 * 32}


def test_collectives_that_the_compiler_combined():
    def loss(w, v, x):
        o = programs.matmul(lax.tanh(programs.matmul(x, w)), v)
        return lax.psum(lax.reduce_sum(lax.mul(o, o), (0, 1)), "data")

    f = xlab.shard_map(
        lambda w, v, x: xlab.grad(loss, argnums=(0, 1))(w, v, x),
        mesh=programs.mesh(),
        in_specs=(P(), P(), P("data")),
        out_specs=(P(), P()),
    )
    args = (np.ones((8, 8), np.float32), np.ones((8, 4), np.float32), np.ones((16, 8), np.float32))
    found = [t for t in observe.transfers(f, *args) if t.instruction]
    assert sum(t.bytes_in for t in found) == 4 * (64 + 32)
    assert all("2 collectives in one instruction" in t.reason for t in found if t.bytes_in == 384)


def test_a_training_step_read_by_hand():
    """Every all-reduce of the compiled step is reported once, with the bytes of its operands and its loop's trips."""

    def loss(params, x, y):
        def block(h, p):
            return lax.add(h, programs.matmul(lax.tanh(programs.matmul(h, p[0])), p[1])), None

        h, _ = lax.scan(block, x, params)
        d = lax.sub(h, y)
        return lax.reduce_sum(lax.mul(d, d), (0, 1))

    params = (
        programs.put(np.ones((6, 16, 32)), None, None, "model"),
        programs.put(np.ones((6, 32, 16)), None, "model", None),
    )
    x, y = (
        programs.put(np.ones((8, 16)), "data", None),
        programs.put(np.ones((8, 16)), "data", None),
    )
    step = xlab.jit(xlab.value_and_grad(loss))
    found = observe.transfers(step, params, x, y)
    text = step.lower(params, x, y).compile().as_text()
    lines = re.findall(r"%([\w.\-]+) = (\(?[^=]*?\)?) all-reduce\(", text)
    assert {t.instruction for t in found} == {name for name, _ in lines}
    sizes = {
        name: sum(
            4 * int(np.prod([int(d) for d in dims.split(",") if d]))
            for dims in re.findall(r"f32\[([\d,]*)\]", shape)
        )
        for name, shape in lines
    }
    assert all(t.bytes_in == sizes[t.instruction] for t in found)
    bodies = re.findall(r"body=%([\w.\-]+)", text)
    for t in found:
        inside = any(
            re.search(
                rf"%{re.escape(b)} [^\n]*\{{\n(?:(?!\n\}}).)*%{re.escape(t.instruction)} =",
                text,
                re.S,
            )
            for b in bodies
        )
        assert t.times == (6 if inside else 1)
        assert t.origin == "partitioner" and "split over" in t.reason and t.source is not None


def test_operations_with_regions_and_values_inside_a_lowering():
    import xlab.numpy as jnp

    x = programs.put(np.ones((8, 4)), "data", "model")
    found = observe.transfers(lambda v: jnp.sort(v, 0), x)
    assert found and all("sort" in t.reason and "?" not in t.reason for t in found)
    assert (
        observe.program(xlab.jit(lambda v: jnp.sort(v, 0)).lower(x).compile())
        .equations[0]
        .outputs[0]
        .type.spec
        is not None
    )
    with pytest.raises(TypeError, match="link is a name"):
        observe.transfers(programs.dense, *programs.sharded_operands(), link=3)


def test_the_reason_of_many_combined_values_stays_short():
    def loss(weights, x, y):
        h = x
        for w in weights:
            h = lax.tanh(programs.matmul(h, w))
        d = lax.sub(h, y)
        return lax.reduce_sum(lax.mul(d, d), (0, 1))

    weights = [programs.put(np.ones((16, 16)), None, None) for _ in range(12)]
    x = programs.put(np.ones((8, 16)), "data", None)
    (t,) = observe.transfers(xlab.jit(xlab.value_and_grad(loss)), weights, x, x)
    assert t.reason.startswith("13 values at once: reduce_sum") and t.reason.endswith(
        "and 11 more like it"
    )
    assert (
        t.reason.count("dot_general") == 1
        and t.operand == "f32[] 12×f32[16,16]"
        and len(t.reason) < 400
    )


def test_full_rematerialization_is_flagged_where_the_compiler_warns_of_it():
    def reasons(spec):
        target = NamedSharding(programs.mesh(), P(*spec))
        f = xlab.jit(
            lambda x: lax.sin(lax.with_sharding_constraint(lax.neg(x), target)),
            out_shardings=target,
        )
        found = observe.transfers(f, programs.put(np.ones((16, 16)), "data", None))
        assert [t.full_rematerialization for t in found] == [
            "full rematerialization" in t.reason for t in found
        ]
        return [t.reason for t in found]

    assert any("full rematerialization" in r for r in reasons((None, "model")))
    assert not any(
        "full rematerialization" in r for s in ((None, "data"), ("model", None)) for r in reasons(s)
    )


def over(body, *args, mesh=None, spec=P("i"), out=P("i"), compile=True):
    mesh = mesh or xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
    return observe.transfers(
        xlab.shard_map(body, mesh=mesh, in_specs=spec, out_specs=out), *args, compile=compile
    )


VECTOR = np.arange(32, dtype=np.float32)


@pytest.mark.parametrize("compile", [True, False])
def test_who_sends_to_whom_where_the_axes_are_in_another_order(compile):
    mesh = xlab.make_mesh((4, 2), ("i", "j"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    (t,) = over(
        lambda x: lax.ppermute(x, ("j", "i"), [(0, 1)]),
        VECTOR,
        mesh=mesh,
        spec=P(("i", "j")),
        out=P(("i", "j")),
        compile=compile,
    )
    assert t.pairs == ((0, 1),) and t.rounds == (((0, 1, 16),),) and t.sent == 2.0


def test_a_broadcast_starts_at_its_source():
    (t,) = over(lambda x: lax.pbroadcast(x, "i", 3), VECTOR, compile=False)
    assert t.rounds[0] == ((3, 4, 16),) and t.groups[0][0] == 3 and t.sent == 16 * 7 / 8


def test_equal_collectives_that_the_compiler_merged_and_others_that_it_combined():
    first, second = over(lambda x: (lax.psum(x, "i"), lax.psum(x, "i")), VECTOR, out=P())
    assert (
        first.times == 1
        and first.bytes_in == 16
        and second.times == 0
        and "merged with the equal one of line" in second.reason
    )
    (both,) = over(
        lambda x, y: (lax.psum(x, "i"), lax.psum(y, "i")),
        VECTOR,
        VECTOR,
        spec=(P("i"), P("i")),
        out=P(),
    )
    assert both.bytes_in == 32 and "2 collectives in one instruction" in both.reason


def test_times_are_those_of_one_run_of_the_collective():
    mesh = programs.mesh()

    def body(x):
        return lax.scan(
            lambda c, _: (lax.ppermute(c, "data", [(0, 1), (1, 2), (2, 3), (3, 0)]), None),
            x,
            None,
            length=25,
        )[0]

    f = xlab.jit(xlab.shard_map(body, mesh=mesh, in_specs=P("data"), out_specs=P("data")))
    with observe.record() as session:
        f(VECTOR)
        session.profile = observe.profile(f, VECTOR, repeat=2)
    report = observe.report(session)
    (t,) = report.transfers
    whole = session.profile.instructions[t.instruction]
    assert t.times == t.runs == whole.times == 25 and t.measured_us == pytest.approx(whole.us / 25)
    assert "waiting for the others included" in observe.text((t,), times=True)


def test_callbacks_of_regions_that_leave_axes_to_the_compiler(mesh):
    def host(a):
        return np.asarray(a) * 3

    @xlab.jit
    @functools.partial(
        xlab.shard_map, mesh=mesh, in_specs=P("data"), out_specs=P("data"), axis_names={"data"}
    )
    def f(a):
        b = xlab.pure_callback(host, xlab.ShapeDtypeStruct(a.shape, a.dtype), a)
        return b + xlab.lax.with_sharding_constraint(a, P(None, "model"))

    (t,) = observe.transfers(f, np.ones((16, 4), np.float32))
    assert t.kind == "all_gather" and t.reason.startswith("pure_callback (line ")
    assert "whole arrays along model" in t.reason and "axis_names" in t.fix
