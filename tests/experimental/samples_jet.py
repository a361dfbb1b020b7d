"""Samples of `experimental.jet`, where the reference has rules; `tests/transforms/test_jet.py` has the others."""

from __future__ import annotations

from importlib import import_module

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X, S = floats(3) / 4 + 0.5, [floats(3), floats(3) / 2, floats(3) / 3]


def terms(fun, **options):
    def run(n, x, *series):
        out, found = import_module(f"{n.name}.experimental.jet").jet(lambda x: fun(n, x), (x,), (list(series),), **options)
        return out, found
    return run


FUNCTIONS = {
    "sin": lambda n, x: n.jnp.sin(x), "exp": lambda n, x: n.jnp.exp(x), "log": lambda n, x: n.jnp.log(x), "tanh": lambda n, x: n.jnp.tanh(x),
    "quotient": lambda n, x: n.jnp.cos(x) / (x * x + 1), "power": lambda n, x: x**2.5 + x**3, "logistic": lambda n, x: n.nn.sigmoid(x),
    "sqrt": lambda n, x: n.jnp.sqrt(x) - n.lax.rsqrt(x), "erf": lambda n, x: n.lax.erf(x), "atan2": lambda n, x: n.jnp.arctan2(x, x * x),
    "product": lambda n, x: n.jnp.outer(x, x) @ x, "sum": lambda n, x: (x * x).sum(), "max": lambda n, x: n.jnp.maximum(x, x[::-1]).max(),
    "abs": lambda n, x: n.jnp.abs(x - 0.6), "cumsum": lambda n, x: n.jnp.cumsum(x * x), "select": lambda n, x: n.jnp.where(x > 0.5, x, x * x),
    "integers": lambda n, x: x * n.jnp.floor(3 * x), "inside": lambda n, x: n.jax.jit(n.jnp.sin)(x) * x,
}
SAMPLES = [
    *(Sample(name, terms(fun), [X, *S], ("jit",), tol=1e-3) for name, fun in FUNCTIONS.items()),
    Sample("coefficients", terms(FUNCTIONS["quotient"], factorial_scaled=False), [X, *S], ("eager",), tol=1e-3),
    Sample("of_lengths", lambda n, x: import_module(f"{n.name}.experimental.jet").jet(lambda x, y: x, (x, x), ([x], [x, x])), [X], error="ValueError"),
    Sample("of_trees", lambda n, x: import_module(f"{n.name}.experimental.jet").jet(lambda d: d["a"], ({"a": x},), (({"a": x},),)), [X], error="ValueError"),
]
