"""`%xladder f(x)`: a function, its derivatives, its batched and its distributed form: one program under the other."""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters, options
from xlab.notebook.magics.base import call_of, options_of, with_user_traceback
from xlab.observe.program.ladder import RUNGS


@magics_class
class Xladder(Magics):
    """`%xladder`."""

    @line_magic
    @with_user_traceback
    def xladder(self, line: str) -> None:
        """Shows what each transformation makes of a call: jvp, linearize, transpose, grad, vmap, shard_map; nothing runs.

        Every equation stands beside the rule that made it. Choose one: what it came from and what came from it lights up.
        Derivatives are those of the first argument and batches are along it, unless told otherwise as to grad and vmap.

        %xladder loss(x)
        %xladder loss(params, x) --argnums 0 --in-axes None,0
        %xladder loss(x) --rungs 'grad, vmap(grad), shard_map(grad)'
        """
        found, call = options_of(line, "rungs", "argnums", "in-axes")
        given = {option: options.unquoted(value) for option, value in found}
        rungs = tuple(filter(None, (r.strip() for r in given["rungs"].split(",")))) if "rungs" in given else RUNGS
        fun, args, kwargs, text = call_of(self.shell, call, "xladder")
        made = observe.ladder(fun, *args, rungs=rungs, argnums=positions("argnums", given.get("argnums", "0")),
                              in_axes=positions("in-axes", given.get("in-axes", "None")), **kwargs)
        if "rungs" in given and len(made.rungs) == 1:
            raise ValueError("; ".join(f"{name}: {why}" for name, why in made.left_out))
        formatters.show(made.replace(title=f"ladder of {text}"))


def positions(option: str, text: str) -> Any:
    """What `--argnums` and `--in-axes` take: a number, None, or several.

    >>> positions("argnums", "1"), positions("in-axes", "None, 0")
    (1, (None, 0))
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(f"--{option} takes a number or several, such as {'0,1' if option == 'argnums' else 'None,0'}; given {text!r}") from None
