"""`%xmesh`: sets the current mesh and draws it."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

from xlab.notebook import formatters, options
from xlab.notebook.magics.base import with_user_traceback
from xlab.sharding import EMPTY_MESH, set_mesh


@magics_class
class Xmesh(Magics):
    """`%xmesh`."""

    @line_magic
    @with_user_traceback
    def xmesh(self, line: str) -> None:
        """Sets the current mesh and draws it; without arguments draws it, `%xmesh off` unsets it.

        %xmesh data=4,model=2
        """
        if line.strip() in ("off", "none"):
            set_mesh(EMPTY_MESH)
            return
        mesh = options.mesh(line.strip())
        if mesh.empty:
            print("no mesh is set: %xmesh data=4,model=2 sets one")
            return
        set_mesh(mesh)
        formatters.show(mesh)
