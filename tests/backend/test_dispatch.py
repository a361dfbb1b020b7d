import copy
import sys

import numpy as np
import pytest

import xlab
from tests.backend import toys
from xlab.backend import dispatch
from xlab.config import config, disable_jit, enable_x64

X = np.arange(16, dtype=np.float32)


@pytest.mark.parametrize("devices", [1, 8])
def test_second_call_runs_no_python(devices):
    sharding = toys.single() if devices == 1 else toys.along("x")
    fn, misses = toys.toy_jit(sharding)
    x = toys.put(X, sharding)
    y = fn(x)
    calls = []
    sys.setprofile(
        lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        y = fn(y)
        y = fn(y)
    finally:
        sys.setprofile(None)
    assert calls == []
    assert len(misses) == 1
    assert dispatch.signature_count(fn) == 1
    np.testing.assert_array_equal(toys.gather(y), X * 8)


def test_flags_that_change_tracing_are_part_of_the_signature():
    fn, misses = toys.toy_jit(toys.single())
    x = toys.put(X, toys.single())
    fn(x), fn(x)
    with enable_x64(True):
        fn(x), fn(x)
    fn(x)
    assert len(misses) == 2
    previous = config.set_context_value("test_value", "a")
    try:
        fn(x), fn(x)
        assert len(misses) == 3
    finally:
        config.set_context_value("test_value", previous)
    fn(x)
    assert len(misses) == 3


def test_global_change_is_seen_in_a_thread_with_its_own_values():
    fn, misses = toys.toy_jit(toys.single())
    x = toys.put(X, toys.single())
    config.set_context_value("test_value", "a")
    try:
        fn(x)
        config.update("check_jaxpr", not config.check_jaxpr)
        fn(x)
        assert len(misses) == 2
    finally:
        config.update("check_jaxpr", not config.check_jaxpr)
        config.set_context_value("test_value", None)


def test_disable_jit_calls_the_function_itself():
    fn, misses = toys.toy_jit(toys.single())
    with disable_jit():
        assert fn(3) == 3
    assert misses == []


def test_an_error_in_the_miss_function_reaches_the_user():
    def miss(x):
        raise ZeroDivisionError("mine")

    fn = dispatch.native_jit("f", lambda x: x, miss, (), (), object(), lambda *a: None)
    with pytest.raises(ZeroDivisionError, match="mine"):
        fn(1)


def test_clearing_makes_functions_miss_again():
    fn, misses = toys.toy_jit(toys.single())
    x = toys.put(X, toys.single())
    fn(x)
    dispatch.clear_native_caches()
    fn(x)
    assert len(misses) == 2


def test_an_object_that_holds_compiled_functions_is_copied():
    scale = 3.0

    class Model:
        def __init__(self):
            self.step = xlab.jit(lambda x: x * scale)

    model = Model()
    for copied in (copy.deepcopy(model), copy.deepcopy({"held": model})["held"]):
        assert copied.step(2.0) == 6.0
