"""Collectives that are started and waited for later: equal to the synchronous ones, in every transformation; misuse."""

from __future__ import annotations

import functools
import re
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlab
import xlab.numpy as jnp
from tests.lax.collectives import models
from xlab import lax
from xlab.core.avals import ShapedArray
from xlab.core.check import check_jaxpr
from xlab.core.jaxpr import eval_jaxpr, inner_jaxprs
from xlab.core.pending import AbstractTodo, Todo
from xlab.errors import PendingValueError, PendingValueWarning, UnexpectedTracerError
from xlab.lax import parallel
from xlab.sharding import AxisType, P, make_mesh

MESHES = {
    "8": ((8,), ("a",)),
    "4x2": ((4, 2), ("a", "b")),
    "1": ((1,), ("a",)),
}
PLACES = [("8", "a"), ("4x2", "a"), ("4x2", "b"), ("4x2", ("b", "a")), ("1", "a")]


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


# By name, of a value of shape (8, 16) and a group of n: the collective, its operand and its arguments.
CALLS = {
    "psum": lambda x, a, n: ("psum", x, (a,), {}),
    "all_gather": lambda x, a, n: ("all_gather", x, (a,), {}),
    "all_gather_axis": lambda x, a, n: ("all_gather", x, (a,), {"axis": -1}),
    "all_gather_tiled": lambda x, a, n: ("all_gather", x, (a,), {"axis": 1, "tiled": True}),
    "psum_scatter": lambda x, a, n: ("psum_scatter", x[:n], (a,), {}),
    "psum_scatter_axis": lambda x, a, n: ("psum_scatter", x[:, :n], (a,), {"scatter_dimension": -1}),
    "psum_scatter_tiled": lambda x, a, n: ("psum_scatter", x, (a,), {"scatter_dimension": 1, "tiled": True}),
    "all_to_all": lambda x, a, n: ("all_to_all", x[:n], (a, 0, 1), {}),
    "all_to_all_back": lambda x, a, n: ("all_to_all", x[:, :n], (a, 1, 0), {}),
    "all_to_all_same": lambda x, a, n: ("all_to_all", x[:, :n], (a, 1, 1), {}),
    "all_to_all_tiled": lambda x, a, n: ("all_to_all", x, (a, 0, 1), {"tiled": True}),
    "all_to_all_tiled_back": lambda x, a, n: ("all_to_all", x, (a, -1, 0), {"tiled": True}),
    "ppermute": lambda x, a, n: ("ppermute", x, (a, ring(n)), {}),
    "ppermute_partial": lambda x, a, n: ("ppermute", x, (a, [(n - 1, 0)]), {}),
    "pbroadcast": lambda x, a, n: ("pbroadcast", x, (a, n - 1), {}),
}  # fmt: skip


def call(api, x, args, options, start):
    if start:
        return getattr(lax, f"{api}_start")(x, *args, **options)
    return getattr(lax, api)(x, *args, **options)


def all_of(x, a, n, start, names=tuple(CALLS)):
    """The results of the collectives; where they are started, all are under way before the last is waited for first."""
    found = [call(*CALLS[name](x, a, n), start) for name in names]
    if start:
        found = [t.done() for t in reversed(found)][::-1]
    return dict(zip(names, found))


def mesh_of(key):
    shape, names = MESHES[key]
    return make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


def members(key, a):
    sizes = dict(zip(MESHES[key][1], MESHES[key][0]))
    return int(np.prod([sizes[name] for name in (a if isinstance(a, tuple) else (a,))]))


def data(count):
    return np.random.default_rng(0).integers(-9, 9, (count, 8, 16)).astype(np.float32)


def on_mesh(f, key="8", **options):
    """`f` of one device's value, as a function of all of them stacked; results of a tree are stacked too."""
    mesh = mesh_of(key)
    where = P(mesh.axis_names)

    def body(x):
        return xlab.tree.map(lambda v: jnp.asarray(v)[None], f(x[0]))

    return xlab.shard_map(body, mesh=mesh, in_specs=where, out_specs=where, **options)


def both(key, a, way=lambda f: f, names=tuple(CALLS), **options):
    """The function on a mesh, started and synchronous, as `way` makes it."""
    n = members(key, a)
    return [
        xlab.jit(way(on_mesh(lambda x, s=s: all_of(x, a, n, s, names), key, **options)))
        for s in (True, False)
    ]


def assert_same(got, want):
    xlab.tree.map(
        lambda g, w: np.testing.assert_array_equal(np.asarray(g), np.asarray(w)), got, want
    )


# -- values and transformations ---------------------------------------------------------------------------


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("key", "a"), PLACES, ids=lambda v: "".join(v))
def test_equal_to_the_synchronous_ones(key, a, check):
    started, synchronous = both(key, a, check_vma=check)
    x = data(mesh_of(key).size)
    assert_same(started(x), synchronous(x))


def total(f):
    """A number that every result counts in, each with a derivative of its own."""
    return lambda x: sum(
        (jnp.sin(0.1 * v) * (1 + k)).sum() for k, v in enumerate(xlab.tree.leaves(f(x)))
    )


WAYS = {
    "grad": lambda f: xlab.grad(total(f)),
    "jvp": lambda f: lambda x: xlab.jvp(f, (x,), (jnp.cos(x),)),
    "vmap": lambda f: lambda x: xlab.vmap(f, in_axes=2, out_axes=1)(jnp.stack([x, x + 1], 2)),
    "vmap_grad": lambda f: lambda x: xlab.vmap(xlab.grad(total(f)))(jnp.stack([x, x + 1])),
    "checkpoint": lambda f: xlab.grad(total(xlab.checkpoint(lambda x: f(jnp.sin(x))))),
    "in a loop": lambda f: xlab.grad(lambda x: lax.scan(lambda c, _: (c, total(f)(c)), x, None, length=2)[1].sum()),
}  # fmt: skip


FEW = ("psum", "all_gather_axis", "psum_scatter_axis", "all_to_all_back", "all_to_all_tiled", "ppermute_partial", "pbroadcast")  # fmt: skip


@pytest.mark.parametrize("check", [True, pytest.param(False, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("way", WAYS)
def test_transformations(way, check):
    names = FEW if check else tuple(CALLS)
    started, synchronous = both("4x2", ("b", "a"), WAYS[way], names, check_vma=check)
    assert_same(started(data(8)), synchronous(data(8)))


DTYPES = [np.int32, np.uint8, ml_dtypes.bfloat16, np.complex64, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.bool_]  # fmt: skip


def test_dtypes():
    """Each collective moves each dtype, bit for bit as the synchronous one."""
    names = ["psum", "psum_scatter_tiled", "all_to_all_tiled", "ppermute_partial"]

    def run(start):
        def f(x):
            out = {}
            for dtype in DTYPES:
                some = [n for n in names if dtype != np.bool_ or n != "psum_scatter_tiled"]
                v = (x > 2 if dtype == np.bool_ else abs(x) if dtype == np.uint8 else x).astype(
                    dtype
                )
                out[np.dtype(dtype).name] = all_of(v, "a", 8, start, some)
            return out

        return xlab.jit(on_mesh(f))(np.clip(data(8), -3, 3))

    assert_same(run(True), run(False))


def test_groups():
    pairs = [[0, 2], [3, 1], [4, 5], [7, 6]]
    calls = [
        ("psum", (), {"axis_index_groups": [[0, 1, 2], [3, 4, 5, 6, 7]]}),
        ("all_gather", (), {"axis_index_groups": pairs}),
        ("psum_scatter", (), {"axis_index_groups": pairs}),
        ("all_to_all", (0, 1), {"axis_index_groups": pairs}),
    ]

    def f(x, start):
        todos = [call(api, x[:2], ("a", *args), options, start) for api, args, options in calls]
        return [t.done() if start else t for t in todos]

    got, want = (
        xlab.jit(on_mesh(functools.partial(f, start=s), check_vma=False))(data(8))
        for s in (True, False)
    )
    assert_same(got, want)


def test_types_of_values_over_the_mesh():
    """Sums of unreduced values, gathers to reduced and invarying: forwards and backwards."""

    def f(x, start):
        u = lax.pcast(x, "a", to="unreduced")
        calls = [
            ("psum", u, {}),
            ("psum_scatter", u[:8], {}),
            ("all_gather", x, {"to": "reduced", "tiled": True}),
            ("all_gather", x, {"to": "invarying"}),
        ]
        found = [call(api, v, ("a",), options, start) for api, v, options in calls]
        one, two, three, four = [t.done() if start else t for t in found]
        return one * x + two.sum() + three[:8] * x + four.sum(0)

    results = []
    for start in (True, False):
        g = on_mesh(lambda x, s=start: f(x, s))
        results.append((xlab.jit(g)(data(8)), xlab.jit(xlab.grad(total(g)))(data(8))))
    assert_same(*results)


def test_inside_control_flow():
    """Started and awaited in one body of a loop, in one branch, in a nested jit."""

    def f(x, start):
        def done(api, *args):
            found = call(api, args[0], args[1:], {}, start)
            return found.done() if start else found

        x, sums = lax.scan(
            lambda c, _: (
                done("ppermute", c, "a", ring(8)) * 0.5 + jnp.sin(c),
                done("psum", c, "a"),
            ),
            x,
            None,
            length=3,
        )
        x = lax.cond(
            done("psum", x[0, 0], "a") > 1,
            lambda v: v + done("all_gather", v, "a").sum(0),
            lambda v: v,
            x,
        )
        x = lax.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + 1, done("ppermute", c[1], "a", ring(8))), (0, x)
        )[1]
        return xlab.jit(lambda v: done("psum", v, "a") * v)(x) + sums.sum(0)  # fmt: skip

    got, want = (xlab.jit(on_mesh(functools.partial(f, start=s)))(data(8)) for s in (True, False))
    assert_same(got, want)


@pytest.mark.parametrize("mapped", ["vmap", "vmap of jit", "pmap"])
def test_under_other_maps(mapped):
    def f(x, start):
        names = [
            n for n in CALLS if not n.startswith("all_to_all_tiled") and n != "psum_scatter_tiled"
        ]
        return all_of(x, "a", 8, start, names)

    def run(start):
        one = functools.partial(f, start=start)
        if mapped == "pmap":
            return xlab.pmap(one, axis_name="a")(data(8))
        return xlab.vmap(xlab.jit(one) if "jit" in mapped else one, axis_name="a")(data(8))

    assert_same(run(True), run(False))


def test_an_axis_of_vmap_beside_one_of_the_mesh():
    """The examples are summed at once, the devices are asked for theirs."""

    def f(x, start):
        def one(v):
            total = call("psum", v, (("a", "batch"),), {}, start)
            return (total.done() if start else total) * v

        return xlab.vmap(one, axis_name="batch")(jnp.stack([x, 2 * x]))

    started = on_mesh(functools.partial(f, start=True))
    assert_same(started(data(8)), on_mesh(functools.partial(f, start=False))(data(8)))
    assert "psum_invariant_start" in primitives(started, data(8))


def test_without_jit():
    """`disable_jit`, and a program that was traced with a name and is evaluated under `vmap` later."""
    with xlab.disable_jit():
        got = on_mesh(lambda x: lax.psum_start(x, "a").done())(data(8))
    assert_same(got, np.broadcast_to(data(8).sum(0), (8, 8, 16)))

    def f(x):
        return lax.psum_start(x, "q").done() * 2 + lax.all_gather_start(x, "q").done().sum()

    closed = xlab.make_jaxpr(f, axis_env=[("q", 3)])(1.0)
    check_jaxpr(closed)
    run = xlab.vmap(lambda v: eval_jaxpr(closed.jaxpr, closed.consts, v)[0], axis_name="q")
    x = np.arange(3, dtype=np.float32)
    assert run(x).tolist() == xlab.jit(run)(x).tolist() == [9.0] * 3

    def looked_at(x):
        float(lax.psum(x[0, 0], "a"))
        return run(x[0, :3])

    assert_same(on_mesh(looked_at)(data(8)), on_mesh(lambda x: run(x[0, :3]))(data(8)))
    assert xlab.grad(lambda v: run(v).sum())(x).tolist() == [9.0] * 3


def test_operation_by_operation():
    """C11: where Python looks at values in the body, what was started is there at once; started before the look and after it."""

    def f(x, start):
        before = call("all_gather", x, ("a",), {"tiled": True}, start)
        if float(lax.psum(x[0, 0], "a")) > -1000:
            x = x * 2
        after = [call(*CALLS[n](x, "a", 8), start) for n in ("psum", "all_to_all", "pbroadcast")]
        assert not start or repr(after[0]) == "Todo{f32[8,16]}"
        found = [t.done() if start else t for t in (before, *after)]
        return [v.sum() * x for v in found]

    got, want = (on_mesh(functools.partial(f, start=s))(data(8)) for s in (True, False))
    assert_same(got, want)

    def misused(x):
        float(lax.psum(x[0, 0], "a"))
        return once(x) + 1

    with pytest.raises(PendingValueError, match=HERE):
        on_mesh(misused)(data(8))

    def used(x):
        float(lax.psum(x[0, 0], "a"))
        return once(x).x + 1

    with pytest.raises(PendingValueError, match=HERE):
        on_mesh(used)(data(8))


@pytest.mark.parametrize("check", [False, True])
def test_derivatives_operation_by_operation(check):
    """C11, C101: what the tangents start is waited for, though the values are there at once."""

    def f(x, start):
        s = call("psum", x * x, ("a",), {}, start)
        p = call("ppermute", x, ("a",), {"perm": [(0, 1), (1, 0)]}, start)
        s, p = (t.done() if start else t for t in (s, p))
        return (jnp.cos(x) * s + p).sum()

    def body(x, start):
        float(lax.psum(x[0, 0], "a"))
        return xlab.grad(f)(x, start), xlab.jvp(lambda v: f(v, start), (x,), (x,))[1] * x

    got, want = (
        on_mesh(functools.partial(body, start=s), check_vma=check)(data(8)) for s in (True, False)
    )
    assert_same(got, want)


@pytest.mark.parametrize("policy", ["everything_saveable", "nothing_saveable", "starts"])
def test_what_is_under_way_is_never_saved(policy):
    policies = xlab.checkpoint_policies
    chosen = (
        (lambda prim, *_, **__: prim.name.endswith("_start"))
        if policy == "starts"
        else getattr(policies, policy)
    )

    def f(x, start):
        s = call("psum", jnp.sin(x), ("a",), {}, start)
        return jnp.sin(s.done() if start else s) * x

    got, want = (
        xlab.grad(total(on_mesh(xlab.checkpoint(functools.partial(f, start=s), policy=chosen))))(data(8))
        for s in (True, False)
    )  # fmt: skip
    assert_same(got, want)


# -- programs ---------------------------------------------------------------------------------------------


def primitives(f, *args):
    """Names of a program's primitives in order, inner programs included."""
    out = []

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            out.append(eqn.primitive.name)
            for inner in inner_jaxprs(eqn.params):
                walk(inner)

    walk(xlab.make_jaxpr(f)(*args).jaxpr)
    return out


TRANSPOSES = {
    "psum": (["psum_start", "psum_done"], ["pvary"]),
    "all_gather_tiled": (["reduce_scatter_start", "reduce_scatter_done"],) * 2,
    "psum_scatter": (["all_gather_start", "all_gather_done"],) * 2,
    "all_to_all": (["all_to_all_start", "all_to_all_done"],) * 2,
    "ppermute": (["ppermute_start", "ppermute_done"],) * 2,
    "pbroadcast": (["psum_start", "psum_done"], ["psum_invariant_start", "psum_done"]),
}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", TRANSPOSES)
def test_the_way_back_is_started_too(name, check):
    """C110: waiting transposes to a start, starting to a wait; what is computed in between transposes in between."""
    f = on_mesh(lambda x: all_of(x, "a", 8, True, [name])[name], check_vma=check)

    def pull(ct):
        return xlab.linear_transpose(f, data(8))(ct)

    out = xlab.eval_shape(f, data(8))
    found = [p for p in primitives(pull, np.zeros(out.shape, np.float32))
             if p.endswith(("_start", "_done")) or p == "pvary"]  # fmt: skip
    want = TRANSPOSES[name][check]
    assert found[: len(want)] == want
    assert not [p for p in found if p in ("psum", "all_gather", "reduce_scatter", "all_to_all")]


def test_effects_and_types():
    """C12, C95, C96: those of the synchronous collective."""

    def f(x):
        todos = [call(*CALLS[name](x, "a", 8), True) for name in ("psum", "all_gather", "ppermute")]
        return [t.done().sum() for t in todos]

    mesh = mesh_of("8")
    closed = xlab.make_jaxpr(
        xlab.shard_map(lambda x: f(x[0])[0], mesh=mesh, in_specs=P("a"), out_specs=P())
    )(data(8))
    (outer,) = closed.jaxpr.eqns
    by_name = {e.primitive.name: e for e in outer.params["jaxpr"].eqns}
    kinds = {n: sorted(map(str, e.effects)) for n, e in by_name.items() if n.endswith("_start")}
    assert kinds == {
        "psum_invariant_start": ["NamedAxisEffect('a')"],
        "all_gather_start": ["NamedAxisEffect('a')"],
        "ppermute_start": [],
    }
    assert str(by_name["psum_invariant_start"].outvars[0].aval) == "Todo{float32[8,16]}"
    assert (
        by_name["all_gather_start"].outvars[0].aval.str_short(short_dtypes=True)
        == "Todo{f32[8,8,16]{V:a}}"
    )
    check_jaxpr(closed)


LOWERED = {
    "psum": "all_reduce",
    "all_gather": "all_gather",
    "psum_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "ppermute": "collective_permute",
    "pbroadcast": "collective_broadcast",
}


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
def test_lowering(platform):
    """C98: one region with the operation alone; what prepares and rearranges stands outside."""
    f = xlab.jit(on_mesh(lambda x: all_of(x, "a", 8, True, list(LOWERED))))
    text = f.trace(data(8)).lower(lowering_platforms=(platform,)).as_text()
    regions = re.findall(
        r'"stablehlo.async_start"\(%\d+\) \(\{\n(.*?)\n    \}\) : \(tensor', text, re.DOTALL
    )
    kinds = []
    for region in regions:
        assert len(re.findall(r"stablehlo\.(?!return|add|channel_handle)\w+", region)) == 1, region
        kinds.append(re.search(r'"stablehlo\.(\w+)"', region)[1])
    native = [op for op in LOWERED.values() if op != "collective_broadcast" or platform in ("cuda", "rocm")]  # fmt: skip
    assert kinds == native
    assert text.count('"stablehlo.async_done"') == len(native)
    assert text.count("!stablehlo.future<") == 2 * len(native)


# -- programs of several pending values -------------------------------------------------------------------


def model(name, x, key, a):
    """What the collective gives, by NumPy, on all devices."""
    rows = models.groups(*MESHES[key], a if isinstance(a, tuple) else (a,))
    n = len(rows[0])
    return {
        "psum": lambda: models.psum(x, rows),
        "all_gather_tiled": lambda: models.all_gather_tiled(x, rows, axis=1)[:, :, :16],
        "ppermute": lambda: models.ppermute(x, rows, perm=ring(n)),
        "pbroadcast": lambda: models.pbroadcast(x, rows, source=n - 1),
        "all_to_all_same": lambda: np.concatenate(
            [models.all_to_all(x[:, :, :n], rows, split=1, concat=1), x[:, :, n:]], 2
        ),
    }[name]()


@st.composite
def plans(draw):
    """Where, and a list of steps: start a collective of an earlier value, or wait for one of those under way."""
    key, a = draw(st.sampled_from(PLACES[:4]))
    steps, values, pending = [], 1, []
    for _ in range(draw(st.integers(3, 9))):
        if pending and draw(st.booleans()):
            steps.append(("done", pending.pop(draw(st.integers(0, len(pending) - 1)))))
        else:
            name = draw(
                st.sampled_from(
                    ["psum", "all_gather_tiled", "ppermute", "pbroadcast", "all_to_all_same"]
                )
            )
            steps.append(("start", name, draw(st.integers(0, values - 1))))
            pending.append(values)
        if steps[-1][0] == "start":
            values += 1
    return key, a, [*steps, *(("done", i) for i in pending)]  # fmt: skip


def run_plan(x, steps, start, done):
    """A value can be read only when it is there: until then it is the first."""
    values, under_way = [x], {}
    for step in steps:
        if step[0] == "start":
            values.append(None)
            source = values[step[2]]
            under_way[len(values) - 1] = start(step[1], x if source is None else source)
        else:
            values[step[1]] = done(under_way.pop(step[1]))
    return functools.reduce(lambda p, q: p + q, values)


def check_plan(plan):
    key, a, steps = plan
    n = members(key, a)

    def start(name, v):
        api, operand, args, options = CALLS[name](v, a, n)
        if name == "pbroadcast":
            operand = lax.pcast(v, left, to="varying") if (left := invarying(v, a)) else v
        t = call(api, operand, args, options, True)
        return name, v, t

    def done(given):
        name, v, t = given
        out = t.done()
        if name == "all_gather_tiled":
            return out[:, :16]
        return jnp.concatenate([out, v[:, n:]], 1) if name == "all_to_all_same" else out

    x = data(mesh_of(key).size)
    got = xlab.jit(on_mesh(lambda v: run_plan(v, steps, start, done), key))(x)
    want = run_plan(x, steps, lambda name, v: model(name, v, key, a), lambda v: v)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)


def invarying(v, a):
    names = a if isinstance(a, tuple) else (a,)
    return tuple(n for n in names if n not in xlab.typeof(v).vma)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(plans())
def test_programs_of_several_pending_values(plan):
    check_plan(plan)


@pytest.mark.sweep
@settings(max_examples=60, deadline=None)
@given(plans())
def test_many_programs_of_several_pending_values(plan):
    check_plan(plan)


# -- the value that is pending ----------------------------------------------------------------------------


def traced(f):
    """Traces `f` of one device's value on a mesh."""
    return xlab.make_jaxpr(on_mesh(f))(data(8))


def test_todo():
    def f(x):
        t = lax.psum_start({"x": x, "y": (x[:2], None)}, "a")
        assert isinstance(t, Todo) and repr(t) == f"{t}" == "Todo{f32[8,16], f32[2,16]}"
        assert set(t.x) == {"x", "y"} and type(t.x["x"].aval) is AbstractTodo
        assert t.done() is t.done()
        assert t == t and t in {t}
        return t.done()["x"] + t.done()["y"][0].sum() + t.done_fun({"x": 0})["x"]

    x = data(8)
    want = x.sum(0) + x.sum(0)[:2].sum()
    np.testing.assert_allclose(np.asarray(on_mesh(f)(x)), np.broadcast_to(want, x.shape))


def test_type_of_a_pending_value():
    a, b = (AbstractTodo(ShapedArray((n,), np.float32)) for n in (8, 9))
    assert a == AbstractTodo(ShapedArray((8,), np.float32)) != b
    assert len({a, b, AbstractTodo(a.inner_aval)}) == 2
    assert a.mat is a.inner_aval.mat and not hasattr(a, "shape") and not hasattr(a, "dtype")
    assert parallel.Future is parallel.Todo and parallel.AbstractFuture is parallel.AbstractTodo


def test_complete_at_once():
    """C99: where nothing is sent, there is nothing to wait for."""

    def f(x):
        assert lax.psum_start(1, "a").done() == 8
        assert lax.psum_start(x, ()).done() is x
        todos = [
            lax.all_gather_start(x, "a", to="invarying"),
            lax.all_gather_start(x, ()),
            lax.psum_start(np.ones(3, np.float32), "a"),
        ]
        return [t.done().sum() for t in todos]

    assert not [p for p in primitives(on_mesh(f), data(8)) if p.endswith("_start")]
    one = xlab.make_jaxpr(on_mesh(lambda x: lax.all_to_all_start(x[:1], "a", 0, 1).done(), "1"))(
        data(1)
    )
    assert "all_to_all_start" not in str(one)
    empty = on_mesh(lambda x: lax.all_gather_start(x[:0], "a").done())(data(8))
    assert empty.shape == (8, 8, 0, 16)


def once(x):
    return lax.psum_start(x, "a")


HERE = r"test_starting\.py:\d+"
MISUSE = {
    "add": lambda x: once(x) + 1,
    "added": lambda x: x + once(x),
    "negated": lambda x: -once(x),
    "ordered": lambda x: once(x) < 1,
    "function": lambda x: jnp.sin(once(x)),
    "primitive": lambda x: lax.sin(once(x).x),
    "operator of the value": lambda x: once(x).x + x,
    "numpy": lambda x: np.sin(once(x)),
    "index": lambda x: once(x)[0],
    "len": lambda x: len(once(x)),
    "iterated": lambda x: [*once(x)],
    "truth": lambda x: not once(x),
    "compared with an array": lambda x: jnp.where(once(x) == x, x, 0),
    "compared with a number": lambda x: x if once(x) != 0 else -x,
    "number": lambda x: float(once(x)),
    "shape": lambda x: once(x).shape,
    "shape of the value": lambda x: once(x).x.shape,
    "returned": lambda x: once(x),
    "value returned": lambda x: once(x).x,
    "in the carry": lambda x: lax.scan(lambda c, _: (c, None), once(x), None, length=2),
    "value in the carry": lambda x: lax.scan(lambda c, _: (c, None), once(x).x, None, length=2),
    "out of a body": lambda x: lax.scan(lambda c, _: (c, once(c)), x, None, length=2),
    "out of a branch": lambda x: lax.cond(True, once, once, x),
    "into a branch": lambda x: (lambda t: lax.cond(x[0, 0] > 0, lambda: t.done(), lambda: x))(once(x)),
    "into a body": lambda x: (lambda t: lax.fori_loop(0, 2, lambda i, c: c + t.done(), x))(once(x)),
    "into jit": lambda x: (lambda t: xlab.jit(lambda: t.done())())(once(x)),
    "argument of jit": lambda x: xlab.jit(lambda t: t.done())(once(x)),
    "out of jit": lambda x: xlab.jit(once)(x).done(),
    "into checkpoint": lambda x: (lambda t: xlab.checkpoint(lambda v: v + t.done())(x))(once(x)),
    "argument of vmap": lambda x: xlab.vmap(lambda t: t)(once(x)),
    "differentiated": lambda x: xlab.grad(once)(x[0, 0]),
    "not pending": lambda x: parallel.psum_done_p.bind(x),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name):
    """Each is a TypeError that says where, and what was to be done."""
    with pytest.raises(PendingValueError, match=HERE) as error:
        xlab.make_jaxpr(on_mesh(MISUSE[name]))(data(8))
    assert isinstance(error.value, TypeError)
    assert "done()" in str(error.value) or "waits for a value" in str(error.value)


def test_waited_for_twice():
    """The second wait of the primitive; `done()` remembers."""

    def f(x):
        t = once(x)
        return parallel.psum_done_p.bind(t.x) + parallel.psum_done_p.bind(t.x)

    with pytest.raises(ValueError, match=rf"waited for twice: at .*{HERE}.* and at .*{HERE}"):
        traced(f)


def test_never_waited_for():
    """A warning with the line; the program runs without the collective, forwards and backwards."""
    f = xlab.jit(on_mesh(lambda x: (once(x), x * 2)[1]))
    with pytest.warns(
        PendingValueWarning, match=f"psum_invariant_start at .*{HERE}.* nobody waits"
    ):
        text = f.lower(data(8)).as_text()
    assert "async_start" not in text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingValueWarning)
        assert_same(f(data(8)), data(8) * 2)
        assert_same(xlab.grad(lambda x: f(x).sum())(data(8)), np.full((8, 8, 16), 2, np.float32))


def test_waited_for_when_the_function_has_ended():
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingValueWarning)
        traced(lambda x: (kept.append(once(x)), x)[1])
    for late in (lambda: kept[0].done(), lambda: xlab.jit(lambda: kept[0].done())()):
        with pytest.raises(
            UnexpectedTracerError, match=f"psum_invariant_start at .*{HERE}.*waited for at .*{HERE}"
        ):
            late()


@pytest.mark.parametrize("api", ["psum", "all_gather", "psum_scatter", "all_to_all", "ppermute", "pbroadcast"])  # fmt: skip
def test_an_axis_that_nobody_binds(api):
    args = {"all_to_all": (0, 0), "ppermute": ([(0, 1)],), "pbroadcast": (0,)}.get(api, ())
    with pytest.raises(NameError, match=f"'nobody' in {api}_start"):
        call(api, data(8), ("nobody", *args), {}, True)


def test_arguments_are_checked_like_those_of_the_synchronous_ones():
    def error(f):
        with pytest.raises((ValueError, TypeError, NotImplementedError)) as found:
            traced(f)
        return found.type

    for f, g in (
        (lambda x: lax.ppermute(x, "a", [(0, 9)]), lambda x: lax.ppermute_start(x, "a", [(0, 9)])),
        (lambda x: lax.pbroadcast(x, "a", 9), lambda x: lax.pbroadcast_start(x, "a", 9)),
        (lambda x: lax.all_gather(x, "a", to="x"), lambda x: lax.all_gather_start(x, "a", to="x")),
        (lambda x: lax.psum_scatter(x[:3], "a"), lambda x: lax.psum_scatter_start(x[:3], "a")),
        (lambda x: lax.all_to_all(x[:3], "a", 0, 0), lambda x: lax.all_to_all_start(x[:3], "a", 0, 0)),
        (lambda x: lax.psum(x, ("a", "a")), lambda x: lax.psum_start(x, ("a", "a"))),
        (lambda x: lax.psum(x, "a", axis_index_groups=[[0]]), lambda x: lax.psum_start(x, "a", axis_index_groups=[[0]])),
    ):  # fmt: skip
        assert error(f) is error(g)
