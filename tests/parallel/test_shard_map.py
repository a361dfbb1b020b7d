"""shard_map: types over the mesh, gradients, nesting, partial manual control, printing, errors, one device."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.experimental import io_callback
from xlab.sharding import AxisType, Mesh, NamedSharding, P, make_mesh, set_mesh

X = np.arange(8, dtype=np.float32)


def line(n=8):
    return make_mesh((n,), ("i",), axis_types=(AxisType.Auto,))


def grid():
    return make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def along(f, ins=P("i"), out=P("i"), mesh=None, **options):
    return xlab.shard_map(f, mesh=mesh or line(), in_specs=ins, out_specs=out, **options)


# -- gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "factor"), [(True, 1.0), (False, 8.0)])
def test_gradient_inside_counts_devices_only_without_checking(check, factor):
    """d/dx of a sum over devices, taken on each device: psum transposes to a cast with types, to a psum without."""
    f = along(lambda x: xlab.grad(lambda v: lax.psum(v, "i").sum())(x), check_vma=check)
    assert np.asarray(f(X)).tolist() == [factor] * 8


@pytest.mark.parametrize("check", [True, False])
def test_gradient_outside_is_the_gradient_of_the_whole(check):
    whole = xlab.grad(
        lambda x: along(lambda v: lax.psum(jnp.sin(v), "i"), out=P(), check_vma=check)(x).sum()
    )
    np.testing.assert_allclose(np.asarray(whole(X)), np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(xlab.jit(whole)(X)), np.cos(X), rtol=1e-5)


def test_gradient_of_a_replicated_weight_is_summed_by_its_type():
    f = along(lambda w, x: xlab.grad(lambda w: (w * x).sum())(w), ins=(P(), P("i")), out=P())
    assert float(f(np.float32(1.0), np.arange(64, dtype=np.float32))) == 2016.0


@pytest.mark.parametrize("check", [True, False])
def test_gradient_of_a_sharded_layer_equals_the_unsharded_one(check):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 4)).astype(np.float32), rng.normal(size=(4, 6)).astype(np.float32)
    layer = along(
        lambda x, w: lax.psum(x @ w, "y"),
        ins=(P("x", "y"), P("y")),
        out=P("x"),
        mesh=grid(),
        check_vma=check,
    )

    def loss(apply):
        return lambda x, w: (jnp.tanh(apply(x, w)) ** 2).sum()

    got = xlab.grad(loss(layer), (0, 1))(x, w)
    want = xlab.grad(loss(lambda x, w: x @ w), (0, 1))(x, w)
    for a, b in zip(got, want):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
    # A second derivative goes through the residuals of the first.
    hv = xlab.jvp(xlab.grad(loss(layer)), (x, w), (x, w))[1]
    hw = xlab.jvp(xlab.grad(loss(lambda x, w: x @ w)), (x, w), (x, w))[1]
    np.testing.assert_allclose(np.asarray(hv), np.asarray(hw), rtol=1e-3, atol=1e-4)


def test_scalar_residuals_are_kept_per_device():
    f = lambda x, w: (along(lambda x, w: jnp.sin(x.sum() * w) * x, ins=(P("i"), P()))(x, w)).sum()
    g = lambda x, w: (jnp.sin(x * w) * x).sum()
    for a, b in zip(xlab.grad(f, (0, 1))(X, np.float32(2)), xlab.grad(g, (0, 1))(X, np.float32(2))):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


def test_a_replicated_result_that_is_concatenated():
    """out_specs may name an axis over which the value is the same; cotangents of the copies add up."""
    f = lambda x: (along(lambda v: lax.psum(v, "i"))(x) * X).sum()
    assert np.asarray(xlab.grad(f)(X)).tolist() == [28.0] * 8


def test_control_flow_inside():
    f = along(
        lambda v: lax.fori_loop(
            0, 3, lambda i, c: c + lax.ppermute(c, "i", [(j, (j + 1) % 8) for j in range(8)]), v
        )
    )
    want = X
    for _ in range(3):
        want = want + np.roll(want, 1)
    assert np.asarray(f(X)).tolist() == want.tolist()


# -- types ------------------------------------------------------------------------------------------------


def types_of(f, *ins, out=P(), check=True):
    seen = []

    def body(*args):
        y = f(*args)
        seen.append(str(xlab.typeof(y)))
        return lax.psum(y, "i") if "V" in seen[-1] else y

    along(body, ins=ins, out=out, check_vma=check)(*[X] * len(ins))
    return seen[0]


def test_types_say_what_varies():
    assert types_of(lambda x: x, P("i")) == "float32[1]{V:i}"
    assert types_of(lambda x: x, P()) == "float32[8]"
    assert types_of(lambda x: lax.psum(x, "i"), P("i")) == "float32[1]"
    assert types_of(lambda x: lax.all_gather(x, "i"), P("i")) == "float32[8,1]{V:i}"
    assert types_of(lambda x: lax.all_gather(x, "i", to="invarying"), P("i")) == "float32[8,1]"
    assert types_of(lambda x, y: x + y[:1], P("i"), P()) == "float32[1]{V:i}"
    assert types_of(lambda x: x * 2 + lax.axis_index("i"), P()) == "float32[8]{V:i}"
    assert types_of(lambda x: x, P("i"), out=P("i"), check=False) == "float32[1]"


def test_unreduced_and_reduced():
    """Summands add before they are summed; a reduced operand defers the sum to its gradient."""

    def body(x):
        u = lax.pcast(x, "i", to="unreduced")
        assert str(xlab.typeof(u + u)) == "float32[1]{U:i}"
        with pytest.raises(NotImplementedError, match="unreduced rule for sin"):
            jnp.sin(u)
        with pytest.raises(ValueError, match="unreduced"):
            lax.pmax(u, "i")
        return lax.psum(u + u, "i")

    assert np.asarray(along(body, out=P())(X)).tolist() == [56.0]

    def weight(w, x):
        r = lax.pcast(w, "i", to="reduced")
        assert str(xlab.typeof(r)) == "float32[]{R:i}"
        g = xlab.grad(lambda r: (r * x).sum())(r)
        assert str(xlab.typeof(g)) == "float32[]{U:i}"
        return lax.psum(g, "i")

    assert float(along(weight, ins=(P(), P("i")), out=P())(np.float32(1), X)) == 28.0


def test_gather_to_reduced_transposes_to_a_scatter():
    def body(x):
        def weighted(v):
            whole = lax.all_gather(v, "i", tiled=True, to="reduced")
            assert str(xlab.typeof(whole)) == "float32[8]{R:i}"
            return (lax.pcast(whole, "i", to="varying") * lax.axis_index("i")).sum()

        return xlab.grad(weighted)(x)

    assert np.asarray(along(body)(X)).tolist() == [28.0] * 8


# -- the form of the program ------------------------------------------------------------------------------


def test_printed_form():
    text = str(xlab.make_jaxpr(along(lambda v: lax.psum(jnp.sin(v) * 2, "i"), out=P()))(X))
    assert (
        text
        == """{ lambda ; a:f32[8]. let
    b:f32[1] = shard_map[
      check_vma=True
      in_specs=(P('i',),)
      jaxpr={ lambda ; c:f32[1]{V:i}. let
          d:f32[1]{V:i} = sin c
          e:f32[]{V:i} = pvary[axes=('i',)] 2.0:f32[]
          f:f32[1]{V:i} = mul d e
          g:f32[1] = psum_invariant[axes=('i',)] f
        in (g,) }
      mesh=Mesh('i': 8, axis_types=(Auto,))
      newly_manual_axes=frozenset({'i'})
      out_specs=(P(),)
    ] a
  in (b,) }"""
    )


def test_lowered_form():
    text = (
        xlab.jit(along(lambda v: lax.psum(v, "x"), ins=P("x"), out=P(), mesh=grid()))
        .lower(X)
        .as_text()
    )
    assert text.count("sdy.manual_computation") == 1 and 'manual_axes={"x", "y"}' in text
    assert "[[0, 2, 4, 6], [1, 3, 5, 7]]" in text and "num_partitions = 8" in text
    partial = (
        xlab.jit(
            along(lambda v: lax.psum(v, "x"), ins=P("x"), out=P(), mesh=grid(), axis_names={"x"})
        )
        .lower(X)
        .as_text()
    )
    assert 'manual_axes={"x"}' in partial and '{"x", ?}' in partial


def test_closed_over_values_become_operands():
    y = jnp.arange(4.0)
    f = lambda x, y: along(lambda v: v + y)(x)
    eqn = xlab.make_jaxpr(f)(np.arange(32, dtype=np.float32), y).jaxpr.eqns[-1]
    assert eqn.params["in_specs"] == (P(), P("i")) and len(eqn.invars) == 2
    assert (
        np.asarray(xlab.grad(lambda y: f(np.zeros(32, np.float32), y).sum())(y)).tolist()
        == [8.0] * 4
    )


def test_unused_results_are_dropped():
    f = along(lambda v: (jnp.sin(v), lax.psum(v, "i")), out=(P("i"), P()))
    text = xlab.jit(lambda x: f(x)[0]).lower(X).as_text()
    assert "sine" in text


# -- ways to call -----------------------------------------------------------------------------------------


def test_decorator_trees_and_context_mesh():
    with set_mesh(line()):

        @xlab.shard_map(in_specs=({"a": P("i"), "b": P()},), out_specs=[P("i"), P()])
        def f(d):
            return [d["a"] * 2, d["b"] + 1]

        out = f({"a": X, "b": X})
    assert (
        np.asarray(out[0]).tolist() == (X * 2).tolist()
        and np.asarray(out[1]).tolist() == (X + 1).tolist()
    )


def test_nested_over_the_other_axis():
    inner = lambda v: xlab.shard_map(
        lambda w: lax.psum(w, "y"), in_specs=P("y"), out_specs=P(), axis_names={"y"}
    )(v)
    f = along(inner, ins=P("x"), out=P("x"), mesh=grid(), axis_names={"x"})
    assert np.asarray(f(X)).tolist() == [1.0, 5.0, 9.0, 13.0]
    assert np.asarray(xlab.grad(lambda x: (f(x) ** 2).sum())(X)).tolist() == [
        2,
        2,
        10,
        10,
        18,
        18,
        26,
        26,
    ]


@pytest.mark.parametrize("given", [P(), P("y"), P(None, "y"), P("x", "y"), P(("y", "x"))])
def test_partial_manual_brings_arguments_over_explicit_axes_to_their_specs(given):
    mesh = make_mesh((4, 2), ("x", "y"))
    f = along(lambda x: lax.psum(jnp.sin(x), "x"), P("x"), P(), mesh, axis_names={"x"})
    x = xlab.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, given))
    want = np.sin(x).reshape(4, 2, 8).sum(0)
    for run in (f, xlab.jit(f)):
        np.testing.assert_allclose(run(x), want, rtol=1e-5, atol=1e-5)
        back = xlab.jit(xlab.grad(lambda x, run=run: run(x).sum()))(x)
        np.testing.assert_allclose(back, np.cos(x), rtol=1e-5, atol=1e-6)
        assert xlab.typeof(back) == xlab.typeof(x)  # they come back to where they were
    with pytest.raises(ValueError, match="does not match the specs of the input"):
        along(lambda x: x, P(None, ("x", "y")), P(None, ("x", "y")), mesh)(x)


def test_partial_manual_with_a_rank():
    f = along(
        lambda v: v + lax.axis_index("x"), ins=P("x"), out=P("x"), mesh=grid(), axis_names={"x"}
    )
    assert np.asarray(f(X)).tolist() == [0, 1, 3, 4, 6, 7, 9, 10]


def test_jit_inside_and_outside():
    inner = xlab.jit(lambda v: lax.psum(jnp.sin(v), "i"))
    f = xlab.jit(along(inner, out=P()))
    np.testing.assert_allclose(np.asarray(f(X)), [np.sin(X).sum()], rtol=1e-5)


def test_other_device_orders():
    devices = np.array(xlab.devices()[::-1])
    mesh = Mesh(devices, ("i",))
    out = along(lambda v: v + lax.axis_index("i"), mesh=mesh)(X)
    assert np.asarray(out).tolist() == (2 * X).tolist()
    assert [s.device.id for s in out.addressable_shards] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_one_device():
    f = along(
        lambda v: lax.psum(v, "i") + lax.all_gather(v, "i", tiled=True) + lax.axis_index("i"),
        mesh=line(1),
    )
    assert np.asarray(f(X)).tolist() == (2 * X).tolist()
    assert np.asarray(xlab.grad(lambda x: f(x).sum())(X)).tolist() == [2.0] * 8


def test_vmap_of_shard_map_of_vmap():
    f = xlab.vmap(along(xlab.vmap(lambda v: v - lax.pmean(v, "i"))))
    x = np.random.default_rng(0).normal(size=(3, 8, 2)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(f(x)), x - x.mean(1, keepdims=True), atol=1e-6)


def test_eager_calls_do_not_run_python_twice():
    count = []

    def body(v):
        count.append(1)
        return lax.psum(v, "i")

    f = along(body, out=P())
    for _ in range(3):
        f(X)
    assert len(count) == 1
    placed = xlab.device_put(X, NamedSharding(line(), P("i")))
    g = xlab.grad(lambda x: f(x).sum())
    g(placed), g(placed)
    assert len(count) == 1


# -- errors -----------------------------------------------------------------------------------------------

ERRORS = {
    "function": (TypeError, "callable", lambda: xlab.shard_map(3, mesh=line(), in_specs=P(), out_specs=P())),
    "spec_type": (TypeError, "PartitionSpec.*'i'", lambda: along(lambda x: x, ins="i")),
    "mesh_type": (TypeError, "Mesh", lambda: along(lambda x: x, mesh=3)),
    "no_mesh": (ValueError, "set_mesh", lambda: xlab.shard_map(lambda x: x, in_specs=P("i"), out_specs=P("i"))(X)),
    "uneven": (ValueError, "`x`.*size 6.*'i'.*size 8", lambda: along(lambda x: x)(X[:6])),
    "spec_long": (ValueError, "length 2.*`x`.*rank 1", lambda: along(lambda x: x, ins=P(None, "i"))(X)),
    "result_rank": (ValueError, "length 1.*rank 0", lambda: along(lambda x: x.sum())(X)),
    "unknown_axis": (ValueError, "in_specs refers to 'n'", lambda: along(lambda x: x, ins=P("n"))(X)),
    "out_axis": (ValueError, "out_specs refers to 'n'", lambda: along(lambda x: x, out=P("n"))(X)),
    "replication": (ValueError, r"replicated across mesh axis 'i'.*float32\[1\]\{V:i\}", lambda: along(lambda x: x, out=P())(X)),
    "in_tree": (ValueError, "shard_map in_specs", lambda: along(lambda x: x, ins=(P("i"), P()))(X)),
    "out_tree": (ValueError, "shard_map out_specs", lambda: along(lambda x: x, out=(P("i"), P()))(X)),
    "axis_names": (ValueError, "subset", lambda: along(lambda x: x, axis_names={"z"})(X)),
    "not_manual": (ValueError, "'y'", lambda: along(lambda x: x, P("y"), P("y"), grid(), axis_names={"x"})(X)),
    "nested_same": (ValueError, "manual control already", lambda: along(lambda x: along(lambda y: y)(x))(X)),
    "nested_mesh": (ValueError, "context mesh", lambda: along(lambda x: along(lambda y: y, P("x"), P("x"), grid())(x))(X)),
    "unreduced_spec": (ValueError, "nreduced", lambda: along(lambda x: x, out=P(unreduced={"i"}))(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    kind, words, act = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        act()


# -- callbacks in regions that are manual over some axes ---------------------------------------------------


def _partly(body):
    return xlab.shard_map(
        body, mesh=grid(), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )


def _seen(log, result=None):
    def seen(v):
        log.append(np.asarray(v).tolist())
        return None if result is None else result(np.asarray(v))

    return seen


def test_x79_callbacks_of_partly_manual_regions_see_whole_values_once(capsys):
    """One call for each place along the manual axes; the axes that are left to the compiler are gathered before."""
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    sharded = xlab.device_put(x, NamedSharding(grid(), P("x", "y")))
    blocks = x.reshape(4, 2, 2).tolist()
    shape = xlab.ShapeDtypeStruct((2, 2), np.float32)
    debug, io, pure, flags = [], [], [], []

    def body(v):
        xlab.debug.callback(_seen(debug), v)
        xlab.debug.print("sum {}", v.sum())
        a = io_callback(_seen(io, lambda v: np.where(v == 0, -0.0, 2 * v)), shape, v)
        b = xlab.pure_callback(_seen(pure, lambda v: v + 1), shape, v)
        c = io_callback(_seen(flags, lambda v: v > 3), xlab.ShapeDtypeStruct((2, 2), np.bool_), v)
        return a, b, c

    a, b, c = xlab.jit(_partly(body))(sharded)
    xlab.effects_barrier()
    assert sorted(debug) == sorted(io) == sorted(flags) == blocks
    assert sorted({str(v) for v in pure}) == sorted(map(str, blocks))
    assert sorted(capsys.readouterr().out.split()) == sorted(
        ["sum", "6.0", "sum", "22.0", "sum", "38.0", "sum", "54.0"]
    )
    assert np.array_equal(a, 2 * x) and np.signbit(np.asarray(a)[0, 0])
    assert np.array_equal(b, x + 1) and np.array_equal(c, x > 3)


def test_x79_ordered_callbacks_of_partly_manual_regions_are_refused():
    with pytest.raises(NotImplementedError, match=r"\['y'\] are left to the compiler"):
        _partly(lambda v: (io_callback(print, None, v, ordered=True), v)[1])(X[:, None])


def test_x79_a_failing_callback_of_a_partly_manual_region_is_named():
    def broken(v):
        raise ArithmeticError("no such number")

    f = _partly(lambda v: (io_callback(broken, None, v), v)[1])
    with pytest.raises(Exception, match="no such number"):
        xlab.block_until_ready(f(X[:, None]))
        xlab.effects_barrier()
    with contextlib.suppress(Exception):  # the barrier reports it too
        xlab.effects_barrier()


def test_partly_manual_regions_nest_constrain_and_know_their_place():
    x = np.arange(16, dtype=np.float32).reshape(8, 2)

    def body(v):
        v = lax.with_sharding_constraint(v + lax.axis_index("x"), P(None, "y"))
        inner = xlab.shard_map(
            lambda w: w + lax.psum(w, ("x", "y")) + 10 * lax.axis_index("y"),
            in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}, check_vma=False,
        )  # fmt: skip
        return inner(v)

    at = x + np.repeat(np.arange(4), 2)[:, None]
    want = at + np.tile(at.reshape(4, 2, 2).sum((0, 2))[:, None], (4, 2)) + [0, 10]
    assert np.array_equal(xlab.jit(_partly(body))(x), want)
    assert np.array_equal(_partly(body)(x), want)


@pytest.mark.parametrize(
    "spec", [P(None), P(None, None), P("x", None), P(("x", "y"), None), P("x"), P()]
)
def test_results_of_an_eager_call_have_the_specs_that_are_written(spec):
    mesh = xlab.make_mesh((4, 2), ("x", "y"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    keys = xlab.random.split(xlab.random.key(0), (8, 2))
    f = xlab.shard_map(lambda v, k: {"v": v + 1, "k": k}, mesh=mesh, in_specs=spec, out_specs=spec)
    for _ in range(2):
        found = f(xlab.numpy.ones((8, 2)), keys)
        assert found["v"].sharding.spec == spec and (found["v"] + 1).sharding.spec == spec
        assert found["v"].sharding.shard_shape((8, 2)) == found["k"].sharding.shard_shape((8, 2))
    with pytest.raises(ValueError, match="out_specs"):
        xlab.shard_map(lambda v: v.sum(), mesh=mesh, in_specs=P(), out_specs=P(None, None))(
            np.ones(8)
        )
