"""Samples of custom calls in derivatives: linear calls, symbolic zeros, policies that offload, batching rules."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

X, Y = floats(3), floats(3) + np.float32(2)


def linear(n, r, x):
    return n.jax.custom_derivatives.linear_call(lambda r, x: x / r, lambda r, ct: ct * r * 100, r, x)


def linear_gradient(n, r, x):
    return n.jax.grad(lambda x: linear(n, r, x).sum())(x)


def linear_tree(n, r, x):
    def fun(r, x):
        return {"a": x["p"] * r, "b": x["q"].sum()}

    def transpose(r, ct):
        return {"p": ct["a"] * r * 2, "q": n.jnp.broadcast_to(ct["b"], (3,))}
    return n.jax.vjp(lambda x: n.jax.custom_derivatives.linear_call(fun, transpose, r, x), {"p": x, "q": x})[1](
        {"a": x, "b": x[0]})


def wrong_transpose(n, x):
    return n.jax.grad(lambda x: n.jax.custom_derivatives.linear_call(lambda r, x: x, lambda r, ct: (ct, ct), (), x).sum())(x)


def symbolic(n, x, y):
    cd = n.jax.custom_derivatives

    @n.jax.custom_vjp
    def f(x, y):
        return x * y, x + y

    def fwd(x, y):
        assert isinstance(x.perturbed, bool)
        x, y = cd.custom_vjp_primal_tree_values((x, y))
        return (x * y, x + y), (x, y)

    def bwd(res, cts):
        x, y = res
        a, b = (cd.zero_from_primal(x) if type(ct) is cd.SymbolicZero else ct for ct in cts)
        return 3 * a * y + b, a * x + b
    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f(x, y)[0]


def optimized(n, x):
    @n.jax.custom_vjp
    def f(x):
        return n.jnp.sin(x)
    f.defvjp(lambda x: (n.jnp.sin(x), n.jnp.cos(x)), lambda res, ct: (3 * ct * res,), optimize_remat=True)
    return n.jax.checkpoint(lambda x: n.jnp.cos(f(x)))(x)


def offloaded(n, x):
    policy = n.jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"], offload_src="device", offload_dst="pinned_host")
    name = import_module(f"{n.name}.ad_checkpoint").checkpoint_name

    def f(x):
        return n.jnp.sin(name(n.jnp.cos(name(n.jnp.sin(x), "a")), "b"))
    return n.jax.checkpoint(f, policy=policy)(x)


SAMPLES = [
    Sample("linear_call", linear, (Y, X), ("eager", "jit"), lawful=False),
    Sample("linear_call_gradient", linear_gradient, (Y, X), ("eager", "jit"), lawful=False),
    Sample("linear_call_tree", linear_tree, (Y, X), ("eager", "jit"), lawful=False),
    Sample("linear_call_wrong", wrong_transpose, (X,), error="TypeError"),
    Sample("symbolic_zeros", symbolic, (X, Y), ("eager", "jit", "grad", "vmap", "jit.vmap.grad", "grad.vmap", "checkpoint"), lawful=False),
    Sample("optimize_remat", optimized, (X,), ("eager", "jit", "grad", "vmap", "jit.vmap.grad", "grad.vmap"), lawful=False),
    Sample("offloading", offloaded, (X,), ("eager", "jit", "grad", "vmap", "jit.vmap.grad", "jvp", "grad.vmap")),
]
