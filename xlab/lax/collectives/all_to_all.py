"""`all_to_all`: every member cuts its value into blocks and sends block r to the member of rank r."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab import tree as _tree
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.typing import AxisName
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.communication import collective_rules, moving
from xlab.interpreters.divergence import arrivals
from xlab.interpreters.mlir import tensor_type
from xlab.lax.collectives.common import (
    CHANNEL,
    AxisPrimitive,
    as_names,
    axis_names,
    batch_in_groups,
    canonical_groups,
    effects_of,
    everyone_in_groups,
    group_size,
    groups_of,
    groups_text,
    refuse_unfinished,
    require_varying,
    single_name,
    unmapped,
)
from xlab.lax.shape import canonical_axis, expand_dims, reshape, squeeze

__all__ = ["all_to_all", "pswapaxes"]


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Exchanges a dimension with a named axis: it is cut over the members, and their blocks are put together again.

    Args:
        x: array or pytree.
        axis_name: a bound name or a tuple of them.
        split_axis: the dimension that is cut; without `tiled` it has the size of the axes and disappears.
        concat_axis: the dimension along which blocks are joined in order of rank; without `tiled` a new one.
        axis_index_groups: groups of ranks that exchange apart, all of one size.
        tiled: cut and concatenate instead of unstacking and stacking.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.all_to_all(x, "i", 0, 0), axis_name="i")
        >>> print(f(xlab.lax.reshape(xlab.lax.iota("float32", 4), (2, 2))))
        [[0. 2.]
         [1. 3.]]
    """
    staged = stage("all_to_all", axis_name, split_axis, concat_axis, axis_index_groups, tiled)

    def leaf(v):
        operand, params, dropped = staged(v)
        out = all_to_all_p.bind(operand, **params)
        return out if dropped is None else squeeze(out, (dropped,))

    return _tree.map(leaf, x)


def stage(api: str, axis_name, split_axis, concat_axis, axis_index_groups, tiled: bool):
    """What an exchange does to a value: the operand of the primitive, its parameters, and the dimension to drop afterwards, if any."""
    names = axis_names(axis_name, api, lists=False)
    groups = canonical_groups(axis_index_groups, names, api, equal=True)
    size = group_size(names, groups)

    def staged(v):
        ndim = aval_of(v).ndim
        split, concat = canonical_axis(split_axis, ndim), canonical_axis(concat_axis, ndim)
        v = require_varying(api, v, names)
        length = aval_of(v).shape[split]
        dropped = None
        if not tiled:
            if length != size:
                raise ValueError(
                    f"{api} requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are "
                    f"{size} and {length} respectively. Use tiled=True to cut the dimension into blocks."
                )
            if split < concat:
                concat += 1
                v, dropped = expand_dims(v, (concat,)), split
            elif split > concat:
                v, split = expand_dims(v, (concat,)), split + 1
                dropped = split
        params = {
            "split_axis": split,
            "concat_axis": concat,
            "axis_name": axis_name,
            "axis_index_groups": groups,
            "tiled": tiled,
        }
        return v, params, dropped

    return staged


def pswapaxes(
    x: Any,
    axis_name: AxisName,
    axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Swaps a dimension with a named axis of the same size.

    Args:
        x: an array.
        axis_name: name of the mapped axis, or a tuple of names.
        axis: the array axis that changes places with the mapped one.
        axis_index_groups: the ranks that work together, one list for each group; by default all do.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.pswapaxes(x, "i", 0), axis_name="i")
        >>> print(f(xlab.lax.reshape(xlab.lax.iota("float32", 4), (2, 2))))
        [[0. 2.]
         [1. 3.]]
    """
    axis_names(axis_name, "pswapaxes", lists=False)
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _aval(x, *, split_axis, concat_axis, axis_name, axis_index_groups, tiled):
    names = as_names(axis_name)
    refuse_unfinished("all_to_all", x, names)
    n = group_size(names, axis_index_groups)
    shape = list(x.shape)
    if shape[split_axis] % n:
        raise ValueError(
            f"all_to_all cuts dimension {split_axis} of {x} into {n} equal blocks (the size of {axis_name}), but "
            f"{shape[split_axis]} is not divisible by {n}"
        )
    shape[split_axis] //= n
    shape[concat_axis] *= n
    return ShapedArray(tuple(shape), x.dtype, mat=x.mat), effects_of(names)


def _lowering(ctx, x, *, split_axis, concat_axis, axis_name, axis_index_groups, tiled):
    rows = groups_of(ctx, as_names(axis_name), axis_index_groups)
    n = len(rows[0])
    if n == 1:
        return x
    return ctx.op(
        f'"stablehlo.all_to_all"({x}) <{{{CHANNEL}, concat_dimension = {concat_axis} : i64, '
        f"replica_groups = {groups_text(rows)}, split_count = {n} : i64, split_dimension = {split_axis} : i64}}> : "
        f"({tensor_type(ctx.avals_in[0])}) -> {tensor_type(ctx.avals_out[0])}"
    )


def _transpose(ct, x, *, split_axis, concat_axis, axis_name, axis_index_groups, tiled):
    return [
        all_to_all_p.bind(
            require_varying("all_to_all", ct, as_names(axis_name)),
            split_axis=concat_axis,
            concat_axis=split_axis,
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
            tiled=tiled,
        )
    ]


def _split_dim(x, dim, n):
    shape = aval_of(x).shape
    return reshape(x, (*shape[:dim], n, shape[dim] // n, *shape[dim + 1 :]))


def _fold_dim(x, dim):
    """Joins a dimension with the next one."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def _batch(axis, operands, dims, *, split_axis, concat_axis, axis_name, axis_index_groups, tiled):
    x, d = operands[0], dims[0]
    names = as_names(axis_name)
    if axis.name not in names:
        if d is not None:
            split_axis += d <= split_axis
            concat_axis += d <= concat_axis
        return all_to_all_p.bind(
            x,
            split_axis=split_axis,
            concat_axis=concat_axis,
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
            tiled=tiled,
        ), d
    if axis_index_groups is not None:
        same = {"split_axis": split_axis, "concat_axis": concat_axis, "axis_name": axis_name}
        return batch_in_groups(
            lambda v: all_to_all_p.bind(v, axis_index_groups=None, tiled=tiled, **same),
            axis, x, d, names, axis_index_groups, "all_to_all",
        )  # fmt: skip
    x = batching.move_batch_dim_to(x, d, axis.size, 0)
    if len(names) > 1:
        return _batch_several(axis, x, split_axis, concat_axis, names)
    single_name(names, axis.name, "all_to_all")
    # (batch, ...): the new batch dimension is the chunk index, and old batch entries are joined along `concat`.
    x = _split_dim(x, split_axis + 1, axis.size)
    x = batching.moveaxis(x, 0, split_axis + 1)  # ..., chunk at split_axis, old batch behind it
    x = batching.moveaxis(x, split_axis, 0)  # chunk in front, old batch at split_axis + 1
    x = batching.moveaxis(x, split_axis + 1, concat_axis + 1)
    return _fold_dim(x, concat_axis + 1), 0


def _batch_several(axis, x, split, concat, names):
    """The mapped axis among others: chunks are numbered (outer, own, inner), and each part is exchanged over its own axes."""
    at = names.index(axis.name)
    outer, inner = names[:at], names[at + 1 :]
    n_outer, n_inner = group_size(outer, None), group_size(inner, None)
    shape = aval_of(x).shape
    block = shape[split + 1] // (n_outer * axis.size * n_inner)
    # (batch, ..., outer, own, inner, block, ...)
    x = reshape(x, (*shape[: split + 1], n_outer, axis.size, n_inner, block, *shape[split + 2 :]))
    for _ in range(3):  # chunk dimensions to the front: (outer, own, inner, batch, ...)
        x = batching.moveaxis(x, split + 3, 0)
    x = _exchange(x, 0, outer)
    x = _exchange(x, 2, inner)
    # Own chunk becomes the batch; the old batch becomes a source index between outer and inner.
    x = batching.moveaxis(x, 3, 1)  # (outer, batch, own, inner, ...)
    x = batching.moveaxis(x, 2, 0)  # (own, outer, batch, inner, ...)
    for _ in range(3):  # sources in front of the dimension they are joined along
        x = batching.moveaxis(x, 1, concat + 3)
    shape = aval_of(x).shape
    at = concat + 1
    size = shape[at] * shape[at + 1] * shape[at + 2] * shape[at + 3]
    return reshape(x, (*shape[:at], size, *shape[at + 4 :])), 0


def _exchange(x, dim, names):
    if not names:
        return x
    return all_to_all_p.bind(
        x, split_axis=dim, concat_axis=dim, axis_name=names, axis_index_groups=None, tiled=True
    )


all_to_all_p = AxisPrimitive("all_to_all", auto_pvary=False, context_dependent=True)
all_to_all_p.def_effectful_abstract_eval(_aval)
all_to_all_p.def_impl(unmapped)
ad.deflinear2(all_to_all_p, _transpose)
batching.axis_primitive_batchers[all_to_all_p] = _batch
mlir.register_text_lowering(all_to_all_p, _lowering)
collective_rules[all_to_all_p] = moving("all_to_all")
arrivals[all_to_all_p] = everyone_in_groups
