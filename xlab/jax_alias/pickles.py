"""What pickles made under JAX name: its arrays, keys and treedefs, read as ours. Where they are found is in the table of `private.py`.

A pickle has no devices: arrays lie on the default one, as under JAX.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from xlab.core.array import KeyArray, _rebuild_array
from xlab.core.dtypes import KeyDType
from xlab.memory import Space
from xlab.random.bits import Implementation, implementations

__all__ = ["Key", "KeyImplementation", "KeyType", "memory_space", "reconstruct_array"]


def reconstruct_array(fun: Callable, args: tuple, state: Any, aval: dict[str, Any]) -> Any:
    """An array of JAX's: how NumPy makes its values, and what its type has more."""
    value = fun(*args)
    value.__setstate__(state)
    return _rebuild_array(value, bool(aval.get("weak_type", False)))


def memory_space(number: int) -> Space:
    """The space of memory that has a number under JAX."""
    return (Space.Device, Space.Host, Space.Any)[number - 1]


class KeyImplementation:
    """Read as the implementation of the same name here."""

    def __new__(cls, *fields: Any) -> Implementation:  # type: ignore[misc]
        *_, name, _tag = fields
        if name not in implementations:
            raise pickle.UnpicklingError(
                f"this pickle holds random keys of the implementation {name!r}, which is not here; there are "
                f"{', '.join(implementations)}. Register it with xlab.extend.random.define_prng_impl, or store the keys' words, "
                "jax.random.key_data(keys), and wrap them here."
            )
        return implementations[name]


class Key(KeyArray):
    """Becomes a plain `KeyArray` as soon as its words are read."""

    __slots__ = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__class__ = KeyArray  # type: ignore[assignment]
        self.__init__(state["_base_array"], state["_impl"].dtype)  # type: ignore[misc]


class KeyType(KeyDType):
    """Becomes a plain `KeyDType` as soon as its implementation is read."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__class__ = KeyDType  # type: ignore[assignment]
        vars(self).update(vars(state["_impl"].dtype))
