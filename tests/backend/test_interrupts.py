"""An interrupt during a long compile: the process lives, and the next compile works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from xlab.backend.client import _release
from xlab.backend.uninterruptible import run_uninterruptible

ROOT = Path(__file__).resolve().parents[2]
LONG = """
import os, signal, threading
import xlab
from xlab import numpy as jnp
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's background jobs inherit that it is ignored
def f(y):
    for i in range(1500):
        y = jnp.sin(y) * 1.01 + i
    return y
x = jnp.ones((8, 4))
for delay in (0.3, 0.6):
    timer = threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        xlab.block_until_ready(xlab.jit(lambda y: f(y) + delay)(x))
        timer.join()
    except KeyboardInterrupt:
        print("interrupted")
print(xlab.jit(jnp.sin)(x).shape)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as posix systems send them")
def test_the_process_survives():
    done = subprocess.run(
        [sys.executable, "-c", LONG],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "interrupted" in done.stdout and done.stdout.endswith("(8, 4)\n")


def test_errors_come_through():
    with pytest.raises(ZeroDivisionError):
        run_uninterruptible(lambda: 1 / 0)


def test_the_waiting_can_be_interrupted():
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or threading.current_thread() is not threading.main_thread()
    ):
        pytest.skip("SIGINT is handled by somebody else")
    go = threading.Event()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_uninterruptible(go.wait)
    finally:
        go.set()


def test_an_interrupt_of_the_garbage_collection_arrives_later():
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or threading.current_thread() is not threading.main_thread()
    ):
        pytest.skip("the main thread does not take interrupts here")

    def interrupted():
        raise KeyboardInterrupt

    _release("stop", {"generation": 2}, interrupted)
    with pytest.raises(KeyboardInterrupt):
        time.sleep(5)
