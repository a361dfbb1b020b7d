"""Averages, quantiles, covariance, histograms, interpolation."""

from __future__ import annotations

import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.lax.sort import sort as _sort
from xlab.numpy.arithmetic import as_array, choose, choose_like, is_complex
from xlab.numpy.elementary import elementary
from xlab.numpy.operands import (
    aligned,
    bring,
    check,
    dtype_of,
    host,
    ndim_of,
    promoted_inexact,
    shape_of,
)
from xlab.numpy.reductions import axes_of
from xlab.numpy.reductions import mean as _mean
from xlab.numpy.reductions import sum as _sum
from xlab.numpy.shape import ravel

__all__ = ["average", "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "interp", "median",
           "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(a, q, axis=None, out=None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
             weights=None):
    """The value below which a fraction `q` of the elements lies, along axes.

    Args:
        a: array.
        q: fractions from 0 to 1; their dimensions come first in the result.
        axis: an axis or a tuple of them; all by default.
        out, overwrite_input, weights: not supported.
        method: between two elements: "linear", "lower", "higher", "midpoint" or "nearest".
        keepdims: whether reduced axes stay as dimensions of size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.quantile(jnp.array([1.0, 2.0, 3.0]), 0.75)
        Array(2.5, dtype=float32)
    """
    return _public_quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False)


def nanquantile(a, q, axis=None, out=None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
                weights=None):
    """As `quantile`, of the elements that are not NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.5)
        Array(2., dtype=float32)
    """
    return _public_quantile("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True)


def _public_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan):
    if overwrite_input or out is not None:
        raise ValueError(f"{name} does not support overwrite_input=True or out != None: arrays are not changed in place")
    if weights is not None:
        raise NotImplementedError(f"{name}: weights are not supported; sort and accumulate the weights yourself")
    if method not in _METHODS:
        raise ValueError(f"{name}: method can only be {', '.join(map(repr, _METHODS))}; got {method!r}")
    check(name, a, q)
    axis = None if axis is None else axes_of(name, axis, ndim_of(a))
    return _quantile(a, q, axis=axis, method=method, keepdims=bool(keepdims), skip_nan=skip_nan)


@elementary(static=("axis", "method", "keepdims", "skip_nan"))
def _quantile(a, q, axis, method, keepdims, skip_nan):
    a, q = promoted_inexact("quantile", a, q)
    a, q = as_array(a), as_array(q)
    if a.dtype.kind == "c":
        raise ValueError("quantile does not support complex input, as the operation is poorly defined.")
    shape, dtype = a.shape, a.dtype
    axes = axes_of("quantile", axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in axes]
    a = lax.transpose(a, [*rest, *axes])
    n = int(np.prod([shape[i] for i in axes], dtype=np.int64))
    a = lax.reshape(a, [*(shape[i] for i in rest), n])
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    last = a.ndim - 1
    isnan = lax.ne(a, a)
    if not skip_nan:
        a = choose_like(lax.expand_dims(lax.reduce_or(isnan, (last,)), (last,)), np.nan, a)
    a = _sort(a, last)
    fraction = lax.reshape(q, (*q.shape, *(1,) * last))
    if skip_nan:
        count = _sum(lax.bitwise_not(isnan), axis=-1, dtype=q.dtype)
        top = lax.sub(lax.reshape(count, (*(1,) * q.ndim, *count.shape)), bring(1, q.dtype))
    else:
        top = bring(n - 1, q.dtype)
    place = lax.mul(fraction, top)
    low, high = lax.floor(place), lax.ceil(place)
    upper = lax.sub(place, low)
    lower = lax.sub(bring(1, q.dtype), upper)
    bound = top if skip_nan else bring(n - 1, q.dtype)
    low, high = (_between(v, bound) for v in (low, high))
    wide = (*q.shape, *a.shape[:-1])
    below, above = (_take_last(a, lax.convert_element_type(v, np.int32), wide) for v in (low, high))
    if method == "linear":
        out = lax.add(lax.mul(below, lower), lax.mul(above, upper))
    elif method == "midpoint":
        out = lax.mul(lax.add(below, above), bring(0.5, a.dtype))
    elif method == "nearest":
        out = choose(lax.gt(upper, bring(0.5, q.dtype)), above, below)
    else:
        out = below if method == "lower" else above
    if keepdims:
        out = lax.reshape(out, (*q.shape, *(1 if i in axes else d for i, d in enumerate(shape))))
    return bring(out, dtype)


def _between(v, top):
    from xlab.numpy.ufuncs import maximum, minimum
    return maximum(bring(0, v.dtype), minimum(v, top))


def _take_last(a, index, wide):
    """Elements of the last axis at positions that broadcast against the others."""
    from xlab.numpy.indexing import take_along_axis
    lead = len(wide) - (a.ndim - 1)
    index = lax.broadcast_in_dim(index, wide, range(len(wide)))
    n = int(np.prod(wide[:lead], dtype=np.int64))
    flat = lax.reshape(index, (n, *wide[lead:]))
    moved = lax.transpose(flat, [*range(1, flat.ndim), 0])
    out = take_along_axis(a, moved, axis=a.ndim - 1, mode="clip")
    return lax.reshape(lax.transpose(out, [out.ndim - 1, *range(out.ndim - 1)]), wide)


def percentile(a, q, axis=None, out=None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
               weights=None, out_sharding=None):
    """As `quantile`, with `q` from 0 to 100; `out_sharding` says how the result lies over explicit axes of the mesh.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0]), 50)
        Array(2., dtype=float32)
    """
    from xlab.numpy.ufuncs import divide
    check("percentile", a, q)
    _, q = promoted_inexact("percentile", a, q)
    found = quantile(a, divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights)
    if out_sharding is None:
        return found
    from xlab.numpy.creation import resharded
    return resharded(found, out_sharding, "percentile")


def nanpercentile(a, q, axis=None, out=None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
                  weights=None):
    """As `percentile`, of the elements that are not NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
        Array(2., dtype=float32)
    """
    from xlab.numpy.ufuncs import divide
    check("nanpercentile", a, q)
    _, q = promoted_inexact("nanpercentile", a, q)
    return nanquantile(a, divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights)


def median(a, axis=None, out=None, overwrite_input: bool = False, keepdims: bool = False):
    """The middle element along axes, or the mean of the two in the middle.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.median(jnp.array([1.0, 5.0, 2.0]))
        Array(2., dtype=float32)
    """
    check("median", a)
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def nanmedian(a, axis=None, out=None, overwrite_input: bool = False, keepdims: bool = False):
    """As `median`, of the elements that are not NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanmedian(jnp.array([1.0, jnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    check("nanmedian", a)
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


@elementary(static=("axis", "returned", "keepdims"))
def average(a, axis=None, weights=None, returned: bool = False, keepdims: bool = False):
    """Mean over axes, with weights; `returned` gives the sum of the weights too.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
        Array(1.5, dtype=float32)
    """
    from xlab.numpy.ufuncs import multiply
    if weights is None:
        (a,) = promoted_inexact("average", a)
        out = _mean(a, axis=axis, keepdims=keepdims)
        count = int(np.prod([shape_of(a)[i] for i in axes_of("average", axis, ndim_of(a))], dtype=np.int64))
        total = lax.full(shape_of(out), count, aval_of(out).dtype)
        return (out, total) if returned else out
    a, weights = (as_array(x) for x in promoted_inexact("average", a, weights))
    if weights.shape != a.shape:
        if not isinstance(axis, (int, np.integer)):
            raise ValueError("Axis must be specified as an int when shapes of a and weights differ.")
        if weights.ndim != 1 or weights.shape[0] != a.shape[axis]:
            raise ValueError(f"average: weights of shape {weights.shape} must be a vector as long as axis {axis} of {a.shape}")
        weights = lax.reshape(weights, [weights.shape[0] if i == axis % a.ndim else 1 for i in range(a.ndim)])
    total = _sum(weights, axis=axis, keepdims=keepdims)
    out = lax.div(*aligned("average", _sum(multiply(a, weights), axis=axis, keepdims=keepdims), total))
    return (out, as_array(lax.broadcast_in_dim(total, out.shape, range(out.ndim - total.ndim, out.ndim)))) if returned else out


def _inexact_dtype(name, dtype):
    dtype = dtypes.check_user_dtype(dtype, name)
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"{name}: dtype must be a subclass of float or complex; got dtype={dtype}")
    return dtype


@elementary(static=("rowvar", "bias", "ddof", "dtype"))
def cov(m, y=None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights=None, aweights=None, dtype=None):
    """Covariance of variables, which are rows (or columns, with `rowvar=False`); `dtype` is what it is computed in.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        Array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    from xlab.numpy.joining import concatenate
    from xlab.numpy.logic import conjugate
    from xlab.numpy.products import dot
    from xlab.numpy.shape import atleast_2d
    from xlab.numpy.ufuncs import divide, multiply, subtract
    parts = promoted_inexact("cov", m) if y is None else promoted_inexact("cov", m, y)
    if dtype is not None:
        dtype = _inexact_dtype("cov", dtype)
        real = not dtypes.issubdtype(dtype, np.complexfloating)
        parts = [bring(lax.real(p) if real and is_complex(p) else p, dtype) for p in parts]
    if any(ndim_of(p) > 2 for p in parts):
        raise ValueError("cov: inputs have more than 2 dimensions")
    rows = []
    for i, part in enumerate(parts):
        part = atleast_2d(part)
        if not rowvar and (i or ndim_of(parts[0]) != 1) and part.shape[0] != 1:
            part = lax.transpose(part, (1, 0))
        rows.append(part)
    x = concatenate(rows, axis=0) if len(rows) > 1 else rows[0]
    if ddof is None:
        ddof = 0 if bias else 1
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            (w,) = check("cov", given)
            if ndim_of(w) > 1 or shape_of(w)[0] != x.shape[1]:
                raise ValueError(f"cov: weights must be a vector of {x.shape[1]}, got shape {shape_of(w)}")
            weights = as_array(w) if weights is None else multiply(weights, w)
    centre, total = average(x, axis=1, weights=weights, returned=True)
    total = lax.index_in_dim(total, 0, 0, keepdims=False)
    if weights is None:
        factor = lax.sub(total, bring(ddof, total.dtype))
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = lax.sub(total, bring(ddof, total.dtype))
    else:
        squared = _sum(multiply(weights, aweights))
        factor = subtract(total, multiply(ddof, divide(squared, total)))
    x = lax.sub(x, lax.expand_dims(centre, (1,)))
    other = conjugate(lax.transpose(x if weights is None else multiply(x, weights), (1, 0)))
    out = divide(dot(x, other), factor)
    return lax.squeeze(out, [i for i, d in enumerate(out.shape) if d == 1])


@elementary(static=("rowvar", "dtype"))
def corrcoef(x, y=None, rowvar: bool = True, dtype=None):
    """Correlation coefficients of variables; see `cov`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.corrcoef(jnp.array([[1.0, 2.0], [2.0, 1.0]])).shape
        (2, 2)
    """
    from xlab.numpy.logic import clip, real
    from xlab.numpy.repeating import diag
    from xlab.numpy.ufuncs import divide
    if dtype is not None:
        dtype = _inexact_dtype("corrcoef", dtype)
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return divide(c, c)
    size = lax.sqrt(real(diag(c)))
    out = divide(divide(c, bring(lax.expand_dims(size, (1,)), c.dtype)), bring(lax.expand_dims(size, (0,)), c.dtype))
    if out.dtype.kind == "c":
        return lax.complex(clip(lax.real(out), -1, 1), clip(lax.imag(out), -1, 1))
    return clip(out, -1, 1)


# -- histograms -------------------------------------------------------------------------------------------


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """Bounds of the bins `histogram` would use.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), 2)
        Array([0., 2., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError("histogram: string values for bins are not supported; give their number or their bounds")
    check("histogram_bin_edges", a)
    if ndim_of(bins):
        return promoted_inexact("histogram_bin_edges", as_array(bins))[0]
    return _edges(a, range, bins=operator.index(bins))


@elementary(static="bins")
def _edges(a, range, bins):
    from xlab.numpy.ranges import linspace
    from xlab.numpy.reductions import max, min
    (a,) = promoted_inexact("histogram_bin_edges", a)
    a = as_array(a)
    if range is None:
        low, high = (min(a), max(a)) if int(np.prod(a.shape)) else (bring(0, a.dtype), bring(1, a.dtype))
    else:
        low, high = (bring(v, a.dtype) for v in range)
    same = lax.eq(high, low)
    half = bring(0.5, a.dtype)
    low, high = choose(same, lax.sub(low, half), low), choose(same, lax.add(high, half), high)
    return linspace(low, high, bins + 1, dtype=a.dtype)


def histogram(a, bins=10, range=None, weights=None, density=None):
    """How many elements lie in each bin, and the bounds of the bins.

    Example:
        >>> import xlab.numpy as jnp
        >>> counts, edges = jnp.histogram(jnp.array([0.0, 0.1, 4.0]), 2)
        >>> counts
        Array([2., 1.], dtype=float32)
    """
    check("histogram", a)
    edges = histogram_bin_edges(a, bins, range)
    return _histogram(a, edges, weights, density=bool(density)), edges


@elementary(static="density")
def _histogram(a, edges, weights, density):
    from xlab.numpy.creation import zeros
    from xlab.numpy.sorting import _searchsorted
    a, edges = (ravel(x) for x in promoted_inexact("histogram", a, edges))
    n = edges.shape[0] - 1
    place = _searchsorted(edges, a, side="right")
    last = lax.eq(a, lax.index_in_dim(edges, -1, 0, keepdims=False))
    place = choose(last, bring(n, place.dtype), place)
    w = lax.full(a.shape, 1, a.dtype) if weights is None else ravel(weights)
    counts = zeros(n + 2, aval_of(w).dtype).at[place].add(w, mode="drop")
    counts = lax.slice_in_dim(counts, 1, n + 1)
    if density:
        counts = bring(counts, edges.dtype)
        widths = lax.sub(lax.slice_in_dim(edges, 1, n + 1), lax.slice_in_dim(edges, 0, n))
        counts = lax.div(lax.div(counts, widths), _sum(counts))
    return counts


def histogramdd(sample, bins=10, range=None, weights=None, density=None):
    """Histogram over several dimensions: rows are points.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.histogramdd(jnp.ones((4, 2)), 3)[0].shape
        (3, 3)
    """
    from xlab.numpy.creation import zeros
    from xlab.numpy.products import outer
    (sample,) = check("histogramdd", sample)
    n, d = shape_of(sample)
    if range is not None and len(range) != d:
        raise ValueError(f"For sample.shape={shape_of(sample)}, the first argument range should have {d} elements")
    bins = [bins] * d if not isinstance(bins, (tuple, list)) else list(bins)
    if len(bins) != d:
        raise ValueError("should be a bin for each dimension.")
    columns = [lax.index_in_dim(as_array(sample), i, 1, keepdims=False) for i in np.arange(d)]
    edges = [histogram_bin_edges(c, b, None if range is None else range[i]) for i, (c, b) in enumerate(zip(columns, bins))]
    from xlab.numpy.sorting import searchsorted
    places = []
    for c, e in zip(columns, edges):
        place = searchsorted(e, c, side="right")
        places.append(choose(lax.eq(c, lax.index_in_dim(e, -1, 0, keepdims=False)), bring(e.shape[0] - 1, place.dtype), place))
    w = lax.full((n,), 1, np.dtype(np.int32)) if weights is None else ravel(weights)
    counts = zeros([e.shape[0] + 1 for e in edges], aval_of(w).dtype).at[tuple(places)].add(w, mode="drop")
    counts = lax.slice(counts, (1,) * d, [e.shape[0] for e in edges])
    if density:
        volume = lax.sub(edges[0][1:], edges[0][:-1])
        for e in edges[1:]:
            volume = lax.reshape(outer(volume, lax.sub(e[1:], e[:-1])), (*volume.shape, e.shape[0] - 1))
        counts = bring(counts, volume.dtype)
        counts = lax.div(lax.div(counts, _sum(counts)), volume)
    return counts, edges


def histogram2d(x, y, bins=10, range=None, weights=None, density=None):
    """Histogram of points given by two coordinates.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.histogram2d(jnp.ones(4), jnp.ones(4), 3)[0].shape
        (3, 3)
    """
    from xlab.numpy.joining import stack
    check("histogram2d", x, y)
    if (isinstance(bins, (tuple, list)) and len(bins) not in (1, 2)) or (ndim_of(bins if not isinstance(bins, list) else 0) == 1 and \
            not isinstance(bins, (tuple, list))):
        bins = [bins, bins]
    counts, edges = histogramdd(stack([x, y], axis=1), bins, range, weights, density)
    return counts, edges[0], edges[1]


# -- interpolation ----------------------------------------------------------------------------------------


def interp(x, xp, fp, left=None, right=None, period=None):
    """Values at positions between given points, on straight lines.

    Args:
        x: positions.
        xp: positions of the points, increasing.
        fp: values of the points.
        left, right: values outside; those of the first and last point by default.
        period: length after which positions repeat.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.interp(1.5, jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0]))
        Array(15., dtype=float32)
    """
    check("interp", x, xp, fp)
    if shape_of(xp) != shape_of(fp) or ndim_of(xp) != 1:
        raise ValueError(f"xp and fp must be one-dimensional arrays of equal size, got {shape_of(xp)} and {shape_of(fp)}")
    if period is not None and not hasattr(period, "aval") and host(period, "interp") == 0:
        raise ValueError("period must be a non-zero value; got 0")
    return _interp(x, xp, fp, left, right, period)


@elementary
def _interp(x, xp, fp, left, right, period):
    from xlab.numpy.arithmetic import remainder
    from xlab.numpy.indexing import take
    from xlab.numpy.sorting import _searchsorted
    x, xp = (as_array(v) for v in promoted_inexact("interp", x, xp))
    (fp,) = (as_array(v) for v in promoted_inexact("interp", fp))
    if period is not None:
        period = bring(period, xp.dtype)
        x, xp = remainder(x, period), remainder(xp, period)
        xp, fp = _sort([xp, fp], 0, num_keys=1)
        xp = lax.concatenate([lax.sub(xp[-1:], period), xp, lax.add(xp[:1], period)], 0)
        fp = lax.concatenate([fp[-1:], fp, fp[:1]], 0)
    n = xp.shape[0]
    at = lax.clamp(np.int32(1), _searchsorted(xp, x, side="right"), np.int32(max(n - 1, 1)))
    before = lax.sub(at, np.int32(1))
    f0, f1, x0, x1 = (take(v, i, mode="clip") for v, i in ((fp, before), (fp, at), (xp, before), (xp, at)))
    gap = lax.sub(x1, x0)
    tiny = lax.le(lax.abs(gap), bring(float(np.spacing(dtypes.finfo(xp.dtype).eps)), gap.dtype))
    slope = lax.div(lax.sub(x, x0), choose(tiny, bring(1, gap.dtype), gap))
    out = choose(tiny, f0, lax.add(f0, lax.mul(bring(slope, fp.dtype), lax.sub(f1, f0))))
    if period is None:
        low, high = lax.index_in_dim(fp, 0, 0, keepdims=False), lax.index_in_dim(fp, -1, 0, keepdims=False)
        low, high = low if left is None else bring(left, fp.dtype), high if right is None else bring(right, fp.dtype)
        out = choose(lax.lt(x, lax.index_in_dim(xp, 0, 0, keepdims=False)), low, out)
        out = choose(lax.gt(x, lax.index_in_dim(xp, -1, 0, keepdims=False)), high, out)
    return bring(out, dtype_of(fp))
