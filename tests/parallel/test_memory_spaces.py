"""Memory spaces: types, data and modules agree on where values are; shards, gradients and programs go where they are sent."""

import itertools
import json
import os

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.parallel import put_cases
from tests.reference.records import on_reference
from xlab import lax
from xlab.memory import Space
from xlab.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

KINDS = ("device", "pinned_host", "unpinned_host")
VALUES = np.arange(8, dtype=np.float32)


@pytest.fixture
def d():
    return xlab.devices()


@pytest.fixture
def mesh(d):
    return Mesh(np.array(d), ("x",))


@pytest.fixture
def host(d):
    return xlab.device_put(VALUES, SingleDeviceSharding(d[0], "pinned_host"))


def placed(x):
    return str(xlab.typeof(x)), x.sharding.memory_kind, sorted(q.id for q in x.devices())


# -- every kind of value to every kind of destination, beside the reference ---------------------------------

FULL = bool(os.environ.get("XLAB_TEST_ALL_PUTS"))
CHOSEN = put_cases.CASES if FULL else put_cases.CASES[::4]


def _on_purpose(case: str, theirs, ours) -> bool:
    """Where the two differ, and ours is what was meant."""
    mode, source, destination = next(c for c in put_cases.CASES if " ".join(c) == case)
    if (
        destination == "format"
    ):  # the reference forgets a Format inside programs and does not take values from elsewhere to one
        return "jit" in mode or isinstance(theirs, str)
    if "key" in source:  # its types of keys know no memory, and it gathers sharded ones
        return destination in ("None", "Host", "cut host")
    if isinstance(
        theirs, str
    ):  # its gradients cannot leave the host, its shards there cannot be reordered
        return ("grad" in mode and ("host" in source or destination in ("Host", "cut host"))) or (
            source,
            destination,
        ) == ("sharded host", "reversed")
    # its type says host where the data is on the device
    return (
        destination == "device 2"
        and "host" in source
        and {**theirs, "type": 0} == {**ours, "type": 0}
    )


@pytest.mark.reference
def test_every_destination_takes_every_value_as_in_the_reference():
    reference = on_reference(put_cases, *([] if FULL else ["4"]))
    ours = json.loads(json.dumps(put_cases.records("xlab", CHOSEN)))
    theirs = reference()
    assert theirs.keys() == ours.keys()
    wrong = {
        case: (theirs[case], ours[case])
        for case in ours
        if theirs[case] != ours[case] and not _on_purpose(case, theirs[case], ours[case])
    }
    assert not wrong


# -- kinds of memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "back", "spec"), list(itertools.product(KINDS, KINDS, [P("x"), P()])), ids=str
)
def test_sharded_arrays_move_between_all_kinds(mesh, there, back, spec):
    x = xlab.device_put(VALUES, NamedSharding(mesh, P("x"), there))
    y = xlab.device_put(x, NamedSharding(mesh, spec, back))
    assert y.sharding == NamedSharding(mesh, spec, back)
    assert [s.data.sharding.memory_kind for s in y.addressable_shards] == [back] * 8
    np.testing.assert_array_equal(y, VALUES)
    np.testing.assert_array_equal(x, VALUES)


def test_the_type_of_an_array_says_where_it_is(mesh, host):
    assert placed(host) == ("float32<host>[8]", "pinned_host", [0])
    assert placed(xlab.device_put(host, Space.Device)) == ("float32[8]", "device", [0])
    cut = xlab.device_put(xlab.device_put(VALUES, NamedSharding(mesh, P("x"))), Space.Host)
    assert placed(cut) == ("float32<host>[8]", "pinned_host", list(range(8)))


@pytest.mark.parametrize("run", [lambda f: f, xlab.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "f",
    [
        lambda h: h * 2,
        lambda h: 2 * h,
        lambda h: h + h,
        lambda h: h * np.float32(3),
        lambda h: h.sum(),
        jnp.sin,
        jnp.var,
        lambda h: h[0],
        lambda h: h[1:3],
        lambda h: h[np.array([2, 1])],
        lambda h: h.at[0].set(5.0),
        lambda h: h.at[jnp.array([1, 2])].add(1.0),
        xlab.nn.softmax,
        lambda h: jnp.concatenate([h, h]),
        lambda h: jnp.dot(h, h),
        lambda h: h.reshape(2, 4),
        jnp.zeros_like,
        lambda h: jnp.full_like(h, 2),
        lambda h: h.astype("int32"),
        lambda h: lax.scan(lambda c, _: (c + 1, None), h, None, 3)[0],
        lambda h: lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, h),
        lambda h: lax.cond(h[0] > 1, lambda v: v + 1, lambda v: v - 1, h),
        xlab.vmap(lambda v: v * 2),
    ],
)
def test_what_is_computed_on_the_host_stays_there(host, run, f):
    out = run(f)(host)
    assert xlab.typeof(out).memory_space == "host"
    assert out.sharding.memory_kind == "pinned_host"
    np.testing.assert_allclose(out, f(jnp.asarray(VALUES)), rtol=1e-6)


@pytest.mark.parametrize("run", [lambda f: f, xlab.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "f",
    [
        lambda h: h + jnp.arange(8.0),
        lambda h: h + VALUES,
        lambda h: jnp.dot(jnp.ones(8), h),
        lambda h: jnp.concatenate([h, jnp.ones(3)]),
    ],
)
def test_memories_do_not_mix(host, run, f):
    with pytest.raises(
        ValueError,
        match=r"memory_space of all inputs passed to `\w+` must be the same.*<host>.*device_put",
    ):
        run(f)(host)


def test_memories_do_not_mix_in_control_flow(host):
    x = jnp.arange(8.0)
    with pytest.raises(TypeError, match="<host>"):
        xlab.jit(
            lambda v: lax.cond(
                v.sum() > 1, lambda v: xlab.device_put(v, Space.Host), lambda v: v, v
            )
        )(x)
    with pytest.raises(TypeError, match="<host>"):
        xlab.jit(
            lambda v: lax.scan(lambda c, _: (xlab.device_put(c, Space.Host), None), v, None, 3)
        )(x)


@pytest.mark.parametrize("to", ["space", "single", "named"])
def test_a_program_leaves_its_results_in_the_memory_of_their_type(d, mesh, to):
    where = {
        "space": Space.Host,
        "single": SingleDeviceSharding(d[0], "pinned_host"),
        "named": NamedSharding(mesh, P("x"), "pinned_host"),
    }[to]
    f = xlab.jit(lambda v: (xlab.device_put(v * 2, where), v * 3))
    for _ in range(3):  # the last time without Python
        on_host, on_device = f(jnp.asarray(VALUES))
        assert placed(on_host)[:2] == ("float32<host>[8]", "pinned_host")
        assert placed(on_device)[:2] == ("float32[8]", "device")
        assert on_host.committed
        np.testing.assert_array_equal(on_host, VALUES * 2)
    assert "<host>" in str(f.trace(VALUES).jaxpr)
    assert 'mhlo.memory_kind = "pinned_host"' in f.lower(VALUES).as_text()
    back = xlab.jit(lambda v: xlab.device_put(v, Space.Device) + 1)(on_host)
    assert placed(back)[:2] == ("float32[8]", "device")
    assert back.committed


@pytest.mark.parametrize("platform", ["tpu", "cuda", "rocm"])
def test_programs_for_accelerators_ask_for_the_memory(d, mesh, platform):
    def text(where, x):
        return (
            xlab.jit(lambda v: xlab.device_put(v * 2, where))
            .trace(x)
            .lower(lowering_platforms=(platform,))
            .as_text()
        )

    x = xlab.ShapeDtypeStruct((8,), np.float32)
    named = text(NamedSharding(mesh, P("x"), "pinned_host"), x)
    assert named.index("sdy.sharding_constraint") < named.index("@annotate_device_placement")
    assert '_xla_buffer_placement = "pinned_host"' in named
    assert '_xla_buffer_placement = "pinned_host"' in text(
        SingleDeviceSharding(d[0], "pinned_host"), x
    )
    assert '_xla_buffer_placement = "pinned_host"' in text(Space.Host, x)
    assert "annotate_device_placement" not in text(SingleDeviceSharding(d[0]), x)
    host = xlab.device_put(VALUES, SingleDeviceSharding(d[0], "pinned_host"))
    assert '_xla_buffer_placement = "device"' in text(SingleDeviceSharding(d[0]), host)


def test_in_shardings_do_not_change_the_memory_a_program_was_traced_for(d, host):
    with pytest.raises(ValueError, match=r"`v` of type float32\[8\].*pinned_host.*device_put"):
        xlab.jit(lambda v: v * 2, in_shardings=SingleDeviceSharding(d[0], "pinned_host"))(VALUES)
    with pytest.raises(ValueError, match=r"`v` of type float32<host>\[8\]"):
        xlab.jit(lambda v: v * 2, in_shardings=SingleDeviceSharding(d[0]))(host)
    assert (
        placed(
            xlab.jit(lambda v: v * 2, in_shardings=SingleDeviceSharding(d[0], "pinned_host"))(host)
        )[1]
        == "pinned_host"
    )


def test_descriptions_of_arguments_say_their_memory(mesh):
    where = NamedSharding(mesh, P("x"), "pinned_host")
    compiled = (
        xlab.jit(lambda v: v * 2)
        .lower(xlab.ShapeDtypeStruct((8,), np.float32, sharding=where))
        .compile()
    )
    assert placed(compiled(xlab.device_put(VALUES, where))) == (
        "float32<host>[8]",
        "pinned_host",
        list(range(8)),
    )
    with pytest.raises(TypeError, match=r"compiled for f32<host>\[8\], called with f32\[8\]"):
        compiled(VALUES)


def test_a_constraint_does_not_move_to_another_memory(mesh, host):
    where = NamedSharding(mesh, P("x"), "pinned_host")
    with pytest.raises(ValueError, match="does not move it between memories.*device_put"):
        xlab.jit(lambda v: lax.with_sharding_constraint(v, where))(VALUES)
    cut = xlab.jit(lambda v: lax.with_sharding_constraint(v * 2, where))(
        xlab.device_put(VALUES, where)
    )
    assert placed(cut)[:2] == ("float32<host>[8]", "pinned_host")
    assert lax.with_sharding_constraint(jnp.asarray(VALUES), where).sharding == where


def test_any_names_no_memory():
    with pytest.raises(ValueError, match="Space.Any"):
        xlab.device_put(VALUES, Space.Any)


def test_keys_go_to_the_host_and_back(mesh):
    keys = xlab.device_put(xlab.random.split(xlab.random.key(0), 8), NamedSharding(mesh, P("x")))
    there = xlab.device_put(keys, Space.Host)
    assert placed(there) == ("key<fry><host>[8]", "pinned_host", list(range(8)))
    np.testing.assert_array_equal(
        xlab.random.key_data(xlab.device_put(there, Space.Device)), xlab.random.key_data(keys)
    )


# -- gradients ------------------------------------------------------------------------------------------------


def test_gradients_return_to_the_device_the_layout_and_the_memory_of_the_source(d, mesh, host):
    put = xlab.device_put

    def slope(where, x):
        g = xlab.grad(lambda v: (put(v, where) ** 2).sum())(x)
        np.testing.assert_array_equal(g, 2 * VALUES)
        return g

    assert slope(d[1], put(VALUES, d[2])).devices() == {d[2]}
    cut = put(VALUES, NamedSharding(mesh, P("x")))
    assert slope(NamedSharding(mesh, P()), cut).sharding == cut.sharding
    assert slope(NamedSharding(mesh, P("x"), "pinned_host"), cut).sharding == cut.sharding
    assert placed(slope(Space.Device, host)) == placed(host)
    assert placed(slope(Space.Host, host)) == placed(host)
    assert placed(xlab.jit(xlab.grad(lambda v: (put(v, Space.Device) ** 2).sum()))(host)) == placed(
        host
    )
    assert placed(
        xlab.jit(xlab.grad(lambda v: (put(v, Space.Host) ** 2).sum()))(put(VALUES, d[1]))
    ) == ("float32[8]", "device", [1])


def test_layers_on_four_devices_train(d):
    def loss(ws, v):
        for i, w in enumerate(ws):
            v = jnp.tanh(xlab.device_put(v, d[i]) @ w)
        return v.sum()

    def plain(ws, v):
        for w in ws:
            v = jnp.tanh(v @ w)
        return v.sum()

    layers = [jnp.eye(8) * (i + 1) / 4 for i in range(4)]
    ws = [xlab.device_put(w, d[i]) for i, w in enumerate(layers)]
    for _ in range(3):
        grads = xlab.grad(loss)(ws, jnp.asarray(VALUES))
        assert [g.devices() for g in grads] == [{d[i]} for i in range(4)]
        for g, expected in zip(
            grads,
            xlab.grad(plain)([jnp.asarray(np.asarray(w)) for w in ws], jnp.asarray(VALUES)),
            strict=True,
        ):
            np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-6)
        ws = [w - 0.1 * g for w, g in zip(ws, grads, strict=True)]
        assert [w.devices() for w in ws] == [{d[i]} for i in range(4)]


def test_a_scalar_used_on_the_host_gets_its_gradient_where_it_is(host):
    s = jnp.float32(3)
    g = xlab.grad(lambda s, h: xlab.device_put((s * h).sum(), Space.Device))(s, host)
    assert placed(g) == ("float32[]", "device", [0])
    assert float(g) == VALUES.sum()


def test_a_pullback_takes_its_cotangent_in_the_memory_of_the_output(host):
    _, pull = xlab.vjp(lambda h: h * 2, host)
    assert placed(pull(host)[0]) == placed(host)
    with pytest.raises(ValueError, match=r"cotangent of type float32<host>\[8\]"):
        pull(VALUES)
