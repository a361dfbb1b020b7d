"""The page's model of collectives is the runtime's: the same messages round by round, the same prices, and every block arrives."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import xlab
from tests.notebook.views import sample
from tests.notebook.views.test_browser import visit
from xlab import P, observe
from xlab.interpreters import communication, communication_costs
from xlab.notebook import assets
from xlab.notebook.export import write_html
from xlab.notebook.views import collective_rows, dataflow, dataflow_data, resharding
from xlab.notebook.views.draw import html
from xlab.notebook.views.mesh import mesh_places
from xlab.observe import records as r
from xlab.observe.records.text import text
from xlab.observe.sharding.resharding import compare
from xlab.sharding import AxisType, NamedSharding

HERE = Path(__file__).parent
NODE = shutil.which("node")
MESHES = [(("ring",), (8,)), (("a_long_name", "the_longest_of_all"), (4, 2))]
LINK = communication_costs.Interconnect("mine", 1.5, 12_500.0)


def cases():
    for kind in (k for k in communication.collectives if not communication.by_pairs(k)):
        for n in (2, 3, 4, 5, 8):
            for way in communication.ALGORITHMS:
                sizes = (n // 2, 2) if way in ("axes", "per_axis") and n % 2 == 0 else (n,)
                us, _ = communication_costs.cost(
                    kind, n, 1000, algorithm=way, link=LINK, sizes=sizes
                )
                rounds = communication.rounds(
                    communication.messages(
                        kind, (tuple(range(n)),), bytes_in=1000, algorithm=way, sizes=sizes
                    )
                )
                made = r.Transfer(kind, bytes_in=1000)
                yield {
                    "kind": kind,
                    "n": n,
                    "way": way,
                    "sizes": sizes,
                    "us": us,
                    "rounds": [sorted(x) for x in rounds],
                    "prices": dataflow_data.prices(made, n, sizes, ()),
                    **dataflow_data.kinds((made,))[kind],
                }


def labels():
    """Curves close to one another, and where their labels stand in turn."""
    curves = [
        ((0, 0), (14, 40), (0, 80), (1, 0)),
        ((4, 0), (-10, 40), (4, 80), (-1, 0)),
        ((0, 4), (14, 44), (0, 84), (1, 0)),
        ((1, 1), (9, 40), (2, 79), (1, 0.2)),
    ] * 3
    taken = [(-22.0, -17.0, 22.0, 17.0)]
    return [
        [[list(p) for p in curve], dataflow.label_place(*curve, "64 B", taken)] for curve in curves
    ]


@pytest.mark.parametrize("shape", [(8,), (8, 1), (1, 8)])
def test_messages_of_one_column_do_not_run_through_devices_and_their_names(shape):
    """All devices in one line stand in a ring, where no message passes a device; bytes stand in front of every arrow."""
    mesh = xlab.make_mesh(shape, ("data", "model")[: len(shape)], axis_types=(AxisType.Auto,) * len(shape))  # fmt: skip
    axis = "data" if shape[0] == 8 else "model"
    before, after = (NamedSharding(mesh, spec) for spec in (P(axis), P(None, axis)))
    drawn = html(resharding.moves_svg(compare(before, after, (64, 64)), observe.layout(before, (64, 64)).mesh))  # fmt: skip
    places = re.findall(r"data-x='([-\d.]+)' data-y='([-\d.]+)'", drawn)
    assert len(places) == 8 and min(len(set(xs)) for xs in zip(*places, strict=True)) > 4
    assert f"{axis} ↻" in drawn
    arrows = drawn[drawn.index("xl-arrows") : drawn.index("xl-axis")]
    assert "<text" in arrows and "<path" not in arrows[arrows.index("<text") :]


def test_columns_stand_close_where_there_are_many():
    assert dataflow.beside(r.MeshInfo(("a",), (2,))) == 104
    assert 8 * (44 + dataflow.beside(r.MeshInfo(("a",), (8,)))) <= 640


def test_labels_of_close_arrows_stand_apart_or_not_at_all():
    mesh = r.MeshInfo(("data", "model"), (4, 2), tuple(range(8)))
    close = tuple(
        (a, b, 64)
        for a, b in ((1, 4), (1, 6), (3, 4), (3, 6), (4, 1), (4, 3), (6, 1), (6, 3), (0, 2), (2, 0))
    )
    made = html(dataflow.frame(r.Transfer("all_to_all", bytes_in=64, rounds=(close,)), mesh))
    places = [
        tuple(map(float, m)) for m in re.findall(r"<text x='([-\d.]+)' y='([-\d.]+)'>64 B", made)
    ]
    assert 5 <= len(places) <= len(close) and made.count("data-tip='64 B'") == len(close), (
        "bytes are told on hover where there is no room"
    )
    for i, (x, y) in enumerate(places):
        for other, height in places[:i]:
            assert abs(x - other) >= 25 or abs(y - height) >= 11.9
    assert [at is None for _, at in labels()].count(True) < len(labels()) // 2


@pytest.mark.skipif(
    NODE is None, reason="node is not installed; the front end is tested where it is"
)
def test_the_page_has_the_same_messages_and_prices(tmp_path):
    module = tmp_path / "communication.mjs"
    names = "predictCost, roundsOf, roundMessages, heldBefore, scheduleOf, labelPlace, meshPlaces"
    module.write_text(f"{assets.body()}\nexport {{ {names} }};\n", encoding="utf-8")
    pairs = tuple((i, (i + 3) % 8) for i in range(8))
    permute = r.Transfer(
        "collective_permute",
        axes=("x",),
        pairs=pairs,
        bytes_in=1000,
        mesh=r.MeshInfo(("x",), (8,), tuple(range(8))),
    )
    prices = []
    for way in communication.ALGORITHMS:
        hops, load = (
            communication_costs.permute_load(
                (tuple(range(8)),), pairs, 1000, both_ways=way in ("bidirectional", "shortest")
            )
            if way != "direct"
            else (1, 1000)
        )
        prices.append(
            [
                way,
                communication_costs.cost(
                    "collective_permute", 8, 1000, hops=hops, load=load, algorithm=way, link=LINK
                )[0],
            ]
        )
    data = tmp_path / "data.json"
    data.write_text(
        json.dumps(
            {
                "cases": list(cases()),
                "alpha": LINK.alpha,
                "beta": LINK.beta,
                "permute": {
                    "prices": dataflow_data.prices(
                        permute, 8, (8,), dataflow_data.groups_of(permute)
                    ),
                    **dataflow_data.kinds((permute,))[permute.kind],
                },
                "prices": prices,
                "labels": labels(),
                "meshes": [
                    [names, sizes, mesh_places(r.MeshInfo(names, sizes))[2:]]
                    for names, sizes in MESHES
                ],
            }
        )
    )
    done = subprocess.run(
        [NODE, HERE / "traffic.test.mjs", module, data], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "ok"


def test_a_record_says_what_its_prediction_assumes():
    for way in communication.ALGORITHMS:
        kind = "collective_broadcast" if way == "pipelined" else "all_gather"
        us, formula = communication_costs.cost(
            kind, 8, 4096, algorithm=way, link=LINK, sizes=(4, 2)
        )
        assert dataflow_data.assumed((r.Transfer(kind, predicted_us=us, formula=formula),)) == (
            1.5,
            12_500.0,
            way,
        )
    _, formula = communication_costs.cost("collective_permute", 8, 4096, hops=2, link=LINK)
    assert dataflow_data.assumed((r.Transfer("collective_permute", formula=formula),)) == (
        1.5,
        12_500.0,
        "ring",
    )


def many():
    """Gathers of six layers on one line, the sum of their gradients, and one that two shardings make."""
    at = r.Source("cell", 37, text="h @ w")
    gather = r.Transfer(
        "all_gather", axes=("data",), bytes_in=64, bytes_out=128, times=1, predicted_us=2.0
    )
    gather = gather.replace(origin="partitioner", source=at, pattern="FSDP gather", fix="split")
    layers = tuple(
        gather.replace(reason=f"`w[{n}]` is split, dot_general (line 37) needs it")
        for n in range(6)
    )
    total = r.Transfer("all_reduce", "add", ("data",), bytes_in=64, bytes_out=64, times=1)
    total = total.replace(
        predicted_us=50.0, origin="partitioner", pattern="data-parallel gradient sum"
    )
    odd = gather.replace(pattern="", predicted_us=5.0, reason="`y` lies otherwise", tried=True)
    return (*layers, odd, total)


def test_collectives_of_a_line_are_one_row_and_the_costly_ones_first():
    said = text(many()).splitlines()
    ops = [line.split()[0] for line in said[1:4]]
    assert ops == ["all_reduce", "all_gather", "all_gather"], "by what a run costs: 50, 12 and 5 µs"
    assert said[2].endswith("partitioner: FSDP gather                  6 × cell:37")
    assert said[3].rstrip().endswith("partitioner (!)                           cell:37")
    assert [line for line in said if "w[" in line] == [
        "  all_gather: FSDP gather: `w[0]` is split, dot_general (line 37) needs it. 5 more like it."
    ], "a reason that six have is told once, and what is known needs nothing done"
    assert sum("(!)" in line for line in said) == 1 and sum("Remove it" in x for x in said) == 1


def test_the_page_folds_collectives_that_are_alike():
    found = html(dataflow.transfers_panel(many(), None))
    rows = re.findall(r"<tr [^>]*data-row='(\d)'([^>]*)>", found)
    assert [n for n, _ in rows] == ["7", "0", "1", "2", "3", "4", "5", "6"]
    assert [n for n, rest in rows if "data-in='0'" in rest] == ["1", "2", "3", "4", "5"]
    assert found.count(">6 × line 37<") == 1 and found.count("⚠") == 1
    assert found.count("needs it.") == 1 and found.count("Remove it") == 1


def test_collectives_of_repeated_layers_say_so():
    layer = ("dot_general", "psum", "tanh", "mul")
    program = r.Program(
        "f",
        equations=tuple(r.Equation(n, layer[n % 4]) for n in range(12)),
        layer_names=("block",),
    )
    found = tuple(r.Transfer("all_reduce", bytes_in=8, equation=n) for n in (1, 5, 9))
    drawn = html(dataflow.transfers_panel(found, None, collective_rows.layers_of((program,))))
    assert "3 × line</span><small class='xl-of-layers'>block ×3</small>" in drawn
    assert "block" not in html(
        dataflow.transfers_panel((*found, found[0].replace(equation=99)), None)
    )
    elsewhere = (*found, found[0].replace(equation=99))
    assert "block" not in html(
        dataflow.transfers_panel(elsewhere, None, collective_rows.layers_of((program,)))
    )


def test_totals_per_axis_and_per_run():
    found = html(dataflow.totals(sample.report().transfers, True))
    rows = [part.split("</tr>")[0] for part in found.split("<tr data-over=")[1:]]
    assert [row.split("'")[1] for row in rows] == ["data", "model", ""]
    assert "one run of the program" in rows[-1] and "counted once" in found
    over = next(row for row in rows if row.startswith("'model'"))
    assert "98.3 KB" in over and "216 µs" in over, "12 trips of 8,192 B and 18 µs"


def test_columns_of_measured_times_only_where_there_are_any():
    report = sample.report()
    assert ">wait<" in html(dataflow.transfers_panel(report.transfers, sample.MESH))
    plain = tuple(t.replace(measured_us=None, wait_us=None) for t in report.transfers)
    assert ">wait<" not in html(dataflow.transfers_panel(plain, sample.MESH))


def test_the_page_says_what_measured_times_hold():
    report = sample.report()
    found = html(dataflow.totals(report.transfers, True))
    assert (
        ">of it waiting<" in found
        and "waiting for the others included" in found
        and "longer than the program took" in found
    )
    assert "Sent and predicted are estimates" in found
    without = html(dataflow.totals(report.transfers, False))
    assert "waiting" not in without and "Sent and predicted are estimates" in without


def test_a_suggestion_about_an_argument_can_be_tried():
    arguments = sample.report().layouts[:2]
    t = r.Transfer(
        "all_gather",
        fix="give `params['qkv']` the sharding P(None, ('data', 'model')) where it is made",
        program=0,
    )
    assert dataflow_data.attempt(t, arguments) == {
        "program": 0,
        "argument": 1,
        "spec": [[], ["data", "model"]],
        "text": "params['qkv'] as P(None, ('data', 'model'))",
    }
    assert (
        dataflow_data.attempt(
            t.replace(fix="give `h` the sharding P() where it is made"), arguments
        )
        is None
    )
    assert dataflow_data.attempt(t.replace(fix="keep that dimension whole"), arguments) is None


def test_schedules_of_whole_machines_are_not_sent_message_by_message():
    mesh = r.MeshInfo(("x",), (512,), tuple(range(512)))
    from xlab.observe.sharding.collectives import predicted

    made = predicted(
        r.Transfer("all_reduce", "add", ("x",), (tuple(range(512)),), bytes_in=1 << 20, mesh=mesh),
        LINK,
    )
    assert made.rounds == () and made.predicted_us is not None
    assert len(json.dumps(dataflow_data.transfers_data((made,), mesh))) < 4000


@pytest.mark.parametrize(("names", "sizes"), MESHES)
def test_the_names_of_axes_stand_inside_the_picture(names, sizes):
    _, labels, _, _ = mesh_places(r.MeshInfo(names, sizes))
    to_the_left = "".join(html(label) for label in labels if "xl-end" in label[1]["class"])
    ends = re.findall(r"x='([\d.]+)'[^>]*>([^<]+)<", to_the_left)
    assert len(ends) > sizes[-2 if len(sizes) > 1 else -1] * (len(sizes) > 1)
    assert all(float(x) >= 6 * len(words) for x, words in ends)


@pytest.mark.browser
@pytest.mark.parametrize(("devices", "numbers"), [(4, True), (8, False), (16, False)])
def test_the_caption_names_a_number_only_where_one_is_drawn(browser, tmp_path, devices, numbers):
    """Blocks of many devices are too narrow for a number: then only the color says where a block comes from."""
    mesh = r.MeshInfo(("data",), (devices,), tuple(range(devices)))
    groups = (tuple(range(devices)),)
    gather = r.Transfer(
        "all_gather",
        "",
        ("data",),
        groups,
        (),
        1024,
        1024 * devices,
        operand="f32[16,16]",
        rounds=sample.ring(groups, 1024),
        mesh=mesh,
    )
    path = write_html(r.Report("f", (sample.program(),), transfers=(gather,)), tmp_path / "c.html")
    page = visit(browser, path)
    page.locator("[role=tab]", has_text="Collectives").click()
    said = page.locator(".xl-panel:visible").inner_text()
    assert ("its color and number say" in said) == numbers
    assert ("its color says" in said) != numbers
    assert bool(page.locator(".xl-chunk").count()) == numbers
    page.close()
