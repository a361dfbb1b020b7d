"""Operands of `numpy` functions: accepted values, promotion to a common dtype, and rank promotion.

Python numbers stay literals of the dtype they meet; host arrays are converted on the host; everything else by an
equation. Functions here run once per traced operation, so the common case (arrays of one type) leaves early.
"""

from __future__ import annotations

import functools

import numpy as np

from xlab.backend.arrays import ArrayImpl
from xlab.backend.neighbors import is_jaxs
from xlab.config import config
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import dim_index, dim_indices
from xlab.core.source_info import warn
from xlab.core.trace import Tracer
from xlab.errors import ConcretizationTypeError, ShardingTypeError, TokenError
from xlab.lax.convert import convert
from xlab.lax.elementwise import convert_on_host
from xlab.lax.reductions import highest, lowest
from xlab.lax.shape import broadcast_in_dim, broadcast_shapes
from xlab.lax.sharding_in_types import RESHARD
from xlab.sharding.typed import entries

_KINDS: dict[type, str] = {
    bool: "python",
    int: "python",
    float: "python",
    complex: "python",
    np.ndarray: "host",
    ArrayImpl: "array",
    KeyArray: "array",
}


def kind_of(x) -> str | None:
    """The kind of an operand: 'array', 'host' or 'python'; None if it is not array-like."""
    cls = type(x)
    try:
        return _KINDS[cls]
    except KeyError:
        pass
    if issubclass(cls, Tracer):
        kind = "array"
    elif issubclass(cls, (np.ndarray, np.generic)):
        kind = "host"
    elif is_jaxs(x):
        aval_of(x)  # says why not
        return None
    elif hasattr(cls, "__jax_array__"):
        return "wrapped"
    elif isinstance(x, (int, float, complex)):
        return "python"
    else:
        return None
    _KINDS[cls] = kind
    return kind


def check(name: str, *xs):
    """Refuses lists and other values that are no arrays; returns the operands, wrapped arrays opened."""
    opened = None
    for i, x in enumerate(xs):
        kind = kind_of(x)
        if kind is None:
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at position {i}. Lists and tuples are not "
                f"converted implicitly: pass xlab.numpy.asarray(x)."
            )
        if kind == "wrapped":
            opened = list(xs) if opened is None else opened
            opened[i] = x.__jax_array__()
    return xs if opened is None else tuple(opened)


def whole_along(name: str, what: str, x, axis: int):
    """Refuses an array that Explicit axes of a mesh shard along the dimension that a function walks through."""
    aval = aval_of(x)
    axes = entries(aval)[axis]
    if axes:
        raise ShardingTypeError(
            f"{name} takes the {what} in one piece along dimension {axis % aval.ndim}, got {aval.str_short(short_dtypes=True)}, "
            f"sharded there along {', '.join(map(repr, axes))}. {RESHARD}"
        )


def no_out(name: str, out):
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to {name} is not supported: arrays are never changed in place. Use the returned array."
        )


def no_keywords(name: str, out, where):
    """Refuses the keywords of NumPy's ufuncs that have no meaning here; None stands for their absence."""
    no_out(name, out)
    if where is not None:
        raise NotImplementedError(
            f"The 'where' argument to {name} is not supported. Use xlab.numpy.where on the result."
        )


def cast_operand(x, dtype, weak: bool = False):
    """An operand in a dtype (and weakness); Python numbers and host arrays without an equation."""
    kind = kind_of(x)
    if kind == "array":
        aval = x.aval
        if aval.dtype == dtype and aval.weak_type == weak:
            return x
        return convert(x, dtype, weak)
    if kind == "python":
        return python_number(x, dtype, weak)
    if kind != "host":
        (x,) = check("this function", x)
        return cast_operand(x, dtype, weak)
    if x.dtype != dtype:
        x = convert_on_host(x, dtype)[()]
    return x


def strip_weak_type(x):
    """An operand whose type is not weak."""
    return cast_operand(x, dtype_of(x))


def strip_weak_types(*xs):
    """Operands as they are where all are scalars; otherwise not weak: results of several cases are weak as scalars only."""
    return tuple(map(strip_weak_type, xs)) if any(shape_of(x) for x in xs) else xs


def python_number(x, dtype, weak: bool):
    """A Python number as a literal: a NumPy scalar of the dtype, or a Python number where the type is weak."""
    if dtypes.is_extended(dtype):
        raise TypeError(
            f"the Python number {x} cannot be combined with random keys of type {dtype}"
        )
    if weak:
        scalar = dtypes.scalar_type_of(dtype)
        if dtype == dtypes.canonicalize_dtype(dtypes.python_scalar_dtype(scalar)):
            return scalar(x)
        return convert(x, dtype, True)
    if dtype == np.bool_:
        return np.bool_(x)
    if isinstance(x, int) and dtypes.issubdtype(dtype, np.integer):
        # It wraps around, as where it is an argument; one too large for the default integer is refused there too.
        info = dtypes.iinfo(dtype)
        if not info.min <= x <= info.max:
            return np.asarray(x, index_dtype()).astype(dtype)[()]
    if isinstance(x, float) and dtypes.issubdtype(dtype, np.integer):
        return convert_on_host(x, dtype)[()]
    return dtype.type(x)


def kinds_of(xs):
    try:
        return tuple(
            [
                (x.aval.dtype, x.aval.weak_type) if hasattr(x, "aval") else dtypes.dtype_and_weak(x)
                for x in xs
            ]
        )
    except AttributeError as error:
        if type(error) not in (AttributeError, TokenError):  # of a type that says itself what it is
            raise
        for i, x in enumerate(xs):
            if hasattr(x, "aval") and not hasattr(x.aval, "dtype"):
                raise TypeError(
                    f"arithmetic takes arrays; the operand at position {i} is of type {type(x.aval).__name__.removeprefix('Abstract')}, which orders effects or "
                    "names memory and has no numbers"
                ) from None
        raise


def promoted(name: str, *xs):
    """Operands brought to their common dtype."""
    xs = check(name, *xs)
    if len(xs) == 1:
        return (narrow_host_dtype(xs[0]),)
    dtype, weak = dtypes.result_of(kinds_of(xs))
    return tuple([cast_operand(x, dtype, weak) for x in xs])


def promoted_inexact(name: str, *xs):
    """Operands brought to their common floating point or complex dtype; integers become floats."""
    xs = check(name, *xs)
    dtype, weak = dtypes.result_of(kinds_of(xs))
    dtype = dtypes.inexact_dtype(dtype)
    return tuple([cast_operand(x, dtype, weak) for x in xs])


def promoted_numeric(name: str, *xs):
    """Operands brought to their common dtype, booleans to integers."""
    xs = check(name, *xs)
    dtype, weak = dtypes.result_of(kinds_of(xs))
    if dtype == np.bool_:
        dtype, weak = np.dtype(np.int32), False
    return tuple([cast_operand(x, dtype, weak) for x in xs])


def index_dtype() -> np.dtype:
    """The dtype of positions and counts: the default integer."""
    return dtypes.canonicalize_dtype(np.int64)


def extreme_value(infinity: float, dtype) -> float:
    """An infinity as a Python number, or the number farthest out where a floating point dtype has none."""
    if not dtypes.issubdtype(dtype, np.floating):
        return infinity
    return float(lowest(dtype) if infinity < 0 else highest(dtype))


def narrow_host_dtype(x):
    """A host array in the width programs compute with; other values as they are."""
    if kind_of(x) == "host":
        dtype = dtypes.canonicalize_dtype(x.dtype)
        return x if x.dtype == dtype else x.astype(dtype)
    return x


def aligned(name: str, *xs):
    """Operands of equal rank: new leading dimensions of size 1, while scalars stay scalars."""
    first = shape_of(xs[0])
    ndim, same = len(first), True
    for x in xs[1:]:
        n = len(shape_of(x))
        if n != ndim:
            same = same and (n == 0 or ndim == 0)
            ndim = max(n, ndim)
    if same:
        return xs
    shapes = [shape_of(x) for x in xs]
    if config.numpy_rank_promotion != "allow":
        _complain_of_ranks(name, shapes)
    _fitting(*shapes)  # else the error would show shapes with dimensions nobody wrote
    return tuple([with_rank(x, ndim) if shape_of(x) else x for x in xs])


_fitting = functools.lru_cache(4096)(broadcast_shapes)
"""Looked for once for the same shapes: operands of two ranks are met at every turn of a trace."""


def with_rank(x, ndim: int):
    """An array with leading dimensions of size 1 up to a rank."""
    shape = shape_of(x)
    missing = ndim - len(shape)
    if not missing:
        return x
    if kind_of(x) == "host":
        return x.reshape((1,) * missing + shape)
    return broadcast_in_dim(x, (1,) * missing + shape, range(missing, ndim))


def _complain_of_ranks(name, shapes):
    nonscalar = [s for s in shapes if s]
    if len({len(s) for s in nonscalar}) < 2:
        return
    message = (
        f"Operands could not be broadcast together for {name} on shapes {' '.join(map(str, shapes))} without rank "
        f"promotion, and numpy_rank_promotion is '{config.numpy_rank_promotion}'. Add dimensions with x[None]."
    )
    if config.numpy_rank_promotion == "raise":
        raise ValueError(message)
    warn(message)


def shape_of(x) -> tuple[int, ...]:
    """The shape of any operand."""
    try:
        return x.aval.shape
    except AttributeError:
        return np.shape(x)


def ndim_of(x) -> int:
    return len(shape_of(x))


def dtype_of(x):
    """The canonical dtype of any operand."""
    try:
        return x.aval.dtype
    except AttributeError:
        return dtypes.dtype_and_weak(x)[0]


def spread_to(x, shape):
    """An operand broadcast to a shape in one equation; no equation where it has the shape."""
    mine = shape_of(x)
    if mine == shape:
        return x if kind_of(x) != "python" else broadcast_in_dim(x, shape, ())
    lead = len(shape) - len(mine)
    if lead < 0 or any(m not in (1, n) for m, n in zip(mine, shape[lead:])):
        raise ValueError(
            f"Incompatible shapes for broadcasting: {mine} and requested shape {tuple(shape)}"
        )
    return broadcast_in_dim(x, shape, range(lead, len(shape)))


def host(x, name: str):
    """The value of an operand on the host; an error where it is traced."""
    if isinstance(x, Tracer):
        value = x.concrete()
        if value is None:
            raise ConcretizationTypeError(
                f"{name} needs a concrete value, got {x._describe()}. Its result's shape depends on the value; give the "
                f"size (size=, length=, total_repeat_length=) or make the argument static."
            )
        x = value
    return np.asarray(x)


def known_axis(axis, name: str) -> None:
    """Refuses traced axes: which dimensions there are in a result must be known while tracing."""
    for a in axis if isinstance(axis, (tuple, list)) else (axis,):
        if isinstance(a, Tracer) and a.concrete() is None:
            raise ConcretizationTypeError(
                f"the axis of {name} must be known while tracing, got {a._describe()}. Make the argument static "
                f"(jit(..., static_argnames='axis')), or choose between calls with lax.switch."
            )


def numbers(given) -> tuple[int, ...]:
    """One integer, or any sequence of them, as a tuple: axes and sizes."""
    try:
        return (dim_index(given),)
    except TypeError:
        return dim_indices(given)


def float_like(x) -> ShapedArray:
    """Type of an operand after promotion to inexact."""
    aval = aval_of(x)
    return ShapedArray(aval.shape, dtypes.inexact_dtype(aval.dtype), aval.weak_type)
