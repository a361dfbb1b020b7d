"""The replay and transposed views: arrows are the events, tiles the values, and everything reads without a script."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xlab
from tests.notebook.views import sample
from xlab import lax, observe
from xlab.interpreters.schedules import ALGORITHMS
from xlab.notebook import assets
from xlab.notebook.views import replay, transposed
from xlab.notebook.views.collective_figures import BLOCK, figure
from xlab.notebook.views.draw import html
from xlab.sharding import AxisType, make_mesh
from xlab.sharding import PartitionSpec as P

HERE = Path(__file__).parent
NODE = shutil.which("node")
MESH = make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
X = np.arange(64, dtype=np.float32)


def on_mesh(f, **options):
    return xlab.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), **options)


def own(x):
    return x if xlab.typeof(x).mat.varying else lax.pcast(x, "i", to="varying")


COLLECTIVES = {
    "psum": lambda x: own(lax.psum(x, "i")),
    "pmax": lambda x: own(lax.pmax(x, "i")),
    "all_gather": lambda x: lax.all_gather(x, "i", tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (3, 2)]),
    "pbroadcast": lambda x: lax.pbroadcast(x, "i", 3),
}


@pytest.mark.skipif(
    NODE is None, reason="node is not installed; the front end is tested where it is"
)
def test_the_arrows_are_the_events(tmp_path):
    """C118: for every collective the page draws the messages of the events, and the text names them."""
    module = tmp_path / "replay.mjs"
    module.write_text(
        f"{assets.body()}\nexport {{ messagesOf, statesOf, stateWords, chips }};\n",
        encoding="utf-8",
    )
    cases = []
    for name, f in COLLECTIVES.items():
        for way in ALGORITHMS if name in ("psum", "pbroadcast") else ("ring",):
            found = observe.replay(on_mesh(f), X, algorithm=way)
            data = replay.ReplayView().data(found)
            wanted = []
            for step in data["steps"]:
                links: dict[tuple[int, int], int] = {}
                for e in found.events:
                    if e.step == step and e.moves:
                        links[e.src, e.dst] = links.get((e.src, e.dst), 0) + e.bytes
                wanted.append([[*link, size] for link, size in links.items()])
            cases.append({"events": data["events"], "steps": data["steps"], "wanted": wanted})
            page = html(replay.ReplayView().tree(found))
            listed = [e for e in found.events if e.moves][: replay.MOST_EVENTS // 2]
            assert all(e.text in page for e in listed), (name, way)
            assert json.dumps(data) and data["legend"]["op"] == found.kind
    data = tmp_path / "cases.json"
    data.write_text(json.dumps(cases))
    done = subprocess.run(
        [NODE, HERE / "replay.test.mjs", module, data], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "ok"


def test_what_a_step_writes_is_marked():
    found = observe.replay(on_mesh(COLLECTIVES["all_gather"]), X)
    written = replay.written_at(found)
    assert written[0] == [[]] * 8, "nothing is there before the first step"
    for d in range(8):
        every = [k for frame in written for k in frame[d]]
        assert sorted(every) == list(range(64)), "each entry once"
        assert written[1][d] == list(range(8 * d, 8 * d + 8)), "first what is one's own"
    for frame, tiles in zip(written, found.tiles):
        assert all(tiles[d][k] != "·" for d in range(8) for k in frame[d])


def test_ribbons_go_from_rows_to_rows():
    counts = np.int32([[1, 2], [0, 3]])
    starts = np.cumsum(counts, 1, dtype=np.int32) - counts
    places = np.cumsum(counts, 0, dtype=np.int32) - counts
    mesh = make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    f = xlab.shard_map(
        lambda *xs: lax.ragged_all_to_all(*(x[0] for x in xs), axis_name="i")[None],
        mesh=mesh, in_specs=P("i"), out_specs=P("i"),
    )  # fmt: skip
    args = (np.ones((2, 4), np.float32), np.zeros((2, 6), np.float32), starts, counts, places)
    found = observe.replay(f, *args, np.ascontiguousarray(counts.T))
    page = html(replay.ReplayView().tree(found))
    assert page.count("xl-ribbon ") == 3, "a piece without rows has none"
    assert "rows 1:3 of device 0 become rows 0:2 of device 1" in page


def test_states_are_chips():
    """C36: a color for each value where they differ, a sign between devices where they are one."""
    mesh = sample.MESH
    from xlab.observe.records import Type

    axis, other = mesh.axis_names[:2]
    found = html(replay.chips(Type("f32", (4,), varying=(axis,), reduced=(other,)), mesh))
    assert f"{axis} V " in found and f"{other} R " in found and "↓" in found
    unreduced = html(replay.chips(Type("f32", (4,), unreduced=(axis,)), mesh))
    assert ">+<" in unreduced and ">=<" in unreduced
    assert Type("f32", (4,), reduced=("i",)).text == "f32[4]{R:i}"


GRID = make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def on_grid(f, x=X, algorithm="ring"):
    spec = P(("x", "y"))
    mapped = xlab.shard_map(f, mesh=GRID, in_specs=spec, out_specs=spec)
    return observe.replay(mapped, x, algorithm=algorithm)


def arrows(page):
    """The ends of all arrows."""
    found = re.findall(r"d='M([-\d.]+),([-\d.]+)Q[-\d.,]+,([-\d.]+),([-\d.]+)'", page)
    return [tuple(map(float, f)) for f in found]


def test_sums_go_into_a_node_of_their_group_and_out_again():
    """C107: outlines of the groups, and an arrow each way between every device and its node."""
    found = on_grid(lambda x: lax.pcast(lax.psum(x, "x"), "x", to="varying"))
    page = html(figure(found))
    assert page.count("xl-hull") == page.count("xl-sum-node") == 2 and page.count(">Σ<") == 2
    nodes = [tuple(map(float, p)) for p in re.findall(r"cx='([\d.]+)' cy='([\d.]+)'", page)]
    ends = arrows(page)
    assert len(ends) == 16
    for x, y in nodes:
        into = [e for e in ends if abs(e[2] - x) < 24 and abs(e[3] - y) < 19]
        out = [e for e in ends if abs(e[0] - x) < 24 and abs(e[1] - y) < 19]
        assert len(into) == len(out) == 4
    assert "Σ of devices 0, 2, 4, 6" in page and "2 groups" in page
    both = html(figure(on_grid(lambda x: lax.pcast(lax.pmax(x, ("x", "y")), ("x", "y"), to="varying"))))  # fmt: skip
    assert both.count(">max<") == 1 and len(arrows(both)) == 16


def test_blocks_of_sums_come_together_where_they_stay():
    """C107: a node at each device, and an arrow to it from each of the others."""
    page = html(figure(on_grid(lambda x: lax.psum_scatter(x, "x", tiled=True))))
    assert [page.count(f">Σ{k}<") for k in range(4)] == [2] * 4 and len(arrows(page)) == 2 * 4 * 3


def test_an_exchange_is_a_matrix_that_is_turned():
    """C107: each block stands in both, and the way between them is that from (row, column) to (column, row)."""
    page = html(figure(on_grid(lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True))))
    assert page.count("xl-block xl-before") == page.count("xl-block xl-after") == 16
    assert "block 3 of device 2 goes to device 6" in page and "1 other group alike" in page
    moves = re.findall(r"xl-before' style='--dx:([-\d.]+)px;--dy:([-\d.]+)px'", page)
    for k, (dx, dy) in enumerate(moves):
        row, column = divmod(k, 4)
        wide, tall = BLOCK
        assert float(dx) == 4 * wide + 120 + (row - column) * wide
        assert float(dy) == (column - row) * tall


def test_what_has_no_such_picture():
    for f in (COLLECTIVES["all_gather"], COLLECTIVES["ppermute"]):
        assert figure(observe.replay(on_mesh(f), X)) is None
    ring = html(figure(observe.replay(on_mesh(COLLECTIVES["psum"]), X)))
    assert "i ↻" in ring and len(arrows(ring)) == 16
    empty = observe.replay(on_mesh(lambda x: own(lax.psum(x[:0], "i"))), X)
    assert html(figure(empty)).count("xl-sum-node") == 1
    strange = empty.replace(groups=((7, 99), (98, 97)), devices=(), events=(), inputs=())
    assert html(figure(strange)).count("xl-sum-node") == 1, "only devices of the mesh"


@pytest.mark.parametrize("name", ["pmax", "pmin"])
def test_a_nan_that_enters_is_told(name):
    """C44: where it is, and what to do; in the terminal and on the page."""
    x = X.copy()
    x[19] = np.nan

    def f(v, **options):
        return own(getattr(lax, name)(v, "i", **options))

    found = observe.replay(on_mesh(f), x)
    assert found.nan_devices == (2,) and "NaN on device 2: " in found.caution
    assert f"With nan_safe=True, {name} gives NaN" in observe.text(found)
    assert "<p class='xl-caution'>⚠ NaN on device 2" in html(replay.ReplayView().tree(found))
    large = observe.replay(on_mesh(f), np.repeat(x, 100))
    assert large.nan_devices == (2,) and not large.tiles
    for other, values in ((f, X), (COLLECTIVES["psum"], x), (f, np.arange(64))):
        page = html(replay.ReplayView().tree(observe.replay(on_mesh(other), values)))
        assert "xl-caution" not in page


def test_both_ways_side_by_side():
    page = html(transposed.TransposedView().tree(sample.transposed(sample.report())))
    assert "forwards" in page and "backwards" in page and "sends nothing" in page


def test_many_collectives_are_drawn():
    """C118: records and page of a program with 200 collectives on 8 devices."""
    from xlab.notebook.views import dataflow

    def body(x):
        for _ in range(200):
            x = lax.ppermute(x, "i", [(k, (k + 1) % 8) for k in range(8)])
        return x

    found = observe.transfers(on_mesh(body), X, compile=False)
    assert len(found) == 200
    page = html(dataflow.transfers_panel(found, found[0].mesh))
    data = json.dumps(dataflow.transfers_data(found, found[0].mesh))
    assert len(page) and len(data)
