"""A walk through a saved report in headless Chromium: tabs, one selection at every level, the stepper, light and dark."""

import os
import time

import pytest

from tests.notebook.views import sample
from xlab.notebook.export import write_html
from xlab.observe import records as r

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    """Chromium, or a skip that says what is missing; where the CI promises one, a failure."""
    import shutil

    path = shutil.which("chromium") or shutil.which("google-chrome")
    playwright = None
    try:
        from playwright.sync_api import sync_playwright
        playwright = sync_playwright().start()
    except ImportError:
        path = None
    if path is None or playwright is None:
        reason = "Chromium and playwright are needed for this walk"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    yield opened
    opened.close()
    playwright.stop()


def visit(browser, path, **options):
    """Open a page; everything it complains about is collected in `page.complaints`."""
    page = browser.new_page(viewport={"width": 1280, "height": 760}, **options)
    page.complaints = []
    page.on("pageerror", lambda e: page.complaints.append(str(e)))
    page.on("console", lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda q: page.complaints.append(q.url) if not q.url.startswith(("file:", "data:", "blob:", "about:")) else None)
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_walk(browser, tmp_path, scheme):
    page = visit(browser, write_html(sample.report(), tmp_path / "r.html"), color_scheme=scheme)
    page.wait_for_selector(".xl-live .xl-row")
    page.locator(".xl-column").nth(1).locator(".xl-row", has_text="dot_general").nth(1).click()
    for i in range(3):
        assert page.locator(".xl-column").nth(i).locator(".xl-sel").count() == 1
    assert "shard f32[16,16,64] × 8" in page.locator(".xl-status").inner_text()
    for i, title in enumerate(["Program", "Shardings", "Collectives", "Timings", "Memory", "Passes", "Steps"]):
        page.keyboard.press(str(i + 1))
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == title
        assert page.locator(".xl-panel:visible").count() == 1
    place = page.locator(".xl-place")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.xl-place').textContent.startsWith('step 2 ')")
    page.locator("text=first NaN").click()
    page.wait_for_function("document.querySelector('.xl-place').textContent.startsWith('step 62 ')")
    assert "5 NaN" in page.locator(".xl-value").first.inner_text()
    assert place.is_visible()
    red, green, blue = page.evaluate("getComputedStyle(document.querySelector('.xl')).backgroundColor.match(/\\d+/g).map(Number)")
    assert (red + green + blue > 600) == (scheme == "light")
    assert page.complaints == []
    page.close()


def test_no_script_shows_every_panel(browser, tmp_path):
    page = visit(browser, write_html(sample.report(), tmp_path / "r.html"), java_script_enabled=False)
    assert page.locator(".xl-panel:visible").count() == 7
    assert page.locator("pre.xl-code").first.bounding_box()["height"] > 19 * 17, "one line under the other"
    page.close()


def test_a_hundred_thousand_equations_open_and_scroll(browser, tmp_path):
    made = r.Type("f32", (64, 128), (("data",), ()))
    p = r.Program("big", equations=tuple(r.Equation(i, "mul", (f"v{i}", "w"), (r.Variable(f"v{i + 1}", made),)) for i in range(100_000)), mesh=sample.MESH)
    path = write_html(r.Report("big", (p,)), tmp_path / "big.html")
    begin = time.perf_counter()
    page = visit(browser, path)
    page.wait_for_selector(".xl-live .xl-row")
    opened = time.perf_counter() - begin
    frames = page.evaluate("""() => new Promise((done) => {
      const rows = document.querySelector('.xl-rows'); const times = []; let last = performance.now(); let n = 0;
      const step = (now) => { times.push(now - last); last = now; rows.scrollTop += 900; n += 1; if (n < 90) requestAnimationFrame(step); else done(times.slice(2)); };
      requestAnimationFrame(step); })""")
    assert page.locator(".xl-row").count() < 80
    frames.sort()
    assert opened < 15, f"opened in {opened:.1f} s"
    assert frames[len(frames) // 2] < 50, f"median frame {frames[len(frames) // 2]:.1f} ms"
    print(f"opened {opened:.2f} s, median frame {frames[len(frames) // 2]:.1f} ms, 95 % {frames[int(len(frames) * .95)]:.1f} ms, page {path.stat().st_size / 1e6:.1f} MB")
    assert page.complaints == []
    page.close()
