"""Programs whose devices wait for one another: they take turns, and repeated calls are answered from what is known."""

import threading

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.backend import compiling
from xlab.compile.dispatch_cache import PythonDispatchCache
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P


@pytest.fixture
def total(mesh8):
    return xlab.jit(
        xlab.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh8, in_specs=P("x"), out_specs=P())
    )


@pytest.fixture
def mesh8():
    return xlab.make_mesh((8,), ("x",), axis_types=xlab.sharding.AxisType.Auto)


def sharded(mesh, n=16):
    return xlab.device_put(np.arange(n, dtype=np.float32), NamedSharding(mesh, P("x")))


def answered(fun):
    """The jitted function's dispatch cache."""
    return fun._xlab_jit.dispatch_cache._entries


def test_which_programs_communicate(mesh8, total):
    x = sharded(mesh8)
    assert compiling.communicates(total.lower(x).compile()._executable.native)
    assert not compiling.communicates(
        xlab.jit(lambda x: x + 1).lower(x).compile()._executable.native
    )


def test_hundreds_in_flight_from_several_threads(mesh8, total):
    """More programs at once than the runtime has threads for: each still ends, with the right answer."""
    x = sharded(mesh8)
    want = np.asarray(x).reshape(8, 2).sum(0)
    wrong = []

    def work():
        outs = [total(x) for _ in range(100)]
        wrong.extend(o for o in outs if not np.array_equal(o, want))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_repeated_call_skips_tracing_and_sees_new_values(mesh8, total):
    x = sharded(mesh8)
    total(x)
    assert len(answered(total)) == 1
    assert np.array_equal(total(x * 2), np.asarray(total(x)) * 2)
    assert len(answered(total)) == 1


def test_other_types_placements_and_contexts_are_other_calls(mesh8):
    calls = []

    @xlab.jit
    def f(x):
        calls.append(x.dtype)
        return xlab.lax.with_sharding_constraint(x, NamedSharding(mesh8, P())) + 1

    x = sharded(mesh8)
    f(x), f(x)
    assert len(calls) == 1
    f(sharded(mesh8, 8))
    f(x.astype(np.int32))
    assert len(calls) == 3
    y = xlab.device_put(x, NamedSharding(mesh8, P()))
    assert np.array_equal(f(y), np.asarray(x) + 1)
    with xlab.enable_x64(True):
        f(x)
    assert len(calls) == 4


def test_clearing_forgets(mesh8, total):
    x = sharded(mesh8)
    total(x)
    xlab.clear_caches()
    assert PythonDispatchCache.find(total._xlab_jit.dispatch_cache, [x], None, ()) is None
    assert np.array_equal(total(x), np.asarray(x).reshape(8, 2).sum(0))
    total.clear_cache()
    assert not answered(total)


def test_deleted_arguments_are_named(mesh8, total):
    x = sharded(mesh8)
    total(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        total(x)


def test_donated_arguments_are_gone_after_a_repeat(mesh8):
    f = xlab.jit(
        lambda x: xlab.lax.with_sharding_constraint(x, NamedSharding(mesh8, P())).sum() + x,
        donate_argnums=0,
    )
    x = y = sharded(mesh8)
    for _ in range(3):
        x, y = f(x), x
    assert y.is_deleted() and not x.is_deleted()


def test_static_arguments_and_trees(mesh8):
    @xlab.jit(static_argnums=1)
    def f(tree, n):
        return {"s": xlab.lax.with_sharding_constraint(tree["a"], NamedSharding(mesh8, P())) * n}

    x = sharded(mesh8)
    for n in (2, 3, 2, 3):
        assert np.array_equal(f({"a": x}, n)["s"], np.asarray(x) * n)


@pytest.mark.parametrize("where", ["host", "device", "mesh"])
def test_a_program_with_large_constants_answers_again_and_again(where):
    big = np.arange(512 * 64, dtype=np.float32).reshape(512, 64) / 1e4
    x = xlab.device_put(np.ones((8, 512), np.float32))
    if where == "mesh":
        mesh = xlab.make_mesh(
            (4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2
        )
        held = xlab.device_put(big, xlab.NamedSharding(mesh, xlab.P(None, "model")))
        x = xlab.device_put(x, xlab.NamedSharding(mesh, xlab.P("data")))
    else:
        held = xlab.device_put(big) if where == "device" else big
    f = xlab.jit(lambda x: x @ held)
    for _ in range(4):
        np.testing.assert_allclose(f(x), np.ones((8, 512)) @ big, rtol=1e-4)


@pytest.mark.parametrize("devices", [1, 8])
def test_large_constants_stay_on_the_native_path(devices, python_calls):
    big = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) / 1e4
    x = np.ones((8, 64), np.float32)
    if devices > 1:
        x = xlab.device_put(
            x,
            xlab.NamedSharding(
                xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,)), xlab.P("i")
            ),
        )
    else:
        x = xlab.device_put(x)
    f = xlab.jit(lambda unused, a: a @ big)
    expected = np.ones((8, 64)) @ big
    for _ in range(3):
        np.testing.assert_allclose(f(x, x), expected, rtol=1e-4)
    out, calls = python_calls(f, x, x)
    assert calls == []
    np.testing.assert_allclose(out, expected, rtol=1e-4)


def test_large_constants_beside_donation_and_ordered_effects(capsys):
    big = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)

    def f(a):
        xlab.debug.print("{}", a.sum(), ordered=True)
        return a + big

    g = xlab.jit(f, donate_argnums=0)
    for _ in range(3):
        a = xlab.numpy.ones((64, 32))
        np.testing.assert_array_equal(g(a), 1 + big)
        assert a.is_deleted()
    xlab.effects_barrier()
    assert capsys.readouterr().out == "2048.0\n" * 3
    found = observe.memory(f, xlab.numpy.ones((64, 32)))
    assert {"constant 0", "a"} <= {b.name for b in found.buffers}
