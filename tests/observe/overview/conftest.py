"""Arrays over the eight devices of these tests."""

from __future__ import annotations

import pytest

import xlab
from xlab import P
from xlab.sharding import AxisType, NamedSharding, make_mesh


@pytest.fixture(scope="module")
def put():
    mesh = make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    return lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))


@pytest.fixture(scope="module")
def rows():
    """Puts arrays over eight devices in a row, split along one dimension."""
    mesh = make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    return lambda x, *spec: xlab.device_put(x, NamedSharding(mesh, P(*spec)))
