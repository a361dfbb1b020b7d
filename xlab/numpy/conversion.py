"""Arrays made of data: numbers, lists, NumPy arrays and what offers itself as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab import lax
from xlab.backend.arrays import ArrayImpl
from xlab.compile.placement import default_sharding, place, put_host
from xlab.compile.runtime_checks import check_eager, watching
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import aval_of, short_repr, symbolic_types
from xlab.core.dims import SymbolicDim
from xlab.core.source_info import warn
from xlab.core.trace import EVAL, Tracer, state
from xlab.core.typing import Array, ArrayLike, DeviceLike, DTypeLike, ShardingLike
from xlab.interpreters.constants import made_while_traced
from xlab.lax.convert import convert, warn_of_lost_part
from xlab.lax.elementwise import convert_on_host
from xlab.lax.reshard import reshard
from xlab.numpy.operands import cast_operand, check, kind_of
from xlab.sharding import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)
from xlab.sharding.typed import is_nowhere

__all__ = ["array", "asarray", "astype", "copy"]


def user_dtype(dtype, name: str):
    return (
        None
        if dtype is None
        else dtypes.check_user_dtype(dtype, name)
        if not dtypes.is_extended(dtype)
        else dtype
    )


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array made from numbers, nested lists of them, NumPy arrays or arrays; the data is copied.

    Args:
        object: what it is made from. Lists may hold arrays and traced values. Also objects of the buffer protocol
            (`array.array`, `bytearray`, `memoryview`, ctypes arrays) and those with a method `__array__`.
        dtype: element type; by default that of the values, at most 32 bits wide unless 64-bit types are enabled.
        copy: whether an array gets a buffer of its own.
        order: only "K".
        ndmin: least number of dimensions; leading ones of size 1 are added.
        device: a device or sharding to put the array on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.array([1, 2, 3])
        Array([1, 2, 3], dtype=int32)
    """
    if order not in (None, "K"):
        raise NotImplementedError(
            f"array: only order='K' is available, got {order!r}: arrays have no strides"
        )
    dtype = user_dtype(dtype, "array")
    out = _array(object, dtype, copy)
    ndim = out.aval.ndim
    if ndmin > ndim:
        out = lax.broadcast_in_dim(
            out, (1,) * (ndmin - ndim) + out.aval.shape, range(ndmin - ndim, ndmin)
        )
    return placed(out, device if out_sharding is None else out_sharding)


def from_lists(x: Any) -> Any:
    """Numbers in lists and tuples as an array, for the functions that take such as SciPy does; anything else as it is."""
    return asarray(x) if isinstance(x, (list, tuple)) else x


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: DeviceLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """As `array`, without a copy where `a` is an array of that dtype already.

    Args:
        a: an array, a number, or nested sequences of them.
        dtype: the dtype of the result; by default that of the operands.
        order: has to be None or 'K': arrays have no strides.
        copy: whether to copy; None copies where needed.
        device: a device or sharding the result is put on.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> x = jnp.ones(3)
        >>> jnp.asarray(x) is x
        True
    """
    if isinstance(a, np.ma.MaskedArray):
        aval_of(a)  # refuses it: `array` copies its data, here the mask would be lost silently
    return array(
        a, dtype=dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding
    )


def placed(x, where):
    if where is None or is_nowhere(where):
        return x
    if isinstance(where, PartitionSpec) or (
        isinstance(where, NamedSharding) and isinstance(x, Tracer) and where.mesh.explicit_axes
    ):
        return reshard(x, where)
    if isinstance(x, (Tracer, KeyArray)):
        from xlab.parallel.put import device_put

        return device_put(x, where)
    sharding = where if isinstance(where, Sharding) else SingleDeviceSharding(where)
    return place(x, x.aval, sharding)


def _array(x, dtype, copy: bool):
    kind = kind_of(x)
    if kind == "array" and type(x) is ArrayImpl and not is_native_array(x):  # JAX's
        return _from_host(x if dtype is None else _host_convert(np.asarray(x), dtype), None)
    if kind == "array":
        if isinstance(x, KeyArray) or dtypes.is_extended(x.aval.dtype):
            own = type(x.aval.dtype) is not dtypes.KeyDType
            return convert(x, dtype, False) if own and dtype is not None else x
        if dtype is not None and (dtype != x.aval.dtype or x.aval.weak_type):
            return convert(x, dtype, False)
        return lax.copy(x) if copy else x
    if kind == "python":
        if dtype is None:
            aval = aval_of(x)
            return _from_host(np.asarray(x, aval.dtype), aval)
        return _from_host(host_number(x, dtype), None)
    if kind == "host":
        return _from_host(x if dtype is None else _host_convert(x, dtype), None)
    if kind == "wrapped":
        return _array(x.__jax_array__(), dtype, copy)
    if x is None:
        raise ValueError(
            "None is not a valid value for array: it is no number. Use nan, or a mask of missing entries."
        )
    if isinstance(x, (list, tuple, range)):
        return _from_list(with_dims_as_arrays(x), dtype)
    if hasattr(x, "__array__"):
        return _array(np.asarray(x), dtype, copy)
    if isinstance(x, (str, bytes)) and dtype is not None:
        return _array(np.asarray(x).astype(dtype), dtype, copy)
    # Bytes are a text, whose elements NumPy would not take for numbers either.
    if not isinstance(x, bytes) and (viewed := _viewed(x)) is not None:
        return _array(viewed, dtype, copy)
    raise _not_numbers(x, np.asarray(x))


def with_dims_as_arrays(x):
    """Nested lists with arrays in place of symbolic dimensions."""
    if not symbolic_types.in_use:
        return x
    if isinstance(x, (list, tuple)):
        return [with_dims_as_arrays(v) for v in x]
    return x.__jax_array__() if isinstance(x, SymbolicDim) else x


def _viewed(x):
    """The elements of an object of the buffer protocol; None for others."""
    try:
        return np.asarray(memoryview(x))
    except (TypeError, ValueError):
        return None


def host_number(x, dtype):
    """A Python number of a dtype asked for, which an integer has to fit in."""
    if type(x) is not int:
        _refuse_complex([x], dtype)
        _check_range([x], dtype)
        return _host_convert(np.asarray(x), dtype)
    if not dtypes.issubdtype(dtype, np.integer):
        return np.asarray(x != 0 if dtype == np.bool_ else float(x)).astype(dtype)
    _check_range([x], dtype)
    return np.asarray(x).astype(dtype)


def _host_convert(x, dtype):
    if x.dtype == dtype:
        return x
    if _loses_part(x.dtype, dtype):
        warn_of_lost_part(x.dtype, dtype)
        x = x.real
    return x.astype(dtype)


def _loses_part(given, dtype) -> bool:
    """Whether complex numbers become real ones; as truth values they are compared with 0 as a whole."""
    return (
        dtypes.issubdtype(given, np.complexfloating)
        and dtype != np.bool_
        and not dtypes.issubdtype(dtype, np.complexfloating)
    )


def _refuse_complex(leaves, dtype):
    """Python complex numbers are no real ones, as for Python; arrays of them lose their imaginary parts."""
    if dtype != np.bool_ and not dtypes.issubdtype(dtype, np.complexfloating):
        for leaf in leaves:
            if type(leaf) is complex:
                raise TypeError(
                    f"the complex number {leaf} is no element of dtype {dtypes.name(dtype)}: take its .real, or ask for a "
                    f"complex dtype"
                )


def _from_host(x, aval):
    """A host array (copied: later changes of the source do not show), as data when eager, as a constant when traced.

    A program that makes a scalar so has it as a literal; one that closes over an array of that type need not.
    """
    x = np.asarray(x)
    if x.dtype.kind in "OSUMm" or (
        x.dtype.kind == "V" and x.dtype.type is np.void and x.dtype != dtypes.float0
    ):
        raise _not_numbers(x, x)
    if aval is None:
        aval = aval_of(x)
    dtype = aval.dtype
    made = put_host(np.array(x, dtype, order="C"), aval, default_sharding(), False)
    made_while_traced(made)
    return check_eager("array", [made])[0] if watching() and state.trace is EVAL else made


def _not_numbers(x, as_numpy):
    return TypeError(
        f"Value {short_repr(x)} with dtype {as_numpy.dtype} is not a valid array value: only arrays of numbers, "
        f"booleans and random keys are supported. Convert it to numbers first."
    )


def _leaves(x):
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


def _from_list(x, dtype):
    if isinstance(x, range):
        x = list(x)
    leaves = list(_leaves(x))
    if any(leaf is None for leaf in leaves):
        raise ValueError(
            "None is not a valid value for array: it is no number. Use nan, or a mask of missing entries."
        )
    if not any(isinstance(leaf, (Tracer, KeyArray)) for leaf in leaves):
        found = dtype
        if found is None and leaves:
            found = (
                dtypes.result_type(
                    *[leaf if kind_of(leaf) else np.asarray(leaf) for leaf in leaves]
                )
                if all(kind_of(leaf) for leaf in leaves)
                else None
            )
        try:
            value = np.array(_plain(x))
        except ValueError as e:
            # Joining arrays whose shapes differ is a mistake of type, as it is for concatenate.
            kind = TypeError if any(hasattr(leaf, "aval") for leaf in leaves) else ValueError
            raise kind(f"{e} An array needs rows of one length.") from None
        if value.dtype.kind == "O" and dtype is not None and dtypes.issubdtype(dtype, np.inexact):
            value = value.astype(np.complex128 if dtype.kind == "c" else np.float64)
        if value.dtype.kind == "O" and found is not None:
            raise OverflowError(
                f"a Python integer of {x!r} is out of bounds for {found}; use a float, or enable 64-bit types"
            )
        if found is not None:
            _refuse_complex(leaves, found)
            if _may_leave(value, found):
                _check_range(leaves, found)
                # What is left beyond the range are elements of arrays.
                value = convert_on_host(value, found)
            else:
                value = _host_convert(value, found)
        return _from_host(value, None)
    parts = [_from_list(v, dtype) if isinstance(v, (list, tuple)) else v for v in x]
    if any(isinstance(p, KeyArray) or dtypes.is_extended(aval_of(p).dtype) for p in parts):
        expanded = [lax.expand_dims(p, (0,)) for p in parts]
        return lax.concatenate(expanded, 0)
    if dtype is None:
        dtype = dtypes.result_type(*parts)
    else:
        _check_range(leaves, dtype)
    parts = [cast_operand(p, dtype) for p in parts]
    shapes = {aval_of(p).shape for p in parts}
    if len(shapes) > 1:
        raise TypeError(
            f"array got a list of values of different shapes {sorted(shapes)}: an array needs rows of one length"
        )
    return lax.concatenate([lax.expand_dims(p, (0,)) for p in parts], 0)


def _plain(x):
    """Nested lists with arrays as host values."""
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    return np.asarray(x) if hasattr(x, "aval") else x


def _may_leave(value, dtype) -> bool:
    """Whether some element of a host array may lie beyond an integer dtype: a quick look, before each is asked."""
    if not dtypes.issubdtype(dtype, np.integer) or value.dtype == np.bool_:
        return False
    if not (
        dtypes.issubdtype(value.dtype, np.integer) or dtypes.issubdtype(value.dtype, np.floating)
    ):
        return False
    info = dtypes.iinfo(dtype)
    return not np.all((value >= int(info.min)) & (value <= int(info.max)))


def _check_range(leaves, dtype):
    """Numbers that are asked for in an integer dtype fit in it, once cut to an integer; elements of arrays are converted."""
    if not dtypes.issubdtype(dtype, np.integer):
        return
    info = dtypes.iinfo(dtype)
    for leaf in leaves:
        if isinstance(leaf, bool) or not isinstance(leaf, (int, float, np.integer, np.floating)):
            continue
        if leaf != leaf:
            raise ValueError(
                f"cannot convert float NaN to integer, here {dtypes.name(dtype)}: ask for a float dtype, or replace it first"
            )
        if leaf in (float("inf"), -float("inf")):
            raise OverflowError(
                f"cannot convert float infinity to integer, here {dtypes.name(dtype)}, which holds {info.min} to {info.max}: "
                f"ask for a float dtype, or give one of these ends"
            )
        if not int(info.min) <= int(leaf) <= int(info.max):
            raise OverflowError(
                f"Python integer {int(leaf)} out of bounds for {dtypes.name(dtype)}, which holds {info.min} to {info.max}; "
                f"use a wider dtype or a float"
            )


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy in a buffer of its own.

    Example:
        >>> import xlab.numpy as jnp
        >>> x = jnp.ones(3)
        >>> jnp.copy(x) is x
        False
    """
    check("copy", a)
    return array(a, copy=True, order=order or "K")


def astype(
    x: ArrayLike,
    dtype: DTypeLike | None,
    /,
    *,
    copy: bool = False,
    device: DeviceLike | None = None,
) -> Array:
    """The values in another dtype; complex values lose their imaginary part, floats are cut towards zero.

    The first is deprecated, and warned of.

    Args:
        x: an array.
        dtype: the new dtype.
        copy: whether the result may not share memory with `x`.
        device: a device or sharding the result is put on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.astype(jnp.array([1.7, -1.7]), int)
        Array([ 1, -1], dtype=int32)
    """
    check("astype", x)
    dtype = dtypes.canonicalize_dtype(np.float64) if dtype is None else user_dtype(dtype, "astype")
    kind = kind_of(x)
    if kind in ("array", "host") and _loses_part(x.dtype, dtype):
        warn(
            f"Casting from complex to real dtypes will soon raise a ValueError: astype got {dtypes.name(x.dtype)} for "
            f"{dtypes.name(dtype)}. Take the part that is meant with jnp.real or jnp.imag first.",
            DeprecationWarning,
        )
        x = x.real if kind == "host" else x
    if kind != "array":
        return array(x, dtype)
    if dtype == np.bool_ and x.aval.dtype != np.bool_ and not dtypes.is_extended(x.aval.dtype):
        return lax.ne(x, np.zeros((), x.aval.dtype)[()])
    out = convert(x, dtype, False, warns=False)
    return placed(lax.copy(out) if copy and out is x else out, device)
