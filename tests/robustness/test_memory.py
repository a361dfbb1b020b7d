"""What is left behind: by compiles, by closures, by user arrays in caches.

`XLAB_COMPILES` raises the number of distinct compiles (400 here; a nightly run takes 10 000).
"""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

import xlab
from xlab import numpy as jnp
from xlab.backend import client
from xlab.compile import memory_cache

COMPILES = int(os.environ.get("XLAB_COMPILES", "400"))


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def compile_many(count, start):
    for i in range(start, start + count):
        shape = i % 7 + 1
        float(xlab.jit(lambda x: jnp.sum(jnp.tanh(x) * i))(np.ones(shape, np.float32)))


@pytest.mark.slow
def test_distinct_compiles_leave_nothing():
    """Executables, programs and rules are gone after `clear_caches`; memory stops growing."""
    sizes, executables = [], []
    step = max(COMPILES // 4, 1)
    for round_ in range(4):
        compile_many(step, round_ * step)
        xlab.clear_caches()
        gc.collect()
        sizes.append(resident())
        executables.append(len(client.client().live_executables()))
    assert executables[-1] <= executables[0] + 2, executables
    # The allocator keeps some of what it had; what each further round adds has to be far below what it used.
    assert sizes[-1] - sizes[1] < 20e6 + 2 * step * 4096, sizes


def test_functions_in_use_let_go_of_their_programs():
    """`clear_caches` reaches what a function that lives on has compiled, and the function works as before."""
    functions = [xlab.jit(lambda x, i=i: jnp.sin(x) * i) for i in range(20)]
    for f in functions:
        f(1.0)
    before = len(client.client().live_executables())
    xlab.clear_caches()
    gc.collect()
    assert len(client.client().live_executables()) <= before - 20
    np.testing.assert_allclose(functions[3](1.0), 3 * np.sin(1.0), rtol=1e-6)


def test_programs_go_before_the_memory_maps_do(monkeypatch):
    """Where the kernel grants a process few maps, programs are forgotten in time, and a warning says so."""
    f = xlab.jit(lambda x: jnp.cos(x) * 2)
    f(1.0)
    monkeypatch.setattr(memory_cache, "_BETWEEN_LOOKS", 1)
    monkeypatch.setattr(memory_cache, "memory_maps", lambda: (700, 1000))
    xlab.jit(lambda x: x + 1)(1.0)
    assert f._xlab_jit.executables
    monkeypatch.setattr(memory_cache, "memory_maps", lambda: (800, 1000))
    with pytest.warns(RuntimeWarning, match="800 of the 1000 memory maps.*test_memory.py:"):
        assert xlab.jit(lambda x: x + 2)(1.0) == 3
    assert not f._xlab_jit.executables
    monkeypatch.undo()
    assert f(0.0) == 2


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="the system does not list memory maps"
)
def test_maps_are_counted():
    used, granted = memory_cache.memory_maps()
    kept = [xlab.jit(lambda x, i=i: jnp.tanh(x) * i) for i in range(20)]
    for f in kept:
        f(1.0)
    assert used + 10 < memory_cache.memory_maps()[0] < granted < 2**40


def test_the_ledger_is_bounded():
    from xlab.compile.history import ledger

    for i in range(ledger.LIMIT // 50):
        float(xlab.jit(lambda x: x * i + 0.5)(1.0))
    assert ledger.entries and ledger.entries.maxlen == ledger.LIMIT <= 10_000


def test_a_jitted_function_dies_with_its_closure():
    class Big:
        pass

    big = Big()
    watched = weakref.ref(big)

    def use(big):
        f = xlab.jit(lambda x: x + 1 if big else x)
        f(1.0)
        xlab.jit(xlab.grad(lambda x: f(x) * x))(2.0)
        xlab.vmap(f)(np.ones(3, np.float32))

    use(big)
    del big
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: xlab.jit(lambda v: jnp.sin(v).sum())(x),
        lambda x: xlab.grad(lambda v: jnp.sin(v).sum())(x),
        lambda x: xlab.vmap(jnp.cos)(x),
        lambda x: xlab.vjp(lambda v: v * v, x)[1](x),
        lambda x: xlab.make_jaxpr(lambda v: v * 2)(x),
        lambda x: xlab.lax.scan(lambda c, v: (c + v, c), x[0], x),
        lambda x: x[1:3].at[0].set(5.0),
    ],
    ids=["eager", "jit", "grad", "vmap", "vjp", "make_jaxpr", "scan", "index"],
)
def test_no_cache_keeps_an_array(use):
    x = jnp.arange(6.0) + 0.5
    use(x)
    watched = weakref.ref(x)
    del x
    gc.collect()
    assert watched() is None


def test_what_a_program_closes_over_dies_with_it():
    def use():
        x = jnp.arange(100_000.0)
        f = xlab.jit(lambda v: v + x)
        f(1.0)
        return weakref.ref(x)

    watched = use()
    gc.collect()
    xlab.clear_caches()
    gc.collect()
    assert watched() is None


def test_an_error_while_tracing_keeps_nothing():
    x = jnp.arange(6.0)
    watched = weakref.ref(x)
    with pytest.raises(TypeError):
        xlab.jit(lambda v: xlab.lax.add(v, np.ones(3, np.int32)))(x)
    del x
    gc.collect()
    assert watched() is None


def test_live_arrays_after_many_runs():
    def step(w, x):
        return w - 0.1 * xlab.grad(lambda w: jnp.sum((x @ w) ** 2))(w)

    f = xlab.jit(step, donate_argnums=0)
    w, x = jnp.ones((3, 2)), jnp.ones((4, 3))
    w = f(w, x)
    gc.collect()
    before = len(xlab.live_arrays())
    for _ in range(50):
        w = f(w, x)
    gc.collect()
    assert len(xlab.live_arrays()) == before


def gradient_by_rule(held):
    f = xlab.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct * held.size,))
    return xlab.jit(xlab.grad(lambda x: f(x)))(1.0)


def printed(held):
    def f(x):
        xlab.debug.callback(lambda v: held, x)
        return x

    return xlab.jit(f)(1.0)


def computed_outside(held):
    return xlab.jit(
        lambda x: xlab.pure_callback(
            lambda v: np.float32(held.size), xlab.ShapeDtypeStruct((), np.float32), x
        )
    )(1.0)


@pytest.mark.parametrize("make", [gradient_by_rule, printed, computed_outside])
def test_what_a_fresh_function_closes_over_goes_with_it(make):
    """A loop that makes a rule or a callback in each turn keeps none of them."""

    class Held:
        size = 1

    left = []
    for _ in range(5):
        held = Held()
        left.append(weakref.ref(held))
        make(held)
        del held
    xlab.effects_barrier()
    gc.collect()
    assert [ref() for ref in left] == [None] * 5
