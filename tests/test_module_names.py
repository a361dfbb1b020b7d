"""What a file asks of another file of the package, as `reductions.mean`, is there: a name that has moved is found before somebody calls it."""

from __future__ import annotations

import ast
import importlib
import types
import warnings
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "xlab"
NOT_IMPORTED = {"xlab.as_jax"}  # importing it is what it is for


def test_names_asked_of_modules_are_there():
    missing = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in sorted(PACKAGE.rglob("*.py")):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            if name not in NOT_IMPORTED:
                missing += lacking(path, importlib.import_module(name))
    assert not missing, "\n".join(missing)


def lacking(path: Path, module: types.ModuleType) -> list[str]:
    """Attributes that a file reads of modules it has imported and that these do not have."""
    if not any(isinstance(value, types.ModuleType) for value in vars(module).values()):
        return []
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    assigned = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | {node.arg for node in nodes if isinstance(node, ast.arg)}
    found = []
    for node in nodes:
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        asked = vars(module).get(node.value.id)
        if (
            isinstance(asked, types.ModuleType)
            and asked.__name__.startswith("xlab")
            and node.value.id not in assigned
            and not hasattr(asked, node.attr)
        ):
            found.append(f"{path.name}:{node.lineno}: {asked.__name__} has no {node.attr}")
    return found


def test_a_name_that_has_moved_is_found(tmp_path):
    path = tmp_path / "moved.py"
    path.write_text("import xlab.lax as lax\ndef f(x):\n    return lax.sinn(lax.sin(x))\n")
    module = types.ModuleType("moved")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    assert lacking(path, module) == ["moved.py:3: xlab.lax has no sinn"]
