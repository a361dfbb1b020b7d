"""Spectral densities by averaged periodograms, and short-time Fourier transforms.

Sources: Welch (1967), The use of fast Fourier transform for the estimation of power spectra; Griffin and Lim (1984), Signal estimation
from modified short-time Fourier transform, for the inverse.

Example:
    >>> import xlab.numpy as jnp
    >>> frequencies, density = welch(jnp.sin(jnp.pi / 4 * jnp.arange(64.)), nperseg=16)
    >>> float(frequencies[density.argmax()])
    0.125
"""

from __future__ import annotations

import operator

import numpy as np

from xlab import numpy as jnp
from xlab.core.source_info import warn
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact, whole_along
from xlab.scipy.signal.trends import detrend as _detrend
from xlab.scipy.signal.windows import window_of

__all__ = ["csd", "istft", "stft", "welch"]


def welch(
    x: Array,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density of a signal, averaged over overlapping segments.

    Args:
        x: the signal, or several.
        fs: samples per unit of time.
        window: the weights of a segment: a name, a tuple of a name and its parameters, or an array.
        nperseg: samples per segment, 256 (or all of a shorter signal) by default.
        noverlap: samples that neighboring segments share, half of a segment by default.
        nfft: length of the transforms, `nperseg` by default; longer segments are filled with zeros.
        detrend: what is taken away from each segment: "constant", "linear", a function, or False for nothing.
        return_onesided: whether negative frequencies of real signals are left out.
        scaling: "density" (power per frequency) or "spectrum" (power).
        axis: the axis along which the signal runs.
        average: "mean" or "median" of the segments.

    Returns:
        The frequencies, and the density at each along `axis`.
    """
    frequencies, density = csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )
    return frequencies, density.real


def csd(
    x: Array,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross power spectral density of two signals; arguments as for `welch`.

    Args:
        x: the first signal.
        y: the second one, of the same rank; the shorter of the two is filled with zeros. None stands for `x`, and the result is real.
        fs: samples per unit of time.
        window: the weights of a segment.
        nperseg: samples per segment.
        noverlap: samples that neighboring segments share.
        nfft: length of the transforms.
        detrend: what is taken away from each segment.
        return_onesided: whether negative frequencies of real signals are left out.
        scaling: "density" or "spectrum".
        axis: the axis along which the signals run.
        average: "mean" or "median" of the segments.

    Returns:
        The frequencies, and the density at each along `axis`.
    """
    if average not in ("mean", "median"):
        raise ValueError(f'csd: average must be "median" or "mean", got {average!r}')
    if scaling not in ("density", "spectrum"):
        raise ValueError(f'csd: scaling must be "density" or "spectrum", got {scaling!r}')
    x, y = _signals("csd", x, y, return_onesided)
    if x.size == 0 or (y is not None and y.size == 0):
        shape = x.shape if y is None else jnp.broadcast_shapes(x.shape, y.shape)
        empty = jnp.zeros(shape, x.real.dtype)
        return empty, empty
    frequencies, _, spectra, weights = _segments(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis
    )
    size, onesided = len(weights), return_onesided and not jnp.iscomplexobj(spectra[0])
    spectra = [_transform(s, weights, nfft, onesided) for s in spectra]
    power = spectra[0].conj() * spectra[-1]
    if y is None:
        power = power.real
    scale = fs * jnp.sum(weights**2) if scaling == "density" else jnp.sum(weights) ** 2
    power = power / jnp.asarray(scale, power.real.dtype)
    if (
        onesided
    ):  # negative frequencies have as much; zero and the highest of an even length have no other
        doubled = np.full(power.shape[-1], 2.0, np.dtype(power.real.dtype))
        doubled[0] = 1
        if (size if nfft is None else int(nfft)) % 2 == 0:
            doubled[-1] = 1
        power = power * doubled
    if power.shape[-2] == 0 or average == "mean":
        power = power.mean(-2)
    else:
        # The median of exponentially distributed values of n segments is not their mean, but this many times it.
        pairs = 2 * np.arange(1, (power.shape[-2] - 1) // 2 + 1)
        bias = 1 + float((1.0 / (pairs + 1) - 1.0 / pairs).sum())
        middle = jnp.median(power.real, -2)
        if jnp.iscomplexobj(power):
            middle = middle + 1j * jnp.median(power.imag, -2)
        power = middle / bias
    return frequencies, jnp.moveaxis(power, -1, axis)


def stft(
    x: Array,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: bool = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform of a signal.

    Args:
        x: the signal, or several.
        fs: samples per unit of time.
        window: the weights of a segment: a name, a tuple of a name and its parameters, or an array.
        nperseg: samples per segment.
        noverlap: samples that neighboring segments share, half of a segment by default.
        nfft: length of the transforms.
        detrend: what is taken away from each segment; False for nothing.
        return_onesided: whether negative frequencies of real signals are left out.
        boundary: how the signal goes on by half a segment at both ends: "zeros", "even", "odd", "constant", or None where it does not.
        padded: whether zeros fill the last segment, so that no sample is left out.
        axis: the axis along which the signal runs.

    Returns:
        The frequencies, the times of the middles of segments, and the transform: frequencies along `axis`, times along the last axis.
    """
    if boundary not in _BEYOND:
        raise ValueError(f"Unknown boundary option {boundary!r}, must be one of: {list(_BEYOND)}")
    x, _ = _signals("stft", x, None, return_onesided)
    if x.size == 0:
        empty = jnp.zeros(x.shape, x.real.dtype)
        return empty, empty, empty
    frequencies, times, (segments,), weights = _segments(
        "stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis, boundary, padded
    )  # fmt: skip
    onesided = return_onesided and not jnp.iscomplexobj(segments)
    out = _transform(segments, weights, nfft, onesided) / jnp.abs(jnp.sum(weights))
    out = jnp.swapaxes(out, -1, -2)
    return frequencies, times, jnp.moveaxis(out, -2, axis - 1 if axis < 0 else axis)


def istft(
    Zxx: Array,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal whose short-time Fourier transform comes nearest, in the sense of least squares.

    Args:
        Zxx: the transform, as `stft` returns it.
        fs: samples per unit of time.
        window: the weights that `stft` had.
        nperseg: samples per segment, by default as many as the frequencies tell.
        noverlap: samples that neighboring segments share, half of a segment by default.
        nfft: length of the transforms, `nperseg` by default.
        input_onesided: whether negative frequencies were left out.
        boundary: whether half a segment at both ends is cut off, which `stft` added.
        time_axis, freq_axis: the axes of `Zxx`.

    Returns:
        The times, and the signal along its last axis.
    """
    Z = _not_half(as_array(*promoted_inexact("istft", Zxx)))
    if Z.ndim < 2:
        raise ValueError(f"istft: Input stft must be at least 2d, got shape {Z.shape}")
    time_axis, freq_axis = (operator.index(i) % Z.ndim for i in (time_axis, freq_axis))
    if time_axis == freq_axis:
        raise ValueError("istft: Must specify differing time and frequency axes, got the same")
    Z = jnp.moveaxis(Z, (time_axis, freq_axis), (-2, -1))
    count, found = Z.shape[-2], Z.shape[-1]
    natural = 2 * (found - 1) if input_onesided else found
    size = natural if nperseg is None else int(nperseg)
    if size < 1:
        raise ValueError(f"istft: nperseg must be a positive integer, got {nperseg}")
    if nfft is None:
        # A transform of an odd number of samples has as many frequencies as one of the even number below.
        length = size if input_onesided and size == natural + 1 else natural
    else:
        length = int(nfft)
    if length < size:
        raise ValueError(f"istft: FFT length ({length}) must be longer than nperseg ({size})")
    shared = size // 2 if noverlap is None else int(noverlap)
    if shared >= size:
        raise ValueError(f"istft: noverlap must be less than nperseg, got {shared} and {size}")
    step = size - shared
    dtype = Z.real.dtype
    if isinstance(window, (str, tuple)):
        weights = window_of(window, size).astype(np.dtype(dtype))
    else:
        weights = jnp.asarray(window)
        if weights.ndim != 1:
            raise ValueError(f"istft: window must be 1-D, got shape {weights.shape}")
        if weights.shape[0] != size:
            raise ValueError(f"istft: window must have length of {size}, got {weights.shape[0]}")
        weights = weights.astype(dtype)
    segments = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(Z, length)[..., :size]
    total = size + (count - 1) * step
    places = (np.arange(count)[:, None] * step + np.arange(size)).ravel()
    weighted = segments * weights * jnp.sum(weights)
    weighted = weighted.reshape(*Z.shape[:-2], count * size)
    out = _filled(weighted[..., :0], total)  # zeros, whose batches are sharded as those of `Z`
    out = out.at[..., places].add(weighted)
    norm = jnp.zeros(total, dtype).at[places].add(jnp.tile(weights**2, count))
    if boundary:
        out, norm = (v[..., size // 2 : total - size // 2] for v in (out, norm))
    out = out / jnp.where(norm > 1e-10, norm, 1)
    return jnp.arange(out.shape[-1], dtype=dtype) / jnp.asarray(fs, dtype), out


def _not_half(x):
    """The array in single precision where it is narrower, as are the parts of complex numbers."""
    return x if jnp.finfo(x.dtype).bits >= 32 else x.astype(np.float32)


def _signals(name, x, y, return_onesided):
    """The signals as floats of one dtype and rank, equally long but for `axis`; those transformed as complex numbers are not half."""
    fitting = as_array if return_onesided else lambda v: _not_half(as_array(v))
    if y is None:
        return fitting(*promoted_inexact(name, x)), None
    x, y = (fitting(v) for v in promoted_inexact(name, x, y))
    if x.ndim != y.ndim:
        raise ValueError(
            f"{name}: two arguments must have the same rank, got shapes {x.shape} and {y.shape}"
        )
    return x, y


def _segments(
    name, x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis,
    boundary=None, padded=False,
):  # fmt: skip
    """`(frequencies, times, [segments of each signal], weights)`: segments are (..., number, samples), without their trends."""
    signals = [jnp.moveaxis(v, axis, -1) for v in (x, y) if v is not None]
    for v in (x, y):
        if v is not None:
            whole_along(name, "signal", v, axis)
    longest = max(v.shape[-1] for v in signals)
    signals = [_filled(v, longest) for v in signals]
    dtype = x.real.dtype
    weights = _weights(name, window, nperseg, longest, dtype)
    size = len(weights)
    shared = size // 2 if noverlap is None else int(noverlap)
    if shared >= size:
        raise ValueError(f"{name}: noverlap must be less than nperseg, got {shared} and {size}")
    length = size if nfft is None else int(nfft)
    if length < size:
        raise ValueError(
            f"{name}: nfft must be greater than or equal to nperseg, got {nfft} and {size}"
        )
    step = size - shared
    if boundary is not None:
        signals = [_extended(name, v, size // 2, boundary) for v in signals]
    if padded:
        extent = signals[0].shape[-1]
        signals = [_filled(v, extent + -(extent - size) % step % size) for v in signals]
    complex_signals = any(jnp.iscomplexobj(v) for v in signals)
    if complex_signals and return_onesided:
        warn("Input data is complex, switching to return_onesided=False", UserWarning)
    frequencies = (
        jnp.fft.rfftfreq if return_onesided and not complex_signals else jnp.fft.fftfreq
    )(length, 1 / jnp.asarray(fs, dtype), dtype=dtype)
    extent = signals[0].shape[-1]
    starts = np.arange(0, extent - size + 1, step)
    segments = [v[..., starts[:, None] + np.arange(size)] for v in signals]
    if callable(detrend):
        segments = [detrend(v) for v in segments]
    elif detrend:
        segments = [_detrend(v, -1, detrend) for v in segments]
    middles = starts + size / 2 - (size / 2 if boundary is not None else 0)
    times = jnp.asarray(middles, dtype) / jnp.asarray(fs, dtype)
    return frequencies, times, segments, weights


def _weights(name, window, nperseg, longest, dtype):
    """The window as an array, as long as a segment."""
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError(f"{name}: nperseg must be a positive integer, got {nperseg}")
    if isinstance(window, (str, tuple, int, float)):
        size = 256 if nperseg is None else int(nperseg)
        if size > longest:
            if nperseg is not None:
                warn(
                    f"nperseg={size} is greater than input_length={longest}, using nperseg={longest}",
                    UserWarning,
                )
            size = longest
        return window_of(window, size).astype(np.dtype(dtype))
    weights = jnp.asarray(window)
    if weights.ndim != 1:
        raise ValueError(f"{name}: window must be 1-D, got shape {weights.shape}")
    if weights.shape[0] > longest:
        raise ValueError(
            f"{name}: window is longer than input signal, {weights.shape[0]} samples and {longest}"
        )
    if nperseg is not None and int(nperseg) != weights.shape[0]:
        raise ValueError(
            f"{name}: value specified for nperseg is different from length of window, {nperseg} and {weights.shape[0]}"
        )
    return weights.astype(dtype)


def _transform(segments, weights, nfft, onesided):
    return (jnp.fft.rfft if onesided else jnp.fft.fft)(
        segments * weights, len(weights) if nfft is None else int(nfft)
    )


def _filled(x, size):
    """Zeros behind a signal, up to a length."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])])


_BEYOND = ("even", "odd", "constant", "zeros", None)


def _extended(name, x, by, boundary):
    """The signal with `by` samples more at both ends."""
    if boundary in ("even", "odd") and by > x.shape[-1] - 1:
        raise ValueError(
            f"{name}: boundary={boundary!r} mirrors {by} samples, the signal has {x.shape[-1]}: at most {x.shape[-1] - 1} can be"
        )
    widths = [(0, 0)] * (x.ndim - 1) + [(by, by)]
    if boundary == "zeros":
        return jnp.pad(x, widths)
    if boundary == "constant":
        return jnp.pad(x, widths, mode="edge")
    return jnp.pad(x, widths, mode="reflect", reflect_type=boundary)
