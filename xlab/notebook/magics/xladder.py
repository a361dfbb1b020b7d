"""`%xladder f(x)`: a function, its derivatives, its batched and its distributed form: one program under the other."""

from __future__ import annotations

import re

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import displays, options
from xlab.notebook.magics.base import call_of, told
from xlab.observe.ladder import RUNGS

_RUNGS = re.compile(r"\s--rungs[ =]+('[^']*'|\"[^\"]*\"|\S+)")


@magics_class
class Xladder(Magics):
    """`%xladder`."""

    @line_magic
    @told
    def xladder(self, line: str) -> None:
        """Shows what each transformation makes of a call: jvp, linearize, transpose, grad, vmap, shard_map; nothing runs.

        Every equation stands beside the rule that made it. Choose one: what it came from and what came from it lights up.

        %xladder loss(x)
        %xladder loss(x) --rungs 'grad, vmap(grad), shard_map(grad)'
        """
        found = _RUNGS.search(" " + line)
        rungs = tuple(filter(None, (r.strip() for r in options.unquoted(found[1]).split(",")))) if found else RUNGS
        fun, args, kwargs, text = call_of(self.shell, _RUNGS.sub("", " " + line), "xladder")
        made = observe.ladder(fun, *args, rungs=rungs, **kwargs).replace(title=f"ladder of {text}")
        if found and len(made.rungs) == 1:
            raise ValueError("; ".join(f"{name}: {why}" for name, why in made.left_out))
        displays.show(made)
