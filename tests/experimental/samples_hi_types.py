"""Values of types of one's own in programs, beside those of the reference."""

from __future__ import annotations

import numpy as np

from tests.experimental.hi_values import quantized, vectors
from tests.reference.sample import Sample

LAWS = False  # derivatives of quantized values are not those of what is computed
X, Y = np.float32([0.3, -1.2, 2.0]), np.float32([1.5, 0.5, -1.0])
D = ("eager", "jit", "grad", "jit.grad", "jvp")
VALUE = ("eager", "jit")


def product(n, x, y):
    v = vectors(n.name)
    return v.of(v.mul(v.mul(v.to(x), v.to(y)), v.to(x)))


def through_jit(n, x, y):
    v = vectors(n.name)
    return v.of(n.jax.jit(v.mul)(v.to(x), n.jax.jit(v.add)(v.to(y), v.to(y))))


def gradient_of_a_value(n, x):
    v = vectors(n.name)
    f = lambda u: v.of(v.mul(u, v.mul(u, u))).sum()
    return n.jax.grad(f)(v.Vec(x)).arr, n.jax.grad(n.jax.jit(f))(v.Vec(x)).arr


def forwards(n, x, y):
    v = vectors(n.name)
    out, dot = n.jax.jvp(lambda u: v.mul(u, v.Vec(y)), (v.Vec(x),), (v.Vec(y),))
    return out.arr, dot.arr


def pulled_back(n, x, y):
    v = vectors(n.name)
    out, back = n.jax.vjp(n.jax.jit(v.mul), v.Vec(x), v.Vec(y))
    return [u.arr for u in (out, *back(v.Vec(x)))]


def pushed(n, x, y):
    v = vectors(n.name)
    out, push = n.jax.linearize(lambda u: v.mul(u, u), v.Vec(x))
    return out.arr, push(v.Vec(y)).arr


def in_scan(n, x, y):
    v = vectors(n.name)
    return v.of(n.lax.scan(lambda c, k: (v.mul(c, v.to(y * k)), None), v.to(x), n.jnp.arange(1.0, 4.0))[0])


def in_loop(n, x):
    v = vectors(n.name)
    return v.of(n.lax.while_loop(lambda u: v.of(u).max() < 9, lambda u: v.mul(u, u), v.to(x)))


def counted(n, x):
    v = vectors(n.name)
    i, u = n.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, v.add(s[1], s[1])), (0, v.to(x)))
    return i, v.of(u)


def in_cond(n, x, p):
    v = vectors(n.name)
    square, same = lambda u: v.mul(u, u), lambda u: u
    return v.of(n.lax.cond(p > 0, square, same, v.to(x)))


def in_switch(n, i, x):
    v = vectors(n.name)
    return v.of(n.lax.switch(i, [lambda u: u, lambda u: v.mul(u, u), lambda u: v.add(u, u)], v.to(x)))


def several_results(n, x):
    v = vectors(n.name)
    a, b = v.split(v.to(x), 1)
    return v.of(v.mul(a, a)), v.of(b)


def one_result_of_several(n, x):
    v = vectors(n.name)
    return v.of(v.split(v.to(x), 1)[1])


def ruled(n, x):
    v = vectors(n.name)

    @n.jax.custom_vjp
    def square(u):
        return v.mul(u, u)

    square.defvjp(lambda u: (v.mul(u, u), u), lambda u, g: (v.add(g, g),))
    return v.of(square(v.to(x)))


def closed_over(n, x):
    v = vectors(n.name)
    u = v.Vec(n.jnp.asarray(Y))
    return v.of(n.jax.jit(lambda x: v.mul(v.to(x), u))(x))


def round_trip(n, x):
    q = quantized(n.name)
    return q.dequantize(n.jax.jit(lambda q: q)(q.quantize(x)))


def slope(n, x):
    q = quantized(n.name)
    return n.jax.grad(lambda x: (q.dequantize(q.quantize(x)) ** 2).sum())(x)


def slope_of_a_value(n, x):
    q = quantized(n.name)
    return n.jax.grad(lambda q_: (q.dequantize(q_) ** 2).sum())(q.quantize(x))


def same_text(n, x):
    v = vectors(n.name)
    text = str(n.jax.make_jaxpr(lambda u: v.of(v.mul(u, u)))(v.Vec(x)))
    return np.frombuffer(text.encode(), np.uint8)


def shapes(n, x):
    v = vectors(n.name)
    out = n.jax.eval_shape(lambda u: v.split(u, 1), v.Vec(x))
    return [np.asarray(a.shape) for a in out]


def ahead(n, x):
    v = vectors(n.name)
    return n.jax.jit(lambda u: v.mul(u, u)).lower(v.Vec(n.jnp.asarray(x))).compile()(v.Vec(n.jnp.asarray(x))).arr


def wrong_types(n, x, y):
    v = vectors(n.name)
    return v.of(v.mul(v.to(x), v.to(y[:2])))


def an_operation_on_arrays(n, x):
    return n.jnp.sin(vectors(n.name).Vec(x))


SAMPLES = [
    Sample("product", product, [X, Y], D),
    Sample("through_jit", through_jit, [X, Y], D),
    Sample("gradient_of_a_value", gradient_of_a_value, [X], ("eager",)),
    Sample("forwards", forwards, [X, Y], ("eager",)),
    Sample("pulled_back", pulled_back, [X, Y], ("eager",)),
    Sample("pushed", pushed, [X, Y], ("eager",)),
    Sample("in_scan", in_scan, [X, Y], ("eager",)),
    Sample("in_loop", in_loop, [X], VALUE),
    Sample("counted", counted, [X], VALUE),
    Sample("in_cond", in_cond, [X, np.float32(1)], ("eager", "jvp")),
    Sample("in_other_branch", in_cond, [X, np.float32(-1)], ("eager",)),
    Sample("in_switch", in_switch, [np.int32(2), X], ("eager",)),
    Sample("several_results", several_results, [X], D),
    Sample("one_result_of_several", one_result_of_several, [X], VALUE),
    Sample("ruled", ruled, [X], VALUE),
    Sample("closed_over", closed_over, [X], ("eager",)),
    Sample("round_trip", round_trip, [X], VALUE),
    Sample("slope", slope, [X], VALUE),
    Sample("slope_of_a_value", slope_of_a_value, [X], VALUE),
    Sample("same_text", same_text, [X], ("eager",)),
    Sample("shapes", shapes, [X], ("eager",)),
    Sample("ahead", ahead, [X], ("eager",)),
    Sample("wrong_types", wrong_types, [X, Y], VALUE, error="TypeError"),
    Sample("an_operation_on_arrays", an_operation_on_arrays, [X], ("eager",), error="TypeError"),
]  # fmt: skip
