"""A compiled object runs natively once the types and shardings of its arguments were checked."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp


def compiled(f, *args, **options):
    return xlab.jit(f, **options).lower(*args).compile()


def test_later_calls_with_the_same_types_run_no_python_of_ours(monkeypatch):
    from xlab.compile import ahead

    f = compiled(lambda x, y: {"sum": x + y}, jnp.ones(3), 1.0)
    calls = []
    check = ahead.check
    monkeypatch.setattr(ahead, "check", lambda *a: calls.append(a) or check(*a))
    for _ in range(3):
        assert f(jnp.ones(3), 2.0)["sum"].tolist() == [3.0, 3.0, 3.0]
    assert len(calls) == 1


def test_other_types_and_structures_are_refused_after_native_calls_too():
    f = compiled(lambda x: x + 1, jnp.ones(3))
    f(jnp.ones(3)), f(jnp.ones(3))
    with pytest.raises(TypeError, match="other types"):
        f(jnp.ones(4))
    with pytest.raises(TypeError, match="another structure"):
        f([jnp.ones(3)])
    assert f(np.ones(3, np.float32)).tolist() == [2.0, 2.0, 2.0]


def test_static_arguments_are_compared_at_every_call():
    f = compiled(lambda x, n: x * n, jnp.ones(2), 3, static_argnums=1)
    assert f(jnp.ones(2)).tolist() == f(jnp.ones(2)).tolist() == [3.0, 3.0]
    assert f(jnp.ones(2), 3).tolist() == f(jnp.ones(2), 3).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="other values of its static arguments"):
        f(jnp.ones(2), 4)


def test_donated_arguments_and_checks_keep_their_meaning():
    f = compiled(lambda x: x + 1, jnp.ones(3), donate_argnums=0)
    x = jnp.ones(3)
    f(jnp.ones(3)), f(x)
    with pytest.raises(RuntimeError):
        f(x)
    g = compiled(jnp.log, jnp.ones(3))
    g(jnp.ones(3)), g(jnp.ones(3))
    with xlab.debug_nans(True), pytest.raises(FloatingPointError):
        g(-jnp.ones(3))


def test_nothing_keeps_a_compiled_object_alive():
    f = compiled(lambda x: x + 1, jnp.ones(3))
    f(jnp.ones(3)), f(jnp.ones(3))
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_x81_which_programs_native_code_repeats_is_said_with_the_reason():
    mesh = xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
    rows = xlab.sharding.NamedSharding(mesh, xlab.sharding.PartitionSpec("i"))
    x = xlab.device_put(np.arange(8, dtype=np.float32), rows)
    layout = xlab.sharding.Format(xlab.sharding.Layout((0,)), rows)

    def said(f, *args, **options):
        return repr(xlab.jit(f, name="f", **options).lower(*args).compile())

    assert said(lambda v: v + 1, x) == "Compiled(f, 8 device(s), calls are repeated by native code)"
    for text, why in (
        (said(lambda v: v.sum(), x), "its devices wait for one another"),
        (
            said(lambda v: xlab.pure_callback(np.sin, v, v), np.float32(1)),
            "effects, such as callbacks",
        ),
        (said(lambda v: v, x, in_shardings=layout), "layouts were asked for"),
        (said(lambda t, v: (t, v), xlab.lax.create_token(), 1.0), "no ordinary array"),
    ):
        assert "each call starts in Python: " in text and why in text
