"""Random keys whose words are made and used by functions of the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.jaxpr import number_equations
from xlab.interpreters import partial_eval as pe
from xlab.lax.creation import zeros_like_aval
from xlab.lax.shape import broadcast_in_dim, concatenate, reshape
from xlab.lax.slicing import slice_in_dim
from xlab.random.bits import (
    Implementation,
    random_seed_p,
)
from xlab.random.threefry import threefry2x32_p


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable,
    split: Callable,
    random_bits: Callable,
    fold_in: Callable,
    name: str = "<unnamed>",
    tag: str = "?",
) -> Implementation:
    """A kind of random key, for `impl=` of `random.key`, `wrap_key_data` and `key_dtype`; all of `random` works with it.

    The functions are traced, for one key at a time; arrays of keys are mapped over. A key is an array of uint32 of shape `key_shape`.

    Args:
        key_shape: the shape of a key's words.
        seed: `seed(integer) -> key`.
        split: `split(key, shape) -> keys`, an array of shape `(*shape, *key_shape)`.
        random_bits: `random_bits(key, bit_width, shape) -> bits`, of dtype `uint8`, ..., `uint64`.
        fold_in: `fold_in(key, data) -> key`, where the data are a uint32.
        name: what messages call it.
        tag: a short name, as it stands in types: `key<tag>`.

    Raises:
        TypeError: when a key is used, for a function whose result has another type than said above.

    Example:
        >>> import numpy as np, xlab, xlab.numpy as jnp
        >>> count = define_prng_impl(
        ...     key_shape=(1,),
        ...     seed=lambda s: s.astype(np.uint32).reshape(1),
        ...     split=lambda k, shape: k + jnp.arange(1, 1 + int(np.prod(shape)), dtype=np.uint32).reshape(*shape, 1),
        ...     random_bits=lambda k, width, shape: jnp.full(shape, k[0]).astype(f"uint{width}"),
        ...     fold_in=lambda k, data: k + data,
        ...     name="count", tag="count",
        ... )
        >>> xlab.random.bits(xlab.random.key(3, impl=count), (2,)).tolist()
        [3, 3]
    """
    given = {"seed": seed, "split": split, "random_bits": random_bits, "fold_in": fold_in}
    for what, function in given.items():
        if not callable(function):
            raise TypeError(f"define_prng_impl: {what} has to be a function, got {function!r}")
    key_shape = tuple(key_shape)

    def seed_rule(ctx, seeds, aval):
        return _lowered(
            ctx, given, "seed", key_shape, (), (ShapedArray(aval.shape, aval.dtype),), seeds
        )

    def split_rule(ctx, keys, batch, shape):
        return _lowered(
            ctx, given, "split", key_shape, (tuple(shape),), (_words(batch, key_shape),), keys
        )

    def bits_rule(ctx, keys, batch, shape, bit_width):
        return _lowered(
            ctx,
            given,
            "random_bits",
            key_shape,
            (bit_width, tuple(shape)),
            (_words(batch, key_shape),),
            keys,
        )

    def fold_in_rule(ctx, keys, data, aval, shape):
        return _lowered(
            ctx,
            given,
            "fold_in",
            key_shape,
            (),
            (_words(shape, key_shape), ShapedArray(aval.shape, aval.dtype)),
            keys,
            data,
        )

    return Implementation(
        name, tag, key_shape, seed_rule, split_rule, fold_in_rule, bits_rule, custom=True
    )


def _words(batch, key_shape) -> ShapedArray:
    return ShapedArray((*batch, *key_shape), np.dtype(np.uint32))


def _lowered(ctx, functions, what: str, key_shape, static, avals, *args) -> str:
    """The function of one key, mapped over all of them and written where the primitive stands."""
    closed = pe.trace_to_closed_jaxpr(
        functools.partial(_mapped, functions[what], what, key_shape, static), avals
    )
    module = ctx.module
    module.keepalive.append(closed)
    module.numbers.update(
        dict.fromkeys(number_equations(closed.jaxpr), module.numbers[id(ctx.eqn)])
    )
    return ctx.jaxpr(closed, args)[0]


def _mapped(function, what: str, key_shape, static, *operands) -> list:
    from xlab.transforms.vmap import vmap

    own = (0,) if what == "seed" else (len(key_shape), 0)  # dimensions that belong to one key
    batch = aval_of(operands[0]).shape
    batch = batch[: len(batch) - own[0]]
    rest = [
        broadcast_in_dim(x, batch, range(len(batch) - aval_of(x).ndim, len(batch)))
        for x in operands[1:]
    ]

    def one(key, *data):
        out = function(key, *static, *data)
        wanted = {
            "seed": _words((), key_shape),
            "fold_in": _words((), key_shape),
            "split": _words(static[-1] if static else (), key_shape),
        }.get(what) or ShapedArray(static[1], np.dtype(f"uint{static[0]}"))
        got = aval_of(out)
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            raise TypeError(
                f"{what} of a random number generator gave {got.str_short(short_dtypes=True)}, expected {wanted.str_short(short_dtypes=True)}: see define_prng_impl"
            )
        return out

    mapped = one
    for _ in batch:
        mapped = vmap(mapped)
    return [mapped(operands[0], *rest)]


def seed_with_impl(impl: Implementation, seed: Any) -> Any:
    """A key of an implementation from an integer seed.

    Example:
        >>> from xlab.extend import random
        >>> random.seed_with_impl(random.rbg_prng_impl, 3).dtype
        key<rbg>
    """
    from xlab.random.keys import key

    return key(seed, impl=impl)


def random_seed(seeds: Any, impl: Implementation) -> Any:
    """Keys of an implementation, one for each integer in `seeds`."""
    if isinstance(seeds, int):
        seeds = np.int32(seeds) if -(2**31) <= seeds < 2**31 else np.uint32(seeds)
    return random_seed_p.bind(seeds, impl=impl)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Threefry-2x32 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, 2011) of counters in pairs.

    The first half of the counters are the first words of the pairs, and the second half the second; a last 0 makes their number even.

    Args:
        keypair: two uint32 words: an array of shape (2,), or a pair of scalars.
        count: counters, an array of uint32 of any shape.

    Returns:
        Random words, of the shape of `count`.

    Raises:
        TypeError: some argument is not uint32.
    """
    if hasattr(keypair, "shape"):
        high, low = (reshape(slice_in_dim(keypair, i, i + 1), ()) for i in range(2))
    else:
        high, low = keypair
    aval = aval_of(count)
    found = [aval_of(x).dtype for x in (high, low)] + [aval.dtype]
    if any(d != np.uint32 for d in found):
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {found}")
    flat = reshape(count, (aval.size,))
    odd = aval.size % 2
    if odd:
        flat = concatenate([flat, zeros_like_aval(ShapedArray((1,), aval.dtype))], 0)
    half = aval_of(flat).shape[0] // 2
    first, second = slice_in_dim(flat, 0, half), slice_in_dim(flat, half, 2 * half)
    out = concatenate(list(threefry2x32_p.bind(high, low, first, second)), 0)
    return reshape(slice_in_dim(out, 0, aval.size) if odd else out, aval.shape)
