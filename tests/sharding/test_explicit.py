"""Sharding in types: what programs print and lower to, what it costs where no axis is Explicit, and the ways it composes."""

import functools

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core import avals
from xlab.core.check import check_jaxpr
from xlab.core.sharding_rules import sharding_rules
from xlab.errors import ShardingTypeError
from xlab.scipy import signal
from xlab.sharding import (
    AbstractMesh,
    AxisType,
    ManualAxisType,
    NamedSharding,
    P,
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
    make_mesh,
    reshard,
    set_mesh,
)
from xlab.sharding.typed import canonical, dimension, out_sharding

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture
def grid():
    return make_mesh((4, 2), ("x", "y"))


@pytest.fixture
def context(grid):
    with set_mesh(grid):
        yield grid


def put(*entries, value=X):
    return reshard(value, P(*entries))


def text(fun, *args):
    program = xlab.make_jaxpr(fun)(*args)
    check_jaxpr(program.jaxpr)
    return str(program)


# -- types ------------------------------------------------------------------------------------------------


def test_types_state_how_values_lie(context):
    assert repr(xlab.typeof(put("x"))) == "ShapedArray(float32[8@x,4])"
    assert xlab.typeof(put("x", "y")).str_short() == "float32[8@x,4@y]"
    assert xlab.typeof(put(("x", "y"))).str_short(short_dtypes=True) == "f32[8@(x,y),4]"
    assert xlab.typeof(put("x")).sharding.spec == P("x", None)
    assert xlab.typeof(jnp.ones(3)).sharding == NamedSharding(context.abstract_mesh, P(None))
    assert xlab.typeof(put("x")) is put("x").aval


def test_a_whole_value_is_an_ordinary_type(context):
    assert put().aval is xlab.typeof(X)
    assert put().aval.explicit_sharding is None


def test_only_explicit_axes_belong_to_the_type():
    mixed = make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    x = xlab.device_put(X, NamedSharding(mixed, P("x", "y")))
    assert x.aval.str_short(short_dtypes=True) == "f32[8@x,4]"
    assert (x * 2).aval.str_short(short_dtypes=True) == "f32[8@x,4]"
    auto = make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    assert xlab.device_put(X, NamedSharding(auto, P("x"))).aval is xlab.typeof(X)


def test_canonical_shardings():
    mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    assert canonical(NamedSharding(mesh, P("y")), 1) is None
    assert canonical(NamedSharding(mesh, P(("x", "y"))), 2).spec == P("x", None)
    assert [dimension(8, a) for a in ((), ("x",), ("x", "y"))] == ["8", "8@x", "8@(x,y)"]


def test_types_survive_pickling(context):
    import pickle

    aval = put("x").aval
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert str(ManualAxisType(unreduced={"x"})) == "{U:x}"


def test_types_inside_a_program(context):
    seen = []
    xlab.jit(lambda v: (seen.append(str(v.aval)), v)[1])(put("x", "y"))
    xlab.vmap(lambda v: (seen.append(str(v.aval)), v)[1])(put("x", "y"))
    xlab.eval_shape(
        lambda v: (seen.append(str(v.aval)), v)[1],
        xlab.ShapeDtypeStruct((8, 4), np.float32, sharding=P("y")),
    )
    assert seen == ["float32[8@x,4@y]", "float32[4@y]", "float32[8@y,4]"]
    assert xlab.eval_shape(jnp.transpose, put("x")).sharding.spec == P(None, "x")


# -- programs ---------------------------------------------------------------------------------------------


def test_printed_programs(context):
    assert (
        text(lambda a: jnp.sin(a) * 2 + a.sum(0), put("x", "y"))
        == """\
{ lambda ; a:f32[8@x,4@y]. let
    b:f32[8@x,4@y] = sin a
    c:f32[8@x,4@y] = mul b 2.0:f32[]
    d:f32[4@y] = reduce_sum[axes=(0,) out_sharding=None] a
    e:f32[1,4@y] = broadcast_in_dim[broadcast_dimensions=(1,)] d
    f:f32[8@x,4@y] = add c e
  in (f,) }"""
    )
    assert (
        text(lambda a: reshard(a, P("y")), put("x"))
        == "{ lambda ; a:f32[8@x,4]. let b:f32[8@y,4] = reshard a in (b,) }"
    )
    assert (
        text(auto_axes(lambda v: v * 2, out_sharding=P("x")), put("x"))
        == """\
{ lambda ; a:f32[8@x,4]. let
    b:f32[8,4] = reshard a
    c:f32[8,4] = mul b 2.0:f32[]
    d:f32[8@x,4] = reshard c
  in (d,) }"""
    )
    assert (
        text(lambda: jnp.zeros((8, 4), out_sharding=P("x")))
        == "{ lambda ; . let a:f32[8@x,4] = broadcast_in_dim 0.0:f32[] in (a,) }"
    )


def test_results_are_held_to_their_types(context):
    lowered = xlab.jit(lambda a: jnp.sin(a).sum(0)).lower(put("x", "y")).as_text()
    assert (
        "sdy.sharding_constraint" in lowered
        and '<@mesh, [{"x"}, {"y"}]>' in lowered
        and '<@mesh, [{"y"}]>' in lowered
    )
    compiled = xlab.jit(lambda a: (jnp.sin(a), a.sum(0), a.sum())).lower(put("x", "y")).compile()
    assert [s.spec for s in compiled.output_shardings] == [P("x", "y"), P("y"), P()]


def test_a_training_step_keeps_its_shardings(context):
    params = {"w": put(None, "y"), "b": put("y", value=np.zeros(4, np.float32))}
    x, y = put("x", None), put("x", None)

    def loss(p, x, y):
        hidden = jnp.tanh(jnp.dot(x, p["w"].T, out_sharding=P("x", None)))
        return jnp.mean((jnp.dot(hidden, p["w"]) + p["b"] - reshard(y, P("x", "y"))) ** 2)

    @xlab.jit
    def step(p, x, y):
        grads = xlab.grad(loss)(p, x, y)
        return xlab.tree.map(lambda a, g: a - 0.1 * g, p, grads)

    with_types = step(params, x, y)
    plain = xlab.jit(
        lambda p, x, y: xlab.tree.map(
            lambda a, g: a - 0.1 * g,
            p,
            xlab.grad(lambda p: jnp.mean((jnp.tanh(x @ p["w"].T) @ p["w"] + p["b"] - y) ** 2))(p),
        )
    )
    with set_mesh(make_mesh((1,), ("one",), axis_types=AxisType.Auto)):
        want = plain({"w": X, "b": np.zeros(4, np.float32)}, X, X)
    for k, v in with_types.items():
        assert v.aval is params[k].aval
        np.testing.assert_allclose(v, want[k], rtol=2e-5)


def test_without_a_mesh_in_context(grid):
    a = xlab.device_put(X, NamedSharding(grid, P("x", "y")))
    assert (jnp.sin(a) + X).aval.str_short(short_dtypes=True) == "f32[8@x,4@y]"
    assert (
        xlab.grad(lambda v: (v[:, 0] ** 2).sum())(
            xlab.device_put(X, NamedSharding(grid, P("x")))
        ).aval.str_short(short_dtypes=True)
        == "f32[8@x,4]"
    )
    assert reshard(a, NamedSharding(grid, P("y"))).aval.str_short(short_dtypes=True) == "f32[8@y,4]"
    with pytest.raises(ValueError, match="not under a mesh context"):
        reshard(a, P("y"))


def test_keys(context):
    keys = reshard(xlab.random.split(xlab.random.key(0), 8), P("x"))
    assert xlab.typeof(keys).str_short(short_dtypes=True).endswith("[8@x]")
    drawn = xlab.vmap(lambda k: xlab.random.normal(k, (3,)))(keys)
    assert drawn.aval.str_short(short_dtypes=True) == "f32[8@x,3]"
    np.testing.assert_array_equal(
        drawn,
        xlab.vmap(lambda k: xlab.random.normal(k, (3,)))(xlab.random.split(xlab.random.key(0), 8)),
    )


def test_decompositions_of_a_batch_that_is_sharded(context):
    many = np.eye(3, dtype=np.float32) * np.arange(1, 9, dtype=np.float32)[:, None, None]
    q, r = jnp.linalg.qr(put("x", value=many))
    assert (
        q.aval.str_short(short_dtypes=True) == r.aval.str_short(short_dtypes=True) == "f32[8@x,3,3]"
    )
    np.testing.assert_allclose(q @ r, many, atol=1e-5)


def test_regions_are_compiled_once(context):
    traced = []
    f = auto_axes(lambda v: (traced.append(1), v * 2)[1], out_sharding=P("x"))
    for _ in range(3):
        f(put("y"))
    assert len(traced) == 1
    assert f(put("y"), out_sharding=P(None, "x")).aval.str_short(short_dtypes=True) == "f32[8,4@x]"
    x, index = put("x"), jnp.array([1, 3])
    np.testing.assert_array_equal(x.at[index, 1:3].get(out_sharding=P()), X[[1, 3], 1:3])
    np.testing.assert_array_equal(x.at[..., 0].set(7.0, out_sharding=P("x"))[:, 0], np.full(8, 7.0))


def test_a_vector_nobody_mapped_lies_as_the_batch(context):
    assert (
        xlab.vmap(lambda v: jnp.float32(1))(put("x")).aval.str_short(short_dtypes=True)
        == "f32[8@x]"
    )


def test_regions_nest(context):
    seen = []

    @auto_axes(out_sharding=P("x"))
    def outer(v):
        seen.append(get_abstract_mesh().axis_types)

        @explicit_axes(in_sharding=P("y"))
        def inner(w):
            seen.append(str(w.aval))
            return w * 2

        return inner(v)

    assert outer(put("x")).aval.str_short(short_dtypes=True) == "f32[8@x,4]"
    assert seen == [(AxisType.Auto,) * 2, "float32[8@y,4]"]


def test_a_body_over_some_axes_stays_sharded_along_the_others(context):
    seen = []
    f = xlab.shard_map(
        lambda v: (seen.append((str(v.aval), get_abstract_mesh().axis_types)), v)[1],
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
    )
    assert f(put("x", "y")).aval.str_short(short_dtypes=True) == "f32[8@x,4@y]"
    assert seen == [("float32[2,4@y]{V:x}", (AxisType.Manual, AxisType.Explicit))]


# -- sums that are not carried out ------------------------------------------------------------------------


def test_unreduced_values(context):
    a = put("x", "y")
    u = jnp.dot(
        a, a.T.at[:].get(out_sharding=P("y", None)), out_sharding=P("x", None, unreduced={"y"})
    )
    assert u.aval.str_short(short_dtypes=True) == "f32[8@x,8]{U:y}" and xlab.typeof(
        u
    ).sharding.spec == P("x", None, unreduced={"y"})
    with pytest.raises(NotImplementedError, match="not carried out"):
        np.asarray(u)
    assert "unreduced" in repr(u)
    np.testing.assert_allclose(reshard(u, P("x")), X @ X.T)
    np.testing.assert_allclose(reshard(u + u, P()), 2 * X @ X.T)


@pytest.mark.parametrize("check_vma", [True, False])
def test_derivatives_through_unreduced_specs(context, check_vma):
    """Cotangents of summands are one reduced value, those of a reduced value are summands."""
    shard = functools.partial(xlab.shard_map, check_vma=check_vma)
    summed = P("x", None, unreduced={"y"})
    w = np.arange(4, dtype=np.float32)

    def out_and_in(v):
        u = shard(
            lambda v: lax.pcast(v, "y", to="unreduced") if check_vma else v,
            in_specs=P("x", "y"),
            out_specs=summed,
        )(v)
        return (
            shard(lambda u: lax.psum(u, "y") * u.shape[0], in_specs=summed, out_specs=P("x", None))(
                u
            )
            ** 2
        ).sum()

    def reduced_in(w, v):
        r = reshard(w, P(None, reduced={"y"}))
        return (
            shard(
                lambda r, v: v * (lax.pcast(r, "y", to="varying") if check_vma else r).sum(),
                in_specs=(P(None, reduced={"y"}), P("x", "y")),
                out_specs=P("x", "y"),
            )(r, v)
            ** 2
        ).sum()

    a = put("x", "y")
    n = a.shape[0] // context.shape["x"]
    whole = np.asarray(a).reshape(len(a), context.shape["y"], -1).sum(1)
    np.testing.assert_allclose(
        xlab.grad(out_and_in)(a), np.tile(2 * n * n * whole, (1, context.shape["y"])), rtol=1e-5
    )
    got = xlab.grad(reduced_in, (0, 1))(w, a)
    np.testing.assert_allclose(
        got[0], np.full(4, 2 * w.sum() * (np.asarray(a) ** 2).sum()), rtol=1e-5
    )
    np.testing.assert_allclose(got[1], 2 * w.sum() ** 2 * np.asarray(a), rtol=1e-5)
    assert str(xlab.typeof(got[0])) == "float32[4]"
    value, slope = xlab.jvp(lambda v: out_and_in(v), (a,), (a,))
    np.testing.assert_allclose(slope, 2 * value, rtol=1e-5)


# -- errors -----------------------------------------------------------------------------------------------

ERRORS = {
    "reshard": (lambda: put("x") + put("y", "x"), xlab.errors.ShardingTypeError, "xlab.reshard"),
    "out_sharding": (lambda: put("x", "y") @ put("x", "y").T, xlab.errors.ShardingTypeError, "out_sharding"),
    "get": (lambda: put("x")[0], xlab.errors.ShardingTypeError, "divisible"),
    "no_rule": (lambda: jnp.linalg.cholesky(put("x", value=np.eye(4, dtype=np.float32))), xlab.errors.ShardingTypeError, "reshard"),
    "auto": (lambda: auto_axes(lambda v: reshard(v, P("y")), out_sharding=P("x"))(put("x")), ValueError, "Auto or Manual"),
    "nothing_asked": (lambda: auto_axes(lambda v: v)(put("x")), TypeError, "out_sharding"),
    "nothing_given": (lambda: explicit_axes(lambda v: v)(put("x")), TypeError, "in_sharding"),
    "rank": (lambda: reshard(X, P("x", None, "y")), ValueError, "rank 2"),
    "divide": (lambda: reshard(np.ones(6), P("x")), ValueError, "partitioned 4 times"),
    "wrong_kind": (lambda: reshard(X, 3), TypeError, "PartitionSpec"),
    "assertion": (lambda: lax.with_sharding_constraint(put("x"), P("y")), AssertionError, "reshard"),
    "closed_over": (lambda: (lambda c: xlab.shard_map(lambda v: v + c.sum(), out_specs=P("x"))(put("x")))(put("x")), NotImplementedError,
                    "argument"),
    "summed_over": (lambda: lax.reduce_sum(put("x"), (1,), out_sharding=P("x", unreduced={"y"})), xlab.errors.ShardingTypeError,
                    "unreduced"),
    "batch_and_body": (lambda: xlab.vmap(xlab.shard_map(lambda v: v * 2, out_specs=P("y")))(put("x", "y")), xlab.errors.ShardingTypeError,
                       "one piece"),
    "vmap_of_two": (lambda: xlab.vmap(lambda a, b: a + b)(put("x"), put("y")), ValueError, "inconsistent axis specs"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_way_out(case, context):
    run, error, says = ERRORS[case]
    with pytest.raises(error, match=says):
        run()


def test_asking_outside_of_a_mesh():
    with pytest.raises(ValueError, match="set_mesh"):
        out_sharding(P("x"), "f")
    assert out_sharding(None, "f") is None


# -- cost -------------------------------------------------------------------------------------------------


def test_rules_run_only_for_values_that_are_sharded(monkeypatch):
    called = []
    prim = (
        lax.sin_p
        if hasattr(lax, "sin_p")
        else xlab.make_jaxpr(jnp.sin)(1.0).jaxpr.eqns[0].primitive
    )
    monkeypatch.setitem(sharding_rules._rules, prim, lambda *a, **k: called.append(a) or [[()]])
    monkeypatch.setattr(avals.explicit_types, "in_use", False)
    prim.clear_cache()
    xlab.make_jaxpr(jnp.sin)(np.ones((3, 5), np.float32))
    assert not called
    prim.clear_cache()


CONVOLUTIONS = {  # which operands are mapped, groups, how each lies, what is asked of an example's result
    "left": ((0, None), {}, ("x", None, None, "y"), (), None),
    "left_asked": ((0, None), {}, ("x",), (), ("y",)),
    "left_batch": ((0, None), {}, ("x", "y"), (), None),
    "left_asked_only": ((0, None), {}, (), (), ("x", None, "y")),
    "left_features": ((0, None), {}, ("x", None, "y"), (), ()),
    "left_groups": ((0, None), {"batch_group_count": 2}, ("x", "y"), (), (None, "y")),
    "left_last": ((4, None), {}, (None, None, None, "y", "x"), (), (None, None, None, "y")),
    "right": ((None, 0), {}, (), ("x",), None),
    "right_asked": ((None, 0), {}, ("y",), ("x",), (None, "y")),
    "right_groups": ((None, 0), {"feature_group_count": 2}, (), ("x",), (None, "y")),
    "both": ((0, 0), {}, ("x",), ("x",), None),
    "both_asked": ((0, 0), {}, ("x", "y"), ("x", "y"), ("y",)),
    "both_features": ((0, 0), {}, ("x",), ("x",), (None, "y")),
    "both_feature_groups": (
        (0, 0),
        {"feature_group_count": 2},
        ("x", None, "y"),
        ("x",),
        (None, None, "y"),
    ),
    "both_batch_groups": ((0, 0), {"batch_group_count": 2}, ("x", "y"), ("x",), (None, "y")),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_vmap_of_a_convolution_with_sharded_dimensions(context, case):
    axes, groups, left, right, asked = CONVOLUTIONS[case]
    r = np.random.default_rng(0)
    features = 4 // groups.get("feature_group_count", 1)
    values = [r.standard_normal(s).astype(np.float32) for s in ((4, 4, 4, 4), (4, features, 3, 3))]
    values = [
        a if d is None else np.stack([a + i for i in range(8)], d) for a, d in zip(values, axes)
    ]

    def run(x, k, asked=None):
        def one(x, k):
            return lax.conv_general_dilated(
                x, k, (1, 1), "SAME", out_sharding=None if asked is None else P(*asked), **groups
            )

        return xlab.vmap(one, axes)(x, k)

    sharded, f = (
        [put(*where, value=a) for where, a in zip((left, right), values)],
        functools.partial(run, asked=asked),
    )
    text(f, *sharded)

    def all_of(f):
        def loss(x, k):
            out = f(x, k)
            return (out * jnp.sin(lax.stop_gradient(reshard(out, P())))).mean(), out

        return xlab.jit(xlab.grad(loss, (0, 1), has_aux=True))

    (grads, out), (want_grads, want) = all_of(f)(*sharded), all_of(run)(*values)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    lies, batch = tuple(out.aval.sharding.spec), "x" if "x" in left + right else None
    assert lies[0] == batch and (asked is None or lies[1:] == (*asked, *(None,) * (4 - len(asked))))
    for got, expected in zip(grads, want_grads):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


# -- choices between values of other shapes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fun", "lies"),
    [
        (lambda v: jnp.where(np.ones((8, 8), bool), v, 0), (None, "x")),
        (lambda v: jnp.where(np.ones((8, 8), bool), v[:, None], 0.0), ("x", None)),
        (lambda v: jnp.where(np.ones((3, 1, 8), bool), 0, v), (None, None, "x")),
        (lambda v: jnp.where(v[:, None] > 3, 1, jnp.zeros((8, 2))), ("x", None)),
        (lambda v: jnp.select([np.ones((8, 8), bool)], [v[:, None]], 0), ("x", None)),
        (jnp.diag, ("x", None)),
    ],
)
def test_a_case_that_spreads_keeps_its_sharding(context, fun, lies):
    v = np.arange(8, dtype=np.float32)
    out = xlab.jit(fun)(put("x", value=v))
    assert out.aval.sharding.spec == P(*lies)
    np.testing.assert_array_equal(out, fun(v))


# -- places among sorted values, and segments of signals ---------------------------------------------------


def _rebuilt(x):
    """Segments of a spectrum put together again."""
    return signal.istft(signal.stft(x, nperseg=4)[2], nperseg=4)[1]


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.searchsorted(np.arange(0, 32, 3), x),
        lambda x: jnp.digitize(x, np.array([9.0, 3, 1])),
        lambda x: jnp.digitize(x, np.zeros(0)),
        lambda x: jnp.interp(x, np.array([1.0, 5, 9]), np.array([0.0, 2, 1]), period=11),
        lambda x: signal.welch(x, nperseg=4)[1],
        _rebuilt,
    ],
    ids=["searchsorted", "digitize", "no bins", "interp", "welch", "istft"],
)
def test_values_that_are_looked_up_keep_their_sharding(context, fun):
    value = np.random.RandomState(0).rand(8, 4).astype(np.float32) * 12
    for f in (fun, xlab.jit(fun)):
        out = f(put("x", value=value))
        assert out.aval.sharding.spec == P("x", None)
        np.testing.assert_allclose(out, fun(value), rtol=1e-5, atol=1e-6)


def test_the_counts_of_a_sharded_array_are_those_of_the_whole(context):
    counts, edges = xlab.jit(lambda x: jnp.histogram(x, 4))(put("x", "y"))
    assert counts.tolist() == [8, 8, 8, 8] and edges[-1] == 31


@pytest.mark.parametrize(
    ("fun", "message"),
    [
        (lambda v: jnp.searchsorted(v, 2.0), "searchsorted takes the sorted vector"),
        (lambda v: jnp.searchsorted(X[:, 0], 2.0, sorter=v.astype(int)), "takes the sorter"),
        (lambda v: jnp.digitize(2.0, v), "digitize takes the bins"),
        (lambda v: jnp.interp(2.0, v, X[:, 0]), "interp takes the positions `xp`"),
        (lambda v: jnp.interp(2.0, X[:, 0], v), "interp takes the values `fp`"),
        (lambda v: signal.stft(v[:, None], nperseg=4, axis=0), "stft takes the signal"),
        (lambda v: signal.csd(X[:, 0], v, nperseg=4), "csd takes the signal"),
    ],
)
def test_what_is_walked_through_has_to_be_whole(context, fun, message):
    with pytest.raises(
        ShardingTypeError,
        match=rf"{message} in one piece along dimension 0, got \w+\[8@x.*\], sharded there along 'x'.*reshard",
    ):
        xlab.jit(fun)(put("x", value=X[:, 0]))


def test_a_kernel_has_to_be_whole(context):
    v = put("x", value=X[:, 0])
    with pytest.raises(ShardingTypeError, match=r"or the right side, are sharded.*reshard"):
        jnp.convolve(v, v)


def test_eval_shape_says_that_a_result_is_whole(context):
    assert xlab.eval_shape(lambda x: (x.sum(), x.sum(1)), put("x"))[0].sharding.spec == P()
    assert xlab.eval_shape(lambda: jnp.ones(3)).sharding.spec == P(None)
    with set_mesh(make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))):
        assert xlab.eval_shape(lambda: jnp.ones(3)).sharding is None
