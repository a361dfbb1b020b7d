"""Random keys: explicit state. Make one from a seed, split it, fold data into it; never use one twice.

New-style keys are arrays of a key type; raw keys, plain arrays of words, are accepted everywhere and answered in kind.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xlab.config import config
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import aval_of, value_and_type
from xlab.core.source_info import warn
from xlab.core.trace import Tracer
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.lax.arithmetic import add
from xlab.lax.convert import convert_element_type
from xlab.lax.shape import canonical_shape
from xlab.random.bits import (
    Implementation,
    implementations,
    is_key_dtype,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    random_unwrap_p,
    random_wrap_p,
)

__all__ = [
    "PRNGKey",
    "clone",
    "fold_in",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "split",
    "wrap_key_data",
]


def find_impl(impl) -> Implementation:
    """The implementation that a name, a key type or nothing (the configured default) stands for."""
    if impl is None:
        impl = config.default_prng_impl
    if isinstance(impl, Implementation):
        return impl
    if is_key_dtype(impl):
        return impl.impl
    found = implementations.get(impl) if isinstance(impl, str) else None
    if found is None:
        raise ValueError(
            f"unrecognized PRNG implementation {impl!r}; the names are "
            f"{', '.join(map(repr, implementations))}"
        )
    return found


def key_dtype(impl_spec: Any = None) -> Any:
    """The type of key arrays of an implementation, by its name.

    Example:
        >>> key_dtype("rbg")
        key<rbg>
    """
    return find_impl(impl_spec).dtype


def _make(name: str, seed, impl):
    if isinstance(seed, KeyArray):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given a PRNG key: derive keys with split or fold_in"
        )
    if isinstance(seed, (bool, int, np.integer, np.bool_)):
        seed = np.int64(seed) if not isinstance(seed, np.uint64) else seed
        seed = np.asarray(seed).astype(dtypes.canonicalize_dtype(seed.dtype))
    aval = aval_of(seed)
    if is_key_dtype(aval.dtype):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given a PRNG key: derive keys with split or fold_in"
        )
    if aval.shape:
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {aval.shape}: for several keys "
            f"use split(key, n), or vmap {name} over the seeds"
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"a seed is an integer, got {seed!r} of type {aval}")
    if config.random_seed_offset:
        seed = add(seed, aval.dtype.type(config.random_seed_offset))
    return random_seed_p.bind(seed, impl=find_impl(impl))


def key(seed: ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None) -> Array:
    """A random key from an integer seed.

    Args:
        seed: an integer, concrete or traced.
        impl: 'threefry2x32' (the default), 'rbg' or 'unsafe_rbg'.
        dtype: a key type, another way to choose the implementation.

    Example:
        >>> import xlab
        >>> xlab.random.key(42).dtype
        key<fry>
    """
    if impl is not None and dtype is not None:
        raise ValueError("key takes impl or dtype, not both")
    return _make("key", seed, impl if dtype is None else dtype)


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """A raw key, its words as a plain array. Prefer `key`, whose type says what it is.

    Example:
        >>> import xlab
        >>> print(xlab.random.PRNGKey(42))
        [ 0 42]
    """
    out = _make("PRNGKey", seed, impl)
    return out if config.enable_custom_prng else random_unwrap_p.bind(out)


def typed_keys(keys, impl=None):
    """The keys as a key array, and whether they came raw."""
    if type(keys) is KeyArray:
        return keys, False
    if not isinstance(keys, Tracer) and not hasattr(keys, "dtype"):
        raise TypeError(
            f"expected a random key, got {value_and_type(keys)}: make one with "
            f"xlab.random.key(seed)"
        )
    if is_key_dtype(aval_of(keys).dtype):
        return keys, False
    if config.legacy_prng_key != "allow":
        _refuse_raw()
    return wrap_key_data(keys, impl=impl), True


def _refuse_raw():
    message = (
        "Legacy uint32 key array passed as key to xlab.random function. Please create keys using xlab.random.key(). If use of a "
        'raw key array was intended, set legacy_prng_key="allow".'
    )
    if config.legacy_prng_key == "error":
        raise ValueError(message)
    warn(message)


def one_key(name: str, keys):
    """As `typed_keys`, for functions that take a single key."""
    keys, raw = typed_keys(keys)
    shape = keys.aval.shape
    if shape:
        shape = (*shape, *keys.aval.dtype.key_shape) if raw else shape
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {shape}: vmap {name} over the "
            f"keys, or index them"
        )
    return keys, raw


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Keys from their words, an array of uint32 whose last dimensions are the key's.

    Args:
        key_bits_array: words, uint32 of shape `(..., *key_shape)`.
        impl: name of the implementation, the configured default if absent.
        dtype: the type of the keys, in place of `impl`.

    Example:
        >>> import numpy as np, xlab
        >>> xlab.random.wrap_key_data(np.zeros((5, 2), np.uint32)).shape
        (5,)
    """
    if impl is not None and dtype is not None:
        raise ValueError("wrap_key_data takes impl or dtype, not both")
    return random_wrap_p.bind(key_bits_array, impl=find_impl(impl if dtype is None else dtype))


def key_data(keys: Array) -> Array:
    """The words of keys, as an array of uint32; raw keys are returned as they are.

    Example:
        >>> import xlab
        >>> print(xlab.random.key_data(xlab.random.key(7)))
        [0 7]
    """
    keys, _ = typed_keys(keys)
    return random_unwrap_p.bind(keys)


def key_impl(keys: Array) -> Any:
    """Name of the implementation of keys, or what `define_prng_impl` made.

    Example:
        >>> import xlab
        >>> xlab.random.key_impl(xlab.random.key(0))
        'threefry2x32'
    """
    impl = typed_keys(keys)[0].aval.dtype.impl
    return impl if impl.custom else impl.name


def split(key: Array, num: int | tuple[int, ...] = 2) -> Array:
    """New keys from one, as an array to index or unpack. The old key must not be used again.

    Args:
        key: a key.
        num: how many keys, or the shape of the array of keys.

    Example:
        >>> import xlab
        >>> key, sub = xlab.random.split(xlab.random.key(0))
        >>> xlab.random.split(key, (2, 3)).shape
        (2, 3)
    """
    keys, raw = one_key("split", key)
    shape = canonical_shape(num)
    out = random_split_p.bind(keys, shape=shape)
    return random_unwrap_p.bind(out) if raw else out


def fold_in(key: Array, data: ArrayLike) -> Array:
    """A new key from a key and a 32-bit integer, such as a step number.

    Example:
        >>> import xlab
        >>> key = xlab.random.key(0)
        >>> keys = [xlab.random.fold_in(key, step) for step in range(3)]
    """
    keys, raw = one_key("fold_in", key)
    if isinstance(data, (bool, int)):
        data = np.uint32(operator.index(data))
    aval = aval_of(data)
    if isinstance(data, (complex, float, np.inexact)):
        data = np.uint32(int(data) % 2**32)  # says itself what is no number of a step
        aval = aval_of(data)
    if aval.shape:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {aval.shape}: vmap fold_in over the data"
        )
    if aval.dtype != np.uint32:
        data = (
            np.asarray(data).astype(np.uint32)
            if isinstance(data, (float, np.generic))
            else convert_element_type(data, np.uint32)
        )
    out = random_fold_in_p.bind(keys, data)
    return random_unwrap_p.bind(out) if raw else out


def clone(key: Array) -> Array:
    """The same key again, for where using one twice is intended."""
    _, raw = typed_keys(key)
    if config.debug_key_reuse and not raw:
        return random_wrap_p.bind(random_unwrap_p.bind(key), impl=aval_of(key).dtype.impl)
    return key
