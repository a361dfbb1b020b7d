"""Saved pages: self-contained, safe with any text, readable with no script, small enough to keep."""

import html.parser
import json
import re
from functools import cache

import numpy as np
import pytest

import xlab
from tests.notebook.views import sample
from tests.notebook.views.each import of_views
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.notebook import export
from xlab.notebook.views import VIEWS, view_for
from xlab.notebook.views.draw import clean
from xlab.observe import records as r
from xlab.observe.records import base
from xlab.observe.records.diff import Diff, Figure, Pair
from xlab.observe.records.ladder import Ladder, Rung
from xlab.observe.records.passes import Pass
from xlab.observe.records.targets import Scheduled
from xlab.observe.records.text import text

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "a\u202eb\u2066c\u2028d",
    "&lt;b&gt; ]]> <!-- --> ${x} `y`",
    "\x00\x1b[31m\ud800",
    "</textarea></style></iframe>",
]


class Reader(html.parser.HTMLParser):
    """Collects tags, attributes and text as a browser would read them."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.names, self.links, self.words = [], set(), [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.names |= {k for k, _ in attributes}
        self.links += [
            v for k, v in attributes if k in ("src", "href", "action", "data", "xlink:href")
        ]

    def handle_data(self, data):
        self.words.append(data)


def nasty(value, word, most=1 << 60):
    """A record with one piece of text in every place that holds text, or in the first few of them."""
    left = most

    def change(value):
        nonlocal left
        if isinstance(value, r.Record):
            kept = {"dtype", "kind", "severity", "tab", "origin", "cache", "role", "label"}
            fields = {
                name: getattr(value, name) for name, _ in base._defaults[type(value).__name__]
            }
            return type(value)(**{k: v if k in kept else change(v) for k, v in fields.items()})
        if isinstance(value, tuple):
            return tuple(change(v) for v in value)
        if isinstance(value, str) and left > 0:
            left -= 1
            return word + value
        return value

    return change(value)


@cache
def nasty_report(word):
    """The sample with one piece of text in every place that holds text."""
    return nasty(
        sample.report().replace(error=r.Failure("ValueError", "x", sample.source(3), "trace")), word
    )


@cache
def of_every_view(report, word):
    """A record for each view; a view that is not listed here fails its tests."""
    return {
        **of_views(report),
        r.MeshInfo: sample.MESH.replace(axis_names=(word + "data", word + "model")),
        Scheduled: sample.scheduled(word),
        Ladder: Ladder(
            word,
            (
                Rung(word, report.programs[0], word, ((0, 0),)),
                Rung(word, report.programs[0], word, ((0, 0),), (0,)),
            ),
            ((word, word),),
        ),
        Diff: Diff(
            word,
            word,
            (Figure(word, word, word, word, word),),
            (Pair("changed", word, word), Pair("left", word, ""), Pair("right", "", word)),
        ),
    }


@pytest.mark.parametrize("word", NASTY)
def test_no_text_becomes_markup(word):
    page = export.to_html(nasty_report(word))
    read = Reader(page)
    plain = Reader(
        export.to_html(
            sample.report().replace(error=r.Failure("ValueError", "x", sample.source(3), "trace"))
        )
    )
    assert set(read.tags) <= set(plain.tags)
    assert read.tags.count("script") == 3
    assert not [n for n in read.names if n.startswith("on")]
    assert set(read.links) <= {"#"}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\x00\x1b]", page)


@pytest.mark.parametrize("word", NASTY)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_every_view_escapes(word, view):
    found = of_every_view(nasty_report(word), word)[view.record_type]
    output = Reader(view.static_html(found))
    plain = Reader(view.static_html(of_every_view(nasty_report("a"), "a")[view.record_type]))
    assert set(output.tags) <= set(plain.tags)
    assert output.tags.count("script") == plain.tags.count("script") <= 3
    assert not [n for n in output.names if n.startswith("on")]
    assert set(output.links) <= {"#"}
    assert text(found)


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_ten_megabytes_through_every_view(view):
    """Three places of each record hold ten megabytes: the page and what is sent to it stay small, and say what they cut."""
    long = "<b>" + "x" * 10_000_000
    plain = of_every_view(sample.report(), "a")[view.record_type]
    made = nasty(plain, long, 3)
    assert len(view.static_html(made)) < 60_000 + len(view.static_html(plain))
    sent = json.dumps([view.payload(made)[part] for part in ("tree", "data")])
    assert len(sent) < 60_000 + len(
        json.dumps([view.payload(plain)[part] for part in ("tree", "data")])
    )
    assert "more characters" in sent or long[:50] not in sent


def test_ten_megabytes_of_text_are_cut_and_said_to_be():
    long = "x" * 10_000_000
    p = r.Program(
        long,
        equations=(r.Equation(0, long, text=long),),
        sources=(r.Listing("f", 1, (long,)),),
        levels=(r.Level("stablehlo", long),),
    )
    page = export.to_html(r.Report(long, (p,), notices=(r.Notice("warning", long),)))
    assert len(page) < 200_000
    assert "9,998,000 more characters" in page


def test_clean_shows_what_cannot_be_seen():
    assert clean("a\u202eb\x07") == "a⟨U+202E⟩b⟨U+0007⟩"
    assert clean("tab\tline\n") == "tab\tline\n"


def test_page_asks_nothing_of_a_network():
    page = export.to_html(sample.report())
    assert "default-src 'none'" in page
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_page_reads_without_a_script():
    words = " ".join(
        Reader(re.sub(r"(?s)<script.*?</script>", "", export.to_html(sample.report()))).words
    )
    for part in (
        "train_step",
        "cold 1.42 s",
        "Program",
        "jnp.split",
        "dot_general",
        "Shardings",
        "shard f32[16,16]",
        "Collectives",
        "you (psum)",
        "Remove it",
        "Timings",
        "compile 1.18 s",
        "loader(drop_last=True)",
        "Memory",
        "peak",
        "Passes",
        "after propagation",
        "5 NaN",
    ):
        assert part in words, part


def test_a_thousand_equations_stay_under_the_budget():
    made = r.Type("f32", (64, 128), (("data",), ("model",)))
    equations = tuple(
        r.Equation(
            i,
            "dot_general" if i % 5 == 0 else "add",
            (f"v{i}", "w"),
            (r.Variable(f"v{i + 1}", made),),
            "" if i % 5 else "dimension_numbers=(((1,), (0,)), ((), ()))",
            sample.source(1 + i % 19),
        )
        for i in range(1000)
    )
    level = r.Level(
        "optimized",
        "\n".join(
            f'  %fusion.{i} = f32[16,64]{{1,0}} fusion(f32[16,64]{{1,0}} %p{i}), kind=kLoop, metadata={{op_name="x{i}"}}'
            for i in range(1000)
        ),
        tuple((i + 1, (i,)) for i in range(1000)),
    )
    program = sample.program().replace(equations=equations, levels=(level,) * 3, heat=())
    report = sample.report().replace(programs=(program,), trace=None)
    assert len(view_for(report).static_html(report)) <= 300_000


def test_a_real_program_on_a_mesh_stays_under_the_budget():
    def step(x, ws):
        for w in ws:
            for k in range(38):
                x = lax.sin(x) if k % 2 else lax.tanh(x)
            x = programs.matmul(x, w)
        return x

    x, ws = (
        programs.put(np.ones((16, 64)), "data", None),
        [programs.put(np.ones((64, 64)), None, "model") for _ in range(26)],
    )
    with observe.record() as session:
        xlab.jit(step)(x, ws)
    report = observe.report(session)
    assert sum(n for _, n in report.programs[0].counts) > 1000 and len(report.layouts) > 1000
    assert len(view_for(report).static_html(report)) <= 300_000
    # with what every pass of the compiler changed, and the modules before each
    found = observe.passes(xlab.jit(step), x, ws, all=True)
    with_passes = report.replace(passes=found)
    assert (
        sum(len(line) for p in found for _, gone, came in p.edits for line in (*gone, *came))
        > 1_000_000
    )
    assert len(view_for(report).static_html(with_passes)) <= 300_000
    data = view_for(report).payload(report)["data"]["layouts"]
    assert len(data["rows"][0]) == len(report.layouts) and not data["blocks"], (
        "blocks follow from the specs"
    )


def test_a_gradient_with_a_collective_in_every_layer_stays_under_the_budget():
    def loss(layers, x):
        for up, down in layers:
            x = x + jnp.tanh(x @ up) @ down
            x = x - x.mean(-1, keepdims=True)
        return (x * x).mean()

    put = programs.put
    layers = [
        (put(np.ones((64, 128)), None, "model"), put(np.ones((128, 64)), "model", None))
        for _ in range(40)
    ]
    with observe.record() as session:
        xlab.jit(xlab.grad(loss))(layers, put(np.ones((16, 64)), "data", None))
    report = observe.report(session)
    assert sum(n for _, n in report.programs[0].counts) > 950 and len(report.transfers) > 70
    page = view_for(report).static_html(report)
    assert len(page) <= 300_000
    assert "lighter collectives listed by the page" in page


def test_write_html_returns_the_path_and_explains_a_missing_folder(tmp_path):
    target = export.write_html(sample.report(), tmp_path / "report.html")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(FileNotFoundError, match="create it first"):
        export.write_html(sample.report(), tmp_path / "no" / "report.html")


def test_a_failing_panel_shows_its_error_and_the_others_stand(monkeypatch):
    import xlab.notebook.views.memory as module

    def fails(*_):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(module, "memory_panel", fails)
    words = " ".join(Reader(export.to_html(sample.report())).words)
    assert "this view failed" in words
    assert "ZeroDivisionError: no" in words
    assert "Remove it" in words


def test_an_empty_report_is_a_page():
    words = " ".join(Reader(export.to_html(r.Report("nothing"))).words)
    assert "Nothing was traced." in words


def tabs(report):
    return re.findall("data-tab='(\\w+)'", export.to_html(report))


def test_only_tabs_that_say_something():
    report = sample.report()
    assert tabs(r.Report("timed", report.programs, timings=report.timings)) == [
        "program",
        "timings",
    ]
    assert tabs(r.Report("nothing")) == []


def test_a_cell_that_failed_before_tracing_shows_its_error_alone():
    failed = r.Failure("TypeError", "no", sample.source(3))
    report = r.Report(
        "f",
        phases=(r.Phase("trace", "f", error="TypeError"),),
        error=failed,
        versions=(("python", "3"),),
    )
    assert tabs(report) == []
    words = " ".join(
        Reader(re.sub(r"(?s)<(script|style).*?</\1>", "", export.to_html(report))).words
    )
    assert "TypeError" in words and "0 equations" not in words and "collectives" not in words


def test_a_report_opens_where_it_says():
    assert (
        view_for(sample.report()).payload(sample.report().replace(opens="memory"))["data"]["opens"]
        == "memory"
    )


def test_frames_are_about_as_tall_as_their_picture():
    def tall(record):
        return int(re.search(r'data-tall="(\d+)"', view_for(record).static_html(record))[1])

    assert tall(sample.MESH) < 300
    assert tall(sample.report().programs[0].replace(equations=(), sources=(), levels=())) < 260
    assert tall(sample.report()) == 640


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((), ()),
        ((8,), ((),)),
        ((8,), (("data", "model"),)),
        ((7, 3), (("data",), ())),
        ((4, 4, 4), (("data",), (), ("model",))),
        ((2, 2, 4, 2, 3), ((), (), ("data",), ("model",), ())),
    ],
)
def test_layouts_of_any_rank_draw_every_device(shape, spec):
    made = sample.layout("x", shape, spec, "")
    page = view_for(made).static_html(made)
    for device in range(8):
        assert f"device {device} " in page


@pytest.mark.parametrize("sizes", [(8,), (2, 4), (2, 2, 2), (2, 2, 2, 2), (1, 1), (64, 8)])
def test_meshes_of_any_number_of_axes_draw_every_device(sizes):
    mesh = r.MeshInfo(
        tuple("abcd"[: len(sizes)]),
        sizes,
        tuple(range(r.MeshInfo(("x",) * len(sizes), sizes).size)),
    )
    made = sample.layout("x", (64,), (("a",),), "", mesh)
    page = view_for(made).static_html(made)
    if mesh.size > 128:  # drawn by the page, from the spec
        assert view_for(made).payload(made)["data"]["layouts"]["rows"] and len(page) < 100_000
    else:
        assert page.count("data-dev") >= (mesh.size if mesh.size > 1 else 0)


def test_long_lists_are_cut_and_say_so():
    report = sample.report()
    many = report.replace(
        layouts=report.layouts * 40,
        transfers=report.transfers * 200,
        ledger=r.Ledger(report.ledger.entries * 80),
        passes=(Pass("fusion", "xla", 900, 0, 1.0, edits=((0, (), ("line",) * 900),)),),
        trace=None,
    )
    page = export.to_html(many)
    for words in (
        "more arrays not listed here",
        "260 lighter collectives listed by the page",
        "300 lighter collectives not listed",
        "the last 100",
        "861 more lines",
    ):
        assert words in page
    assert len(page) < 560_000
