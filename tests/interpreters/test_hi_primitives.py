"""Values of hi types under transformations, where the reference has no answer: each program agrees with the same one on arrays."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.experimental.hi_values import quantized, vectors
from xlab import lax
from xlab.core.check import check_jaxpr
from xlab.experimental.hijax import HiPrimitive, ShapedArray

V = vectors("xlab")
X = jnp.float32([[1.0, 2.0, -1.0], [0.5, 3.0, 2.0]])
Y = jnp.float32([2.0, 0.5, 1.5])
VALUE, ARRAY = (V.to, V.of, V.mul, V.add), (jnp.asarray, jnp.asarray, jnp.multiply, jnp.add)


def scanned(to, of, mul, add):
    """A carry, a constant and rows."""
    c = to(Y)

    def body(u, x):
        return mul(u, add(c, u)), of(mul(c, to(x)))

    def f(x):
        u, ys = lax.scan(body, to(x), X)
        return (of(u).sum() + ys.sum()) / 100

    return f


def rows_of_values(to, of, mul, add):
    def f(x):
        _, us = lax.scan(lambda u, _: (mul(u, to(Y)), u), to(x), None, length=3)
        u, _ = lax.scan(lambda u, v: (add(u, mul(v, v)), None), to(x), us, length=3)
        return of(u).sum() / 10

    return f


def chosen(to, of, mul, add):
    def f(x):
        u = lax.cond(x[0] > 0.7, lambda u: mul(u, u), lambda u: mul(u, to(Y)), to(x))
        return of(u).sum()

    return f


def switched(to, of, mul, add):
    def f(x):
        branches = [lambda u: mul(u, u), lambda u: add(u, u), lambda u: u]
        return of(lax.switch(jnp.int32(x[0]), branches, to(x))).sum()

    return f


def rematerialized(to, of, mul, add):
    return xlab.checkpoint(lambda x: of(mul(mul(to(x), to(x)), to(Y))).sum())


def with_forward_rule(to, of, mul, add):
    @xlab.custom_jvp
    def square(u):
        return mul(u, u)

    square.defjvp(lambda p, t: (mul(*p, *p), add(mul(*p, *t), mul(*p, *t))))
    return lambda x: of(square(to(x))).sum()


def with_backward_rule(to, of, mul, add):
    @xlab.custom_vjp
    def square(u):
        return mul(u, u)

    square.defvjp(lambda u: (mul(u, u), u), lambda u, g: (mul(add(u, u), g),))
    return lambda x: of(square(to(x))).sum()


PROGRAMS = [
    scanned,
    rows_of_values,
    chosen,
    switched,
    rematerialized,
    with_forward_rule,
    with_backward_rule,
]
TRANSFORMS = {
    "jit.grad": lambda f: xlab.jit(xlab.grad(f)),
    "grad.jit": lambda f: xlab.grad(xlab.jit(f)),
    "jvp": lambda f: lambda x: xlab.jvp(f, (x,), (Y,)),
}
MAPPED = {
    "vmap": lambda f: xlab.vmap(f),
    "grad.vmap": lambda f: xlab.grad(lambda xs: xlab.vmap(f)(xs).sum()),
    "jit.vmap.grad": lambda f: xlab.jit(xlab.vmap(xlab.grad(f))),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_on_values_is_the_one_on_arrays(program):
    f, g = program(*VALUE), program(*ARRAY)
    for transforms, x in ((TRANSFORMS, X[0]), (MAPPED, X)):
        for name, transform in transforms.items():
            if name == "jvp" and program is with_backward_rule:
                continue
            for a, b in zip(xlab.tree.leaves(transform(f)(x)), xlab.tree.leaves(transform(g)(x))):
                np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)


def test_loops_that_end_per_example():
    def f(to, of, mul, add):
        return lambda x: of(lax.while_loop(lambda u: of(u).sum() < 50, lambda u: add(u, u), to(x)))

    np.testing.assert_allclose(xlab.vmap(f(*VALUE))(X + 2), xlab.vmap(f(*ARRAY))(X + 2))


def test_second_derivatives_and_nested_maps():
    f, g = (lambda x: of(mul(mul(to(x), to(x)), to(Y))).sum() for to, of, mul, _ in (VALUE, ARRAY))
    np.testing.assert_allclose(xlab.hessian(f)(Y), xlab.hessian(g)(Y))
    twice = lambda h: xlab.vmap(xlab.vmap(h))(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(twice(f), twice(g))


def test_a_value_that_is_the_same_for_all_examples_gets_the_sum_of_cotangents():
    c = V.Vec(Y)
    g = xlab.grad(lambda c: xlab.vmap(lambda x: V.of(V.mul(V.to(x), c)))(X).sum())(c)
    np.testing.assert_allclose(g.arr, X.sum(0))


def test_derivatives_are_well_formed_programs():
    f = lambda u: V.of(V.mul(u, V.mul(u, u))).sum()
    text = str(closed := xlab.make_jaxpr(xlab.grad(f))(V.Vec(Y)))
    check_jaxpr(closed)
    assert "VecType(shape=(3,)) = mul_vec" in text and "of_vec" in text


def test_values_made_in_a_program_of_traced_arrays():
    f = xlab.jit(lambda x: (V.of(V.mul(V.Vec(x), V.Vec(x))), V.Vec(2 * x)))
    square, double = f(Y)
    np.testing.assert_allclose(square, Y * Y)
    np.testing.assert_allclose(double.arr, 2 * Y)
    slope = xlab.grad(lambda x: V.of(V.mul(V.Vec(x), V.Vec(x))).sum())(Y)
    np.testing.assert_allclose(slope, 2 * Y)


def test_tangents_of_another_type():
    q = quantized("xlab")
    loss = lambda x: (q.dequantize(q.quantize(x)) ** 2).sum()
    per_example = [xlab.grad(loss)(x) for x in X]
    np.testing.assert_allclose(xlab.jit(xlab.vmap(xlab.grad(loss)))(X), per_example, rtol=1e-6)

    def through_scan(x):
        u, _ = lax.scan(
            lambda u, _: (q.quantize(q.dequantize(u)), None), q.quantize(x), None, length=2
        )
        return q.dequantize(u).sum()

    np.testing.assert_allclose(xlab.grad(through_scan)(Y), 27 * np.ones(3))


def test_results_of_vmap_are_batches():
    out = xlab.vmap(lambda x: V.mul(V.to(x), V.to(x)))(X)
    assert str(xlab.typeof(out)) == "vectors.<locals>.VecType(shape=(3,))[2]"
    np.testing.assert_allclose(xlab.vmap(V.of)(out), X * X)


def test_rules_that_are_missing():
    class Bare(HiPrimitive):
        def abstract_eval(self, x):
            return x, set()

        def to_lojax(self, x):
            return x

    bare = Bare("bare").bind
    assert float(bare(2.0)) == 2
    with pytest.raises(NotImplementedError, match=r"'bare' needs the method `jvp` .* class Bare"):
        xlab.grad(bare)(2.0)
    with pytest.raises(NotImplementedError, match="`abstract_eval`"):
        xlab.jit(HiPrimitive("nothing").bind)(2.0)
    with pytest.raises(NotImplementedError, match="`to_lojax`"):
        HiPrimitive("nothing").bind(2.0)


def test_a_rule_for_batches_of_its_own():
    class Rows(HiPrimitive):
        def abstract_eval(self, x):
            return ShapedArray((), x.dtype), set()

        def to_lojax(self, x):
            return x.sum()

        def batch(self, axis, args, dims):
            seen.append((axis.size, dims))
            return args[0].sum(1 - dims[0]), 0

    seen: list = []
    rows = Rows("rows")
    np.testing.assert_allclose(xlab.vmap(rows.bind, in_axes=1)(X), X.sum(0))
    assert seen == [(3, (1,))]


def test_effects_keep_an_operation_without_results():
    class Note(HiPrimitive):
        multiple_results = True

        def is_effectful(self, params):
            return True

        def abstract_eval(self, x):
            return [], set()

        def to_lojax(self, x):
            xlab.debug.callback(lambda x: seen.append(float(x)), x)
            return []

    seen: list = []
    note = Note("note")
    xlab.jit(lambda x: (note.bind(x), x)[1])(2.0)
    xlab.effects_barrier()
    assert seen == [2.0]
