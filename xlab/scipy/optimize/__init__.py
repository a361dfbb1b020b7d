"""Minima of functions: `minimize`.

Reading order: `line_search.py` (how far to go), `quasi_newton.py` (where to: BFGS and L-BFGS), `minimize.py` (the public function).
"""

from xlab.scipy.optimize.minimize import OptimizeResults as OptimizeResults
from xlab.scipy.optimize.minimize import minimize as minimize

__all__ = ["OptimizeResults", "minimize"]
