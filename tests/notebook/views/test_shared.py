"""What the outputs of a notebook share: one sheet of styles under short names, beside which each has what it needs alone."""

from __future__ import annotations

import re

import pytest

from tests.notebook.views import sample
from tests.notebook.views.each import of_views
from xlab.notebook import assets
from xlab.notebook.views import page, saved, shared, view_for
from xlab.notebook.views.draw import h, lean_html, saved_form, tags_and_classes
from xlab.observe.records import Report

RECORDS = {kind.__name__: record for kind, record in of_views(sample.report()).items()}
REPORT = sample.report().replace(trace=None, passes=None)
USUAL = saved._scripted() - saved.RARE


@pytest.mark.parametrize("kind", RECORDS)
def test_the_sheet_and_what_a_picture_has_besides_are_all_that_it_needs(kind):
    tree = saved_form(view_for(RECORDS[kind]).tree(RECORDS[kind]))
    used = frozenset(tags_and_classes(tree))
    names = shared.numbered(USUAL)
    said = set(assets.rules(shared.common_sheet(USUAL, saved.RARE)))
    said |= set(assets.rules(shared.own_sheet(used, USUAL, saved.RARE)))
    for around, selector, inside in assets.rules(assets.styles_for(used)):
        short = assets.CLASS.sub(lambda found: names.get(found[0], found[0]), selector)
        assert selector == ".xl" or (around, short, inside) in said, selector


def test_a_report_needs_hardly_more_than_the_sheet():
    report = REPORT
    used = frozenset(tags_and_classes(saved_form(view_for(report).tree(report))))
    assert len(shared.own_sheet(used, USUAL, saved.RARE)) < 3_000
    assert len(shared.common_sheet(USUAL, saved.RARE)) < 20_000


def test_only_what_carries_the_script_has_the_sheet():
    report = REPORT
    view = view_for(report)
    one, other = (view.static_html(report, code=code) for code in (True, False))
    sheet = shared.common_sheet(USUAL, saved.RARE)
    assert f"</div><style>{sheet}</style><script" in one and sheet not in other
    assert shared.alone(USUAL) in other and shared.alone(USUAL) not in one
    used = {name for pair in re.findall(r" class=(?:'([^']*)'|([\w-]+))", other) for name in "".join(pair).split()}  # fmt: skip
    assert not used & set(shared.numbered(USUAL))
    assert {"xl", "xl-report", "xl-panel"} <= used


def test_a_picture_whose_own_classes_are_as_short_keeps_all_names():
    """A tab that somebody added may call its elements what it likes."""
    from xlab.notebook.views.tabs import add_tab, remove_tab

    add_tab("other", "Other", 5, lambda _: h("section", {"class": "xl-panel B2", "data-tab": "other"}, h("p", {"class": "xl-dim"}, "one")))  # fmt: skip
    try:
        made = view_for(Report("f")).static_html(Report("f"), code=False)
    finally:
        remove_tab("other")
    assert "<p class=xl-dim>one" in made and ".xl-dim" in made


LOOKS = """() => [...document.querySelectorAll(".xl, .xl *")].filter((n) => !/^(style|script|defs|pattern)$/.test(n.localName) && !n.closest("defs")).map((n) => {
  const at = n.getBoundingClientRect();
  const s = getComputedStyle(n);
  const drawn = n.ownerSVGElement ?? n.localName === "svg";
  const font = drawn && n.localName !== "text" ? "" : s.font;
  const fill = drawn && !/^(text|rect|path|circle)$/.test(n.localName) ? "" : s.fill;
  return [n.localName, Math.round(at.width), Math.round(at.height), s.color, s.backgroundColor, s.backgroundImage, font, fill, s.stroke, s.textAlign, s.padding, s.margin, s.border, s.display, s.whiteSpace].join("|");
})"""


@pytest.mark.browser
@pytest.mark.parametrize("wide", [1400, 700])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_as_with_all_its_styles(browser, wide, scheme):
    """Where scripts do not run, below the output that carries the sheet."""
    report = REPORT
    view = view_for(report)
    tree = saved_form(view.tree(report))
    used = frozenset((*tags_and_classes(tree), *tags_and_classes(page.HATCH)))
    whole = f"<style>{assets.styles_for(used)}</style>{lean_html(page.HATCH)}{lean_html(tree)}"
    short = "".join(view.static_html(report, code=code) for code in (True, False))
    short = re.sub(r"<script.*?</script>", "", short, flags=re.DOTALL)
    found = []
    host = browser.new_page(viewport={"width": wide, "height": 900}, color_scheme=scheme)
    for source in (whole, short):
        host.set_content(f"<!doctype html><body>{source}</body>")
        found.append(host.evaluate(LOOKS))
    host.close()
    one, both = found
    assert len(one) > 100 and len(both) == 2 * len(one)
    assert both[: len(one)] == one and both[len(one) :] == one


@pytest.mark.browser
def test_the_script_gives_classes_their_names_again(browser):
    """Those that are there when a page has started are those of the picture, and the styles it had alone are gone."""
    report = REPORT
    view = view_for(report)
    host = browser.new_page(viewport={"width": 1200, "height": 900})
    complaints: list[str] = []
    host.on("pageerror", lambda error: complaints.append(str(error)))
    host.set_content(
        "<!doctype html><body>" + "".join(view.static_html(report, code=n == 0) for n in range(2))
    )
    for i in range(2):
        host.locator("iframe").nth(i).scroll_into_view_if_needed()
        frame = host.locator("iframe").nth(i).content_frame
        frame.locator(".xl-live [role=tab]").first.wait_for()
        classes = frame.locator(".xl").evaluate(
            "root => [...root.ownerDocument.querySelectorAll('[class]')].flatMap((n) => [...n.classList])"
        )
        assert not [name for name in classes if re.fullmatch(r"[A-Z]\w", name)]
        assert {"xl-table", "xl-map", "xl-track"} <= set(classes)
        assert not frame.locator("body style:not([type])").count()
        assert frame.locator("pattern").count() == 1
    assert not complaints
    host.close()
