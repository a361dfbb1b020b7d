"""`%xladder f(x)`: a function, its derivatives, its batched and its distributed form: one program under the other."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted
from xlab.observe.programs.ladder import RUNGS
from xlab.observe.programs.view_jits import function_of


def positions(example: str) -> Callable[[str], Any]:
    """Reads a number, None, or several.

    >>> positions("0,1")("1"), positions("None,0")("None, 0")
    (1, (None, 0))
    """

    def read(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise ValueError(f"a number or several, such as {example}") from None

    return read


@magics_class
class Xladder(Magics):
    """`%xladder`."""

    @line_magic
    @takes(
        "f(x, y)",
        Option("rungs", "the transformations, one under the other", "'grad, vmap(grad)'"),
        Option(
            "argnums",
            "the arguments that derivatives are of, as to grad",
            "0,1",
            positions("0,1"),
        ),
        Option(
            "in-axes", "the axes that batches are along, as to vmap", "None,0", positions("None,0")
        ),
        STATIC,
    )
    def xladder(self, given: SimpleNamespace) -> None:
        """Shows what each transformation makes of a call: jvp, linearize, transpose, grad, vmap, shard_map; nothing runs.

        Every equation stands beside the rule that made it. Choose one: what it came from and what came from it lights up.
        Derivatives are those of the first argument that holds arrays and batches are along it, unless said otherwise.
        """
        rungs = (
            tuple(filter(None, (r.strip() for r in given.rungs.split(","))))
            if given.rungs is not None
            else RUNGS
        )
        fun, args, kwargs, text = call_of(self.shell, given.rest, "xladder")
        made = observe.ladder(
            jitted(self.shell, fun, given.static, args, kwargs)
            if given.static
            else function_of(fun),
            *args,
            rungs=rungs,
            argnums=given.argnums,
            in_axes=given.in_axes,
            **kwargs,
        )
        if given.rungs is not None and len(made.rungs) == 1:
            raise ValueError("; ".join(f"{name}: {why}" for name, why in made.left_out))
        formatters.show(made.replace(title=f"ladder of {text}"))
