"""What people who begin with kernels get wrong, and what they are told."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import (
    Blocked,
    BlockSpec,
    Buffered,
    CoreMesh,
    Element,
    GridSpec,
    InterpretParams,
    MemorySpace,
    PrefetchGridSpec,
    SemaphoreType,
    interpret_mode,
    kernel,
    kernel_call,
    mpmd_map,
    program_id,
    semaphore_signal,
)
from xlab.kernels.machine import KernelWarning, Machine

X = jnp.arange(8.0)
OUT = xlab.ShapeDtypeStruct((8,), "float32")
BLOCK = BlockSpec((4,), lambda i: (i,))


def run(kernel, *args, **options):
    return kernel_call(kernel, OUT, interpret=True, **options)(*args)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def test_k1_a_reference_that_is_not_read_names_the_line():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref + 1

    with pytest.raises(TypeError, match=r"add, at .*test_mistakes.py:\d+ \(.*kernel\).*ref\[...\]"):
        run(kernel, X)


def test_k18_a_python_branch_on_the_position_is_told_of_when():
    def kernel(x_ref, o_ref):
        if program_id(0) == 0:
            o_ref[...] = x_ref[...]

    with pytest.raises(
        xlab.errors.TracerBoolConversionError, match=r"@xlab\.kernels\.when\(pred\)"
    ):
        run(kernel, X, grid=2, in_specs=[BLOCK], out_specs=BLOCK)
    with pytest.raises(xlab.errors.TracerBoolConversionError) as outside:
        xlab.jit(lambda x: 1 if x else 2)(True)
    assert "when" not in str(outside.value).split("Write the branch", 1)[1]


@pytest.mark.parametrize(
    ("shape", "index_map"), [(lambda i: (i,), (4,)), (4, lambda i: (i,)), ((4,), (0,))]
)
def test_k27_block_shape_and_index_map_are_not_mixed_up(shape, index_map):
    with pytest.raises(TypeError, match="takes a block shape, an entry per dimension, and then an"):
        BlockSpec(shape, index_map)


def test_k28_an_index_map_of_another_grid():
    two = BlockSpec((4,), lambda i, j: (i,))
    message = r"the index map for args\[0\], .*test_mistakes.py:\d+, is called with an index for each of the grid's 1 axes"
    with pytest.raises(TypeError, match=message):
        run(copy, X, grid=2, in_specs=[two], out_specs=BLOCK)
    with pytest.raises(TypeError, match=r"no index, as the grid is \(\), .*\(i\)"):
        run(copy, X, in_specs=[BLOCK], out_specs=BLOCK)
    spec = PrefetchGridSpec(num_scalar_prefetch=1, grid=2, in_specs=[BLOCK], out_specs=BLOCK)
    with pytest.raises(TypeError, match=r"1 axes and 1 prefetched arguments, .*\(i\)"):
        run(copy, X.astype("int32"), X, grid_spec=spec)


def test_k42_a_kernel_of_other_references():
    def forgets_scratch(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    message = r"forgets_scratch .* is called with 1 inputs, 1 outputs and 1 references to scratch, .*\(x_ref, o_ref\)"
    with pytest.raises(TypeError, match=message):
        run(forgets_scratch, X, scratch_shapes=[OUT])
    with pytest.raises(TypeError, match="unexpected keyword argument 'acc_ref'"):
        run(forgets_scratch, X, scratch_shapes={"acc_ref": OUT})
    with pytest.raises(TypeError, match="is called with 0 inputs, 1 outputs and 0 references"):
        mpmd_map([(CoreMesh("core", 1), forgets_scratch)], OUT, interpret=True)()


@pytest.mark.parametrize("grid", [np.int64(2), jnp.int32(2), [2], (np.int32(2),)])
def test_k30_a_size_of_numpy_is_a_grid(grid):
    out = kernel_call(copy, OUT, grid=grid, in_specs=[BLOCK], out_specs=BLOCK, interpret=True)(X)
    np.testing.assert_array_equal(out, X)


def test_k2_a_reference_that_left_its_kernel():
    kept = []

    def kernel(x_ref, o_ref):
        kept.append(o_ref)
        o_ref[...] = x_ref[...]

    run(kernel, X)
    message = "as a reference, after that tracing had ended"
    with pytest.raises(xlab.errors.UnexpectedTracerError, match=message):
        kept[0][...]
    with pytest.raises(xlab.errors.UnexpectedTracerError, match=message):
        kept[0][...] = X


def test_k10_a_slice_with_a_traced_start_is_told_of_ds():
    def kernel(x_ref, o_ref):
        i = 4 * program_id(0)
        o_ref[i : i + 4] = x_ref[i : i + 4]

    with pytest.raises(TypeError, match=re.escape("xlab.ds(start, size)")):
        run(kernel, X, grid=2)


def test_k46_interpret_mode_reaches_functions_that_are_compiled_already():
    f = xlab.jit(lambda x: kernel_call(copy, OUT)(x))
    with pytest.raises(ValueError, match="only interpret mode is supported on CPU"):
        f(X)
    with interpret_mode():
        np.testing.assert_array_equal(f(X), X)
        with interpret_mode(False), pytest.raises(ValueError, match="only interpret mode"):
            f(X)
        np.testing.assert_array_equal(f(X), X)
    with pytest.raises(ValueError, match="only interpret mode is supported on CPU"):
        f(X)


def test_k5_a_number_is_not_spread_over_a_block():
    def kernel(x_ref, o_ref):
        o_ref[...] = 0.0

    with pytest.raises(ValueError, match=r"Value shape: \(\).*xlab\.numpy\.broadcast_to"):
        run(kernel, X)


def test_k43_a_loop_does_not_carry_a_reference():
    def kernel(x_ref, o_ref):
        lax.fori_loop(0, 4, lambda i, ref: ref, x_ref)

    with pytest.raises(ValueError, match="mutable array references cannot be returned"):
        run(kernel, X)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda: kernel_call(3, OUT), TypeError, "takes a kernel first.*got 3 of type int"),
        (lambda: kernel(3, OUT), TypeError, "kernel takes a function.*got 3"),
        (lambda: mpmd_map(3), TypeError, r"sequence of pairs \(mesh, function\), got 3"),
        (lambda: kernel_call(copy, OUT, name=3), TypeError, "name of a kernel is a string, got 3"),
        (
            lambda: kernel_call(copy, OUT, grid_spec={"grid": 2}),
            TypeError,
            "grid_spec is a GridSpec",
        ),
        (
            lambda: kernel_call(copy, OUT, scratch_shapes=MemorySpace.LOCAL((2,), "int32")),
            ValueError,
            "scratch is a sequence.*in a list",
        ),
        (lambda: kernel_call(copy, OUT, metadata="a"), ValueError, "metadata maps strings.*'a'"),
        (lambda: PrefetchGridSpec(-1, 2), ValueError, "num_scalar_prefetch.*-1"),
        (lambda: PrefetchGridSpec(1.0, 2), ValueError, "num_scalar_prefetch.*float"),
        (lambda: GridSpec((("a", 2), ("a", 3))), ValueError, "several axes of the name 'a'"),
        (lambda: Element(4, 3), ValueError, "padding of Element is a pair.*got 3"),
        (lambda: Element(4, (1,)), ValueError, r"padding of Element is a pair.*got \(1,\)"),
        (lambda: Element(4, (-1, 0)), ValueError, "padding of Element"),
        (lambda: Machine(3), TypeError, "a machine runs a call.*got 3"),
        (lambda: Machine(copy, X, params=3), TypeError, "params of a Machine are InterpretParams"),
    ],
)
def test_arguments_of_another_kind_are_named(wrong, error, says):
    with pytest.raises(error, match=says):
        wrong()


@pytest.mark.parametrize(
    "option",
    [
        {"schedule": 3},
        {"logging_mode": 3},
        {"num_cores_or_threads": "a"},
        {"quantum": 1.5},
        {"random_seed": "a"},
        {"vector_clock_size": 0},
        {"grid_point_recorder": 3},
    ],
)
def test_k80_options_of_another_kind_are_named(option):
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=rf"InterpretParams: {name}.*{re.escape(repr(value))}"):
        InterpretParams(**option)


def test_k81_going_back_a_negative_number_of_turns():
    with pytest.raises(ValueError, match=r"goto\(t\)"):
        Machine(kernel_call(copy, OUT), X).back(-1)


@pytest.mark.parametrize("eager", [True, False])
def test_k97_a_warning_stands_at_the_line_that_runs_the_kernel(eager):
    def left(o_ref, sem):
        semaphore_signal(sem)
        o_ref[...] = jnp.zeros_like(o_ref)

    call = kernel_call(left, OUT, scratch_shapes=[SemaphoreType.REGULAR], interpret="value")
    f = call if eager else Machine(call).run
    with pytest.warns(KernelWarning, match="ends with the count 1") as found:
        f()
    assert [w.filename for w in found] == [__file__]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Buffered(0), "buffer_count is an integer of at least 1, got 0"),
        (lambda: Buffered(2, revisit="any"), "revisit is a RevisitMode, got 'any'"),
        (lambda: PrefetchGridSpec(-1), "num_scalar_prefetch .* got -1"),
        (
            lambda: run(copy, X, grid=2, in_specs=[BlockSpec((Blocked(2.0),))], out_specs=BLOCK),
            r"args\[0\] has the entry Blocked\(block_size=2.0\): sizes are integers",
        ),
        (
            lambda: run(copy, X, scratch_shapes=MemorySpace.LOCAL((2,), "int32")),
            r"One type stands in a list: \[MemoryRef\(int32\[2\], local\)\]",
        ),
        (
            lambda: Machine(kernel_call(copy, OUT), X, schedule=[0, 3]),
            "turns of core 3, but the cores are numbered 0 to 0",
        ),
    ],
)
def test_k27_k30_k42_k89_what_is_no_option_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
