"""Special functions, as SciPy names them.

Reading order: `functions.py` (what they share), `complex_gamma.py`, `gammas.py`, `entropies.py`, `normal.py`, `integrals.py`, `bessel.py`,
`hypergeometric.py`, `harmonics.py`.
"""

from xlab.scipy.special.bessel import *
from xlab.scipy.special.entropies import *
from xlab.scipy.special.gammas import *
from xlab.scipy.special.harmonics import *
from xlab.scipy.special.hypergeometric import *
from xlab.scipy.special.integrals import *
from xlab.scipy.special.normal import *
