"""K20: the type check of kernel jaxprs. Each violation is reported with its equation and its line."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.check import check_jaxpr
from xlab.core.jaxpr import ClosedJaxpr
from xlab.errors import JaxprTypeError
from xlab.kernels import BlockSpec, check_kernel_jaxpr, kernel_call, program_id

REFS = (xlab.new_ref(jnp.ones(4)), xlab.new_ref(jnp.zeros(4)))


def refused(f, *args, error=ValueError, **more):
    with pytest.raises(error) as e:
        check_kernel_jaxpr(xlab.make_jaxpr(f)(*args), **more)
    return str(e.value)


def test_a_kernel_passes():
    def kernel(x, o):
        scratch = xlab.new_ref(jnp.zeros(()))
        scratch[...] += x[0]
        xlab.debug.print("{}", scratch[...])
        o.T.reshape(2, 2)[0] = lax.cond(x[1] > 0, lambda: x[:2], lambda: o[2:])

    check_kernel_jaxpr(xlab.make_jaxpr(kernel)(*REFS))


def test_inputs_are_references():
    said = refused(lambda x, o: o.set(jnp.sin(x) + 1), jnp.ones(4), REFS[1], error=TypeError)
    assert "Ref inputs, but input 0 (x) is float32[4], used by equation 0, sin at" in said
    assert "test_check.py" in said


def test_nothing_is_returned():
    said = refused(lambda x, o: (x[...] * 2, 3), *REFS)
    assert "should return None, but result 0 is float32[4], made by equation 1, mul at" in said
    assert "result 1 is ~int32[], the number 3" in said and "test_check.py" in said


def test_every_violation_is_reported():
    said = refused(lambda x, o: (x, jnp.cos(x)), jnp.ones(4), REFS[1], error=TypeError)
    assert said.count("should return None") == 2 and "Ref inputs" in said


def test_constants():
    other = REFS[1]
    said = refused(lambda x: x.set(other[...]), REFS[0])
    assert "equation 0, get at" in said and "a constant of the kernel, not an input" in said
    said = refused(lambda x: x.set(np.arange(4, dtype=np.float32)), REFS[0])
    assert "a constant of type float32[4] is captured" in said


def test_effects_inside_are_found_where_they_come_from():
    def kernel(x):
        def body(i, c):
            xlab.debug.print("{}", i)
            return c

        lax.fori_loop(0, 3, body, 0)

    said = refused(kernel, REFS[0], allowed=())
    assert "debug_print at" in said and "in jaxpr of equation 0, scan at" in said
    assert "effect Debug, which kernels cannot have" in said


def test_malformed_programs():
    closed = xlab.make_jaxpr(lambda x, o: o.set(x[...]))(*REFS)
    jaxpr = closed.jaxpr.replace(eqns=closed.jaxpr.eqns[1:])
    with pytest.raises(JaxprTypeError, match="no earlier equation defines"):
        check_kernel_jaxpr(jaxpr)


class TestCalls:
    def call(self):
        def kernel(x, o):
            o[...] = x[...] * program_id(0)

        spec = BlockSpec((2,), lambda i: i)
        shape = xlab.ShapeDtypeStruct((4,), "float32")
        return kernel_call(
            kernel, shape, grid=(2,), in_specs=[spec], out_specs=spec, interpret=True
        )

    def test_checks_of_programs_look_into_kernels(self):
        with xlab.enable_checks():
            assert xlab.jit(self.call())(jnp.ones(4)).tolist() == [0, 0, 1, 1]

    def test_a_kernel_that_is_none(self):
        closed = xlab.make_jaxpr(self.call())(jnp.ones(4))
        check_jaxpr(closed)
        (eqn,) = closed.jaxpr.eqns
        returns = xlab.make_jaxpr(lambda x, o: x[...])(*REFS)
        lacks = xlab.make_jaxpr(lambda x: x.set(x[...] * 2))(REFS[0])
        for jaxpr, error, words in (
            (returns, ValueError, "should return None"),
            (lacks, JaxprTypeError, "its kernel takes 2 references, but its jaxpr takes 1"),
        ):
            broken = eqn.replace(params={**eqn.params, "jaxpr": jaxpr})
            with pytest.raises(error, match=words):
                check_jaxpr(ClosedJaxpr(closed.jaxpr.replace(eqns=[broken]), closed.consts))
