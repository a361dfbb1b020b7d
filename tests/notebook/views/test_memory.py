"""The memory panel: the map of buffers, the peak, donations; and the live arrays."""

import re

import pytest

from tests.notebook.views import sample
from xlab.notebook.views.buffers import donations_node, map_node, peak_node, places
from xlab.notebook.views.draw import html
from xlab.notebook.views.live import live_panel
from xlab.notebook.views.memory import memory_node, memory_panel
from xlab.observe.records import Buffer, Equation, Memory, Program
from xlab.observe.records.live import Live, LiveArray

REPORT = sample.report()
PROGRAM = Memory("f", 8, 4, 12, 8, 0, 20, 1, (
    Buffer("x", 8, "argument", 0, 3, "p", allocation=1), Buffer("t", 8, "temporary", 1, 2, "t", equation=4, allocation=0),
    Buffer("u", 4, "temporary", 3, 3, "u", allocation=0), Buffer("y", 4, "output", 3, 3, "y", allocation=2)), ("x",), (("w", "no result"),))  # fmt: skip


def test_buffers_lie_at_their_addresses():
    at = {b.name: where for b, where in places(PROGRAM.buffers)[0]}
    assert at == {"x": 0, "y": 8, "t": 12, "u": 12} and places(PROGRAM.buffers)[1] == 20


def test_the_map_draws_each_buffer_once_with_its_life():
    page = html(map_node(PROGRAM))
    assert page.count("xl-map-buffer") == 4 and page.count("<rect") == 4 and "data-eq='0:4'" in page
    assert "peak 20 B, step 1" in page and page.count("xl-off") == 2, (
        "u and y are not alive at the peak"
    )
    widths = dict(re.findall(r"<title>(\w+) .*?width='([\d.]+)'", page))
    assert float(widths["x"]) == pytest.approx(4 * float(widths["u"]), abs=0.5)


def test_what_is_alive_at_the_peak_is_listed():
    page = html(peak_node(PROGRAM))
    assert page.index(">t<") and page.index(">x<") and ">u<" not in page and "50 %" in page
    assert peak_node(Memory("f")) is None and map_node(Memory("f")) is None


def test_what_repeated_layers_hold_is_one_row_that_opens():
    layer = ("dot_general", "add", "tanh", "mul")
    program = Program(
        "f",
        equations=tuple(Equation(i, layer[i % 4]) for i in range(12)),
        layer_names=("block",),
    )
    held = [Buffer(f"fusion.{i}", 8, "temporary", 0, 3 + i, equation=i) for i in (2, 6, 10, 3)]
    given = [Buffer(f"p['l'][{i}]['w']", 16, "argument", 0, 9) for i in range(3)]
    memory = Memory("f", peak=80, peak_step=1, buffers=(*held, *given, Buffer("x", 4, end=3)))
    page = html(memory_panel((memory,), (program,)))
    peak = page[page.index("alive at the peak<") : page.index("8 buffers, largest first")]
    names = re.findall(r"<summary><code>(.*?)</code><b> ×(\d)</b><small>(.*?)</small>", peak)
    assert names == [
        ("p['l'][*]['w']", "3", " argument"),
        ("fusion", "3", " temporary, block ×3"),
    ]
    assert "48 B" in peak and "24 B" in peak and peak.count("<tr") == 4
    for part in (peak, page[page.index("8 buffers, largest first") :]):
        assert "data-eq='0:2 0:6 0:10'" in part and "<code>fusion.6</code>" in part
    assert "fusion.3</code><small> temporary" in peak, "another place of a layer is another row"
    # Of the programs nothing is known: every buffer stands by itself, but for arguments, which have paths.
    assert html(memory_panel((memory,))).count("<summary><code>") == 2


def test_donations_say_what_became_of_them():
    page = html(donations_node(PROGRAM))
    assert (
        "✓ used" in page
        and "⚠ not used" in page
        and "no result" in page
        and "1 donated argument gone" in page
    )
    assert donations_node(Memory("f")) is None


def test_large_programs_are_cut_and_counted():
    many = tuple(
        Buffer(f"b{n}", 4, "temporary", n, n + 1, allocation=0, offset=4 * (n % 9))
        for n in range(5000)
    )
    page = html(memory_node(Memory("f", peak=8, peak_step=3, buffers=many)))
    assert (
        "4,900 small or short buffers not drawn" in page
        and "4,960 smaller buffers not listed" in page
    )
    assert len(page) < 110_000, "an output stays small"


def test_the_sample_has_a_map():
    assert "xl-map" in html(memory_node(REPORT.memory[0]))


def test_live_arrays_by_line_by_device_one_by_one():
    page = html(live_panel(sample.live(REPORT)))
    for words in (
        "made in",
        "train_step, line 3",
        "devices 0–7",
        "P('data') over",
        "device 0, uncommitted",
        "no name",
        "%xmem --lines records",
        "made before the extension was loaded",
        "1 smaller array not listed",
    ):
        assert words in page, words
    assert "No array of xlab is alive" in html(live_panel(Live()))
    many = tuple(LiveArray("f32[]", 4, f"x[{n}]", (0,)) for n in range(400))
    assert html(live_panel(Live(many, 1600))).count("<tr") == 201


def test_the_curve_of_a_long_schedule_is_whole():
    buffers = tuple(
        Buffer(f"b{n}", 100 + 37 * n % 91, start=n, end=n + 2 + n % 5) for n in range(1000)
    )
    made = html(map_node(Memory("f", buffers=buffers, peak=900, peak_step=4)))
    (path,) = re.findall(r"<path d='([^']*)' class='xl-alive'", made)
    assert (
        re.fullmatch(r"M62 82(H[\d.]+V[\d.]+)+Z", path)
        and path.endswith("H820V82Z")
        and 100 < path.count("H") <= 151
    )


def test_what_a_program_needs_in_all_is_told():
    """Arguments, outputs and temporaries; what is aliased counts once."""
    assert PROGRAM.total == 8 + 4 + 12 - 8
    page = html(memory_node(PROGRAM))
    assert re.search(r"in all</td><td class='n' title='16 B'>16 B", page)
