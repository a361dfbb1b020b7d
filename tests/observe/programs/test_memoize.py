"""Records are kept as long as what they are of, and keep nothing alive themselves."""

from __future__ import annotations

import gc
import weakref

import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe
from xlab.observe.overview.inspection import measured
from xlab.observe.programs.memoize import memoize
from xlab.observe.programs.stages import program_stages

X = jnp.ones((4, 4))


def reported(f, stages):
    with observe.record() as session:
        f(X)
    observe.report(session, prove=True)


@pytest.mark.parametrize(
    "ask", [lambda f, s: measured(s), reported, lambda f, s: observe.findings(f, X)]
)
def test_a_program_that_nobody_has_is_let_go_of(ask):
    def looked_at():
        f = xlab.jit(lambda x: jnp.sin(x) @ x)
        stages = program_stages(f, (X,))
        executable = weakref.ref(stages.executable)
        ask(f, stages)
        return executable

    executable = looked_at()
    xlab.clear_caches()
    gc.collect()
    assert executable() is None


def test_records_are_made_once():
    stages = program_stages(xlab.jit(lambda x: x * 2).lower(X).compile())
    made = []
    for _ in range(2):
        memoize(stages, "a key", lambda: made.append(1) or "a record")
    assert made == [1]
    assert measured(stages).memory is measured(stages).memory
