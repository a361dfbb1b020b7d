"""Convolutions and correlations of arrays of any rank.

Example:
    >>> import xlab.numpy as jnp
    >>> convolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.])).tolist()
    [1.0, 3.0, 5.0, 3.0]
"""

from __future__ import annotations

from collections.abc import Sequence

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.lax.precision import PrecisionLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact
from xlab.numpy.reductions import axes_of

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike | None = None,
) -> Array:
    """The convolution of two arrays of one rank.

    Args:
        in1, in2: the arrays.
        mode: "full", "same" (as large as `in1`, from the middle) or "valid" (where they overlap completely).
        method: "direct", "fft", or "auto", which is direct.
        precision: see `xlab.lax.Precision`.
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"convolve: method must be auto, direct or fft, got {method!r}")
    return _convolve("convolve", in1, in2, mode, precision)


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike | None = None,
) -> Array:
    """The correlation of two arrays of one rank; arguments as for `convolve`.

    Args:
        in1, in2: arrays of equal rank.
        mode: 'full', 'same' or 'valid': which positions of the overlap count.
        method: 'direct', 'fft' or 'auto', which is direct.
        precision: how exact products are, as in `lax.dot`.
    """
    in2 = as_array(in2)
    return convolve(in1, jnp.flip(in2).conj(), mode, method, precision)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike | None = None,
) -> Array:
    """The convolution of two matrices: `out[i, j]` is the sum of `in1[k, l] in2[i - k, j - l]`.

    Args:
        in1, in2: matrices.
        mode: 'full', every place where they overlap; 'same', as large as `in1`, from the middle; 'valid', where one is inside the other.
        boundary: what `in1` continues with: 'fill', the one that there is.
        fillvalue: 0, what 'fill' continues with.
        precision: how exact products are, as in `lax.dot`.

    Example:
        >>> convolve2d(jnp.array([[1.0, 2.0]]), jnp.array([[1.0], [10.0]])).tolist()
        [[1.0, 2.0], [10.0, 20.0]]
    """
    _plain_edge("convolve2d", in1, in2, boundary, fillvalue)
    return _convolve("convolve2d", in1, in2, mode, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike | None = None,
) -> Array:
    """The correlation of two matrices: `convolve2d` with the second turned by half a turn and conjugated.

    Args:
        in1, in2: matrices.
        mode, boundary, fillvalue, precision: as of `convolve2d`; of an `in2` with an even number of rows or columns the middle that 'same'
            keeps is the later one.

    Example:
        >>> image, pattern = jnp.zeros((4, 4)).at[1:3, 2:].set(1.0), jnp.ones((2, 2))
        >>> [int(i) for i in jnp.unravel_index(correlate2d(image, pattern, "valid").argmax(), (3, 3))]
        [1, 2]
    """
    _plain_edge("correlate2d", in1, in2, boundary, fillvalue)
    if mode != "same":
        return correlate(in1, in2, mode, precision=precision)
    full = correlate(in1, in2, "full", precision=precision)
    for i, (size, over) in enumerate(zip(jnp.shape(in1), jnp.shape(in2))):
        # The middle, later where there are two.
        full = lax.slice_in_dim(full, over // 2, over // 2 + size, axis=i)
    return full


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """`convolve` by Fourier transforms: fast for large arrays. Along axes that are not named the arrays broadcast.

    Args:
        in1, in2: arrays of equal rank.
        mode: 'full', 'same' or 'valid': which positions of the overlap count.
        axes: the axes to convolve along, or one; by default all.

    Raises:
        ValueError: arrays of different rank, or of sizes that do not broadcast along the other axes; an axis that is not there or is
            named twice; for "valid", arrays of which neither is at least as large as the other along all axes.

    Source:
        The convolution theorem: a product of Fourier transforms.
    """
    a, b = (as_array(x) for x in promoted_inexact("fftconvolve", in1, in2))
    _same_rank("fftconvolve", a, b)
    axes = axes_of("fftconvolve", axes, a.ndim)
    apart = [i for i in range(a.ndim) if i not in axes and 1 not in (a.shape[i], b.shape[i])]
    if any(a.shape[i] != b.shape[i] for i in apart):
        raise ValueError(
            f"fftconvolve: shapes must be equal along axes that are not convolved, or 1; got {a.shape} and {b.shape} with axes={axes}"
        )
    if mode == "valid":
        _one_is_larger("fftconvolve", [a.shape[i] for i in axes], [b.shape[i] for i in axes])
    if not axes:
        return _cut(a * b, mode, a.shape, b.shape, axes, "fftconvolve")
    full = [a.shape[i] + b.shape[i] - 1 for i in axes]
    if jnp.iscomplexobj(a):
        out = jnp.fft.ifftn(jnp.fft.fftn(a, full, axes) * jnp.fft.fftn(b, full, axes), full, axes)
    else:
        out = jnp.fft.irfftn(
            jnp.fft.rfftn(a, full, axes) * jnp.fft.rfftn(b, full, axes), full, axes
        )
    return _cut(out, mode, a.shape, b.shape, axes, "fftconvolve")


def _convolve(name, in1, in2, mode, precision):
    a, b = (as_array(x) for x in promoted_inexact(name, in1, in2))
    _same_rank(name, a, b)
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be full, same or valid, got {mode!r}")
    if a.ndim == 0:
        return a * b
    if 0 in (*a.shape, *b.shape):
        raise ValueError(f"{name}: arrays must not be empty, got shapes {a.shape} and {b.shape}")
    if mode == "valid":
        a, b = (a, b) if _one_is_larger(name, a.shape, b.shape) else (b, a)
    if mode == "valid":
        padding = [(0, 0)] * a.ndim
    else:
        padding = [(k - 1, k - 1) for k in b.shape]
    out = lax.conv_general_dilated(
        a[None, None], jnp.flip(b)[None, None], (1,) * a.ndim, padding, precision=precision
    )[0, 0]
    return out if mode != "same" else _cut(out, mode, a.shape, b.shape, tuple(range(a.ndim)), name)


def _one_is_larger(name, first, second):
    """Whether it is the first whose sizes are all at least those of the second; False for the second."""
    if all(q <= p for p, q in zip(first, second)):
        return True
    if all(q >= p for p, q in zip(first, second)):
        return False
    raise ValueError(
        f"{name}: For 'valid' mode, one input must be at least as large as the other in every dimension; got sizes {tuple(first)} and "
        f"{tuple(second)}"
    )


def _cut(full, mode, first, second, axes, name):
    """The part of the full result that a mode asks for."""
    if mode == "full":
        return full
    if mode == "same":
        sizes = [first[i] for i in axes]
    elif mode == "valid":
        sizes = [max(first[i], second[i]) - min(first[i], second[i]) + 1 for i in axes]
    else:
        raise ValueError(f"{name}: mode must be full, same or valid, got {mode!r}")
    for i, size in zip(axes, sizes, strict=True):
        start = (full.shape[i] - size) // 2
        full = lax.slice_in_dim(full, start, start + size, axis=i)
    return full


def _same_rank(name, a, b):
    if a.ndim != b.ndim:
        raise ValueError(
            f"{name}: in1 and in2 must have the same number of dimensions, got shapes {a.shape} and {b.shape}"
        )


def _plain_edge(name, in1, in2, boundary, fillvalue):
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name} pads with zeros: boundary='fill' and fillvalue=0, got {boundary!r} and {fillvalue!r}. "
            f"Pad with xlab.numpy.pad first"
        )
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(
            f"{name}: both inputs must be 2-dimensional, got shapes {jnp.shape(in1)} and {jnp.shape(in2)}"
        )
