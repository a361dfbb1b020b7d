"""A train step of a linen transformer with dropout and adamw, under JAX and under xlab in its place.

python -m tests.benchmarks --only "linen transformer"

Needs the extra `libraries`. What is compared is processor time: importing the runtime and then the libraries, tracing and lowering the
step, calling the compiled step. One process of its own measures all rows of a round.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.cases import LONG, NEEDS, benchmark

ROOT = Path(__file__).resolve().parents[2]
GOALS = {"import the runtime": 1.0, "import flax and optax": 1.0, "trace and lower": 0.35, "warm step": 1.0}  # fmt: skip
STEPS = 200


@functools.cache
def measured(side: str) -> dict[str, float]:
    """Seconds by row, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.linen", side],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "XLAB_NUM_CPU_DEVICES": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["?"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def row(what: str, goal: float) -> None:
    name = f"linen transformer, {what}"

    @benchmark(name, goal, "step" if what == "warm step" else "once")
    def run(n, quick):
        return measured(n.name)[what]

    LONG.add(name)
    NEEDS[name] = ("flax", "optax")


for _what, _goal in GOALS.items():
    row(_what, _goal)


def measure(side: str) -> dict[str, float]:
    """Seconds of processor time on one side, in this process."""
    found, clock = {}, time.process_time
    begun = clock()
    if side == "xlab":
        import xlab.as_jax  # noqa: F401
    import jax
    import jax.numpy as jnp

    found["import the runtime"], begun = clock() - begun, clock()
    import optax
    from flax import linen as nn

    found["import flax and optax"] = clock() - begun
    width, heads, layers, words = 64, 4, 4, 64

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            attend = nn.MultiHeadDotProductAttention(heads, dropout_rate=0.1, deterministic=not train)  # fmt: skip
            x = x + attend(nn.LayerNorm()(x))
            h = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(nn.LayerNorm()(x))))
            return x + nn.Dropout(0.1, deterministic=not train)(h)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens, train=False):
            x = nn.Embed(words, width)(tokens)
            for _ in range(layers):
                x = Block()(x, train)
            return nn.Dense(words)(nn.LayerNorm()(x))

    model, tx = Model(), optax.adamw(1e-3)
    tokens = jax.random.randint(jax.random.key(0), (8, 32), 0, words)
    params = model.init(jax.random.key(1), tokens)["params"]
    state, key = tx.init(params), jax.random.key(2)

    def step(params, state, key):
        def loss(p):
            logits = model.apply({"params": p}, tokens, train=True, rngs={"dropout": key})
            return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()  # fmt: skip

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    times = []
    for _ in range(3):
        begun = clock()
        jax.jit(lambda *args: step(*args)).trace(params, state, key).lower()
        times.append(clock() - begun)
    found["trace and lower"] = min(times)
    call, times = jax.jit(step), []
    for _ in range(STEPS):
        begun = clock()
        params, state, value = jax.block_until_ready(call(params, state, key))
        times.append(clock() - begun)
    assert jnp.isfinite(value)
    found["warm step"] = statistics.median(times[5:])
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
