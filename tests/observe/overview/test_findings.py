"""What a program does that need not be so: found where it is, not where it is not; and patterns by their names."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import P, observe
from xlab.observe.records.text import text
from xlab.sharding import AxisType, NamedSharding, make_mesh

X = np.ones((8, 16), np.float32)
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
    assert observe.findings(xlab.jit(lambda x, w: x @ w), x, w, tries=0) == ()


def test_an_array_that_every_device_rebuilds_is_found(put):
    x, y = put(np.ones((16, 32), np.float32), "data"), put(np.ones((16, 32), np.float32), "model")
    found = observe.findings(xlab.jit(lambda x, y: x + y), x, y)
    assert [f.kind for f in found] == ["full rematerialization"] * len(found) and found


def test_a_program_without_fault_has_none():
    def step(w, x):
        return w - 0.1 * xlab.grad(lambda w: jnp.sum((x @ w) ** 2))(w)

    assert observe.findings(step, np.ones((16, 4), np.float32), X) == ()
