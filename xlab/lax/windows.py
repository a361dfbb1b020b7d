"""Reductions over windows that slide along an array.

Sums, maxima and minima are primitives of their own, with derivatives of their own; any other operation goes through
`reduce_window`, whose derivatives are those of the operation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import dim_indices, known_negative, max_dim
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import Axis
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.interpreters.control_flow import OpaqueFlow, control_flow_rules
from xlab.lax import arithmetic as _a
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.comparison import ge_p, le_p, select
from xlab.lax.reducing import (
    check_inits,
    closes_over_tracers,
    flatten_operands,
    is_identity,
    map_scalars,
    scalar_program_op,
    staged,
)
from xlab.lax.reductions import highest, lowest
from xlab.lax.shape import broadcast_in_dim, pad
from xlab.lax.window_selection import (
    check_pairs,
    dilated,
    parts_of_windows,
    select_and_gather_add_p,
    shifted_window,
    window_counts,
    window_text,
)

__all__ = ["padtype_to_pads", "reduce_window", "reduce_window_shape_tuple"]


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """'SAME', 'SAME_LOWER' or 'VALID' as (low, high) padding per dimension.

    Args:
        in_shape: shape of the operand.
        window_shape: shape of the window.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.

    Example:
        >>> padtype_to_pads((7,), (3,), (2,), "SAME")
        [(1, 1)]
    """
    kind = padding.upper() if isinstance(padding, str) else padding
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind in ("SAME", "SAME_LOWER"):
        out = []
        for n, w, s in zip(in_shape, window_shape, window_strides):
            total = max_dim((-(-n // s) - 1) * s + w - n, 0) if n else 0
            low = total // 2 if kind == "SAME" else total - total // 2
            out.append((low, total - low))
        return out
    if isinstance(padding, str):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}."
        )
    raise ValueError(
        f"padding must be 'VALID', 'SAME', 'SAME_LOWER' or a sequence of (low, high), got {padding!r}"
    )


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduces every window of an array with an associative `computation`.

    Args:
        operand: an array, or a pytree of arrays of one shape.
        init_value: scalar to start from (a pytree of them); also what padding holds.
        computation: `computation(a, b)` on pytrees of scalars.
        window_dimensions, window_strides: sizes and steps of the window; steps of 1 by default.
        padding: 'VALID', 'SAME', 'SAME_LOWER' (counted for the array without `base_dilation`), or (low, high) per dimension.
        base_dilation, window_dilation: distances between neighboring elements of array and window.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.reduce_window(np.float32([1, 3, 2, 5]), np.float32(0), lax.add, (2,), (1,), "VALID"))
        [4. 5. 7.]
    """
    flat, inits, structure = flatten_operands("reduce_window", operand, init_value)
    window = _window(
        aval_of(flat[0]).shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    known = _KNOWN.get(computation) if len(flat) == 1 and _hashable(computation) else None
    if known is not None and is_identity(inits[0], flat[0], known[1]):
        return _tree.unflatten(structure, [known[0].bind(flat[0], **window)])
    check_inits("reduce_window", flat, inits)
    closed = staged(computation, structure, flat)
    if closes_over_tracers(closed):
        return _tree.unflatten(
            structure, _by_parts(*flat, *inits, jaxpr=closed, consts=(), **window)
        )
    return _tree.unflatten(
        structure, reduce_window_p.bind(*flat, *inits, jaxpr=closed, consts=(), **window)
    )


def _hashable(x) -> bool:
    return getattr(x, "__hash__", None) is not None


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of a windowed reduction with explicit padding.

    Args:
        operand_shape: shape of the operand.
        window_dimensions: shape of the window.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.
        base_dilation, window_dilation: how far apart elements of the operand, and of the window,
            are set.

    Example:
        >>> reduce_window_shape_tuple((6, 5), (2, 2), (1, 2), ((0, 1), (0, 1)))
        (6, 3)
    """
    return window_counts(
        operand_shape,
        window_dimensions,
        window_strides,
        check_pairs("reduce_window", padding, len(operand_shape)),
        base_dilation,
        window_dilation,
    )


def _window(shape, dimensions, strides, padding, base_dilation, window_dilation) -> dict:
    """The parameters of a windowed reduction, checked."""
    ndim = len(shape)
    sizes = dim_indices(dimensions)
    if len(sizes) != ndim:
        raise TypeError(
            f"reduce_window got the wrong number of window_dimensions for operand: got operand shape {shape} with "
            f"window_dimensions {sizes}."
        )
    given = {"window_dimensions": sizes}
    for name, values in (
        ("window_strides", strides),
        ("base_dilation", base_dilation),
        ("window_dilation", window_dilation),
    ):
        given[name] = (1,) * ndim if values is None else dim_indices(values)
        if len(given[name]) != ndim:
            raise TypeError(
                f"reduce_window got inconsistent {name} and window_dimensions: got {name} {given[name]} and "
                f"window_dimensions {sizes}."
            )
    for name, values in given.items():
        if any(known_negative(v - 1) for v in values):
            raise TypeError(
                f"reduce_window {name} must have every element be strictly positive, got {values}."
            )
    if isinstance(padding, str):
        # The customary count: for the array as it is given, not as `base_dilation` spreads it.
        reach = [dilated(w, d) for w, d in zip(sizes, given["window_dilation"])]
        padding = tuple(padtype_to_pads(shape, reach, given["window_strides"], padding))
    return {**given, "padding": check_pairs("reduce_window", padding, ndim)}


# -- any operation ------------------------------------------------------------------------------------------


def _counts(x, window) -> tuple[int, ...]:
    return window_counts(
        x.shape,
        window["window_dimensions"],
        window["window_strides"],
        window["padding"],
        window["base_dilation"],
        window["window_dilation"],
    )


def _general_aval(*args, jaxpr, consts, **window):
    return [ShapedArray(_counts(x, window), x.dtype, x.weak_type) for x in args[: len(args) // 2]]


def _by_parts(*args, jaxpr, consts, **window):
    """The same reduction as operations on whole arrays, one for each place in a window.

    As in compiled programs, what a window sees of the padding is left out, not combined.
    """
    n = len(args) // 2
    aval = aval_of(args[0])
    shape = _counts(aval, window)
    total = [broadcast_in_dim(i, shape, ()) for i in args[n:]]
    parts = (parts_of_windows(x, i, **window) for x, i in zip(args[:n], args[n:]))
    for *part, seen in zip(*parts, _places_seen(aval.shape, shape, window)):
        new = map_scalars(jaxpr, *total, *part)
        total = new if seen.all() else [select(seen, a, b) for a, b in zip(new, total)]
    return total


def _places_seen(shape, counts, window):
    """For each place in a window, which windows have an element of the array there."""
    axes = []
    for n, c, w, s, (lo, _), b, d in zip(
        shape,
        counts,
        *(
            window[k]
            for k in (
                "window_dimensions",
                "window_strides",
                "padding",
                "base_dilation",
                "window_dilation",
            )
        ),
    ):
        at = np.arange(c) * s + np.arange(w)[:, None] * d - lo
        axes.append((at >= 0) & (at < dilated(n, b)) & (at % b == 0))
    for place in np.ndindex(*window["window_dimensions"]):
        yield functools.reduce(np.multiply.outer, (a[i] for a, i in zip(axes, place)), np.True_)


def _general_jvp(primals, tangents, **params):
    if all(type(t) is Zero for t in tangents):
        outs = reduce_window_p.bind(*primals, **params)
        return outs, [Zero.of(o) for o in outs]
    return ad.jvp(lambda *args: _by_parts(*args, **params), primals, tangents)


def _general_batch(args, dims, **params):
    n = len(args) // 2
    size = next(aval_of(x).shape[d] for x, d in zip(args, dims) if d is not None)
    if any(d is not None for d in dims[n:]):
        run, out = batching.batch_flat(
            lambda *xs: _by_parts(*xs, **params), Axis(None, size, "vmap"), dims
        )
        return run(*args), out.dims
    xs = [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(args[:n], dims)]
    return reduce_window_p.bind(*xs, *args[n:], **shifted_window(0, params)), [0] * n


def _general_lowering(ctx, *args, jaxpr, consts, **window):
    return scalar_program_op(ctx, "reduce_window", window_text(**window), args, jaxpr)


reduce_window_p = Primitive("reduce_window", multiple_results=True)
reduce_window_p.def_abstract_eval(_general_aval)
ad.primitive_jvps[reduce_window_p] = _general_jvp
sharding_rules[reduce_window_p] = sharding_in_types.resized("a window reduction")
batching.primitive_batchers[reduce_window_p] = _general_batch
control_flow_rules[reduce_window_p] = lambda params: OpaqueFlow((("body", params["jaxpr"]),))
mlir.register_text_lowering(reduce_window_p, _general_lowering)


# -- sums, maxima, minima -----------------------------------------------------------------------------------


def _family(name: str, accepts, identity: Callable, op: str) -> Primitive:
    prim = Primitive(f"reduce_window_{name}")

    @prim.def_abstract_eval
    def aval(x, **window):
        if not accepts(x.dtype):
            raise TypeError(
                f"operand to reduce_window_{name} must have a {'number' if accepts is _e.numeric else 'real'} "
                f"dtype, got {dtypes.name(x.dtype)}"
            )
        return ShapedArray(_counts(x, window), x.dtype, x.weak_type)

    def batch(xs, dims, **window):
        return prim.bind(xs[0], **shifted_window(dims[0], window)), dims[0]

    def lowering(ctx, x, **window):
        scalar = ctx.avals_in[0].update(shape=(), weak_type=False)
        t = mlir.tensor_type(scalar)
        init = ctx.constant(np.asarray(identity(scalar.dtype), scalar.dtype), scalar)
        body = ctx.block([t, t], lambda names: [ctx.op(f"{op} {names[0]}, {names[1]} : {t}")], [t])
        return ctx.op(
            f'"stablehlo.reduce_window"({x}, {init}) {window_text(**window)} ({body}) : '
            f"({ctx.type_in()}, {t}) -> {ctx.type_out()}"
        )

    sharding_rules[prim] = sharding_in_types.resized("a window reduction")
    batching.primitive_batchers[prim] = batch
    mlir.register_text_lowering(prim, lowering)
    return prim


def _extremum_jvp(prim, select_prim):
    def rule(primals, tangents, **window):
        out = prim.bind(*primals, **window)
        if type(tangents[0]) is Zero:
            return out, Zero.of(out)
        return out, select_and_gather_add_p.bind(
            tangents[0], primals[0], select_prim=select_prim, **window
        )

    ad.primitive_jvps[prim] = rule


def _sum_transpose(
    ct, x, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
):
    """The transpose of a windowed sum: a sum over mirrored windows of the dilated cotangent."""
    config = []
    for n, w, s, (lo, _), b, d, c in zip(
        x.aval.shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
        aval_of(ct).shape,
    ):
        low = dilated(w, d) - 1 - lo
        config.append((low, dilated(n, b) + dilated(w, d) - 1 - dilated(c, s) - low, s - 1))
    ct = pad(ct, np.zeros((), aval_of(ct).dtype)[()], config)
    ones = (1,) * len(window_dimensions)
    return [
        reduce_window_sum_p.bind(
            ct,
            window_dimensions=window_dimensions,
            window_strides=base_dilation,
            padding=((0, 0),) * len(ones),
            base_dilation=ones,
            window_dilation=window_dilation,
        )
    ]


reduce_window_sum_p = _family("sum", _e.numeric, lambda d: 0, "stablehlo.add")
reduce_window_max_p = _family("max", _e.ordered, lowest, "stablehlo.maximum")
reduce_window_min_p = _family("min", _e.ordered, highest, "stablehlo.minimum")
reduce_window_sum_p.linear_in_unreduced = True
ad.deflinear2(reduce_window_sum_p, _sum_transpose)
_extremum_jvp(reduce_window_max_p, ge_p)
_extremum_jvp(reduce_window_min_p, le_p)

_KNOWN = {
    _a.add: (reduce_window_sum_p, lambda d: 0),
    _a.max: (reduce_window_max_p, lowest),
    _a.min: (reduce_window_min_p, highest),
}


def _cost(avals_in, avals_out, *, window_dimensions, **_):
    each = math.prod(window_dimensions) - 1
    return costs.Cost(each * avals_out[0].size, unit="other")


costs.register(
    _cost, reduce_window_p, reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p
)
