"""Random keys as arguments and results: native calls see their words, and put keys together again."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.errors import KeyReuseError
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P


def test_warm_calls_only_take_keys_apart_and_put_them_together(empty_native_cache, python_calls):
    f = xlab.jit(lambda t: (t["key"], t["x"] + 1))
    given = {"key": xlab.random.key(1), "x": jnp.ones(2)}
    f(given), f(given)
    out, calls = python_calls(f, given)
    assert set(calls) == {"<lambda>", "_of_words"} and len(calls) < 5, calls
    assert type(out[0]) is type(given["key"]) and out[0].dtype == given["key"].dtype
    assert xlab.random.key_data(out[0]).tolist() == [0, 1] and out[1].tolist() == [2.0, 2.0]


def test_keys_of_another_implementation_are_another_signature():
    f = xlab.jit(xlab.random.split)
    for _ in range(2):
        for impl in ("threefry2x32", "rbg"):
            keys = f(xlab.random.key(3, impl=impl))
            assert keys.shape == (2,)
            assert keys.dtype == xlab.random.key(0, impl=impl).dtype
            expected = xlab.random.split(xlab.random.key(3, impl=impl))
            words = xlab.random.key_data(keys), xlab.random.key_data(expected)
            assert np.array_equal(*words)


def test_words_and_keys_are_different_arguments():
    seen = []
    f = xlab.jit(lambda k: seen.append(xlab.typeof(k).str_short(short_dtypes=True)) or k)
    for _ in range(2):
        assert f(xlab.random.key(1)).shape == () and f(xlab.random.PRNGKey(1)).shape == (2,)
    assert seen == ["key<fry>[]", "u32[2]"]


def test_donated_keys_are_given_away_on_warm_calls():
    f = xlab.jit(lambda k: xlab.random.split(k)[0], donate_argnums=0)
    for _ in range(3):
        key = xlab.random.key(2)
        f(key)
        assert key.is_deleted()
    with pytest.raises(RuntimeError, match="deleted or donated"):
        f(key)


def test_programs_with_collectives_repeat_with_keys():
    mesh = xlab.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    x = xlab.device_put(np.arange(16, dtype=np.float32), NamedSharding(mesh, P("d")))
    key = xlab.device_put(xlab.random.key(3), NamedSharding(mesh, P()))

    def step(key, x):
        key, used = xlab.random.split(key)
        return key, (x * xlab.random.uniform(used, x.shape)).sum()

    f = xlab.jit(step)
    for given in (key, key, f(key, x)[0]):
        expected, total = step(given, x)
        made, sum_ = f(given, x)
        assert made.dtype == key.dtype and made.sharding.is_fully_replicated
        assert np.array_equal(xlab.random.key_data(made), xlab.random.key_data(expected))
        np.testing.assert_allclose(sum_, total, rtol=1e-6)


def test_reuse_is_found_on_warm_calls():
    f = xlab.jit(xlab.random.normal)
    key = xlab.random.key(4)
    f(key), f(key)
    with xlab.debug_key_reuse(True):
        key = xlab.random.key(4)
        f(key)
        with pytest.raises(KeyReuseError):
            f(key)
