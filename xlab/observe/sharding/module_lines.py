"""Lines of a module of the partitioner: where an operation ends, who reads a value, and what a loop carries."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence

RESULT = re.compile(r"^\s*(%\w+(?:, %\w+)*)(?::\d+)? = (\"?[\w.]+\"?)")
OPERAND = re.compile(r"%\w+(?:#\d+)?")
_CARRIED = re.compile(r"(%\w+) = (%\w+(?:#\d+)?)")


def last_line(lines: Sequence[str], number: int) -> int:
    """Number of the line that ends an operation, where its types and location stand: another one if it has regions."""
    if not 0 < number <= len(lines):
        return number
    line = lines[number - 1]
    if not (line.rstrip().endswith("({") or "stablehlo.while(" in line):
        return number
    indent = " " * (len(line) - len(line.lstrip()))
    for n in range(number, len(lines)):
        if lines[n].startswith(indent + "}") and not lines[n].rstrip().endswith("{"):
            return n + 1
    return number


def carried_into(line: str) -> dict[str, str]:
    """What a loop calls each value that it carries, and what that was before.

    >>> carried_into("%2:2 = stablehlo.while(%iterArg = %1, %iterArg_0 = %0#1) : tensor<i32>, tensor<4xf32>")
    {'%iterArg': '%1', '%iterArg_0': '%0#1'}
    """
    return dict(_CARRIED.findall(line.partition("while(")[2].partition(")")[0]))


class Readers:
    """The operations that read each value of a module, in their order."""

    def __init__(self, lines: Sequence[str]):
        self._read: dict[str, list[tuple[int, str]]] = {}
        self._functions = [n for n, line in enumerate(lines, 1) if "func.func" in line]
        for number, line in enumerate(lines, 1):
            match = RESULT.match(line)
            words = line.split()
            op = match.group(2).strip('"') if match else words[0] if words else ""
            if op == "func.func":
                continue
            for name in OPERAND.findall(line[match.end() :] if match else line):
                self._read.setdefault(name, []).append((number, op))

    def first(self, name: str, line: int) -> tuple[str, int]:
        """The operation that reads a value first after the line that makes it, and its line: other regions have values of the same name.

        >>> Readers(["%0 = a %x", "%1 = b %0", "%0 = a %y", "%1 = c %0"]).first("%0", 3)
        ('c', 4)
        """
        after = bisect.bisect_right(self._functions, line)
        end = self._functions[after] if after < len(self._functions) else math.inf
        return next(((op, n) for n, op in self._read.get(name, ()) if line < n < end), ("", 0))


def dtype_of(line: str) -> str:
    """The dtype of the last type in a line; `?` without one."""
    found = re.findall(r"tensor<([^>]*)>", line)
    return element_type(found[-1]) if found else "?"


def element_type(tensor: str) -> str:
    """The dtype of a tensor's text, `16x32xcomplex<f32` for one: it ends where the first `>` stood.

    >>> element_type("8x4xi1"), element_type("16xcomplex<f32"), element_type("f32")
    ('bool', 'c64', 'f32')
    """
    return _short(re.sub(r"^(?:\d+x)*", "", tensor))


def _short(mlir: str) -> str:
    if mlir == "i1":
        return "bool"
    found = re.fullmatch(r"(u?)i(\d+)", mlir)
    if found:
        return ("u" if found.group(1) else "i") + found.group(2)
    return {"complex<f32": "c64", "complex<f64": "c128"}.get(mlir, mlir)
