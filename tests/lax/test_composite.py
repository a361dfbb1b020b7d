"""Composite operations: what is the same call."""

import numpy as np

import xlab
from xlab import lax


def test_a_table_that_holds_a_nan_is_the_same_table_the_next_time():
    def body(x, table):
        return x + table[1]

    def fun(x):
        named = lax.composite(body, "my.lookup")
        return (
            named(x, table=np.array([np.nan, 1.0], np.float32)),
            named(x, table=np.array([np.nan, 1.0], np.float32)),
            named(x, table=np.array([np.nan, 2.0], np.float32)),
        )

    first, again, other = (
        eqn.params["attributes"]
        for eqn in xlab.make_jaxpr(fun)(1.0).eqns
        if eqn.primitive.name == "composite"
    )
    assert first == again and hash(first) == hash(again)
    assert first != other
