"""Random bits and numbers straight from the compiler's own generators."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import is_symbolic_shape
from xlab.core.primitive import Primitive
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.shape import canonical_shape, squeeze
from xlab.lax.slicing import slice_in_dim
from xlab.lax.slicing_in_dim import dynamic_update_index_in_dim

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]


class RandomAlgorithm(enum.IntEnum):
    """The generator behind `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self):
        return self.name


_DRAWN = ("float16", "bfloat16", "float32", "float64", "int32", "uint32", "int64", "uint64")


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Uniform numbers in [a, b) from the device's stateful generator; prefer `xlab.random`.

    Args:
        a, b: the bounds.
        shape: the shape of the result.
    """
    return rng_uniform_p.bind(a, b, shape=canonical_shape(shape))


def _uniform_aval(a, b, *, shape):
    if a.dtype != b.dtype:
        raise ValueError(
            f"rng_uniform takes bounds of one dtype, got {dtypes.name(a.dtype)} and {dtypes.name(b.dtype)}"
        )
    if a.shape or b.shape:
        raise ValueError(f"rng_uniform takes scalar bounds, got shapes {a.shape} and {b.shape}")
    if dtypes.name(a.dtype) not in _DRAWN:  # the compiler ends the process
        raise TypeError(
            f"rng_uniform draws {', '.join(_DRAWN)}, got bounds of dtype {dtypes.name(a.dtype)}; draw one of these and convert"
        )
    return ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)


def _sizes(ctx, shape):
    aval = ShapedArray((len(shape),), np.dtype(np.int64))
    if not is_symbolic_shape(shape):
        return ctx.constant(np.asarray(shape, np.int64), aval)
    return ctx.op(
        f"stablehlo.constant dense<[{', '.join(map(str, shape))}]> : {mlir.tensor_type(aval)}"
    )


def _uniform_lowering(ctx, a, b, *, shape):
    size = _sizes(ctx, shape)
    return ctx.op(
        f"stablehlo.rng {a}, {b}, {size}, distribution = UNIFORM : ({ctx.type_in(0)}, {ctx.type_in(1)}, "
        f"tensor<{len(shape)}xi64>) -> {ctx.type_out()}"
    )


rng_uniform_p = Primitive("rng_uniform")
rng_uniform_p.def_abstract_eval(_uniform_aval)
ad.primitive_jvps.excuse(rng_uniform_p, "a draw has no derivative in its bounds")
batching.primitive_batchers.excuse(
    rng_uniform_p, "draws have state, as in JAX: each example would need its own"
)
mlir.register_text_lowering(rng_uniform_p, _uniform_lowering)


def rng_bit_generator(
    key: ArrayLike,
    shape: Sequence[int],
    dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: ShardingLike | None = None,
) -> tuple[Array, Array]:
    """The state after drawing, and random bits of an unsigned dtype, from the generator of the device.

    Args:
        key: the state: four uint32 or two uint64 words.
    """
    algorithm = RandomAlgorithm(algorithm)
    return tuple(
        rng_bit_generator_p.bind(
            key,
            shape=canonical_shape(shape),
            dtype=dtypes.canonicalize_dtype(dtype),
            algorithm=algorithm,
            out_sharding=out_sharding,
        )
    )


def _bits_aval(key, *, shape, dtype, algorithm, out_sharding):
    if (key.shape, key.dtype) not in (((4,), np.dtype(np.uint32)), ((2,), np.dtype(np.uint64))):
        raise TypeError(
            f"rng_bit_generator takes a state of four uint32 or two uint64 words, got {key}"
        )
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise TypeError(
            f"rng_bit_generator gives unsigned integers, got dtype {dtypes.name(dtype)}"
        )
    return [key, ShapedArray(shape, dtype)]


_ALGORITHMS = {
    RandomAlgorithm.RNG_DEFAULT: "DEFAULT",
    RandomAlgorithm.RNG_THREE_FRY: "THREE_FRY",
    RandomAlgorithm.RNG_PHILOX: "PHILOX",
}


def _bits_lowering(ctx, key, *, algorithm, **_):
    narrow = ctx.avals_in[0].dtype == np.uint32
    if narrow:
        key = ctx.op(f"stablehlo.reshape {key} : (tensor<4xui32>) -> tensor<2x2xui32>")
        key = ctx.op(f"stablehlo.bitcast_convert {key} : (tensor<2x2xui32>) -> tensor<2xui64>")
    state, bits = ctx.ops(
        f"stablehlo.rng_bit_generator {key}, algorithm = {_ALGORITHMS[algorithm]} : (tensor<2xui64>) -> "
        f"(tensor<2xui64>, {ctx.type_out(1)})",
        2,
    )
    if narrow:
        state = ctx.op(f"stablehlo.bitcast_convert {state} : (tensor<2xui64>) -> tensor<2x2xui32>")
        state = ctx.op(f"stablehlo.reshape {state} : (tensor<2x2xui32>) -> tensor<4xui32>")
    return [state, bits]


def _bits_batch(xs, dims, *, shape, **params):
    """A batch of states draws one block from its first state, so `vmap` gives other numbers than a loop does."""
    keys = batching.moveaxis(xs[0], dims[0], 0)
    first = squeeze(slice_in_dim(keys, 0, 1, axis=0), (0,))
    state, bits = rng_bit_generator_p.bind(first, shape=(aval_of(keys).shape[0], *shape), **params)
    return [dynamic_update_index_in_dim(keys, state, 0, 0), bits], [0, 0]


rng_bit_generator_p = Primitive("rng_bit_generator", multiple_results=True)
rng_bit_generator_p.def_abstract_eval(_bits_aval)
ad.primitive_jvps.excuse(rng_bit_generator_p, "bits are integers")
batching.primitive_batchers[rng_bit_generator_p] = _bits_batch
mlir.register_text_lowering(rng_bit_generator_p, _bits_lowering)


def _cost(avals_in, avals_out, **_):
    # Philox and Threefry take some fifty operations for each word.
    return costs.Cost(50 * avals_out[-1].size, unit="other")


costs.register(_cost, rng_uniform_p, rng_bit_generator_p)
