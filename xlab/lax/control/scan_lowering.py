"""The loop that `scan` is in StableHLO."""

from __future__ import annotations

import numpy as np

from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, compared, max_dim
from xlab.interpreters import mlir
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax.comparison import gt, select
from xlab.lax.control.scan import parts, scan_p
from xlab.lax.creation import zeros_like_aval
from xlab.lax.dim_value import dim_as_value
from xlab.lax.shape import pad
from xlab.lax.slicing import slice_in_dim


def _scan_lowering(ctx, *args, jaxpr, num_consts, num_carry, length, reverse, unroll):
    if isinstance(length, SymbolicDim) and compared(length, ">=", 1) is not True:
        return _maybe_empty(
            ctx,
            *args,
            jaxpr=jaxpr,
            num_consts=num_consts,
            num_carry=num_carry,
            length=length,
            reverse=reverse,
            unroll=unroll,
        )
    consts, init, xs = parts(args, num_consts, num_carry)
    _, _, x_avals = parts(jaxpr.in_avals, num_consts, num_carry)
    y_avals = jaxpr.out_avals[num_carry:]
    stacked, x_whole = ctx.avals_out[num_carry:], ctx.avals_in[num_consts + num_carry :]
    eqn_avals = ctx.avals_out
    i32 = aval_of(np.int32(0))
    ys = mlir.constrain_sums(ctx, [_zeros(ctx, a) for a in stacked], stacked)

    def one(index, carry, buffers):
        """One iteration at position `index` (a name)."""
        carry = mlir.constrain_sums(ctx, carry, jaxpr.out_avals[:num_carry])
        buffers = mlir.constrain_sums(ctx, buffers, stacked)
        given = mlir.constrain_sums(ctx, consts, jaxpr.in_avals[:num_consts])
        elements = mlir.constrain_sums(
            ctx,
            [
                _element(ctx, x, a, length, index)
                for x, a in zip(mlir.constrain_sums(ctx, xs, x_whole), x_avals)
            ],
            x_avals,
        )
        outs = mlir.constrain_sums(
            ctx, ctx.jaxpr(jaxpr, [*given, *carry, *elements]), jaxpr.out_avals
        )
        buffers = [
            _store(ctx, buffer, y, a, length, index)
            for buffer, y, a in zip(buffers, outs[num_carry:], y_avals)
        ]
        return outs[:num_carry], mlir.constrain_sums(ctx, buffers, stacked)

    def position(i):
        return ctx.dimension(length - 1 - i if reverse else i)

    trips, rest = divmod(length, unroll)
    carry = list(init)
    if (trips == 1 and unroll == length) or length == 1:
        for i in range(length):
            carry, ys = one(position(i), carry, ys)
        return [*carry, *ys]
    ordered = _effects.in_order(jaxpr.effects)
    types = [
        *[mlir.TOKEN_TYPE] * len(ordered),
        "tensor<i32>",
        *(mlir.tensor_type(a) for a in eqn_avals),
    ]
    if trips:

        def keep_going(names):
            limit = ctx.dimension(trips * unroll)
            return [
                ctx.op(
                    f"stablehlo.compare LT, {names[len(ordered)]}, {limit}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"
                )
            ]

        def step(names):
            i, state, buffers = names[0], names[1 : 1 + num_carry], names[1 + num_carry :]
            one_more = ctx.constant(np.int32(1), i32)
            for _ in range(unroll):
                index = i
                if reverse:
                    index = ctx.op(
                        f"stablehlo.subtract {ctx.dimension(length - 1)}, {i} : tensor<i32>"
                    )
                state, buffers = one(index, state, buffers)
                i = ctx.op(f"stablehlo.add {i}, {one_more} : tensor<i32>")
            return [i, *state, *buffers]

        zero = ctx.constant(np.int32(0), i32)
        cond = ctx.block(types, keep_going, ["tensor<i1>"])
        body = ctx.block(types, lambda names: ctx.with_tokens(ordered, names, step), types)
        joined = ", ".join(types)
        operands = ", ".join([*ctx.tokens(ordered), zero, *carry, *ys])
        outs = ctx.ops(
            f'"stablehlo.while"({operands}) ({cond}, {body}) : ({joined}) -> ({joined})', len(types)
        )
        outs = ctx.take_tokens(ordered, outs)
        carry, ys = outs[1 : 1 + num_carry], outs[1 + num_carry :]
    for i in range(rest):
        carry, ys = one(position(length - rest + i), carry, ys)
    return [*carry, *ys]


def _not_empty(*args, jaxpr, num_consts, num_carry, length, reverse, unroll):
    """The loop with at least one iteration. If there are none, one runs on zeros, and nothing of it is taken.

    Code for elements of an array of size zero is refused, whether it runs or not.
    """
    consts, init, xs = parts(args, num_consts, num_carry)
    room = max_dim(length, 1)
    outs = scan_p.bind(
        *consts,
        *init,
        *(_with_room(x, room) for x in xs),
        jaxpr=jaxpr,
        num_consts=num_consts,
        num_carry=num_carry,
        length=room,
        reverse=reverse,
        unroll=unroll,
    )
    runs = gt(dim_as_value(length), 0)
    carry = [select(runs, out, old) for out, old in zip(outs, init)]
    return [*carry, *(slice_in_dim(y, 0, length) for y in outs[num_carry:])]


def _with_room(x, room):
    aval = aval_of(x)
    more = [(0, room - aval.shape[0], 0), *[(0, 0, 0)] * (aval.ndim - 1)]
    return pad(x, zeros_like_aval(aval.update(shape=())), more)


_maybe_empty = mlir.lower_fun(_not_empty)


def _zeros(ctx, aval):
    physical = physical_aval(aval)
    return ctx.fill(
        np.zeros((), physical.dtype)[()]
        if physical.dtype.kind != "V" or physical.dtype.names is None
        else 0,
        physical,
    )


def _element(ctx, x, aval, length, index):
    physical = physical_aval(aval)
    whole = mlir.tensor_type(physical.update(shape=(length, *physical.shape)))
    part = mlir.tensor_type(physical.update(shape=(1, *physical.shape)))
    zero = ctx.constant(np.int32(0), aval_of(np.int32(0)))
    starts = ", ".join([index, *[zero] * physical.ndim])
    types = ", ".join(["tensor<i32>"] * (physical.ndim + 1))
    sizes = ", ".join(map(str, (1, *physical.shape)))
    piece = ctx.op(
        f"stablehlo.dynamic_slice {x}, {starts}, sizes = [{sizes}] : ({whole}, {types}) -> {part}"
    )
    (piece,) = mlir.constrain_sums(ctx, [piece], [aval.with_dimension(0, 1)])
    return ctx.op(f"stablehlo.reshape {piece} : ({part}) -> {mlir.tensor_type(physical)}")


def _store(ctx, buffer, y, aval, length, index):
    physical = physical_aval(aval)
    whole = mlir.tensor_type(physical.update(shape=(length, *physical.shape)))
    part = mlir.tensor_type(physical.update(shape=(1, *physical.shape)))
    piece = ctx.op(f"stablehlo.reshape {y} : ({mlir.tensor_type(physical)}) -> {part}")
    (piece,) = mlir.constrain_sums(ctx, [piece], [aval.with_dimension(0, 1)])
    zero = ctx.constant(np.int32(0), aval_of(np.int32(0)))
    starts = ", ".join([index, *[zero] * physical.ndim])
    types = ", ".join(["tensor<i32>"] * (physical.ndim + 1))
    return ctx.op(
        f"stablehlo.dynamic_update_slice {buffer}, {piece}, {starts} : ({whole}, {part}, {types}) -> {whole}"
    )


mlir.register_text_lowering(scan_p, _scan_lowering)
