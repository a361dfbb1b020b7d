"""Keys of the compiler's own generator: fast on accelerators, with bits that depend on platform and shape.

A key is four words. `rbg` splits and folds in with threefry, half by half; `unsafe` uses the generator for that too, which
nobody has proved to give independent streams.
"""

from __future__ import annotations

import math

import numpy as np

from xlab.core.avals import ShapedArray
from xlab.interpreters import mlir
from xlab.random import threefry

_U32 = np.dtype(np.uint32)


def _halves(ctx, keys, shape):
    """The two threefry keys inside each key."""
    whole, half = (mlir.tensor_type(ShapedArray((*shape, n), _U32)) for n in (4, 2))
    lead = "".join(f"0:{d}, " for d in shape)
    return [
        ctx.op(f"stablehlo.slice {keys} [{lead}{i}:{i + 2}] : ({whole}) -> {half}") for i in (0, 2)
    ]


def _joined(ctx, halves, shape):
    half, whole = (mlir.tensor_type(ShapedArray((*shape, n), _U32)) for n in (2, 4))
    return ctx.op(
        f"stablehlo.concatenate {halves[0]}, {halves[1]}, dim = {len(shape)} : ({half}, {half}) -> {whole}"
    )


def seed(ctx, seeds, aval):
    half = threefry.seed(ctx, seeds, aval)
    return _joined(ctx, [half, half], aval.shape)


def split(ctx, keys, batch, shape):
    halves = [threefry.split(ctx, k, batch, shape) for k in _halves(ctx, keys, batch)]
    return _joined(ctx, halves, (*batch, *shape))


def fold_in(ctx, keys, data, data_aval, shape):
    return _joined(
        ctx,
        [threefry.fold_in(ctx, k, data, data_aval, shape) for k in _halves(ctx, keys, shape)],
        shape,
    )


def _generate(ctx, keys, batch, aval):
    """The generator started from the first key of a batch."""
    if batch:
        n = len(batch)
        rows, one = (mlir.tensor_type(ShapedArray((*s, 4), _U32)) for s in (batch, (1,) * n))
        first = ctx.op(f"stablehlo.slice {keys} [{'0:1, ' * n}0:4] : ({rows}) -> {one}")
        keys = ctx.op(f"stablehlo.reshape {first} : ({one}) -> tensor<4xui32>")
    words = ctx.op(f"stablehlo.reshape {keys} : (tensor<4xui32>) -> tensor<2x2xui32>")
    words = ctx.op(f"stablehlo.bitcast_convert {words} : (tensor<2x2xui32>) -> tensor<2xui64>")
    return ctx.ops(
        f"stablehlo.rng_bit_generator {words}, algorithm = DEFAULT : (tensor<2xui64>) -> "
        f"(tensor<2xui64>, {mlir.tensor_type(aval)})",
        2,
    )[1]


def bits(ctx, keys, batch, shape, bit_width):
    """A batch of keys draws one block from its first key, so `vmap` gives other numbers than a loop does."""
    return _generate(ctx, keys, batch, ShapedArray((*batch, *shape), np.dtype(f"uint{bit_width}")))


# Rows of the generator's output that lie between two keys made from it.
_STRIDE = 10


def _unsafe_split(ctx, keys, batch, shape):
    n = math.prod(shape)
    drawn, kept, out = (
        ShapedArray(s, _U32)
        for s in ((*batch, n * _STRIDE, 4), (*batch, n, 4), (*batch, *shape, 4))
    )
    rows = _generate(ctx, keys, batch, drawn)
    lead = "".join(f"0:{d}, " for d in batch)
    rows = ctx.op(
        f"stablehlo.slice {rows} [{lead}0:{n * _STRIDE}:{_STRIDE}, 0:4] : "
        f"({mlir.tensor_type(drawn)}) -> {mlir.tensor_type(kept)}"
    )
    return ctx.op(
        f"stablehlo.reshape {rows} : ({mlir.tensor_type(kept)}) -> {mlir.tensor_type(out)}"
    )


def _unsafe_fold_in(ctx, keys, data, data_aval, shape):
    """The key, xor what the generator draws when started from the data."""
    own = data_aval.shape
    drawn, last, small, out = (
        ShapedArray(s, _U32) for s in ((*own, _STRIDE, 4), (*own, 1, 4), (*own, 4), (*shape, 4))
    )
    rows = _generate(ctx, seed(ctx, data, data_aval), own, drawn)
    lead = "".join(f"0:{d}, " for d in own)
    rows = ctx.op(
        f"stablehlo.slice {rows} [{lead}{_STRIDE - 1}:{_STRIDE}, 0:4] : "
        f"({mlir.tensor_type(drawn)}) -> {mlir.tensor_type(last)}"
    )
    rows = ctx.op(
        f"stablehlo.reshape {rows} : ({mlir.tensor_type(last)}) -> {mlir.tensor_type(small)}"
    )
    rows = ctx.broadcast(rows, small, out, range(len(shape) - len(own), len(shape) + 1))
    return ctx.op(f"stablehlo.xor {keys}, {rows} : {mlir.tensor_type(out)}")


class unsafe:
    """The generator used for everything: splitting and folding in too."""

    seed = staticmethod(seed)
    split = staticmethod(_unsafe_split)
    fold_in = staticmethod(_unsafe_fold_in)
    bits = staticmethod(bits)
