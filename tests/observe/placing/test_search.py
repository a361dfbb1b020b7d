"""The search for a better placement: programs whose best placement is known, ones where nothing is better, and that what is offered holds when compiled."""

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.placing.search import Search
from xlab.observe.records import Record
from xlab.observe.sharding.experiment import mesh_of
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

UP, DOWN = (None, "model"), ("model", None)


def typed(mesh, shape, *spec, dtype=np.float32):
    return xlab.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def mlp(mesh, up, down, layers=2, width=256, batch=64, data=("data",)):
    """A step of residual layers, with the placement of its weights."""

    def loss(layers, x, y):
        for p in layers:
            x = x + jnp.tanh(x @ p["up"]) @ p["down"]
        return jnp.mean((x - y) ** 2)

    def step(layers, x, y):
        value, gradient = xlab.value_and_grad(loss)(layers, x, y)
        return xlab.tree.map(lambda p, g: p - 0.1 * g, layers, gradient), value

    weights = [
        {"up": typed(mesh, (width, 4 * width), *up), "down": typed(mesh, (4 * width, width), *down)}
        for _ in range(layers)
    ]
    x = typed(mesh, (batch, width), *data)
    return step, (weights, x, x)


@pytest.fixture(scope="module")
def transposed():
    """Weights of tensor parallelism the wrong way round."""
    step, args = mlp(mesh_of({"data": 4, "model": 2}), DOWN, UP)
    return observe.Experiment(xlab.jit(step), *args)


def test_specs_the_wrong_way_round_are_turned(transposed):
    weights = [n for n, name in enumerate(transposed.names) if "layers" in name]
    found = transposed.search(weights, shapes=False)
    best, now = found.better, found.now
    assert found.found[found.best] == best and found.done and "is better" in found.verdict
    assert not best.estimated and not now.estimated, "what is offered was compiled"
    assert best.step_us < now.step_us and best.predicted_us < now.predicted_us
    assert found.proven.before.step_us == now.step_us and found.proven.after.step_us == best.step_us
    byhand = transposed.prove(
        {"layers[*]['up']": ((), ("model",)), "layers[*]['down']": (("model",), ())}
    )
    assert best.step_us <= byhand.after.step_us < now.step_us
    assert Record.from_json(found.to_json()) == found and "now" in observe.text(found)


def test_the_known_answer_is_found_exactly():
    step, args = mlp(mesh_of({"model": 4}), DOWN, UP, data=())
    tried = observe.Experiment(xlab.jit(step), *args)
    found = tried.search([n for n, name in enumerate(tried.names) if "layers" in name])
    assert dict(found.better.specs) == {
        "layers[*]['down']": (("model",), ()),
        "layers[*]['up']": ((), ("model",)),
        "x": ((), ()),
        "y": ((), ()),
    }
    assert found.better.name in ("FSDP", "tensor parallel (Megatron)"), (
        "on one axis, with data whole, they are the same"
    )


def test_where_the_present_placement_is_best_nothing_is_offered():
    x, w = (
        programs.put(np.ones((64, 64)), "data", None),
        programs.put(np.ones((64, 64)), None, "model"),
    )
    tried = observe.Experiment(xlab.jit(programs.matmul), x, w)
    found = tried.search(shapes=False)
    assert found.better is None and found.best == -1 and found.proven is None and not found.code
    assert found.verdict == "nothing better found" and found.now.title.startswith("now: x P('data'")
    costs = [(p.step_us, p.peak) for p in found.found if not p.estimated]
    assert (found.now.step_us, found.now.peak) in costs
    assert "nothing better found" in observe.text(found)


def test_the_search_never_ends_with_worse(transposed):
    for limit in (1, 3, 30):
        found = transposed.search(limit=limit, prove=0)
        better = found.better
        assert found.now is not None and (better is None or better.step_us <= found.now.step_us)
        assert found.tried <= limit and (limit > 1 or better is None)
    assert transposed.search(seconds=0.0, prove=0).tried == 1


def test_computing_counts_and_not_only_sending(transposed):
    """Whole weights and data send nothing, and every device computes everything."""
    search = Search(transposed, machine="tpu:v5e", prove=0)
    whole = tuple(((),) * len(s) for s in transposed.shapes)
    split = search.present
    for specs in (whole, split):
        search.estimate((search.base, specs))
    a, b = (search.tried[search.base, specs] for specs in (whole, split))
    assert a.communication_us == 0 < b.communication_us and a.compute_us > 1.5 * b.compute_us


def test_ways_with_a_name_stand_beside_what_is_on_every_shape(transposed):
    found = transposed.search(prove=0)
    names = {p.name for p in found.found}
    assert {
        "now",
        "data parallel",
        "FSDP",
        "data × tensor parallel (Megatron)",
        "2-D (FSDP × Megatron)",
    } <= names
    by_name = {p.name: p for p in found.found if p.name}
    megatron = dict(by_name["data × tensor parallel (Megatron)"].specs)
    assert megatron["layers[*]['up']"] == ((), ("model",)) and megatron["x"] == (("data",), ())
    assert megatron["layers[*]['down']"] == (("model",), ())
    fsdp = dict(by_name["FSDP"].specs)
    assert (
        all(any(spec) for spec in fsdp.values())
        and by_name["FSDP"].peak < by_name["data parallel"].peak
    )
    sizes = {p.mesh.axis_sizes for p in found.found}
    assert len(sizes) > 1 and all(a * b == 8 for a, b in sizes)
    front = [(p.step_us, p.peak) for p in found.found if p.front]
    assert front and all(
        not (q.step_us < us and q.peak < peak) for us, peak in front for q in found.found
    )


@pytest.mark.parametrize(("patience", "most"), [(0.0, 2), (1e9, 3)])
def test_where_compiling_takes_long_one_that_is_better_is_enough(
    transposed, monkeypatch, patience, most
):
    monkeypatch.setattr("xlab.observe.placing.proofs.PATIENCE", patience)
    monkeypatch.setattr(
        "xlab.observe.placing.proofs.NEAR", 0.0
    )  # nothing is as good as its estimate
    search = Search(transposed, shapes=False, prove=2)
    search.run()
    assert len(search.proofs.compiled) == most and search.ranking().better is not None


@pytest.mark.parametrize("way", ["data parallel", "FSDP", "data × tensor parallel (Megatron)"])
def test_estimates_are_what_the_compiler_makes(transposed, way):
    search = Search(transposed, shapes=False, prove=0)
    search.run()
    (key,) = [k for k, name in search.names.items() if name == way]
    guess, made = search.tried[key], search._compile(key)
    assert guess.us == pytest.approx(made.step_us, rel=0.1)
    assert guess.communication_us == pytest.approx(made.predicted_us, rel=0.3)
    assert guess.sent == pytest.approx(made.sent, rel=0.3)


def test_a_slice_that_is_not_here():
    step, args = mlp(mesh_of({"data": 4, "model": 2}), UP, DOWN, width=512, batch=512)
    tried = observe.Experiment(xlab.jit(step), *args)
    found = tried.search(machine="tpu:v5e:16x16", prove=0, limit=150)
    assert found.machine == "tpu:v5e" and found.memory == 16 * 10**9
    assert {p.mesh.size for p in found.found} == {256}
    assert found.now.mesh.axis_sizes == (128, 2)
    wide = tried.search(axes={"data": 64, "model": 8}, prove=0, limit=50, shapes=False)
    assert {p.mesh.size for p in wide.found} == {512}


def test_what_does_not_fit_comes_last(transposed):
    room = transposed.now().peak - 1000
    small = observe.machine("tpu:v5e").replace(memory=room)
    found = transposed.search(machine=small, shapes=False, prove=0)
    fits = [p.peak <= room for p in found.found]
    assert fits == sorted(fits, reverse=True) and fits[0] and not fits[-1]


def test_a_loop_and_constraints_are_estimated():
    mesh = mesh_of({"data": 4, "model": 2})

    def f(ws, x):
        def layer(x, w):
            y = lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(mesh, P("data", None)))
            return y, jnp.sum(y)

        return lax.scan(layer, x, ws)

    tried = observe.Experiment(
        xlab.jit(f), typed(mesh, (6, 64, 64), None, None, "model"), typed(mesh, (32, 64), "data")
    )
    search = Search(tried, shapes=False, prove=0)
    search.estimate(search.first)
    (sent,) = [
        m
        for m in search.estimator().placed(search.present, dict(search.base)).messages
        if m.kind == "all_gather"
    ]
    assert sent.times == 6 and sent.axes == ("model",) and sent.nbytes == 8 * 32 * 4
    (compiled,) = [t for t in tried.now().collectives if t.kind == "all_gather"]
    assert (compiled.times, compiled.bytes_in) == (6, sent.nbytes)


def test_what_a_shard_map_sends_is_known():
    mesh = mesh_of({"data": 4, "model": 2})
    f = xlab.shard_map(lambda x: lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P())
    tried = observe.Experiment(xlab.jit(lambda x: f(x) * 2), typed(mesh, (8, 16), "data"))
    search = Search(tried, prove=0)
    (message,) = search.estimator().placed(search.present, dict(search.base)).messages
    assert (message.kind, message.axes, message.nbytes) == ("all_reduce", ("data",), 2 * 16 * 4)
    assert search.meshes() == [search.base]
    assert tried.search(prove=0).better is None


def test_one_press_proves_a_change(transposed):
    found = transposed.prove(
        {"layers[*]['up']": ((), ("model",)), "layers[*]['down']": (("model",), ())}
    )
    assert found.after.step_us < found.before.step_us and len(found.changed) == 4
    assert "step" in observe.text(found) and found.before.title == "now"
    assert "measured" not in observe.text(found), "nothing runs unless it is asked for"
    ran = transposed.prove({"layers[*]['up']": ((), ("model",))}, measure=True)
    assert ran.before.measured_us > 0 and ran.after.measured_us > 0
    assert re.search(r"measured +\d.* [µm]?s +\d.* [µm]?s", observe.text(ran))
    with pytest.raises(ValueError, match="no argument is 'nowhere'"):
        transposed.prove({"nowhere": ((),)})


def test_the_code_puts_arguments_so():
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)

    def f(layers, x):
        for p in layers:
            x = jnp.tanh(x @ p["up"]) @ p["down"]
        return x

    put = lambda shape, *s: xlab.device_put(np.ones(shape, np.float32), NamedSharding(mesh, P(*s)))
    args = [{"up": put((64, 256), *DOWN), "down": put((256, 64), *UP)}] * 2, put((32, 64), "data")
    found = observe.Experiment(xlab.jit(f), *args).search()
    scope = {"f": f, "args": args}
    exec(found.code, scope)
    made = observe.Experiment(xlab.jit(f), *scope["args"]).now()
    assert made.peak == found.better.peak and len(made.collectives) == len(found.better.collectives)


def test_an_interrupt_keeps_the_best_so_far(transposed):
    seen = []

    def interrupt(ranking):
        seen.append(ranking)
        raise KeyboardInterrupt

    search = Search(transposed, prove=0)
    search.advance = lambda seconds, go=search.advance: go(0.0)
    search.run(progress=lambda r: interrupt(r) if r.tried > 20 else None)
    found = search.ranking()
    assert len(seen) == 1 and found.tried == seen[0].tried and not found.done
    assert found.better is not None and found.better.step_us <= found.now.step_us


def test_ways_with_a_name_use_each_axis_once():
    mesh = mesh_of({"data": 4, "model": 2})

    def f(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return x

    args = [typed(mesh, (64, 64), None, "model")] * 4, typed(mesh, (32, 64), "data")
    search = Search(observe.Experiment(xlab.jit(f), *args), prove=0)
    for _, specs in search._named(search.base):
        for spec in specs:
            used = [a for axes in spec for a in axes]
            assert len(used) == len(set(used))
    tensor = dict(search._named(search.base))["data × tensor parallel (Megatron)"]
    assert tensor[:4] == (((), ("model",)), (("model",), ()), ((), ("model",)), (("model",), ()))
