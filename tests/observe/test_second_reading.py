"""What records say of many programs, against a second reading of their compiled modules and what the runtime reports of them."""

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.observe import read_module
from xlab import lax, observe
from xlab.observe.records import buffers
from xlab.observe.records.report import report_header
from xlab.sharding import AxisType, NamedSharding, make_mesh
from xlab.sharding import PartitionSpec as P

AUTO = make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = make_mesh((4, 2), ("data", "model"))
ONE = make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))


def put(*shape, spec=(), mesh=AUTO, dtype=np.float32):
    made = (
        np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)
        if dtype is not np.int32
        else np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape) % 7
    )
    return xlab.device_put(made, NamedSharding(mesh, P(*spec)))


def spread(body, spec=P("i"), out=P("i"), mesh=ONE, **more):
    return xlab.shard_map(body, mesh=mesh, in_specs=spec, out_specs=out, **more)


def block(h, q):
    n = h * lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    heads = [jnp.reshape(n @ q[k], (*h.shape[:-1], 2, -1)) for k in ("q", "k", "v")]
    scores = xlab.nn.softmax(jnp.einsum("bthd,bshd->bhts", heads[0], heads[1]), -1)
    a = jnp.reshape(jnp.einsum("bhts,bshd->bthd", scores, heads[2]), h.shape)
    return h + a @ q["o"] + jnp.tanh(n @ q["up"]) @ q["down"]


def stack(params, x):
    for q in params:
        x = block(x, q)
    return (x**2).mean()


def scanned(params, x):
    return (lax.scan(lambda h, q: (block(h, q), None), x, params)[0] ** 2).mean()


def step(of):
    def run(params, x):
        value, grads = xlab.value_and_grad(of)(params, x)
        return value, xlab.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    return run


LAYER = {
    "q": (16, 16, (None, "model")),
    "k": (16, 16, (None, "model")),
    "v": (16, 16, (None, "model")),
    "o": (16, 16, ("model", None)),
    "up": (16, 32, (None, "model")),
    "down": (32, 16, ("model", None)),
}


def layer(mesh=AUTO, lead=(), specs=True):
    return {
        k: put(*lead, a, b, spec=((None,) * len(lead) + s) if specs else (), mesh=mesh)
        for k, (a, b, s) in LAYER.items()
    }


def mlp(p, x):
    return jnp.tanh(x @ p["up"]) @ p["down"]


def mlp_loss(p, x):
    return (mlp(p, x) ** 2).mean()


def rnn_loss(w, u, xs):
    return (
        lax.scan(lambda h, x: ((n := jnp.tanh(h @ w + x @ u)), n), jnp.zeros((8, 16)), xs)[1] ** 2
    ).mean()


def conv_loss(k, x):
    for w in k:
        x = jnp.tanh(
            lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        )
    return x.mean()


def experts(x, w):
    sent = lax.all_to_all(x.reshape(8, -1, x.shape[-1]), "i", 0, 0)
    return lax.all_to_all(jnp.tanh(sent @ w[0]), "i", 0, 0).reshape(x.shape)


def until(x):
    return lax.while_loop(
        lambda c: lax.pmax(c.max(), "i") < 9, lambda c: c * 1.5 + lax.pmean(c, "i"), x
    )


def pipeline(w, x):
    def turn(c, k):
        return lax.ppermute(jnp.tanh(c @ w[0]), "i", [(n, (n + 1) % 8) for n in range(8)]), c.sum()

    return lax.scan(turn, x, np.arange(11))


def nested(x):
    def inner(c, _):
        return lax.ppermute(c, ("model", "data"), [(0, 3), (3, 0)]) + c, None

    def outer(c, _):
        return lax.psum(lax.scan(inner, c, None, length=3)[0], "model") * 0.1, None

    return lax.scan(outer, x, None, length=5)[0]


def branches(x):
    return lax.cond(
        lax.psum(x.sum(), "i") > 0, lambda c: lax.psum(c, "i"), lambda c: lax.pmax(c, "i") * 2, x
    )


def ragged(x):
    sizes = jnp.ones(8, jnp.int32)
    return lax.ragged_all_to_all(
        x,
        jnp.zeros((8, 2)),
        jnp.arange(8, dtype=jnp.int32),
        sizes,
        jnp.full(8, lax.axis_index("i"), jnp.int32),
        sizes,
        axis_name="i",
    )


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
    return (xlab.nn.logsumexp(logits, axis=1) - picked).mean()


W, X = {"up": (None, "model"), "down": ("model", None)}, ("data", None)


def weights(up, down, mesh=AUTO):
    return {"up": put(16, 32, spec=up, mesh=mesh), "down": put(32, 16, spec=down, mesh=mesh)}


VEC = np.arange(64, dtype=np.float32)
PROGRAMS = {
    "transformer step": lambda: (step(stack), [layer(), layer()], put(8, 4, 16, spec=("data",))),
    "transformer step, data parallel": lambda: (step(stack), [layer(specs=False)], put(8, 4, 16, spec=(("data", "model"),))),
    "transformer step, layers scanned": lambda: (step(scanned), layer(lead=(3,)), put(8, 4, 16, spec=("data",))),
    "MLP on explicit axes": lambda: (lambda p, x: jnp.matmul(jnp.tanh(x @ p["up"]), p["down"], out_sharding=NamedSharding(EXPLICIT, P("data", None))),
                                     weights(*W.values(), mesh=EXPLICIT), put(8, 16, spec=X, mesh=EXPLICIT)),
    "MLP step on explicit axes": lambda: (
        xlab.grad(lambda p, x: (jnp.matmul(jnp.tanh(x @ p["up"]), p["down"], out_sharding=NamedSharding(EXPLICIT, P("data", None))) ** 2).mean()),
        weights(*W.values(), mesh=EXPLICIT), put(8, 16, spec=X, mesh=EXPLICIT)),
    "Megatron MLP step": lambda: (step(mlp_loss), weights(*W.values()), put(8, 16, spec=X)),
    "FSDP step": lambda: (step(mlp_loss), weights(X, X), put(8, 16, spec=X)),
    "transposed specs": lambda: (step(mlp_loss), weights(("model", None), (None, "model")), put(8, 16, spec=X)),
    "RNN step": lambda: (xlab.grad(rnn_loss, argnums=(0, 1)), put(16, 16), put(8, 16), put(6, 8, 8, spec=(None, "data"))),
    "convolutions with halos": lambda: (xlab.grad(conv_loss), [put(3, 3, 3, 3), put(3, 3, 3, 3)], put(2, 16, 8, 3, spec=(None, "data"))),
    "experts": lambda: (spread(experts, (P("i"), P("i"))), np.ones((64, 8), np.float32), np.ones((8, 8, 8), np.float32)),
    "until the maximum is reached": lambda: (spread(until), VEC),
    "pipeline": lambda: (spread(pipeline, (P("i"), P("i")), (P("i"), P()), check_vma=False), np.ones((8, 4, 4), np.float32), np.ones((16, 4), np.float32)),
    "nested scans": lambda: (spread(nested, P(("data", "model")), P(("data", "model")), AUTO, check_vma=False), VEC),
    "branches": lambda: (spread(branches, P("i"), P()), VEC),
    "ragged": lambda: (spread(ragged, P("i"), P("i")), np.ones((64, 2), np.float32)),
    "groups": lambda: (spread(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2, 4, 6], [1, 3, 5, 7]]), check_vma=False), VEC),
    "gather over axes in another order": lambda: (spread(lambda x: lax.all_gather(x, ("model", "data"), tiled=True), P(("data", "model")), P(),
                                                         AUTO, check_vma=False), VEC),
    "scatter of a sum": lambda: (spread(lambda x: lax.psum_scatter(x, "i", tiled=True), P(), P("i")), VEC),
    "broadcast": lambda: (spread(lambda x: lax.pbroadcast(x, "i", 3)), VEC),
    "part of a permute": lambda: (spread(lambda x: lax.ppermute(x, "i", [(1, 5), (6, 6), (0, 2)])), VEC),
    "sums of several dtypes": lambda: (spread(lambda x: (lax.psum(x.astype(jnp.bfloat16), "i"), lax.psum(x.astype(jnp.int8), "i")), P("i"), P()), VEC),
    "equal sums": lambda: (spread(lambda x: (lax.psum(x, "i"), lax.psum(x, "i"), lax.psum(x * 2, "i")), P("i"), P()), VEC),
    "vocabulary over model": lambda: (lambda t, i: t[i], put(32, 8, spec=("model", None)), put(8, 4, spec=("data",), dtype=np.int32)),
    "cross entropy over classes": lambda: (xlab.value_and_grad(cross_entropy), put(8, 32, spec=("data", "model")), put(8, spec=("data",), dtype=np.int32)),
    "sort": lambda: (lambda x: jnp.sort(x, 0), put(16, 32, spec=X)),
    "transform": lambda: (lambda x: jnp.abs(jnp.fft.fft(x)), put(16, 32, spec=("data", "model"))),
    "running sums": lambda: (lambda x: jnp.cumsum(x, 0), put(16, 32, spec=X)),
    "one device per group": lambda: (xlab.shard_map(lambda x: lax.psum(x, "one"), mesh=make_mesh((1,), ("one",), axis_types=(AxisType.Auto,)),
                                                    in_specs=P("one"), out_specs=P()), VEC),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(PROGRAMS))
def both(request):
    """A program's records, and the second reading of the module that runs."""
    f, *args = PROGRAMS[request.param]()
    compiled = xlab.jit(f).lower(*args).compile()
    return compiled, observe.transfers(compiled, tries=0), read_module.read(compiled.as_text())


def test_collectives_are_those_of_the_module(both):
    _, found, read = both
    there = {
        t.instruction: t
        for t in found
        if t.instruction and not (t.groups and all(len(g) < 2 for g in t.groups))
    }
    assert there.keys() == read.keys()
    for name, t in there.items():
        other = read[name]
        assert t.kind == other.kind.replace("-", "_") and (t.bytes_in, t.bytes_out) == (
            other.bytes_in,
            other.bytes_out,
        )
        assert (
            frozenset(map(frozenset, t.groups)) == other.groups
            and frozenset(t.pairs) == other.pairs
        )
        assert t.times == other.times or (other.times is None and t.times is None)
    assert all(t.times == 0 for t in found if not t.instruction), (
        "what is not in the module does not run"
    )


def test_bytes_sent_are_those_of_what_the_module_says(both):
    _, found, read = both
    devices = max((t.mesh.size for t in found if t.mesh), default=1)
    want = sum(r.sent() * (1 if r.times is None else r.times) for r in read.values()) / devices
    assert sum(t.sent_in_run for t in found) == pytest.approx(want, abs=len(found))
    assert sum(observe.totals(found).values()) == sum(t.sent_in_run for t in found)
    for t in found:
        if t.rounds and t.instruction:
            if "all_to_all" not in t.kind:  # on a ring the pieces of an all-to-all are passed on
                assert sum(n for messages in t.rounds for _, _, n in messages) == pytest.approx(
                    t.sent * devices, abs=8
                )
            members = {d for g in t.groups for d in g} or {d for p in t.pairs for d in p}
            assert {d for messages in t.rounds for s, e, _ in messages for d in (s, e)} <= members


def test_memory_is_what_the_runtime_reports_and_the_peak_what_lies_in_it(both):
    compiled, _, _ = both
    m, stats = observe.memory(compiled), compiled.memory_analysis()
    assert (m.arguments, m.outputs, m.temporaries) == (
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
    )
    constants = sum(b.size for b in m.buffers if b.kind == "constant")
    assert m.peak <= m.arguments + m.outputs + m.temporaries + m.code + constants
    alive = [own for _, own in buffers.alive_at(m.buffers, m.peak_step)]
    assert sum(alive) == buffers.peak(m.buffers)[1] <= m.peak


def test_numbers_of_collectives_are_given_where_they_were_looked_for(both):
    compiled, found, _ = both
    with observe.record() as session:
        stages = observe.memory(compiled)
    made = observe.report(session)
    assert (
        not made.transfers
        and not any("collective" in n for n in report_header(made)[1])
        and stages.peak
    )
    whole = made.replace(
        programs=(observe.program(compiled),), transfers=tuple(found), counted=True
    )
    told = next(n for n in report_header(whole)[1] if "collective" in n)
    assert re.match(rf"{sum(not t.removed for t in found)} collectives?\b", told)
