"""Arrays and meshes as tables: the devices, slices and axes of the drawings, in words."""

from __future__ import annotations

import re

import pytest

import xlab
from xlab import P, observe
from xlab import numpy as jnp
from xlab.notebook.views.draw import html
from xlab.notebook.views.grids import tables
from xlab.observe.records.layout import places
from xlab.sharding import AxisType, NamedSharding


def layout(spec, shape=(8, 8), sizes=(4, 2), names=("data", "model")):
    mesh = xlab.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))
    return observe.layout(xlab.device_put(jnp.ones(shape), NamedSharding(mesh, spec)))


def cells(table):
    """The rows of cells of a table, with the style of each."""
    shown = []
    for row in table[2:]:
        look = row[1].get("style", "")
        found = [(c[2] if len(c) > 2 else "", ";".join(filter(None, (look, c[1].get("style", ""))))) for c in row[2:] if c[0] == "td"]  # fmt: skip
        if found:
            shown.append(found)
    return shown


@pytest.mark.parametrize(
    "spec", [P(), P("data"), P(None, "model"), P("model", "data"), P(("data", "model"))]
)
def test_every_block_and_device_is_there_with_its_place(spec):
    x = layout(spec)
    blocks, mesh = tables(x)
    cuts, held = places(x)
    said = [words for row in cells(blocks) for words, _ in row]
    assert sorted(said) == sorted(
        ",".join(map(str, d)) if len(d) < 8 or len(held) == 1 else "" for d in held.values()
    )
    for of in cuts:
        for a, b in of:
            assert f">{a}:{b}<" in html(blocks)
    assert [words for row in cells(mesh) for words, _ in row] == [str(n) for n in range(8)]
    assert [len(row) for row in cells(mesh)] == [2] * 4
    assert "data 0" in html(mesh) and "model →" in html(mesh)
    split = {a for axes in spec for a in ((axes,) if isinstance(axes, str) else axes or ())}
    for table in (blocks, mesh):
        classes = table[1]["class"].split()
        same = {int(c[-1]) for c in classes if re.fullmatch(r"xl-same-\d", c)}
        assert same == {k for k, n in enumerate(("data", "model")) if n not in split}
        tint = [c for c in classes if c.startswith("xl-by-")]
        assert tint == ([f"xl-by-{0 if 'data' in split else 1}"] if split else [])


def test_a_cell_is_shaded_by_where_it_lies():
    """As the drawing's: an axis' own hue at its first index, 48 % of it at its last."""
    _, mesh = tables(layout(P("data", "model")))
    looks = [look for row in cells(mesh) for _, look in row]
    assert looks[0] == "" and looks[1] == "--b:48%"
    assert looks[-2] == "--a:48%" and set(looks[-1].split(";")) == {"--a:48%", "--b:48%"}
    blocks, _ = tables(layout(P("model", "data")))
    assert cells(blocks)[1][3] == ("7", "--b:48%;--a:48%")


def test_one_axis_and_one_dimension():
    blocks, mesh = tables(layout(P("i"), (16,), (8,), ("i",)))
    assert "xl-cells-line" in mesh[1]["class"] and [len(r) for r in cells(blocks)] == [8]
    assert ">14:16<" in html(blocks) and "dim 0 @i →" in html(blocks)
    assert "data 0" not in html(mesh)


def test_what_a_table_does_not_show_is_drawn():
    assert tables(layout(P("a", "b", "c"), (8, 8, 8), (2, 2, 2), ("a", "b", "c"))) is None
    assert tables(layout(P("data", "model"), (8, 8, 8))) is None, "facets"
    blocks, _ = tables(layout(P(None, "data", "model"), (8, 8, 8)))
    assert "[0:8, …]" in html(blocks)


def test_a_name_of_an_axis_is_no_markup():
    blocks, mesh = tables(layout(P("<i>"), (8,), (8,), ("<i>",)))
    assert "<i>" not in html(blocks) + html(mesh) and "&lt;i>" in html(mesh)
