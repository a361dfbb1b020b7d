"""Windows: weights of the samples of a segment, by name, as NumPy arrays of 64-bit floats.

Formulas: Harris (1978), On the use of windows for harmonic analysis with the discrete Fourier transform; those of `nuttall` and
`flattop` are in Heinzel, Ruediger and Schilling (2002), Spectrum and spectral density estimation by the discrete Fourier transform.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import numpy as np

__all__ = ["window_of"]


def window_of(window, size: int) -> np.ndarray:
    """The weights of a periodic window.

    Args:
        window: a name; a tuple of a name and its parameters, as ("kaiser", 8.0); or a number, the beta of "kaiser".
        size: how many samples.

    Raises:
        ValueError: for an unknown name or wrong parameters, with the names there are.
    """
    if isinstance(window, (int, float, np.number)) and not isinstance(window, bool):
        window = ("kaiser", float(window))
    name, *parameters = (window,) if isinstance(window, str) else window
    name = _ALIASES.get(name, name)
    if name not in _WINDOWS:
        near = difflib.get_close_matches(str(name), [*_WINDOWS, *_ALIASES], 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(sorted(_WINDOWS))}."
        raise ValueError(f"Invalid window name {name!r} in parameter window={window!r}. {hint}")
    make, fewest = _WINDOWS[name]
    if len(parameters) < fewest:
        raise ValueError(
            f"The {name!r} window needs {fewest} parameter{'s' if fewest > 1 else ''}: pass a tuple, ({name!r}, value)"
        )
    if size <= 1:
        return np.ones(size)
    try:
        # A periodic window is the symmetric one of one sample more, without its last.
        return make(size + 1, *parameters)[:-1]
    except TypeError:
        raise ValueError(f"window={window!r} has too many parameters for {name!r}") from None


def _distances(n):
    """Positions from -1 to 1."""
    return np.linspace(-1, 1, n)


def _cosines(n, coefficients):
    angles = np.linspace(-np.pi, np.pi, n)
    return sum(a * np.cos(k * angles) for k, a in enumerate(coefficients))


def _sum_of(*coefficients):
    return lambda n: _cosines(n, coefficients)


def _triang(n):
    k = np.minimum(np.arange(1, n + 1), np.arange(n, 0, -1))
    return 2 * k / (n + 1) if n % 2 else (2 * k - 1) / n


def _bohman(n):
    x = np.abs(_distances(n))
    w = (1 - x) * np.cos(np.pi * x) + np.sin(np.pi * x) / np.pi
    w[[0, -1]] = 0
    return w


def _barthann(n):
    x = np.abs(_distances(n) / 2)
    return 0.62 - 0.48 * x + 0.38 * np.cos(2 * np.pi * x)


def _parzen(n):
    x = np.abs(np.arange(n) - (n - 1) / 2) / (n / 2)
    return np.where(
        np.abs(np.arange(n) - (n - 1) / 2) <= (n - 1) / 4,
        1 - 6 * x**2 + 6 * x**3,
        2 * (1 - x) ** 3,
    )


def _tukey(n, alpha=0.5):
    if alpha <= 0:
        return np.ones(n)
    # A cosine over the outer part of the half window, flat inside.
    x = np.abs(_distances(n))
    outer = np.maximum(0, x - (1 - min(alpha, 1))) / min(alpha, 1)
    return 0.5 * (1 + np.cos(np.pi * outer))


def _exponential(n, center=None, tau=1.0):
    middle = (n - 1) / 2 if center is None else center
    return np.exp(-np.abs(np.arange(n) - middle) / tau)


def _gaussian(n, std):
    return _general_gaussian(n, 1, std)


def _general_gaussian(n, p, sig):
    return np.exp(-0.5 * np.abs((np.arange(n) - (n - 1) / 2) / sig) ** (2 * p))


def _chebwin(n, at):
    # Dolph-Chebyshev: the inverse transform of a Chebyshev polynomial over the unit circle.
    order = n - 1.0
    beta = np.cosh(np.arccosh(10 ** (abs(at) / 20.0)) / order)
    x = beta * np.cos(np.pi * np.arange(n) / n)
    inside, sign = np.clip(x, -1, 1), (1 if n % 2 else -1)
    p = np.where(
        x > 1,
        np.cosh(order * np.arccosh(np.maximum(x, 1))),
        np.where(
            x < -1,
            sign * np.cosh(order * np.arccosh(np.maximum(-x, 1))),
            np.cos(order * np.arccos(inside)),
        ),
    )
    if n % 2:
        w = np.fft.fft(p).real
        half = (n + 1) // 2
        w = np.concatenate([w[half - 1 : 0 : -1], w[:half]])
    else:
        w = np.fft.fft(p * np.exp(1j * np.pi / n * np.arange(n))).real
        half = n // 2 + 1
        w = np.concatenate([w[half - 1 : 0 : -1], w[1:half]])
    return w / w.max()


def _taylor(n, nbar=4, sll=30, norm=True):
    # Carrara, Goodman and Majewski (1995), Spotlight synthetic aperture radar, appendix D.2.
    ratio = 10 ** (sll / 20)
    a = np.arccosh(ratio) / np.pi
    sigma = nbar**2 / (a**2 + (nbar - 0.5) ** 2)
    m = np.arange(1, nbar)
    weights = []
    for i in m:
        above = (-1) ** (i + 1) * np.prod(1 - i**2 / sigma / (a**2 + (m - 0.5) ** 2))
        weights.append(above / (2 * np.prod(1 - i**2 / m[m != i] ** 2.0)))

    def at(x):
        return 1 + 2 * np.dot(weights, np.cos(2 * np.pi * m[:, None] * (x - n / 2 + 0.5) / n))

    w = at(np.arange(n))
    return w / at(np.array([(n - 1) / 2])) if norm else w


def _dpss(n, nw):
    # Slepian (1978): the sequence is the eigenvector of a tridiagonal matrix of largest eigenvalue.
    if nw >= n / 2:
        raise ValueError(
            f"the window 'dpss' has a half bandwidth below half its size, got {nw} and {n - 1}"
        )
    k = np.arange(n)
    matrix = np.diag(((n - 1 - 2 * k) / 2) ** 2 * np.cos(2 * np.pi * nw / n))
    beside = k[1:] * (n - k[1:]) / 2
    matrix += np.diag(beside, 1) + np.diag(beside, -1)
    w = np.linalg.eigh(matrix)[1][:, -1]
    w = w * np.sign(w.sum()) / np.abs(w).max()
    return w if n % 2 else w * n**2 / (n**2 + nw)


# The function of the size and parameters, and how many parameters it needs at least.
_WINDOWS: dict[str, tuple[Callable, int]] = {
    "barthann": (_barthann, 0),
    "bartlett": (np.bartlett, 0),
    "blackman": (_sum_of(0.42, 0.50, 0.08), 0),
    "blackmanharris": (_sum_of(0.35875, 0.48829, 0.14128, 0.01168), 0),
    "bohman": (_bohman, 0),
    "boxcar": (np.ones, 0),
    "chebwin": (_chebwin, 1),
    "cosine": (lambda n: np.sin(np.pi / n * (np.arange(n) + 0.5)), 0),
    "dpss": (_dpss, 1),
    "exponential": (_exponential, 0),
    "flattop": (_sum_of(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368), 0),
    "gaussian": (_gaussian, 1),
    "general_cosine": (_cosines, 1),
    "general_gaussian": (_general_gaussian, 2),
    "general_hamming": (lambda n, alpha: _cosines(n, (alpha, 1 - alpha)), 1),
    "hamming": (_sum_of(0.54, 0.46), 0),
    "hann": (_sum_of(0.5, 0.5), 0),
    "kaiser": (np.kaiser, 1),
    "lanczos": (lambda n: np.sinc(_distances(n)), 0),
    "nuttall": (_sum_of(0.3635819, 0.4891775, 0.1365995, 0.0106411), 0),
    "parzen": (_parzen, 0),
    "taylor": (_taylor, 0),
    "triang": (_triang, 0),
    "tukey": (_tukey, 0),
}
_ALIASES = {
    "rect": "boxcar", "rectangular": "boxcar", "box": "boxcar", "ones": "boxcar", "han": "hann", "hamm": "hamming",
    "ham": "hamming", "black": "blackman", "blk": "blackman", "blackharr": "blackmanharris", "bkh": "blackmanharris",
    "nut": "nuttall", "flat": "flattop", "flt": "flattop", "bart": "bartlett", "brt": "bartlett", "bmn": "bohman",
    "brthan": "barthann", "bth": "barthann", "parz": "parzen", "par": "parzen", "triangle": "triang", "tri": "triang", "tuk": "tukey",
    "poisson": "exponential", "gauss": "gaussian", "gss": "gaussian", "ksr": "kaiser", "cheb": "chebwin", "halfcosine": "cosine", "sinc": "lanczos",
}  # fmt: skip
