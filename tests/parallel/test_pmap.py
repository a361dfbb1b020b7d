"""pmap against loops and against vmap."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.config import flag_context
from xlab.extend.core import devices_needed
from xlab.parallel import replica_mode

X = np.arange(8, dtype=np.float32)


def test_one_example_per_device():
    out = xlab.pmap(lambda x: x * 2)(X[:5])
    assert np.asarray(out).tolist() == (2 * X[:5]).tolist()
    assert out.sharding.num_devices == 5 and out.committed


def test_collectives_by_name():
    assert (
        np.asarray(xlab.pmap(lambda x: lax.psum(x, "a"), axis_name="a")(X)).tolist() == [28.0] * 8
    )
    assert (
        np.asarray(xlab.pmap(lambda x: x / lax.axis_size("a"), axis_name="a")(X)).tolist()
        == (X / 8).tolist()
    )


@pytest.mark.parametrize(("ins", "outs"), [(0, 0), (1, 1), (-1, -1), (0, 1), (1, 0)])
def test_axes_as_for_vmap(ins, outs):
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    want = xlab.vmap(jnp.sin, in_axes=ins, out_axes=outs)(x)
    got = xlab.pmap(jnp.sin, in_axes=ins, out_axes=outs)(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_trees_replicated_and_static_arguments():
    out = xlab.pmap(
        lambda d, w, n: {"p": d["x"] * w, "q": w * n},
        in_axes=({"x": 0}, None, 0),
        out_axes={"p": 0, "q": None},
        static_broadcasted_argnums=2,
    )({"x": X}, np.float32(3), 2)
    assert np.asarray(out["p"]).tolist() == (3 * X).tolist() and float(out["q"]) == 6.0
    assert np.asarray(xlab.pmap(lambda x, *, y: x + y)(X, y=X)).tolist() == (2 * X).tolist()


def test_gradient_and_jit():
    f = xlab.pmap(lambda x: lax.psum(x, "a") * x, axis_name="a")
    want = np.asarray(
        xlab.grad(lambda x: xlab.vmap(lambda v: lax.psum(v, "a") * v, axis_name="a")(x).sum())(X)
    )
    np.testing.assert_allclose(np.asarray(xlab.grad(lambda x: f(x).sum())(X)), want)
    np.testing.assert_allclose(np.asarray(xlab.jit(f)(X)), 28 * X)


def test_traced_once():
    count = []

    def body(x):
        count.append(1)
        return x + 1

    f = xlab.pmap(body)
    f(X), f(X), f(X + 1)
    assert len(count) == 1


def test_equal_functions_share_what_lives_as_long_as_one_of_them():
    class Model:
        def apply(self, x):
            return x * 2

    model = Model()
    one, other = xlab.pmap(model.apply), xlab.pmap(model.apply)  # two bound methods, equal
    del one
    gc.collect()
    np.testing.assert_array_equal(other(np.ones((2, 3), np.float32)), np.full((2, 3), 2.0))


def test_made_again_and_again_it_is_traced_once():
    count = []

    def body(x):
        count.append(1)
        return x * 2

    for _ in range(4):
        xlab.pmap(body)(X)
    assert len(count) == 1
    xlab.pmap(body, axis_name="a")(X)
    assert len(count) == 2
    dead = weakref.ref(body)
    del body
    gc.collect()
    assert dead() is None


class TestNested:
    """The axes of maps in maps are axes of one mesh; values are those of nested vmaps."""

    @staticmethod
    def both(body, *names):
        mapped, want = body, body
        for name in names:
            mapped, want = xlab.pmap(mapped, axis_name=name), xlab.vmap(want, axis_name=name)
        return mapped, want

    def test_collectives_over_inner_outer_and_both(self):
        x = X.reshape(2, 4)
        mapped, want = self.both(
            lambda y: y + lax.psum(y, "j") + 10 * lax.psum(y, "i") + 100 * lax.psum(y, ("i", "j")),
            "j",
            "i",
        )
        assert np.asarray(mapped(x))[0].tolist() == [2846, 2867, 2888, 2909]
        assert mapped(x).sharding.num_devices == 8
        for make in (xlab.jit, lambda f: xlab.grad(lambda v: (f(v) ** 2).sum()), xlab.vmap):
            given = np.stack([x, x + 1]) if make is xlab.vmap else x
            np.testing.assert_allclose(make(mapped)(given), make(want)(given), rtol=1e-6)
        with xlab.disable_jit():
            np.testing.assert_array_equal(mapped(x), want(x))

    def test_three_deep_and_without_names(self):
        x = X.reshape(2, 2, 2)
        mapped, want = self.both(lambda y: y + lax.psum(y, ("a", "c")), "c", "b", "a")
        np.testing.assert_array_equal(mapped(x), want(x))
        np.testing.assert_array_equal(
            xlab.pmap(xlab.pmap(lambda v: v + 1))(X.reshape(2, 4)), X.reshape(2, 4) + 1
        )

    def test_in_the_middle_of_a_body(self):
        def body(r):
            inner = xlab.pmap(lambda v: v + lax.psum(v, "j"), axis_name="j")
            return lax.scan(lambda c, _: (inner(c), None), r, None, length=2)[0] + lax.psum(
                r.sum(), "i"
            )

        once = [r + r.sum() for r in X.reshape(2, 4)]
        want = [r + r.sum() + 28 for r in once]
        np.testing.assert_allclose(xlab.pmap(body, axis_name="i")(X.reshape(2, 4)), want)

    @pytest.mark.parametrize(
        ("inner", "shape", "words"),
        [
            ({"axis_name": "j"}, (4, 4), "16 devices.*4 x 4.*only 8"),
            ({"axis_name": "i"}, (2, 4), "axis 'i'.*each its own axis_name"),
            ({"devices": xlab.devices()[:2]}, (2, 2), "only the outermost"),
        ],
    )
    def test_refused(self, inner, shape, words):
        with pytest.raises(ValueError, match=f"(?s){words}"):
            xlab.pmap(xlab.pmap(lambda v: v, **inner), axis_name="i")(np.ones(shape))

    def test_maps_beside_each_other_need_the_devices_of_the_larger_only(self):
        """X26: replicas are the product over a nest, and the largest of siblings."""

        def body(y):
            a = xlab.pmap(lambda v: v + lax.psum(v, "j"), axis_name="j")(y)
            b = xlab.pmap(lambda v: v * lax.psum(v, ("i", "k")), axis_name="k", out_axes=0)(y[:2])
            c = xlab.pmap(lambda v: v + 1)(y) + xlab.pmap(lambda v: v + 2)(y[:2]).sum()
            return a, b, c

        mapped = xlab.pmap(body, axis_name="i")
        with xlab.disable_jit():
            eager = mapped(X.reshape(2, 4))
        a, b, c = mapped(X.reshape(2, 4))
        rows = X.reshape(2, 4)
        assert np.array_equal(a, rows + rows.sum(1, keepdims=True))
        assert np.array_equal(b, rows[:, :2] * rows[:, :2].sum())
        assert np.array_equal(c, rows + 1 + (rows[:, :2] + 2).sum(1, keepdims=True))
        for x, y in zip(eager, (a, b, c)):
            np.testing.assert_array_equal(x, y)

    def test_devices_of_the_outermost_count_for_the_nest(self):
        devices = xlab.devices()[::-1]
        inner = xlab.pmap(lambda v: v + lax.psum(v, "j"), axis_name="j")
        y = xlab.pmap(inner, axis_name="i", devices=devices)(X.reshape(2, 4))
        assert np.array_equal(y, X.reshape(2, 4) + X.reshape(2, 4).sum(1, keepdims=True))
        assert y.sharding.devices_in_order == tuple(devices)
        with pytest.raises(ValueError, match="size.* is 2 and devices has 6.*the 4 of the pmaps"):
            xlab.pmap(inner, axis_name="i", devices=devices[:6])(X[:4].reshape(2, 2))
        with pytest.raises(
            ValueError, match="size.* is 2 and devices has 3 entries: they must be equal$"
        ):
            xlab.pmap(lambda v: v, devices=devices[:3])(X[:2])


def test_d25_devices_that_a_program_with_maps_needs():
    nested = xlab.pmap(xlab.pmap(lambda v: v, axis_name="j"), axis_name="i")
    once = xlab.pmap(lambda v: v)
    looped = lambda x: lax.scan(lambda c, _: (once(c), None), x, None, length=2)[0]
    for f, x, count in ((nested, X.reshape(2, 4), 8), (looped, X[:4], 4), (jnp.sin, X, 1)):
        assert devices_needed(xlab.make_jaxpr(f)(x)) == count


BODIES = {
    "elementwise": lambda v: jnp.sin(v) * v,
    "psum": lambda v: v * lax.psum(v, "i"),
    "gather": lambda v: v + lax.all_gather(v, "i").sum(0) * lax.axis_index("i"),
    "permute": lambda v: v * lax.ppermute(v, "i", [(0, 1), (1, 2), (2, 0)]),
    "scan": lambda v: lax.scan(lambda c, x: (c * x, c + lax.psum(x, "i")), v[0], v)[1],
    "inner vmap and grad": lambda v: xlab.grad(lambda w: (xlab.vmap(jnp.sin)(w) * w).sum())(v),
}
WAYS = {
    "eager": lambda f, x: f(x),
    "jit": lambda f, x: xlab.jit(f)(x),
    "disable_jit": lambda f, x: _eagerly(f, x),
    "grad": lambda f, x: xlab.grad(lambda y: (f(y) ** 2).sum())(x),
    "vmap": lambda f, x: xlab.vmap(f)(np.stack([x, 2 * x])),
    "eager grad": lambda f, x: _eagerly(xlab.grad(lambda y: (f(y) ** 2).sum()), x),
}


def _eagerly(f, x):
    with xlab.disable_jit():
        return f(x)


@pytest.mark.parametrize("body", BODIES)
def test_every_way_to_run_a_map_is_a_loop(body):
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    mapped = xlab.pmap(BODIES[body], axis_name="i")
    loop = xlab.vmap(BODIES[body], axis_name="i")  # collectives over examples
    for name, way in WAYS.items():
        np.testing.assert_allclose(way(mapped, x), way(loop, x), rtol=2e-5, atol=1e-6, err_msg=name)


def test_x20_x36_programs_of_maps_go_by_that_name():
    def double(x, w):
        return x * w

    f = xlab.pmap(double, axis_name="i", in_axes=(0, None), donate_argnums=0)
    (call,) = xlab.make_jaxpr(f)(X[:4], np.float32(2)).jaxpr.eqns
    assert call.params["name"] == "pmap(double)"
    assert call.params["donated_invars"] == (True, False)
    inner = call.params["jaxpr"].jaxpr
    assert inner.debug_info.arg_names == ("x", "w")
    (mapped,) = inner.eqns
    # What the historic primitive said: the axis and its size, the devices, where arguments and results are mapped.
    assert mapped.params["jaxpr"].debug_info.name == "pmap(double)"
    assert dict(mapped.params["mesh"].shape) == {"i": 4}
    assert mapped.params["mesh"].devices_in_order == tuple(xlab.devices()[:4])
    assert [s.axes_of(0) for s in mapped.params["in_specs"]] == [("i",), ()]
    lowered = f.lower(X[:4], np.float32(2))
    assert lowered.as_text().startswith("module @jit_pmap_double_ ")
    assert "jit(pmap(double))" in lowered.as_text(debug_info=True)
    assert xlab.observe.program(f, X[:4], np.float32(2)).name == "pmap(double)"


def test_x36_types_of_results_say_where_they_lie():
    """Before anything is compiled, and as it is compiled then: mapped along any dimension and not mapped, in parts of the result."""
    f = xlab.pmap(lambda x: {"a": (x * 2, x.sum()), "b": 3}, out_axes={"a": (1, 0), "b": None})
    rows = np.ones((4, 3), np.float32)
    lowered = f.lower(rows)
    compiled = lowered.compile()
    assert where(compiled.out_info) == compiled.output_shardings
    for stage in (f.trace(rows), lowered):
        assert where(stage.out_info) == compiled.output_shardings, stage


def test_x36_only_the_compiler_knows_where_a_map_in_a_map_leaves_its_results():
    nested = xlab.pmap(xlab.pmap(lambda x: x * 2)).lower(np.ones((2, 4, 3), np.float32))
    assert nested.out_info.sharding is None
    placed = nested.compile().out_info.sharding
    assert tuple(placed.spec) == placed.mesh.axis_names


def where(info):
    return xlab.tree.map(lambda o: o.sharding, info)


class TestReplicaMode:
    """X29: a map inside a larger program takes and returns whole arrays."""

    @pytest.mark.parametrize(
        ("dtype", "out_axes"), [(np.float32, 0), (np.bool_, 0), (np.int32, 1), (np.float32, -1)]
    )
    def test_values_are_those_of_the_mesh(self, dtype, out_axes):
        f = xlab.pmap(
            lambda x, w: (x, lax.psum(jnp.where(x, w, 1), "i")),
            "i",
            in_axes=(1, None),
            out_axes=(out_axes, None),
        )
        x = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
        want = xlab.jit(f)(x, np.float32(3))
        with (
            flag_context("pmap_replica_mode", True),
            pytest.warns(UserWarning, match="Remove the outer jit"),
        ):
            got = xlab.jit(f)(x, np.float32(3))
        for a, b in zip(got, want):
            assert a.dtype == b.dtype and np.array_equal(a, b)
        assert got[0].sharding.is_fully_replicated and got[0].committed
        assert not want[0].sharding.is_fully_replicated

    def test_derivatives_nests_keys_and_calls_that_stand_alone(self):
        f = xlab.pmap(xlab.pmap(lambda v: jnp.sin(v) * lax.psum(v, ("i", "j")), "j"), "i")
        draw = xlab.pmap(lambda k: xlab.random.fold_in(k, lax.axis_index("i")), "i")
        x, keys = X[:4].reshape(2, 2), xlab.random.split(xlab.random.key(0), 2)
        loss = lambda v: (f(v) ** 2).sum()
        want = f(x), xlab.grad(loss)(x), xlab.random.key_data(draw(keys))
        with flag_context("pmap_replica_mode", True):
            assert not f(x).sharding.is_fully_replicated
            with pytest.warns(UserWarning, match="moves data inefficiently"):
                got = (
                    xlab.jit(f)(x),
                    xlab.jit(xlab.grad(loss))(x),
                    xlab.random.key_data(xlab.jit(draw)(keys)),
                )
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-6)


class TestDonation:
    """X25: an argument that lies right gives up its buffer; one that had to move, and one passed by keyword, stay."""

    @staticmethod
    def rows(n=8):
        return xlab.pmap(lambda x: x)(X[:n])

    def test_what_lies_right_is_taken(self):
        f = xlab.pmap(
            lambda t, w, y: (t["a"] + w + y, t["b"] * 2), in_axes=(0, None, 0), donate_argnums=(0,)
        )
        a, b, y = (self.rows() for _ in range(3))
        for _ in range(2):  # cold and warm
            a, b = f({"a": (old := a), "b": b}, 1.0, y)
            assert old.is_deleted() and not y.is_deleted()
        with pytest.raises(
            RuntimeError, match=r"deleted or donated: the call of jit\(pmap\(<lambda>\)\)"
        ):
            f({"a": old, "b": b}, 1.0, y)
        by_keyword = xlab.pmap(lambda x, y: (x + y, x - y), donate_argnums=(0, 1))
        x = self.rows()
        assert np.array_equal(by_keyword(x, y=y)[0], 2 * X)
        assert x.is_deleted() and not y.is_deleted()
        x = self.rows()
        by_keyword.lower(x, y).compile()(x, y)
        assert x.is_deleted() and y.is_deleted()

    @pytest.mark.parametrize(
        "make",
        [
            lambda: X.copy(),
            lambda: jnp.asarray(X),
            lambda: xlab.device_put(X, xlab.devices()[5]),
            lambda: xlab.pmap(lambda x: x, devices=xlab.devices()[::-1])(X),
        ],
        ids=["host", "one device", "committed elsewhere", "another order"],
    )
    def test_what_has_to_move_stays(self, make):
        x = make()
        assert np.array_equal(xlab.pmap(lambda x: x + 1, donate_argnums=0)(x), X + 1)
        assert np.array_equal(x, X)

    def test_each_device_gets_its_row_alone(self):
        """A donated argument without a place used to go whole to every device, and one that was given twice was refused."""
        f = xlab.pmap(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
        compiled = f.lower(X, X).compile()
        assert [s.shard_shape((8,)) for s in compiled.input_shardings[0]] == [(1,), (1,)]
        here = jnp.asarray(X)
        for _ in range(2):
            total, none = f(here, here)
            assert np.array_equal(total, 2 * X) and not np.any(none) and not here.is_deleted()
        rows = self.rows()
        with pytest.raises(
            RuntimeError, match="same array.* as `a` and as `b`, and both are donated"
        ):
            f(rows, rows)

    def test_inside_of_transformations_and_checks_nothing_is_taken(self):
        f, x = xlab.pmap(lambda x: x * x, donate_argnums=0), self.rows()
        assert np.array_equal(xlab.grad(lambda v: f(v).sum())(x), 2 * X)
        assert np.array_equal(xlab.jit(f)(x), X * X)
        with xlab.debug_nans(True):
            assert np.array_equal(f(x), X * X)
        with xlab.disable_jit():
            assert np.array_equal(f(x), X * X)
        assert not x.is_deleted()

    def test_the_outermost_of_a_nest_takes(self):
        nest = lambda **options: xlab.pmap(xlab.pmap(lambda v: v + 1), **options)
        x = nest()(X.reshape(2, 4))
        assert np.array_equal(nest(donate_argnums=0)(x), X.reshape(2, 4) + 2) and x.is_deleted()


@pytest.mark.parametrize("n", [1, 3, 8])
def test_x38_rows_lie_on_the_first_devices_in_the_order_of_their_numbers(n):
    ids = [d.id for d in xlab.devices()[:n]]
    assert ids == sorted(ids)
    y = xlab.pmap(lambda x: x + lax.axis_index("i"), axis_name="i")(X[:n])
    assert [d.id for d in y.sharding.devices_in_order] == ids
    assert {s.device.id: s.index[0].indices(n)[0] for s in y.addressable_shards} == {
        i: k for k, i in enumerate(ids)
    }
    assert [float(s.data[0]) for s in y.addressable_shards] == [2.0 * k for k in range(n)]


def test_x39_keys_and_values_without_derivatives():
    keys = xlab.random.split(xlab.random.key(0), 4)
    assert np.array_equal(xlab.pmap(xlab.random.normal)(keys), xlab.vmap(xlab.random.normal)(keys))
    split = xlab.pmap(lambda k: xlab.random.split(k, 2), out_axes=1)(keys)
    want = xlab.vmap(lambda k: xlab.random.split(k, 2), out_axes=1)(keys)
    assert np.array_equal(xlab.random.key_data(split), xlab.random.key_data(want))
    f = xlab.pmap(lambda n, x: (n, x * n))
    none = np.zeros(4, xlab.dtypes.float0)
    tangents = xlab.jvp(f, (np.arange(4), X[:4]), (none, np.ones(4, np.float32)))[1]
    assert tangents[0].dtype == xlab.dtypes.float0 and tangents[0].shape == (4,)
    assert np.asarray(tangents[1]).tolist() == [0, 1, 2, 3]


def test_x35_collectives_between_processes_have_to_be_allowed(monkeypatch):
    body = xlab.make_jaxpr(
        xlab.pmap(lambda v: lax.pmax(lax.psum(v, "i"), "i") + lax.axis_index("i"), "i")
    )(X)
    replica_mode.check_collectives(body.jaxpr, "f")
    monkeypatch.setattr(replica_mode, "multi_host_supported_collectives", {lax.psum_p})
    with pytest.raises(TypeError, match="uses the collectives pmax, which are not in.*: psum"):
        replica_mode.check_collectives(body.jaxpr, "f")
    monkeypatch.setattr(replica_mode, "multi_host_supported_collectives", set())
    with pytest.raises(TypeError, match="pmax, psum.*it is empty"):
        replica_mode.check_collectives(body.jaxpr, "f")


def test_x63_no_map_in_a_body_that_all_devices_run():
    mesh = xlab.make_mesh((8,), ("d",), axis_types=(xlab.sharding.AxisType.Auto,))
    spec = xlab.sharding.PartitionSpec("d")
    f = xlab.shard_map(xlab.pmap(lambda v: v), mesh=mesh, in_specs=spec, out_specs=spec)
    for kind in (RuntimeError, ValueError):
        with pytest.raises(
            kind, match=r"pmap of <lambda> is called in the body of a shard_map over Mesh\('d': 8"
        ):
            f(X)


class TestInputsElsewhere:
    """Inputs come to where the map runs, whatever devices they are committed to."""

    def test_results_of_another_map(self):
        devices = xlab.devices()
        y = xlab.pmap(lambda x: x, devices=devices[:4])(X[:4])
        moved = xlab.pmap(lambda x: x + 1, devices=devices[4:])(y)
        assert np.asarray(moved).tolist() == (X[:4] + 1).tolist() and moved.devices() == set(
            devices[4:]
        )

    def test_one_device_broadcast_and_keys(self):
        w, x = (xlab.device_put(v, xlab.devices()[5]) for v in (np.float32(3), X[:4]))
        assert (
            np.asarray(xlab.pmap(lambda x, w: x * w, in_axes=(0, None))(X[:4], w)).tolist()
            == (3 * X[:4]).tolist()
        )
        assert np.asarray(xlab.pmap(lambda x: x * 2)(x)).tolist() == (2 * X[:4]).tolist()
        keys = xlab.random.split(xlab.random.key(0), 4)
        draw = xlab.random.normal
        np.testing.assert_array_equal(
            xlab.pmap(draw)(xlab.device_put(keys, xlab.devices()[3])), xlab.vmap(draw)(keys)
        )


def test_devices_in_a_column_and_axes_of_dynamic_arguments_alone():
    column = np.array(xlab.devices()[:2], dtype=object).reshape(2, 1)
    assert np.asarray(xlab.pmap(lambda x: x + 1, devices=column)(X[:2])).tolist() == [1, 2]
    f = xlab.pmap(lambda n, x: x * n, in_axes=(0,), static_broadcasted_argnums=0)
    assert np.asarray(f(3, X[:2])).tolist() == [0, 3]


def _named_body(x, n):
    return x


ERRORS = {
    "function": (TypeError, "function", lambda: xlab.pmap(3)),
    "axes": (TypeError, "in_axes leaves must be int or None.*'a'", lambda: xlab.pmap(lambda x: x, in_axes="a")),
    "out_axes": (TypeError, "out_axes", lambda: xlab.pmap(lambda x: x, out_axes="a")),
    "nothing": (ValueError, "at least one mapped argument", lambda: xlab.pmap(lambda x: x, in_axes=None)(X)),
    "sizes": (ValueError, "inconsistent", lambda: xlab.pmap(lambda x, y: x)(X, X[:4])),
    "sizes_named": (ValueError, r"`x` of type f32\[8\] has 8 along axis 0; `y\['b'\]` of type f32\[4\] has 4", lambda: xlab.pmap(
        lambda x, y: x)(X, {"b": X[:4]})),
    "empty": (ValueError, "axis of size 0", lambda: xlab.pmap(lambda x: x)(X[:0])),
    "no_devices": (ValueError, "non-empty", lambda: xlab.pmap(lambda x: x, devices=[])(X)),
    "unhashable": (ValueError, r"body was given \[1\] of type list as its static argument 1", lambda: xlab.pmap(
        _named_body, static_broadcasted_argnums=1)(X, [1])),
    "grid": (ValueError, "in a row", lambda: xlab.pmap(lambda x: x, devices=np.array(xlab.devices()[:4]).reshape(2, 2))),
    "devices": (ValueError, "9 devices.*only 8", lambda: xlab.pmap(lambda x: x)(np.ones(9))),
    "both": (ValueError, "static and donated", lambda: xlab.pmap(
        lambda x: x, static_broadcasted_argnums=0, donate_argnums=0)),
    "static_count": (ValueError, r"static_broadcasted_argnums=\(1,\)", lambda: xlab.pmap(
        lambda x, n: x, static_broadcasted_argnums=1)(X)),
    "range": (ValueError, "out of range", lambda: xlab.pmap(lambda x: x, in_axes=1)(X)),
    "given_devices": (ValueError, r"maps 4 examples, and its devices are 2, with ids \[1, 2\]", lambda: xlab.pmap(
        _named_body, devices=xlab.devices()[1:3], static_broadcasted_argnums=1)(X[:4], 1)),
    "device_twice": (ValueError, r"ids \[3\] more than once, in \[3, 0, 3\]", lambda: xlab.pmap(
        lambda x: x, devices=[xlab.devices()[i] for i in (3, 0, 3)])),
    "prefix": (ValueError, r"in_axes of pmap of <lambda> must be a pytree prefix.*by keyword are not compared.*\['b'\].*\['a'\]", lambda: xlab.pmap(
        lambda d, y: y, in_axes=({"b": 0},))({"a": X}, y=X)),
    "prefix_type": (ValueError, r"by keyword are not compared.*type\n *<class 'dict'>.*ShapedArray", lambda: xlab.pmap(
        lambda d: d, in_axes=({"b": 0},))(X)),
    "prefix_length": (ValueError, "2 entries for 1 arguments.*by keyword are not compared", lambda: xlab.pmap(
        lambda x, y: y, in_axes=(0, 0))(X, y=X)),
    "prefix_out": (ValueError, "out_axes of pmap of <lambda> must be a pytree prefix of what it returns.*length 3.*length 2", lambda: xlab.pmap(
        lambda x: (x, x), out_axes=(0, 0, 0))(X)),
    "text": (TypeError, r"cannot call pmap of _named_body: argument `x\['k'\]\[1\]` is 'hi' of type str.*static_broadcasted_argnums=0", lambda: xlab.pmap(
        _named_body, static_broadcasted_argnums=1)({"k": [X, "hi"]}, 2)),
    "masked": (ValueError, "masked arrays.*filled", lambda: xlab.pmap(lambda x: x)(np.ma.masked_array(X, X > 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    kind, words, act = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        act()
