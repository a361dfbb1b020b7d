"""Discrete cosine transforms of the second type and their inverses, through one fast Fourier transform each.

Example:
    >>> import xlab.numpy as jnp
    >>> dct(jnp.ones(4)).tolist()
    [8.0, 0.0, 0.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact
from xlab.numpy.reductions import is_half

__all__ = ["dct", "dctn", "idct", "idctn"]


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The discrete cosine transform along an axis, cut or padded to `n`; `norm="ortho"` makes it orthogonal.

    Args:
        x: an array of real numbers.
        type: which of the transforms: 2 alone.
        n: length along the axis; the input is cut or padded with zeros to it.
        axis: the axis to transform.
        norm: 'backward' (the default) or 'ortho'.

    Source:
        Makhoul (1980), A fast cosine transform in one and two dimensions.
    """
    x = _operand("dct", x, type, norm)
    x = _sized(x, n, axis)
    size = x.shape[axis]
    x = jnp.moveaxis(x, axis, -1)
    # The even entries, then the odd ones backwards: their Fourier transform, turned, is the cosine transform.
    order = jnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
    turned = jnp.fft.fft(order) * _turns(size, x.dtype, -1)
    out = 2 * turned.real
    if norm == "ortho":
        out = out * _scales(size, x.dtype)
    return jnp.moveaxis(out.astype(x.dtype), -1, axis)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `dct`.

    Args:
        x: an array of real numbers.
        type: which of the transforms: 2 alone.
        n: length along the axis; the input is cut or padded with zeros to it.
        axis: the axis to transform.
        norm: 'backward' (the default) or 'ortho'.

    Source:
        Makhoul (1980), A fast cosine transform in one and two dimensions.
    """
    x = _operand("idct", x, type, norm)
    x = jnp.moveaxis(_sized(x, n, axis), axis, -1)
    size = x.shape[-1]
    x = x / _scales(size, x.dtype) if norm == "ortho" else x
    other = jnp.concatenate([jnp.zeros_like(x[..., :1]), x[..., 1:][..., ::-1]], axis=-1)
    order = jnp.fft.ifft(lax.complex(x, -other) * _turns(size, x.dtype, 1) / 2).real
    half = (size + 1) // 2
    out = jnp.zeros_like(x).at[..., ::2].set(order[..., :half].astype(x.dtype))
    return jnp.moveaxis(
        out.at[..., 1::2].set(order[..., half:][..., ::-1].astype(x.dtype)), -1, axis
    )


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`dct` along several axes, by default all or as many last ones as `s` has sizes.

    Args:
        x: an array of real numbers.
        type: which of the transforms: 2 alone.
        s: lengths along the axes.
        axes: the axes to transform; by default all, or as many last ones as `s` has lengths.
        norm: 'backward' (the default) or 'ortho'.
    """
    return _along(dct, x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`.

    Args:
        x: an array of real numbers.
        type: which of the transforms: 2 alone.
        s: lengths along the axes.
        axes: the axes to transform; by default all, or as many last ones as `s` has lengths.
        norm: 'backward' (the default) or 'ortho'.
    """
    return _along(idct, x, type, s, axes, norm)


def _along(one, x, type, s, axes, norm):
    x = as_array(x)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    for axis, n in zip(axes, [None] * len(axes) if s is None else s, strict=True):
        x = one(x, type=type, n=n, axis=axis, norm=norm)
    return x


def _operand(name, x, type, norm):
    if type != 2:
        raise NotImplementedError(f"{name}: only type 2 is available, got {type}")
    if norm not in (None, "ortho", "backward"):
        raise ValueError(f"{name}: norm must be None or 'ortho', got {norm!r}")
    # Fourier transforms have single precision at least, and so has what is made of them.
    x = as_array(*promoted_inexact(name, x))
    return x.astype(np.float32) if is_half(x.dtype) else x


def _sized(x, n, axis):
    axis = canonical_axis(axis, x.ndim)
    size = x.shape[axis]
    if n is None or n == size:
        return x
    if n < size:
        return lax.slice_in_dim(x, 0, n, axis=axis)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - size)
    return jnp.pad(x, widths)


def _turns(size, dtype, sign):
    angles = np.arange(size) * math.pi / (2 * size)
    return np.exp(sign * 1j * angles).astype(np.complex128 if dtype == np.float64 else np.complex64)


def _scales(size, dtype):
    scales = np.full(size, math.sqrt(1 / (2 * size)))
    scales[0] = math.sqrt(1 / (4 * size))
    return scales.astype(dtype)
