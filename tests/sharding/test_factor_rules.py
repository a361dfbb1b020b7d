"""What the reference has no answer for: plain tuples as compound factors, messages, and a mapping in a rule that a program is compiled with."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.parallel.device_cases import split
from xlab.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)


def test_tuples_become_compound_factors():
    (first, second) = ArrayMapping(("i", "j"), "k")
    assert type(first) is CompoundFactor and first == ("i", "j") and second == "k"
    assert (
        ArrayMapping(("i", "j")) == ArrayMapping(CompoundFactor("i", "j")) != ArrayMapping("i", "j")
    )
    assert len({ArrayMapping("i"), ArrayMapping("i"), ArrayMapping("j")}) == 2


@pytest.mark.parametrize(
    ("dims", "error", "text"),
    [
        (("",), ValueError, "start with a letter, but got ''"),
        ((3,), TypeError, "got 3 of type int"),
        ((("i",),), ValueError, "at least two factors"),
        ((("i", 3),), TypeError, "a factor is a string, got 3"),
        ((("i", BATCHING),), ValueError, "in a compound factor"),
        (("i", BATCHING), ValueError, "only be used at the beginning"),
        ((BATCHING + "x",), ValueError, "followed by a number"),
    ],
)
def test_dimensions_that_are_none_say_why(dims, error, text):
    with pytest.raises(error, match=text):
        ArrayMapping(*dims)


@pytest.mark.parametrize(
    ("mapping", "sizes", "text"),
    [
        (ArrayMapping(("i", "j"), "k"), {"i": 2, "j": 4}, "([ij, k])->([ij, k]) {i=2, j=4, k=16}"),
        (ArrayMapping(BATCHING, "k"), {}, "([i, j])->([i, j]) {i=8, j=16}"),
    ],
)
def test_a_program_has_the_rule_that_mappings_say(mapping, sizes, text):
    @custom_partitioning
    def double(x):
        return 2 * x

    double.def_partition(
        lambda mesh, args, result: (mesh, lambda x: 2 * x, result.sharding, (args[0].sharding,)),
        sharding_rule=SdyShardingRule((mapping,), (mapping,), **sizes),
    )
    run, x = xlab.jit(lambda x: double(x)), split(xlab, "x", "y")
    assert text in run.lower(x).as_text()
    np.testing.assert_array_equal(run(x), 2 * np.asarray(x))
