"""Programs as records: names, types, source lines, nested programs, and links to every later form."""

import functools

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.notebook.views import view_for
from xlab.observe.records import Record

X = np.ones((4, 4), np.float32)


@xlab.jit
def layer(x, w):
    hidden = lax.dot_general(x, w, (((1,), (0,)), ((), ())))
    return lax.tanh(hidden)


def network(x, w):
    first = layer(x, w)
    second = layer(first, lax.sin(w))
    return lax.reduce_sum(second, (0,))


def test_names_notes_and_lines():
    p = observe.program(network, X, X)
    assert p.name == "network" and [v.note for v in p.inputs] == ["x", "w"]
    assert [e.primitive for e in p.equations] == ["jit", "sin", "jit", "reduce_sum"]
    assert [e.outputs[0].note for e in p.equations] == ["first", "", "second", ""]
    code = network.__code__.co_firstlineno
    assert [e.source.line - code for e in p.equations] == [1, 2, 2, 3]
    assert "layer(first, lax.sin(w))" in p.equations[1].source.text
    inner = p.equations[0].nested[0]
    assert [e.outputs[0].note for e in inner.equations] == ["hidden", ""]
    assert {e.id for e, _ in p.walk()} == set(range(6))
    listing = next(s for s in p.sources if s.first <= code <= s.first + len(s.lines))
    assert listing.lines[code - listing.first].startswith("def network")


def test_a_wrapper_of_a_jitted_function_is_shown_as_it_is():
    inner = xlab.jit(lambda x: x * 2)

    @functools.wraps(inner)
    def logged(x):
        return lax.sin(inner(x))

    assert "sin" in str(observe.program(logged, X))
    assert "sin" in str(observe.what_if(logged, (X,)).programs[0])
    assert observe.program(inner, X).name == "<lambda>"


def test_letters_are_those_of_the_printed_program():
    p = observe.program(programs.control, X)
    text = str(xlab.make_jaxpr(programs.control)(X))
    for e in p.equations:
        if not e.nested:
            assert " ".join(v.name + ":" + v.type.text for v in e.outputs) in text
    labels = {e.primitive: e.nested_labels for e in p.equations if e.nested}
    assert labels == {
        "scan": ("body",),
        "while": ("condition", "body"),
        "cond": ("branch 0", "branch 1"),
    }


def test_every_form_of_a_sharded_program():
    compiled = xlab.jit(programs.dense).lower(*programs.sharded_operands()).compile()
    p = observe.program(compiled)
    assert [level.name for level in p.levels] == [
        "stablehlo",
        "propagated",
        "partitioned",
        "optimized",
    ]
    for level in p.levels:
        lines = level.text.split("\n")
        assert "loc(" not in level.text
        assert {i for _, ids in level.links for i in ids} == {0, 1, 2}
        words = {0: "dot", 1: "tanh", 2: "reduce"}
        for number, ids in level.links:
            if len(ids) == 1 and level.name in ("stablehlo", "propagated"):
                assert words[ids[0]] in lines[number - 1]
    assert p.mesh.text == "data=4 model=2"
    assert [v.type.text for v in p.inputs] == ["f32[8@data,16@model]", "f32[16@model,4]"]
    assert p.equations[0].outputs[0].type.text == "f32[8@data,4]"
    assert p.equations[2].scope.endswith("head")


def test_stages_give_what_they_have():
    jitted = xlab.jit(programs.dense)
    traced = jitted.trace(X, X)
    assert observe.program(traced).levels == ()
    assert [x.name for x in observe.program(traced.lower()).levels] == ["stablehlo"]
    assert [x.name for x in observe.program(traced.lower().compile()).levels] == [
        "stablehlo",
        "optimized",
    ]
    assert observe.program(traced.jaxpr).counts == (
        ("dot_general", 1),
        ("reduce_sum", 1),
        ("tanh", 1),
    )
    assert [x.name for x in observe.program(programs.dense, X, X, levels=["optimized"]).levels] == [
        "optimized"
    ]


def test_collectives_name_their_axes():
    p = observe.program(programs.ring(), np.ones((8, 8), np.float32), np.ones((8, 4), np.float32))
    axes = {e.primitive: e.axes for e, _ in p.walk() if e.axes is not None}
    assert axes == {"psum_invariant": ("model",), "ppermute": ("data",), "all_gather": ("data",)}


def test_records_round_trip():
    p = observe.program(programs.dense, X, X, levels=True)
    assert Record.from_json(p.to_json()) == p


def test_errors_teach():
    with pytest.raises(TypeError, match="expected a function"):
        observe.program(3)
    with pytest.raises(ValueError, match="unknown levels"):
        observe.program(programs.dense, X, X, levels=["llvm"])
    with pytest.raises(TypeError, match="already specialized"):
        observe.program(xlab.jit(programs.dense).trace(X, X), X)
    with pytest.raises(AttributeError, match="no 'nonsense'"):
        observe.nonsense


def test_d48_effects_stand_above_the_program():
    def f(x):
        xlab.debug.print("{}", x, ordered=True)
        xlab.debug.callback(print, x)
        return x + 1

    made = observe.program(f, np.float32(1))
    assert made.effects == ("Debug", "OrderedDebug")
    assert "\n  effects  Debug, OrderedDebug\n" in repr(made)
    assert "effects Debug, OrderedDebug" in view_for(made).static_html(made)
    ref = xlab.new_ref(np.zeros(2, np.float32))
    writes = observe.program(lambda x: ref.__setitem__(..., x), np.ones(2, np.float32))
    assert not writes.effects and "effects" not in repr(writes)


class Held:
    """A module of arrays, as libraries have them."""

    def __init__(self, w):
        self.w = w


class LibraryTraced:
    def __init__(self, traced):
        self.traced = traced


class LibraryLowered:
    def __init__(self, lowered):
        self.lowered = lowered


class LibraryJit:
    """A library's own form of jit: takes its modules apart, and wraps the stages."""

    def __init__(self, fun):
        self.fun, self.jitted = fun, xlab.jit(lambda w, x: fun(Held(w), x))

    def __call__(self, module, x):
        return self.jitted(module.w, x)

    def trace(self, module, x):
        return LibraryTraced(self.jitted.trace(module.w, x))

    def lower(self, module, x):
        return LibraryLowered(self.jitted.lower(module.w, x))


class LibraryJitWithoutTrace(LibraryJit):
    trace = property()


@pytest.mark.parametrize("made", [LibraryJit, LibraryJitWithoutTrace])
def test_forms_of_jit_of_libraries(made):
    fun, args = made(lambda module, x: lax.reduce_sum(module.w * x, (0, 1))), (Held(X), X)
    wanted = ["mul", "reduce_sum"]
    for p in (observe.program(fun, *args), observe.program(fun.lower(*args))):
        assert [e.primitive for e in p.equations] == wanted
    assert [p.equations[s.equation].primitive for s in observe.steps(fun, *args)] == wanted
    grad = next(r for r in observe.ladder(fun, *args, rungs=("grad",)).rungs if r.name == "grad")
    assert "mul" in [e.primitive for e in grad.program.equations]
    assert observe.memory(fun, *args).peak


def added(ref, v):
    ref[...] += v
    return ref[...] * 2


def test_a_program_on_references_is_shown_as_it_is_compiled():
    """Looking leaves the reference as it is."""
    ref = xlab.new_ref(xlab.numpy.zeros(3))
    assert "add" in [e.primitive for e in observe.program(added, ref, 1.0).equations]
    assert observe.program(added, ref, 1.0, levels=("optimized",)).levels
    assert observe.memory(added, ref, 1.0).aliased == 12
    assert not observe.transfers(added, ref, 1.0) and not observe.findings(added, ref, 1.0)
    about_it = lambda v: added(ref, v)
    assert observe.memory(about_it, 1.0).aliased == 12
    made = observe.ladder(added, ref, 1.0)
    assert len(made.rungs) == 1 and "an argument is a reference" in made.left_out[0][1]
    np.testing.assert_array_equal(ref[...], np.zeros(3))


def test_a_run_of_steps_and_a_compiled_one_begin_with_the_same_references():
    ref = xlab.new_ref(xlab.numpy.zeros(3))
    assert observe.jitted_difference(added, ref, 1.0) is None
    np.testing.assert_array_equal(ref[...], np.ones(3))
