"""Figures for papers and slides: every record as SVG, PNG and PDF of its size, text that stays text, animations with a frame for each part."""

import re
import struct

import numpy as np
import pytest

import xlab
from tests.observe import sample_programs as programs
from xlab import observe
from xlab.observe.records import (
    Buffer,
    Equation,
    Memory,
    Phase,
    Program,
    Report,
    Step,
    StepTrace,
    Type,
    Value,
    Variable,
)
from xlab.observe.records.call_tree import Call
from xlab.observe.records.cost import StepCost
from xlab.observe.records.diff import Diff, Figure, Pair
from xlab.observe.records.ladder import Ladder, Rung
from xlab.observe.records.machine import Machine
from xlab.observe.records.program import MeshInfo
from xlab.observe.records.whatif import Placement, Ranking, WhatIf
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

pytest.importorskip("matplotlib")
PIL = pytest.importorskip("PIL.Image")

F32 = Type("f32", (4, 4))
PROGRAM = Program(
    "step",
    inputs=(Variable("a", F32, "weights"),),
    outputs=("c",),
    equations=(
        Equation(0, "tanh", ("a",), (Variable("b", F32, "hidden"),)),
        Equation(1, "mul", ("b", "2.0:f32[]"), (Variable("c", F32),)),
    ),
)
STEPS = StepTrace(
    PROGRAM,
    steps=tuple(
        Step(i, i, outputs=(Value("b", "f32[4,4]", 0.0, 1.0, 0.5, preview=(0.5,)),))
        for i in range(2)
    ),
    total=2,
)
COST = StepCost(
    "step",
    Machine("cpu"),
    tree=Call("step", us=9.0, children=(Call("block", calls=6, us=8.0, backward_us=5.0),)),
    compute_us=8.0,
    dispatch_us=1.0,
    us=9.0,
    bound="compute",
)
MEMORY = Memory("step", peak=64, peak_step=1, buffers=(Buffer("a", 64, "argument", 0, 2),))


@pytest.fixture(scope="module")
def sharded():
    """A layout, and the collectives of a compiled program."""
    layout = observe.layout(NamedSharding(programs.mesh(), P("data", "model")), (8, 4))
    return layout, observe.transfers(programs.dense, *programs.sharded_operands())


def every(layout, transfers):
    report = Report(
        "step", (PROGRAM,), (layout,), transfers, (Phase("trace", "step", 0, 5),), memory=(MEMORY,), costs=(COST,), trace=STEPS
    )  # fmt: skip
    parts = ("overview", "program", "graph", "shardings", "collectives", "stepper", "timings", "memory")  # fmt: skip
    placed = (Placement("now", predicted_us=9.0, peak=64), Placement("x whole", predicted_us=3.0, peak=96))  # fmt: skip
    yield from ((report, of) for of in parts)
    yield PROGRAM, "graph"
    yield STEPS, "graph"
    yield from (
        (record, "")
        for record in (
            PROGRAM,
            layout,
            transfers,
            transfers[0],
            STEPS,
            STEPS.steps[0],
            Ladder("f", (Rung("f", PROGRAM), Rung("jvp", PROGRAM))),
            Diff(
                "f",
                "g",
                (Figure("program", "equations", "2", "3"),),
                (Pair("changed", "sin", "cos"),),
            ),
            WhatIf("step", *placed),
            Ranking("step", placed),
            MEMORY,
            COST,
            Machine("cpu"),
        )
    )


def test_every_view_has_a_figure_of_its_size(sharded, tmp_path):
    for size, width in (("column", 3.3), ("slide", 10.0)):
        for record, of in every(*sharded):
            made = observe.figure(record, size=size, of=of)
            wide, tall = made.get_size_inches()
            assert wide == pytest.approx(width) or (of == "graph" and wide <= width)
            assert 0 < tall <= 9


def test_files_are_of_their_kind_and_size(tmp_path):
    for end in ("svg", "png", "pdf"):
        for size in ("column", "slide"):
            observe.figure(PROGRAM, tmp_path / f"{size}.{end}", size=size)
    svg = (tmp_path / "column.svg").read_text()
    assert re.search(r'width="237\.6', svg)  # 3.3 inches of 72 points
    assert "<text" in svg and ">tanh<" in svg and ">hidden<" in svg
    png = (tmp_path / "slide.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", png[16:20]) == (1500,)
    pdf = (tmp_path / "column.pdf").read_bytes()
    assert pdf[:5] == b"%PDF-" and b"MediaBox [ 0 0 237.6" in pdf and b"DejaVuSansMono" in pdf
    observe.figure(PROGRAM, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == svg


def test_names_of_the_user_are_text_and_no_formula(tmp_path):
    bad = "$x<b>^2$\x07"
    program = Program(bad, (Variable("a", F32, "a"),), ("a",))
    for of in ("", "graph"):
        observe.figure(program, tmp_path / "x.svg", of=of)
    observe.figure(program, tmp_path / "y.svg")
    text = (tmp_path / "y.svg").read_text()
    assert "$x&lt;b&gt;^2$" in text and "<b>" not in text and "\x07" not in text


def test_a_long_program_ends_with_what_was_left_out():
    many = tuple(Equation(i, "sin", ("a",), (Variable(f"v{i}", F32),)) for i in range(500))
    made = observe.figure(Program("f", equations=many), size="slide")
    assert re.fullmatch(r"… \d+ more lines", made.texts[-1].get_text())
    assert made.get_size_inches()[1] <= 5.7


@pytest.mark.parametrize("size", ["column", "slide"])
def test_an_animation_of_a_collective_and_of_a_run(size, sharded, tmp_path):
    _, transfers = sharded
    rounds = len(transfers[0].rounds)
    frames = observe.animation(transfers[0], tmp_path / "t.gif", size=size)
    assert frames == 4 * rounds > 0
    with PIL.open(tmp_path / "t.gif") as made:
        assert made.format == "GIF" and made.n_frames == frames
        assert made.info["duration"] == 250
        first = np.asarray(made.convert("RGB"))
        made.seek(1)
        assert not np.array_equal(first, np.asarray(made.convert("RGB")))
    assert observe.animation(STEPS, tmp_path / "s.gif", size=size) == 2


def test_a_replay_shows_what_devices_hold(tmp_path):
    mesh = xlab.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,))
    f = xlab.shard_map(lambda x: xlab.lax.psum(x, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    replay = observe.replay(f, np.arange(4, dtype=np.float32))
    made = observe.figure(replay)
    texts = [t.get_text() for ax in made.axes for t in ax.texts]
    assert {"0", "1"} <= set(texts) and any("4" in t for t in texts)
    assert made.axes[0].get_title(loc="left") == "psum over d"
    assert observe.animation(replay, tmp_path / "r.gif") > 1


def test_what_cannot_be_drawn_says_what_can(tmp_path):
    with pytest.raises(ValueError, match=r"svg, .png or .pdf; given .*x.gif.*animation"):
        observe.figure(PROGRAM, tmp_path / "x.gif")
    with pytest.raises(ValueError, match="size must be one of 'column', 'slide'; given 'poster'"):
        observe.figure(PROGRAM, size="poster")
    with pytest.raises(
        ValueError, match=r"this report has program, graph to draw; asked for 'memory'"
    ):
        observe.figure(Report("f", (PROGRAM,)), of="memory")
    with pytest.raises(TypeError, match="draws records of xlab.observe"):
        observe.figure(3)
    with pytest.raises(TypeError, match="observe.figure draws the others"):
        observe.animation(PROGRAM, tmp_path / "x.gif")
    with pytest.raises(ValueError, match="written as .gif"):
        observe.animation(STEPS, tmp_path / "x.png")
    assert isinstance(observe.figure(MeshInfo(("a",), (2,), (0, 1))).texts, list)
