"""Every view live in headless Chromium: text never becomes markup there, and two hundred views leave nothing behind."""

from __future__ import annotations

import pytest

from tests.notebook.test_export import NASTY, nasty_report, of_every_view
from tests.notebook.views import sample
from xlab.notebook import assets
from xlab.notebook.views import VIEWS
from xlab.notebook.views import page as page_module

pytestmark = pytest.mark.browser

HOST = """<!doctype html><meta charset="utf-8"><style>{css}</style><body data-jp-theme-light="true"><div id="host"></div><script type="module">
const view = (await import(URL.createObjectURL(new Blob([{module}], {{ type: "text/javascript" }})))).default;
globalThis.payloads = {payloads};
globalThis.draw = (name) => {{
  const el = document.createElement("div");
  document.getElementById("host").append(el);
  const end = view.render({{ model: {{ get: () => payloads[name], on() {{}}, off() {{}}, send() {{}} }}, el }});
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
