"""No holes in the matrix: every primitive has a rule in every table, or says why it has none."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import xlab
from xlab.core import rules
from xlab.core.primitive import all_primitives
from xlab.interpreters import batching

for _room in ("lax", "transforms", "parallel", "random", "kernels"):
    # Importing the files is what fills the tables; `import xlab` alone imports none of them.
    _path = [f"{xlab.__path__[0]}/{_room}"]
    for _found in pkgutil.walk_packages(_path, f"xlab.{_room}."):
        import_module(_found.name)

TABLES = [table for table in rules.tables().values() if table.required]
PRIMITIVES = [p for p in all_primitives() if p.module.startswith("xlab/")]


def test_the_package_has_primitives_and_tables():
    assert len(PRIMITIVES) > 50
    assert len(TABLES) >= 3


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=[p.name for p in PRIMITIVES])
def test_a_primitive_is_whole(primitive):
    holes = (
        [] if primitive.has_abstract_eval else ["no abstract evaluation: def_abstract_eval(rule)"]
    )
    for table in TABLES:
        if table is batching.primitive_batchers and primitive in batching.axis_primitive_batchers:
            continue
        if primitive not in table and not table.excuse_for(primitive):
            holes.append(
                f"no rule to {table.purpose} it: {table.name}[{primitive.name}_p] = {table.signature}, "
                f"or {table.name}.excuse({primitive.name}_p, reason)"
            )
    assert not holes, f"'{primitive.name}' in {primitive.module} has\n  " + "\n  ".join(holes)


@pytest.mark.parametrize("table", TABLES, ids=[t.name for t in TABLES])
def test_excuses_are_reasons(table):
    for primitive in PRIMITIVES:
        excuse = table.excuse_for(primitive)
        if excuse is None:
            continue
        assert primitive not in table, (
            f"{primitive.name} has a rule in {table.name} and an excuse: {excuse}"
        )
        assert len(excuse.split()) >= 2, (
            f"{primitive.name} in {table.name}: {excuse!r} is no reason"
        )


def test_names_are_unique():
    by_name: dict[str, list[str]] = {}
    for primitive in PRIMITIVES:
        by_name.setdefault(primitive.name, []).append(primitive.module)
    twice = {name: modules for name, modules in by_name.items() if len(modules) > 1}
    assert not twice, f"one name, several primitives: {twice}"
