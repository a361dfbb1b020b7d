"""`%xreport out.html`: the last report, or the report of a call, as one file."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_magic, magics_class

from xlab.notebook import recording
from xlab.notebook.export import write_html
from xlab.notebook.magics.arguments import takes
from xlab.notebook.options import unquoted


@magics_class
class Xreport(Magics):
    """`%xreport`."""

    @line_magic
    @takes("out.html", python=False)
    def xreport(self, given: SimpleNamespace) -> None:
        """Writes the report that was shown last as one self-contained HTML file."""
        path = unquoted(given.rest)
        if not path:
            raise ValueError("%xreport takes the name of a file, such as %xreport out.html")
        if recording.last is None:
            raise ValueError("no report yet: run a cell with %%xjit first")
        print(f"report of {recording.last.title} in {write_html(recording.last, path)}")
