"""The names of known ways to divide work, and that what has none is in the findings."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.observe.overview.finding_cases import held, put
from xlab import observe
from xlab.observe.overview.findings import proved
from xlab.observe.programs.stages import program_stages

X = np.ones((8, 16), np.float32)
TOKENS = (np.full((8, 4, 6), 0.5, np.float32), "data")
ENTRIES = (np.full(6, 0.5, np.float32),)


def _layer_norm(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale


def _batch_norm(x):
    x = x - x.mean((0, 1))
    return x / jnp.sqrt((x**2).mean((0, 1)) + 1e-5)


def _written_out(b, x):
    """The gradient of a bias by hand, from a derivative that `vjp` gave, and two steps."""
    for _ in range(2):
        _, back = xlab.vjp(jnp.tanh, x + b)
        (d,) = back(jnp.ones_like(x))
        b = b - 0.1 * d.sum((0, 1))
    return b


def _steps(b, x):
    """Two steps: the second one's examples meet the bias that the first one's gradient moved."""
    for _ in range(2):
        b = b - 0.1 * xlab.grad(lambda b: (jnp.tanh(x + b) ** 2).sum())(b)
    return b


def _inner(x):
    return xlab.jit(lambda mean: jnp.tanh(mean))(jnp.tanh(x).mean((0, 1)))


GRADIENT, STATISTICS, REDUCTION = (
    "data-parallel gradient sum", "batch statistics", "reduction over devices"
)  # fmt: skip


@pytest.mark.parametrize(
    ("f", "given", "names"),
    [
        (xlab.grad(lambda b, x: (jnp.tanh(x + b) ** 2).sum()), ENTRIES, {GRADIENT}),
        (xlab.grad(lambda s, x: (_layer_norm(jnp.tanh(x), s) ** 2).sum()), ENTRIES, {GRADIENT}),
        (_written_out, ENTRIES, {GRADIENT}),
        (_steps, ENTRIES, {GRADIENT}),
        (lambda b, x: (jnp.tanh(x + b) ** 2).sum((0, 1)), ENTRIES, {REDUCTION}),
        (lambda b, x: jnp.tanh(x + b).mean((0, 1)) @ b, ENTRIES, {REDUCTION}),
        (lambda b, x: _batch_norm(jnp.tanh(x + b)), ENTRIES, {STATISTICS}),
        (lambda b, x: jnp.tanh(x + b) - _inner(x), ENTRIES, {STATISTICS}),
        (lambda b, x: x / jnp.sqrt((jnp.tanh(x) ** 2).sum()) + b, ENTRIES, {REDUCTION}),
        (lambda b, x: (jnp.tanh(x + b) ** 2).sum(), ENTRIES, {"sum of a loss over devices"}),
        (lambda b, x: jnp.tanh(x + b).max((0, 1)), ENTRIES, {REDUCTION}),
    ],
    ids=[
        "gradient of a bias", "gradient of a scale", "gradient by hand", "two steps", "loss of each entry", "pooled", "batch norm",
        "mean through a call", "norm", "loss", "maximum",
    ],
)  # fmt: skip
def test_a_sum_over_batch_and_sequence_is_named_by_what_becomes_of_it(f, given, names):
    found = observe.findings(xlab.jit(f), put(*given), put(*TOKENS), tries=0)
    assert {p.name for p in found.patterns} == names
    assert found.surprises == 0


def _reshards(x):
    return [held(held(x * k, None, "model") + 1, "data") for k in range(3)]


@pytest.mark.parametrize("tries", [0, 4])
@pytest.mark.parametrize(
    ("f", "spec"),
    [
        (lambda x: x.max(0), ("data",)),
        (lambda x: jnp.exp(x - x.max(-1, keepdims=True)).sum(-1), (None, "model")),
        (lambda x: x.argmax(-1), (None, "model")),
        (lambda x: jnp.sort(x, 0), ("data",)),
        (lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(8)), ("data",)),
        (lambda x: x[jnp.arange(3)], ("data",)),
        (lambda x: held(x.T, "data"), ("data",)),
        (_reshards, ("data",)),
    ],
    ids=["maximum", "softmax", "argmax", "sort", "factorization", "rows", "transpose", "four"],
)
def test_every_surprise_is_in_a_finding(f, spec, tries):
    """And a report, its text and the findings count the same."""
    x = put(X, *spec)
    found = observe.findings(xlab.jit(f), x, tries=tries)
    assert sum(f.collectives for f in found) == found.surprises
    assert found.surprises + sum(p.count for p in found.patterns) == found.collectives > 0
    with observe.record() as session:
        xlab.jit(f)(x)
    report = observe.report(session)
    told = sum(f.collectives for f in report.findings)
    assert told == sum(t.surprises for t in report.transfers) == found.surprises


def test_what_was_told_without_a_change_is_proved_with_it():
    x = put(X, "data")
    stages = program_stages(xlab.jit(lambda x: jnp.cumsum(x, 0)), (x,))
    (untried,) = observe.findings(stages, tries=0)
    done = proved(stages, untried)
    assert (untried.kind, done.kind) == ("resharding", "removable collective")
    assert done.change and "it is gone" in done.proof
    hard = program_stages(xlab.jit(lambda x: jnp.linalg.inv(x @ x.T + 9 * jnp.eye(8))), (x,))
    (stays,) = observe.findings(hard, tries=0)
    assert "nothing becomes less" in proved(hard, stays).proof and not proved(hard, stays).change
