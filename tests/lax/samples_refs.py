"""Samples of mutable references: accesses, updates, references in control flow, derivatives, batches, errors."""

from __future__ import annotations

import numpy as np

from tests.reference.data import floats, ints
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

X, M, I = floats(3), floats(3, 4), np.array([2, 0], np.int32)
MORE = (*ALL, "linearize", "jit.grad", "grad.jit", "vmap.grad", "jvp.jvp")


def get(index):
    def fun(n, x):
        return n.jax.new_ref(x)[index(n)]
    return fun


def put(index, value):
    """Writes `value(x, part)` to a part, and returns everything."""
    def fun(n, x):
        ref = n.jax.new_ref(x)
        part = ref[index(n)]
        ref[index(n)] = value(n, part)
        return ref[...]
    return fun


def add(index):
    def fun(n, x):
        ref = n.jax.new_ref(x)
        part = ref[index(n)]
        n.jax.ref.addupdate(ref, index(n), n.jnp.sin(part))
        return n.jax.ref.freeze(ref)
    return fun


def swapped(n, x):
    ref = n.jax.new_ref(x)
    old = n.jax.ref.swap(ref, slice(0, 2), n.jnp.cos(x[1:]))
    return old * 2 + ref[0], ref[...]


PLACES = {
    "whole": lambda n: ..., "integer": lambda n: 1, "negative": lambda n: -1, "slice": lambda n: slice(1, 3),
    "strided": lambda n: slice(0, 3, 2), "column": lambda n: (slice(None), 2), "corner": lambda n: (1, slice(0, 2)),
    "array": lambda n: n.jnp.array([2, 0]), "points": lambda n: (n.jnp.array([2, 0]), n.jnp.array([1, 3])),
    "rows_of_points": lambda n: (n.jnp.array([[0], [1]]), n.jnp.array([1, 3])),
    "dots": lambda n: (..., slice(1, 4)), "window": lambda n: (n.jax.ds(1, 2), slice(None)),
    "strides_and_points": lambda n: (slice(0, 3, 2), n.jnp.array([3, 0, 1])),
}

ACCESS = [
    *(Sample(f"get_{name}", get(index), [M]) for name, index in PLACES.items()),
    *(Sample(f"set_{name}", put(index, lambda n, part: n.jnp.sin(part) * 2), [M]) for name, index in PLACES.items()),
    *(Sample(f"add_{name}", add(index), [M]) for name, index in PLACES.items()),
    Sample("swap", swapped, [X], MORE),
    Sample("repeated_positions", lambda n, x: _repeated(n, x), [X]),
    Sample("dynamic_index", lambda n, x, i: _dynamic(n, x, i), [X, np.int32(1)], ("jit", "text", "jit.grad")),
    Sample("index_per_example", lambda n, x, i: _per_example(n, x, i), [floats(2, 3), I], VALUE),
    Sample("integers", lambda n, x: put(lambda n: 0, lambda n, p: p + 1)(n, x), [ints(3)], WHOLE),
    Sample("weak", lambda n: n.jax.new_ref(3)[...], [], VALUE),
    Sample("half", lambda n, x: put(lambda n: 0, lambda n, p: 1.5)(n, x.astype(n.jnp.bfloat16)), [X], WHOLE),
    Sample("empty", lambda n, x: _empty(n, x), [X], ("jit", "jit.grad", "text")),
    Sample("views", lambda n, x: n.jax.jit(lambda r: r.at[1:].at[0:1][...])(n.jax.new_ref(x)), [X], VALUE),
]


def _repeated(n, x):
    ref = n.jax.new_ref(x)
    n.jax.ref.addupdate(ref, n.jnp.array([1, 1, 0]), n.jnp.sin(x))
    return ref[...]


def _dynamic(n, x, i):
    ref = n.jax.new_ref(x)
    a, b = ref[i], ref[n.jax.ds(i, 2)]
    ref[i] = a * b[1]
    return ref[...], b


def _per_example(n, x, i):
    def one(r, k):
        v = r[k]
        n.jax.ref.addupdate(r, k, v * 10)
        return r[...]
    return n.jax.vmap(one)(n.jax.new_ref(x), i)


def _empty(n, x):
    ref = n.jax.empty_ref(n.jax.typeof(x))
    ref[...] = x * 2
    out = ref[...]
    n.jax.free_ref(ref)
    return out


# -- views and positions outside, in compiled programs (K10, K11) --------------------------------------------


def viewed(access):
    """What an access of a traced reference gives, and what it leaves."""
    def fun(n, x, i):
        ref = n.jax.new_ref(x)
        out = n.jax.jit(access, static_argnums=0)(n, ref, i)
        return out, ref[...]
    return fun


def _nested_write(n, r, i):
    r.at[1:].at[1][2:] = n.jnp.ones(2) * 10


def _window_write(n, r, i):
    r[n.jax.ds(i, 2)] = n.jnp.ones((2, 4)) * 10


def _strided_write(n, r, i):
    r[n.jax.ds(i, 2, 2)] = n.jnp.ones((2, 4)) * 10


def _point_write(n, r, i):
    r[i] = n.jnp.ones(4) * 10


def _points_write(n, r, i):
    r[i + n.jnp.arange(2)] = n.jnp.ones((2, 4)) * 10


def _points_add(n, r, i):
    n.jax.ref.addupdate(r, (i + n.jnp.arange(2), n.jnp.array([1, 1])), n.jnp.ones(2) * 10)


def _repeated_write(n, r, i):
    r[n.jnp.array([1, 1, 0, 1]), i] = n.jnp.arange(4.0)


VIEWS = {
    "reshape": lambda n, r, i: r.reshape(4, 3)[1], "reshape_rest": lambda n, r, i: r.reshape(-1, 2)[n.jax.ds(i, 2)],
    "bits": lambda n, r, i: r.bitcast(n.jnp.int32)[1], "at_at": lambda n, r, i: r.at[1:].at[0:1, 2][...],
    "at_reshape": lambda n, r, i: r.at[1].reshape(2, 2)[i, 1], "nested_write": _nested_write,
}
OUTSIDE = {
    "point": lambda n, r, i: r[i], "window": lambda n, r, i: r[n.jax.ds(i, 2)], "strided": lambda n, r, i: r[n.jax.ds(i, 2, 2)],
    "points": lambda n, r, i: r[i + n.jnp.arange(2)], "column": lambda n, r, i: r[:, i], "corner": lambda n, r, i: r[i, n.jax.ds(i, 3)],
    "window_write": _window_write, "strided_write": _strided_write, "point_write": _point_write, "points_write": _points_write,
    "points_add": _points_add, "repeated_write": _repeated_write,
}
ACCESS += [
    *(Sample(f"view_{name}", viewed(access), [M, np.int32(1)], VALUE) for name, access in VIEWS.items()),
    *(Sample(f"outside_{name}_{i}", viewed(access), [M, np.int32(i)], VALUE)
      for name, access in OUTSIDE.items() for i in (-7, -2, -1, 1, 2, 5)),
]


# -- programs -----------------------------------------------------------------------------------------------


def chain(n, x):
    ref = n.jax.new_ref(x)
    ref[0] = n.jnp.sin(x[1])
    ref[...] = ref[...] * 2
    n.jax.ref.addupdate(ref, 1, x[0])
    return ref[...]


def in_scan(n, x):
    ref = n.jax.new_ref(n.jnp.zeros(()))

    def body(c, v):
        ref[...] += c * v
        return c * n.jnp.sin(ref[...]), ref[...]
    c, ys = n.lax.scan(body, x[1], x)
    return c + ref[...], ys


def scan_elements(n, x):
    ref = n.jax.new_ref(x)

    def body(c, r):
        r[...] = r[...] * c
        return c + 1.0, None
    n.lax.scan(body, 1.0, ref)
    return ref[...]


def in_fori(n, x):
    ref = n.jax.new_ref(x)

    def body(i, c):
        ref[i] = n.jnp.sin(ref[i]) * c
        return c + 1.0
    n.lax.fori_loop(0, 3, body, 1.0)
    return ref[...]


def in_while(n, x):
    ref = n.jax.new_ref(x)

    def body(i):
        ref[0] = ref[0] * 1.5
        return i + 1
    n.lax.while_loop(lambda i: i < 3, body, 0)
    return ref[...]


def in_cond(n, x, p):
    ref = n.jax.new_ref(x)
    n.lax.cond(p, lambda: n.jax.ref.set(ref, 0, n.jnp.sin(ref[1])), lambda: n.jax.ref.set(ref, 1, 2.0))
    return ref[...]


def in_jit(n, x):
    ref = n.jax.new_ref(n.jnp.zeros(3))

    def inner(y):
        ref[0] = n.jnp.sin(y[1])
        return (ref[...] ** 2).sum()
    return n.jax.jit(inner)(x) + ref[0]


def in_custom_jvp(n, x):
    ref = n.jax.new_ref(x)

    @n.jax.custom_jvp
    def f(y):
        return y * 2
    f.defjvps(lambda t, out, y: 3 * t)
    ref[0] = f(x[0])
    return ref[...]


def in_checkpoint(n, x):
    @n.jax.checkpoint
    def f(y):
        ref = n.jax.new_ref(y)
        ref[0] = n.jnp.sin(ref[1])
        return n.jnp.sin(ref[...])
    return f(x)


def gradient_log(n, x):
    log = n.jax.new_ref(n.jnp.zeros(()))

    @n.jax.custom_vjp
    def watch(y, log):
        return y

    def backward(log, ct):
        log[...] += ct
        return ct, None
    watch.defvjp(lambda y, log: (y, log), backward)
    grad = n.jax.grad(lambda x: n.lax.scan(lambda c, _: (watch(c, log) ** 2, None), x, None, length=2)[0])(x)
    return grad, log[...]


def accumulated(n, x):
    total = n.jax.new_ref(n.jnp.ones(3))
    for k in range(2):
        _, pullback = n.jax.vjp(lambda x, k=k: n.jnp.sin(x) * (k + 1), x)
        pullback.with_refs(total)(n.jnp.ones(3))
    return total[...]


def logged(n, x):
    ref = n.jax.new_ref(n.jnp.zeros(()))

    def f(x):
        ref[...] = n.lax.stop_gradient(x.sum())
        return (x ** 2).sum()
    return n.jax.grad(f)(x), ref[...]


def ungraded(n, x):
    ref = n.jax.new_ref(n.jnp.zeros(()), kind="no_grad_no_remat")

    def f(x):
        ref[...] = x.sum()
        return (x ** 2).sum()
    return n.jax.grad(f)(x), ref[...]


def as_argument(n, x):
    @n.jax.jit
    def step(ref, v):
        ref[0] += v.sum()
        return ref[...] * 2
    ref = n.jax.new_ref(x)
    return step(ref, x), step(ref, x), ref[...]


def closed_over(n, x):
    ref = n.jax.new_ref(x)
    count = n.jax.jit(lambda v: n.jax.ref.set(ref, 1, ref[1] * v))
    count(2.0)
    count(3.0)
    return ref[...]


def with_tangent(n, x):
    return n.jax.jvp(lambda r: (r[...] ** 2).sum(), (n.jax.new_ref(x),), (n.jax.new_ref(n.jnp.cos(x)),))


def mapped_argument(n, x):
    ref = n.jax.new_ref(x)

    def one(r, v):
        r[1] = v
        return r[...]
    return n.jax.vmap(one, in_axes=(1, 0))(ref, n.jnp.arange(4.0)), ref[...]


PROGRAMS = [
    Sample("chain", chain, [X], (*MORE, "text", "text.vmap", "text.jvp")),
    Sample("in_scan", in_scan, [X], MORE),
    Sample("scan_elements", scan_elements, [X], (*VALUE, "jvp")),
    Sample("in_fori", in_fori, [X], MORE),
    Sample("in_while", in_while, [X], (*VALUE, "jvp")),
    Sample("in_cond", in_cond, [X, True], (*VALUE, "primitives", "jvp")),
    Sample("in_jit", in_jit, [X], MORE),
    Sample("in_custom_jvp", in_custom_jvp, [X], ALL, lawful=False),
    Sample("in_checkpoint", in_checkpoint, [X], MORE),
    Sample("gradient_log", gradient_log, [np.float32(1.5)], VALUE),
    Sample("accumulated", accumulated, [X], VALUE),
    Sample("logged", logged, [X], VALUE),
    Sample("ungraded", ungraded, [X], VALUE),
    Sample("as_argument", as_argument, [X], VALUE),
    Sample("closed_over", closed_over, [X], VALUE),
    Sample("with_tangent", with_tangent, [X], VALUE),
    Sample("mapped_argument", mapped_argument, [M], VALUE),
]


# -- errors -------------------------------------------------------------------------------------------------


def wrong(fun, error="ValueError", args=(X,)):
    return {"fun": fun, "args": list(args), "error": error, "transforms": ("eager",)}


def _given_and_closed(n, x):
    ref = n.jax.new_ref(x)
    return n.jax.jit(lambda r: r[...] + ref[...])(ref)


def _written_by_gradient(n, x):
    ref = n.jax.new_ref(0.0)

    def f(x):
        ref[...] = x.sum()
        return x.sum()
    return n.jax.grad(f)(x)


def _written_by_examples(n, x):
    ref = n.jax.new_ref(0.0)
    return n.jax.vmap(lambda v: n.jax.ref.set(ref, ..., v))(x)


WRONG = {
    "returned": wrong(lambda n, x: n.jax.jit(lambda r: r)(n.jax.new_ref(x))),
    "returned_new": wrong(lambda n, x: n.jax.jit(lambda x: n.jax.new_ref(x))(x)),
    "carried": wrong(lambda n, x: n.lax.scan(lambda r, _: (r, None), n.jax.new_ref(x), None, length=2)),
    "twice": wrong(lambda n, x: (lambda r: n.jax.jit(lambda a, b: a[...] + b[...])(r, r))(n.jax.new_ref(x))),
    "given_and_closed": wrong(_given_and_closed),
    "unread": wrong(lambda n, x: n.lax.sin(n.jax.new_ref(x))),
    "unread_numpy": wrong(lambda n, x: n.jnp.sin(n.jax.new_ref(x)), "TypeError"),
    "unread_traced": wrong(lambda n, x: n.jax.jit(lambda r: n.lax.sin(r))(n.jax.new_ref(x))),
    "operator": wrong(lambda n, x: n.jax.new_ref(x) + 1, "TypeError"),
    "shape": wrong(lambda n, x: n.jax.ref.set(n.jax.new_ref(x), slice(0, 2), n.jnp.ones(3))),
    "broadcast": wrong(lambda n, x: n.jax.ref.set(n.jax.new_ref(x), slice(0, 2), 1.0)),
    "dtype": wrong(lambda n, x: n.jax.ref.set(n.jax.new_ref(x), 0, 1)),
    "add_dtype": wrong(lambda n, x: n.jax.ref.addupdate(n.jax.new_ref(x), 0, 1)),
    "add_shape": wrong(lambda n, x: n.jax.ref.addupdate(n.jax.new_ref(x), ..., 1.0)),
    "ref_in_ref": wrong(lambda n, x: n.jax.ref.set(n.jax.new_ref(x), ..., n.jax.new_ref(x))),
    "list_value": wrong(lambda n, x: n.jax.ref.set(n.jax.new_ref(x), slice(0, 2), [1.0, 2.0]), "TypeError"),
    "outside": wrong(lambda n, x: n.jax.new_ref(x)[7]),
    "outside_window": wrong(lambda n, x: n.jax.new_ref(x)[n.jax.ds(2, 3)]),
    "backwards": wrong(lambda n, x: n.jax.new_ref(x)[::-1]),
    "too_many": wrong(lambda n, x: n.jax.new_ref(x)[0, 0]),
    "two_dots": wrong(lambda n, x: n.jax.new_ref(x)[..., ...]),
    "mask": wrong(lambda n, x: n.jax.new_ref(x)[np.array([True, False, True])], "IndexError"),
    "word": wrong(lambda n, x: n.jax.new_ref(x)["a"], "TypeError"),
    "get_array": wrong(lambda n, x: n.jax.ref.get(n.jnp.asarray(x), 0)),
    "set_array": wrong(lambda n, x: n.jax.ref.set(n.jnp.asarray(x), 0, 1.0)),
    "swap_array": wrong(lambda n, x: n.jax.ref.swap(n.jnp.asarray(x), 0, 1.0)),
    "add_array": wrong(lambda n, x: n.jax.ref.addupdate(n.jnp.asarray(x), 0, 1.0)),
    "new_list": wrong(lambda n, x: n.jax.new_ref([1, 2]), "TypeError"),
    "new_tree": wrong(lambda n, x: n.jax.new_ref({"a": x}), "TypeError"),
    "written_by_gradient": wrong(_written_by_gradient, "Exception"),
    "written_by_examples": wrong(_written_by_examples, "Exception"),
    "array_tangent": wrong(lambda n, x: n.jax.jvp(lambda r: r[...].sum(), (n.jax.new_ref(x),), (x,))),
}

SAMPLES = [*ACCESS, *PROGRAMS, *(Sample(f"wrong_{name}", **row) for name, row in WRONG.items())]
