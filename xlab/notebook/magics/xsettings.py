"""`%xsettings`: the options of the runtime, and where their values are from."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import Option, takes


@magics_class
class Xsettings(Magics):
    """`%xsettings`."""

    @line_magic
    @takes(
        "debug",
        Option("changed", "only what does not have its default"),
        python=False,
    )
    def xsettings(self, given: SimpleNamespace) -> None:
        """Lists the options of the runtime with their values and where these are from; with a word, those with it in their name."""
        formatters.show(observe.settings(given.rest.strip(), changed=given.changed))
