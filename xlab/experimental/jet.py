"""Taylor mode: `jet`, and `jet2`, whose terms are coefficients of polynomials."""

from functools import partial as _partial

from xlab.interpreters.jet import jet_rules as jet_rules
from xlab.transforms.jet import jet as jet

__all__ = ["jet", "jet2", "jet_rules"]

jet2 = _partial(jet, factorial_scaled=False)
