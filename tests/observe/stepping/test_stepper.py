"""Stepping gives what eager evaluation gives, bit for bit, forwards and backwards, inside and over nested programs."""

import inspect

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.records import Record
from xlab.observe.stepping import machine
from xlab.observe.stepping.values import summarize
from xlab.sharding import PartitionSpec as P

X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def same(a, b):
    for p, q in zip(xlab.tree.leaves(a), xlab.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(p), np.asarray(q))


@pytest.mark.parametrize("into", [True, False])
def test_the_result_is_the_eager_one(into):
    stepper = observe.step(programs.control, into=into)(X)
    same(stepper.result(), programs.control(X))
    assert stepper.finished and stepper.next() is None


def test_paths_say_where():
    found = list(observe.steps(programs.control, X))
    paths = [p for s in found for p in s.path]
    assert {
        "scan 1/3",
        "scan 2/3",
        "scan 3/3",
        "while 1",
        "while 0 condition",
        "cond branch 1",
    } <= set(paths)
    assert [s.index for s in found] == list(range(len(found)))
    scan = next(s for s in found if s.text.startswith(tuple("abcdefgh")) and " = scan[" in s.text)
    assert scan.path == () and found[scan.index - 1].path == ("scan 3/3",)
    over = list(observe.steps(programs.control, X, into=False))
    assert len(over) == len(observe.program(programs.control, X).equations)


def test_backwards_shows_the_same_bits():
    stepper = observe.step(programs.control)(X)
    stepper._snapshots.every = 2
    seen = [stepper.next() for _ in range(12)]
    for index in (11, 7, 3, 1, 9, 12):
        step = stepper.goto(index)
        assert step == seen[index - 1] and stepper.index == index
    assert stepper.back(5) == seen[6]
    assert stepper.goto(0) is None and stepper.index == 0
    same(stepper.result(), programs.control(X))


def test_snapshots_are_bounded():
    def long(x):
        for _ in range(300):
            x = lax.sin(x)
        return x

    stepper = observe.step(long, budget=20 * X.nbytes)(X)
    stepper._snapshots.every = 1
    stepper.run()
    assert stepper._snapshots.nbytes() <= 21 * X.nbytes and stepper.index == 300
    assert stepper.goto(150).index == 149
    same(stepper.result(), long(X))


def test_running_to_a_place():
    stepper = observe.step(programs.control)(X)
    stepper.run_to(primitive="reduce_sum")
    assert stepper.path == ("scan 1/3",) and stepper.program is not None
    equation = stepper.next_equation
    assert next(e for e, _ in stepper.program.walk() if e.id == equation).primitive == "reduce_sum"
    step = stepper.run_to(variable="z")
    assert step.text.split()[2].startswith(("cond", "log"))
    stepper.goto(0)
    source, first = inspect.getsourcelines(programs.control)
    line = first + next(i for i, text in enumerate(source) if "lax.cond(" in text)
    stepper.run_to(line=line)
    assert any(
        e.id == stepper.next_equation and e.source.line == line for e, _ in stepper.program.walk()
    )
    stepper.goto(0)
    assert (
        stepper.run_to(where=lambda s: s.outputs[0].max is not None and s.outputs[0].max > 50)
        .outputs[0]
        .max
        > 50
    )
    assert stepper.run_to(primitive="no_such") is None
    with pytest.raises(TypeError, match="something to stop at"):
        stepper.run_to()


def test_the_first_nan():
    def f(x):
        y = lax.sub(x, np.float32(2))
        z = lax.log(y)
        return lax.add(z, z)

    stepper = observe.step(f)(np.array([3.0, 1.0, 5.0], np.float32))
    step = stepper.run_to_nonfinite()
    assert " = log " in step.text and step.outputs[0].nans == 1 and step.outputs[0].note == "z"
    assert stepper.run_to_nonfinite() is None


def test_what_if():
    def f(x):
        y = lax.mul(x, x)
        return lax.add(y, np.float32(1))

    stepper = observe.step(f)(np.float32(3))
    stepper.next()
    stepper.replace("y", np.float32(5))
    assert float(stepper.result()) == 6.0
    stepper.goto(1)
    assert stepper.live()[0].max == 5.0 and "(replaced)" in stepper.live()[0].note
    with pytest.raises(KeyError, match="no live variable"):
        stepper.replace("nothing", 1)
    with pytest.raises(TypeError, match="cannot replace"):
        stepper.replace("y", np.ones(3, np.float32))


def test_what_if_inside_a_loop():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: lax.mul(c, np.float32(2)), x)

    stepper = observe.step(f)(np.float32(1))
    step = stepper.run_to(primitive="mul")
    assert step is not None or stepper.index == 0
    stepper.run_to(where=lambda s: " = mul " in s.text)
    frame = stepper._machine.stack[-1]
    name = next(
        stepper._letters(v) for v, x in frame.env.items() if np.asarray(x).dtype == np.float32
    )
    stepper.replace(name, np.float32(10))
    assert float(stepper.result()) == 40.0


def test_every_device_of_a_shard_map():
    x, w = (
        np.arange(64, dtype=np.float32).reshape(8, 8) / 64,
        np.arange(32, dtype=np.float32).reshape(8, 4) / 32,
    )
    f = programs.ring()
    stepper = observe.step(f)(x, w)
    found = {s.text.split(" = ")[1].split("[")[0]: s for s in stepper if s.path}
    parts = [
        x[2 * i : 2 * i + 2, 4 * j : 4 * j + 4] @ w[4 * j : 4 * j + 4]
        for i in range(4)
        for j in range(2)
    ]
    before, after = found["dot_general"].outputs[0], found["psum_invariant"].outputs[0]
    assert before.type == "f32[2,4]" and [s.device for s in before.shards] == list(range(8))
    np.testing.assert_allclose(
        [s.mean for s in before.shards], [p.mean() for p in parts], rtol=1e-5
    )
    np.testing.assert_allclose(
        [s.mean for s in after.shards],
        [(parts[d // 2 * 2] + parts[d // 2 * 2 + 1]).mean() for d in range(8)],
        rtol=1e-5,
    )
    assert found["ppermute"].path == ("shard_map over data, model", "scan 3/3")
    same(stepper.result(), f(x, w))


def test_sharded_values_are_summarized_per_device_and_never_gathered(monkeypatch):
    x = programs.put(np.arange(32).reshape(8, 4), "data", "model")
    from xlab.observe.stepping import values

    value = values.summarize(x, "x")
    assert (value.min, value.max, value.mean) == (0.0, 31.0, 15.5)
    assert value.preview == (0.0, 1.0, 4.0, 5.0) and sum(value.histogram) == 32
    assert [(s.device, s.min, s.max) for s in value.shards][:2] == [(0, 0.0, 5.0), (1, 2.0, 7.0)]
    replicated = values.summarize(programs.put(np.ones((8, 4)), "data"), "y")
    assert sum(replicated.histogram) == 32 and len(replicated.shards) == 8
    assert getattr(x, "_xlab_host", None) is None


@pytest.mark.parametrize(
    "value",
    [
        np.bool_(True),
        np.arange(5),
        np.array([1 + 2j]),
        np.array([np.nan, np.inf, 1.0], np.float32),
        np.zeros((0, 3), np.float32),
        np.float16(3),
        np.ones((3, 2, 5), np.int8),
    ],
)
def test_summaries_of_any_value(value):
    from xlab.observe.stepping.values import summarize

    made = summarize(value, "v")
    assert repr(Record.from_json(made.to_json())) == repr(made)
    if value.dtype.kind == "f" and value.size == 3:
        assert (made.nans, made.infs, made.max) == (1, 1, 1.0)


def test_a_recorded_run():
    trace = observe.trace(programs.control, X, limit=5)
    assert len(trace.steps) == 5 and trace.total > 5 and trace.program.name == "control"
    assert Record.from_json(trace.to_json()) == trace


def test_gradients_and_custom_rules():
    @xlab.custom_jvp
    def f(x):
        return lax.sin(x)

    f.defjvp(lambda primals, tangents: (f(primals[0]), lax.mul(tangents[0], lax.cos(primals[0]))))

    def loss(x):
        return lax.reduce_sum(lax.mul(f(x), f(x)), (0,))

    v = np.linspace(0, 1, 4).astype(np.float32)
    stepper = observe.step(xlab.grad(loss))(v)
    same(stepper.result(), xlab.grad(loss)(v))
    assert any("custom_jvp_call" in p for s in observe.steps(loss, v) for p in s.path)


def test_donated_arguments_stay_alive():
    inner = xlab.jit(lambda x: lax.add(x, x), donate_argnums=0)
    stepper = observe.step(lambda x: lax.mul(inner(x), np.float32(2)), into=False)(
        xlab.device_put(X)
    )
    stepper.run()
    stepper.goto(1)
    same(stepper.result(), 4 * X)


def test_comparing_two_runs():
    from xlab.observe import first_difference

    a, b = observe.step(programs.control)(X), observe.step(programs.control)(X)
    assert first_difference(a, b) is None
    a, b = observe.step(programs.control)(X), observe.step(programs.control)(X + np.float32(0.1))
    x, y = first_difference(a, b)
    assert x.index == y.index == 0


def counted(monkeypatch) -> list:
    """A list that grows by one for each step of the machine from now on."""
    ran, step = [], machine.JaxprMachine.step
    monkeypatch.setattr(
        machine.JaxprMachine, "step", lambda self, into=True: ran.append(1) or step(self, into)
    )
    return ran


def test_going_back_runs_again_only_what_lies_behind_the_last_snapshot(monkeypatch):
    def long(x):
        for _ in range(2000):
            x = lax.sin(x)
        return x

    stepper = observe.step(long)(X)
    stepper.run()
    ran = counted(monkeypatch)
    stepper.goto(1000)
    assert stepper.index == 1000 and 0 < len(ran) <= stepper._snapshots.every
    ran.clear()
    stepper.next()
    assert len(ran) == 1


def test_who_goes_back_step_by_step_runs_a_few_again_each_time(monkeypatch):
    """A run of many steps has places far from one another: close behind the present one there are more."""

    def long(x):
        for _ in range(1200):
            x = lax.sin(x)
        return x

    stepper = observe.step(long)(X)
    stepper._snapshots.every = 512
    stepper.run()
    seen = [stepper.goto(1000 - n) for n in range(3)]
    ran = counted(monkeypatch)
    total = 0
    for n in range(3, 100):
        ran.clear()
        seen.append(stepper.back())
        total += len(ran)
        assert stepper.index == 1000 - n and len(ran) <= 128
    assert total < 15 * 97
    monkeypatch.undo()
    fresh = observe.step(long)(X)
    assert fresh.goto(1000 - 99) == seen[-1], "the same step shows the same again"
    stepper.replace(seen[-1].outputs[0].name, np.zeros_like(X))
    assert stepper.goto(950).outputs[0].max == 0.0, "what was kept of the old run is gone"


def test_random_keys_and_custom_vjp():
    def draw(key):
        def body(k, _):
            k, sub = xlab.random.split(k)
            return k, xlab.random.normal(sub, (2,))

        return lax.scan(body, key, None, length=2)[1]

    key = xlab.random.key(0)
    same(observe.step(draw)(key).result(), draw(key))
    assert any(v.type.startswith("key") for s in observe.steps(draw, key) for v in s.outputs)
    keys = observe.summarize(xlab.random.split(key, 3), "ks")
    assert keys.type == "key<fry>[3]" and keys.min is keys.max is keys.mean is None
    assert not keys.histogram and "mean" not in str(keys)

    @xlab.custom_vjp
    def f(x):
        return lax.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda r, g: (lax.mul(g, lax.cos(r)),))
    x = np.float32(1)
    same(observe.step(xlab.grad(f))(x).result(), xlab.grad(f)(x))
    assert ("custom_vjp_call",) in [s.path for s in observe.steps(lambda x: f(x), x)]


def test_what_if_on_every_device():
    f = xlab.shard_map(
        lambda x: lax.psum(lax.neg(x), "model"),
        mesh=programs.mesh(),
        in_specs=programs.P("data", "model"),
        out_specs=programs.P("data", None),
    )
    x = np.ones((8, 4), np.float32)
    stepper = observe.step(f)(x)
    step = stepper.run_to(where=lambda s: " = neg " in s.text)
    name = step.outputs[0].name
    values = np.asarray(stepper.value(name)).copy()
    assert values.shape == (8, 2, 2)
    values[0] = 5
    stepper.replace(name, values)
    result = np.asarray(stepper.result())
    assert result.shape == (8, 2) and (result[:2] == 4).all() and (result[2:] == -2).all()


def test_partly_manual_shard_map_and_branches_that_differ():
    mesh = programs.mesh()
    f = xlab.shard_map(
        lambda x, w: lax.psum(programs.matmul(x, w), "model"),
        mesh=mesh,
        axis_names={"model"},
        in_specs=(programs.P(None, "model"), programs.P("model")),
        out_specs=programs.P(),
    )
    args = np.ones((8, 8), np.float32), np.ones((8, 4), np.float32)
    same(observe.step(f)(*args).result(), f(*args))

    def body(x):
        return lax.cond(lax.gt(lax.axis_index("data"), np.int32(1)), lax.neg, lax.exp, x)

    g = xlab.shard_map(body, mesh=mesh, in_specs=programs.P("data"), out_specs=programs.P("data"))
    x = np.arange(8, dtype=np.float32)
    same(observe.step(g)(x).result(), g(x))
    assert not any("branch" in p for s in observe.steps(g, x) for p in s.path)


def test_a_loop_with_a_scalar_carry_inside_shard_map():
    mesh = programs.mesh()

    def body(x):
        return lax.while_loop(
            lambda c: lax.lt(c[1], np.int32(3)),
            lambda c: (lax.mul(c[0], np.float32(2)), lax.add(c[1], np.int32(1))),
            (x, np.int32(0)),
        )[0]

    f = xlab.shard_map(body, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    x = np.arange(8, dtype=np.float32)
    s = observe.step(f)(x)
    assert [st.path[-1] for st in s if st.text.split()[2] == "add"] == [
        "while 1",
        "while 2",
        "while 3",
    ]
    np.testing.assert_array_equal(np.asarray(s.result()), np.asarray(f(x)))
    # The number that the carry starts with is a value of each device, as those that follow are.
    tests = [st.inputs[0] for st in observe.step(f)(x) if st.text.split()[2] == "lt"]
    assert [(v.type, v.preview) for v in tests] == [("i32[]", (n,)) for n in range(4)]
    assert all(len(v.shards) == 8 for v in tests)


def test_carry_and_slice_of_the_present_iteration_have_their_names():
    def turn(c, t):
        d = lax.mul(c, t)
        return lax.add(d, c), lax.sub(d, t)

    s = observe.step(lambda x: lax.scan(turn, np.float32(1), x))(np.arange(2, 5, dtype=np.float32))
    seen = []
    for step in s:
        if step.text.split()[2] == "mul":
            live = {v.note: v for v in s.live()}
            assert [live[name].name for name in ("c", "t")] == [v.name for v in step.inputs], (
                "both, by the names of the program too"
            )
            seen.append(tuple(live[name].preview[0] for name in ("c", "t")))
    assert seen == [(1, 2), (3, 3), (12, 4)]


def test_the_first_nan_is_no_infinity():
    def f(x):
        masked = lax.mul(x, np.float32(-np.inf))
        return lax.sub(lax.exp(masked), lax.sub(masked, masked))

    s = observe.step(f)(np.float32(1))
    step = s.run_to_nan()
    assert step.text.split()[2] == "sub" and step.outputs[0].nans == 1
    assert (
        observe.step(lambda x: lax.exp(lax.mul(x, np.float32(-np.inf))))(np.float32(1)).run_to_nan()
        is None
    )


def test_a_replaced_value_is_that_of_one_iteration():
    def f(x):
        return lax.scan(
            lambda c, t: ((d := lax.mul(c, t)), lax.add(d, np.float32(1))), np.float32(1), x
        )

    s = observe.step(f)(np.arange(1, 4, dtype=np.float32))
    name = s.next().outputs[0].name
    s.replace(name, np.float32(7))
    assert "(replaced)" in next(v for v in s.live() if v.name == name).note
    s.next()
    assert (
        s.next().outputs[0].name == name
        and "(replaced)" not in next(v for v in s.live() if v.name == name).note
    )


def test_one_number_is_written_once():
    for value, said in ((np.float32(6), "x:f32[]  6"), (np.bool_(True), "x:bool[]  True")):
        assert observe.text(summarize(value, "x")) == said


def test_x62_maps_in_maps_are_walked_through():
    body = lambda x: lax.add(x, lax.psum(x, ("i", "j")))
    nested = xlab.pmap(xlab.pmap(body, axis_name="j"), axis_name="i")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    steps = list(observe.steps(nested, x))
    inside = next(s for s in steps if "psum" in s.text)
    assert inside.path[0] == "shard_map over i" and inside.path[-1] == "shard_map over j"
    assert [shard.min for shard in inside.inputs[0].shards] == list(range(8))
    assert {shard.min for shard in inside.outputs[0].shards} == {28.0}
    assert ":f32[]  0  by device: 0, 1.00, 2.00, 3.00" in repr(inside)
    same(observe.step(nested)(x).result(), nested(x))

    stepper = observe.step(nested)(x)  # a value replaced inside leaves through both maps
    while "psum" not in (step := stepper.next()).text:
        pass
    name = step.outputs[0].name
    stepper.replace(name, stepper.value(name) * 0)
    same(stepper.result(), x)


def test_x62_keys_in_maps_and_a_map_without_a_name():
    draw = xlab.pmap(lambda k: xlab.random.uniform(xlab.random.fold_in(k, 1)))
    keys = xlab.random.split(xlab.random.key(0), 2)
    steps = list(observe.steps(draw, keys))
    assert steps[0].path == ("pmap",) and steps[0].outputs[0].type == "key<fry>[]"
    assert len(steps[0].outputs[0].shards) == 2
    same(observe.step(draw)(keys).result(), draw(keys))


def test_x62_a_loop_that_ends_at_different_times_goes_on_at_once():
    mesh = programs.mesh()
    f = xlab.shard_map(
        lambda x: lax.while_loop(lambda c: c.sum() < 20, lambda c: lax.mul(c, np.float32(2)), x),
        mesh=mesh,
        in_specs=programs.P("data"),
        out_specs=programs.P("data"),
    )
    x = np.arange(1, 9, dtype=np.float32)
    steps = list(observe.steps(f, x))
    notes = {o.note for s in steps for o in s.outputs}
    assert "from iteration 1 on the devices disagree: the rest ran at once" in notes
    same(observe.step(f)(x).result(), f(x))
