"""What a program carries of how it came to be."""

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.compile.history.provenance import provenance

X = np.ones(8, np.float32)


def notes_of(jitted, *args):
    return provenance(jitted.trace(*args).jaxpr)


def test_why_from_where_and_for_what():
    def scaled(x, by=2.0):
        return lax.mul(x, np.float32(by))

    f = xlab.jit(scaled)
    first, second = notes_of(f, X), notes_of(f, X[:4])
    assert "never seen" in first.reason and not first.differences and first.made_by == ()
    assert first.position == f"{__file__}:{scaled.__code__.co_firstlineno}"
    assert second.reason == "`x` went from f32[8] to f32[4]" and second.differences == (
        ("shape", "x", "f32[8]", "f32[4]"),
    )
    assert (
        [a.shape for a in second.traced.avals] == [(4,)]
        and second.traced.closure == {"by": "2.0"}
        and first is notes_of(f, X)
    )


def test_transformations_around_the_function():
    notes = notes_of(xlab.jit(xlab.grad(xlab.jit(lambda x: lax.mul(x, x)))), np.float32(2))
    assert notes.made_by == ("grad", "jit") and __file__ in notes.position


def test_a_program_inside_another_is_nobody_elses_key():
    seen = []

    def f(x):
        y = inner(x)
        seen.append(provenance(inner.trace(x).jaxpr))
        return y

    inner = xlab.jit(lambda x: lax.neg(x))
    xlab.jit(f).trace(X)
    assert seen[0].traced is None and "never seen" in seen[0].reason


def test_jits_that_compiled_it_and_a_compile_that_an_error_ended(monkeypatch):
    from xlab.backend import compiling

    def f(x):
        return lax.neg(x)

    one, other = xlab.jit(f), xlab.jit(f, keep_unused=True)
    one(X), other(X)
    notes = notes_of(one, X)
    assert [who() for who, *_ in notes.owners] == [
        one._xlab_jit.programs,
        other._xlab_jit.programs,
    ] and not notes.ended
    third = xlab.jit(f, name="third")
    with monkeypatch.context() as m, pytest.raises(RuntimeError, match="no room"):
        m.setattr(
            compiling,
            "compile_text",
            lambda *a, **k: (_ for _ in ()).throw(RuntimeError("no room")),
        )
        third(X)
    assert len(notes.owners) == 2 and len(notes.ended) == 1
