"""Shardy attributes for arguments, results and constraints."""

from __future__ import annotations

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

    def lines(self) -> list[str]:
        out = []
        for (axes, ids), symbol in self._symbols.items():
            parts = ", ".join(f'"{escape(str(n))}"={s}' for n, s in axes)
            suffix = "" if ids is None or list(ids) == list(range(len(ids))) else \
                f", device_ids=[{', '.join(map(str, ids))}]"
            out.append(f"  sdy.mesh @{symbol} = <[{parts}]{suffix}>")
        return out
