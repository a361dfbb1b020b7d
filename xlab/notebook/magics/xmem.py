"""`%xmem`: arrays that are alive now; `%xmem f(x)`: what a program needs."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

import xlab
from xlab import observe, tree
from xlab.notebook import displays
from xlab.notebook.magics.base import call_of, jitted, told
from xlab.observe.records import Report
from xlab.observe.units import size_text, table


@magics_class
class Xmem(Magics):
    """`%xmem`."""

    @line_magic
    @told
    def xmem(self, line: str) -> None:
        """Lists the arrays under the names of this notebook, largest first; with a call, the memory of its program.

        %xmem
        %xmem step(params, x)
        """
        if not line.strip():
            print(arrays_table(self.shell.user_ns))
            return
        fun, args, kwargs, text = call_of(self.shell, line, "xmem")
        with observe.record() as session:
            observe.memory(jitted(self.shell, fun), *args, **kwargs)
        made = observe.report(session)
        displays.show(Report(text, made.programs, memory=made.memory, mesh=made.mesh, versions=made.versions, opens="memory"))


def arrays_table(names: dict) -> str:
    """The arrays held under names, largest first, as text."""
    rows, total, seen = [], 0, set()
    for name, value in list(names.items()):
        if name.startswith("_"):
            continue
        try:
            leaves = tree.leaves(value)
        except (TypeError, ValueError):
            continue
        arrays = {id(x): x for x in leaves if isinstance(x, xlab.Array) and not x.is_deleted()}
        size = sum(x.nbytes for x in arrays.values())
        total += sum(x.nbytes for i, x in arrays.items() if i not in seen)
        seen |= arrays.keys()
        if arrays:
            devices = {d for x in arrays.values() for d in x.sharding.device_set}
            rows.append((size, name, str(len(arrays)), f"{len(devices)} device{'s' * (len(devices) != 1)}"))
    if not rows:
        return "no name holds an array of xlab"
    rows.sort(key=lambda r: (-r[0], r[1]))
    lines = [("name", "arrays", "bytes", "on"), *((n, c, size_text(s), d) for s, n, c, d in rows)]
    return table(lines, "lrrl") + f"\n{size_text(total)} in {len(seen)} arrays"
