"""Samples of `scipy.special`: ordinary arguments, the ends of domains, dtypes, derivatives, bad input."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import BF16, floats
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

# Name: interval of each argument.
P = (0.3, 4.0)
FUNCTIONS = {
    "gammaln": [P], "gamma": [P], "gammasgn": [(-4, 4)], "loggamma": [P], "factorial": [P], "digamma": [P],
    "beta": [P, P], "betaln": [P, P], "gammainc": [P, P], "gammaincc": [P, P], "poch": [P, P], "zeta": [(1.2, 5), P],
    "entr": [P], "expit": [(-3, 3)], "logit": [(0.1, 0.9)], "xlogy": [P, P], "xlog1py": [P, P], "kl_div": [P, P],
    "rel_entr": [P, P], "boxcox": [P, P], "boxcox1p": [P, P], "comb": [(4, 7), (1, 3)],
    "erf": [(-2, 2)], "erfc": [(-2, 2)], "erfinv": [(-0.9, 0.9)], "erfcx": [(-2, 4)], "dawsn": [(-3, 3)], "ndtr": [(-3, 3)],
    "ndtri": [(0.05, 0.95)], "log_ndtr": [(-12, 4)], "owens_t": [(-2, 2), (-2, 2)],
    "exp1": [P], "expi": [P], "sici": [(0.5, 9)], "fresnel": [(-3, 3)], "spence": [(0.2, 0.9)],
    "i0": [(-4, 4)], "i0e": [(0.2, 4)], "i1": [(-4, 4)], "i1e": [(0.2, 4)],
    "hyp1f1": [P, P, (-3, 3)], "hyp2f1": [P, P, P, (-0.8, 0.8)],
}
NOT_SMOOTH = {"gammasgn", "zeta", "gammainc", "gammaincc", "hyp1f1", "hyp2f1", "log_ndtr", "expi"}
TOLERANCE = {"gammainc": 1e-4, "gammaincc": 1e-4, "hyp1f1": 1e-3, "hyp2f1": 1e-3, "log_ndtr": 1e-4, "expi": 1e-4,
             "factorial": 1e-4, "poch": 2e-4, "comb": 1e-4, "owens_t": 1e-4, "zeta": 1e-4, "exp1": 5e-5}
# Ends of the domain, where the reference gives what the function is there.
ENDS = np.float32([-np.inf, -2.5, -1, -0.5, 0, 1e-5, 0.5, 1, 3, 50, np.inf, np.nan])
UNARY = [name for name, args in FUNCTIONS.items() if len(args) == 1]
PAIRS = [v.ravel().copy() for v in np.meshgrid(np.float32([-1, 0, 0.5, 2, np.inf, np.nan]), np.float32([-1, 0, 0.5, 2, np.inf]))]


def special(n):
    return import_module(f"{n.name}.scipy.special")


def of(name, **options):
    return lambda n, *xs: getattr(special(n), name)(*xs, **options)


def arguments(name, shape, dtype=np.float32):
    return [floats(*shape, low=low, high=high, dtype=dtype) for low, high in FUNCTIONS[name]]


ORDINARY = [
    *(Sample(name, of(name), arguments(name, (2, 3)), ALL, tol=TOLERANCE.get(name), smooth=name not in NOT_SMOOTH)
      for name in FUNCTIONS),
    *(Sample(f"{name}_x64", of(name), arguments(name, (40,), np.float64), ("eager",), x64=True,
             tol=1e-7 if name == "owens_t" else 1e-9) for name in FUNCTIONS),
    *(Sample(f"{name}_int", of(name), [np.int32([1, 2, 3])] * len(FUNCTIONS[name]), WHOLE, tol=1e-4) for name in FUNCTIONS
      if name not in ("ndtr", "ndtri", "log_ndtr", "zeta", "spence", "erfinv", "logit", "hyp2f1", "hyp1f1")),
    *(Sample(f"{name}_weak", of(name), [0.5] * len(FUNCTIONS[name]), ("eager", "jit", "grad"), tol=1e-4) for name in (
        "gammaln", "erf", "i0e", "entr", "gammainc", "expit")),
    *(Sample(f"{name}_bfloat16", of(name), arguments(name, (4,), BF16), VALUE, tol=0.05) for name in (
        "gammaln", "erf", "i0e", "entr", "xlogy", "gammainc", "betaln")),
]
EDGES = [
    *(Sample(f"{name}_ends", of(name), [ENDS], VALUE, tol=(1e-4, 1e-6)) for name in UNARY if name not in (
        "expi", "exp1", "factorial", "sici", "ndtri", "dawsn", "erfcx", "gammasgn", "gamma", "spence")),
    *(Sample(f"{name}_ends", of(name), [ENDS[1:-2]], VALUE, tol=(1e-4, 1e-6)) for name in ("spence", "gammasgn", "gamma")),
    Sample("ndtri_ends", of("ndtri"), [np.float32([-1, 0, 1e-30, 1e-5, 0.02, 0.5, 0.98, 1, 2, np.nan])], VALUE),
    Sample("exp1_ends", of("exp1"), [ENDS[1:-2]], VALUE, tol=(1e-4, 0)),
    Sample("expi_ends", of("expi"), [np.float32([-30, -1, 1e-5, 0.5, 1, 20, 40, 80])], VALUE, tol=(2e-5, 1e-6)),
    Sample("sici_ends", of("sici"), [np.float32([0, 1e-5, 0.5, 1, 3, 5, 50, 1e4, np.inf])], VALUE, tol=(1e-4, 1e-6)),
    Sample("erfcx_ends", of("erfcx"), [np.float32([-np.inf, -30, -5, 0, 5, 9, 50, 1e6, np.inf, np.nan])], VALUE, tol=1e-5),
    Sample("dawsn_ends", of("dawsn"), [np.float32([-np.inf, -30, -1e-3, 0, 1e-5, 0.2, 0.3, 3, 50, np.inf, np.nan])], VALUE),
    *(Sample(f"{name}_ends", of(name), PAIRS, VALUE, tol=1e-4) for name in ("xlogy", "xlog1py", "rel_entr", "kl_div")),
    Sample("owens_t_ends", of("owens_t"), [v[np.isfinite(PAIRS[1])] for v in PAIRS], VALUE, tol=1e-4),
    Sample("expn", lambda n, x: special(n).expn(np.int32([0, 1, 2, 5]), x), [floats(4, low=0.1, high=9)], ALL,
           smooth=False),
    Sample("betainc", of("betainc"), [floats(4, low=0.5, high=4), floats(4, low=0.5, high=4), floats(4, low=0.1, high=0.9)],
           WHOLE),
    Sample("betaln_large", of("betaln"), [np.float32([0.5, 20, 9, 1e4]), np.float32([1e5, 30, 7, 1e4])], VALUE, tol=1e-5),
]
OTHERS = [
    Sample("polygamma", lambda n, x: special(n).polygamma(np.int32([[0], [1], [3]]), x), [floats(3, low=0.5, high=3)], ALL),
    Sample("multigammaln", lambda n, x: special(n).multigammaln(x, 3), [floats(3, low=1.5, high=9)], ALL),
    Sample("bernoulli", lambda n: special(n).bernoulli(12), [], ("eager",), tol=1e-5),
    Sample("bernoulli_zero", lambda n: special(n).bernoulli(0), [], ("eager",)),
    Sample("comb_repetition", of("comb", repetition=True), [np.float32([3, 5]), np.float32([2, 2])], WHOLE, tol=1e-4),
    Sample("comb_repetition_none", of("comb", repetition=True), [np.float32([0, 0, 3]), np.float32([0, 1, 0])], ("eager",)),
    *(Sample(f"{name}_of_equals", of(name), [np.float32([1e5, 10.5, 3]), np.float32([1e5, 10.5, 3])], ("eager",), tol=1e-5) for name in ("rel_entr", "kl_div")),
    Sample("rel_entr_apart", of("rel_entr"), [np.float32([1e-30, 1e30]), np.float32([1e30, 1e-30])], ("eager",)),
    Sample("betaln_of_negative", of("betaln"), [np.float32([-2.5, -0.5]), np.float32([1e5, 30])], ("eager",), tol=1e-4),
    Sample("bessel_jn", of("bessel_jn", v=3), [floats(2, 3, low=9, high=20)], WHOLE, tol=1e-4),
    Sample("wofz", of("wofz"), [np.complex64([0.5 + 1j, -2 - 1j, 10, 1j, -0.3])], ("eager", "jit", "vmap", "jvp"), tol=1e-5),
    Sample("wofz_real", of("wofz"), [floats(4)], WHOLE, tol=1e-5),
    Sample("expit_complex", of("expit"), [np.complex64([0.5 + 1j, -2 - 1j])], WHOLE),
    Sample("sph_harm_y", of("sph_harm_y", n_max=4), [np.int32([0, 2, 3, 4]), np.int32([0, 1, -3, 2]),
                                                      floats(4, low=0.2, high=3), floats(4, low=0, high=6)],
           ("eager", "jit"), tol=1e-5),
    Sample("zeta_slopes", of("zeta"), [np.float32([1.5, 3, 8]), np.float32([0.5, 2, 9])], ("grad", "jvp"), tol=1e-4,
           smooth=False),
    *(Sample(f"log_ndtr_order_{k}", of("log_ndtr", series_order=k), [np.float32([-30, -15, -3])], ("eager",)) for k in (0, 1, 6)),
    # In float32 the reference's slope is a difference of squares, whose rounding is larger than the tolerance.
    *(Sample(f"log_ndtr_order_{k}_slopes", of("log_ndtr", series_order=k), [np.float64([-30, -15, -3])], ("grad",), x64=True) for k in (0, 1, 6)),
    *(Sample(name, lambda n, x, name=name: getattr(special(n), name)(x), [floats(2, 3)], ALL)
      for name in ("logsumexp", "softmax", "log_softmax")),
    Sample("softmax_axis", of("softmax", axis=1), [floats(2, 3)], ALL),
    Sample("logsumexp_axis", of("logsumexp", axis=0, keepdims=True), [floats(2, 3)], ALL),
    Sample("second_derivatives", lambda n, x: special(n).entr(x) + special(n).xlogy(x, x) + special(n).i0e(x), [floats(3, low=0.3)],
           ("grad.grad", "jvp.grad", "jit.vmap.grad")),
    Sample("ranks", of("beta"), [floats(2, 3, low=0.5), floats(3, low=0.5)], WHOLE),
    Sample("factorial_exact", of("factorial", exact=True), [3], error="NotImplementedError"),
    Sample("zeta_without_q", of("zeta"), [2.0], error="NotImplementedError"),
    Sample("polygamma_numbers", lambda n: (special(n).polygamma(2, 2.5), special(n).polygamma(1, 3)), [], ("eager", "jit")),
    Sample("polygamma_float_order", of("polygamma"), [1.0, 2.0], error="ValueError"),
    Sample("bernoulli_negative", lambda n: special(n).bernoulli(-1), [], error="ValueError"),
    Sample("bernoulli_float", lambda n: special(n).bernoulli(2.5), [], error="TypeError"),
    Sample("ndtr_int", of("ndtr"), [np.int32(1)], error="TypeError"),
    Sample("log_ndtr_half", of("log_ndtr"), [np.float16(1)], error="TypeError"),
    Sample("log_ndtr_order", of("log_ndtr", series_order=-1), [np.float32(1)], error="ValueError"),
    Sample("log_ndtr_large_order", of("log_ndtr", series_order=31), [np.float32(1)], error="ValueError"),
    Sample("multigammaln_of_a_half", lambda n: special(n).multigammaln(n.jnp.ones(2), 2.0), [], ("eager",)),
    Sample("multigammaln_traced", of("multigammaln"), [2.0, 3], ("jit",), error="ConcretizationTypeError"),
    Sample("sph_harm_y_traced", of("sph_harm_y"), [np.int32([2]), np.int32([1]), floats(1), floats(1)], ("jit",),
           error="ConcretizationTypeError"),
    Sample("sph_harm_y_diff", of("sph_harm_y", diff_n=1), [np.int32([2]), np.int32([1]), floats(1), floats(1)],
           error="NotImplementedError"),
    Sample("list", lambda n: special(n).gammaln([1.0, 2.0]), [], error="TypeError"),
    Sample("incompatible", of("beta"), [floats(2), floats(3)], error="TypeError"),
]
PLANE = np.complex64([0.3 + 0.4j, -1.5 + 2j, 2 - 1j, 0, 1j, -2.5 + 0.5j, 12 - 4j, -1, 0.5, -0.5, np.nan, 1e-3 - 1e-3j, -3.5 - 1e-3j, 5 + 20j, -20.3 + 1j])
COMPLEX = [
    *(Sample(f"{name}_complex", of(name), [PLANE], ("eager", "jit", "vmap"), tol=(2e-5, 2e-6)) for name in ("gamma", "loggamma", "logit")),
    *(Sample(f"{name}_complex", of(name), [PLANE[:10], PLANE[::-1][:10]], ("eager", "grad"), tol=1e-4) for name in ("xlogy", "xlog1py")),
    *(Sample(f"{name}_complex_x64", of(name), [PLANE.astype(complex)], ("eager",), x64=True, tol=1e-10) for name in ("gamma", "loggamma")),
    *(Sample(f"{name}_{np.dtype(dtype).name}", of(name), [np.array([0.25, 0.5, 3], dtype)], ("eager",), tol=0.02)
      for name in ("fresnel", "sici") for dtype in (np.float16, BF16)),
]
WEAK = [Sample(f"{name}_of_numbers", lambda n, name=name: [getattr(special(n), name)(x) for x in (3.0, n.jnp.full(2, 2.0))], (), ("eager", "jit"))
        for name in ("dawsn", "erfcx", "gamma", "gammasgn", "spence", "fresnel", "wofz", "ndtr", "log_ndtr", "ndtri")]
# With 64-bit types on, integers of 64 bits alone become float64.
SHORT = [Sample(f"{name}_of_{dtype}", of(name), [np.array([1, 3, 2]).astype(dtype)], ("eager",), tol=1e-4, x64=True)
         for name in ("digamma", "entr", "logsumexp", "wofz", "dawsn") for dtype in ("bool", "int8", "uint32", "uint64")]
SAMPLES = [*SHORT, *ORDINARY, *EDGES, *OTHERS, *COMPLEX, *WEAK,
    *(Sample(f"{name}_of_complex", lambda n, *xs, name=name: getattr(import_module(f"{n.name}.scipy.special"), name)(*xs), xs, ("eager",), tol=1e-4)
      for name, xs in [("erfcx", [np.complex64([0.3 + 0.4j, 2 - 1j, 0.5j])]), ("boxcox", [np.complex64([0.3 + 0.4j, 2 - 1j]), np.complex64([0.5j, 2])]),
                       ("boxcox1p", [np.complex64([0.3 + 0.4j, 2 - 1j]), np.complex64([0, 2])])]),
    *(Sample(f"{name}_refuses_complex", lambda n, *xs, name=name: getattr(import_module(f"{n.name}.scipy.special"), name)(*xs), [np.complex64([1j])] * count, error=error)
      for name, count, error in [("erf", 1, "TypeError"), ("gammaln", 1, "TypeError"), ("betaln", 2, "TypeError"), ("entr", 1, "ValueError"), ("kl_div", 2, "ValueError")]),
]
