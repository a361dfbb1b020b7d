"""Pipelines inside of kernels: blocks brought in and back, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.kernels import (
    ANY,
    BlockSpec,
    BoundedSlice,
    Element,
    InterpretParams,
    emit_pipeline,
    interpret_mode,
    kernel_call,
    num_programs,
    program_id,
    when,
)

BOTH = pytest.mark.parametrize("mode", ["compiled", InterpretParams()], ids=["compiled", "value"])
WHOLE = BlockSpec(memory_space=ANY)
RNG = np.random.default_rng(3)


def run(kernel, shape, *args, mode="compiled", dtype="float32", grid=(), **options):
    specs = {"in_specs": [WHOLE] * len(args), "out_specs": WHOLE}
    out = xlab.ShapeDtypeStruct(shape, dtype)
    with interpret_mode(mode):
        return np.asarray(kernel_call(kernel, out, grid=grid, **specs, **options)(*args))


@BOTH
def test_a_tiled_matmul_with_a_pipeline_over_the_inner_axis(mode):
    """The outer grid chooses the tile; index maps of the pipeline use its position."""
    x, y = RNG.normal(size=(8, 12)).astype(np.float32), RNG.normal(size=(12, 8)).astype(np.float32)

    def kernel(x_ref, y_ref, o_ref):
        i, j = program_id(0), program_id(1)

        def inner(x, y, o):
            @when(program_id(0) == 0)
            def _():
                o[...] = jnp.zeros((4, 4))

            o[...] += x[...] @ y[...]

        emit_pipeline(
            inner,
            grid=(num_programs(0) + 1,),
            in_specs=[BlockSpec((4, 4), lambda k: (i, k)), BlockSpec((4, 4), lambda k: (k, j))],
            out_specs=[BlockSpec((4, 4), lambda k: (i, j))],
        )(x_ref, y_ref, o_ref)

    got = run(kernel, (8, 8), x, y, grid=(2, 2), mode=mode)
    np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-5)


@BOTH
def test_blocks_that_reach_outside_read_uninitialized_and_write_what_is_inside(mode):
    x = np.arange(10, dtype=np.float32)

    def kernel(x_ref, o_ref):
        def inner(x, o):
            o[...] = jnp.where(jnp.isnan(x[...]), -1, x[...] * 2)

        block = BlockSpec((4,), lambda i: (i,))
        emit_pipeline(inner, grid=3, in_specs=[block], out_specs=[block])(x_ref, o_ref)

    assert run(kernel, (10,), x, mode=mode).tolist() == (x * 2).tolist()


def test_order_squeezed_dimensions_scratch_and_indices():
    def kernel(x_ref, o_ref):
        def scoped(count):
            count[0] = 0

            def inner(position, x, o, count):
                i, j = position
                o[...] = x[...] * 0 + count[0] * 100 + i * num_programs(1) + j
                count[0] += 1

            row = BlockSpec((None, 2), lambda i, j: (i, j))
            emit_pipeline(
                inner, grid=(2, 3), in_specs=[row], out_specs=[row], explicit_indices=True
            )(x_ref, o_ref, scratches=[count])

        from xlab.kernels import MemorySpace, run_scoped

        run_scoped(scoped, MemorySpace.LOCAL((1,), "int32"))

    got = run(kernel, (2, 6), np.zeros((2, 6), np.int32), dtype="int32")
    assert got[:, ::2].tolist() == [[0, 101, 202], [303, 404, 505]]


def test_overlapping_windows_and_whole_references():
    x = np.arange(6, dtype=np.float32)

    def kernel(x_ref, o_ref):
        def inner(window, whole, o):
            o[...] = window[...].sum()[None] + whole[0]

        emit_pipeline(
            inner,
            grid=(4,),
            in_specs=[BlockSpec((Element(3),), lambda i: (i,)), BlockSpec()],
            out_specs=BlockSpec((1,), lambda i: i),
        )(x_ref, x_ref, o_ref)

    assert run(kernel, (4,), x).tolist() == [3, 6, 9, 12]


def test_a_number_of_steps_that_is_a_value_and_none_at_all():
    def kernel(n_ref, o_ref):
        o_ref[...] = jnp.zeros(4)

        def inner(o):
            o[...] = jnp.full(1, program_id(0) + 1.0)

        emit_pipeline(inner, grid=(n_ref[0],), out_specs=BlockSpec((1,), lambda i: (i,)))(o_ref)

    for n in (0, 2, 4):
        got = run(kernel, (4,), np.array([n], np.int32))
        assert got.tolist() == [k + 1 if k < n else 0 for k in range(4)]


def test_inner_functions_see_the_step_they_are_called_in():
    @xlab.jit
    def where():
        return program_id(0)

    def kernel(o_ref):
        def inner(o):
            o[...] = jnp.full(1, where() + 10 * xlab.jit(where)(), jnp.float32)

        emit_pipeline(inner, grid=3, out_specs=BlockSpec((1,), lambda i: (i,)))(o_ref)

    assert run(kernel, (3,)).tolist() == [0, 11, 22]


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([], "0 in_specs and 1 out_specs, and was called with 2 references"),
        ([BlockSpec((2, 2), lambda i: (i, 0))], r"block shape \(2, 2\) for reference 0 of a pipeline has 2 entries"),
        ([BlockSpec((2,), lambda i: (i, 0))], "gives 2 indices for a block of 1 dimensions"),
        ([BlockSpec((BoundedSlice(2),), lambda i: (i,))], "has the entry BoundedSlice"),
        ([BlockSpec((Element(2, (1, 1)),), lambda i: (i,))], "Element without padding"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(specs, words):
    def kernel(x_ref, o_ref):
        block = BlockSpec((2,), lambda i: (i,))
        emit_pipeline(lambda *refs: None, grid=2, in_specs=specs, out_specs=[block])(x_ref, o_ref)

    with pytest.raises(ValueError, match=words):
        run(kernel, (4,), np.ones(4, np.float32))
