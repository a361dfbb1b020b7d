"""A primitive of one's own, rule by rule: what works at each step, and what the error says until then."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.core import ShapedArray
from xlab.extend.core import Primitive
from xlab.extend.mlir import ir
from xlab.extend.mlir.dialects import chlo
from xlab.extend.mlir.dialects import stablehlo as hlo
from xlab.interpreters import ad, batching, mlir

F32 = np.float32


@pytest.fixture
def fma():
    """`fma_p` computes `x * y + z`; each test adds the rules it is about."""
    prim = Primitive("fma")
    prim.def_abstract_eval(_fma_types)
    mlir.register_lowering(prim, _fma_lowering)
    ad.primitive_jvps[prim] = lambda primals, tangents: _fma_jvp(prim, primals, tangents)
    ad.primitive_transposes[prim] = lambda ct, *operands: _fma_transpose(prim, ct, *operands)
    batching.primitive_batchers[prim] = lambda operands, dims: _fma_batch(prim, operands, dims)
    return prim


def _fma_types(x, y, z):
    assert x.shape == y.shape == z.shape
    return ShapedArray(x.shape, x.dtype)


def _fma_lowering(ctx, x, y, z):
    return [hlo.AddOp(hlo.MulOp(x, y), z).result]


def _fma_jvp(prim, primals, tangents):
    x, y, z = primals
    dx, dy, dz = (ad.instantiate_zeros(t) for t in tangents)
    return prim.bind(x, y, z), prim.bind(dx, y, prim.bind(x, dy, dz))


def _fma_transpose(prim, ct, x, y, z):
    zero = jnp.zeros_like(ct)
    if ad.is_undefined_primal(x):
        return prim.bind(ct, y, zero), None, ct
    return None, prim.bind(x, ct, zero), ct


def _fma_batch(prim, operands, dims):
    size = next(x.shape[d] for x, d in zip(operands, dims) if d is not None)
    return prim.bind(*(batching.bdim_at_front(x, d, size) for x, d in zip(operands, dims))), 0


def squares(prim):
    return lambda a, b: prim.bind(a, a, b)


class TestStepByStep:
    def test_nothing_but_a_name(self):
        prim = Primitive("step")
        with pytest.raises(NotImplementedError, match="def_abstract_eval"):
            prim.bind(2.0)
        prim.def_impl(lambda x: np.multiply(x, 10.0))
        assert prim.bind(2.0) == 20.0
        with pytest.raises(NotImplementedError, match="no abstract evaluation rule"):
            xlab.jit(prim.bind)(2.0)

    def test_types_but_no_lowering(self):
        prim = Primitive("step")
        prim.def_impl(lambda x: np.multiply(x, 10.0))
        prim.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
        assert prim.bind(2.0) == 20.0
        assert (
            str(xlab.make_jaxpr(prim.bind)(2.0))
            == "{ lambda ; a:f32[]. let b:f32[] = step a in (b,) }"
        )
        with pytest.raises(
            NotImplementedError, match=r"lower 'step'.*mlir.register_lowering\(step_p, rule\)"
        ):
            xlab.jit(prim.bind)(2.0)

    def test_a_lowering_for_another_platform(self):
        prim = Primitive("step")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(prim, lambda ctx, x: [hlo.negate(x)], platform="tpu")
        with pytest.raises(NotImplementedError, match="not found for platform cpu"):
            xlab.jit(prim.bind)(2.0)
        mlir.register_lowering(prim, lambda ctx, x: [hlo.add(x, x)], platform="cpu")
        assert float(xlab.jit(prim.bind)(2.0)) == 4.0
        mlir.register_lowering(prim, lambda ctx, x: [x])
        assert float(xlab.jit(lambda x: prim.bind(x))(2.0)) == 4.0

    def test_no_derivatives_and_no_batches(self):
        prim = Primitive("step")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(prim, lambda ctx, x: [hlo.add(x, x)])
        assert float(prim.bind(2.0)) == 4.0
        with pytest.raises(NotImplementedError, match="differentiate 'step'"):
            xlab.grad(prim.bind)(2.0)
        with pytest.raises(NotImplementedError, match="batch 'step'"):
            xlab.vmap(prim.bind)(jnp.ones(3))
        ad.primitive_jvps[prim] = lambda ps, ts: (prim.bind(*ps), prim.bind(*ts))
        assert [float(v) for v in xlab.jvp(prim.bind, (2.0,), (1.0,))] == [4.0, 2.0]
        with pytest.raises(NotImplementedError, match="transpose 'step'"):
            xlab.grad(prim.bind)(2.0)

    def test_tangents_that_are_numbers_do_not_hide_the_missing_rule(self):
        prim = Primitive("step")
        prim.def_impl(lambda x: x)
        for tangent in (1.0, np.float32(1)):
            with pytest.raises(
                NotImplementedError, match="^Differentiation rule for 'step' not implemented: "
            ):
                xlab.jvp(prim.bind, (2.0,), (tangent,))


class TestWhole:
    def test_every_transformation(self, fma):
        f = squares(fma)
        a, b = jnp.array([2.0, 3.0]), jnp.array([10.0, 20.0])
        assert float(f(2.0, 10.0)) == float(xlab.jit(f)(2.0, 10.0)) == 14.0
        assert [float(v) for v in xlab.jvp(f, (2.0, 10.0), (1.0, 1.0))] == [14.0, 5.0]
        assert float(xlab.grad(f)(2.0, 10.0)) == float(xlab.jit(xlab.grad(f))(2.0, 10.0)) == 4.0
        assert float(xlab.grad(xlab.grad(f))(2.0, 10.0)) == 2.0
        for g in (xlab.vmap(f), xlab.jit(xlab.vmap(f)), xlab.vmap(xlab.jit(f))):
            np.testing.assert_array_equal(g(a, b), [14.0, 29.0])
        np.testing.assert_array_equal(xlab.vmap(xlab.grad(f))(a, b), [4.0, 6.0])
        np.testing.assert_array_equal(
            xlab.jit(xlab.grad(lambda a: xlab.vmap(f)(a, b).sum()))(a), [4.0, 6.0]
        )
        assert float(xlab.checkpoint(f)(2.0, 10.0)) == 14.0
        np.testing.assert_array_equal(
            xlab.lax.scan(lambda c, x: (f(c, x), c), 1.0, a)[1], [1.0, 3.0]
        )

    def test_each_equation_has_its_own_place(self, fma):
        f = xlab.jit(lambda x: squares(fma)(squares(fma)(x, 1.0), x))
        text = f.lower(2.0).as_text(debug_info=True)
        assert text.count("func.func private") == 2
        assert {
            m[1] for m in re.finditer(r'stablehlo\.(?:add|multiply) .* loc\("\S*fma;(\w+)"', text)
        } == {"e0", "e1"}
        assert "test_primitives.py" in text
        compiled = f.lower(2.0).compile().as_text()
        assert "fma;e0" in compiled and "fma;e1" in compiled
        assert float(f(2.0)) == 27.0

    def test_a_rule_runs_once_for_each_type(self):
        prim, runs = Primitive("counted"), []
        prim.def_abstract_eval(lambda x, *, by: x)

        def rule(ctx, x, *, by):
            runs.append((ctx.avals_in[0].shape, by))
            return [hlo.multiply(x, mlir.ir_constant(np.full(ctx.avals_in[0].shape, by, F32)))]

        mlir.register_lowering(prim, rule)
        out = xlab.jit(lambda x: prim.bind(prim.bind(x, by=2), by=2) + prim.bind(x[0], by=3))(
            jnp.ones(2)
        )
        assert out.tolist() == [7.0, 7.0]
        assert runs == [((2,), 2), ((), 3)]

    def test_across_a_mesh(self, fma):
        if len(xlab.devices()) < 2:
            pytest.skip("needs two devices")
        mesh = xlab.make_mesh(
            (2,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,), devices=xlab.devices()[:2]
        )
        P = xlab.P
        f = xlab.jit(
            xlab.shard_map(
                lambda a, b: squares(fma)(a, b),
                mesh=mesh,
                in_specs=(P("i"), P("i")),
                out_specs=P("i"),
            )
        )
        np.testing.assert_array_equal(f(jnp.arange(4.0), jnp.ones(4)), [1, 2, 5, 10])


class TestLowering:
    def test_several_results_parameters_and_other_programs(self):
        prim = Primitive("both")
        prim.multiple_results = True
        prim.def_abstract_eval(lambda x, *, k: [x, ShapedArray((2, *x.shape), x.dtype)])

        def rule(ctx, x, *, k):
            shifted = hlo.add(x, mlir.ir_constant(np.full(ctx.avals_in[0].shape, k, F32)))
            stack = mlir.lower_fun(lambda x: jnp.stack([x, jnp.sin(x)]), multiple_results=False)
            return [shifted, *stack(ctx, shifted)]

        mlir.register_lowering(prim, rule)
        for run in (prim.bind, xlab.jit(prim.bind, static_argnames="k")):
            first, second = run(jnp.zeros(2), k=3)
            np.testing.assert_allclose(first, [3.0, 3.0])
            np.testing.assert_allclose(second, [[3.0, 3.0], np.sin([3.0, 3.0])], rtol=1e-6)

    def test_lower_fun_is_a_rule(self):
        prim = Primitive("through")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(
            prim, mlir.lower_fun(lambda x: 2 * jnp.sin(x), multiple_results=False)
        )
        assert float(xlab.jit(prim.bind)(1.0)) == pytest.approx(2 * np.sin(1.0))

    def test_inner_programs(self):
        inner = xlab.make_jaxpr(lambda x: jnp.cos(x) * 2.0)(1.0)
        prim = Primitive("inner")
        prim.multiple_results = True
        prim.def_abstract_eval(lambda x: [x, x, x])

        def rule(ctx, x):
            one, _ = mlir.jaxpr_subcomp(
                ctx.module_context,
                inner.jaxpr,
                ctx.name_stack,
                mlir.TokenSet(),
                [],
                x,
                dim_var_values=(),
                const_lowering={},
                outer_traceback=None,
            )
            two = mlir.core_call_lowering(ctx, x, name="core", call_jaxpr=inner)
            function = mlir.lower_jaxpr_to_fun(ctx.module_context, "helper", inner, [])
            three = mlir.func.CallOp(function, [x]).results
            return [one, two, three]

        mlir.register_lowering(prim, rule)
        out = xlab.jit(lambda x: prim.bind(x))(1.0)
        assert [float(v) for v in out] == pytest.approx([2 * np.cos(1.0)] * 3)

    def test_other_dialects_and_types(self):
        prim = Primitive("tangent")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(prim, lambda ctx, x: chlo.tan(x))
        assert float(prim.bind(1.0)) == pytest.approx(np.tan(1.0), rel=1e-6)
        with mlir.make_ir_context():
            assert isinstance(mlir.ir_attribute({"a": [1, 2.0, "x", True]}), ir.DictAttr)
        assert str(mlir.aval_to_ir_type(ShapedArray((2, 3), F32))) == "tensor<2x3xf32>"
        assert str(mlir.dtype_to_ir_type(np.dtype("int8"))) == "i8"
        assert str(mlir.dense_int_elements([1, 2])) == "dense<[1, 2]> : tensor<2xi64>"
        assert str(mlir.dense_int_array([3])) == "array<i64: 3>"
        assert str(mlir.i32_attr(3)) == "3 : i32"
        assert issubclass(mlir.Value, object) and mlir.Mesh is xlab.sharding.Mesh

    def test_keys_and_booleans(self):
        prim = Primitive("flip")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(prim, lambda ctx, x: [hlo.not_(x)])
        assert prim.bind(jnp.array([True, False])).tolist() == [False, True]

    def test_custom_call(self):
        prim = Primitive("annotated")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(
            prim,
            lambda ctx, x: [
                mlir.custom_call(
                    "some_target",
                    result_types=[mlir.aval_to_ir_type(ctx.avals_out[0])],
                    operands=[x],
                    api_version=4,
                    backend_config={"level": np.int32(3)},
                    operand_output_aliases={0: 0},
                ).result
            ],
        )
        text = xlab.jit(prim.bind).lower(1.0).as_text()
        assert (
            "@some_target" in text and "level = 3 : i32" in text and "output_operand_alias" in text
        )

    def test_what_a_rule_must_return(self):
        prim = Primitive("wrong")
        prim.def_abstract_eval(lambda x: x)
        mlir.register_lowering(prim, lambda ctx, x: [hlo.convert(ir.Type.parse("tensor<i32>"), x)])
        with pytest.raises(
            TypeError, match=r"'wrong' must return MLIR values: .*tensor<i32>.*tensor<f32>"
        ):
            prim.bind(1.0)
        other = Primitive("other")
        other.def_abstract_eval(lambda x: x)
        mlir.register_lowering(other, lambda ctx, x: [3])
        with pytest.raises(TypeError, match="it gave 3 where an MLIR value was expected"):
            other.bind(1.0)

    def test_programs_as_modules(self):
        closed = xlab.make_jaxpr(lambda x: x * 2)(1.0)
        one = mlir.lower_jaxpr_to_module("one", closed).module
        two = mlir.lower_jaxpr_to_module("two", closed).module
        assert mlir.merge_mlir_modules(one, "taken", two) == "taken"
        assert mlir.merge_mlir_modules(one, "taken", two) == "taken_0"
        assert "@taken_0" in mlir.module_to_string(one) and mlir.module_to_bytecode(one).startswith(
            b"ML"
        )


class TestPrimitive:
    def test_it_can_be_bound_another_way(self):
        prim = Primitive("traced")
        prim.def_bind_with_trace(lambda trace, *given: (type(trace).__name__, *given))
        name, args, (aval,), params = prim.bind(1.0, a=2)
        assert (name, args, params) == ("EvalTrace", (1.0,), {"a": 2})
        assert aval.str_short() == "float32[]" and aval.weak_type
        assert xlab.make_jaxpr(lambda x: 0 * len(prim.bind(x)[0]))(1.0).eqns == []

    def test_types_on_request(self, fma):
        x = ShapedArray((2,), F32)
        aval, effects = fma.abstract_eval(x, x, x)
        assert aval is x and not effects
        assert fma.get_bind_params({"a": 1}) == {"a": 1} and not fma.call_primitive

    @pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
    def test_functions_with_rules_are_subfuns(self, kind):
        fun = getattr(xlab, kind)(lambda x: 3 * x)
        if kind == "custom_jvp":
            fun.defjvp(lambda primals, tangents: (fun(*primals), 5 * tangents[0]))
        else:
            fun.defvjp(lambda x: (3 * x, None), lambda _, ct: (5 * ct,))
        (eqn,) = xlab.make_jaxpr(fun)(1.0).eqns
        params = eqn.primitive.get_bind_params(eqn.params)
        called, *rules = params["subfuns"]
        assert len(rules) == len(eqn.primitive.rules) and "call_jaxpr" not in params
        assert called.call_wrapped(2.0)[0] == 6.0

        def again(x):
            return eqn.primitive.bind(x, **params)[0]

        assert again(2.0) == 6.0 and xlab.grad(again)(2.0) == 5.0
        assert xlab.grad(xlab.jit(again))(2.0) == 5.0

    @pytest.mark.parametrize("has_side_effect", [False, True])
    def test_a_lowering_rule_calls_python(self, has_side_effect):
        prim = Primitive("halves")
        prim.multiple_results = True
        prim.def_abstract_eval(lambda x: (x, ShapedArray((), F32)))
        seen = []

        def halves(x):
            seen.append(type(x))
            return x / 2, x.sum()

        def rule(ctx, x):
            doubled = hlo.add(x, x)
            results, token, keepalive = mlir.emit_python_callback(
                ctx, halves, None, [doubled], ctx.avals_in, ctx.avals_out, has_side_effect=has_side_effect
            )  # fmt: skip
            assert token is None
            ctx.module_context.add_keepalive(keepalive)
            return results

        mlir.register_lowering(prim, rule)
        f = xlab.jit(lambda x: prim.bind(x + 1))
        for x in (np.ones(3, F32), np.zeros(3, F32)):
            same, total = f(x)
            assert same.tolist() == (x + 1).tolist() and total == (2 * (x + 1)).sum()
        assert set(seen) == {np.ndarray} and len(seen) == 2
        with pytest.raises(NotImplementedError, match="ordered=True"):
            mlir.emit_python_callback(None, halves, "token", [], [], [], has_side_effect=False)

    def test_deflinear_and_its_kin(self):
        triple = Primitive("triple")
        triple.def_abstract_eval(lambda x: x)
        mlir.register_lowering(triple, lambda ctx, x: [hlo.multiply(x, mlir.ir_constant(F32(3)))])
        ad.deflinear(triple, lambda ct: [triple.bind(ct)])
        batching.defvectorized(triple)
        assert float(xlab.grad(triple.bind)(2.0)) == 3.0
        assert ad.get_primitive_transpose(triple) is ad.primitive_transposes[triple]
        product = Primitive("product")
        product.def_abstract_eval(lambda x, y: x)
        mlir.register_lowering(product, lambda ctx, x, y: [hlo.multiply(x, y)])
        ad.defbilinear(
            product, lambda ct, x, y: product.bind(ct, y), lambda ct, x, y: product.bind(x, ct)
        )
        batching.defbroadcasting(product)
        assert [float(g) for g in xlab.grad(product.bind, (0, 1))(2.0, 5.0)] == [5.0, 2.0]
        np.testing.assert_array_equal(
            xlab.vmap(product.bind)(jnp.arange(3.0), jnp.ones(3)), [0, 1, 2]
        )
        root = Primitive("root")
        root.def_abstract_eval(lambda x: x)
        mlir.register_lowering(root, lambda ctx, x: [hlo.sqrt(x)])
        ad.defjvp2(root, lambda t, ans, x: t / (2 * ans))
        assert float(xlab.grad(root.bind)(4.0)) == 0.25
        assert float(ad.add_jaxvals(1.0, 2.0)) == 3.0
        assert ad.zeros_like_aval(ShapedArray((2,), F32)).tolist() == [0.0, 0.0]
        assert ad.Zero.from_primal_value(jnp.arange(2)).dtype == xlab.dtypes.float0
