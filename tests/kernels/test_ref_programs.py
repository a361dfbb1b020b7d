"""K11, K81, K86: random accesses of references and views inside kernels. Compiled = value interpreter = NumPy."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings

import xlab
import xlab.numpy as jnp
from tests.lax.test_ref_views import programs, run_numpy
from xlab.kernels import ANY, kernel_call, program_id

EXAMPLES = int(os.environ.get("XLAB_REF_PROGRAMS", "8"))


def accesses(ref, seed, steps, arrays):
    """Runs the accesses of a program; `arrays` gives integer arrays, which a kernel cannot capture."""

    def known(index):
        return tuple(next(arrays) if isinstance(i, xlab.Array) and i.ndim else i for i in index)

    outs = []
    for view, ours, _, what in steps:
        v = ref
        for kind, given_, _ in view:
            v = v.at[known(given_)] if kind == "at" else getattr(v, kind)(*given_)
        v = v.at[known(ours)]
        value = jnp.cos(jnp.arange(math.prod(v.shape), dtype=v.dtype).reshape(v.shape) + seed)
        if what == "get":
            outs.append(v[...])
        elif what == "set":
            v[...] = value
        elif what == "swap":
            outs.append(v.swap(value))
        else:
            v.addupdate(value)
    return outs


def integer_arrays(steps):
    for view, ours, *_ in steps:
        for index in (*(g for kind, g, _ in view if kind == "at"), ours):
            yield from (i for i in index if isinstance(i, xlab.Array) and i.ndim)


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_compiled_and_value_are_numpy(program):
    shape, steps = program
    x = np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)
    outs, last = run_numpy(x, 0.5, steps)
    arrays = list(integer_arrays(steps))

    def kernel(x_ref, *refs):
        indices, results, scratch = refs[: len(arrays)], refs[len(arrays) : -1], refs[-1]
        scratch[...] = x_ref[...]
        got = accesses(scratch, 0.5, steps, (r[...] for r in indices))
        for ref, value in zip(results, (*got, scratch[...]), strict=True):
            ref[...] = value

    call = {
        "out_shape": [xlab.ShapeDtypeStruct(o.shape, x.dtype) for o in (*outs, last)],
        "scratch_shapes": [ANY(shape, "float32")],
    }
    for interpret in (True, "value"):
        got = kernel_call(kernel, interpret=interpret, **call)(x, *arrays)
        for a, b in zip(got, (*outs, last), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("interpret", [True, "value"])
def test_views_over_a_grid(interpret):
    def kernel(x, o, s):
        o.T.at[1][...] = x.reshape(2, 2)[0]
        o.T.at[0].addupdate(x.bitcast(jnp.int32).bitcast(jnp.float32)[2:])
        s.reshape(2, 2).T[1] = x[:2]
        o.reshape(4)[xlab.ds(program_id(0), 1)] = s[3:]

    shape = xlab.ShapeDtypeStruct((2, 2), "float32")
    call = kernel_call(
        kernel, shape, grid=(2,), scratch_shapes=[ANY((4,), "float32")], interpret=interpret
    )
    np.testing.assert_array_equal(call(jnp.arange(4.0)), [[3, 1], [np.nan, 1]])


@pytest.mark.parametrize("interpret", [True, "value"])
def test_references_of_the_caller(interpret):
    """References may be captured, or passed as operands, eagerly as well."""
    kept = xlab.new_ref(jnp.arange(4.0))
    shape = xlab.ShapeDtypeStruct((4,), "float32")

    def captures(x, o):
        o[...] = x[...] + kept[...]
        kept.T[0] += 1

    def writes(x, o):
        o[...] = x[...] * 2
        x.reshape(2, 2)[1, 1] = 7.0

    for wrap in (lambda f: f, xlab.jit):
        kept[...] = jnp.arange(4.0)
        call = wrap(kernel_call(captures, shape, interpret=interpret))
        assert call(jnp.ones(4)).tolist() == [1, 2, 3, 4] and call(jnp.ones(4))[0] == 2
        assert wrap(kernel_call(writes, shape, interpret=interpret))(kept).tolist() == [4, 2, 4, 6]
        assert kept[...].tolist() == [2, 1, 2, 7]
