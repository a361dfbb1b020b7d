"""Reductions over named axes: `psum`, `pmean`, `pmax`, `pmin`, and the place of the extremum.

Under `shard_map` with checking, a sum of a varying value is *invarying* and its transpose moves nothing (`psum_invariant`); without
checking, and under `vmap`, the transpose of a sum is a sum (`psum`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.trace import Tracer, state
from xlab.core.typing import Array, ArrayLike, AxisName
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.communication import collective_rules, reducing
from xlab.interpreters.divergence import arrivals
from xlab.lax.arithmetic import div, mul
from xlab.lax.collectives import casts
from xlab.lax.collectives.axis_index import axis_index
from xlab.lax.collectives.common import (
    CHANNEL,
    AxisPrimitive,
    axis_names,
    batch_in_groups,
    canonical_groups,
    combining_op,
    effects_of,
    everyone_alike,
    group_size,
    groups_of,
    groups_text,
    mesh_names,
    need,
    no_keys,
    refuse_unfinished,
    require_varying,
    same_mesh,
    unmapped,
    vma_state,
    without_single,
)
from xlab.lax.comparison import eq, ne, select_n
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like
from xlab.lax.reduce_sum import reduced_shape, reduction_text
from xlab.lax.reductions import highest, lowest, reduce_max, reduce_min, reduce_sum
from xlab.lax.shape import broadcast_in_dim, canonical_axes
from xlab.lax.slicing_in_dim import dynamic_index_in_dim

__all__ = ["pargmax", "pargmin", "pmax", "pmean", "pmin", "psum"]


def psum(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Sum over named axes: every member of a group receives the sum of the group's values.

    Args:
        x: array or pytree; bool is counted as int32. Constants are multiplied by the size of the axes while tracing.
        axis_name: a name bound by `shard_map`, `pmap` or `vmap(axis_name=...)`, or a tuple of them; ints are array axes.
        axis_index_groups: groups of ranks that are summed apart, such as `[[0, 1], [2, 3]]`; not under checked `shard_map`.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.psum(x, "i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [3. 3. 3.]
    """
    return _sum("psum", x, axis_name, axis_index_groups)


def _sum(api, x, axis_name, axis_index_groups):
    axes = without_single(axis_names(axis_name, api, ints=True))
    groups = canonical_groups(axis_index_groups, axes, api)
    if not axes:
        return x
    return _tree.map(
        lambda v: (_psum if isinstance(v, Tracer) else _constant_sum)(v, axes, groups, api), x
    )


def _psum(x, axes, groups, api="psum"):
    aval = aval_of(x)
    no_keys(api, aval)
    same_mesh(api, aval)
    if aval.dtype == np.bool_:
        x = convert_element_type(x, np.int32)
    x, axes = _by_type(x, _positive(axes, aval.ndim), reduce_sum)
    over = mesh_names(axes)
    if not over:
        return psum_p.bind(x, axes=axes, axis_index_groups=groups) if axes else x
    if groups is not None:
        raise NotImplementedError(
            f"{api} with axis_index_groups under shard_map with check_vma=True: the groups hold different "
            "sums, so the result would not be the same everywhere; use check_vma=False"
        )
    source = vma_state(api, x, over)
    other = tuple(a for a in axes if a not in over)
    if other:
        x = psum_p.bind(x, axes=other, axis_index_groups=None)
    if source == "unreduced":
        return unreduced_psum_p.bind(x, axes=over)
    return bind_psum_invariant(x, over, api)


def bind_psum_invariant(x, axes, api="psum"):
    """The checked sum; axes over which the value does not vary are cast first."""
    return psum_invariant_p.bind(require_varying(api, x, axes), axes=axes)


def _by_type(x, axes, reduce):
    """Array axes of an operand that lies along Explicit axes are reduced first: the type of the result is that of the plain reduction."""
    ints, names = _split_axes(axes)
    if not ints or aval_of(x).explicit_sharding is None:
        return x, axes
    return reduce(x, ints), names


def _constant_sum(x, axes, groups, api="psum"):
    ints = tuple(a for a in axes if type(a) is int)
    names = tuple(a for a in axes if type(a) is not int)
    no_keys(api, aval_of(x))
    same_mesh(api, aval_of(x))
    if isinstance(x, bool):
        x = int(x)
    if names and isinstance(x, (np.ndarray, np.generic)):
        # It is known now: nothing of it becomes part of a program.
        x = x.astype(np.int32 if x.dtype == np.bool_ else dtypes.canonicalize_dtype(x.dtype))
        x = x.sum(canonical_axes(ints, x.ndim), dtype=x.dtype) if ints else x
        return x * np.asarray(group_size(names, groups)).astype(x.dtype)[()]
    if ints:
        if aval_of(x).dtype == np.bool_:
            x = convert_element_type(x, np.int32)
        x = reduce_sum(x, canonical_axes(ints, aval_of(x).ndim))
    if not names:
        return x
    n = group_size(names, groups)
    if isinstance(x, (int, float, complex)):
        return x * n
    aval = aval_of(x)
    if aval.dtype == np.bool_:
        x = convert_element_type(x, np.int32)
    return mul(x, np.asarray(n).astype(aval_of(x).dtype)[()])


def pmean(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Mean over named axes; integers become floats.

    Args:
        x: an array or a tree of arrays.
        axis_name: name of the mapped axis, or a tuple of names.
        axis_index_groups: the ranks that work together, one list for each group; by default all do.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.pmean(x, "i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [1. 1. 1.]
    """
    axes = axis_names(axis_name, "pmean", ints=True)
    groups = canonical_groups(axis_index_groups, axes, "pmean")
    total = _sum("pmean", x, axis_name, groups)
    uneven = groups is not None and len({len(g) for g in groups}) > 1

    # psum of the number one: what the members of a group count together, positional axes included.
    def mean(v, original):
        if uneven:
            count = _own_group_size(axes, groups, aval_of(v).dtype)
            return div(_floating(v), convert_element_type(count, aval_of(_floating(v)).dtype))
        ints = [a for a in axes if type(a) is int]
        n = group_size([a for a in axes if type(a) is not int], groups)
        for a in ints:
            n *= aval_of(original).shape[a]
        if isinstance(v, (int, float, complex)):
            return v / n
        v = _floating(v)
        return div(v, np.asarray(n).astype(aval_of(v).dtype)[()])

    return _tree.map(mean, total, x)


def _floating(x):
    dtype = aval_of(x).dtype
    if dtypes.issubdtype(dtype, np.inexact):
        return x
    return convert_element_type(
        x, dtypes.canonicalize_dtype(np.float64 if np.dtype(dtype).itemsize == 8 else np.float32)
    )


def _own_group_size(axes, groups, dtype):
    """The size of the group this device belongs to."""
    sizes = np.zeros(sum(map(len, groups)), np.int32)
    for g in groups:
        sizes[list(g)] = len(g)
    return dynamic_index_in_dim(
        sizes, axis_index(axes if len(axes) > 1 else axes[0]), 0, keepdims=False
    )


def pmax(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    nan_safe: bool = False,
) -> Any:
    """Maximum over named axes. Across devices a NaN may or may not win, with `nan_safe` it does, for a second collective; no derivative.

    Args:
        x: an array or a tree of arrays.
        axis_name: name of the mapped axis, or a tuple of names.
        axis_index_groups: the ranks that work together, one list for each group; by default all do.
        nan_safe: whether NaN on one device shows on all.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.pmax(x, "i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [2. 2. 2.]
    """
    return _extremum(pmax_p, "pmax", x, axis_name, axis_index_groups, nan_safe)


def pmin(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    nan_safe: bool = False,
) -> Any:
    """Minimum over named axes; of NaN as `pmax`.

    Args:
        x: an array or a tree of arrays.
        axis_name: name of the mapped axis, or a tuple of names.
        axis_index_groups: the ranks that work together, one list for each group; by default all do.
        nan_safe: whether NaN on one device shows on all.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.pmin(x, "i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [0. 0. 0.]
    """
    return _extremum(pmin_p, "pmin", x, axis_name, axis_index_groups, nan_safe)


def _extremum(prim, api, x, axis_name, axis_index_groups, nan_safe):
    axes = axis_names(axis_name, api, ints=True)
    groups = canonical_groups(axis_index_groups, axes, api)

    def leaf(v):
        aval = aval_of(v)
        no_keys(api, aval)
        if dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{api} needs numbers that have an order, got {aval}; take the real part or the absolute value"
            )
        same_mesh(api, aval)
        reduce = reduce_max if prim is pmax_p else reduce_min
        v, left = _by_type(v, _positive(axes, aval.ndim), reduce)
        if axes and not left:
            return v
        over = {"axes": left, "axis_index_groups": groups}
        best = prim.bind(require_varying(api, v, axes), **over)
        if not nan_safe or not dtypes.issubdtype(aval.dtype, np.inexact):
            return best
        v = require_varying(api, v, axes)
        found = pmax_p.bind(ne(v, v), **over)
        return select_n(found, best, full_like(best, np.nan))

    return _tree.map(leaf, x)


def pargmin(x: ArrayLike, axis_name: AxisName) -> Array:
    """Rank at which the minimum over one named axis lies, element by element; the first of several."""
    return _pargextremum("pargmin", pmin, x, axis_name)


def pargmax(x: ArrayLike, axis_name: AxisName) -> Array:
    """Rank at which the maximum over one named axis lies, element by element; the first of several.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.pargmax(x, "i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [2 2 2]
    """
    return _pargextremum("pargmax", pmax, x, axis_name)


def _pargextremum(api, extremum, x, axis_name):
    if isinstance(axis_name, (tuple, list)):
        raise TypeError(f"{api} takes one axis name, got {axis_name}")
    axis_names(axis_name, api)
    best = extremum(x, axis_name)
    here = eq(x, best)
    nobody = np.int32(np.iinfo(np.int32).max)
    rank = broadcast_in_dim(axis_index(axis_name), aval_of(here).shape, ())
    return pmin(select_n(here, full_like(here, nobody, np.int32), rank), axis_name)


def _positive(axes, ndim) -> tuple:
    """Array axes among the names, counted from the front."""
    if not any(type(a) is int for a in axes):
        return axes
    return tuple(canonical_axes((a,), ndim)[0] if type(a) is int else a for a in axes)


# -- the primitives ---------------------------------------------------------------------------------------


def _split_axes(axes):
    return tuple(a for a in axes if type(a) is int), tuple(a for a in axes if type(a) is not int)


def _aval(api):
    def rule(x, *, axes, axis_index_groups=None):
        ints, names = _split_axes(axes)
        refuse_unfinished(api, x, names)
        mat = x.mat
        if axis_index_groups is None or len(axis_index_groups) == 1:
            mat = mat.update(varying=mat.varying - set(names))
        if not ints:
            return x.update(mat=mat), effects_of(names)
        return ShapedArray(reduced_shape(x, ints), x.dtype, x.weak_type, mat=mat), effects_of(names)

    return rule


def _invariant_aval(x, *, axes):
    _need_names("psum_invariant", axes)
    need("psum_invariant", x, axes, "varying")
    return x.update(mat=x.mat.update(varying=x.mat.varying - set(axes))), effects_of(axes)


def _unreduced_aval(x, *, axes):
    _need_names("unreduced_psum", axes)
    need("unreduced_psum", x, axes, "unreduced")
    return x.update(mat=x.mat.update(unreduced=x.mat.unreduced - set(axes))), effects_of(axes)


def _need_names(api, axes):
    if any(type(a) is int for a in axes):
        raise ValueError(f"{api} works on named axes only, got {axes}")


def _lowering(combine, bool_combine, reduction, identity):
    def rule(ctx, x, *, axes, axis_index_groups=None):
        ints, names = _split_axes(axes)
        aval, out = ctx.avals_in[0], ctx.avals_out[0]
        op = bool_combine if aval.dtype == np.bool_ else combine
        if ints:
            init = ctx.constant(np.asarray(identity(aval.dtype)), ShapedArray((), aval.dtype))
            x = reduction_text(ctx, f"stablehlo.{op}", x, init, ints, aval, out)
        if not names:
            return x
        rows = groups_text(groups_of(ctx, names, axis_index_groups))
        return combining_op(
            ctx,
            "all_reduce",
            x,
            op,
            f"{CHANNEL}, replica_groups = {rows}, use_global_device_ids",
            out,
            out,
        )

    return rule


def _batch(prim, api, of_copies, reduce):
    """Over the mapped axis itself the reduction is positional, as `reduce`; `of_copies(x, n)` reduces `n` equal values."""

    def bind(x, axes, groups):
        if not axes:
            return x
        return prim.bind(
            x, axes=axes, **({} if groups is _ABSENT else {"axis_index_groups": groups})
        )

    def rule(axis, operands, dims, *, axes, axis_index_groups=_ABSENT):
        x, d = operands[0], dims[0]
        if axis.name is None or axis.name not in axes:
            if d is None or not any(type(a) is int for a in axes):
                return bind(x, axes, axis_index_groups), d
            x = batching.moveaxis(x, d, 0)
            return bind(
                x, tuple(a + 1 if type(a) is int else a for a in axes), axis_index_groups
            ), 0
        if axis_index_groups not in (_ABSENT, None):
            return batch_in_groups(
                lambda v: bind(v, axes, None), axis, x, d, axes, axis_index_groups, api
            )
        if d is None:
            return of_copies(
                bind(x, tuple(a for a in axes if a != axis.name), axis_index_groups), axis.size
            ), None
        shifted = tuple(
            d if a == axis.name else a + (a >= d) if type(a) is int else a for a in axes
        )
        return bind(*_by_type(x, shifted, reduce), axis_index_groups), None

    batching.axis_primitive_batchers[prim] = rule


_ABSENT = object()


def _times(x, n):
    return mul(x, np.asarray(n).astype(aval_of(x).dtype)[()])


def _psum_transpose(ct, x, *, axes, axis_index_groups):
    ints, names = _split_axes(axes)
    if ints:
        kept = [i for i in range(x.aval.ndim) if i not in ints]
        ct = broadcast_in_dim(ct, x.aval.shape, kept)
    return [psum_p.bind(ct, axes=names, axis_index_groups=axis_index_groups) if names else ct]


def _extremum_jvp(prim):
    """The derivative of the value that wins; where several do, the mean of theirs, which is a subgradient of the maximum."""

    def rule(primals, tangents, *, axes, axis_index_groups):
        (x,), (t,) = primals, tangents
        best = prim.bind(x, axes=axes, axis_index_groups=axis_index_groups)
        if type(t) is ad.Zero:
            return best, ad.Zero.of(best)
        if not config.pmax_subgradient:
            raise NotImplementedError(
                f"{prim.name} has no derivative rule: it is not differentiable where values tie; differentiate through all_gather and "
                f"a maximum instead, or turn on config.pmax_subgradient, which takes the mean over the values that tie"
            )
        ints, _names = _split_axes(axes)
        kept = [i for i in range(aval_of(x).ndim) if i not in ints]
        all_best = broadcast_in_dim(best, aval_of(x).shape, kept) if ints else best
        wins = convert_element_type(eq(x, all_best), aval_of(t).dtype)
        over = {"axes": axes, "groups": axis_index_groups}
        return best, div(_psum(mul(t, wins), **over), _psum(wins, **over))

    return rule


def _zero(dtype):
    return np.zeros((), dtype)


psum_p = AxisPrimitive("psum", auto_pvary=False)
psum_invariant_p = AxisPrimitive("psum_invariant", auto_pvary=False)
unreduced_psum_p = AxisPrimitive("unreduced_psum", auto_pvary=False)
pmax_p = AxisPrimitive("pmax", auto_pvary=False)
pmin_p = AxisPrimitive("pmin", auto_pvary=False)
for _p, _rule in (
    (psum_p, _aval("psum")),
    (pmax_p, _aval("pmax")),
    (pmin_p, _aval("pmin")),
    (psum_invariant_p, _invariant_aval),
    (unreduced_psum_p, _unreduced_aval),
):
    _p.def_effectful_abstract_eval(_rule)
for _p in (psum_p, psum_invariant_p, unreduced_psum_p):
    mlir.register_text_lowering(_p, _lowering("add", "or", "add", _zero))
    _batch(_p, "psum", _times, reduce_sum)
for _p in (psum_invariant_p, unreduced_psum_p):
    _p.def_impl(unmapped)
mlir.register_text_lowering(pmax_p, _lowering("maximum", "or", "maximum", lowest))
mlir.register_text_lowering(pmin_p, _lowering("minimum", "and", "minimum", highest))
_batch(pmax_p, "pmax", lambda x, n: x, reduce_max)
_batch(pmin_p, "pmin", lambda x, n: x, reduce_min)
ad.deflinear2(psum_p, _psum_transpose)
ad.deflinear2(psum_invariant_p, lambda ct, x, *, axes: [casts.vary(ct, axes)])
ad.deflinear2(unreduced_psum_p, lambda ct, x, *, axes: [casts.preduced_p.bind(ct, axes=axes)])
for _p in (pmax_p, pmin_p):
    ad.primitive_jvps[_p] = _extremum_jvp(_p)
ad.primitive_transposes[casts.pvary_p] = lambda ct, x, *, axes: [bind_psum_invariant(ct, axes)]
ad.primitive_transposes[casts.preduced_p] = lambda ct, x, *, axes: [_sum_cotangent(ct, axes)]


def _sum_cotangent(ct, axes):
    """The cotangent of a reduced value is unreduced; a zero that came in as a plain value varies by cast."""
    missing = tuple(a for a in axes if a not in aval_of(ct).mat.unreduced)
    if missing and state.manual is not None:
        ct = casts.vary_unreduced_cast_p.bind(casts.vary(ct, missing), axes=missing)
    return unreduced_psum_p.bind(ct, axes=axes)


for _p, _reduction in (
    (psum_p, "add"),
    (psum_invariant_p, "add"),
    (unreduced_psum_p, "add"),
    (pmax_p, "max"),
    (pmin_p, "min"),
):
    collective_rules[_p] = reducing("all_reduce", _reduction)
    arrivals[_p] = everyone_alike
