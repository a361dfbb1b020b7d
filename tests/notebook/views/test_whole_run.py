"""A stepper in a page with a kernel behind it: who made the first NaN, one variable over the run, replaced values; one page for all."""

import json

import numpy as np
import pytest

import xlab.numpy as jnp
from tests.notebook.views.test_browser import visit
from xlab import lax, observe
from xlab.notebook import assets
from xlab.notebook.magics.xstep import handlers
from xlab.notebook.views import page as page_module
from xlab.notebook.views.base import answer
from xlab.notebook.views.stepper import StepperView, step_data, step_row

pytestmark = pytest.mark.browser


def host(browser, folder, stepper, **options):
    """A page with a live stepper that asks this process; `limit` steps come with it."""
    view, trace, kernel = StepperView(), stepper.trace(40), handlers(stepper)
    sent = {k: v for k, v in view.payload(trace).items() if k in ("view", "tree", "data")}
    file = folder / "host.html"
    file.write_text(
        f"""<!doctype html><meta charset="utf-8"><style>{assets.styles()}</style><div id="host"></div><script type="module">
const payload = {page_module.script_json(sent)};
const view = (await import(URL.createObjectURL(new Blob([{page_module.script_json(assets.module())}], {{ type: "text/javascript" }})))).default;
const heard = new Set();
const model = {{ get: () => payload, on: (_, f) => heard.add(f), off: (_, f) => heard.delete(f),
  send: (m) => kernel(JSON.stringify(m)).then((a) => heard.forEach((f) => f(JSON.parse(a)))) }};
const begin = () => {{ view.render({{ model, el: document.getElementById("host") }}); globalThis.ready = true; }};
while (!globalThis.kernel) await new Promise((run) => setTimeout(run, 10));
begin();
</script>""",
        encoding="utf-8",
    )
    page = visit(browser, file, **options)
    page.expose_function(
        "kernel",
        lambda text: json.dumps(
            (lambda m: {} if "ask" in m and "id" not in m else answer(view, kernel, m))(
                json.loads(text)
            )
        ),
    )
    page.wait_for_function("globalThis.ready")
    return page


def f(x):
    def turn(c, t):
        c = jnp.sqrt(c - t)
        return c, c * 2

    return lax.scan(turn, x, jnp.arange(5.0))[1].mean()


def test_a_whole_run_in_a_page(browser, tmp_path):
    page = host(browser, tmp_path, observe.Stepper(f, np.float32(2)))
    page.locator("button:has-text('who made it')").click()
    page.wait_for_selector(".xl-nan-path")
    maker = page.locator(".xl-nan-maker")
    assert "sqrt" in maker.inner_text() and "1 number below 0" in maker.inner_text()
    maker.click()
    page.locator(".xl-path", has_text="scan 3/5").first.wait_for()
    assert page.locator(".xl-nan-path [role=button] code").count() > 4
    alive = page.locator(".xl-value-head > code > b")
    assert set(alive.all_text_contents()) >= {"c₂", "g", "c", "t"}, (
        "what this iteration was given too"
    )
    assert "i" not in alive.all_text_contents(), "the last iteration's is not this one's"
    page.locator(".xl-value-head", has=page.locator("b", has_text="c₂")).locator(
        "button:has-text('over the run')"
    ).click()
    page.wait_for_selector(".xl-series svg")
    assert page.locator(".xl-series .xl-nan-mark").count() == 3
    page.locator(".xl-series summary").click()
    assert page.locator(".xl-series tbody tr").count() == 5
    assert "scan 2/5" in page.locator(".xl-series tbody tr").nth(1).inner_text()
    page.locator(".xl-series svg").click(position={"x": 3, "y": 20})
    page.locator(".xl-path", has_text="scan 1/5").first.wait_for()
    page.get_by_role("button", name="close").click()
    assert page.locator(".xl-series").count() == 0
    assert page.complaints == []
    page.close()


def test_a_nan_that_the_program_writes_has_no_mark(browser, tmp_path):
    """`var` writes one for the case of too few entries, which nothing takes; one that is made has its mark."""
    spread = observe.Stepper(lambda x: jnp.log(jnp.var(x, 0) - 2), jnp.ones((3, 2)))
    steps = [(s, step_data(s)) for s in spread.trace().steps if any(v.nans for v in s.outputs)]
    assert [made.get("writes_nan", False) for _, made in steps] == [True, False]
    assert ["⚠" in str(step_row(s)) for s, _ in steps] == [False, True]
    page = host(browser, tmp_path, spread)
    page.wait_for_selector(".xl-place")
    assert page.locator(".xl-nan-mark").count() == 1
    page.close()
