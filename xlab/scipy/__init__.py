"""SciPy's functions on our arrays. Rooms are imported when they are first used.

Rooms: `linalg/`, `special/`, `stats/`, `signal/` (convolutions and spectra), `sparse/` (iterative solvers), `optimize/` (minima), `spatial/`
(rotations), `cluster/` (the nearest of several vectors). Files: `fft.py` (discrete cosine transforms of the second type and their inverses), `integrate.py`
(integrals of sampled functions), `interpolate.py` (functions given on a grid), `ndimage.py` (reading arrays between their entries).

Example:
    >>> import xlab
    >>> float(xlab.scipy.special.expit(0.0))
    0.5
"""

from importlib import import_module as _import_module

_ROOMS = ("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special",
          "stats")  # fmt: skip
__all__ = [*_ROOMS]


def __getattr__(name: str):
    if name in _ROOMS:
        return _import_module(f"xlab.scipy.{name}")
    raise AttributeError(
        f"module 'xlab.scipy' has no attribute {name!r}. There are {', '.join(_ROOMS)}."
    )


def __dir__():
    return sorted({*globals(), *_ROOMS})
