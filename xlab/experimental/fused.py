"""Functions whose operands and results may be in any memory: of the device, or of its host.

Operations take operands of one memory. A fused function takes them from wherever they are, and leaves its results where it is told; on
hardware with one kernel for all of it, nothing between is written anywhere. Here it is one compiled function and the copies around it.

Example:
    >>> import xlab, xlab.numpy as jnp
    >>> from xlab.memory import Space
    >>> @fused(out_spaces=(Space.Host, Space.Device))
    ... def f(x, y):
    ...     return x + y, x * y
    >>> x = xlab.device_put(jnp.ones(3), Space.Host)
    >>> print(xlab.make_jaxpr(f)(x, jnp.ones(3)).out_avals)
    [ShapedArray(float32<host>[3]), ShapedArray(float32[3])]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.memory import Space
from xlab.parallel.put import device_put

__all__ = ["fused"]


def fused(*, out_spaces: Sequence[Space]) -> Callable[[Callable], Callable]:
    """A decorator: the function runs on the device with operands from any memory, and leaves its results in these.

    Args:
        out_spaces: of each result, in the order of the flattened results, a `memory.Space`.

    Raises:
        TypeError: when `out_spaces` is no sequence of spaces.
        ValueError: in the call, when the function has another number of results.

    Example:
        >>> import xlab
        >>> xlab.grad(lambda x: fused(out_spaces=[Space.Device])(lambda x: x * x)(x))(3.0)
        Array(6., dtype=float32, weak_type=True)
    """
    if not isinstance(out_spaces, Sequence) or not all(isinstance(s, Space) for s in out_spaces):
        raise TypeError(
            f"fused takes out_spaces as a sequence with a memory.Space for each result, such as (Space.Device,); got {out_spaces!r}"
        )

    def decorate(fun: Callable) -> Callable:
        compiled = jit(fun)

        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = _tree.map(lambda x: device_put(x, Space.Device), (args, kwargs))
            outs, structure = _tree.flatten(compiled(*args, **kwargs))
            if len(outs) != len(out_spaces):
                raise ValueError(
                    f"fused got {len(out_spaces)} out_spaces, and `{getattr(fun, '__name__', fun)}` returned {len(outs)} arrays, "
                    f"of the structure {structure}: give one for each"
                )
            return _tree.unflatten(structure, [device_put(x, s) for x, s in zip(outs, out_spaces)])

        return call

    return decorate
