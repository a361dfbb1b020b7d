"""Probability distributions, a module each, as SciPy names them.

`functions.py` holds what they share, `ranks.py` ranks and standard errors of samples, `counts.py` their most common values, `kde.py` densities
estimated from them. Continuous: `beta`, `cauchy`, `chi2`, `dirichlet`,
`expon`, `gamma`, `gennorm`, `gumbel_l`, `gumbel_r`, `laplace`, `logistic`, `multivariate_normal`, `norm`, `pareto`, `t`, `truncnorm`, `uniform`,
`vonmises`, `wrapcauchy`. Discrete: `bernoulli`, `betabinom`, `binom`, `geom`, `multinomial`, `nbinom`, `poisson`.

Example:
    >>> from xlab.scipy import stats
    >>> round(float(stats.norm.cdf(1.96)), 3)
    0.975
"""

from importlib import import_module as _import_module

from xlab.scipy.stats.counts import mode as mode
from xlab.scipy.stats.ranks import rankdata as rankdata
from xlab.scipy.stats.ranks import sem as sem

_DISTRIBUTIONS = ("bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom",
                  "gumbel_l", "gumbel_r", "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm",
                  "pareto", "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy")  # fmt: skip
__all__ = [*_DISTRIBUTIONS, "gaussian_kde", "mode", "rankdata", "sem"]


def __getattr__(name: str):
    if name in _DISTRIBUTIONS:
        return _import_module(f"xlab.scipy.stats.{name}")
    if name == "gaussian_kde":  # it draws, and solves: rooms that the distributions do without
        return _import_module("xlab.scipy.stats.kde").gaussian_kde
    raise AttributeError(
        f"module 'xlab.scipy.stats' has no attribute {name!r}. There are {', '.join(__all__)}."
    )


def __dir__():
    return sorted({*globals(), *__all__})
