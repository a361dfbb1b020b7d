"""`%xcaches`: what the caches of programs found and made."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import takes


@magics_class
class Xcaches(Magics):
    """`%xcaches`."""

    @line_magic
    @takes()
    def xcaches(self, given: SimpleNamespace) -> None:
        """Shows what the caches did: one-operation programs, compiles, the cache on disk with the seconds it saved, and programs written to files."""
        formatters.show(observe.caches())
