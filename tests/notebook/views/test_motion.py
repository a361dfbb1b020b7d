"""Who wants no motion, as the system says, is shown each round of a collective at once: the step and the buttons stay."""

import pytest

from tests.notebook.views import sample
from tests.notebook.views.test_browser import visit
from xlab.notebook.export import write_html

pytestmark = pytest.mark.browser

COUNT = """() => {
  globalThis.parcels = 0;
  const seen = (records) => { for (const r of records) for (const n of r.addedNodes) parcels += n.classList?.contains("xl-parcel") ? 1 : 0; };
  new MutationObserver(seen).observe(document.body, { subtree: true, childList: true });
}"""


@pytest.mark.parametrize(("wish", "moves"), [("no-preference", True), ("reduce", False)])
def test_nothing_moves_where_no_motion_is_wanted(browser, tmp_path, wish, moves):
    file = write_html(sample.report(), tmp_path / "r.html")
    page = visit(browser, file, reduced_motion=wish)
    page.wait_for_selector(".xl-live")
    page.get_by_role("tab", name="Collectives").click()
    page.locator("[data-tab=collectives] tr[data-row='1']").click()
    player = page.locator("[data-tab=collectives] .xl-player").first
    page.evaluate(COUNT)
    before = player.inner_text()
    player.get_by_role("button", name="play").click()
    page.wait_for_function(
        "([node, was]) => node.innerText !== was", arg=[player.element_handle(), before]
    )
    player.get_by_role("button", name="play").click()
    assert (page.evaluate("parcels") > 0) == moves
    still = page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
    assert still is not moves
    timed = "[...document.querySelectorAll('.xl *')].filter((n) => parseFloat(getComputedStyle(n).transitionDuration) > 0 && getComputedStyle(n).transitionProperty !== 'none').length"
    if still:
        assert page.evaluate(timed) == 0, "and nothing fades"
    assert page.complaints == []
    page.close()
