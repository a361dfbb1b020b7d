"""Programs as graphs: boxes, scopes, nesting, the layout's promises, SVG and Graphviz without a `dot`."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import xlab
from tests.benchmarks.pages import gradient
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.observe import records as r
from xlab.observe.figures.graph import graph
from xlab.observe.figures.sugiyama import REACH, sugiyama_layout

X = np.ones((4, 3), np.float32)


def loss(x):
    with xlab.named_scope("inner"):
        h = jnp.tanh(x) * 2
    c, ys = lax.scan(lambda c, t: (jnp.sin(c) + t, c), h[0], h)
    return jnp.sum(c) + jnp.sum(ys)


def test_boxes_of_a_program():
    g = graph(observe.program(loss, X))
    labels = [b.label for b in g.boxes]
    assert labels[0] == "x" and labels[-1] == "out 0"
    scope = g.boxes[labels.index("inner")]
    assert scope.kind == "scope" and [b.label for b in scope.inside.boxes] == ["tanh", "mul"]
    scan = g.boxes[labels.index("scan")]
    assert "sin" in [b.label for b in scan.inside.boxes]
    assert all(a < b for a, b in zip(g.sources, g.targets))
    assert (0, labels.index("inner")) in zip(g.sources, g.targets)


def test_depth_folds():
    g = graph(observe.program(loss, X), depth=0)
    assert all(b.inside is None for b in g.boxes)


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_layout_keeps_its_promises(count):
    g = (
        gradient(count)
        if count > 2
        else {"w": [40.0] * count, "h": [20.0] * count, "from": [], "to": []}
    )
    made = sugiyama_layout(g["w"], g["h"], g["from"], g["to"])
    assert len(made.x) == count
    for a, b in zip(g["from"], g["to"]):
        assert made.y[a] < made.y[b], "edges point down"
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, w in zip(made.x, made.y, g["w"]):
        rows.setdefault(y, []).append((x - w / 2, x + w / 2))
    for row in rows.values():
        row.sort()
        assert all(left >= right - 1e-6 for (_, right), (left, _) in itertools.pairwise(row)), (
            "boxes of a layer stand apart"
        )
    drawn = {(a, t) for _, _, _, _, a, t in made.links if t >= 0} | {
        (lane.source, t) for lane in made.lanes for t, _ in lane.targets
    }
    assert drawn == set(zip(g["from"], g["to"])), "every edge is drawn once, here or in a lane"
    bends = sum(t < 0 for *_, t in made.links)
    assert bends <= (REACH - 1) * count, "bends are bounded by nodes, not by how far edges reach"


def test_svg_is_well_formed_and_escaped():
    program = observe.program(loss, X)
    root = ET.fromstring(program.to_svg(2))
    assert "tanh" in "".join(root.itertext())
    nasty = r.Program(
        "</title><script>",
        (),
        (),
        (),
        (r.Equation(0, "<b>\u202e", outputs=(r.Variable("a", r.Type("f32"), "&x"),)),),
    )
    text = nasty.to_svg()
    assert "<script" not in text and "<b>" not in text and "\u202e" not in text
    ET.fromstring(text)


def test_graphviz_source_needs_no_dot():
    pytest.importorskip("graphviz")
    source = observe.program(loss, X).to_graphviz().source
    assert source.startswith("digraph") and "tanh" in source and "subgraph cluster_" in source
    assert source.count("->") >= 8


def test_types_show_the_shardings_the_compiler_decided():
    mesh = xlab.make_mesh((4,), ("data",), axis_types=(xlab.sharding.AxisType.Auto,))
    x = xlab.device_put(
        np.ones((8, 4), np.float32),
        xlab.sharding.NamedSharding(mesh, xlab.sharding.PartitionSpec("data")),
    )
    program = observe.program(xlab.jit(lambda x: jnp.tanh(x) * 2).lower(x).compile())
    assert [e.outputs[0].type.text for e in program.equations] == ["f32[8@data,4]"] * len(
        program.equations
    )
