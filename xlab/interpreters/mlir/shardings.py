"""Shardy attributes for arguments, results and constraints."""

from __future__ import annotations

import math

from xlab.interpreters.mlir.values import escape


class MeshTable:
    """The meshes a module names: one symbol for each list of axes and devices."""

    def __init__(self):
        self._symbols: dict[tuple, str] = {}

    def symbol(self, mesh, device_ids=None) -> str:
        """The symbol of a mesh (concrete or abstract); `device_ids` says in which order it uses the devices."""
        key = (tuple(mesh.shape.items()), tuple(device_ids) if device_ids is not None else None)
        found = self._symbols.get(key)
        if found is None:
            found = "mesh" if not self._symbols else f"mesh_{len(self._symbols)}"
            self._symbols[key] = found
        return found

    def whole(self, devices: int) -> str:
        """The symbol of some mesh over all devices of the program."""
        for (axes, ids), symbol in self._symbols.items():
            if axes and math.prod(size for _, size in axes) == devices and ids is None:
                return symbol
        return self._symbols.setdefault(((("device", devices),), None), f"mesh_{len(self._symbols)}" if self._symbols else "mesh")

    def maximal(self, index: int) -> str:
        """The symbol of the mesh that is one device: number `index` of the program's devices."""
        return self._symbols.setdefault(((), (index,)), f"maximal_mesh_{index}")

    def lines(self) -> list[str]:
        out = []
        for (axes, ids), symbol in self._symbols.items():
            if not axes and ids:
                out.append(f"  sdy.mesh @{symbol} = <[], device_ids=[{ids[0]}]>")
                continue
            parts = ", ".join(f'"{escape(str(n))}"={s}' for n, s in axes)
            suffix = "" if ids is None or list(ids) == list(range(len(ids))) else \
                f", device_ids=[{', '.join(map(str, ids))}]"
            out.append(f"  sdy.mesh @{symbol} = <[{parts}]{suffix}>")
        return out
