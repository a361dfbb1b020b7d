"""Fourier transforms under the names of `numpy.fft`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.dims import dim_index
from xlab.core.typing import Array, ArrayLike, AxisLike, DeviceLike, DTypeLike
from xlab.lax.shape import canonical_axes
from xlab.numpy.arithmetic import as_array
from xlab.numpy.flip_roll_repeat import roll
from xlab.numpy.jit_when_eager import jit_when_eager as _jit_when_eager
from xlab.numpy.operands import aligned, check, ndim_of, shape_of

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
           "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]  # fmt: skip

_NORMS = ("backward", "ortho", "forward")


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Fourier transform along an axis.

    Args:
        a: input.
        n: length of the axis; longer input is cut, shorter is filled with zeros.
        axis: the axis.
        norm: which direction is divided by the length: "backward", by default, "forward", or "ortho" for each by the root.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fft.fft(jnp.array([1.0, 0.0, 0.0, 0.0])).real
        Array([1., 1., 1., 1.], dtype=float32)
    """
    return _along("fft", "FFT", a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse Fourier transform along an axis.

    Args:
        a: an array.
        n: length along the axis; the input is cut or padded with zeros to it.
        axis: the axis to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _along("ifft", "IFFT", a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Fourier transform of real input along an axis: the frequencies that are not negative.

    Args:
        a: an array.
        n: length along the axis; the input is cut or padded with zeros to it.
        axis: the axis to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fft.rfft(jnp.ones(6)).shape
        (4,)
    """
    return _along("rfft", "RFFT", a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `rfft`; `n` is the length of the result, an even number by default.

    Args:
        a: an array.
        n: length of the result along the axis; by default `2 * (m - 1)` for a length of m.
        axis: the axis to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _along("irfft", "IRFFT", a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Fourier transform of input with Hermitian symmetry, given by its first half: real output.

    Args:
        a: an array.
        n: length of the result along the axis; by default `2 * (m - 1)` for a length of m.
        axis: the axis to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    (a,) = check("numpy.fft.hfft", a)
    return _along(
        "hfft",
        "IRFFT",
        lax.conj(as_array(a)) if as_array(a).dtype.kind == "c" else a,
        n,
        axis,
        _other_way(norm),
    )


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `hfft`.

    Args:
        a: an array.
        n: length along the axis; the input is cut or padded with zeros to it.
        axis: the axis to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return lax.conj(_along("ihfft", "RFFT", a, n, axis, _other_way(norm)))


def _other_way(norm):
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def _along(name, kind, a, n, axis, norm):
    (a,) = check(f"numpy.fft.{name}", a)
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            f"numpy.fft.{name} does not support multiple axes. Please use numpy.fft.{name}n. Got axis = {axis}."
        )
    return _transform(
        a,
        kind=kind,
        s=None if n is None else (_length(n),),
        axes=(dim_index(axis),),
        norm=_norm(norm),
    )


def _several(name, kind, a, s, axes, norm):
    (a,) = check(f"numpy.fft.{name}", a)
    ndim = ndim_of(a)
    s = None if s is None else tuple(map(_length, s))
    if axes is None and s is not None and len(s) > ndim:
        raise ValueError(
            f"numpy.fft.{name} got lengths for {len(s)} axes, s={s}, of an array of shape {shape_of(a)}, which has "
            f"{ndim}."
        )
    if axes is None:
        axes = tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))
    axes = tuple(map(dim_index, axes))
    if len(set(axes)) != len(axes):
        raise ValueError(f"numpy.fft.{name} does not support repeated axes. Got axes {axes}.")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"Shape and axes have different lengths: got s={s} and axes={axes}.")
    return _transform(a, kind=kind, s=s, axes=axes, norm=_norm(norm))


def _two(name, kind, a, s, axes, norm):
    if len(axes) != 2:
        raise ValueError(f"numpy.fft.{name} only supports 2 axes. Got axes = {axes}.")
    return _several(name, kind, a, s, axes, norm)


def _length(n) -> int:
    n = dim_index(n)
    if n < 1:
        raise ValueError(f"Shape should be positive: got {n}.")
    return n


def _norm(norm) -> str:
    norm = "backward" if norm is None else norm
    if norm not in _NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return norm


@_jit_when_eager(static=("kind", "s", "axes", "norm"))
def _transform(a, *, kind, s, axes, norm):
    """The transform over any axes: they are brought to the end, and taken three at a time."""
    a = as_array(a)
    axes = canonical_axes(axes, a.ndim)
    if kind in ("FFT", "IFFT") and not dtypes.issubdtype(a.dtype, np.complexfloating):
        a = lax.fft(a, kind, ())  # complex from here on
    if not axes:
        if kind == "RFFT":
            return lax.convert_element_type(a, dtypes.promote_types(a.dtype, np.float32))
        return lax.fft(a, "FFT", ())
    order = (*(i for i in range(a.ndim) if i not in axes), *axes)
    a = lax.transpose(a, order)
    n = len(axes)
    half = a.shape[-1]
    given = list(a.shape[-n:] if s is None else s)
    if kind == "IRFFT":
        if s is None:
            given[-1] = max(0, 2 * (half - 1))
        a = _fit(a, (*given[:-1], given[-1] // 2 + 1))
    else:
        a = _fit(a, given)
    out = _by_threes(a, kind, tuple(given))
    total = math.prod(given)
    inverse = kind in ("IFFT", "IRFFT")
    # The inverse transforms of `lax` divide by the length themselves.
    if norm != "backward":
        by = math.sqrt(total) if norm == "ortho" else total
        scale = by if inverse else 1 / by if total else 1.0
        out = lax.mul(out, np.asarray(scale, out.dtype)[()])
    return lax.transpose(out, np.argsort(order).tolist())


def _fit(a, sizes):
    """The last dimensions cut or filled with zeros to the given sizes."""
    config = [(0, 0, 0)] * (a.ndim - len(sizes)) + [
        (0, n - d, 0) for n, d in zip(sizes, a.shape[a.ndim - len(sizes) :])
    ]
    if not any(high for _, high, _ in config):
        return a
    return lax.pad(a, np.zeros((), a.dtype)[()], config)


def _by_threes(a, kind, lengths):
    """The transform over the last dimensions; the half that is real comes first forwards and last backwards."""
    n = len(lengths)
    if n <= 3:
        return lax.fft(a, kind, lengths)
    last, others = lengths[-3:], lengths[:-3]
    whole = {"RFFT": "FFT", "IRFFT": "IFFT"}.get(kind, kind)

    def over_others(x):
        order = (*range(x.ndim - n), *range(x.ndim - 3, x.ndim), *range(x.ndim - n, x.ndim - 3))
        return lax.transpose(
            _by_threes(lax.transpose(x, order), whole, others), np.argsort(order).tolist()
        )

    if kind == "IRFFT":
        return lax.fft(over_others(a), kind, last)
    return over_others(lax.fft(a, kind, last))


def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Fourier transform along several axes, all of them by default.

    Args:
        a: input.
        s: sizes of the axes, as for `fft`.
        axes: the axes; the last ones where only `s` is given.
        norm: as for `fft`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fft.fftn(jnp.ones((2, 3))).shape
        (2, 3)
    """
    return _several("fftn", "FFT", a, s, axes, norm)


def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse Fourier transform along several axes, all of them by default.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the axes to transform; by default all, or as many last ones as `s` has lengths.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _several("ifftn", "IFFT", a, s, axes, norm)


def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Fourier transform of real input along several axes; the last of them is halved.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the axes to transform; by default all, or as many last ones as `s` has lengths.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _several("rfftn", "RFFT", a, s, axes, norm)


def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `rfftn`.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the axes to transform; by default all, or as many last ones as `s` has lengths.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _several("irfftn", "IRFFT", a, s, axes, norm)


def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Fourier transform along two axes.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the two axes to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _two("fft2", "FFT", a, s, axes, norm)


def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Inverse Fourier transform along two axes.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the two axes to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _two("ifft2", "IFFT", a, s, axes, norm)


def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Fourier transform of real input along two axes; the second of them is halved.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the two axes to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _two("rfft2", "RFFT", a, s, axes, norm)


def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Inverse of `rfft2`.

    Args:
        a: an array.
        s: lengths along the axes.
        axes: the two axes to transform.
        norm: 'backward' (the default), 'ortho' or 'forward': which direction is scaled by 1/n.
    """
    return _two("irfft2", "IRFFT", a, s, axes, norm)


# -- frequencies, shifts ------------------------------------------------------------------------------------


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Array:
    """The frequencies of `fft`'s results for samples `d` apart.

    Args:
        n: length of the transform.
        d: distance of samples.
        dtype: a floating dtype, float32 by default.
        device: a device or sharding the result is put on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fft.fftfreq(4, 0.25)
        Array([ 0.,  1., -2., -1.], dtype=float32)
    """
    n = _check_frequencies("fftfreq", n, d)
    middle = (n - 1) // 2 + 1
    return _frequencies([*range(middle), *range(-(n // 2), 0)], n, d, dtype, device)


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Array:
    """The frequencies of `rfft`'s results for samples `d` apart.

    Args:
        n: length of the transform.
        d: distance of samples.
        dtype: a floating dtype, float32 by default.
        device: a device or sharding the result is put on.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fft.rfftfreq(4, 0.25)
        Array([0., 1., 2.], dtype=float32)
    """
    n = _check_frequencies("rfftfreq", n, d)
    if dtype is not None and dtypes.issubdtype(dtypes.to_dtype(dtype), np.integer):
        dtype = None  # parts of whole numbers
    return _frequencies([*range(n // 2 + 1)], n, d, dtype, device)


def _check_frequencies(name, n, d) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(
            f"The n argument of numpy.fft.{name} only takes an int. Got n = {list(n)}."
        )
    if isinstance(d, (list, tuple)):
        raise ValueError(
            f"The d argument of numpy.fft.{name} only takes a single value. Got d = {list(d)}."
        )
    if isinstance(d, (complex, np.complexfloating)):
        raise TypeError(f"The d argument of numpy.fft.{name} is a real distance. Got d = {d}.")
    return dim_index(n)


def _frequencies(places, n, d, dtype, device):
    dtype = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    out = np.asarray(places, np.float64)
    if isinstance(d, (int, float, np.generic)):
        with np.errstate(divide="ignore", invalid="ignore"):
            out = out / np.multiply(d, n, dtype=np.float64)
        return lax.convert_element_type(out.astype(dtype), dtype)
    step = lax.mul(lax.convert_element_type(d, dtype), np.asarray(n, dtype)[()])
    return lax.div(*aligned("fftfreq", lax.convert_element_type(out.astype(dtype), dtype), step))


def fftshift(x: ArrayLike, axes: AxisLike | None = None) -> Array:
    """The zero frequency moved to the middle.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fft.fftshift(jnp.fft.fftfreq(4, 0.25))
        Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    return _shifted("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: ArrayLike, axes: AxisLike | None = None) -> Array:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))


def _shifted(name, x, axes, by):
    (x,) = check(name, x)
    shape = shape_of(x)
    if axes is None:
        axes = tuple(range(len(shape)))
    elif not isinstance(axes, (tuple, list)):
        axes = (dim_index(axes),)
    axes = canonical_axes(axes, len(shape))
    return roll(x, tuple(by(shape[i]) for i in axes), axes)
