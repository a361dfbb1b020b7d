"""Samples of checked programs: what was found, in which words, and the results beside it."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X = np.float32([1, 2, 3])
M = np.ones((2, 3), np.float32)


def module(n):
    return import_module(f"{n.name}.experimental.checkify")


def report(n, f, args, errors, wrap):
    """The error's words as bytes, and the results."""
    c = module(n)
    error, out = wrap(n)(c.checkify(lambda *a: f(n, *a), errors=getattr(c, errors)))(*map(n.jnp.asarray, args))
    words = error.get()
    return np.frombuffer(("fine" if words is None else words.splitlines()[0]).encode(), np.uint8), out


def rows(name, f, args, errors="user_checks"):
    return [Sample(f"{name}{suffix}", lambda n, *a, wrap=wrap: report(n, f, a, errors, wrap), args, ("eager",), lawful=False, smooth=False)
            for suffix, wrap in (("", lambda n: lambda g: g), ("_jit", lambda n: n.jax.jit))]


def user(n, x):
    module(n).check(n.jnp.all(x > 1), "must be big: {x}, {}", x.sum(), x=x[0])
    return x * 2


def two(n, x):
    module(n).check(x[0] > 5, "first")
    module(n).check(x[0] > 6, "second")
    return n.jnp.log(-x)


def scanned(n, xs):
    def body(c, x):
        module(n).check(x < 2.5, "x too large {x}", x=x)
        return c + x, n.jnp.log(x)
    return n.lax.scan(body, n.jnp.float32(0), xs)


def branched(n, x):
    def yes(x):
        module(n).check(x[0] > 1, "branch {x}", x=x)
        return x
    return n.lax.cond(x.sum() > 4, yes, lambda x: n.jnp.log(x), x)


def looped(n, x):
    def body(s):
        i, x = s
        module(n).check(x[0] < 5, "x grew at {i}", i=i)
        return i + 1, x * 2
    return n.lax.while_loop(lambda s: s[0] < 4, body, (n.jnp.int32(0), x))


def asked(n, x):
    def cond(s):
        module(n).check(s < 3, "asked at {s}", s=s)
        return s < 5
    return n.lax.while_loop(cond, lambda s: s + 1, x)


def mapped(n, x):
    def g(x):
        module(n).check(x < 1.5, "v {x}", x=x)
        return x
    return n.jax.vmap(g)(x)


def sloped(n, x):
    def g(x):
        module(n).check(x.sum() < 2.5, "g {x}", x=x[0])
        return (x**2).sum()
    return n.jax.grad(g)(x)


def nested(n, x):
    return n.jax.jit(lambda x: user(n, x))(x).sum()


def passed_on(n, x):
    error, out = module(n).checkify(lambda x: user(n, x))(x)
    module(n).check_error(error)
    return out


def remade(n, x):
    return n.jax.checkpoint(lambda x: user(n, n.jnp.log(x)))(x)


def own_jvp(n, x):
    @n.jax.custom_jvp
    def h(x):
        return n.jnp.log(x)
    h.defjvp(lambda p, t: (h(*p), t[0]))
    return h(x), n.jax.grad(lambda x: h(x).sum())(x)


def own_vjp(n, x):
    @n.jax.custom_vjp
    def h(x):
        return n.jnp.log(x)
    h.defvjp(lambda x: (h(x), x), lambda r, g: (g * 2,))
    return h(x), n.jax.grad(lambda x: h(x).sum())(x)


NAN, INF = np.float32([np.nan, 1]), np.float32([-np.inf, np.inf, -5, 2])
NANS = {name: (lambda n, x, name=name: getattr(n.lax, name)(x)) for name in (
    "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "asin", "acos", "atan", "sqrt", "rsqrt", "erf_inv", "lgamma", "digamma",
    "abs", "sign", "floor", "neg", "is_finite", "square", "exp2", "sort")} | {
    name: (lambda n, x, name=name: getattr(n.lax, name)(x, x)) for name in ("add", "sub", "mul", "div", "rem", "pow", "max", "min", "atan2")} | {
    "sum": lambda n, x: x.sum(), "dot": lambda n, x: x @ x, "cumsum": lambda n, x: n.jnp.cumsum(x), "reshape": lambda n, x: x.reshape(-1, 1),
    "concatenate": lambda n, x: n.jnp.concatenate([x, x]), "where": lambda n, x: n.jnp.where(n.jnp.isnan(x), 0, x)}
INDEXED = {
    "get": (lambda n, x, i: x[i], [X]), "set": (lambda n, x, i: x.at[i].set(1.0), [X]), "add": (lambda n, x, i: x.at[i].add(1.0), [X]),
    "column": (lambda n, x, i: x[0, i], [M]), "clip": (lambda n, x, i: x.at[i].get(mode="clip"), [X]),
    "fill": (lambda n, x, i: x.at[i].get(mode="fill"), [X]), "take": (lambda n, x, i: n.jnp.take(x, i, 0), [X]),
    "dynamic_slice": (lambda n, x, i: n.lax.dynamic_slice(x, (i,), (2,)), [X]),
    "dynamic_update_slice": (lambda n, x, i: n.lax.dynamic_update_slice(x, x[:2], (i,)), [X]),
    "several": (lambda n, x, i: x[n.jnp.stack([i * 0, i])], [X]), "rows": (lambda n, x, i: x[:, i], [M])}

SAMPLES = [row for group in [
    rows("user_fails", user, [X]), rows("user_holds", user, [X + 1]), rows("first_failure", two, [X], "all_checks"),
    rows("nothing_asked", two, [X], "nan_checks"), rows("scan", scanned, [X]), rows("scan_holds", scanned, [X - 1]),
    rows("scan_nan", scanned, [X - 2], "all_checks"), rows("cond", branched, [X]), rows("cond_other", branched, [X * 0.1]),
    rows("cond_nan", branched, [-X], "all_checks"), rows("while", looped, [X]), rows("while_holds", looped, [X * 0.1]),
    rows("while_cond", asked, [np.int32(0)]), rows("while_cond_at_once", asked, [np.int32(7)]), rows("vmap", mapped, [X]),
    rows("vmap_holds", mapped, [X - 2]), rows("grad", sloped, [X]), rows("grad_holds", sloped, [X * 0.1]), rows("jit", nested, [X]),
    rows("check_error", passed_on, [X]), rows("check_error_holds", passed_on, [X + 1]), rows("checkpoint", remade, [X], "all_checks"),
    rows("checkpoint_nan", remade, [-X], "nan_checks"), rows("custom_jvp", own_jvp, [X - 2], "nan_checks"),
    rows("custom_vjp", own_vjp, [X - 2], "nan_checks"), rows("custom_vjp_holds", own_vjp, [X], "nan_checks"),
    *(rows(f"nan_of_{name}", f, [NAN], "nan_checks") for name, f in NANS.items()),
    *(rows(f"nan_from_{name}", NANS[name], [INF], "nan_checks") for name in ("log", "sin", "sqrt", "asin", "add", "sub", "mul", "div")),
    rows("division", lambda n, x: 1 / x, [np.float32([1, 0])], "div_checks"), rows("division_holds", lambda n, x: 1 / x, [X], "div_checks"),
    rows("division_int", lambda n, x: x // (x - 1), [np.int32([1, 2])], "div_checks"),
    rows("zero_by_zero", lambda n, x: x / x, [np.float32([0, 1])], "float_checks"),
    *(rows(f"index_{name}_{i}", f, [*args, np.int32(i)], "index_checks") for name, (f, args) in INDEXED.items() for i in (0, 1, 7)),
] for row in group]

BAD = {
    "bad_pred": (lambda n, x: module(n).check(x > 5, "a"), "TypeError"),
    "bad_pred_dtype": (lambda n, x: module(n).check(x[0], "a"), "TypeError"),
    "bad_words": (lambda n, x: module(n).check(x[0] > 5, x), "TypeError"),
    "bad_value": (lambda n, x: module(n).check(x[0] > 5, "{}", "s"), "TypeError"),
    "bad_name": (lambda n, x: module(n).check(x[0] > 5, "{y}", x=x), "KeyError"),
}
SAMPLES += [Sample(name, lambda n, x, f=f: report(n, f, [x], "user_checks", lambda n: lambda g: g), [X], error=error)
            for name, (f, error) in BAD.items()]
SAMPLES.append(Sample("not_checked", lambda n, x: n.jax.jit(lambda x: user(n, x))(n.jnp.asarray(x)), [X], error="ValueError"))
SAMPLES.append(Sample("thrown", lambda n, x: user(n, n.jnp.asarray(x)), [X], error="JaxRuntimeError"))
