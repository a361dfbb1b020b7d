"""`core_map` (K78): functions that change the references they close over, on every core of a mesh."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.core.effects import ReadEffect, WriteEffect
from xlab.interpreters.discharge import discharge_state
from xlab.kernels import (
    CoreMemorySpace,
    CoreMesh,
    MemorySpace,
    core_map,
    core_map_p,
    interpret_mode,
    mpmd_map_p,
)
from xlab.kernels.machine import Machine

TWO = CoreMesh("c", 2)
LOCAL = MemorySpace.LOCAL
X = np.arange(8, dtype=np.float32)


def tripled(x, interpret=True, **options):
    source, target = xlab.new_ref(x), xlab.new_ref(jnp.zeros_like(x))

    @core_map(TWO, interpret=interpret, **options)
    def _():
        i = lax.axis_index("c")
        for k in range(4):
            target[i * 4 + k] = source[i * 4 + k] * 3

    return target[...]


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("interpret", ["compiled", "value"])
def test_k78_it_runs_on_every_core(wrap, interpret):
    """[D]: the reference has no eager rule, and its interpreter does not write references back."""
    f = wrap(lambda x: tripled(x, interpret))
    np.testing.assert_array_equal(f(X), X * 3)
    np.testing.assert_array_equal(xlab.vmap(f)(X[None]), X[None] * 3)


def test_k78_references_from_outside_of_jit():
    total = xlab.new_ref(jnp.zeros(2))

    @xlab.jit
    def add(x):
        @core_map(TWO, interpret=True)
        def _():
            i = lax.axis_index("c")
            total[i] = total[i] + x_ref[i]

    x_ref = xlab.new_ref(X)
    add(0), add(0)
    np.testing.assert_array_equal(total[...], [0, 2])


@pytest.mark.parametrize("by_name", [False, True])
def test_k78_scratch(by_name):
    out = xlab.new_ref(X)
    types = {"s": LOCAL((1,), "float32")} if by_name else [LOCAL((1,), "float32")]

    @core_map(TWO, interpret=True, **{"scratch_types" if by_name else "scratch_shapes": types})
    def _(s):
        i = lax.axis_index("c")
        s[0] = out[i] + 10
        out[i] = s[0]

    np.testing.assert_array_equal(out[...], [10, 11, *X[2:]])


def test_k78_one_spelling_at_a_time():
    with pytest.raises(TypeError, match="scratch_shapes and scratch_types are two names"):
        core_map(TWO, scratch_shapes=[], scratch_types=[])


def test_k78_it_returns_none():
    ref = xlab.new_ref(X)
    with pytest.raises(ValueError, match=r"test_core_map.py:\d+ should return None"):

        @core_map(TWO, interpret=True)
        def _():
            return ref[...]


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["eager", "jit"])
def test_k78_arrays_are_not_closed_over_and_numbers_are(wrap):
    def f(x, s):
        ref = xlab.new_ref(x)

        @core_map(CoreMesh("c", 1), interpret=True)
        def _():
            ref[...] = ref[...] * s

        return ref[...]

    np.testing.assert_array_equal(wrap(f)(X, jnp.float32(2)), X * 2)
    with pytest.raises(ValueError, match=r"captures constants float32\[8\].*pass them as inputs"):
        wrap(f)(jnp.asarray(X), jnp.asarray(X))


@pytest.mark.parametrize("mesh", [3, None, "c"])
def test_k78_a_mesh_of_cores(mesh):
    with pytest.raises(NotImplementedError, match="core_map takes a mesh of cores"):
        core_map(mesh)


def test_k78_it_discharges_to_mpmd_map():
    closed = xlab.make_jaxpr(tripled)(X)
    (eqn,) = [e for e in closed.eqns if e.primitive is core_map_p]
    assert eqn.outvars == []
    assert eqn.effects in (
        {ReadEffect(0), WriteEffect(1)},
        {ReadEffect(1), WriteEffect(0)},
    )
    assert eqn.params["name"] == "_"
    new = discharge_state(closed)
    (eqn,) = [e for e in new.eqns if e.primitive is mpmd_map_p]
    assert eqn.params["meshes"] == (TWO,)
    ((source, output),) = eqn.params["input_output_aliases"]
    assert output == 0
    assert 0 <= source < 2
    assert len(eqn.outvars) == 1


def test_k78_without_references_it_cannot_be_lowered():
    def f(x):
        @core_map(TWO, interpret=True)
        def _():
            xlab.debug.callback(lambda: None)

        return x

    with pytest.raises(ValueError, match="core_map of _ .*without discharging"):
        xlab.jit(f)(X)


def test_k78_memory_of_another_mesh():
    ref = xlab.new_ref(X)
    external = CoreMemorySpace(MemorySpace.SHARED, CoreMesh("d", 3, "scalar"))
    with pytest.raises(NotImplementedError, match="external meshes"):

        @core_map(TWO, interpret=True, scratch_types=[external((2,), "float32")])
        def _(s):
            ref[0] = 1.0


def test_k46_only_interpreted_on_cpu():
    ref = xlab.new_ref(X)

    def run():
        @core_map(TWO)
        def named():
            ref[0] = 5.0

    with pytest.raises(ValueError, match="only interpret mode is supported on CPU.*named"):
        run()
    with interpret_mode():
        run()
    assert float(ref[0]) == 5


def test_k81_the_machine_steps_through_it():
    """It works on copies: the references stay as they are."""
    ref = xlab.new_ref(X)

    def call():
        @core_map(TWO, interpret=True)
        def _():
            i = lax.axis_index("c")
            ref[i] = ref[i] + 10

    machine = Machine(call)
    machine.run()
    np.testing.assert_array_equal(
        machine.state()["buffers"]["captured[0]"]["values"], [10, 11, *X[2:]]
    )
    np.testing.assert_array_equal(ref[...], X)


def test_k51_debug_prints_the_jaxpr(capsys):
    tripled(X, debug=True)
    assert "jaxpr for vector" in capsys.readouterr().out


@pytest.mark.parametrize("n", [1, 3])
def test_k76_batches(n):
    xs = np.arange(8 * n, dtype=np.float32).reshape(n, 8)
    np.testing.assert_array_equal(xlab.vmap(tripled)(xs), xs * 3)


def test_k76_an_unbatched_call_stays_one_call():
    ref = xlab.new_ref(jnp.zeros(2))

    def f(x):
        @core_map(CoreMesh("c", 1), interpret=True)
        def _():
            ref[0] = ref[0] + 1

        return x

    xlab.vmap(f)(X)
    assert float(ref[0]) == 1


def test_k76_there_is_no_derivative():
    with pytest.raises(NotImplementedError, match="core_map has no derivative"):
        xlab.grad(lambda x: tripled(x).sum())(X)


@pytest.mark.reference
def test_k103_errors_are_those_of_the_reference():
    jax = pytest.importorskip("jax")
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu

    theirs = tpu.create_tensorcore_mesh("c", num_cores=2)
    array = np.ones(8, np.float32)

    def returns(n, mapped):
        def f(x):
            ref = n.new_ref(x)
            mapped(lambda: ref[...])

        return f

    def captures(n, mapped):
        def f(x, y):
            ref = n.new_ref(x)
            mapped(lambda: ref.__setitem__(..., ref[...] + y))

        return f

    for make, args, words in (
        (returns, (X,), "should return None"),
        (captures, (X, array), "captures"),
    ):
        with pytest.raises(ValueError, match=words):
            jax.jit(make(jax, pl.core_map(theirs, interpret=True)))(*args)
        with pytest.raises(ValueError, match=words):
            xlab.jit(make(xlab, core_map(TWO, interpret=True)))(*args)
