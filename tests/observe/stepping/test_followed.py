"""Functions that Python branches in on values, stepped: the program is the one of this run."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import P, lax, observe
from xlab.errors import ConcretizationTypeError


def branching(x):
    y = jnp.sin(x)
    for _ in range(int(x.sum())):
        y = y * 2
    return y + 1 if y.max() > 0 else y


def test_a_plain_function_takes_the_branch_of_its_values():
    for start in (1.0, -1.0):
        x = np.full(3, start, np.float32)
        s = observe.Stepper(branching, x)
        np.testing.assert_array_equal(s.result(), branching(jnp.asarray(x)))
    names = [e.primitive for e in s.program.equations]
    assert "sin" in names and "mul" not in names
    with pytest.raises(ConcretizationTypeError):
        observe.Stepper(xlab.jit(branching), x)


@pytest.fixture
def ring():
    return xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))


def test_a_body_of_shard_map_is_one_program_with_the_branch_in_it(ring, capsys):
    def body(a):
        print("part", a)
        b = lax.ppermute(a, "i", [(k, (k + 1) % 8) for k in range(8)])
        if float(lax.psum(b, "i").sum()) > 10:
            b = xlab.nn.relu(b) + 1
        return b

    f = xlab.shard_map(body, mesh=ring, in_specs=P("i"), out_specs=P("i"))
    x = jnp.arange(8.0)
    for _ in range(2):
        s = observe.Stepper(f, x)
        assert [e.primitive for e in s.program.equations].count("shard_map") == 1
        np.testing.assert_array_equal(s.result(), f(x))
        assert "coordinates (i,) = (7,)" in capsys.readouterr().out
    s.goto(3)
    assert s.path == ("shard_map over i",)
    np.testing.assert_array_equal(observe.Stepper(f, x / 8).result(), f(x / 8))


def test_values_of_around_are_seen_inside(ring):
    def f(x, scale):
        half = scale / 2

        def body(a):
            return a * 3 if half > 1 and lax.psum(a, "i").max() > 2 else a

        return xlab.shard_map(body, mesh=ring, in_specs=P("i"), out_specs=P("i"))(x) + half

    x = jnp.arange(8.0)
    for scale in (4.0, 1.0):
        given = np.float32(scale)
        np.testing.assert_array_equal(observe.Stepper(f, x, given).result(), f(x, given))


def test_a_pmap_under_disable_jit():
    f = xlab.pmap(lambda a: a * 2 if lax.psum(a, "d") > 3 else a, axis_name="d")
    x = np.arange(8, dtype=np.float32)
    with xlab.disable_jit():
        s = observe.Stepper(f, x)
        np.testing.assert_array_equal(s.result(), f(x))
    assert [step for step in s.trace().steps if " mul " in step.text]


def test_devices_that_disagree_are_told(ring):
    f = xlab.shard_map(
        lambda a: a if a.sum() > 3 else a + 1, mesh=ring, in_specs=P("i"), out_specs=P("i")
    )
    with pytest.raises(ConcretizationTypeError, match="the devices disagree"):
        observe.Stepper(f, jnp.arange(8.0))
