"""Windows, and what holds for spectra, against SciPy and by laws."""

import numpy as np
import pytest
import scipy.signal

import xlab.numpy as jnp
from xlab.scipy import signal
from xlab.scipy.signal.windows import _ALIASES, _WINDOWS, window_of

PARAMETERS = {
    "chebwin": (50.0,), "dpss": (1.5,), "gaussian": (2.0,), "general_cosine": ([0.5, 0.3, 0.2],), "general_gaussian": (1.5, 2.0),
    "general_hamming": (0.7,), "kaiser": (3.0,),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_WINDOWS))
def test_windows_are_those_of_scipy(name):
    window = (name, *PARAMETERS[name]) if name in PARAMETERS else name
    for size in (7, 12) if name == "dpss" else (1, 2, 7, 12):
        np.testing.assert_allclose(
            window_of(window, size), scipy.signal.get_window(window, size), atol=2e-9
        )


def test_other_names_of_windows():
    for name, meant in _ALIASES.items():
        if meant not in PARAMETERS:
            expected = scipy.signal.get_window(name, 6)
            np.testing.assert_allclose(window_of(name, 6), expected, atol=1e-12)
    np.testing.assert_allclose(window_of(3.0, 6), scipy.signal.get_window(3.0, 6))
    np.testing.assert_allclose(
        window_of(("tukey", 0.3), 9), scipy.signal.get_window(("tukey", 0.3), 9)
    )


def test_windows_that_there_are_not():
    with pytest.raises(ValueError, match="Did you mean 'hann'"):
        window_of("hannn", 8)
    with pytest.raises(ValueError, match="needs 1 parameter"):
        window_of("gaussian", 8)
    with pytest.raises(ValueError, match="too many parameters"):
        window_of(("hann", 1), 8)
    with pytest.raises(ValueError, match="half bandwidth"):
        window_of(("dpss", 4.0), 7)


def test_a_transform_without_overlap_comes_back():
    x = np.sin(np.arange(32.0)).astype(np.float32)
    for window, overlap in (("boxcar", 0), ("hann", 6), (np.ones(8, np.float32), 4)):
        _, _, z = signal.stft(x, window=window, nperseg=8, noverlap=overlap)
        _, back = signal.istft(z, window=window, nperseg=8, noverlap=overlap)
        np.testing.assert_allclose(back[:32], x, atol=1e-5)


def test_power_is_that_of_the_signal():
    x = np.cos(np.arange(64.0) * 2 * np.pi * 8 / 64).astype(np.float32)
    frequencies, density = signal.welch(x, window="boxcar", nperseg=64, detrend=False)
    assert float(jnp.sum(density) * frequencies[1]) == pytest.approx(0.5, rel=1e-5)


def test_long_segments_are_cut_with_a_warning():
    with pytest.warns(UserWarning, match="using nperseg=20"):
        frequencies, _ = signal.welch(np.ones(20, np.float32), nperseg=32)
    assert len(frequencies) == 11
    with pytest.warns(UserWarning, match="complex"):
        signal.welch(np.ones(20, np.complex64), nperseg=8)


def test_istft_refuses_segments_longer_than_its_transforms():
    with pytest.raises(ValueError, match=r"FFT length \(4\) must be longer than nperseg \(16\)"):
        signal.istft(np.ones((3, 5), np.complex64), nperseg=16)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_spectra_with_negative_frequencies_are_never_half(dtype):
    x = jnp.sin(jnp.arange(64)).astype(dtype)
    frequencies, density = signal.welch(x, nperseg=16, return_onesided=False)
    expected = signal.welch(x.astype(np.float32), nperseg=16, return_onesided=False)
    assert frequencies.dtype == density.dtype == np.float32
    np.testing.assert_allclose(frequencies, expected[0])
    np.testing.assert_allclose(density, expected[1], rtol=1e-5, atol=1e-7)
    frequencies, times, out = signal.stft(x, nperseg=16, return_onesided=False)
    assert (frequencies.dtype, times.dtype, out.dtype) == (np.float32, np.float32, np.complex64)
    assert signal.istft(jnp.ones((9, 4), dtype))[0].dtype == np.float32
