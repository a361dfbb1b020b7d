"""`%xeffects`: effects that have not happened yet."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import takes


@magics_class
class Xeffects(Magics):
    """`%xeffects`."""

    @line_magic
    @takes()
    def xeffects(self, given: SimpleNamespace) -> None:
        """Lists what programs were started with and nobody waited for: callbacks and prints, by thread and device."""
        formatters.show(observe.pending_effects())
