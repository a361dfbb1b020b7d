"""Grids: sizes, order, names, prefetched scalars, and how lists are ordered (K30, K31, K33, K34, K38, K39)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.interpreters.discharge import discharge_state
from xlab.kernels import (
    BlockSpec,
    GridSpec,
    MemorySpace,
    PrefetchGridSpec,
    kernel_call,
    num_programs,
    program_id,
    when,
)

LOWEST = np.iinfo(np.int32).min
I32 = np.dtype("int32")


def out(*shape, dtype=I32):
    return xlab.ShapeDtypeStruct(shape, dtype)


def fill(value, grid, size, **options):
    """Writes `value()` to one element per step."""

    def kernel(o_ref):
        o_ref[0] = jnp.asarray(value(), I32)

    rank = len(grid) if isinstance(grid, tuple) else 1

    def position(*ids):
        place = 0
        for i, n in zip(ids, grid if isinstance(grid, tuple) else (grid,)):
            place = place * (n[1] if isinstance(n, tuple) else n) + i
        return place

    spec = BlockSpec((1,), position if rank else None)
    return np.asarray(
        kernel_call(kernel, out(size), grid=grid, out_specs=spec, interpret=True, **options)()
    )


def calls(f, *args):
    return [e for e in xlab.make_jaxpr(f)(*args).eqns if e.primitive.name == "kernel_call"]


# -- what a grid may be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [3, (3,), [3], np.int64(3), (np.int32(3),)])
def test_k30_grids_are_ints_or_tuples_of_them(grid):
    assert GridSpec(grid).grid == (3,)


@pytest.mark.parametrize(
    "grid",
    [1.5, (2, 1.5), "ab", (2, "x"), (True,), None, (2.0,), jnp.ones(()), (jnp.ones(2, I32),)],
)
def test_k30_sizes_are_integers(grid):
    with pytest.raises(ValueError, match="the grid .* has"):
        GridSpec(grid)


def test_k30_sizes_are_not_negative():
    with pytest.raises(ValueError, match=r"the grid \(2, -1\) has the size -1"):
        GridSpec((2, -1))


def test_k39_names_are_distinct():
    with pytest.raises(ValueError, match=r"several axes of the name 'i': names are distinct"):
        GridSpec((("i", 2), 3, ("i", 4)))
    assert GridSpec((("i", 2), 3, ("j", 4))).grid_names == ("i", None, "j")


def test_k30_in_specs_are_a_sequence_structured_as_the_arguments():
    spec = BlockSpec((4,), lambda i: i)

    def call(in_specs, *args, out_specs=spec, outputs=out(8)):
        f = kernel_call(
            lambda *refs: None,
            outputs,
            grid=2,
            in_specs=in_specs,
            out_specs=out_specs,
            interpret=True,
        )
        return f(*args)

    x = jnp.zeros(8, I32)
    with pytest.raises(ValueError, match="in_specs is a sequence with a spec per argument"):
        call(spec, x)
    with pytest.raises(ValueError, match="in_specs: length 2, the arguments: length 1"):
        call([spec, spec], x)
    with pytest.raises(ValueError, match=r"in_specs: .*\{'a': \*\}.*\n.*the arguments: .*\{'b'"):
        call([{"a": spec}], {"b": x})
    with pytest.raises(ValueError, match="out_specs: length 1, out_shape: length 2"):
        call([spec], x, out_specs=[spec], outputs=(out(8), out(8)))
    with pytest.raises(ValueError, match="out_specs has to be structured as out_shape"):
        call([spec], x, outputs=(out(8),))


def test_k30_specs_follow_trees_of_arguments_and_outputs():
    block = BlockSpec((2,), lambda i: i)

    def kernel(x, o):
        o["sum"][...] = x["u"][...] + x["v"][0][...]

    f = kernel_call(
        kernel,
        {"sum": out(4)},
        grid=2,
        in_specs=[{"u": block, "v": [block]}],
        out_specs={"sum": block},
        interpret=True,
    )
    got = f({"u": jnp.arange(4), "v": [jnp.arange(4)]})
    np.testing.assert_array_equal(got["sum"], [0, 2, 4, 6])


def test_k30_prefetched_arguments_reach_index_maps_and_the_kernel_first():
    spec = PrefetchGridSpec(
        1,
        grid=2,
        in_specs=[BlockSpec((4,), lambda i, order: order[i])],
        out_specs=BlockSpec((4,), lambda i, order: i),
    )

    def kernel(order, x, o):
        o[...] = x[...] + 10 * order[0]

    f = kernel_call(kernel, out(8), grid_spec=spec, interpret=True)
    np.testing.assert_array_equal(
        f(jnp.array([1, 0]), jnp.arange(8)), [14, 15, 16, 17, 10, 11, 12, 13]
    )
    np.testing.assert_array_equal(
        xlab.jit(f)(jnp.array([0, 0]), jnp.arange(8)), [0, 1, 2, 3, 0, 1, 2, 3]
    )
    with pytest.raises(ValueError, match="num_scalar_prefetch is 3, but .* 2 arguments"):
        three = PrefetchGridSpec(3, grid=2)
        kernel_call(kernel, out(8), grid_spec=three, interpret=True)(
            jnp.zeros(1, I32), jnp.arange(8)
        )


def test_k30_prefetched_trees_and_written_prefetch():
    spec = PrefetchGridSpec(
        2, grid=3, in_specs=[], out_specs=BlockSpec((1,), lambda i, a, b: b["n"][0] - i)
    )

    def kernel(a, b, o):
        a[0] = a[0] + 1
        o[0] = a[0] * b["n"][0]

    f = kernel_call(kernel, out(3), grid_spec=spec, interpret=True)
    with pytest.warns(UserWarning, match=r"writes to its input args\[0\]"):
        got = f(jnp.zeros(1, I32), {"n": jnp.array([2])})
    np.testing.assert_array_equal(got, [6, 4, 2])


# -- grid mappings ----------------------------------------------------------------------------------------------


def test_k31_the_mapping_of_a_call_and_its_slices():
    ref = xlab.new_ref(jnp.zeros(2, I32))

    def kernel(p, x, y, o, s):
        o[...] = x[...] + y[...] + ref[0] + s[0] + p[0]

    def f(n, p, x, y):
        spec = PrefetchGridSpec(
            1, grid=(("i", n), 2), scratch_shapes=[MemorySpace.LOCAL((1,), I32)],
            in_specs=[BlockSpec((4,), lambda i, j, p: i), BlockSpec((4,), lambda i, j, p: j)],
            out_specs=BlockSpec((4,), lambda i, j, p: i),
        )  # fmt: skip
        return kernel_call(kernel, out(8), grid_spec=spec)(p, x, y)

    (eqn,) = calls(f, jnp.int32(2), jnp.zeros(1, I32), jnp.zeros(8, I32), jnp.zeros(8, I32))
    m = eqn.params["grid_mapping"]
    assert (
        m.num_captured,
        m.num_dynamic,
        m.num_prefetch,
        m.num_inputs,
        m.num_outputs,
        m.num_scratch,
    ) == (1, 1, 1, 2, 1, 1)
    operands = [str(a.aval) for a in eqn.invars]
    assert operands == ["Ref{int32[2]}", "int32[]", "int32[1]", "int32[8]", "int32[8]"]
    parts = (m.captured_operands, m.dynamic_operands, m.prefetch_operands, m.input_operands)
    assert [len(operands[p]) for p in parts] == [1, 1, 1, 2]
    refs = list(range(len(eqn.params["jaxpr"].in_avals)))
    parts = (m.captured_refs, m.prefetch_refs, m.input_refs, m.output_refs, m.scratch_refs)
    assert [refs[p] for p in parts] == [[0], [1], [2, 3], [4], [5]]
    assert [b.origin for b in m.block_mappings] == ["args[1]", "args[2]", "outputs"]
    assert [str(a) for a in m.index_map_avals] == ["int32[]", "int32[]", "Ref{int32[1]}"]
    assert m.grid_names == ("i", None) and str(m.grid) == "(?, 2)"
    with pytest.raises(ValueError, match=r"the grid \(\?, 2\) has sizes"):
        _ = m.static_grid
    assert "grid=(?, 2)" in m.describe() and "outputs: " in m.describe()
    (eqn,) = calls(kernel_call(lambda o: None, out(4), grid=(2, 3)))
    assert (
        eqn.params["grid_mapping"].static_grid == (2, 3)
        and eqn.params["grid_mapping"].num_steps == 6
    )


def test_k31_order_at_every_interface():
    """The specification's table; every list is told by the lengths of its members."""
    seen = {}

    def lengths(refs):
        return [r.shape[0] for r in refs]

    def index_map(i, j, p):
        seen["index map"] = [i.shape, j.shape, p.shape]
        return (i,)

    block = lambda n: BlockSpec((n,), lambda i, j, p: (i,))

    def f(c, n, p, x, y):
        def kernel(p, x, y, o, u, *, s):
            seen["kernel"] = lengths([p, x, y, o, u, s])
            o[...] = jnp.full(6, c[0] + p[0] + x[0] + y[0] + s[0])
            c[1] = o[0]

        spec = PrefetchGridSpec(
            1,
            grid=(n, 2),
            in_specs=[BlockSpec((4,), index_map), block(5)],
            out_specs=(block(6), block(7)),
            scratch_shapes={"s": MemorySpace.LOCAL((8,), "float32")},
        )
        outputs = (out(12, dtype="float32"), out(14, dtype="float32"))
        return kernel_call(kernel, outputs, grid_spec=spec, interpret=True)(p, x, y)

    args = (
        xlab.new_ref(jnp.zeros(2)),
        jnp.int32(2),
        jnp.zeros(3, I32),
        jnp.zeros(8),
        jnp.zeros(10),
    )
    closed = xlab.make_jaxpr(f)(*args)
    (eqn,) = closed.eqns
    m = eqn.params["grid_mapping"]
    assert [a.aval.shape for a in eqn.invars] == [(2,), (), (3,), (8,), (10,)]  # c, g, p, i
    assert seen["kernel"] == [3, 4, 5, 6, 7, 8]  # p, i, o, s
    assert lengths(eqn.params["jaxpr"].in_avals) == [2, 3, 4, 5, 6, 7, 8]  # c, p, i, o, s
    assert seen["index map"] == [(), (), (3,)]  # l, p
    assert lengths(b.block_aval for b in m.block_mappings) == [4, 5, 6, 7]  # i, o
    assert lengths(v.aval for v in eqn.outvars) == [12, 14]  # o
    *_, eqn = discharge_state(closed).eqns
    m = eqn.params["grid_mapping"]
    assert [a.aval.shape for a in eqn.invars] == [(), (3,), (2,), (8,), (10,)]  # g, p, c and i
    assert lengths(eqn.params["jaxpr"].in_avals) == [3, 2, 4, 5, 2, 6, 7, 8]
    assert lengths(b.block_aval for b in m.block_mappings) == [2, 4, 5, 2, 6, 7]
    assert lengths(v.aval for v in eqn.outvars) == [2, 12, 14]  # c, o


# -- order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(), (4,), (2, 3), (2, 1, 3), (1, 1), (2, 2, 2, 2)])
def test_k33_steps_run_in_row_major_order_the_last_axis_fastest(grid):
    n = int(np.prod(grid))

    def kernel(o_ref, count):
        @when(sum((program_id(a) for a in range(len(grid))), start=jnp.int32(0)) == 0)
        def _():
            count[0] = 0

        digits = jnp.int32(0)
        for a in range(len(grid)):
            digits = digits * 10 + program_id(a)
        o_ref[count[0]] = digits
        count[0] += 1

    f = kernel_call(
        kernel, out(n), grid=grid, scratch_shapes=[MemorySpace.LOCAL((1,), I32)], interpret=True
    )
    want = [int("0" + "".join(map(str, p))) for p in itertools.product(*map(range, grid))]
    np.testing.assert_array_equal(f(), want)


@pytest.mark.parametrize("grid", [(0,), (3, 0), (0, 3)])
def test_k33_an_axis_of_no_size_is_no_step(grid):
    f = kernel_call(
        lambda o: o.__setitem__(..., jnp.zeros(4, I32)), out(4), grid=grid, interpret=True
    )
    assert (np.asarray(f()) == LOWEST).all()


def test_k33_the_number_of_steps_is_an_int32():
    with pytest.raises(ValueError, match=r"has 4294967296 steps, more than an int32 counts"):
        kernel_call(lambda o: None, out(4), grid=(1 << 16, 1 << 16), interpret=True)()


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 4])
def test_k34_steps_beyond_a_dynamic_size_never_run(n):
    def f(n):
        return kernel_call(
            lambda o: o.__setitem__(0, program_id(0)), out(4), grid=(n,), out_specs=BlockSpec((1,), lambda i: i), interpret=True
        )()  # fmt: skip

    want = [i if i < n else LOWEST for i in range(4)]
    np.testing.assert_array_equal(xlab.jit(f)(n), want)
    np.testing.assert_array_equal(f(jnp.int32(n)), want)


def test_k34_dynamic_and_static_sizes_together():
    def kernel(o_ref):
        o_ref[0] = 100 * num_programs(1) + 10 * program_id(0) + program_id(1)

    def f(n):
        spec = BlockSpec((None, 1), lambda i, j: (i, j))
        return kernel_call(kernel, out(2, 4), grid=(2, n), out_specs=spec, interpret=True)()

    for n in (0, 3):
        want = [[100 * n + 10 * i + j if j < n else LOWEST for j in range(4)] for i in range(2)]
        np.testing.assert_array_equal(xlab.jit(f)(n), want)


# -- positions --------------------------------------------------------------------------------------------------


def test_k38_positions_and_sizes_are_int32():
    seen = []

    def value():
        seen.append((program_id(1).dtype, program_id(1).shape, num_programs(1)))
        return 10 * program_id(0) + program_id(1)

    np.testing.assert_array_equal(fill(value, (2, 3), 6), [0, 1, 2, 10, 11, 12])
    assert seen == [(I32, (), 3)]


def test_k38_axes_that_the_grid_does_not_have():
    for f in (program_id, num_programs):
        for axis in (1, -1):
            with pytest.raises(
                ValueError, match=rf"\({axis}\) at .*test_grid.py.*the grid \(3,\) has 1 axes"
            ):
                fill(lambda f=f, axis=axis: f(axis), 3, 3)
        with pytest.raises(
            RuntimeError, match=r"\(0\) at .*test_grid.py:\d+ .* is outside a kernel"
        ):
            f(0)
        with pytest.raises(RuntimeError, match="outside a kernel"):
            xlab.jit(lambda f=f: f(0))()


def test_k38_index_maps_know_the_position_by_their_arguments_only():
    with pytest.raises(RuntimeError, match=r"program_id\(0\)"):
        spec = BlockSpec((4,), lambda i: program_id(0))
        kernel_call(lambda o: None, out(8), grid=2, out_specs=spec, interpret=True)()


@pytest.mark.parametrize(
    "inside",
    [
        lambda: lax.cond(program_id(0) > 0, lambda: program_id(0) * 5, lambda: jnp.int32(-1)),
        lambda: lax.fori_loop(0, 2, lambda t, c: c + program_id(0), jnp.int32(0)) - 1,
        lambda: xlab.jit(lambda: program_id(0) * 2 - 1)(),
        lambda: lax.while_loop(lambda c: c < 3 * program_id(0) - 1, lambda c: c + program_id(0), jnp.int32(-1)),
        lambda: xlab.vmap(lambda x: x * program_id(0))(jnp.ones(3, I32)).sum() - 1,
        lambda: lax.scan(lambda c, _: (c + program_id(0), None), jnp.int32(-1), None, length=2)[0],
    ],
)  # fmt: skip
def test_k38_positions_inside_control_flow(inside):
    seen = fill(inside, 3, 3)
    assert seen[0] == -1 and (np.diff(seen) > 0).all()


def test_k38_a_jitted_function_used_by_two_grids():
    @xlab.jit
    def position():
        return program_id(0) + 10 * num_programs(0)

    np.testing.assert_array_equal(fill(position, 2, 2), [20, 21])
    np.testing.assert_array_equal(fill(position, 3, 3), [30, 31, 32])
    np.testing.assert_array_equal(fill(position, 2, 2), [20, 21])


def test_k39_named_axes_are_positions():
    grid = (("i", 2), ("j", 3))
    np.testing.assert_array_equal(
        fill(lambda: 10 * lax.axis_index("i") + lax.axis_size("j"), grid, 6), [3, 3, 3, 13, 13, 13]
    )
    np.testing.assert_array_equal(fill(lambda: lax.axis_index(("i", "j")), grid, 6), range(6))
    np.testing.assert_array_equal(
        fill(lambda: lax.axis_index(("j", "i")), grid, 6), [0, 2, 4, 1, 3, 5]
    )
    np.testing.assert_array_equal(
        fill(lambda: lax.cond(True, lambda: lax.axis_index("j"), lambda: 0), grid, 6), [0, 1, 2] * 2
    )
    with pytest.raises(NameError, match="unbound axis name 'k'"):
        fill(lambda: lax.axis_index("k"), grid, 6)


def test_k39_a_name_for_some_axes():
    np.testing.assert_array_equal(fill(lambda: lax.axis_index("j"), (2, ("j", 2)), 4), [0, 1, 0, 1])


def test_k39_a_dynamic_size_by_name():
    def f(n, kernel):
        spec = BlockSpec((1,), lambda i: i)
        return kernel_call(kernel, out(4), grid=(("i", n),), out_specs=spec, interpret=True)()

    got = xlab.jit(lambda n: f(n, lambda o: o.__setitem__(0, lax.axis_index("i"))))(2)
    np.testing.assert_array_equal(got, [0, 1, LOWEST, LOWEST])
    with pytest.raises(ValueError, match="axis 'i' .*num_programs"):
        f(jnp.int32(2), lambda o: o.__setitem__(0, lax.axis_size("i")))
