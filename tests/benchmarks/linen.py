"""A train step of a linen transformer with dropout and adamw, under JAX and under xlab in its place, in alternating processes.

Needs the extra `libraries`. `python -m tests.benchmarks.linen` prints the processor time of each side and the ratio of the medians:
importing the runtime and then the libraries, tracing and lowering the step, calling the compiled step.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOALS = {"import the runtime": 1.0, "import flax and optax": 1.0, "trace and lower": 0.35, "warm step": 1.0}  # fmt: skip
SIDES = ("jax", "xlab")
STEPS = 200


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


def main(rounds: int = 4) -> None:
    """Measures each side `rounds` times and prints the ratios beside the goals."""
    told: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES if number % 2 else SIDES[::-1]:
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.linen", side],
                cwd=ROOT,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
                capture_output=True,
                text=True,
                check=True,
            )
            told[side].append(json.loads(done.stdout.splitlines()[-1]))
    for name, goal in GOALS.items():
        theirs, ours = (statistics.median(one[name] for one in told[side]) for side in SIDES)
        print(f"{name:24}{1e3 * theirs:10.1f} ms{1e3 * ours:10.1f} ms{ours / theirs:8.2f}  goal {goal}")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
