"""Every notebook as people without a kernel see it: nbconvert's HTML offline in a browser, and GitHub's plain rendering."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import stored

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PICTURES = ("image/png", "image/svg+xml")
# In one worker: a notebook is executed once for these tests and `tests/test_notebooks.py`.
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="session")
def converted(executed):
    """Converts a notebook, executed, once for all tests: the pages and the notebooks with their outputs."""
    done: dict[Path, tuple[Path, Path]] = {}

    def convert(path: Path) -> tuple[Path, Path]:
        if path not in done:
            notebook = executed(path)
            stored.nbconvert("--to=html", notebook, folder=notebook.parent, seconds=120)
            done[path] = notebook, notebook.with_suffix(".html")
        return done[path]

    return convert


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_the_page_lives_offline(path, converted, browser):
    """No request leaves the page, nothing fails in it, and what can be read can be clicked: tabs, lines, steps."""
    _, page_file = converted(path)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # nbconvert's own page asks for MathJax and RequireJS; no output of ours may ask for anything.
    context.route(
        re.compile(r"^https?:"),
        lambda route: (
            complaints.append(route.request.url)
            if route.request.frame != page.main_frame
            else None,
            route.abort(),
        ),
    )
    page.goto(page_file.as_uri(), wait_until="domcontentloaded")
    outputs = page.locator("iframe")
    for i in range(outputs.count()):
        outputs.nth(i).scroll_into_view_if_needed()
        frame = outputs.nth(i).element_handle().content_frame()
        frame.wait_for_selector(".xl", timeout=60_000)
        if frame.query_selector("script#xl-data"):
            frame.wait_for_selector(".xl-live", timeout=60_000)
        if i < 6:
            use(frame)
        height = outputs.nth(i).bounding_box()["height"]
        assert 20 < height <= 1010, f"output {i} is {height} px tall"
    context.close()
    complaints = [
        c
        for c in complaints
        if "MathJax" not in c and "require" not in c.lower() and "mermaid" not in c.lower()
    ]
    assert complaints == []


def use(frame):
    """Opens every tab, chooses a line, and steps."""
    tabs = frame.query_selector_all("[role=tab]")
    for tab in tabs:
        tab.click()
        assert tab.get_attribute("aria-selected") == "true"
        assert not frame.query_selector(
            ".xl-panel:not([hidden]) .xl-error:has-text('this view failed')"
        )
        step = frame.query_selector(
            ".xl-panel:not([hidden]) button[aria-label^='one step (right)']"
        )
        if step:
            place = ".xl-panel:not([hidden]) .xl-place"
            before = frame.query_selector(place).inner_text()
            step.click()
            assert frame.query_selector(place).inner_text() != before
    if tabs:
        tabs[0].click()
    row = frame.query_selector(".xl-program:not([hidden]) .xl-column .xl-row:has(.xl-op)")
    if row:
        row.click()
        assert frame.query_selector(".xl-row.xl-sel")
        frame.press("body", "Escape")
        assert not frame.query_selector(".xl-program .xl-row.xl-sel")


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_plain_rendering_shows_text_and_pictures(path, converted):
    """GitHub shows text and images and drops scripts and frames: every rich output has words, and the notebook is not heavy."""
    notebook, _ = converted(path)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [o for c in cells for o in c.get("outputs", ()) if "data" in o]
    assert not [o for o in outputs if "application/vnd.jupyter.widget-view+json" in o["data"]], (
        "a widget would be a hole there"
    )
    for output in outputs:
        data = output["data"]
        assert "text/plain" in data
        words = "".join(data["text/plain"]).strip()
        assert words and not re.search(r"\bobject at 0x[0-9a-f]+", words), words[:200]
        assert len(json.dumps(output)) < 600_000
