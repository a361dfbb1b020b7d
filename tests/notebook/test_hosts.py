"""Outputs where they are not at home: hosts that drop scripts, styles, frames or pictures, and pages with many outputs."""

from __future__ import annotations

import html
import html.parser
import json
import os
import re
import subprocess
import sys

import pytest

import xlab
from tests.notebook.views import sample
from tests.notebook.views.each import of_views
from xlab import P, observe
from xlab import numpy as jnp
from xlab.notebook.views import page, saved, view_for
from xlab.notebook.views.draw import html as html_of
from xlab.notebook.views.draw import lean_html
from xlab.observe.records.text import text
from xlab.sharding import AxisType, NamedSharding


class Sanitized(html.parser.HTMLParser):
    """What is left of an output on a code host: words in plain elements. Scripts, styles, frames and drawings go with what is in them."""

    def __init__(self, source: str):
        super().__init__()
        self.gone, self.words = 0, []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.gone += tag in ("script", "style", "iframe", "svg")

    def handle_endtag(self, tag):
        self.gone -= tag in ("script", "style", "iframe", "svg")

    def handle_data(self, data):
        if not self.gone:
            self.words.append(data)


@pytest.mark.parametrize("kind", of_views(sample.report()), ids=lambda kind: kind.__name__)
def test_a_code_host_shows_every_picture_in_words(kind):
    """Its reader sees what the picture says, although no frame, script or style is left."""
    record = of_views(sample.report())[kind]
    view = view_for(record)
    payload = view.payload(record)
    left = "".join(Sanitized(view.static_html(record, payload, code=False)).words)
    assert left.strip() and "xl-" not in left and "=>" not in left, "no styles or scripts"
    tables = re.findall(r"<t[dh][^>]*>([^<>]{3,})</t[dh]>", html_of(payload["tree"]))
    assert all(html.unescape(words) in left for words in tables)


def test_a_report_reads_on_a_code_host():
    left = "".join(Sanitized(view_for(sample.report()).static_html(sample.report())).words)
    for words in ("train_step", "dot_general", "all_gather", "peak", "compile 1.18 s"):
        assert words in left
    assert len(left) > len(text(sample.report())) / 2


def test_the_first_cells_carry_the_script_and_the_others_do_not(monkeypatch):
    monkeypatch.setattr(saved, "_carriers", {})
    report = sample.report().replace(trace=None)
    view = view_for(report)
    payload = view.payload(report)
    carrying = [n for n in range(1, 201) if saved.carries_code(view, payload, f"cell {n}")]
    assert carrying == [1, 10, 100]
    assert saved.carries_code(view, payload, "cell 10"), "run again, it still does"
    steps = view_for(sample.report().trace)
    assert saved.carries_code(steps, steps.payload(sample.report().trace), "cell 200"), (
        "pictures of another kind have a script of their own"
    )
    mesh = view_for(sample.MESH)
    assert not saved.carries_code(mesh, mesh.payload(sample.MESH), "cell 201")


def loss(w, x, y):
    h = jnp.tanh(x @ w)
    return jnp.mean((h - y) ** 2)


def thirty(specs: tuple[P, ...] = ()) -> int:
    """The bytes of thirty reports of a gradient in a notebook, the script in the first and the tenth; its arguments lie on a mesh by specs."""
    args = [jnp.ones((64, 64)), jnp.ones((32, 64)), jnp.ones((32, 64))]
    if specs:
        mesh = xlab.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
        args = [xlab.device_put(x, NamedSharding(mesh, s)) for x, s in zip(args, specs, strict=True)]  # fmt: skip
    with observe.record() as session:
        xlab.jit(xlab.grad(loss))(*args)
    report = observe.report(session)
    assert report.programs and report.memory and report.phases and bool(specs) == bool(report.transfers)  # fmt: skip
    view = view_for(report)
    made = [view.bundle(report, code=n in (1, 10)) for n in range(1, 31)]
    assert all("image/svg+xml" in data for data in made)
    return len(json.dumps(made, ensure_ascii=False).encode())


def test_thirty_reports_are_small():
    """What a notebook of thirty cells of a line each takes on disk."""
    assert thirty() < 770_000


def test_thirty_reports_on_a_mesh_are_not_large():
    """With pictures of three arguments and of a collective in each."""
    assert thirty((P(None, "model"), P("data", None), P("data", "model"))) < 1_290_000


class Elements(html.parser.HTMLParser):
    """Elements with their attributes, and words, in the order in which they stand."""

    def __init__(self, source: str):
        super().__init__()
        self.found: list = []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, [(name, value or "") for name, value in attributes]))

    def handle_data(self, data):
        self.found.append(data)


@pytest.mark.parametrize("kind", of_views(sample.report()), ids=lambda kind: kind.__name__)
def test_what_html_can_do_without_says_nothing(kind):
    """Quotes and end tags: the elements, their attributes and the words are the same."""
    record = of_views(sample.report())[kind]
    tree = view_for(record).tree(record)
    assert Elements(lean_html(tree)).found == Elements(html_of(tree)).found
    nasty = ["td", {"title": "a b", "class": "'><b>&", "id": "", "data-eq": "x/"}, "<i>]]>"]
    assert Elements(lean_html(nasty)).found == Elements(html_of(nasty)).found


@pytest.mark.browser
def test_a_page_without_these_has_the_same_nodes(browser):
    """In what reads them: end tags are put where they were."""
    page = browser.new_page()
    for record in of_views(sample.report()).values():
        tree = view_for(record).tree(record)
        same = """([whole, lean]) => {
          const made = [whole, lean].map((source) => Object.assign(document.createElement("div"), { innerHTML: source }));
          return made[0].childElementCount === 1 && made[0].isEqualNode(made[1]);
        }"""
        assert page.evaluate(same, [html_of(tree), lean_html(tree)]), type(record).__name__
    page.close()


def test_the_picture_beside_an_array_has_the_styles_that_it_needs():
    """It stands under every result of a cell: a scalar that lies on eight devices took 19 kB."""
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    x = xlab.device_put(jnp.ones(()), NamedSharding(mesh, P()))
    layout = observe.layout(x)
    view = view_for(layout)
    small = page.inline(view, view.tree(layout))
    assert "class='xl-band xl-hatch'" in small and ".xl-band{" in small
    assert ".xl-transfers" not in small
    assert len(small) < 9_000


@pytest.mark.parametrize(
    "spec", [P(), P("data"), P(None, "model"), P("model", "data"), P(("data", "model"))]
)
def test_every_cell_has_a_band_for_each_axis(spec):
    """Those of one shade are one path; those along which the array is the same are hatched."""
    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    layout = observe.layout(xlab.device_put(jnp.ones((8, 8)), NamedSharding(mesh, spec)))
    drawn = html_of(view_for(layout).tree(layout))
    blocks, places = (drawn[drawn.index(f">{word}<") :].partition("</svg>")[0] for word in ("array", "mesh"))  # fmt: skip
    for picture in (blocks, places):
        bands = re.findall(r"<path d='([^']*)'[^>]*class='xl-band( xl-hatch)?'", picture)
        cells = picture.count("xl-block")
        assert sum(d.count("M") for d, _ in bands) == 2 * cells
        split = {name for axes in spec for name in ((axes,) if isinstance(axes, str) else axes or ())}  # fmt: skip
        assert sum(d.count("M") for d, hatch in bands if hatch) == (2 - len(split)) * cells
    assert places.count("xl-block") == 8


@pytest.mark.browser
@pytest.mark.slow
def test_one_script_draws_all_outputs_of_a_page(browser, tmp_path):
    """Above and below the output that has it; outputs of another version stay as they are, readable and without an error."""
    report = sample.report()
    view = view_for(report)
    outputs = [view.static_html(report, code=n == 1) for n in range(3)]
    other = re.sub(r'data-xl="x\w+"', 'data-xl="x0"', outputs[0]).replace("xlab_x", "xlab_y")
    host = tmp_path / "host.html"
    host.write_text(
        f'<!doctype html><meta charset="utf-8"><body data-jp-theme-light="false">{"".join([*outputs, other])}'
    )
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(host.as_uri())
    frames = page.locator(".xl-saved > iframe")
    assert frames.count() == 3
    for i in range(3):
        frames.nth(i).scroll_into_view_if_needed()
        frames.nth(i).content_frame.locator(".xl-live[data-theme=dark] [role=tab]").first.wait_for()
    still = page.locator(".xl-saved > .xl-report")
    assert still.count() == 1 and still.locator(".xl-panel").count() > 4
    assert still.locator(".xl-panel:visible").count() == still.locator(".xl-panel").count()
    assert complaints == []
    page.close()


MARIMO = """
import sys, types
marimo = types.ModuleType("marimo")
shown = []
marimo.running_in_notebook = lambda: True
marimo.output = types.SimpleNamespace(append=shown.append)
sys.modules["marimo"] = marimo
import xlab
from xlab import numpy as jnp, observe
from xlab.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
x = xlab.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data")))
jaxpr = xlab.make_jaxpr(jnp.sin)(1.0)
for value in (mesh, NamedSharding(mesh, P("data")), x, jaxpr, xlab.jit(jnp.sin).trace(1.0), observe.layout(x)):
    kind, data = value._mime_()
    assert kind == "text/html" and data.startswith("<iframe title="), (type(value), kind, data[:80])
    assert "srcdoc=" in data and data.count('"') == 6 and data.endswith("></iframe>")
assert jnp.ones(3)._mime_() == ("text/plain", repr(jnp.ones(3)))
assert observe.layout(x).mesh._mime_()[0] == "text/html" and observe.layout(x).type._mime_()[0] == "text/plain"
from xlab.notebook import show
show(mesh)
show(observe.layout(x))
assert [type(record).__name__ for record in shown] == ["MeshInfo", "ArrayLayout"]
print("all is shown")
"""


def test_marimo_asks_objects_and_records_themselves():
    """By the method that marimo calls; a page comes in a frame, which marimo leaves as it is."""
    env = dict(os.environ, XLAB_NUM_CPU_DEVICES="8")
    done = subprocess.run(
        [sys.executable, "-c", MARIMO],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "all is shown", done.stderr
