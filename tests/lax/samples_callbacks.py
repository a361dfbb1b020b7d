"""Samples of callbacks: `pure_callback`, `io_callback`, `debug.callback`, `debug.print`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
X, W, K = floats(3), floats(3, 3), ints(4)
MAPPED = ("eager", "jit", "vmap", "jit.vmap", "vmap.vmap")


def struct(n, x, shape=None, dtype=None):
    return n.jax.ShapeDtypeStruct(x.shape if shape is None else shape, dtype or x.dtype)


def io(n):
    return import_module(f"{n.name}.experimental").io_callback


def sine(x):
    return np.sin(np.asarray(x))


def scaled(a, b):
    return np.asarray(a) * np.asarray(b)


def pure(n, x, method="sequential"):
    return n.jax.pure_callback(sine, struct(n, x), x, vmap_method=method) + 1


def pure_two(n, x, w, method="expand_dims"):
    return n.jax.pure_callback(lambda a, b: np.asarray(a) * np.asarray(b), struct(n, x), x, w, vmap_method=method)


def pure_tree(n, x):
    out = n.jax.pure_callback(lambda d, k: {"s": np.sin(d["a"]), "t": [np.cos(k), np.float32(3)]},
                              {"s": struct(n, x), "t": [struct(n, x), struct(n, x, ())]}, {"a": x}, k=x, vmap_method="sequential")
    return out["s"] + out["t"][0] * out["t"][1]


def pure_nothing(n, x):
    return x + n.jax.pure_callback(lambda: np.float32(2), struct(n, x, (), np.float32))


def pure_wrapped(n, x):
    """The way to give a callback a derivative."""
    @n.jax.custom_jvp
    def f(x):
        return n.jax.pure_callback(sine, struct(n, x), x, vmap_method="sequential")

    @f.defjvp
    def f_jvp(primals, tangents):
        x, = primals
        return f(x), tangents[0] * n.jax.pure_callback(lambda x: np.cos(np.asarray(x)), struct(n, x), x, vmap_method="sequential")
    return f(x).sum()


def pure_scan(n, x):
    return n.lax.scan(lambda c, _: (n.jax.pure_callback(sine, struct(n, c), c), c), x, None, length=3)


def pure_loops(n, x):
    x = n.lax.fori_loop(0, 3, lambda i, c: n.jax.pure_callback(scaled, struct(n, c), c, n.jnp.float32(0.5)), x)
    return n.lax.cond(x.sum() > 0, lambda x: n.jax.pure_callback(sine, struct(n, x), x), lambda x: x, x)


def io_plain(n, x):
    return io(n)(sine, struct(n, x), x) * 2


def io_ordered(n, x):
    f = io(n)
    x = f(sine, struct(n, x), x, ordered=True)
    return n.lax.scan(lambda c, _: (f(lambda v: np.asarray(v) + 1, struct(n, c), c, ordered=True), c.sum()), x, None, length=3)


def io_nothing(n, x):
    assert io(n)(lambda v: None, None, x) is None
    return x * 2


def io_stopped(n, x):
    io(n)(lambda v: None, None, n.lax.stop_gradient(x))
    return (n.jnp.sin(x) * x).sum()


def io_while_condition(n, x):
    return n.lax.while_loop(lambda v: io(n)(lambda a: np.asarray(a) < 3, struct(n, x, (), bool), v), lambda v: v + 1, x)


def quiet(*_, **__):
    return None


def debug(n, x):
    n.jax.debug.callback(quiet, x, word="static", other=x * 2)
    return (n.jnp.sin(x) * x).sum()


def debug_in_scan(n, x):
    def step(c, _):
        n.jax.debug.callback(quiet, c)
        return n.jnp.sin(c) * 1.5, c.sum()
    return n.lax.scan(step, x, None, length=3)


def debug_in_jit(n, x):
    @n.jax.jit
    def f(x):
        n.jax.debug.callback(quiet, n.jnp.sin(x), ordered=True)
        return n.jnp.cos(x) * x
    return f(x).sum()


def debug_in_while(n, x):
    def body(v):
        n.jax.debug.callback(quiet, v)
        return v * 2 + 1
    return n.lax.while_loop(lambda v: v < 10, body, x)


def debug_in_cond(n, p, x):
    def yes(x):
        n.jax.debug.callback(quiet, x)
        return x * 2
    return n.lax.cond(p, yes, lambda x: x * x, x)


def printing(n, x):
    n.jax.debug.print("", skip_format_check=True)
    return x * 2


def print_text(n, x):
    n.jax.debug.print("x = {} {y} {z}", x, y=x + 1, z="static")
    return x


DEEP = ("eager", "jit", "grad", "jvp", "vmap", "linearize", "jit.grad", "checkpoint", "grad.checkpoint")

SAMPLES = [
    Sample("pure", pure, (X,), MAPPED),
    *(Sample(f"pure-{m}", lambda n, x, m=m: pure(n, x, m), (X,), (*MAPPED, "primitives", "vmap.primitives"))
      for m in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")),
    *(Sample(f"pure-two-{m}", lambda n, x, m=m: n.jax.vmap(lambda a, b: pure_two(n, a, b, m), in_axes=(0, None))(x, x[0]), (X,),
             ("eager", "jit", "primitives")) for m in ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized")),
    Sample("pure-inner-axis", lambda n, w: n.jax.vmap(lambda a: pure(n, a, "expand_dims"), in_axes=1, out_axes=1)(w), (W,), ("eager", "jit")),
    Sample("pure-text", lambda n, x: n.jax.pure_callback(sine, struct(n, x), x), (X,), ("text",)),
    Sample("pure-tree", pure_tree, (X,), MAPPED),
    Sample("pure-nothing", pure_nothing, (X,), MAPPED),
    Sample("pure-wrapped", pure_wrapped, (X,), ("eager", "jit", "grad", "jvp", "vmap", "jit.grad", "vmap.grad"), tol=1e-4),
    Sample("pure-scan", pure_scan, (X,), ("eager", "jit", "primitives")),
    Sample("pure-loops", pure_loops, (X,), ("eager", "jit")),
    *(Sample(f"pure-{np.dtype(d).name}", lambda n, x, d=d: n.jax.pure_callback(lambda v: np.asarray(v), struct(n, x, None, d), x.astype(d)),
             (K,), ("eager", "jit")) for d in ("int32", "uint8", "bool", "float16", "complex64")),
    Sample("pure-bfloat16", lambda n, x: n.jax.pure_callback(lambda v: v, struct(n, x, None, n.jnp.bfloat16), x.astype(n.jnp.bfloat16)),
           (X,), ("eager", "jit")),
    Sample("pure-empty", lambda n, x: n.jax.pure_callback(lambda v: v, struct(n, x, (0, 2)), n.jnp.zeros((0, 2), x.dtype)), (X,),
           ("eager", "jit")),
    Sample("pure-float64", lambda n, x: n.jax.pure_callback(lambda v: np.asarray(v, np.float64), struct(n, x), x), (X,), ("eager", "jit")),
    Sample("pure-x64", lambda n, x: n.jax.pure_callback(lambda v: np.asarray(v) / 3, struct(n, x), x), (X.astype(np.float64),),
           ("eager", "jit"), x64=True),
    Sample("io", io_plain, (X,), MAPPED),
    Sample("io-primitives", io_plain, (X,), ("primitives", "vmap.primitives", "text")),
    Sample("io-ordered", io_ordered, (X,), ("eager", "jit", "primitives")),
    Sample("io-nothing", io_nothing, (X,), ("eager", "jit")),
    Sample("io-stopped", io_stopped, (X,), ("eager", "jit", "grad", "jit.grad", "vmap", "primitives")),
    Sample("io-while-condition", io_while_condition, (np.float32(0.5),), ("eager", "jit")),
    Sample("debug", debug, (X,), (*DEEP, "primitives", "grad.primitives", "vmap.primitives")),
    Sample("debug-scan", debug_in_scan, (X,), ("eager", "jit", "grad", "jvp", "vmap", "linearize", "primitives")),
    Sample("debug-jit", debug_in_jit, (X,), ("eager", "jit", "grad", "jvp", "vmap", "jit.grad")),
    Sample("debug-while", debug_in_while, (np.float32(0.5),), ("eager", "jit", "jvp", "vmap")),
    Sample("debug-cond", debug_in_cond, (np.bool_(True), X), ("eager", "jit", "grad", "jvp", "vmap")),
    Sample("debug-linear-transpose", lambda n, x: n.jax.linear_transpose(
        lambda x: (n.jax.debug.callback(quiet, x), x * 2)[1], x)(x)[0], (X,), ("eager", "jit")),
    Sample("debug-options-first", lambda n, x: (n.jax.debug.callback(ordered=True)(quiet, x), x)[1], (X,), ("eager",)),
    Sample("print", printing, (X,), ("eager", "jit", "grad", "jvp", "vmap")),
    Sample("print-text", print_text, (X,), ("text",)),
    # bad input
    Sample("bad-vmap-method", lambda n, x: pure(n, x, "all"), (X,), error="ValueError"),
    Sample("bad-vmap-none", lambda n, x: pure(n, x, None), (X,), ("vmap",), error="NotImplementedError"),
    Sample("bad-jvp", pure, (X,), ("jvp",), error="ValueError"),
    Sample("bad-jvp-io", io_plain, (X,), ("jvp", "grad"), error="ValueError"),
    Sample("bad-transpose", lambda n, x: n.jax.linear_transpose(lambda x: n.jax.pure_callback(sine, struct(n, x), x), x)(x), (X,),
           error="ValueError"),
    Sample("bad-transpose-io", lambda n, x: n.jax.linear_transpose(lambda x: io(n)(sine, struct(n, x), x), x)(x), (X,),
           error="ValueError"),
    Sample("bad-vmap-ordered", lambda n, x: io(n)(sine, struct(n, x), x, ordered=True), (X,), ("vmap",), error="ValueError"),
    Sample("bad-shape", lambda n, x: n.jax.pure_callback(lambda v: np.asarray(v)[:1], struct(n, x), x), (X,), ("eager", "jit"),
           error="JaxRuntimeError"),
    Sample("bad-dtype", lambda n, x: n.jax.pure_callback(lambda v: np.asarray(v, np.int32), struct(n, x), x), (X,), ("eager", "jit"),
           error="JaxRuntimeError"),
    Sample("bad-count", lambda n, x: n.jax.pure_callback(lambda v: (v, v), struct(n, x), x), (X,), ("eager", "jit"),
           error="JaxRuntimeError"),
    Sample("bad-none", lambda n, x: n.jax.pure_callback(lambda v: None, struct(n, x), x), (X,), ("eager", "jit"), error="JaxRuntimeError"),
    Sample("bad-raises", lambda n, x: n.jax.pure_callback(lambda v: v.no_such_thing, struct(n, x), x), (X,), ("eager", "jit"),
           error="JaxRuntimeError"),
    Sample("bad-raises-debug", lambda n, x: n.jax.debug.callback(lambda v: v.no_such_thing, x), (X,), error="AttributeError"),
    Sample("bad-not-callable", lambda n, x: n.jax.pure_callback(3, struct(n, x), x), (X,), error="JaxRuntimeError"),
    Sample("bad-float64", lambda n, x: n.jax.pure_callback(sine, struct(n, x, None, np.float64), x), (X,), error="ValueError"),
    Sample("bad-result", lambda n, x: n.jax.pure_callback(sine, (3,), x), (X,), error="AttributeError"),
    Sample("bad-vmap-of-cond", lambda n, x: n.jax.vmap(lambda p, x: n.lax.cond(p, lambda x: io(n)(sine, struct(n, x), x), lambda x: x, x))(
        x > 0, x), (X,), error="NotImplementedError"),
    Sample("bad-vmap-of-while", lambda n, x: n.jax.vmap(lambda x: n.lax.while_loop(lambda v: v < 2, lambda v: io(n)(sine, struct(n, v), v),
                                                                                  x))(x), (X,), error="Exception"),
    Sample("bad-checkpoint-io", lambda n, x: io_stopped(n, x), (X,), ("grad.checkpoint",), error="NotImplementedError"),
    Sample("bad-print-type", lambda n, x: n.jax.debug.print(3, x), (X,), error="TypeError"),
    Sample("bad-print-missing", lambda n, x: n.jax.debug.print("{} {}", x), (X,), error="IndexError"),
    Sample("bad-print-name", lambda n, x: n.jax.debug.print("{a}", x), (X,), error="KeyError"),
    Sample("bad-print-extra", lambda n, x: n.jax.debug.print("hello", x), (X,), error="ValueError"),
    Sample("bad-print-extra-name", lambda n, x: n.jax.debug.print("hello", y=x), (X,), error="ValueError"),
]
