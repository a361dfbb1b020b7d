"""Forward mode: values with tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.tracing import function_name
from xlab.core import dtypes
from xlab.core.avals import HOST_VALUES, aval_of
from xlab.core.hi_types import is_high
from xlab.interpreters import ad
from xlab.transforms.arguments import FlatFunction, as_array, check_callable
from xlab.transforms.vjp import _drop_tracers


def jvp(
    fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Value of `fun` and its directional derivative.

    Args:
        primals: tuple of arguments.
        tangents: tuple of the same structure, shapes and (tangent) dtypes.

    Returns:
        `(out, out_tangent)`, or `(out, out_tangent, aux)` with `has_aux`. What `fun` returns without computing on it, a Python
        number for one, comes back as it is.

    Example:
        >>> import xlab
        >>> y, dy = xlab.jvp(lambda x: x ** 2, (3.0,), (1.0,))
        >>> float(y), float(dy)
        (9.0, 6.0)
    """
    check_callable(fun, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"primal and tangent arguments to jvp must be tuples or lists; found {type(primals).__name__} and "
            f"{type(tangents).__name__}."
        )
    ps, in_tree = _tree.flatten(tuple(primals))
    ts, t_tree = _tree.flatten(tuple(tangents))
    if in_tree != t_tree:
        raise TypeError(
            f"primal and tangent arguments to jvp must have the same tree structure; primals have {in_tree} and "
            f"tangents have {t_tree}."
        )
    for p, t in zip(ps, ts):
        want = aval_of(p).to_tangent_aval()
        if is_high(want):
            if aval_of(t) != want:
                raise TypeError(
                    f"primal and tangent arguments to jvp of {function_name(fun)}: the primal is of type {aval_of(p)}, so its tangent must be {want}, "
                    f"got {aval_of(t)}"
                )
            continue
        if want.dtype == dtypes.float0:
            if getattr(t, "dtype", None) != dtypes.float0:
                raise TypeError(
                    f"the tangent of an argument of type {aval_of(p)} must have dtype float0, got {aval_of(t)}; "
                    f"make one with np.zeros(shape, xlab.dtypes.float0)"
                )
            continue
        got = aval_of(t)
        if got.dtype != want.dtype:
            raise TypeError(
                f"primal and tangent arguments to jvp of {function_name(fun)} must have equal dtypes (up to "
                f"tangent types): the primal is {aval_of(p)}, so its tangent must be {want}, got {got}"
            )
        if got.shape != want.shape:
            raise ValueError(
                f"jvp called with different primal and tangent shapes: {aval_of(p)} and {got}"
            )
    flat_fun = FlatFunction(fun, in_tree, aux=has_aux)
    ts = [
        ad.Zero(aval_of(p).to_tangent_aval()) if getattr(t, "dtype", None) == dtypes.float0 else t
        for p, t in zip(ps, ts)
    ]
    outs, out_tangents = ad.jvp(flat_fun, ps, ts)
    out_tangents = [
        t if isinstance(o, HOST_VALUES) else as_array(t)
        for o, t in zip(outs, map(ad.instantiate_zeros, out_tangents))
    ]
    result = (
        _tree.unflatten(flat_fun.out_tree, outs),
        _tree.unflatten(flat_fun.out_tree, out_tangents),
    )
    return (*result, _tree.map(_drop_tracers, flat_fun.aux_value)) if has_aux else result
