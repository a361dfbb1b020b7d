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
