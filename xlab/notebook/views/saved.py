"""A view as the HTML of an output: the picture itself, its data, and what brings it to life.

The picture stands there as plain markup, so it reads where a host drops scripts, styles or frames. Where scripts run it gets a
frame of its own. The script of all views is long, so it stands in the notebook a few times and not in every output: whoever has
it draws all pictures of its version, those above and those that come later, and has the styles of those that no script
draws (`shared.py`). Colab shows the outputs of each cell in a page of their own,
where no script of another cell is: there every output has it.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from itertools import chain
from typing import Any

from xlab.notebook import assets
from xlab.notebook.views import page, shared
from xlab.notebook.views.draw import Node, clean, escape, lean_html, saved_form, tags_and_classes

RARE = frozenset(
    ("figures", "kernels", "ladder", "passes", "replay", "resharding", "steps", "timeline")
)
"""Tabs with long scripts that few pictures have: these pictures share another script, with their own tabs only."""

_carriers: dict[str, dict[str, int]] = {}


def carries_code(view: Any, payload: dict[str, Any], cell: str) -> bool:
    """Whether a cell's picture carries its script for others: that of the first cell of a kernel's session, the tenth, the hundredth.

    So a notebook of any length has it, and keeps it when the first of these cells is deleted. In Colab every cell's picture does.
    """
    if not view.scripted:
        return False
    if in_colab():
        return True
    cells = _carriers.setdefault(_version(_tabs(payload)), {})
    at = cells.setdefault(cell, len(cells)) + 1
    return at == 10 ** (len(str(at)) - 1)


def in_colab() -> bool:
    """Whether this is a kernel of Colab."""
    return "google.colab" in sys.modules


def saved_html(
    view: Any, record: Any, payload: dict[str, Any] | None = None, code: bool = True
) -> str:
    """The HTML of an output; with `code`, also what others of its notebook need to live."""
    payload = payload or view.payload(record)
    tree = payload["tree"]
    title = escape(clean(view.title(record)))
    tall = min(view.height, page.estimate(tree))
    begin = f'<div class="xl-saved" aria-label="{title}" data-tall="{tall}"'
    packed = page.packed_data(payload) if view.scripted else ""
    if len(packed) > page.LARGEST:
        tree, packed = [*tree, page.too_large(packed)], ""
    tree = saved_form(tree) if packed else tree
    used = frozenset(tags_and_classes(tree))
    if "xl-hatch" in used:
        used |= frozenset(tags_and_classes(page.HATCH))
    if not packed:
        return f"{begin}><style>{assets.styles_for(used)}</style>{_picture(tree, used)}</div>"
    tabs = _tabs(payload)
    version = _version(tabs)
    # Colab takes scripts out of an output before it runs them, so one does not find another: there a style of no known type has it.
    inert = "style" if in_colab() else "script"
    octets = f'<{inert} type="application/octet-stream"'
    if shared.can_be_short(used):
        names, common = shared.numbered(tabs), shared.common_sheet(tabs, RARE)
        own = shared.own_sheet(used, tabs, RARE)
        sheet, alone = (common, own) if code else ("", shared.alone(tabs) + own)
    else:
        names, sheet, alone = {}, "", assets.styles_for(used)
    end = (
        f'{octets} data-xl-code="{version}">{page.packed_code(_code(tabs))}</{inert}><script>{_starter(version)}</script>'
        if code
        else f"<script>globalThis.xlab_{version}?.()</script>"
    )
    return (
        f'{begin} data-xl="{version}">'
        + (f"<style>{alone}</style>" if alone else "")
        + _picture(tree, used, names)
        + f'{octets} id="xl-data">{packed}</{inert}></div>'
        + (f"<style>{sheet}</style>" if sheet else "")
        + end
    )


def _picture(tree: Node, used: frozenset[str], names: dict[str, str] | None = None) -> str:
    """A picture as HTML, with its own hatch where it has one: that of another output may be hidden, and then nothing has it."""
    signs = page.HATCH
    if names:
        tree, signs = shared.shortened(tree, names), shared.shortened(signs, names)
    picture = lean_html(tree)
    if "xl-hatch" not in used:
        return picture
    name = f"xl-hatch-{hashlib.sha256(picture.encode()).hexdigest()[:8]}"
    picture = picture.replace("<article ", f"<article style='--xl-hatch:url(#{name})' ", 1)
    return lean_html(signs).replace("id=xl-hatch ", f"id={name} ", 1) + picture


def framed_html(view: Any, record: Any) -> str:
    """The whole page in an `srcdoc` frame, for a host that shows frames and runs no script of its own page."""
    payload = view.payload(record)
    inside = (
        page.framed_document(view, record, payload).replace("&", "&amp;").replace('"', "&quot;")
    )
    tall = min(view.height, page.estimate(payload["tree"]))
    return (
        f'<iframe title="{escape(clean(view.title(record)))}" srcdoc="{inside}" '
        f'style="width:100%;height:{tall}px;border:0;display:block"></iframe>'
    )


def _tabs(payload: dict[str, Any]) -> frozenset[str]:
    """The tabs whose scripts a picture shares: all usual ones, or its own where it has rare ones."""
    own = page.tabs_of(payload["tree"]) & _scripted()
    return own if own & RARE else _scripted() - RARE


def _scripted() -> frozenset[str]:
    return frozenset(chain.from_iterable(assets.panels().values()))


def prepare() -> None:
    """Makes what nearly all pictures share, so that the first of them does not wait for it."""
    tabs = _scripted() - RARE
    code = _code(tabs)
    page.packed_code(code)
    shared.common_sheet(tabs, RARE)
    _starter(_version_of(code))
    assets.module()
    assets.loader()


def _code(tabs: frozenset[str]) -> str:
    return _code_of(tabs, assets.digest())


@functools.lru_cache(16)
def _code_of(tabs: frozenset[str], _digest: str) -> str:
    """What runs in the frame of a saved picture: the styles, then the views."""
    return (
        'document.head.append(Object.assign(document.createElement("style"),'
        f"{{textContent:{page.script_json(assets.styles(tabs=tabs))}}}));\n{assets.script(tabs - page.ASKING)}"
    )


@functools.lru_cache(64)
def _version_of(code: str) -> str:
    return f"x{hashlib.sha256(code.encode()).hexdigest()[:12]}"


def _version(tabs: frozenset[str]) -> str:
    return _version_of(_code(tabs))


@functools.lru_cache(64)
def _starter(version: str) -> str:
    text = assets.starter().replace("XLAB_VERSION", version)
    return text.replace("XLAB_HEAD", page.HEAD).replace("XLAB_UNPACK", page.UNPACK)
