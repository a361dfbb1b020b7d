"""Linear algebra under the names of `scipy.linalg`.

Reading order: `systems.py` (solutions), `factors.py` (decompositions), `schur.py` (forms by change of basis), `functions.py`
(functions of matrices), `special_matrices.py`. Arguments such as `overwrite_a` and `check_finite` are accepted and change
nothing: arrays are never overwritten, and values are not looked at.
"""

from xlab.scipy.linalg.factors import *
from xlab.scipy.linalg.functions import *
from xlab.scipy.linalg.schur import *
from xlab.scipy.linalg.special_matrices import *
from xlab.scipy.linalg.systems import *


def __getattr__(name: str):
    from xlab.errors import no_attribute

    raise no_attribute("xlab.scipy.linalg", name, globals())
