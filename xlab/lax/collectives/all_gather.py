"""`all_gather`: every member of a group receives the values of all of them, in order of rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.typing import AxisName
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.communication import collective_rules, moving
from xlab.interpreters.divergence import arrivals
from xlab.interpreters.mlir import tensor_type
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax.arithmetic import mul
from xlab.lax.collectives.axis_index import axis_index
from xlab.lax.collectives.common import (
    CHANNEL,
    AxisPrimitive,
    axis_names,
    batch_in_groups,
    canonical_groups,
    effects_of,
    everyone_alike,
    group_size,
    groups_of,
    groups_text,
    inserted,
    mesh_names,
    need,
    refuse_unfinished,
    require_varying,
    resized,
    unmapped,
)
from xlab.lax.shape import canonical_axis, reshape, squeeze
from xlab.lax.slicing_in_dim import dynamic_slice_in_dim

__all__ = ["all_gather"]


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Values of all members of a group: stacked along a new dimension, or concatenated along one (`tiled`).

    Args:
        x: array or pytree.
        axis_name: a bound name or a tuple of them, the first varying slowest.
        axis_index_groups: groups of ranks that gather apart, all of one size.
        axis: where the new dimension goes, or which dimension grows.
        tiled: concatenate instead of stacking.
        to: the type of the result under checked `shard_map`: 'varying', or 'invarying' (it is the same everywhere, and its
            transpose is a slice), or 'reduced' (its transpose is a sum that scatters).

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.all_gather(x, "i"), axis_name="i")(xlab.lax.iota("float32", 2)))
        [[0. 1.]
         [0. 1.]]
    """
    names = axis_names(axis_name, "all_gather", lists=False)
    if to not in ("varying", "reduced", "invarying"):
        raise ValueError(f"all_gather got to={to!r}; it takes 'varying', 'reduced' or 'invarying'")
    groups = canonical_groups(axis_index_groups, names, "all_gather", equal=True)
    if to != "varying" and groups is not None:
        raise NotImplementedError(
            f"all_gather(to={to!r}) with axis_index_groups: the groups hold different values, so the result "
            f"varies; leave out `to`"
        )
    if not names:
        return x
    size = group_size(names, groups)

    def leaf(v):
        dim = canonical_axis(axis, aval_of(v).ndim + (not tiled))
        params = {
            "all_gather_dimension": dim,
            "axis_name": names,
            "axis_size": size,
            "tiled": tiled,
        }
        if to == "varying" or not mesh_names(names):
            return all_gather_p.bind(
                require_varying("all_gather", v, names), axis_index_groups=groups, **params
            )
        if to == "invarying":
            return all_gather_invariant_p.bind(require_varying("all_gather", v, names), **params)
        return all_gather_reduced_p.bind(v, **params)

    return _tree.map(leaf, x)


def gathered_shape(shape, dim, size, tiled) -> tuple:
    return resized(shape, dim, shape[dim] * size) if tiled else inserted(shape, dim, size)


def _aval(x, *, all_gather_dimension, axis_name, axis_size, tiled, axis_index_groups=None):
    refuse_unfinished("all_gather", x, axis_name)
    shape = gathered_shape(x.shape, all_gather_dimension, axis_size, tiled)
    return ShapedArray(shape, x.dtype, x.weak_type, mat=x.mat), effects_of(axis_name)


def _invariant_aval(x, **params):
    out, effects = _aval(x, **params)
    return out.update(mat=x.mat.update(varying=x.mat.varying - set(params["axis_name"]))), effects


def _reduced_aval(x, **params):
    names = set(params["axis_name"])
    need("all_gather_reduced", x, params["axis_name"], "varying")
    out, effects = _aval(x, **params)
    return out.update(
        mat=x.mat.update(varying=x.mat.varying - names, reduced=x.mat.reduced | names)
    ), effects


def _lowering(ctx, x, *, all_gather_dimension, axis_name, axis_size, tiled, axis_index_groups=None):
    aval, out = physical_aval(ctx.avals_in[0]), ctx.avals_out[0]
    if 0 in out.shape:
        return ctx.fill(0, physical_aval(out))
    if not tiled:
        x, aval = widened(ctx, x, aval, all_gather_dimension)
    rows = groups_text(groups_of(ctx, axis_name, axis_index_groups))
    return ctx.op(
        f'"stablehlo.all_gather"({x}) <{{all_gather_dim = {all_gather_dimension} : i64, {CHANNEL}, '
        f"replica_groups = {rows}, use_global_device_ids}}> : ({tensor_type(aval)}) -> {tensor_type(out)}"
    )


def widened(ctx, x, aval, dim):
    """The operand with the dimension of size one along which values are stacked, and its type."""
    aval = physical_aval(aval)
    wide = aval.update(shape=inserted(aval.shape, dim, 1))
    return ctx.broadcast(x, aval, wide, [i for i in range(wide.ndim) if i != dim]), wide


def _batch(prim):
    def rule(
        axis,
        operands,
        dims,
        *,
        all_gather_dimension,
        axis_name,
        axis_size,
        tiled,
        axis_index_groups=None,
    ):
        x, d, dim = operands[0], dims[0], all_gather_dimension
        extra = {"axis_index_groups": axis_index_groups} if prim is all_gather_p else {}
        if axis.name not in axis_name:
            if d is not None:
                if d <= dim:
                    dim += 1
                elif not tiled:
                    d += 1
            return prim.bind(
                x,
                all_gather_dimension=dim,
                axis_name=axis_name,
                axis_size=axis_size,
                tiled=tiled,
                **extra,
            ), d
        if axis_index_groups is not None:
            same = {"all_gather_dimension": dim, "axis_name": axis_name, "axis_size": axis_size}
            return batch_in_groups(
                lambda v: prim.bind(v, axis_index_groups=None, tiled=tiled, **same),
                axis, x, d, axis_name, axis_index_groups, "all_gather",
            )  # fmt: skip
        x = batching.move_batch_dim_to(x, d, axis.size, 0)
        at = axis_name.index(axis.name)
        outer, inner = axis_name[:at], axis_name[at + 1 :]
        rest = dict(tiled=False, **extra)
        if inner:
            x = prim.bind(
                x,
                all_gather_dimension=dim + 1,
                axis_name=inner,
                axis_size=group_size(inner, None),
                **rest,
            )
        x = batching.moveaxis(x, 0, dim)
        if outer:
            x = prim.bind(
                x,
                all_gather_dimension=dim,
                axis_name=outer,
                axis_size=group_size(outer, None),
                **rest,
            )
        if not (inner or outer or tiled):
            return x, None
        shape = aval_of(x).shape
        folded = 1 + bool(inner) + bool(outer)
        tail = shape[dim + folded :]
        new = (
            (*shape[:dim], axis_size * tail[0], *tail[1:])
            if tiled
            else (*shape[:dim], axis_size, *tail)
        )
        return reshape(x, new), None

    batching.axis_primitive_batchers[prim] = rule


def _invariant_transpose(ct, x, *, all_gather_dimension, axis_name, axis_size, tiled):
    """Each device takes its own block of the common cotangent."""
    dim = all_gather_dimension
    block = aval_of(ct).shape[dim] // axis_size
    out = dynamic_slice_in_dim(ct, mul(axis_index(axis_name), np.int32(block)), block, dim)
    return [out if tiled else squeeze(out, (dim,))]


all_gather_p = AxisPrimitive("all_gather", auto_pvary=False)
all_gather_invariant_p = AxisPrimitive("all_gather_invariant", auto_pvary=False)
all_gather_reduced_p = AxisPrimitive("all_gather_reduced", auto_pvary=False)
# The transposes of the first and the last are sums that scatter and stand in psum_scatter.py.
for _p, _rule, _back in (
    (all_gather_p, _aval, None),
    (all_gather_invariant_p, _invariant_aval, _invariant_transpose),
    (all_gather_reduced_p, _reduced_aval, None),
):
    _p.def_effectful_abstract_eval(_rule)
    _p.def_impl(unmapped)
    ad.deflinear2(_p, _back)
    mlir.register_text_lowering(_p, _lowering)
    _batch(_p)
    collective_rules[_p] = moving("all_gather")
    arrivals[_p] = everyone_alike
