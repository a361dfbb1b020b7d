"""X1: values of users' own classes as arguments of programs."""

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.errors import InvalidInputException
from xlab.extend.core import register_array_type, unregister_array_type
from xlab.sharding import Mesh, NamedSharding
from xlab.sharding import PartitionSpec as P


class Column:
    def __init__(self, values):
        self.values = values


class Labeled(Column):
    pass


WANT = np.arange(8, dtype=np.float32)


@pytest.fixture
def column():
    register_array_type(Column, lambda c: np.asarray(c.values, np.float32))
    yield Column(range(8))
    unregister_array_type(Column)


def test_X1_registered_types_are_taken_everywhere(column):
    where = NamedSharding(Mesh(np.array(xlab.devices()), ("i",)), P("i"))
    f = xlab.jit(lambda x, y: x * 2 + y)
    for _ in range(2):
        np.testing.assert_array_equal(f(column, np.float32(1)), 2 * WANT + 1)
    np.testing.assert_array_equal(f(np.float32(1), column), WANT + 2)
    np.testing.assert_array_equal(f.lower(column, 1.0).compile()(column, 2.0), 2 * WANT + 2)
    np.testing.assert_array_equal(xlab.grad(lambda x: (x * x).sum())(column), 2 * WANT)
    np.testing.assert_array_equal(lax.neg(column), -WANT)
    np.testing.assert_array_equal(xlab.jit(lambda y: lax.add(column, y))(WANT), 2 * WANT)
    for out in (xlab.device_put(column, where), xlab.jit(lambda x: x, in_shardings=where)(column)):
        np.testing.assert_array_equal(out, WANT)
        assert out.sharding == where


def test_types_that_are_not_registered_are_refused(column):
    f = xlab.jit(lambda x: x)
    f(column)
    with pytest.raises(InvalidInputException, match="Labeled"):
        f(Labeled(range(8)))
    with pytest.raises(ValueError, match="Column are arguments of programs already"):
        register_array_type(Column, np.asarray)
    with pytest.raises(ValueError, match="ndarray"):
        register_array_type(np.ndarray, np.asarray)
    unregister_array_type(Column)
    try:
        with pytest.raises(InvalidInputException, match="Column"):
            f(column)
    finally:
        register_array_type(Column, np.asarray)
    with pytest.raises(KeyError):
        unregister_array_type(Labeled)
