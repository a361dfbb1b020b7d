"""Joins the ES modules and styles of the views into the one module a browser is given.

Modules use `import { a } from "../kit/x.js";` on one line and `export function` or `export const`; joining strips these,
drops comments on lines of their own and indentation, and puts files in dependency order. All top-level names are unique.
A script of a view calls `definePanel("tab", mount)` on a line of its own; a view from elsewhere imports from "xlab/kit/dom.js".

>>> module().rstrip().endswith("export default { render };")
True
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from xlab.events import KINDS

ROOT = Path(__file__).parent / "js"
ENTRY = "views/report.js"
OWN = "xlab/"

_IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(?://[^\n]*\n|/\*\*?(?:[^*]|\*(?!/))*\*/\s*\n)", re.MULTILINE)


_PANEL = re.compile(r'^definePanel\("([\w-]+)"', re.MULTILINE)

_added: dict[str, Path] = {}


def add(folder: Path, view: str) -> None:
    """The script and style sheet of a view that is defined elsewhere, where they are: the files of its name in that folder."""
    if (folder / f"{view}.js").exists() or (folder / f"{view}.css").exists():
        _added[view] = folder
        _forget()


def remove(view: str) -> None:
    """Removes the files of a view that `add` added."""
    del _added[view]
    _forget()


def _forget() -> None:
    for made in (panels, body, styles, styles_for, common_rules, module, script, loader, digest):
        made.cache_clear()


def _files(end: str) -> list[Path]:
    """The scripts, or the style sheets, of all views."""
    own = sorted((ROOT / "views").glob(f"*.{end}"))
    return [
        *own,
        *(path for view, folder in _added.items() if (path := folder / f"{view}.{end}").exists()),
    ]


@functools.cache
def panels() -> dict[Path, frozenset[str]]:
    """Scripts that bring tabs to life, and which."""
    found = {
        path.resolve(): frozenset(_PANEL.findall(path.read_text(encoding="utf-8")))
        for path in _files("js")
    }
    return {path: tabs for path, tabs in found.items() if tabs}


def _order(entry: str, tabs: frozenset[str] | None) -> list[Path]:
    order: list[Path] = []
    _visit((ROOT / entry).resolve(), order, ())
    for path, brings in panels().items():
        if entry == ENTRY and (tabs is None or brings & tabs):
            _visit(path, order, ())
    return order


@functools.cache
def body(entry: str = ENTRY, tabs: frozenset[str] | None = None) -> str:
    """The joined source of an entry file, of all it imports, and of the views, without imports and exports; of the views of some tabs."""
    return "\n".join(_strip(path.read_text(encoding="utf-8")) for path in _order(entry, tabs))


def _visit(path: Path, order: list[Path], above: tuple[Path, ...]) -> None:
    if path in above:
        raise ValueError(f"{path.name} imports itself through {' > '.join(p.name for p in above)}")
    if path not in order:
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            within = ROOT / name.removeprefix(OWN) if name.startswith(OWN) else path.parent / name
            _visit(within.resolve(), order, (*above, path))
        order.append(path)


def _strip(source: str) -> str:
    source = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", source)))
    return "\n".join(line.strip() for line in source.splitlines() if line.strip())


def _needed(sheet: str, tabs: frozenset[str]) -> bool:
    """Whether a page of these tabs needs a style sheet, which may begin with `/* tab: name */`."""
    found = re.match(r"/\* tab: (\w+) \*/", sheet)
    return found is None or found[1] in tabs


@functools.cache
def styles(view: str = "", tabs: frozenset[str] | None = None) -> str:
    """All styles: the kit's, then each view's; those of one view and of what its script imports; or those that a page of these tabs needs."""
    if view:
        drawn: list[Path] = []
        for script in _files("js"):
            if script.stem == view:
                _visit(script.resolve(), drawn, ())
        wanted = {path.stem for path in drawn} | {view}
    else:
        wanted = {path.stem for path in _files("css")} - {
            path.stem for path in panels().keys() - set(_order(ENTRY, tabs))
        }
    sheets = [(ROOT / "kit/theme.css").read_text(encoding="utf-8")]
    for path in _files("css"):
        sheet = path.read_text(encoding="utf-8") if path.stem in wanted else ""
        if view or tabs is None or _needed(sheet, tabs):
            sheets.append(sheet)
    text = "\n".join(sheets)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    return re.sub(r"\s*([{};])\s*", r"\1", text).replace(": ", ":").replace(", ", ",")


_BLOCK = re.compile(r"([^{}]+)\{((?:[^{}]|\{[^{}]*\})*)\}")
_STATE = re.compile(r"\[[^\]]*\]|::?[\w-]+(?:\((?:[^()]|\([^()]*\))*\))?")
_LATER = re.compile(r":hover|:focus|::selection|:disabled|aria-sort|xl-whole|\[hidden\]")
"""What no picture has before a script or a pointer has come to it."""
_MOVING = re.compile(r"@keyframes|@media \(prefers-reduced-motion")
_LIST = re.compile(r",(?![^()]*\))")
_PROPERTY = re.compile(r"(?<=[{;])(--[\w-]+):[^;{}]*(;|(?=\}))")
_COMPOUND = re.compile(r"([a-z]\w*|\*)?((?:\.[\w-]+)*)")


@functools.lru_cache(64)
def styles_for(used: frozenset[str]) -> str:
    """The rules that a picture of these tags and classes needs as long as no script has changed it.

    >>> styles_for(frozenset({"xl", "p"})).count("{") < styles().count("{") / 5
    True
    """
    return needed_colors(_needed_rules(styles(), used | {"body", "*", ""}))


def rules_for(used: frozenset[str]) -> list[Rule]:
    """The same, one by one, with all custom properties."""
    return list(rules(_needed_rules(styles(), used | {"body", "*", ""})))


Rule = tuple[str, str, str]
"""Of a sheet: the condition around a rule, one selector, and what it says."""


def rules(sheet: str, around: str = "") -> Iterator[Rule]:
    """The rules of a sheet, one for each selector.

    >>> list(rules("a,b{x:1}@media print{a{y:2}}"))
    [('', 'a', 'x:1'), ('', 'b', 'x:1'), ('@media print', 'a', 'y:2')]
    """
    for head, inside in _BLOCK.findall(sheet):
        if head.startswith("@"):
            yield from rules(inside, head)
        else:
            yield from ((around, selector, inside) for selector in _LIST.split(head))


def sheet_of(found: Iterable[Rule]) -> str:
    """The text of rules.

    >>> sheet_of([("", "a", "x:1"), ("", "b", "x:1"), ("@media print", "a", "y:2")])
    'a,b{x:1}@media print{a{y:2}}'
    """
    out = []
    for around, group in groupby(found, key=itemgetter(0)):
        said = "".join(
            f"{','.join(rule[1] for rule in same)}{{{inside}}}"
            for inside, same in groupby(group, key=itemgetter(2))
        )
        out.append(f"{around}{{{said}}}" if around else said)
    return "".join(out)


@functools.lru_cache(16)
def common_rules(tabs: frozenset[str], rare: frozenset[str]) -> tuple[Rule, ...]:
    """The rules that pictures of these tabs may need as long as no script has changed them, by the names that their files in Python have.

    Files whose scripts bring rare tabs to life do not count.
    """
    apart = {path.stem for path, brings in panels().items() if brings & rare}
    files = (ROOT.parent / "views").glob("*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in files if path.stem not in apart)
    begun = tuple(found for found in _BEGUN.findall(text) if found != "xl-")
    written = frozenset(re.findall(r"xl-[\w-]+", text)).union(f"xl-{x}" for x in tabs.union(KINDS))
    used = frozenset(x for x in class_names(tabs) if x in written or x.startswith(begun))
    used |= frozenset(re.findall(r"[a-z]\w*", styles(tabs=tabs))) - {"button", "select", "input"}
    sheet = _needed_rules(styles(tabs=tabs), used | {"body", "*", "", "xl"})
    return tuple(rules(sheet))


_BEGUN = re.compile(r"(xl-[\w-]*)\{")
CLASS = re.compile(r"(?<=\.)xl-[\w-]+")


def class_names(tabs: frozenset[str]) -> tuple[str, ...]:
    """The classes that the styles of a page of these tabs name, in order; a saved picture calls them by their numbers."""
    return tuple(dict.fromkeys(CLASS.findall(styles(tabs=tabs))))


def needed_colors(sheet: str) -> str:
    """A sheet without the custom properties that nothing in it reads.

    >>> needed_colors(".a{--x:1;--y:var(--z);--z:2;color:var(--y)}")
    '.a{--y:var(--z);--z:2;color:var(--y)}'
    """
    read = set(re.findall(r"var\((--[\w-]+)", sheet))
    less = _PROPERTY.sub(lambda m: m[0] if m[1] in read else "", sheet)
    return sheet if less == sheet else needed_colors(less)


def _needed_rules(sheet: str, used: frozenset[str]) -> str:
    out = []
    for head, inside in _BLOCK.findall(sheet):
        if head.startswith("@"):
            kept = "" if _MOVING.match(head) else _needed_rules(inside, used)
            out.append(f"{head}{{{kept}}}" if kept else "")
        elif kept := [s for s in _LIST.split(head) if not _LATER.search(s) and _matches(s, used)]:
            out.append(f"{','.join(kept)}{{{inside}}}")
    return "".join(out)


def _matches(selector: str, used: frozenset[str]) -> bool:
    """Whether there may be elements of a selector; what depends on a state is not asked."""
    for compound in re.split(r"[\s>+~]+", _STATE.sub("", selector).strip()):
        found = _COMPOUND.fullmatch(compound)
        if found and not {found[1] or "", *found[2].split(".")} <= used:
            return False
    return True


@functools.cache
def module() -> str:
    """The ES module of all views, with the default export a widget host asks for."""
    return body() + "\nexport default { render };\n"


@functools.cache
def script(tabs: frozenset[str] | None = None) -> str:
    """The same as a plain script for a saved page with these tabs: it finds its data in the page and starts."""
    return "(()=>{\n" + body(ENTRY, tabs) + "\nstart();\n})();"


@functools.cache
def loader() -> str:
    """The small module each live widget carries: it finds the joined one, once per page."""
    return (ROOT / "loader.js").read_text(encoding="utf-8").replace("XLAB_DIGEST", digest())


@functools.cache
def starter() -> str:
    """What stands beside the script of saved pictures and draws all of its version."""
    return _strip((ROOT / "saved.js").read_text(encoding="utf-8"))


@functools.cache
def digest() -> str:
    """A name for this version of module and styles."""
    return hashlib.sha256((module() + styles()).encode()).hexdigest()[:16]
