"""Threefry-2x32: the counter-based generator behind the default keys, written out as StableHLO.

A key is two words and a counter is two words; twenty rounds of add, rotate and xor make two words of random bits (Salmon,
Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011). Each element depends on its own counter
only, so a sharded program draws the same numbers as one on a single device. The rounds are unrolled: they fuse into one loop.

Programs that were written when the elements were counted in halves, the second after the first, ask for those numbers with the option
`threefry_partitionable=False`.
"""

from __future__ import annotations

import math

import numpy as np

from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.core.dims import within
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.elementwise import check_dtypes, joint_shape

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_U32 = np.dtype(np.uint32)
_U64 = np.dtype(np.uint64)


def threefry_words(ctx, k0: str, k1: str, x0: str, x1: str, key_aval, aval) -> tuple[str, str]:
    """Emits the rounds for counters of type `aval`; the words of the key have type `key_aval`, a scalar or `aval`."""
    t, tk = mlir.tensor_type(aval), mlir.tensor_type(key_aval)
    scalar = aval.update(shape=())

    def amount(n, like):
        return ctx.broadcast_operand(ctx.constant(np.uint32(n), scalar), scalar, like)

    def word(k):
        return ctx.broadcast_operand(k, key_aval, aval)

    k2 = ctx.op(f"stablehlo.xor {k0}, {k1} : {tk}")
    k2 = ctx.op(f"stablehlo.xor {k2}, {amount(_PARITY, key_aval)} : {tk}")
    keys = (k0, k1, k2)
    spread = {n: amount(n, aval) for row in _ROTATIONS for r in row for n in (r, 32 - r)}
    x0 = ctx.op(f"stablehlo.add {x0}, {word(k0)} : {t}")
    x1 = ctx.op(f"stablehlo.add {x1}, {word(k1)} : {t}")
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = ctx.op(f"stablehlo.add {x0}, {x1} : {t}")
            high = ctx.op(f"stablehlo.shift_left {x1}, {spread[r]} : {t}")
            low = ctx.op(f"stablehlo.shift_right_logical {x1}, {spread[32 - r]} : {t}")
            x1 = ctx.op(f"stablehlo.or {high}, {low} : {t}")
            x1 = ctx.op(f"stablehlo.xor {x0}, {x1} : {t}")
        x0 = ctx.op(f"stablehlo.add {x0}, {word(keys[(i + 1) % 3])} : {t}")
        k = ctx.op(f"stablehlo.add {keys[(i + 2) % 3]}, {amount(i + 1, key_aval)} : {tk}")
        x1 = ctx.op(f"stablehlo.add {x1}, {word(k)} : {t}")
    return x0, x1


def _threefry_aval(k0, k1, x0, x1):
    avals = (k0, k1, x0, x1)
    check_dtypes("threefry2x32", avals, lambda d: d == _U32)
    out = ShapedArray(joint_shape("threefry2x32", avals), _U32)
    return out, out


def _threefry_lowering(ctx, *operands):
    out = ctx.avals_out[0]
    k0, k1, x0, x1 = (ctx.broadcast_operand(x, a, out) for x, a in zip(operands, ctx.avals_in))
    return list(threefry_words(ctx, k0, k1, x0, x1, out, out))


threefry2x32_p = Primitive("threefry2x32", multiple_results=True)
threefry2x32_p.def_abstract_eval(_threefry_aval)
ad.defzero(threefry2x32_p)
batching.defbroadcasting(threefry2x32_p)
mlir.register_text_lowering(threefry2x32_p, _threefry_lowering)


# -- what keys of this kind do; each takes and gives names of values made of the keys' words ---------------------


def key_words(ctx, keys: str, shape: tuple[int, ...], width: int = 2) -> list[str]:
    """The words of an array of keys, each an array of the keys' shape."""
    whole, one, word = (
        mlir.tensor_type(ShapedArray(s, _U32)) for s in ((*shape, width), (*shape, 1), shape)
    )
    lead = "".join(f"0:{d}, " for d in shape)
    out = []
    for i in range(width):
        part = ctx.op(f"stablehlo.slice {keys} [{lead}{i}:{i + 1}] : ({whole}) -> {one}")
        out.append(ctx.op(f"stablehlo.reshape {part} : ({one}) -> {word}"))
    return out


def join_words(ctx, words, shape: tuple[int, ...]) -> str:
    """Keys from their words."""
    word, one, whole = (
        mlir.tensor_type(ShapedArray(s, _U32)) for s in (shape, (*shape, 1), (*shape, len(words)))
    )
    parts = [ctx.op(f"stablehlo.reshape {w} : ({word}) -> {one}") for w in words]
    return ctx.op(
        f"stablehlo.concatenate {', '.join(parts)}, dim = {len(shape)} : "
        f"({', '.join([one] * len(parts))}) -> {whole}"
    )


def counters(ctx, batch: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, str]:
    """Row-major positions in `shape` as two words, repeated over the batch of keys."""
    size = math.prod(shape) if shape else 1
    dtype = _U32 if within(size, 2**32) else _U64
    aval, word = (ShapedArray((*batch, *shape), d) for d in (dtype, _U32))
    t, tw = mlir.tensor_type(aval), mlir.tensor_type(word)
    total, stride = None, 1
    for axis in reversed(range(len(shape))):
        if shape[axis] != 1:
            place = ctx.op(f"stablehlo.iota dim = {axis + len(batch)} : {t}")
            if stride != 1:
                place = ctx.op(f"stablehlo.multiply {place}, {ctx.fill(stride, aval)} : {t}")
            total = place if total is None else ctx.op(f"stablehlo.add {total}, {place} : {t}")
        stride *= shape[axis]
    zero = ctx.fill(0, word)
    if total is None:
        return zero, zero
    if dtype is _U32:
        return zero, total
    high = ctx.op(f"stablehlo.shift_right_logical {total}, {ctx.fill(32, aval)} : {t}")
    return tuple(ctx.op(f"stablehlo.convert {x} : ({t}) -> {tw}") for x in (high, total))


def seed(ctx, seeds, aval):
    """Keys [high word, low word] of integer seeds; narrow seeds have high word 0."""
    out = ShapedArray(aval.shape, _U32)
    t, to = mlir.tensor_type(aval), mlir.tensor_type(out)
    low = seeds if aval.dtype == _U32 else ctx.op(f"stablehlo.convert {seeds} : ({t}) -> {to}")
    if dtypes.itemsize_bits(aval.dtype) <= 32:
        high = ctx.fill(0, out)
    else:
        high = ctx.op(f"stablehlo.shift_right_logical {seeds}, {ctx.fill(32, aval)} : {t}")
        high = ctx.op(f"stablehlo.convert {high} : ({t}) -> {to}")
    return join_words(ctx, [high, low], aval.shape)


def _draw(ctx, keys, batch, shape):
    """Two words for every position of `shape`, for every key."""
    key_aval, aval = ShapedArray(batch, _U32), ShapedArray((*batch, *shape), _U32)
    k0, k1 = key_words(ctx, keys, batch)
    if batch:
        k0, k1 = (ctx.broadcast(k, key_aval, aval, range(len(batch))) for k in (k0, k1))
        key_aval = aval
    x0, x1 = counters(ctx, batch, shape)
    return threefry_words(ctx, k0, k1, x0, x1, key_aval, aval)


def _draw_halves(ctx, keys, batch, count: int) -> tuple[str, str, ShapedArray]:
    """For every key the words of counters 0, 1, ...: the first half of `count` (rounded up) and the second, which are counted as one row."""
    half = -(-count // 2)
    key_aval, aval = ShapedArray(batch, _U32), ShapedArray((*batch, half), _U32)
    t = mlir.tensor_type(aval)
    k0, k1 = (
        ctx.broadcast(k, key_aval, aval, range(len(batch))) for k in key_words(ctx, keys, batch)
    )
    first = ctx.op(f"stablehlo.iota dim = {len(batch)} : {t}")
    second = ctx.op(f"stablehlo.add {first}, {ctx.fill(half, aval)} : {t}")
    if count % 2:  # the counter that is one too many is zero
        second = ctx.op(f"stablehlo.remainder {second}, {ctx.fill(count, aval)} : {t}")
    return *threefry_words(ctx, k0, k1, first, second, aval, aval), aval


def _row(ctx, first: str, second: str, half: ShapedArray, count: int) -> tuple[str, ShapedArray]:
    """The two halves as one row of `count` words."""
    *batch, n = half.shape
    whole, row = half.update(shape=(*batch, 2 * n)), half.update(shape=(*batch, count))
    t, tw = mlir.tensor_type(half), mlir.tensor_type(whole)
    words = ctx.op(
        f"stablehlo.concatenate {first}, {second}, dim = {len(batch)} : ({t}, {t}) -> {tw}"
    )
    if count == 2 * n:
        return words, whole
    parts = ", ".join(f"0:{d}" for d in row.shape)
    return ctx.op(f"stablehlo.slice {words} [{parts}] : ({tw}) -> {mlir.tensor_type(row)}"), row


def _split_in_halves(ctx, keys, batch, shape):
    n = 2 * math.prod(shape)
    words, row = _row(ctx, *_draw_halves(ctx, keys, batch, n), n)
    out = row.update(shape=(*batch, *shape, 2))
    return ctx.op(
        f"stablehlo.reshape {words} : ({mlir.tensor_type(row)}) -> {mlir.tensor_type(out)}"
    )


def _bits_in_halves(ctx, keys, batch, shape, bit_width):
    """Words of 64 bits are made of both halves; narrow ones lie in a word one after the other, the lowest bits first."""
    size = math.prod(shape)
    count = -(-bit_width * size // 32)
    first, second, half = _draw_halves(ctx, keys, batch, count)
    out = half.update(shape=(*batch, *shape), dtype=np.dtype(f"uint{bit_width}"))
    if bit_width == 64:
        words, row = _joined_words(ctx, first, second, half), half.update(dtype=_U64)
    else:
        words, row = _row(ctx, first, second, half, count)
    if bit_width < 32:
        each = 32 // bit_width
        parts = row.update(shape=(*row.shape, each))
        t = mlir.tensor_type(parts)
        words = ctx.broadcast(words, row, parts, range(row.ndim))
        place = ctx.op(f"stablehlo.iota dim = {row.ndim} : {t}")
        place = ctx.op(f"stablehlo.multiply {place}, {ctx.fill(bit_width, parts)} : {t}")
        words = ctx.op(f"stablehlo.shift_right_logical {words}, {place} : {t}")
        narrow, flat, row = (
            half.update(shape=s, dtype=out.dtype)
            for s in (parts.shape, (*batch, count * each), (*batch, size))
        )
        words = ctx.op(f"stablehlo.convert {words} : ({t}) -> {mlir.tensor_type(narrow)}")
        words = ctx.op(
            f"stablehlo.reshape {words} : ({mlir.tensor_type(narrow)}) -> {mlir.tensor_type(flat)}"
        )
        if flat.shape != row.shape:
            kept = ", ".join(f"0:{d}" for d in row.shape)
            words = ctx.op(
                f"stablehlo.slice {words} [{kept}] : ({mlir.tensor_type(flat)}) -> {mlir.tensor_type(row)}"
            )
    return ctx.op(
        f"stablehlo.reshape {words} : ({mlir.tensor_type(row)}) -> {mlir.tensor_type(out)}"
    )


def _joined_words(ctx, high: str, low: str, aval) -> str:
    """Words of 64 bits from two of 32."""
    t, wide = mlir.tensor_type(aval), aval.update(dtype=_U64)
    tw = mlir.tensor_type(wide)
    high, low = (ctx.op(f"stablehlo.convert {x} : ({t}) -> {tw}") for x in (high, low))
    high = ctx.op(f"stablehlo.shift_left {high}, {ctx.fill(32, wide)} : {tw}")
    return ctx.op(f"stablehlo.or {high}, {low} : {tw}")


def split(ctx, keys, batch, shape):
    if not config.threefry_partitionable:
        return _split_in_halves(ctx, keys, batch, shape)
    return join_words(ctx, _draw(ctx, keys, batch, shape), (*batch, *shape))


def fold_in(ctx, keys, data, data_aval, shape):
    """The key that counter (0, data) makes: the words drawn there are the new key."""
    aval = ShapedArray(shape, _U32)
    k0, k1 = key_words(ctx, keys, shape)
    data = ctx.broadcast_operand(data, data_aval, aval)
    return join_words(ctx, threefry_words(ctx, k0, k1, ctx.fill(0, aval), data, aval, aval), shape)


def bits(ctx, keys, batch, shape, bit_width):
    if not config.threefry_partitionable:
        return _bits_in_halves(ctx, keys, batch, shape, bit_width)
    high, low = _draw(ctx, keys, batch, shape)
    aval = ShapedArray((*batch, *shape), _U32)
    t = mlir.tensor_type(aval)
    if bit_width == 64:
        return _joined_words(ctx, high, low, aval)
    tw = mlir.tensor_type(aval.update(dtype=np.dtype(f"uint{bit_width}")))
    word = ctx.op(f"stablehlo.xor {high}, {low} : {t}")
    return word if bit_width == 32 else ctx.op(f"stablehlo.convert {word} : ({t}) -> {tw}")


# Twenty rounds of an addition, a rotation of three operations and an exclusive or, and five additions of keys, for two words.
costs.register(costs.each(115), threefry2x32_p)
