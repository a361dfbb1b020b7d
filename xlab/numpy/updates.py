"""`x.at[index]`: reading with options, and the updates that stand in for assignment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xlab.backend import caches
from xlab.compile.jit import jit
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import HOST_VALUES, aval_of
from xlab.core.source_info import warn
from xlab.core.trace import EVAL, Tracer, state
from xlab.lax.arithmetic import pow
from xlab.lax.complexes import real
from xlab.lax.convert import convert, convert_element_type
from xlab.lax.creation import full_like
from xlab.lax.elementwise import real_part_dtype
from xlab.lax.reshard import auto_axes
from xlab.lax.scatter_functions import (
    ScatterDimensionNumbers,
    scatter,
    scatter_add,
    scatter_apply,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from xlab.lax.shape import broadcast_in_dim, broadcast_shapes, expand_dims, squeeze
from xlab.numpy.arithmetic import power
from xlab.numpy.creation import asarray
from xlab.numpy.index_entries import Parsed, Span, parse, plan_positions
from xlab.numpy.indexing import eager_getitem, eager_parts, from_parts, getitem
from xlab.numpy.operands import kind_of
from xlab.numpy.ufuncs import divide

_SCATTERS: dict[str, Callable] = {
    "set": scatter,
    "add": scatter_add,
    "subtract": scatter_sub,
    "multiply": scatter_mul,
    "min": scatter_min,
    "max": scatter_max,
}


class At:
    """What `x.at` is: index it to say which part of `x` to read or update."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index) -> Updater:
        return Updater(self.array, index)

    def __repr__(self):
        return f"At({self.array!r})"


class Updater:
    """A part of an array, with the operations that give a new array in which that part has changed.

    Every method takes `mode` (positions outside the array: 'drop' by default, 'clip', 'promise_in_bounds'),
    `indices_are_sorted` and `unique_indices` (promises), and `wrap_negative_indices`.

    Example:
        >>> import xlab.numpy as jnp
        >>> x = jnp.zeros(4)
        >>> print(x.at[1].set(5.0).at[jnp.array([2, 2])].add(1.0))
        [0. 5. 2. 0.]
    """

    __slots__ = ("array", "index")

    def __init__(self, array, index):
        self.array, self.index = array, index

    def __repr__(self):
        return f"Updater({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        fill_value=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index]` with options; `mode='fill'` reads `fill_value` outside the array."""
        options = {
            "mode": mode,
            "fill_value": fill_value,
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "wrap": wrap_negative_indices,
        }
        if isinstance(self.array, KeyArray) and mode is None and out_sharding is None:
            return self.array[self.index]
        if out_sharding is not None:
            return _with_out_sharding(
                "get", tuple(options.items()), out_sharding, self.array, self.index
            )
        if state.trace is EVAL and not hasattr(fill_value, "aval") and not np.ndim(fill_value):
            return eager_getitem(self.array, self.index, **options)
        return getitem(self.array, self.index, **options)

    def set(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] = values`; one of them where positions repeat."""
        return self._update(
            "set",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def add(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] += values`, all of them where positions repeat."""
        return self._update(
            "add",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def subtract(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] -= values`, all of them where positions repeat."""
        return self._update(
            "subtract",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def multiply(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] *= values`, all of them where positions repeat."""
        return self._update(
            "multiply",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    mul = multiply

    def divide(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] /= values`, all of them where positions repeat."""
        return self._update(
            "divide",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def power(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] **= values`, all of them where positions repeat."""
        return self._update(
            "power",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def min(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] = minimum(x[index], values)`."""
        return self._update(
            "min",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def max(
        self,
        values,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] = maximum(x[index], values)`."""
        return self._update(
            "max",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def apply(
        self,
        func: Callable,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ):
        """`x[index] = func(x[index])` for a function of one number, again where positions repeat."""
        parsed = parse(self.index, self.array.aval.shape, wrap_negative_indices)
        promises = (indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return _apply(self.array, parsed, func, promises)

    def _update(
        self, op, values, indices_are_sorted, unique_indices, mode, wrap, out_sharding=None
    ):
        x = self.array
        if out_sharding is not None:
            options = (indices_are_sorted, unique_indices, mode, wrap)
            return _with_out_sharding(op, options, out_sharding, x, self.index, values)
        promises = (indices_are_sorted, unique_indices, mode, wrap)
        if isinstance(x, KeyArray) and state.trace is EVAL:
            return _update_keys(x, self.index, op, values, promises)
        if isinstance(values, (list, tuple)) or kind_of(values) == "wrapped":
            values = asarray(values)
        parsed = parse(self.index, x.aval.shape, wrap)
        if state.trace is not EVAL:
            return update(x, parsed, op, values, *promises)
        parts, operands = eager_parts(parsed)
        return _writer(parts, op, promises)(x, values, *operands)


def _with_out_sharding(op, options, out_sharding, x, index, *values):
    """`x.at[index].op(*values)` with the axes of the mesh left to the compiler, and its result where it was asked for."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [i for i in parts if hasattr(i, "aval") or isinstance(i, (np.ndarray, list))]
    spelled = tuple(
        [
            _Slice(i.start, i.stop, i.step)
            if isinstance(i, slice)
            else ...
            if i is Ellipsis
            else _Slice
            if hasattr(i, "aval") or isinstance(i, (np.ndarray, list))
            else i
            for i in parts
        ]
    )
    return _region(op, options, spelled, out_sharding)(
        x, [np.asarray(a) if isinstance(a, list) else a for a in arrays], *values
    )


class _Slice(NamedTuple):
    """A slice that can be hashed; the class itself stands for an array."""

    start: Any
    stop: Any
    step: Any


@functools.lru_cache(maxsize=1024)
def _region(op, options, spelled, out_sharding):
    def region(x, arrays, *values):
        given = iter(arrays)
        index = tuple(
            next(given) if i is _Slice else slice(*i) if type(i) is _Slice else i for i in spelled
        )
        if op == "get":
            return getitem(x, index, **dict(options))
        *promises, wrap = options
        return update(x, parse(index, x.aval.shape, wrap), op, *values, *promises, wrap)

    region.__name__ = f"at_{op}"
    return auto_axes(region, out_sharding=out_sharding)


caches.register(_region.cache_clear)


@functools.lru_cache(maxsize=4096)
def _writer(parts, op, promises):
    def setitem(x, values, *operands):
        return update(x, from_parts(parts, operands), op, values, *promises)

    setitem.__name__ = f"at_{op}"
    return jit(setitem)


caches.register(_writer.cache_clear)


def update(x, parsed: Parsed, op: str, values, indices_are_sorted, unique_indices, mode, wrap):
    """The array after one update, as equations."""
    if op == "divide" or op == "power":
        factor = update(
            full_like(x, 1),
            parsed,
            "multiply",
            values,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap,
        )
        return divide(x, factor) if op == "divide" else _power(x, factor)
    entries, flags = parsed
    own = aval_of(x)
    common = _common(own, values)
    if (
        op in ("min", "max")
        and dtypes.issubdtype(common, np.complexfloating)
        and not dtypes.issubdtype(own.dtype, np.complexfloating)
    ):
        # Complex numbers are ordered by their real parts first, and only these are kept.
        values = _as(values, real_part_dtype(dtypes.dtype_and_weak(values)[0]))
        common = dtypes.result_type(own.dtype, aval_of(values).dtype)
    x, values = _as(x, common), _as(values, common)
    weak = isinstance(values, Tracer) and values.aval.weak_type and not own.weak_type
    if weak and values.aval.memory_space == own.memory_space:
        values = convert(values, common)  # so that the gradient in the values is weak, as they are
    if flags:
        x = expand_dims(x, flags)
    plan = plan_positions(aval_of(x).shape, entries, wrap)
    values = _fitted(values, plan)
    if plan.size:
        x = _SCATTERS[op](
            x,
            plan.indices,
            values,
            _numbers(plan),
            indices_are_sorted=indices_are_sorted or plan.sorted,
            unique_indices=unique_indices or plan.unique,
            mode=mode,
        )
    return _as(squeeze(x, flags) if flags else x, own.dtype, own.weak_type)


def _power(x, exponent):
    if dtypes.issubdtype(aval_of(x).dtype, np.inexact):
        return pow(x, exponent)
    return power(x, exponent)


def _numbers(plan):
    return ScatterDimensionNumbers(plan.windows, plan.collapsed, plan.dims)


def _common(own, values):
    """The dtype in which values meet an array: the array's, or a wider one that they need; the result is the array's again, and a
    warning says where that loses their kind."""
    given, weak = dtypes.dtype_and_weak(values)
    if given == own.dtype:
        return own.dtype
    if dtypes.is_extended(own.dtype) or dtypes.is_extended(given):
        raise TypeError(
            f"cannot put values of dtype {dtypes.name(given)} into an array of dtype {dtypes.name(own.dtype)}"
        )
    common = dtypes.result_of(((own.dtype, own.weak_type), (given, weak)))[0]
    if common != own.dtype and not own.weak_type:
        warn(
            f"scatter inputs have incompatible types: cannot safely cast value from dtype={dtypes.name(given)} to dtype="
            f"{dtypes.name(own.dtype)}. Convert the value with .astype, or the array before the update.",
            FutureWarning,
        )
    return common


def _as(x, dtype, weak: bool | None = None):
    """A value converted to a dtype; complex numbers lose their imaginary part."""
    given = dtypes.dtype_and_weak(x)[0]
    if given != dtype:
        if given.kind == "c" and not dtypes.issubdtype(dtype, np.complexfloating):
            x = np.real(x) if isinstance(x, (complex, np.generic, np.ndarray)) else real(x)
        if isinstance(x, HOST_VALUES):
            x = np.asarray(x).astype(dtype)[()]
        else:
            x = convert_element_type(x, dtype)
    return x if weak is None else convert(x, dtype, weak)


def _fitted(values, plan):
    """Values broadcast to the part that is written, the dimensions that `None` adds left out."""
    shape = list(plan.shape)
    for place in plan.new:
        shape.insert(place, 1)
    given = aval_of(values).shape
    try:
        fits = broadcast_shapes(given, tuple(shape)) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"Incompatible shapes for broadcasting: the values have shape {given}, the indexed part "
            f"{tuple(shape)}"
        )
    if plan.new:
        values = _drop_new(values, given, shape, plan.new)
        given = aval_of(values).shape
    return broadcast_in_dim(
        values, plan.shape, range(len(plan.shape) - len(given), len(plan.shape))
    )


def _drop_new(values, given, shape, new):
    first = len(shape) - len(given)
    gone = [d - first for d in new if d >= first]
    return squeeze(values, gone) if gone else values


def _apply(x, parsed, func, promises):
    indices_are_sorted, unique_indices, mode, wrap = promises
    entries, flags = parsed
    if flags:
        x = expand_dims(x, flags)
    plan = plan_positions(aval_of(x).shape, entries, wrap)
    if plan.size:
        x = scatter_apply(
            x,
            plan.indices,
            func,
            _numbers(plan),
            update_shape=plan.shape,
            indices_are_sorted=indices_are_sorted or plan.sorted,
            unique_indices=unique_indices or plan.unique,
            mode=mode,
        )
    return squeeze(x, flags) if flags else x


def _update_keys(x, index, op, values, promises):
    """Keys are replaced through their bits."""
    if op != "set":
        raise TypeError(
            f"random keys have no arithmetic: x.at[...].{op} is not defined, only set and get"
        )
    if not isinstance(values, KeyArray) or values.dtype != x.dtype:
        raise TypeError(
            f"values for an array of keys of type {dtypes.name(x.dtype)} must be keys of that type, got "
            f"{type(values).__name__}"
        )
    parsed = parse(index, x.shape)
    whole = tuple(Span(0, n, 1) for n in x.base.aval.shape[x.ndim :])
    parsed = parsed._replace(entries=parsed.entries + whole)
    return KeyArray(update(x.base, parsed, op, values.base, *promises), x.dtype)
