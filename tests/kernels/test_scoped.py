"""References for a part of a program: allocation, effects, transformations."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.core import effects
from xlab.interpreters.discharge import discharge_state
from xlab.kernels import (
    BlockSpec,
    MemorySpace,
    SemaphoreType,
    kernel_call,
    run_scoped,
    run_state,
    semaphore_read,
    with_scoped,
)

X = np.arange(4, dtype=np.float32)
F4 = xlab.ShapeDtypeStruct((4,), "float32")
LOCAL = MemorySpace.LOCAL
TMP = LOCAL((4,), "float32")


def run(kernel, *args, out=F4, **options):
    return kernel_call(kernel, out, interpret=True, **options)(*args)


@pytest.mark.usefixtures("both")
def test_k19_a_scope_gives_references_and_returns_a_value():
    def kernel(x, o):
        def body(tmp, *, count):
            tmp[...] = x[...] + 1
            count[...] = 5
            o[...] = tmp[...] * 2
            return {"first": tmp[0], "count": count[...]}

        found = run_scoped(body, TMP, count=LOCAL((), "int32"))
        o[0] = found["first"] + found["count"]

    assert run(kernel, X).tolist() == [6, 4, 6, 8]


@pytest.mark.usefixtures("both")
def test_k19_contents_are_uninitialized_at_first_and_at_every_step():
    def kernel(o):
        def body(tmp, flag, sem):
            first = tmp[...]
            tmp[...] = jnp.zeros(1)
            return first + semaphore_read(sem) + flag[...].astype(jnp.float32)

        o[...] = run_scoped(
            body, LOCAL((1,), "float32"), LOCAL((1,), "bool"), SemaphoreType.REGULAR
        )

    out = run(kernel, grid=4, out_specs=BlockSpec((1,), lambda i: (i,)))
    assert np.isnan(out).all()
    assert run_scoped(lambda r: r[...], LOCAL((2,), "int32")).tolist() == [-(2**31)] * 2


def test_k19_trees_of_types_and_scopes_inside_scopes():
    def body(tree):
        tree["a"][...] = jnp.ones(4)

        def inner(tmp):
            tmp[...] = tree["a"][...] * 3
            tree["b"][...] = tmp[1]

        run_scoped(inner, TMP)
        return tree["b"][...]

    types = {"a": TMP, "b": xlab.ShapeDtypeStruct((), "float32")}
    assert float(run_scoped(body, types)) == 3
    assert float(xlab.jit(lambda: run_scoped(body, types))()) == 3


def test_k19_effects_on_what_is_captured_escape_and_those_on_its_own_do_not():
    def f(ref, x):
        def body(tmp):
            tmp[...] = x
            ref[...] += tmp[...]

        run_scoped(body, TMP)

    closed = xlab.make_jaxpr(f)(xlab.new_ref(X), X)
    (eqn,) = closed.eqns
    at = eqn.invars.index(closed.jaxpr.invars[0])
    escaped = {effects.ReadEffect(at), effects.WriteEffect(at), effects.INTERNAL_REF}
    assert set(eqn.effects) == escaped
    assert {e.input for e in closed.effects if isinstance(e, effects.RefEffect)} == {0}
    alone = xlab.make_jaxpr(lambda x: run_scoped(lambda t: t.swap(x), TMP))(X)
    assert not any(isinstance(e, effects.RefEffect) for e in alone.effects)


def test_k13_scopes_are_discharged():
    def f(ref, x):
        def body(tmp):
            tmp[...] = x
            ref[...] += tmp[...]
            return tmp[2]

        return run_scoped(body, TMP) * 10

    closed = discharge_state(xlab.make_jaxpr(f)(xlab.new_ref(X), X))
    assert {e.primitive.name for e in closed.eqns} <= {"add", "mul", "slice", "reshape"}
    ref = xlab.new_ref(X)
    assert float(xlab.jit(f)(ref, X * 2)) == 40 and ref[...].tolist() == [0, 3, 6, 9]
    assert float(f(ref, X)) == 20 and ref[...].tolist() == [0, 4, 8, 12]


@pytest.mark.usefixtures("both")
def test_k19_in_branches_and_loops():
    def kernel(x, o):
        def step(i, total):
            def body(tmp):
                tmp[...] = x[...] * i
                return tmp[...]

            return total + run_scoped(body, TMP)

        total = xlab.lax.fori_loop(0, 4, step, jnp.zeros(4))
        o[...] = xlab.lax.cond(
            total[1] > 0, lambda: run_scoped(lambda t: t.swap(total), TMP) * 0 + 1, lambda: total
        )

    out = run(kernel, X)
    assert np.isnan(out).all()  # the old contents of a scope, times zero


def test_k19_derivatives_and_examples():
    def f(x):
        def body(tmp, count):
            tmp[...] = jnp.sin(x)
            count[...] = 2
            tmp[0] = tmp[0] * count[...]
            return tmp[...] * tmp[1], count[...]

        return run_scoped(body, TMP, LOCAL((), "int32"))[0]

    def plain(x):
        y = jnp.sin(x).at[0].mul(2)
        return y * y[1]

    tangent = np.cos(X)
    for got, wanted in zip(xlab.jvp(f, (X,), (tangent,)), xlab.jvp(plain, (X,), (tangent,))):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    xs = np.stack([X, X + 1, X * 2])
    np.testing.assert_allclose(xlab.vmap(f)(xs), xlab.vmap(plain)(xs), rtol=1e-6)
    np.testing.assert_allclose(
        xlab.jit(xlab.vmap(lambda x: xlab.jvp(f, (x,), (x,))[1]))(xs),
        xlab.vmap(lambda x: xlab.jvp(plain, (x,), (x,))[1])(xs),
        rtol=1e-6,
    )


def test_k19_what_is_no_type_and_what_may_not_leave():
    with pytest.raises(ValueError, match="expected the type of an array .* got 3 of type int"):
        run_scoped(lambda r: None, 3)
    with pytest.raises(ValueError, match="references cannot be returned"):
        run_scoped(lambda r: r, TMP)


def test_k19_a_shared_allocation_needs_the_value_interpreter():
    def kernel(o):
        def body(tmp):
            tmp[...] = jnp.ones(4)
            o[...] = tmp[...]

        run_scoped(body, TMP, collective_axes="core")

    with pytest.raises(NotImplementedError, match=r"along \('core',\), .* interpret='value'"):
        run(kernel)
    closed = xlab.make_jaxpr(lambda: run_scoped(lambda t: t[0], TMP, collective_axes=("a", "b")))()
    assert closed.eqns[0].params["collective_axes"] == ("a", "b")


@pytest.mark.usefixtures("both")
def test_k19_the_decorator():
    def kernel(x, o):
        @with_scoped(TMP, count=LOCAL((), "int32"))
        def body(scale, tmp, *, shift, count):
            """Scales."""
            count[...] = shift
            tmp[...] = x[...] * scale + count[...]
            o[...] = tmp[...]

        assert body.__doc__ == "Scales."
        body(3.0, shift=2)

    assert run(kernel, X).tolist() == [2, 5, 8, 11]


def test_k19_run_state():
    def body(refs):
        a, b = refs["a"], refs["b"]
        a[0] = b[1] * 2
        b[...] += a[0]

    f = run_state(body)
    given = {"a": X, "b": X * X}
    for out in (f(given), xlab.jit(f)(given)):
        assert out["a"].tolist() == [2, 1, 2, 3] and out["b"].tolist() == [2, 3, 6, 11]
    assert given["a"].tolist() == X.tolist()
    g = xlab.grad(lambda x: f({"a": x, "b": x * x})["b"].sum())(X)
    assert g.tolist() == [0, 2 + 16, 4, 6]

    def returns(ref):
        return 3

    with pytest.raises(ValueError, match="returns None; returns returned 3"):
        run_state(returns)(X)
