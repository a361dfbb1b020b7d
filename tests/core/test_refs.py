"""Mutable references: what the tables of samples cannot say. Programs, effects, buffers, discharge, derivatives."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.check import check_jaxpr
from xlab.core.effects import AccumEffect, ReadEffect, WriteEffect
from xlab.core.jaxpr import eval_jaxpr, subjaxprs
from xlab.core.refs import AbstractRef
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import discharge_state
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

X = np.array([0.5, 1.0, 2.0], np.float32)
STATE = {"get", "swap", "addupdate", "new_ref", "freeze", "free_ref", "empty_ref"}


def names(jaxpr):
    found = {e.primitive.name for e in jaxpr.eqns}
    return found.union(*map(names, subjaxprs(jaxpr))) if jaxpr.eqns else found


# -- types and effects --------------------------------------------------------------------------------------


def test_types_are_one_object():
    ref = xlab.new_ref(X)
    assert ref.aval is AbstractRef(xlab.typeof(ref[...])) and str(ref.aval) == "Ref{float32[3]}"
    assert str(AbstractRef(ref.aval.inner_aval, "any")) == "Ref<any>{float32[3]}"
    assert pickle.loads(pickle.dumps(ref.aval)) is ref.aval
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((3,), np.float32, 1, 3, 3)


def test_isinstance_sees_traced_references():
    seen = []
    xlab.make_jaxpr(lambda r: seen.append((isinstance(r, xlab.Ref), isinstance(r, xlab.Array))))(
        xlab.new_ref(X)
    )
    assert seen == [(True, False)]


def test_effects_name_operands():
    def f(y, a, b):
        a[0] = b[1]
        xlab.ref.addupdate(b, 0, y)
        local = xlab.new_ref(y)
        local[...] = 2 * y

    jaxpr = xlab.make_jaxpr(xlab.jit(f))(1.0, xlab.new_ref(X), xlab.new_ref(X)).jaxpr
    effects = {e for e in jaxpr.effects if hasattr(e, "input")}
    assert (
        effects
        == {WriteEffect(1), ReadEffect(2), AccumEffect(2)}
        == {e for e in jaxpr.eqns[0].effects if hasattr(e, "input")}
    )
    check_jaxpr(jaxpr)


def test_effects_of_loops_and_branches():
    ref = xlab.new_ref(X)

    def f(p):
        lax.cond(p, lambda: xlab.ref.set(ref, 0, 1.0), lambda: None)
        lax.while_loop(
            lambda i: i < ref[0].astype(int), lambda i: (ref.set(ref[1], 0), i + 1)[1], 0
        )

    jaxpr = xlab.make_jaxpr(f)(True).jaxpr
    check_jaxpr(jaxpr)
    assert {e for e in jaxpr.effects if hasattr(e, "input")} == {WriteEffect(-1), ReadEffect(-1)}


def test_dead_code_elimination_keeps_writes():
    @xlab.jit
    def f(a, b, x):
        a[0] = x
        return b[0] + x, x * 2

    closed = xlab.make_jaxpr(f)(xlab.new_ref(X), xlab.new_ref(X), 1.0)
    new, used = pe.dce_jaxpr(closed.jaxpr, [False, False])
    assert used == [True, False, True] and "swap" in names(new) and "get" not in names(new)
    check_jaxpr(new)
    gone, _ = pe.dce_jaxpr(
        xlab.make_jaxpr(xlab.jit(lambda x: (xlab.ref.set(xlab.new_ref(x), ..., 2 * x), x)[1]))(
            1.0
        ).jaxpr,
        [False],
    )
    assert not gone.eqns


# -- buffers ------------------------------------------------------------------------------------------------


def test_writes_reuse_the_buffer_and_spare_what_others_hold():
    x = jnp.asarray(X)
    ref = xlab.new_ref(x)
    ref[0] = 9.0  # x holds the first buffer
    assert x.tolist() == X.tolist()
    address = ref.unsafe_buffer_pointer()
    ref[1] = 8.0
    assert ref.unsafe_buffer_pointer() == address
    seen = ref[...]
    ref[2] = 7.0
    assert seen.tolist() == [9.0, 8.0, 2.0] and ref[...].tolist() == [9.0, 8.0, 7.0]


def test_jit_updates_in_place():
    ref = xlab.new_ref(jnp.zeros(1000))
    ref[0] = 1.0
    increment = xlab.jit(lambda r: xlab.ref.addupdate(r, ..., jnp.ones(1000)))
    increment(ref)
    address = ref.unsafe_buffer_pointer()
    for _ in range(3):
        increment(ref)
    assert ref.unsafe_buffer_pointer() == address and float(ref[0]) == 5.0
    assert "tf.aliasing_output" in increment.lower(ref).as_text()


def test_reading_does_not_copy_or_return():
    ref = xlab.new_ref(jnp.asarray(X))
    lowered = xlab.jit(lambda r: r[...].sum()).lower(ref)
    text = lowered.as_text()
    assert "aliasing" not in text and re.search(r"-> \(tensor<f32>( \{[^,]*\})?\) \{", text)
    assert float(lowered.compile()(ref)) == 3.5


def test_ahead_of_time():
    ref = xlab.new_ref(jnp.asarray(X))
    step = xlab.jit(lambda r, v: xlab.ref.addupdate(r, 0, v)).lower(ref, 1.0).compile()
    step(ref, 1.0)
    step(ref, 2.0)
    assert float(ref[0]) == 3.5


def test_a_step_is_compiled_once():
    traces = []

    @xlab.jit
    def step(r, v):
        traces.append(1)
        r[0] += v

    refs = [xlab.new_ref(jnp.asarray(X)) for _ in range(3)]
    for r in refs * 2:
        step(r, 1.0)
    assert len(traces) == 1 and [float(r[0]) for r in refs] == [2.5] * 3


def test_given_up():
    for end in (xlab.ref.freeze, xlab.free_ref):
        ref = xlab.new_ref(X)
        end(ref)
        for use in (
            lambda: ref[0],
            lambda: ref.set(1.0, 0),
            lambda: xlab.jit(lambda r: r[0])(ref),
            lambda: end(ref),
        ):
            with pytest.raises(
                ValueError, match=f"made at .*test_refs.py.*given up by {end.__name__}"
            ):
                use()


def test_freezing_inside_a_program():
    assert xlab.jit(lambda x: xlab.ref.freeze(xlab.new_ref(x * 2)))(X).tolist() == [1.0, 2.0, 4.0]


def test_keys_and_pickles():
    ref = xlab.new_ref(xlab.random.key(0))
    ref[...] = xlab.random.split(ref[...])[0]
    xlab.jit(lambda r: xlab.ref.set(r, ..., xlab.random.split(r[...])[0]))(ref)
    want = xlab.random.split(xlab.random.split(xlab.random.key(0))[0])[0]
    assert (xlab.random.key_data(ref[...]) == xlab.random.key_data(want)).all()
    assert pickle.loads(pickle.dumps(xlab.new_ref(X)))[...].tolist() == X.tolist()


def test_uninitialized():
    assert np.isnan(xlab.empty_ref(xlab.ShapeDtypeStruct((2,), "float32"))[...]).all()
    assert xlab.empty_ref(xlab.ShapeDtypeStruct((), "int32"))[...] == np.iinfo(np.int32).min
    assert not xlab.empty_ref(xlab.ShapeDtypeStruct((), "bool"))[...]


# -- discharge ----------------------------------------------------------------------------------------------


def everything(x, r, p):
    local = xlab.new_ref(x)

    def body(c, v):
        local[0] += v
        r[1] = lax.cond(p, lambda: local[0] * c, lambda: (xlab.ref.set(r, 2, c), c)[1])
        return c + r[2], local[...]

    c, ys = lax.scan(body, x[0], x)
    lax.while_loop(
        lambda i: (i < 3) & (local[1] < 9.0),
        lambda i: (xlab.ref.addupdate(local, 1, c), i + 1)[1],
        0,
    )
    y = xlab.jit(lambda v: (xlab.ref.swap(r, 0, v), xlab.checkpoint(lambda u: u * local[1])(v)))(c)
    return ys, y, local[...]


@pytest.mark.parametrize("p", [True, False])
def test_discharge_is_what_happens(p):
    r, s = xlab.new_ref(jnp.asarray(X)), xlab.new_ref(jnp.asarray(X))
    want = everything(jnp.asarray(X), r, p)
    closed = xlab.make_jaxpr(everything)(X, s, p)
    check_jaxpr(closed)
    pure = discharge_state(closed)
    check_jaxpr(pure)
    assert not names(pure.jaxpr) & STATE and not pure.effects
    *outs, final = eval_jaxpr(pure.jaxpr, pure.consts, X, X, p)
    for a, b in zip([*xlab.tree.leaves(want), r[...]], [*outs, final], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    compiled = xlab.jit(everything)(X, s, p)
    for a, b in zip(xlab.tree.leaves(want), xlab.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(r[...], s[...], rtol=1e-6)


def test_partial_discharge():
    def f(a, b):
        a[0] = b[1]
        b[0] = a[2]

    closed = xlab.make_jaxpr(xlab.jit(f))(xlab.new_ref(X), xlab.new_ref(X))
    half = discharge_state(closed, [True, False])
    check_jaxpr(half)
    assert [str(a) for a in half.in_avals] == ["float32[3]", "Ref{float32[3]}"] and len(
        half.out_avals
    ) == 1
    ref = xlab.new_ref(jnp.asarray(X))
    (out,) = eval_jaxpr(half.jaxpr, half.consts, X, ref)
    assert out.tolist() == [1.0, 1.0, 2.0] and ref[...].tolist() == [2.0, 1.0, 2.0]


def test_a_loop_sees_what_its_body_wrote():
    ref = xlab.new_ref(jnp.zeros(()))

    def count():
        return lax.while_loop(
            lambda i: ref[...] < 5.0, lambda i: (xlab.ref.addupdate(ref, ..., 2.0), i + 1)[1], 0
        )

    assert (int(count()), float(ref[...])) == (3, 6.0)
    ref[...] = 0.0
    assert (int(xlab.jit(count)()), float(ref[...])) == (3, 6.0)


def test_read_only_references_are_no_carries():
    ref = xlab.new_ref(jnp.asarray(X))
    closed = xlab.make_jaxpr(
        lambda: lax.scan(lambda c, _: (c + ref[0], None), 0.0, None, length=3)[0]
    )()
    moved = discharge_state(pe.ClosedJaxpr(pe.convert_constvars_jaxpr(closed.jaxpr)))
    scan = next(e for e in moved.jaxpr.eqns if e.primitive.name == "scan")
    assert (scan.params["num_consts"], scan.params["num_carry"]) == (1, 1)


def test_windows_per_example():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    starts = np.array([0, 2, 1], np.int32)
    ref = xlab.new_ref(x)
    assert xlab.vmap(lambda r, i: r[xlab.ds(i, 2)])(ref, starts).tolist() == [
        [0, 1],
        [6, 7],
        [9, 10],
    ]
    xlab.vmap(lambda r, i, v: r.at[xlab.ds(i, 2)].__setitem__(..., v))(
        ref, starts, -np.ones((3, 2), np.float32)
    )
    x[[[0], [1], [2]], starts[:, None] + np.arange(2)] = -1
    np.testing.assert_array_equal(ref[...], x)


# -- derivatives --------------------------------------------------------------------------------------------


def stateful(x):
    ref = xlab.new_ref(jnp.zeros(3))

    def body(i, c):
        ref[i] = jnp.sin(x[i]) * c + ref[0]
        xlab.ref.addupdate(ref, 0, c * x[2])
        return c * x[1] + lax.cond(c > 1, lambda: ref[1], lambda: xlab.ref.swap(ref, 2, c))

    c = lax.fori_loop(0, 3, body, 1.0)
    return (xlab.jit(lambda: ref[...] * c)() ** 2).sum()


def pure(x):
    r, c = jnp.zeros(3), 1.0
    for i in range(3):
        r = r.at[i].set(jnp.sin(x[i]) * c + r[0])
        r = r.at[0].add(c * x[2])
        if c > 1:
            new = r[1]
        else:
            new, r = r[2], r.at[2].set(c)
        c = c * x[1] + new
    return ((r * c) ** 2).sum()


@pytest.mark.parametrize(
    "transform", ["grad", "jacrev", "jit.grad", "grad.jit", "grad.grad", "linearize"]
)
def test_derivatives_are_those_of_the_pure_function(transform):
    def apply(f):
        for name in reversed(transform.split(".")):
            if name == "linearize":
                f = (lambda g: lambda x: xlab.linearize(g, x)[1](jnp.cos(x)))(f)
            elif name == "grad" and transform == "grad.grad" and f not in (stateful, pure):
                f = (lambda g: xlab.grad(lambda x: g(x).sum()))(f)
            else:
                f = getattr(xlab, name)(f)
        return f

    x = jnp.asarray(X)
    if "jit" in transform.split(".")[-1]:
        np.testing.assert_allclose(apply(stateful)(x), xlab.grad(pure)(x), rtol=1e-4)
    else:
        np.testing.assert_allclose(
            apply(stateful)(x),
            apply(pure)(x) if "jit" not in transform else xlab.grad(pure)(x),
            rtol=1e-4,
        )


def decides(x):
    ref = xlab.new_ref(x)
    lax.cond(ref[0] > 0.7, lambda: xlab.ref.set(ref, 1, ref[2] * x[0]), lambda: None)
    n = lax.while_loop(
        lambda n: ref[0] < 3.0, lambda n: (xlab.ref.addupdate(ref, 0, ref[0]), n + 1)[1], 0
    )
    return ref[...] * n


def test_batches_are_a_loop():
    xs = jnp.stack([jnp.asarray(x) for x in (X, X[::-1], X * 2)])
    for f in (stateful_mapped, xlab.grad(stateful_mapped), decides, stateful, xlab.grad(stateful)):
        np.testing.assert_allclose(xlab.vmap(f)(xs), jnp.stack([f(x) for x in xs]), rtol=1e-5)


def stateful_mapped(x):
    ref = xlab.new_ref(jnp.zeros(3))
    lax.scan(lambda c, v: (c + v, xlab.ref.addupdate(ref, 0, v * c)), 1.0, x)
    ref[1] = ref[0] * x[1]
    return (ref[...] ** 2).sum()


def test_gradient_of_a_reference():
    ref = xlab.new_ref(jnp.asarray(X))
    assert xlab.grad(lambda r: (r[...] ** 2).sum())(ref).tolist() == (2 * X).tolist()


def test_with_refs():
    _, pullback = xlab.vjp(lambda x, y: (x * y["a"]).sum(), X, {"a": X * 3})
    total = xlab.new_ref(jnp.ones(3))
    told = pullback.with_refs(total, {"a": xlab.ad.GradValue()})(1.0)
    assert told[0] == xlab.ad.GradRef() and told[1]["a"].tolist() == X.tolist()
    assert total[...].tolist() == (1 + 3 * X).tolist()
    assert pullback.with_refs(xlab.ad.DontWant(), {"a": total})(1.0) == (
        xlab.ad.DidntWant(),
        {"a": xlab.ad.GradRef()},
    )
    with pytest.raises(ValueError, match="one entry per primal"):
        pullback.with_refs(total)
    with pytest.raises(TypeError, match=r"GradValue\(\)"):
        pullback.with_refs(total, {"a": 1.0})


def test_checkpoint_writes_once():
    def f(x):
        ref = xlab.new_ref(jnp.zeros(()))

        @xlab.checkpoint
        def layer(y):
            xlab.ref.addupdate(ref, ..., y)
            return jnp.sin(y) * ref[...]

        return layer(layer(x))

    def g(x):
        a = jnp.sin(x) * x
        return jnp.sin(a) * (x + a)

    assert float(f(0.7)) == pytest.approx(float(g(0.7))) and float(
        xlab.grad(f)(0.7)
    ) == pytest.approx(float(xlab.grad(g)(0.7)), 1e-5)


def test_what_cannot_be_done_says_so():
    ref = xlab.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match="unbatched array reference"):
        xlab.vmap(
            lambda n: lax.while_loop(
                lambda i: i < n, lambda i: (xlab.ref.set(ref, 0, 1.0), i + 1)[1], 0
            )
        )(jnp.arange(3))
    with pytest.raises(ValueError, match="number of iterations is unknown"):

        def f(x):
            r = xlab.new_ref(x)
            lax.while_loop(
                lambda i: i < 3, lambda i: (xlab.ref.set(r, ..., r[...] * 2), i + 1)[1], 0
            )
            return r[...]

        xlab.grad(f)(1.0)
    with pytest.raises(ValueError, match="cannot get new dimensions"):
        ref[None, 0]
    with pytest.raises(TypeError, match="start may be traced"):
        xlab.jit(lambda i: ref[i : i + 2])(1)
    with pytest.raises(TypeError, match="read it first"):
        np.asarray(ref)


# -- devices ------------------------------------------------------------------------------------------------


def test_a_sharded_reference_keeps_its_sharding():
    sharding = NamedSharding(
        xlab.make_mesh((4,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,)), P("i")
    )
    ref = xlab.new_ref(xlab.device_put(jnp.zeros(8), sharding))
    step = xlab.jit(lambda r: xlab.ref.addupdate(r, slice(2, 6), jnp.ones(4)))
    for _ in range(2):
        step(ref)
        assert ref.sharding == sharding
    assert ref[...].tolist() == [0, 0, 2, 2, 2, 2, 0, 0]


def test_shard_map():
    mesh = xlab.make_mesh((4,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
    ref = xlab.new_ref(jnp.arange(8.0))

    def body(r, y):
        r[...] += y
        total = xlab.new_ref(lax.psum(r[...].sum(), "i"))
        total[...] *= 2
        return total[...]

    f = xlab.shard_map(body, mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P())
    assert float(f(ref, jnp.ones(8))) == 72.0 and float(xlab.jit(f)(ref, jnp.ones(8))) == 88.0
    assert ref[...].tolist() == (np.arange(8) + 2).tolist()

    def pure(x):
        r = xlab.new_ref(x)
        xlab.shard_map(
            lambda r, y: xlab.ref.set(r, ..., jnp.sin(r[...]) * y),
            mesh=mesh,
            in_specs=(P("i"), P("i")),
            out_specs=P(),
        )(r, x)
        return r[...]

    x = jnp.linspace(0.0, 1.0, 8)
    np.testing.assert_allclose(pure(x), jnp.sin(x) * x, rtol=1e-6)
    np.testing.assert_allclose(
        xlab.grad(lambda x: pure(x).sum())(x), jnp.cos(x) * x + jnp.sin(x), rtol=1e-5
    )
    with pytest.raises(ValueError, match="varies over mesh axes"):
        whole = xlab.new_ref(jnp.zeros(2))
        xlab.shard_map(
            lambda y: xlab.ref.set(whole, ..., y), mesh=mesh, in_specs=P("i"), out_specs=P()
        )(jnp.ones(8))
