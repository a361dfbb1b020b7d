"""`jit` as users call it: arguments of every kind, what is static, donated, kept, cached, and what is refused."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import namedtuple

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import events, lax

X = np.arange(3, dtype=np.float32)


@pytest.fixture
def seen():
    """Events of the test, as `(kind, name)`."""
    found = []

    def listen(event):
        found.append((event.kind, event.attrs.get("name")))

    events.add(listen)
    yield found
    events.remove(listen)


def kinds(seen):
    return [kind for kind, _ in seen]


def counted(fun):
    """`fun`, and a list that grows with every time Python runs it."""
    calls = []

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        calls.append(args)
        return fun(*args, **kwargs)

    return wrapped, calls


class TestArguments:
    def test_trees_keywords_and_defaults(self):
        Point = namedtuple("Point", "x y")

        @xlab.jit
        def f(p, *rest, scale=2.0, **more):
            return {
                "out": p.x * scale + p.y,
                "rest": [r + 1 for r in rest],
                "more": more,
                "none": None,
            }

        out = f(Point(1.0, X), 5, scale=3.0, extra=7)
        np.testing.assert_allclose(out["out"], 3.0 + X)
        assert int(out["rest"][0]) == 6 and int(out["more"]["extra"]) == 7 and out["none"] is None
        np.testing.assert_allclose(f(Point(1.0, X))["out"], 2.0 + X)

    def test_keyword_order_does_not_matter(self):
        fun, calls = counted(lambda a, b: a - b)
        f = xlab.jit(fun)
        assert float(f(a=3.0, b=1.0)) == float(f(b=1.0, a=3.0)) == 2.0
        assert len(calls) == 1

    def test_methods_and_partials(self):
        class Model:
            def __init__(self, w):
                self.w = w

            @functools.partial(xlab.jit, static_argnums=0)
            def __call__(self, x):
                return x * self.w

        assert float(Model(3.0)(2.0)) == 6.0
        assert float(xlab.jit(functools.partial(lambda a, b: a - b, 5.0))(2.0)) == 3.0
        assert float(xlab.jit(Model(4.0).__call__)(2.0)) == 8.0

    def test_results_that_are_arguments(self):
        x = jnp.arange(3.0)
        a, b, c = xlab.jit(lambda x: (x, x, 1))(x)
        assert a is not x and a is not b
        np.testing.assert_array_equal(a, b)
        assert int(c) == 1 and c.weak_type

    def test_weak_types_are_kept_and_distinguish(self):
        fun, calls = counted(lambda x: x * 2)
        f = xlab.jit(fun)
        assert f(1.0).weak_type and not f(np.float32(1)).weak_type
        assert len(calls) == 2

    def test_numpy_and_device_arrays_share_a_program(self):
        fun, calls = counted(lambda x: x + 1)
        f = xlab.jit(fun)
        f(X), f(jnp.asarray(X)), f(next(iter(X)).reshape(1).repeat(3))
        assert len(calls) == 1

    def test_wide_types_are_narrowed_unless_enabled(self):
        f = xlab.jit(lambda x: x * 2)
        assert f(np.arange(3, dtype=np.float64)).dtype == np.float32
        with xlab.enable_x64():
            assert f(np.arange(3, dtype=np.float64)).dtype == np.float64
            assert f(3).dtype == np.int64
        assert f(3).dtype == np.int32


class TestStatic:
    def test_by_number_and_by_name_agree(self):
        def f(x, n):
            assert isinstance(n, int)
            return x * n

        for g in (
            xlab.jit(f, static_argnums=1),
            xlab.jit(f, static_argnames="n"),
            xlab.jit(f, static_argnums=(-1,)),
        ):
            assert float(g(2.0, 3)) == 6.0
            assert float(g(2.0, n=4)) == 8.0

    def test_numbers_and_names_together_are_taken_as_they_are(self):
        """What `wraps` says of a wrapper's parameters is not where it takes them: the second is no `n` here."""

        def f(scope, n, x):
            return x * n + len(scope)

        @functools.wraps(f)
        def wrapper(scope, variables, *args, **kwargs):
            return f(scope, *args, **kwargs) + variables["v"]

        g = xlab.jit(wrapper, static_argnums=0, static_argnames="n")
        assert float(g(("a",), {"v": 5.0}, x=2.0, n=3)) == 12.0
        assert float(g(("a", "b"), {"v": 5.0}, 3, 2.0)) == 13.0

        def traced(x, n):
            kinds.append(type(n))
            return x * n

        kinds: list[type] = []
        h = xlab.jit(traced, static_argnums=(), static_argnames="n")
        assert float(h(2.0, n=3)) == float(h(2.0, 3)) == 6.0
        assert kinds[0] is int and kinds[1] is not int

    def test_equal_values_hit_and_different_types_miss(self):
        fun, calls = counted(lambda x, n: x * n)
        f = xlab.jit(fun, static_argnums=1)
        f(2.0, 3), f(2.0, 3), f(2.0, 4)
        assert len(calls) == 2
        assert f(2, 3.0).dtype == np.float32 and f(2, 3).dtype == np.int32
        assert len(calls) == 4

    def test_a_function_as_static_argument(self):
        f = xlab.jit(lambda g, x: g(x), static_argnums=0)
        np.testing.assert_allclose(f(jnp.sin, X), np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(f(jnp.cos, X), np.cos(X), rtol=1e-6)

    def test_under_other_transformations(self):
        f = xlab.jit(lambda n, x: x**n, static_argnums=0)
        assert float(xlab.grad(lambda x: f(3, x))(2.0)) == 12.0
        np.testing.assert_allclose(xlab.vmap(lambda x: f(2, x))(X), X**2)

    @pytest.mark.parametrize(
        ("call", "error", "said"),
        [
            (lambda: xlab.jit(lambda x, n: x, static_argnums=1)(1.0, [1]), ValueError, "hash"),
            (lambda: xlab.jit(lambda x, n: x, static_argnames="m"), ValueError, "'m'"),
            (lambda: xlab.jit(lambda x: x, static_argnums=3), ValueError, "3"),
        ],
    )
    def test_mistakes(self, call, error, said):
        with pytest.raises(error, match=said):
            call()


class TestDonation:
    def test_donated_arrays_are_gone(self):
        f = xlab.jit(lambda x, y: x + y, donate_argnums=0)
        x, y = jnp.arange(3.0), jnp.ones(3)
        np.testing.assert_allclose(f(x, y), X + 1)
        assert x.is_deleted() and not y.is_deleted()
        with pytest.raises(RuntimeError, match="deleted|donated"):
            np.asarray(x)
        with pytest.raises((RuntimeError, ValueError), match="deleted|donated"):
            f(x, y)

    def test_by_name_and_in_trees(self):
        f = xlab.jit(
            lambda x, state: {"a": state["a"] + x, "b": state["b"] * x}, donate_argnames="state"
        )
        state = {"a": jnp.ones(3), "b": jnp.ones(3)}
        out = f(jnp.arange(3.0), state=state)
        np.testing.assert_allclose(out["b"], X)
        assert state["a"].is_deleted() and state["b"].is_deleted()

    def test_again_and_again(self):
        f = xlab.jit(lambda x: x + 1, donate_argnums=0)
        x = jnp.zeros(3)
        for _ in range(5):
            x = f(x)
        np.testing.assert_allclose(x, 5.0)

    def test_an_unused_argument_is_not_donated(self):
        x = jnp.ones(3)
        xlab.jit(lambda x, y: y, donate_argnums=0)(x, jnp.ones(3))
        assert not x.is_deleted()


class TestPrograms:
    def test_unused_arguments_are_dropped_unless_kept(self):
        def f(a, b, c):
            return a + c

        lowered = xlab.jit(f).lower(1.0, 2.0, 3.0)
        assert lowered.kept_var_idx == {0, 2}
        assert xlab.jit(f, keep_unused=True).lower(1.0, 2.0, 3.0).kept_var_idx == {0, 1, 2}
        assert (
            float(xlab.jit(f)(1.0, 2.0, 3.0))
            == float(xlab.jit(f, keep_unused=True)(1.0, 2.0, 3.0))
            == 4.0
        )

    def test_inline(self):
        inner = xlab.jit(lambda x: jnp.sin(x), inline=True)
        text = str(xlab.make_jaxpr(lambda x: inner(x) * 2)(1.0))
        assert "jit" not in text and "sin" in text

    def test_nested_jits_share_one_function(self):
        inner = xlab.jit(lambda x: lax.sin(lax.cos(x)))
        text = xlab.jit(lambda x: inner(inner(x))).lower(1.0).as_text()
        assert text.count("stablehlo.cosine") == 1
        assert text.count("call @") == 2

    def test_eval_shape_runs_nothing(self):
        fun, calls = counted(lambda x: {"y": x @ x.T})
        out = xlab.eval_shape(fun, xlab.ShapeDtypeStruct((3, 4), np.float32))
        assert out["y"].shape == (3, 3) and out["y"].dtype == np.float32 and len(calls) == 1

    def test_the_same_program_gives_the_same_text(self):
        def build():
            return (
                xlab.jit(lambda x, w: jnp.tanh(x @ w).sum())
                .lower(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
                .as_text()
            )

        assert build() == build()

    def test_disable_jit_runs_python(self):
        with xlab.disable_jit():
            assert float(xlab.jit(lambda x: x + 1 if float(x) > 0 else x)(2.0)) == 3.0
            out = lax.fori_loop(0, 3, lambda i, x: x + float(i), 0.0)
        assert float(out) == 3.0

    def test_wrapped_names(self):
        @xlab.jit
        def documented(x):
            """Says so."""
            return x

        assert documented.__name__ == "documented" and documented.__doc__ == "Says so."
        assert documented.__wrapped__(3) == 3


class TestConstants:
    BIG = np.arange(70_000, dtype=np.float32)

    def test_arrays_closed_over(self):
        w = jnp.arange(3.0)
        np.testing.assert_allclose(xlab.jit(lambda x: x * w)(X), X * X)

    def test_large_arrays_are_not_written_into_the_program(self):
        big = self.BIG
        lowered = xlab.jit(lambda x: x + big).lower(np.float32(1))
        assert len(lowered.as_text()) < 10_000
        np.testing.assert_allclose(xlab.jit(lambda x: x + big)(np.float32(1)), big + 1)

    @pytest.mark.parametrize(
        "inside", ["jit", "scan", "cond", "while", "grad", "vmap", "checkpoint"]
    )
    def test_large_arrays_inside(self, inside):
        big = self.BIG
        first = big + 1

        def f(x):
            if inside == "jit":
                return xlab.jit(lambda y: y + big)(x)
            if inside == "scan":
                return lax.scan(
                    lambda c, _: (c + big, None), jnp.broadcast_to(x, big.shape), None, length=1
                )[0]
            if inside == "cond":
                return lax.cond(x > 0, lambda y: y + big, lambda y: y - big, x)
            if inside == "while":
                return lax.while_loop(
                    lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] + big), (0, x + 0 * big)
                )[1]
            if inside == "grad":
                return xlab.grad(lambda y: (y * (y + 2 * big)).sum() / 2)(
                    jnp.broadcast_to(x, big.shape)
                )
            if inside == "vmap":
                return xlab.vmap(lambda y, b: y + b, (None, 0))(x, jnp.asarray(big))
            return xlab.checkpoint(lambda y: y + big)(x)

        np.testing.assert_allclose(xlab.jit(f)(np.float32(1)), first)
        assert len(xlab.jit(f).lower(np.float32(1)).as_text()) < 30_000

    def test_a_constant_may_change_hands(self):
        """Programs remember arrays by identity: another array is another constant."""
        outs = []
        for k in range(3):
            w = jnp.full(3, float(k))
            outs.append(float(xlab.jit(lambda x, w=w: x + w)(1.0)[0]))
        assert outs == [1.0, 2.0, 3.0]


class TestCaches:
    def test_hits_and_misses_with_reasons(self, seen):
        f = xlab.jit(lambda x: x + 1)
        f(X)
        first = kinds(seen)
        assert [k for k in first if k in ("trace", "lower", "compile")] == [
            "trace",
            "lower",
            "compile",
        ]
        seen.clear()
        f(X)
        assert "compile" not in kinds(seen) and "cache_hit" in kinds(seen)
        seen.clear()
        f(X[:2])
        assert "compile" in kinds(seen)

    def test_only_the_outer_function_is_traced_by_event(self, seen):
        inner = xlab.jit(lambda x: lax.sin(x))
        xlab.jit(lambda x: inner(x))(X)
        assert kinds(seen).count("compile") == 1
        assert kinds(seen).count("lower") == 1

    def test_a_failing_trace_compiles_nothing(self, seen):
        @xlab.jit
        def broken(x):
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            broken(X)
        assert kinds(seen).count("trace") == 1 and "lower" not in kinds(seen)

    def test_ahead_of_time_stages_one_by_one(self, seen):
        f = xlab.jit(lambda x: x * 3)
        lowered = f.lower(X)
        assert "compile" not in kinds(seen) and "lower" in kinds(seen)
        compiled = lowered.compile()
        assert kinds(seen).count("compile") == 1
        assert lowered.compile() is compiled
        seen.clear()
        np.testing.assert_allclose(compiled(X), X * 3)
        assert not {"trace", "lower", "compile"} & set(kinds(seen))

    def test_the_reason_names_the_argument_and_both_types(self):
        with xlab.explain_cache_misses():
            f = xlab.jit(lambda first, second: first + second)
            f(X, X)
            import logging

            records = []
            handler = logging.Handler()
            handler.emit = records.append
            logging.getLogger("xlab").addHandler(handler)
            try:
                f(X, X.astype(np.int32))
            finally:
                logging.getLogger("xlab").removeHandler(handler)
        text = records[-1].getMessage()
        assert "second" in text and "f32[3]" in text and "i32[3]" in text

    def test_clear_caches(self):
        fun, calls = counted(lambda x: x + 1)
        f = xlab.jit(fun)
        f(X)
        xlab.clear_caches()
        f(X)
        assert len(calls) == 2

    def test_programs_do_not_outlive_their_function(self):
        class Big:
            pass

        token = Big()
        alive = weakref.ref(token)
        f = xlab.jit(lambda x, t=token: x + (0 if t else 1))
        f(X)
        del f, token
        gc.collect()
        assert alive() is None

    def test_no_python_on_the_second_call(self):
        import sys

        f = xlab.jit(lambda x, y: x + y["a"])
        args = (jnp.ones(3), {"a": jnp.ones(3)})
        f(*args), f(*args)
        called = []

        def hook(frame, event, arg):
            if event == "call":
                called.append(frame.f_code.co_qualname)

        sys.setprofile(hook)
        try:
            f(*args)
        finally:
            sys.setprofile(None)
        assert called == []


class TestRefused:
    @pytest.mark.parametrize(
        "value",
        [object(), "text", np.array(["a"]), np.array([object()])],
        ids=["object", "str", "str array", "object array"],
    )
    def test_arguments_that_are_no_arrays(self, value):
        with pytest.raises(TypeError) as caught:
            xlab.jit(lambda first: first)(value)
        assert "first" in str(caught.value)

    def test_results_that_are_no_arrays(self):
        with pytest.raises(TypeError, match="text"):
            xlab.jit(lambda x: "text")(1.0)

    def test_nested_argument_paths(self):
        with pytest.raises(TypeError, match=r"p\['k'\]\[1\]"):
            xlab.jit(lambda p: 0)({"k": [1.0, "text"]})

    @pytest.mark.parametrize(
        ("options", "args", "path", "option"),
        [
            ({}, (1.0, 2.0, "text"), "xs[1]", {"static_argnums": 2}),
            ({"static_argnums": 1}, (1.0, 2.0, "text"), "xs[1]", {"static_argnums": 2}),
            ({"static_argnums": 0}, (1, "text"), "xs[0]", {"static_argnums": 1}),
            ({"static_argnums": 1}, ("text", 2), "first", {"static_argnames": "first"}),
        ],
    )
    def test_one_of_any_number_of_arguments(self, options, args, path, option):
        """Named by its place in the call, with an option that marks it static."""

        def f(first, *xs):
            return 0

        with pytest.raises(TypeError) as caught:
            xlab.jit(f, **options)(*args)
        (said,) = (f"{k}={v!r}" for k, v in option.items())
        assert f"argument `{path}`" in str(caught.value) and f"jit(f, {said})" in str(caught.value)
        xlab.jit(f, **option)

    def test_huge_integers(self):
        with pytest.raises(OverflowError):
            xlab.jit(lambda x: x)(2**40)

    def test_not_a_function(self):
        with pytest.raises(TypeError, match="callable|function"):
            xlab.jit(3)


class TestAheadOfTime:
    def compiled(self):
        return xlab.jit(lambda a, b: {"s": a + b["k"]}).lower(X, {"k": X}).compile()

    def test_texts_and_analyses(self):
        lowered = xlab.jit(lambda x: jnp.sin(x) + 1).lower(X)
        assert lowered.as_text().startswith("module @jit_")
        assert lowered.as_text("hlo").startswith("HloModule jit_")
        compiled = lowered.compile()
        assert "HloModule" in compiled.as_text()
        assert compiled.cost_analysis()["flops"] > 0
        assert compiled.memory_analysis() is not None
        with pytest.raises(ValueError, match="nonsense"):
            lowered.as_text("nonsense")

    def test_information(self):
        traced = xlab.jit(lambda x, y: (x, {"z": y})).trace(X, 1.0)
        assert traced.out_info[0].shape == (3,) and traced.out_info[1]["z"].shape == ()
        assert len(traced.jaxpr.eqns) == 0
        assert traced.lower().out_info[0].dtype == np.float32
        assert str(traced.out_avals[0]) == "float32[3]" and traced.out_avals[1]["z"].weak_type

    def test_arguments_and_donations_are_told_at_every_stage(self):
        traced = xlab.jit(lambda a, b: (a["x"] + b, a["y"]), donate_argnums=0).trace(
            {"x": X, "y": X}, b=X
        )
        lowered = traced.lower()
        for stage in (traced, lowered, lowered.compile()):
            (a,), named = stage.args_info
            assert [a["x"].donated, a["y"].donated, named["b"].donated] == [True, True, False]
            assert (
                stage.donate_argnums == (0, 1)
                and a["x"].shape == (3,)
                and a["x"].dtype == np.float32
            )

    def test_calls(self):
        np.testing.assert_allclose(self.compiled()(X, {"k": X})["s"], 2 * X)

    def test_the_structure_must_match(self):
        with pytest.raises(TypeError, match="structure"):
            self.compiled()(X, {"other": X})

    def test_the_count_must_match(self):
        with pytest.raises(TypeError):
            self.compiled()(X)

    def test_types_must_match_and_are_named(self):
        with pytest.raises(TypeError, match=r"f32\[3\].*f32\[2\]") as caught:
            self.compiled()(X, {"k": X[:2]})
        assert "b['k']" in str(caught.value)

    def test_mismatches_of_one_kind_are_named_together_and_at_most_five_kinds(self):
        compiled = xlab.jit(lambda xs: sum(xs)).lower([X] * 7).compile()
        with pytest.raises(TypeError, match=r"\(7 of 7 arguments\)") as caught:
            compiled([X.astype(np.int32)] * 7)
        assert str(caught.value).count("i32[3]") == 1 and "xs[6]" in str(caught.value)
        with pytest.raises(TypeError, match=r"\(5 of 7 shown\) \(7 of 7 arguments\)") as caught:
            compiled([np.zeros(4 + i, np.float32) for i in range(7)])
        assert str(caught.value).count(", called with") == 5

    def test_weak_types_are_not_compared(self):
        compiled = xlab.jit(lambda x: x + 1).lower(np.float32(1)).compile()
        assert float(compiled(2.0)) == 3.0

    def test_not_under_a_transformation(self):
        compiled = xlab.jit(lambda x: x + 1).lower(1.0).compile()
        with pytest.raises(TypeError):
            xlab.grad(compiled)(1.0)

    def test_an_unknown_compiler_option(self):
        with pytest.raises(Exception, match="xla_no_such_option"):
            xlab.jit(lambda x: x + 1).lower(1.0).compile({"xla_no_such_option": True})

    def test_static_arguments(self):
        f = xlab.jit(lambda x, n: x * n, static_argnames="n")
        compiled = f.lower(X, n=3).compile()
        np.testing.assert_allclose(compiled(X), X * 3)


def test_which_arrays_that_a_program_closes_over_stand_in_it():
    x = jnp.arange(100.0)
    indices = jnp.asarray(np.random.RandomState(0).permutation(100))
    over = xlab.device_put(
        indices[:96],
        xlab.sharding.NamedSharding(xlab.make_mesh((8,), ("i",)), xlab.sharding.PartitionSpec("i")),
    )
    kept = {
        "integers": (lambda y: y[indices], 0),
        "many integers": (lambda y: y + jnp.zeros(20000, int)[:100] + LARGE[:100], 1),
        "floats": (lambda y: y + x, 1),
        "a sharded array": (lambda y: over * 1, 1),
    }
    for name, (f, arguments) in kept.items():
        lowered = xlab.jit(f).lower(x)
        assert (
            lowered.as_text().split("public @main")[1].split("->")[0].count("%const") == arguments
        ), name
        np.testing.assert_array_equal(xlab.jit(f)(x), f(x), err_msg=name)
    np.testing.assert_array_equal(
        xlab.jit(lambda y: xlab.jit(lambda y: y[indices])(y))(x), x[indices]
    )


LARGE = np.arange(20000)


class _Long:
    def __repr__(self):
        return "\n".join(f"line {i} of many" for i in range(400))


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda: xlab.jit(lambda x: {"a": [x, _Long()]})(1.0), r"result['a'][1]"),
        (lambda: xlab.jit(lambda x: x)({"a": [1.0, _Long()]}), r"x['a'][1]"),
        (lambda: xlab.lax.sin(_Long()), "operand 0"),
        (lambda: xlab.grad(lambda x: x)(_Long()), ""),
        (lambda: xlab.device_put(_Long()), "device_put"),
        (lambda: xlab.random.split(_Long()), "random key"),
        (lambda: xlab.new_ref(1.0).__setitem__(..., _Long()), ""),
        (lambda: xlab.lax.scan(lambda c, x: (c, _Long()), 1.0, xlab.numpy.ones(3)), ""),
        (lambda: xlab.lax.cond(True, lambda x: _Long(), lambda x: x, 1.0), ""),
        (lambda: xlab.numpy.asarray(_Long()), "Value"),
        (lambda: xlab.pmap(lambda x: x)(_Long()), "x"),
    ],
)  # fmt: skip
def test_errors_about_a_value_that_is_no_array_show_its_beginning_and_end(call, where):
    with pytest.raises(TypeError) as found:
        call()
    said = str(found.value)
    assert where in said and len(said) < 600 and "line 399 of many" in said, said


def test_classes_that_refuse_placeholders_pass_every_boundary():
    """Arguments are named, donated and placed without making a value of a class that checks its parts."""

    @xlab.tree_util.register_pytree_node_class
    class Checked:
        def __init__(self, x, y):
            assert np.shape(x)[-1] == np.shape(y)[-1]
            self.x, self.y = x, y

        def tree_flatten(self):
            return (self.x, self.y), None

        @classmethod
        def tree_unflatten(cls, _, parts):
            return cls(*parts)

    def f(c, scale):
        return Checked(c.x * scale, c.y), scale

    def one():
        return Checked(jnp.ones(3), jnp.ones(3))

    here = xlab.sharding.SingleDeviceSharding(xlab.devices()[0])
    made = [
        xlab.jit(f)(one(), 2.0),
        xlab.jit(f, donate_argnums=0)(one(), 2.0),
        xlab.jit(f, donate_argnames="scale")(one(), scale=jnp.float32(2.0)),
        xlab.jit(f, in_shardings=(here, None))(one(), 2.0),
        xlab.jit(f, in_shardings=here, out_shardings=here)(one(), 2.0),
        xlab.jit(f).lower(one(), 2.0).compile()(one(), 2.0),
    ]
    assert [float(c.x.sum()) for c, _ in made] == [6.0] * len(made)
    names = xlab.jit(f).trace(one(), 2.0).jaxpr.debug_info.arg_names
    assert names == ("c[<flat index 0>]", "c[<flat index 1>]", "scale")
