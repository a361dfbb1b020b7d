"""Sending values from rank to rank: `ppermute`, `pshuffle`, `pbroadcast`."""

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
from xlab.lax.collectives.axis_index import axis_index
from xlab.lax.collectives.common import (
    CHANNEL,
    AxisPrimitive,
    as_names,
    axis_names,
    everybody,
    everyone_alike,
    groups_of,
    groups_text,
    inserted,
    mat_of,
    mesh_names,
    refuse_unfinished,
    require_varying,
    reshaped,
    single_name,
    size_of,
    whole,
)
from xlab.lax.collectives.psum import psum
from xlab.lax.comparison import eq, select_n
from xlab.lax.creation import full_like
from xlab.lax.shape import broadcast_in_dim, concatenate
from xlab.lax.slicing import index_in_dim, slice_in_dim

__all__ = ["pbroadcast", "ppermute", "pshuffle"]


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends values along pairs of ranks `(source, destination)`; ranks without a sender receive zeros.

    Args:
        x: array or pytree.
        axis_name: a bound name or a tuple of them; ranks count the devices of a group in order of their position in the mesh.
        perm: pairs of ranks; no source and no destination may come twice.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")
        >>> print(f(xlab.lax.full((3,), 5.0)))
        [0. 5. 5.]
    """
    names = axis_names(axis_name, "ppermute")
    perm = checked_pairs("ppermute", perm, size_of(names))
    return _tree.map(
        lambda v: ppermute_p.bind(
            require_varying("ppermute", v, names), axis_name=names, perm=perm
        ),
        x,
    )


def checked_pairs(api: str, perm, size: int) -> tuple:
    """Pairs of ranks that send each to at most one, and of which each receives from at most one."""
    try:
        pairs = tuple((s, d) for s, d in perm)
    except (TypeError, ValueError):
        raise TypeError(
            f"{api} takes pairs of ranks (source, destination), such as [(0, 1), (1, 0)]; got {perm!r}"
        ) from None
    pairs = tuple(
        (whole(api, "the ranks of pairs", s), whole(api, "the ranks of pairs", d)) for s, d in pairs
    )
    sources, destinations = [s for s, _ in pairs], [d for _, d in pairs]
    if len(set(sources)) != len(sources) or len(set(destinations)) != len(destinations):
        raise ValueError(f"{api} sources and destinations must be unique, got {pairs}.")
    if any(not 0 <= i < size for i in (*sources, *destinations)):
        raise ValueError(
            f"{api} ranks must be at least 0 and less than {size}, the size of the axis; got {pairs}"
        )
    return pairs


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Rank i receives the value of rank `perm[i]`.

    Args:
        x: an array.
        axis_name: name of the mapped axis, or a tuple of names.
        perm: for each rank, the rank it receives from.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.pshuffle(x, "i", [1, 2, 0]), axis_name="i")
        >>> print(f(xlab.lax.iota("float32", 3)))
        [1. 2. 0.]
    """
    axis_names(axis_name, "pshuffle")
    perm = [whole("pshuffle", "the entries of a permutation", i) for i in perm]
    if sorted(perm) != list(range(len(perm))):
        raise ValueError(f"pshuffle needs a permutation of 0 to {len(perm) - 1}, got {list(perm)}")
    return ppermute(x, axis_name, [(s, d) for d, s in enumerate(perm)])


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """Every rank receives the value of rank `source`.

    Args:
        x: an array.
        axis_name: name of the mapped axis, or a tuple of names.
        source: the rank whose value all receive.

    Example:
        >>> import xlab
        >>> f = xlab.vmap(lambda x: xlab.lax.pbroadcast(x, "i", 2), axis_name="i")
        >>> print(f(xlab.lax.iota("float32", 3)))
        [2. 2. 2.]
    """
    names = axis_names(axis_name, "pbroadcast")
    size = size_of(names)
    source = whole("pbroadcast", "sources", source)
    if not 0 <= source < size:
        raise ValueError(
            f"pbroadcast source must be at least 0 and less than {size}, the size of {axis_name!r}; got {source}"
        )

    def leaf(v):
        missing = [n for n in mesh_names(names) if n not in mat_of(v).varying]
        if missing:
            refuse_unfinished("pbroadcast", aval_of(v), missing)
            raise ValueError(
                f"pbroadcast must be applied to a device-varying type, got {aval_of(v)}, which is the same on all devices "
                f"along {missing}"
            )
        given = tuple(axis_name) if isinstance(axis_name, list) else axis_name
        return pbroadcast_p.bind(v, axis_name=given, source=int(source))

    return _tree.map(leaf, x)


# -- ppermute ---------------------------------------------------------------------------------------------


def _aval(x, *, axis_name, **_):
    refuse_unfinished("ppermute", x, axis_name)
    return x


def _lowering(ctx, x, *, axis_name, perm):
    t = tensor_type(ctx.avals_in[0])
    return ctx.op(
        f'"stablehlo.collective_permute"({x}) <{{{CHANNEL}, source_target_pairs = {pairs_text(ctx, axis_name, perm)}}}> : '
        f"({t}) -> {t}"
    )


def pairs_text(ctx, axis_name, perm) -> str:
    """Pairs of devices as a matrix attribute: the ranks of a pair in every group, whose devices count in order of position."""
    pairs = [(row[s], row[d]) for row in map(sorted, groups_of(ctx, axis_name)) for s, d in perm]
    body = ", ".join(f"[{s}, {d}]" for s, d in pairs)
    return f"dense<[{body}]> : tensor<{len(pairs)}x2xi64>" if pairs else "dense<> : tensor<0x2xi64>"


def _transpose(ct, x, *, axis_name, perm):
    return [
        ppermute_p.bind(
            require_varying("ppermute", ct, axis_name),
            axis_name=axis_name,
            perm=tuple((d, s) for s, d in perm),
        )
    ]


def _batch(axis, operands, dims, *, axis_name, perm):
    x, d = operands[0], dims[0]
    if axis.name not in axis_name:
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), d
    single_name(axis_name, axis.name, "ppermute")
    if d is None:
        if len(perm) == axis.size:
            return x, None
        x, d = batching.broadcast(x, axis.size, 0), 0
    source_of = {dst: src for src, dst in perm}
    return _rearranged(x, d, [source_of.get(i) for i in range(axis.size)]), d


def _rearranged(x, dim, sources):
    """Slices of `x` along `dim` in another order, zeros for None; neighbors stay together."""
    parts, i = [], 0
    while i < len(sources):
        j = i + 1
        if sources[i] is None:
            while j < len(sources) and sources[j] is None:
                j += 1
            parts.append(full_like(slice_in_dim(x, 0, j - i, axis=dim), 0))
        else:
            while j < len(sources) and sources[j] == sources[i] + j - i:
                j += 1
            parts.append(slice_in_dim(x, sources[i], sources[i] + j - i, axis=dim))
        i = j
    return parts[0] if len(parts) == 1 else concatenate(parts, dim)


ppermute_p = AxisPrimitive("ppermute", auto_pvary=False)
ppermute_p.def_abstract_eval(_aval)
ad.deflinear2(ppermute_p, _transpose)
batching.axis_primitive_batchers[ppermute_p] = _batch
mlir.register_text_lowering(ppermute_p, _lowering)
collective_rules[ppermute_p] = moving("collective_permute")
arrivals[ppermute_p] = everybody


# -- pbroadcast -------------------------------------------------------------------------------------------


DOUBLING_FROM = 1 << 24
"""Bytes that a broadcast by gathering would need on each device from which on it goes by doubling."""


def _broadcast_aval(x, *, axis_name, source):
    refuse_unfinished("pbroadcast", x, as_names(axis_name))
    return x


def _broadcast_lowering(ctx, x, *, axis_name, source):
    """Gather and take one slice: exact for every bit pattern, where a masked sum would lose the sign of zero."""
    aval = physical_aval(ctx.avals_in[0])
    rows = groups_of(ctx, as_names(axis_name))
    n = len(rows[0])
    if n > 2 and n * aval.nbytes >= DOUBLING_FROM:
        return _doubling(ctx, x, aval, [(*r[source:], *r[:source]) for r in rows])
    one, all_ = aval.update(shape=(1, *aval.shape)), aval.update(shape=inserted(aval.shape, 0, n))
    x = ctx.broadcast(x, aval, one, range(1, one.ndim))
    x = ctx.op(
        f'"stablehlo.all_gather"({x}) <{{all_gather_dim = 0 : i64, {CHANNEL}, replica_groups = {groups_text(rows)}, '
        f"use_global_device_ids}}> : ({tensor_type(one)}) -> {tensor_type(all_)}"
    )
    limits = [f"{source}:{source + 1}", *(f"0:{s}" for s in aval.shape)]
    x = ctx.op(
        f"stablehlo.slice {x} [{', '.join(limits)}] : ({tensor_type(all_)}) -> {tensor_type(one)}"
    )
    return reshaped(ctx, x, one, aval)


def _doubling(ctx, x, aval, rows):
    """Whoever has the value sends it on: twice as many have it after each round, and none holds it n times. A flag that goes the same
    way says who received: those that did not get zeros."""
    n, t = len(rows[0]), tensor_type(aval)
    flag = ShapedArray((), np.dtype(np.uint8))
    ones, zeros = ctx.constant(np.uint8(1), flag), ctx.constant(np.uint8(0), flag)
    of_flag, of_mask = tensor_type(flag), "tensor<i1>"
    for s in range((n - 1).bit_length()):
        have = 1 << s
        pairs = [f"[{r[i]}, {r[i + have]}]" for r in rows for i in range(min(have, n - have))]
        matrix = f"dense<[{', '.join(pairs)}]> : tensor<{len(pairs)}x2xi64>"
        send = f"<{{{CHANNEL}, source_target_pairs = {matrix}}}>"
        arrived = ctx.op(f'"stablehlo.collective_permute"({x}) {send} : ({t}) -> {t}')
        told = ctx.op(f'"stablehlo.collective_permute"({ones}) {send} : ({of_flag}) -> {of_flag}')
        mask = ctx.op(
            f"stablehlo.compare NE, {told}, {zeros} : ({of_flag}, {of_flag}) -> {of_mask}"
        )
        x = ctx.op(f"stablehlo.select {mask}, {arrived}, {x} : {of_mask}, {t}")
    return x


def _native_broadcast_lowering(ctx, x, *, axis_name, source):
    """The instruction of accelerators; the first of each group is the source."""
    rows = [
        [row[source], *row[:source], *row[source + 1 :]]
        for row in groups_of(ctx, as_names(axis_name))
    ]
    t = tensor_type(ctx.avals_in[0])
    return ctx.op(
        f'"stablehlo.collective_broadcast"({x}) <{{{CHANNEL}, replica_groups = {groups_text(rows)}}}> : ({t}) -> {t}'
    )


def _broadcast_transpose(ct, x, *, axis_name, source):
    """The source receives the sum of all cotangents, all others zero."""
    total = psum(require_varying("pbroadcast", ct, as_names(axis_name)), axis_name)
    return [select_source(total, axis_name=axis_name, source=source)]


def select_source(total, *, axis_name, source):
    """The value on the rank of the source, zeros on all others."""
    here = eq(axis_index(axis_name), np.int32(source))
    here = broadcast_in_dim(here, aval_of(total).shape, ())
    return select_n(here, full_like(total, 0), total)


def _broadcast_batch(axis, operands, dims, *, axis_name, source):
    x, d = operands[0], dims[0]
    names = as_names(axis_name)
    if axis.name not in names:
        return pbroadcast_p.bind(x, axis_name=axis_name, source=source), d
    single_name(names, axis.name, "pbroadcast")
    if d is None:
        return x, None
    return slice_in_dim(x, source, source + 1, axis=d) if axis.size == 1 else _repeated(
        x, d, source, axis.size
    ), d


def _repeated(x, d, source, size):
    return batching.broadcast(index_in_dim(x, source, d, keepdims=False), size, d)


pbroadcast_p = AxisPrimitive("pbroadcast", auto_pvary=False)
pbroadcast_p.def_abstract_eval(_broadcast_aval)
ad.deflinear2(pbroadcast_p, _broadcast_transpose)
batching.axis_primitive_batchers[pbroadcast_p] = _broadcast_batch
mlir.register_text_lowering(pbroadcast_p, _broadcast_lowering)
mlir.register_text_lowering(pbroadcast_p, _native_broadcast_lowering, "gpu")
collective_rules[pbroadcast_p] = moving("collective_broadcast")
arrivals[pbroadcast_p] = everyone_alike
