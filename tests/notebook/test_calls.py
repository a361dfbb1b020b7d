"""The calls that magics take: whatever runs as a plain call, written as it is, with errors at the user's own lines."""

from __future__ import annotations

import re

import pytest
from IPython.utils.capture import capture_output

import xlab
from tests.notebook.shells import loaded, run_well, shown
from xlab import observe

SETUP = """
import xlab as jax
from xlab import lax, observe, numpy as jnp
from xlab.sharding import NamedSharding, PartitionSpec as P
x = jnp.arange(4.0)
def chain(a, n):
    for _ in range(n):
        a = jnp.sin(a)
    return a.sum()
def counted(a, s=()):
    return a * len(s)
def picked(d):
    return d['a'] * 2
def twice(c, a):
    return c + a, c
def halved(a, rate):
    return a / 2 if rate > 0.5 else a
"""

CALLS = ("xstep", "xladder", "xflow", "xtime", "xhlo", "xmem", "xjit")
"""Magics that take a call."""


@pytest.fixture
def lab(shell):
    """A shell with the extension and a few functions."""
    with loaded(shell, SETUP) as made:
        yield made


@pytest.fixture
def run(lab):
    """Runs a cell that must succeed; returns all text it showed."""

    def go(source):
        outputs, printed = run_well(lab, source)
        return printed + shown(outputs)

    return go


@pytest.fixture
def traceback(lab):
    """Runs a cell that must fail; returns the traceback it shows."""

    def go(source):
        with capture_output() as got:
            result = lab.run_cell(source, store_history=True)
        assert not result.success
        return got.stdout

    return go


@pytest.mark.parametrize(
    "call",
    [
        "jnp.zeros((3,))",
        "jnp.zeros([2, 3], jnp.int32)",
        "jnp.reshape(x, (2, 2))",
        "jnp.einsum('i,i->', x, x)",
        "lax.scan(twice, 0.0, x)",
        "lax.fori_loop(0, 2, lambda i, a: a * 2, x)",
        "chain(a=x, n=2)",
        "halved(x, 0.7)",
        "counted(x, s={'k'})",
        "picked({'a': x})",
    ],
)
def test_whatever_runs_as_a_plain_call_is_shown(run, call):
    for magic in CALLS:
        shown = run(f"%{magic} {call}")
        assert "left out: jvp: the jaxpr" not in shown and shown.strip(), magic


def test_two_steppers_of_shapes_and_names(run):
    assert "The runs part at step 1" in run("%xstep chain(x, 1) --against chain(x + 1, 1)")
    assert "equations" in run("%xdiff jnp.zeros((3,)) jnp.ones(shape=[3])")


@pytest.mark.parametrize("magic", CALLS)
def test_names_stay_python_values(run, magic):
    assert run(f"%{magic} --static n chain(x, 3)").strip()


def test_two_programs_with_names_of_their_own(run):
    run("def halves(x, k):\n    for _ in range(k): x = x / 2\n    return x")
    run("jitted = jax.jit(chain, static_argnames='n')")
    for line in (
        "--static n chain(x, 2) chain(x, 4)",
        "--static n,k chain(x, 2) halves(x, k=3)",
        "--static k jitted(x, 2) halves(x, 3)",
    ):
        assert "equations" in run(f"%xdiff {line}"), line
    run("def weighed(x, w, n):\n    return chain(x * w, n)")
    two = "--mesh data=4,model=2 --in 'x=data' --in 'w=data'"
    assert "all_" in run(f"%xdiff {two} --static n weighed(x.repeat(8), x.repeat(8), 2)")
    for line in ("chain(x, 2) halves(x, 3) --static n,q", "jitted(x, 2) jitted(x, 3) --static n"):
        with pytest.raises(ValueError, match="none has an argument"):
            run(f"%xdiff {line}")


def test_a_ladder_is_of_the_first_argument_that_holds_arrays(run):
    run("fixed = jax.jit(lambda n, a, b=1.0: (jnp.sin(a) * n * b).sum(), static_argnums=0)")
    for call in ("fixed(2, x)", "fixed(2, x, b=3.0)", "jnp.einsum('i,i->', x, x)"):
        assert "f → jvp → linearize → transpose → grad → vmap" in run(f"%xladder {call}")
    with pytest.raises(ValueError, match="the first argument is not of real"):
        run("%xladder --rungs grad --argnums 0 jnp.einsum('i,i->', x, x)")


def test_a_function_that_branches_on_values_and_takes_words_is_stepped(run):
    run("def worded(a, how):\n    return jnp.sin(a) if how == 'sin' and a.sum() > 0 else a")
    assert "sin a" in run("%xstep worded(x, 'sin')")


def test_a_program_that_uses_the_executable_of_an_equal_one_is_shown(run):
    run("def one(a): return a * 3\ndef other(a): return a * 3")
    run("%xmem one(x)")
    assert "other: peak 32 B" in run("%xmem other(x)")


def test_a_number_that_is_held_is_told_from_an_equal_one(run):
    run(
        "kinds = []\ndef kind(a, n):\n    kinds.append(type(range(int(n))) and n)\n    return a * n"
    )
    run("%xhlo kind(x, 1)\n%xhlo kind(x, True)\n%xhlo kind(x, 1.0)")
    # The function changes what it reads, so it is traced anew more than once.
    run("seen = [repr(n) for n in kinds if type(n) in (int, bool, float)]")
    run("assert list(dict.fromkeys(seen)) == ['1', 'True', '1.0'], seen")


def test_the_line_is_taken_as_it_is_written(lab, run):
    """The shell's braces and dollars stand for values of the notebook in lines that hold no Python."""
    run("k, s, n = 'other', set(), 4")
    shown = run("%xstep counted(x, s={'k', 'l'})")
    assert "counted: 1 step" in shown and "2.0:f32[]" in shown
    with pytest.raises(TypeError, match="unhashable"):
        run("%xstep counted(x, s={s})")
    with pytest.raises(ValueError, match=r"unreduced axes: \{'b'\}"):  # the spec, not the braces
        run("%xshard P('a', unreduced={'b'}) --shape 8 --mesh a=4,b=2")
    assert "data=4" in run("%xmesh data={n}")


FAILING = """
def nn(a):
    b = a - 1
    return jnp.log(b)
def bad(v):
    raise ValueError('boo')
def inner(a):
    return jax.pure_callback(bad, jax.ShapeDtypeStruct((4,), 'float32'), a * 2)
def outer(a):
    return inner(a) + 1
def grouped(a):
    raise ExceptionGroup('several', [ValueError('b'), TypeError('c')])
"""


def arrows(text: str) -> list[str]:
    """The lines that a traceback points at."""
    return [
        line.split(maxsplit=2)[2]
        for line in text.splitlines()
        if line.startswith("-") and ">" in line
    ]


@pytest.mark.parametrize("magic", ["xstep", "xtime", "xjit"])
def test_an_error_while_running_is_at_the_line_of_its_equation(run, traceback, magic):
    run(FAILING)
    with xlab.debug_nans(True):
        text = traceback(f"%{magic} nn(x)")
    assert arrows(text)[-1] == "return jnp.log(b)" and "(nn)" in text
    text = traceback(f"%{magic} outer(x)")
    assert arrows(text)[-2:] == ["return inner(a) + 1", CALLBACK]
    assert re.search(r"called at line 7 of \S+ \(inner\)", text)


CALLBACK = "return jax.pure_callback(bad, jax.ShapeDtypeStruct((4,), 'float32'), a * 2)"


def test_an_error_while_a_cell_runs_is_at_the_line_of_the_cell(run, traceback):
    run(FAILING + "gone = jnp.ones(3)\ngone.delete()")
    text = traceback("%%xjit\nw = 3\ny = outer(x)")
    assert arrows(text)[-3:] == ["y = outer(x)", "return inner(a) + 1", CALLBACK]
    assert arrows(traceback("%%xjit --quiet\nw = 3\n\ny = nn(gone)")) == ["y = nn(gone)"]


@pytest.mark.parametrize(
    "source", ["%xstep grouped(x)", "%xtime grouped(x)", "%%xjit\ny = grouped(x)"]
)
def test_a_group_of_errors_has_the_users_frames_alone(lab, run, capsys, source):
    run(FAILING)
    lab.run_cell(source)
    text = "".join(capsys.readouterr())
    assert "raise ExceptionGroup('several'" in text and "TypeError: c" in text
    assert "xlab" not in text and "interactiveshell.py" not in text


def test_what_ends_a_cell_is_at_its_line(lab, traceback):
    assert arrows(traceback("%%xjit\nw = 3\nraise GeneratorExit(3)")) == ["raise GeneratorExit(3)"]
    with pytest.raises(GeneratorExit), observe.record() as session:
        lab.run_cell("w = 3\nraise GeneratorExit(3)", store_history=True).raise_error()
    source = observe.report(session).error.source
    assert re.fullmatch(r"In\[\d+\]", source.file) and (source.line, source.function) == (2, "")


def test_an_expression_is_shown_where_it_fails(traceback):
    text = traceback("%xshard nope + 1")
    assert arrows(text) == ["nope + 1"] and "Could not get source" not in text
