"""`psum_scatter`: the sum over a group, of which each member keeps its own block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.typing import AxisName
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.communication import collective_rules, reducing
from xlab.interpreters.divergence import arrivals
from xlab.lax.arithmetic import mul
from xlab.lax.collectives.all_gather import all_gather_p, all_gather_reduced_p
from xlab.lax.collectives.common import (
    CHANNEL,
    AxisPrimitive,
    axis_names,
    batch_in_groups,
    canonical_groups,
    combining_op,
    effects_of,
    everyone_in_groups,
    group_size,
    groups_of,
    groups_text,
    need,
    no_keys,
    refuse_unfinished,
    require_varying,
    reshaped,
    resized,
    single_name,
    unmapped,
    vma_state,
    without,
    without_single,
)
from xlab.lax.reductions import reduce_sum
from xlab.lax.shape import canonical_axis, reshape

__all__ = ["psum_scatter"]


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """The sum over named axes, cut along a dimension: the member of rank r keeps block r.

    Args:
        x: array or pytree. With `tiled` the dimension is cut into as many blocks as there are members; without, it has exactly
            that size and disappears.
        axis_name: a bound name or a tuple of them.
        scatter_dimension: the dimension that is cut.
        axis_index_groups: groups of ranks that work apart, all of one size.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.psum_scatter(x, "i"), axis_name="i")
        >>> print(f(xlab.lax.full((2, 2), 1.0)))
        [2. 2.]
    """
    names = without_single(axis_names(axis_name, "psum_scatter", lists=False))
    groups = canonical_groups(axis_index_groups, names, "psum_scatter", equal=True)
    if not names:
        return x
    size = group_size(names, groups)

    def leaf(v):
        aval = aval_of(v)
        no_keys("psum_scatter", aval)
        if aval.dtype == np.bool_:
            raise TypeError(
                "psum_scatter adds values and does not accept bool; convert to int32 first"
            )
        params = {
            "axis_name": names,
            "scatter_dimension": canonical_axis(scatter_dimension, aval.ndim),
            "axis_size": size,
            "tiled": tiled,
        }
        if vma_state("psum_scatter", v, names) == "unreduced":
            if groups is not None:
                raise NotImplementedError(
                    "psum_scatter of an unreduced value with axis_index_groups"
                )
            return unreduced_reduce_scatter_p.bind(v, **params)
        return reduce_scatter_p.bind(
            require_varying("psum_scatter", v, names), axis_index_groups=groups, **params
        )

    return _tree.map(leaf, x)


def _shape(x, dim, n, tiled) -> tuple:
    size = x.shape[dim]
    if tiled:
        if size % n:
            raise ValueError(
                f"tiled reduce_scatter operand scatter dimension size {size} must be divisible by shard_count {n} "
                f"(operand {x}, dimension {dim})"
            )
        return resized(x.shape, dim, size // n)
    if size != n:
        raise ValueError(
            f"reduce_scatter operand scatter dimension size {size} must match shard count {n} (operand {x}, dimension "
            f"{dim}); use tiled=True to cut it into blocks"
        )
    return without(x.shape, dim)


def _aval(x, *, axis_name, scatter_dimension, axis_size, tiled, axis_index_groups=None):
    refuse_unfinished("psum_scatter", x, axis_name)
    return ShapedArray(
        _shape(x, scatter_dimension, axis_size, tiled), x.dtype, x.weak_type, mat=x.mat
    ), effects_of(axis_name)


def _unreduced_aval(x, *, axis_name, scatter_dimension, axis_size, tiled):
    names = set(axis_name)
    need("unreduced_psum_scatter", x, axis_name, "unreduced")
    mat = x.mat.update(unreduced=x.mat.unreduced - names, varying=x.mat.varying | names)
    return ShapedArray(
        _shape(x, scatter_dimension, axis_size, tiled), x.dtype, x.weak_type, mat=mat
    ), effects_of(axis_name)


def _lowering(ctx, x, *, axis_name, scatter_dimension, axis_size, tiled, axis_index_groups=None):
    aval, out = ctx.avals_in[0], ctx.avals_out[0]
    if 0 in out.shape:
        return ctx.fill(0, out)
    scattered = aval.update(
        shape=resized(aval.shape, scatter_dimension, aval.shape[scatter_dimension] // axis_size)
    )
    rows = groups_text(groups_of(ctx, axis_name, axis_index_groups))
    result = combining_op(
        ctx,
        "reduce_scatter",
        x,
        "add",
        f"{CHANNEL}, replica_groups = {rows}, scatter_dimension = {scatter_dimension} : i64, "
        f"use_global_device_ids",
        aval,
        scattered,
    )
    return result if tiled else reshaped(ctx, result, scattered, out)


def _batch(prim):
    def rule(
        axis,
        operands,
        dims,
        *,
        axis_name,
        scatter_dimension,
        axis_size,
        tiled,
        axis_index_groups=None,
    ):
        x, d, dim = operands[0], dims[0], scatter_dimension
        extra = {"axis_index_groups": axis_index_groups} if prim is reduce_scatter_p else {}
        if axis.name not in axis_name:
            if d is not None:
                if d <= dim:
                    dim += 1
                elif not tiled:
                    d -= 1
            return prim.bind(
                x,
                axis_name=axis_name,
                scatter_dimension=dim,
                axis_size=axis_size,
                tiled=tiled,
                **extra,
            ), d
        if axis_index_groups is not None:
            same = {"scatter_dimension": dim, "axis_name": axis_name, "axis_size": axis_size}
            return batch_in_groups(
                lambda v: prim.bind(v, axis_index_groups=None, tiled=tiled, **same),
                axis, x, d, axis_name, axis_index_groups, "psum_scatter",
            )  # fmt: skip
        single_name(axis_name, axis.name, "psum_scatter")
        if d is None:
            x = mul(x, np.asarray(axis.size).astype(aval_of(x).dtype)[()])
        else:
            x = reduce_sum(x, (d,))
        if not tiled:
            return x, dim
        shape = aval_of(x).shape
        return reshape(
            x, (*shape[:dim], axis_size, shape[dim] // axis_size, *shape[dim + 1 :])
        ), dim

    batching.axis_primitive_batchers[prim] = rule


def _transpose(ct, x, *, axis_name, scatter_dimension, axis_size, tiled, axis_index_groups):
    return [
        all_gather_p.bind(
            require_varying("psum_scatter", ct, axis_name),
            all_gather_dimension=scatter_dimension,
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
            axis_size=axis_size,
            tiled=tiled,
        )
    ]


def _unreduced_transpose(ct, x, *, axis_name, scatter_dimension, axis_size, tiled):
    return [
        all_gather_reduced_p.bind(
            require_varying("psum_scatter", ct, axis_name),
            all_gather_dimension=scatter_dimension,
            axis_name=axis_name,
            axis_size=axis_size,
            tiled=tiled,
        )
    ]


reduce_scatter_p = AxisPrimitive("reduce_scatter", auto_pvary=False)
unreduced_reduce_scatter_p = AxisPrimitive("unreduced_reduce_scatter", auto_pvary=False)
reduce_scatter_p.def_effectful_abstract_eval(_aval)
unreduced_reduce_scatter_p.def_effectful_abstract_eval(_unreduced_aval)
unreduced_reduce_scatter_p.def_impl(unmapped)
for _p, _back in (
    (reduce_scatter_p, _transpose),
    (unreduced_reduce_scatter_p, _unreduced_transpose),
):
    ad.deflinear2(_p, _back)
    mlir.register_text_lowering(_p, _lowering)
    _batch(_p)


def _gather_transpose(
    ct, x, *, all_gather_dimension, axis_name, axis_size, tiled, axis_index_groups
):
    return [
        reduce_scatter_p.bind(
            require_varying("all_gather", ct, axis_name),
            axis_name=axis_name,
            scatter_dimension=all_gather_dimension,
            axis_index_groups=axis_index_groups,
            axis_size=axis_size,
            tiled=tiled,
        )
    ]


def _gather_reduced_transpose(ct, x, *, all_gather_dimension, axis_name, axis_size, tiled):
    return [
        unreduced_reduce_scatter_p.bind(
            ct,
            axis_name=axis_name,
            scatter_dimension=all_gather_dimension,
            axis_size=axis_size,
            tiled=tiled,
        )
    ]


ad.primitive_transposes[all_gather_p] = _gather_transpose
ad.primitive_transposes[all_gather_reduced_p] = _gather_reduced_transpose

for _p in (reduce_scatter_p, unreduced_reduce_scatter_p):
    collective_rules[_p] = reducing("reduce_scatter", "add")
    arrivals[_p] = everyone_in_groups
