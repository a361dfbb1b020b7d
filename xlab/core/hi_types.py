"""Types of one's own: values that programs treat as one, and that are arrays only when they are compiled.

A *hi type* says which arrays its values consist of (`lo_ty`), and goes from a value to these arrays and back (`lower_val`, `raise_val`). In
programs a value of such a type is one variable, with a tangent type, an addition and batches as its type says. Before a program is compiled
`interpreters/lojax.py` puts the arrays in place of the values.

Values that change in place are in `hi_states.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab.core import avals as _avals
from xlab.core import dtypes
from xlab.core.avals import INVARYING, AbstractValue, ShapedArray, aval_of
from xlab.core.trace import Tracer
from xlab.errors import HiTypeError


class _InUse:
    """Whether any type was registered: until then nothing looks for their values."""

    types = False
    mutable = False


in_use = _InUse()

NO_DERIVATIVE = ShapedArray((), dtypes.float0)
"""The type of tangents of values that count as constants."""


class MappingSpec:
    """Where the examples of a batch are in a value of a hi type. Subclasses hold what their type needs; they are compared by `==`.

    `vmap` takes one in `in_axes` and `out_axes`, for a value of that type.
    """


class HiPspec:
    """How a value of a hi type lies over a mesh, for `shard_map`: subclasses say the `PartitionSpec` of each array."""

    def to_lo(self) -> Sequence:
        """A `PartitionSpec` for each array of `lo_ty()`, in order."""
        raise NotImplementedError(
            f"{type(self).__name__} has to define `to_lo`: a PartitionSpec for each array of the value"
        )

    def to_tangent_spec(self) -> HiPspec:
        """How the tangents of these values lie."""
        return self

    def to_ct_spec(self) -> HiPspec:
        """How the cotangents of these values lie."""
        return self.to_tangent_spec()


# What code that knows arrays asks of any type.
OF_ARRAYS: dict[str, Any] = {
    "weak_type": False,
    "mat": INVARYING,
    "explicit_sharding": None,
    "memory_space": None,
    "vma": frozenset(),
}


class UserType(AbstractValue):
    """What immutable and mutable types share."""

    is_high = True

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("xlab."):
            in_use.types = True

    def __getattr__(self, name):
        if name in OF_ARRAYS:
            return OF_ARRAYS[name]
        if name in ("shape", "dtype", "ndim", "size"):
            raise HiTypeError(
                f"an array was expected, and {self} is a hi type, without `{name}`: take an array out of the value first with an operation defined for "
                f"it (a HiPrimitive), or give the class {type(self).__name__} this attribute"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _missing(self, method: str, what: str, why: str) -> NotImplementedError:
        return NotImplementedError(
            f"{why} requires {self} to implement the `{method}` method ({what}): define it in the class {type(self).__name__}"
        )

    def to_ct_aval(self):
        return self

    def strip_weak_type(self):
        return self

    def normalize(self):
        """The type without what distinguishes values only in how they were written, such as weak types of arrays."""
        return self

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        return str(self)

    def __repr__(self):
        return type(self).__name__


class HiType(UserType):
    """A type of one's own. A frozen dataclass makes a good one: types are compared by `==` and have a hash.

    A subclass defines `lo_ty`, `lower_val` and `raise_val`; `to_tangent_aval` if its values can be differentiated; `dec_rank` and `inc_rank` if there are
    batches of them. Values become known with `register_hitype`, operations on them are `HiPrimitive`s or `VJPHiPrimitive`s.

    Example:
        >>> import dataclasses, xlab, xlab.numpy as jnp
        >>> from xlab.experimental.hijax import HiPrimitive, HiType, ShapedArray, register_hitype
        >>> @dataclasses.dataclass(frozen=True)
        ... class Quantized:
        ...     values: xlab.Array
        ...     scale: xlab.Array
        >>> @dataclasses.dataclass(frozen=True)
        ... class QuantizedType(HiType):
        ...     shape: tuple
        ...     def lo_ty(self):
        ...         return [ShapedArray(self.shape, jnp.int8), ShapedArray((), jnp.float32)]
        ...     def lower_val(self, q):
        ...         return [q.values, q.scale]
        ...     def raise_val(self, values, scale):
        ...         return Quantized(values, scale)
        >>> register_hitype(Quantized, lambda q: QuantizedType(q.values.shape))
        >>> class Dequantize(HiPrimitive):
        ...     def abstract_eval(self, q):
        ...         return ShapedArray(q.shape, jnp.float32), set()
        ...     def to_lojax(self, q):
        ...         return q.values * q.scale
        >>> dequantize_p = Dequantize("dequantize")
        >>> f = lambda q: dequantize_p.bind(q) + 1
        >>> q = Quantized(jnp.array([1, 2], jnp.int8), jnp.float32(0.5))
        >>> print(xlab.jit(f)(q))
        [1.5 2. ]
        >>> print(xlab.make_jaxpr(f)(q))
        { lambda ; a:QuantizedType(shape=(2,)). let
            b:f32[2] = dequantize a
            c:f32[2] = add b 1.0:f32[]
          in (c,) }
    """

    has_qdd = False

    # -- arrays --------------------------------------------------------------------------------------------

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that a value consists of."""
        raise self._missing("lo_ty", "the types of the arrays of a value", "compiling")

    def lower_val(self, hi_val: Any) -> list:
        """The arrays of a value, in the order of `lo_ty`."""
        raise self._missing("lower_val", "from a value to its arrays", "compiling")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value of these arrays."""
        raise self._missing("raise_val", "from arrays to the value", "compiling")

    # -- derivatives ---------------------------------------------------------------------------------------

    def to_tangent_aval(self) -> AbstractValue:
        """The type of tangents, which may be any other; without this method values count as constants, as integers do."""
        return NO_DERIVATIVE

    def vspace_zero(self) -> Any:
        """The zero of a type of tangents. By default all arrays are zero, if these are all of real or complex numbers."""
        return _by_arrays(
            self, "vspace_zero", "the tangent that is zero", lambda a: a.vspace_zero()
        )

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two values of a type of tangents. By default the sums of their arrays, if these are all of real or complex numbers."""
        return _by_arrays(
            self, "vspace_add", "the sum of two tangents", lambda a, x, y: a.vspace_add(x, y), x, y
        )

    # -- batches -------------------------------------------------------------------------------------------

    def dec_rank(self, size: int | None, spec: Any) -> AbstractValue:
        """The type of one example of a batch of this type, `spec` saying where the examples are."""
        raise self._missing("dec_rank", "the type of one example of a batch", "vmap")

    def inc_rank(self, size: int | None, spec: Any) -> AbstractValue:
        """The type of a batch of `size` examples of this type. By default `Stacked`, with the arrays of the examples one after the other."""
        if size is None or spec != 0:
            raise self._missing("inc_rank", "the type of a batch of examples", "vmap")
        return StackedType(self, size)

    def leading_axis_spec(self) -> Any:
        """Where the examples are in values that `scan` goes through one by one: in front of every array, by default 0."""
        return 0

    def with_dimension(self, d: int, size: int, *_: Any) -> AbstractValue:
        return self.inc_rank(size, self.leading_axis_spec() if d == 0 else d)

    def without_dimension(self, d: Any, size: int | None = None) -> AbstractValue:
        return self.dec_rank(size, self.leading_axis_spec() if d == 0 else d)

    # -- devices -------------------------------------------------------------------------------------------

    def shard(
        self, mesh: Any, manual_axes: frozenset, check_vma: bool, spec: HiPspec
    ) -> AbstractValue:
        """The type of one device's part, inside of `shard_map`."""
        raise self._missing("shard", "the type of one device's part", "shard_map")

    def unshard(self, mesh: Any, check_vma: bool, spec: HiPspec) -> AbstractValue:
        """The type of the whole whose part on one device has this type."""
        raise self._missing("unshard", "the type of the whole, given that of a part", "shard_map")


class Stacked:
    """A batch of values of a hi type that does not say what its batches are.

    Attributes:
        arrays: those of the examples, along a dimension in front.
        type: of the batch.
    """

    __slots__ = ("arrays", "type")

    def __init__(self, arrays: Sequence, type: StackedType):
        self.arrays, self.type = tuple(arrays), type

    def __repr__(self):
        return f"Stacked({', '.join(map(repr, self.arrays))}; {self.type})"


class StackedType(HiType):
    """The type of `Stacked` values: `length` examples of a type, which may be a batch itself. Dimension 0 is the one in front."""

    def __init__(self, ty: Any, length: int):
        self.ty, self.length = ty, length

    def lo_ty(self):
        return [a.with_dimension(0, self.length) for a in self.ty.lo_ty()]

    def lower_val(self, hi_val):
        return list(hi_val.arrays)

    def raise_val(self, *lo_vals):
        return Stacked(lo_vals, self)

    def to_tangent_aval(self):
        tangent = self.ty.to_tangent_aval()
        return tangent if tangent == NO_DERIVATIVE else tangent.with_dimension(0, self.length)

    def dec_rank(self, size, spec):
        if type(spec) is not int:
            return super().dec_rank(size, spec)
        return self.ty if spec == 0 else StackedType(self.ty.dec_rank(size, spec - 1), self.length)

    def inc_rank(self, size, spec):
        if type(spec) is not int or spec == 0:
            return super().inc_rank(size, spec)
        return StackedType(self.ty.inc_rank(size, spec - 1), self.length)

    def size_of(self, spec: int) -> int:
        """How many examples there are along a dimension."""
        return self.length if spec == 0 else self.ty.size_of(spec - 1)

    def __eq__(self, other):
        return type(other) is StackedType and (self.ty, self.length) == (other.ty, other.length)

    def __hash__(self):
        return hash((self.ty, self.length))

    def __repr__(self):
        return f"{self.ty}[{self.length}]"


def _by_arrays(ty: HiType, method: str, what: str, operate: Callable, *values: Any) -> Any:
    """A value each of whose arrays is made of those of other values."""
    types = ty.lo_ty()
    if any(a.to_tangent_aval() != a for a in types):
        raise ty._missing(
            method,
            what,
            f"a derivative of a value whose arrays are ({', '.join(map(str, types))}), not all of real or complex numbers,",
        )
    parts = [lower(x, ty) for x in values]
    return raise_value(ty, [operate(a, *xs) for a, *xs in zip(types, *parts)])


# -- values ------------------------------------------------------------------------------------------------


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Makes the instances of a class values of programs.

    Args:
        val_cls: the class; its instances are leaves of pytrees, so it is not itself registered as a pytree.
        typeof_fn: the `HiType` or `MutableHiType` of an instance, whose arrays may be traced.

    Raises:
        TypeError: it is not a class, or no function is given.
        ValueError: instances of the class are arrays already.
    """
    if not isinstance(val_cls, type) or not callable(typeof_fn):
        raise TypeError(
            f"register_hitype takes a class and a function from its instances to their type, got {val_cls!r} and {typeof_fn!r}"
        )
    if val_cls not in value_classes and val_cls in _avals.aval_makers:
        raise ValueError(
            f"values of {val_cls.__name__} are arguments of programs already, of a type that cannot be changed"
        )
    if issubclass(val_cls, tuple | list | dict):
        raise TypeError(
            f"{val_cls.__name__} is a {val_cls.__mro__[-2].__name__}, and these are pytrees, which are taken apart: use a class of its own, such as a frozen dataclass"
        )

    def make(x):
        aval = typeof_fn(x)
        if not isinstance(aval, UserType):
            raise TypeError(
                f"the function registered for {val_cls.__name__} has to return a HiType or MutableHiType, got {aval!r} of type {type(aval).__name__}"
            )
        return aval

    if not val_cls.__module__.startswith("xlab."):
        in_use.types = True
    value_classes.add(val_cls)
    _avals.aval_makers[val_cls] = make


value_classes: set[type] = set()
"""The classes whose instances are values of hi types."""


value_classes.add(Stacked)
_avals.aval_makers[HiType] = lambda x: x
_avals.aval_makers[Stacked] = lambda x: x.type


def is_high(aval: Any) -> bool:
    """Whether a type is one of the user's."""
    return getattr(aval, "is_high", False)


class Operations(NamedTuple):
    """The primitives that take a value apart and put it together (`interpreters/hi_primitives.py`)."""

    lower: Callable[[Any], list]
    raise_value: Callable[[HiType, Sequence], Any]


_operations: Operations = None  # type: ignore[assignment]


def set_operations(operations: Operations) -> None:
    """Called by the file that defines them."""
    global _operations
    _operations = operations


def lower(x: Any, ty: HiType) -> list:
    """The arrays of a value, traced or not."""
    return list(_operations.lower(x)) if isinstance(x, Tracer) else list(ty.lower_val(x))


def raise_value(ty: HiType, parts: Sequence) -> Any:
    """The value of arrays, traced if one of these is."""
    return as_value(ty.raise_val(*parts))


def as_value(x: Any) -> Any:
    """A value whose arrays are traced as one that is traced itself; any other as it is."""
    if type(x) not in value_classes:
        return x
    ty = aval_of(x)
    if isinstance(ty, HiType):
        parts = ty.lower_val(x)
        if any(isinstance(p, Tracer) for p in parts):
            return _operations.raise_value(ty, parts)
    return x


def not_an_array(name: str, avals: Sequence) -> HiTypeError:
    """The error for an operation on arrays that was given a value of a hi type."""
    wrong = next(a for a in avals if is_high(a))
    return HiTypeError(
        f"{name} computes with arrays, and was given a value of the hi type {wrong}: take an array out of it first with an operation defined for "
        f"that type (a HiPrimitive), or write such an operation, whose `to_lojax` is given the value with its arrays"
    )
