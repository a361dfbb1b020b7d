"""Formats: arrays that lie in memory in another order, asked for, given, and met by programs that did not ask."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.compile.history import ledger
from xlab.experimental.layout import Format, Layout
from xlab.sharding import AxisType, NamedSharding, P, SingleDeviceSharding

X = np.arange(12, dtype=np.float32).reshape(3, 4)
HERE = SingleDeviceSharding(xlab.devices()[0])
COLUMNS, ROWS = Format(Layout((1, 0)), HERE), Format(Layout((0, 1)), HERE)


def order(x):
    return x.format.layout.major_to_minor


def double(x):
    return x * 2


def test_device_put_and_back():
    y = xlab.device_put(X, COLUMNS)
    assert order(y) == (1, 0) and y.format == COLUMNS and y.committed
    np.testing.assert_array_equal(y, X)
    assert order(xlab.device_put(y, ROWS)) == (0, 1) and xlab.device_put(y, COLUMNS) is y


def test_d65_without_a_layout_a_format_means_the_default_one():
    y = xlab.device_put(X, COLUMNS)
    back = xlab.device_put(y, Format(None, HERE))
    assert order(back) == (0, 1) and back.committed
    np.testing.assert_array_equal(back, X)
    assert order(xlab.device_put(y, HERE)) == (1, 0)  # a sharding says nothing of layouts
    assert xlab.device_put(y, Format()) is y and xlab.device_put(back, Format(None, HERE)) is back
    keys = xlab.random.split(xlab.random.key(0), (2, 3))
    columns = xlab.device_put(keys, COLUMNS)
    for where in (ROWS, Format(None, HERE)):
        rows = xlab.device_put(columns, where)
        assert order(rows.base) == (0, 1, 2) != order(columns.base)
        assert (rows == keys).all()
    (eqn,) = xlab.make_jaxpr(lambda v: xlab.device_put(v, Format(None, HERE)))(X).eqns
    assert eqn.params["devices"] == (HERE,)


def test_arguments_are_brought_into_place():
    f = xlab.jit(double, in_shardings=COLUMNS)
    for x in (X, jnp.asarray(X), xlab.device_put(X, COLUMNS)):
        for _ in range(3):
            np.testing.assert_array_equal(f(x), 2 * X)
    assert "{0,1}" in f.lower(X).as_text()
    args, kwargs = f.lower(X).compile().input_formats
    assert (args, kwargs) == ((COLUMNS,), {})


@pytest.mark.parametrize(("asked", "given"), [(COLUMNS, ROWS), (ROWS, COLUMNS)])
def test_committed_arrays_that_lie_otherwise_are_refused(asked, given):
    with pytest.raises(ValueError, match="Layout passed to jit does not match"):
        xlab.jit(double, in_shardings=asked)(xlab.device_put(X, given))


def test_results():
    f = xlab.jit(double, out_shardings=COLUMNS)
    assert [order(f(X)) for _ in range(3)] == [(1, 0)] * 3
    g = xlab.jit(double, in_shardings=COLUMNS, out_shardings=COLUMNS, donate_argnums=0)
    y = g(g(X))
    assert order(y) == (1, 0)
    np.testing.assert_array_equal(y, 4 * X)


def test_programs_that_did_not_ask():
    """A program known for the default layout, natively too, meets an array that lies otherwise."""
    plain, y = xlab.device_put(X, HERE), xlab.device_put(X, COLUMNS)
    f = xlab.jit(lambda x: x[1] + 2 * x.T[:, 2][:3].sum())
    want = X[1] + 2 * X[2, :3].sum()
    for x in (plain, plain, y, y, plain, y):
        np.testing.assert_array_equal(f(x), want)
    np.testing.assert_array_equal(y + 1, X + 1)
    np.testing.assert_array_equal(y[1], X[1])
    np.testing.assert_allclose(jnp.sin(y).T @ y, np.sin(X).T @ X, rtol=1e-5)
    np.testing.assert_array_equal(xlab.vmap(double)(y), 2 * X)
    np.testing.assert_array_equal(xlab.grad(lambda x: (x * x).sum())(y), 2 * X)
    np.testing.assert_array_equal(xlab.jit(lambda: y + 1)(), X + 1)
    np.testing.assert_array_equal(f.lower(y).compile()(y), want)
    np.testing.assert_array_equal(
        np.asarray(xlab.lax.scan(lambda c, r: (c + r.sum(), r), 0.0, y)[1]), X
    )


def test_over_several_devices():
    mesh = xlab.make_mesh((2,), ("i",), axis_types=AxisType.Auto)
    where = NamedSharding(mesh, P(None, "i"))
    f = xlab.jit(lambda x: x / x.sum())
    want = X / X.sum()
    plain, y = xlab.device_put(X, where), xlab.device_put(X, Format(Layout((1, 0)), where))
    assert order(y) == (1, 0)
    for x in (plain, plain, plain, y, y, plain, y):
        np.testing.assert_allclose(f(x), want, rtol=1e-6)


def test_types_only():
    struct = xlab.ShapeDtypeStruct((3, 4), np.float32, sharding=COLUMNS)
    assert struct.format == COLUMNS and struct != xlab.ShapeDtypeStruct(
        (3, 4), np.float32, sharding=HERE
    )
    compiled = xlab.jit(double).lower(struct).compile()
    assert compiled.input_formats == ((COLUMNS,), {}) and order(
        compiled(xlab.device_put(X, COLUMNS))
    ) == (0, 1)


def test_compiled_ahead_for_a_layout_and_called_without():
    f = xlab.jit(double)
    f.lower(xlab.ShapeDtypeStruct((3, 4), np.float32, sharding=COLUMNS)).compile()
    ledger.clear()
    np.testing.assert_array_equal(f(xlab.device_put(X, HERE)), 2 * X)
    assert "of another layout" in ledger.entries[-1].reason


def test_under_transformations_the_order_means_nothing():
    f = xlab.jit(lambda x: (x * x).sum(), in_shardings=COLUMNS)
    np.testing.assert_array_equal(xlab.grad(f)(X), 2 * X)
    np.testing.assert_array_equal(xlab.vmap(f)(np.stack([X, X])), [(X * X).sum()] * 2)
    np.testing.assert_array_equal(xlab.jit(lambda x: xlab.device_put(x, COLUMNS) + 1)(X), X + 1)


def test_wrong_rank():
    with pytest.raises(ValueError, match="Length of major_to_minor"):
        xlab.jit(double, in_shardings=Format(Layout((2, 1, 0)), HERE))(X)
    with pytest.raises(ValueError, match="Length of major_to_minor"):
        xlab.jit(double, out_shardings=Format(Layout((0,)), HERE))(X)


def test_tokens_have_no_layout():
    kept = xlab.device_put(X, COLUMNS)  # from now on arguments are looked at
    token = xlab.jit(xlab.lax.after_all)(xlab.lax.create_token())
    assert type(token).__name__ == "Token" and order(kept) == (1, 0)
