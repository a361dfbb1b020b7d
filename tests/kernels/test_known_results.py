"""The specification's table of kernels with known results (K103), compiled and by the value interpreter; the reference runs them as samples."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.kernels.mpmd_examples import F8, TWO, S, X, first_is_seven
from xlab import kernels, lax
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    Element,
    MemorySpace,
    PrefetchGridSpec,
    SemaphoreType,
    kernel_call,
    mpmd_map,
    num_programs,
    program_id,
    semaphore_read,
    semaphore_signal,
    semaphore_wait,
    when,
)

NAN, LOW, I32 = np.nan, -(2**31), "int32"
TEN = np.arange(10, dtype=np.float32)


def block(*shape):
    """Blocks in a row, one for each step."""
    return BlockSpec(shape, lambda i: (i, *[0] * (len(shape) - 1)))


def call(kernel, out, *args, dtype="float32", **options):
    return kernel_call(kernel, S(out, dtype), **options)(*args)


def add_one(x, o):
    o[...] = x[...] + 1


def copy(x, o):
    o[...] = x[...]


def in_blocks(kernel, x, out=(10,), per_step=4, dtype="float32"):
    return call(kernel, out, x, dtype=dtype, grid=3, in_specs=[block(4)], out_specs=block(per_step))


def count_nan(x, o):
    o[0] = jnp.isnan(x[...]).sum().astype(I32)


def least(x, o):
    o[0] = x[...].min()


def nothing(o):
    pass


def scaled_rows():
    row = BlockSpec((None, 4), lambda i: (i, 0))
    f = lambda x, o: o.set(x[...] * program_id(0).astype("float32"))
    return call(f, (3, 4), np.ones((3, 4), "float32"), grid=3, in_specs=[row], out_specs=row)


def windows(padding):
    spec = BlockSpec((Element(4, padding),), lambda i: (3 * i,))
    return call(copy, (8,), TEN, grid=2, in_specs=[spec], out_specs=block(4))


def counter():
    def kernel(o, s):
        when(program_id(0) == 0)(lambda: s.set(jnp.zeros(1, I32)))
        o[0] = s[0]
        s[0] += 1

    scratch = [MemorySpace.LOCAL((1,), I32)]
    return call(kernel, (4,), dtype=I32, grid=4, out_specs=block(1), scratch_shapes=scratch)


def column_sums():
    def kernel(x, o):
        when(program_id(0) == 0)(lambda: o.set(jnp.zeros(4)))
        o[...] += x[0]

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    whole = BlockSpec((4,), lambda i: 0)
    return call(kernel, (4,), x, grid=3, in_specs=[block(1, 4)], out_specs=whole)


def at_second_step(o):
    when(program_id(0) == 1)(lambda: o.set(jnp.full(1, 5, I32)))


def dynamic(n):
    f = lambda n: call(
        lambda o: o.set(program_id(0), 0), (4,), dtype=I32, grid=(n,), out_specs=block(1)
    )
    return xlab.jit(f)(n)  # fmt: skip


def prefetched():
    order = PrefetchGridSpec(
        1, grid=2, in_specs=[BlockSpec((4,), lambda i, p: (p[i],))], out_specs=BlockSpec((4,), lambda i, p: (i,))
    )  # fmt: skip
    return call(lambda p, x, o: copy(x, o), (8,), np.int32([1, 0]), X, grid_spec=order)


def written_at_three(o):
    o[...] = jnp.zeros(8)
    o.at[2:6].at[1].set(4.0)


def semaphores():
    def kernel(o, sem):
        semaphore_signal(sem, 2)
        semaphore_wait(sem, 1)
        o[0] = semaphore_read(sem)

    return call(kernel, (1,), dtype=I32, scratch_shapes=[SemaphoreType.REGULAR])


def on_cores(kernel, *args, out=F8, **options):
    return mpmd_map([(TWO, kernel)], out, **options)(*args)


def tripled(x, o, *, s):
    s[...] = x[...] * 3
    o[...] = s[...] + 1


def twice_copied(x, a, b):
    a[...] = x[...]
    b[...] = x[...]


def slope():
    sine = kernel_call(lambda x, o: o.set(jnp.sin(x[...])), F8)
    return xlab.jvp(sine, (X,), (np.ones_like(X),))[1]


ROWS = {
    "x + 1": (lambda: call(add_one, (8,), X), X + 1),
    "x + 1 in blocks of 4 of 10": (lambda: in_blocks(add_one, TEN), TEN + 1),
    "NaN in each block of 4 of 10": (lambda: in_blocks(count_nan, TEN, (3,), 1, I32), [0, 0, 2]),
    "the least of each block of ints": (lambda: in_blocks(least, TEN.astype(I32), (3,), 1, I32), [0, 4, LOW]),
    "nothing written, float32": (lambda: call(nothing, (2,)), [NAN] * 2),
    "nothing written, bool": (lambda: call(nothing, (2,), dtype="bool"), [False] * 2),
    "nothing written, int32": (lambda: call(nothing, (2,), dtype=I32), [LOW] * 2),
    "rows times their number": (scaled_rows, np.arange(3.0)[:, None] * np.ones((3, 4))),
    "windows": (lambda: windows((0, 0)), [0, 1, 2, 3, 3, 4, 5, 6]),
    "padded windows": (lambda: windows((1, 1)), [NAN, 0, 1, 2, 2, 3, 4, 5]),
    "a counter in scratch": (counter, [0, 1, 2, 3]),
    "accumulation in one block": (column_sums, [12, 15, 18, 21]),
    "an alias": (lambda: call(lambda x, o: o.set(7.0, 0), (8,), X, input_output_aliases={0: 0}), [7, *X[1:]]),
    "when": (lambda: call(at_second_step, (2,), dtype=I32, grid=2, out_specs=block(1)), [LOW, 5]),
    "a dynamic grid": (lambda: dynamic(2), [0, 1, LOW, LOW]),
    "an empty grid": (lambda: call(copy, (8,), X, grid=(0,)), [NAN] * 8),
    "prefetched order of blocks": (prefetched, [4, 5, 6, 7, 0, 1, 2, 3]),
    "a strided read by ds": (lambda: call(lambda x, o: o.set(x[xlab.ds(0, 4, 2)]), (4,), X), [0, 2, 4, 6]),
    "a strided read": (lambda: call(lambda x, o: o.set(x[0:8:2]), (4,), X), [0, 2, 4, 6]),
    "an index of integers": (lambda: call(lambda i, x, o: o.set(x[i[...]]), (3,), np.int32([1, 5, 2]), X), [1, 5, 2]),
    "a row of a reshaped view": (lambda: call(lambda x, o: o.set(x.reshape(2, 4)[1]), (4,), X), [4, 5, 6, 7]),
    "a write to a view of a view": (lambda: call(written_at_three, (8,)), [0, 0, 0, 4, 0, 0, 0, 0]),
    "vmap": (lambda: xlab.vmap(kernel_call(add_one, F8))(np.stack([X, X * 2])), np.stack([X + 1, X * 2 + 1])),
    "jvp of sin": (slope, np.cos(X)),
    "signal, wait, read": (semaphores, [1]),
    "mpmd_map": (lambda: on_cores(add_one, X), X + 1),
    "mpmd_map with scratch by name": (lambda: on_cores(tripled, X, scratch_shapes={"s": F8}), X * 3 + 1),
    "mpmd_map with two outputs": (lambda: jnp.stack(on_cores(twice_copied, X, out=(F8, F8))), np.stack([X, X])),
    "mpmd_map with an alias": (lambda: on_cores(first_is_seven, X + 1, input_output_aliases={0: 0}), [7, *X[1:] + 1]),
    "the size of an axis of cores": (lambda: on_cores(lambda o: o.set(lax.axis_size("c"), 0), out=S((1,), I32)), [2]),
    "bits of a view": (lambda: call(lambda x, o: o.set(x.bitcast(I32)[...]), (8,), X, dtype=I32), X.view(np.int32)),
    "complex numbers nobody wrote": (lambda: call(nothing, (2,), dtype="complex64"), [complex(NAN, NAN)] * 2),
    "places on cores": (lambda: on_cores(lambda o: o.set(lax.axis_index("c"), program_id(0)), out=S((2,), I32)), [0, 1]),
    "sizes of a grid": (lambda: call(lambda o: o.set(num_programs(0), 0), (3,), dtype=I32, grid=3, out_specs=block(1)), [3] * 3),
}  # fmt: skip


NAMES = (
    "AbstractRef BlockSpec BoundedSlice Buffered CoreMemorySpace CoreMesh CostEstimate DeadlockError Element GridSpec Indirect "
    "InterpretParams Machine MemoryRef MemorySpace NDIndexer PrefetchGridSpec Schedule SemaphoreType Slice TransformedRef async_copy "
    "compare_schedules core_map create_core_mesh debug_check debug_print discharge_state ds empty_ref estimate_cost freeze "
    "interpret_mode kernel kernel_call load loop mpmd_map multiple_of new_ref num_programs program_id ref_addupdate ref_get ref_set "
    "ref_swap register_cost_rule register_lowering_rule run_scoped select_ref semaphore_read semaphore_signal semaphore_wait store swap "
    "sync_copy trace_blocks when with_memory_space_constraint"
)


def test_public_names_are_in_the_room():
    assert [n for n in NAMES.split() if not hasattr(kernels, n)] == []
    assert kernels.new_ref is xlab.new_ref is xlab.ref.new_ref
    assert kernels.ref_get is xlab.ref.get


@pytest.mark.filterwarnings("ignore::xlab.kernels.failures.KernelWarning")
@pytest.mark.parametrize("row", ROWS)
def test_k103_known_results(row, both):
    run, want = ROWS[row]
    got = np.asarray(run())
    assert got.shape == np.shape(want)
    if row == "jvp of sin":
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    else:
        np.testing.assert_array_equal(got, want)
