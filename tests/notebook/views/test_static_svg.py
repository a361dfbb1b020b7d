"""The image of a view: one drawing, styled by itself, that asks nothing of anybody."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

import xlab
from tests.notebook.views import sample_kernel
from xlab import observe
from xlab.notebook.views import static_svg, view_for
from xlab.notebook.views.draw import h
from xlab.observe.programs.program import mesh_info
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

SVG = "{http://www.w3.org/2000/svg}"


def mesh(*names: str):
    return xlab.make_mesh((4, 2), names or ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def image(record) -> str:
    return view_for(record).bundle(record)["image/svg+xml"]


def test_an_array_is_drawn_beside_its_mesh():
    record = observe.layout(
        xlab.device_put(np.zeros((8, 4), np.float32), NamedSharding(mesh(), P("data")))
    )
    text = image(record)
    root = ElementTree.fromstring(text)
    first, second = root.findall(f"{SVG}svg")
    assert float(first.get("x")) + float(first.get("width")) < float(second.get("x"))
    assert float(second.get("x")) + float(second.get("width")) == float(root.get("width"))
    assert "0,1" in ["".join(t.itertext()) for t in first.iter(f"{SVG}text")]
    assert root.find(f".//{SVG}pattern").get("id") == "xl-hatch", "replication is hatched"
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "") and "<script" not in text


def test_every_class_that_has_a_style_brings_it():
    text = image(mesh_info(mesh()))
    style = ElementTree.fromstring(text).find(f"{SVG}style").text
    called = {name for at in re.findall(r" class='([^']*)'", text) for name in at.split()}
    assert len(called) >= 6 and called == set(re.findall(r"\.([a-p]+)\b", style))
    assert "xl-" not in text, "blocks, bands, tints, axes: a letter each"
    defined, asked = (
        set(re.findall(pattern, text)) for pattern in (r"(--[\w-]+):", r"var\((--[\w-]+)")
    )
    assert not asked - defined, "an image has no host whose colors it could take"
    assert "data-dev" not in text and "<title>" not in text, "no pointer comes to an image"


def test_names_stay_text():
    root = ElementTree.fromstring(image(mesh_info(mesh("<script>", "a'b\"&\x01"))))
    words = " ".join("".join(t.itertext()) for t in root.iter(f"{SVG}text"))
    assert "<script>" in words and "⟨U+0001⟩" in words and not list(root.iter(f"{SVG}script"))


def test_what_has_no_drawing_or_a_huge_one_has_no_image(monkeypatch):
    program = observe.program(lambda x: x + 1, np.float32(1))
    assert "image/svg+xml" not in view_for(program).bundle(program)
    monkeypatch.setattr(static_svg, "LARGEST", 100)
    assert (
        static_svg.static_svg(
            h("svg", {"width": 9, "height": 9}, h("rect", {"width": 9, "height": 9}))
        )
        is None
    )


def test_a_kernel_is_drawn_by_its_operands_and_several_cores_by_their_lanes():
    blocks = ElementTree.fromstring(image(sample_kernel.matmul()))
    assert len(blocks.findall(f"{SVG}svg")) == len(sample_kernel.matmul().operands)
    run = sample_kernel.producer_consumer()
    (lanes,) = ElementTree.fromstring(image(run)).findall(f"{SVG}svg")
    words = ["".join(t.itertext()) for t in lanes.iter(f"{SVG}text")]
    assert [w.rsplit(maxsplit=2)[-1] for w in words] == [str(core) for core in run.cores]
