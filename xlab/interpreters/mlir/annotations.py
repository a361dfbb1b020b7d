"""Annotations for the compiler on the operations of a module: `mhlo.frontend_attributes`.

Where programs have them, locations carry a mark besides the equation's number, and values that are annotated go through an operation of
their own. When the text is complete the module is parsed, both are turned into attributes, and it is printed again.
"""

from __future__ import annotations

import re

from xlab.backend import ir
from xlab.interpreters.mlir.values import escape

VALUE_MARK = "xlab_annotated_value"

# Few programs have what these find, so they are compiled when they are first used.
_NAME = r"[A-Za-z_][\w.$]*"
_MARK = r";a(\d+);e\d+"
_MARKS = r";a\d+(?=;e\d+)"
# Of what lowering gives no location: arguments, constants, functions.
_NOWHERE = r' loc\((?:unknown|"-":\d+:\d+(?: to [\d:]+)?)\)'
_PLACE = r'(?m) loc\("((?:[^"\\]|\\.)*;e\d+)"\((.*)\)\)$'

Pairs = tuple[tuple[str, str], ...]


def attribute_text(pairs: Pairs) -> str:
    """The attribute as MLIR spells it.

    Example:
        >>> attribute_text((("_xla_compute_type", "host"),))
        'mhlo.frontend_attributes = {_xla_compute_type = "host"}'
    """
    inner = ", ".join(
        f"{k if re.fullmatch(_NAME, k) else _quoted(k)} = {_quoted(v)}" for k, v in pairs
    )
    return f"mhlo.frontend_attributes = {{{inner}}}"


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'


class Annotations:
    """The sets of annotations that a module's operations have, by number."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[Pairs, int] = {}

    def number(self, pairs: Pairs) -> int:
        return self._numbers.setdefault(pairs, len(self._numbers))

    def mark(self, pairs: Pairs) -> str:
        """What a location says of them, before the equation's number."""
        return f";a{self.number(pairs)}"

    def attached(self, text: str) -> str:
        """The module with the annotations as attributes of its operations."""
        if not self._numbers:
            return text
        module = ir.parse(text)
        sets = list(self._numbers)
        for op in ir.operations(module):
            mark = re.search(_MARK, str(op.location))
            if mark is not None:
                ir.annotate(op, sets[int(mark[1])])
            if op.name == "stablehlo.custom_call" and VALUE_MARK in str(
                op.attributes["call_target_name"]
            ):
                number = int(str(op.attributes["backend_config"]).strip('"'))
                ir.annotate_operand(op, sets[number])
        return _normalized(ir.print_local(module))


def _normalized(text: str) -> str:
    """A module as printed with its locations in place, in the form in which lowering writes them."""
    files: dict[str, str] = {}

    def place(match: re.Match) -> str:
        alias = files.setdefault(match[2], f"#f{len(files)}")
        return f' loc("{re.sub(_MARKS, "", match[1])}"({alias}))'

    body = re.sub(_NOWHERE, "", re.sub(_PLACE, place, text))
    return "".join(f"{alias} = loc({where})\n" for where, alias in files.items()) + body
