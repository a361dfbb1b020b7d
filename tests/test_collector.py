"""The collector waits while rooms are imported, and is then as it was."""

import gc
import subprocess
import sys

import pytest

from xlab.collector import paused


@pytest.fixture(autouse=True)
def as_before():
    collecting = gc.isenabled()
    yield
    (gc.enable if collecting else gc.disable)()


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
