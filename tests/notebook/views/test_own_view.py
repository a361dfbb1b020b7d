"""A view of one's own: a record with its maker, a view, a script and a style sheet in a package that nobody lists."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebook.views import sample
from tests.notebook.views.each import of_views
from tests.notebook.views.test_front_end import needs_node, run_node
from xlab.notebook import assets
from xlab.notebook.export import write_html
from xlab.notebook.views import VIEWS, view_for
from xlab.notebook.views.draw import html
from xlab.notebook.views.page_codec import pack_text
from xlab.notebook.views.tabs import remove_tab, tabs
from xlab.observe.records import Record, base

HERE = Path(__file__).parent

RECORD = '''
from xlab.observe.records.base import Record, record_type


@record_type
class Sizes(Record):
    """Bytes of every argument of a report."""

    title: str
    rows: tuple[tuple[str, int], ...] = ()


def sizes(report):
    """The bytes of the arguments of a report."""
    return Sizes(report.title, tuple((x.name, x.bytes_total) for x in report.layouts if x.role == "argument"))
'''

VIEW = '''
from own_view.sizes_record import Sizes, sizes
from xlab.notebook.views.base import View
from xlab.notebook.views.draw import h, panel
from xlab.notebook.views.tabs import add_tab


def sizes_panel(record):
    return panel("sizes", "Sizes", *(h("p", {"class": "xl-size"}, f"{name}: {n}") for name, n in record.rows))


class SizesView(View):
    """Sizes as a list."""

    name = "sizes"
    record_type = Sizes

    def tree(self, record):
        return h("article", {"class": "xl xl-report"}, sizes_panel(record))

    def data(self, record):
        return {"sizes": dict(record.rows)}


add_tab("sizes", "Sizes", 55, lambda report: sizes_panel(sizes(report)) if report.layouts else None,
        lambda report: {"sizes": dict(sizes(report).rows)})
'''

SCRIPT = """
import { h } from "xlab/kit/dom.js";
import { definePanel } from "xlab/kit/panels.js";

/** The sum under the list. */
definePanel("sizes", (section, { data }) => section.append(h("p", { class: "xl-size-sum" }, `together ${Object.values(data.sizes).reduce((a, b) => a + b, 0)}`)));
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The package, imported as anybody would, and everything as it was afterwards."""
    folder = tmp_path / "own_view"
    folder.mkdir()
    for name, text in (
        ("__init__.py", ""),
        ("sizes_record.py", RECORD),
        ("sizes.py", VIEW),
        ("sizes.js", SCRIPT.lstrip()),
        ("sizes.css", ".xl-size{color:red}\n"),
    ):
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_view.sizes")
    VIEWS[:] = [view for view in VIEWS if view.name != "sizes"]
    remove_tab("sizes")
    assets.remove("sizes")
    del base._classes["Sizes"]
    for name in [name for name in sys.modules if name.split(".")[0] == "own_view"]:
        del sys.modules[name]


def test_it_is_a_record_and_a_view(own):
    record = own.sizes(sample.report())
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert view_for(record).name == "sizes" and "x: 4096" in view_for(record).static_html(record)


def test_a_live_page_is_sent_the_views_that_are_there_by_then(own):
    pytest.importorskip("anywidget")
    from xlab.notebook.views import widget

    assets.remove("sizes")
    before = widget.front()
    assets.add(Path(own.__file__).parent, "sizes")
    try:
        assert widget.front() != before and "together ${" in widget._fronts[0].module
        assert ".xl-size{color:red}" in widget._fronts[0].css and widget.front() == widget.front()
    finally:
        widget._fronts.clear()


def test_it_is_a_tab_of_every_report(own, tmp_path):
    report = sample.report()
    assert [tab.name for tab in tabs()].index("sizes") == [tab.name for tab in tabs()].index(
        "memory"
    ) + 1
    page = Path(write_html(report, tmp_path / "out.html")).read_text()
    assert (
        'data-tab="sizes"' in page.replace("'", '"')
        and ".xl-size{color:red}" in page
        and "x: 4096" in page
    )
    script = assets.script(frozenset({"sizes", "program"}))
    assert (
        "together ${" in script
        and "together ${" in assets.module()
        and pack_text(script) not in page
    )
    small = report.replace(layouts=())
    assert ".xl-size{" not in Path(write_html(small, tmp_path / "small.html")).read_text()
    assert "together ${" not in assets.script(frozenset({"program"}))


@needs_node
def test_its_script_brings_its_tab_to_life(own, tmp_path):
    module, payload, script = (
        tmp_path / "module.mjs",
        tmp_path / "payload.json",
        tmp_path / "start.mjs",
    )
    module.write_text(assets.module(), encoding="utf-8")
    report = sample.report().replace(opens="sizes")
    payload.write_text(json.dumps(view_for(report).payload(report), allow_nan=False))
    script.write_text(f"""
import {{ Element }} from {json.dumps((HERE / "dom.mjs").as_uri())};
import {{ readFileSync }} from "node:fs";
const view = (await import({json.dumps(module.as_uri())})).default;
const el = new Element("div");
const payload = JSON.parse(readFileSync({json.dumps(str(payload))}, "utf8"));
view.render({{ model: {{ get: () => payload, on() {{}}, off() {{}}, send() {{}} }}, el }});
console.log(el.querySelector(".xl-size-sum").textContent);
""")
    assert run_node(script).strip() == "together 53504"


def test_nothing_of_it_stays():
    assert all(view.name != "sizes" for view in VIEWS) and "together ${" not in assets.module()


def classes(html: str) -> set[str]:
    return {
        name
        for names in re.findall(r"""class=(?:"([^"]*)"|'([^']*)')""", html)
        for one in names
        for name in one.split()
    }


def selectors(styles: str) -> list[str]:
    return [
        s.strip() for found in re.findall(r"([^{}]+)\{[^{}]*\}", styles) for s in found.split(",")
    ]


@pytest.mark.parametrize("kept", [*(tab.name for tab in tabs()), "all"])
def test_a_page_has_the_styles_of_what_it_shows(kept):
    """A page goes without the scripts and style sheets of tabs that it has not, and lacks no rule for what it shows."""
    report = sample.report()
    shown = {tab.name for tab in tabs()} if kept == "all" else {kept}
    tree = view_for(report).tree(report)
    tree = [
        node
        for node in tree
        if not (
            isinstance(node, list) and "data-tab" in node[1] and node[1]["data-tab"] not in shown
        )
    ]
    named = classes(html(tree)) | {
        name
        for made in re.findall(r"""class: ["'`]([^"'`]*)""", assets.script(frozenset(shown)))
        for name in re.findall(r"xl-[\w-]+", made)
    }
    kept_rules, live = (
        selectors(assets.styles(tabs=frozenset(shown))),
        {"xl", "xl-live", "xl-sel", "xl-near", "xl-hot"},
    )
    lacking = [
        s
        for s in selectors(assets.styles())
        if s not in kept_rules
        and (used := set(re.findall(r"\.([\w-]+)", s)))
        and used <= named | live
    ]
    assert not lacking
    assert len(assets.script(frozenset(shown))) <= len(assets.script())


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_the_script_of_a_view_has_its_name(view):
    """Every tab that a script brings to life stands on a page of some view, and every style sheet and script belongs to a view or a tab."""
    brought = {tab for found in assets.panels().values() for tab in found}
    if view.record_type in (found := of_views(sample.report())):
        shown = {
            node[1]["data-tab"]
            for node in view.tree(found[view.record_type])[2:]
            if isinstance(node, list) and "data-tab" in node[1]
        }
        assert shown
        assert not view.scripted or shown & brought, (
            "the page of a view with a script has a tab that it brings to life"
        )


def test_views_load_no_widget_and_a_record_no_view():
    code = (
        "import sys; import xlab, xlab.observe; xlab.observe.record; assert not [m for m in sys.modules if m.startswith('xlab.notebook')]; "
        "import xlab.notebook.views; assert 'anywidget' not in sys.modules and 'xlab.notebook.views.widget' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_view_that_is_defined_in_a_cell_has_no_files():
    """The module of a notebook has no `__file__`, and files that happen to stand in the working folder are nobody's."""
    before = assets.digest()
    names = {"__name__": "__main__"}
    main = sys.modules["__main__"]
    sys.modules["__main__"] = type(sys)("__main__")
    try:
        exec(RECORD.replace("Sizes", "CellSizes"), names)
        exec(
            "from xlab.notebook.views.base import View\n"
            "class CellSizesView(View):\n"
            "    name, record_type = 'cell_sizes', CellSizes\n"
            "    def tree(self, record):\n"
            "        return ['p', {}, record.title]\n",
            names,
        )
        assert "<p>&lt;b></p>" in html(
            view_for(names["CellSizes"]("<b>")).tree(names["CellSizes"]("<b>"))
        )
    finally:
        sys.modules["__main__"] = main
        VIEWS[:] = [view for view in VIEWS if view.name != "cell_sizes"]
        base._classes.pop("CellSizes", None)
    assert assets.digest() == before
