"""Every view at every size, light and dark, wide and narrow: pictures to look at, and what can be told from the page without looking.

python -m tests.notebook.screenshots [--out DIR] [--sizes 100 1000 10000 100000] [--widths 700 1400] [--schemes light dark] [--views report stepper …]

Writes a PNG of each view and tab, and `index.html` with all of them. A line is printed for each view and size with the time until it was visible,
and for all that is wider than the window, cut off, over one another, or paler than 4.5:1, and for what the page complained about; the exit
status is 1 when there is such a line.
"""

from __future__ import annotations

import argparse
import html
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import _BROWSERS
from xlab.notebook import assets
from xlab.notebook.views import VIEWS
from xlab.notebook.views import page as pages
from xlab.observe.records import Record, Report

SIZES = (100, 1_000, 10_000, 100_000)
WIDTHS = (700, 1400)
SCHEMES = ("light", "dark")
CRAFT = Path(__file__).with_name("craft.js")

HOST = """<!doctype html><meta charset="utf-8"><style>{css} body{{margin:0}} body[data-jp-theme-light=false]{{background:#14181d}}</style><body data-jp-theme-light="{light}"><div id="host"></div><script type="module">
const view = (await import(URL.createObjectURL(new Blob([{module}], {{ type: "text/javascript" }})))).default;
let end = () => {{}};
globalThis.draw = async (text) => {{
  end();
  const el = document.createElement("div");
  document.getElementById("host").replaceChildren(el);
  const payload = JSON.parse(text);
  const began = performance.now();
  end = view.render({{ model: {{ get: () => payload, on() {{}}, off() {{}}, send() {{}} }}, el }});
  await new Promise((drawn) => {{
    const look = () => ((el.querySelector(".xl-live .xl-panel:not([hidden])") ?? el.querySelector(".xl"))?.innerText ? drawn() : requestAnimationFrame(look));
    look();
  }});
  return performance.now() - began;
}};
globalThis.ready = true;
</script>"""
"""A page that shows a view as a live output does, with a kernel that never answers."""


DRAWN = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn())))"


class Shot(NamedTuple):
    """A view, or a tab of it, as it stood in the page."""

    name: str
    scheme: str
    width: int
    faults: list[str]
    milliseconds: float
    picture: Path | None


def payloads(records: Mapping[Any, Record], views: Sequence[str] = ()) -> dict[str, str]:
    """What each view is sent, by its name; `error` is the report of a cell that raised."""
    from tests.notebook.pictured import failed

    named = {view.name: (view, records[view.record_type]) for view in VIEWS}
    named["error"] = (named["report"][0], failed(records[Report]))
    return {
        name: _sent(view.payload(record))
        for name, (view, record) in named.items()
        if not views or name in views
    }


def _sent(payload: Mapping[str, Any]) -> str:
    """A payload as a live output is sent it."""
    packed = pages.packed_data(payload)
    return json.dumps({"view": payload["view"], "tree": payload["tree"], "packed": packed})


def shots(
    browser, sent: Mapping[str, str], schemes=SCHEMES, widths=WIDTHS, out: Path | None = None
) -> Iterator[Shot]:
    """Draws every view in every scheme and width, tab by tab."""
    for scheme in schemes:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "host.html"
            module = pages.script_json(assets.module())
            light = str(scheme == "light").lower()
            file.write_text(HOST.format(css=assets.styles(), module=module, light=light), "utf-8")
            page = browser.new_page(
                viewport={"width": 1400, "height": 1000},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            complaints: list[str] = []
            page.on("pageerror", lambda error, all=complaints: all.append(str(error)))
            page.on(
                "console",
                lambda said, all=complaints: (
                    all.append(said.text) if said.type in ("error", "warning") else None
                ),
            )
            page.goto(file.as_uri())
            page.wait_for_function("globalThis.ready")
            page.add_script_tag(content=CRAFT.read_text("utf-8"))
            for width in widths:
                page.set_viewport_size({"width": width, "height": 1000})
                for name, payload in sent.items():
                    took = page.evaluate("draw", payload)
                    for part in _parts(page):
                        page.evaluate(DRAWN)
                        faults = _by_kind(page.evaluate("craft(document.getElementById('host'))"))
                        if "this view failed" in page.inner_text("#host"):
                            faults.append("this view failed")
                        faults += [f"the page complains: {said}" for said in complaints]
                        complaints.clear()
                        called = name + (f" {part}" if part else "")
                        picture = None
                        if out is not None:
                            picture = (
                                out / f"{called.replace(' ', '-').lower()}-{scheme}-{width}.png"
                            )
                            tall = page.evaluate("document.documentElement.scrollHeight")
                            page.set_viewport_size({"width": width, "height": min(tall, 3000)})
                            page.screenshot(path=picture)
                            page.set_viewport_size({"width": width, "height": 1000})
                        yield Shot(called, scheme, width, faults, took, picture)
            page.close()


def _by_kind(found: Sequence[tuple[str, str, str]]) -> list[str]:
    """A line for each kind of fault and of place: a list has the same one in every row."""
    first: dict[tuple[str, str], list[str]] = {}
    for kind, where, text in found:
        first.setdefault((kind, where), []).append(text)
    return [f"{kind} × {len(texts)}: {texts[0]!r} in {where}" for (kind, where), texts in first.items()]  # fmt: skip


def _parts(page) -> Iterator[str]:
    """Goes from tab to tab; the program as a graph is one more."""
    tabs = page.locator("#host [role=tab]").all()
    for tab in tabs or [None]:
        if tab is not None:
            tab.click()
        title = tab.inner_text().strip(" •") if tab is not None else ""
        yield title
        graph = page.locator("#host .xl-panel:not([hidden]) button", has_text="graph")
        if title in ("Program", "") and graph.count():
            graph.first.click()
            yield f"{title} graph".strip()


def contact_sheet(out: Path, taken: Sequence[tuple[int, Shot]]) -> Path:
    """All pictures on one page, a row for each view and size."""
    rows: dict[tuple[str, int], list[Shot]] = {}
    for size, shot in taken:
        rows.setdefault((shot.name, size), []).append(shot)
    cells = "".join(
        f"<h2>{html.escape(name)}, {size:,} equations</h2><div>"
        + "".join(
            f"<figure><a href='{path}'><img loading=lazy src='{path}'></a><figcaption>{s.scheme} {s.width}{'' if not s.faults else f', {len(s.faults)} faults'}</figcaption></figure>"
            for s in found
            if s.picture and (path := html.escape(str(s.picture.relative_to(out))))
        )
        + "</div>"
        for (name, size), found in rows.items()
    )
    sheet = out / "index.html"
    sheet.write_text(
        f"<!doctype html><meta charset=utf-8><style>body{{font:13px system-ui}}div{{display:flex;gap:8px;align-items:flex-start}}figure{{margin:0}}img{{width:24vw;max-height:420px;object-fit:cover;object-position:top;border:1px solid #ccc}}</style>{cells}",
        "utf-8",
    )
    return sheet


def main(argv: list[str] | None = None) -> int:
    """Makes the pictures; exit status 1 when something was found that should not be."""
    from playwright.sync_api import sync_playwright

    from tests.notebook.pictured import records

    parser = argparse.ArgumentParser(
        prog="python -m tests.notebook.screenshots", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--schemes", choices=SCHEMES, nargs="+", default=SCHEMES)
    parser.add_argument(
        "--views", nargs="+", default=(), help="names of views; all of them otherwise"
    )
    given = parser.parse_args(argv)
    chromium = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    taken: list[tuple[int, Shot]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for size in given.sizes:
            folder = given.out / str(size)
            folder.mkdir(parents=True, exist_ok=True)
            for shot in shots(
                browser, payloads(records(size), given.views), given.schemes, given.widths, folder
            ):
                taken.append((size, shot))
                print(
                    f"{size:>7,}  {shot.name:28} {shot.scheme:5} {shot.width:5}  visible after {shot.milliseconds:.0f} ms",
                    *shot.faults,
                    sep="\n         ",
                    flush=True,
                )
        browser.close()
    print(contact_sheet(given.out, taken))
    return int(any(shot.faults for _, shot in taken))


if __name__ == "__main__":
    sys.exit(main())
