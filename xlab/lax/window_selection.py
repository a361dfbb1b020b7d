"""Selection of one element per window: the derivatives of windowed maximum and minimum.

`select_and_gather_add` reads, `select_and_scatter_add` writes at the chosen places; each is the other's transpose.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import dim_index, max_dim
from xlab.core.jaxpr import ClosedJaxpr
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad import UndefinedPrimal, Zero
from xlab.interpreters.mlir.values import dims_text, i64_array
from xlab.lax import sharding_in_types
from xlab.lax.comparison import ge_p, select
from xlab.lax.reductions import highest, lowest
from xlab.lax.shape import pad
from xlab.lax.slicing import slice

MOST_PLACES = 10_000


def check_pairs(name: str, padding, ndim: int | None) -> tuple[tuple[int, int], ...]:
    """Explicit padding as pairs of Python ints, one per dimension if their number is given."""
    try:
        pairs = tuple((dim_index(lo), dim_index(hi)) for lo, hi in padding)
    except (TypeError, ValueError):
        raise ValueError(
            f"padding argument to {name} should be a string or a sequence of (low, high) pairs, got "
            f"{padding}"
        ) from None
    if ndim is not None and len(pairs) != ndim:
        raise ValueError(
            f"{name} needs one (low, high) pair of padding per dimension, {ndim}, got {pairs}"
        )
    return pairs


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements that are `dilation` apart."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def window_counts(
    shape, window, strides, padding, base_dilation=None, window_dilation=None
) -> tuple[int, ...]:
    """How many windows fit along each dimension."""
    ones = (1,) * len(shape)
    out = []
    for n, w, s, (lo, hi), b, d in zip(
        shape, window, strides, padding, base_dilation or ones, window_dilation or ones
    ):
        out.append(max_dim(0, (dilated(n, b) + lo + hi - dilated(w, d)) // s + 1))
    return tuple(out)


def padding_text(padding) -> str:
    """Padding as an attribute."""
    if not padding:
        return "dense<> : tensor<0x2xi64>"
    pairs = ", ".join(f"[{lo}, {hi}]" for lo, hi in padding)
    return f"dense<[{pairs}]> : tensor<{len(padding)}x2xi64>"


def window_text(window_dimensions, window_strides, padding, base_dilation, window_dilation) -> str:
    """The attributes of `stablehlo.reduce_window`."""
    return (
        f"<{{base_dilations = {i64_array(base_dilation)}, padding = {padding_text(padding)}, "
        f"window_dilations = {i64_array(window_dilation)}, window_dimensions = {i64_array(window_dimensions)}, "
        f"window_strides = {i64_array(window_strides)}}}>"
    )


def parts_of_windows(
    x, fill, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
):
    """For each place in a window, in order, the array of what all windows hold there."""
    shape = aval_of(x).shape
    if math.prod(window_dimensions) > MOST_PLACES:
        raise NotImplementedError(
            f"the derivative of a reduction by such an operation, or its vmap over initial values, is written out for each place "
            f"in a window: at most {MOST_PLACES}, got a window of {window_dimensions}. Use lax.add, lax.max or lax.min, or a "
            f"cumulative function."
        )
    counts = window_counts(
        shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    x = pad(x, fill, [(lo, hi, d - 1) for (lo, hi), d in zip(padding, base_dilation)])
    places = (range(0, dilated(w, d), d) for w, d in zip(window_dimensions, window_dilation))
    for offset in itertools.product(*places):
        yield slice(
            x,
            offset,
            [o + max(0, (c - 1) * s + 1) for o, c, s in zip(offset, counts, window_strides)],
            window_strides,
        )


def shifted_window(
    d: int,
    params: dict,
    names=("window_dimensions", "window_strides", "base_dilation", "window_dilation"),
) -> dict:
    """The parameters of a windowed operation for operands with one more dimension, at `d`."""
    out = dict(params)
    for name in names:
        if name in out:
            out[name] = (*out[name][:d], 1, *out[name][d:])
    out["padding"] = (*out["padding"][:d], (0, 0), *out["padding"][d:])
    return out


def _identity(select_prim, dtype):
    return np.asarray(lowest(dtype) if select_prim is ge_p else highest(dtype), dtype)[()]


def _direction(select_prim) -> str:
    return "GE" if select_prim is ge_p else "LE"


def _kind(dtype) -> str:
    if dtypes.issubdtype(dtype, np.floating):
        return "FLOAT"
    return "SIGNED" if dtypes.issubdtype(dtype, np.signedinteger) else "UNSIGNED"


# -- select_and_gather_add ----------------------------------------------------------------------------------


def _gather_aval(
    tangents,
    operand,
    *,
    select_prim,
    window_dimensions,
    window_strides,
    padding,
    base_dilation,
    window_dilation,
):
    if tangents.shape != operand.shape:
        raise TypeError(
            f"select_and_gather_add needs tangents of the operand's shape, got {tangents} and {operand}"
        )
    return ShapedArray(
        window_counts(
            operand.shape,
            window_dimensions,
            window_strides,
            padding,
            base_dilation,
            window_dilation,
        ),
        tangents.dtype,
        tangents.weak_type,
    )


def _gather_by_parts(tangents, operand, *, select_prim, **window):
    """The same choice, place by place."""
    values = parts_of_windows(operand, _identity(select_prim, aval_of(operand).dtype), **window)
    given = parts_of_windows(tangents, np.zeros((), aval_of(tangents).dtype)[()], **window)
    best = out = None
    for value, t in zip(values, given):
        keep = None if best is None else select_prim.bind(best, value)
        best, out = (
            (value, t) if keep is None else (select(keep, best, value), select(keep, out, t))
        )
    return out


def _gather_transpose(
    ct,
    tangents,
    operand,
    *,
    select_prim,
    window_dimensions,
    window_strides,
    padding,
    base_dilation,
    window_dilation,
):
    window = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "padding": padding,
    }
    if any(d != 1 for d in window_dilation):
        # No scatter has dilated windows: transpose the choice written out.
        program = pe.trace_to_closed_jaxpr(
            lambda t, x: [
                _gather_by_parts(
                    t,
                    x,
                    select_prim=select_prim,
                    base_dilation=base_dilation,
                    window_dilation=window_dilation,
                    **window,
                )
            ],
            (tangents.aval, aval_of(operand)),
        )
        return ad.backward_pass(
            program.jaxpr, program.consts, [UndefinedPrimal(tangents.aval), operand], [ct]
        )
    spread = any(d != 1 for d in base_dilation)
    if spread:
        operand = pad(
            operand,
            _identity(select_prim, aval_of(operand).dtype),
            [(0, 0, d - 1) for d in base_dilation],
        )
    out = select_and_scatter_add_p.bind(ct, operand, select_prim=select_prim, **window)
    if spread:
        out = slice(out, (0,) * len(base_dilation), aval_of(out).shape, base_dilation)
    return [out, None]


def _gather_batch(xs, dims, **params):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    d = next(d for d in dims if d is not None)
    xs = [batching.move_batch_dim_to(x, e, size, d) for x, e in zip(xs, dims)]
    return select_and_gather_add_p.bind(*xs, **shifted_window(d, params)), d


def _gather_lowering(
    ctx,
    tangents,
    operand,
    *,
    select_prim,
    window_dimensions,
    window_strides,
    padding,
    base_dilation,
    window_dilation,
):
    t, x = (a.update(shape=(), weak_type=False) for a in ctx.avals_in)
    tt, tx = mlir.tensor_type(t), mlir.tensor_type(x)
    inits = (
        ctx.constant(np.asarray(_identity(select_prim, x.dtype)), x),
        ctx.constant(np.zeros((), t.dtype), t),
    )

    def body(names):
        a, s, b, u = names
        keep = ctx.op(
            f"stablehlo.compare {_direction(select_prim)}, {a}, {b}, {_kind(x.dtype)} : ({tx}, {tx}) -> tensor<i1>"
        )
        return [
            ctx.op(f"stablehlo.select {keep}, {a}, {b} : tensor<i1>, {tx}"),
            ctx.op(f"stablehlo.select {keep}, {s}, {u} : tensor<i1>, {tt}"),
        ]

    values = mlir.tensor_type(ctx.avals_out[0].update(dtype=x.dtype))
    attributes = window_text(
        window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    return ctx.ops(
        f'"stablehlo.reduce_window"({operand}, {tangents}, {inits[0]}, {inits[1]}) {attributes} '
        f"({ctx.block([tx, tt, tx, tt], body, [tx, tt])}) : ({ctx.type_in(1)}, {ctx.type_in(0)}, {tx}, {tt}) -> "
        f"({values}, {ctx.type_out()})",
        2,
    )[1]


def _gather_jvp(primals, tangents, **params):
    out = select_and_gather_add_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return out, Zero.of(out)
    return out, select_and_gather_add_p.bind(tangents[0], primals[1], **params)


select_and_gather_add_p = Primitive("select_and_gather_add")
select_and_gather_add_p.linear_in_unreduced = ((0,),)
select_and_gather_add_p.def_abstract_eval(_gather_aval)
ad.primitive_jvps[select_and_gather_add_p] = _gather_jvp
ad.primitive_transposes[select_and_gather_add_p] = _gather_transpose
sharding_rules[select_and_gather_add_p] = sharding_in_types.resized("a window selection")
batching.primitive_batchers[select_and_gather_add_p] = _gather_batch
mlir.register_text_lowering(select_and_gather_add_p, _gather_lowering)


# -- select_and_scatter_add, select_and_scatter -------------------------------------------------------------


def _check_source(source, operand, window_dimensions, window_strides, padding):
    counts = window_counts(operand.shape, window_dimensions, window_strides, padding)
    if source.shape != counts:
        raise TypeError(
            f"windows {window_dimensions} with strides {window_strides} and padding {padding} over {operand} need "
            f"a source of shape {counts}, got {source}"
        )
    return counts


def _scatter_add_aval(source, operand, *, select_prim, window_dimensions, window_strides, padding):
    _check_source(source, operand, window_dimensions, window_strides, padding)
    return ShapedArray(operand.shape, source.dtype, source.weak_type)


def _scatter_add_transpose(
    ct, source, operand, *, select_prim, window_dimensions, window_strides, padding
):
    ones = (1,) * len(window_dimensions)
    return [
        select_and_gather_add_p.bind(
            ct,
            operand,
            select_prim=select_prim,
            window_dimensions=window_dimensions,
            window_strides=window_strides,
            padding=padding,
            base_dilation=ones,
            window_dilation=ones,
        ),
        None,
    ]


def _scatter_add_jvp(primals, tangents, **params):
    out = select_and_scatter_add_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return out, Zero.of(out)
    return out, select_and_scatter_add_p.bind(tangents[0], primals[1], **params)


def _scatter_add_batch(xs, dims, **params):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    xs = [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims)]
    return select_and_scatter_add_p.bind(*xs, **shifted_window(0, params)), 0


def _scatter_text(
    operand,
    source,
    init,
    window_dimensions,
    window_strides,
    padding,
    choose,
    combine,
    types_in,
    out,
):
    return (
        f'"stablehlo.select_and_scatter"({operand}, {source}, {init}) <{{padding = {padding_text(padding)}, '
        f"window_dimensions = {i64_array(window_dimensions)}, window_strides = {i64_array(window_strides)}}}> "
        f"({choose}, {combine}) : ({', '.join(types_in)}) -> {out}"
    )


def _scatter_add_lowering(
    ctx, source, operand, *, select_prim, window_dimensions, window_strides, padding
):
    src, aval = ctx.avals_in
    if not aval.ndim:
        return source  # one window, one place; the compiler's scatter is for at least one dimension
    x = aval.update(shape=(), weak_type=False)
    tx = mlir.tensor_type(x)
    # Padding that no window may choose is written out, and cut off again afterwards.
    shape = [n + lo + hi for n, (lo, hi) in zip(aval.shape, padding)]
    wide = mlir.tensor_type(aval.update(shape=tuple(shape)))
    plain = all(p == (0, 0) for p in padding)
    if not plain:
        worst = ctx.constant(np.asarray(_identity(select_prim, x.dtype)), x)
        operand = ctx.op(
            f"stablehlo.pad {operand}, {worst}, low = {dims_text(p[0] for p in padding)}, "
            f"high = {dims_text(p[1] for p in padding)}, interior = {dims_text(0 for _ in padding)} : "
            f"({mlir.tensor_type(aval)}, {tx}) -> {wide}"
        )
    choose = ctx.block(
        [tx, tx],
        lambda names: [
            ctx.op(
                f"stablehlo.compare {_direction(select_prim)}, {names[0]}, {names[1]}, {_kind(x.dtype)} : ({tx}, {tx}) -> tensor<i1>"
            )
        ],
        ["tensor<i1>"],
    )
    combine = ctx.block(
        [tx, tx], lambda names: [ctx.op(f"stablehlo.add {names[0]}, {names[1]} : {tx}")], [tx]
    )
    zero = ctx.constant(np.zeros((), x.dtype), x)
    out = ctx.op(
        _scatter_text(
            operand,
            source,
            zero,
            window_dimensions,
            window_strides,
            [(0, 0)] * len(padding),
            choose,
            combine,
            (wide, mlir.tensor_type(src), tx),
            wide,
        )
    )
    if plain:
        return out
    return ctx.op(
        f"stablehlo.pad {out}, {zero}, low = {dims_text(-p[0] for p in padding)}, "
        f"high = {dims_text(-p[1] for p in padding)}, interior = {dims_text(0 for _ in padding)} : "
        f"({wide}, {tx}) -> {ctx.type_out()}"
    )


select_and_scatter_add_p = Primitive("select_and_scatter_add")
select_and_scatter_add_p.linear_in_unreduced = ((0,),)
select_and_scatter_add_p.def_abstract_eval(_scatter_add_aval)
ad.primitive_jvps[select_and_scatter_add_p] = _scatter_add_jvp
ad.primitive_transposes[select_and_scatter_add_p] = _scatter_add_transpose
sharding_rules[select_and_scatter_add_p] = sharding_in_types.resized("a window selection")
batching.primitive_batchers[select_and_scatter_add_p] = _scatter_add_batch
mlir.register_text_lowering(select_and_scatter_add_p, _scatter_add_lowering)


def _scatter_aval(
    operand,
    source,
    init_value,
    *,
    select_jaxpr,
    select_consts,
    scatter_jaxpr,
    scatter_consts,
    window_dimensions,
    window_strides,
    padding,
):
    _check_source(source, operand, window_dimensions, window_strides, padding)
    return ShapedArray(operand.shape, operand.dtype, operand.weak_type)


def _scatter_batch(xs, dims, **params):
    operand, source, init = xs
    if dims[2] is not None:
        raise NotImplementedError(
            "vmap of select_and_scatter needs one initial value for all examples"
        )
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    operand, source = (
        batching.move_batch_dim_to(x, d, size, 0) for x, d in zip((operand, source), dims)
    )
    return select_and_scatter_p.bind(operand, source, init, **shifted_window(0, params)), 0


def _scatter_lowering(
    ctx,
    operand,
    source,
    init,
    *,
    select_jaxpr,
    select_consts,
    scatter_jaxpr,
    scatter_consts,
    window_dimensions,
    window_strides,
    padding,
):
    t = mlir.tensor_type(ctx.avals_in[0].update(shape=(), weak_type=False))
    choose = ctx.block(
        [t, t], lambda names: ctx.jaxpr(_closed(select_jaxpr, select_consts), names), ["tensor<i1>"]
    )
    combine = ctx.block(
        [t, t], lambda names: ctx.jaxpr(_closed(scatter_jaxpr, scatter_consts), names), [t]
    )
    return ctx.op(
        _scatter_text(
            operand,
            source,
            init,
            window_dimensions,
            window_strides,
            padding,
            choose,
            combine,
            (ctx.type_in(0), ctx.type_in(1), t),
            ctx.type_out(),
        )
    )


def _closed(jaxpr, consts):
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, consts)


select_and_scatter_p = Primitive("select_and_scatter")
select_and_scatter_p.def_abstract_eval(_scatter_aval)
ad.not_differentiable(
    select_and_scatter_p,
    "its programs are general; a sum of what a maximum chose is select_and_scatter_add",
)
batching.primitive_batchers[select_and_scatter_p] = _scatter_batch
mlir.register_text_lowering(select_and_scatter_p, _scatter_lowering)


def _cost(avals_in, avals_out, *, window_dimensions, **_):
    """A comparison for each element of each window."""
    windows = min(avals_in[0].size, avals_out[0].size)
    return costs.Cost(math.prod(window_dimensions) * windows, unit="other")


costs.register(_cost, select_and_gather_add_p, select_and_scatter_add_p, select_and_scatter_p)
