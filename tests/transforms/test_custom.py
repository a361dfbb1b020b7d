"""Custom derivatives and `checkpoint` in every composition: the rule is used wherever a derivative is taken."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core import check_jaxpr
from xlab.custom_batching import custom_vmap

X = np.linspace(0.5, 2.0, 3).astype(np.float32)


@xlab.custom_jvp
def tripled(x):
    """Sine, whose derivative is said to be 3."""
    return jnp.sin(x)


@tripled.defjvp
def _tripled_jvp(primals, tangents):
    return tripled(primals[0]), 3.0 * tangents[0]


@xlab.custom_vjp
def quadrupled(x):
    """Sine, whose gradient is said to be 4."""
    return jnp.sin(x)


quadrupled.defvjp(lambda x: (quadrupled(x), x), lambda x, ct: (4.0 * ct,))

RULES = {"custom_jvp": (tripled, 3.0), "custom_vjp": (quadrupled, 4.0)}

# A way to apply f elementwise to a vector of three, inside something.
PLACES = {
    "plain": lambda f, x: f(x),
    "jit": lambda f, x: xlab.jit(f)(x),
    "jit twice": lambda f, x: xlab.jit(xlab.jit(f))(x),
    "vmap": lambda f, x: xlab.vmap(f)(x),
    "jit of vmap": lambda f, x: xlab.jit(xlab.vmap(f))(x),
    "vmap of jit": lambda f, x: xlab.vmap(xlab.jit(f))(x),
    "scan": lambda f, x: lax.scan(lambda c, v: (c, f(v)), 0, x)[1],
    "scan carry": lambda f, x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "map": lambda f, x: lax.map(f, x),
    "cond": lambda f, x: lax.cond(x[0] > 0, f, lambda v: v, x),
    "switch in vmap": lambda f, x: xlab.vmap(
        lambda v: lax.switch((v > 0).astype(int), [lambda v: v, f], v)
    )(x),
    "fori": lambda f, x: lax.fori_loop(0, 1, lambda i, v: f(v), x),
    "checkpoint": lambda f, x: xlab.checkpoint(f)(x),
    "vmap of checkpoint": lambda f, x: xlab.vmap(xlab.checkpoint(f))(x),
    "checkpoint in scan": lambda f, x: lax.scan(lambda c, v: (c, xlab.checkpoint(f)(v)), 0, x)[1],
    "linearize inside": lambda f, x: xlab.linearize(lambda v: v, f(x))[0],
    "another rule around": lambda f, x: _identity(f)(x),
}


def _identity(f):
    """`f` behind a second custom_vjp, whose rule differentiates it."""

    @xlab.custom_vjp
    def g(x):
        return f(x)

    g.defvjp(lambda x: xlab.vjp(f, x), lambda pull, ct: pull(ct))
    return g


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", RULES)
class TestEverywhere:
    def test_value(self, kind, place):
        f, _ = RULES[kind]
        np.testing.assert_allclose(PLACES[place](f, X), np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(xlab.jit(lambda x: PLACES[place](f, x))(X), np.sin(X), rtol=1e-6)

    def test_gradient(self, kind, place):
        f, slope = RULES[kind]
        g = xlab.grad(lambda x: PLACES[place](f, x).sum())
        np.testing.assert_allclose(g(X), slope)
        np.testing.assert_allclose(xlab.jit(g)(X), slope)

    def test_gradient_of_examples(self, kind, place):
        f, slope = RULES[kind]
        rows = np.stack([X, X + 1])
        g = xlab.vmap(xlab.grad(lambda x: PLACES[place](f, x).sum()))
        np.testing.assert_allclose(g(rows), np.full((2, 3), slope))

    def test_program_is_well_formed(self, kind, place):
        f, _ = RULES[kind]
        check_jaxpr(xlab.make_jaxpr(lambda x: PLACES[place](f, x))(X))
        check_jaxpr(xlab.make_jaxpr(xlab.grad(lambda x: PLACES[place](f, x).sum()))(X))
        check_jaxpr(xlab.make_jaxpr(xlab.vmap(lambda x: PLACES[place](f, x)))(X[None]))


class TestCustomJvp:
    def test_second_derivatives_go_through_the_rule(self):
        @xlab.custom_jvp
        def square(x):
            return x * x

        @square.defjvp
        def rule(primals, tangents):
            (x,), (t,) = primals, tangents
            return square(x), 10.0 * x * t

        assert float(xlab.grad(square)(2.0)) == 20.0
        assert float(xlab.grad(xlab.grad(square))(2.0)) == 10.0
        assert float(xlab.jvp(xlab.grad(square), (2.0,), (1.0,))[1]) == 10.0

    def test_several_arguments_results_and_static_ones(self):
        @xlab.custom_jvp
        def plain(x, y):
            return {"p": x * y}

        plain.defjvps(lambda t, ans, x, y: {"p": 2 * t * y}, None)
        assert [float(g) for g in xlab.grad(lambda x, y: plain(x, y)["p"], (0, 1))(3.0, 5.0)] == [
            10.0,
            0.0,
        ]

        def powers(n, x):
            return x**n

        powers = xlab.custom_jvp(powers, nondiff_argnums=(0,))
        powers.defjvp(lambda n, primals, tangents: (powers(n, *primals), n * 100.0 * tangents[0]))
        assert float(xlab.grad(lambda x: powers(3, x))(2.0)) == 300.0

    def test_keyword_and_default_arguments(self):
        @xlab.custom_jvp
        def f(x, scale=2.0):
            return x * scale

        f.defjvps(lambda t, ans, x, scale: 7.0 * t, None)
        assert float(f(3.0, scale=4.0)) == 12.0
        assert float(xlab.grad(f)(3.0)) == 7.0

    def test_closing_over_a_traced_value(self):
        def outer(x, w):
            @xlab.custom_jvp
            def f(v):
                return v * w

            f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * w))
            return f(x)

        assert float(xlab.jit(outer)(2.0, 3.0)) == 6.0
        assert float(xlab.grad(outer)(2.0, 3.0)) == 3.0
        assert float(xlab.jit(xlab.grad(outer))(2.0, 3.0)) == 3.0
        np.testing.assert_allclose(xlab.vmap(outer, (None, 0))(2.0, X), 2 * X)

    @pytest.mark.parametrize(
        ("rule", "said"),
        [
            (lambda p, t: p[0], "pair"),
            (lambda p, t: (p[0], (t[0], t[0])), "structure"),
            (lambda p, t: (p[0], jnp.zeros(5)), "shape"),
        ],
    )
    def test_wrong_rules(self, rule, said):
        f = xlab.custom_jvp(lambda x: x)
        f.defjvp(rule)
        with pytest.raises(TypeError, match=said):
            xlab.jvp(f, (X,), (X,))

    def test_no_rule(self):
        with pytest.raises(AttributeError, match="defjvp"):
            xlab.custom_jvp(lambda x: x)(1.0)


class TestCustomVjp:
    def test_residuals_of_every_kind(self):
        @xlab.custom_vjp
        def f(p):
            return p["a"] * p["b"].sum()

        f.defvjp(
            lambda p: (f(p), {"p": p, "n": 2, "none": None}),
            lambda res, ct: ({"a": ct * res["n"], "b": jnp.full_like(res["p"]["b"], 5.0)},),
        )
        g = xlab.jit(xlab.grad(f))({"a": 3.0, "b": X})
        assert float(g["a"]) == 2.0
        np.testing.assert_allclose(g["b"], 5.0)

    def test_static_arguments_come_first(self):
        def f(fun, x):
            return fun(x)

        f = xlab.custom_vjp(f, nondiff_argnums=(0,))
        f.defvjp(lambda fun, x: (fun(x), x), lambda fun, x, ct: (ct * fun(x) * 100,))
        assert float(xlab.grad(lambda x: f(lambda v: v + 1, x))(1.0)) == 200.0

    def test_no_cotangent_for_an_argument(self):
        f = xlab.custom_vjp(lambda x, y: x * y)
        f.defvjp(lambda x, y: (x * y, y), lambda y, ct: (ct * y, None))
        gx, gy = xlab.grad(f, (0, 1))(3.0, 5.0)
        assert (float(gx), float(gy)) == (5.0, 0.0)

    @pytest.mark.parametrize(
        "argument",
        [
            (1.0,),
            {"a": 1.0, "b": 2.0},
            [1.0, (2.0, 3.0)],
            {"inside": (1.0, 2.0), "beside": 3.0},
            xlab.tree_util.Partial(max, 1.0),
        ],
    )
    def test_one_cotangent_serves_all_arguments_below_it(self, argument):
        """Such as a bare array for an argument within a node of its own, or for many of one shape."""
        f = xlab.custom_vjp(lambda p: sum(xlab.tree.leaves(p)))
        f.defvjp(lambda p: (f(p), None), lambda _, ct: (7.0 * ct,))
        g = xlab.jit(xlab.grad(f))(argument)
        assert xlab.tree.structure(g) == xlab.tree.structure(argument)
        assert set(map(float, xlab.tree.leaves(g))) == {7.0}

    def test_a_cotangent_of_another_structure_is_refused(self):
        f = xlab.custom_vjp(lambda p: p[0] * p[1])
        f.defvjp(lambda p: (f(p), None), lambda _, ct: ([ct, ct],))
        with pytest.raises(TypeError, match=r"structure of the arguments.*or a prefix"):
            xlab.grad(f)((1.0, 2.0))

    def test_integers_beside(self):
        f = xlab.custom_vjp(lambda x, n: x * n)
        f.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, None))
        assert float(xlab.grad(f)(2.0, 3)) == 3.0
        assert float(xlab.jit(xlab.grad(f))(2.0, 3)) == 3.0

    def test_forward_mode_is_refused_by_name(self):
        with pytest.raises(TypeError, match="quadrupled"):
            xlab.jvp(quadrupled, (1.0,), (1.0,))

    def test_closing_over_a_differentiated_value_is_refused(self):
        def outer(w):
            f = xlab.custom_vjp(lambda x: x * w)
            f.defvjp(lambda x: (x * w, None), lambda _, ct: (ct,))
            return f(2.0)

        with pytest.raises(TypeError, match="closes over"):
            xlab.grad(outer)(3.0)
        assert float(xlab.jit(outer)(3.0)) == 6.0

    @pytest.mark.parametrize(
        ("bwd", "said"),
        [
            (lambda res, ct: (ct, ct), "1|structure|length|number"),
            (lambda res, ct: ct, "tuple"),
            (lambda res, ct: (jnp.zeros(7),), "shape|type"),
        ],
    )
    def test_wrong_rules(self, bwd, said):
        f = xlab.custom_vjp(lambda x: x * 1.0)
        f.defvjp(lambda x: (x, None), bwd)
        with pytest.raises((TypeError, ValueError), match=said):
            xlab.grad(lambda x: f(x).sum())(X)

    def test_no_rules(self):
        with pytest.raises(AttributeError, match="defvjp"):
            xlab.custom_vjp(lambda x: x)(1.0)


class TestCheckpoint:
    def layers(self, x, w):
        return jnp.sin(jnp.sin(x @ w) @ w).sum()

    @pytest.fixture
    def data(self):
        rng = np.random.RandomState(0)
        return rng.randn(3).astype(np.float32), rng.randn(3, 3).astype(np.float32)

    @pytest.mark.parametrize(
        "policy",
        [
            None,
            "everything_saveable",
            "nothing_saveable",
            "dots_saveable",
            "dots_with_no_batch_dims_saveable",
        ],
    )
    def test_same_derivatives(self, data, policy):
        kept = getattr(xlab.checkpoint_policies, policy) if policy else None
        f = xlab.checkpoint(self.layers, policy=kept)
        for order in (
            xlab.grad,
            lambda f: xlab.jit(xlab.grad(f)),
            xlab.hessian,
            lambda f: xlab.jacfwd(f),
        ):
            np.testing.assert_allclose(
                order(f)(*data), order(self.layers)(*data), rtol=1e-5, atol=1e-6
            )

    def test_what_is_computed_again(self, data):
        def sines(policy):
            f = xlab.checkpoint(self.layers, policy=policy)
            text = str(xlab.make_jaxpr(xlab.grad(f))(*data))
            return text.count(" sin "), text.count("dot_general[")

        policies = xlab.checkpoint_policies
        assert sines(policies.nothing_saveable)[1] > sines(policies.dots_saveable)[1]
        assert sines(policies.everything_saveable)[0] <= sines(policies.nothing_saveable)[0]

    def test_static_arguments(self):
        f = xlab.checkpoint(lambda n, x: x**n, static_argnums=(0,))
        assert float(xlab.grad(lambda x: f(3, x))(2.0)) == 12.0

    def test_trees_and_keywords(self):
        f = xlab.checkpoint(lambda p, *, k: {"y": p["a"] * k})
        assert float(xlab.grad(lambda a: f({"a": a}, k=3.0)["y"])(2.0)) == 3.0

    def test_residuals_are_inputs_only(self, data):
        _, pull = xlab.vjp(xlab.checkpoint(lambda x: jnp.sin(jnp.sin(jnp.sin(x)))), data[0])
        assert sum(np.size(c) for c in pull.consts) <= 3


class TestCustomGradient:
    def test_value_and_pullback(self):
        @xlab.custom_gradient
        def f(x, y):
            return x * y, lambda ct: (10 * ct * y, 20 * ct * x)

        assert float(f(2.0, 3.0)) == 6.0
        assert [float(g) for g in xlab.grad(f, (0, 1))(2.0, 3.0)] == [30.0, 40.0]
        assert [float(g) for g in xlab.jit(xlab.grad(f, (0, 1)))(2.0, 3.0)] == [30.0, 40.0]


def test_closure_convert_lets_a_custom_rule_see_what_is_closed_over():
    def minimum(objective, x):
        converted, values = xlab.closure_convert(objective, x)
        return _solve(converted, x, *values)

    _solve = xlab.custom_vjp(lambda fun, x, *values: fun(x, *values), nondiff_argnums=(0,))
    _solve.defvjp(
        lambda fun, x, *values: (fun(x, *values), (x, values)),
        lambda fun, res, ct: (ct, *(ct * 7.0 for _ in res[1])),
    )
    g = xlab.grad(lambda w: minimum(lambda x: x * w, 2.0))(3.0)
    assert float(g) == 7.0


class TestCustomVmap:
    def made(self):
        from xlab.custom_batching import custom_vmap

        @custom_vmap
        def f(x, y):
            return {"s": jnp.sin(x) * y}

        @f.def_vmap
        def rule(axis_size, in_batched, x, y):
            assert all(isinstance(b, bool) for b in in_batched)
            return {"s": jnp.sin(x) * y + 100}, {"s": any(in_batched)}

        return lambda x, y: f(x, y)["s"]

    def test_the_rule_is_used_under_vmap_only(self):
        f = self.made()
        np.testing.assert_allclose(f(1.0, 2.0), np.sin(1.0) * 2, rtol=1e-6)
        np.testing.assert_allclose(xlab.jit(f)(1.0, 2.0), np.sin(1.0) * 2, rtol=1e-6)
        np.testing.assert_allclose(xlab.vmap(f, (0, None))(X, 2.0), np.sin(X) * 2 + 100, rtol=1e-6)
        np.testing.assert_allclose(
            xlab.jit(xlab.vmap(xlab.jit(f)))(X, X), np.sin(X) * X + 100, rtol=1e-6
        )
        np.testing.assert_allclose(
            xlab.vmap(xlab.vmap(f), (0, None))(X[None], X), np.sin(X[None]) * X + 100, rtol=1e-6
        )

    def test_derivatives(self):
        f = self.made()
        np.testing.assert_allclose(xlab.grad(f)(1.0, 2.0), np.cos(1.0) * 2, rtol=1e-6)
        np.testing.assert_allclose(
            xlab.vmap(xlab.grad(f), (0, None))(X, 2.0), np.cos(X) * 2, rtol=1e-6
        )
        np.testing.assert_allclose(
            xlab.grad(lambda x: xlab.vmap(f, (0, None))(x, 2.0).sum())(X), np.cos(X) * 2, rtol=1e-6
        )
        primal, tangent = xlab.vmap(lambda x, t: xlab.jvp(lambda x: f(x, 2.0), (x,), (t,)))(X, X)
        np.testing.assert_allclose(primal, np.sin(X) * 2 + 100, rtol=1e-6)
        np.testing.assert_allclose(tangent, np.cos(X) * 2 * X, rtol=1e-6)

    def test_sequential(self):
        from xlab.custom_batching import sequential_vmap

        f = sequential_vmap(lambda x, y: jnp.sin(x) + y)
        np.testing.assert_allclose(xlab.vmap(f, (0, None))(X, 2.0), np.sin(X) + 2, rtol=1e-6)
        assert "scan" in str(xlab.make_jaxpr(xlab.vmap(f, (0, None)))(X, 2.0))


def test_saved_residuals(capsys):
    from xlab.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals

    def f(x, w):
        return jnp.sin(checkpoint_name(jnp.sin(x * w), "inner"))

    assert len(saved_residuals(f, X, X)) >= 3
    kept = saved_residuals(
        xlab.checkpoint(f, policy=xlab.checkpoint_policies.save_only_these_names("inner")), X, X
    )
    assert (
        any("name" in where for _, where in kept)
        and sum("argument" in where for _, where in kept) == 2
    )
    print_saved_residuals(xlab.checkpoint(f), X, X)
    assert "f32[3] from the argument" in capsys.readouterr().out


def test_auxiliary_values_are_plain():
    f = lambda x: (x * x, {"aux": x + 1})
    for aux in (
        xlab.jvp(f, (2.0,), (1.0,), has_aux=True)[2],
        xlab.vjp(f, 2.0, has_aux=True)[2],
        xlab.grad(f, has_aux=True)(2.0)[1],
        xlab.jacfwd(f, has_aux=True)(2.0)[1],
        xlab.jacrev(f, has_aux=True)(2.0)[1],
        xlab.hessian(f, has_aux=True)(2.0)[1],
        xlab.linearize(f, 2.0, has_aux=True)[2],
    ):
        assert float(aux["aux"]) == 3.0


def test_a_rule_of_batches_is_set_through_a_rule_of_derivatives():
    @xlab.custom_vjp
    @custom_vmap
    def f(x, y):
        return jnp.sin(x) * y

    f.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda saved, ct: (ct * jnp.cos(saved[0]) * saved[1], ct * jnp.sin(saved[0])),
    )

    @f.def_vmap
    def rule(axis_size, in_batched, xs, ys):
        return jnp.cos(xs) * ys, True

    assert xlab.vmap(f)(jnp.zeros(3), jnp.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert float(xlab.grad(f)(0.0, 1.0)) == 1.0
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = f.other


class TestZeroCotangents:
    """A rule is called with zeros too: it may hand out, as a gradient, what is none."""

    def functions(self):
        f = xlab.custom_vjp(lambda x, s: (x * 1.0, s))
        f.defvjp(lambda x, s: ((x * 1.0, s), s + 1.0), lambda r, g: (None, r))
        h = xlab.custom_vjp(lambda x, s: x + s)
        h.defvjp(lambda x, s: (x + s, None), lambda r, g: (None, None))
        return f, h

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda f: f,
            xlab.jit,
            xlab.checkpoint,
            lambda f: (
                lambda x, s: lax.scan(lambda c, _: ((f(*c), c[1]), None), (x, s), None, length=1)[
                    0
                ][0]
            ),
        ],
        ids=["plain", "jit", "checkpoint", "scan"],
    )
    def test_the_rule_is_called(self, wrap):
        f, h = self.functions()
        assert xlab.grad(wrap(lambda x, s: h(*f(x, s))), (0, 1))(2.0, 3.0) == (0.0, 4.0)
        slopes = xlab.vmap(xlab.grad(wrap(lambda x, s: h(*f(x, s))), (0, 1)))(
            jnp.ones(2), jnp.ones(2)
        )
        assert [t.tolist() for t in slopes] == [[0, 0], [2, 2]]

    @pytest.mark.parametrize(
        ("inside", "slope"),
        [
            (lambda f, x, s: lax.scan(lambda c, _: (f(*c), None), (x, s), None, length=2)[0], 4.0),
            (lambda f, x, s: lax.fori_loop(0, 2, lambda i, c: f(*c), (x, s)), 4.0),
            (
                lambda f, x, s: lax.scan(
                    xlab.checkpoint(lambda c, _: (f(*c), None)), (x, s), None, length=2
                )[0],
                4.0,
            ),
            (
                lambda f, x, s: lax.scan(
                    lambda c, _: (xlab.jit(f)(*c), None), (x, s), None, length=2
                )[0],
                4.0,
            ),
            (lambda f, x, s: tuple(a[0] for a in xlab.vmap(f)(x[None], s[None])), 4.0),
            (
                lambda f, x, s: [
                    a[-1] for a in lax.scan(lambda c, _: (c, f(*c)), (x, s), None, length=2)[1]
                ],
                0.0,
            ),
            (lambda f, x, s: xlab.jit(f)(x, s), 0.0),
            (lambda f, x, s: xlab.checkpoint(f)(x, s), 0.0),
            (lambda f, x, s: lax.cond(x > 0, f, lambda x, s: (x, s), x, s), 0.0),
        ],
        ids=[
            "scan",
            "fori_loop",
            "checkpoint_in_scan",
            "jit_in_scan",
            "vmap",
            "ys",
            "jit",
            "checkpoint",
            "cond",
        ],
    )
    def test_inside_other_programs(self, inside, slope):
        """A loop's carry brings zeros to the rule as arrays; other programs all of whose cotangents are zero are left out."""
        f, h = self.functions()
        x, s = jnp.float32(2), jnp.float32(3)
        assert xlab.grad(lambda x, s: h(*inside(f, x, s)), (0, 1))(x, s) == (0.0, slope)
        assert xlab.grad(lambda x, s: (inside(f, x, s), x)[1], (0, 1))(x, s) == (1.0, 0.0)

    @pytest.mark.parametrize(
        "wrap",
        [lambda f: f, lambda f: lambda x, s: [a + 1 for a in f(x, s)]],
        ids=["plain", "read"],
    )
    def test_what_nothing_uses_is_not_asked(self, wrap):
        f, _ = self.functions()
        assert xlab.grad(lambda x, s: (wrap(f)(x, s), x)[1], (0, 1))(2.0, 3.0) == (1.0, 0.0)

    def test_symbolic_zeros(self):
        _, h = self.functions()
        seen = []
        f = xlab.custom_vjp(lambda x, s: (x * 1.0, s))
        f.defvjp(
            lambda x, s: ((x.value * 1.0, s.value), s.value + 1.0),
            lambda r, g: (seen.extend(g), (None, r))[1],
            symbolic_zeros=True,
        )
        assert xlab.grad(lambda x, s: h(*f(x, s)), 1)(2.0, 3.0) == 4.0
        assert [type(g) for g in seen] == [xlab.custom_derivatives.SymbolicZero] * 2


def test_what_is_used_is_looked_up_once_for_all_rules_without_cotangents(monkeypatch):
    """Once for each of them would take the square of a program's length."""
    transpose = importlib.import_module("xlab.interpreters.ad.transpose")
    real, calls = transpose._used, []
    monkeypatch.setattr(transpose, "_used", lambda *args: calls.append(1) or real(*args))

    def f(x):
        for _ in range(20):
            quadrupled(x)
        return 2.0 * x

    assert float(xlab.grad(f)(1.0)) == 2.0
    assert len(calls) == 1


def test_symbolic_zeros_are_leaves_of_the_trees_that_rules_are_given():
    """So that they go beside the primals: libraries map over both."""
    seen = []

    def beside(x, zero):
        seen.append(type(zero) is xlab.custom_derivatives.SymbolicZero)
        return zero

    f = xlab.custom_jvp(lambda x: {"a": x["a"] * 2, "b": x["b"]})

    def jvp(primals, tangents):
        return f(*primals), xlab.tree.map(beside, *primals, *tangents)

    f.defjvp(jvp, symbolic_zeros=True)
    grad = xlab.grad(lambda a: sum(f({"a": a, "b": 3.0}).values()))
    assert grad(2.0) == 1.0 and sorted(seen) == [False, True]

    g = xlab.custom_vjp(lambda x: (x, x * 3))

    def bwd(shape, cts):
        seen[:] = [type(ct) is xlab.custom_derivatives.SymbolicZero for ct in xlab.tree.leaves(cts)]
        return (xlab.numpy.ones(shape) * cts[0],)

    g.defvjp(lambda x: (g(x.value), ()), bwd, symbolic_zeros=True)
    assert xlab.grad(lambda x: g(x)[0])(2.0) == 1.0 and seen == [False, True]


@pytest.mark.parametrize("scalar", [lambda: 3, lambda: jnp.asarray(3), lambda: jnp.array(2.0)])
def test_rules_of_a_recorded_call_may_ask_scalars_for_their_shapes(scalar):
    """A scalar made while tracing is a literal of the program, and a Python number there."""
    shapes = []

    @xlab.custom_vjp
    def reverse(x, n):
        return x * 2

    @xlab.custom_jvp
    def forward(x, n):
        return x * 2

    reverse.defvjp(lambda x, n: (shapes.append(n.shape), (x * 2, n))[1], lambda n, g: (g * 2, None))
    forward.defjvp(
        lambda p, t: (shapes.append((p[1].shape, p[1].weak_type)), (p[0] * 2, t[0] * 2))[1]
    )
    for function in (reverse, forward):
        assert float(xlab.grad(xlab.jit(lambda x, f=function: f(x, scalar())))(1.0)) == 2
    assert shapes == [(), ((), True)]
