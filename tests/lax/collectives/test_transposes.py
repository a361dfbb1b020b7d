"""Every collective and cast beside its transpose: the types of both, and that the inner products agree (C110, C111)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.lax import parallel
from xlab.sharding import AxisType, P, make_mesh

MESH = make_mesh((4,), ("i",), axis_types=AxisType.Auto)
COTANGENT = {"V": "V", "I": "I", "U": "R", "R": "U"}

# name: the function of one device's value, the state before, the state after.
ROWS = {
    "psum": (lambda x: lax.psum(x, "i"), "V", "I"),
    "psum of unreduced": (lambda x: lax.psum(x, "i"), "U", "I"),
    "pvary": (lambda x: lax.pcast(x, "i", to="varying"), "I", "V"),
    "preduced": (lambda x: lax.pcast(x, "i", to="reduced"), "I", "R"),
    "vary_unreduced_cast": (lambda x: lax.pcast(x, "i", to="unreduced"), "V", "U"),
    "reduced_vary_cast": (lambda x: lax.pcast(x, "i", to="varying"), "R", "V"),
    "all_gather": (lambda x: lax.all_gather(x, "i", tiled=True), "V", "V"),
    "all_gather untiled": (lambda x: lax.all_gather(x, "i", axis=1), "V", "V"),
    "all_gather_invariant": (lambda x: lax.all_gather(x, "i", to="invarying"), "V", "I"),
    "all_gather_reduced": (lambda x: lax.all_gather(x, "i", to="reduced", tiled=True), "V", "R"),
    "reduce_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True), "V", "V"),
    "unreduced_reduce_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True), "U", "V"),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), "V", "V"),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 3)]), "V", "V"),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), "V", "V"),
    "ragged_all_to_all": (lambda x: ragged(x), "V", "V"),
}


def ragged(x):
    ones = lax.pcast(np.ones(4, np.int32), "i", to="varying")
    starts = lax.pcast(np.arange(4, dtype=np.int32), "i", to="varying")
    place = lax.broadcast(lax.axis_index("i"), (4,))
    return lax.ragged_all_to_all(x, lax.full_like(x, 0), starts, ones, place, ones, axis_name="i")


def made(x, state):
    """A value of a state, from one part per device."""
    if state in "IR":
        x = lax.psum(x, "i")
    if state == "R":
        return lax.pcast(x, "i", to="reduced")
    return lax.pcast(x, "i", to="unreduced") if state == "U" else x


def state_of(x):
    mat = xlab.typeof(x).mat
    found = [s for s, axes in zip("VUR", (mat.varying, mat.unreduced, mat.reduced)) if "i" in axes]
    return found[0] if found else "I"


def inner(a, b):
    """The inner product of a value and a cotangent: varying parts are summed, what is one value counts once, parts of a sum are summed."""
    if state_of(a) == "I":
        return (a * b).sum()
    if state_of(a) == "R":
        a, b = b, a
    if state_of(a) == "U":
        return (lax.psum(a, "i") * whole(b)).sum()
    return lax.psum((a * b).sum(), "i")


def whole(x):
    """A reduced value as one that is the same everywhere."""
    first = lax.pcast(x, "i", to="varying")
    return lax.psum(first, "i") / 4


@pytest.mark.parametrize("name", ROWS)
def test_types_and_inner_products(name):
    f, before, after = ROWS[name]
    seen = []

    def body(x, y):
        x = made(x, before)
        out, pull = xlab.vjp(f, x)
        shape = xlab.typeof(out).shape
        y = made(
            lax.slice_in_dim(y.ravel(), 0, int(np.prod(shape))).reshape(shape), COTANGENT[after]
        )
        (back,) = pull(y)
        seen.append((state_of(x), state_of(out), state_of(y), state_of(back)))
        assert xlab.typeof(back).shape == xlab.typeof(x).shape
        return inner(out, y), inner(x, back)

    # Its own numbers, whatever ran before, and all above 0: no product can cancel to 0.
    rng = np.random.default_rng(list(name.encode()))
    x = rng.integers(1, 8, (16, 2)).astype(np.float32)
    y = rng.integers(1, 8, (4, 64)).astype(np.float32)
    left, right = xlab.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P())(x, y)
    assert set(seen) == {(before, after, COTANGENT[after], COTANGENT[before])}
    np.testing.assert_allclose(left, right, rtol=1e-6)
    assert float(left) != 0


@pytest.mark.parametrize("call", [lax.pmax, lax.pmin])
def test_what_has_no_transpose(call):
    def body(x):
        return call(x, "i")

    f = xlab.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P())
    with pytest.raises(NotImplementedError, match="no derivative rule"):
        xlab.vjp(f, np.ones(4, np.float32))
    assert not hasattr(parallel, "pmax_start"), "nor is there one that is only started"
