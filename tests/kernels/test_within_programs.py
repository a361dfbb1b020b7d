"""Kernels where programs have them: in loops and branches, exported, on sharded arrays; and what kernels have in them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlab
from xlab import export, lax, random
from xlab import numpy as jnp
from xlab.kernels import BlockSpec, interpret_mode, kernel_call, program_id
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

ONES = np.ones(4, np.float32)


def struct(*shape, dtype="float32"):
    return xlab.ShapeDtypeStruct(shape, dtype)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


doubled = kernel_call(double, struct(4), interpret=True)


def run(kernel, out, *args, **options):
    return kernel_call(kernel, out, interpret=True, **options)(*args)


# -- around a kernel ----------------------------------------------------------------------------------------


def test_k49_in_scan_while_and_cond():
    out, _ = lax.scan(lambda x, _: (doubled(x), None), ONES, None, length=3)
    np.testing.assert_array_equal(out, 8 * ONES)
    out = lax.while_loop(lambda x: x.sum() < 100, doubled, ONES)
    np.testing.assert_array_equal(out, 32 * ONES)
    out = xlab.jit(lambda p, x: lax.cond(p, doubled, lambda x: x, x))(True, ONES)
    np.testing.assert_array_equal(out, 2 * ONES)


def test_k47_recomputed_on_the_way_back():
    @xlab.custom_vjp
    def sin(x):
        return run(lambda x_ref, o_ref: o_ref.__setitem__(..., jnp.sin(x_ref[...])), struct(4), x)

    sin.defvjp(lambda x: (sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
    x = jnp.linspace(0, 1, 4)
    slope = xlab.grad(lambda x: xlab.checkpoint(lambda x: sin(sin(x)))(x).sum())(x)
    np.testing.assert_allclose(slope, np.cos(np.sin(x)) * np.cos(x), rtol=1e-6)


def test_k49_shapes_alone_compiled_ahead_and_exported():
    assert xlab.eval_shape(doubled, struct(4)).shape == (4,)
    compiled = xlab.jit(doubled).lower(struct(4)).compile()
    np.testing.assert_array_equal(compiled(jnp.asarray(ONES)), 2 * ONES)
    exported = export.export(xlab.jit(doubled))(struct(4))
    again = export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(ONES), 2 * ONES)


def test_k45_arrays_that_the_compiler_may_place():
    mesh = xlab.make_mesh((4,), ("d",), (AxisType.Auto,), devices=xlab.devices()[:4])
    x = xlab.device_put(np.arange(8.0, dtype="float32"), NamedSharding(mesh, P("d")))
    f = kernel_call(double, struct(8), interpret=True)
    np.testing.assert_array_equal(f(x), 2 * np.arange(8))
    np.testing.assert_array_equal(xlab.jit(f)(x), 2 * np.arange(8))


def test_k44_a_donated_argument_that_is_aliased():
    f = xlab.jit(lambda x: run(double, struct(4), x, input_output_aliases={0: 0}), donate_argnums=0)
    x = jnp.asarray(ONES)
    np.testing.assert_array_equal(f(x), 2 * ONES)
    assert x.is_deleted()


def test_k43_a_kernel_is_traced_once_for_its_types():
    traced = []

    def kernel(x_ref, o_ref):
        traced.append(x_ref.dtype)
        o_ref[...] = x_ref[...]

    f = kernel_call(kernel, struct(4), interpret=True)
    for x in (ONES, 2 * ONES):
        np.testing.assert_array_equal(f(x), x)
    assert len(traced) == 1


def test_k43_methods_and_any_number_of_references():
    class Scale:
        factor = 3.0

        def kernel(self, *refs):
            *ins, out = refs
            out[...] = self.factor * sum(x[...] for x in ins)

    np.testing.assert_array_equal(run(Scale().kernel, struct(4), ONES, ONES, ONES), 9 * ONES)


DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 float16 bfloat16 complex64 float8_e4m3fn int4"


@pytest.mark.parametrize("dtype", DTYPES.split())
def test_k35_every_dtype_in_ragged_blocks(dtype):
    x = jnp.asarray(np.arange(5) % 2, dtype)
    block = BlockSpec((3,), lambda i: (i,))

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    out = run(copy, struct(5, dtype=dtype), x, grid=2, in_specs=[block], out_specs=block)
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(*(np.asarray(a.astype("complex64")) for a in (out, x)))


def test_k33_nothing_to_do():
    assert run(double, struct(0), jnp.zeros(0)).shape == (0,)
    rows = BlockSpec((1, 4), lambda i: (i, 0))
    out = run(double, struct(0, 4), jnp.zeros((0, 4)), grid=0, in_specs=[rows], out_specs=rows)
    assert out.shape == (0, 4)


def test_k38_positions_are_32_bits_wide_beside_wider_numbers():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * program_id(0)

    block = BlockSpec((2,), lambda i: (i,))
    with xlab.enable_x64(True):
        x = jnp.ones(4, "float64")
        out = run(kernel, struct(4, dtype="float64"), x, grid=2, in_specs=[block], out_specs=block)
        assert out.dtype == "float64"
    assert out.tolist() == [0, 0, 1, 1]


# -- inside a kernel ----------------------------------------------------------------------------------------

MATRIX = np.arange(24, dtype=np.float32).reshape(4, 6)
PARTS = {
    "row": lambda x: x[0],
    "last": lambda x: x[-1],
    "column": lambda x: x[:, 1],
    "ellipsis": lambda x: x[..., 0],
    "rows": lambda x: x[1:3],
    "strided": lambda x: x[::2, 1::3],
    "window": lambda x: x[1:-1, 2:5],
    "tail": lambda x: x[-2:, -1:],
    "row_and_stride": lambda x: x[1, ::3],
}


@pytest.mark.parametrize("mode", ["compiled", "value"])
def test_k9_parts_of_references_are_those_of_arrays(mode):
    expected = {name: part(MATRIX) for name, part in PARTS.items()}

    def kernel(x_ref, outs):
        for name, part in PARTS.items():
            outs[name][...] = part(x_ref)

    with interpret_mode(mode):
        got = run(kernel, {k: struct(*v.shape) for k, v in expected.items()}, MATRIX)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


def test_k5_augmented_assignments():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[...] *= 2
        o_ref[0] += 1
        o_ref[1:3] -= x_ref[1:3]
        o_ref[3] /= 2

    assert run(kernel, struct(4), jnp.arange(4.0)).tolist() == [1, 1, 2, 3]


@pytest.mark.parametrize("mode", ["compiled", "value"])
def test_k85_loops_over_references(mode):
    def kernel(n_ref, x_ref, sums_ref, prefix_ref, grown_ref):
        sums_ref[...] = jnp.zeros_like(sums_ref)

        def add(i, _):
            sums_ref[...] += x_ref[i]

        lax.fori_loop(0, n_ref[0], add, None)
        total, before = lax.scan(lambda c, v: (c + v, c), 0.0, x_ref[:, 0])
        prefix_ref[...] = before + total
        grown_ref[...] = jnp.ones_like(grown_ref)

        def grow(i):
            grown_ref[...] *= 2
            return i + 1

        lax.while_loop(lambda i: jnp.sum(grown_ref[...]) < 100, grow, 0)

    with interpret_mode(mode):
        sums, prefix, grown = run(kernel, (struct(6), struct(4), struct(6)), np.array([2]), MATRIX)
    np.testing.assert_array_equal(sums, MATRIX[:2].sum(axis=0))
    np.testing.assert_array_equal(prefix, [36, 36, 42, 54])
    np.testing.assert_array_equal(grown, 32 * np.ones(6))


@pytest.mark.parametrize("mode", ["compiled", "value"])
def test_random_numbers_from_a_seed_and_the_position(mode):
    def kernel(seed_ref, o_ref):
        o_ref[...] = random.normal(random.key(seed_ref[0] + program_id(0)), o_ref.shape)

    rows = BlockSpec((None, 4), lambda i: (i, 0))
    with interpret_mode(mode):
        out = run(
            kernel, struct(2, 4), np.array([7]), grid=2, in_specs=[BlockSpec()], out_specs=rows
        )
    for row, seed in zip(out, (7, 8)):
        np.testing.assert_array_equal(row, random.normal(random.key(seed), (4,)))


@pytest.mark.parametrize("mode", ["compiled", "value"])
def test_k18_prints_and_callbacks_run_for_each_step_in_order(mode, capsys):
    def kernel(x_ref, o_ref):
        xlab.debug.print("step {} has {}", program_id(0), x_ref[0], ordered=True)
        o_ref[...] = xlab.pure_callback(lambda x: 3 * np.asarray(x), struct(2), x_ref[...])

    block = BlockSpec((2,), lambda i: (i,))
    with interpret_mode(mode):
        out = run(kernel, struct(4), np.arange(4.0), grid=2, in_specs=[block], out_specs=block)
        assert out.tolist() == [0, 3, 6, 9]
        xlab.effects_barrier()
    assert re.findall(r"step (\d) has (\d)", capsys.readouterr().out) == [("0", "0"), ("1", "2")]


def test_keys_are_operands():
    def kernel(key_ref, o_ref):
        o_ref[...] = random.uniform(key_ref[...], o_ref.shape)

    key = random.key(3)
    np.testing.assert_array_equal(run(kernel, struct(4), key), random.uniform(key, (4,)))
