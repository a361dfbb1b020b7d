"""`ragged_all_to_all`: every member sends pieces of any number of rows to any other, which the sender places in the receiver's result.

There is an instruction for it on accelerators; elsewhere each member gathers all operands, and the pieces meant for it, and picks rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlab.config import config
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import EVAL, Axis, state
from xlab.core.typing import Array, ArrayLike, AxisName
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.communication import CollectiveOp, collective_rules, size
from xlab.interpreters.divergence import arrivals
from xlab.interpreters.mlir import tensor_type
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax.arithmetic import add, mul, sub
from xlab.lax.bits import bitwise_and, bitwise_or
from xlab.lax.collectives.all_gather import all_gather
from xlab.lax.collectives.all_to_all import all_to_all, all_to_all_p
from xlab.lax.collectives.common import (
    CHANNEL,
    axis_names,
    canonical_groups,
    effects_of,
    everyone_in_groups,
    group_size,
    groups_of,
    groups_text,
    require_varying,
    single_name,
)
from xlab.lax.comparison import ge, gt, le, lt, ne, select_n
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full, full_like, iota
from xlab.lax.cumulative import cumsum
from xlab.lax.debugging import debug_callback
from xlab.lax.gather import GatherDimensionNumbers, gather
from xlab.lax.reductions import reduce_max, reduce_or
from xlab.lax.scatter_functions import ScatterDimensionNumbers, scatter_add
from xlab.lax.shape import broadcast_in_dim, concatenate, expand_dims, reshape, transpose
from xlab.lax.slicing import slice_in_dim

__all__ = ["ragged_all_to_all"]

_NAME = "ragged_all_to_all"
_VECTORS = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def ragged_all_to_all(
    operand: ArrayLike,
    output: ArrayLike,
    input_offsets: ArrayLike,
    send_sizes: ArrayLike,
    output_offsets: ArrayLike,
    recv_sizes: ArrayLike,
    *,
    axis_name: AxisName,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Array:
    """Sends pieces of rows of any sizes between the members of a named axis and writes them into `output`.

    With n members and m pieces for each, piece k goes to the member of rank `k // m`: its rows
    `input_offsets[k] : input_offsets[k] + send_sizes[k]` of `operand` become rows of the result there, from row `output_offsets[k]` on.

    Args:
        operand: rows to send, `[N, ...]`.
        output: what the result holds where nothing is received, `[M, ...]`.
        input_offsets, send_sizes: first row and number of rows of each of the m * n pieces.
        output_offsets: the first row of each piece in the result of the member that receives it.
        recv_sizes: number of rows of each piece this member receives: `send_sizes` after a tiled `all_to_all`.
        axis_name: a bound name or a tuple of them.
        axis_index_groups: groups of ranks that exchange apart, all of one size.

    The derivative is right where no row is sent twice. Under `config.debug_checks` the program fails, naming the ranks, where `recv_sizes`
    are not the sizes that are sent, or where rows lie outside of `operand` or of the result.

    Example:
        >>> import numpy as np
        >>> import xlab
        >>> f = xlab.vmap(lambda *xs: xlab.lax.ragged_all_to_all(*xs, axis_name="i"), axis_name="i")
        >>> rows = np.float32([[1, 2, 2], [3, 4, 0]])
        >>> print(f(rows, np.zeros((2, 4), np.float32), np.int32([[0, 1], [0, 1]]), np.int32([[1, 2], [1, 1]]),
        ...         np.int32([[0, 0], [1, 2]]), np.int32([[1, 1], [2, 1]])))
        [[1. 3. 0. 0.]
         [2. 2. 4. 0.]]
    """
    if state.trace is EVAL and not any(
        n in state.axes
        for n in (axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,))
    ):
        _unmapped(axis_name=axis_name)
    names = axis_names(axis_name, _NAME)
    groups = canonical_groups(axis_index_groups, names, _NAME, equal=True)
    if config.debug_checks:
        rows = aval_of(operand).shape[0], aval_of(output).shape[0]
        _check_contract(*rows, input_offsets, send_sizes, output_offsets, recv_sizes, names, groups)
    return ragged_all_to_all_p.bind(
        require_varying(_NAME, operand, names),
        require_varying(_NAME, output, names),
        input_offsets,
        send_sizes,
        output_offsets,
        recv_sizes,
        axis_name=names,
        axis_index_groups=groups,
    )


def _check_contract(
    n_rows, m_rows, input_offsets, send_sizes, output_offsets, recv_sizes, names, groups
):
    """Calls back with what each rank found wrong: all ranks fail together, so that none waits for another."""
    sent = all_to_all(send_sizes, names, 0, 0, axis_index_groups=groups, tiled=True)

    def outside(starts, size):
        starts = convert_element_type(starts, np.int32)
        ends = add(starts, convert_element_type(send_sizes, np.int32))
        return bitwise_or(lt(starts, full_like(starts, 0)), gt(ends, full_like(ends, size)))

    wrong = [
        ne(sent, convert_element_type(recv_sizes, aval_of(sent).dtype)),
        outside(input_offsets, n_rows),
        outside(output_offsets, m_rows),
    ]
    here = concatenate([expand_dims(reduce_or(w, (0,)), (0,)) for w in wrong], 0)
    debug_callback(_raise_broken, all_gather(here, names))


def _raise_broken(found):
    rules = (
        "recv_sizes are not what the others send (send_sizes after a tiled all_to_all)",
        "input_offsets and send_sizes take rows outside of the operand",
        "output_offsets and send_sizes write rows outside of the result",
    )
    broken = [
        f"{rule}, on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        for k, rule in enumerate(rules)
        if (ranks := np.flatnonzero(np.asarray(found)[:, k]).tolist())
    ]
    if broken:
        raise ValueError(f"{_NAME}: {'; '.join(broken)}")


def _unmapped(*_, axis_name, **__):
    raise RuntimeError(
        f"{_NAME} must be used within a mapped context like vmap or shard_map, which binds the axis {axis_name!r}"
    )


def _aval(operand, output, *vectors, axis_name, axis_index_groups):
    effects = effects_of(axis_names(axis_name, _NAME))
    for name, v in zip(_VECTORS, vectors):
        if not np.issubdtype(v.dtype, np.integer):
            raise ValueError(f"{_NAME} {name} must be integer type, got {v}.")
        if v.ndim != 1 or v.shape[0] < 1:
            raise ValueError(
                f"{_NAME} {name} must be rank 1 with positive dimension size, but got shape {v.shape}"
            )
    lengths = [v.shape[0] for v in vectors]
    n = group_size(axis_name, axis_index_groups)
    if len(set(lengths)) > 1 or lengths[0] % n:
        given = ", ".join(f"{name} {k}" for name, k in zip(_VECTORS, lengths))
        raise ValueError(
            f"{_NAME} takes four vectors of one length, a multiple of {n}, the number of members along {axis_name}; got "
            f"lengths {given}"
        )
    if not operand.ndim or not output.ndim or operand.shape[1:] != output.shape[1:]:
        raise ValueError(
            f"{_NAME} operand and output must have rows of one shape, got {operand} and {output}"
        )
    if operand.dtype != output.dtype:
        raise ValueError(
            f"{_NAME} operand and output must have one dtype, got {operand} and {output}: convert one with astype"
        )
    return ShapedArray(output.shape, output.dtype, mat=output.mat), effects


# -- lowering ---------------------------------------------------------------------------------------------


def _lowering(ctx, *operands, axis_name, axis_index_groups):
    rows = groups_of(ctx, axis_name, axis_index_groups)
    types = ", ".join(map(tensor_type, ctx.avals_in))
    return ctx.op(
        f"stablehlo.custom_call @ragged_all_to_all({', '.join(operands)}) {{api_version = 4 : i32, backend_config = "
        f"{{channel_id = 1 : i64, replica_groups = {groups_text(rows)}}}}} : ({types}) -> {ctx.type_out()}"
    )


def _emulation(ctx, operand, output, *vectors, axis_name, axis_index_groups):
    """All operands are gathered; of the pieces, each member receives only those meant for it."""
    rows = groups_of(ctx, axis_name, axis_index_groups)
    n = len(rows[0])
    avals, vectors = ctx.avals_in, vectors[:3]
    if 0 in avals[0].shape or 0 in avals[1].shape:
        return output
    one = physical_aval(avals[0])
    whole = one.update(shape=(n * one.shape[0], *one.shape[1:]))
    if n > 1:
        shared = f"{CHANNEL}, replica_groups = {groups_text(rows)}"
        operand = ctx.op(
            f'"stablehlo.all_gather"({operand}) <{{all_gather_dim = 0 : i64, {shared}, use_global_device_ids}}> : '
            f"({tensor_type(one)}) -> {tensor_type(whole)}"
        )
        vectors = [
            ctx.op(
                f'"stablehlo.all_to_all"({v}) <{{concat_dimension = 0 : i64, {shared}, split_count = {n} : i64, '
                f"split_dimension = 0 : i64}}> : ({tensor_type(a)}) -> {tensor_type(a)}"
            )
            for v, a in zip(vectors, avals[2:])
        ]
    ctx.avals_in = [
        avals[0].update(shape=(n * avals[0].shape[0], *avals[0].shape[1:])),
        *avals[1:5],
    ]
    try:
        return _received(ctx, operand, output, *vectors, senders=n)
    finally:
        ctx.avals_in = avals


def _receive(operands, output, input_offsets, sizes, output_offsets, *, senders):
    """The result of one member from the operands of all, one below the other, and the pieces meant for it in order of sender."""
    rows, pieces, m = aval_of(operands).shape[0], aval_of(sizes).shape[0], aval_of(output).shape[0]
    if not rows:
        return output
    kind = np.dtype(
        np.int64
        if any(aval_of(v).dtype.itemsize > 4 for v in (input_offsets, sizes, output_offsets))
        else np.int32
    )
    start, size, target = (
        convert_element_type(v, kind) for v in (input_offsets, sizes, output_offsets)
    )

    def table(v, dim):
        return broadcast_in_dim(v, (pieces, m), (dim,))

    number, p = table(iota(kind, pieces), 0), table(iota(kind, m), 1)
    inside = bitwise_and(le(table(target, 0), p), lt(p, table(add(target, size), 0)))
    # Where pieces overlap, the last one.
    last = reduce_max(select_n(inside, full_like(number, -1), number), (0,))
    first_row = np.repeat(np.arange(senders, dtype=kind) * (rows // senders), pieces // senders)
    shift = _take(sub(add(start, first_row), target), last)
    received = ge(last, full_like(last, 0))
    return select_n(
        broadcast_in_dim(received, aval_of(output).shape, (0,)),
        output,
        _take(operands, add(shift, iota(kind, m))),
    )


def _take(x, positions):
    shape = aval_of(x).shape
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
    return gather(x, expand_dims(positions, (1,)), numbers, (1, *shape[1:]), mode="clip")


_received = mlir.lower_fun(_receive, multiple_results=False)


# -- derivatives ------------------------------------------------------------------------------------------


def _jvp(primals, tangents, **params):
    out = ragged_all_to_all_p.bind(*primals, **params)
    t_operand, t_output = tangents[:2]
    if type(t_operand) is ad.Zero and type(t_output) is ad.Zero:
        return out, ad.Zero.of(out)
    return out, ragged_all_to_all_p.bind(
        ad.instantiate_zeros(t_operand), ad.instantiate_zeros(t_output), *primals[2:], **params
    )


def _transpose(
    ct,
    operand,
    output,
    input_offsets,
    send_sizes,
    output_offsets,
    recv_sizes,
    *,
    axis_name,
    axis_index_groups,
):
    """Sends the cotangent of every piece back to its sender; overwritten rows of `output` get zero."""
    linear = [ad.is_undefined_primal(x) for x in (operand, output)]
    ct = require_varying(_NAME, ct, axis_name)

    def exchanged(v):
        return all_to_all_p.bind(
            require_varying(_NAME, v, axis_name),
            split_axis=0,
            concat_axis=0,
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
            tiled=True,
        )

    arrived = exchanged(output_offsets)
    out = [None] * 6
    if linear[0]:
        out[0] = ragged_all_to_all_p.bind(
            ct,
            ad.zeros_like_aval(operand.aval),
            arrived,
            recv_sizes,
            exchanged(input_offsets),
            send_sizes,
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
        )
    if linear[1]:
        shape = aval_of(ct).shape
        inside = gt(_covered(arrived, recv_sizes, shape[0]), np.int32(0))
        out[1] = select_n(broadcast_in_dim(inside, shape, (0,)), ct, full_like(ct, 0))
    return out


def _covered(starts, sizes, m):
    """In how many pieces each of `m` rows lies: the running sum of beginnings less ends."""
    ends = add(starts, convert_element_type(sizes, aval_of(starts).dtype))
    at = expand_dims(concatenate([starts, ends], 0), (1,))
    k = aval_of(starts).shape[0]
    marks = scatter_add(
        full((m + 1,), 0, np.int32),
        at,
        np.repeat(np.int32([1, -1]), k),
        ScatterDimensionNumbers((), (0,), (0,)),
    )
    return slice_in_dim(cumsum(marks, 0), 0, m)


# -- batching ---------------------------------------------------------------------------------------------


def _batch(axis, operands, dims, *, axis_name, axis_index_groups):
    if axis_index_groups is not None:
        raise NotImplementedError(
            f"{_NAME} with axis_index_groups under vmap: call it without groups, over an axis of a group's size"
        )
    if axis.name in axis_name:
        return _batch_own(axis, operands, dims, axis_name)
    b = axis.size
    data = [batching.move_batch_dim_to(x, d, b, 0) for x, d in zip(operands[:2], dims)]
    # Pieces of all examples stay with their receiver.
    vectors = [batching.move_batch_dim_to(x, d, b, 1) for x, d in zip(operands[2:], dims[2:])]
    for i, x in ((0, data[0]), (2, data[1])):
        kind = aval_of(vectors[i]).dtype
        example = broadcast_in_dim(iota(kind, b), (1, b), (1,))
        vectors[i] = add(vectors[i], mul(example, np.asarray(aval_of(x).shape[1]).astype(kind)[()]))
    flat = [reshape(x, (b * aval_of(x).shape[1], *aval_of(x).shape[2:])) for x in data]
    out = ragged_all_to_all_p.bind(
        *flat,
        *(reshape(v, (aval_of(v).shape[0] * b,)) for v in vectors),
        axis_name=axis_name,
        axis_index_groups=None,
    )
    return reshape(out, aval_of(data[1]).shape), 0


def _batch_own(axis, operands, dims, names):
    """The members are the examples: pieces are dealt out to their receivers, which pick rows of all operands."""
    single_name(names, axis.name, _NAME)
    n = axis.size
    operand, output, *vectors = (
        batching.move_batch_dim_to(x, d, n, 0) for x, d in zip(operands[:5], dims)
    )
    shape = aval_of(operand).shape
    whole = reshape(operand, (n * shape[1], *shape[2:]))
    k = aval_of(vectors[0]).shape[1]
    dealt = [reshape(transpose(reshape(v, (n, n, k // n)), (1, 0, 2)), (n, k)) for v in vectors]
    run, out_dims = batching.batch_flat(
        lambda *xs: [_receive(*xs, senders=n)], Axis(None, n, "vmap"), [None, 0, 0, 0, 0]
    )
    (out,) = run(whole, output, *dealt)
    return out, out_dims.dims[0]


ragged_all_to_all_p = Primitive(_NAME, auto_pvary=False, context_dependent=True)
ragged_all_to_all_p.def_effectful_abstract_eval(_aval)
ragged_all_to_all_p.def_impl(_unmapped)
ad.primitive_jvps[ragged_all_to_all_p] = _jvp
ad.primitive_transposes[ragged_all_to_all_p] = _transpose
batching.axis_primitive_batchers[ragged_all_to_all_p] = _batch
mlir.register_text_lowering(ragged_all_to_all_p, _lowering)
mlir.register_text_lowering(ragged_all_to_all_p, _emulation, "cpu")
collective_rules[ragged_all_to_all_p] = lambda avals_in, avals_out, axis_name, axis_index_groups: (
    CollectiveOp(
        "ragged_all_to_all", axis_name, "", size(avals_in[:1]), size(avals_out), axis_index_groups
    )
)
arrivals[ragged_all_to_all_p] = everyone_in_groups
