"""Arrays whose tangents have another dtype, beside those of the reference, which has them inside of programs."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False  # derivatives are rounded
X, F = np.int8([3, -2, 7]), np.float32([0.3, -1.5, 1.0])


def dtype(n, primal="int8", tangent="bfloat16", name=None):
    return import_module(f"{n.name}.experimental").primal_tangent_dtype(primal, tangent, name)


def there_and_back(n, x):
    return n.jax.jit(lambda x: n.jnp.int8(x.astype(dtype(n)) [::-1]))(x)


def own_rule(n, x):
    @n.jax.custom_gradient
    def f(x):
        return n.jnp.int8(x).astype("bfloat16") * 2 + 1, lambda g: (2 * g,)

    def run(x):
        out, back = n.jax.vjp(f, x.astype(dtype(n)))
        return out, back(n.jnp.asarray(F, "bfloat16"))[0]

    return n.jax.jit(run)(x)


def rounded(n, x):
    as_float = lambda x: n.lax.convert_element_type(x, "float32")
    f = lambda x: as_float(x.astype(dtype(n, "float32", "bfloat16")))
    return n.jax.jit(lambda x: n.jax.vjp(f, x)[1](x / 3)[0])(x)


def names(n):
    texts = [str(dtype(n)), str(dtype(n, "float32", "float16")), str(dtype(n, name="scale"))]
    return [np.frombuffer(t.encode(), np.uint8) for t in texts]


def equality(n):
    a = dtype(n)
    return [a == b and hash(a) == hash(b) for b in (dtype(n), dtype(n, "int16"), dtype(n, name="q"))]


def made(n, x):
    core, e = import_module(f"{n.name}.core"), import_module(f"{n.name}.experimental")
    a = e.EArray(core.ShapedArray((3,), dtype(n)), n.jnp.asarray(x))
    return n.jax.jit(lambda a: n.lax.convert_element_type(a, "int8"))(a), len(a), a.ndim, isinstance(a, e.EArray)


def to_another(n, x):
    return n.jax.jit(lambda x: x.astype("int16").astype(dtype(n)))(x)


def from_another(n, x):
    return n.jax.jit(lambda x: n.lax.convert_element_type(x.astype(dtype(n)), "float32"))(x)


E = ("eager",)
SAMPLES = [
    Sample("there_and_back", there_and_back, [X], E),
    Sample("own_rule", own_rule, [X], E),
    Sample("rounded", rounded, [F], E),
    Sample("names", names, [], E),
    Sample("equality", equality, [], E),
    Sample("made", made, [X], E),
    Sample("to_another", to_another, [X], E, error="ValueError"),
    Sample("from_another", from_another, [X], E, error="ValueError"),
]  # fmt: skip
