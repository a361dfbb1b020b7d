"""`debug_nans` and `debug_infs`: which operation is blamed, and when nothing is said."""

from __future__ import annotations

import functools
import threading

import ml_dtypes
import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.compile import runtime_checks
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P


def blamed(f, *args, nans=True, infs=False) -> str | None:
    """The words after 'encountered in', or None where nothing is raised."""
    with xlab.debug_nans(nans), xlab.debug_infs(infs):
        try:
            xlab.block_until_ready(f(*args))
        except FloatingPointError as e:
            return str(e)
    return None


def test_the_primitive_and_the_users_line_are_named(capsys):
    def f(x):
        calls.append(1)
        y = jnp.sin(x) - 2
        return jnp.log(y)  # here

    calls: list = []
    message = blamed(xlab.jit(f), np.zeros(2, np.float32))
    assert message.startswith("invalid value (nan) encountered in log at ")
    line = f.__code__.co_firstlineno + 3
    assert f"{__file__}:{line}" in message
    assert len(calls) == 2
    assert (
        "Invalid nan value encountered in the output of a jitted function. Calling the de-optimized version."
        in capsys.readouterr().out
    )


def test_functions_inside_say_it_once(capsys):
    inner = xlab.jit(lambda x: jnp.log(x - 1))
    blamed(xlab.jit(lambda x: inner(x) + 1), np.zeros(2, np.float32))
    assert capsys.readouterr().out.count("Invalid nan value") == 1


@pytest.mark.parametrize("value", [np.zeros(2), np.zeros(2, np.float32), np.float32(0), 0.0])
def test_host_data_becomes_arrays_before_the_operations_run_alone(value):
    """In NumPy a division would warn and blame nothing, in Python it would be another error."""

    def f(x, n, *, k=1):
        return n * k * x / x  # here

    message = blamed(
        functools.partial(xlab.jit(f, static_argnums=1, static_argnames="k"), k=3), value, 2
    )
    assert (
        message
        == f"invalid value (nan) encountered in div at {__file__}:{f.__code__.co_firstlineno + 1} ({f.__qualname__})"
    )


def test_eager_operations_raise_at_once():
    assert blamed(lambda x: lax.div(x, x), np.float32(0)).startswith(
        "invalid value (nan) encountered in div"
    )
    assert blamed(lambda x: jnp.log(x), np.float32(0), nans=False, infs=True).startswith(
        "invalid value (inf) encountered in log"
    )


def test_nested_functions_are_followed():
    inner = xlab.jit(lambda x: jnp.log(x - 3))
    assert "encountered in log" in blamed(xlab.jit(lambda x: inner(x) + 1), np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("scan", lambda x: lax.scan(lambda c, _: (jnp.log(c - 1), None), x, None, length=2)[0]),
        ("while", lambda x: lax.while_loop(lambda c: (c < 1).all(), lambda c: jnp.log(c - 1), x)),
        ("cond", lambda x: lax.cond(x.sum() == 0, lambda c: jnp.log(c - 1), lambda c: c, x)),
    ],
)
def test_control_flow_is_named_whole(name, f):
    assert f"encountered in {name} at" in blamed(xlab.jit(f), np.zeros(2, np.float32))


def test_what_only_the_whole_program_does_is_explained():
    constant = np.array([np.nan], np.float32)
    message = blamed(xlab.jit(lambda x: constant, name="f"), np.float32(0))
    assert "jit(f)" in message and "one at a time" in message


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.complex64])
def test_every_inexact_type_is_looked_at(dtype):
    assert "encountered in div" in blamed(lambda x: lax.div(x, x), np.zeros(2, dtype))


def test_silence():
    zeros = np.zeros(2, np.float32)
    assert blamed(xlab.jit(lambda x: jnp.nan_to_num(jnp.log(x - 1))), zeros) is None
    assert blamed(jnp.log, zeros) is None
    assert blamed(lambda x: jnp.log(x - 1), zeros, nans=False, infs=True) is None
    assert blamed(lambda: xlab.device_put(np.array([np.nan], np.float32))) is None
    assert blamed(lambda: xlab.random.split(xlab.random.key(0))) is None
    assert blamed(xlab.jit(lambda x: x // 3), np.arange(3)) is None


def test_an_array_made_of_nans_is_refused():
    assert "nan" in blamed(lambda: jnp.array(np.array([np.nan], np.float32)))


def test_sharded_and_donated(mesh):
    x = xlab.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("data")))
    assert "encountered in log" in blamed(xlab.jit(lambda x: jnp.log(x)), x - 7.5)
    assert blamed(xlab.jit(lambda x: jnp.log(x + 1)), x) is None
    body = xlab.shard_map(
        lambda x: jnp.log(x - 3), mesh=mesh, in_specs=P("data"), out_specs=P("data")
    )
    assert "encountered in log" in blamed(xlab.jit(body), x)
    donated = xlab.jit(lambda x: jnp.log(x - 1), donate_argnums=0)
    assert "encountered in log" in blamed(donated, jnp.zeros(2))


def test_ahead_of_time():
    compiled = xlab.jit(lambda x: jnp.log(x - 1)).lower(1.0).compile()
    assert "encountered in log" in blamed(compiled, 0.0)
    assert np.isnan(compiled(0.0))


def test_gradients():
    assert "encountered in" in blamed(xlab.grad(lambda x: jnp.sqrt(x - x)), 0.0)
    assert "encountered in div" in blamed(
        xlab.grad(xlab.jit(lambda x: x * jnp.sqrt(x) / jnp.sqrt(x))), 0.0
    )


def test_callbacks():
    def nan(x):
        return np.float32(np.nan)

    f = lambda x: xlab.pure_callback(nan, xlab.ShapeDtypeStruct((), np.float32), x)
    assert "encountered in pure_callback" in blamed(f, 1.0)
    assert "encountered in pure_callback" in blamed(xlab.jit(f), 1.0)


def test_programs_known_before_are_looked_at_too():
    f = xlab.jit(lambda x: jnp.log(x - 1))
    for _ in range(3):
        f(0.0)
    assert "encountered in log" in blamed(f, 0.0)
    assert np.isnan(f(0.0))


def test_each_thread_decides_for_itself():
    found = []
    with xlab.debug_nans(True):
        thread = threading.Thread(target=lambda: found.append(np.isnan(jnp.log(-1.0))))
        thread.start()
        thread.join()
    assert found == [True]
    xlab.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            jnp.log(-1.0)
    finally:
        xlab.config.update("jax_debug_nans", False)


def test_nothing_is_read_when_nobody_asked():
    class Unreadable:
        def __getattr__(self, name):
            raise AssertionError("was read")

    assert runtime_checks.find([Unreadable()]) is None
