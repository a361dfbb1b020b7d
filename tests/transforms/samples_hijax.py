"""Primitives as classes, `experimental.hijax`, beside those of the reference."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False  # the derivatives are not those of what is computed
X, Y = np.float32([0.3, -1.2, 2.0]), np.float32([1.5, 0.5, -1.0])
VALUE = ("eager",)


def scaled_product(n):
    """`sin(x) * y * k`, whose backward derivative is ten times, whose forward derivative is a hundred times the true one."""
    jnp, hijax = n.jnp, import_module(f"{n.name}.experimental.hijax")

    class ScaledProduct(hijax.VJPHiPrimitive):
        def __init__(self, x, y, k):
            self.in_avals, self.out_aval, self.params = ({"x": x}, y), [x], {"k": k}
            super().__init__()

        def expand(self, d, y):
            return [jnp.sin(d["x"]) * y * self.k]

        def vjp_fwd(self, nzs_in, d, y):
            return self(d, y), (d, y, None)

        def vjp_bwd_retval(self, res, g):
            d, y, _ = res
            return {"x": 10 * jnp.cos(d["x"]) * y * self.k * g[0]}, 10 * jnp.sin(d["x"]) * self.k * g[0]

        def jvp(self, primals, tangents):
            (d, y), (dt, yt) = primals, tangents
            dot = jnp.cos(d["x"]) * y * dt["x"] + jnp.sin(d["x"]) * yt
            return self(d, y), [100 * self.k * dot]

        def batch_dim_rule(self, axis_data, dims):
            d = next(d for d in (dims[0]["x"], dims[1]) if d is not None)
            return [d]

    return lambda x, y, k=2: ScaledProduct(n.jax.typeof(x), n.jax.typeof(y), k)({"x": x}, y)[0]


def clip(n):
    """The identity, with clipped cotangents; bounds without derivative; a batching rule by hand."""
    jnp, hijax = n.jnp, import_module(f"{n.name}.experimental.hijax")

    class Clip(hijax.VJPHiPrimitive):
        def __init__(self, lo, x):
            self.in_avals, self.out_aval, self.params = (lo, x), x, {}
            super().__init__()

        def expand(self, lo, x):
            return x

        def vjp_fwd(self, nzs_in, lo, x):
            return self(lo, x), (lo, nzs_in[1] * 1.0)

        def vjp_bwd(self, res, g, lo_accum, x_accum):
            x_accum.accum(jnp.clip(g, res[0], -res[0]) * res[1])

        def batch(self, axis_data, args, dims):
            lo, x = args
            return clipped(jnp.min(lo), x), dims[1]

    clipped = lambda lo, x: Clip(n.jax.typeof(lo), n.jax.typeof(x))(lo, x)
    return clipped


def linear(n):
    """Twice the operand, with its own linearization."""
    hijax = import_module(f"{n.name}.experimental.hijax")

    class Twice(hijax.VJPHiPrimitive):
        def __init__(self, x):
            self.in_avals, self.out_aval, self.params = (x,), x, {}
            super().__init__()

        def expand(self, x):
            return 2 * x

        def lin(self, nzs_in, x):
            return self(x), 7.0

        def linearized(self, res, t):
            return res * t

    return lambda x: Twice(n.jax.typeof(x))(x)


def of(make, f):
    return lambda n, *args: f(n, make(n), *args)


def empty_class(n, how):
    hijax = import_module(f"{n.name}.experimental.hijax")

    class Empty(hijax.VJPHiPrimitive):
        def __init__(self, x):
            self.in_avals, self.out_aval, self.params = (x,), x, {}
            super().__init__()

        if how != "expand":

            def expand(self, x):
                return x

    f = lambda x: Empty(n.jax.typeof(x))(x)
    return {"expand": f, "grad": n.jax.grad(f), "vmap": n.jax.vmap(f)}.get(
        how, lambda x: n.jax.jvp(f, (x,), (x,))
    )


def unfinished(n, x):
    hijax = import_module(f"{n.name}.experimental.hijax")
    return type("Unfinished", (hijax.VJPHiPrimitive,), {})()


SAMPLES = [
    Sample("product", of(scaled_product, lambda n, f, x, y: f(x, y)), [X, Y], ("eager", "jit", "jit.grad", "jvp", "vmap", "vmap.grad")),
    Sample("product_of_jit", of(scaled_product, lambda n, f, x, y: n.jax.jit(f)(x, y)), [X, Y], ("jit.grad", "vmap.grad")),
    Sample("product_of_vmap", of(scaled_product, lambda n, f, x, y: n.jax.vmap(f, (0, None))(x, y)), [X, Y[0]], ("jit.grad", "jvp")),
    Sample("product_of_vmaps", of(scaled_product, lambda n, f, x, y: n.jax.vmap(n.jax.vmap(f), (0, None))(n.jnp.stack([x, 2 * x]), y)),
           [X, Y], ("jit.grad",)),
    Sample("product_of_grad", of(scaled_product, lambda n, f, x, y: n.jax.grad(lambda x: f(x, y).sum())(x)), [X, Y], ("jit.grad",)),
    Sample("product_in_scan", of(scaled_product, lambda n, f, x, y: n.lax.scan(lambda c, a: (f(c, a), c), x[0], y)[0]), [X, Y], ("jit.grad",)),
    Sample("clip", of(clip, lambda n, f, x: n.jnp.sum(f(np.float32(-0.5), 3 * x) ** 2)), [X], ("jit.grad", "vmap")),
    Sample("linearize", of(linear, lambda n, f, x: n.jax.linearize(f, x)[1](x)), [X], VALUE),
    Sample("no_expand", lambda n, x: empty_class(n, "expand")(x), [X], VALUE, error="NotImplementedError"),
    Sample("no_vjp", lambda n, x: empty_class(n, "grad")(x[0]), [X], VALUE, error="NotImplementedError"),
    Sample("no_jvp", lambda n, x: empty_class(n, "jvp")(x), [X], VALUE, error="NotImplementedError"),
    Sample("no_batch", lambda n, x: empty_class(n, "vmap")(x), [X], VALUE, error="NotImplementedError"),
    Sample("no_types", unfinished, [X], VALUE, error="AttributeError"),
]  # fmt: skip
