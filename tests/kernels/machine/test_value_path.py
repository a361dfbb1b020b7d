"""Calls with `interpret="value"`: at once, from compiled programs, per device (K46, K50, K99)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.kernels.machine.examples import SDS, add_one, matmul, worked
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import InterpretParams, interpret_mode, kernel_call
from xlab.kernels.machine import KernelWarning, Machine, collect_machines
from xlab.sharding import Mesh
from xlab.sharding import PartitionSpec as Spec


def test_k99_eager_and_jitted():
    call, x, y = matmul(2, 2, 2, interpret="value")
    out = call(x, y)
    assert isinstance(out, xlab.Array)
    np.testing.assert_array_equal(out, x @ y)
    np.testing.assert_array_equal(xlab.jit(lambda x, y: call(x, y) + 1)(x, y), x @ y + 1)


def test_k99_calls_from_compiled_programs_are_ordered():
    seen = []
    params = InterpretParams(grid_point_recorder=lambda grid, core: seen.append(grid))
    call, x = add_one(4, 2, interpret=params)

    @xlab.jit
    def f(x):
        return lax.scan(lambda c, _: (call(c), None), x, None, length=3)[0]

    np.testing.assert_array_equal(f(x), x + 3)
    xlab.effects_barrier()
    assert seen == [(0,), (1,)] * 3


def test_k99_unused_results_still_run():
    seen = []
    call, x = add_one(
        4, 4, interpret=InterpretParams(grid_point_recorder=lambda g, c: seen.append(g))
    )
    xlab.jit(lambda x: (call(x), x)[1])(x)
    xlab.effects_barrier()
    assert seen == [(0,)]


def test_k99_each_device_has_its_machine():
    call, _ = add_one(4, 2, interpret="value")
    mesh = Mesh(np.array(xlab.devices()[:4]), ("d",))
    f = xlab.shard_map(
        lambda v: call(v[0])[None],
        mesh=mesh,
        in_specs=Spec("d"),
        out_specs=Spec("d"),
        check_vma=False,
    )
    y = np.arange(16, dtype=np.float32).reshape(4, 4)
    with collect_machines() as machines:
        out = xlab.jit(f)(y)
        np.testing.assert_array_equal(out, y + 1)
    assert sorted(m.program.device for m in machines) == [0, 1, 2, 3]
    for m in machines:
        assert {e["device"] for e in m.record().events} == {m.program.device}
        np.testing.assert_array_equal(m.outputs()[0], y[m.program.device] + 1)


def test_k99_several_pairs():
    assert worked(interpret="value")().tolist() == [11, 21]
    assert xlab.jit(
        worked(interpret=InterpretParams(schedule="random", random_seed=4))
    )().tolist() == [11, 21]


def test_k46_interpret_mode_overrides():
    call, x = add_one()
    with interpret_mode("value"), collect_machines() as machines:
        np.testing.assert_array_equal(call(x), x + 1)
    assert len(machines) == 1


def test_captured_references_get_their_values():
    ref = xlab.new_ref(jnp.zeros(2))

    def kernel(o):
        ref[0] = 5.0
        o[...] = ref[...]

    assert kernel_call(kernel, SDS((2,), "float32"), interpret="value")().tolist() == [5, 0]
    assert ref[...].tolist() == [5, 0]


def test_errors_reach_the_caller():
    def kernel(x, o):
        o[0] = x[x[0]]

    call = kernel_call(kernel, SDS((1,), "int32"), interpret="value")
    with pytest.raises(IndexError, match="index 7 in dimension 0 of size 2"):
        call(jnp.array([7, 0]))
    with pytest.raises(Exception, match="index 7 in dimension 0 of size 2"):
        xlab.jit(call)(jnp.array([7, 0])).block_until_ready()


def test_races_are_warned_of():
    call = worked(False, interpret=InterpretParams(detect_races=True))
    with pytest.warns(KernelWarning, match="2 races in"):
        call()


def test_k99_vmap_loops():
    call, x = add_one(4, 2, interpret="value")
    xs = np.stack([x, x * 2, x - 5])
    np.testing.assert_array_equal(xlab.vmap(call)(xs), xs + 1)
    np.testing.assert_array_equal(xlab.jit(xlab.vmap(call))(xs), xs + 1)
    mesh_call = worked(interpret="value")
    out = xlab.vmap(lambda _: mesh_call(), axis_size=2, in_axes=None, out_axes=None)(0)
    assert np.asarray(out).tolist() == [11, 21]


def test_k46_training_steps_run_in_value_mode_under_remat():
    def sine(x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...])

    def sine_back(x_ref, g_ref, o_ref):
        o_ref[...] = jnp.cos(x_ref[...]) * g_ref[...]

    @xlab.custom_vjp
    def f(x):
        return kernel_call(sine, SDS((3,), "float32"))(x)

    back = kernel_call(sine_back, SDS((3,), "float32"))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (back(x, g),))

    def loss(f, x):
        step = xlab.checkpoint(lambda c: f(c) + c)
        return lax.scan(lambda c, _: (step(c), c.sum()), x, None, length=3)[0].sum()

    x = jnp.array([1.0, 2.0, 3.0])
    with interpret_mode("value"):
        got = xlab.jit(xlab.grad(lambda x: loss(f, x)))(x)
    np.testing.assert_allclose(got, xlab.grad(lambda x: loss(jnp.sin, x))(x), rtol=1e-6)


def test_k99_transformations_of_calls_that_are_interpreted():
    def kernel(x, o):
        o[...] = jnp.sin(x[...])

    call = kernel_call(kernel, SDS((4,), "float32"), interpret="value")
    x = jnp.arange(4.0)
    want = np.sin(np.arange(4, dtype=np.float32))

    def close(got):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)

    close(xlab.jit(lambda p, x: lax.cond(p, call, lambda x: x, x))(True, x))
    close(lax.map(call, jnp.stack([x, x]))[1])
    close(xlab.checkpoint(call)(x))
    value, slope = xlab.jit(lambda x: xlab.jvp(call, (x,), (jnp.ones(4),)))(x)
    close(value)
    np.testing.assert_allclose(slope, np.cos(np.arange(4.0)), rtol=1e-6)
    f = xlab.custom_vjp(call)
    f.defvjp(lambda x: (call(x), x), lambda x, g: (g * jnp.cos(x),))
    np.testing.assert_allclose(
        xlab.jit(xlab.grad(lambda x: f(x).sum()))(x), np.cos(np.arange(4.0)), rtol=1e-6
    )


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_k86_arrays_of_numpy_have_the_types_of_programs(dtype):
    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = np.arange(3).astype(dtype)
    canonical = jnp.asarray(x).dtype
    call = kernel_call(copy, SDS((3,), canonical), interpret="value")
    (from_machine,) = Machine(call, x).run()
    for out in (call(x), from_machine):
        assert out.dtype == canonical
        np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("interpret", [True, "value"])
def test_k99_a_kernel_knows_the_place_of_its_device(interpret):
    def inner(v_ref, o_ref):
        o_ref[...] = v_ref[...] + lax.axis_index("b")

    def kernel(x_ref, o_ref):
        place = lax.axis_index("a") * 100 + lax.axis_index("b") * 10
        again = kernel_call(inner, SDS((), "int32"), interpret=interpret)(jnp.int32(0))
        o_ref[...] = x_ref[...] + place + again

    mesh = Mesh(np.array(xlab.devices()[:4]).reshape(2, 2), ("a", "b"))
    f = xlab.shard_map(
        kernel_call(kernel, SDS((1, 1), "int32"), interpret=interpret),
        mesh=mesh,
        in_specs=Spec("a", "b"),
        out_specs=Spec("a", "b"),
        check_vma=False,
    )
    out = xlab.jit(f)(jnp.zeros((2, 2), "int32"))
    np.testing.assert_array_equal(out, [[0, 11], [100, 111]])
