"""Custom calls in derivatives: batching rules, linear calls, transposes, offloading policies, mapped mesh axes."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.ad_checkpoint import Offloadable, Recompute, Saveable, checkpoint_name, saved_residuals
from xlab.custom_batching import custom_vmap
from xlab.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
    linear_call,
    zero_from_primal,
)

X = jnp.arange(3.0)


def with_rule(factor):
    @custom_vmap
    def f(x):
        return jnp.sin(x)

    @f.def_vmap
    def rule(size, in_batched, x):
        return jnp.cos(x) * factor, in_batched[0]

    return f


def test_a_gradient_under_vmap_uses_the_batching_rule():
    f = with_rule(10.0)
    want = -10.0 * np.sin(np.arange(3.0))
    assert float(xlab.grad(f)(0.0)) == 1.0
    np.testing.assert_allclose(xlab.vmap(xlab.grad(f))(X), want, rtol=1e-5)
    np.testing.assert_allclose(xlab.jit(xlab.vmap(xlab.grad(f)))(X), want, rtol=1e-5)
    np.testing.assert_allclose(xlab.vmap(xlab.jit(xlab.grad(f)))(X), want, rtol=1e-5)
    np.testing.assert_allclose(
        xlab.vmap(lambda x: xlab.linearize(f, x)[1](1.0))(X), want, rtol=1e-5
    )
    np.testing.assert_allclose(
        xlab.vmap(xlab.grad(xlab.grad(f)))(X), -10.0 * np.cos(np.arange(3.0)), rtol=1e-5
    )


def test_a_rule_that_agrees_with_its_function_changes_no_derivative():
    def body(x, w):
        return jnp.tanh(w @ x), jnp.sum(x**2)

    f = custom_vmap(body)

    @f.def_vmap
    def rule(size, in_batched, x, w):
        axes = tuple(0 if b else None for b in in_batched)
        return xlab.vmap(body, axes)(x, w), (True, in_batched[0])

    x, w = jnp.arange(6.0).reshape(2, 3) / 7, jnp.arange(12.0).reshape(4, 3) / 11

    def loss(fun):
        return lambda x, w: sum(o.sum() for o in fun(x, w))

    for axes in ((0, None), (None, None)):
        xs = x if axes[0] == 0 else x[0]
        for fun in (
            lambda g: xlab.vmap(xlab.grad(loss(g), (0, 1)), axes, axis_size=2),
            lambda g: xlab.vmap(xlab.jit(xlab.grad(loss(g), (0, 1))), axes, axis_size=2),
            lambda g: xlab.vmap(xlab.jacrev(xlab.grad(loss(g))), axes, axis_size=2),
        ):
            got, want = fun(f)(xs, w), fun(body)(xs, w)
            xlab.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, want
            )


def test_integer_results_of_a_custom_rule_can_be_batched():
    @xlab.custom_jvp
    def f(x):
        return x * 2, jnp.sum(x > 0), 3

    @f.defjvp
    def _(primals, tangents):
        zero = np.zeros((), xlab.dtypes.float0)
        return f(*primals), (tangents[0], zero, zero)

    (_, count, three), (dy, *zeros) = xlab.vmap(lambda x: xlab.jvp(f, (x,), (x,)))(jnp.ones((3, 2)))
    assert count.tolist() == [2, 2, 2] and three.tolist() == [3, 3, 3]
    assert [z.shape for z in zeros] == [(3,), (3,)] and all(
        z.dtype == xlab.dtypes.float0 for z in zeros
    )
    np.testing.assert_array_equal(dy, np.ones((3, 2)))


def scaled(r, x):
    return linear_call(lambda r, x: x / r, lambda r, ct: ct * r * 100, r, x)


class TestLinearCall:
    def test_value_and_transpose(self):
        assert float(scaled(2.0, 1.0)) == 0.5
        transpose = xlab.linear_transpose(lambda x: scaled(2.0, x), 1.0)
        assert float(transpose(1.0)[0]) == 200.0
        assert float(xlab.linear_transpose(lambda ct: transpose(ct)[0], 1.0)(1.0)[0]) == 0.5
        assert float(xlab.grad(scaled, 1)(2.0, 1.0)) == 200.0
        assert float(xlab.jit(xlab.grad(scaled, 1))(2.0, 1.0)) == 200.0

    def test_residuals_are_differentiated_as_written(self):
        assert float(xlab.grad(scaled)(2.0, 1.0)) == -0.25
        assert [float(v) for v in xlab.jvp(scaled, (2.0, 1.0), (1.0, 1.0))] == [0.5, 0.25]

    def test_batches(self):
        r = jnp.array([1.0, 2.0, 4.0])
        np.testing.assert_allclose(xlab.vmap(scaled)(r, jnp.ones(3)), [1, 0.5, 0.25])
        np.testing.assert_allclose(
            xlab.vmap(xlab.grad(scaled, 1), (0, None))(r, 1.0), [100, 200, 400]
        )
        np.testing.assert_allclose(
            xlab.grad(lambda x: xlab.vmap(scaled)(r, x).sum())(jnp.ones(3)), [100, 200, 400]
        )

    def test_trees_and_closures(self):
        scale = jnp.float32(3.0)

        def f(x):
            return linear_call(
                lambda r, x: {"a": scale * x[0], "b": x[1]},
                lambda r, ct: (ct["a"] * r, ct["b"] * r),
                7.0,
                x,
            )

        out = f((1.0, jnp.ones(2)))
        assert float(out["a"]) == 3.0
        a, b = xlab.linear_transpose(f, (1.0, jnp.ones(2)))({"a": 1.0, "b": jnp.ones(2)})[0]
        assert float(a) == 7.0 and b.tolist() == [7.0, 7.0]

    def test_a_result_that_is_stored_in_a_reference(self):
        def f(x, y):
            a, b = linear_call(
                lambda r, v: (v[0] * 2.0, v[1] * 3.0),
                lambda r, ct: (ct[0] * 2.0, ct[1] * 3.0),
                (),
                (x, y),
            )
            r = xlab.new_ref(jnp.zeros(()))
            r[...] = a
            return r[...] * b

        assert float(xlab.grad(lambda y: xlab.jit(f)(2.0, y))(5.0)) == 12.0
        assert [float(g) for g in xlab.grad(xlab.jit(f), (0, 1))(2.0, 5.0)] == [30.0, 12.0]

    def test_a_transpose_of_another_structure(self):
        with pytest.raises(TypeError, match="pytree structure"):
            xlab.grad(lambda x: linear_call(lambda r, x: x, lambda r, ct: (ct, ct), (), x))(1.0)
        with pytest.raises(ValueError, match="cotangent of type"):
            xlab.grad(lambda x: linear_call(lambda r, x: x, lambda r, ct: jnp.ones(3), (), x))(1.0)

    def test_custom_transpose(self):
        @xlab.custom_derivatives.custom_transpose
        def f(r, x):
            return x * r

        with pytest.raises(AttributeError, match="def_transpose"):
            f(1.0, 2.0, 3.0)
        f.def_transpose(lambda r, ct: ct * r * 10)
        assert float(f(1.0, 2.0, 3.0)) == 6.0
        assert float(xlab.grad(lambda x: f(1.0, 2.0, x))(3.0)) == 20.0
        with pytest.raises(TypeError, match="declared to return"):
            f(jnp.ones(3), 2.0, 3.0)


def symbolic():
    seen = {}

    @xlab.custom_vjp
    def f(x, y):
        return x * y, x + y

    def fwd(x, y):
        seen["perturbed"] = (x.perturbed, y.perturbed)
        x, y = custom_vjp_primal_tree_values((x, y))
        return (x * y, x + y), (x, y)

    def bwd(res, cts):
        seen["zeros"] = tuple(type(ct) is SymbolicZero for ct in cts)
        seen["shapes"] = tuple(ct.shape for ct in cts)
        x, y = res
        a, b = (zero_from_primal(x) if type(ct) is SymbolicZero else ct for ct in cts)
        return a * y + b, a * x + b

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f, seen


@pytest.mark.parametrize(
    "around", [lambda f: f, xlab.jit, xlab.checkpoint], ids=["plain", "jit", "checkpoint"]
)
def test_symbolic_zeros_of_custom_vjp(around):
    f, seen = symbolic()
    first = around(lambda x: f(x, 3.0)[0])
    assert float(first(2.0)) == 6.0
    assert float(xlab.grad(first)(2.0)) == 3.0
    assert seen == {"perturbed": (True, False), "zeros": (False, True), "shapes": ((), ())}
    both = around(lambda x, y: sum(f(x, y)))
    assert [float(g) for g in xlab.grad(both, (0, 1))(2.0, 3.0)] == [4.0, 3.0]
    assert seen["perturbed"] == (True, True) and seen["zeros"] == (False, False)
    np.testing.assert_allclose(xlab.vmap(xlab.grad(first))(X), [3.0] * 3)
    assert seen["zeros"] == (False, True) and seen["shapes"] == ((), ())
    np.testing.assert_allclose(xlab.grad(lambda x: xlab.vmap(first)(x).sum())(X), [3.0] * 3)


def _looped(i, x):
    return xlab.lax.fori_loop(0, 2, lambda _, c: (c[0] + 1, c[1] * 2), (i, x))


@pytest.mark.parametrize(
    "before",
    [
        lambda i, x: (i, x),
        xlab.jit(lambda i, x: (i, x)),
        xlab.checkpoint(lambda i, x: (i + 1, x)),
        lambda i, x: _looped(i, x),
        lambda i, x: swapped(i, x),
    ],
    ids=["plain", "jit", "checkpoint", "loop", "custom_vjp"],
)
@pytest.mark.parametrize("around", [lambda f: f, xlab.jit], ids=["eager", "jit"])
def test_integers_are_not_perturbed(around, before):
    seen = []

    @xlab.custom_vjp
    def f(i, x):
        return i * x

    def fwd(i, x):
        seen.append((i.perturbed, x.perturbed))
        return i.value * x.value, i.value

    f.defvjp(fwd, lambda i, ct: (None, i * ct), symbolic_zeros=True)
    i, x = jnp.array(3), jnp.array(2.0)
    run = around(lambda i, x: xlab.vjp(lambda i, x: f(*before(i, x)), i, x)[1](jnp.array(1.0))[1])
    assert run(i, x) >= 3 and seen == [(False, True)]
    seen.clear()
    xlab.linearize(lambda i, x: f(*before(i, x)), i, x)
    assert seen == [(False, True)]


@xlab.custom_vjp
def swapped(i, x):
    return i, x


swapped.defvjp(lambda i, x: ((i, x), None), lambda _, cts: cts)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_rules_may_ask_python_numbers_for_their_dtype(kind):
    dtypes = []

    def fun(x):
        dtypes.append(x.dtype)
        return 2 * x

    f = getattr(xlab, kind)(fun)
    if kind == "custom_jvp":
        f.defjvp(lambda p, t: (fun(*p), 3 * t[0]))
    else:
        f.defvjp(lambda x: (fun(x), x), lambda x, ct: (ct * x.dtype.type(3),))
    assert f(1.5) == 3.0 and type(f(1.5)) is float
    assert float(xlab.grad(f)(1.5)) == 3.0
    assert float(xlab.jit(xlab.grad(f))(1.5)) == 3.0
    assert f(1j) == 2j
    assert {str(d) for d in dtypes} == {"float32", "complex64"}


def test_zeros_for_values():
    assert float(zero_from_primal(3.0)) == 0.0
    assert zero_from_primal(jnp.arange(3)).dtype == xlab.dtypes.float0
    assert type(zero_from_primal(X, symbolic_zeros=True)) is SymbolicZero
    with pytest.raises(TypeError, match="unexpected leaf type"):
        custom_vjp_primal_tree_values({"a": 1.0})


def test_the_gradient_of_a_weak_result_is_weak():
    assert xlab.grad(jnp.sin)(1.0).weak_type
    assert not xlab.grad(jnp.sin)(jnp.float32(1.0)).weak_type


class TestOffloading:
    policies = xlab.checkpoint_policies

    def named(self, x):
        a = checkpoint_name(jnp.sin(x), "a")
        b = checkpoint_name(jnp.cos(a), "b")
        return jnp.sin(b)

    @pytest.mark.parametrize(
        "under",
        [lambda f: f, xlab.jit, lambda f: lambda x: xlab.vmap(f)(jnp.full(2, x))[0]],
        ids=["plain", "jit", "vmap"],
    )
    def test_the_gradient_is_the_same(self, under):
        policy = self.policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["b"],
            offload_src="device",
            offload_dst="pinned_host",
        )
        f = xlab.checkpoint(self.named, policy=policy)
        np.testing.assert_allclose(under(xlab.grad(f))(1.0), xlab.grad(self.named)(1.0), rtol=1e-6)
        np.testing.assert_allclose(
            xlab.grad(under(f))(1.0), xlab.grad(under(self.named))(1.0), rtol=1e-6
        )

    def test_what_waits_where(self):
        policy = self.policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["b"],
            offload_src="device",
            offload_dst="pinned_host",
        )
        text = str(xlab.make_jaxpr(xlab.grad(xlab.checkpoint(self.named, policy=policy)))(1.0))
        assert (
            text.count("devices=(MemorySpace.Host,)")
            == text.count("devices=(MemorySpace.Device,)")
            == 1
        )
        assert "f32<host>[]" in text
        products = self.policies.offload_dot_with_no_batch_dims("device", "pinned_host")
        f = xlab.checkpoint(lambda x: jnp.sin(x @ x).sum(), policy=products)
        x = jnp.arange(4.0).reshape(2, 2)
        assert "f32<host>[2,2]" in str(xlab.make_jaxpr(xlab.grad(f))(x))
        np.testing.assert_allclose(
            xlab.grad(f)(x), xlab.grad(lambda x: jnp.sin(x @ x).sum())(x), rtol=1e-5
        )

    def test_answers_of_policies(self):
        def policy(prim, *_, **params):
            return Saveable if prim.name == "sin" else Recompute

        residuals = saved_residuals(
            xlab.checkpoint(lambda x: jnp.sin(jnp.cos(jnp.sin(x))), policy=policy), 1.0
        )
        assert (
            sum("sin" in where for _, where in residuals) == 2
        )  # of the function, and of the derivative of cos
        with pytest.raises(ValueError, match="does not go together"):
            both = self.policies.save_from_both_policies(
                policy, self.policies.offload_dot_with_no_batch_dims("device", "pinned_host")
            )
            xlab.grad(xlab.checkpoint(lambda x: (x @ x).sum(), policy=both))(jnp.ones((2, 2)))
        with pytest.raises(ValueError, match="both to be saved and to be offloaded"):
            self.policies.save_and_offload_only_these_names(
                names_which_can_be_saved=["a"],
                names_which_can_be_offloaded=["a"],
                offload_src="device",
                offload_dst="pinned_host",
            )
        assert Offloadable("device", "pinned_host").dst == "pinned_host"

    def test_memories(self):
        x = jnp.arange(3.0)
        host = xlab.device_put(x, xlab.memory.Space.Host)
        assert host.sharding.memory_kind == "pinned_host" and host.tolist() == x.tolist()
        assert (
            xlab.device_put(host, xlab.memory.Space.Device).sharding.memory_kind
            == x.sharding.memory_kind
        )
        closed = xlab.make_jaxpr(lambda x: xlab.device_put(x, xlab.memory.Space.Host))(x)
        assert str(closed.out_avals[0]) == "float32<host>[3]"


class TestLinearTranspose:
    """Calls and loops that mix linear values and others: only the linear part is transposed."""

    def test_a_call_and_a_loop(self):
        def called(x):
            a, b = xlab.jit(lambda x, c: (x * 2.0, c * 1.0))(x, 3.0)
            return a * b

        def repeated(x):
            a, b = xlab.lax.fori_loop(0, 2, lambda i, v: (v[0] * v[1], v[1] * 1.0), (x, 3.0))
            return a * b

        assert float(xlab.linear_transpose(called, 1.0)(1.0)[0]) == 6.0
        assert float(xlab.linear_transpose(repeated, 1.0)(1.0)[0]) == 27.0

    def test_a_reference_to_what_is_not_linear(self):
        def f(x):
            r = xlab.new_ref(jnp.zeros(()))
            a, b = xlab.jit(lambda x, c: (x * 2.0, c * 1.0))(x, 3.0)
            r[...] = b
            return a * r[...]

        assert float(xlab.linear_transpose(f, 1.0)(1.0)[0]) == 6.0
        assert float(xlab.jit(xlab.linear_transpose(f, 1.0))(1.0)[0]) == 6.0
