"""`%xmesh`: sets the current mesh and draws it."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab.notebook import formatters, options
from xlab.notebook.magics.arguments import takes
from xlab.sharding import EMPTY_MESH, set_mesh


@magics_class
class Xmesh(Magics):
    """`%xmesh`."""

    @line_magic
    @takes("data=4,model=2", python=False)
    def xmesh(self, given: SimpleNamespace) -> None:
        """Sets the current mesh and draws it; without arguments draws it, `%xmesh off` unsets it."""
        if given.rest in ("off", "none"):
            set_mesh(EMPTY_MESH)
            return
        mesh = options.mesh(given.rest)
        if mesh.empty:
            print("no mesh is set: %xmesh data=4,model=2 sets one")
            return
        set_mesh(mesh)
        formatters.show(mesh)
