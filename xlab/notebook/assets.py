"""Joins the ES modules and styles of the views into the one module a browser is given.

Modules use `import { a } from "../kit/x.js";` on one line and `export function` or `export const`; joining strips these,
drops comments on lines of their own and indentation, and puts files in dependency order. All top-level names are unique.

>>> module().rstrip().endswith("export default { render };")
True
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parent / "js"
ENTRY = "views/report.js"

_IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(?://[^\n]*\n|/\*\*?(?:[^*]|\*(?!/))*\*/\s*\n)", re.MULTILINE)


OPTIONAL = {"ladder": "ladder", "passes": "passes", "steps": "stepper"}
"""Parts of a page's data whose view is called only where they are there: without them a saved page goes without its source."""


@functools.cache
def body(entry: str = ENTRY, absent: frozenset[str] = frozenset()) -> str:
    """The joined source of one entry file and all it imports, without imports and exports, and without the views in `absent`."""
    order: list[Path] = []
    _visit((ROOT / entry).resolve(), order, ())
    left_out = {(ROOT / "views" / f"{OPTIONAL[part]}.js").resolve() for part in absent}
    return "\n".join(_strip(path.read_text(encoding="utf-8")) for path in order if path not in left_out)


def _visit(path: Path, order: list[Path], above: tuple[Path, ...]) -> None:
    if path in above:
        raise ValueError(f"{path.name} imports itself through {' > '.join(p.name for p in above)}")
    if path not in order:
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            _visit((path.parent / name).resolve(), order, (*above, path))
        order.append(path)


def _strip(source: str) -> str:
    source = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", source)))
    return "\n".join(line.strip() for line in source.splitlines() if line.strip())


@functools.cache
def styles(view: str = "*", absent: frozenset[str] = frozenset()) -> str:
    """All styles: the kit's, then each view's, or those of one view and of the scripts that its script imports; without the views in `absent`."""
    left_out = {OPTIONAL[part] for part in absent}
    scripts: list[Path] = []
    if (entry := ROOT / "views" / f"{view}.js").is_file():
        _visit(entry.resolve(), scripts, ())
    drawn = [p.stem for p in scripts if p.parent.name == "views"] or [view]
    files = [ROOT / "kit/theme.css", *(p for name in drawn for p in sorted((ROOT / "views").glob(f"{name}.css")) if p.stem not in left_out)]
    text = "\n".join(p.read_text(encoding="utf-8") for p in files)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


@functools.cache
def module() -> str:
    """The ES module of all views, with the default export a widget host asks for."""
    return body() + "\nexport default { render };\n"


@functools.cache
def script(absent: frozenset[str] = frozenset()) -> str:
    """The same as a plain script for a saved page: it finds its data in the page and starts."""
    return "(()=>{\n" + body(absent=absent) + "\nstart();\n})();"


@functools.cache
def loader() -> str:
    """The small module each live widget carries: it finds the joined one, once per page."""
    return (ROOT / "loader.js").read_text(encoding="utf-8").replace("XLAB_DIGEST", digest())


@functools.cache
def digest() -> str:
    """A name for this version of module and styles."""
    return hashlib.sha256((module() + styles()).encode()).hexdigest()[:16]
