"""Tracing: what a traced value refuses and says about it, leaks, threads, jaxprs as data, the checker."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import errors, lax
from xlab.core import Jaxpr, Literal, Primitive, ShapedArray, Tracer, Var, check_jaxpr, eval_jaxpr
from xlab.extend.core import ClosedJaxpr, JaxprEqn

X = np.arange(3, dtype=np.float32)


def line_of(fun, offset):
    return f"{__file__.rsplit('/', 1)[-1]}:{fun.__code__.co_firstlineno + offset}"


class TestConcretization:
    """The error names the line of the user's function and the way out."""

    def check(self, fun, error, *said, args=(X,)):
        with pytest.raises(error) as caught:
            xlab.jit(fun)(*args)
        text = str(caught.value)
        assert line_of(fun, 1) in text, text
        for word in said:
            assert word in text, text

    def test_truth(self):
        def f(x):
            return 1 if x.sum() > 0 else 2

        self.check(f, errors.TracerBoolConversionError, "cond", "where", "bool[]")

    def test_while(self):
        def f(x):
            while x.sum() > 0:
                x = x - 1

        self.check(f, errors.TracerBoolConversionError, "while_loop")

    def test_number(self):
        def f(x):
            return float(x[0])

        self.check(f, errors.ConcretizationTypeError, "float()")

    def test_numpy(self):
        def f(x):
            return np.sin(x)

        self.check(f, errors.TracerArrayConversionError, "xlab.numpy", "pure_callback")

    @pytest.mark.parametrize(
        "transform",
        [xlab.grad, xlab.vmap, lambda f: lambda x: xlab.jvp(f, (x,), (x,))],
        ids=["grad", "vmap", "jvp"],
    )
    def test_numpy_under_a_transformation(self, transform):
        """Where the value is known, NumPy would go on without its derivative, and `grad` would be zero."""
        for f in (np.sin, lambda x: jnp.sin(np.asarray(x)), lambda x: np.multiply(x, 2)):
            with pytest.raises(errors.TracerArrayConversionError, match=r"xlab\.numpy"):
                transform(lambda x: f(x).sum())(np.ones(3, np.float32))

    @pytest.mark.parametrize(
        "use",
        [float, complex, math.sin, lambda x: math.isclose(x, 1.0)],
        ids=["float", "complex", "sin", "isclose"],
    )
    def test_python_numbers_under_grad(self, use):
        """As with NumPy: `grad` of what Python's `math` computes would be zero."""
        with pytest.raises(errors.ConcretizationTypeError, match=r"xlab\.numpy has"):
            xlab.grad(lambda x: x * use(x).real)(1.0)

    def test_integers_under_grad(self):
        """They have no derivative to lose; a number that is no integer is no index."""
        assert xlab.grad(lambda x: x * int(x))(2.5) == 2.0
        with pytest.raises(TypeError, match="interpreted as an integer"):
            xlab.grad(lambda x: x * [1.0, 2.0][x])(1.0)

    def test_range(self):
        def f(n):
            return list(range(n))

        self.check(f, errors.TracerIntegerConversionError, "fori_loop", args=(3,))

    def test_list_index(self):
        def f(n):
            return [1, 2, 3][n]

        self.check(f, errors.TracerIntegerConversionError, args=(1,))

    def test_shape(self):
        def f(n):
            return jnp.zeros(n)

        with pytest.raises(TypeError, match="static|known"):
            xlab.jit(f)(3)

    def test_boolean_mask(self):
        def f(x):
            return x[x > 1]

        with pytest.raises(errors.NonConcreteBooleanIndexError, match="where"):
            xlab.jit(f)(X)

    @pytest.mark.parametrize("transform", ["vmap", "jit", "jit of grad", "scan"])
    def test_under_every_transformation(self, transform):
        def f(x):
            return x if x > 0 else -x

        made = {
            "vmap": lambda: xlab.vmap(f)(X),
            "jit": lambda: xlab.jit(f)(1.0),
            "jit of grad": lambda: xlab.jit(xlab.grad(f))(1.0),
            "scan": lambda: lax.scan(lambda c, x: (f(c), x), 1.0, X),
        }[transform]
        with pytest.raises(errors.TracerBoolConversionError):
            made()

    def test_derivatives_alone_know_their_values(self):
        def f(x):
            return x * 2 if x > 0 else -x

        assert float(xlab.grad(f)(1.0)) == 2.0
        assert float(xlab.jvp(f, (-1.0,), (1.0,))[1]) == -1.0

    def test_what_is_known_stays_usable(self):
        @xlab.jit
        def f(x):
            assert (
                x.shape == (3,)
                and len(x) == 3
                and x.ndim == 1
                and x.size == 3
                and x.dtype == np.float32
            )
            return sum(v for v in x) + [10, 20][x.ndim]

        assert float(f(X)) == 23.0


class TestLeaks:
    def test_a_kept_tracer_is_named_with_its_origin(self):
        kept = []

        @xlab.jit
        def f(x):
            kept.append(x * 2)
            return x

        f(X)
        with pytest.raises(errors.UnexpectedTracerError) as caught:
            kept[0] + 1
        assert line_of(f.__wrapped__, 2) in str(caught.value)
        with pytest.raises(errors.UnexpectedTracerError):
            xlab.jit(lambda x: x + kept[0])(X)
        with pytest.raises(errors.UnexpectedTracerError):
            np.asarray(xlab.jit(lambda: kept[0])())

    @pytest.mark.parametrize("transform", ["grad", "vmap", "scan"])
    def test_from_other_transformations(self, transform):
        kept = []

        def f(x):
            kept.append(x * 2)
            return x

        {
            "grad": lambda: xlab.grad(f)(1.0),
            "vmap": lambda: xlab.vmap(f)(X),
            "scan": lambda: lax.scan(lambda c, x: (f(c), None), 1.0, X),
        }[transform]()
        if isinstance(kept[0], Tracer):
            with pytest.raises(errors.UnexpectedTracerError):
                xlab.jit(lambda x: x + kept[0])(1.0)

    def test_check_tracer_leaks_finds_the_holder(self):
        kept = []
        with xlab.check_tracer_leaks(), pytest.raises(errors.LeakedTracerError, match="list"):
            xlab.jit(lambda x: kept.append(x + 1) or x)(X)
        kept.clear()
        with xlab.check_tracer_leaks():
            assert float(xlab.jit(lambda x: (x + 1).sum())(X)) == 6.0

    def test_what_only_a_cycle_holds_has_not_leaked(self):
        def f(x):
            cycle = [x + 1]
            cycle.append(cycle)
            return x

        with xlab.check_tracer_leaks():
            assert float(xlab.jit(f)(X).sum()) == X.sum()

    def test_errors_leave_the_thread_clean(self):
        def bad(x):
            raise KeyError("mine")

        for wrap in (
            xlab.jit,
            xlab.grad,
            xlab.vmap,
            xlab.checkpoint,
            lambda f: lambda x: lax.cond(True, f, f, x),
        ):
            with pytest.raises(KeyError, match="mine"):
                wrap(bad)(X)
        assert not isinstance(jnp.ones(3) + 1, Tracer)


class TestThreads:
    @pytest.mark.slow
    def test_many_jits_from_many_threads(self):
        failures = []

        def work(seed):
            try:
                for i in range(50):
                    k = seed * 100 + i
                    f = xlab.jit(lambda x, k=k: jnp.sin(x) * k + x)
                    np.testing.assert_allclose(f(X), np.sin(X) * k + X, rtol=1e-5)
                    assert float(xlab.grad(lambda x, k=k: x * x * k)(3.0)) == 6.0 * k
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures, failures[0]

    def test_one_function_from_many_threads(self):
        f = xlab.jit(lambda x: (x * 3).sum())
        results = []
        threads = [
            threading.Thread(
                target=lambda n=n: results.append((n, float(f(np.full(n, 1.0, np.float32)))))
            )
            for n in range(1, 9)
            for _ in range(3)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(results) == sorted((n, 3.0 * n) for n in range(1, 9) for _ in range(3))

    def test_options_are_per_thread(self):
        seen, inside, done = [], threading.Event(), threading.Event()

        def other():
            inside.wait(10)
            seen.append(jnp.asarray(np.arange(3.0)).dtype)
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        with xlab.enable_x64():
            inside.set()
            done.wait(10)
            assert jnp.asarray(np.arange(3.0)).dtype == np.float64
        thread.join()
        assert seen == [np.float32]


class TestJaxprs:
    def closed(self):
        def f(x, y):
            return jnp.sin(x) * y, lax.cond(y[0] > 0, jnp.sin, jnp.cos, x)

        return xlab.make_jaxpr(f)(X, X)

    def test_parts(self):
        closed = self.closed()
        assert [e.primitive.name for e in closed.eqns][:2] == ["sin", "mul"]
        assert all(isinstance(v, Var) for v in closed.jaxpr.invars)
        assert closed.in_avals[0] is ShapedArray((3,), np.float32)
        assert len(closed.out_avals) == 2
        assert (
            closed.eqns[0].source_info.position().line
            == TestJaxprs.closed.__code__.co_firstlineno + 2
        )

    def test_evaluation_under_transformations(self):
        closed = xlab.make_jaxpr(lambda x: (jnp.sin(x) * 2).sum())(X)
        f = lambda x: eval_jaxpr(closed.jaxpr, closed.consts, x)[0]
        np.testing.assert_allclose(f(X), (np.sin(X) * 2).sum(), rtol=1e-6)
        np.testing.assert_allclose(xlab.grad(f)(X), np.cos(X) * 2, rtol=1e-6)
        np.testing.assert_allclose(
            xlab.jit(xlab.vmap(f))(X[None]), [(np.sin(X) * 2).sum()], rtol=1e-6
        )
        with pytest.raises(TypeError, match="1 arguments, got 2"):
            eval_jaxpr(closed.jaxpr, closed.consts, X, X)

    def test_printing_is_deterministic(self):
        assert str(self.closed()) == str(self.closed())

    def test_the_checker_accepts_programs_and_refuses_broken_ones(self):
        closed = self.closed()
        check_jaxpr(closed)
        j = closed.jaxpr
        a, b = Var(ShapedArray((3,), np.float32)), Var(ShapedArray((2,), np.float32))
        sin = j.eqns[0]
        broken = {
            "no earlier equation": j.replace(eqns=j.eqns[1:]),
            "bound twice": j.replace(eqns=[sin, *j.eqns]),
            "binds results of types": Jaxpr([], [a], [b], [sin.replace(invars=[a], outvars=[b])]),
            "not a variable": Jaxpr([], [Literal(1.0, ShapedArray((), np.float32))], [], []),
        }
        for said, program in broken.items():
            with pytest.raises(errors.JaxprTypeError, match=said):
                check_jaxpr(program)
        with pytest.raises(errors.JaxprTypeError, match="constant"):
            check_jaxpr(ClosedJaxpr(Jaxpr([a], [], [a], []), [np.zeros(2, np.float32)]))
        assert isinstance(sin, JaxprEqn)

    def test_scopes_name_equations(self):
        def f(x):
            with xlab.named_scope("outer"), xlab.named_scope("inner"):
                y = jnp.sin(x)
            return xlab.named_call(jnp.cos, name="called")(y)

        closed = xlab.make_jaxpr(f)(1.0)
        assert [e.source_info.scope for e in closed.eqns] == ["outer/inner", "called"]
        text = xlab.jit(f).lower(1.0).as_text(debug_info=True)
        assert "outer/inner/sin" in text and "called/cos" in text


class TestPrimitives:
    def test_one_of_your_own(self):
        from xlab.interpreters import ad, batching, mlir

        p = Primitive("twice_sine", hidden=True)
        p.def_abstract_eval(lambda x: x)
        with pytest.raises(NotImplementedError, match="twice_sine"):
            xlab.jit(lambda x: p.bind(x))(X)
        mlir.register_lowering(p, mlir.lower_fun(lambda x: 2 * jnp.sin(x), multiple_results=False))
        np.testing.assert_allclose(xlab.jit(lambda x: p.bind(x))(X), 2 * np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(p.bind(X), 2 * np.sin(X), rtol=1e-6)
        with pytest.raises(NotImplementedError, match="twice_sine"):
            xlab.grad(lambda x: p.bind(x).sum())(X)
        ad.defjvp(p, lambda t, x: t * 2 * jnp.cos(x))
        np.testing.assert_allclose(
            xlab.grad(lambda x: p.bind(x).sum())(X), 2 * np.cos(X), rtol=1e-6
        )
        with pytest.raises(NotImplementedError, match="twice_sine"):
            xlab.vmap(p.bind)(X)
        batching.defvectorized(p)
        np.testing.assert_allclose(xlab.vmap(xlab.grad(p.bind))(X), 2 * np.cos(X), rtol=1e-6)

    def test_parameters_must_have_a_hash(self):
        p = Primitive("with_parameter", hidden=True)
        p.def_abstract_eval(lambda x, *, k: x)
        with pytest.raises(TypeError, match="hash"):
            p.bind(X, k=[1])


class TestCompileTime:
    def test_constants_are_computed_at_once(self):
        @xlab.jit
        def f(x):
            with xlab.ensure_compile_time_eval():
                n = int(jnp.arange(4).sum())
                inner = float(xlab.jit(lambda a: a + 1)(1.0)) + float(xlab.grad(jnp.sin)(0.0))
                mixed = x * 2
            return mixed * n * inner

        assert float(f(1.0)) == 36.0
        assert float(xlab.grad(f)(1.0)) == 36.0


class TestNeighbors:
    def test_numpy_functions_take_arrays(self):
        a = jnp.arange(3.0)
        assert isinstance(np.sin(a), np.ndarray) and isinstance(np.float32(2) * a, xlab.Array)
        assert isinstance(np.ones(3) + a, xlab.Array) and isinstance(a + np.ones(3), xlab.Array)


class TestPrinting:
    """Types and traced values print as in the field; texts that show programs use the short form, `f32[2]`."""

    @pytest.mark.parametrize(
        ("transform", "expected"),
        [
            (lambda f: xlab.jit(f)(X), "JitTracer(float32[3])"),
            (lambda f: xlab.jit(f)(1.0), "JitTracer(~float32[])"),
            (lambda f: xlab.jvp(f, (X,), (X,)), "JVPTracer(primal=[0. 1. 2.], tangent=[0. 1. 2.])"),
            (lambda f: xlab.vjp(f, X), "GradTracer(primal=[0. 1. 2.], typeof(tangent)=f32[3])"),
            (
                lambda f: xlab.linearize(f, X),
                "GradTracer(primal=[0. 1. 2.], typeof(tangent)=f32[3])",
            ),
            (
                lambda f: xlab.jit(xlab.grad(lambda x: f(x).sum()))(X),
                "GradTracer(primal=JitTracer(float32[3]), typeof(tangent)=f32[3])",
            ),
            (
                lambda f: xlab.jit(lambda x: xlab.jvp(f, (x,), (x,)))(X),
                "JVPTracer(primal=JitTracer(float32[3]), tangent=JitTracer(float32[3]))",
            ),
            (
                lambda f: xlab.vmap(f, in_axes=1)(np.ones((2, 3), np.float32)),
                "VmapTracer(aval=float32[2], batched=float32[2,3])",
            ),
            (
                lambda f: xlab.vmap(xlab.grad(f))(X),
                "GradTracer(primal=VmapTracer(aval=float32[], batched=float32[3]), typeof(tangent)=f32[])",
            ),
        ],
    )
    def test_traced_values(self, transform, expected):
        found = []
        transform(lambda x: found.append((str(x), repr(x))) or x)
        assert found == [(expected, expected)]

    def test_types(self):
        assert [str(xlab.typeof(x)) for x in (X, 1.0, xlab.random.key(0))] == [
            "float32[3]",
            "~float32[]",
            "key<fry>[]",
        ]
        assert repr(xlab.typeof(1.0)) == "ShapedArray(float32[], weak_type=True)"


def test_x11_types_of_examples():
    from xlab.core.avals import ShapedArray
    from xlab.core.mapped_avals import mapped_aval

    batch = ShapedArray((4, 3), np.float32)
    assert mapped_aval(3, 1, batch).shape == (4,) and mapped_aval(3, -1, batch).shape == (4,)
    assert mapped_aval(5, None, batch) is batch
    for kind, words, args in (
        (TypeError, "'text' of type str", (3, 1, "text")),
        (ValueError, r"5 examples along axis 1 .* float32\[4,3\]", (5, 1, batch)),
        (ValueError, r"axis 2 of float32\[4,3\]: it has 2 dimensions", (3, 2, batch)),
    ):
        with pytest.raises(kind, match=words):
            mapped_aval(*args)
