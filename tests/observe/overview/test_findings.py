"""What a program does that need not be so: found where it is, not where it is not; and patterns by their names."""

from __future__ import annotations

import itertools
import re
import types

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import P, observe
from xlab.notebook.views.draw import html
from xlab.notebook.views.report import ReportView
from xlab.observe.overview.findings import proved
from xlab.observe.programs.stages import program_stages
from xlab.observe.records.text import text
from xlab.observe.timing.warm_runs import warm_us
from xlab.sharding import AxisType, NamedSharding, make_mesh

X = np.ones((8, 16), np.float32)
_numbers = itertools.count()
BIG = np.ones((128, 256), np.float32)


def kinds(f, *args):
    return [f.kind for f in observe.findings(f, *args)]


def test_constants_that_are_captured():
    table = jnp.asarray(BIG)
    (found,) = observe.findings(lambda i: table[i], 3)
    assert (found.kind, found.nbytes) == ("captured constant", BIG.nbytes)
    assert "f32[128,256]" in found.text and "as an argument" in found.change
    assert "table[i]" in found.source.text
    small = jnp.asarray(X)
    assert kinds(lambda x: x * small, X) == []
    assert kinds(lambda t, i: t[i], BIG, 3) == []


def test_arguments_that_nothing_reads_and_that_come_back():
    assert kinds(lambda x, rng: x * 2, X, X) == ["unused argument"]
    (found,) = observe.findings(lambda p, x: (p, x["a"] * 2), X, {"a": X})
    assert (found.kind, found.text) == ("returned argument", "`p` comes back as it was given")
    assert kinds(lambda x, y: x + y, X, X) == []


@pytest.fixture(scope="module")
def put():
    mesh = make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    return lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))


def test_what_is_the_case_at_many_equations_of_a_line_is_one_finding(put):
    """Layers that Python unrolls, forwards and backwards; amounts are of all, and so they are once a change of one is asked for."""

    def net(w, x):
        for _ in range(5):
            x = jnp.tanh(x @ w)
        return x.sum()

    w, x = put(np.ones((16, 16), np.float32), None, "model"), put(X, "data")
    stages = program_stages(xlab.jit(xlab.grad(net)), (w, x))
    found = observe.findings(stages, tries=0)
    said = [(f.kind, f.text, f.source.line if f.source else 0) for f in found]
    assert len(set(said)) == len(said) < found.surprises
    assert sum(f.collectives for f in found) == found.surprises
    most = max(found, key=lambda f: f.times)
    assert most.times >= 4 and most.collectives == most.times and most.us > 0
    assert f"{most.collectives} collectives" in most.amount
    again = proved(stages, most)
    assert (again.times, again.us, again.collectives) == (most.times, most.us, most.collectives)


def test_the_sum_of_gradients_over_devices_is_no_finding(put):
    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    w, x = put(np.ones((16, 4), np.float32)), put(X, "data")
    found = observe.findings(xlab.jit(xlab.grad(loss)), w, x)
    assert found == ()
    assert [(p.name, p.axes, p.count) for p in found.patterns] == [
        ("data-parallel gradient sum", ("data",), 1)
    ]
    assert "data-parallel gradient sum over data: 1 collective" in text(found.patterns[0])


def test_a_loss_that_is_summed_along_with_gradients_does_not_name_them(put):
    """The compiler puts the sum of the loss and those of all gradients into one instruction."""

    def loss(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    params, x = [put(np.ones((16, 16), np.float32))] * 3, put(np.ones((8, 16), np.float32), "data")
    found = observe.findings(xlab.jit(xlab.value_and_grad(loss)), params, x)
    assert {p.name for p in found.patterns} == {"data-parallel gradient sum"}


def test_the_sum_of_a_row_parallel_product_is_no_finding(put):
    x, w = put(X, None, "model"), put(np.ones((16, 4), np.float32), "model", None)
    found = observe.findings(xlab.jit(lambda x, w: x @ w), x, w)
    assert found == () and [p.name for p in found.patterns] == ["row-parallel product"]


def test_a_collective_that_another_sharding_removes_was_tried(put):
    x, w = put(X, "data", "model"), put(np.ones((16, 4), np.float32), None, "model")
    (found,) = observe.findings(xlab.jit(lambda x, w: x @ w), x, w)
    assert found.kind == "removable collective" and "it is gone" in found.proof
    assert "give `w` the sharding P('model', None)" in found.change
    assert found.us > 0 and found.nbytes > 0 and found.tab == "collectives"
    # What was not tried is told without a change.
    (untried,) = observe.findings(xlab.jit(lambda x, w: x @ w), x, w, tries=0)
    assert (untried.kind, untried.change, untried.collectives) == ("resharding", "", 1)
    assert (untried.nbytes, untried.us) == (found.nbytes, found.us)


def test_a_change_that_was_compiled_is_run_where_that_is_asked_for(put):
    x, w = put(X, "data", "model"), put(np.ones((16, 4), np.float32), None, "model")
    f = xlab.jit(lambda x, w: x @ w)
    (found,) = observe.findings(f, x, w, measure=True)
    before, after = found.measured_us
    assert before > 0 and after > 0 and found.measured.startswith("measured a run: ")
    assert f"; {found.measured}]" in text(found)
    (quiet,) = observe.findings(f, x, w)
    assert quiet.measured_us == () and quiet.proof == found.proof and "measured" not in text(quiet)


def test_what_a_run_takes_is_not_measured_where_it_would_do_something_or_might_not_end():
    def timed(f, *args):
        return warm_us(program_stages(xlab.jit(f), args))

    ends = lambda x: xlab.lax.fori_loop(0, 3, lambda i, x: x * 2, x)
    doubled = lambda x: xlab.lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, x)
    types = xlab.ShapeDtypeStruct(X.shape, X.dtype)
    assert timed(ends, types) > 0
    assert timed(doubled, types) is None

    def printed(x):
        xlab.debug.print("{}", x)
        return x

    assert timed(printed, X) is None
    stages = program_stages(xlab.jit(doubled, donate_argnums=0), (X,))
    mine = X.copy()
    assert warm_us(stages, (mine,)) > 0 and (mine == X).all(), "donated is a copy"


def test_an_array_that_every_device_rebuilds_is_found(put):
    x, y = put(np.ones((16, 32), np.float32), "data"), put(np.ones((16, 32), np.float32), "model")
    found = observe.findings(xlab.jit(lambda x, y: x + y), x, y)
    (one,) = found  # one change takes both of its collectives away
    assert one.kind == "full rematerialization" and one.nbytes == 1024 + 1536
    assert one.change == "give `y` the sharding P('data', None) where it is made" and one.proof


def test_a_static_value_is_offered_as_an_argument_where_it_was_compiled_as_one():
    """What the program is made of is told, and no change to it."""

    def scaled(x, n, *, name):
        return jnp.tanh(x * n)

    def unrolled(x, n):
        for _ in range(n):
            x = x * 2
        return x

    def found(f, **more):
        for n in (2, 3, 4):
            f(X, n, **more)
        (one,) = [x for x in observe.findings(f, X, 4, **more) if x.kind == "recompile"]
        return one

    one = found(xlab.jit(scaled, static_argnums=1, static_argnames="name"), name="a")
    assert one.change == "make `n` an ordinary argument"
    assert one.proof.startswith("compiled with `n` as an argument: one program in the place of 3")
    other = found(xlab.jit(unrolled, static_argnums=1))
    assert not other.change and not other.proof
    assert other.text.endswith("the program is made of its value")


def test_arrays_that_lie_otherwise_have_one_placement_that_is_compiled(put):
    f = xlab.jit(_another(lambda x: jnp.tanh(x) @ x.T))
    spread = [put(np.ones((8, 8), np.float32), *s) for s in (("data",), ("model",), (None, "data"))]
    for x in spread:
        f(x)
    (one,) = [x for x in observe.findings(f, spread[-1]) if x.kind == "recompile"]
    assert "x = xlab.device_put(x, NamedSharding(mesh, P(None, 'data')))" in one.change
    assert one.proof == "compiled for f32[8,8] as P(None, 'data'): one program in the place of 3"
    for x in spread:
        f(xlab.device_put(x, spread[-1].sharding))
    assert f._cache_size() == 3, "no more are made"


def test_a_program_without_fault_has_none():
    def step(w, x):
        return w - 0.1 * xlab.grad(lambda w: jnp.sum((x @ w) ** 2))(w)

    assert observe.findings(step, np.ones((16, 4), np.float32), X) == ()


SIZES = [(np.ones(n, np.float32),) for n in (3, 5, 4)]
KINDS = [(np.ones(3, d),) for d in (np.int32, np.float16, np.float32)]
BOXES = [([[X], [X]],), (([X], [X]),), (((X,), [X]),)]
STATES = [(X, {}), (X, {"a": X, "b": X}), (X, {"a": X})]
RATES = [(X, 0.1), (X, np.float32(0.1))]
RECOMPILES = {
    "rate of a step": (
        lambda w, lr: w - lr * w, RATES, "`lr` is a Python number", "xlab.numpy.float32(lr)",
        "compiled for f32[]: one program in the place of 2", lambda a: (a[0], jnp.float32(a[1])),
    ),
    "sequences of a model": (
        lambda x: jnp.tanh(x * 3), SIZES, "the shape of `x` changes: ", "pad x to f32[5]",
        "compiled for f32[5]: one program in the place of 3, 5 operations a call where this one has 4",
        lambda a: (np.pad(a[0], (0, 5 - len(a[0]))),),
    ),
    "data of a table": (
        lambda x: jnp.tanh(x * 3), KINDS, "the dtype of `x` changes: ", "asarray(x, 'float32')",
        "compiled for f32[3]: one program in the place of 3", lambda a: (jnp.asarray(a[0], "float32"),),
    ),
    "containers of parameters": (
        lambda p: p[0][0] * p[1][0], BOXES, "`p` was of type list, and is of type tuple",
        "pass the same containers at every call", "compiled for 2 arrays at every call: one program in the place of 3",
        lambda a: (((a[0][0][0],), [a[0][1][0]]),),
    ),
    "parts of a state": (
        lambda x, s: x + sum(s.values()), STATES, "not every call has `s['a']`, `s['b']`",
        "pass `s['a']`, `s['b']` at every call: zeros,",
        "compiled for 3 arrays at every call: one program in the place of 3, ",
        lambda a: (a[0], {"a": 0 * X, "b": 0 * X} | a[1]),
    ),
    "history of a sampler": (
        lambda h: sum(jnp.tanh(x) for x in h), [([X] * n,) for n in (2, 3, 1)], "not every call has `h[1]`, `h[2]`",
        "pass `h[1]`, `h[2]` at every call", "compiled for 3 arrays at every call: one program in the place of 3, ",
        lambda a: ((a[0] + [0 * X] * 3)[:3],),
    ),
}  # fmt: skip


def test_structures_of_which_none_has_all_are_told_and_no_change_is_offered():
    f = xlab.jit(_another(lambda p: sum(p.values())))
    for key in "abc":
        f({key: X})
    (one,) = [x for x in observe.findings(f, {"c": X}) if x.kind == "recompile"]
    assert not one.change and not one.proof
    assert one.text.endswith(
        "one call has `p['c']` and another `p['a']`, so that no one program takes all"
    )


ANEW = {
    "a cell that is run again": (
        "def {name}(x):\n    return jnp.tanh(x) * 3\nf = {name}",
        "define {name} once, before the loop or in a cell of its own",
    ),
    "a function that another makes": (
        "def make():\n    def {name}(x):\n        return jnp.tanh(x) * 3\n    return {name}\nf = make()",
        "define the function once, outside the loop or the function that makes it",
    ),
}


@pytest.mark.parametrize("name", ANEW)
def test_a_function_that_is_defined_anew_is_told_and_once_it_is_defined_there_is_no_more(name):
    def recompiles():
        return [x for x in observe.findings(names["f"], X) if x.kind == "recompile"]

    code, change = ANEW[name]
    called, names = f"anew{next(_numbers)}", {"jnp": jnp}
    define = compile(code.format(name=called), f"<{called}>", "exec")
    for _ in range(3):
        exec(define, names)
        xlab.jit(names["f"])(X)
    (found,) = recompiles()
    assert re.fullmatch(
        r"compiled 2 times more, [\d.]+ .?s: the function is defined anew", found.text
    )
    assert found.change == change.format(name=called)
    exec(define.replace(co_filename=f"<{called} again>"), names)
    f = xlab.jit(names["f"])
    for _ in range(3):
        f(X)
    assert f._cache_size() == 1


@pytest.mark.parametrize("name", RECOMPILES)
def test_a_recompile_has_a_change_that_was_compiled_and_keeps_one_program(name):
    def recompiles(calls, **how):
        f = xlab.jit(_another(fun))
        for args in calls:
            f(*args)
        found = [x for x in observe.findings(f, *calls[-1], **how) if x.kind == "recompile"]
        return found, f._cache_size()

    fun, calls, said, change, proof, mended = RECOMPILES[name]
    (found,), made = recompiles(calls)
    assert found.us > 0 and found.text.startswith("compiled") and said in found.text
    assert change in found.change and found.proof.startswith(proof) and made == len(calls)
    (untried,), _ = recompiles(calls, tries=0)
    assert not untried.change, "what was not compiled is not offered"
    assert recompiles([mended(args) for args in calls]) == ([], 1)


def _another(fun):
    """The same function under a name that nothing was compiled for."""
    code = fun.__code__.replace(co_name=f"f{next(_numbers)}")
    return types.FunctionType(code, fun.__globals__)


def test_fsdp_gathers_and_what_the_user_wrote_have_names(put):
    lies = put(X, "data").sharding
    held = lambda x: xlab.lax.with_sharding_constraint(x, lies)

    def layers(ws, x):
        return xlab.lax.scan(lambda h, w: (held(jnp.tanh(h @ w)), None), x, ws)[0]

    ws, x = put(np.ones((3, 16, 16), np.float32), None, "data"), put(np.ones((64, 16)), "data")
    found = observe.findings(xlab.jit(layers), ws, x, tries=0)
    assert [p.name for p in found.patterns] == ["FSDP gather"]
    assert (found.collectives, found.surprises) == (1, 0)


def named(f, *args, n=3):
    mesh = make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    mapped = xlab.shard_map(f, mesh=mesh, in_specs=(P("d"),) * n, out_specs=P("d"), check_vma=False)
    found = observe.findings(xlab.jit(mapped), *args, tries=0)
    assert found.surprises == 0
    return sorted({p.name for p in found.patterns})


RING = [(i, (i + 1) % 4) for i in range(4)]


def test_patterns_that_are_written_in_shard_map_have_names():
    lax = xlab.lax
    send = lambda x: lax.ppermute(x, "d", RING)

    def ring_attention(q, k, v):
        def turn(_, c):
            k, v, o = c
            return send(k), send(v), o + jnp.exp(q @ k.T) @ v

        return lax.fori_loop(0, 4, turn, (k, v, jnp.zeros_like(q)))[2]

    def pipeline(w, x, _):
        return lax.fori_loop(0, 4, lambda i, h: send(jnp.tanh(h @ w.T)), x)

    def halo(x, *_):
        return x + send(x[-1:])

    def experts(x, w, _):
        there = lax.all_to_all(x, "d", 0, 0, tiled=True)
        return lax.all_to_all(jnp.tanh(there @ w.T), "d", 0, 0, tiled=True)

    def sequence(x, w, _):
        whole = lax.all_gather(x * 2, "d", axis=0, tiled=True)
        return lax.psum_scatter(jnp.tanh(whole @ w.T), "d", tiled=True)

    a = np.ones((16, 4), np.float32)
    assert named(ring_attention, a, a, a) == ["ring attention"]
    assert named(pipeline, a, a, a) == ["pipeline sends"]
    assert named(halo, a, a, a) == ["halo exchange"]
    assert named(experts, a, a, a) == ["expert all-to-all"]
    assert "sequence parallelism" in named(sequence, a, a, a)


def _over_experts(put):
    def layer(x, w):
        sent = xlab.lax.with_sharding_constraint(jnp.moveaxis(x, 1, 0), lies)
        return jnp.tanh(jnp.einsum("egd,edh->egh", sent, w)).sum((0, 1))

    x, w = (put(np.ones(s, np.float32), "data") for s in ((32, 32, 64), (32, 64, 16)))
    lies = w.sharding
    return layer, (x, w)


def _in_sequence(put):
    def layer(w, x):
        h = xlab.lax.with_sharding_constraint(jnp.tanh(x), lies)
        return jnp.tanh(h @ w[0]) @ w[1]

    w = np.ones((32, 256), np.float32)
    x = put(np.ones((4, 4, 32), np.float32), "data", "model")
    lies = x.sharding
    return layer, ((put(w, None, "model"), put(w.T, "model")), x)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (_over_experts, ["expert all-to-all", "expert combine"]),
        (_in_sequence, ["row-parallel product", "sequence parallelism"]),
    ],
    ids=["experts", "sequence"],
)
def test_patterns_that_the_partitioner_made_have_names(put, made, names):
    f, args = made(put)
    found = observe.findings(xlab.jit(f), *args, tries=0)
    assert sorted(p.name for p in found.patterns) == names
    assert (found.collectives, found.surprises) == (2, 0)


def test_edges_to_neighbors_have_a_name(put):
    image = put(np.ones((2, 3, 16, 16), np.float32), None, None, "data")
    conv = lambda x, f: xlab.lax.conv(x, f, (1, 1), "SAME")
    found = observe.findings(xlab.jit(conv), image, np.ones((3, 3, 3, 3), np.float32), tries=0)
    assert [p.name for p in found.patterns] == ["halo exchange"] and found.surprises == 0


@pytest.fixture(scope="module")
def rows():
    """Puts arrays over eight devices in a row, split along one dimension."""
    mesh = make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    return lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.roll(x, 1, 0),
        lambda x: jnp.roll(x, 13, 0),
        lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) - 2 * x,
        lambda x: x[1:] - x[:-1],
    ],
    ids=["roll", "roll over two devices", "stencil", "differences"],
)
def test_a_change_to_what_goes_to_neighbors_was_compiled(rows, f):
    """Although what is sent is no argument, but cut out of one."""
    f = xlab.jit(f)
    moved = [t for t in observe.transfers(f, rows(BIG, "data")) if t.kind == "collective_permute"]
    assert moved and all(t.tried for t in moved)
    found = observe.findings(f, rows(BIG, "data"), tries=0)
    assert "halo exchange" in {p.name for p in found.patterns}
    assert {t.fix for t in moved} == {"give `x` the sharding P(None, 'data') where it is made"}
    assert not [
        t for t in observe.transfers(f, rows(BIG, None, "data")) if t.kind == "collective_permute"
    ]


def test_advice_names_the_operand_that_is_split(rows):
    """And not the one that is an argument itself, which lies whole on every device."""
    smooth = lambda x, k: xlab.lax.conv(x.T[None], k, (1,), "SAME")
    kernel = np.ones((5, 8, 3), np.float32)
    moved = observe.transfers(xlab.jit(smooth), rows(np.ones((64, 8), np.float32), "data"), kernel)
    assert moved
    assert all("another dimension of `x`" in t.fix and "`k`" not in t.fix for t in moved)


def _conv(x, f):
    return xlab.lax.conv(x, f, (1,) * (x.ndim - 2), "SAME")


FILTER = np.ones((3, 3, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("f", "images"),
    [
        (lambda x: _conv(x, FILTER), (16, 3, 32, 32)),
        (lambda x: _conv(jnp.tanh(_conv(jnp.sin(x), FILTER)), FILTER), (16, 3, 32, 32)),
        (lambda x: xlab.grad(lambda f: (_conv(x, f) ** 2).mean())(FILTER), (8, 3, 32, 32)),
    ],
    ids=["one", "one behind another", "of the gradient of its filter"],
)
def test_a_convolution_split_over_space_is_compiled_with_its_batch_split(rows, f, images):
    """Before it is offered: no edges are sent then."""
    f, x = xlab.jit(f), np.ones(images, np.float32)
    moved = [t for t in observe.transfers(f, rows(x, None, None, "data")) if t.kind == "collective_permute"]  # fmt: skip
    assert moved and all(t.tried and "needs entries that neighbors hold" in t.reason for t in moved)
    assert {t.fix for t in moved} == {
        "give `x` the sharding P('data', None, None, None) where it is made"
    }
    after = observe.transfers(f, rows(x, "data"))
    assert not [t for t in after if t.kind == "collective_permute"]


@pytest.mark.parametrize("images", [(1, 3, 32, 32), (3, 3, 32, 32), (2, 1, 64, 8)])
def test_a_convolution_with_nothing_but_space_to_split_is_offered_no_change(rows, images):
    """Its windows reach over the other dimensions of space as they do over this one."""
    filters = np.ones((3, images[1], 3, 3), np.float32)
    moved = observe.transfers(
        xlab.jit(lambda x: _conv(x, filters)), rows(np.ones(images, np.float32), None, None, "data")
    )
    assert [t for t in moved if t.kind == "collective_permute"]
    assert not [t for t in moved if t.fix or t.tried]


@pytest.mark.parametrize(
    ("f", "name", "whose"),
    [
        (lambda x: x[1:] - x[:-1], "halo exchange", "neighbors"),
        (lambda x: jnp.roll(x, -1, 0) + x, "halo exchange", "neighbors"),
        (lambda x: jnp.roll(x, 32, 0), "shift", "others"),
        (lambda x: jnp.roll(x, 40, 0), "shift", "others"),
        (lambda x: x[:64] * 2, "redistribution", "others"),
        (lambda x: x[16:80] * 2, "redistribution", "others"),
        (lambda x: x[1:113] * 2, "redistribution", "neighbors"),
    ],
    ids=["differences", "roll by one", "roll by two blocks", "roll by more", "first half", "middle", "shorter"],
)  # fmt: skip
def test_what_a_slice_moves_has_the_name_of_what_it_is(rows, f, name, whose):
    """Edges of blocks to neighbors, all entries by some devices, or blocks of another length, which is none of both."""
    f, x = xlab.jit(f), rows(BIG, "data")
    moved = [t for t in observe.transfers(f, x) if t.kind == "collective_permute"]
    assert moved and any(f"needs entries that {whose} hold" in t.reason for t in moved)
    assert {p.name for p in observe.findings(f, x, tries=0).patterns} == {name}


def test_half_of_two_devices_is_no_halo_exchange():
    mesh = make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    x = xlab.device_put(BIG, NamedSharding(mesh, P("data")))
    found = observe.findings(xlab.jit(lambda x: x[:64] * 2), x, tries=0)
    assert [p.name for p in found.patterns] == ["redistribution"]


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x, n: jnp.roll(x, n, 0), "roll by a traced amount (line"),
        (lambda x, n: xlab.lax.dynamic_slice_in_dim(x, n, 8, 0), "dynamic_slice at a traced place (line"),
        (lambda x, n: jnp.roll(jnp.sin(x), n, 0), "roll by a traced amount (line"),
    ],
    ids=["roll", "slice", "roll of a value"],
)  # fmt: skip
def test_a_traced_place_is_the_cause_of_what_it_brings_together(rows, f, words):
    """And the other dimension, which is taken whole, may be split without any."""
    f, n = xlab.jit(f), np.int32(3)
    found = observe.transfers(f, rows(BIG, "data"), n)
    (moved,) = [t for t in found if t.kind == "all_gather"]
    assert words in moved.reason and "any device may be asked for any entry" in moved.reason
    assert "give `x` the sharding P(None, 'data') where it is made" in {t.fix for t in found}
    assert not observe.transfers(f, rows(BIG, None, "data"), n)


def test_a_slice_at_a_known_place_is_not_called_traced(rows):
    """Of a row that a loop reads, nor where the dimension that is split is taken whole."""
    whole = xlab.jit(lambda x, n: xlab.lax.dynamic_slice(x, (0, n), (128, 8)))
    twice = xlab.jit(lambda x: jnp.concatenate([x, x]))
    for f, args in ((whole, (rows(BIG, "data"), np.int32(3))), (twice, (rows(BIG, "data"),))):
        assert not [t for t in observe.transfers(f, *args) if "traced" in t.reason]


def test_entries_of_devices_that_are_no_neighbors_are_not_called_so(rows):
    (moved,) = observe.transfers(xlab.jit(lambda x: x[::-1]), rows(BIG, "data"))
    assert "needs entries that others hold" in moved.reason


def _normed(h, axes):
    mean = h.mean(axes, keepdims=True)
    return (h - mean) / jnp.sqrt(((h - mean) ** 2).mean(axes, keepdims=True) + 1e-5)


def _channels_first(x, f):
    return _normed(xlab.lax.conv(x, f, (1, 1), "SAME"), (0, 2, 3))


def _channels_last(x, f):
    return _normed(jnp.moveaxis(xlab.lax.conv(x, f, (1, 1), "SAME"), 1, -1), (0, 1, 2))


IMAGES = ((np.ones((8, 3, 8, 8), np.float32), "data"), (np.ones((5, 3, 3, 3), np.float32),))
ROWS = (X, "data"), (np.ones((16, 4), np.float32),)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [(lambda x, w: _normed(jnp.tanh(x @ w), 0), ROWS), (_channels_first, IMAGES), (_channels_last, IMAGES)],
    ids=["rows", "channels first", "channels last"],
)  # fmt: skip
def test_mean_and_variance_over_the_examples_of_a_batch_have_a_name(put, f, arguments):
    found = observe.findings(xlab.jit(f), *(put(*a) for a in arguments), tries=0)
    assert [(p.name, p.axes, p.count) for p in found.patterns] == [
        ("batch statistics", ("data",), 2)
    ]
    assert found == () and found.surprises == 0


def test_a_mean_over_features_is_no_batch_statistics(put):
    x, w = put(X, "data"), put(np.ones((16, 4), np.float32), None, "model")
    f = xlab.jit(lambda x, w: _normed(jnp.tanh(x @ w), -1))
    assert "batch statistics" not in {p.name for p in observe.findings(f, x, w, tries=0).patterns}


def test_a_program_that_must_stay_without_findings():
    observe.assert_no_findings(lambda x: x * 2, X)
    with pytest.raises(AssertionError, match="unused argument: `y` is given and not used"):
        observe.assert_no_findings(lambda x, y: x * 2, X, X)
    observe.assert_no_findings(lambda x, y: x * 2, X, X, allow=["unused argument"])
    with pytest.raises(ValueError, match="there are .*widened type"):
        observe.assert_no_findings(lambda x: x, X, allow=["nonsense"])


def block(w, x):
    return jnp.tanh(x @ w[0]) @ w[1]


def blocks(ws, x):
    for w in ws:
        x = block(w, x)
    return x


def test_one_weight_that_lies_wrong_is_one_surprise(put):
    """In a step that is divided over both axes, whose other collectives have their names."""

    def step(ws, x):
        slopes = xlab.grad(lambda ws: (blocks(ws, x) ** 2).mean())(ws)
        return xlab.tree.map(lambda w, g: w - 0.1 * g, ws, slopes)

    w = np.ones((16, 16), np.float32)
    right = put(w, None, "model"), put(w, "model", None)
    wrong = right[0], put(w, None, "model")
    with observe.record() as session:
        xlab.jit(step)([right, wrong], put(X, "data"))
    report = observe.report(session)
    found = observe.findings(xlab.jit(step), [right, wrong], put(X, "data"), tries=0)
    assert (found.collectives, found.surprises) == (len(report.transfers), 1)
    assert {p.name for p in found.patterns} == {
        "data-parallel gradient sum", "row-parallel product", "column-parallel product, backward"
    }  # fmt: skip
    said = f"1 of {found.collectives} collectives is a surprise"
    assert said in text(report, times=True)
    assert said in re.sub("<[^>]+>", "", html(ReportView().tree(report)))


def test_findings_are_ranked_by_what_they_cost_and_name_their_layer(put):
    def step(x, w, spare, more):
        return block((w, np.ones((4, 4), np.float32)), x) * 2

    x, w = put(X, "data", "model"), put(np.ones((16, 4), np.float32), None, "model")
    found = observe.findings(step, x, w, X, BIG)
    assert [(f.kind, f.layer) for f in found] == [
        ("removable collective", "block"), ("unused argument", ""), ("unused argument", "")
    ]  # fmt: skip
    assert found[0].us > found[1].us == found[2].us == 0
    assert [f.nbytes for f in found[1:]] == [BIG.nbytes, X.nbytes]
    assert re.search(r"test_findings\.py:\d+ in block\n  change: give `w`", text(found[0]))


def test_a_report_says_how_many_collectives_surprise(put):
    x, w = put(X, None, "model"), put(np.ones((16, 4), np.float32), "model", None)
    with observe.record() as session:
        xlab.jit(lambda x, w: x @ w)(x, w)
    report = observe.report(session)
    assert [t.pattern for t in report.transfers] == ["row-parallel product"]
    assert "no surprise: 1 collective" in text(report, times=True)
