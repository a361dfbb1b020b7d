"""How long What if searches the placements of a train step of a transformer with twelve layers over 64 devices.

`python -m tests.benchmarks.search [--json PATH]` prints the time of a whole search, its proof included, beside the goal of a minute, and
how long it was until the first progress; exit status 1 where a goal is missed or the search did not come to its end.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import xlab
from xlab import numpy as jnp
from xlab import observe
from xlab.observe.sharding.experiment import mesh_of
from xlab.sharding import NamedSharding, PartitionSpec

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = 12, 512, 8, 1024, 128, 64


def step(params, tokens):
    """A step of gradient descent."""

    def normed(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def block(p, x):
        q, k, v = (
            (normed(x) @ p[name]).reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS)
            for name in ("wq", "wk", "wv")
        )
        weights = xlab.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(BATCH, LENGTH, WIDTH) @ p["wo"]
        return x + xlab.nn.gelu(normed(x) @ p["up"]) @ p["down"]

    def loss(params):
        x = params["embed"][tokens]
        for p in params["layers"]:
            x = block(p, x)
        logits = xlab.nn.log_softmax(x @ params["embed"].T)
        return -jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], -1).mean()

    value, grads = xlab.value_and_grad(loss)(params)
    return xlab.tree.map(lambda p, g: p - 1e-3 * g, params, grads), value


def arguments():
    """Types of the parameters, all of them on all devices, and of a batch that is split over `data`."""
    mesh = mesh_of({"data": 8, "model": 8})

    def typed(*shape, dtype=np.float32, spec=PartitionSpec()):
        return xlab.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    layer = dict.fromkeys(("wq", "wk", "wv", "wo"), (WIDTH, WIDTH))
    layer |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    layers = [{name: typed(*shape) for name, shape in layer.items()} for _ in range(LAYERS)]
    tokens = typed(BATCH, LENGTH, dtype=np.int32, spec=PartitionSpec("data"))
    return {"embed": typed(WORDS, WIDTH), "layers": layers}, tokens


def measure() -> list[dict]:
    """What was measured, with its goal."""
    begun, first = time.perf_counter(), []
    experiment = observe.Experiment(xlab.jit(step), *arguments())
    found = experiment.search(progress=lambda _: first.append(time.perf_counter()))
    spent = time.perf_counter() - begun
    better = found.better
    print(
        f"{found.tried:,} placements tried, done: {found.done}; now {found.now.step_us:.0f} us, best "
        f"{better.step_us if better else found.now.step_us:.0f} us"
    )
    return [
        {"what": "the whole search", "value": spent if found.done else float("inf"), "goal": 60.0, "unit": "s"},
        {"what": "until it says how far it is", "value": first[0] - begun, "goal": 10.0, "unit": "s"},
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Prints the table; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.search", description=__doc__)
    parser.add_argument("--json", metavar="PATH", help="also write everything measured to PATH")
    given = parser.parse_args(argv)
    found = measure()
    for row in found:
        missed = "" if row["value"] <= row["goal"] else "   missed"
        print(f"{row['what']:30} {row['value']:6.1f} s  goal {row['goal']:.0f} s{missed}")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1) + "\n")
    return int(any(row["value"] > row["goal"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
