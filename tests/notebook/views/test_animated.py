"""GIFs that a live page asks its kernel for: offered where something moves and a kernel answers, and nowhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.notebook.views import sample
from tests.notebook.views.test_live_page import HOST
from xlab import numpy as jnp
from xlab import observe
from xlab.notebook import assets
from xlab.notebook.export import write_html
from xlab.notebook.views import page as page_module
from xlab.notebook.views import view_for
from xlab.notebook.views.base import answer
from xlab.observe.records import Report

GIF = "GIF, column"


def frames(data: bytes) -> int:
    """How many pictures a GIF has, by the blocks that stand in front of each."""
    assert data[:6] == b"GIF89a" and data[-1:] == b";"
    return len(re.findall(rb"\x21\xf9\x04.{4}\x00\x2c", data, re.DOTALL))


def test_a_kernel_draws_the_collective_that_is_named_and_the_run():
    report = sample.report()
    view = view_for(report)
    ask = lambda of, size="column": answer(
        view, view.handlers(report), {"id": 1, "ask": "animate", "arguments": {"of": of, "size": size}}
    )  # fmt: skip
    assert ask(1)["answer"]["kind"] == "image/gif"
    assert "no message is sent" in ask(2)["error"]
    assert f"has {len(report.transfers)} collectives" in ask(len(report.transfers))["error"]
    without = report.replace(trace=None, transfers=())
    said = answer(view, view.handlers(without), {"id": 1, "ask": "animate", "arguments": {"of": -1, "size": "slide"}})  # fmt: skip
    assert "this report has no run" in said["error"]
    assert "must be str" in ask(0, "huge")["error"]


def live(page, folder, record):
    """A page on a record whose kernel is this process."""
    view = view_for(record)
    asked: list[dict] = []

    def kernel(text):
        asked.append(json.loads(text))
        return answer(view, view.handlers(record), asked[-1])

    page.expose_function("kernel", kernel)
    payload = {k: v for k, v in view.payload(record).items() if k in ("view", "tree", "data")}
    source = HOST.format(
        css=assets.styles(),
        module=page_module.script_json(assets.module()),
        payloads=page_module.script_json({"one": payload}),
    )
    ours = "const send = (m) => kernel(JSON.stringify(m)).then((said) => heard.forEach((f) => f(said)));"
    file = folder / "host.html"
    file.write_text(re.sub(r"const send = [^\n]*", lambda _: ours, source), encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_function("globalThis.ready")
    page.evaluate("void draw('one')")
    return asked


def offered(page):
    """Whether the menu, once it is reached, has a GIF to choose."""
    menu = page.get_by_label("save this view as a figure")
    menu.focus()
    menu.evaluate("m => m.blur()")
    option = menu.locator(f"option[value='{GIF}']")
    return option.count() == 1 and option.is_enabled()


@pytest.mark.browser
def test_the_chosen_collective_is_saved_as_a_gif(page, tmp_path):
    report: Report = sample.report()
    asked = live(page, tmp_path, report)
    page.get_by_role("tab", name="Memory").click()
    assert not offered(page), "nothing moves there"
    page.get_by_role("tab", name="Collectives").click()
    page.locator("[data-tab=collectives] tr[data-row='1']").click()
    assert offered(page)
    with page.expect_download() as file:
        page.get_by_label("save this view as a figure").select_option(GIF)
    assert file.value.suggested_filename.endswith("_collectives.gif")
    assert frames(Path(file.value.path()).read_bytes()) > 1
    requests = [m["arguments"] for m in asked if m.get("ask") == "animate"]
    assert requests == [{"of": 1, "size": "column"}]
    page.goto(write_html(report, tmp_path / "saved.html").as_uri())
    page.wait_for_selector(".xl-live")
    menu = page.get_by_label("save this view as a figure")
    assert menu.locator("option").count() == 7, "without a kernel it is not offered"
    assert "GIF" not in menu.inner_text()


@pytest.mark.browser
def test_a_run_is_saved_as_a_gif(page, tmp_path):
    live(page, tmp_path, observe.Stepper(lambda x: jnp.sin(x) * 2, jnp.ones(3)).trace())
    assert offered(page)
    with page.expect_download() as file:
        page.get_by_label("save this view as a figure").select_option("GIF, slide")
    assert frames(Path(file.value.path()).read_bytes()) > 1
