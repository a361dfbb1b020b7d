"""Taylor polynomials: against derivatives of derivatives, and what the polynomials of programs promise."""

import math

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.errors import MissingRule
from xlab.experimental.jet import jet, jet2
from xlab.scipy import special

X = np.array([0.3, 0.7])
SERIES = [np.array([1.0, -0.5]), np.array([0.3, 0.2]), np.array([-0.4, 0.1])]
M = np.array([[3.0, 1.0], [2.0, 5.0]])
FUNCTIONS = {
    "elementary": lambda x: jnp.sin(x) * jnp.exp(x) / (1 + x * x) + jnp.tanh(x) ** 5,
    "powers": lambda x: x**x + x**2.5 + jnp.sqrt(x) - lax.rsqrt(x) + jnp.cbrt(x),
    "inverses": lambda x: jnp.arcsin(x) + jnp.log1p(x) - jnp.arctan2(x, 1 + x * x),
    "special": lambda x: special.erf(x) + special.gammaln(x) + special.i0e(x),
    "two_arguments": lambda x: special.xlogy(x, x[::-1]) + jnp.hypot(x, 1.0),
    "products": lambda x: M @ x @ jnp.sin(x) + jnp.convolve(x, x).sum(),
    "reductions": lambda x: jnp.prod(x) + jnp.max(x * x) + special.logsumexp(x),
    "running": lambda x: jnp.cumsum(x * x) + jnp.cumprod(x),
    "pieces": lambda x: jnp.where(x > 0.5, x**2, x**3) + jnp.clip(x, 0.0, 0.5) + abs(x - 0.5),
    "order": lambda x: jnp.sort(x)[::-1] * x + jnp.argmax(x),
    "places": lambda x: jnp.zeros(3).at[jnp.array([0, 2])].set(x * x)[::2].reshape(2, 1),
    "branches": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "loop": lambda x: lax.scan(lambda c, _: (c * x + 1, c), x, None, length=2),
    "solve": lambda x: jnp.linalg.solve(M + jnp.outer(x, x), x),
    "compiled": xlab.jit(lambda x: jnp.sin(x) * x),
    "checkpoint": xlab.checkpoint(lambda x: jnp.sin(x) * x),
    "rules_of_its_own": lambda x: xlab.nn.relu(x - 0.5) + xlab.nn.softplus(x),
    "complex": lambda x: jnp.abs(jnp.exp(1j * x) + 1),
}  # fmt: skip


def nested(fun, x, series):
    """The derivatives along the curve, each as the derivative of the one before."""
    along = lambda t: fun(
        x + sum(c * t ** (k + 1) / math.factorial(k + 1) for k, c in enumerate(series))
    )
    found = []
    for _ in series:
        along = (lambda before: lambda t: xlab.jvp(before, (t,), (jnp.ones_like(t),))[1])(along)
        found.append(along(jnp.array(0.0)))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_terms_are_derivatives_of_derivatives(name):
    fun = FUNCTIONS[name]
    with xlab.enable_x64(True):
        run = xlab.jit(lambda x: (jet(fun, (x,), (SERIES,)), fun(x), nested(fun, x, SERIES)))
        (out, terms), value, expected = run(X)
        for a, b in zip(xlab.tree.leaves(out), xlab.tree.leaves(value), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        structure = xlab.tree.structure(out)
        for k, wanted in enumerate(expected):
            found = xlab.tree.leaves(structure.flatten_up_to(terms), is_leaf=lambda x: False)
            found = found[k :: len(SERIES)]
            for a, b in zip(found, xlab.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_polynomials_of_several_arguments_and_results():
    fun = lambda x, y: {"product": x * y, "x": x, "three": 3.0}
    out, terms = jet(fun, (0.5, 2.0), ((1.0, 0.0), (1.0, 3.0)))
    assert float(out["product"]) == 1 and out["three"] == 3.0
    assert [float(t) for t in terms["product"]] == [2.5, 3.5]
    assert [float(t) for t in terms["x"]] == [1, 0] and [float(t) for t in terms["three"]] == [0, 0]


def test_coefficients_are_derivatives_by_factorials():
    for k, term in enumerate(jet2(jnp.exp, (0.0,), ([1.0, 0.0, 0.0, 0.0],))[1]):
        assert float(term) == pytest.approx(1 / math.factorial(k + 1))
    assert jet(jnp.sin, (1.0,), ((),))[1] == []


def test_polynomials_are_compiled_batched_and_differentiated():
    third = lambda x: jet(jnp.sin, (x,), ((1.0, 0.0, 0.0),))[1][2]
    xs = jnp.array([0.1, 0.5])
    np.testing.assert_allclose(xlab.jit(xlab.vmap(third))(xs), -np.cos(xs), rtol=1e-5)
    np.testing.assert_allclose(xlab.grad(third)(0.5), np.sin(0.5), rtol=1e-5)


def test_a_derivative_of_the_users_is_the_one_that_counts():
    @xlab.custom_jvp
    def f(x):
        return x

    f.defjvp(lambda primals, tangents: (primals[0], 2 * primals[0] * tangents[0]))
    _, (first, second) = jet(f, (3.0,), ((1.0, 0.0),))
    assert (float(first), float(second)) == (6, 2)

    @xlab.custom_vjp
    def g(x):
        return x**3

    g.defvjp(lambda x: (x**3, x), lambda x, ct: (ct * 3 * x**2,))
    assert [float(t) for t in jet(g, (2.0,), ((1.0, 0.0),))[1]] == [12, 12]


def test_many_terms_take_a_program_of_moderate_size():
    run = lambda x: jet(lambda x: jnp.exp(jnp.sin(x)) / x, (x,), ([1.0] + [0.0] * 7,))
    assert len(xlab.make_jaxpr(run)(0.5).eqns) < 400


def test_what_has_no_polynomial():
    with pytest.raises(ValueError, match="inconsistent lengths"):
        jet(lambda x, y: x, (1.0, 2.0), ((1.0,), (1.0, 0.0)))
    with pytest.raises(ValueError, match="not an array"):
        jet(lambda d: d["a"], ({"a": 1.0},), (({"a": 1.0},),))
    with pytest.raises(ValueError, match="for each argument"):
        jet(lambda x, y: x, (1.0, 2.0), ((1.0,),))
    with pytest.raises(TypeError, match="holds int"):
        jet(jnp.sin, (1,), ((1,),))
    with pytest.raises(TypeError, match="shape"):
        jet(jnp.sin, (jnp.ones(2),), ((jnp.ones(3),),))
    with pytest.raises(MissingRule, match="igamma_grad_a|differentiate"):
        jet(lambda x: lax.igamma_grad_a(x, 2.0), (1.5,), ((1.0,),))


def test_terms_of_numbers_are_as_weak_as_they_are():
    for fun in (lax.sin, lax.tanh, lax.erf, lambda x: x**3 * 2):
        out, found = jet(fun, (0.3,), ((1.0, 0.5, 0.2),))
        assert out.weak_type and all(t.weak_type for t in found)
        out, found = jet(fun, (0.3,), ((np.float32(1), 0.5, 0.2),))
        assert not any(t.weak_type for t in found)
    strong = jet(lax.sin, (np.float32(0.3),), ((1.0, 0.5),))
    assert not any(t.weak_type for t in xlab.tree.leaves(strong))
    low = jet(lax.sin, (xlab.numpy.bfloat16(0.3),), ((1.0, 0.5),))
    assert all(t.dtype == "bfloat16" for t in xlab.tree.leaves(low))
