"""NumPy's functions on our arrays, with JAX's promotion rules: they can be traced, transformed and compiled.

Reading order: `operands.py` (which values are accepted and how types meet), `ufuncs.py` (functions of one primitive),
`arithmetic.py` and `logic.py` (elementwise functions of several), `reductions.py`, `shape.py`, `joining.py`, `insert_delete.py`,
`searching.py`, `sets.py`, `tensor_contractions.py`, `einsum.py`; `jit_when_eager.py` makes such a function one program when it is called eagerly. May import `parallel` and
everything below it. Results equal JAX's in value, dtype and weak type.

Also: `linalg/` (linear algebra), `array_api.py` (what the array API asks of a namespace), `array_methods.py` (operators and methods of arrays), `bits.py` (`packbits`, `unpackbits`), `conversion.py` (arrays from values), `creation.py` (arrays
from nothing), `cumulative.py` (running sums, products and differences), `einsum_path.py` (the order in which an `einsum`
multiplies), `fft.py` (Fourier transforms under the names of `numpy.fft`), `fitting.py` (`polyfit`),
`flip_roll_repeat.py` (elements in other places), `functional.py` (functions of functions), `functions.py`
(elementwise functions of special uses), `grids.py` (ranges and grids), `histograms.py` (how many elements lie in each bin),
`index_entries.py` (what an index means), `index_tricks.py` (`choose`, `mgrid`, `put`), `indexing.py` (indexing by NumPy's rules),
`io.py` (files, bytes, printing), `moments.py` (means and variances), `nan_reductions.py` (reductions that leave NaN out), `padding.py` (`pad`, by mode),
`polynomials.py` (polynomials as vectors of coefficients), `quantiles.py` (medians and percentiles), `scalars.py` (scalar types
(`jnp.float32` and the like)), `sorting.py` (sorting and positions in sorted order), `statistics.py` (averages,
covariance, interpolation), `triangles.py` (triangles of matrices), `ufunc.py` (functions of scalars as functions of arrays), `ufunc_methods.py` (the
elementwise functions that have a ufunc's methods), `updates.py` (`x.at[index]`).
"""

import sys as _sys
import typing as _typing
from importlib import import_module as _import_module

from xlab.collector import paused as _paused

if _typing.TYPE_CHECKING:
    from xlab.numpy.bits import *
    from xlab.numpy.fitting import *
    from xlab.numpy.histograms import *
    from xlab.numpy.insert_delete import *
    from xlab.numpy.io import *
    from xlab.numpy.nan_reductions import *
    from xlab.numpy.polynomials import *
    from xlab.numpy.quantiles import *
    from xlab.numpy.sets import *
    from xlab.numpy.statistics import *
    from xlab.numpy.triangles import *

with _paused(stays=True):
    from xlab.numpy.arithmetic import (
        abs,
        absolute,
        divmod,
        fabs,
        float_power,
        floor_divide,
        fmod,
        hypot,
        log2,
        log10,
        logaddexp,
        logaddexp2,
        mod,
        positive,
        pow,
        power,
        reciprocal,
        remainder,
        sign,
        square,
    )
    from xlab.numpy.creation import *
    from xlab.numpy.cumulative import *
    from xlab.numpy.einsum import *
    from xlab.numpy.einsum_path import *
    from xlab.numpy.flip_roll_repeat import *
    from xlab.numpy.functional import *
    from xlab.numpy.functions import *
    from xlab.numpy.grids import *
    from xlab.numpy.index_tricks import *
    from xlab.numpy.indexing import *
    from xlab.numpy.joining import *
    from xlab.numpy.logic import *
    from xlab.numpy.moments import *
    from xlab.numpy.reductions import *
    from xlab.numpy.scalars import *
    from xlab.numpy.scalars import (
        ComplexWarning,
        bool_,
        cdouble,
        complex_,
        complexfloating,
        csingle,
        double,
        float4_e2m1fn,
        float6_e2m3fn,
        float6_e3m2fn,
        float8_e3m4,
        float8_e4m3,
        float8_e4m3b11fnuz,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e5m2,
        float8_e5m2fnuz,
        float8_e8m0fnu,
        float_,
        floating,
        generic,
        int_,
        object_,
        signedinteger,
        single,
        uint,
        unsignedinteger,
    )
    from xlab.numpy.searching import *
    from xlab.numpy.shape import *
    from xlab.numpy.sorting import *
    from xlab.numpy.tensor_contractions import *
    from xlab.numpy.ufunc import *
    from xlab.numpy.ufuncs import (
        acos,
        acosh,
        add,
        arccos,
        arccosh,
        arcsin,
        arcsinh,
        arctan,
        arctan2,
        arctanh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        bitwise_and,
        bitwise_invert,
        bitwise_left_shift,
        bitwise_not,
        bitwise_or,
        bitwise_xor,
        cbrt,
        cos,
        cosh,
        divide,
        equal,
        exp,
        exp2,
        expm1,
        greater,
        greater_equal,
        invert,
        left_shift,
        less,
        less_equal,
        log,
        log1p,
        maximum,
        minimum,
        multiply,
        negative,
        not_equal,
        sin,
        sinh,
        sqrt,
        subtract,
        tan,
        tanh,
        true_divide,
    )

# What no operator and no method needs is imported when it is first used.
_LATER = {
    "bits": "packbits unpackbits",
    "fitting": "polyfit",
    "histograms": "histogram histogram2d histogram_bin_edges histogramdd",
    "insert_delete": "delete insert trim_zeros",
    "io": "array_repr array_str from_dlpack frombuffer fromfile fromiter fromstring "
    "get_printoptions load printoptions save savez set_printoptions",
    "nan_reductions": "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "polynomials": "bartlett blackman convolve correlate hamming hanning kaiser poly polyadd polyder "
    "polydiv polyint polymul polysub polyval roots",
    "quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "sets": "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
    "unique_inverse unique_values",
    "statistics": "average corrcoef cov interp",
    "triangles": "tri tril tril_indices triu triu_indices",
}
_HOME = {name: module for module, names in _LATER.items() for name in names.split()}

bool = bool_
"""The dtype of truth values; see `xlab.numpy.bool_`."""

from xlab.numpy import array_api as _array_api  # noqa: E402
from xlab.numpy import array_methods as _array_methods  # noqa: E402
from xlab.numpy import ufunc_methods as _ufunc_methods  # noqa: E402  (gives `add` and its like their methods)

__array_api_version__ = _array_api.VERSION
__array_namespace_info__ = _array_api.ArrayNamespaceInfo

_array_methods.install(_sys.modules[__name__])  # gives arrays their operators and methods

__all__ = sorted(
    {*(name for name in globals() if not name.startswith("_")), *_HOME, "fft", "linalg"}
)


def __dir__():
    return sorted({*globals(), *__all__})


def __getattr__(name: str):
    if name in _HOME:
        value = globals()[name] = getattr(_import_module(f"xlab.numpy.{_HOME[name]}"), name)
        return value
    if name in ("fft", "linalg"):
        return _import_module(f"xlab.numpy.{name}")
    from xlab.errors import no_attribute

    raise no_attribute("xlab.numpy", name, __dir__())
