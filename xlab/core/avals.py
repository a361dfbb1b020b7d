"""Abstract values: what is known about a value before the program runs.

A `ShapedArray` is interned: two equal types are the same object, so every cache in the package that is
keyed by types compares pointers and hashes in C.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlab.backend import caches, neighbors
from xlab.config import config
from xlab.core import dtypes
from xlab.core.dims import SymbolicDim
from xlab.errors import InvalidInputException, TokenError, UnexpectedTracerError
from xlab.sharding import typed as _typed
from xlab.sharding.current import get_abstract_mesh
from xlab.sharding.named import NamedSharding
from xlab.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from xlab.core.trace import Tracer


class ManualAxisType:
    """How a value behaves over the Manual mesh axes of a `shard_map` body.

    An axis is *varying* (each device has its own value), *unreduced* (the devices hold summands),
    *reduced* (one value whose cotangent is unreduced) or, in none of the sets, invarying.
    """

    __slots__ = ("_hash", "reduced", "unreduced", "varying")

    def __init__(self, varying=(), unreduced=(), reduced=()):
        self.varying = frozenset(varying)
        self.unreduced = frozenset(unreduced)
        self.reduced = frozenset(reduced)
        twice = (
            (self.varying & self.unreduced)
            | (self.varying & self.reduced)
            | (self.unreduced & self.reduced)
        )
        if twice:
            raise ValueError(
                f"mesh axes {sorted(map(str, twice))} are in more than one of varying="
                f"{set(self.varying)}, unreduced={set(self.unreduced)}, reduced={set(self.reduced)}"
            )
        self._hash = hash((self.varying, self.unreduced, self.reduced))

    def update(
        self,
        *,
        varying: Iterable[Any] | None = None,
        unreduced: Iterable[Any] | None = None,
        reduced: Iterable[Any] | None = None,
    ) -> ManualAxisType:
        return ManualAxisType(
            self.varying if varying is None else varying,
            self.unreduced if unreduced is None else unreduced,
            self.reduced if reduced is None else reduced,
        )

    def transposed(self) -> ManualAxisType:
        """Manual axis type of the cotangent: unreduced becomes reduced, and reduced becomes unreduced."""
        return (
            self.update(unreduced=self.reduced, reduced=self.unreduced)
            if self.unreduced or self.reduced
            else self
        )

    def __bool__(self):
        return bool(self.varying or self.unreduced or self.reduced)

    @property
    def empty(self) -> bool:
        """Whether it names no axes."""
        return not self

    def __eq__(self, other):
        return isinstance(other, ManualAxisType) and (
            self.varying,
            self.unreduced,
            self.reduced,
        ) == (other.varying, other.unreduced, other.reduced)

    def __hash__(self):
        return self._hash

    def __str__(self):
        parts = []
        for letter, axes in (("V", self.varying), ("U", self.unreduced), ("R", self.reduced)):
            if axes:
                names = sorted(map(str, axes))
                parts.append(
                    f"{letter}:{names[0] if len(names) == 1 else '(' + ','.join(names) + ')'}"
                )
        return "{" + ", ".join(parts) + "}" if parts else ""

    def __repr__(self):
        return (
            f"ManualAxisType(varying={set(self.varying)}, unreduced={set(self.unreduced)}, "
            f"reduced={set(self.reduced)})"
        )


INVARYING = ManualAxisType()


class AbstractValue:
    """Base of all types a variable of a jaxpr can have."""

    __slots__ = ()

    def to_tangent_aval(self):
        raise TypeError(f"values of type {self} have no derivative")

    def to_ct_aval(self) -> AbstractValue:
        """Type of the cotangent of a tangent of this type."""
        return self

    def str_short(self, short_dtypes: bool = False) -> str:
        return str(self)

    # What types of the user's own have as well (`hi_types.py`): any other type is that of one array.

    is_high = False

    def lo_ty(self) -> list:
        """The types of the arrays that a value of this type consists of: itself."""
        return [self]

    def lower_val(self, hi_val: Any) -> list:
        """The arrays that a value consists of: itself."""
        return [hi_val]

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value of these arrays: the one array."""
        (value,) = lo_vals
        return value

    def vspace_zero(self) -> Any:
        """The zero of a type of tangents."""
        return vector_space["zero"](self)

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two tangents of this type."""
        return vector_space["add"](x, y)


# `interpreters/ad/jvp.py`: type -> its zero; (x, y) -> their sum.
vector_space: dict[str, Callable[..., Any]] = {}


class _ExplicitTypes:
    """Whether any type was ever sharded or unreduced: until then sharding rules are skipped."""

    in_use = False


explicit_types = _ExplicitTypes()

_interned: weakref.WeakValueDictionary[tuple, ShapedArray] = weakref.WeakValueDictionary()
_intern_lock = threading.Lock()
# A type that nothing holds any more is soon asked for again.
_latest: collections.deque[ShapedArray] = collections.deque(maxlen=1024)
caches.register(_latest.clear)


class _SymbolicTypes:
    """Whether any type ever had a symbolic dimension: until then nothing looks for them."""

    in_use = False


symbolic_types = _SymbolicTypes()


def _size(d):
    if type(d) is SymbolicDim:
        symbolic_types.in_use = True
        return d
    return int(d)


class ShapedArray(AbstractValue):
    """Type of an array: shape, dtype, weak type, sharding, manual axis type and memory space.

    Of a sharding only what is laid along Explicit axes of the mesh belongs to the type; `explicit_sharding` is None where there is none.

    Example:
        >>> import numpy as np
        >>> ShapedArray((8, 4), np.float32)
        ShapedArray(float32[8,4])
    """

    __slots__ = (
        "__weakref__",
        "dtype",
        "explicit_sharding",
        "mat",
        "memory_space",
        "mlir",
        "ndim",
        "shape",
        "size",
        "weak_type",
    )

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    explicit_sharding: NamedSharding | None
    mat: ManualAxisType
    memory_space: str | None
    ndim: int
    size: int
    mlir: Any

    def __new__(
        cls, shape, dtype, weak_type=False, *, sharding=None, mat=INVARYING, memory_space=None
    ):
        if type(shape) is not tuple:
            shape = tuple(shape)
        if not dtypes.is_dtype(dtype):
            dtype = np.dtype(dtype)
        if sharding is not None:
            sharding = _typed.canonical(sharding, len(shape))
        key = (shape, dtype, weak_type, sharding, mat, memory_space)
        self = _interned.get(key)
        if self is not None:
            return self
        with _intern_lock:
            self = _interned.get(key)
            if self is None:
                self = object.__new__(cls)
                self.shape = tuple(map(_size, shape))
                self.dtype = dtype
                self.weak_type = weak_type
                self.explicit_sharding = sharding
                if sharding is not None or mat.unreduced or mat.reduced:
                    explicit_types.in_use = True
                self.mat = mat
                self.memory_space = memory_space
                self.ndim = len(shape)
                size = 1
                for d in shape:
                    size *= d
                self.size = size
                self.mlir = None  # the StableHLO spelling, filled in by the lowering
                _interned[key] = self
                _latest.append(self)
        return self

    def update(self, **changes: Any) -> ShapedArray:
        """This type with some fields replaced; with another shape it is sharded only as `sharding` says."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "sharding": None if "shape" in changes else self.explicit_sharding,
            "mat": self.mat,
            "memory_space": self.memory_space,
        }
        fields.update(changes)
        return ShapedArray(**fields)

    @property
    def has_qdd(self):
        """JAX asks this of the types of arrays of the shared native class, so ours have to answer."""
        raise neighbors.array_refusal(self)

    @property
    def sharding(self) -> NamedSharding:
        """How the value lies over the Explicit axes of the mesh; over the current mesh where nothing shards it."""
        neighbors.refuse_to_jax(self)
        explicit, mat = self.explicit_sharding, self.mat
        spec = explicit.spec if explicit is not None else PartitionSpec(*(None,) * self.ndim)
        mesh = explicit.mesh if explicit is not None else get_abstract_mesh()
        if mat and (mat.unreduced | mat.reduced) <= set(mesh.explicit_axes):
            spec = spec.update(unreduced=mat.unreduced, reduced=mat.reduced)
        return NamedSharding(mesh, spec)

    def without_dimension(self, d: int) -> ShapedArray:
        """The type of one slice along dimension `d`."""
        explicit = self.explicit_sharding
        if explicit is not None:
            kept = _typed.entries(self)
            explicit = _typed.of_entries(explicit.mesh, kept[:d] + kept[d + 1 :])
        return self.update(shape=self.shape[:d] + self.shape[d + 1 :], sharding=explicit)

    def with_dimension(self, d: int, size: int, axes: tuple = (), mesh: Any = None) -> ShapedArray:
        """The type with a new dimension in place `d`, sharded along the given axes of a mesh."""
        explicit = self.explicit_sharding
        if explicit is not None or axes:
            kept = _typed.entries(self)
            explicit = _typed.of_entries(
                explicit.mesh if explicit is not None else mesh, (*kept[:d], tuple(axes), *kept[d:])
            )
        return self.update(shape=(*self.shape[:d], size, *self.shape[d:]), sharding=explicit)

    @property
    def vma(self) -> frozenset:
        """Mesh axes over which the value varies from device to device."""
        return self.mat.varying

    @property
    def nbytes(self) -> int:
        return self.size * dtypes.itemsize(self.dtype)

    def dec_rank(self, size: int | None, spec: int | None) -> ShapedArray:
        """The type of one example of a batch along dimension `spec`."""
        return self if spec is None else self.without_dimension(spec % self.ndim)

    def inc_rank(self, size: int | None, spec: int | None) -> ShapedArray:
        """The type of a batch of `size` examples along dimension `spec`."""
        return self if spec is None or size is None else self.with_dimension(spec, size)

    def leading_axis_spec(self) -> int:
        """The dimension that `scan` goes along."""
        return 0

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    normalize = strip_weak_type

    def to_tangent_aval(self) -> ShapedArray:
        neighbors.refuse_to_jax(self)
        if dtypes.issubdtype(self.dtype, np.inexact):
            return self
        if dtypes.is_extended(self.dtype) and self.dtype.tangent_dtype is not None:
            return self.update(dtype=self.dtype.tangent_dtype)
        return ShapedArray(self.shape, dtypes.float0, sharding=self.explicit_sharding, mat=self.mat)

    def to_ct_aval(self) -> ShapedArray:
        mat = self.mat
        return self.update(mat=mat.transposed()) if mat.unreduced or mat.reduced else self

    def str_short(self, short_dtypes: bool = False) -> str:
        name = dtypes.short_name(self.dtype) if short_dtypes else dtypes.name(self.dtype)
        space = f"<{self.memory_space}>" if self.memory_space else ""
        if self.explicit_sharding is None:
            return f"{name}{space}[{','.join(map(str, self.shape))}]{self.mat}"
        dims = ",".join(map(_typed.dimension, self.shape, _typed.entries(self)))
        return f"{name}{space}[{dims}]{self.mat}"

    def __str__(self):
        return ("~" if self.weak_type else "") + self.str_short(short_dtypes=False)

    def __repr__(self):
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short(short_dtypes=False)}{weak})"

    def __reduce__(self):
        return _rebuild, (
            self.shape,
            self.dtype,
            self.weak_type,
            self.explicit_sharding,
            self.mat,
            self.memory_space,
        )

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def _rebuild(shape, dtype, weak_type, sharding, mat, memory_space):
    return ShapedArray(
        shape, dtype, weak_type, sharding=sharding, mat=mat, memory_space=memory_space
    )


class AbstractToken(AbstractValue):
    """Type of the tokens that order side effects."""

    __slots__ = ()

    def __getattr__(self, name):
        if name in ("shape", "dtype", "ndim", "size", "weak_type"):
            raise TokenError(
                f"an array was expected, and a token has no `{name}`: it orders effects and holds no numbers. Give it to the operation that waits for it"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def to_tangent_aval(self):
        return self

    def __str__(self):
        return "Tok"


TOKEN = AbstractToken()

# How to find the type of a value, by its Python class. Upper rooms register their classes here.
aval_makers: dict[type, Any] = {}


# Of types that users registered: how their values become arrays.
array_converters: dict[type, Callable[[Any], Any]] = {}


def register_array_type(cls: type, to_array: Callable[[Any], Any]) -> None:
    """Makes values of a class arguments of programs: they are converted where they are placed on devices.

    Args:
        cls: the class itself; subclasses are registered on their own.
        to_array: called with a value, returns an array of JAX's or NumPy's, or a number; always of one shape and dtype for one value.

    Raises:
        ValueError: when values of the class are arguments already.

    Example:
        >>> import numpy as np, xlab
        >>> class Celsius:
        ...     def __init__(self, degrees):
        ...         self.degrees = degrees
        >>> register_array_type(Celsius, lambda c: np.float32(c.degrees + 273.15))
        >>> round(float(xlab.jit(lambda kelvin: kelvin * 1)(Celsius(0.0))), 2)
        273.15
        >>> unregister_array_type(Celsius)
    """
    if cls in aval_makers:
        raise ValueError(f"values of {cls.__name__} are arguments of programs already")
    array_converters[cls] = to_array
    aval_makers[cls] = lambda x: aval_of(to_array(x))


def unregister_array_type(cls: type) -> None:
    """Takes back `register_array_type`; raises KeyError where the class is not registered."""
    del array_converters[cls]
    aval_makers.pop(cls, None)


def aval_of(x: Any) -> AbstractValue:
    """Type of any value that may enter a program; `InvalidInputException` when it may not."""
    make = aval_makers.get(type(x))
    if make is not None:
        return make(x)
    for cls in type(x).__mro__[1:]:
        make = aval_makers.get(cls) if cls not in array_converters else None
        if make is not None:
            aval_makers[type(x)] = make  # found directly from now on
            return make(x)
    if getattr(type(x), "explains_itself", False):
        x.__jax_array__()  # raises, and says what to do with it
    if words := neighbors.refusal(x):
        raise InvalidInputException(words)
    raise InvalidInputException(
        f"{value_and_type(x)} is not a valid array value: expected an array, a NumPy "
        f"array or scalar, or a Python number. Convert it with xlab.numpy.asarray, or mark the "
        f"argument static (jit(..., static_argnames=...)) if the program should be specialized to it."
    )


def value_and_type(x: Any) -> str:
    """A value as an error shows it, with the name of its type."""
    return f"{short_repr(x)} of type {type(x).__name__}"


def short_repr(x: Any) -> str:
    """`repr` in one line; its first and last characters where that is long.

    >>> short_repr("a" * 200)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    text = " ".join(repr(x).split())
    return text if len(text) <= 80 else f"{text[:38]}...{text[-39:]}"


def same_up_to_weak_type(a: AbstractValue, b: AbstractValue) -> bool:
    """Whether two types are equal except for weak typing."""
    if a is b:
        return True
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return a.strip_weak_type() is b.strip_weak_type()
    return a == b


def _numpy_aval(x):
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(
            "NumPy masked arrays are not accepted: their mask would be lost. "
            "Fill the masked entries first, for example with x.filled(0)."
        )
    if not x.dtype.isnative:
        raise InvalidInputException(
            f"a NumPy array of dtype {x.dtype.str} has its bytes in the order of another machine, which no device computes with. "
            f"Convert it first: x.astype(x.dtype.newbyteorder('='))."
        )
    if x.dtype.kind in "OUSMm":
        raise InvalidInputException(
            f"a NumPy array of dtype {x.dtype} is not a valid array value: programs know numbers and booleans only. "
            f"Convert it with x.astype(...), or keep it out of the traced function."
        )
    _check_numpy_dtype(x.dtype)
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))


def _check_numpy_dtype(dtype):
    """Raises for NumPy dtypes that no device supports, such as longdouble and records."""
    if (dtype.names is not None and dtype != dtypes.float0) or (
        dtype.kind in "fc" and dtype.char in "gG"
    ):  # ml_dtypes has such letters of its own
        raise InvalidInputException(
            f"NumPy values of dtype {dtype} are not valid array values: devices compute with numbers of at most 64 bits (complex ones of 128) "
            f"and know no records. Convert with x.astype(...), or pass the fields one by one."
        )


# Types of scalars, by class and x64: asked for with every literal.
_scalar_avals: dict[tuple, ShapedArray] = {}


def _scalar_maker(python_type):
    weak = python_type is not bool

    def make(x):
        key = (python_type, config.enable_x64)
        aval = _scalar_avals.get(key)
        if aval is None:
            dtype = dtypes.canonicalize_dtype(dtypes.python_scalar_dtype(python_type))
            aval = _scalar_avals[key] = ShapedArray((), dtype, weak)
        if python_type is int and not -2147483648 <= x <= 2147483647:
            info = np.iinfo(aval.dtype)
            if not info.min <= x <= info.max:
                raise OverflowError(
                    f"Python int {x} is too large to convert to {aval.dtype}; enable 64-bit types "
                    f"(xlab.config.update('enable_x64', True)) or use a float"
                )
        return aval

    return make


def _numpy_scalar_aval(x):
    key = (x.dtype, config.enable_x64)
    aval = _scalar_avals.get(key)
    if aval is None:
        _check_numpy_dtype(x.dtype)
        aval = _scalar_avals[key] = ShapedArray((), dtypes.canonicalize_dtype(x.dtype))
    return aval


def _dim_aval(_):
    dtype = dtypes.canonicalize_dtype(np.int64)
    return ShapedArray((), dtype, True)


aval_makers[SymbolicDim] = _dim_aval
HOST_VALUES = (np.ndarray, np.generic, bool, int, float, complex)
"""Classes of values that are on no device."""
for _python_type in (bool, int, float, complex):
    aval_makers[_python_type] = _scalar_maker(_python_type)
aval_makers[np.ndarray] = _numpy_aval
aval_makers[np.generic] = _numpy_scalar_aval
aval_makers[ShapedArray] = lambda x: x


def escaped_tracer(tracer: Tracer, where: str) -> UnexpectedTracerError:
    """The error for a tracer used after the trace that made it has ended."""
    error = UnexpectedTracerError(
        f"A value of type {tracer.aval} made while tracing {tracer._trace.label} was used {where}, after "
        f"that tracing had ended. It was made at {tracer.origin()}. A traced value stands for data that "
        f"only exists while the compiled program runs, so it must not be kept in a global, an attribute "
        f"or a closure: return it from the function instead."
    )
    error.tracer = tracer
    return error


# -- of operands, batches and dimensions -------------------------------------------------------------------

array_types: set[type] = {np.ndarray, *(np.dtype(t).type for t in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128")), dtypes.bfloat16}  # fmt: skip


def valid_jaxtype(x: Any) -> bool:
    """Whether `x` can be an operand: an array, a NumPy array or scalar, a Python number."""
    try:
        aval_of(x)
    except TypeError:
        return False
    return True
