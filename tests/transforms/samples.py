"""Samples of the transformations: custom rules, checkpoint, Jacobians, batching, errors."""

from __future__ import annotations

import numpy as np

from tests.reference.data import bools, floats, ints
from tests.reference.sample import ALL, VALUE, Sample

X, W = floats(3), floats(3, 3)
MORE = (*ALL, "linearize", "jit.grad", "vmap.grad", "jvp.jvp")


def clipped(n, x):
    @n.jax.custom_jvp
    def f(x):
        return n.jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        return f(*primals), 3.0 * tangents[0]
    return f(x)


def by_argument(n, x, y):
    @n.jax.custom_jvp
    def f(x, y):
        return x * y
    f.defjvps(lambda t, out, x, y: 2.0 * t, None)
    return f(x, y)


def saved(n, x, y):
    @n.jax.custom_vjp
    def f(x, y):
        return n.jnp.sin(x) * y

    def forward(x, y):
        return f(x, y), (n.jnp.cos(x), y)

    def backward(residuals, ct):
        c, y = residuals
        return 2.0 * ct * c * y, ct
    f.defvjp(forward, backward)
    return f(x, y)


def static_first(n, x):
    def f(scale, x):
        return scale * x
    f = n.jax.custom_vjp(f, nondiff_argnums=(0,))
    f.defvjp(lambda scale, x: (f(scale, x), None), lambda scale, _, ct: (ct * 10.0,))
    return f(2.0, x)


def layers(n, x, w):
    def layer(x):
        return n.jnp.tanh(n.jnp.sin(x) @ w)
    return n.jax.checkpoint(layer)(n.jax.checkpoint(layer)(x))


def dots_saved(n, x, w):
    policy = n.jax.checkpoint_policies.dots_saveable
    return n.jax.checkpoint(lambda x: n.jnp.tanh(n.jnp.sin(x) @ w), policy=policy)(x)


def loss(n, params, x):
    return (n.jnp.tanh(x @ params["w"] + params["b"]) ** 2).sum()


PARAMS = {"w": W, "b": X}

def integer_tangent(n, x):
    f = n.jax.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primals[0], 1))
    return n.jax.jvp(f, (x,), (x,))


CUSTOM = [
    Sample("custom_jvp", clipped, [X], MORE, lawful=False),
    Sample("custom_jvps", by_argument, [X, floats(3)], MORE, lawful=False),
    Sample("custom_vjp", saved, [X, floats(3)], ("eager", "jit", "grad", "vmap", "vmap.grad", "grad.vmap"),
           lawful=False),
    Sample("custom_vjp_static", static_first, [X], ("eager", "jit", "grad", "vmap"), lawful=False),
    Sample("custom_vjp_forwards", lambda n, x: n.jax.jvp(lambda x: saved(n, x, x), (x,), (x,)), [X], VALUE,
           error="TypeError"),
    Sample("custom_in_scan", lambda n, x: n.lax.scan(lambda c, x: (clipped(n, c) + x, c), x[0], x), [X],
           (*ALL, "vmap.grad"), lawful=False),
    Sample("custom_vjp_in_jit", lambda n, x: n.jax.jit(lambda x: saved(n, x, x))(x), [X],
           ("eager", "grad", "vmap.grad"), lawful=False),
    Sample("checkpoint", layers, [X, W], MORE),
    Sample("checkpoint_policy", dots_saved, [X, W], MORE),
]

DERIVATIVES = [
    Sample("grad", lambda n, x: n.jax.grad(lambda x: (n.jnp.sin(x) * x).sum())(x), [X], MORE),
    Sample("grad_argnums", lambda n, x, y: n.jax.grad(lambda x, y: (x * y).sum(), argnums=(1, 0))(x, y),
           [X, floats(3)]),
    Sample("grad_aux", lambda n, x: n.jax.grad(lambda x: ((x ** 2).sum(), {"x": x}), has_aux=True)(x), [X]),
    Sample("value_and_grad_tree", lambda n, p, x: n.jax.value_and_grad(lambda p: loss(n, p, x))(p), [PARAMS, X]),
    Sample("jacfwd", lambda n, x, w: n.jax.jacfwd(lambda x: n.jnp.tanh(x @ w))(x), [X, W]),
    Sample("jacrev", lambda n, x, w: n.jax.jacrev(lambda x: n.jnp.tanh(x @ w))(x), [X, W]),
    Sample("hessian", lambda n, x, w: n.jax.hessian(lambda x: (n.jnp.tanh(x @ w) ** 2).sum())(x), [X, W],
           ("eager", "jit", "vmap")),
    Sample("jacrev_tree", lambda n, p, x: n.jax.jacrev(lambda p: {"l": loss(n, p, x), "b": p["b"] * 2})(p),
           [PARAMS, X], VALUE),
    Sample("vjp_aux", lambda n, x: (lambda r: (r[0], r[1](x), r[2]))(
        n.jax.vjp(lambda x: (n.jnp.sin(x), x + 1), x, has_aux=True)), [X], VALUE),
    Sample("linear_transpose", lambda n, x, w: n.jax.linear_transpose(lambda y: y @ w, x)(x), [X, W], VALUE),
    Sample("grad_argnums_error", lambda n, x: n.jax.grad(lambda x: x.sum(), argnums=1)(x), [X], error="TypeError"),
    Sample("grad_argnums_names_error", lambda n, x: n.jax.grad(lambda x: x.sum(), argnums="x")(x), [X], error="TypeError"),
    Sample("jacfwd_argnums_error", lambda n, x: n.jax.jacfwd(lambda x: x.sum(), argnums=0.0)(x), [X], error="TypeError"),
    Sample("jacobian_weak", lambda n: [f(lambda a, b: {"p": a * b}, (0, 1))(2.0, 3.0) for f in (n.jax.jacfwd, n.jax.jacrev, n.jax.hessian)],
           [], VALUE),
    Sample("static_donated_error", lambda n, x: n.jax.jit(lambda x: x, static_argnums=0, donate_argnames="x")(x), [X], error="ValueError"),
    Sample("checkpoint_static_error", lambda n, x: n.jax.checkpoint(lambda x: x, static_argnums=3)(x), [X], error="ValueError"),
    Sample("custom_jvp_int_tangent_error", lambda n, x: integer_tangent(n, x), [np.float32(1)], error="TypeError"),
    Sample("grad_int_error", lambda n, x: n.jax.grad(lambda x: x.sum())(x), [ints(3)], error="TypeError"),
    Sample("grad_vector_error", lambda n, x: n.jax.grad(lambda x: x * 2)(x), [X], error="TypeError"),
    Sample("grad_complex_error", lambda n, x: n.jax.grad(lambda x: x * 1j)(x), [np.float32(2)], error="TypeError"),
    Sample("jvp_tree_error", lambda n, x: n.jax.jvp(lambda x: x, (x,), (x, x)), [X], error="TypeError"),
    Sample("jvp_dtype_error", lambda n, x: n.jax.jvp(lambda x: x, (x,), (x.astype(np.int32),)), [X],
           error="TypeError"),
    Sample("allow_int", lambda n, x: n.jax.grad(lambda x: (x * 2.0).sum(), allow_int=True)(x), [ints(3)], ("eager",)),
    Sample("allow_int_keys", lambda n, x: n.jax.grad(lambda t: (t["x"] * n.jax.random.normal(t["k"][0], (3,))).sum(), allow_int=True)(
        {"x": x, "k": n.jax.random.split(n.jax.random.key(0))}), [floats(3)], ("eager",)),
    Sample("grad_key_error", lambda n, x: n.jax.grad(lambda k: x)(n.jax.random.key(0)), [np.float32(2)], error="TypeError"),
    Sample("where_gradient", lambda n, p, x: n.jnp.where(p, n.jnp.sqrt(n.jnp.abs(x)), x), [bools(4), floats(4)]),
]

BATCHING = [
    Sample("in_axes", lambda n, x, w: n.jax.vmap(lambda x, w: x @ w, in_axes=(1, None))(x, w), [floats(3, 4), W]),
    Sample("out_axes", lambda n, x: n.jax.vmap(n.jnp.sin, out_axes=-1)(x), [floats(3, 4)]),
    Sample("in_axes_tree", lambda n, p: n.jax.vmap(lambda p: p["a"] * p["b"], in_axes=({"a": 0, "b": None},))(p),
           [{"a": floats(3, 2), "b": floats(2)}]),
    Sample("axis_name", lambda n, x: n.jax.vmap(lambda x: x / n.lax.psum(x, "i"), axis_name="i")(x),
           [floats(4, low=0.5)]),
    Sample("axis_index", lambda n, x: n.jax.vmap(lambda x: x + n.lax.axis_index("i"), axis_name="i")(x), [floats(4)]),
    Sample("axis_size", lambda n, x: n.jax.vmap(lambda: n.jnp.ones(2), axis_size=3)(), [X], ("eager",)),
    Sample("nested_vmap", lambda n, x, y: n.jax.vmap(n.jax.vmap(lambda x, y: x * y, (None, 0)), (0, None))(x, y),
           [X, floats(4)]),
    Sample("vmap_sizes_error", lambda n, x, y: n.jax.vmap(lambda x, y: x)(x, y), [X, floats(4)],
           error="ValueError"),
    Sample("vmap_scalar_error", lambda n, x: n.jax.vmap(lambda x: x)(x), [np.float32(1)], error="ValueError"),
    Sample("vmap_none_error", lambda n, x: n.jax.vmap(lambda x: x, in_axes=None)(x), [X], error="ValueError"),
]

COMPILING = [
    Sample("static_argnums", lambda n, x: n.jax.jit(lambda k, x: x * k, static_argnums=0)(3, x), [X]),
    Sample("static_argnames", lambda n, x: n.jax.jit(lambda x, k: x ** k, static_argnames="k")(x, k=2), [X]),
    Sample("jit_keywords", lambda n, x: n.jax.jit(lambda x, *, y: x - y)(x, y=2.0), [X]),
    Sample("jit_nested", lambda n, x: n.jax.jit(lambda x: n.jax.jit(n.jnp.sin)(x) + n.jax.jit(n.jnp.sin)(x))(x), [X],
           MORE),
    Sample("jit_closure", lambda n, x: n.jax.jit(lambda y: y + x)(x * 2), [X]),
    Sample("jit_tree", lambda n, p: n.jax.jit(lambda p: {"s": (p["a"], None, [p["b"]])})(p), [{"a": X, "b": X}]),
    Sample("eval_shape", lambda n, p, x: loss(n, p, x), [PARAMS, X], ("eval_shape", "eval_shape.grad")),
    Sample("static_unhashable", lambda n, x: n.jax.jit(lambda k, x: x, static_argnums=0)([1], x), [X],
           error="ValueError"),
    Sample("jit_argument", lambda n, x: n.jax.jit(lambda s: s)("text"), [X], error="TypeError"),
    Sample("jit_result", lambda n, x: n.jax.jit(lambda x: "text")(x), [X], error="TypeError"),
]

SAMPLES = [*CUSTOM, *DERIVATIVES, *BATCHING, *COMPILING]
