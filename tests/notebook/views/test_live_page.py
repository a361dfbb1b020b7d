"""Every view live in headless Chromium: text never becomes markup there, and two hundred views leave nothing behind."""

from __future__ import annotations

import pytest

from tests.notebook.test_export import NASTY, nasty_report, of_every_view
from tests.notebook.views import sample
from xlab.notebook import assets
from xlab.notebook.export import write_html
from xlab.notebook.views import VIEWS
from xlab.notebook.views import page as page_module
from xlab.observe.records import Report

pytestmark = pytest.mark.browser

HOST = """<!doctype html><meta charset="utf-8"><style>{css}</style><body data-jp-theme-light="true"><div id="host"></div><script type="module">
const view = (await import(URL.createObjectURL(new Blob([{module}], {{ type: "text/javascript" }})))).default;
globalThis.payloads = {payloads};
globalThis.draw = (name, said = []) => {{
  const el = document.createElement("div");
  document.getElementById("host").append(el);
  const heard = new Set();
  const send = (m) => m.ask && said[m.arguments?.finding] && setTimeout(() => heard.forEach((f) => f({{ id: m.id, ...said[m.arguments.finding] }})), 1);
  const end = view.render({{ model: {{ get: () => payloads[name], on: (_, f) => heard.add(f), off: (_, f) => heard.delete(f), send }}, el }});
  return () => {{ end(); el.remove(); }};
}};
globalThis.ready = true;
</script>"""


def host(page, folder, records):
    """A page that can draw these records live."""
    payloads = {
        view.name: {
            k: v
            for k, v in view.payload(records[view.record_type]).items()
            if k in ("view", "tree", "data")
        }
        for view in VIEWS
    }
    file = folder / "host.html"
    file.write_text(
        HOST.format(
            css=assets.styles(),
            module=page_module.script_json(assets.module()),
            payloads=page_module.script_json(payloads),
        ),
        encoding="utf-8",
    )
    page.goto(file.as_uri())
    page.wait_for_function("globalThis.ready")


def test_a_finding_is_proved_at_a_press(page, tmp_path):
    """A button only where a kernel answers; what it answers takes the button's place, an error stands beside it."""
    report = sample.report()
    unknown = sample.findings()[1]
    found = report.replace(costs=(sample.step_cost(report),), findings=(unknown,) * 3)
    host(page, tmp_path, {**of_every_view(report, "a"), Report: found})
    proved = unknown.replace(change="drop it", proof="sent 8 B → 0 B", measured_us=(2000.0, 500.0))
    less = unknown.replace(proof="nothing becomes less")
    page.evaluate(
        "(said) => { globalThis.said = said; draw('report', said); }",
        [{"answer": proved.to_json()}, {"answer": less.to_json()}, {"error": "ValueError: no"}],
    )
    panel = page.locator("[data-tab=overview]")
    assert panel.locator("ol > li").count() == 3
    for button in panel.locator("button", has_text="prove").all()[::-1]:
        button.click()
    page.locator(".xl-proved").nth(1).wait_for()
    items = panel.locator("li").all_inner_texts()
    assert "Change: drop it sent 8 B → 0 B; measured a run: 2.00 ms → 500 µs" in items[0]
    assert "nothing becomes less" in items[1] and "Change" not in items[1]
    assert "✕ ValueError: no" in items[2] and "prove" in items[2]
    page.goto(write_html(found, tmp_path / "saved.html").as_uri())
    page.wait_for_selector(".xl-live")
    assert page.locator("button", has_text="prove").count() == 0


LOOK = """(name) => {
  globalThis.end = draw(name);
  for (const tab of document.querySelectorAll("#host [role=tab]")) tab.click();
  const all = [...document.querySelectorAll("#host *")];
  return {
    tags: [...new Set(all.map((n) => n.tagName.toLowerCase()))],
    handlers: all.flatMap((n) => n.getAttributeNames()).filter((a) => a.startsWith("on")),
    links: [...new Set(all.map((n) => n.getAttribute("href") ?? n.getAttribute("src")).filter(Boolean))],
    text: document.getElementById("host").innerText,
  };
}"""


@pytest.mark.parametrize(
    "word",
    [NASTY[0], NASTY[1], NASTY[2], NASTY[3]],
    ids=["script", "end of script", "quotes", "bidi"],
)
def test_no_text_becomes_markup(word, page, tmp_path):
    page.on("dialog", lambda dialog: pytest.fail(f"the page was made to say {dialog.message}"))
    host(page, tmp_path, of_every_view(nasty_report(word), word))
    for view in VIEWS:
        seen = page.evaluate(LOOK, view.name)
        assert not {"script", "img", "iframe", "object", "embed", "textarea", "style"} & set(
            seen["tags"]
        ), view.name
        assert seen["handlers"] == [] and set(seen["links"]) <= {"#"}, view.name
        assert not any(c in seen["text"] for c in "\u202e\u2066\u2028\x00\x1b"), view.name
        page.evaluate("end()")


def test_two_hundred_views_leave_nothing(page, tmp_path):
    host(page, tmp_path, of_every_view(sample.report(), "a"))
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def count():
        page.wait_for_timeout(300)
        for _ in range(3):
            session.send("HeapProfiler.collectGarbage")
        found = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
        return found["Nodes"], found["JSEventListeners"]

    names = [view.name for view in VIEWS]
    again = """async ([names, times]) => {
      for (let i = 0; i < times; i += 1) {
        const end = draw(names[i % names.length]);
        for (const tab of document.querySelectorAll("#host [role=tab]")) tab.click();
        if (i % 7 === 0) await new Promise((done) => requestAnimationFrame(done));
        end();
      }
    }"""
    page.evaluate(again, [names, 3 * len(names)])
    begun = count()
    page.evaluate(again, [names, 200])
    ended = count()
    assert ended[0] <= begun[0] + 20 and ended[1] <= begun[1] + 5, (
        f"nodes and listeners went from {begun} to {ended}"
    )
    assert page.locator("#host *").count() == 0
