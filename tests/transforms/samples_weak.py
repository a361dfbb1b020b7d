"""Samples of derivatives by Python numbers: which of them are weak, that is take the dtype of an array beside them."""

from __future__ import annotations

from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone, by types
TYPES = ("eval_shape",)
LAX = ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "cos", "cosh", "digamma",
       "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "lgamma", "log", "log1p", "logistic", "neg", "reciprocal", "round",
       "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "stop_gradient")
NUMPY = ("absolute", "cbrt", "deg2rad", "exp2", "fabs", "i0", "log1p", "nan_to_num", "positive", "rint", "sinc", "square", "trunc",
         "sum", "prod", "mean", "std", "var", "cumsum", "ravel", "average", "nanmean", "nansum")
NN = ("celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu", "log_sigmoid", "mish", "relu", "relu6", "selu",
      "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "tanh")
PAIRS = ("arctan2", "divide", "dot", "fmax", "fmin", "hypot", "inner", "logaddexp", "maximum", "minimum", "mod", "multiply",
         "outer", "power", "subtract")
OPERATORS = {
    "square": lambda n, x: x**2, "cube": lambda n, x: x**3, "inverse_square": lambda n, x: x**-2, "zeroth": lambda n, x: x**0,
    "root": lambda n, x: x**0.5, "exponential": lambda n, x: 2.0**x, "remainder": lambda n, x: x % 2,
    "cond": lambda n, x: n.lax.cond(x > 0, n.jnp.tanh, n.jnp.sin, x),
    "scan": lambda n, x: n.lax.scan(lambda c, _: (n.jnp.tanh(c), None), x, None, length=2)[0],
    "fori_loop": lambda n, x: n.lax.fori_loop(0, 2, lambda i, c: c**2, x),
    "checkpoint": lambda n, x: n.jax.checkpoint(lambda y: n.jnp.tanh(y) ** 2)(x),
    "jit": lambda n, x: n.jax.jit(n.jnp.tanh)(x),
    "select": lambda n, x: n.jnp.where(x > 0, x**2, n.jnp.sqrt(x)),
    "gelu_exact": lambda n, x: n.nn.gelu(x, approximate=False),
    "clip": lambda n, x: n.jnp.clip(x, 0, 2),
    "spread": lambda n, x: n.jnp.tanh(n.jnp.broadcast_to(x, (2,))).sum(),
    "spread_log1p": lambda n, x: n.jnp.log1p(n.jnp.broadcast_to(x, (2,))).sum(),
    "dot_of_spread": lambda n, x: n.jnp.dot(*[n.jnp.broadcast_to(x, (2,))] * 2),
}  # fmt: skip
COMPLEX = {
    "real": lambda n, z: z.real, "imag": lambda n, z: z.imag * 2, "exp": lambda n, z: n.jnp.real(n.jnp.exp(z)),
    "modulus": lambda n, z: n.jnp.abs(z), "conjugate": lambda n, z: (n.jnp.exp(z) * n.jnp.conj(z)).real,
}  # fmt: skip


def derivatives(fun):
    """The tangent, the gradient and the second derivative of a function of one number, whose results are summed."""

    def all_three(n, x):
        def total(y):
            return n.jnp.sum(fun(n, y))

        return (
            n.jax.jvp(lambda y: fun(n, y), (x,), (1.0,))[1],
            n.jax.grad(total)(x),
            n.jax.grad(n.jax.grad(total))(x),
        )

    return all_three


def of(module, name):
    return lambda n, x: getattr(getattr(n, module), name)(x)


def beside(name, other):
    return lambda n, x: getattr(n.jnp, name)(x, other(n, x))


def gradient(fun, **options):
    return lambda n, z: n.jax.grad(lambda y: fun(n, y), **options)(z)


SAMPLES = [
    *(Sample(f"{module}_{name}", derivatives(of(module, name)), [0.75], TYPES)
      for module, names in (("lax", LAX), ("jnp", NUMPY), ("nn", NN)) for name in names),
    *(Sample(f"{name}_number", derivatives(beside(name, lambda n, x: 0.5)), [0.75], TYPES) for name in PAIRS),
    *(Sample(f"{name}_strong", derivatives(beside(name, lambda n, x: n.jnp.float32(0.5))), [0.75], TYPES)
      for name in ("divide", "maximum", "multiply", "subtract")),
    *(Sample(f"operators_{name}", derivatives(fun), [0.75], TYPES) for name, fun in OPERATORS.items()),
    *(Sample(f"complex_{name}", gradient(fun), [1 + 2j], TYPES) for name, fun in COMPLEX.items()),
    Sample("holomorphic", gradient(lambda n, z: z**3, holomorphic=True), [1 + 2j], TYPES),
]  # fmt: skip
