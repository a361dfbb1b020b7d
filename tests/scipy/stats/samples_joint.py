"""Samples of slopes of distributions of vectors, and of densities estimated from samples, by every argument that is a float."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

COVARIANCE = np.float32([[2, 0.3, -0.2], [0.3, 1.5, 0.4], [-0.2, 0.4, 1]])
CHANCES = np.float32([0.2, 0.3, 0.5])
DATA, LINE = floats(2, 6), floats(7)
WEIGHTS = np.float32([0.1, 0.3, 0.2, 0.15, 0.05, 0.2])
TOLERANCE = (2e-3, 2e-4)  # sums of logarithms and inverses in float32


def stats(n):
    return import_module(f"{n.name}.scipy.stats")


def of(dist, f):
    return lambda n, *xs: getattr(getattr(stats(n), dist), f)(*xs)


def kde(f, **options):
    """A method of an estimate, as a function of the data, the weights and what it is asked at."""

    def call(n, data, weights, *at):
        return getattr(stats(n).gaussian_kde(data, weights=weights, **options), f)(*at)

    return call


def with_gaussian(n, data, weights, mean, cov):
    """By a symmetric matrix: the reference's slope by one is that of an asymmetric one."""
    return stats(n).gaussian_kde(data, weights=weights).integrate_gaussian(mean, (cov + cov.T) / 2)


def both_kdes(n, data, weights, other):
    return stats(n).gaussian_kde(data, weights=weights).integrate_kde(stats(n).gaussian_kde(other))


NORMAL = {
    "points": [floats(5, 3), floats(3), COVARIANCE],
    "point": [floats(3), floats(3), COVARIANCE],
    "line": [floats(4), np.float32(0.5), np.float32(2)],
    "means": [floats(4, 3), floats(4, 3), COVARIANCE],
}
KDE = [
    *((f, [DATA, WEIGHTS, floats(2, 3)]) for f in ("evaluate", "pdf", "logpdf")),
    ("integrate_box_1d", [LINE, np.abs(floats(7)) + 0.1, np.float32(-0.5), np.float32(1.2)]),
]
SAMPLES = [
    *(
        Sample(f"multivariate_normal_{f}_{k}", of("multivariate_normal", f), args, ("grad",), tol=TOLERANCE)
        for f in ("logpdf", "pdf") for k, args in NORMAL.items()
    ),
    *(
        Sample(f"multinomial_{f}", of("multinomial", f), [np.int32(x), 6, CHANCES], ("grad",), tol=TOLERANCE)
        for f, x in (("logpmf", [1, 2, 3]), ("pmf", [1, 2, 3]))
    ),
    Sample("multinomial_none", of("multinomial", "logpmf"), [np.int32([0, 2, 4]), 6, CHANCES], ("grad",), tol=TOLERANCE),
    *(Sample(f"kde_{f}", kde(f), args, ("grad",), tol=TOLERANCE) for f, args in KDE),
    Sample("kde_silverman", kde("evaluate", bw_method="silverman"), KDE[0][1], ("grad",), tol=TOLERANCE),
    Sample("kde_integrate_gaussian", with_gaussian, [DATA, WEIGHTS, floats(2), COVARIANCE[:2, :2]], ("grad",), tol=TOLERANCE),
    Sample("kde_integrate_kde", both_kdes, [DATA, WEIGHTS, floats(2, 4, low=0.5)], ("grad",), tol=TOLERANCE),
    Sample("kde_bandwidth", lambda n, x, h: stats(n).gaussian_kde(x, bw_method=h).logpdf(x[:3]), [LINE, np.float32(0.4)], ("grad",), tol=TOLERANCE),
]  # fmt: skip
