"""`%xladder f(x)`: a function, its derivative, its batched form: one program under the other."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

import xlab
from xlab import observe, tree
from xlab.notebook import displays
from xlab.notebook.magics.base import call_of, told
from xlab.observe.records import Program, Report


@magics_class
class Xladder(Magics):
    """`%xladder`."""

    @line_magic
    @told
    def xladder(self, line: str) -> None:
        """Shows the programs that the transformations make of a call: f, jvp, linearize, grad, vmap.

        %xladder loss(x)
        """
        fun, args, kwargs, text = call_of(self.shell, line, "xladder")
        displays.show(Report(f"ladder of {text}", programs=ladder(lambda *a: fun(*a, **kwargs), args)))


def ladder(fun, args) -> tuple[Program, ...]:
    """The programs of `fun` and of what each transformation makes of it; those that do not apply are left out.

    Example:
        >>> import xlab.numpy as jnp
        >>> [p.name for p in ladder(lambda x: jnp.sum(jnp.sin(x)), (jnp.ones(3),))]
        ['f', 'jvp', 'linearize', 'grad', 'vmap']
    """
    import numpy as np

    from xlab.core.dtypes import issubdtype

    first = tree.leaves(args[0]) if args else []
    floats = bool(first) and all(issubdtype(x.dtype, np.inexact) for x in map(_typed, first))
    made = [observe.program(fun, *args).replace(name="f")]
    out = tree.leaves(xlab.eval_shape(fun, *args))

    def at(x):
        return fun(x, *args[1:])

    if floats:
        made.append(observe.program(lambda x, t: xlab.jvp(at, (x,), (t,)), args[0], args[0]).replace(name="jvp"))
        tangent = xlab.linearize(at, args[0])[1]
        made.append(observe.program(tangent, args[0]).replace(name="linearize"))
        if len(out) == 1 and out[0].shape == () and issubdtype(out[0].dtype, np.floating):
            made.append(observe.program(xlab.grad(at), args[0]).replace(name="grad"))
    if args:
        rows = tree.map(lambda x: np.stack([np.asarray(x)] * 2), args[0])
        made.append(observe.program(xlab.vmap(at), rows).replace(name="vmap"))
    return tuple(made)


def _typed(x):
    import numpy as np

    return x if hasattr(x, "dtype") else np.asarray(x)
