"""N15, K100–K102: the kernel view as a page without scripts, under Node, in a browser, and with a machine behind it."""

import json
import re

import pytest

from tests.kernels.machine import examples
from tests.notebook.test_export import Reader
from tests.notebook.views import sample, sample_kernel
from tests.notebook.views.test_browser import visit
from tests.notebook.views.test_front_end import HERE, needs_node, run_node
from tests.observe.kernel_runs.test_recording import accumulating
from tests.observe.kernel_runs.test_static import tiled_matmul
from xlab import observe
from xlab.kernels import interpret_mode
from xlab.kernels.machine import Machine
from xlab.notebook import assets, export, formatters
from xlab.notebook.export import write_html
from xlab.notebook.views import page as page_module
from xlab.notebook.views import view_for
from xlab.notebook.views.base import answer
from xlab.notebook.views.kernel import KernelView
from xlab.observe.kernel_runs.recording import KernelSession
from xlab.observe.records import Record

STEPS = """() => {
  const slider = document.querySelector(".xl-scrub");
  for (let i = 0; i < 40; i += 1) {
    slider.value = String((i * 7919) % 10000);
    slider.dispatchEvent(new Event("input"));
    document.querySelector(".xl-kernel-operands").getBoundingClientRect();
  }
}"""


def payloads():
    shortest = sample_kernel.race().replace(
        time=2, scheduled_by="the shortest", events=sample_kernel.race().events[:2]
    )
    runs = {made.__name__: made() for made in sample_kernel.ALL}
    runs |= {
        "shortest": shortest,
        "long": sample_kernel.long_run(),
        "matmul": sample_kernel.matmul(),
    }
    return {
        name: {k: v for k, v in view_for(run).payload(run).items() if k in ("view", "tree", "data")}
        for name, run in runs.items()
    }


@needs_node
def test_the_view_under_node(tmp_path):
    """K100 "works when", K101, K102: see kernel.test.mjs."""
    module = tmp_path / "views.mjs"
    module.write_text(assets.module(), encoding="utf-8")
    data = tmp_path / "payloads.json"
    data.write_text(json.dumps(payloads(), allow_nan=False))
    assert run_node(HERE / "kernel.test.mjs", module, data).strip() == "ok"


def test_a_page_reads_without_a_script():
    """Operands with their first step and how often each block is visited, steps in words, what moves, the roofline."""
    run = tiled_matmul()
    words = " ".join(Reader(re.sub(r"(?s)<script.*?</script>", "", export.to_html(run))).words)
    for part in (
        "grid (m=4, n=3, k=2), 24 steps",
        "from the index maps; nothing was run",
        "core 0, step (0,0,1): reads args[0][0:16, 16:32]",
        "12 blocks, 24 visits",
        "61.4 KB moved",
        "i, j, k → (i, k)",
        "not a measurement",
        "tpu:v5e",
    ):
        assert part in words, part
    tree = json.dumps(view_for(run).tree(run))
    totals = [int(n) for n in re.findall(r'"data-visits": "(\d+)"', tree)]
    assert sum(totals) == 3 * 24, "visits add up to the grid, per operand"
    assert "2 races" in " ".join(Reader(export.to_html(sample_kernel.race())).words)


def test_honest_labels():
    """What is simulated says so; nothing claims to be what a TPU would schedule."""
    for run in (
        observe.kernel_run(*accumulating()),
        tiled_matmul(),
        sample_kernel.producer_consumer(),
    ):
        page = export.to_html(run)
        assert "simulated by the value interpreter" in page or "nothing was run" in page
        assert "TPU would" not in page and "on TPU" not in page


def test_pages_stay_small():
    """N17: a kernel of a thousand steps in a report, and a run with its contents."""
    assert len(view_for(run := sample_kernel.long_run(1000)).static_html(run)) <= 300_000
    run = observe.kernel_run(*accumulating(8, 8, 4))
    assert len(run.events) > 1500 and len(view_for(run).static_html(run)) <= 300_000


def test_the_picture_of_ten_thousand_steps_is_cut():
    """K102: what a page draws before it is asked does not grow with the events; the benchmarks measure the time."""
    run = sample_kernel.long_run()
    assert len(run.events) == 20_000
    assert len(json.dumps(view_for(run).tree(run))) < 200_000


def test_a_report_has_the_tab():
    report = sample.report().replace(kernels=(sample_kernel.matmul(), sample_kernel.softmax()))
    page = view_for(report).tree(report)
    tabs = [n[1]["data-tab"] for n in page if isinstance(n, list) and "data-tab" in n[1]]
    assert tabs[-2:] == ["kernels", "whatif"]
    data = view_for(report).data(report)["kernels"]
    assert [run["name"] for run in data] == ["matmul_kernel", "softmax_kernel"]
    assert "kernels" not in [
        n[1].get("data-tab")
        for n in view_for(sample.report()).tree(sample.report())
        if isinstance(n, list)
    ]


def test_the_stepper_has_the_runs_of_its_kernels():
    call, x, y = accumulating(2, 1, 2)

    def f(a, b):
        with interpret_mode():
            return call(a, b) * 2

    trace = observe.trace(f, x, y)
    view = view_for(trace)
    data = view.data(trace)
    assert len(data["kernels"]) == 1
    assert [s.get("point") for s in data["steps"]["steps"]][:5] == [0, 1, 2, 3, None]
    assert "data-tab=kernels" in view.static_html(trace)


def test_requests_are_answered_by_a_machine():
    """K94, K101: another schedule by seed, the shortest with the race, contents; anything else is refused with words."""
    session = KernelSession(examples.worked(False))
    view, handlers = view_for(session.run), session.handlers()

    def ask(name, **arguments):
        return answer(view, handlers, {"id": 1, "ask": name, "arguments": arguments})

    made = Record.from_json(ask("schedule", how="random", seed=3)["answer"])
    assert made.scheduled_by == "random, seed 3" and made.events
    assert Record.from_json(ask("schedule", how="shortest", seed=0)["answer"]).time == 2
    moment = Record.from_json(ask("contents", t=1)["answer"])
    assert moment.t == 1 and {b.name for b in moment.buffers} >= {"outputs[0]", "scratch[0]"}
    assert "must be str, one of" in ask("schedule", how="eval", seed=3)["error"]
    assert "error" in ask("contents", t=-5)


def test_show_takes_a_machine(capsys):
    machine = Machine(examples.worked(True), schedule="round_robin")
    machine.run()
    formatters.show(machine)
    said = capsys.readouterr().out
    assert "simulated by the value interpreter" in said and "core 1 waits" in said
    assert formatters.record_of(machine).scheduled_by.startswith("given")


CELL = """
import numpy as np
import xlab
from xlab import kernels, numpy as jnp
def double(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]
spec = kernels.BlockSpec((4,), lambda i: (i,))
doubled = kernels.kernel_call(double, xlab.ShapeDtypeStruct((8,), "float32"), grid=2, in_specs=[spec], out_specs=spec, interpret=True)
def f(x):
    return jnp.sin(doubled(x))
x = jnp.arange(8.0)
"""


@pytest.fixture
def shown(shell, capsys):
    """Runs a cell in a shell with the extension, and gives what it displays as HTML and text."""
    shell.run_line_magic("load_ext", "xlab")
    assert shell.run_cell(CELL).success

    def run(cell):
        from IPython.utils.capture import capture_output

        with capture_output() as found:
            assert shell.run_cell(cell).success
        outputs = [o.data for o in found.outputs if "text/html" in o.data]
        return outputs[-1]["text/html"], outputs[-1]["text/plain"]

    return run


def test_xjit_xstep_and_show_in_a_shell(shown):
    """N15: a tab in the report of a cell, unless it is hidden; the stepper's own; a machine shown."""
    page, words = shown("%%xjit\ny = doubled(x) + 1")
    assert "data-tab=kernels" in page and "core 0, step (1): reads args[0][4:8]" in words
    page, words = shown("%%xjit --hide kernels\ny = doubled(x) + 1")
    assert "data-tab=kernels" not in page and "core 0" not in words
    page, words = shown("%xstep f(x)")
    assert "data-tab=kernels" in page and "in kernel double 2/2" in words
    page, words = shown(
        "from xlab.kernels.machine import Machine\nfrom xlab.notebook import show\nshow(Machine(doubled, x))"
    )
    assert "simulated by the value interpreter" in page
    assert "core 0, step (0): reads args[0][0:4], writes outputs[0][0:4]" in words
    assert (
        shown("show(xlab.observe.kernels(f, x)[0])")[1]
        == shown("show(xlab.observe.kernels(f, x)[0])")[1]
    )


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_walk_through_a_saved_page(browser, tmp_path, scheme):
    """Buttons, keys, jumps, the unit of a step, visits, without a complaint or a request."""
    call, x, y = accumulating(2, 2, 3)
    page = visit(
        browser,
        write_html(observe.kernel_run(call, x, y), tmp_path / "k.html"),
        color_scheme=scheme,
    )
    page.wait_for_selector(".xl-kernel-now")
    place = page.locator(".xl-place")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.locator(".xl-place", has_text=re.compile("^step 3 ")).first.wait_for()
    page.get_by_label("unit of a step").select_option("accesses")
    assert place.inner_text().startswith("t = ")
    assert page.locator(".xl-kernel-touch").count() == 1
    page.locator(".xl-kernel-access").nth(1).click()
    page.get_by_label("unit of a step").select_option("grid steps")
    page.get_by_label("last step").click()
    assert place.inner_text() == "step 12 / 12"
    page.get_by_text("visits", exact=True).click()
    assert page.locator(".xl-kernel-shade").get_attribute("aria-pressed") == "false"
    assert page.get_by_label("run to the first race").is_disabled()
    assert page.locator("[aria-label='contents of outputs[0]']").count() == 2
    before = page.locator(".xl-kernel-event").count()
    page.get_by_label("zoom in").click()
    assert 0 < page.locator(".xl-kernel-event").count() < before
    assert page.complaints == []
    page.close()


@pytest.mark.browser
def test_a_live_page_asks_a_machine(browser, tmp_path):
    """The page's questions are answered by the real handlers, put in its place before."""
    session = KernelSession(examples.worked(False))
    view, handlers = KernelView(), session.handlers()
    answers = {
        how: answer(
            view, handlers, {"id": 1, "ask": "schedule", "arguments": {"how": how, "seed": 4}}
        )["answer"]
        for how in ("random", "round_robin", "shortest")
    }
    payload = {k: v for k, v in view.payload(session.run).items() if k in ("view", "tree", "data")}
    host = tmp_path / "host.html"
    host.write_text(
        f"""<!doctype html><meta charset="utf-8"><style>{assets.styles()}</style><body><div id="host"></div><script type="module">
const view = (await import(URL.createObjectURL(new Blob([{page_module.script_json(assets.module())}], {{ type: "text/javascript" }})))).default;
const payload = {page_module.script_json(payload)}, answers = {page_module.script_json(answers)};
const hear = [];
const model = {{ get: () => payload, on: (_, run) => hear.push(run), off() {{}}, send: (m) => m.arguments && setTimeout(() => hear.forEach((run) => run({{ id: m.id, answer: answers[m.arguments.how] }})), 0) }};
view.render({{ model, el: document.getElementById("host") }});
</script>""",
        encoding="utf-8",
    )
    page = visit(browser, host)
    page.wait_for_selector(".xl-kernel-lanes svg")
    schedule = page.get_by_label("schedule", exact=True).locator("select")
    page.get_by_label("seed of the schedule").fill("4")
    page.get_by_text("by seed").click()
    page.wait_for_function(
        "document.querySelector('[aria-label=schedule] select').selectedOptions[0].textContent === 'random, seed 4'"
    )
    page.get_by_text("shortest with the race").click()
    page.wait_for_function("document.querySelector('.xl-place').textContent.endsWith('of 2')")
    assert page.locator(".xl-kernel-race").count() == 1
    schedule.select_option("-1")
    assert page.locator(".xl-place").inner_text().endswith(f"of {session.run.time}")
    assert page.complaints == []
    page.close()


@pytest.mark.browser
def test_a_step_of_ten_thousand_answers_at_once(browser, tmp_path):
    """Nodes drawn do not grow with the steps; the benchmarks measure the time."""
    page = visit(browser, write_html(sample_kernel.long_run(), tmp_path / "long.html"))
    page.wait_for_selector(".xl-kernel-now")
    page.evaluate(STEPS)
    assert page.locator(".xl-place").inner_text().endswith("/ 10000")
    assert page.locator(".xl-kernel-operands *").count() < 400
    assert page.complaints == []
    page.close()
