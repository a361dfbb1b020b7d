"""The collector waits while rooms are imported, and is then as it was."""

import contextlib
import gc
import subprocess
import sys

import pytest

import xlab
from xlab.collector import in_strides, paused


@pytest.fixture(autouse=True)
def as_before():
    collecting, threshold = gc.isenabled(), gc.get_threshold()
    yield
    (gc.enable if collecting else gc.disable)()
    gc.set_threshold(*threshold)


@pytest.mark.parametrize("collecting", [True, False])
def test_it_is_as_before_also_after_an_error_and_in_one_another(collecting):
    (gc.enable if collecting else gc.disable)()
    with pytest.raises(KeyError), paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()  # the outer block goes on
        raise KeyError
    assert gc.isenabled() is collecting


@pytest.mark.beside
def test_importing_collects_little_and_leaves_the_collector_on():
    code = (
        "import gc, numpy\n"
        "seen = []\n"
        "gc.callbacks.append(lambda phase, info: seen.append(phase))\n"
        "import xlab, xlab.lax, xlab.numpy\n"
        "print(len(seen) // 2, gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    collections, enabled = done.stdout.split()
    assert int(collections) < 20 and enabled == "True"  # 70 where it does not wait


def test_what_stays_is_old_at_once_and_what_was_frozen_stays_frozen():
    def generation(made):
        return next(g for g in range(3) if any(x is made for x in gc.get_objects(g)))

    gc.enable()
    gc.unfreeze()  # the tests themselves
    try:
        with paused(stays=True):
            made = [object()]
        assert generation(made) == 2
    finally:
        gc.freeze()
    frozen = gc.get_freeze_count()
    with paused(stays=True):
        later = [object()]
    assert gc.get_freeze_count() >= frozen - 5 and generation(later) < 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_trace_has_it_come_less_often_and_leaves_it_as_before(fails):
    gc.set_threshold(700, 10, 10)
    seen = []

    def f(x):
        seen.append(gc.get_threshold())
        y = xlab.grad(lambda x: seen.append(gc.get_threshold()) or xlab.jit(lambda x: x * x)(x))(x)
        if fails:
            raise KeyError
        return y

    with pytest.raises(KeyError) if fails else contextlib.nullcontext():
        xlab.make_jaxpr(f)(1.0)
    assert len(seen) == 2 and {s[0] for s in seen} == {20_000} and {s[1] for s in seen} == {10}
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [(0, 10, 10), (30_000, 5, 5)])
def test_a_program_that_has_its_own_pace_keeps_it(threshold):
    gc.set_threshold(*threshold)
    with in_strides():
        assert gc.get_threshold()[0] == threshold[0]
    gc.set_threshold(700, 10, 10)
    with in_strides():
        gc.set_threshold(*threshold)
    assert gc.get_threshold()[0] == threshold[0]
