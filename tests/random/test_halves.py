"""`threefry_partitionable=False`: the numbers of programs whose counters went in halves, as the reference draws them."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import random

KEY = np.uint32([1, 2])
DRAWN = {
    "32": (lambda k: random.bits(k, (5,)), [2052595727, 3504730591, 2527474599, 1880214352, 1914734168]),
    "even": (lambda k: random.bits(k, (4,)), [4128513521, 3192206206, 2345921600, 3057534555]),
    "16": (lambda k: random.bits(k, (2, 2), "uint16"), [[54996, 9597], [18632, 20098]]),
    "8": (lambda k: random.bits(k, (3,), "uint8"), [51, 223, 126]),
    "split": (random.split, [[4128513521, 3192206206], [2345921600, 3057534555]]),
    "categorical": (lambda k: random.categorical(k, jnp.log(jnp.float32([0.2, 0.3, 0.5]))), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_counted_in_halves(name):
    draw, expected = DRAWN[name]
    other = np.asarray(draw(KEY))
    with xlab.threefry_partitionable(False):
        assert np.asarray(draw(KEY)).tolist() == expected
        both = xlab.jit(xlab.vmap(draw))(np.stack([KEY + 1, KEY]))
        assert both[1].tolist() == expected and both[0].tolist() != expected
    assert np.array_equal(draw(KEY), other) and not np.array_equal(other, expected)


def test_words_of_64_bits():
    with xlab.enable_x64():
        with xlab.threefry_partitionable(False):
            drawn = random.bits(KEY, (2,), "uint64").tolist()
            # The first half of the words are the high ones.
            words = random.bits(KEY, (4,), "uint32").tolist()
        assert drawn == [words[i] << 32 | words[i + 2] for i in range(2)]
