"""A walk through a saved report in headless Chromium: tabs, one selection at every level, the stepper, light and dark."""

import re
import time

import numpy as np
import pytest

import xlab
from tests.notebook.views import sample
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.notebook import assets
from xlab.notebook.export import write_html
from xlab.notebook.views import page as page_module
from xlab.notebook.views import view_for
from xlab.notebook.views.stepper import StepperView
from xlab.observe import records as r
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

pytestmark = pytest.mark.browser


def visit(browser, path, **options):
    """Open a page; everything it complains about is collected in `page.complaints`."""
    page = browser.new_page(viewport={"width": 1280, "height": 760}, **options)
    page.complaints = []
    page.on("pageerror", lambda e: page.complaints.append(str(e)))
    page.on(
        "console",
        lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None,
    )
    page.on(
        "request",
        lambda q: (
            page.complaints.append(q.url)
            if not q.url.startswith(("file:", "data:", "blob:", "about:"))
            else None
        ),
    )
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
    for i, title in enumerate(
        [
            "Program",
            "Shardings",
            "Collectives",
            "Overlap",
            "Timings",
            "Memory",
            "Passes",
            "Steps",
            "What if",
        ]
    ):
        page.keyboard.press(str(i + 1))
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == title
        assert page.locator(".xl-panel:visible").count() == 1
    place = page.locator(".xl-place")
    page.keyboard.press("8")
    page.keyboard.press("ArrowRight")
    page.locator(".xl-place", has_text=re.compile("^step 2 ")).first.wait_for()
    page.locator("text=first NaN").click()
    page.locator(".xl-place", has_text=re.compile("^step 62 ")).first.wait_for()
    assert "5 NaN" in page.locator(".xl-value").first.inner_text()
    assert place.is_visible()
    red, green, blue = page.evaluate(
        "getComputedStyle(document.querySelector('.xl')).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (red + green + blue > 600) == (scheme == "light")
    assert page.complaints == []
    page.close()


def test_chips_of_the_variable_under_the_pointer(browser, tmp_path):
    """C36: over a name of a `shard_map` body, how its value is over each axis, beside the name and in words."""

    def body(x):
        summed = lax.psum(x, "data")
        rank = lax.axis_index("model")
        return lax.pcast(summed, "data", to="varying") * x + rank

    mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    where = P(("data", "model"))
    f = xlab.jit(xlab.shard_map(body, mesh=mesh, in_specs=where, out_specs=where))
    with observe.record() as session:
        f(np.ones(8, np.float32))
    page = visit(browser, write_html(observe.report(session), tmp_path / "r.html"))
    page.locator("[role=tab]", has_text="Program").click()
    page.wait_for_selector(".xl-live .xl-row")
    name = page.locator("[data-v]", has_text="summed").first
    name.hover()
    card = page.locator(".xl-card:visible")
    assert [t.strip() for t in card.locator("small").all_inner_texts()] == ["data I", "model V"]
    assert "over data it is the same on all devices" in name.get_attribute("title")
    [at, under] = [n.bounding_box() for n in (name, card)]
    assert 0 <= under["y"] - at["y"] < 40 and abs(under["x"] - at["x"]) < 12
    page.locator("[data-v]", has_text="rank").first.hover()
    assert card.locator(".xl-rank").all_inner_texts() == ["0", "1"], "a rank is a number"
    page.locator(".xl-op", has_text="pvary").first.hover()
    states = [t.strip() for t in card.locator("small").all_inner_texts()]
    assert states == ["data I", "model V", "data V", "model V"], "a cast changes colors"
    page.locator("h1, .xl-head").first.hover()
    assert page.locator(".xl-card:visible").count() == 0
    page.locator(".xl-row", has_text="in  x").locator("[data-v]").hover()
    assert page.locator(".xl-card:visible").count() == 0, "outside of the body nothing varies"
    assert page.complaints == []
    page.close()


def test_live_widget_in_a_host_page(browser, tmp_path):
    """The loader, the module sent once for two widgets, the host's dark theme, a question to the kernel, a clean end."""
    trace = sample.report().trace
    view = StepperView()
    short = trace.replace(steps=trace.steps[:4])
    host = tmp_path / "host.html"
    host.write_text(
        f"""<!doctype html><meta charset="utf-8"><body data-jp-theme-light="false" style="background:#111">
<div id="one"></div><div id="two"></div><script type="module">
const payload = {page_module.script_json(view.payload(short))};
const files = {page_module.script_json({"module": assets.module(), "css": assets.styles()})};
const answer = {page_module.script_json(trace.steps[4].to_json())};
globalThis.asked = []; globalThis.ends = [];
const loader = (await import(URL.createObjectURL(new Blob([{page_module.script_json(assets.loader())}], {{ type: "text/javascript" }})))).default;
for (const id of ["one", "two"]) {{
  const heard = new Set();
  const say = (m) => setTimeout(() => heard.forEach((f) => f(m)), 1);
  const model = {{ get: () => payload, on: (_, f) => heard.add(f), off: (_, f) => heard.delete(f),
    send(m) {{ asked.push(m); say(m.ask === "module" ? files : {{ id: m.id, answer }}); }} }};
  ends.push(await loader.render({{ model, el: document.getElementById(id) }}));
}}
globalThis.ready = true;
</script>""",
        encoding="utf-8",
    )
    page = visit(browser, host)
    page.wait_for_function("globalThis.ready")
    assert page.locator(".xl-report[data-theme=dark]").count() == 2
    assert page.locator("[role=tab]").count() == 0, (
        "the program stands beside its steps, not once more in a tab of its own"
    )
    for _ in range(4):
        page.locator("#two button[aria-label^='one step (right)']").click()
    page.wait_for_function(
        "document.querySelector('#two .xl-place').textContent.startsWith('step 5 ')"
    )
    assert page.evaluate("asked.filter((m) => m.ask === 'module').length") == 1
    assert page.evaluate("asked.at(-1).arguments") == {"how": "next", "index": 3, "equation": -1}
    page.evaluate("ends.forEach((end) => end())")
    assert page.locator(".xl-report").count() == 0
    assert page.complaints == []
    page.close()


def test_a_single_picture_fits_its_frame_and_follows_the_host_theme(browser, tmp_path):
    layout = sample.report().layouts[1]
    host = tmp_path / "host.html"
    inside = view_for(layout).static_html(layout)
    host.write_text(f'<meta charset="utf-8"><body data-jp-theme-light="false">{inside}', "utf-8")
    page = visit(browser, host)
    frame = page.frame_locator("iframe")
    frame.locator(".xl-live[data-theme=dark]").wait_for()
    height = page.locator("iframe").bounding_box()["height"]
    assert 150 < height < 360
    frame.locator(".xl-block").first.hover()
    assert frame.locator(".xl-block.xl-hot").count() >= 4
    assert page.complaints == []
    page.close()


def test_no_script_shows_every_panel(browser, tmp_path):
    page = visit(
        browser, write_html(sample.report(), tmp_path / "r.html"), java_script_enabled=False
    )
    assert page.locator(".xl-panel:visible").count() == 9
    assert page.locator("pre.xl-code").first.bounding_box()["height"] > 19 * 17, (
        "one line under the other"
    )
    page.close()


def test_many_collectives_are_all_listed(browser, tmp_path):
    one = sample.report().transfers[0]
    many = tuple(
        one.replace(bytes_in=n, bytes_out=n, reason=f"of {n} bytes", fix="") for n in range(1, 101)
    )
    path = write_html(sample.report().replace(transfers=many), tmp_path / "r.html")
    page = visit(browser, path, java_script_enabled=False)
    assert page.locator(".xl-transfers tr[data-row]").count() == 40
    assert page.locator("text=60 lighter collectives").is_visible()
    page.close()
    page = visit(browser, path)
    page.get_by_role("tab", name="Collectives").click()
    rows = page.locator(".xl-transfers tbody tr")
    assert rows.count() == 200 and page.locator("text=lighter collectives").count() == 0
    assert [
        rows.nth(i).get_attribute("data-row" if i % 2 == 0 else "data-of")
        for i in (0, 1, 100, 101, 198, 199)
    ] == ["0", "0", "50", "50", "99", "99"]
    rows.nth(4).click()
    assert rows.nth(4).evaluate("row => row.classList.contains('xl-chosen')")
    page.get_by_label("filter collectives").fill("of 17 bytes")
    assert page.locator(".xl-transfers tr[data-row]:visible").count() == 1
    assert page.complaints == []
    page.close()


@pytest.mark.parametrize("measured", [False, True])
def test_the_line_of_a_collective_is_seen_in_a_narrow_window(browser, tmp_path, measured):
    one = sample.report().transfers[1].replace(
        operand="f32[64@data,32@model]", pattern="column-parallel product, backward", reason="r",
        bytes_in=81_924, bytes_out=81_924, measured_us=1234.0 if measured else None,
    )  # fmt: skip
    many = tuple(one.replace(reason=f"`w[{n}]` needs it", fix="") for n in range(20))
    path = write_html(sample.report().replace(transfers=many), tmp_path / "r.html")
    page = visit(browser, path)
    page.set_viewport_size({"width": 700, "height": 900})
    page.get_by_role("tab", name="Collectives").click()
    cells = page.locator(".xl-transfers tr[data-row]:visible").first.locator("td")
    origin, line = (cells.nth(n).bounding_box() for n in (cells.count() - 2, cells.count() - 1))
    pane = page.locator(".xl-collectives > .xl-scroll").bounding_box()
    assert line["x"] + line["width"] <= pane["x"] + pane["width"] + 1
    if not measured:
        assert origin["x"] + origin["width"] <= line["x"] + 1, "nothing is under it"
    assert page.complaints == []
    page.close()


def test_collectives_that_are_alike_unfold(browser, tmp_path):
    one = sample.report().transfers[1]
    many = tuple(one.replace(reason=f"`w[{n}]` needs it", fix="") for n in range(6))
    path = write_html(
        sample.report().replace(transfers=(*many, *sample.report().transfers[:1])),
        tmp_path / "r.html",
    )
    page = visit(browser, path)
    page.get_by_role("tab", name="Collectives").click()
    shown = page.locator(".xl-transfers tr[data-row]:visible")
    assert shown.count() == 2
    fold = page.get_by_role("button", name=re.compile("^6 × line"))
    fold.click()
    assert shown.count() == 7 and fold.get_attribute("aria-expanded") == "true"
    page.locator(".xl-transfers th", has_text="predicted").click()
    assert [x.get_attribute("data-row") for x in shown.all()] in (
        ["6", *"012345"],
        [*"012345", "6"],
    ), "those of a group stay together"
    fold.click()
    page.get_by_label("filter collectives").fill("psum")
    assert shown.count() == 1
    assert page.complaints == []
    page.close()


def test_a_hundred_thousand_equations_open_and_scroll(browser, tmp_path):
    made = r.Type("f32", (64, 128), (("data",), ()))
    p = r.Program(
        "big",
        equations=tuple(
            r.Equation(i, "mul", (f"v{i}", "w"), (r.Variable(f"v{i + 1}", made),))
            for i in range(100_000)
        ),
        mesh=sample.MESH,
    )
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
    print(
        f"opened {opened:.2f} s, median frame {frames[len(frames) // 2]:.1f} ms, 95 % {frames[int(len(frames) * 0.95)]:.1f} ms, page {path.stat().st_size / 1e6:.1f} MB"
    )
    assert page.complaints == []
    page.close()


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_lines_are_there_when_their_page_is_seen_again(browser, tmp_path, motion):
    """Cells that leave the page are hidden or taken out of it: a list is then where it was scrolled to, and its lines are there."""
    equations = tuple(
        r.Equation(i, "mul", (f"v{i}", "w"), (r.Variable(f"v{i + 1}", r.Type("f32", (4,))),))
        for i in range(2_000)
    )
    report = r.Report("long", (r.Program("long", equations=equations),))
    page = visit(browser, write_html(report, tmp_path / "long.html"))
    page.emulate_media(reduced_motion=motion)
    page.wait_for_selector(".xl-live .xl-row")
    seen = page.evaluate("""async () => {
      const frames = async (k) => { for (let n = 0; n < k; n += 1) await new Promise(requestAnimationFrame); };
      const rows = [...document.querySelectorAll(".xl-rows")].find((el) => el.scrollHeight > 9000);
      const cell = document.querySelector(".xl");
      const place = cell.parentNode;
      const ways = {
        hidden: [() => { cell.style.display = "none"; }, () => { cell.style.display = ""; }],
        removed: [() => cell.remove(), () => place.append(cell)],
        skipped: [() => { cell.style.contentVisibility = "hidden"; }, () => { cell.style.contentVisibility = ""; }],
      };
      const found = [];
      for (const [name, [leave, come]] of Object.entries(ways)) for (const away of [0, 1, 2, 4]) for (const drawn of [false, true]) {
        rows.scrollTop = 9000;
        await frames(3);
        leave();
        if (drawn) rows.dispatchEvent(new Event("scroll"));
        await frames(away);
        come();
        await frames(5);
        const { top, bottom } = rows.getBoundingClientRect();
        const inside = [...rows.querySelectorAll(".xl-row")].map((row) => row.getBoundingClientRect()).filter((row) => row.bottom > top && row.top < bottom);
        found.push([name, away, drawn, rows.scrollTop, inside.length * 18 >= rows.clientHeight && rows.clientHeight > 0]);
      }
      return found;
    }""")
    assert len(seen) == 24
    assert [case for case in seen if case[3:] != [9000, True]] == []
    assert page.complaints == []
    page.close()


RUNGS = """() => {
  let before = document.querySelector(".xl-rungs").getBoundingClientRect().top;
  return [...document.querySelectorAll(".xl-rung")].map((rung) => {
    const { top, bottom } = rung.getBoundingClientRect();
    const rows = rung.querySelector(".xl-rows");
    const words = document.createRange();
    const rule = [...rung.querySelectorAll(".xl-rule")].find((r) => r.textContent);
    words.selectNodeContents(rule);
    const far = rule.nextSibling.getBoundingClientRect().left - words.getBoundingClientRect().right;
    const found = [rung.getAttribute("aria-label"), top, bottom, before, rows.offsetHeight, Number(rung.querySelector(".xl-row").getAttribute("aria-setsize")), far];
    before = bottom;
    return found;
  });
}"""
"""Of each rung its name, where it is, where the one above it ends, how tall its lines are, how many, and how far a rule's words are from its equation."""


def test_a_ladder_and_passes(browser, tmp_path):
    made = observe.ladder(
        programs.dense,
        np.ones((8, 16), np.float32),
        np.ones((16, 4), np.float32),
        rungs=("jvp", "vmap"),
    )
    page = visit(browser, write_html(made, tmp_path / "ladder.html"))
    page.wait_for_selector(".xl-live .xl-rung .xl-row")
    for width in (700, 1400):
        page.set_viewport_size({"width": width, "height": 760})
        rungs = page.evaluate(RUNGS)
        assert [name for name, *_ in rungs] == ["f", "jvp", "vmap"]
        for name, top, bottom, before, shown, lines, far in rungs:
            assert abs(top - before) < 1, f"{name} stands right under what is above it"
            assert shown == min(290, 18 * lines + 2) and bottom - top < shown + 60, name
            assert 0 <= far < 30, f"{name}: a rule's words end at its equation"
    page.locator(".xl-rung").nth(1).locator(".xl-row", has_text="tanh").first.click()
    for rung in range(3):
        lit = page.locator(".xl-rung").nth(rung).locator(".xl-sel, .xl-lnk")
        assert lit.count() >= 1 and "tanh" in lit.first.inner_text()
    assert page.locator(".xl-ladder-python .xl-sel").count() == 1
    page.keyboard.press("ArrowUp")
    assert page.locator(".xl-rung").nth(0).locator(".xl-sel").count() == 1
    assert not page.complaints
    page.close()

    passes = observe.passes(xlab.jit(programs.dense).lower(*programs.sharded_operands()), all=True)
    page = visit(
        browser,
        write_html(r.Report("dense", passes=passes, opens="passes"), tmp_path / "passes.html"),
    )
    page.wait_for_selector(".xl-live .xl-pass-module .xl-row")
    title = page.locator(".xl-pass-title")
    page.locator(".xl-pass-row", has_text="fusion-wrapper").click()
    page.locator(".xl-pass-module input").fill("all-reduce(")
    page.keyboard.press("Enter")
    row = page.locator(".xl-pass-module .xl-row", has_text="all-reduce(").first
    row.click(position={"x": 120, "y": 9})
    followed = page.locator(".xl-pass-where").inner_text()
    assert followed.startswith("following %")
    page.locator(".xl-pass-list").focus()
    page.keyboard.press("ArrowLeft")
    assert (
        "dot-library-rewriter" in title.inner_text()
        and page.locator(".xl-pass-where").inner_text() == followed
    )
    name = followed.removeprefix("following ")
    assert page.locator(".xl-pass-module .xl-sel", has_text=f"{name} =").first.is_visible()
    assert not page.complaints
    page.close()


def test_text_can_be_marked_and_copied_in_every_pane(browser, tmp_path):
    """Dragging marks and chooses no line; a double click marks a word; several lines are copied whole, without their margins."""
    report = sample.report()
    host = tmp_path / "page.html"
    write_html(report, host)
    page = visit(browser, host)
    page.locator(".xl-live").wait_for()
    marked = "getSelection().toString()"
    copied = """() => { const data = new DataTransfer();
      const event = new ClipboardEvent("copy", { clipboardData: data, bubbles: true, cancelable: true });
      const at = getSelection().anchorNode;
      return (at.closest ? at : at.parentNode).dispatchEvent(event) ? getSelection().toString() : data.getData("text/plain"); }"""
    columns = page.locator(".xl-column:visible")
    assert columns.count() >= 3
    for i in range(columns.count()):
        rows = columns.nth(i).locator(".xl-row")
        first, third = rows.nth(1).bounding_box(), rows.nth(3).bounding_box()
        page.mouse.move(first["x"] + 60, first["y"] + 9)
        page.mouse.down()
        page.mouse.move(first["x"] + 260, first["y"] + 9, steps=3)
        page.mouse.up()
        part = page.evaluate(copied)
        assert len(part) > 5 and part in rows.nth(1).inner_text()
        assert not columns.nth(i).locator(".xl-row.xl-sel").count(), "marking chooses nothing"
        page.evaluate("getSelection().removeAllRanges()")
        page.mouse.move(first["x"] + 60, first["y"] + 9)
        page.mouse.down()
        page.mouse.move(third["x"] + 150, third["y"] + 9, steps=4)
        page.mouse.up()
        lines = page.evaluate(copied).split("\n")
        assert len(lines) == 3 and all(
            line.strip() and line.strip() in rows.nth(n + 1).inner_text()
            for n, line in enumerate(lines)
        )
        rows.nth(2).dblclick(position={"x": 150, "y": 9})
        assert re.fullmatch(r"\S+\s*", page.evaluate(marked)), "a word"
        page.keyboard.press("Escape")
        page.evaluate("getSelection().removeAllRanges()")
    rows.nth(1).click(position={"x": 60, "y": 9})
    assert page.locator(".xl-row.xl-sel").count()
    assert page.complaints == []
    page.close()


def test_columns_are_resized_at_their_edges(browser, tmp_path):
    """With the pointer and with keys, no narrower than can be read; a double click gives them their own widths back."""
    host = tmp_path / "page.html"
    write_html(sample.report(), host)
    page = visit(browser, host)
    page.locator(".xl-live").wait_for()
    columns = page.locator(".xl-columns:visible > .xl-column")

    def widths():
        return [column.bounding_box()["width"] for column in columns.all()]

    was = widths()
    edge = columns.nth(1).locator(".xl-edge")
    assert columns.nth(0).locator(".xl-edge").count() == 0
    box = edge.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 64, box["y"] + 40, steps=3)
    page.mouse.up()
    now = widths()
    assert abs(now[0] - was[0] - 60) < 3 and abs(was[1] - now[1] - 60) < 3
    assert abs(now[2] - was[2]) < 3 and not page.locator(".xl-row.xl-sel").count()
    edge.focus()
    page.keyboard.press("ArrowLeft")
    assert abs(widths()[0] - now[0] + 24) < 3
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    assert 80 < widths()[0] < 100
    edge.dblclick()
    assert all(abs(a - b) < 2 for a, b in zip(widths(), was, strict=True))
    page.set_viewport_size({"width": 600, "height": 900})
    assert not edge.is_visible(), "columns that stand one under the other have no edge"
    assert page.complaints == []
    page.close()


def test_a_whole_page_fills_its_window(browser, tmp_path):
    """A long program takes the height there is; a frame in another page does not, for it is as tall as what is in it."""
    listing = r.Listing("long.py", 1, tuple(f"x = {i}" for i in range(300)))
    report = sample.report()
    program = report.programs[0].replace(sources=(listing,))
    host = tmp_path / "page.html"
    many = tuple(report.layouts[1].replace(name=f"w{i}") for i in range(80))
    write_html(report.replace(programs=(program,), layouts=many), host)
    page = visit(browser, host)
    page.set_viewport_size({"width": 1400, "height": 1300})
    page.locator("[role=tab]", has_text="Shardings").click()
    assert page.locator(".xl-layout-list .xl-rows").bounding_box()["height"] > 950
    assert page.evaluate("document.documentElement.scrollHeight") <= 1310
    rows = page.locator(".xl-columns:visible .xl-rows").first
    page.locator("[role=tab]", has_text="Program").click()
    rows.wait_for()
    tall = rows.bounding_box()["height"]
    assert tall > 950
    assert page.evaluate("document.documentElement.scrollHeight") <= 1310
    page.set_viewport_size({"width": 1400, "height": 700})
    page.wait_for_timeout(100)
    assert 400 < rows.bounding_box()["height"] < 500
    page.goto(write_html(program, tmp_path / "alone.html").as_uri())
    page.set_viewport_size({"width": 1400, "height": 1300})
    rows.wait_for()
    assert rows.bounding_box()["height"] > 1040, "without tabs there is more room"
    assert page.evaluate("document.documentElement.scrollHeight") <= 1310
    assert page.complaints == []
    page.close()
