"""What happens at one step of a grid, in the order of the specification (K49), compiled and by the value interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.kernels.mpmd_examples import S, X
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    BoundedSlice,
    Element,
    Indirect,
    MemorySpace,
    PrefetchGridSpec,
    Squeezed,
    kernel_call,
    num_programs,
    program_id,
    when,
)

I32 = "int32"
WRITES = pytest.mark.filterwarnings("ignore:.*writes to its input")


def row(i):
    return (i,)


def copy(x, o):
    o[...] = x[...]


def test_k49_1_program_ids_come_from_the_loop_indices_without_mapped_axes(both):
    def kernel(x, o):
        o[0, 0] = x[0] + 100 * program_id(0) + 10 * program_id(1) + num_programs(1)

    f = kernel_call(kernel, S((2, 3), I32), grid=(2, 3), in_specs=[BlockSpec((1,), lambda i, j: (0,))],
                    out_specs=BlockSpec((1, 1), lambda i, j: (i, j)))  # fmt: skip
    want = 100 * np.arange(2)[:, None] + 10 * np.arange(3) + 3
    mapped = xlab.vmap(f)(np.int32([[0], [1000]]))
    np.testing.assert_array_equal(mapped, [want, want + 1000])


def test_k49_2_index_maps_see_loop_indices_then_prefetched_references(both):
    def index_map(i, j, p, q):
        return (p[i] + q[j],)

    spec = PrefetchGridSpec(2, grid=(2, 2), in_specs=[BlockSpec((2,), index_map)],
                            out_specs=BlockSpec((2,), lambda i, j, p, q: (2 * i + j,)))  # fmt: skip
    f = kernel_call(lambda p, q, x, o: copy(x, o), S((8,), "float32"), grid_spec=spec)
    np.testing.assert_array_equal(
        f(np.int32([2, 0]), np.int32([0, 1]), X), [4, 5, 6, 7, 0, 1, 2, 3]
    )


KINDS = {
    "Blocked": (2, row, lambda x, k: x[...], [[0, 1], [2, 3]]),
    "Squeezed": (Squeezed(), row, lambda x, k: jnp.full(2, x[...]), [[0, 0], [1, 1]]),
    "Element": (Element(2), lambda i: (i + 1,), lambda x, k: x[...], [[1, 2], [2, 3]]),
    "BoundedSlice": (BoundedSlice(2), lambda i: (xlab.ds(3 * i, 2),), lambda x, k: x[...], [[0, 1], [3, 4]]),
    "Indirect": (Indirect(2), lambda i: (jnp.arange(2) * 2 + i,), lambda x, k: x[...], [[0, 2], [1, 3]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_k49_3_4_starts_and_blocks_by_kind(kind, both):
    dim, index_map, read, want = KINDS[kind]

    def kernel(x, o):
        o[0] = read(x, program_id(0))

    out = BlockSpec((1, 2), lambda i: (i, 0))
    f = kernel_call(kernel, S((2, 2), "float32"), grid=2, in_specs=[BlockSpec((dim,), index_map)], out_specs=out)  # fmt: skip
    np.testing.assert_array_equal(f(X), want)


def test_k49_5_the_kernel_gets_prefetch_inputs_outputs_scratch(both):
    seen = []

    def kernel(p, x, y, o, u, s):
        seen.append([(r.shape, str(r.dtype)) for r in (p, x, y, o, u, s)])
        s[0] = 1
        o[...] = x[...] + p[0] + s[0]
        u[...] = y[...]

    spec = PrefetchGridSpec(1, grid=2, in_specs=[BlockSpec((4,), lambda i, p: (i,)), BlockSpec((2,), lambda i, p: (i,))],
                            out_specs=(BlockSpec((4,), lambda i, p: (i,)), BlockSpec((2,), lambda i, p: (i,))),
                            scratch_shapes=[MemorySpace.LOCAL((1,), I32)])  # fmt: skip
    out = (S((8,), "float32"), S((4,), I32))
    first, second = kernel_call(kernel, out, grid_spec=spec)(
        np.int32([5]), X, np.arange(4, dtype=I32)
    )
    assert seen[0] == [((1,), I32), ((4,), "float32"), ((2,), I32), ((4,), "float32"), ((2,), I32), ((1,), I32)]  # fmt: skip
    np.testing.assert_array_equal(first, X + 6)
    np.testing.assert_array_equal(second, np.arange(4))


@WRITES
def test_k49_6_outputs_are_written_back_after_inputs(both):
    def kernel(x, o):
        o[...] = x[...] + 10
        x[...] = jnp.full(4, 5.0)

    spec = BlockSpec((4,), lambda i: (0,))
    options = {"grid": 2, "in_specs": [spec], "out_specs": spec, "input_output_aliases": {0: 0}}
    f = kernel_call(kernel, S((4,), "float32"), alias_mode="shared", **options)
    # The output's block replaces what the kernel left in the input's: the second step begins with it.
    np.testing.assert_array_equal(f(X[:4]), X[:4] + 20)
    apart = kernel_call(kernel, S((4,), "float32"), alias_mode="copy", **options)
    np.testing.assert_array_equal(apart(X[:4]), [15] * 4)


@WRITES
def test_k49_6_7_blocks_and_scratch_are_carried(both):
    def kernel(x, o, s):
        when(program_id(0) == 0)(lambda: s.set(jnp.zeros(1)))
        s[0] += x[0]
        x[0] = x[0] + 1
        o[0] = s[0]

    f = kernel_call(kernel, S((3,), "float32"), grid=3, in_specs=[BlockSpec((1,), lambda i: (0,))],
                    out_specs=BlockSpec((1,), row), scratch_shapes=[MemorySpace.LOCAL((1,), "float32")])  # fmt: skip
    x = np.float32([1])
    np.testing.assert_array_equal(f(x), [1, 3, 6])
    assert x[0] == 1


def test_k49_8_the_last_axis_is_advanced_first(both):
    def kernel(o, s):
        position = 100 * program_id(0) + 10 * program_id(1) + program_id(2)
        when(position == 0)(lambda: s.set(jnp.zeros(1, I32)))
        o[s[0]] = position
        s[0] += 1

    f = kernel_call(kernel, S((12,), I32), grid=(2, 2, 3), scratch_shapes=[MemorySpace.LOCAL((1,), I32)])  # fmt: skip
    assert f().tolist() == [0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112]


def test_k49_the_number_of_steps_is_an_int32(both):
    with pytest.raises(ValueError, match=r"2147483648"):
        kernel_call(lambda o: None, S((1,), I32), grid=(2**16, 2**15))()
