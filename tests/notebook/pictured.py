"""Records of every view for programs of a hundred to a hundred thousand equations: a transformer's train step on a 4×2 mesh, its layers unrolled."""

from __future__ import annotations

import itertools

import numpy as np

import xlab
from tests.notebook.test_export import of_every_view
from tests.notebook.views import sample
from tests.notebook.views.each import full
from tests.observe.sample_programs import put
from xlab import lax, nn, observe
from xlab import numpy as jnp
from xlab.observe.records import Failure, Record, Report
from xlab.observe.records.diff import Diff
from xlab.observe.records.ladder import Ladder

WIDTH, HEADS = 64, 4
A_LAYER = 190
"""Equations that a layer brings to a train step."""

COMPILED = 1_000
"""The largest program that is compiled: ten times as much takes half an hour. What only a compiler knows of a larger one is that of a part, over and over."""


def normalized(scale, x):
    middle = x - jnp.mean(x, -1, keepdims=True)
    return scale * middle * lax.rsqrt(jnp.mean(middle * middle, -1, keepdims=True) + 1e-5)


def attention(p, x):
    q, k, v = (jnp.reshape(x @ p[w], (*x.shape[:2], HEADS, -1)) for w in ("wq", "wk", "wv"))
    weights = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4)
    return jnp.reshape(jnp.einsum("bhqk,bkhd->bqhd", weights, v), x.shape) @ p["wo"]


def block(p, x):
    x = x + attention(p, normalized(p["ln1"], x))
    return x + nn.gelu(normalized(p["ln2"], x) @ p["up"]) @ p["down"]


def loss(params, x, y):
    for p in params:
        x = block(p, x)
    return jnp.mean((x - y) ** 2)


def train_step(params, x, y):
    value, slopes = xlab.value_and_grad(loss)(params, x, y)
    return value, xlab.tree.map(lambda p, g: p - 0.1 * g, params, slopes)


def arguments(layers: int):
    """Megatron's placement, but one: the last product's operand lies as nobody would put it, which costs a collective."""
    draw = np.random.RandomState(0)

    def some(*shape):
        return draw.standard_normal(shape) / 8

    def layer():
        return {
            **{w: put(some(WIDTH, WIDTH), None, "model") for w in ("wq", "wk", "wv")},
            "wo": put(some(WIDTH, WIDTH), "model", None),
            "up": put(some(WIDTH, 4 * WIDTH), None, "model"),
            "down": put(some(4 * WIDTH, WIDTH), None, "model"),
            "ln1": put(np.ones(WIDTH)),
            "ln2": put(np.ones(WIDTH)),
        }

    return [layer() for _ in range(layers)], *(put(some(8, 16, WIDTH), "data") for _ in range(2))


def report(equations: int) -> Report:
    """The report of a train step of about so many equations."""
    if equations > COMPILED:
        return _times(report(COMPILED), equations // COMPILED)
    layers = max(1, round(equations / A_LAYER))
    step, args = xlab.jit(train_step if equations > 2 * A_LAYER else loss), arguments(layers)
    with observe.record() as session:
        xlab.block_until_ready(step(*args))
    session.profile = observe.profile(step, *args)
    return observe.report(
        session,
        title="train_step",
        trace=observe.trace(step, *args),
        passes=observe.passes(step, *args),
        measured=(observe.time(step, *args, repeat=3),),
    )


def _times(part: Report, times: int) -> Report:
    """A program as many times as large, traced; what the compiler said of the part stands there as often."""
    layers = round(COMPILED * times / A_LAYER)
    traced = xlab.jit(train_step).trace(*arguments(layers))
    whole = observe.program(traced)
    (one,) = part.programs
    far = len(whole.equations) // times

    def moved(records):
        return tuple(
            record.replace(equation=record.equation + n * far) if record.equation >= 0 else record
            for n, record in itertools.product(range(times), records)
        )

    def often(level):
        """A module that goes on with its own lines, each of which comes from an equation of its own."""
        count = level.text.count("\n") + 1
        links = tuple((line + n * count, tuple(e + n * far for e in equations)) for n in range(times) for line, equations in level.links)  # fmt: skip
        heat = tuple((line + n * count, us) for n in range(times) for line, us in level.heat)
        return level.replace(text="\n".join([level.text] * times), links=links, heat=heat)

    return part.replace(
        programs=(whole.replace(levels=tuple(map(often, one.levels))),),
        costs=(observe.cost(traced, compile=False),),
        layouts=moved(part.layouts),
        transfers=moved(part.transfers),
        findings=moved(part.findings),
        memory=tuple(
            m.replace(buffers=_in_turn(moved(m.buffers), len(m.buffers))) for m in part.memory
        ),
    )


def _in_turn(buffers, count: int):
    """Buffers of a program and, after them, those of the next part: temporaries in its turn, all else during the whole."""
    steps = 1 + max(b.end for b in buffers)
    far = max(b.offset + b.size for b in buffers)
    last = steps * len(buffers) // count - 1
    return tuple(
        b.replace(start=b.start + n // count * steps, end=b.end + n // count * steps)
        if b.kind == "temporary"
        else b.replace(start=0, end=last, offset=b.offset + n // count * far)
        for n, b in enumerate(buffers)
    )


def records(equations: int) -> dict[type[Record], Record]:
    """A record for each view. Of those that do not grow with a program, a hand-made one."""
    made = report(equations)
    rich = full(sample.report())
    whole = made.replace(
        mesh=made.mesh or sample.MESH,
        kernels=rich.kernels,
        processes=rich.processes,
        targets=rich.targets,
        trace=made.trace or rich.trace,
    )
    found = {**of_every_view(rich, "train_step"), Report: whole}
    for one in (*whole.programs, whole.trace, *whole.layouts[-1:], *whole.transfers[:1], whole.ledger, *whole.memory, *whole.costs, *whole.timelines):  # fmt: skip
        if type(one) in found:
            found[type(one)] = one
    args = arguments(max(1, min(equations, 10 * COMPILED) // 500))
    found[Ladder] = observe.ladder(loss, *args, rungs=("jvp", "linearize", "grad"), argnums=1)
    args = arguments(1)
    one = observe.diff((loss, *args), (lambda p, x, y: loss(p, x * 2, y), *args))
    found[Diff] = one.replace(pairs=one.pairs * max(1, equations // len(one.pairs)))
    return found


def failed(found: Report) -> Report:
    """A report of a cell that raised, which has a card for its error."""
    where = next(e.source for p in found.programs for e, _ in p.walk() if e.source is not None)
    return found.replace(
        error=Failure("TypeError", "dot_general requires contracting dimensions to have the same shape, got (64,) and (63,).", where, "trace"),
        programs=(), layouts=(), transfers=(), memory=(), costs=(), findings=(), patterns=(), timelines=(),
        passes=(), kernels=(), processes=None, targets=(), trace=None,
    )  # fmt: skip
