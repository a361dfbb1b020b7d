"""A search in the What if tab of a live page, whose kernel is this process: stopped, begun again, and left for another program."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest

import xlab
from tests.notebook.views.test_live_page import HOST
from tests.observe import sample_programs as programs
from xlab import numpy as jnp
from xlab import observe
from xlab.notebook import assets, experiments
from xlab.notebook.views import page as page_module
from xlab.notebook.views import view_for
from xlab.notebook.views.base import answer

pytestmark = pytest.mark.browser


@xlab.tree_util.register_dataclass
@dataclass
class Layer:
    wq: object
    down: object


@pytest.fixture
def searching(page, tmp_path, monkeypatch):
    """The What if tab of a report of two programs; turns of a search are short, so that it takes many."""
    monkeypatch.setattr(experiments, "TURN", 0.02)
    put = programs.put

    def layers(ws, x):
        for w in ws:
            x = jnp.tanh(programs.matmul(x, w))
        return x

    ws = [put(np.ones((256, 256)), None, "data") for _ in range(4)]
    with observe.record() as session:
        xlab.jit(layers)(ws, put(np.ones((128, 256)), "data", None))
        xlab.jit(lambda y: programs.matmul(y, y.T))(put(np.ones((64, 64)), "data", None))
    return what_if(page, tmp_path, session)


def what_if(page, tmp_path, session):
    """The What if tab of what was recorded, and what it asked."""
    report = observe.report(session)
    view = view_for(report)
    handlers = experiments.handlers(session.subjects)
    asked: list[dict] = []

    def kernel(text):
        asked.append(json.loads(text))
        return answer(view, handlers, asked[-1])

    page.expose_function("kernel", kernel)
    payload = {k: v for k, v in view.payload(report).items() if k in ("view", "tree", "data")}
    file = tmp_path / "host.html"
    source = HOST.format(
        css=assets.styles(),
        module=page_module.script_json(assets.module()),
        payloads=page_module.script_json({"report": payload}),
    )
    ours = "const send = (m) => kernel(JSON.stringify(m)).then((said) => heard.forEach((f) => f(said)));"
    file.write_text(re.sub(r"const send = [^\n]*", lambda _: ours, source), encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_function("globalThis.ready")
    page.evaluate("void draw('report')")
    page.get_by_role("tab", name="What if").click()
    return page.locator("[data-tab=whatif]"), asked


def begin(panel):
    panel.get_by_role("button", name="search the best").click()
    panel.locator(".xl-found .xl-dim").wait_for()  # it goes on


def tried(panel):
    return int(re.search(r"(\d+) placements? tried", panel.locator(".xl-found").inner_text())[1])


STOPPED = """() => {
  globalThis.pressed = null;
  const seen = new MutationObserver(() => {
    const stop = [...document.querySelectorAll("[data-tab=whatif] button")].find((b) => b.textContent === "stop" && b.offsetParent);
    const found = document.querySelector("[data-tab=whatif] .xl-found")?.textContent ?? "";
    if (!stop || !found.includes("is better")) return;
    seen.disconnect();
    const all = [...document.querySelectorAll("[data-tab=whatif] button")];
    const waits = all.find((b) => b.textContent === "search the best").disabled;
    globalThis.pressed = { tried: Number(/(\\d+) placements? tried/.exec(found)[1]), waits };
    stop.click();
  });
  seen.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
}"""
"""Presses stop as soon as something better is there: asked from here, a search may have ended by then."""


def stop_in_time(panel):
    """Begins a search and stops it; what was seen when stop was pressed."""
    panel.page.evaluate(STOPPED)
    panel.get_by_role("button", name="search the best").click()
    panel.page.wait_for_function("globalThis.pressed")
    panel.get_by_role("button", name="stop").wait_for(state="hidden")
    return panel.page.evaluate("globalThis.pressed")


def test_a_search_that_is_stopped_keeps_and_shows_the_best_so_far(searching):
    panel, asked = searching
    assert panel.get_by_role("button", name="stop").is_hidden()
    before = stop_in_time(panel)
    assert before["waits"], "one search at a time"
    words = panel.locator(".xl-found").inner_text()
    assert "is better" in words and "stopped" in words and "(estimated)" in words
    turns, count = len(asked), tried(panel)
    assert count >= before["tried"] and panel.locator(".xl-ranking tr").count() > 2
    assert panel.locator(".xl-dot-best").count() == 1, "the best so far is in the picture"
    assert "specs = {" in panel.locator(".xl-pasted pre").inner_text(), "and the code for it"
    assert "the best so far is one" in panel.inner_text(), "nothing of it was compiled"
    panel.page.wait_for_timeout(200)
    assert len(asked) == turns and tried(panel) == count, "nothing is asked any more"
    panel.locator(".xl-ranking").get_by_role("button", name="prove").first.click()
    panel.locator(".xl-weighed").first.wait_for()
    stop_in_time(panel)
    first = next(m for m in asked[turns:] if m["ask"] == "search")
    assert "on" not in json.loads(first["arguments"]["placement"]), "it begins anew"


def test_a_search_ends_where_another_program_is_chosen(searching):
    """It went on with the other program and arguments that it does not have."""
    panel, asked = searching
    begin(panel)
    panel.get_by_label("program").select_option("1")
    panel.get_by_role("button", name="stop").wait_for(state="hidden")
    assert {m["arguments"]["program"] for m in asked if m.get("ask") == "search"} == {0}
    assert panel.locator(".xl-error, .xl-found").count() == 0
    assert panel.get_by_role("button", name="search the best").is_enabled()


def test_arguments_of_repeated_layers_are_one_row_and_move_together(page, tmp_path):
    put = programs.put
    layers = [
        Layer(put(np.ones((16, 32)), None, "model"), put(np.ones((32, 16)), "model", None))
        for _ in range(13)
    ]

    def model(layers, x):
        for layer in layers:
            x = programs.matmul(jnp.tanh(programs.matmul(x, layer.wq)), layer.down)
        return x

    with observe.record() as session:
        xlab.jit(model)(layers, put(np.ones((8, 16)), "data", None))
    panel, asked = what_if(page, tmp_path, session)
    rows = panel.locator(".xl-whatif-arguments tbody tr")
    named = [row.locator("td").nth(1).inner_text() for row in rows.all()]
    assert named == ["layers[*].wq ×13", "layers[*].down ×13", "x"]
    rows.first.get_by_label("dimension 1 of layers[*].wq").select_option("")
    assert rows.first.locator("td").last.inner_text() == "P(None, None)"
    panel.get_by_role("button", name="compile and compare").click()
    panel.locator(".xl-weighed").wait_for()
    given = json.loads(asked[-1]["arguments"]["placement"])["specs"]
    assert given == {str(2 * n): [[], []] for n in range(13)}
    assert "\"layers[*].down\": P('model', None)" in panel.locator(".xl-pasted pre").inner_text()
    assert "layers[*].wq" not in panel.locator(".xl-pasted pre").inner_text(), "it is whole"
