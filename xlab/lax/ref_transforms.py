"""Views of mutable references: what stands between a reference and the part of it that an access means.

A transform reads from an array (`read`), gives the array with another value in its place (`write`), and says of NumPy arrays which
elements it selects (`touched`, for interpreters that follow single elements). `NDIndexer` (`indexers.py`) is one; the others are here. A
view is a tuple of transforms, the outermost array first. They are pytrees: the leaves are positions that are values of the program.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from xlab import tree as _tree
from xlab.backend import caches
from xlab.backend.values import value_class
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.lax.arithmetic import add, add_p
from xlab.lax.convert import bitcast_convert_type
from xlab.lax.shape import reshape, transpose

Outside = Literal["clamp", "missing"]


class Transform(Protocol):
    """What every transform has."""

    def result_shape(self) -> tuple[int, ...]:
        """The shape of the view."""
        ...

    def result_dtype(self, dtype: Any) -> Any:
        """The dtype of the view of an array of a dtype."""
        ...

    def read(self, x):
        """The view of an array."""
        ...

    def write(self, x, value, update: str = "set"):
        """The array with another value in the view's place ("set"), or with the value added there ("add")."""
        ...

    def touched(
        self, x: np.ndarray, outside: Outside = "clamp", fill: Any = -1, writing: bool = False
    ) -> np.ndarray:
        """The view of a NumPy array whose last dimension is not the reference's: it counts the parts of an element.

        Positions outside the array are moved inside as compiled programs do ("clamp"), or give `fill` ("missing"). Compiled writes
        to single positions outside are dropped, so with `writing` they give `fill` also under "clamp".
        """
        ...

    def text(self, show=str) -> str:
        """The view in a printed program, right of what it is a view of."""
        ...


class Rearranged:
    """What is common to views that hold every element of the array.

    `undo(value)` is the array that has a value as its view, `batched(size)` the same view for every one of `size` arrays, which are
    stacked along a new first dimension.
    """

    __slots__ = ()

    def result_dtype(self, dtype):
        return dtype

    def write(self, x, value, update="set"):
        value = self.undo(value)
        return value if update == "set" else add(x, value)


@value_class
class RefReshaper(Rearranged):
    """The elements in row-major order, in another shape."""

    old: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, old: Sequence[int], shape: Sequence[Any]) -> RefReshaper:
        """The transform for a shape that users give; one size may be -1.

        Raises:
            ValueError: more than one size is -1, or the number of elements differs.
        """
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = shape[0]
        new = [operator.index(n) for n in shape]
        if new.count(-1) > 1:
            raise ValueError(
                f"At most one dimension can be -1, but got {tuple(new)} as the new shape of a reference"
            )
        size, known = math.prod(old), math.prod(n for n in new if n != -1)
        if -1 in new and known and size % known == 0:
            new[new.index(-1)] = size // known
        if math.prod(new) != size or any(n < 0 for n in new):
            raise ValueError(
                f"cannot reshape shape {tuple(old)} into shape {tuple(new)}: a view of a reference has as many "
                f"elements, here {size}"
            )
        return cls(tuple(old), tuple(new))

    def result_shape(self):
        return self.shape

    def read(self, x):
        return reshape(x, self.shape)

    def undo(self, value):
        return reshape(value, self.old)

    def batched(self, size):
        return RefReshaper((size, *self.old), (size, *self.shape))

    def touched(self, x, outside="clamp", fill=-1, writing=False):
        return x.reshape(*self.shape, x.shape[-1])

    def text(self, show=str):
        return f"{{reshape({list(self.shape)})}}"


@value_class
class RefTransposer(Rearranged):
    """The dimensions in another order: dimension `permutation[k]` of the array is dimension k of the view."""

    old: tuple[int, ...]
    permutation: tuple[int, ...]

    @classmethod
    def of(cls, old: Sequence[int], permutation: Sequence[Any]) -> RefTransposer:
        """The transform for an order that users give; none reverses the dimensions.

        Raises:
            ValueError: the order does not name every dimension once.
        """
        if len(permutation) == 1 and isinstance(permutation[0], (tuple, list)):
            permutation = permutation[0]
        n = len(old)
        if len(permutation) == 0 or (len(permutation) == 1 and permutation[0] is None):
            order = list(range(n))[::-1]
        else:
            order = [operator.index(d) for d in permutation]
        wrapped = [d + n if d < 0 else d for d in order]
        if sorted(wrapped) != list(range(n)):
            raise ValueError(
                f"transpose of a reference of shape {tuple(old)} takes an order of its dimensions 0 to {n - 1}, "
                f"each once, got {tuple(order)}"
            )
        return cls(tuple(old), tuple(wrapped))

    def result_shape(self):
        return tuple(self.old[d] for d in self.permutation)

    def read(self, x):
        return transpose(x, self.permutation)

    def batched(self, size):
        return RefTransposer((size, *self.old), (0, *(d + 1 for d in self.permutation)))

    def undo(self, value):
        return transpose(value, [self.permutation.index(d) for d in range(len(self.old))])

    def touched(self, x, outside="clamp", fill=-1, writing=False):
        return x.transpose(*self.permutation, len(self.old))

    def text(self, show=str):
        return f"{{transpose({list(self.permutation)})}}"


@value_class
class RefBitcaster(Rearranged):
    """The same bits as elements of another dtype; the last dimension grows or shrinks where the sizes of elements differ."""

    old: tuple[int, ...]
    old_dtype: Any
    dtype: Any

    @classmethod
    def of(cls, old: Sequence[int], old_dtype: Any, dtype: Any) -> RefBitcaster:
        """The transform for a dtype that users give.

        Raises:
            ValueError: the elements have no bits to read as others, or the last dimension cannot be divided.
        """
        new, given = dtypes.canonicalize_dtype(dtype), dtypes.name(old_dtype)
        for d in (old_dtype, new):
            if (
                dtypes.is_extended(d)
                or d == np.bool_
                or dtypes.issubdtype(d, np.complexfloating)
                or d == dtypes.float0
            ):
                raise ValueError(
                    f"bitcast of a reference is for integers and floating-point numbers, got {given} to "
                    f"{dtypes.name(new)}: elements of {dtypes.name(d)} cannot be read by their bits"
                )
        mine, other = dtypes.itemsize_bits(old_dtype), dtypes.itemsize_bits(new)
        if mine != other and not old:
            raise ValueError(
                f"bitcast from {given} to {dtypes.name(new)} changes the size of elements, so the reference needs "
                f"a dimension: view it as .reshape(1) first"
            )
        if mine != other and old[-1] * mine % other:
            raise ValueError(
                f"bitcast from {given} to {dtypes.name(new)} needs a last dimension that is a multiple of "
                f"{other // mine}, got a reference of shape {tuple(old)}"
            )
        return cls(tuple(old), old_dtype, new)

    def result_shape(self):
        mine, other = dtypes.itemsize_bits(self.old_dtype), dtypes.itemsize_bits(self.dtype)
        return self.old if mine == other else (*self.old[:-1], self.old[-1] * mine // other)

    def result_dtype(self, dtype):
        return self.dtype

    def read(self, x):
        return _bitcast(x, self.dtype, self.result_shape())

    def batched(self, size):
        return RefBitcaster((size, *self.old), self.old_dtype, self.dtype)

    def undo(self, value):
        return _bitcast(value, self.old_dtype, self.old)

    def write(self, x, value, update="set"):
        return self.undo(value if update == "set" else add(self.read(x), value))

    def touched(self, x, outside="clamp", fill=-1, writing=False):
        mine, other = dtypes.itemsize_bits(self.old_dtype), dtypes.itemsize_bits(self.dtype)
        return x.reshape(*self.result_shape(), x.shape[-1] * other // mine)

    def text(self, show=str):
        return f"{{bitcast({dtypes.name(self.dtype)})}}"


def _bitcast(x, dtype, shape):
    mine, other = dtypes.itemsize_bits(aval_of(x).dtype), dtypes.itemsize_bits(dtype)
    if other > mine:
        x = reshape(x, (*shape, other // mine))
    out = bitcast_convert_type(x, dtype)
    return reshape(out, shape) if other < mine else out


for _cls, _fields in (
    (RefReshaper, ("old", "shape")),
    (RefTransposer, ("old", "permutation")),
    (RefBitcaster, ("old", "old_dtype", "dtype")),
):
    _tree.register_pytree_node(
        _cls,
        lambda t, names=_fields: ((), tuple(getattr(t, n) for n in names)),
        lambda aux, _, cls=_cls: cls(*aux),
    )


# -- views: several transforms, one after the other --------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def has_bitcast(tree) -> bool:
    """Whether one of the transforms of a structure is a bitcast."""
    transforms = _tree.unflatten(tree, [None] * tree.num_leaves)
    return any(type(t) is RefBitcaster for t in transforms)


caches.register(has_bitcast.cache_clear)


def part_of(aval: ShapedArray, transforms: Sequence[Transform]) -> ShapedArray:
    """Type of the part that transforms select."""
    for t in transforms:
        dtype = t.result_dtype(aval.dtype)
        weak = aval.weak_type and dtype == aval.dtype
        aval = aval.update(shape=t.result_shape(), dtype=dtype, weak_type=weak)
    return aval


def read(x, transforms: Sequence[Transform]):
    """The part of an array that transforms select."""
    for t in transforms:
        x = t.read(x)
    return x


def write(x, transforms: Sequence[Transform], value, update: str = "set"):
    """The array with that part replaced, or added to."""
    if not transforms:
        return value if update == "set" else add_p.bind(x, value)
    first, rest = transforms[0], transforms[1:]
    return (
        first.write(x, write(first.read(x), rest, value, update))
        if rest
        else first.write(x, value, update)
    )
