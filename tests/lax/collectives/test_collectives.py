"""Collectives against NumPy models: on meshes of several shapes, on one device, under vmap, transposed."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xlab
from tests.lax.collectives import models
from xlab import lax
from xlab.lax import parallel
from xlab.lax.collectives.common import replica_groups
from xlab.sharding import AbstractMesh, AxisType, P, make_mesh

MESHES = {
    "8": ((8,), ("a",)),
    "4x2": ((4, 2), ("a", "b")),
    "2x2x2": ((2, 2, 2), ("a", "b", "c")),
    "1": ((1,), ("a",)),
}
PLACES = [
    ("8", ("a",)),
    ("4x2", ("a",)),
    ("4x2", ("b",)),
    ("4x2", ("a", "b")),
    ("4x2", ("b", "a")),
    ("2x2x2", ("b",)),
    ("2x2x2", ("a", "c")),
    ("2x2x2", ("c", "a")),
    ("1", ("a",)),
]


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


# name: (collective of a local value and axes, model, options of the model by group size)
TABLE = {
    "psum": (lambda x, a, n: lax.psum(x, a), models.psum, lambda n: {}),
    "pmean": (lambda x, a, n: lax.pmean(x, a), models.pmean, lambda n: {}),
    "pmax": (lambda x, a, n: lax.pmax(x, a), models.pmax, lambda n: {}),
    "pmin": (lambda x, a, n: lax.pmin(x, a), models.pmin, lambda n: {}),
    "all_gather": (lambda x, a, n: lax.all_gather(x, a, axis=1), models.all_gather, lambda n: {"axis": 1}),
    "all_gather_tiled": (lambda x, a, n: lax.all_gather(x, a, axis=1, tiled=True), models.all_gather_tiled, lambda n: {"axis": 1}),
    "all_gather_invarying": (lambda x, a, n: lax.all_gather(x, a, to="invarying"), models.all_gather, lambda n: {"axis": 0}),
    "psum_scatter": (lambda x, a, n: lax.psum_scatter(x[:n], a), lambda x, r: models.psum_scatter(
        x[:, :len(r[0])], r, axis=0), lambda n: {}),
    "psum_scatter_tiled": (lambda x, a, n: lax.psum_scatter(x, a, scatter_dimension=1, tiled=True), models.psum_scatter_tiled,
                           lambda n: {"axis": 1}),
    "all_to_all": (lambda x, a, n: lax.all_to_all(x[:n], a, 0, 1), lambda x, r: models.all_to_all(
        x[:, :len(r[0])], r, split=0, concat=1), lambda n: {}),
    "all_to_all_back": (lambda x, a, n: lax.all_to_all(x[:, :n], a, 1, 0), lambda x, r: models.all_to_all(
        x[:, :, :len(r[0])], r, split=1, concat=0), lambda n: {}),
    "all_to_all_tiled": (lambda x, a, n: lax.all_to_all(x, a, 0, 1, tiled=True), models.all_to_all_tiled,
                         lambda n: {"split": 0, "concat": 1}),
    "all_to_all_same": (lambda x, a, n: lax.all_to_all(x, a, 1, 1, tiled=True), models.all_to_all_tiled,
                        lambda n: {"split": 1, "concat": 1}),
    "ppermute": (lambda x, a, n: lax.ppermute(x, a, ring(n)), models.ppermute, lambda n: {"perm": ring(n)}),
    "ppermute_partial": (lambda x, a, n: lax.ppermute(x, a, [(n - 1, 0)]), models.ppermute, lambda n: {"perm": [(n - 1, 0)]}),
    "pbroadcast": (lambda x, a, n: lax.pbroadcast(x, a, n - 1), models.pbroadcast, lambda n: {"source": n - 1}),
    "axis_index": (lambda x, a, n: lax.axis_index(a), models.axis_index, lambda n: {}),
}  # fmt: skip
LINEAR = [k for k in TABLE if k not in ("pmax", "pmin", "axis_index")]


def data(count):
    return np.random.default_rng(0).integers(-9, 9, (count, 8, 16)).astype(np.float32)


def mesh_of(key):
    shape, names = MESHES[key]
    return make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


def on_mesh(f, mesh, **options):
    """`f` of one device's value, as a function of all of them stacked."""
    where = P(mesh.axis_names)
    return xlab.shard_map(
        lambda x: lax.expand_dims(f(x[0]), (0,)),
        mesh=mesh,
        in_specs=where,
        out_specs=where,
        **options,
    )


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize(
    ("key", "axes"), PLACES, ids=lambda v: v if isinstance(v, str) else "".join(v)
)
def test_against_the_model(name, key, axes):
    f, model, options = TABLE[name]
    mesh = mesh_of(key)
    rows = models.groups(*MESHES[key], axes)
    n = len(rows[0])
    x = data(mesh.size)
    want = model(x, rows, **options(n))
    for check in (True, False):
        got = on_mesh(lambda v: f(v, axes if len(axes) > 1 else axes[0], n), mesh, check_vma=check)(
            x
        )
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("name", TABLE)
def test_under_vmap(name):
    f, model, options = TABLE[name]
    x = data(4)
    rows = [[0, 1, 2, 3]]
    got = xlab.vmap(lambda v: f(v, "v", 4), axis_name="v")(x)
    np.testing.assert_array_equal(np.asarray(got), model(x, rows, **options(4)))


@pytest.mark.parametrize("name", TABLE)
def test_vmap_of_another_axis(name):
    """A batch of programs equals the program on each member, with the batch in front or behind."""
    f, _, _ = TABLE[name]
    mesh = mesh_of("4x2")
    one = on_mesh(lambda v: f(v, "a", 4), mesh)
    x = np.stack([data(8), data(8) + 1, data(8) * 2])
    want = np.stack([np.asarray(one(v)) for v in x])
    np.testing.assert_array_equal(np.asarray(xlab.vmap(one)(x)), want)
    np.testing.assert_array_equal(np.asarray(xlab.vmap(one, in_axes=3)(np.moveaxis(x, 0, 3))), want)


@pytest.mark.parametrize(
    "name", ["psum", "pmax", "all_gather", "all_gather_tiled", "all_to_all_tiled"]
)
def test_nested_vmap_over_two_names(name):
    """Ranks over the names ('u', 'w') are row-major, whichever of the two is mapped first."""
    f, model, options = TABLE[name]
    x = data(4)
    want = model(x, [[0, 1, 2, 3]], **options(4))
    grid = x.reshape(2, 2, 8, 16)
    inner = xlab.vmap(lambda v: f(v, ("u", "w"), 4), axis_name="w")
    got = xlab.vmap(inner, axis_name="u")(grid)
    np.testing.assert_array_equal(np.asarray(got).reshape(want.shape), want)
    swapped = xlab.vmap(
        xlab.vmap(lambda v: f(v, ("u", "w"), 4), axis_name="u"),
        axis_name="w",
        in_axes=1,
        out_axes=1,
    )
    np.testing.assert_array_equal(np.asarray(swapped(grid)).reshape(want.shape), want)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("check", [True, False])
def test_transpose_is_the_adjoint(name, check):
    """<f(x), y> = <x, f'(y)>, from outside, where every device's part counts once."""
    f, _, _ = TABLE[name]
    whole = on_mesh(lambda v: f(v, ("b", "a"), 8), mesh_of("4x2"), check_vma=check)
    x = data(8)
    out, pull = xlab.vjp(whole, x)
    y = np.random.default_rng(1).integers(-9, 9, out.shape).astype(np.float32)
    (back,) = pull(y)
    np.testing.assert_allclose(np.vdot(np.asarray(out), y), np.vdot(x, np.asarray(back)), rtol=1e-5)


@pytest.mark.parametrize("name", LINEAR)
def test_transpose_under_vmap(name):
    f, _, _ = TABLE[name]
    whole = xlab.vmap(lambda v: f(v, "v", 4), axis_name="v")
    x = data(4)
    out, pull = xlab.vjp(whole, x)
    y = np.random.default_rng(1).integers(-9, 9, out.shape).astype(np.float32)
    (back,) = pull(y)
    np.testing.assert_allclose(np.vdot(np.asarray(out), y), np.vdot(x, np.asarray(back)), rtol=1e-5)


def test_index_groups():
    mesh = mesh_of("8")
    x = np.arange(8, dtype=np.float32)[:, None]
    apply = functools.partial(on_mesh, mesh=mesh, check_vma=False)
    uneven = [[0], [1, 2], [3, 4, 5, 6, 7]]
    even = [[0, 2, 4, 6], [7, 5, 3, 1]]
    assert np.ravel(apply(lambda v: lax.psum(v, "a", axis_index_groups=uneven))(x)).tolist() == [
        0,
        3,
        3,
        25,
        25,
        25,
        25,
        25,
    ]
    assert np.ravel(apply(lambda v: lax.pmean(v, "a", axis_index_groups=uneven))(x)).tolist() == [
        0,
        1.5,
        1.5,
        5,
        5,
        5,
        5,
        5,
    ]
    gathered = np.asarray(apply(lambda v: lax.all_gather(v[0], "a", axis_index_groups=even))(x))
    assert gathered[0].tolist() == [0, 2, 4, 6] and gathered[1].tolist() == [7, 5, 3, 1]
    rows = np.arange(32, dtype=np.float32).reshape(8, 4)
    scattered = apply(
        lambda v: lax.psum_scatter(
            v, "a", axis_index_groups=[[0, 2, 4, 6], [1, 3, 5, 7]], tiled=True
        )
    )(rows)
    assert np.ravel(scattered).tolist() == [48, 64, 52, 68, 56, 72, 60, 76]


def test_dtypes_and_constants():
    mesh = mesh_of("8")
    x = np.arange(8, dtype=np.int32)[:, None]
    flags = on_mesh(lambda v: lax.psum(v > 3, "a"), mesh)(x)
    assert flags.dtype == np.int32 and np.ravel(flags).tolist() == [4] * 8
    assert on_mesh(lambda v: lax.pmean(v, "a"), mesh)(x).dtype == np.float32
    assert np.ravel(on_mesh(lambda v: v + lax.psum(1, "a"), mesh)(x)).tolist() == list(range(8, 16))
    assert (
        np.ravel(on_mesh(lambda v: lax.psum(v.astype("bfloat16"), "a"), mesh)(x))
        .astype(float)
        .tolist()
        == [28.0] * 8
    )
    assert np.asarray(on_mesh(lambda v: lax.pmax(v > 6, "a"), mesh)(x)).all()
    complexes = on_mesh(lambda v: lax.psum(v * 1j, "a"), mesh)(x.astype(np.complex64))
    assert np.ravel(complexes).tolist() == [28j] * 8


def test_trees_and_several_leaves():
    mesh = mesh_of("8")
    x = np.arange(8, dtype=np.float32)[:, None]
    out = on_mesh(lambda v: sum(lax.psum({"p": v, "q": [2 * v, None]}, "a")["q"][:1]), mesh)(x)
    assert np.ravel(out).tolist() == [56.0] * 8


def test_pargmax_and_pshuffle():
    x = -np.abs(np.arange(8, dtype=np.float32) - 3)[:, None]
    assert np.ravel(on_mesh(lambda v: lax.pargmax(v, "a"), mesh_of("8"))(x)).tolist() == [3] * 8
    y = np.arange(8, dtype=np.float32)[:, None]
    moved = on_mesh(lambda v: lax.pshuffle(v, "a", [1, 2, 3, 4, 5, 6, 7, 0]), mesh_of("8"))(y)
    assert np.ravel(moved).tolist() == [1, 2, 3, 4, 5, 6, 7, 0]


def test_axis_index_of_several_axes():
    got = on_mesh(lambda v: lax.axis_index(("b", "a")), mesh_of("4x2"))(
        np.zeros((8, 1), np.float32)
    )
    assert np.ravel(got).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_replica_groups():
    mesh = AbstractMesh((4, 2), ("i", "j"))
    assert replica_groups(mesh, ("j",)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert replica_groups(mesh, ("i",)) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert replica_groups(mesh, ("j", "i")) == [[0, 2, 4, 6, 1, 3, 5, 7]]
    assert replica_groups(mesh, ("i",), ((0, 1), (2, 3))) == [[0, 2], [4, 6], [1, 3], [5, 7]]


def test_gather_then_scatter_is_psum():
    mesh = mesh_of("8")
    x = data(8)
    both = on_mesh(
        lambda v: lax.all_gather(lax.psum_scatter(v, "a", tiled=True), "a", tiled=True), mesh
    )(x)
    np.testing.assert_array_equal(
        np.asarray(both), np.asarray(on_mesh(lambda v: lax.psum(v, "a"), mesh)(x))
    )


def test_negative_zero_and_nan_survive_pbroadcast():
    x = np.array([[0.0], [-0.0], [np.nan], [1.0]] * 2, np.float32)
    assert np.signbit(
        np.asarray(on_mesh(lambda v: lax.pbroadcast(v, "a", 1), mesh_of("8"))(x))
    ).all()
    assert np.isnan(np.asarray(on_mesh(lambda v: lax.pbroadcast(v, "a", 2), mesh_of("8"))(x))).all()


def test_casts_and_variants_by_their_internal_names():
    def body(v):
        u = parallel.vary_unreduced_cast(v, "a")
        whole = parallel.unreduced_psum(u, "a")
        gathered = parallel.all_gather_invariant(v, "a", tiled=True)
        again = parallel.reduced_vary_cast(parallel.all_gather_reduced(v, "a", tiled=True), "a")
        own = parallel.unreduced_psum_scatter(
            parallel.vary_unreduced_cast(again, "a"), "a", tiled=True
        )
        assert [str(xlab.typeof(t)) for t in (u, whole, gathered, again, own)] == [
            "float32[1]{U:a}",
            "float32[1]",
            "float32[8]",
            "float32[8]{V:a}",
            "float32[1]{V:a}",
        ]
        return whole + gathered[:1] + own + parallel.insert_collective_pvary("a", whole)

    x = np.arange(8, dtype=np.float32)
    mesh = mesh_of("8")
    out = xlab.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"))(x)
    assert np.asarray(out).tolist() == (28 + 0 + 8 * x + 28).tolist()


def test_axes_of_size_one_may_be_dropped_from_types():
    xlab.config.set_local("remove_size_one_mesh_axis_from_type", True)
    try:
        closed = xlab.make_jaxpr(on_mesh(lambda v: lax.psum(v, "a"), mesh_of("1")))(
            np.zeros((1, 2), np.float32)
        )
    finally:
        xlab.config.unset_local("remove_size_one_mesh_axis_from_type")
    body = closed.jaxpr.eqns[0].params["jaxpr"]
    assert "psum" not in str(body)


@pytest.mark.parametrize("how", ["checked", "unchecked", "pmap", "vmap"])
def test_constants_beside_traced_values_stay_constants(how):
    import xlab.numpy as jnp

    seen = []

    def f(d):
        s, n = xlab.lax.psum((d, 1), "i")
        mean, two = xlab.lax.pmean((d, 2.0), "i")
        seen.append((n, two))
        return s + mean + jnp.zeros(n).sum()

    mesh = xlab.make_mesh((8,), ("i",), axis_types=xlab.sharding.AxisType.Auto)
    x = np.arange(8, dtype=np.float32)
    g = {
        "pmap": lambda: xlab.pmap(f, axis_name="i"),
        "vmap": lambda: xlab.vmap(f, axis_name="i"),
    }.get(
        how,
        lambda: xlab.shard_map(
            f, mesh=mesh, in_specs=xlab.P("i"), out_specs=xlab.P(), check_vma=how == "checked"
        ),
    )()
    assert np.asarray(g(x)).ravel().tolist() == [31.5] * (1 if how.endswith("checked") else 8)
    assert type(seen[0][0]) is int and seen[0] == (8, 2.0)
    if how == "checked":
        (inner,) = (e.params["jaxpr"] for e in xlab.make_jaxpr(g)(x).eqns)
        assert [
            e.primitive.name
            for e in inner.eqns
            if "psum" in e.primitive.name or "pvary" in e.primitive.name
        ] == ["psum_invariant"] * 2
