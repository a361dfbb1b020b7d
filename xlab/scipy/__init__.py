"""SciPy's functions on our arrays. Rooms are imported when they are first used.

Rooms: `linalg/`, `special/`, `stats/`, `sparse/` (iterative solvers). Files: `fft.py` (discrete cosine transforms of the second type and their inverses), `integrate.py` (integrals of
sampled functions), `ndimage.py` (reading arrays between their entries), `signal.py` (convolutions and correlations of
arrays of any rank).

Example:
    >>> import xlab
    >>> float(xlab.scipy.special.expit(0.0))
    0.5
"""

from importlib import import_module as _import_module

_ROOMS = ("fft", "integrate", "linalg", "ndimage", "signal", "sparse", "special", "stats")
__all__ = [*_ROOMS]


def __getattr__(name: str):
    if name in _ROOMS:
        return _import_module(f"xlab.scipy.{name}")
    raise AttributeError(
        f"module 'xlab.scipy' has no attribute {name!r}. There are {', '.join(_ROOMS)}."
    )


def __dir__():
    return sorted({*globals(), *_ROOMS})
