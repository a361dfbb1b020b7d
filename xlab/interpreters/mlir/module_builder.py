"""A module under construction: its functions, their names, the meshes and locations that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab.core import source_info
from xlab.interpreters.mlir.annotations import Annotations
from xlab.interpreters.mlir.shardings import MeshTable
from xlab.interpreters.mlir.values import escape


class ModuleBuilder:
    """What the functions of one module have in common."""

    def __init__(
        self,
        name: str,
        platform: str,
        devices: int,
        assignment: Sequence = (),
        typed_mesh: Any = None,
    ):
        self.name, self.platform, self.devices, self.assignment = (
            name,
            platform,
            devices,
            assignment,
        )
        self.typed_mesh = (
            typed_mesh  # the mesh that types speak of where no sharding of theirs names it
        )
        self.meshes = MeshTable()
        self.functions: list[str] = []
        self.files: list[str] = []
        self.places: dict[Any, str] = {}
        self.around: dict[tuple, tuple[str, str]] = {}
        self.symbols: set[str] = {"main"}
        self.shared: dict[Any, str] = {}
        self.numbers: dict[int, int] = {}
        self.callbacks: list[Callable] = []
        self.partitioners: list[Any] = []
        self.inspections: list[Any] = []
        self.annotations = Annotations()
        self.counts: dict[str, int] = {}
        self.keepalive: list[Any] = []

    def unique_symbol(self, name: str) -> str:
        base = "".join(c if c.isalnum() or c in "_$." else "_" for c in name) or "fn"
        if not (base[0].isalpha() or base[0] == "_"):
            base = "_" + base
        symbol, n = base, 0
        while symbol in self.symbols:
            symbol, n = f"{base}_{n}", n + 1
        self.symbols.add(symbol)
        return symbol

    def unique_number(self, kind: str) -> int:
        """The next number of a kind, from 0 in each module."""
        number = self.counts.get(kind, 0)
        self.counts[kind] = number + 1
        return number

    def around_number(self, eqn, scope: str) -> tuple[str, str]:
        """The location of an equation, as it ends the line of each of its operations: what stands before its number, and after it.

        All equations of one primitive written at one place have the same text.
        """
        raw = eqn.raw_source_info
        code, lasti, shown = raw[0], raw[1], raw[2]
        said = None
        if type(shown) is source_info.Scope:
            said, shown = shown.annotations, source_info.shown_scope(shown)
        if type(raw) is source_info.TransposedLocation:
            shown = f"transpose({shown})"
        key = (scope, shown, said, eqn.primitive, id(code), lasti)
        around = self.around.get(key)
        if around is None:
            label = escape("/".join(p for p in (scope, shown, eqn.primitive.name) if p))
            place = f"({self._file(code, lasti)})" if code is not None else ""
            label += self.annotations.mark(said) if said else ""
            around = self.around[key] = (f' loc("{label};e', f'"{place})')
        return around

    def _file(self, code, lasti) -> str:
        """Reference to a place in a file; equal places of equal code share it."""
        place = source_info.position(code, lasti)
        alias = self.places.get(place)
        if alias is None:
            alias = self.places[place] = f"#f{len(self.places)}"
            until = (
                f":{place.end_column + 1}"
                if place.end_line == place.line
                else f"{place.end_line}:{place.end_column + 1}"
            )
            self.files.append(
                f'{alias} = loc("{escape(place.file)}":{place.line}:{place.column + 1} to {until})'
            )
        return alias
