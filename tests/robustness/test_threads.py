"""Tracing, calls and config contexts from many threads at once; interrupts in the middle of things."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import xlab
from xlab import numpy as jnp

ROOT = Path(__file__).resolve().parents[2]


def together(work, count=8):
    """Runs `work(i)` in `count` threads that start at once; raises the first error."""
    errors, gate = [], threading.Barrier(count)

    def run(i):
        try:
            gate.wait()
            work(i)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


@pytest.mark.slow
def test_transformations_in_every_thread():
    """Each thread traces its own composition of everything; no tracer strays into another."""
    x = np.linspace(0.1, 1, 6, dtype=np.float32)

    def program(k):
        def f(x):
            def body(c, t):
                return jnp.tanh(c * t) + k, c

            c, ys = xlab.lax.scan(body, x[0], x)
            return jnp.where(c > 0, c, -c) + jnp.sum(ys)

        return f

    want = {k: (float(program(k)(x)), np.asarray(xlab.grad(program(k))(x))) for k in range(8)}
    xlab.clear_caches()

    def work(k):
        for _ in range(5):
            value, slope = xlab.jit(xlab.value_and_grad(program(k)))(x)
            np.testing.assert_allclose(value, want[k][0], rtol=1e-5)
            np.testing.assert_allclose(slope, want[k][1], rtol=1e-5)
            both = xlab.vmap(xlab.grad(program(k)))(np.stack([x, x]))
            np.testing.assert_allclose(both[1], want[k][1], rtol=1e-5)

    together(work)


def test_one_function_first_called_by_all():
    traced = []

    @xlab.jit
    def f(x):
        traced.append(None)
        return jnp.sin(x) @ x

    x = np.arange(5, dtype=np.float32)

    def work(i):
        for n in range(2, 12):
            np.testing.assert_allclose(
                f(x[: n % 5 + 1]), np.sin(x[: n % 5 + 1]) @ x[: n % 5 + 1], rtol=1e-4, atol=1e-5
            )

    together(work)
    assert (
        5 <= len(traced) <= 5 * 8
    )  # threads may trace the same thing; none may get another's program


def test_config_contexts_belong_to_their_thread():
    def work(i):
        for _ in range(20):
            with xlab.enable_x64(i % 2 == 0):
                assert jnp.arange(3.0).dtype == (np.float64 if i % 2 == 0 else np.float32)
                assert xlab.jit(lambda x: x * 2)(1.5).dtype == (
                    np.float64 if i % 2 == 0 else np.float32
                )

    together(work)
    assert jnp.arange(3.0).dtype == np.float32


def test_caches_cleared_while_others_work():
    stop = threading.Event()

    def clear():
        while not stop.is_set():
            xlab.clear_caches()

    janitor = threading.Thread(target=clear)
    janitor.start()
    try:

        def work(i):
            for n in range(6):
                assert float(xlab.jit(lambda x: x * i + n)(2.0)) == 2 * i + n

        together(work, 4)
    finally:
        stop.set()
        janitor.join()


INTERRUPTED = """
    import signal, sys, time, threading, numpy as np
    import xlab
    from xlab import numpy as jnp

    where, after = sys.argv[1], float(sys.argv[2])

    def slow(x):
        for i in range(3000):
            x = jnp.sin(x) * (i + 1.5)
            if where == "trace" and i == 1500:
                signal.raise_signal(signal.SIGINT)
        return x
    f = xlab.jit(slow)
    x = np.ones(3, np.float32)
    if where != "trace":
        threading.Timer(after, lambda: signal.raise_signal(signal.SIGINT)).start()
    try:
        f(x).block_until_ready()
        time.sleep(after + 1)
    except KeyboardInterrupt:
        pass
    # Everything works as if nothing had been: the same function, another one, gradients.
    small = xlab.jit(lambda x: jnp.sin(x) + 1)
    assert float(small(0.0)) == 1.0
    assert float(xlab.grad(lambda x: x * x)(3.0)) == 6.0
    where = ""
    y = f(x)
    assert y.shape == (3,)
    print("consistent")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "after"), [("trace", 0.0), ("compile", 0.05), ("compile", 0.4), ("compile", 1.0)]
)
def test_interrupts_leave_everything_usable(where, after):
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), where, str(after)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert "consistent" in child.stdout, child.stdout + child.stderr
