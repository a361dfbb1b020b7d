"""Tables as test files: `samples*.py` is collected as if the tests of its cases were written in it.

`pytest tests/lax/samples.py` runs one table, `tests/lax/samples.py::test_law[sin-jit]` one law of one sample.
A table may say `LAWS = False`, to be compared with the reference alone, or `COMPARED_IN = "tests/.../test_x.py"`,
the file that compares its cases in a way of its own.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.reference.harness import cases, check, check_law, law_cases

ROOT = Path(__file__).resolve().parent.parent.parent


class Table(pytest.Module):
    """The tests of one table."""

    def collect(self):
        self.obj = module_of(".".join(self.path.relative_to(ROOT).with_suffix("").parts))
        return super().collect()


def module_of(name: str) -> ModuleType:
    """A module with `test_law` and `test_reference` for the table of that name, where they apply."""
    table = import_module(name)
    found = ModuleType(name, table.__doc__)
    if hasattr(table, "COMPARED_IN"):
        return found
    if getattr(table, "LAWS", True):

        @law_cases(name)
        def test_law(case):
            check_law(case)

        found.test_law = test_law

    @cases(name)
    def test_reference(case, oracle):
        check(case, oracle)

    found.test_reference = test_reference
    return found
