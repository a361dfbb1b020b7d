"""Arrays from nothing: of zeros, of ones, of one value, and like others."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.array import is_native_array
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import dim_index, known_negative
from xlab.core.trace import EVAL, Tracer, state
from xlab.core.typing import Array, ArrayLike, DeviceLike, DTypeLike, ShapeLike, ShardingLike
from xlab.lax.convert import convert
from xlab.lax.creation import over_mesh_like
from xlab.lax.device_put import in_memory
from xlab.lax.elementwise import scalar_like
from xlab.numpy.conversion import (
    array,
    asarray,
    astype,
    copy,
    host_number,
    placed,
    user_dtype,
)
from xlab.numpy.operands import cast_operand, check, kind_of, spread_to
from xlab.sharding import (
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
)
from xlab.sharding.typed import out_sharding as out_sharding_of

__all__ = [
    "array",
    "asarray",
    "astype",
    "copy",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _shape(shape, name: str):
    try:
        out = (dim_index(shape),)
    except TypeError:
        try:
            out = tuple(dim_index(d) for d in shape)
        except TypeError:
            raise TypeError(
                f"{name}: Shapes must be 1D sequences of concrete values of integer type, got {shape!r}. Sizes "
                f"must be known while tracing: use Python ints or a static argument."
            ) from None
    if any(d < 0 if type(d) is int else known_negative(d) for d in out):
        raise TypeError(f"{name}: every dimension of a shape must be nonnegative, got {out}")
    return out


def _filled(shape, value, dtype, weak: bool = False, sharding=None):
    scalar = value if dtypes.is_extended(dtype) else scalar_like(value, ShapedArray((), dtype))
    if weak:
        return (
            convert(lax.full(shape, scalar, dtype), dtype, True)
            if state.trace is EVAL
            else lax.full(shape, dtypes.scalar_type_of(dtype)(value), sharding=sharding)
        )
    return lax.full(shape, scalar, dtype, sharding=sharding)


def _created(name, shape, value, dtype, device):
    shape = _shape(shape, name)
    dtype = dtypes.canonicalize_dtype(np.float64) if dtype is None else user_dtype(dtype, name)
    if isinstance(device, (PartitionSpec, NamedSharding)) and get_abstract_mesh().explicit_axes:
        return _filled(
            shape, value, dtype, sharding=out_sharding_of(device, f"jnp.{name}", len(shape))
        )
    return placed(_filled(shape, value, dtype), device)


def zeros(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array of zeros.

    Args:
        shape: the shape of the result.
        dtype: its dtype, float32 by default.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.zeros((2, 2))
        Array([[0., 0.],
               [0., 0.]], dtype=float32)
    """
    return _created("zeros", shape, 0, dtype, device if out_sharding is None else out_sharding)


def ones(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array of ones.

    Args:
        shape: the shape of the result.
        dtype: its dtype, float32 by default.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ones(3, int)
        Array([1, 1, 1], dtype=int32)
    """
    return _created("ones", shape, 1, dtype, device if out_sharding is None else out_sharding)


def empty(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array whose values do not matter (zeros).

    Args:
        shape: the shape of the result.
        dtype: its dtype, float32 by default.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.empty((2, 3)).shape
        (2, 3)
    """
    return _created("empty", shape, 0, dtype, device if out_sharding is None else out_sharding)


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array filled with a value, which may be an array that broadcasts to the shape.

    Args:
        shape: the shape of the result.
        fill_value: a number or array that broadcasts to `shape`.
        dtype: its dtype; by default that of `fill_value`.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.full((2,), 7.5)
        Array([7.5, 7.5], dtype=float32, weak_type=True)
    """
    (fill_value,) = check("full", fill_value)
    shape = _shape(shape, "full")
    dtype = user_dtype(dtype, "full")
    return placed(_full(shape, fill_value, dtype), device if out_sharding is None else out_sharding)


def _full(shape, value, dtype):
    if type(value) is int and dtype is not None and dtypes.issubdtype(dtype, np.integer):
        value = host_number(value, dtype)[()]
    aval = aval_of(value)
    weak = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtype
    if aval.shape:
        return spread_to(cast_operand(value, dtype, weak), shape)
    return lax.full(shape, value, None if weak else dtype)


def _template(name, x):
    """What an array is to be like, and its type: an array, or anything with a shape and a dtype."""
    if kind_of(x) is None and hasattr(x, "shape") and hasattr(x, "dtype"):
        dtype = x.dtype if dtypes.is_extended(x.dtype) else dtypes.canonicalize_dtype(x.dtype)
        return x, ShapedArray(tuple(x.shape), dtype, bool(getattr(x, "weak_type", False)))
    (x,) = check(name, x)
    return x, aval_of(x)


def resharded(x, out_sharding, name: str):
    """The array laid out as `out_sharding` says, a `PartitionSpec` over explicit axes or a `NamedSharding`; itself for None."""
    return (
        x
        if out_sharding_of(out_sharding, f"jnp.{name}", x.ndim) is None
        else placed(asarray(x), out_sharding)
    )


def _like(name, x, value, dtype, shape, device, out_sharding=None):
    if out_sharding is not None:
        if device is not None:
            raise ValueError(
                f"{name}: only one of device and out_sharding can be given, got {device=} and {out_sharding=}"
            )
        return resharded(
            _like(name, aval_of(x) if isinstance(x, Tracer) else x, value, dtype, shape, None),
            out_sharding,
            name,
        )
    x, aval = _template(name, x)
    dtype = user_dtype(dtype, name)
    shape = aval.shape if shape is None else _shape(shape, name)
    weak = dtype is None and aval.weak_type
    out_dtype = aval.dtype if dtype is None else dtype
    if value is None or kind_of(value) == "python":
        explicit = (
            aval.explicit_sharding
            if device is None and aval.shape == shape and isinstance(x, Tracer)
            else None
        )
        out = _filled(
            shape, 0 if value is None else _truncate(value, out_dtype), out_dtype, weak, explicit
        )
    else:
        if kind_of(value) == "host" and not np.ndim(value) and not dtypes.is_extended(out_dtype):
            value = scalar_like(value, ShapedArray((), out_dtype))
        out = convert(
            asarray(spread_to(cast_operand(value, out_dtype, weak), shape)), out_dtype, weak
        )
    if (
        device is None
        and is_native_array(x)
        and not aval.mat
        and x.aval.shape == shape
        and x.committed
    ):
        device = x.sharding
    elif device is None and aval.memory_space:
        out = in_memory(out, aval)
    return placed(over_mesh_like(out, aval, 0 if value is None else value), device)


def _truncate(value, dtype):
    return (
        value.real
        if isinstance(value, complex) and not dtypes.issubdtype(dtype, np.complexfloating)
        else value
    )


def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Zeros of the shape and dtype of `a`.

    Args:
        a: an array whose shape and dtype are taken.
        dtype: another dtype.
        shape: another shape.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.zeros_like(jnp.arange(3))
        Array([0, 0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Ones of the shape and dtype of `a`.

    Args:
        a: an array whose shape and dtype are taken.
        dtype: another dtype.
        shape: another shape.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ones_like(jnp.zeros(2))
        Array([1., 1.], dtype=float32)
    """
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Array:
    """An array of the shape and dtype of another, whose values do not matter.

    Args:
        prototype: an array whose shape and dtype are taken.
        dtype: another dtype.
        shape: another shape.
        device: a device or sharding the result is put on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.empty_like(jnp.zeros((2, 3))).shape
        (2, 3)
    """
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array of the shape and dtype of `a` filled with a value.

    Args:
        a: an array whose shape and dtype are taken.
        fill_value: a number or array that broadcasts to the shape.
        dtype: another dtype.
        shape: another shape.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.full_like(jnp.zeros(2), 5)
        Array([5., 5.], dtype=float32)
    """
    (fill_value,) = check("full_like", fill_value)
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)
