"""Samples of the spectra, trends and windows of `scipy.signal`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X = np.sin(np.arange(40, dtype=np.float32)) + 0.2 * floats(40)
Y, PAIR, C = floats(40), floats(2, 30), (floats(24) + 1j * floats(24)).astype(np.complex64)
Z = (floats(5, 6) + 1j * floats(5, 6)).astype(np.complex64)


def of(name, **options):
    return lambda n, *xs: getattr(import_module(f"{n.name}.scipy.signal"), name)(*xs, **options)


def there_and_back(n, x):
    signal = import_module(f"{n.name}.scipy.signal")
    return signal.istft(signal.stft(x, nperseg=8)[2], nperseg=8)


S = {"nperseg": 8}
SAMPLES = [
    Sample("welch", of("welch", nperseg=16, fs=2), [X], ("eager", "jit", "grad"), tol=1e-4),
    *(Sample(f"welch_{name}", of("welch", **S, **options), [X], ("eager",), tol=1e-4) for name, options in {
        "spectrum": {"scaling": "spectrum"}, "median": {"average": "median"}, "odd": {"nfft": 9}, "overlap": {"noverlap": 6},
        "linear": {"detrend": "linear"}, "plain": {"detrend": False}, "kaiser": {"window": ("kaiser", 3.0)}, "two_sides": {"return_onesided": False},
        "blackman": {"window": "blackman"}}.items()),
    Sample("welch_of_own", lambda n, x: of("welch", detrend=lambda v: v - 1, window=n.jnp.arange(1.0, 9))(n, x), [X], ("eager",), tol=1e-4),
    Sample("welch_of_columns", of("welch", **S, axis=0), [PAIR.T], ("eager", "vmap"), tol=1e-4),
    Sample("welch_of_rate", lambda n, x, fs: of("welch", fs=fs, **S)(n, x), [X, np.float32(3)], ("jit",), tol=1e-4),
    Sample("welch_of_complex", of("welch", **S), [C], ("eager",), tol=1e-4),
    Sample("welch_of_few", of("welch"), [X], ("eager",), tol=1e-4), Sample("welch_of_none", of("welch"), [np.float32([])], ("eager",)),
    Sample("csd", of("csd", **S), [X, Y], ("eager", "grad"), tol=1e-4), Sample("csd_self", lambda n, x: of("csd", **S)(n, x, None), [X], ("eager",), tol=1e-4),
    Sample("csd_lengths", of("csd", **S, average="median"), [X, Y[:30]], ("eager",), tol=1e-4),
    Sample("csd_ranks", of("csd", **S), [X, PAIR], error="ValueError"),
    *(Sample(f"stft_{name}", of("stft", **S, **options), [X[:29]], ("eager",), tol=1e-4) for name, options in {
        "zeros": {}, "even": {"boundary": "even"}, "odd": {"boundary": "odd"}, "constant": {"boundary": "constant"},
        "none": {"boundary": None, "padded": False}, "detrended": {"detrend": "constant"}, "long": {"nfft": 12, "noverlap": 2}}.items()),
    Sample("stft_of_columns", of("stft", **S, axis=0), [PAIR.T], ("eager",), tol=1e-4), Sample("stft_before_last", of("stft", **S, axis=-2), [PAIR.T], ("eager",), tol=1e-4),
    Sample("stft_slopes", lambda n, x: n.jnp.abs(of("stft", **S)(n, x)[2]), [X[:20]], ("grad",), tol=1e-3),
    Sample("istft", of("istft", fs=2.0), [Z], ("eager", "grad", "jit"), tol=1e-4), Sample("istft_two_sides", of("istft", input_onesided=False), [Z], ("eager",), tol=1e-4),
    *(Sample(f"istft_{name}", of("istft", **options), [Z], ("eager",), tol=1e-4) for name, options in {
        "whole": {"boundary": False}, "short": {"nperseg": 6}, "axes": {"time_axis": 0, "freq_axis": 1},
        "long": {"nfft": 10}}.items()),
    Sample("there_and_back", there_and_back, [X[:32]], ("eager",), tol=1e-4),
    *(Sample(f"detrend_{name}", of("detrend", **options), [PAIR], ("eager",), tol=1e-4) for name, options in {
        "line": {}, "columns": {"axis": 0}, "mean": {"type": "constant"}, "lines": {"bp": [10, 21]}}.items()),
    Sample("detrend_slopes", of("detrend"), [floats(7)], ("grad", "vmap"), tol=1e-4), Sample("detrend_ints", of("detrend"), [np.arange(6)], ("eager",), tol=1e-4), Sample("detrend_list", of("detrend"), [[1, 2, 4.0]], ("eager",), tol=1e-4),
    Sample("detrend_x64", of("detrend", bp=3), [floats(7).astype(float)], ("eager",), x64=True),
    Sample("welch_x64", of("welch", **S), [Y.astype(float)], ("eager",), x64=True),
    *(Sample(f"welch_wrong_{key}", of("welch", **{**S, key: value}), [X], error="ValueError") for key, value in {
        "average": "x", "scaling": "x", "window": "x", "noverlap": 8, "nfft": 7, "nperseg": 0, "detrend": "x"}.items()),
    Sample("welch_window_of_rank_2", lambda n, x: of("welch", window=n.jnp.ones((2, 4)))(n, x), [X], error="ValueError"),
    Sample("welch_window_of_size", lambda n, x: of("welch", **S, window=n.jnp.ones(7))(n, x), [X], error="ValueError"),
    Sample("stft_wrong_boundary", of("stft", **S, boundary="x"), [X], error="ValueError"),
    *(Sample(f"istft_wrong_{key}", of("istft", **{key: value}), [Z], error="ValueError") for key, value in {
        "freq_axis": -1, "noverlap": 9, "nfft": 7}.items()),
    Sample("istft_of_rank_1", of("istft"), [Z[0]], error="ValueError"), Sample("detrend_wrong_type", of("detrend", type="x"), [X], error="ValueError"),
    Sample("detrend_wrong_place", of("detrend", bp=[10, 99]), [X], error="ValueError"),
    Sample("detrend_in_place", of("detrend", overwrite_data=True), [X], error="NotImplementedError"),
    Sample("fftconvolve_along_one", of("fftconvolve", axes=1), [PAIR, PAIR[:, :4]], ("eager", "jit.grad"), tol=1e-4),
    Sample("fftconvolve_of_numbers", of("convolve", method="fft"), [np.float32(2), np.float32(3)], ("eager",)),
    Sample("fftconvolve_along_none", of("fftconvolve", axes=()), [PAIR, PAIR], ("eager",)),
    *(Sample(f"{name}_of_nothing", of(name), [X[:0], X[:3]], error="ValueError") for name in ("convolve", "correlate")),
    *(Sample(f"{name}_neither_larger", of(name, mode="valid"), [PAIR, PAIR.T], error="ValueError") for name in ("fftconvolve", "convolve")),
    *(Sample(f"fftconvolve_wrong_axes_{i}", of("fftconvolve", axes=axes), [PAIR, PAIR[:, :4]], error="ValueError") for i, axes in enumerate([0, 2])),
]
