"""Arrays of random keys, and of other extended dtypes: a base array seen through a type."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from xlab.backend import neighbors
from xlab.backend.pytree import dispatch_registry
from xlab.core import avals as _avals
from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.core.shards import (
    Shard,
    readable,
)
from xlab.sharding import NamedSharding


class KeyArray:
    """An array of random keys: a base array of unsigned integers, seen through a key type."""

    # `_cells`: what became of the keys, where that is followed.
    __slots__ = (
        "__weakref__",
        "_cells",
        "aval",
        "base",
    )
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # how Python spells unhashable

    aval: ShapedArray
    base: Any
    shape: tuple[int, ...]
    dtype: Any
    ndim: int
    size: int

    def __init__(self, base, dtype):
        base_aval: ShapedArray = _avals.aval_of(base)  # type: ignore[assignment]  # keys lie in arrays
        n = len(dtype.base_shape)
        if (
            base_aval.dtype != dtype.base_dtype
            or base_aval.shape[base_aval.ndim - n :] != dtype.base_shape
        ):
            raise TypeError(
                f"keys of type {dtype} are made of {dtype.base_dtype}[...,"
                f"{','.join(map(str, dtype.base_shape))}], got {base_aval}"
            )
        self.base = base
        self.aval = _key_aval(base_aval, dtype)

    def _host_value(self):
        return np.asarray(self.base)

    def __repr__(self):
        if type(self.dtype) is not dtypes.KeyDType:
            return f"E{self.base!r}".replace(f"dtype={self.base.dtype}", f"dtype={self.dtype}")
        if not readable(self.base):
            return f"Array({self.aval.shape}, dtype={dtypes.name(self.dtype)}, sharding={self.sharding})"
        return f"Array({self.aval.shape}, dtype={dtypes.name(self.dtype)}) overlaying:\n{self.base._host_value()}"

    def __array__(self, *args, **kwargs):
        if type(self.dtype) is not dtypes.KeyDType:
            raise TypeError(
                f"an array of type {self.aval} cannot become a NumPy array, which has no such dtype: convert it first, with "
                f"x.astype({dtypes.name(self.dtype.base_dtype)!r})"
            )
        raise TypeError(
            "a random key array cannot become a NumPy array: take its bits with xlab.random.key_data(key)"
        )

    def __bool__(self):
        if type(self.dtype) is not dtypes.KeyDType:
            raise TypeError(
                f"an array of type {self.aval} is neither true nor false: convert it first, with "
                f"x.astype({dtypes.name(self.dtype.base_dtype)!r})"
            )
        raise TypeError(
            "a random key array is neither true nor false: compare its bits, xlab.random.key_data(key)"
        )

    def block_until_ready(self):
        self.base.block_until_ready()
        return self

    def is_deleted(self):
        return self.base.is_deleted()

    def delete(self):
        self.base.delete()

    def devices(self):
        return self.base.devices()

    def copy_to_host_async(self):
        self.base.copy_to_host_async()

    def on_device_size_in_bytes(self):
        return self.base.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self):
        return self.base.unsafe_buffer_pointer()

    def addressable_data(self, index):
        return KeyArray(self.base.addressable_data(index), self.dtype)

    @property
    def sharding(self):
        """How the keys, not the words they are made of, are sharded over devices."""
        return key_sharding(self.base.sharding, self.aval.ndim)

    @property
    def device(self):
        found = self.base.device
        return self.sharding if found == self.base.sharding else found

    @property
    def addressable_shards(self) -> list[Shard]:
        return self._shards(self.base.addressable_shards)

    @property
    def global_shards(self) -> list[Shard]:
        return self._shards(self.base.global_shards)

    def _shards(self, shards: list[Shard]) -> list[Shard]:
        sharding = self.sharding
        return [
            Shard(
                s.device,
                sharding,
                self.aval.shape,
                None if s.data is None else KeyArray(s.data, self.dtype),
            )
            for s in shards
        ]

    is_fully_addressable = property(lambda self: self.base.is_fully_addressable)
    is_fully_replicated = property(lambda self: self.base.is_fully_replicated)
    committed = property(lambda self: self.base.committed)


class _ExtendedMeta(type):
    def __instancecheck__(cls, x):
        return type(x) is KeyArray and type(x.dtype) is not dtypes.KeyDType


class EArray(metaclass=_ExtendedMeta):
    """Arrays of extended dtypes other than those of random keys, such as `primal_tangent_dtype` makes.

    Args:
        aval: the type of the array.
        data: the array of what programs compute with.

    Raises:
        TypeError: the data does not go with the type.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import EArray, primal_tangent_dtype
        >>> dtype = primal_tangent_dtype("int8", "float32")
        >>> EArray(ShapedArray((2,), dtype), jnp.array([1, 2], "int8"))
        EArray([1, 2], dtype=PrimalTangentDType{i8/f32})
    """

    def __new__(cls, aval: ShapedArray, data: Any) -> Any:
        if not dtypes.is_extended(aval.dtype):
            raise TypeError(f"EArray takes a type with an extended dtype, got {aval}")
        made = KeyArray(data, aval.dtype)
        if made.aval.shape != aval.shape:
            raise TypeError(
                f"an array of type {aval} was expected, and this data makes one of {made.aval}"
            )
        return made


@lru_cache(1024)
def _key_aval(base_aval: ShapedArray, dtype: Any) -> ShapedArray:
    return ShapedArray(
        base_aval.shape[: base_aval.ndim - len(dtype.base_shape)],
        dtype,
        sharding=base_aval.explicit_sharding,
        memory_space=base_aval.memory_space,
    )


def _of_words(aval: tuple[ShapedArray], words: tuple[Any]) -> KeyArray:
    made = object.__new__(KeyArray)
    (made.aval,), (made.base,) = aval, words
    return made


# Native calls see the words. Types are interned, and a tuple compares them by identity first.
dispatch_registry.register_node(KeyArray, lambda keys: ((keys.base,), (keys.aval,)), _of_words)


def words_of(x: Any) -> Any:
    """The array of words that keys are made of; other values as they are."""
    return x.base if type(x) is KeyArray else x


def key_of_words(number: Any, dtype: Any) -> KeyArray:
    """The key whose words are all one number."""
    return KeyArray(np.full(dtype.base_shape, number, dtype.base_dtype), dtype)


def key_sharding(sharding: Any, ndim: int) -> Any:
    """The sharding of an array of words as one of the `ndim`-dimensional keys made of them."""
    return (
        sharding.update(spec=sharding.spec.partitions[:ndim])
        if isinstance(sharding, NamedSharding)
        else sharding
    )


_avals.aval_makers[KeyArray] = lambda x: x.aval


neighbors.answer_jax(
    KeyArray,
    ("__jax_array__",),
    "random keys of xlab's",
    "Hand them over with jax.random.wrap_key_data(numpy.asarray(xlab.random.key_data(key))).",
)
