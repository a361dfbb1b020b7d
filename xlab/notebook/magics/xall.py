"""`%%xall`: plain Python in all processes of the group."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.magic import Magics, line_cell_magic, magics_class

from xlab.notebook import in_processes
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import cell_number


def _numbers(text: str) -> tuple[int, ...]:
    words = text.replace(",", " ").split()
    if not words or not all(w.isdecimal() for w in words):
        raise ValueError("numbers of processes, such as 0,2")
    return tuple(map(int, words))


@magics_class
class Xall(Magics):
    """`%%xall` and `%xall`."""

    @line_cell_magic
    @takes("x = 3", Option("process", "only these processes", "0,2", _numbers))
    def xall(self, given: SimpleNamespace, cell: str | None = None) -> None:
        """Runs the cell in every process; what they write is shown once where it is the same, else with the process's number."""
        if cell is not None and given.rest:
            raise ValueError(
                f"%%xall takes options, and Python in the lines below it; given {given.rest!r}"
            )
        source = given.rest if cell is None else "\n" + cell
        in_processes.run(source, None, cell_number(self.shell), given.process)
