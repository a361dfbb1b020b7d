"""Blocks of arrays: their kinds, index maps, padding, and where they lie (K26–K29, K32, K35–K37)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.core.avals import ShapedArray
from xlab.core.refs import AbstractRef
from xlab.kernels import (
    ANY,
    BlockSpec,
    BoundedSlice,
    Buffered,
    Element,
    GridSpec,
    Indirect,
    PrefetchGridSpec,
    RevisitMode,
    kernel_call,
    program_id,
    squeezed,
)
from xlab.kernels.blocks import Blocked, block_mapping

LOWEST = np.iinfo(np.int32).min


def out(*shape, dtype="float32"):
    return xlab.ShapeDtypeStruct(shape, dtype)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def call(x, shape, in_spec, out_spec=None, kernel=copy, **options):
    out_spec = out_spec or BlockSpec((4,), lambda i: (i,))
    f = kernel_call(
        kernel,
        out(*shape, dtype=x.dtype),
        in_specs=[in_spec],
        out_specs=out_spec,
        interpret=True,
        **options,
    )
    return np.asarray(f(x))


def mapping(spec, shape, grid=(2,)):
    array = AbstractRef(ShapedArray(shape, np.dtype(np.float32)))
    return block_mapping(spec, array, "args[0]", grid)


# -- kinds ------------------------------------------------------------------------------------------------


def test_k26_blocked_blocks_are_numbered():
    x = jnp.arange(12.0)
    got = call(x, (12,), BlockSpec((4,), lambda i: (2 - i,)), grid=3)
    np.testing.assert_array_equal(got, [8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3])


@pytest.mark.parametrize("none", [None, squeezed])
def test_k26_squeezed_dimensions_are_not_the_kernels(none):
    def kernel(x_ref, o_ref):
        assert x_ref.shape == o_ref.shape == (4,)
        o_ref[...] = x_ref[...] * program_id(0)

    spec = BlockSpec((none, 4), lambda i: (i, 0))
    got = call(jnp.ones((3, 4), np.int32), (3, 4), spec, spec, kernel, grid=3)
    np.testing.assert_array_equal(got, np.repeat([[0], [1], [2]], 4, 1))


def test_k26_element_starts_at_an_element():
    x = jnp.arange(10, dtype=np.int32)
    got = call(x, (8,), BlockSpec((Element(4),), lambda i: (3 * i,)), grid=2)
    np.testing.assert_array_equal(got, [0, 1, 2, 3, 3, 4, 5, 6])


def test_k26_k35_element_pads_in_front():
    x = jnp.arange(10.0)
    got = call(x, (8,), BlockSpec((Element(4, (1, 1)),), lambda i: (3 * i,)), grid=2)
    np.testing.assert_array_equal(got, [np.nan, 0, 1, 2, 2, 3, 4, 5])


def test_k26_bounded_slices_have_a_size_of_their_own():
    x = jnp.arange(8, dtype=np.int32)
    spec = BlockSpec((BoundedSlice(4),), lambda i: (xlab.ds(i * 3, i + 1),))
    np.testing.assert_array_equal(
        call(x, (8,), spec, grid=2), [0, *[LOWEST] * 3, 3, 4, LOWEST, LOWEST]
    )
    got = call(x, (8,), BlockSpec((4,), lambda i: (i,)), spec, grid=2)
    np.testing.assert_array_equal(got, [0, *[LOWEST] * 2, 4, 5, *[LOWEST] * 3])


def test_k26_indirect_gathers_and_scatters():
    even = lambda i: (2 * xlab.lax.iota(np.int32, 4) + i,)
    x = jnp.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(
        call(x, (8,), BlockSpec((Indirect(4),), even), grid=2), [0, 2, 4, 6, 1, 3, 5, 7]
    )
    got = call(x, (8,), BlockSpec((4,), lambda i: (i,)), BlockSpec((Indirect(4),), even), grid=2)
    np.testing.assert_array_equal(got, [0, 4, 1, 5, 2, 6, 3, 7])


def test_k26_kinds_mix():
    x = np.arange(5 * 6 * 7, dtype=np.int32).reshape(5, 6, 7)
    spec = BlockSpec((Element(2), Indirect(3), None), lambda i: (i, 5 - 2 * jnp.arange(3), 6 - i))
    got = call(x, (8, 3), spec, BlockSpec((2, 3), lambda i: (i, 0)), grid=4)
    want = np.concatenate([x[i : i + 2][:, [5, 3, 1], 6 - i] for i in range(4)])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("bad", ["a", 1.5, True, (4,)])
def test_k26_other_entries_are_refused(bad):
    with pytest.raises(
        ValueError,
        match=r"args\[0\].*Blocked, Squeezed, Element, BoundedSlice, Indirect",
    ):
        call(jnp.zeros(4), (4,), BlockSpec((bad,), lambda i: (i,)), grid=1)
    with pytest.raises(ValueError, match="not negative"):
        call(jnp.zeros(4), (4,), BlockSpec((-1,), lambda i: (i,)), grid=1)


# -- specs and index maps -----------------------------------------------------------------------------------


def test_k27_defaults_are_the_whole_array_and_zeros():
    m = mapping(BlockSpec(), (3, 5))
    assert m.block_shape == (Blocked(3), Blocked(5)) and m.has_trivial_window()
    assert m.start_indices([1]) == [0, 0]
    m = mapping(BlockSpec((3, 1)), (3, 5))
    assert not m.has_trivial_window() and m.start_indices([1]) == [0, 0]


@pytest.mark.parametrize("result", [lambda i: i, lambda i: [i], lambda i: (i,)])
def test_k27_results_of_index_maps_are_a_scalar_a_list_or_a_tuple(result):
    got = call(jnp.arange(8.0), (8,), BlockSpec((4,), result), grid=2)
    np.testing.assert_array_equal(got, np.arange(8))


def test_k27_rank():
    with pytest.raises(
        ValueError, match=r"\(4, 4\) for args\[0\] has 2 entries.*float32\[8\].* 1 dim"
    ):
        call(jnp.zeros(8), (4,), BlockSpec((4, 4), lambda i: (i, i)), grid=2)
    with pytest.raises(ValueError, match=r"for args\[0\]\['w'\]\[1\] has 1 entries"):
        spec = {"w": [BlockSpec(), BlockSpec((4,), lambda i: i)]}
        f = kernel_call(lambda *refs: None, out(4), grid=2, in_specs=[spec], interpret=True)
        f({"w": [jnp.zeros(4), jnp.zeros((4, 4))]})
    with pytest.raises(ValueError, match="for outputs has 2 entries"):
        call(jnp.zeros(8), (4,), BlockSpec(), BlockSpec((4, 4), lambda i: (i, i)), grid=2)


@pytest.mark.parametrize(
    ("index_map", "message"),
    [
        (lambda i: (i, i), "returns 2 indices for a block shape of 1"),
        (lambda i: (), "returns 0 indices"),
        (lambda i: 1.5, "integer scalar .int32 or int64., got .*float32"),
        (lambda i: i > 0, "got bool"),
        (lambda i: i.astype("uint32"), "got uint32"),
        (lambda i: jnp.zeros(1, np.int32), r"got int32\[1\]"),
        (lambda i: "x", "got 'x' of type str"),
    ],
)
def test_k28_index_maps_return_one_integer_per_dimension(index_map, message):
    with pytest.raises(ValueError, match=rf"args\[0\].*test_blocks.py:\d+.*{message}"):
        call(jnp.zeros(8), (8,), BlockSpec((4,), index_map), grid=2)


def test_k28_slices_belong_to_bounded_slices():
    with pytest.raises(ValueError, match=r"index 0 .* belongs to a BoundedSlice .* slice, ds"):
        call(jnp.zeros(8), (8,), BlockSpec((BoundedSlice(4),), lambda i: i), grid=2)
    with pytest.raises(ValueError, match="size 5, more than the block's 4"):
        spec = BlockSpec((BoundedSlice(4),), lambda i: xlab.ds(i, 5))
        call(jnp.zeros(8), (8,), spec, grid=2)
    with pytest.raises(ValueError, match=r"int32 array of shape \(4,\), got int32\[3\]"):
        spec = BlockSpec((Indirect(4),), lambda i: (jnp.zeros(3, np.int32),))
        call(jnp.zeros(8), (8,), spec, grid=2)


def test_k28_index_maps_capture_no_arrays():
    order = jnp.array([1, 0])
    spec = BlockSpec((4,), lambda i: order[i])
    with pytest.raises(
        ValueError, match=r"index map for args\[0\].* captures arrays of types int32\[2\].*prefetch"
    ):
        call(jnp.zeros(8), (8,), spec, grid=2)
    one = np.int32(1)  # a number is part of the program
    got = call(jnp.arange(8.0), (8,), BlockSpec((4,), lambda i: one - i), grid=2)
    np.testing.assert_array_equal(got, [4, 5, 6, 7, 0, 1, 2, 3])


def test_k28_index_maps_are_jaxprs_of_int32():
    m = mapping(BlockSpec((4, None), lambda i, j: (j, i + 1)), (8, 8), (2, 3))
    assert [str(a) for a in m.index_map.in_avals] == ["int32[]", "int32[]"]
    assert [str(a) for a in m.index_map.out_avals] == ["int32[]", "int32[]"]
    with xlab.enable_x64(True):
        wide = BlockSpec((4,), lambda i: i.astype("int64"))
        got = call(jnp.arange(8, dtype=np.int32), (8,), wide, grid=2)
    np.testing.assert_array_equal(got, np.arange(8))


def test_k29_hints_of_pipelines_are_kept_and_change_nothing():
    hint = Buffered(3, use_lookahead=True, revisit=RevisitMode.ANY)
    spec = BlockSpec((4,), lambda i: i, pipeline_mode=hint)
    assert mapping(spec, (8,)).pipeline_mode is hint
    assert Buffered(2).revisit is RevisitMode.IMMEDIATE and not Buffered(2).use_lookahead
    np.testing.assert_array_equal(call(jnp.arange(8.0), (8,), spec, spec, grid=2), np.arange(8))


def test_k32_mappings_and_specs_round_trip():
    spec = BlockSpec(
        (4, None, BoundedSlice(3), Indirect(2)),
        lambda i: (i, 2, xlab.ds(i, 2), 1 + 2 * jnp.arange(2) + i),
        memory_space=ANY,
        pipeline_mode=Buffered(2),
    )
    m = mapping(spec, (8, 8, 8, 8))
    again = mapping(m.to_block_spec(), (8, 8, 8, 8))
    assert m.block_shape == again.block_shape and m.block_aval is again.block_aval
    assert again.pipeline_mode == Buffered(2) and again.memory_space is ANY
    assert m.block_aval.shape == (4, 3, 2) and m.origin == "args[0]"
    assert m.array_aval.shape == (8, 8, 8, 8)
    for i in range(2):
        starts = [m.start_indices([np.int32(i)]), again.start_indices([np.int32(i)])]
        for s in starts:
            assert int(s[0]) == 4 * i and int(s[1]) == 2
            assert (int(s[2][0]), int(s[2][1])) == (i, 2)
            np.testing.assert_array_equal(s[3], [1 + i, 3 + i])


def test_k32_start_indices_with_prefetched_scalars():
    spec = PrefetchGridSpec(
        1, grid=2, in_specs=[BlockSpec((4,), lambda i, order: order[i])], out_specs=BlockSpec()
    )
    f = kernel_call(lambda order, x, o: None, out(4), grid_spec=spec)
    (eqn,) = xlab.make_jaxpr(f)(jnp.array([1, 0]), jnp.zeros(8)).eqns
    m = eqn.params["grid_mapping"].block_mappings[0]
    assert [int(m.start_indices([i], jnp.array([1, 0]))[0]) for i in range(2)] == [4, 0]


# -- padding, blocks outside, revisits ------------------------------------------------------------------------


def test_k35_arrays_are_padded_with_uninitialized_values():
    def count(x_ref, o_ref):
        o_ref[0] = jnp.isnan(x_ref[...]).sum().astype(np.int32)

    f = kernel_call(
        count, out(3, dtype="int32"), grid=3, in_specs=[BlockSpec((4,), lambda i: i)], out_specs=BlockSpec((1,), lambda i: i),
        interpret=True,
    )  # fmt: skip
    np.testing.assert_array_equal(f(jnp.zeros(10)), [0, 0, 2])

    def least(x_ref, o_ref):
        o_ref[0] = x_ref[...].min()

    got = call(
        jnp.arange(10, dtype=np.int32),
        (3,),
        BlockSpec((4,), lambda i: i),
        BlockSpec((1,), lambda i: i),
        least,
        grid=3,
    )
    np.testing.assert_array_equal(got, [0, 4, LOWEST])


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int4", "int8", "int16", "uint8", "uint32", "bfloat16", "float16", "float8_e4m3fn", "complex64"],
)  # fmt: skip
def test_k35_padding_and_cropping_of_every_kind_of_number(dtype):
    x = jnp.arange(6).astype(dtype)
    got = call(x, (8,), BlockSpec((4,), lambda i: i), grid=2)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got[:6], np.asarray(x))
    tail = np.asarray(got[6:])
    if dtype in ("bool", "int16", "uint8", "uint32"):
        assert not tail.any()
    elif dtype.startswith("int"):
        assert (tail.astype(int) == {"int4": -8, "int8": -128}[dtype]).all()
    else:
        tail = tail.astype(np.complex64)
        assert np.isnan(tail.real).all() and (dtype != "complex64" or np.isnan(tail.imag).all())
    cropped = call(jnp.arange(8).astype(dtype), (6,), BlockSpec((4,), lambda i: i), grid=2)
    np.testing.assert_array_equal(cropped, np.asarray(x))


def test_k35_padding_of_outputs_with_aliases():
    block = BlockSpec((4,), lambda i: i)
    add = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1)
    x = jnp.arange(10, dtype=np.int32)
    got = call(x, (10,), block, block, add, grid=3, input_output_aliases={0: 0})
    np.testing.assert_array_equal(got, np.arange(10) + 1)
    got = call(x, (10,), block, block, add, grid=2, input_output_aliases={0: 0})
    np.testing.assert_array_equal(got, [*range(1, 9), 8, 9])


@pytest.mark.parametrize("which", ["input", "output"])
def test_k35_element_padding_with_an_alias(which):
    block, padded = BlockSpec((4,), lambda i: i), BlockSpec((Element(4, (1, 1)),), lambda i: i)
    specs = (padded, block) if which == "input" else (block, padded)
    with pytest.raises(NotImplementedError, match=r"alias \{0: 0\}.*Element"):
        call(jnp.zeros(8), (8,), *specs, grid=2, input_output_aliases={0: 0})


def test_k35_empty_arrays_and_blocks():
    x = jnp.zeros((0, 4))
    got = call(
        x, (0, 4), BlockSpec((1, 2), lambda i: (0, i)), BlockSpec((1, 2), lambda i: (0, i)), grid=2
    )
    assert got.shape == (0, 4)
    assert call(x, (0, 4), BlockSpec(), BlockSpec()).shape == (0, 4)
    got = call(jnp.arange(4.0), (8,), BlockSpec(), kernel=lambda x, o: None, grid=2)
    assert np.isnan(got).all()


def test_k36_blocks_outside_are_moved_inside():
    x = jnp.arange(8, dtype=np.int32)
    got = call(x, (12,), BlockSpec((4,), lambda i: i), grid=3)
    np.testing.assert_array_equal(got, [*range(8), *range(4, 8)])
    got = call(x, (8,), BlockSpec((Element(4),), lambda i: 3 * i + 3), grid=2)
    np.testing.assert_array_equal(got, [3, 4, 5, 6, 4, 5, 6, 7])
    # Also where the place is known while tracing.
    for place in (9, np.int32(9)):
        got = call(x, (4,), BlockSpec((Element(4),), lambda i: place), grid=1)
        np.testing.assert_array_equal(got, [4, 5, 6, 7])
    got = call(x.reshape(2, 4), (4,), BlockSpec((None, 4), lambda i: (7, 0)), grid=1)
    np.testing.assert_array_equal(got, [4, 5, 6, 7])


def test_k36_negative_places_count_from_the_end():
    x = jnp.arange(8, dtype=np.int32)
    for index_map in (lambda i: i - 1, lambda i: -1):
        np.testing.assert_array_equal(
            call(x, (4,), BlockSpec((4,), index_map), grid=1), [4, 5, 6, 7]
        )


def test_k37_a_block_read_after_writes_sees_them():
    def accumulate(x_ref, o_ref):
        @kernels_when(program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    from xlab.kernels import when as kernels_when

    x = jnp.arange(12, dtype=np.int32).reshape(3, 4)
    spec = BlockSpec((None, 4), lambda i: (i, 0))
    got = call(x, (4,), spec, BlockSpec((4,), lambda i: 0), accumulate, grid=3)
    np.testing.assert_array_equal(got, [12, 15, 18, 21])


def test_k37_written_inputs_persist_and_never_reach_the_caller():
    def kernel(x_ref, o_ref):
        x_ref[...] += 1
        o_ref[...] = x_ref[...]

    x = jnp.zeros(1, np.int32)
    with pytest.warns(
        UserWarning, match=r"kernel at .*test_blocks.py:\d+ writes to its input args\[0\]"
    ) as told:
        got = call(x, (3,), BlockSpec(), BlockSpec((1,), lambda i: i), kernel, grid=3)
    assert told[0].filename == __file__
    np.testing.assert_array_equal(got, [1, 2, 3])
    assert x.tolist() == [0]


def test_specs_are_values():
    spec = GridSpec((2, 3), in_specs=[BlockSpec((4,), lambda i, j: i)])
    assert spec.grid == (2, 3) and spec.grid_names is None
    assert repr(Element(4, [1, 2])) == "Element(block_size=4, padding=(1, 2))"
    assert hash(BoundedSlice(3)) == hash(BoundedSlice(3)) and Indirect(2) != BoundedSlice(2)
