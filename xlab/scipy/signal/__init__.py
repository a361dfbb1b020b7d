"""Signals: convolutions, trends and spectra, under the names of `scipy.signal`.

Reading order: `convolutions.py` (of arrays of any rank), `trends.py` (what is taken away before a transform), `windows.py` (weights of
segments, by name), `spectra.py` (spectral densities and short-time Fourier transforms).
"""

from xlab.scipy.signal.convolutions import *
from xlab.scipy.signal.spectra import *
from xlab.scipy.signal.trends import *


def __getattr__(name: str):
    from xlab.errors import no_attribute

    raise no_attribute("xlab.scipy.signal", name, globals())
