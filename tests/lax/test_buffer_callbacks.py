"""Python functions on the memory of a program."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental.buffer_callback import ExecutionStage, buffer_callback

THREE = xlab.ShapeDtypeStruct((3,), np.float32)


def double(ctx, out, x):
    assert ctx.stage == ExecutionStage.EXECUTE and out.writeable and not x.writeable
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    np.asarray(out)[...] = 2 * np.asarray(x)


def test_results_are_written_in_place():
    f = buffer_callback(double, THREE)
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(f(x), [0, 2, 4])
    np.testing.assert_array_equal(xlab.jit(lambda x: f(x + 1) + 1)(x), [3, 5, 7])
    assert xlab.make_jaxpr(f)(x).eqns[0].primitive.name == "buffer_callback"


def test_trees_of_buffers():
    def write(ctx, out, pair, *, k):
        np.asarray(out["sum"])[...] = np.asarray(pair[0]) + np.asarray(pair[1])
        np.asarray(out["scaled"])[...] = np.asarray(k)[...] * np.asarray(pair[0])

    f = buffer_callback(write, {"scaled": THREE, "sum": THREE})
    out = xlab.jit(lambda a, b: f((a, b), k=jnp.float32(10)))(jnp.ones(3), jnp.arange(3.0))
    np.testing.assert_array_equal(out["sum"], [1, 2, 3])
    np.testing.assert_array_equal(out["scaled"], [10, 10, 10])


def test_a_result_in_the_memory_of_an_operand():
    def add_one(ctx, out, x):
        np.asarray(out)[...] += 1

    f = buffer_callback(add_one, THREE, input_output_aliases={0: 0})
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(xlab.jit(f)(x), [1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2])
    with pytest.raises(ValueError, match="cannot share its memory"):
        f(jnp.arange(4.0))


def test_vmap():
    one = xlab.ShapeDtypeStruct((), np.float32)
    for method in ("sequential", "broadcast_all"):
        f = buffer_callback(double, one, vmap_method=method)
        np.testing.assert_array_equal(xlab.vmap(f)(jnp.arange(3.0)), [0, 2, 4])
    with pytest.raises(NotImplementedError, match="vmap_method=None"):
        xlab.vmap(buffer_callback(double, one))(jnp.arange(3.0))


def test_derivatives_need_a_rule():
    with pytest.raises(ValueError, match="do not support JVP"):
        xlab.grad(lambda x: buffer_callback(double, THREE)(x).sum())(jnp.ones(3))


def test_an_exception_is_the_error_of_the_program():
    def fails(ctx, out, x):
        raise ZeroDivisionError("on purpose")

    with pytest.raises(xlab.errors.JaxRuntimeError, match="on purpose"):
        xlab.block_until_ready(buffer_callback(fails, THREE)(jnp.ones(3)))


def test_a_call_for_its_effect():
    seen = []
    f = buffer_callback(
        lambda ctx, out, x: seen.append(np.asarray(x).sum()), None, has_side_effect=True
    )
    xlab.jit(lambda x: (f(x), x)[1])(jnp.ones(3)).block_until_ready()
    xlab.effects_barrier()
    assert seen == [3]


def test_one_of_several_devices_starts_no_program_of_several():
    """These devices run it when this one has ended, which waits for the callback."""
    mesh = xlab.make_mesh((2,), ("x",), devices=xlab.devices()[:2])
    x = xlab.device_put(np.ones(4, np.float32), xlab.NamedSharding(mesh, xlab.P("x")))
    total = xlab.jit(lambda x: x.sum())
    total(x).block_until_ready()

    def inside(ctx, out, part):
        np.asarray(out)[...] = total(x)

    call = buffer_callback(inside, xlab.ShapeDtypeStruct((2,), np.float32))
    mapped = xlab.shard_map(
        call, mesh=mesh, in_specs=xlab.P("x"), out_specs=xlab.P("x"), check_vma=False
    )
    with pytest.raises(Exception, match="started inside a host callback of another one"):
        xlab.block_until_ready(xlab.jit(mapped)(x))
    with pytest.raises(Exception, match="started inside a host callback of another one"):
        xlab.effects_barrier()  # each of its devices has an error
