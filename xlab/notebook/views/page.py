"""A view as one self-contained page: readable with no script, interactive with one, asking nothing of any network."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from xlab.notebook import assets
from xlab.notebook.views.draw import clean, escape, h, html

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

LARGEST = 8_000_000
"""Bytes of packed page data above which a saved page goes without its interaction."""


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no `</`, no `<!--`, no line separators.

    >>> script_json("</script>")
    '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def pack(value: Any) -> str:
    """JSON, gzip, base64: what the page unpacks with `DecompressionStream`."""
    data = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def document(view: Any, record: Any) -> str:
    """Return a whole HTML document for one record."""
    payload = view.payload(record)
    title = clean(view.title(record))
    tree = payload["tree"]
    script = ""
    if view.scripted:
        packed = pack({"view": payload["view"], "data": payload["data"]})
        if len(packed) <= LARGEST:
            script = (
                f'<script type="application/octet-stream" id="xl-data">{packed}</script>\n'
                f"<script>{assets.script()}</script>\n"
            )
        else:
            size = f"This page has no interaction: its data would be {len(packed) / 1e6:.0f} MB."
            tree = [*tree, h("p", {"class": "xl-dim"}, size)]
    body = html(tree)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{assets.styles()}</style></head>\n"
        f'<body class="xl-page">{html(HATCH)}{body}\n{script}</body></html>\n'
    )


def frame(view: Any, record: Any) -> str:
    """Return the document inside an `srcdoc` frame, so that two outputs never share globals or styles."""
    inside = document(view, record)
    return (
        f'<iframe title="{escape(clean(view.title(record)))}" srcdoc="{inside.replace("&", "&amp;").replace(chr(34), "&quot;")}" '
        f'style="width:100%;height:{view.height}px;border:0;resize:vertical;overflow:auto" loading="lazy"></iframe>'
    )
