"""No view at any size, light or dark, wide or narrow, is what a designer would not accept, as far as that can be told from the page."""

import pytest

from tests.notebook import pictured, screenshots
from tests.notebook.test_export import of_every_view
from tests.notebook.views import sample
from tests.notebook.views.each import full
from xlab.notebook.views import VIEWS
from xlab.notebook.views.tabs import tabs
from xlab.observe.records import Report

pytestmark = pytest.mark.browser

FAULTS = {
    "wider than the window": "<p style='width:3000px'>far</p>",
    "cut off": "<p style='width:40px;overflow:hidden;white-space:nowrap'>words without an end</p>",
    "nothing left": "<p style='width:12px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis'>a name</p>",
    "squeezed": "<p style='width:9px;overflow-wrap:anywhere'>letters</p>",
    "of an odd size": "<svg viewBox='0 0 100 20' width=60><text y=9 font-size=11>small</text></svg>",
    "pale": "<p style='background:#ddd'><span style='opacity:.7;color:#666'>dim</span></p>",
    "over one another": "<p style='margin:0'>one word</p><p style='margin:-16px 0 0'>another word</p>",
}
FINE = """<p title='words without an end' style='width:40px;overflow:hidden;white-space:nowrap'>words without an end</p>
<div style='width:60px;overflow:auto'><p style='width:3000px'>scrolled to</p></div>
<p style='background:#123;color:#fff'>words</p><button disabled style='color:#aaa'>not now</button>
<svg width=100 height=20><rect width=100 height=20 fill='#124'></rect><text y=14 font-size=11 fill='#fff'>light</text></svg>"""


@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_of_fault_is_found(kind, page):
    page.set_content(f"<!doctype html><div id=host>{FAULTS[kind]}</div>")
    page.add_script_tag(content=screenshots.CRAFT.read_text("utf-8"))
    assert {found for found, *_ in page.evaluate("craft(document.getElementById('host'))")} == {
        kind
    }
    page.set_content(f"<!doctype html><div id=host>{FINE}</div>")
    page.add_script_tag(content=screenshots.CRAFT.read_text("utf-8"))
    assert page.evaluate("craft(document.getElementById('host'))") == []


def faults(browser, records):
    """What is wrong where, after all views were looked at."""
    taken = list(screenshots.shots(browser, screenshots.payloads(records)))
    assert {s.name.split(" ")[0] for s in taken} == {"error", *(view.name for view in VIEWS)}
    assert len({(s.scheme, s.width) for s in taken}) == 4
    return [f"{s.name}, {s.scheme}, {s.width} pixels: {fault}" for s in taken for fault in s.faults]


def test_the_sample(browser):
    report = full(sample.report())
    records = {**of_every_view(report, "train_step"), Report: report}
    assert faults(browser, records) == []


@pytest.mark.slow
@pytest.mark.parametrize("equations", [100, 1_000])
def test_a_train_step(browser, equations):
    records = pictured.records(equations)
    (program,) = records[Report].programs
    assert 0.5 < len(program.equations) / equations < 1.5
    assert {tab.name for tab in tabs()} - {
        s.name for s in tabs() if s.draw(records[Report]) is not None
    } <= {"overlap"}
    assert faults(browser, records) == []


def test_pictures_lie_on_one_page(browser, tmp_path):
    report = full(sample.report())
    sent = screenshots.payloads(
        {**of_every_view(report, "train_step"), Report: report}, ["mesh", "ledger"]
    )
    (tmp_path / "7").mkdir()
    taken = [(7, s) for s in screenshots.shots(browser, sent, ["dark"], [700], tmp_path / "7")]
    sheet = screenshots.contact_sheet(tmp_path, taken).read_text("utf-8")
    assert [s.picture.name for _, s in taken] == ["mesh-dark-700.png", "ledger-dark-700.png"]
    assert all(s.picture.read_bytes()[:4] == b"\x89PNG" for _, s in taken)
    assert sheet.count("<img") == 2 and "mesh, 7 equations" in sheet
