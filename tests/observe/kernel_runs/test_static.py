"""K86, K100, K104g: the blocks of a kernel from its index maps alone, equal to what plain NumPy enumerates."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import xlab
from xlab import kernels, lax, observe
from xlab import numpy as jnp
from xlab.kernels import BlockSpec, blocks, kernel_call
from xlab.kernels.failures import KernelWarning
from xlab.lax.indexers import ds
from xlab.observe.kernel_runs.movement import changes
from xlab.observe.kernel_runs.rooflines import rooflines


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def touch(x_ref, o_ref):
    """Reads and writes, whatever the shapes."""
    o_ref[...] = jnp.zeros(o_ref.shape) + jnp.sum(x_ref[...])


def matmul_kernel(a_ref, b_ref, o_ref):
    o_ref[...] += a_ref[...] @ b_ref[...]


def out(shape, dtype="float32"):
    return xlab.ShapeDtypeStruct(shape, dtype)


def tiled_matmul(m=4, n=3, k=2, block=16):
    a = np.ones((m * block, k * block), np.float32)
    b = np.ones((k * block, n * block), np.float32)
    call = kernel_call(
        matmul_kernel,
        out((m * block, n * block)),
        grid=(("m", m), ("n", n), ("k", k)),
        in_specs=[
            BlockSpec((block, block), lambda i, j, p: (i, p)),
            BlockSpec((block, block), lambda i, j, p: (p, j)),
        ],
        out_specs=BlockSpec((block, block), lambda i, j, p: (i, j)),
        interpret=True,
    )
    return observe.kernels(call, a, b)[0]


def one(grid, shape, spec, out_spec=None, out_shape=None, **more):
    x = np.zeros(shape, np.float32)
    call = kernel_call(
        touch,
        out(out_shape or shape),
        grid=grid,
        in_specs=[spec],
        out_specs=out_spec or spec,
        interpret=True,
        **more,
    )
    return observe.kernels(call, x)[0]


def of(run, name):
    return [e for e in run.blocks if e.operand == name]


def test_k100_blocks_of_a_tiled_matmul():
    """K100: A's blocks are constant along n, B's along m, C's are visited k times in a row; visits add up to the grid."""
    run = tiled_matmul(4, 3, 2)
    assert run.grid == (4, 3, 2) and run.steps == 24 and run.grid_names == ("m", "n", "k")
    at = {
        name: {e.grid: e.start for e in of(run, name)}
        for name in ("args[0]", "args[1]", "outputs[0]")
    }
    for (i, _, p), start in at["args[0]"].items():
        assert start == at["args[0]"][i, 0, p] == (16 * i, 16 * p)
    for (_, j, p), start in at["args[1]"].items():
        assert start == at["args[1]"][0, j, p] == (16 * p, 16 * j)
    starts = [e.start for e in of(run, "outputs[0]")]
    assert [len(list(group)) for _, group in itertools.groupby(starts)] == [2] * 12
    assert [e.visit for e in of(run, "outputs[0]")] == [1, 2] * 12
    for name in at:
        last = {e.start: e.visit for e in of(run, name)}
        assert sum(last.values()) == 24
    assert {e.io for e in of(run, "outputs[0]")} == {"both"}
    assert not run.lints and not run.left_out


def test_movement_is_that_of_the_order_of_the_steps():
    """A block that the next step wants again is not moved; bytes are of elements inside the array."""
    run = tiled_matmul(4, 3, 2)
    a, _, c = run.cost.movement
    block = 16 * 16 * 4
    assert (a.visits, a.moves, a.distinct) == (24, 24, 8)
    assert (c.moves, c.distinct, c.moved, c.most) == (12, 12, 12 * block, 24 * block)
    assert run.cost.moved == (24 + 24 + 12) * block
    # With k first the output is left and visited again, and A stays for the innermost n.
    x = np.ones((32, 32), np.float32)
    spec = BlockSpec((16, 16), lambda p, i, j: (i, p))
    call = kernel_call(
        matmul_kernel,
        out((32, 32)),
        grid=(2, 2, 2),
        in_specs=[spec, BlockSpec((16, 16), lambda p, i, j: (p, j))],
        out_specs=BlockSpec((16, 16), lambda p, i, j: (i, j)),
        interpret=True,
    )
    run = observe.kernels(call, x, x)[0]
    assert [m.moves for m in run.cost.movement] == [4, 8, 8]
    (lint,) = run.lints
    assert "left and visited again" in lint.text and "steps 1 and 5" in lint.text
    uneven = one(3, (10,), BlockSpec((4,), lambda i: (i,)))
    assert [m.moved for m in uneven.cost.movement] == [40, 40]


def test_k35_padding_and_k36_clamped_blocks():
    run = one(4, (10,), BlockSpec((4,), lambda i: (i,)))
    assert [(e.start, e.pad, e.clamped) for e in of(run, "args[0]")] == [
        ((0,), (0,), False),
        ((4,), (0,), False),
        ((8,), (2,), False),
        ((8,), (2,), True),
    ]
    assert any("moved inside" in x.text and "step 4" in x.text for x in run.lints)


def test_k26_every_kind_of_block():
    run = one((3, 2), (3, 8), BlockSpec((None, 4), lambda i, j: (i, j)))
    assert of(run, "args[0]")[3].start == (1, 4) and of(run, "args[0]")[3].squeezed == (0,)
    assert run.operands[0].block == ("Squeezed()", "4")
    spec = BlockSpec((blocks.Element(4, (1, 1)),), lambda i: (3 * i,))
    run = one(2, (10,), spec, BlockSpec((4,), lambda i: (i,)), (8,))
    assert [(e.start, e.pad) for e in of(run, "args[0]")] == [((-1,), (1,)), ((2,), (0,))]
    spec = BlockSpec((blocks.BoundedSlice(4),), lambda i: (ds(2 * i, 3),))
    run = one(2, (10,), spec, BlockSpec((4,), lambda i: (i,)), (8,))
    assert [(e.index, e.start, e.shape) for e in of(run, "args[0]")] == [
        ((0, 3), (0,), (3,)),
        ((2, 3), (2,), (3,)),
    ]
    spec = BlockSpec((blocks.Indirect(2),), lambda i: (jnp.stack([i, i + 3]),))
    run = one(2, (10,), spec, BlockSpec((2,), lambda i: (i,)), (4,))
    assert [(e.index, e.start, e.shape) for e in of(run, "args[0]")] == [
        ((0, 3), (0,), (4,)),
        ((1, 4), (1,), (4,)),
    ]


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.integers(-1, 2),
)
def test_k104g_block_events_equal_an_enumeration(grid, block, shape, factor, shift):
    """Random grids, blocks, arrays and affine index maps, against index arithmetic in plain Python."""

    def index(i, j):
        return (factor[0] * i, factor[1] * j + shift)

    run = one(grid, shape, BlockSpec(block, index), BlockSpec(None), shape)
    seen = {}
    expected = []
    for i, j in itertools.product(range(grid[0]), range(grid[1])):
        start = [a * b for a, b in zip(index(i, j), block)]
        padded = [-(-n // b) * b for n, b in zip(shape, block)]
        start = [s + n if s < 0 else s for s, n in zip(start, padded)]
        held = tuple(min(max(s, 0), n - b) for s, n, b in zip(start, padded, block))
        seen[held] = seen.get(held, 0) + 1
        pad = tuple(max(0, s + b - n) for s, b, n in zip(held, block, shape))
        expected.append(((i, j), held, pad, held != tuple(start), seen[held]))
    assert [(e.grid, e.start, e.pad, e.clamped, e.visit) for e in of(run, "args[0]")] == expected


def test_outputs_that_no_step_writes_and_inputs_that_are_written():
    """K33, K37."""
    run = one(2, (8,), BlockSpec((4,), lambda i: (i,)), BlockSpec((2,), lambda i: (i,)), (8,))
    assert any("2 blocks of 4 of outputs[0] belong to no step" in x.text for x in run.lints)
    assert any("no step" in x.text for x in one(0, (8,), BlockSpec((4,), lambda i: (i,))).lints)

    def spoil(x_ref, o_ref):
        x_ref[...] = x_ref[...] + 1
        o_ref[...] = x_ref[...]

    call = kernel_call(spoil, out((4,)), interpret=True)
    with pytest.warns(KernelWarning, match="writes to its input"):
        (lint,) = observe.kernels(call, np.zeros(4, np.float32))[0].lints
    assert "the kernel writes args[0]" in lint.text


def test_index_maps_that_depend_on_data_are_left_out_until_data_is_known():
    """K30: a prefetched order."""
    x, order = np.arange(8, dtype=np.float32), np.asarray([1, 0], np.int32)
    spec = kernels.PrefetchGridSpec(
        1,
        grid=2,
        in_specs=[BlockSpec((4,), lambda i, order: (order[i],))],
        out_specs=BlockSpec((4,), lambda i, order: (i,)),
    )
    call = kernel_call(
        lambda order, x_ref, o_ref: copy(x_ref, o_ref), out((8,)), grid_spec=spec, interpret=True
    )
    run = observe.kernels(call, order, x)[0]
    assert run.left_out == ("blocks of args[1]: its index map depends on prefetched values",)
    assert {e.operand for e in run.blocks} == {"outputs[0]"}
    from xlab.observe.kernel_runs.static import kernel_of
    from xlab.observe.programs.stages import program_stages

    stages = program_stages(call, (order, x), {})
    (eqn,) = [e for e in stages.equations.values() if e.primitive.name == "kernel_call"]
    run = kernel_of(eqn, values=[order, x])
    assert [e.start for e in of(run, "args[1]")] == [(4,), (0,)] and not run.left_out


def test_a_long_grid_keeps_what_fits_and_says_so():
    from xlab.observe.kernel_runs.static import kernel_of
    from xlab.observe.programs.stages import program_stages

    spec = BlockSpec((4,), lambda i: (i,))
    x = np.zeros(40_000, np.float32)
    call = kernel_call(
        copy, out(x.shape), grid=10_000, in_specs=[spec], out_specs=spec, interpret=True
    )
    (run,) = observe.kernels(call, x)
    assert run.steps == 10_000 and len(run.events) == 20_000 and not run.left_out
    (eqn,) = [
        e
        for e in program_stages(call, (x,), {}).equations.values()
        if e.primitive.name == "kernel_call"
    ]
    short = kernel_of(eqn, most=100)
    assert len(short.events) == 100
    assert short.left_out == ("the blocks of 9,950 steps after the first 50",)
    assert short.cost.movement == run.cost.movement


def test_kernels_inside_other_programs_and_what_costs_are_stated():
    spec = BlockSpec((4,), lambda i: (i,))
    call = kernel_call(copy, out((8,)), grid=2, in_specs=[spec], out_specs=spec, interpret=True)

    def f(x):
        return lax.fori_loop(0, 3, lambda i, x: call(x) + 1, jnp.sin(x))

    (run,) = observe.kernels(f, np.zeros(8, np.float32))
    assert run.name == "copy" and run.equation > 0
    assert observe.kernels(jnp.sin, 1.0) == ()


def test_rooflines_of_one_target_or_of_all():
    run = tiled_matmul()
    assert len(run.cost.rooflines) == len(rooflines()) > 3
    assert [r.target for r in rooflines("tpu:v5e")] == ["tpu:v5e"]
    with pytest.raises(ValueError, match="no peak and bandwidth are known"):
        rooflines("tpu:v99")
    assert changes(np.asarray([], np.int64)).tolist() == []
