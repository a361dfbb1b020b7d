"""Repeated layers are found as one: in a program, in its graph, in its listing, and by what page columns fold."""

import numpy as np

import xlab
from xlab import numpy as jnp
from xlab import observe
from xlab.notebook.views.program import columns
from xlab.observe.figures.graph import graph
from xlab.observe.records import Equation, Type, Variable
from xlab.observe.records.repeats import Repeat, layers, places, repeats


def block(p, x):
    h = jnp.tanh(x @ p["up"])
    return x + jnp.sin(h @ p["down"]) * 2


def loss(layers, x):
    for p in layers:
        x = block(p, x)
    return jnp.sum(x * x)


X = np.ones((2, 3), np.float32)
LAYERS = [{"up": np.ones((3, 4), np.float32), "down": np.ones((4, 3), np.float32)}] * 6


def test_layers_of_a_network_forwards_and_backwards():
    program = observe.program(loss, LAYERS, X)
    (found,) = repeats(program.equations)
    assert (found.name, found.times) == ("block", 6)
    assert found.length * 6 == sum(e.source.function == "block" for e in program.equations)
    back = repeats(observe.program(xlab.grad(loss), LAYERS, X).equations)
    assert [r.name for r in back] == ["block", "block"]
    assert back[0].times == 6 and back[1].times >= 5


def test_layers_are_named_by_the_function_around_them_and_found_inside_programs():
    def norm(x):
        return x - jnp.mean(x) * jnp.sum(x)

    def layer(p, x):
        return norm(norm(x)) @ p["up"] @ p["down"]

    def net(layers, x):
        for p in layers:
            x = layer(p, x)
        return jnp.sum(x)

    program = observe.program(xlab.jit(net), LAYERS, X)
    inner = program if len(program.equations) > 3 else program.equations[0].nested[0]
    (found,) = layers(inner)
    assert (found.name, found.times) == ("layer", 6), "not that of most of its equations, `norm`"
    back = layers(observe.program(xlab.grad(net), LAYERS, X))
    assert {r.name for r in back} == {"layer"} and len(back) == 2
    held = places(inner)
    first, second = (inner.equations[found.start + n] for n in (2, 2 + found.length))
    assert held[first.id] == held[second.id] and held[first.id].number == (2, 0)
    outer = observe.program(lambda ps, x: xlab.jit(net)(ps, x) * 2, LAYERS, X)
    assert any("layer ×6, 5 more" in line for line in columns(outer)["rows"]["text"])
    split = Equation(0, "sin", outputs=(Variable("a", Type("f32", (8,), (("data",),))),))
    whole = Equation(1, "sin", outputs=(Variable("b", Type("f32", (8,))),))
    rest = [Equation(n, op) for n, op in enumerate(("mul", "add", "exp"), 2)]
    assert len(repeats([split, *rest, whole, *rest])) == 1, "how a value is split may differ"


def test_no_layers_where_nothing_repeats_or_what_repeats_is_short():
    assert repeats([]) == []
    assert repeats([Equation(i, "sin") for i in range(500)]) == []
    assert repeats([Equation(i, ("sin", "mul")[i % 2]) for i in range(500)]) == []
    ops = ["a", "b", "c", "d", "e"]
    cut = [Equation(i, op) for i, op in enumerate([*ops, *ops, *ops[:3], "x", *ops])]
    assert repeats(cut) == [Repeat(0, 5, 2, "")]


def test_the_page_folds_all_but_the_first():
    program = observe.program(loss, LAYERS, X)
    (found,) = repeats(program.equations)
    rows = columns(program)["rows"]
    (head,) = rows["closed"]
    assert rows["text"][head] == f"block ×6, 5 more like these {found.length} equations"
    assert rows["fold"][head] == 5 * found.length
    inside = rows["id"][head + 1 : head + 1 + rows["fold"][head]]
    assert inside == [e.id for e in program.equations[found.start + found.length : found.end]]
    assert rows["id"][head + 1 + rows["fold"][head]] >= 0, "what follows the layers is in sight"


def test_graph_and_listing_show_one_of_them():
    program = observe.program(loss, LAYERS, X)
    boxes = graph(program, 1).boxes
    (layer,) = (b for b in boxes if b.label == "block ×6")
    (found,) = repeats(program.equations)
    assert [b.label for b in layer.inside.boxes] == [
        e.primitive for e in program.equations[found.start : found.start + found.length]
    ]
    assert 'label="block ×6' in program.to_graphviz().source
    texts = " ".join(t.get_text() for t in observe.figure(program, size="slide").texts)
    assert "block ×6, 5 more like these" in texts and "tanh" in texts
