"""Who called the code that an equation comes from."""

from __future__ import annotations

import functools
import importlib
import sys

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax, observe
from xlab.core.jaxpr import open_jaxpr
from xlab.observe.arrays import allocation_sites


def inner(x):
    return jnp.tanh(x)


def middle(x):
    return inner(x) * 2


def outer(x):
    return middle(x) + middle(x)


X = np.ones(3, np.float32)


def paths(jaxpr):
    """The functions that lead to each equation, of each trace."""
    return [
        (e.primitive.name, *[[code.co_name for code, _ in s] for s in e.source_info.segments])
        for e in jaxpr.eqns
    ]


def test_equations_know_the_functions_that_lead_to_them():
    found = paths(xlab.make_jaxpr(outer)(X).jaxpr)
    assert [(name, within) for name, *_, within in found] == [
        ("tanh", ["outer", "middle", "inner"]),
        ("mul", ["outer", "middle"]),
        ("tanh", ["outer", "middle", "inner"]),
        ("mul", ["outer", "middle"]),
        ("add", ["outer"]),
    ]
    assert all("test_equations_know" in before[-1] for _, before, _ in found)


def test_callers_of_a_backward_pass_are_those_of_the_forward_pass():
    found = paths(xlab.make_jaxpr(xlab.grad(lambda x: outer(x).sum()))(X).jaxpr)
    backward = [within for name, *_, within in found if name == "add_any"]
    assert backward and all("outer" in within for within in backward)


def test_programs_inside_continue_where_they_are_called():
    @xlab.jit
    def jitted(x):
        return middle(x)

    (loop,) = [
        e
        for e in xlab.make_jaxpr(
            lambda x: lax.scan(lambda c, _: (jitted(c), None), x, None, length=2)
        )(X).jaxpr.eqns
        if e.primitive.name == "scan"
    ]
    (call,) = open_jaxpr(loop.params["jaxpr"]).eqns
    tanh = open_jaxpr(call.params["jaxpr"]).eqns[0]
    segments = [[code.co_name for code, _ in s] for s in tanh.source_info.segments]
    assert segments[1:] == [["<lambda>"], ["<lambda>"], ["jitted", "middle", "inner"]]
    assert tanh.source_info.segments[: len(call.source_info.segments)] == (
        call.source_info.segments
    )


def test_a_trace_of_nothing_of_ones_own_is_at_its_caller():
    (eqn,) = xlab.make_jaxpr(jnp.tanh)(X).jaxpr.eqns
    assert eqn.source_info.code.co_name == "test_a_trace_of_nothing_of_ones_own_is_at_its_caller"


def test_a_primitive_bound_by_hand_is_at_the_line_that_binds_it():
    def by_hand(x):
        y = lax.sin_p.bind(x)
        out, _ = lax.top_k_p.bind(y, k=1, axis=0)  # of several results
        return lax.neg(out)

    eqns = xlab.make_jaxpr(by_hand)(X).jaxpr.eqns
    first = by_hand.__code__.co_firstlineno
    assert [e.source_info.position().line - first for e in eqns] == [1, 2, 3]


def test_callers_do_not_change_what_is_compiled():
    def text():
        return xlab.jit(lambda x: outer(x)).lower(X).as_text(debug_info=True)

    def elsewhere():
        return text()

    assert text() == elsewhere()


def test_equations_of_one_line_in_a_loop_share_one_location():
    def f(x):
        for name in ("a", "a", "b"):
            with xlab.named_scope(name):
                x = lax.sin(x)
        for _ in range(3):
            x = lax.cos(x)
        return x

    eqns = xlab.make_jaxpr(f)(1.0).eqns
    assert [e.source_info.scope for e in eqns] == ["a", "a", "b", "", "", ""]
    assert eqns[0].source_info.position() == eqns[2].source_info.position()
    assert eqns[3].raw_source_info is eqns[4].raw_source_info is eqns[5].raw_source_info
    assert len({e.source_info.callers for e in eqns}) == 1


LIBRARY = """
import xlab, xlab.numpy as jnp
def dense(x):
    return _scaled(jnp.tanh(x))
def _scaled(x):
    return x * 2
def call(fun, x):
    return fun(x)
scanned = xlab.jit(lambda x: xlab.lax.scan(lambda c, _: (c * 3, None), x, length=2)[0])
def made(note):
    x = jnp.zeros(3)
    note((x,))
    return x
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed library: a module in a folder `site-packages`."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "some_installed_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "some_installed_library", raising=False)
    yield importlib.import_module("some_installed_library")
    sys.modules.pop("some_installed_library", None)


def lines(what, *args):
    return [e.source.text.strip() for e, _ in observe.program(what, *args).walk()]


def test_libraries_are_folded_into_the_line_that_calls_them(library):
    def model(x):
        y = library.dense(x)
        z = library.call(lambda v: jnp.sin(v), y)
        return library.scanned(z)

    p = observe.program(model, X)
    assert [(e.primitive, e.source.text.strip()) for e, _ in p.walk()] == [
        ("tanh", "y = library.dense(x)"),
        ("mul", "y = library.dense(x)"),
        ("sin", "z = library.call(lambda v: jnp.sin(v), y)"),
        ("jit", "return library.scanned(z)"),
        ("scan", "return library.scanned(z)"),
        ("mul", "return library.scanned(z)"),
    ]
    # So are source panes, names of values and call trees.
    assert {listing.file for listing in p.sources} == {__file__}
    assert [e.outputs[0].note for e in p.equations[:3]] == ["", "y", ""]
    folded = [
        {code.co_name for trace in e.source_info.segments[1:] for code, _ in trace}
        for e in xlab.make_jaxpr(model)(X).jaxpr.eqns
    ]
    assert folded == [{"model"}, {"model"}, {"model", "<lambda>"}, {"model"}]
    backward = lines(xlab.grad(lambda x: model(x).sum()), X)
    assert {"y = library.dense(x)", "return library.scanned(z)"} <= set(backward)
    assert not {"return x * 2", "return _scaled(jnp.tanh(x))"} & set(backward)


def test_a_library_that_is_looked_at_by_itself_keeps_its_lines(library):
    assert lines(library.dense, X) == ["return _scaled(jnp.tanh(x))", "return x * 2"]
    assert lines(xlab.jit(library.dense), X) == ["return _scaled(jnp.tanh(x))", "return x * 2"]


def test_arrays_that_a_library_made_are_at_the_line_that_asked(library):
    # As what makes arrays reports them while lines are recorded.
    kept = library.made(allocation_sites._note_all)
    found = allocation_sites.origin(kept)
    assert (
        found.file == __file__
        and found.text.strip() == "kept = library.made(allocation_sites._note_all)"
    )


@pytest.mark.parametrize(
    "warning",
    [
        lambda: jnp.ones(3).astype("float64"),
        lambda: jnp.zeros(3, "int64"),
        lambda: jnp.array([1.0], "float64"),
        lambda: jnp.linspace(0, 1, 3, dtype="float64"),
        lambda: jnp.sum(jnp.ones(3), dtype="float64"),
        lambda: jnp.zeros(3, "int32").at[0].set(2.5),
    ],
)
def test_a_warning_is_at_the_users_line(warning):
    with pytest.warns() as found:
        warning()
    assert {w.filename for w in found} == {__file__}
    assert {w.lineno for w in found} == {warning.__code__.co_firstlineno}


def test_what_vmap_adds_around_a_function_that_is_looked_at_is_at_its_first_line():
    """No line of the function makes it, and the line of the observer is none of the program's."""
    x = np.ones((3, 4), np.float32)
    first = inner.__code__.co_firstlineno
    for fun in (
        xlab.vmap(inner, 1),
        xlab.vmap(xlab.jit(inner), 1),
        xlab.jit(xlab.vmap(functools.partial(inner), 1)),
    ):
        sources = [e.source for e in observe.program(fun, x).equations]
        assert first in [s.line for s in sources]
        assert {s.function for s in sources} == {"inner"}, sources

    def called(x):
        return xlab.vmap(inner, 1)(x)

    sources = [e.source for e in observe.program(called, x).equations]
    assert sources[-1].function.endswith("called") and "vmap(inner" in sources[-1].text
    assert "make_jaxpr" in str(
        xlab.make_jaxpr(xlab.vmap(inner, 1))(x).eqns[-1].source_info.position().text()
    )
