"""Control flow: loops and branches against Python, their derivatives, what they keep for the way back, and their errors."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core import check_jaxpr
from xlab.core.jaxpr import subjaxprs

X = np.linspace(0.5, 1.5, 4).astype(np.float32)
W = np.random.RandomState(0).randn(4, 4).astype(np.float32) / 2


def loop(x, w):
    for _ in range(3):
        x = jnp.tanh(x @ w)
    return x


FORMS = {
    "scan": lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0],
    "scan over w": lambda x, w: lax.scan(lambda c, m: (jnp.tanh(c @ m), None), x, jnp.stack([w] * 3))[0],
    "scan reversed": lambda x, w: lax.scan(lambda c, m: (jnp.tanh(c @ m), None), x, jnp.stack([w] * 3), reverse=True)[0],
    "scan unrolled": lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3, unroll=2)[0],
    "scan written out": lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3, unroll=True)[0],
    "fori": lambda x, w: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w), x),
    "scan of cond": lambda x, w: lax.scan(lambda c, i: (lax.cond(
        i < 3, lambda c: jnp.tanh(c @ w), lambda c: c, c), None), x, jnp.arange(5))[0],
    "scan of jit": lambda x, w: lax.scan(xlab.jit(lambda c, _: (jnp.tanh(c @ w), None)), x, None, length=3)[0],
    "scan in scan": lambda x, w: lax.scan(lambda c, _: (lax.scan(
        lambda d, _: (jnp.tanh(d @ w), None), c, None, length=1)[0], None), x, None, length=3)[0],
}  # fmt: skip


def total(f):
    return lambda x, w: (f(x, w) ** 2).sum()


@pytest.mark.parametrize("form", FORMS)
class TestForms:
    def test_values(self, form):
        f = FORMS[form]
        np.testing.assert_allclose(f(X, W), loop(X, W), rtol=1e-5)
        np.testing.assert_allclose(xlab.jit(f)(X, W), loop(X, W), rtol=1e-5)

    @pytest.mark.parametrize(
        "transform",
        [
            "grad",
            "jacfwd",
            "jacrev",
            "hessian",
            "jvp",
            "grad of jit",
            "jit of grad",
            "checkpoint",
            "grad of vmap",
            "vmap of grad",
            "grad of grad",
        ],
    )
    def test_derivatives(self, form, transform):
        def apply(f):
            f = total(f)
            rows = np.stack([X, X + 1])
            if transform == "jvp":
                return xlab.jvp(f, (X, W), (X, W))[1]
            if transform == "grad of vmap":
                return xlab.grad(lambda w: xlab.vmap(f, (0, None))(rows, w).sum())(W)
            if transform == "vmap of grad":
                return xlab.vmap(xlab.grad(f, 1), (0, None))(rows, W)
            if transform == "grad of grad":
                return xlab.grad(lambda w: (xlab.grad(f)(X, w) ** 2).sum())(W)
            made = {
                "grad": lambda f: xlab.grad(f, 1),
                "jacfwd": xlab.jacfwd,
                "jacrev": xlab.jacrev,
                "hessian": xlab.hessian,
                "grad of jit": lambda f: xlab.grad(xlab.jit(f), 1),
                "jit of grad": lambda f: xlab.jit(xlab.grad(f, 1)),
                "checkpoint": lambda f: xlab.grad(xlab.checkpoint(f), 1),
            }[transform]
            return made(f)(X, W)

        np.testing.assert_allclose(apply(FORMS[form]), apply(loop), rtol=2e-4, atol=1e-5)

    def test_programs_are_well_formed(self, form):
        f = total(FORMS[form])
        check_jaxpr(xlab.make_jaxpr(f)(X, W))
        check_jaxpr(xlab.make_jaxpr(xlab.grad(f, 1))(X, W))
        check_jaxpr(xlab.make_jaxpr(xlab.vmap(f, (None, 0)))(X, W[None]))
        check_jaxpr(xlab.make_jaxpr(xlab.vmap(xlab.grad(f), (0, None)))(X[None], W))
        check_jaxpr(xlab.make_jaxpr(xlab.hessian(f))(X, W))


class TestCond:
    def branches(self, x):
        return lax.cond(x.sum() > 0, lambda x: jnp.sin(x), lambda x: x * 2, x)

    def test_batched_predicate_selects(self):
        rows = np.stack([X, -X])
        np.testing.assert_allclose(
            xlab.vmap(self.branches)(rows), np.stack([np.sin(X), -2 * X]), rtol=1e-6
        )
        np.testing.assert_allclose(
            xlab.vmap(xlab.grad(lambda x: self.branches(x).sum()))(rows),
            np.stack([np.cos(X), np.full(4, 2)]),
            rtol=1e-6,
        )
        text = str(xlab.make_jaxpr(xlab.vmap(self.branches))(rows))
        assert "select_n" in text and "cond" not in text

    def test_unbatched_predicate_stays_a_branch(self):
        f = xlab.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), (None, 0))
        assert "cond[" in str(xlab.make_jaxpr(f)(True, X))
        np.testing.assert_allclose(f(False, X), np.cos(X), rtol=1e-6)

    def test_only_the_chosen_branch_runs(self):
        def f(x):
            return lax.cond(x > 0, lambda x: jnp.log(x), lambda x: x, x)

        assert float(xlab.grad(f)(-1.0)) == 1.0
        assert float(f(-1.0)) == -1.0

    def test_switch_clamps_and_differentiates(self):
        branches = [lambda x: x, lambda x: x**2, lambda x: x**3]
        for i, want in ((-5, 1.0), (0, 1.0), (1, 4.0), (2, 12.0), (9, 12.0)):
            assert float(xlab.grad(lambda x, i=i: lax.switch(i, branches, x))(2.0)) == want
        np.testing.assert_allclose(
            xlab.vmap(lambda i: lax.switch(i, branches, 2.0))(jnp.arange(3)), [2, 4, 8]
        )

    def test_no_operands_and_closures(self):
        y = jnp.ones(3)
        out = xlab.jit(lambda p: lax.cond(p, lambda: y + 1, lambda: y - 1))(True)
        np.testing.assert_allclose(out, 2)
        g = xlab.grad(lambda a: lax.cond(True, lambda: a * a, lambda: a))(3.0)
        assert float(g) == 6.0

    def test_integer_results_beside(self):
        def f(x):
            y, n = lax.cond(x > 0, lambda x: (x * 2, 1), lambda x: (x, 0), x)
            return y * n

        assert float(xlab.grad(f)(3.0)) == 2.0


class TestWhile:
    def collatz(self, n):
        return lax.while_loop(
            lambda s: s[0] > 1,
            lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )[1]

    def test_batched_condition_stops_each_on_its_own(self):
        assert xlab.vmap(self.collatz)(jnp.array([1, 2, 7, 27])).tolist() == [0, 1, 16, 111]
        assert xlab.jit(xlab.vmap(xlab.vmap(self.collatz)))(
            jnp.array([[1, 2], [7, 27]])
        ).tolist() == [[0, 1], [16, 111]]

    def test_never_entered(self):
        assert float(lax.while_loop(lambda x: x < 0, lambda x: x + 1, 3.0)) == 3.0
        assert (
            xlab.vmap(lambda x: lax.while_loop(lambda x: x < 0, lambda x: x + 1, x))(X).tolist()
            == X.tolist()
        )

    def test_forward_derivative(self):
        def sqrt(a):
            return lax.while_loop(
                lambda x: jnp.abs(x * x - a) > 1e-5, lambda x: 0.5 * (x + a / x), a
            )

        value, slope = xlab.jvp(sqrt, (2.0,), (1.0,))
        np.testing.assert_allclose([value, slope], [2**0.5, 0.5 / 2**0.5], rtol=1e-3)
        np.testing.assert_allclose(xlab.jacfwd(sqrt)(2.0), 0.5 / 2**0.5, rtol=1e-3)

    def test_reverse_derivative_is_refused_with_the_way_out(self):
        f = lambda x: lax.while_loop(lambda x: x < 10, lambda x: x * 2, x)
        with pytest.raises(ValueError, match="scan"):
            xlab.grad(f)(1.0)
        with pytest.raises(ValueError, match="scan|static"):
            xlab.jit(xlab.grad(lambda x, n: lax.fori_loop(0, n, lambda i, x: x * 2, x)))(1.0, 3)

    def test_gradient_beside_an_integer_loop(self):
        def f(x):
            n = lax.while_loop(lambda n: n < 5, lambda n: n + 2, 0)
            return x * n

        assert float(xlab.grad(f)(2.0)) == 6.0


class TestScan:
    def test_residuals_that_do_not_change_are_not_stacked(self):
        def f(x, w):
            return lax.scan(lambda c, _: (jnp.sin(c @ jnp.exp(w)), None), x, None, length=100)[
                0
            ].sum()

        program = xlab.make_jaxpr(xlab.grad(f))(X, W)
        stacked = [
            v.aval.shape
            for eqn in program.eqns
            if eqn.primitive.name == "scan"
            for v in eqn.outvars
        ]
        assert (100, 4, 4) not in stacked, stacked

    def test_nothing_is_stacked_that_is_not_needed(self):
        def f(x):
            return lax.scan(lambda c, v: (c + v, None), 0.0, x)[0]

        program = xlab.make_jaxpr(xlab.grad(f))(X)
        assert not any(
            v.aval.shape == (4,)
            for eqn in program.eqns[:1]
            for v in eqn.outvars
            if eqn.primitive.name == "scan"
        )
        np.testing.assert_allclose(xlab.grad(f)(X), 1.0)

    def test_reversed_ys_keep_their_places(self):
        _, ys = lax.scan(lambda c, x: (c + x, c), 0.0, X, reverse=True)
        np.testing.assert_allclose(ys, np.cumsum(X[::-1])[::-1] - X, rtol=1e-6)

    def test_length_zero(self):
        c, ys = lax.scan(lambda c, x: (c + x, c * 2), 1.0, np.zeros(0, np.float32))
        assert float(c) == 1.0 and ys.shape == (0,)
        assert (
            float(xlab.grad(lambda c: lax.scan(lambda c, x: (c + x, c), c, jnp.zeros(0))[0])(1.0))
            == 1.0
        )

    def test_carry_that_depends_on_batched_input_only_later(self):
        def f(x):
            def body(c, _):
                _a, b, d = c
                return (b, d, x), None

            return lax.scan(body, (0.0, 1.0, 2.0), None, length=3)[0]

        out = xlab.vmap(f)(X)
        for o in out:
            np.testing.assert_allclose(o, X)

    def test_unused_results_are_pruned(self):
        def f(x):
            c, ys = lax.scan(lambda c, v: (c + v, (jnp.sin(v), jnp.cos(v))), 0.0, x)
            return c, ys[0]

        _, pull = xlab.vjp(lambda x: f(x)[0], X)
        text = str(pull.jaxpr)
        assert "cos" not in text and "sin" not in text

    def test_trees(self):
        c, ys = lax.scan(
            lambda c, x: ({"n": c["n"] + x["a"]}, (x["b"], None)), {"n": 0.0}, {"a": X, "b": W}
        )
        np.testing.assert_allclose(c["n"], X.sum(), rtol=1e-6)
        np.testing.assert_allclose(ys[0], W)

    def test_associative_scan(self):
        np.testing.assert_allclose(lax.associative_scan(jnp.multiply, X), np.cumprod(X), rtol=1e-6)
        np.testing.assert_allclose(
            lax.associative_scan(jnp.add, W, axis=1, reverse=True),
            np.cumsum(W[:, ::-1], 1)[:, ::-1],
            rtol=1e-5,
            atol=1e-6,
        )
        np.testing.assert_allclose(
            xlab.grad(lambda x: lax.associative_scan(jnp.add, x)[-1])(X), 1.0
        )

    def test_map_in_batches(self):
        np.testing.assert_allclose(lax.map(lambda x: x * 2, X, batch_size=3), X * 2)

    def test_numbers_of_equations_cover_nested_programs(self):
        from xlab.core.jaxpr import number_equations

        program = xlab.make_jaxpr(FORMS["scan of cond"])(X, W)

        def count(j):
            return len(j.eqns) + sum(map(count, subjaxprs(j)))

        assert len(number_equations(program.jaxpr)) == count(program.jaxpr)


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "error", "said"),
        [
            (
                lambda: lax.cond(True, lambda x: x, lambda x: x.sum(), X),
                TypeError,
                r"float32\[\].*float32\[4\]",
            ),
            (lambda: lax.cond(True, lambda x: (x, x), lambda x: x, X), TypeError, "structure"),
            (lambda: lax.cond(X, lambda: 1, lambda: 2), TypeError, "scalar"),
            (lambda: lax.cond("yes", lambda: 1, lambda: 2), TypeError, "yes"),
            (lambda: lax.cond(True, 3, lambda: 2), TypeError, "true_fun"),
            (lambda: lax.switch(1.5, [lambda: 1, lambda: 2]), TypeError, "integer"),
            (lambda: lax.switch(0, []), ValueError, "at least one"),
            (
                lambda: lax.while_loop(lambda x: x.sum() < 1, lambda x: x[:1], X),
                TypeError,
                r"float32\[1\]",
            ),
            (lambda: lax.while_loop(lambda x: x, lambda x: x, X), TypeError, "boolean scalar"),
            (lambda: lax.while_loop(lambda x: True, lambda x: (x, x), 1.0), TypeError, "structure"),
            (
                lambda: lax.scan(lambda c, x: (c[:1], x), X, X),
                TypeError,
                r"float32\[4\].*float32\[1\]",
            ),
            (lambda: lax.scan(lambda c, x: c, X, X), TypeError, "pair"),
            (
                lambda: lax.scan(lambda c, x: (c, x), 0.0, (X, X[:2])),
                ValueError,
                "different leading",
            ),
            (lambda: lax.scan(lambda c, x: (c, x), 0.0, 1.0), ValueError, "leading axis"),
            (lambda: lax.scan(lambda c, x: (c, x), 0.0, None), ValueError, "length"),
            (lambda: lax.scan(lambda c, x: (c, x), 0.0, X, length=3), ValueError, "3"),
            (lambda: lax.fori_loop(0.5, 3, lambda i, x: x, 0.0), TypeError, "equal types"),
            (lambda: lax.fori_loop(0, 3, lambda i, x: (x, x), 0.0), TypeError, "structure"),
        ],
    )
    def test_messages_say_what_was_given(self, call, error, said):
        with pytest.raises(error, match=said):
            call()

    def test_an_error_in_a_body_leaves_no_trace_behind(self):
        with pytest.raises(ZeroDivisionError):
            xlab.jit(lambda x: lax.scan(lambda c, v: (c / (1 // 0), v), x, X))(1.0)
        assert float(jnp.sin(0.0)) == 0.0
        assert float(xlab.grad(jnp.sin)(0.0)) == 1.0


def test_a_branch_not_taken_does_not_spoil_gradients():
    """Under vmap both branches run; the square root's slope at 0 is infinite, and must not reach the result."""

    def f(x):
        return lax.cond(x > 0, lambda x: jnp.sqrt(x), lambda x: 2 * x, x)

    rows = np.array([0.0, 4.0], np.float32)
    np.testing.assert_allclose(xlab.grad(lambda x: xlab.vmap(f)(x).sum())(rows), [2.0, 0.25])
    np.testing.assert_allclose(xlab.vmap(xlab.grad(f))(rows), [2.0, 0.25])
    np.testing.assert_allclose(
        xlab.grad(lambda x: xlab.jit(xlab.vmap(f))(x).sum())(rows), [2.0, 0.25]
    )


def test_one_operand_by_name():
    """None is an operand; those by position go without it."""
    count = [lambda *operands: len(operands)] * 2
    assert [int(lax.switch(1, count, operand=x)) for x in (None, 2.0, (1, 2))] == [1, 1, 1]
    assert int(lax.cond(True, *count, operand=None)) == 1 and int(lax.switch(0, count)) == 0
    for wrong in (
        lambda: lax.switch(0, count, 1.0, operand=2.0),
        lambda: lax.cond(True, *count, 1.0, operand=2.0),
    ):
        with pytest.raises(TypeError, match=r"got operand=2\.0 and 1 by position"):
            wrong()


@pytest.mark.parametrize("pred", [1j, np.complex64(0), jnp.complex64(1)])
def test_a_complex_number_is_no_predicate(pred):
    def choose(p):
        return lax.cond(p, lambda: 1, lambda: 2)

    for run in (choose, xlab.jit(choose), lambda p: xlab.vmap(choose)(jnp.asarray([p]))):
        with pytest.raises(TypeError, match="Pred type must be either boolean or number"):
            run(pred)


@pytest.mark.parametrize("pred", [2**40, -(2**31) - 1, 2**70])
def test_an_integer_of_any_size_is_a_predicate(pred):
    assert lax.cond(pred, lambda: 1, lambda: 2) == 1


def test_a_loop_that_python_runs_has_arrays():
    kinds = []

    def body(c):
        kinds.append(type(c[0]))
        return c[0] + 1, c[1].astype(jnp.float32) * 2

    with xlab.disable_jit():
        n, x = lax.while_loop(lambda c: c[0] < 3, body, (0, 1.0))
        untouched = lax.while_loop(lambda c: c < 0, lambda c: c, 0)
    assert (n, x, untouched) == (3, 8.0, 0)
    assert {*kinds, type(n), type(untouched)} == {type(jnp.zeros(()))}
    assert n.weak_type and not x.weak_type and untouched.weak_type


def test_a_loop_of_no_turns_runs_without_jit():
    """Its results are the initial values, so that no turn has to tell their types."""
    with xlab.disable_jit():
        for upper in (0, -2, jnp.int32(0)):
            n, x = lax.fori_loop(0, upper, lambda i, c: 1 / 0, (1, jnp.ones(2)))
            assert n.weak_type and n == 1 and x.tolist() == [1, 1]
        assert xlab.grad(lambda x: lax.fori_loop(0, 0, lambda i, c: c * x, x))(3.0) == 1
