"""A view as one self-contained page: readable with no script, interactive with one, asking nothing of any network."""

from __future__ import annotations

import functools
import json
from typing import Any

from xlab.notebook import assets
from xlab.notebook.views.draw import clean, escape, h, html, tags_and_classes
from xlab.notebook.views.page_codec import pack, pack_text

HATCH = h(
    "svg",
    {"width": 0, "height": 0, "class": "xl-defs", "aria-hidden": "true"},
    h(
        "defs",
        None,
        h(
            "pattern",
            {
                "id": "xl-hatch",
                "width": 5,
                "height": 5,
                "patternUnits": "userSpaceOnUse",
                "patternTransform": "rotate(45)",
            },
            h("rect", {"width": 5, "height": 5, "class": "xl-hatch-back"}),
            h("rect", {"width": 1.5, "height": 5, "class": "xl-hatch-line"}),
        ),
    ),
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What a saved page may do: show itself. It can load nothing and ask nobody."""

HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"></head><body class="xl-page">'
)
"""How the page in the frame of a saved picture begins."""

LARGEST = 8_000_000
"""Bytes of packed page data above which a saved page goes without its interaction."""


UNPACK = """(async()=>{
const read=(id)=>new Response(new Blob([Uint8Array.from(atob(document.getElementById(id).textContent),(c)=>c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
const script=document.createElement("script");
script.textContent=await read("xl-code");
document.body.append(script);
})();"""
"""Starts a saved page, whose script is packed and unpacks the data itself."""

FIT = """(()=>{
const root=document.querySelector(".xl");
try{
const frame=window.frameElement,host=parent!==window&&parent.document.body;
const look=()=>{
root.dataset.theme=host.matches("[data-jp-theme-light=false],.dark")?"dark":"light";
const from=getComputedStyle(host);
for(const n of ["layout-color0","layout-color1","ui-font-color1","ui-font-color2","border-color2","ui-font-family","code-font-family"])root.style.setProperty("--jp-"+n,from.getPropertyValue("--jp-"+n));
document.body.style.background=from.getPropertyValue("--jp-layout-color0");};
if(host&&host.matches("[data-jp-theme-light],.dark,.light")){look();new MutationObserver(look).observe(host,{attributes:true,attributeFilter:["data-jp-theme-light","class"]});}
if(frame)new ResizeObserver(()=>{frame.style.height=Math.ceil(root.getBoundingClientRect().height)+"px";}).observe(root);
}catch{root.dataset.frame="foreign";
new ResizeObserver(()=>parent.postMessage({xlabHeight:Math.ceil(root.getBoundingClientRect().height)},"*")).observe(root);}
})();"""
"""All the script of a picture that needs none: the host's theme, and a frame as tall as the picture."""


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no `</`, no `<!--`, no line separators.

    >>> script_json("</script>")
    '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


@functools.lru_cache(64)
def packed_code(script: str) -> str:
    """A script, packed once for all pages of this kernel that have it."""
    return pack_text(script)


def packed_data(payload: dict[str, Any]) -> str:
    """The data of a payload, packed once for the live page and the saved one."""
    if "~packed" not in payload:
        payload["~packed"] = pack(payload["data"])
    return payload["~packed"]


ASKING = frozenset(("overview", "whatif"))
"""Tabs whose scripts do nothing but ask the kernel: a page that stands alone shows their pictures and goes without the scripts."""


def tabs_of(tree: Any) -> frozenset[str]:
    """The tabs of a picture."""
    return frozenset(
        node[1]["data-tab"]
        for node in tree[2:]
        if not isinstance(node, str) and "data-tab" in node[1]
    )


def too_large(packed: str) -> Any:
    """Says that a page goes without its interaction."""
    size = f"This page has no interaction: its data would be {len(packed) / 1e6:.0f} MB."
    return h("p", {"class": "xl-dim"}, size)


def document(view: Any, record: Any, payload: dict[str, Any] | None = None) -> str:
    """Return a whole HTML document for one record, which fills its window."""
    return _document(view, record, payload or view.payload(record), "xl-page xl-whole")


def framed_document(view: Any, record: Any, payload: dict[str, Any]) -> str:
    """The same for a frame, which is as tall as what is in it."""
    return _document(view, record, payload, "xl-page")


def _document(view: Any, record: Any, payload: dict[str, Any], style: str) -> str:
    title = clean(view.title(record))
    tree = payload["tree"]
    script = f"<script>{FIT}</script>\n"
    tabs: frozenset[str] | None = None
    if view.scripted:
        tabs = tabs_of(tree) | {"figures"}
        packed = packed_data(payload)
        if len(packed) <= LARGEST:
            script = (
                f'<script type="application/octet-stream" id="xl-data">{packed}</script>\n'
                f'<script type="application/octet-stream" id="xl-code">{packed_code(assets.script(tabs - ASKING))}</script>\n'
                f"<script>{UNPACK}</script>\n"
            )
        else:
            tree = [*tree, too_large(packed)]
    body = html(tree)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{assets.styles(tabs=tabs)}</style></head>\n"
        f'<body class="{style}">{html(HATCH)}{body}\n{script}</body></html>\n'
    )


def inline(view: Any, tree: Any) -> str:
    """A small picture for inside another output: no frame, no script, the host's own colors.

    >>> from xlab.notebook.views import view_for
    >>> from xlab.observe.records import MeshInfo
    >>> mesh = MeshInfo(("data",), (2,), (0, 1))
    >>> inline(view_for(mesh), view_for(mesh).tree(mesh)).startswith("<style>")
    True
    """
    used = frozenset(("xl-inline", *tags_and_classes(tree), *tags_and_classes(HATCH)))
    return f"<style>{assets.styles_for(used)}</style><div class='xl-inline'>{html(HATCH)}{html(tree)}</div>"


_TALL = {
    "p": 24,
    "tr": 25,
    "h2": 48,
    "h3": 36,
    "summary": 24,
    "button": 28,
    "footer": 36,
    "figcaption": 20,
}


def estimate(tree: Any) -> int:
    """About how many pixels a picture is tall, for where no script measures it; side by side counts as one under the other.

    >>> estimate(h("div", None, h("p", None, "one"), h("p", None, "two")))
    64
    """
    return 16 + round(_tall(tree))


def _tall(node: Any) -> float:
    if isinstance(node, str):
        return 0
    tag, attributes, *children = node
    if tag == "svg":
        return float(str(attributes.get("height", 100)).removesuffix("px"))
    if tag == "pre":
        return 18.0 * sum(c.count("\n") + 1 for c in children if isinstance(c, str)) + 8
    if tag == "details" and "open" not in attributes:
        return _TALL["summary"]
    inside = [_tall(c) for c in children]
    beside = tag == "tr" or "xl-pair" in attributes.get("class", "")
    return max(
        _TALL.get(tag, 0),
        (max(inside, default=0) if beside else sum(inside))
        + (_TALL.get(tag, 0) if tag == "h2" else 0),
    )
