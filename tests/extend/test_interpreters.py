"""Interpreters of one's own: jaxprs taken apart, evaluated, inverted, put together and looked at."""

from __future__ import annotations

from functools import wraps

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.extend import core
from xlab.extend.core import primitives
from xlab.interpreters import ad, partial_eval


def evaluate(jaxpr, consts, *args):
    """The interpreter that changes nothing."""
    env = dict(zip(jaxpr.invars, args))
    env.update(zip(jaxpr.constvars, consts))

    def read(atom):
        return atom.val if type(atom) is core.Literal else env[atom]

    for eqn in jaxpr.eqns:
        params = eqn.primitive.get_bind_params(eqn.params)
        outs = eqn.primitive.bind(*map(read, eqn.invars), **params)
        env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs]))
    return [read(v) for v in jaxpr.outvars]


def inverse(fun, registry):
    """The function that undoes `fun`, a chain of invertible functions of one argument."""

    @wraps(fun)
    def wrapped(*args):
        closed = xlab.make_jaxpr(fun)(*args)
        env = dict(zip(closed.jaxpr.outvars, args))
        env.update(zip(closed.jaxpr.constvars, closed.literals))
        for eqn in closed.jaxpr.eqns[::-1]:
            if eqn.primitive not in registry:
                raise NotImplementedError(f"{eqn.primitive} does not have registered inverse.")
            env[eqn.invars[0]] = registry[eqn.primitive](*(env[v] for v in eqn.outvars))
        return env[closed.jaxpr.invars[0]]

    return wrapped


REGISTRY = {primitives.exp_p: jnp.log, primitives.tanh_p: jnp.arctanh}


def chain(x):
    return jnp.exp(jnp.tanh(x))


@xlab.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


with_jvp.defjvps(lambda t, ans, x: t * 3)


@xlab.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda res, ct: (ct * 4,))


def everything(x):
    y = with_jvp(x) + with_vjp(x)
    y = xlab.lax.cond(y > 0, lambda y: y, lambda y: -y, y)
    y = xlab.jit(jnp.cos)(y)
    y = xlab.lax.fori_loop(0, 3, lambda i, y: y * 2, y)
    return xlab.checkpoint(jnp.sin)(y)


def test_an_evaluator():
    closed = xlab.make_jaxpr(chain)(jnp.ones(5))
    assert closed.literals == [] and len(closed.jaxpr.eqns) == 2
    np.testing.assert_allclose(
        evaluate(closed.jaxpr, closed.literals, jnp.ones(5))[0], chain(jnp.ones(5))
    )


def test_every_kind_of_equation_can_be_bound_again():
    closed = xlab.make_jaxpr(everything)(1.0)

    def again(x):
        return evaluate(closed.jaxpr, closed.literals, x)[0]

    assert float(again(1.0)) == float(everything(1.0)) == pytest.approx(float(xlab.jit(again)(1.0)))
    assert float(xlab.grad(again)(1.0)) == pytest.approx(float(xlab.grad(everything)(1.0)))
    np.testing.assert_allclose(
        xlab.vmap(xlab.grad(again))(jnp.ones(2)), [float(xlab.grad(everything)(1.0))] * 2, rtol=1e-5
    )


def test_an_inverse():
    undo = inverse(chain, REGISTRY)
    assert float(undo(chain(1.0))) == pytest.approx(1.0, abs=1e-5)
    assert (
        str(xlab.make_jaxpr(undo)(chain(1.0)))
        == "{ lambda ; a:f32[]. let b:f32[] = log a; c:f32[] = atanh b in (c,) }"
    )
    points = (jnp.arange(5) + 1.0) / 5.0
    np.testing.assert_allclose(
        xlab.jit(xlab.vmap(xlab.grad(undo)))(points),
        [-3.1440797, 15.584931, 2.2551253, 1.3155028, 1.0],
        rtol=1e-4,
    )
    with pytest.raises(NotImplementedError, match="sin does not have registered inverse"):
        inverse(jnp.sin, REGISTRY)(1.0)


def test_a_jaxpr_put_together_by_hand():
    aval = core.ShapedArray((5,), np.float32)
    x, y, z = core.Var(aval), core.Var(aval), core.gensym()(aval)
    eqns = [
        core.new_jaxpr_eqn([x], [y], primitives.sin_p, {}, core.no_effects),
        core.new_jaxpr_eqn(
            [y, core.Literal(2.0, core.ShapedArray((), np.float32))], [z], primitives.mul_p, {}
        ),
    ]
    jaxpr = core.Jaxpr([], [x], [z], eqns)
    core.check_jaxpr(jaxpr)
    assert (
        str(jaxpr)
        == "{ lambda ; a:f32[5]. let b:f32[5] = sin a; c:f32[5] = mul b 2.0:f32[] in (c,) }"
    )
    fun = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, []))
    np.testing.assert_allclose(fun(jnp.ones(5))[0], 2 * np.sin(np.ones(5)), rtol=1e-6)
    wrong = core.Jaxpr([], [x], [core.Var(aval)], eqns)
    with pytest.raises(core.JaxprTypeError):
        core.check_jaxpr(wrong)


def test_what_a_jaxpr_holds():
    closed = xlab.make_jaxpr(everything)(1.0)
    found = [e.primitive.name for e in closed.eqns]
    assert found == [
        "custom_jvp_call",
        "custom_vjp_call",
        "add",
        "gt",
        "convert_element_type",
        "cond",
        "jit",
        "scan",
        "remat2",
    ]
    assert len(list(core.subjaxprs(closed.jaxpr))) == 7
    assert [len(j.eqns) for j in core.jaxprs_in_params(closed.eqns[5].params)] == [1, 0]
    assert closed.invars == closed.jaxpr.invars and closed.outvars == closed.jaxpr.outvars
    assert isinstance(core.DropVar(closed.in_avals[0]), core.Var)


def test_types_of_batches():
    aval = core.ShapedArray((3, 2), np.float32)
    assert core.mapped_aval(3, 0, aval) is core.ShapedArray((2,), np.float32)
    assert core.unmapped_aval(4, 1, aval) is core.ShapedArray((3, 4, 2), np.float32)
    assert core.mapped_aval(3, None, aval) is aval
    with pytest.raises(TypeError, match="batch of 4"):
        core.mapped_aval(4, 0, aval)
    assert core.primal_dtype_to_tangent_dtype(np.dtype("int32")) == xlab.dtypes.float0
    assert core.primal_dtype_to_tangent_dtype(np.dtype("float32")) == np.float32
    assert core.valid_jaxtype(1.0) and not core.valid_jaxtype("a")
    assert xlab.core.max_dim(3, 4) == 4 and xlab.core.min_dim(3, 4) == 3


def test_what_is_going_on():
    seen = []

    def look(x):
        seen.append(
            (
                core.unsafe_get_axis_names_DO_NOT_USE(),
                core.nonempty_axis_env_DO_NOT_USE(),
                core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
            )
        )
        return x

    look(1.0)
    xlab.vmap(look, axis_name="i")(jnp.ones(2))
    xlab.make_jaxpr(look)(1.0)
    assert seen == [([], False, False, False), (["i"], True, False, True), ([], False, True, False)]
    outside = core.get_opaque_trace_state()
    assert outside == core.get_opaque_trace_state()
    states = []
    xlab.make_jaxpr(lambda x: states.append(core.get_opaque_trace_state() == outside) or x)(1.0)
    assert states == [False]


def test_values_known_while_tracing():
    assert core.concrete_or_error(int, np.float32(3.0)) == 3
    assert core.concrete_or_error(None, 2.0) == 2.0
    with pytest.raises(xlab.errors.ConcretizationTypeError, match="the step count"):
        xlab.jit(lambda n: core.concrete_or_error(int, n, "the step count"))(3)

    def f(x):
        with core.take_current_trace() as trace:
            assert float(jnp.ones(()) + 1) == 2.0
            with core.set_current_trace(trace):
                return x * 2

    assert len(xlab.make_jaxpr(f)(1.0).eqns) == 1

    def g(x):
        with xlab.core.eval_context():
            assert float(jnp.ones(()) + 1) == 2.0
        return x

    xlab.make_jaxpr(g)(1.0)


def test_call_primitives():
    marked = core.CallPrimitive("marked")

    def f(x, y):
        a, b = marked.bind(lambda x: [x * y, jnp.sin(x)], x, label="both")
        return a + b

    plain = lambda x, y: x * y + jnp.sin(x)
    eqn = xlab.make_jaxpr(f)(1.0, 2.0).eqns[0]
    assert eqn.primitive is marked and eqn.params["label"] == "both" and marked.call_primitive
    assert float(f(1.0, 2.0)) == float(plain(1.0, 2.0)) == float(xlab.jit(f)(1.0, 2.0))
    for transform in (
        lambda f: xlab.grad(f, (0, 1)),
        lambda f: xlab.jit(xlab.grad(f, (0, 1))),
        lambda f: xlab.grad(xlab.jit(f), (0, 1)),
        xlab.hessian,
        lambda f: lambda *a: xlab.jvp(f, a, a),
    ):
        got, want = transform(f)(1.0, 2.0), transform(plain)(1.0, 2.0)
        xlab.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)
    xs = jnp.arange(3.0)
    np.testing.assert_allclose(
        xlab.vmap(xlab.jit(f), (0, None))(xs, 2.0), plain(xs, 2.0), rtol=1e-6
    )
    np.testing.assert_allclose(
        xlab.vmap(xlab.jit(xlab.grad(f)), (0, None))(xs, 2.0),
        xlab.vmap(xlab.grad(plain), (0, None))(xs, 2.0),
        rtol=1e-6,
    )


def test_primitives_by_name():
    for name in (
        "add_p",
        "dot_general_p",
        "scan_p",
        "while_p",
        "cond_p",
        "jit_p",
        "psum_p",
        "custom_jvp_call_p",
        "remat_p",
        "name_p",
        "add_jaxvals_p",
        "linear_solve_p",
        "closed_call_p",
        "device_put_p",
    ):
        assert isinstance(getattr(primitives, name), core.Primitive), name
    with pytest.raises(AttributeError, match="no_such_p"):
        primitives.no_such_p


def test_tracing_and_pruning_by_the_fields_names():
    aval = core.ShapedArray((2,), np.float32)
    jaxpr, out_avals, consts = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: (x + jnp.arange(2.0), jnp.sin(y)), [aval, aval]
    )
    assert out_avals == [aval, aval] and len(consts) == len(jaxpr.constvars)
    smaller, used_consts, used_inputs = partial_eval.dce_jaxpr_consts(jaxpr, [False, True])
    assert used_inputs == [False, True] and not any(used_consts) and not smaller.constvars
    assert [e.primitive.name for e in smaller.eqns] == ["sin"]
    assert partial_eval.DynamicJaxprTracer is partial_eval.JaxprTracer
    assert ad.add_jaxvals_p is primitives.add_jaxvals_p
