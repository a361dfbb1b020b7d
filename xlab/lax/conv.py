"""Convolution of any rank, with strides, padding, dilations and groups: one primitive, `conv_general_dilated`.

The ways to say which dimension is which, and the functions users call, stand in `conv_functions.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of, explicit_types
from xlab.core.dims import known_negative
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import dims_text
from xlab.lax import sharding_in_types
from xlab.lax.convert import convert
from xlab.lax.precision import check_preferred
from xlab.lax.shape import reshape, rev
from xlab.lax.window_selection import dilated, window_counts
from xlab.sharding.typed import entries, of_entries, parts


class ConvDimensionNumbers(NamedTuple):
    """Which dimension of each array is which, by position.

    Attributes:
        lhs_spec: (batch, feature, spatial...) of the left operand.
        rhs_spec: (output feature, input feature, spatial...) of the kernel.
        out_spec: (batch, feature, spatial...) of the result.
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def in_spec_order(values, spec) -> tuple:
    """Values in the order (batch, feature, spatial...) put where `spec` says."""
    out = [None] * len(spec)
    for position, value in zip(spec, values):
        out[position] = value
    return tuple(out)


def ordered(shape, spec) -> tuple:
    """A shape in the order (batch, feature, spatial...)."""
    return tuple(shape[i] for i in spec)


# -- type ---------------------------------------------------------------------------------------------------


def _check_groups(lhs, rhs, numbers, feature_group_count, batch_group_count) -> None:
    (n, c, *_), (o, i, *_) = (
        ordered(lhs.shape, numbers.lhs_spec),
        ordered(rhs.shape, numbers.rhs_spec),
    )
    name = "conv_general_dilated"
    for which, count in (
        ("feature_group_count", feature_group_count),
        ("batch_group_count", batch_group_count),
    ):
        if count < 1:
            raise ValueError(f"{name} {which} must be a positive integer, got {count}.")
    if c % feature_group_count:
        raise ValueError(
            f"{name} feature_group_count must divide lhs feature dimension size, but {feature_group_count} does "
            f"not divide {c}."
        )
    if c // feature_group_count != i:
        raise ValueError(
            f"{name} lhs feature dimension size divided by feature_group_count must equal the rhs input feature "
            f"dimension size, but {c} // {feature_group_count} != {i}."
        )
    if o % feature_group_count:
        raise ValueError(
            f"{name} rhs output feature dimension size must be a multiple of feature_group_count, but {o} is not "
            f"a multiple of {feature_group_count}."
        )
    if n % batch_group_count:
        raise ValueError(
            f"{name} batch_group_count must divide lhs batch dimension size, but {batch_group_count} does not "
            f"divide {n}."
        )
    if o % batch_group_count:
        raise ValueError(
            f"{name} rhs output feature dimension size must be a multiple of batch_group_count, but {o} is not a "
            f"multiple of {batch_group_count}."
        )
    if batch_group_count > 1 and feature_group_count > 1:
        raise ValueError(
            f"{name}: only one of batch_group_count and feature_group_count may be larger than 1, got "
            f"{batch_group_count} and {feature_group_count}."
        )


def _conv_aval(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    precision,
    preferred_element_type,
    out_sharding,
):
    if lhs.dtype != rhs.dtype:
        raise TypeError(
            f"lax.conv_general_dilated requires arguments to have the same dtypes, got {dtypes.name(lhs.dtype)}, "
            f"{dtypes.name(rhs.dtype)}. Convert one of them."
        )
    _check_groups(lhs, rhs, dimension_numbers, feature_group_count, batch_group_count)
    numbers = dimension_numbers
    n, _, *space = ordered(lhs.shape, numbers.lhs_spec)
    o, _, *kernel = ordered(rhs.shape, numbers.rhs_spec)
    for name, values in (
        ("window_strides", window_strides),
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
    ):
        if len(values) != len(kernel):
            raise ValueError(
                f"conv_general_dilated window and {name} must have the same number of dimensions, but got "
                f"{len(kernel)} and {len(values)}"
            )
    if any(s < 1 for s in (*window_strides, *kernel)):
        raise ValueError(
            f"conv_general_dilated window_strides and the window must be positive, got {window_strides} and "
            f"{tuple(kernel)}"
        )
    if any(d < 1 for d in (*lhs_dilation, *rhs_dilation)):
        raise TypeError(
            f"All dilations must be positive, got lhs_dilation={lhs_dilation}, rhs_dilation={rhs_dilation}."
        )
    if len(padding) != len(kernel):
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(kernel)}, got {len(padding)}."
        )
    counts = window_counts(space, kernel, window_strides, padding, lhs_dilation, rhs_dilation)
    dtype = check_preferred(lhs.dtype, preferred_element_type)
    weak = lhs.weak_type and rhs.weak_type
    return ShapedArray(
        in_spec_order((n // batch_group_count, o, *counts), numbers.out_spec), dtype, weak
    )


# -- transposes ---------------------------------------------------------------------------------------------


def _split_into(x, axis: int, groups: int, target: int, lies=None):
    """Splits `axis` into `groups` parts, and joins the number of the part in front of dimension `target`."""
    return _join_into(_split(x, axis, groups), axis, target, lies)


def _split(x, axis: int, groups: int):
    """Splits `axis` into `groups` parts and what is in each; what sharded it shards the one that it can shard evenly."""
    aval = aval_of(x)
    sizes, lies = (groups, aval.shape[axis] // groups), None
    if aval.explicit_sharding is not None:
        dim_axes, n = entries(aval), parts(aval.explicit_sharding.mesh, entries(aval)[axis])
        two = (
            (dim_axes[axis], ())
            if groups % n == 0
            else ((), dim_axes[axis])
            if sizes[1] % n == 0
            else ((), ())
        )
        lies = of_entries(
            aval.explicit_sharding.mesh, (*dim_axes[:axis], *two, *dim_axes[axis + 1 :])
        )
    return reshape(x, (*aval.shape[:axis], *sizes, *aval.shape[axis + 1 :]), out_sharding=lies)


def _join_into(x, axis: int, target: int, lies=None):
    """Removes dimension `axis`, making it the slower part of dimension `target` of what is left."""
    aval = aval_of(x)
    order = [i for i in range(aval.ndim) if i != axis]
    sizes = [aval.shape[i] for i in order]
    sizes[target] *= aval.shape[axis]
    if aval.explicit_sharding is not None and lies is None:
        dim_axes = entries(aval)
        joined = [dim_axes[i] for i in order]
        joined[target] = dim_axes[axis] + joined[target]
        lies = of_entries(aval.explicit_sharding.mesh, tuple(joined))
    order.insert(target, axis)
    return reshape(x, sizes, order, out_sharding=lies)


def _in_type_of(x, ct, preferred):
    """The other operand beside a cotangent, which may be wider than it."""
    dtype = aval_of(ct).dtype
    return x if preferred is None or aval_of(x).dtype == dtype else convert(x, dtype)


def _sharding_like(aval, *operands):
    """The `out_sharding` that gives a cotangent the sharding of its primal."""
    if not explicit_types.in_use:
        return None
    return next(
        (
            like
            for like in (sharding_in_types.like(aval, aval_of(x)) for x in operands)
            if like is not None
        ),
        None,
    )


def _back(out, aval):
    return out if aval_of(out).dtype == aval.dtype else convert(out, aval.dtype)


def _transpose_lhs(
    ct,
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    precision,
    preferred_element_type,
    out_sharding,
):
    """The cotangent, spread out, convolved with the mirrored kernel."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (_, _, *space), (_, _, *kernel) = (
        ordered(lhs.aval.shape, lhs_spec),
        ordered(aval_of(rhs).shape, rhs_spec),
    )
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:
        rhs = _split_into(rhs, rhs_spec[0], groups, rhs_spec[1])
    pads = []
    for n, k, s, (lo, _), b, d, c in zip(
        space,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        ordered(aval_of(ct).shape, out_spec)[2:],
    ):
        low = dilated(k, d) - 1 - lo
        pads.append((low, dilated(n, b) + dilated(k, d) - 1 - dilated(c, s) - low))
    rhs = _in_type_of(rev(rhs, rhs_spec[2:]), ct, preferred_element_type)
    lies = between = _sharding_like(lhs.aval, ct, rhs)
    if lies is not None and batch_group_count > 1:  # the groups are among the features still
        dim_axes = sharding_in_types.requested_axes(lies, lhs.aval.ndim)
        between = of_entries(
            lies.mesh, in_spec_order(((), *ordered(dim_axes, lhs_spec)[1:]), lhs_spec)
        )
    out = conv_general_dilated_p.bind(
        ct,
        rhs,
        window_strides=lhs_dilation,
        padding=tuple(pads),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(
            out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec
        ),
        feature_group_count=groups,
        batch_group_count=1,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=between,
    )
    if batch_group_count > 1:
        out = _split_into(out, lhs_spec[1], batch_group_count, lhs_spec[0], lies)
    return _back(out, lhs.aval)


def _transpose_rhs(
    ct,
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    precision,
    preferred_element_type,
    out_sharding,
):
    """The operand convolved with the cotangent; batch and features change places."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (_, _, *space), (_, _, *kernel) = (
        ordered(aval_of(lhs).shape, lhs_spec),
        ordered(rhs.aval.shape, rhs_spec),
    )
    pads = []
    for n, k, s, (lo, _), b, d, c in zip(
        space,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        ordered(aval_of(ct).shape, out_spec)[2:],
    ):
        pads.append((lo, dilated(c, s) + dilated(k, d) - 1 - dilated(n, b) - lo))

    def swapped(spec):
        return (spec[1], spec[0], *spec[2:])

    out = conv_general_dilated_p.bind(
        _in_type_of(lhs, ct, preferred_element_type),
        ct,
        window_strides=rhs_dilation,
        padding=tuple(pads),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(
            swapped(lhs_spec), swapped(out_spec), swapped(rhs_spec)
        ),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=_sharding_like(rhs.aval, ct, lhs),
    )
    return _back(out, rhs.aval)


# -- batching -----------------------------------------------------------------------------------------------


def _conv_batch(
    xs, dims, *, dimension_numbers, feature_group_count, batch_group_count, out_sharding, **params
):
    (lhs, rhs), (dl, dr), (lhs_spec, rhs_spec, out_spec) = xs, dims, dimension_numbers
    groups = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
    mesh, batch, dim_axes = (
        _batch_and_sharding(
            xs, dims, out_sharding, dimension_numbers=dimension_numbers, **groups, **params
        )
        if explicit_types.in_use
        else (None, (), ())
    )

    def run(lhs, rhs, at, whole=False, **more):
        """The convolution whose dimension `at` holds the batch and what an example has there, sharded along what shards the two."""
        lies = (
            None
            if mesh is None
            else of_entries(
                mesh, (*dim_axes[:at], () if whole else batch + dim_axes[at], *dim_axes[at + 1 :])
            )
        )
        return conv_general_dilated_p.bind(
            lhs,
            rhs,
            dimension_numbers=dimension_numbers,
            out_sharding=lies,
            **{**groups, **more},
            **params,
        )

    def example(at):
        return None if mesh is None else of_entries(mesh, (*dim_axes[:at], batch, *dim_axes[at:]))

    def taken_apart(out, at):
        shape = aval_of(out).shape
        return reshape(
            out, (*shape[:at], size, shape[at] // size, *shape[at + 1 :]), out_sharding=example(at)
        ), at

    if dl is not None and dr is not None:
        # Every example is a group of its own: of the features, or of the batch if that has groups already.
        size = aval_of(lhs).shape[dl]
        rhs = _join_into(rhs, dr, rhs_spec[0])
        if batch_group_count > 1:
            out = run(
                _join_into(lhs, dl, lhs_spec[0]),
                rhs,
                out_spec[1],
                batch_group_count=size * batch_group_count,
            )
        else:
            out = run(
                _join_into(lhs, dl, lhs_spec[1]),
                rhs,
                out_spec[1],
                feature_group_count=size * feature_group_count,
            )
        return taken_apart(out, out_spec[1])
    if dl is not None:
        size = aval_of(lhs).shape[dl]
        return taken_apart(
            run(_grouped(lhs, dl, lhs_spec[0], batch_group_count), rhs, out_spec[0]), out_spec[0]
        )
    size, count, at = (
        aval_of(rhs).shape[dr],
        max(feature_group_count, batch_group_count),
        out_spec[1],
    )
    out = run(lhs, _grouped(rhs, dr, rhs_spec[0], count), at, whole=count > 1)
    if count == 1:
        return taken_apart(out, at)
    shape = aval_of(out).shape
    # Features come as group, example, feature: the groups go back to the features.
    out = reshape(out, (*shape[:at], count, size, shape[at] // (count * size), *shape[at + 1 :]))
    return _join_into(out, at, at + 1, example(at)), at


def _batch_and_sharding(xs, dims, asked, *, dimension_numbers, **params):
    """The mesh in play, what shards the batch, and what shards each dimension of an example's result; a mesh of None where nothing is sharded."""
    avals = [aval_of(x) for x in xs]
    mesh = next(
        (a.explicit_sharding.mesh for a in avals if a.explicit_sharding is not None),
        None if asked is None else asked.mesh,
    )
    if mesh is None:
        return None, (), ()
    batch = next(
        (axes for axes in (entries(a)[d] for a, d in zip(avals, dims) if d is not None) if axes), ()
    )
    examples = [a if d is None else a.without_dimension(d) for a, d in zip(avals, dims)]
    plain = _conv_aval(
        *(a.update(sharding=None) for a in examples),
        dimension_numbers=dimension_numbers,
        out_sharding=None,
        **params,
    )
    return (
        mesh,
        batch,
        tuple(
            map(
                tuple,
                sharding_in_types.convolution(
                    examples, [plain], dimension_numbers=dimension_numbers, out_sharding=asked
                )[0],
            )
        ),
    )


def _grouped(x, dim: int, axis: int, groups: int):
    """The batch dimension joined into `axis`: outermost, or inside its groups if it has any."""
    if groups == 1:
        return _join_into(x, dim, axis)
    x = _split(batching.moveaxis(x, dim, 0), axis + 1, groups)
    x = _join_into(x, 0, axis + 1)  # the batch, inside the groups
    return _join_into(x, axis, axis)


# -- lowering -----------------------------------------------------------------------------------------------


def _convolution_text(
    lhs,
    rhs,
    types,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    precision,
) -> str:
    space = range(len(window_strides))
    specs = [
        ", ".join(map(str, in_spec_order((*letters, *space), spec)))
        for letters, spec in zip(("bf", "oi", "bf"), dimension_numbers)
    ]
    pads = "[" + ", ".join(f"[{lo}, {hi}]" for lo, hi in padding) + "]"
    window = (
        f"stride = {dims_text(window_strides)}, pad = {pads}, lhs_dilate = {dims_text(lhs_dilation)}, "
        f"rhs_dilate = {dims_text(rhs_dilation)}"
        if window_strides
        else ""
    )
    exactness = precision if type(precision) is tuple else ("DEFAULT",) * 2
    exact = ", ".join(f"#stablehlo<precision {p}>" for p in exactness)
    return (
        f"stablehlo.convolution({lhs}, {rhs}) dim_numbers = [{specs[0]}]x[{specs[1]}]->[{specs[2]}], "
        f"window = {{{window}}} {{batch_group_count = {batch_group_count} : i64, "
        f"feature_group_count = {feature_group_count} : i64, precision_config = [{exact}]}} : "
        f"({types[0]}, {types[1]}) -> {types[2]}"
    )


def _crop(ctx, lhs, padding, lhs_dilation, numbers):
    """Pads and dilates the left operand beforehand: with negative padding the CPU reads beyond it."""
    aval = ctx.avals_in[0]
    config = in_spec_order(
        ((0, 0, 0), (0, 0, 0), *((lo, hi, d - 1) for (lo, hi), d in zip(padding, lhs_dilation))),
        numbers.lhs_spec,
    )
    shape = [dilated(n, c[2] + 1) + c[0] + c[1] for n, c in zip(aval.shape, config)]
    if any(map(known_negative, shape)):
        return None
    scalar, wide = aval.update(shape=(), weak_type=False), aval.update(shape=tuple(shape))
    low, high, interior = (dims_text(c[i] for c in config) for i in range(3))
    x = ctx.op(
        f"stablehlo.pad {lhs}, {ctx.constant(np.zeros((), aval.dtype), scalar)}, low = {low}, high = {high}, "
        f"interior = {interior} : ({mlir.tensor_type(aval)}, {mlir.tensor_type(scalar)}) -> {mlir.tensor_type(wide)}"
    )
    return x, wide


def _conv_lowering(ctx, lhs, rhs, *, preferred_element_type, out_sharding, **params):
    out, left = ctx.avals_out[0], ctx.avals_in[0]
    if any(known_negative(p) for pair in params["padding"] for p in pair):
        cropped = _crop(
            ctx, lhs, params["padding"], params["lhs_dilation"], params["dimension_numbers"]
        )
        if cropped is not None:
            lhs, left = cropped
            n = len(params["padding"])
            params.update(padding=((0, 0),) * n, lhs_dilation=(1,) * n)
    types_in = mlir.tensor_type(left), ctx.type_in(1)
    if not dtypes.issubdtype(out.dtype, np.complexfloating):
        return ctx.op(_convolution_text(lhs, rhs, (*types_in, ctx.type_out()), **params))
    # (a + ib)(c + id) with three real products: p = (a+b)c, q = b(c+d), r = a(d-c); p - q + i(p + r).
    operand, result = (np.finfo(d).dtype for d in (ctx.avals_in[0].dtype, out.dtype))
    types = [
        mlir.tensor_type(a.update(dtype=d, weak_type=False))
        for a, d in ((left, operand), (ctx.avals_in[1], operand), (out, result))
    ]

    def part(name, x, i):
        return ctx.op(f"stablehlo.{name} {x} : ({types_in[i]}) -> {types[i]}")

    def op(name, x, y, i):
        return ctx.op(f"stablehlo.{name} {x}, {y} : {types[i]}")

    def conv(x, y):
        return ctx.op(_convolution_text(x, y, types, **params))

    a, b, c, d = (
        part("real", lhs, 0),
        part("imag", lhs, 0),
        part("real", rhs, 1),
        part("imag", rhs, 1),
    )
    p = conv(op("add", a, b, 0), c)
    q, r = conv(b, op("add", c, d, 1)), conv(a, op("subtract", d, c, 1))
    real, imag = op("subtract", p, q, 2), op("add", p, r, 2)
    return ctx.op(f"stablehlo.complex {real}, {imag} : {ctx.type_out()}")


conv_general_dilated_p = Primitive("conv_general_dilated")
conv_general_dilated_p.linear_in_unreduced = ((0,), (1,))
conv_general_dilated_p.def_abstract_eval(_conv_aval)
ad.defbilinear(conv_general_dilated_p, _transpose_lhs, _transpose_rhs)
sharding_rules[conv_general_dilated_p] = sharding_in_types.convolution
batching.primitive_batchers[conv_general_dilated_p] = _conv_batch
mlir.register_text_lowering(conv_general_dilated_p, _conv_lowering)


def _cost(avals_in, avals_out, *, dimension_numbers, lhs_dilation, **_):
    # Each element of the result is a sum of products with one filter; those with what stands between dilated elements are none.
    filters = avals_in[1]
    features = filters.shape[dimension_numbers.rhs_spec[0]]
    products = avals_out[0].size * (filters.size // max(1, features))
    return costs.Cost(2 * (products // math.prod(lhs_dilation)), unit="matrix")


costs.register(_cost, conv_general_dilated_p)
