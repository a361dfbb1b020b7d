"""What a step costs: closed formulas per equation, sums, sharding, collectives, and machines."""

from __future__ import annotations

import json

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import P, lax, observe
from xlab.observe.overview import calibration, machines
from xlab.observe.records import Record
from xlab.observe.records.machine import Machine
from xlab.observe.records.text import text
from xlab.sharding import AxisType, NamedSharding, make_mesh

# One operation, byte or message a microsecond, so that counts are times.
PLAIN = Machine(
    "plain", matrix=(("f32", 1e6),), vector=1e6, transcendental=1e6, bandwidth=1e6, alpha=0.0, beta=1.0,
    memory=1000,
)  # fmt: skip
X, W = np.ones((4, 8), np.float32), np.ones((8, 2), np.float32)


def by_primitive(c):
    return {e.primitive: e for e in c.equations}


def test_an_equation_takes_the_longer_of_arithmetic_and_bytes():
    c = observe.cost(lambda x, w: jnp.tanh(x @ w), X, W, machine=PLAIN, compile=False)
    found = by_primitive(c)
    dot, tanh = found["dot_general"], found["tanh"]
    assert (dot.flops, dot.nbytes, dot.us, dot.bound) == (128, 128 + 64 + 32, 224, "memory")
    assert (tanh.transcendentals, tanh.nbytes, tanh.us) == (8, 64, 64)
    assert c.us == 224 + 64 and c.bound == "memory" and c.communication_us == 0


def test_values_between_fused_operations_are_not_moved():
    c = observe.cost(lambda x: ((x + 1) * 2).sum(), X, machine=PLAIN, compile=False)
    found = by_primitive(c)
    assert [found[p].nbytes for p in ("add", "mul", "reduce_sum")] == [128, 0, 4]
    assert [found[p].alone for p in ("add", "mul", "reduce_sum")] == [
        256,
        256,
        132,
    ]  # numbers in the text are no operands


def test_calls_are_part_of_their_caller_and_loops_multiply():
    inner = xlab.jit(lambda x: x * 2)
    c = observe.cost(lambda x: inner(x) + 1, X, machine=PLAIN, compile=False)
    assert by_primitive(c)["mul"].nbytes == 128 and by_primitive(c)["add"].nbytes == 128
    c = observe.cost(
        lambda x: lax.scan(lambda c, _: (jnp.tanh(c), None), x, None, length=5)[0], X,
        machine=PLAIN, compile=False,
    )  # fmt: skip
    assert (by_primitive(c)["tanh"].times, by_primitive(c)["tanh"].transcendentals) == (5, 160)
    c = observe.cost(
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x), X[0],
        machine=PLAIN, compile=False,
    )  # fmt: skip
    assert by_primitive(c)["add"].times is None and "unknown length" in c.notes[0]


def test_rounds_that_the_compiler_found_out_multiply_all_that_a_loop_costs():
    mesh = make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))
    shift = [(i, (i + 1) % 8) for i in range(8)]

    def body(x):
        step = lambda c: (c[0] + 1, lax.ppermute(c[1] * 2, "a", shift))
        return lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1]

    f = xlab.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    c = observe.cost(f, np.ones(16, np.float32), machine=PLAIN)
    found = by_primitive(c)
    assert {p: e.times for p, e in found.items()} == {"add": 3, "mul": 3, "ppermute": 3, "lt": 4}
    assert (found["mul"].flops, found["ppermute"].sent) == (6, 3 * 8)
    assert not any("unknown" in n for n in c.notes)
    open_ended = lambda n: lax.while_loop(lambda c: c < n, lambda c: c * 2, 1)
    c = observe.cost(open_ended, 3, machine=PLAIN)
    assert by_primitive(c)["mul"].times is None and any("unknown" in n for n in c.notes)


def test_devices_are_known_without_compiling():
    mesh = make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))
    summed = xlab.shard_map(
        lambda x: lax.psum(x, "a"), mesh=mesh, in_specs=P(None, "a"), out_specs=P()
    )
    lies = NamedSharding(mesh, P(None, "a"))
    for what, given in (
        (summed, X),
        (xlab.jit(summed), xlab.ShapeDtypeStruct(X.shape, X.dtype)),
        (lambda x: x * 2, xlab.device_put(X, lies)),
        (lambda x: x * 2, xlab.ShapeDtypeStruct(X.shape, X.dtype, sharding=lies)),
        (lambda x: lax.with_sharding_constraint(x, lies), X),
    ):
        c = observe.cost(what, given, machine=PLAIN, compile=False)
        assert c.devices == 8 and "on 8 devices" in str(c)
    assert observe.cost(lambda x: x * 2, X, machine=PLAIN, compile=False).devices == 1


def test_branches_count_by_their_part():
    f = lambda x: lax.cond(x[0, 0] > 0, lambda x: jnp.tanh(x), lambda x: x, x)
    c = observe.cost(f, X, machine=PLAIN, compile=False)
    assert by_primitive(c)["tanh"].transcendentals == 16


def test_forward_and_backward_are_told_apart_and_lines_add_up():
    def loss(w, x):
        h = x @ w
        return jnp.sum(h**2)

    c = observe.cost(xlab.grad(loss), W, X, machine=PLAIN, compile=False)
    assert {e.backward for e in c.equations if e.primitive == "dot_general"} == {False, True}
    assert 0 < c.backward_us < c.us
    assert sum(s.us for s in c.lines) == pytest.approx(c.us)
    line = next(s for s in c.lines if "x @ w" in s.source.text)
    assert line.flops == 2 * 128 and 0 < line.backward_us < line.us
    assert "x @ w" in text(c)


def test_scopes_have_sums():
    def f(x):
        with xlab.named_scope("layer"):
            return jnp.tanh(x)

    c = observe.cost(f, X, machine=PLAIN, compile=False)
    assert [(s.name, s.us) for s in c.scopes] == [("layer", 256.0)]


@pytest.fixture
def mesh():
    return make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def test_a_device_has_its_part_and_collectives_have_their_line(mesh):
    put = lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))
    x, w = (
        put(np.ones((8, 8), np.float32), "data", "model"),
        put(np.ones((8, 4), np.float32), "model", None),
    )
    c = observe.cost(xlab.jit(lambda x, w: x @ w), x, w, machine=PLAIN)
    (dot,) = [e for e in c.equations if e.primitive == "dot_general"]
    assert dot.flops == 2 * 8 * 8 * 4 / 8
    # An all-reduce of the two rows that a device has, over the axis that is summed over.
    assert c.sent == dot.sent == 2 * 4 * 4 and c.communication_us > 0 and c.devices == 8
    assert sum(s.sent for s in c.lines) == c.sent
    assert c.peak is not None and c.memory == 1000


def test_inside_shard_map_types_are_those_of_one_device(mesh):
    f = xlab.shard_map(
        lambda x: lax.psum(jnp.tanh(x), "data"), mesh=mesh, in_specs=P("data"), out_specs=P()
    )
    c = observe.cost(f, np.ones((8, 4), np.float32), machine=PLAIN, compile=False)
    found = by_primitive(c)
    assert found["tanh"].transcendentals == 8
    assert any(e.sent for e in c.equations if e.primitive.startswith("psum"))


def test_devices_that_share_cores_share_the_rate():
    c = lambda share: observe.cost(
        lambda x: jnp.tanh(x), X, machine=PLAIN.replace(share=share), compile=False
    )
    assert c(1.0).us == c(0.0).us
    assert PLAIN.replace(share=2.0).part(8) == 0.25


@pytest.mark.parametrize(
    ("f", "x", "unit"),
    [
        (jnp.sort, X, "serial"),
        (jnp.cumsum, X, "serial"),
        (lambda x: x.at[np.arange(4)].add(1.0), X, "serial"),
        (jnp.fft.fft, X.astype(np.complex64), "transform"),
        (lambda x: x.sum(-1), X, "reduction"),
    ],
)
def test_what_is_slower_than_additions_has_a_rate_of_its_own(f, x, unit):
    us = lambda m: observe.cost(f, x, machine=m, compile=False).compute_us
    plain = PLAIN.replace(bandwidth=1e30)
    slow = plain.replace(**{unit: plain.vector / 1000})
    assert us(slow) > 100 * us(plain) > 0
    others = {"serial", "transform", "reduction"} - {unit}
    assert us(plain.replace(**dict.fromkeys(others, plain.vector))) == pytest.approx(us(plain))


def test_bytes_take_what_memory_of_that_much_gives():
    slow = PLAIN.replace(memory_rates=((1, PLAIN.bandwidth, PLAIN.bandwidth / 3),))
    us = lambda m, f: observe.cost(f, X, machine=m, compile=False).compute_us
    assert us(slow, lambda x: x + 1) == pytest.approx(2 * us(PLAIN, lambda x: x + 1))
    assert us(PLAIN, lambda x: x.max()) == 128 + 4
    assert us(slow, lambda x: x.max()) == 128 + 3 * 4


def test_what_one_loop_reads_twice_is_read_once():
    c = observe.cost(lambda x, y: x * y + 0.5 * x - y, X, X, machine=PLAIN, compile=False)
    assert sum(e.nbytes for e in c.equations) == 3 * X.nbytes
    # Two loops that a value in memory lies between read it each for itself.
    c = observe.cost(lambda x: (x + 1, jnp.exp(x).sum(-1)), X, machine=PLAIN, compile=False)
    assert sum(e.nbytes for e in c.equations) == 3 * X.nbytes + 4 * len(X)


def test_a_loop_takes_the_longer_of_all_its_arithmetic_and_all_its_bytes():
    f = lambda x: (x + 1) * 2 - 3
    us = lambda m: observe.cost(f, X, machine=m, compile=False).compute_us
    assert us(PLAIN) == 2 * X.nbytes  # 96 operations meanwhile
    assert us(PLAIN.replace(vector=1e5)) == 3 * X.size * 10


def test_a_function_adds_what_was_measured_of_it_to_its_loop():
    m = PLAIN.replace(rates=(("tanh", 1.0, 1e6), ("exp", 1.0, 1e5)))
    us = lambda f: observe.cost(f, X, machine=m, compile=False).compute_us
    assert us(jnp.tanh) == 2 * X.nbytes + X.size
    assert us(jnp.exp) == 2 * X.nbytes + 10 * X.size
    assert us(jnp.sin) == 2 * X.nbytes  # never measured: it takes part in the longer of both


def test_sizes_between_those_measured_have_rates_between():
    rates = (("product f32", 1e3, 1e5), ("product f32", 1e5, 1e7), ("product f32 over rows", 1e3, 1e4), ("product f32 batched", 1e3, 5e4))  # fmt: skip
    m = PLAIN.replace(rates=rates, bandwidth=1e30)
    us = lambda f, *given: observe.cost(f, *given, machine=m, compile=False).compute_us
    square = lambda n: np.ones((n, n), np.float32)
    assert us(lambda a: a @ a, square(4)) == pytest.approx(128 / 1e5 * 1e6)
    work = 2.0 * 20**3
    assert us(lambda a: a @ a, square(20)) == pytest.approx(1e6 * work / (1e5 * work / 1e3))
    assert us(lambda a, b: a.T @ b, X, X) == pytest.approx(2 * 8 * 8 * 4 / 1e4 * 1e6)
    assert us(lambda a: a @ a, np.ones((3, 4, 4), np.float32)) == pytest.approx(3 * 128 / 5e4 * 1e6)


def test_a_transpose_is_part_of_the_product_beside_it():
    m = PLAIN.replace(rates=(("transpose", 1.0, 1e3), ("transpose alone", 1.0, 1e4)))
    us = lambda f, *given: observe.cost(f, *given, machine=m, compile=False).compute_us
    product = us(lambda x, w: x @ w, X, W)
    assert us(lambda x, w: x @ w.T, X, W.T.copy()) == product
    assert us(lambda x, w: (x @ w).T, X, W) == product
    assert us(lambda x: x.T, X) == 1e6 * X.size / 1e4
    assert us(lambda x: x.T + 1, X) == 1e6 * X.size / 1e3 + X.size
    kept = np.ones((2, 3, 4), np.float32)
    assert us(lambda x: x.transpose(1, 0, 2), kept) == 2 * kept.nbytes


def test_a_transpose_behind_a_sum_over_devices_stays(mesh):
    m = PLAIN.replace(rates=(("transpose", 1.0, 1e3),))
    put = lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))
    a, b = (put(np.ones((8, 4), np.float32), "data") for _ in range(2))
    f = xlab.jit(lambda a, b: 2 * (a.T @ b).T)
    found = by_primitive(observe.cost(f, a, b, machine=m))
    assert found["transpose"].us >= 1e6 * 16 / 1e3
    whole = observe.cost(f, np.ones((8, 4), np.float32), np.ones((8, 4), np.float32), machine=m)
    assert "transpose" not in by_primitive(whole) or by_primitive(whole)["transpose"].us == 0


def test_results_are_written_into_new_memory_and_other_values_are_not():
    m = PLAIN.replace(memory_rates=((1, 1e6, 1e5),))
    us = lambda f, *given: observe.cost(f, *given, machine=m, compile=False).compute_us
    assert us(lambda x: x + 1, X) == pytest.approx(X.nbytes + 10 * X.nbytes)
    # The product between lies in memory too, but is no result.
    between = us(lambda x, w: jnp.exp(x @ w), X, W) - us(lambda x, w: x @ w, X, W)
    assert between == pytest.approx(2 * 4 * 4 * 2)


def test_results_inside_of_shard_map_are_results(mesh):
    m = PLAIN.replace(memory_rates=((1, 1e6, 1e5),))
    f = xlab.shard_map(lambda x: -x, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    c = observe.cost(f, np.ones((8, 4), np.float32), machine=m, compile=False)
    assert by_primitive(c)["neg"].us == pytest.approx(32 + 320)


def test_short_operations_of_devices_share_cores_better_than_long_ones(mesh):
    m = PLAIN.replace(share=1.0, shares=((100.0, 4.0), (10_000.0, 1.0)))
    assert [m.part(8, us) for us in (1.0, 100.0, 1000.0, 1e6)] == [0.5, 0.5, 0.25, 0.125]
    f = xlab.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    us = lambda n: observe.cost(xlab.jit(f), np.ones(n, np.float32), machine=m).compute_us
    assert us(10) == pytest.approx(2 * 80) and us(10_000) == pytest.approx(8 * 80_000)


def test_a_collective_starts_when_all_have_come(mesh):
    f = xlab.shard_map(
        lambda x: lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)]),
        mesh=mesh, in_specs=P("data"), out_specs=P("data"),
    )  # fmt: skip
    x = np.ones((8, 4), np.float32)
    us = lambda m: observe.cost(f, x, machine=m, compile=False).communication_us
    assert us(PLAIN.replace(start_us=50.0)) == us(PLAIN) + 50


def test_few_elements_reduced_are_slower_where_that_was_measured():
    m = PLAIN.replace(rates=(("reduction", 1.0, 1e6), ("reduction of few", 1.0, 1e3)))
    us = lambda *shape: (
        observe.cost(
            lambda x: x.sum(-1), np.ones(shape, np.float32), machine=m, compile=False
        ).compute_us
    )
    assert us(4, 8) == 1e6 * 28 / 1e3 and us(4, 100) < 1e4


def test_machines_by_name():
    assert not machines.default_cpu().measured and "not measured" in machines.default_cpu().note
    assert observe.machine("tpu:v5e:4x4") == observe.machine("tpu:v5e")
    with pytest.raises(ValueError, match="unknown machine 'gpu'; there are cpu, tpu:v4"):
        observe.cost(lambda x: x, X, machine="gpu")
    with pytest.raises(TypeError, match="a name .* or a Machine; given int"):
        observe.machine(3)


def test_a_report_predicts_for_the_machine_that_is_chosen():
    """Costs, collectives and findings count with it, of programs that were reported for this CPU before, and nothing is left of it afterwards."""
    mesh = make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, P("x"))
    x = xlab.device_put(np.ones((1024, 64), np.float32), split)
    with observe.record() as session:
        xlab.jit(lambda x: (x @ x.T).sum())(x)
    here = observe.report(session)
    tpu = observe.report(session, machine="tpu:v5e")
    again = observe.report(session)
    named = [r.costs[0].machine.name for r in (here, tpu, again)]
    assert named == ["cpu", "tpu:v5e", "cpu"] and again.costs == here.costs
    assert tpu.costs[0].us == observe.cost(session.subjects[0], machine="tpu:v5e").us
    assert tpu.costs[0].memory == machines.CHIP_MEMORY["v5e"] * 10**9
    assert all(a.predicted_us != b.predicted_us for a, b in zip(here.transfers, tpu.transfers))
    assert len(tpu.transfers) == len(here.transfers) > 0
    with pytest.raises(ValueError, match="unknown machine 'tpu9'"):
        observe.report(session, machine="tpu9")
    with pytest.raises(KeyError), machines.predicting_for("tpu:v5e"):
        raise KeyError
    assert machines.current_machine().name == "cpu"


def test_open_sizes_are_refused_with_the_way_out():
    from xlab.export import symbolic_shape

    given = xlab.ShapeDtypeStruct(symbolic_shape("n"), np.float32)
    with pytest.raises(ValueError, match="give arrays, or types with numbers"):
        observe.cost(xlab.jit(lambda x: x + 1).trace(given), compile=False)


def test_a_calibration_is_kept_and_read_again(tmp_path, monkeypatch):
    for name, small in (("SIZE", 8), ("ELEMENTS", 64)):
        monkeypatch.setattr(calibration, name, small)
    monkeypatch.setattr(machines, "_calibrated", [])
    file = tmp_path / "machine.json"
    timed = {}
    least = calibration.least
    monkeypatch.setattr(calibration, "least", lambda given: timed.update(given) or least(given))
    made = observe.calibrate(file)
    # A result in new memory takes what it takes in a loop of steps, not what it takes once after other programs.
    results = [t.often for name, t in timed.items() if name.startswith("1 of ")]
    assert results and min(results) > 1
    assert made.measured and observe.machine() == made
    assert min(r for _, r in made.matrix) > 0 and made.bandwidth > 0 and made.dispatch_us > 0
    assert made.share >= 1 and made.alpha > 0 and made.beta > 0
    assert min(rate for _, _, rate in made.rates) > 0
    assert {"tanh", "product f32 over rows", "transpose alone"} <= {
        name for name, _, _ in made.rates
    }
    assert all(share >= 1 for _, share in made.shares) and made.start_us >= 0
    monkeypatch.setattr(machines, "_calibrated", [])
    assert observe.calibrate(file) == made == observe.machine()
    file.write_text(json.dumps(observe.memory(lambda x: x, X).to_json()))
    with pytest.raises(ValueError, match="has a Memory, not a Machine"):
        observe.calibrate(file)


def test_records_survive_json():
    c = observe.cost(xlab.grad(lambda x: jnp.tanh(x).sum()), X, machine=PLAIN, compile=False)
    assert Record.from_json(c.to_json()) == c


def test_predictions_are_times_and_not_in_texts_unless_asked():
    c = observe.cost(lambda x: x + 1, X, machine=PLAIN, compile=False)
    assert "predicted" not in text(c) and "256 µs predicted" in text(c, times=True)
