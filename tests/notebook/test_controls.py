"""Every control of every view, used in JupyterLab as a person uses it: buttons, tabs, fields, sliders, keys, files; and no complaint of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.notebook.labs import LONG, SHORT, open_and_run, until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.notebook]
CELLS = [
    "%load_ext xlab",
    """import xlab
from xlab import lax, numpy as jnp
from xlab.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
x = jnp.arange(64.0).reshape(8, 8) / 64
params = [jnp.eye(8) * (1 + i / 10) for i in range(13)]
def walk(x):
    def body(c, row):
        return jnp.sin(c) - row, c.sum()
    c, sums = lax.scan(body, x[0], x)
    return jnp.log(c).sum() + sums.sum()""",
    """%%xjit --mesh data=4,model=2 --in 'x=data,None; params=None,model' --passes
summed = xlab.shard_map(lambda a: lax.psum(a, "data"), mesh=mesh, in_specs=P("data"), out_specs=P())(x)
h = x
for w in params:
    h = jnp.tanh(h @ w)
loss = jnp.sum(h) + summed.sum()""",
    "%xstep walk(x)",
    "%xladder walk(x)",
    "z = xlab.device_put(x, NamedSharding(mesh, P('data')))\n%xshard z P(None, 'model')",
    """from xlab import kernels
from xlab.kernels.machine import Machine
from xlab.notebook import show
def put(o_ref, b_ref):
    b_ref[0] = jnp.int32(10)
def take(o_ref, b_ref):
    o_ref[0] = b_ref[0] + 1
racing = kernels.mpmd_map(
    [(kernels.CoreMesh("p", 1, core_type="scalar"), put), (kernels.CoreMesh("q", 1, core_type="vector"), take)],
    xlab.ShapeDtypeStruct((1,), "int32"), scratch_shapes=[kernels.MemorySpace.SHARED((1,), "int32")])
show(Machine(racing))""",
    """def double(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]
rows = kernels.BlockSpec((2, 8), lambda i: (i, 0))
doubled = kernels.kernel_call(double, x, grid=4, in_specs=[rows], out_specs=rows, interpret=True)
def sines(x):
    return jnp.sin(doubled(x))
%xstep sines(x)""",
    "print('the end of', 'the controls')",
]
REPORT, STEPPER, LADDER, LAYOUTS, MACHINE, BLOCKS = 2, 3, 4, 5, 6, 7


@pytest.fixture(scope="module")
def notebook(lab, browser):
    """A page on the cells, all run; it is the same for all tests here."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    # JupyterLab asks for files that need not be there; what our modules log comes from blobs and has no such address.
    page.on(
        "console",
        lambda m: (
            page.complaints.append(m.text)
            if m.type == "error" and not m.location.get("url", "").startswith("http")
            else None
        ),
    )
    open_and_run(page, lab, lab.write("controls.ipynb", CELLS), "the end of the controls")
    until(page, lambda: page.locator(".xl-report.xl-live").count() == 6, "six views are not drawn")
    yield page
    context.close()


@pytest.fixture
def cell(notebook):
    """Finds the view of a cell; afterwards nothing may have gone wrong in the page."""

    def view(i):
        found = notebook.locator(".jp-CodeCell").nth(i).locator(".xl-report.xl-live")
        found.scroll_into_view_if_needed()
        return found

    yield view
    assert notebook.complaints == []
    assert notebook.locator(".xl-error:visible", has_text="this view failed").count() == 0


def tab(view, title):
    view.get_by_role("tab").filter(has_text=title).click()
    panel = view.locator(".xl-panel:visible")
    assert panel.count() == 1
    return panel


def saved(page, view, label, choice):
    """The text of a file that a save list gives."""
    with page.expect_download(timeout=SHORT) as file:
        view.get_by_label(label).select_option(choice)
    return Path(file.value.path()).read_text()


def says(page, locator, pattern):
    """Waits until the words of something match."""
    until(
        page,
        lambda: re.search(pattern, locator.inner_text()),
        f"it says {locator.inner_text()!r}, not {pattern!r}",
    )
    return locator.inner_text()


def press(page, key, times=1):
    for _ in range(times):
        page.keyboard.press(key)


def test_tabs_and_keys(notebook, cell):
    report = cell(REPORT)
    titles = report.get_by_role("tab").all_inner_texts()
    assert titles == [
        "Overview",
        "Program",
        "Shardings",
        "Collectives",
        "Timings",
        "Memory",
        "Passes",
        "What if",
    ]
    chosen = report.locator("[role=tab][aria-selected=true]")
    report.get_by_role("tab").first.click()
    for title in [*titles[1:], titles[0]]:
        press(notebook, "ArrowRight")
        assert chosen.inner_text() == title
    press(notebook, "ArrowLeft")
    assert chosen.inner_text() == "What if"
    for i, title in enumerate(titles):
        press(notebook, str(i + 1))
        assert chosen.inner_text() == title and report.locator(".xl-panel:visible").count() == 1
    press(notebook, "/")
    assert notebook.evaluate("document.activeElement.type") == "search"
    press(notebook, "Escape")
    assert notebook.evaluate("document.activeElement.type") != "search"
    # A link of the header opens the place it names.
    link = report.locator("header [data-go]")
    if link.count():
        link.first.click()
        assert chosen.inner_text().lower().startswith(link.first.get_attribute("data-go")[:6])


def test_program(notebook, cell):
    report = cell(REPORT)
    panel = tab(report, "Program")
    jaxpr = panel.locator(".xl-column", has=notebook.locator("button", has_text="params"))
    rows = jaxpr.locator(".xl-row")
    rows.filter(has_text="tanh").first.click()
    assert (
        jaxpr.locator(".xl-sel").count() == 1
        and "tanh" in report.locator(".xl-status").inner_text()
    )
    before = jaxpr.locator(".xl-sel").inner_text()
    for there, back in (("ArrowRight", "ArrowLeft"),):
        press(notebook, there)
        assert jaxpr.locator(".xl-sel").inner_text() != before
        press(notebook, back)
        assert jaxpr.locator(".xl-sel").inner_text() == before
    rows.filter(has_text="shard_map").first.click()
    press(notebook, "ArrowDown")
    assert "psum" in jaxpr.locator(".xl-sel").inner_text()
    press(notebook, "ArrowUp")
    assert "shard_map" in jaxpr.locator(".xl-sel").inner_text()
    press(notebook, "Escape")
    assert jaxpr.locator(".xl-sel").count() == 0

    # Folding by its sign, by double click, and all at once; names, parameters, attributes.
    nested = rows.filter(has_text="shard_map").first
    body = rows.filter(has_text="psum")
    nested.locator(".xl-fold").click()
    assert body.count() == 0 and "lines" in nested.inner_text()
    nested.dblclick(position={"x": 300, "y": 9})
    assert body.count() == 1
    jaxpr.get_by_role("button", name="fold").click()
    assert body.count() == 0
    jaxpr.get_by_role("button", name="fold").click()
    assert body.count() == 1
    for name in ("names", "params"):
        before = jaxpr.locator(".xl-rows").inner_text()
        jaxpr.get_by_role("button", name=name).click()
        assert jaxpr.locator(".xl-rows").inner_text() != before, name
        jaxpr.get_by_role("button", name=name).click()
        assert jaxpr.locator(".xl-rows").inner_text() == before
    compiled = panel.locator(".xl-column").last
    before = compiled.locator(".xl-rows").inner_text()
    compiled.get_by_role("button", name="attributes").click()
    assert len(compiled.locator(".xl-rows").inner_text()) > len(before)
    compiled.get_by_role("button", name="attributes").click()

    # Search, by words and by the count of a primitive, forwards and back.
    search = panel.get_by_label("find in program")
    search.fill("dot_general")
    says(notebook, panel.locator(".xl-bar-top"), r"\d+ found")
    press(notebook, "Enter")
    says(notebook, panel.locator(".xl-bar-top"), r"1 of \d+")
    press(notebook, "Enter")
    says(notebook, panel.locator(".xl-bar-top"), r"2 of \d+")
    press(notebook, "Shift+Enter")
    says(notebook, panel.locator(".xl-bar-top"), r"1 of \d+")
    panel.locator(".xl-count", has_text="tanh").click()
    assert search.input_value() == "tanh" and jaxpr.locator("mark").count() >= 3
    search.fill("")
    press(notebook, "Escape")

    # Levels side by side.
    levels = panel.get_by_role("group", name="which levels stand side by side").get_by_role(
        "button"
    )
    for i, name in enumerate(levels.all_inner_texts()):
        before = panel.locator(".xl-column").count()
        levels.nth(i).click()
        assert abs(panel.locator(".xl-column").count() - before) == 1, name
        levels.nth(i).click()
        assert panel.locator(".xl-column").count() == before

    # The graph and its tools.
    jaxpr = panel.locator(".xl-column", has=notebook.locator("button", has_text="params"))
    jaxpr.get_by_role("button", name="graph").click()
    canvas = jaxpr.locator("canvas")
    size = lambda: notebook.evaluate(
        "(c) => [c.parentNode.scrollWidth, c.parentNode.scrollHeight]", canvas.element_handle()
    )
    until(notebook, lambda: size()[1] > 100, "no graph is drawn")
    notebook.wait_for_timeout(300)
    seen = {}
    for name in ("open all", "close all", "larger", "smaller", "fit"):
        jaxpr.locator(".xl-graph-tools").get_by_role("button", name=name, exact=True).click()
        seen[name] = size()
    assert (
        seen["open all"][1] > seen["close all"][1]
        and seen["larger"][1] > seen["close all"][1]
        and seen["larger"][1] > seen["smaller"][1]
    )
    jaxpr.locator("canvas").locator("xpath=..").focus()
    press(notebook, "+")
    assert size()[1] > seen["fit"][1]
    press(notebook, "-")
    box = canvas.bounding_box()
    for y in range(20, 400, 12):
        notebook.mouse.click(box["x"] + box["width"] / 2, box["y"] + y)
        if report.locator(".xl-status").inner_text().count("used by"):
            break
    assert "used by" in report.locator(".xl-status").inner_text()
    jaxpr.get_by_role("button", name="graph").click()
    assert jaxpr.locator(".xl-sel").count() >= 1

    # Files.
    assert "tanh" in saved(notebook, panel, "save the program", "text")
    assert saved(notebook, panel, "save the program", "SVG").startswith("<svg")
    assert saved(notebook, panel, "save the program", "DOT").startswith("digraph")
    assert json.loads(saved(notebook, panel, "save the program", "JSON"))["rows"]["text"]


def test_shardings(notebook, cell):
    panel = tab(cell(REPORT), "Shardings")
    stage = panel.locator(".xl-layouts-live")
    rows = panel.locator(".xl-layout-list .xl-row")
    rows.nth(0).click()
    before = stage.inner_text()
    panel.locator(".xl-layout-list .xl-rows").focus()
    press(notebook, "ArrowDown")
    assert stage.inner_text() != before
    press(notebook, "ArrowUp")
    assert stage.inner_text() == before
    whole = panel.locator(".xl-bar-top").inner_text(), rows.count()
    panel.get_by_label("find an array").fill("params[3]")
    until(notebook, lambda: 0 < rows.count() < whole[1], "the search hides nothing")
    panel.get_by_label("find an array").fill("")
    panel.get_by_label("which arrays").select_option(index=1)
    until(
        notebook, lambda: rows.count() <= whole[1] and rows.first.is_visible(), "no array is left"
    )
    panel.get_by_label("which arrays").select_option("")
    rows.nth(0).click()
    panel.locator(".xl-block").first.hover()
    assert panel.locator(".xl-hot").count() >= 1
    assert "device" in cell(REPORT).locator(".xl-status").inner_text()


def test_collectives(notebook, cell):
    report = cell(REPORT)
    panel = tab(report, "Collectives")
    rows = panel.locator("tr[data-row]:visible")
    folded = rows.count()
    for group in panel.locator("tr[data-row] .xl-fold").all():
        group.click()
        assert group.get_attribute("aria-expanded") == "true"
    count = rows.count()
    assert count > 3 and count > folded
    for i in range(panel.locator("th[aria-sort]").count()):
        head = panel.locator("th[aria-sort]").nth(i)
        head.click()
        first = head.get_attribute("aria-sort")
        head.press("Enter")
        assert {first, head.get_attribute("aria-sort")} == {"ascending", "descending"}
    origins = panel.get_by_label("filter by origin")
    origins.select_option("user")
    user = rows.count()
    origins.select_option("partitioner")
    assert 0 < user < count and rows.count() + user == count
    origins.select_option("")
    panel.get_by_label("filter collectives").fill("psum")
    assert 0 < rows.count() < count and f"of {count}" in panel.inner_text()
    panel.get_by_label("filter collectives").fill("")
    assert rows.count() == count

    words = panel.locator(".xl-formula")
    rows.first.click()
    for change in (
        lambda: panel.get_by_label("interconnect").select_option(index=1),
        lambda: panel.get_by_label("α").fill("77"),
        lambda: panel.get_by_label("β").fill("3"),
        lambda: panel.get_by_label("algorithm").select_option("bidirectional"),
    ):
        before = panel.inner_text()
        change()
        assert panel.inner_text() != before
    assert panel.get_by_label("interconnect").input_value() == "-1" and "t =" in words.inner_text()
    played(notebook, panel, "round")
    rows.last.click()
    assert (
        panel.locator(".xl-chosen").count() == 1
        and "used by" in report.locator(".xl-status").inner_text()
    )


def played(page, panel, label):
    """Uses a player's buttons, slider and play."""
    player = panel.locator(f".xl-player[aria-label={label}]").first
    shown = player.locator("output")
    says(page, shown, f"{label} 1 of")
    player.get_by_label("forwards one").click()
    says(page, shown, f"{label} 2 of|after 1 {label}$")
    player.get_by_label("back one").click()
    says(page, shown, f"{label} 1 of")
    player.locator("input[type=range]").press("End")
    last = says(page, shown, rf"(\d+) of \1|after \d+ {label}s?$")
    player.get_by_label("play", exact=True).click()
    says(page, shown, f"{label} [12] of|after 1 {label}$")
    until(page, lambda: shown.inner_text() == last, "it does not play to its end")


def test_timings_and_memory(notebook, cell):
    report = cell(REPORT)
    panel = tab(report, "Timings")
    assert json.loads(saved(notebook, panel, "save timings", "Chrome trace (Perfetto)"))[
        "traceEvents"
    ]
    assert json.loads(saved(notebook, panel, "save timings", "JSON (records)"))["phases"]
    assert "<svg" in saved(notebook, panel, "save timings", "figure (matplotlib SVG)")
    panel = tab(report, "Memory")
    assert "<svg" in saved(notebook, panel, "save memory", "figure (matplotlib SVG)")
    buffer = panel.locator("[data-eq]").first
    buffer.click()
    assert "used by" in report.locator(".xl-status").inner_text()


def test_passes(notebook, cell):
    panel = tab(cell(REPORT), "Passes")
    rows, title = panel.locator(".xl-pass-row"), panel.locator(".xl-pass-title")
    shown = rows.count()
    hidden = panel.locator("button", has_text="that changed nothing")
    hidden.click()
    until(notebook, lambda: rows.count() > shown, "nothing more is listed")
    hidden.click()
    rows.nth(1).click()
    before = title.inner_text()
    panel.locator(".xl-pass-list").focus()
    press(notebook, "ArrowRight")
    assert title.inner_text() != before
    press(notebook, "ArrowLeft")
    assert title.inner_text() == before
    for name in ("the next pass", "the pass before"):
        before = title.inner_text()
        panel.get_by_label(name).click()
        assert title.inner_text() != before
    module = panel.locator(".xl-pass-module")
    list_of_lines = module.locator(".xl-rows")
    for name in ("the next change", "the change before"):
        panel.get_by_label(name).click()
        until(
            notebook,
            lambda: list_of_lines.get_attribute("aria-activedescendant"),
            f"{name} leads nowhere",
        )
        line = module.locator(f"#{list_of_lines.get_attribute('aria-activedescendant')}")
        assert line.is_visible() and re.search(r"[+−]", line.inner_text()), name
    rows.filter(has_text="dce").first.click()
    size = lambda: module.locator(".xl-row").first.get_attribute("aria-setsize")
    whole = size()
    panel.get_by_role("button", name="only changes").click()
    until(notebook, lambda: int(size()) != int(whole), "all lines are shown")
    panel.get_by_role("button", name="only changes").click()
    until(notebook, lambda: size() == whole, "not all lines are shown again")
    search = panel.get_by_label("find in the module")
    search.fill("=")
    press(notebook, "Enter")
    says(notebook, module, r"1 of \d+")
    search.fill("")
    press(notebook, "Escape")


def test_what_if(notebook, cell):
    panel = tab(cell(REPORT), "What if")
    mesh = panel.get_by_label("mesh", exact=True)
    mesh.fill("no mesh")
    press(notebook, "Enter")
    assert "is no mesh" in panel.locator(".xl-error").inner_text()
    mesh.fill("data=4,model=2")
    press(notebook, "Enter")
    panel.locator(".xl-weighed").wait_for(timeout=LONG)
    panel.get_by_role("button", name="back to what is").click()
    assert mesh.input_value() == "data=4, model=2"
    panel.get_by_label("find an argument").fill("params[3]")
    rows = panel.locator(".xl-whatif-arguments tbody tr")
    assert rows.count() == 1
    rows.locator("input[type=checkbox]").check()
    rows.locator("select").first.select_option("data")
    assert "xl-sel" in rows.get_attribute("class")
    panel.get_by_role("button", name="compile and compare").click()
    panel.locator(".xl-weighed").wait_for(timeout=LONG)
    assert re.search(r"less|more|=", panel.locator(".xl-weighed").inner_text())
    panel.get_by_label("find an argument").fill("")
    panel.get_by_role("button", name="back to what is").click()
    boxes = panel.locator(".xl-whatif-arguments input[type=checkbox]")
    assert all(box.is_checked() for box in boxes.all()), "all that can be split is varied"
    search, stop = (panel.get_by_role("button", name=name) for name in ("search the best", "stop"))
    assert stop.is_hidden()
    search.click()
    panel.locator(".xl-found").wait_for(timeout=LONG)
    # It moves while results come in, and may be gone.
    panel.evaluate(
        "p => [...p.querySelectorAll('button')].find(b => b.textContent === 'stop').click()"
    )
    until(notebook, stop.is_hidden, "a search that is stopped ends")
    found = panel.locator(".xl-found").inner_text()
    assert re.search(r"is better: .*|nothing better found", found) and "tried" in found
    assert panel.locator(".xl-ranking tr.xl-now").count() == 1
    assert panel.locator(".xl-front circle").count() > 1
    panel.locator(".xl-ranking").get_by_role("button", name="prove").first.click()
    panel.locator(".xl-weighed").first.wait_for(timeout=LONG)
    assert "step" in panel.locator(".xl-weighed").inner_text()
    assert "observe.place(" in panel.locator(".xl-pasted").inner_text()


def test_stepper(notebook, cell):
    view = cell(STEPPER)
    place = view.locator(".xl-place")
    number = lambda: int(re.search(r"step (\d+)", place.inner_text())[1])
    total = int(re.search(r"/ (\d+)", place.inner_text())[1])

    def moved(button, to):
        view.get_by_label(button).click()
        until(notebook, lambda: to(number()), f"{button} leads to step {place.inner_text()}")

    moved("last step", lambda n: n == total)
    moved("first step", lambda n: n == 1)
    moved("one step (right)", lambda n: n == 2)
    moved("one step back (left)", lambda n: n == 1)
    view.locator(".xl-report").or_(view).first.focus()
    press(notebook, "ArrowRight")
    until(notebook, lambda: number() == 2, "the right key does not step")
    press(notebook, "ArrowLeft")
    until(notebook, lambda: number() == 1, "the left key does not step back")
    moved("into the nested program (down)", lambda n: n > 1)
    assert "scan" in view.locator(".xl-path").inner_text()
    inside = number()
    moved("out of the nested program (up)", lambda n: n > inside or n < inside)
    moved("first step", lambda n: n == 1)
    moved("run to the first NaN", lambda n: n > inside)
    assert "NaN" in view.locator(".xl-values").inner_text()
    nan = number()
    moved("first step", lambda n: n == 1)
    view.locator(".xl-row", has_text="sin").last.click()
    moved("run to the chosen equation", lambda n: 1 < n < nan)
    moved("over the nested program", lambda n: n > 2)
    view.get_by_label("step", exact=True).press("Home")
    until(notebook, lambda: number() == 1, "the slider does not move")

    # Breakpoints: words refused, taken, met, removed; one at the chosen line.
    field = view.get_by_label("new breakpoint")
    field.fill("no such thing!")
    field.press("Enter")
    assert "is no breakpoint" in view.locator(".xl-error").first.inner_text()
    field.fill("nan")
    field.press("Enter")
    moved("run to the next breakpoint", lambda n: n == nan)
    assert "stopped at nan" in view.locator(".xl-stopped").inner_text()
    view.locator(".xl-row", has_text="sin").last.click()
    view.get_by_role("button", name="at the chosen line").click()
    chips = view.locator(".xl-chips")
    assert chips.get_by_label("remove breakpoint").count() == 2
    chips.get_by_label("remove breakpoint nan").click()
    assert chips.get_by_label("remove breakpoint").count() == 1

    # A value whole, another value, and back.
    moved("first step", lambda n: n == 1)
    moved("one step (right)", lambda n: n == 2)
    view.get_by_role("button", name="values").first.click()
    says(notebook, view.locator(".xl-entries:visible"), r"\d")
    view.get_by_role("button", name="what if").first.click()
    view.get_by_label("another value for").first.fill("0.25")
    view.get_by_role("button", name="go on with it").first.click()
    undo = view.get_by_role("button", name="undo what-if")
    undo.wait_for(timeout=SHORT)
    undo.click()
    undo.wait_for(state="hidden", timeout=SHORT)


def test_ladder(notebook, cell):
    view = cell(LADDER)
    rungs = view.locator(".xl-rung")
    fold = rungs.nth(0).locator(".xl-rung-name")
    rows = rungs.nth(0).locator(".xl-row")
    fold.click()
    assert rows.filter(visible=True).count() == 0 and fold.get_attribute("aria-expanded") == "false"
    fold.click()
    assert rows.filter(visible=True).count() > 3
    rows.filter(has_text="log").first.click()
    assert view.locator(".xl-rung.xl-has-part").count() >= 2
    press(notebook, "ArrowRight")
    press(notebook, "ArrowLeft")
    assert "log" in rungs.nth(0).locator(".xl-sel").inner_text()
    press(notebook, "ArrowDown")
    assert rungs.nth(1).locator(".xl-sel").count() == 1
    press(notebook, "ArrowUp")
    for name in ("names", "params"):
        before = view.inner_text()
        view.get_by_role("button", name=name).click()
        assert view.inner_text() != before, name
        view.get_by_role("button", name=name).click()
    search = view.get_by_label("find an equation or a rule")
    search.fill("sin")
    press(notebook, "Enter")
    says(notebook, view.locator(".xl-bar-top"), r"1 of \d+")
    press(notebook, "Shift+Enter")
    says(notebook, view.locator(".xl-bar-top"), r"(\d+) of \1")


def test_two_layouts(notebook, cell):
    view = cell(LAYOUTS)
    played(notebook, view, "view")
    view.locator(".xl-dev").first.click()
    says(notebook, view.locator(".xl-moves-of"), "device 0: receives")
    view.locator(".xl-devices tbody tr").nth(2).click()
    says(notebook, view.locator(".xl-moves-of"), "device 2: receives")


def test_kernel_of_two_cores(notebook, cell):
    """N15, K101: the machine behind the view answers with other schedules, and the shortest that shows the race."""
    view = cell(MACHINE)
    place = view.locator(".xl-place")
    schedule = view.get_by_label("schedule", exact=True).locator("select")
    assert "in no order" in view.locator(".xl-kernel-pick").inner_text()
    view.get_by_label("last step").click()
    view.get_by_label("first step").click()
    says(notebook, place, r"t = 0 of \d+")
    view.get_by_label("run to the first race").click()
    says(notebook, view.locator(".xl-stopped"), "in no order")
    view.get_by_label("seed of the schedule").fill("11")
    view.get_by_role("button", name="by seed").click()
    until(
        notebook,
        lambda: schedule.evaluate("s => s.selectedOptions[0].textContent") == "random, seed 11",
        "no schedule by seed",
    )
    view.get_by_role("button", name="round robin").click()
    until(
        notebook,
        lambda: schedule.evaluate("s => s.selectedOptions[0].textContent") == "round robin",
        "no round robin",
    )
    schedule.select_option("-1")
    view.get_by_role("button", name="shortest with the race").click()
    says(notebook, place, "of 2$")
    assert view.locator(".xl-kernel-race").count() == 1
    view.get_by_label("zoom in").click()
    view.get_by_label("play").click()
    until(notebook, lambda: "t = 1" in place.inner_text(), "it does not play")


def test_a_step_of_a_kernel_leads_to_its_blocks(notebook, cell):
    """N7, N15: the stepper enters the kernel per grid step, and shows the blocks of one."""
    view = cell(BLOCKS)
    place = view.locator(".xl-place").first
    panel = tab(view, "Steps")
    view.get_by_label("first step").first.click()
    panel.get_by_label("one step (right)").click()
    says(notebook, place, "step 2 /")
    assert "kernel double 2/4" in panel.locator(".xl-path").inner_text()
    panel.get_by_role("button", name="blocks of this step").click()
    blocks = view.locator(".xl-kernels")
    says(notebook, blocks.locator(".xl-place"), "step 2 / 4")
    assert blocks.locator(".xl-kernel-read").count() and blocks.locator(".xl-kernel-write").count()
    blocks.get_by_label("unit of a step").select_option("accesses")
    says(notebook, blocks.locator(".xl-place"), "t = ")
    tab(view, "Steps")
    press(notebook, "ArrowRight")
