"""Element types that NumPy does not know: of random keys, and of libraries' own.

See `dtypes`, which everyone else imports them from.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["ExtendedDType", "KeyDType", "NotOfNumPyError", "extended", "prng_key"]


class extended(np.generic):
    """Category of types that have no NumPy counterpart."""


class prng_key(extended):
    """Category of random key types."""


class NotOfNumPyError(TypeError, RecursionError):
    """NumPy was asked for arrays of a dtype that it does not have.

    It is a `RecursionError` too, the only class that NumPy does not replace by words of its own while it asks what an object is.
    """


class ExtendedDType:
    """Base of element types NumPy does not know.

    Subclasses set `type` (the category), `name`, `itemsize`, and what programs compute with: each element is an array
    of `base_shape` and `base_dtype`. A library's own dtype can leave that to `_rules`, an object of functions:

    - `physical_element_aval(dtype)`: the type of what an element is made of;
    - `convert_from(dtype, other)` and `convert_to(other, dtype)`: whether arrays of it are converted to another dtype, and from it;
    - `tangent_dtype(dtype)`: that of derivatives, which may be the dtype itself;
    - `zero(dtype)` and `add(dtype, x, y)`: derivatives of that dtype where there are none, and the sum of two;
    - `full(shape, fill_value, dtype)`: an array of one number.
    """

    type: type
    name: str
    _rules: Any = None

    # Values that a subclass sets take the place of these.
    @cached_property
    def _element(self) -> Any:
        return self.rule("physical_element_aval")(self)

    @cached_property
    def base_shape(self) -> tuple[int, ...]:
        return tuple(self._element.shape)

    @cached_property
    def base_dtype(self) -> np.dtype:
        return np.dtype(self._element.dtype)

    @cached_property
    def itemsize(self) -> int:
        return self.base_dtype.itemsize * math.prod(self.base_shape)

    @cached_property
    def tangent_dtype(self) -> Any:
        """The dtype of derivatives; None where there are none."""
        return self.rule("tangent_dtype")(self) if hasattr(self._rules, "tangent_dtype") else None

    def rule(self, name: str) -> Any:
        """What a dtype of a library's own says of one question.

        Raises:
            TypeError: it says nothing.
        """
        found = getattr(self._rules, name, None)
        if found is None:
            raise TypeError(
                f"the dtype {self.name} does not say what {name!r} is: `_rules` of its class, {type(self).__qualname__}, holds such functions; "
                "see xlab.core.extended_dtypes.ExtendedDType for what each is given and gives"
            )
        return found

    def is_made_of(self, other: Any) -> bool:
        """Whether arrays of another dtype can be converted to this one."""
        return self._rules is not None and bool(self.rule("convert_to")(other, self))

    def opens_as(self, other: Any) -> bool:
        """Whether arrays of this dtype can be converted to another one."""
        return self._rules is not None and bool(self.rule("convert_from")(self, other))

    def __repr__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        return "O"

    @property
    def __numpy_dtype__(self) -> Any:
        """NumPy asks for it (from its version 2.4) where it is given an object as a dtype, and so does JAX, which asks NumPy."""
        raise NotOfNumPyError(
            f"{self.name} is a type of xlab's, which neither NumPy nor JAX has. {self._instead()}"
        )

    def _instead(self) -> str:
        return f"Its arrays are made of numbers of type {self.base_dtype}: convert them with x.astype({self.base_dtype})."


def _is_custom(impl: Any) -> bool:
    return getattr(impl, "custom", False)


class KeyDType(ExtendedDType):
    """Type of random keys of one implementation; `tag` is its short name and `key_shape` its bits' shape.

    Example:
        >>> KeyDType("fry", (2,))
        key<fry>
    """

    type = prng_key

    def __init__(self, tag: str, key_shape: tuple[int, ...], impl: Any = None):
        self.tag, self.key_shape, self.impl = tag, tuple(key_shape), impl
        self.base_shape, self.base_dtype = self.key_shape, np.dtype(np.uint32)
        self.name = f"key<{tag}>"
        self.itemsize = 4 * int(np.prod(self.key_shape, dtype=int))

    def _instead(self) -> str:
        impl = getattr(self.impl, "name", None) or self.tag
        return (
            f"Take the numbers that the keys are made of, xlab.random.key_data(keys), of type uint32{list(self.key_shape)} each; for keys "
            f"of JAX's, write jax.random.wrap_key_data(numpy.asarray(xlab.random.key_data(keys)), impl={impl!r})."
        )

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is KeyDType
            and (self.tag, self.key_shape) == (other.tag, other.key_shape)
            # Of the user's own, two may have one tag; others are the same by name, also those that a file brought.
            and (self.impl is other.impl or not (_is_custom(self.impl) or _is_custom(other.impl)))
        )

    def __hash__(self) -> int:
        return hash((KeyDType, self.tag, self.key_shape))
