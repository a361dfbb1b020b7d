"""A draw does not depend on how its result is laid out, nor on how it is called."""

from __future__ import annotations

import numpy as np
import pytest

from xlab import random
from xlab.config import config
from xlab.sharding import Mesh, NamedSharding, PartitionSpec


@pytest.fixture
def sharding():
    from xlab.backend.client import devices

    found = devices()
    if len(found) < 8:
        pytest.skip("needs eight devices")
    return NamedSharding(
        Mesh(np.array(found[:8]).reshape(4, 2), ("x", "y")), PartitionSpec("x", "y")
    )


@pytest.mark.parametrize("name", ["normal", "uniform", "bits"])
def test_sharded_draws_equal_whole_ones(name, sharding):
    key = random.key(3)
    draw = getattr(random, name)
    whole = draw(key, (8, 6))
    spread = draw(key, (8, 6), out_sharding=sharding)
    assert spread.sharding.is_equivalent_to(sharding, 2)
    if name == "bits":
        np.testing.assert_array_equal(np.asarray(whole), np.asarray(spread))
    else:
        np.testing.assert_allclose(np.asarray(whole), np.asarray(spread), rtol=3e-7)


def test_seed_offset_is_added():
    with_offset = random.key_data(random.key(12))
    config.update("random_seed_offset", 5)
    try:
        np.testing.assert_array_equal(
            np.asarray(random.key_data(random.key(7))), np.asarray(with_offset)
        )
    finally:
        config.update("random_seed_offset", 0)
