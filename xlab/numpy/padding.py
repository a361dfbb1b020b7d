"""`pad`, by mode."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, dim_index
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.moments import mean as _mean
from xlab.numpy.operands import cast_operand, check, ndim_of, shape_of
from xlab.numpy.reductions import max as _max
from xlab.numpy.reductions import min as _min

_OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "mean": "stat_length",
    "maximum": "stat_length",
    "minimum": "stat_length",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "edge": None,
    "wrap": None,
    "empty": None,
}


def pad(array, pad_width, mode="constant", **kwargs):
    (array,) = check("pad", array)
    aval = aval_of(array)
    return cast_operand(_padded(array, pad_width, mode, kwargs), aval.dtype, aval.weak_type)


def _padded(array, pad_width, mode, kwargs):
    n = ndim_of(array)
    widths = _pairs(pad_width, n, "pad_width")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError(f"index can't contain negative values: pad_width is {pad_width}")
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(
            f"Unimplemented padding mode {mode!r}: expected one of {', '.join(_OPTIONS)} or a function"
        )
    unknown = set(kwargs) - {_OPTIONS[mode]}
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {sorted(unknown)}")
    value = kwargs.get(_OPTIONS[mode])
    if mode == "constant":
        return _constant(array, 0 if value is None else value, widths=widths)
    if mode == "linear_ramp":
        return _ramp(array, 0 if value is None else value, widths=widths)
    if mode in ("reflect", "symmetric") and value not in (None, "even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd', got {value!r}")
    if mode in ("mean", "maximum", "minimum") and value is not None:
        value = _pairs(value, n, "stat_length")
    return _pad(array, widths=widths, mode=mode, option=value)


def _leaves(given):
    if not isinstance(given, (tuple, list)):
        return [given]
    return [leaf for part in given for leaf in _leaves(part)]


def _pairs(given, n: int, name: str):
    """One (before, after) per axis."""
    if any(isinstance(v, SymbolicDim) for v in _leaves(given)):
        given = (given,) if isinstance(given, SymbolicDim) else tuple(given)
        if not isinstance(given[0], (tuple, list)):
            given = (given if len(given) == 2 else given * 2,)
        given = tuple(tuple(p) * (3 - len(p)) for p in given)
        return tuple(tuple(map(dim_index, p)) for p in (given * n if len(given) == 1 else given))
    try:
        value = np.asarray(given)
        if value.dtype.kind not in "iu":
            raise TypeError
        pairs = (
            np.broadcast_to(value.reshape(1, 1) if value.size == 1 else value, (n, 2))
            if value.shape != (n, 1)
            else np.broadcast_to(value, (n, 2))
        )
    except TypeError:
        raise TypeError(
            f"pad: {name} must be integers known while tracing, got {given!r}"
        ) from None
    except ValueError:
        raise ValueError(
            f"pad: {name} given with unexpected shape {np.shape(given)}: expected an amount, a pair, or a pair "
            f"for each of the {n} axes"
        ) from None
    return tuple((dim_index(a), dim_index(b)) for a, b in pairs.tolist())


@jit_when_eager(static="widths")
def _constant(array, value, widths):
    dtype, weak = aval_of(array).dtype, aval_of(array).weak_type
    if isinstance(value, (tuple, list)):
        value = _values(value)
    out = as_array(array)
    if not shape_of(value):
        return lax.pad(out, cast_operand(value, dtype, weak), [(a, b, 0) for a, b in widths])
    values = lax.broadcast_in_dim(
        cast_operand(value, dtype, weak), (len(widths), 2), range(2 - ndim_of(value), 2)
    )
    for axis, (a, b) in enumerate(widths):
        for side, amount in ((0, (a, 0, 0)), (1, (0, b, 0))):
            fill = lax.squeeze(lax.slice(values, (axis, side), (axis + 1, side + 1)), (0, 1))
            out = lax.pad(
                out, fill, [amount if i == axis else (0, 0, 0) for i in range(len(widths))]
            )
    return out


def _values(value):
    from xlab.numpy.creation import array

    return array(value)


def _cut(x, start, stop, axis):
    return lax.slice_in_dim(x, start, stop, axis=axis)


def _repeat(x, times, axis):
    shape = list(shape_of(x))
    shape[axis] = times
    return lax.broadcast_in_dim(x, shape, range(len(shape)))


@jit_when_eager(static=("widths", "mode", "option"))
def _pad(array, widths, mode, option):
    x = as_array(array)
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        if not before and not after:
            continue
        if not n and mode != "empty":
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
        if mode == "empty":
            x = lax.pad(
                x,
                cast_operand(0, x.dtype, x.weak_type),
                [(before, after, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)],
            )
        elif mode == "edge":
            x = lax.concatenate(
                [
                    _repeat(_cut(x, 0, 1, axis), before, axis),
                    x,
                    _repeat(_cut(x, n - 1, n, axis), after, axis),
                ],
                axis,
            )
        elif mode == "wrap":
            whole = -(-before // n), -(-after // n)
            parts = [x] * (whole[0] + 1 + whole[1])
            start = whole[0] * n - before
            x = _cut(lax.concatenate(parts, axis), start, start + before + n + after, axis)
        elif mode in ("reflect", "symmetric"):
            x = _reflected(x, axis, before, after, mode, option or "even")
        else:
            stat = {"mean": _mean, "maximum": _max, "minimum": _min}[mode]
            lengths = option[axis] if option else (n, n)
            if 0 in lengths:
                raise ValueError("pad: stat_length of 0 yields no value for padding")
            ends = (_cut(x, 0, min(lengths[0], n), axis), _cut(x, n - min(lengths[1], n), n, axis))
            low, high = (
                _rounded(stat(end, axis=axis, keepdims=True), x.dtype, x.weak_type) for end in ends
            )
            x = lax.concatenate([_repeat(low, before, axis), x, _repeat(high, after, axis)], axis)
    return x


def _rounded(x, dtype, weak):
    if dtypes.issubdtype(dtype, np.integer) and dtypes.issubdtype(x.dtype, np.floating):
        x = lax.round(x, 1)
    return cast_operand(x, dtype, weak)


def _reflected(x, axis, before, after, mode, kind):
    while before or after:
        n = x.shape[axis]
        skip = 1 if mode == "reflect" else 0
        if n == 1 and skip:
            edge = _repeat(x, before + 1 + after, axis)
            return edge
        low, high = min(before, n - skip), min(after, n - skip)
        parts = []
        if low:
            piece = lax.rev(_cut(x, skip, skip + low, axis), (axis,))
            edge = _cut(x, 0, 1, axis)
            parts.append(
                piece
                if kind == "even"
                else lax.sub(lax.mul(cast_operand(2, x.dtype, x.weak_type), edge), piece)
            )
        parts.append(x)
        if high:
            piece = lax.rev(_cut(x, n - skip - high, n - skip, axis), (axis,))
            edge = _cut(x, n - 1, n, axis)
            parts.append(
                piece
                if kind == "even"
                else lax.sub(lax.mul(cast_operand(2, x.dtype, x.weak_type), edge), piece)
            )
        x = lax.concatenate(parts, axis)
        before, after = before - low, after - high
    return x


@jit_when_eager(static="widths")
def _ramp(array, value, widths):
    from xlab.numpy.grids import linspace

    x = as_array(array)
    value = _values(value) if isinstance(value, (tuple, list)) else value
    # Ends that integers cannot hold are kept, since the ramp starts from them: its own values are cut off where they leave the range.
    whole = dtypes.issubdtype(x.dtype, np.integer) or x.dtype == bool
    value = as_array(value) if whole else cast_operand(value, x.dtype)
    ends = lax.broadcast_in_dim(value, (x.ndim, 2), range(2 - ndim_of(value), 2))
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        edges = [lax.squeeze(_cut(x, i, i + 1, axis), (axis,)) for i in (0, n - 1)]
        far = [lax.squeeze(lax.slice(ends, (axis, s), (axis + 1, s + 1)), (0, 1)) for s in (0, 1)]
        parts = [x]
        if before:
            parts.insert(
                0, linspace(far[0], edges[0], before, endpoint=False, dtype=x.dtype, axis=axis)
            )
        if after:
            parts.append(
                lax.rev(
                    linspace(far[1], edges[1], after, endpoint=False, dtype=x.dtype, axis=axis),
                    (axis,),
                )
            )
        x = lax.concatenate([cast_operand(p, x.dtype, x.weak_type) for p in parts], axis)
    return x


def _by_function(array, widths, function, kwargs):
    from xlab.numpy.functional import apply_along_axis

    x = lax.pad(as_array(array), aval_of(array).dtype.type(0), [(a, b, 0) for a, b in widths])
    for axis, pair in enumerate(widths):
        x = apply_along_axis(function, axis, x, pair, axis, kwargs)
    return x
