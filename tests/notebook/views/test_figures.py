"""Every view of a page as a figure: SVG whose text is text, PNG, and a page to print, for a column and a slide."""

import itertools
import re
import struct
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.notebook.views import sample, sample_kernel
from tests.notebook.views.each import full
from tests.notebook.views.test_browser import visit
from tests.observe import sample_programs as programs
from xlab import numpy as jnp
from xlab import observe
from xlab.notebook.export import write_html
from xlab.notebook.views import view_for
from xlab.observe.records import Equation, Program, Report, Type, Variable
from xlab.observe.records.diff import Diff, Pair
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"
STUB = """() => {
  const real = Object.getOwnPropertyDescriptor(HTMLIFrameElement.prototype, "contentWindow").get;
  Object.defineProperty(HTMLIFrameElement.prototype, "contentWindow", { get() {
    const inner = real.call(this);
    inner.print = () => {
      const svg = inner.document.querySelector("svg");
      globalThis.printed = [svg.getAttribute("width"), svg.querySelectorAll("text").length, inner.document.querySelector("style").textContent];
      inner.onafterprint();
    };
    return inner;
  } });
}"""
"""Prints nothing, and says what would have been."""


def kept(page, choice):
    page.wait_for_timeout(110)  # Chromium lets a page save ten files a second
    with page.expect_download() as download:
        page.locator(".xl-figure").select_option(choice)
    return download.value


def test_every_view_is_saved_as_a_figure(browser, tmp_path):
    page = visit(browser, write_html(sample.report(), tmp_path / "r.html"), color_scheme="dark")
    page.wait_for_selector(".xl-live .xl-row")
    said = {}
    for tab in page.locator("[role=tab]").all():
        name = tab.inner_text()
        tab.click()
        download = kept(page, "SVG, column")
        assert name.split()[0].lower()[:4] in download.suggested_filename.lower()
        root = ElementTree.fromstring(download.path().read_text())
        assert root.get("width") == "3.3in" and 0.2 < float(root.get("height")[:-2]) < 30
        said[name] = " ".join(t.text or "" for t in root.iter(f"{SVG}text"))
        assert said[name].strip(), name
        assert not any(e.get("class") or e.tag.endswith("foreignObject") for e in root.iter())
    assert "dot_general" in said["Program"] and "all_reduce" in said["Collectives"]
    assert " origin line " in said["Collectives"], (
        "a figure cannot be scrolled: all columns are in it"
    )
    assert "predict for" not in said["Collectives"], "nor are its controls"
    assert "float32" in said["Shardings"] or "f32[" in said["Shardings"]
    page.locator("[role=tab]", has_text="Shardings").click()
    slide = ElementTree.fromstring(kept(page, "SVG, slide").path().read_text())
    assert slide.get("width") == "10in"
    back = next(slide.iter(f"{SVG}rect"))
    assert back.get("fill") == "#fff", "light, as paper is, although the page is dark"
    words = next(t for t in slide.iter(f"{SVG}text"))
    assert sum(map(int, words.get("fill")[4:-1].split(","))) < 400, "dark letters"
    for choice, width in (("PNG, column", 990), ("PNG, slide", 1500)):
        data = kept(page, choice).path().read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", data[16:20]) == (width,)
    assert "no figure" not in page.locator(".xl-status").inner_text()
    dark = page.evaluate("getComputedStyle(document.querySelector('.xl')).backgroundColor")
    assert sum(map(int, dark[4:-1].split(","))) < 150, "the page is as it was"
    # The browser's own dialog makes the PDF: the page it gets is as large as the figure.
    page.evaluate(STUB)
    page.locator(".xl-figure").select_option("PDF, slide")
    width, texts, style = page.evaluate("printed")
    assert width == "10in" and texts > 5 and "@page{size:10in" in style
    assert page.locator("iframe").count() == 0
    assert page.complaints == []
    page.close()


def test_a_figure_of_collectives_has_its_lines_and_its_labels(browser, tmp_path):
    """Lines of several in one row too, although that is a button; and letters in front of the light edge around them."""
    one = sample.report().transfers[1]
    many = tuple(one.replace(reason=f"`w[{n}]` needs it", fix="") for n in range(6))
    report = sample.report().replace(transfers=many)
    page = visit(browser, write_html(report, tmp_path / "r.html"))
    page.get_by_role("tab", name="Collectives").click()
    root = ElementTree.fromstring(kept(page, "SVG, column").path().read_text())
    texts = list(root.iter(f"{SVG}text"))
    assert any((t.text or "").startswith("6 ×") for t in texts)
    edged = [t for t in texts if t.get("stroke", "none") != "none"]
    assert edged and all(t.get("paint-order") == "stroke" for t in edged)
    assert page.complaints == []
    page.close()


def places(root):
    """The size of a figure, and of each text its words, its right end and its line."""
    _, _, wide, tall = map(float, root.get("viewBox").split())
    words = [t for t in root.iter(f"{SVG}text") if t.get("textLength")]
    ends = [float(t.get("x")) + float(t.get("textLength")) for t in words]
    return wide, tall, [(t.text, end, float(t.get("y"))) for t, end in zip(words, ends)]


def test_controls_that_are_not_drawn_leave_no_room(browser, tmp_path):
    """The bars above a run and below a collective, and the frame of its variables where it has few; the page is as it was."""
    run = observe.Stepper(lambda x: jnp.sin(x) * 2, jnp.ones(3)).trace()
    page = visit(browser, write_html(run, tmp_path / "run.html"))
    page.wait_for_selector(".xl-live .xl-place")
    before = page.locator(".xl-live").bounding_box()["height"]
    root = ElementTree.fromstring(kept(page, "SVG, column").path().read_text())
    wide, tall, words = places(root)
    drawn = [float(e.get("x")) + float(e.get("width")) for e in root.findall(f"{SVG}rect")[1:]]
    assert wide - max(drawn) < 20, "nor beside what is drawn"
    lines = sorted(y for _, _, y in words)
    assert lines[0] < 45 and tall - lines[-1] < 60, (lines[0], lines[-1], tall)
    assert max(b - a for a, b in itertools.pairwise(lines)) < 60
    page.locator(".xl-place").wait_for()
    assert page.locator(".xl-live").bounding_box()["height"] == before
    assert page.complaints == []
    page.close()


def test_no_column_of_a_table_is_cut(browser, tmp_path):
    page = visit(browser, write_html(sample.report(), tmp_path / "r.html"))
    page.wait_for_selector(".xl-live")
    page.get_by_role("tab", name="Collectives").click()
    for choice in ("SVG, column", "SVG, slide"):
        root = ElementTree.fromstring(kept(page, choice).path().read_text())
        wide, _, words = places(root)
        last = max(end for text, end, _ in words if text.strip() == "line")
        assert last < wide, (choice, last, wide)
        for clip in root.iter(f"{SVG}clipPath"):
            (box,) = clip
            if float(box.get("x")) < 30:  # the table's
                assert float(box.get("x")) + float(box.get("width")) > last - 1
    page.close()


LABELS = {
    "Overview": "2 findings|compute 50 %|communication 7.25 µs|memory 3.4 MB of 2 GB|attention|share",
    "Timings": "train_step|compile 1.18 s|500 ms|cold (first call)|log: 3 lines|Ledger|3.10 ms ± 80.0 µs",
    "Timeline": "device 0|device 1|20 µs|computes|in a collective|all-reduce.1",
    "Memory": "arguments 1.4 MB|alive|address|1.51 MB|peak 3.4 MB, step 12|buffer.3|step 0",
    "Kernels": "2 races ⚠|written|padding|cores over time|core 2|accesses|core 0 writes",
    "Processes": "process 0|process 1|400 µs",
}
"""Words that a figure of a tab has, of heads, axes, bars and legends."""
COLORS = {
    "Overview": "rgb(42, 121, 180) rgb(184, 69, 10) rgb(138, 97, 0)",
    "Timings": "rgb(185, 198, 211) rgb(143, 176, 205) rgb(15, 95, 158)",
    "Timeline": "rgb(15, 95, 158) color(srgb 0.655882 0.535294 0.25)",
    "Memory": "rgb(185, 198, 211) rgb(143, 176, 205) rgb(230, 159, 0)",
    "Kernels": "rgb(0, 114, 178) rgb(230, 159, 0) rgb(204, 121, 167)",
    "Processes": "rgb(15, 95, 158) rgb(74, 140, 194)",
}
OUTSIDE = """() => [...document.querySelectorAll("text")].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.left < 0 || box.right > document.documentElement.getBoundingClientRect().right + 1;
}).map((text) => text.textContent)"""


def test_figures_have_their_labels_and_their_colors(browser, tmp_path):
    """Those of charts too, whole, and nothing of what is folded or of the controls."""
    report = full(sample.report()).replace(kernels=(sample_kernel.race(),))
    page = visit(browser, write_html(report, tmp_path / "r.html"), color_scheme="dark")
    drawn = browser.new_page(viewport={"width": 1000, "height": 600})
    for tab, labels in LABELS.items():
        page.get_by_role("tab", name=tab).click()
        text = kept(page, "SVG, slide").path().read_text()
        root = ElementTree.fromstring(text)
        words = " ".join((t.text or "").strip() for t in root.iter(f"{SVG}text"))
        assert [w for w in labels.split("|") if w not in words] == [], (tab, words)
        fills = {e.get("fill") for e in root.iter()} | {e.get("stroke") for e in root.iter()}
        assert set(re.findall(r"\w+\([^)]*\)", COLORS[tab])) - fills == set(), (tab, fills)
        file = tmp_path / f"{tab}.svg"
        file.write_text(text)
        drawn.goto(file.as_uri())
        assert drawn.evaluate(OUTSIDE) == [], tab
        assert "come closer" not in words and "drag to move" not in words, "no controls"
        assert "somebody's own line" not in words, "what is folded is not drawn over the rest"
        if tab == "Kernels":
            assert "url(#xl-hatch" in text, "padding is hatched in the legend"
    drawn.close()
    page.close()


def test_a_figure_of_a_ladder_names_its_rungs_and_rules(browser, tmp_path):
    operands = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
    made = observe.ladder(programs.dense, *operands, rungs=("jvp", "vmap"))
    page = visit(browser, write_html(made, tmp_path / "ladder.html"))
    page.wait_for_selector(".xl-live .xl-rung .xl-row")
    root = ElementTree.fromstring(kept(page, "SVG, column").path().read_text())
    words = [(t.text or "").strip() for t in root.iter(f"{SVG}text")]
    assert [w for w in words if w in ("f", "jvp", "vmap")] == ["f", "jvp", "vmap"]
    assert {"jvp of tanh", "batch of tanh", "∂"} <= set(words) and "find" not in words
    fills = {e.get("fill") for e in root.iter(f"{SVG}text")}
    assert {"rgb(138, 63, 143)", "rgb(90, 101, 114)", "rgb(27, 31, 36)"} <= fills
    assert page.complaints == []
    page.close()


def test_a_picture_without_tabs_has_the_menu_too(browser, tmp_path):
    pairs = tuple(Pair("changed", f"sin {i}", f"cos {i}") for i in range(400))
    page = visit(browser, write_html(Diff("f", "g", pairs=pairs), tmp_path / "m.html"))
    page.wait_for_selector(".xl-figure")
    root = ElementTree.fromstring(kept(page, "SVG, column").path().read_text())
    assert {"sin 0", "cos 0"} <= {t.text for t in root.iter(f"{SVG}text")}
    tall = page.evaluate("document.documentElement.scrollHeight")
    assert tall < 1200, "four hundred lines scroll in their place"
    assert page.complaints == []
    page.close()


def test_a_picture_has_its_own_pattern_where_another_is_hidden(browser, tmp_path):
    pictures = [
        view_for(layout).static_html(layout)
        for layout in (
            observe.layout(NamedSharding(programs.mesh(), spec), (8, 4))
            for spec in (P("data"), P(None, "model"))
        )
    ]
    path = tmp_path / "two.html"
    path.write_text(f"<body><div hidden>{pictures[0]}</div><div>{pictures[1]}</div>", "utf-8")
    page = browser.new_page(java_script_enabled=True)
    page.goto(path.as_uri())
    seen = page.evaluate("""() => {
      const roots = [...document.querySelectorAll("iframe")].map((f) => f.contentDocument).concat(document);
      const bands = roots.flatMap((root) => [...root.querySelectorAll(".xl-hatch")]);
      return bands.filter((band) => band.getClientRects().length).map((band) => {
        const id = /#([\\w-]+)/.exec(getComputedStyle(band).fill)[1];
        const pattern = band.ownerDocument.getElementById(id);
        return [id, Boolean(pattern), Boolean(pattern?.closest("[hidden]"))];
      });
    }""")
    assert seen and all(there and not hidden for _, there, hidden in seen), seen
    page.close()


def test_a_program_opens_at_its_first_equation_and_names_are_whole(browser, tmp_path):
    kind = Type("f32", (8, 4))
    inputs = tuple(Variable(f"v{i}", kind, f"params['layers'][{i}]['down']") for i in range(51))
    program = Program(
        "f", inputs, ("z",), equations=(Equation(0, "sin", ("v0",), (Variable("z", kind),)),)
    )
    layout = observe.layout(NamedSharding(programs.mesh(), P("data")), (8, 4))
    layouts = tuple(layout.replace(name=v.note, role="argument") for v in inputs)
    path = write_html(Report("f", (program,), layouts), tmp_path / "p.html")
    page = visit(browser, path)
    page.set_viewport_size({"width": 1400, "height": 800})
    page.locator("[role=tab]", has_text="Program").click()
    box = page.locator(".xl-rows").first.bounding_box()
    seen = page.locator(".xl-row", has_text="sin").first.bounding_box()
    assert box["y"] <= seen["y"] < box["y"] + box["height"]
    page.locator("[role=tab]", has_text="Shardings").click()
    cut = page.evaluate(
        "[...document.querySelectorAll('.xl-layout-row > :nth-child(2)')].filter((n) => n.scrollWidth > n.clientWidth).length"
    )
    assert cut == 0
    page.close()


@pytest.mark.parametrize("width", [1400, 1100])
def test_names_of_arguments_are_whole_where_there_is_room(browser, tmp_path, width):
    """At both widths every name of a tree's arguments is shown from its first to its last letter."""
    kind = Type("f32", (8, 4))
    names = [f"params['layers'][{i}]['down']" for i in range(12)]
    inputs = tuple(Variable(f"v{i}", kind, name) for i, name in enumerate(names))
    program = Program(
        "f", inputs, ("z",), equations=(Equation(0, "sin", ("v0",), (Variable("z", kind),)),)
    )
    layout = observe.layout(NamedSharding(programs.mesh(), P("data")), (8, 4))
    layouts = tuple(layout.replace(name=v.note, role="argument") for v in inputs)
    page = visit(browser, write_html(Report("f", (program,), layouts), tmp_path / "p.html"))
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("[role=tab]", has_text="Shardings").click()
    seen = page.locator(".xl-layout-row > :nth-child(2)").evaluate_all(
        "(all) => all.map((n) => [n.textContent, n.scrollWidth - n.clientWidth])"
    )
    assert all(any(name in words for words, _ in seen) for name in names)
    assert not [row for row in seen if row[1] > 0]
    page.close()
