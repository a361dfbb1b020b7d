"""Classes that `vmap` maps over by specifications of their own."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.interpreters import batching


class Named:
    """An array with a name for each axis; a leaf for pytrees."""

    def __init__(self, names, data):
        self.names, self.data = list(names), data


class Along:
    def __init__(self, name, axis):
        self.name, self.axis = name, axis


numbers = []


def to_elt(map_part, get_index, value, spec):
    names = list(value.names)
    assert names.pop(spec.axis) == spec.name
    numbers.append(get_index())
    return Named(names, map_part(value.data, spec.axis))


def from_elt(join_part, axis_size, example, spec):
    names = list(example.names)
    names.insert(spec.axis, spec.name)
    return Named(names, join_part(axis_size, example.data, spec.axis))


@pytest.fixture
def named():
    batching.register_vmappable(Named, Along, int, to_elt, from_elt, None)
    yield Named(["a", "b"], jnp.arange(6.0).reshape(2, 3))
    batching.unregister_vmappable(Named)


def twice(x):
    return Named(x.names, jnp.sin(x.data) * 2)


def test_mapping(named):
    want = 2 * np.sin(np.arange(6.0).reshape(2, 3))
    out = xlab.vmap(twice, in_axes=Along("a", 0), out_axes=Along("z", 1), axis_size=2)(named)
    assert out.names == ["b", "z"]
    np.testing.assert_allclose(out.data, want.T, rtol=1e-6)
    out = xlab.vmap(twice, in_axes=(Along("b", 1),), out_axes=Along("z", 0), axis_size=3)(named)
    assert out.names == ["z", "a"]
    np.testing.assert_allclose(out.data, want.T, rtol=1e-6)


def test_beside_arrays(named):
    out = xlab.vmap(
        lambda x, y: Named(x.names, x.data * y), in_axes=(Along("b", 1), 0), out_axes=Along("z", 0)
    )(named, jnp.arange(3.0))
    np.testing.assert_allclose(out.data, (np.arange(6.0).reshape(2, 3) * np.arange(3.0)).T)
    plain = xlab.vmap(lambda x: x.data + numbers[-1], in_axes=(Along("b", 1),), axis_size=3)(named)
    np.testing.assert_allclose(plain, [[0, 3], [2, 5], [4, 7]])


def test_what_is_missing(named):
    with pytest.raises(ValueError, match="axis_size"):
        xlab.vmap(twice, in_axes=Along("a", 0), out_axes=Along("z", 1))(named)
    with pytest.raises(ValueError, match="vmappable already"):
        batching.register_vmappable(Named, Along, int, to_elt, from_elt, None)
    with pytest.raises(KeyError, match="not vmappable"):
        batching.unregister_vmappable(Along)
