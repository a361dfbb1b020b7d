"""Operations run one at a time: what runs, what is remembered, where, and which errors come (D1, D4 to D10); and beside the reference."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.compile import dispatch_cases
from tests.reference.records import on_reference
from xlab import events, lax
from xlab.backend import compiling
from xlab.compile import dispatch
from xlab.config import config
from xlab.core.primitive import Primitive
from xlab.extend import core
from xlab.interpreters import mlir, xla

X = np.arange(4, dtype=np.float32)

# -- beside the reference -----------------------------------------------------------------------------------

# A committed array on the device where the program was compiled for uncommitted ones: the module serves both.
ON_PURPOSE = {"D10 one device": [["T sin", "L jit(sin)", "C jit(sin)"], ["C jit(sin)"], []]}


@pytest.mark.reference
def test_every_case_is_as_in_the_reference():
    reference = on_reference(dispatch_cases)
    try:
        ours = dispatch_cases.records("xlab")
    finally:
        xlab.monitoring.clear_event_listeners()
    theirs = reference()
    assert ours.keys() == theirs.keys() and len(ours) > 90
    wrong = {k: (ours[k], theirs[k]) for k in ours if ours[k] != theirs[k] and k not in ON_PURPOSE}
    assert not wrong
    for name, stages in ON_PURPOSE.items():
        assert ours[name] == stages


# -- the cache of one-operation programs --------------------------------------------------------------------


def test_d1_types_of_the_runtime_have_public_names():
    x = jnp.ones(2)
    (device,) = x.devices()
    assert isinstance(device, xlab.Device) and isinstance(x, xlab.Array)
    assert isinstance(device.client, type(xlab.extend.backend.get_backend()))
    compiled = xlab.jit(lambda v: v + 1).lower(x).compile()
    assert type(compiled.runtime_executable()) is compiling.Executable
    options = xlab.extend.backend.get_compile_options(1, 1)
    assert type(options) is type(compiling.compile_options([device]))


def test_d4_results_are_values_lists_and_weak_where_the_operand_is():
    assert type(dispatch.apply_primitive(lax.sin_p, X)) is type(jnp.asarray(X))
    two = dispatch.apply_primitive(lax.sort_p, X, X, dimension=0, is_stable=True, num_keys=1)
    assert isinstance(two, list) and len(two) == 2
    assert dispatch.apply_primitive(lax.neg_p, 3).weak_type
    assert not dispatch.apply_primitive(lax.neg_p, np.int32(3)).weak_type


def test_d5_programs_are_kept_by_primitive_and_parameters():
    xlab.clear_caches()
    assert dispatch.eager_cache_info()[:2] == (0, 0)
    assert dispatch.eager_cache_info().maxsize == 4096
    with events.tally() as counts:
        for x in (X, np.ones(5, np.float32), np.ones(5, np.float32)):
            lax.sin(x)  # other shapes are told apart by the jit of that program
        assert counts["eager_cache_miss"] == 1
        with xlab.default_matmul_precision("float32"):  # what tracing depends on is in the key
            lax.sin(X)
        assert counts["eager_cache_miss"] == 2
        lax.argmax(X, 0, np.int32)
        lax.argmax(X, 0, np.int8)
        assert counts["eager_cache_miss"] == 4
    assert dispatch.eager_cache_info()[:2] == (2, 4)
    xlab.clear_caches()
    assert dispatch.eager_cache_info() == (0, 0, 4096, 0)


def test_d5_the_function_of_a_program_says_what_it_is():
    fun = dispatch._callable(lax.sin_p, (), config.trace_context())
    assert fun.__name__ == fun.__qualname__ == "sin" and fun.__wrapped__._apply_primitive
    assert fun.lower(X).as_text().startswith("module @jit_sin")
    with pytest.raises(TypeError, match=r"'sin' got a parameter that cannot be hashed.*unhashable"):
        lax.sin_p.bind(X, accuracy=[1])


def test_d6_a_primitive_with_types_and_a_lowering_runs_eagerly_and_in_programs():
    double = Primitive("double")
    double.def_abstract_eval(lambda a: a)
    mlir.register_text_lowering(
        double, mlir.lower_fun(lambda x: lax.add(x, x), multiple_results=False)
    )
    for run in (lambda f: f, xlab.jit):
        np.testing.assert_array_equal(run(lambda x: double.bind(x))(np.ones(2, np.float32)), [2, 2])
    double.def_impl(functools.partial(xla.apply_primitive, double))
    np.testing.assert_array_equal(double.bind(X), 2 * X)
    double.impl = None
    double.bind(X)
    assert isinstance(X, xla.Backend) is False and isinstance(xlab.devices()[0].client, xla.Backend)
    # The eager rule is nothing but `apply_primitive`, which a rule of one's own replaces.
    assert double.impl.func is dispatch.apply_primitive
    double.def_impl(lambda x: "mine")
    assert double.bind(X) == "mine"


def test_d8_operations_are_compiled_where_jit_is_off_and_the_setting_stays():
    seen = []
    ran = []
    listener = lambda e: ran.append(e.kind) if e.kind == "compile" else None
    xlab.clear_caches()
    events.add(listener)
    try:
        with xlab.disable_jit():
            xlab.jit(lambda x: seen.append(type(x)) or lax.cos(x))(jnp.asarray(X))
            assert ran == ["compile"]
            with pytest.raises(TypeError, match="shapes"):
                lax.add(X, np.ones(3, np.float32))
            others = []
            thread = threading.Thread(target=lambda: others.append(config.disable_jit))
            thread.start()
            thread.join()
            assert config.disable_jit and others == [False]
    finally:
        events.remove(listener)
    assert seen == [type(jnp.ones(1))] and not config.disable_jit


def test_d9_masked_arrays_are_refused_where_their_mask_would_be_lost():
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    for f in (lax.sin, jnp.sin, jnp.asarray, xlab.device_put, xlab.jit(lambda x: x)):
        with pytest.raises(ValueError, match=r"masked arrays.*x\.filled\(0\)"):
            f(masked)
    np.testing.assert_array_equal(jnp.array(masked), [1, 2])  # which copies the data, as NumPy does


def test_d9_operands_that_are_no_arrays_are_named_with_their_position_and_type():
    for f, words in (
        (lambda: lax.add(X, "hi"), "add takes arrays.*operand 1 is 'hi' of type str"),
        (lambda: lax.sin(object()), "sin takes arrays.*operand 0 is .* of type object"),
    ):
        with pytest.raises(TypeError, match=words):
            f()
    toy = core.Primitive("toy_without_types")
    for run, rule in ((lambda f: f, "Evaluation rule"), (xlab.jit, "Abstract evaluation")):
        with pytest.raises(NotImplementedError, match=f"{rule} for 'toy_without_types' not impl"):
            run(lambda x: toy.bind(x))(X)
