"""A call of what `jit` made, a `Traced`, `Lowered` or `Compiled`, or of a jaxpr: every magic takes it, shows what it is and compiles nothing again."""

from __future__ import annotations

import pytest

from xlab import observe

SETUP = """
import numpy as np, xlab
from xlab import numpy as jnp
mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
t = xlab.device_put(np.ones((32, 8), np.float32), xlab.NamedSharding(mesh, xlab.P("data")))
w = xlab.device_put(np.ones((8, 4), np.float32), xlab.NamedSharding(mesh, xlab.P()))
def looked_at(t, w):
    return jnp.tanh(t.T @ t).sum() + (t @ w).sum()
f = xlab.jit(looked_at)
tr = f.trace(t, w)
low = tr.lower()
comp = low.compile()
jaxpr = tr.jaxpr
"""
MAGICS = {
    "%xjit": "1 collective",
    "%xflow": "all_reduce add",
    "%xhlo": "all-reduce",
    "%xhlo --passes": "before propagation",
    "%xmem": "arguments",
    "%xtime": "no cold time: compiled before)",
    "%xtime --profile": "no cold time: compiled before)",
    "%xstep": "7 steps recorded",
    "%xladder": "jvp of dot_general",
}


@pytest.fixture
def run(shell):
    from IPython.utils.capture import capture_output

    def go(source):
        with capture_output() as got:
            shell.run_cell(source).raise_error()
        return got.stdout + "\n".join(o.data.get("text/plain", "") for o in got.outputs)

    shell.run_line_magic("load_ext", "xlab")
    go(SETUP)
    return go


def compiles():
    return observe.text(observe.ledger()).split("\n")[0]


@pytest.mark.parametrize("form", ["tr", "low", "comp"])
def test_every_magic_takes_every_stage_and_compiles_nothing(run, form):
    before = compiles()
    for magic, word in MAGICS.items():
        assert word in run(f"{magic} {form}(t, w)"), magic
    assert "all_reduce   1" in run(f"%xdiff {form}(t, w) f(t, w) --repeat 2")
    assert compiles() == before
    run(f"got = %xjit {form}(t, w)")
    assert run("print(float(got) == float(f(t, w)))").strip() == "True"


def test_a_stage_that_takes_arguments_by_name(run):
    run("named = f.trace(t, w=w).lower()")
    assert "all_reduce   1" in run("%xdiff named(t, w=w) f(t, w) --repeat 2")
    assert "all_reduce add" in run("%xflow named(t, w=w)")


def test_a_jaxpr_is_compiled_where_its_arguments_lie(run):
    for magic, word in MAGICS.items():
        assert word.rstrip(")") in run(f"{magic} jaxpr(t, w)"), magic


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%xflow low(t, t)", r"`w`: compiled for f32\[8,4\], called with f32\[32,8\]"),
        ("%xhlo comp(t)", "`w` is missing"),
        ("%xladder tr(t, t)", r"`w`: compiled for f32\[8,4\]"),
        ("%xtime --cold low(t, w)", "looked_at is a Lowered, whose function was traced before"),
        ("%xtime --static w low(t, w)", "for a function that is not compiled yet; 'Lowered'"),
    ],
)
def test_other_arguments_and_options_are_refused(run, line, said):
    with pytest.raises((TypeError, ValueError), match=said):
        run(line)
