"""`make_jaxpr` and `eval_shape`: tracing a function without running it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.stages import ShapeDtypeStruct
from xlab.config import idle_argument
from xlab.errors import InvalidInputException
from xlab.interpreters.constants import hoist_scalars
from xlab.transforms.arguments import check_callable, wraps


def make_jaxpr(
    fun: Callable,
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Hashable, int]] | None = None,
    return_shape: bool = False,
    abstracted_axes: None = None,
) -> Callable:
    """A function that returns the jaxpr of `fun` for given arguments.

    Args:
        fun: the function.
        static_argnums: which arguments are Python values and not traced.
        axis_env: names and sizes of mapped axes the function may use.
        return_shape: whether the result's shapes and dtypes are returned too.
        abstracted_axes: has to be None.

    Example:
        >>> import xlab
        >>> print(xlab.make_jaxpr(lambda x: x + 1)(2.0))
        { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """
    idle_argument("make_jaxpr", "abstracted_axes", abstracted_axes, "shapes are static")
    check_callable(fun, "make_jaxpr")

    @wraps(fun)
    def jaxpr_maker(*args, **kwargs):
        from xlab.core.trace import Axis, bound_axes

        with bound_axes([Axis(n, s, "plain") for n, s in axis_env or ()]):
            traced = jit(fun, static_argnums=static_argnums or None).trace(*args, **kwargs)
        closed = hoist_scalars(traced.jaxpr)
        return (closed, traced.out_info) if return_shape else closed

    return jaxpr_maker


def eval_shape(fun: Callable, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of the results of `fun`, and shardings as far as they are known, without computing them.

    Args:
        fun: the function.
        args: its arguments: arrays, or anything with a shape and a dtype.
        kwargs: its arguments by name.

    Example:
        >>> import xlab, numpy as np
        >>> xlab.eval_shape(lambda x: x.sum(0), xlab.ShapeDtypeStruct((3, 4), np.float32))
        ShapeDtypeStruct(shape=(4,), dtype=float32)
    """
    from xlab.compile.tracing import trace_program
    from xlab.core.hi_states import typed
    from xlab.core.hi_types import is_high

    if hasattr(fun, "_xlab_jit"):  # its options count: static arguments, shardings of results
        args, kwargs = _tree.map(_described, (args, kwargs))
        return fun.eval_shape(*args, **kwargs)
    flat, in_tree = _tree.flatten((args, kwargs))
    flat = list(map(_described, flat))
    program = trace_program(fun, in_tree, [typed(x) for x in flat])
    return _tree.unflatten(
        program.out_tree,
        [
            a
            if is_high(a)
            else ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=_laid_out(a))
            for a in program.closed.out_avals
        ],
    )


def _laid_out(aval: Any) -> Any:
    """The sharding of a type over the Explicit axes of its mesh, or of the current one; None where neither has any."""
    sharding = aval.sharding
    return sharding if sharding.mesh.explicit_axes else None


def _described(x: Any) -> Any:
    """A leaf, or the type that one describes which is no array: an object with a shape and a dtype."""
    from xlab.core.hi_states import typed

    try:
        typed(x)
    except InvalidInputException:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            return ShapeDtypeStruct(tuple(x.shape), x.dtype)
    return x
