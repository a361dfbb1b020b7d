"""Placing data: destinations, commitment, identity, errors; arrays made of parts; sharded jit."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.rules import tables
from xlab.errors import IncompatibleDevices, IndivisibleError
from xlab.parallel.mesh_utils import create_device_mesh
from xlab.sharding import (
    AxisType,
    Format,
    GSPMDSharding,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    make_mesh,
    set_mesh,
)

X = np.arange(8, dtype=np.float32)


def line():
    return make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))


def grid():
    return make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def rows():
    return NamedSharding(line(), P("i"))


def shards(a):
    return {s.device.id: np.asarray(s.data).tolist() for s in a.addressable_shards}


def test_destinations():
    d = xlab.devices()
    one = xlab.device_put(X, d[3])
    assert one.sharding == SingleDeviceSharding(d[3]) and one.committed
    nowhere = xlab.device_put(X)
    assert not nowhere.committed and nowhere.devices() == {d[0]}
    assert xlab.device_put(nowhere) is nowhere
    spread = xlab.device_put(X, rows())
    assert (
        shards(spread) == {i: [float(i)] for i in range(8)}
        and xlab.device_put(spread, rows()) is spread
    )
    assert xlab.device_put(spread, Format(None, rows())) is spread
    with set_mesh(line()):
        assert xlab.device_put(X, P("i")).sharding == rows()
    back = xlab.device_put(spread, d[2])
    assert back.devices() == {d[2]} and np.asarray(back).tolist() == X.tolist()


@pytest.mark.parametrize(
    "spec",
    [
        P(),
        P("x"),
        P("y"),
        P(None, "x"),
        P("x", "y"),
        P(("x", "y")),
        P(("y", "x")),
        P(None, ("y", "x")),
    ],
    ids=str,
)
def test_every_device_holds_its_slice(spec):
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    where = NamedSharding(grid(), spec)
    sources = [
        whole,
        xlab.device_put(whole),
        xlab.device_put(whole, NamedSharding(grid(), P("y", "x"))),
        xlab.device_put(whole, NamedSharding(line(), P(None, "i"))),
    ]
    for source in sources:
        placed = xlab.device_put(source, where)
        assert placed.sharding == where and np.array_equal(np.asarray(placed), whole)
        for s in placed.addressable_shards:
            assert np.array_equal(np.asarray(s.data), whole[s.index])


def test_other_orders_of_the_same_devices():
    a = xlab.device_put(X, rows())
    turned = NamedSharding(Mesh(np.array(xlab.devices()[::-1]), ("i",)), P("i"))
    assert shards(xlab.device_put(a, turned)) == {7 - i: [float(i)] for i in range(8)}


def test_copy_semantics():
    a = xlab.device_put(X, xlab.devices()[0])
    assert (
        xlab.device_put(a, xlab.devices()[0]).unsafe_buffer_pointer() == a.unsafe_buffer_pointer()
    )
    copy = xlab.device_put(a, xlab.devices()[0], may_alias=False)
    assert copy.unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
    source = X.copy()
    kept = xlab.device_put(source, may_alias=False)
    source[:] = 0
    assert np.asarray(kept).tolist() == X.tolist()
    assert np.asarray(xlab.device_put(a, rows(), donate=True)).tolist() == X.tolist()
    text = str(xlab.make_jaxpr(lambda x: xlab.device_put(x, xlab.devices()[1], may_alias=False))(X))
    assert "copy_semantics=(ArrayCopySemantics.ALWAYS_COPY,)" in text and "srcs=(None,)" in text


def test_memory_kinds_and_scalars():
    host = xlab.device_put(X, rows().with_memory_kind("pinned_host"))
    assert host.sharding.memory_kind == "pinned_host" and np.asarray(host).tolist() == X.tolist()
    assert xlab.device_put(3.0).weak_type
    assert xlab.device_put({"a": X, "b": [1, None]}, rows().mesh.devices[0])["b"][1] is None


def test_keys_move_like_arrays():
    keys = xlab.random.split(xlab.random.key(0), 8)
    placed = xlab.device_put(keys, rows())
    assert placed.sharding.num_devices == 8
    assert np.array_equal(
        np.asarray(xlab.random.key_data(placed)), np.asarray(xlab.random.key_data(keys))
    )


def test_transforms_of_device_put():
    put = lambda x: xlab.device_put(x, rows())
    assert np.asarray(xlab.grad(lambda x: (put(x) ** 2).sum())(X)).tolist() == (2 * X).tolist()
    assert np.asarray(xlab.jvp(put, (X,), (X,))[1]).tolist() == X.tolist()
    assert xlab.jit(put)(X).sharding == rows()
    with pytest.raises(ValueError, match="donate"):
        xlab.grad(lambda x: xlab.device_put(x, xlab.devices()[0], donate=True).sum())(X)
    batch = xlab.vmap(lambda x: xlab.device_put(x, xlab.devices()[1]), in_axes=1, out_axes=1)(
        X.reshape(2, 4)
    )
    assert batch.shape == (2, 4)


PUT_ERRORS = {
    "value": (TypeError, "'hi'", lambda: xlab.device_put("hi")),
    "tree": (ValueError, "tree prefix", lambda: xlab.device_put({"a": X}, {"b": xlab.devices()[0]})),
    "kind": (ValueError, "only accepts.*3", lambda: xlab.device_put(X, 3)),
    "no_mesh": (ValueError, "set_mesh", lambda: xlab.device_put(X, P("i"))),
    "both": (ValueError, "may_alias and donate", lambda: xlab.device_put(X, donate=True, may_alias=True)),
    "uneven": (IndivisibleError, "axis 0.*8 times.*size is 6", lambda: xlab.device_put(X[:6], rows())),
    "rank": (ValueError, "rank at least 2", lambda: xlab.device_put(X, NamedSharding(line(), P(None, "i")))),
    "memory": (ValueError, "bogus", lambda: xlab.device_put(X, rows().with_memory_kind("bogus"))),
    "open": (ValueError, "device_put.*UNCONSTRAINED in P\\(UNCONSTRAINED, 'y'\\)", lambda: xlab.device_put(
        X.reshape(4, 2), NamedSharding(grid(), P(P.UNCONSTRAINED, "y")))),
    "open_prefix": (ValueError, "device_put.*UNCONSTRAINED", lambda: xlab.device_put([X], [NamedSharding(line(), P(P.UNCONSTRAINED))])),
    "open_traced": (ValueError, "device_put.*UNCONSTRAINED", lambda: xlab.jit(
        lambda v: xlab.device_put(v, NamedSharding(line(), P(P.UNCONSTRAINED))))(X)),
    "constraint_rank": (ValueError, "with_sharding_constraint", lambda: lax.with_sharding_constraint(
        X, NamedSharding(line(), P(None, "i")))),
    "constraint_spec": (RuntimeError, "set_mesh", lambda: lax.with_sharding_constraint(X, P("i"))),
    "constraint_uneven": (IndivisibleError, "size is 6", lambda: lax.with_sharding_constraint(X[:6], rows())),
    "constraint_tree": (ValueError, "with_sharding_constraint", lambda: lax.with_sharding_constraint([X], (rows(), rows()))),
    "constraint_manual": (ValueError, "manual", lambda: xlab.shard_map(
        lambda v: lax.with_sharding_constraint(v, NamedSharding(grid(), P("x"))), mesh=grid(), in_specs=P("x"), out_specs=P("x"),
        axis_names={"x"})(np.arange(32.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", PUT_ERRORS)
def test_error(name):
    kind, words, act = PUT_ERRORS[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        act()


def test_deleted_arrays_are_refused():
    a = xlab.device_put(X, xlab.devices()[0])
    a.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        xlab.device_put(a, xlab.devices()[1])


def test_d78_the_primitive_has_every_rule():
    from xlab.lax.device_put import device_put_p

    assert device_put_p.multiple_results and device_put_p.has_abstract_eval and device_put_p.impl
    with_rule = {name for name, table in tables().items() if device_put_p in table}
    assert with_rule >= {
        "ad.primitive_jvps",
        "ad.primitive_transposes",
        "batching.primitive_batchers",
        "mlir.lowerings",
        "compile.sharding_sources",
        "key_reuse.key_movers",
    }


# -- arrays of parts --------------------------------------------------------------------------------------


def test_from_parts():
    d = xlab.devices()
    parts = [xlab.device_put(X[i : i + 1], d[i]) for i in range(8)]
    whole = xlab.make_array_from_single_device_arrays((8,), rows(), parts[::-1])
    assert np.asarray(whole).tolist() == X.tolist() and whole.sharding == rows()
    for bad, words in (
        (parts[:7], "needs one part on each"),
        ([*parts[:7], parts[0]], "two parts on device 0"),
        ([xlab.device_put(X, q) for q in d], r"shape \(8,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            xlab.make_array_from_single_device_arrays((8,), rows(), bad)
    with pytest.raises(TypeError, match="device_put"):
        xlab.make_array_from_single_device_arrays((8,), rows(), [X[:1]] * 8)


def test_from_callback_and_local_data():
    calls = []

    def data(index):
        calls.append(index)
        return X[index]

    assert (
        np.asarray(xlab.make_array_from_callback((8,), rows(), data)).tolist() == X.tolist()
        and len(calls) == 8
    )
    calls.clear()
    everywhere = xlab.make_array_from_callback((8,), NamedSharding(line(), P()), data)
    assert len(calls) == 1 and everywhere.is_fully_replicated
    with pytest.raises(ValueError, match="callback returned"):
        xlab.make_array_from_callback((8,), rows(), lambda index: X)
    assert np.asarray(xlab.make_array_from_process_local_data(rows(), X)).tolist() == X.tolist()


@pytest.mark.parametrize(
    "transform",
    [xlab.jit, xlab.vmap, lambda f: xlab.grad(lambda x: f(x).sum())],
    ids=["jit", "vmap", "grad"],
)
def test_getting_traced_values_leaves_them(transform):
    assert transform(lambda x: xlab.device_get({"a": x})["a"] * 2)(X).shape == X.shape


def test_get_wait_and_stacked_puts():
    a = xlab.device_put(X, rows())
    got = xlab.device_get({"a": a, "b": 3.0, "c": X})
    assert isinstance(got["a"], np.ndarray) and got["b"] == 3.0
    assert xlab.block_until_ready([a, {"k": 1}])[0] is a
    d = xlab.devices()[:2]
    stacked = xlab.device_put_sharded([X, X + 1], d)
    assert stacked.shape == (2, 8) and np.asarray(stacked[1]).tolist() == (X + 1).tolist()
    assert xlab.device_put_replicated(X, d).shape == (2, 8)


def test_x9_lists_of_values_and_one_value_on_a_list_of_devices():
    d = xlab.devices()
    several = xlab.device_put([1.0, X, np.int8(3)], [d[4], d[2], d[7]])
    assert [x.devices() for x in several] == [{d[4]}, {d[2]}, {d[7]}]
    assert [np.asarray(x).tolist() for x in several] == [1.0, X.tolist(), 3]
    copies = xlab.device_put([X] * 3, d[1:4])
    assert [x.devices() for x in copies] == [{q} for q in d[1:4]]
    with pytest.raises(ValueError, match="list of length 2, but .* length 3"):
        xlab.device_put([1.0, 2.0, 3.0], d[:2])


class TestReplicate:
    """X10: copies of a value as the examples of a map."""

    def test_one_row_on_each_device(self):
        y = xlab.replicate({"w": X, "s": 2}, 8, 8)
        assert np.array_equal(y["w"], np.stack([X] * 8)) and np.asarray(y["s"]).tolist() == [2] * 8
        assert shards(y["w"]) == {i: [X.tolist()] for i in range(8)} and y["w"].committed
        assert y["s"].weak_type
        summed = xlab.pmap(lambda w, x: w.sum() * lax.psum(x, "i"), "i")(y["w"], X)
        assert np.asarray(summed).tolist() == [28.0 * 28] * 8
        turned = xlab.replicate(X.reshape(2, 4), 4, in_axis=-1)
        assert turned.shape == (2, 4, 4) and turned.sharding.num_devices == 4
        assert np.array_equal(turned, np.stack([X.reshape(2, 4)] * 4, -1))

    def test_several_devices_for_each_row_and_no_axis(self):
        y = xlab.replicate(X, 2, 8)
        assert y.shape == (2, 8)
        assert {s.device.id: s.index[0].start for s in y.addressable_shards} == {
            i: i // 4 for i in range(8)
        }
        back = xlab.devices()[::-1][:3]
        whole = xlab.replicate(X, 3, devices=back, in_axis=None)
        assert whole.shape == X.shape and whole.is_fully_replicated
        assert whole.sharding.devices_in_order == tuple(back)

    def test_keys_and_traced_values(self):
        keys = xlab.replicate(xlab.random.key(1), 3)
        assert keys.shape == (3,) and keys.sharding.num_devices == 3
        drawn = xlab.pmap(xlab.random.uniform)(keys)
        assert np.asarray(drawn).tolist() == [float(xlab.random.uniform(xlab.random.key(1)))] * 3
        y = xlab.jit(lambda x: xlab.replicate(x * 2, 8, in_axis=1))(X[:2])
        assert np.array_equal(y, np.stack([X[:2] * 2] * 8, 1)) and y.sharding.num_devices == 8

    def test_the_value_leaves_the_host_once(self):
        with (
            xlab.transfer_guard_host_to_device("disallow"),
            xlab.transfer_guard_device_to_host("disallow"),
        ):
            assert xlab.replicate(xlab.device_put(X), 8).shape == (8, 8)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"axis_size": 9}, "9 copies.*there are 8 devices"),
            (
                {"axis_size": 2, "nrep": 4, "devices": xlab.devices()[:3]},
                r"4 copies.*3 devices, with ids \[0, 1, 2\]",
            ),
            ({"axis_size": 2, "devices": xlab.devices()[:3]}, "2 copies.*3 devices"),
            ({"axis_size": 3, "nrep": 4}, "nrep=4: give a multiple"),
            ({"axis_size": 0}, "nrep=0"),
            ({"axis_size": 2, "in_axis": 2}, r"in_axis=2 is out of range.*f32\[8\]"),
        ],
    )
    def test_refused(self, options, words):
        with pytest.raises(ValueError, match=f"(?s){words}"):
            xlab.replicate(X, **options)


def test_mesh_utils():
    assert [d.id for d in create_device_mesh((4, 2)).flat] == list(range(8))
    with pytest.raises(ValueError, match="product of mesh_shape"):
        create_device_mesh((3, 2))


# -- sharded jit ------------------------------------------------------------------------------------------


def test_shardings_propagate():
    p = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(grid(), P("x", "y")))
    out = xlab.jit(lambda p, q: p @ q)(p, np.ones((8, 8), np.float32))
    assert out.sharding.spec == P("x") and float(out[0, 0]) == 8.0
    compiled = xlab.jit(lambda p, q: p @ q).lower(p, np.ones((8, 8), np.float32)).compile()
    assert [s.spec for s in compiled.input_shardings[0]] == [P("x", "y"), P("y")]


def test_large_constants_follow_the_program():
    big = jnp.arange(512.0).reshape(8, 64)
    a = xlab.device_put(X, rows())
    np.testing.assert_allclose(
        np.asarray(xlab.jit(lambda a: a + big.sum(1))(a)), X + np.asarray(big).sum(1)
    )


def test_declared_shardings():
    f = xlab.jit(lambda x: x * 2, in_shardings=rows(), out_shardings=NamedSharding(line(), P()))
    out = f(X)
    assert (
        out.is_fully_replicated and out.committed and np.asarray(out).tolist() == (2 * X).tolist()
    )
    with pytest.raises(ValueError, match="in_shardings"):
        f(xlab.device_put(X, NamedSharding(line(), P())))
    with pytest.raises(IndivisibleError):
        f(X[:6])


def test_constraint_inside_jit():
    where = NamedSharding(grid(), P("x", "y"))
    f = xlab.jit(lambda x: lax.with_sharding_constraint(jnp.sin(x), where) * 2)
    x = np.ones((8, 4), np.float32)
    assert f(x).sharding == where
    assert "sdy.sharding_constraint" in f.lower(x).as_text()
    batched = xlab.make_jaxpr(xlab.vmap(lambda x: lax.with_sharding_constraint(x, rows())))(
        np.ones((3, 8), np.float32)
    )
    assert batched.jaxpr.eqns[0].params["unconstrained_dims"] == frozenset({0})
    assert lax.with_sharding_constraint(X, rows()).sharding == rows()


def test_disagreeing_devices():
    a, b = xlab.device_put(X, rows()), xlab.device_put(X, xlab.devices()[3])
    with pytest.raises(IncompatibleDevices, match=r"(?s)\[0, 1, 2, 3, 4, 5, 6, 7\].*\[3\]"):
        xlab.jit(lambda p, q: p + q)(a, b)
    with pytest.raises(IncompatibleDevices, match="sharding_constraint"):
        xlab.jit(lambda q: lax.with_sharding_constraint(q, rows()))(b)
    turned = xlab.device_put(X, NamedSharding(Mesh(np.array(xlab.devices()[::-1]), ("i",)), P("i")))
    with pytest.raises(IncompatibleDevices):
        xlab.jit(lambda p, q: p + q)(a, turned)


def test_x44_all_that_disagree_are_named_once():
    d = xlab.devices()
    on = lambda i: xlab.device_put(X, d[i])

    def fun(a, b, rest, w):
        return a + b + rest["k"] + rest["l"] + lax.with_sharding_constraint(w, rows())

    with pytest.raises(IncompatibleDevices) as caught:
        xlab.jit(fun)(on(1), on(1), {"k": on(2), "l": on(3)}, X)
    text = str(caught.value)
    assert "argument `a` of fun with type float32[8] is on device ids [1]" in text
    assert "but argument `rest['k']` of fun with type float32[8] is on device ids [2]" in text
    named = text.split("In all, ")[1].split(". Put all")[0].split("; ")
    assert [row.split(":")[0] for row in named] == [
        f"on device ids {ids} on platform CPU" for ids in ([1], [2], [3], list(range(8)))
    ]
    assert "`a`" in named[0] and "`b`" in named[0] and "`rest['l']`" in named[2]
    assert "sharding_constraint inside fun" in named[3]
    assert [ids for _, ids in caught.value.sides] == [(1,), (2,), (3,), tuple(range(8))]
    many = {str(i): on(i % 2) for i in range(20)}
    with pytest.raises(
        IncompatibleDevices, match=r"`m\['12'\]`.* and 5 more; on device.* and 5 more\."
    ):
        xlab.jit(lambda m: sum(m.values()))(many)
    with pytest.raises(IncompatibleDevices) as two:
        xlab.jit(lambda p, q: p + q)(on(1), on(2))
    assert "In all" not in str(two.value)


def test_warm_calls_run_no_python(empty_native_cache, python_calls):
    a = xlab.device_put(X, rows())
    f = xlab.jit(lambda a: jnp.sin(a) + 1)
    f(a), f(a)
    assert python_calls(f, a)[1] == [] and f._cache_size() == 1


def test_many_collectives_in_flight():
    """Programs that wait for all devices must not starve one another."""
    f = xlab.shard_map(lambda v: lax.psum(v, "i"), mesh=line(), in_specs=P("i"), out_specs=P())
    a = xlab.device_put(X, rows())
    outs = [f(a) for _ in range(300)]
    assert all(float(o[0]) == 28.0 for o in outs[::50])


def test_an_array_of_keys_from_one_part_per_device():
    keys = xlab.random.split(xlab.random.key(0), 8)
    parts = [xlab.device_put(keys[i : i + 1], d) for i, d in enumerate(xlab.devices())]
    made = xlab.make_array_from_single_device_arrays((8,), rows(), parts)
    assert made.sharding == rows() and made.dtype == keys.dtype
    np.testing.assert_array_equal(xlab.random.key_data(made), xlab.random.key_data(keys))
    with pytest.raises(ValueError, match="one part on each"):
        xlab.make_array_from_single_device_arrays((8,), rows(), parts[:3])


@pytest.mark.parametrize("spec", [P("x"), P("y", "x"), P(None, ("y", "x")), P()], ids=str)
def test_tilings_without_a_mesh_are_taken_as_shardings(spec):
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    named = NamedSharding(grid(), spec)
    tiling = GSPMDSharding(xlab.devices(), named.to_hlo_sharding(2))
    other = xlab.device_put(value, NamedSharding(grid(), P("x", "y")))
    given = xlab.device_put(value, tiling)
    runs = (
        xlab.jit(lambda a: a * 2)(given),
        xlab.jit(lambda a: a * 2, in_shardings=tiling)(value),
        xlab.jit(lambda a: a + a, out_shardings=tiling)(other),
        xlab.jit(lambda a, b: a + b, out_shardings=tiling)(given, other),
        xlab.jit(lambda a: lax.with_sharding_constraint(a * 2, tiling))(other),
    )
    for out in runs:
        np.testing.assert_array_equal(out, 2 * value)
        assert out.sharding.is_equivalent_to(named, 2)
        assert shards(out) == shards(xlab.device_put(2 * value, named))
