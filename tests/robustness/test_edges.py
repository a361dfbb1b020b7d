"""Special functions and decompositions at the edges of their domains, through every transformation.

What a derivative is there is said by its definition in the first table; programs drawn at random are compared with the reference.
`XLAB_DRAWN_EDGES` sets how many programs are drawn (24 here), `XLAB_DRAWN_SEED` draws others.
"""

from __future__ import annotations

import importlib
import os
import random
from types import SimpleNamespace

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab import numpy as jnp

COUNT = int(os.environ.get("XLAB_DRAWN_EDGES", "24"))
SEED = int(os.environ.get("XLAB_DRAWN_SEED", "0"))
inf, nan = np.inf, np.nan
BIG = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("f", "x", "slope", "curvature"),
    [
        (lax.acosh, 1.0, inf, -inf),
        (lax.acosh, -1.0, nan, nan),
        (lax.acosh, 0.5, nan, nan),
        (lax.acosh, 1e30, 1e-30, -0.0),
        (lax.acosh, -2 + 0.1j, 1 / (np.sqrt(-3 + 0.1j) * np.sqrt(-1 + 0.1j)), None),
        *(
            (lambda x: lax.pow(x, lax.full_like(x, 0)), x, 0.0, 0.0)
            for x in (0.0, 2.0, -3.0, BIG, inf, -inf)
        ),
        *(
            (lambda x: lax.pow(x, lax.full_like(x, 1)), x, 1.0, 0.0)
            for x in (0.0, 2.0, -3.0, BIG, inf)
        ),
        (lambda x: jnp.logaddexp2(x, x), 3.0, 1.0, 0.0),
        (lambda x: jnp.logaddexp2(x, 1.0), 1.0, 0.5, np.log(2) / 4),
        (lambda x: jnp.logaddexp2(x, inf), 0.0, 0.0, 0.0),
        (lambda x: jnp.logaddexp(x, inf), 0.0, 0.0, 0.0),
        (lambda x: jnp.logaddexp(x, 0.0), inf, 1.0, 0.0),
        (lambda x: jnp.logaddexp2(x, -inf), 0.0, 1.0, 0.0),
    ],
)
def test_derivatives_by_definition(f, x, slope, curvature):
    holomorphic = isinstance(x, complex)
    first = xlab.grad(f, holomorphic=holomorphic)
    for program in (first, xlab.jit(first), lambda x: xlab.vmap(first)(jnp.full(2, x))[1]):
        np.testing.assert_allclose(program(x), slope, rtol=1e-5)
    if curvature is not None:
        np.testing.assert_allclose(xlab.jit(xlab.grad(first))(x), curvature, rtol=1e-5)


def test_a_power_has_the_mixed_derivative_of_a_logarithm():
    assert float(xlab.jacfwd(xlab.grad(lax.pow), 1)(4.0, 0.0)) == 0.25


@pytest.mark.parametrize(
    ("a", "x", "p"),
    [
        (1.2e-38, 1.0, 1),
        (1e-37, 1e-3, 1),
        (0.0, 1.0, 1),
        (1e-37, 0.0, 0),
        (0.0, 0.0, nan),
        (1e-38, inf, 1),
    ],
)
def test_the_incomplete_gamma_function_of_almost_no_shape(a, x, p):
    np.testing.assert_array_equal(lax.igamma(np.float32(a), np.float32(x)), np.float32(p))
    np.testing.assert_array_equal(lax.igammac(np.float32(a), np.float32(x)), np.float32(1 - p))


@pytest.mark.parametrize(
    "f",
    [
        jnp.sort,
        lambda x: lax.sort((x, x))[1],
        lambda x: lax.top_k(x, 0)[0],
        lambda x: jnp.linalg.svd(jnp.diag(x), hermitian=True).U,
        lambda x: jnp.linalg.eigh(jnp.diag(x))[1],
        lambda x: jnp.take_along_axis(x, jnp.argsort(x), 0),
    ],
)
def test_what_is_empty_has_derivatives(f):
    x = jnp.zeros((0,))
    out, tangent = xlab.jvp(f, (x,), (x,))
    assert out.shape == tangent.shape == f(x).shape
    assert xlab.grad(lambda x: f(x).sum())(x).shape == (0,)
    assert xlab.vmap(xlab.grad(lambda x: f(x).sum()))(jnp.zeros((3, 0))).shape == (3, 0)


# -- programs drawn at random ---------------------------------------------------------------------------------

EDGES = np.array(
    [
        0.0,
        -0.0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        0.5,
        -0.5,
        0.25,
        1.5,
        -1.5,
        2.5,
        1e-3,
        1e-8,
        -1e-8,
        1e-30,
        -1e-30,
        4,
        5,
        6,
        10,
        -10,
        20,
        -20,
        30,
        100,
        -100,
        1e3,
        1e5,
        1e10,
        1e30,
        -1e30,
        inf,
        -inf,
        nan,
        np.pi,
        0.9999,
        1.0001,
    ]
)
PAIRS = (
    np.stack(np.meshgrid(*[[0.0, 1, -1, 2, 0.5, 3, 1e-8, 30, inf, nan]] * 2), -1).reshape(-1, 2).T
)
ONE = {
    "lax": "abs acos asin asinh atan atanh bessel_i0e bessel_i1e cbrt cos cosh digamma erf erf_inv erfc exp exp2 expm1 lgamma log log1p logistic "
    "round rsqrt sign sin sinh sqrt square tan tanh",
    "numpy": "arctan deg2rad exp2 i0 log10 log2 nan_to_num reciprocal sinc sqrt sort cumprod cumsum median",
    "scipy.special": "entr erfcx expit gamma i1 log_ndtr logit ndtr ndtri rgamma",
    "nn": "elu gelu glu hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid log_softmax mish relu relu6 selu silu soft_sign softmax softplus "
    "sparse_plus sparse_sigmoid squareplus standardize",
}
TWO = {
    "lax": "atan2 div max min mul rem sub igammac zeta",
    "scipy.special": "betaln rel_entr kl_div xlog1py xlogy",
    "numpy": "fmax fmin fmod heaviside hypot maximum minimum remainder",
}
# Over the last two dimensions, whose sizes may be anything, or must be equal.
MATRICES = {"numpy.linalg": "qr svd pinv", "scipy.linalg": "lu polar"}
SQUARE = {
    "numpy.linalg": "cholesky eigvals inv det slogdet",
    "scipy.linalg": "expm sqrtm lu_factor cho_factor",
}
SHAPES = [(0, 0), (1, 1), (3, 3), (2, 3, 3), (0, 2, 2), (4, 2), (2, 4), (0, 3), (3, 0)]


def functions():
    for kind, table in {"one": ONE, "two": TWO, "matrix": MATRICES, "square": SQUARE}.items():
        for room, names in table.items():
            yield from ((kind, room, name) for name in names.split())


def transformed(how: str, package, f, given):
    """A function of the given arguments through a transformation of `package`, as leaves."""
    np_ = package.numpy

    def total(*xs):
        return sum(
            np_.sum(np_.real(o))
            for o in package.tree.leaves(f(*xs))
            if np_.issubdtype(o.dtype, np.inexact)
        )

    def gradient(*xs):
        return package.grad(total, tuple(range(len(xs))))(*xs)

    def twice(*xs):
        return package.grad(
            lambda *xs: sum(np_.sum(g * g) for g in gradient(*xs)), tuple(range(len(xs)))
        )(*xs)

    program = {
        "value": f,
        "vmap": package.vmap(f),
        "grad": gradient,
        "grad of grad": twice,
        "vmap of grad": package.vmap(gradient),
        "jvp": lambda *xs: package.jvp(f, xs, tuple(x * 0 + 1.5 for x in xs))[1],
    }[how]
    args = (
        [np_.stack([np_.asarray(x)] * 2) for x in given]
        if how.startswith("vmap")
        else [np_.asarray(x) for x in given]
    )
    return [np.asarray(x) for x in package.tree.leaves(package.jit(program)(*args))]


def drawn(seed: int):
    """`(name, arguments, transformation)` of one program."""
    r = random.Random(f"{SEED} {seed}")
    kind, room, name = r.choice(list(functions()))
    how = r.choice(["value", "vmap", "grad", "grad of grad", "vmap of grad", "jvp"])
    if kind == "one":
        return room, name, [EDGES.astype(np.float32)], how
    if kind == "two":
        return room, name, list(PAIRS.astype(np.float32)), how
    shape = r.choice([s for s in SHAPES if kind == "matrix" or s[-1] == s[-2]])
    a = np.random.RandomState(r.randrange(1 << 30)).randn(*shape).astype(np.float32)
    return (
        room,
        name,
        [
            a
            if name not in ("cholesky", "cho_factor")
            else a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1], dtype=np.float32)
        ],
        how,
    )


def theirs() -> SimpleNamespace:
    jax = pytest.importorskip("jax")
    for room in ("scipy.special", "scipy.linalg", "nn"):
        importlib.import_module(f"jax.{room}")
    return jax


def named(package, room: str, name: str):
    for part in (*room.split("."), name):
        package = getattr(package, part)
    return package


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_drawn_program_gives_what_the_reference_gives(seed):
    package = theirs()
    room, name, given, how = drawn(seed)
    try:
        want = transformed(how, package, named(package, room, name), given)
    except Exception as e:
        pytest.skip(f"the reference has no {how} of {room}.{name} here: {type(e).__name__}")
    got = transformed(how, xlab, named(xlab, room, name), given)
    what = f"{how} of {room}.{name} of {[x.shape for x in given]}"
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want], what
    for ours, reference in zip(got, want):
        scale = (
            np.nanmax(np.abs(reference[np.isfinite(reference)]), initial=0)
            if "linalg" in room
            else 0
        )
        np.testing.assert_allclose(
            ours, reference, rtol=3e-3, atol=2e-3 * scale + 1e-6, err_msg=what
        )
