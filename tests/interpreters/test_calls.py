"""A call means what the function it calls means: every calling primitive under every transformation, compared with the function written out."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.custom_batching import custom_vmap
from xlab.extend.core import AlignedParams, CallPrimitive
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import calls
from xlab.lax.call import closed_call_p
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P

labeled_p = CallPrimitive("labeled", AlignedParams("names", "results", added="made"))


def flat_call(prim, **params):
    """`f` called by a primitive that is bound with a function of leaves."""

    def wrap(f):
        def called(*args):
            leaves, tree = xlab.tree.flatten(args)
            out = []

            def flat(*xs):
                results, structure = xlab.tree.flatten(f(*xlab.tree.unflatten(tree, xs)))
                out.append(structure)
                return results

            results = prim.bind(flat, *leaves, **{k: v(len(leaves)) for k, v in params.items()})
            return xlab.tree.unflatten(out[-1], results)

        return called

    return wrap


def sharded(f):
    mesh = xlab.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,), devices=xlab.devices()[:1])
    return xlab.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P())


def with_vmap_rule(f):
    g = custom_vmap(f)

    @g.def_vmap
    def rule(size, batched, *args):
        out = xlab.vmap(f, in_axes=tuple(0 if b else None for b in batched), axis_size=size)(*args)
        return out, xlab.tree.map(lambda _: True, out)

    return g


def with_jvp(f):
    g = xlab.custom_jvp(f)
    g.defjvp(lambda primals, tangents: xlab.jvp(f, primals, tangents))
    return g


def with_vjp(optimize):
    def wrap(f):
        g = xlab.custom_vjp(f)
        g.defvjp(
            lambda *args: xlab.vjp(f, *args),
            lambda pullback, ct: pullback(ct),
            optimize_remat=optimize,
        )
        return g

    return wrap


def once(f):
    """The body of a loop of one round."""

    def looped(*args):
        _, ys = lax.scan(lambda c, _: (c, f(*args)), 0, None, length=1)
        return xlab.tree.map(lambda y: y[0], ys)

    return looped


CALLS = {
    "jit": xlab.jit,
    "checkpoint": xlab.checkpoint,
    "shard_map": sharded,
    "closed_call": flat_call(closed_call_p),
    "labeled": flat_call(
        labeled_p, names=lambda n: tuple(map(str, range(n))), results=lambda n: ("a", "b", "c")
    ),
    "custom_vmap": with_vmap_rule,
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp(False),
    "remat_opt": with_vjp(True),
    "cond": lambda f: lambda *args: lax.cond(jnp.sum(args[0]) > -100, f, f, *args),
    "scan": once,
    "jit of jit": lambda f: xlab.jit(xlab.jit(f)),
    "checkpoint of jit": lambda f: xlab.checkpoint(xlab.jit(f)),
}
WITH_RULES = {"custom_vmap", "custom_jvp", "custom_vjp", "remat_opt"}
REVERSE_ONLY = {"custom_vjp", "remat_opt"}
K = np.linspace(0.5, 1.5, 3, dtype=np.float32)
X, Y = np.asarray([0.3, -0.7, 1.1], np.float32), np.asarray([2.0, 0.5, -1.0], np.float32)


def f(x, y):
    """Something nonlinear, an operand handed through, and a result without derivative; it closes over an array."""
    return jnp.sin(x) * y * K + 1, y, jnp.asarray([1, 2, 3])


def total(g):
    return lambda x, y: (lambda a, b, _: (a * a * b).sum())(*g(x, y))


TRANSFORMED = {
    "value": lambda g: g(X, Y),
    "jit": lambda g: xlab.jit(g)(X, Y),
    "jvp": lambda g: xlab.jvp(lambda x, y: g(x, y)[:2], (X, Y), (Y, X)),
    "jvp in one": lambda g: xlab.jvp(lambda x: g(x, Y)[:2], (X,), (Y,)),
    "linearize": lambda g: xlab.linearize(total(g), X, Y)[1](Y, X),
    "grad": lambda g: xlab.grad(total(g), (0, 1))(X, Y),
    "grad in jit": lambda g: xlab.jit(xlab.grad(total(g)))(X, Y),
    "vjp": lambda g: xlab.vjp(lambda x: g(x, Y)[1], X)[1](Y),
    "grad of grad": lambda g: xlab.grad(lambda x: xlab.grad(total(g))(x, Y).sum())(X),
    "vmap": lambda g: xlab.vmap(g, (0, None))(np.stack([X, Y]), Y),
    "vmap at 1": lambda g: xlab.vmap(g, (1, None), out_axes=1)(np.stack([X, Y], 1), Y),
    "vmap of grad": lambda g: xlab.vmap(xlab.grad(total(g), (0, 1)), (None, 0))(
        X, np.stack([X, Y])
    ),
    "grad of vmap": lambda g: xlab.grad(
        lambda x: sum(o.sum() for o in xlab.vmap(g, (None, 0))(x, np.stack([X, Y]))[:2])
    )(X),
    "vmap with names": lambda g: xlab.vmap(
        xlab.grad(total(g)), (0, None), axis_name="n", spmd_axis_name="n"
    )(np.stack([X, Y]), Y),
    "closed over": lambda g: xlab.grad(lambda x: total(g)(x, x))(X),
    "checkpoint": lambda g: xlab.grad(xlab.checkpoint(total(g)))(X, Y),
    "in scan": lambda g: xlab.grad(
        lambda x: lax.scan(lambda c, y: (g(c, y)[0], c), x, np.stack([X, Y]))[0].sum()
    )(X),
}


@pytest.mark.parametrize("how", TRANSFORMED)
@pytest.mark.parametrize("name", CALLS)
def test_as_written_out(name, how):
    if name in REVERSE_ONLY and how in ("jvp", "jvp in one", "linearize"):
        with pytest.raises(TypeError, match="forward-mode"):
            TRANSFORMED[how](CALLS[name](f))
        return
    got, want = (xlab.tree.flatten(TRANSFORMED[how](g)) for g in (CALLS[name](f), f))
    assert got[1] == want[1]
    for a, b in zip(got[0], want[0]):
        assert jnp.result_type(a) == jnp.result_type(b) and np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_weak_types(name):
    avals = [
        [str(a) for a in xlab.make_jaxpr(lambda g=g: g(2.0, 3))().out_avals]
        for g in (CALLS[name](lambda x, y: (x * 2, y + x, y)), lambda x, y: (x * 2, y + x, y))
    ]
    assert avals[0] == avals[1]


@pytest.mark.parametrize("name", [n for n in CALLS if n != "custom_vmap"])
def test_a_name_inside(name):
    def centered(x):
        return x - lax.pmean(x, "n")

    rows = np.stack([X, Y])
    np.testing.assert_allclose(
        xlab.vmap(CALLS[name](centered), axis_name="n")(rows), rows - rows.mean(0), rtol=1e-6
    )


@pytest.mark.parametrize("name", [n for n in CALLS if n not in WITH_RULES])
def test_closed_over_values_that_are_differentiated(name):
    for closing in (
        lambda c: CALLS[name](lambda x: x * c)(X).sum(),
        lambda c: xlab.jit(lambda: CALLS[name](lambda x: x * c)(X).sum())(),
    ):
        np.testing.assert_allclose(xlab.grad(closing)(2.0), X.sum(), rtol=1e-6)
    np.testing.assert_allclose(
        xlab.vmap(lambda c: CALLS[name](lambda x: x * c)(X))(Y), Y[:, None] * X, rtol=1e-6
    )


@pytest.mark.parametrize("name", [n for n in CALLS if n not in (*WITH_RULES, "scan", "cond")])
def test_dead_code(name):
    jaxpr = xlab.make_jaxpr(
        lambda x, y: CALLS[name](lambda x, y: (jnp.sin(x), jnp.cos(y)))(x, y)[0]
    )(X, Y).jaxpr
    new, used = pe.dce_jaxpr(jaxpr, [True])
    assert used == [True, False] and "sin" in str(new) and "cos" not in str(new)
    (call,) = new.eqns
    assert len(call.invars) == len(call.outvars) == 1
    none, _ = pe.dce_jaxpr(jaxpr, [False])
    assert not none.eqns


@pytest.mark.parametrize("name", CALLS)
def test_effects(name):
    seen = []

    def told(x):
        xlab.debug.callback(lambda v: seen.append(float(v)), x.sum())
        return x * 2

    g = CALLS[name](told)
    xlab.jit(lambda x: (g(x), x)[1])(X).block_until_ready()  # nobody reads the result
    xlab.effects_barrier()
    np.testing.assert_allclose(seen, [X.sum()], rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in CALLS if n not in WITH_RULES])
@pytest.mark.parametrize("in_jit", [False, True])
def test_references(name, in_jit):
    def run(x):
        ref = xlab.new_ref(jnp.zeros(3))

        def body(ref, x):
            ref[...] = ref[...] + x * x
            return x * 3

        called = (
            CALLS[name](lambda x: body(ref, x))(x) if name == "cond" else CALLS[name](body)(ref, x)
        )
        return called, ref[...]

    y, kept = (xlab.jit(run) if in_jit else run)(X)
    np.testing.assert_allclose(y, X * 3, rtol=1e-6)
    np.testing.assert_allclose(kept, X * X, rtol=1e-6)
    np.testing.assert_allclose(xlab.grad(lambda x: run(x)[1].sum())(X), 2 * X, rtol=1e-6)
    np.testing.assert_allclose(
        xlab.vmap(lambda x: run(x)[1])(np.stack([X, Y])), np.stack([X, Y]) ** 2, rtol=1e-6
    )


class TestParameters:
    def eqn(self, fun, *args):
        return [e for e in xlab.make_jaxpr(fun)(*args).eqns if e.primitive is labeled_p]

    def call(self, *args):
        return CALLS["labeled"](f)(*args)

    def test_one_entry_each(self):
        (eqn,) = self.eqn(self.call, X, Y)
        assert eqn.params["names"] == ("made", "made", "0", "1"), "what is closed over comes first"
        for fun in (
            lambda x, y: xlab.jvp(self.call, (x, y), (x, y)),
            lambda x, y: xlab.vmap(self.call, (0, None))(x, y),
            lambda x, y: xlab.linearize(self.call, x, y)[0],
            lambda x, y: xlab.grad(total(self.call))(x, y),
        ):
            found = self.eqn(fun, X, Y)
            assert found
            for e in found:
                assert len(e.params["names"]) == len(e.invars) and len(e.params["results"]) == len(
                    e.outvars
                )

    def test_what_they_are(self):
        (eqn,) = self.eqn(lambda x, y: xlab.jvp(self.call, (x, y), (x, y)), X, Y)
        assert eqn.params["names"][-4:] == ("0", "1", "0", "1") and eqn.params["results"] == (
            "a",
            "b",
            "c",
            "a",
            "b",
        )
        assert self.eqn(lambda x, y: self.call(x, y)[0], X, Y)[0].params["results"] == (
            "a",
            "b",
            "c",
        )
        new, _ = pe.dce_jaxpr(xlab.make_jaxpr(lambda x, y: self.call(x, y)[1])(X, Y).jaxpr, [True])
        assert new.eqns[0].params["results"] == ("b",) and new.eqns[0].params["names"] == ("1",)

    def test_donation_is_for_the_whole_call(self):
        g = xlab.jit(lambda x: jnp.sin(x) * x, donate_argnums=0)
        jaxpr = xlab.make_jaxpr(lambda x: xlab.grad(lambda v: g(v).sum())(x))(X)
        flags = [e.params["donated_invars"] for e in jaxpr.eqns if e.primitive.name == "jit"]
        assert flags and not any(map(any, flags))


def test_residuals_that_are_operands_are_not_copied():
    x = jnp.asarray(X)
    jaxpr = xlab.make_jaxpr(lambda x: xlab.vjp(xlab.jit(lambda x: x * x * 2), x)[0])(x)
    known = next(e for e in jaxpr.eqns if e.primitive.name == "jit")
    assert not set(known.invars) & set(known.params["jaxpr"].jaxpr.outvars)
    inside = known.params["jaxpr"].jaxpr
    assert not set(inside.invars) & set(inside.outvars)


def test_a_numpy_array_is_kept_as_it_was():
    x = X.copy()
    _, pullback = xlab.vjp(xlab.jit(lambda x: x * x), x)
    x[:] = 0
    np.testing.assert_allclose(pullback(np.ones(3, np.float32))[0], 2 * X, rtol=1e-6)


def test_one_closed_jaxpr_for_an_open_one():
    jaxpr = pe.convert_constvars_jaxpr(xlab.make_jaxpr(f)(X, Y).jaxpr)
    closed = pe.close_jaxpr(jaxpr)
    assert pe.close_jaxpr(pe.open_closed_jaxpr(closed)[1]) is closed


def test_which_primitives_are_calls():
    assert {"jit", "shard_map", "remat2", "call", "closed_call", "labeled"} <= {
        p.name for p in calls
    }
