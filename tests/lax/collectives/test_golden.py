"""Known answers on eight devices, where device `d` holds `d` or row `d`; every dtype; operands that are not batched; the program text."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.lax.collectives import models
from tests.lax.collectives.test_collectives import LINEAR, TABLE, data
from xlab import lax
from xlab.sharding import AxisType, P, make_mesh

D = np.arange(8, dtype=np.float32)
EVEN = [[0, 2, 4, 6], [1, 3, 5, 7]]
UNEVEN = [[0], [1, 2], [3, 4, 5, 6, 7]]
ROWS = np.arange(64, dtype=np.float32).reshape(8, 8)
FOUR = np.arange(32, dtype=np.float32).reshape(8, 4)


def on_eight(f, x, shape=(8,), names=("i",), **options):
    mesh = make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))
    where = P(names)
    g = xlab.shard_map(
        lambda v: jnp.asarray(f(v[0]))[None], mesh=mesh, in_specs=where, out_specs=where, **options
    )
    return np.asarray(xlab.jit(g)(x))


FREE = {"check_vma": False}
GRID = {"shape": (4, 2), "names": ("i", "j")}
# What each device computes, its values, the answers of all devices, where.
GOLDEN = {
    "psum": (lambda d: lax.psum(d, "i"), D, [28] * 8, {}),
    "psum of bool": (lambda d: lax.psum(d > 3, "i"), D, [4] * 8, {}),
    "psum even": (lambda d: lax.psum(d, "i", axis_index_groups=EVEN), D, [12, 16] * 4, FREE),
    "psum uneven": (lambda d: lax.psum(d, "i", axis_index_groups=UNEVEN), D, [0, 3, 3, 25, 25, 25, 25, 25], FREE),
    "pmean uneven": (lambda d: lax.pmean(d, "i", axis_index_groups=UNEVEN), D, [0, 1.5, 1.5, 5, 5, 5, 5, 5], FREE),
    "psum of one": (lambda d: d + lax.psum(1, "i"), D, list(range(8, 16)), {}),
    "pmax": (lambda d: lax.pmax(d, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]), D, [3] * 4 + [7] * 4, {}),
    "pargmax": (lambda d: lax.pargmax(-abs(d - 3), "i"), D, [3] * 8, {}),
    "pargmax of equals": (lambda d: lax.pargmax(d * 0, "i"), D, [0] * 8, {}),
    "ppermute": (lambda d: lax.ppermute(d, "i", [(0, 1), (2, 3)]), D, [0, 0, 0, 2, 0, 0, 0, 0], {}),
    "pshuffle": (lambda d: lax.pshuffle(d, "i", [1, 2, 3, 4, 5, 6, 7, 0]), D, [1, 2, 3, 4, 5, 6, 7, 0], {}),
    "pshuffle of two": (lambda d: lax.pshuffle(d, "i", [1, 0]), D, [1, 0, 0, 0, 0, 0, 0, 0], {}),
    "pbroadcast": (lambda d: lax.pbroadcast(d, "i", 3), D, [3] * 8, {}),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), ROWS, ROWS.T.tolist(), {}),
    "all_to_all even": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True, axis_index_groups=EVEN)[:4], FOUR,
                        [[k % 2 * 4 + k // 2 + r for r in (0, 8, 16, 24)] for k in range(8)], FREE),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True), ROWS, [[224 + 8 * d] for d in range(8)], {}),
    "psum_scatter even": (lambda x: lax.psum_scatter(x, "i", tiled=True, axis_index_groups=EVEN), FOUR,
                          [[v] for v in (48, 64, 52, 68, 56, 72, 60, 76)], FREE),
    "all_gather": (lambda d: lax.all_gather(d, "i", axis_index_groups=[[0, 2, 4, 6], [7, 5, 3, 1]]), D,
                   [[0, 2, 4, 6], [7, 5, 3, 1]] * 4, FREE),
    "axis_index": (lambda d: lax.axis_index(("j", "i")), D, [0, 4, 1, 5, 2, 6, 3, 7], GRID),
    "scatter over both": (lambda x: lax.psum_scatter(x, ("j", "i"), tiled=True), ROWS,
                          [[v] for v in (224, 256, 232, 264, 240, 272, 248, 280)], GRID),
    "ppermute over j": (lambda d: lax.ppermute(d, "j", [(0, 1)]), D, [0, 0, 0, 2, 0, 4, 0, 6], GRID),
    "gather over both": (lambda d: lax.all_gather(d, ("j", "i")), D, [[0, 2, 4, 6, 1, 3, 5, 7]] * 8, GRID),
    "ring over both": (lambda d: lax.ppermute(d, ("j", "i"), [(k, (k + 1) % 8) for k in range(8)]), D,
                       [7, 0, 1, 2, 3, 4, 5, 6], GRID),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_known_answers(name):
    f, x, want, options = GOLDEN[name]
    assert on_eight(f, x, **options).tolist() == want


def test_groups_of_four():
    """C60: the ranks of a group are in the order of its list."""
    x, groups = np.arange(16, dtype=np.float32).reshape(4, 4), [[0, 2], [3, 1]]
    mesh = make_mesh((4,), ("i",), axis_types=AxisType.Auto)

    def body(v):
        gathered = lax.all_gather(v[0, 0], "i", axis_index_groups=groups)
        scattered = lax.psum_scatter(v[0], "i", tiled=True, axis_index_groups=groups)
        return gathered[None], scattered[None]

    f = xlab.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    gathered, scattered = f(x)
    assert (np.asarray(gathered) / 4).tolist() == [[0, 2], [3, 1], [0, 2], [3, 1]]
    # device 1 is the second of its group
    assert np.asarray(scattered).tolist() == [[8, 10], [20, 22], [12, 14], [16, 18]]


def test_sums_of_constants_are_part_of_no_program():
    """C38: per leaf, by the size of the first group, and array axes beside."""
    seen = {}

    def body(v):
        for name, x in {
            "int": 3,
            "float": 2.5,
            "bool": True,
            "scalar": np.float32(2),
            "array": np.full((2, 3), 2, np.int16),
            "flags": np.ones(3, bool),
        }.items():
            seen[name] = lax.psum(x, "i")
        seen["both"] = lax.psum(np.full((2, 3), 2, np.float32), ("i", 0))
        seen["last"] = lax.psum(np.full((2, 3), 2, np.float32), ("i", -1))
        seen["groups"] = lax.psum(1, "i", axis_index_groups=UNEVEN)
        seen["tree"] = lax.psum({"a": 1, "b": [np.float32(1), None]}, "i")
        return v

    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)
    f = xlab.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    assert xlab.make_jaxpr(f)(D).eqns[0].params["jaxpr"].eqns == []
    assert [seen[k] for k in ("int", "float", "bool", "scalar", "groups")] == [24, 20.0, 8, 16, 1]
    assert type(seen["int"]) is type(seen["bool"]) is int and seen["scalar"].dtype == np.float32
    assert seen["array"].tolist() == [[16] * 3] * 2 and seen["array"].dtype == np.int16
    assert seen["flags"].tolist() == [8] * 3 and seen["flags"].dtype == np.int32
    assert seen["both"].tolist() == [32] * 3 and seen["last"].tolist() == [48] * 2
    assert seen["tree"] == {"a": 8, "b": [8, None]}


def test_gradients_of_sums():
    """C41: once where sums are known to be the same everywhere, and once for every device where they are not."""
    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)

    def total(x, check):
        f = xlab.grad(lambda v: lax.psum(v, "i").sum())
        return xlab.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check)(x)

    assert total(D, True).tolist() == [1] * 8 and total(D, False).tolist() == [8] * 8
    mapped = xlab.vmap(xlab.grad(lambda v: lax.psum(v, "i")), axis_name="i")
    assert mapped(D).tolist() == [8] * 8
    squares = xlab.vmap(xlab.grad(lambda v: lax.psum(v, "i") ** 2), axis_name="i")
    assert squares(D).tolist() == [448] * 8
    weight = xlab.shard_map(
        lambda w, x: xlab.grad(lambda w: (w * x).sum())(w), mesh=mesh, in_specs=(P(), P("i")), out_specs=P()
    )  # fmt: skip
    assert float(weight(np.float32(2), np.arange(64, dtype=np.float32))) == 2016


DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.int8, np.int32, np.uint8, np.bool_, np.complex64, ml_dtypes.int4, ml_dtypes.float8_e4m3fn]  # fmt: skip
PLACES = {"i": "i", "ij": ("i", "j"), "ji": ("j", "i")}


@pytest.mark.parametrize("how", ["checked", "unchecked", "vmap"])
def test_reductions_of_every_dtype(how):
    """C48: exact on small integers."""
    x = np.arange(8).reshape(8, 1) % 3 % np.array([[1, 2, 3]])
    small = {"i": ("i",), "ij": ("i", "j"), "ji": ("j", "i")}

    def body(v):
        out = {}
        for dtype in map(np.dtype, DTYPES):
            w = v.astype(dtype)
            for place, axes in small.items() if how != "vmap" else [("i", ("v",))]:
                out[f"psum {dtype} {place}"] = lax.psum(w, axes)
                if dtype.kind != "c":
                    out[f"pmax {dtype} {place}"] = lax.pmax(w, axes)
                    out[f"pmin {dtype} {place}"] = lax.pmin(w, axes)
                if dtype.itemsize > 1:
                    out[f"pmean {dtype} {place}"] = lax.pmean(w, axes)
        return out

    if how == "vmap":
        got = xlab.jit(xlab.vmap(body, axis_name="v"))(x)
    else:
        mesh = make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
        g = xlab.shard_map(
            lambda v: {k: (u * jnp.ones((), u.dtype))[None] if how == "unchecked" else _own(u)[None]
                       for k, u in body(v[0]).items()},
            mesh=mesh, in_specs=P(("i", "j")), out_specs=P(("i", "j")), check_vma=how == "checked",
        )  # fmt: skip
        got = xlab.jit(g)(x)
    assert len(got) > 30
    for name, value in got.items():
        kind, dtype, place = name.split()
        rows = [list(range(8))]
        if how != "vmap":
            rows = models.groups((4, 2), ("i", "j"), small[place])
        want = getattr(models, kind)(x, rows)
        if dtype == "bool" and kind == "psum":
            assert value.dtype == np.int32
            want = models.psum((x != 0).astype(int), rows)
        elif dtype == "bool":
            want = getattr(models, kind)((x != 0).astype(int), rows)
        if kind != "pmean" and dtype != "bool":
            assert str(value.dtype) == dtype
        np.testing.assert_allclose(np.asarray(value).astype(complex), want, rtol=1e-2, err_msg=name)


def _own(u):
    missing = tuple(sorted({"i", "j"} - xlab.typeof(u).mat.varying))
    return lax.pcast(u, missing, to="varying") if missing else u


@pytest.mark.parametrize("name", TABLE)
def test_an_operand_that_is_not_batched(name):
    """C42, C51, C57, C64, C70, C74, C112: as if every example had it."""
    f, model, options = TABLE[name]
    x = data(1)[0]
    same = np.stack([x] * 4)
    g = xlab.vmap(lambda v, _: f(v, "v", 4), in_axes=(None, 0), axis_name="v")
    want = model(same, [[0, 1, 2, 3]], **options(4))
    np.testing.assert_array_equal(np.asarray(g(x, np.arange(4.0))), want)


@pytest.mark.parametrize("name", TABLE)
def test_vmap_inside_of_a_body(name):
    """C112: over another axis, at each dimension."""
    f, model, options = TABLE[name]
    x = np.stack([data(8), data(8) + 1], 1)  # (device, example, 8, 16)

    def body(v):
        one = lambda u: f(u, "i", 8)
        return jnp.stack([xlab.vmap(one, in_axes=k)(jnp.moveaxis(v, 0, k)) for k in range(3)])

    want = np.stack([model(x[:, k], [list(range(8))], **options(8)) for k in range(2)], 1)
    got = on_eight(body, x)
    for k in range(3):
        np.testing.assert_array_equal(got[:, k], want.reshape(got[:, k].shape))


def test_every_linear_collective_is_in_the_table():
    assert {re.split("_(?:tiled|partial|back|same|invarying)", n)[0] for n in LINEAR} == {
        "psum", "pmean", "all_gather", "psum_scatter", "all_to_all", "ppermute", "pbroadcast"
    }  # fmt: skip
