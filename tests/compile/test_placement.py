"""Where programs run and what decides it: claims of arguments, shardings inside, constants, meshes, options."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.errors import IncompatibleDevices, IndivisibleError
from xlab.lax.device_put import ArrayCopySemantics, device_put_p
from xlab.sharding import (
    AxisType,
    DuplicateSpecError,
    Format,
    Layout,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    set_mesh,
)
from xlab.sharding import PartitionSpec as P

VALUES = np.arange(8, dtype=np.float32)
put = xlab.device_put


@pytest.fixture
def d():
    return xlab.devices()


@pytest.fixture
def mesh(d):
    return Mesh(np.array(d), ("x",))


@pytest.fixture
def back(d):
    return Mesh(np.array(d[::-1]), ("x",))


@pytest.fixture
def four(d):
    return Mesh(np.array(d[:4]), ("x",))


def ids(x):
    return sorted(q.id for q in x.devices())


# -- what nobody reads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a + 1,
        lambda a, b: (a + 1, jnp.sin(b))[0],
        lambda a, b: (a + 1, xlab.jit(lambda u, v: (u, v * 2))(a, b))[0],
        lambda a, b: xlab.jit(lambda u, v: (u * 2, jnp.sin(v)))(a, b)[0],
    ],
    ids=["unused", "dead", "dead call", "half dead call"],
)
def test_arguments_that_no_result_needs_claim_no_device(d, f):
    g = xlab.jit(f)
    assert ids(g(put(VALUES, d[1]), put(VALUES, d[5]))) == [1]
    out = g(jnp.asarray(VALUES), put(VALUES, d[5]))
    assert ids(out) == [0]
    assert not out.committed
    text = g.lower(VALUES, VALUES).as_text()
    assert "stablehlo.sine" not in text
    assert text.count("%arg") > 0
    assert "%arg1" not in text.split("->")[0]
    kept = xlab.jit(f, keep_unused=True)
    with pytest.raises(IncompatibleDevices):
        kept(put(VALUES, d[1]), put(VALUES, d[5]))


def test_dead_constraints_constants_and_in_shardings_claim_nothing(d, mesh):
    x, there = jnp.asarray(VALUES), put(VALUES, d[3])
    assert ids(
        xlab.jit(
            lambda p: (p + 1, lax.with_sharding_constraint(p, NamedSharding(mesh, P("x"))))[0]
        )(x)
    ) == [0]
    assert ids(
        xlab.jit(lambda p, q: p + 1, in_shardings=(None, NamedSharding(mesh, P("x"))))(x, x)
    ) == [0]
    assert ids(xlab.jit(lambda p: (p + 1, p + there)[0])(x)) == [0]


PASSED_OVER = {
    "jit": lambda a, b: xlab.jit(lambda u, v: u + 1)(a, b),
    "jit in jit": lambda a, b: xlab.jit(lambda u, v: xlab.jit(lambda p, q: p * 2)(u, v))(a, b),
    "cond": lambda a, b: lax.cond(a > 0, lambda u, v: u, lambda u, v: u + 1, a, b),
    "jit in a branch": lambda a, b: lax.cond(
        a > 0, lambda u: u, lambda u: xlab.jit(lambda p, q: p)(u, b), a
    ),
    "rows of scan": lambda a, b: lax.scan(lambda c, _: (c + 1, None), a, jnp.stack([b, b]))[0],
    "constant of scan": lambda a, b: lax.scan(
        lambda c, _: (xlab.jit(lambda p, q: p + 1)(c, b), None), a, None, length=2
    )[0],
    "constant of while": lambda a, b: lax.while_loop(
        lambda c: c < 5, lambda c: xlab.jit(lambda p, q: p + 1)(c, b), a
    ),
    "checkpoint": lambda a, b: xlab.checkpoint(lambda u, v: jnp.sin(u))(a, b),
    "dead constraint": lambda a, b: xlab.jit(lambda u: (put(u * 2, xlab.devices()[5]), u + 1)[1])(
        a
    ),
}


@pytest.mark.parametrize("how", PASSED_OVER)
def test_x41_what_programs_inside_pass_over_claims_no_device(d, how):
    f = xlab.jit(PASSED_OVER[how])
    a, b = put(np.float32(1), d[1]), put(np.float32(2), d[2])
    assert ids(f(a, b)) == [1]
    assert len(f.lower(1.0, 2.0).compile().input_shardings[0]) == 2
    assert f.lower(1.0, 2.0).compile().input_shardings[0][1] is None
    with pytest.raises(IncompatibleDevices):
        xlab.jit(lambda a, b: lax.cond(a > 0, lambda u, v: u, lambda u, v: v, a, b))(a, b)


def test_effects_of_unused_values_are_kept():
    seen = []

    def f(a, b):
        xlab.debug.callback(lambda v: seen.append(v.tolist()), b * 2)
        return a + 1

    xlab.jit(f)(1.0, 3.0)
    xlab.effects_barrier()
    assert seen == [6.0]


def test_numbers_of_equations_are_those_of_the_whole_program():
    def f(a):
        _dead = jnp.sin(a)
        b, _ = xlab.jit(lambda v: (jnp.cos(v), jnp.tan(v)))(a)
        return jnp.exp(b)

    lowered = xlab.jit(f).lower(VALUES)
    numbers = {e.primitive.name: n for n, e in enumerate(lowered._lowered.closed.jaxpr.eqns)}
    text = lowered.as_text(debug_info=True)
    assert set(numbers) == {"sin", "jit", "exp"}
    assert "stablehlo.sine" not in text
    assert "tan;" not in text
    # sin 0, the call 1, cos 2, tan 3, exp 4
    assert "/exp;e4" in text
    assert "/cos;e2" in text


# -- put inside programs ---------------------------------------------------------------------------------------


def test_put_to_one_device_inside_a_program_places_it_or_conflicts(d):
    f = xlab.jit(lambda v: put(v * 2, SingleDeviceSharding(d[3])))
    out = f(VALUES)
    assert (ids(out), out.committed) == ([3], True)
    with pytest.raises(
        IncompatibleDevices, match=r"`v`.*\[1\].*device_put inside.*test_placement.*\[3\]"
    ):
        f(put(VALUES, d[1]))
    g = xlab.jit(lambda v: lax.with_sharding_constraint(v, SingleDeviceSharding(d[3])))
    assert ids(g(VALUES)) == [3]
    with pytest.raises(IncompatibleDevices):
        g(put(VALUES, d[1]))


def test_uneven_constraints_inside_programs_are_padded(mesh):
    x = put(VALUES, NamedSharding(mesh, P("x")))
    where = NamedSharding(mesh, P("x"))
    out = xlab.jit(lambda a: lax.with_sharding_constraint(a[:6], where) * 2)(x)
    np.testing.assert_array_equal(out, VALUES[:6] * 2)
    assert float(xlab.jit(lambda a: lax.with_sharding_constraint(a[:6], where).sum())(x)) == 15
    slope = xlab.jit(xlab.grad(lambda a: (lax.with_sharding_constraint(a[:6], where) ** 2).sum()))(
        x
    )
    np.testing.assert_array_equal(slope, [0, 2, 4, 6, 8, 10, 0, 0])
    with pytest.raises(IndivisibleError):
        lax.with_sharding_constraint(x[:6], where)
    with pytest.raises(ValueError, match="rank"):
        xlab.jit(lambda a: lax.with_sharding_constraint(a, NamedSharding(mesh, P("x", None))))(x)


def test_a_bare_spec_inside_a_partly_manual_shard_map_is_over_its_mesh(d):
    mesh = Mesh(np.array(d).reshape(4, 2), ("a", "b"))
    f = xlab.shard_map(
        lambda x: lax.with_sharding_constraint(x, P("b")) * 2,
        mesh=mesh,
        in_specs=P("a"),
        out_specs=P("a"),
        axis_names={"a"},
    )
    np.testing.assert_array_equal(xlab.jit(f)(VALUES), VALUES * 2)


# -- constants -----------------------------------------------------------------------------------------------


def test_closed_over_arrays_go_where_the_program_goes(d, mesh, four):
    c, cut = put(VALUES, d[3]), put(VALUES, NamedSharding(four, P("x")))
    assert ids(xlab.jit(lambda a: a + c)(put(VALUES, d[1]))) == [1]
    out = xlab.jit(lambda a: a + cut)(put(VALUES, NamedSharding(mesh, P("x"))))
    assert ids(out) == list(range(8))
    np.testing.assert_array_equal(out, 2 * VALUES)
    large = put(jnp.ones(1 << 14), NamedSharding(four, P("x")))
    assert ids(xlab.jit(lambda a: a + large)(put(np.ones(1 << 14, np.float32), d[6]))) == [6]


def test_where_nothing_else_says_so_a_program_runs_where_its_constants_are(d):
    c, other = put(VALUES, d[3]), put(VALUES, d[4])
    assert ids(xlab.jit(lambda a: a + c)(VALUES)) == [3]
    assert ids(xlab.jit(lambda a: a + c + other)(VALUES)) == [0]


# -- meshes in context -----------------------------------------------------------------------------------------


def test_an_entered_mesh_names_axes_and_places_nothing(d, four):
    with four:
        assert ids(put(VALUES, d[6]) + 1) == [6]
        assert ids(xlab.jit(lambda v: v + 1)(put(VALUES, d[6]))) == [6]
        out = xlab.jit(lambda v: v + 1)(jnp.asarray(VALUES))
        assert (ids(out), out.committed) == ([0], False)
        assert ids(xlab.jit(lambda v: lax.with_sharding_constraint(v, P("x")))(VALUES)) == [
            0,
            1,
            2,
            3,
        ]
        assert ids(xlab.jit(lambda v: v, in_shardings=P("x"))(VALUES)) == [0, 1, 2, 3]
    with set_mesh(four):
        assert ids(xlab.jit(lambda v: v + 1)(jnp.asarray(VALUES))) == [0, 1, 2, 3]
        with pytest.raises(IncompatibleDevices, match="current mesh"):
            put(VALUES, d[6]) + 1


@pytest.mark.parametrize(
    "under",
    [xlab.jit, lambda f: xlab.grad(lambda x: f(x).sum()), xlab.vmap, xlab.make_jaxpr],
    ids=["jit", "grad", "vmap", "jaxpr"],
)
def test_set_mesh_while_tracing_is_refused(mesh, under):
    def f(x):
        with set_mesh(mesh):
            return x * 2

    with pytest.raises(ValueError, match="set_mesh can only be used outside"):
        under(f)(VALUES)
    assert xlab.sharding.get_mesh().empty


# -- in_shardings, device ----------------------------------------------------------------------------------------


def test_in_shardings_over_the_same_devices_in_another_order_reorder(mesh, back):
    out = xlab.jit(lambda v: v * 2, in_shardings=NamedSharding(back, P("x")))(
        put(VALUES, NamedSharding(mesh, P("x")))
    )
    np.testing.assert_array_equal(out, 2 * VALUES)
    assert [q.id for q in out.sharding.devices_in_order] == list(range(8))[::-1]
    assert {s.device.id: s.data.tolist() for s in out.addressable_shards} == {
        7 - i: [2.0 * i] for i in range(8)
    }
    with pytest.raises(ValueError, match="in_shardings asks"):
        xlab.jit(lambda v: v * 2, in_shardings=NamedSharding(back, P()))(
            put(VALUES, NamedSharding(mesh, P("x")))
        )


def test_in_shardings_take_lists_and_no_keywords(mesh):
    cut = NamedSharding(mesh, P("x"))
    assert (
        xlab.jit(lambda a, b: a + b, in_shardings=[cut, None])(put(VALUES, cut), VALUES).sharding
        == cut
    )
    with pytest.raises(ValueError, match=r"keyword arguments, got a.*by position"):
        xlab.jit(lambda *, a: a * 2, in_shardings=cut)(a=VALUES)
    with pytest.raises(ValueError, match=r"in_shardings of jit\(f\).*2 positional arguments"):
        xlab.jit(lambda a, b: a + b, in_shardings=(cut,), name="f")(VALUES, VALUES)
    with pytest.raises(ValueError, match=r"out_shardings of jit\(f\)"):
        xlab.jit(lambda a, b: (a, b), out_shardings=(cut,), name="f")(VALUES, VALUES)


def test_what_does_not_fit_its_sharding_is_named(mesh):
    long, cut = NamedSharding(mesh, P("x", None)), NamedSharding(mesh, P("x"))
    with pytest.raises(ValueError, match=r"argument `q\['k'\]`.*rank at least 2"):
        xlab.jit(lambda q: q["k"], in_shardings=long)({"k": VALUES})
    with pytest.raises(ValueError, match=r"`result\['k'\]`.*rank at least 2"):
        xlab.jit(lambda q: {"k": q}, out_shardings=long)(VALUES)
    with pytest.raises(
        IndivisibleError,
        match=r"argument `q\['k'\]`.*divide|argument `q\['k'\]`.*dimension size is 6",
    ):
        xlab.jit(lambda q: q["k"], in_shardings=cut)({"k": VALUES[:6]})
    with pytest.raises(IndivisibleError, match=r"`result`"):
        xlab.jit(lambda q: q, out_shardings=cut)(VALUES[:6])


@pytest.mark.parametrize("which", ["in_shardings", "out_shardings"])
def test_a_bare_spec_needs_a_mesh(which):
    with pytest.raises(RuntimeError, match="non-empty mesh"):
        xlab.jit(lambda a: a, **{which: P("x")})(VALUES)


def test_jit_of_a_device_brings_arguments_there(d):
    with pytest.warns(DeprecationWarning, match="deprecated"):
        f, g = xlab.jit(lambda v, w: v + w, device=d[2]), xlab.jit(lambda v: v + 1, backend="cpu")
    for _ in range(2):
        assert ids(f(put(VALUES, d[1]), w=put(VALUES, d[3]))) == [2]
        assert ids(g(put(VALUES, d[3]))) == [0]
    with pytest.raises(ValueError, match="in_shardings asks"):
        xlab.jit(lambda v, w: v + w, in_shardings=SingleDeviceSharding(d[2]))(
            put(VALUES, d[1]), VALUES
        )


# -- options ---------------------------------------------------------------------------------------------------


def test_d26_jit_of_a_device_around_a_map_over_devices_is_refused():
    mapped = xlab.pmap(lambda v: v * 2)
    for where, ids in ({"device": xlab.devices()[2]}, r"\[2\]"), ({"backend": "cpu"}, r"\[0\]"):
        with pytest.warns(DeprecationWarning, match="device_put"):
            f = xlab.jit(mapped, **where)
        with pytest.raises(ValueError, match=rf"ids {ids} .*shard_map inside.*ids \[0, 1, 2, 3"):
            f(np.arange(8.0))


def test_d57_a_traced_value_does_not_reach_the_rule_for_values():
    put = device_put_p.impl
    how = {"devices": (None,), "srcs": (None,), "copy_semantics": (ArrayCopySemantics.ALWAYS_COPY,)}
    with pytest.raises(TypeError, match=r"a traced value of type float32\[8\] was given"):
        xlab.jit(lambda v: put(v, **how))(np.arange(8, dtype=np.float32))


def test_options_of_a_compile_join_those_of_jit():
    lowered = xlab.jit(lambda a: a, compiler_options={"xla_bogus": True}).lower(1.0)
    with pytest.raises(Exception, match="xla_bogus"):
        lowered.compile({"xla_embed_ir_in_executable": True})
    made = (
        xlab.jit(lambda a: a + 1, compiler_options={"xla_embed_ir_in_executable": True})
        .lower(1.0)
        .compile({"xla_cpu_enable_fast_math": False})
    )
    assert float(made(1.0)) == 2


def test_options_of_an_inner_jit_are_refused():
    inner = xlab.jit(
        lambda v: v * 2, compiler_options={"xla_embed_ir_in_executable": True}, name="inner"
    )
    with pytest.raises(ValueError, match=r"outermost jit.*jit\(inner\).*test_placement"):
        xlab.jit(lambda a: inner(a) + 1)(1.0)
    assert float(xlab.grad(inner)(1.0)) == 2  # compiled for itself, with its options
    with pytest.raises(ValueError, match="outermost jit"):
        xlab.jit(
            xlab.jit(
                lambda v: v, inline=True, compiler_options={"xla_embed_ir_in_executable": True}
            )
        )(1.0)


# -- specs of shard_map ------------------------------------------------------------------------------------------


def test_odd_specs_of_shard_map_are_refused(d, mesh):
    x = np.ones((8, 8), np.float32)
    for specs in (
        {"in_specs": P("x", "x"), "out_specs": P("x")},
        {"in_specs": P("x"), "out_specs": P("x", "x")},
    ):
        with pytest.raises(DuplicateSpecError, match="duplicate entries for `x`"):
            xlab.shard_map(lambda v: v, mesh=mesh, **specs)(x)
    for specs in (
        {"in_specs": P(P.UNCONSTRAINED), "out_specs": P("x")},
        {"in_specs": P("x"), "out_specs": P(P.UNCONSTRAINED)},
    ):
        with pytest.raises(ValueError, match="UNCONSTRAINED"):
            xlab.shard_map(lambda v: v, mesh=mesh, **specs)(x)
    two = Mesh(np.array(d).reshape(4, 2), ("i", "j"))
    with pytest.raises(TypeError, match=r"axis_names.*set.*\{'i'\}"):
        xlab.shard_map(lambda v: v, mesh=two, in_specs=P("i"), out_specs=P("i"), axis_names="i")(x)


# -- copies, donation, odd values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: jnp.asarray(VALUES), lambda: xlab.random.key(0)], ids=["array", "key"]
)
def test_a_copy_is_committed_if_its_source_is(d, make):
    copy = put(make(), may_alias=False)
    assert not copy.committed
    assert put(put(make(), d[2]), may_alias=False).committed
    assert not xlab.vmap(lambda v: put(v, may_alias=False))(jnp.asarray(VALUES)).committed
    assert ids(put(jnp.asarray(VALUES), may_alias=False) + put(VALUES, d[3])) == [3]


def test_donation_is_taken_where_a_program_or_a_reorder_makes_the_result(d, mesh, back):
    x = put(VALUES, NamedSharding(mesh, P("x")))
    y = put(x, NamedSharding(back, P("x")), donate=True)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, VALUES)
    odd = Mesh(np.array([d[0], d[2], d[1]]), ("x",))  # one device keeps its shard
    x = put(VALUES[:3], NamedSharding(Mesh(np.array(d[:3]), ("x",)), P("x")))
    y = put(x, NamedSharding(odd, P("x")), donate=True)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, VALUES[:3])
    x = put(np.arange(6.0).reshape(2, 3), d[1])
    y = put(x, Format(Layout((1, 0)), SingleDeviceSharding(d[1])), donate=True)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, np.arange(6.0).reshape(2, 3))
    x = put(VALUES, d[1])
    assert put(x, d[1], donate=True).tolist() == VALUES.tolist()


def test_zeros_like_lies_as_its_template(d, mesh):
    cut = NamedSharding(mesh, P("x"))
    there, x = put(VALUES, d[3]), put(VALUES, cut)
    for make in (
        jnp.zeros_like,
        jnp.ones_like,
        jnp.empty_like,
        lambda a, **k: jnp.full_like(a, 2, **k),
    ):
        assert (ids(make(there)), make(there).committed) == ([3], True)
        assert make(x).sharding == cut
        assert make(x, dtype=int).sharding == cut
    assert ids(jnp.zeros_like(there, shape=(4,))) == [0]
    assert ids(jnp.zeros_like(there, device=d[4])) == [4]
    assert not jnp.zeros_like(jnp.asarray(VALUES)).committed


def test_float0_is_an_argument_like_others(d, mesh):
    none = np.zeros(3, xlab.dtypes.float0)
    x = put(VALUES, NamedSharding(mesh, P("x")))
    for _ in range(2):
        assert xlab.jit(lambda a: a)(none).dtype == xlab.dtypes.float0
        a, b = xlab.jit(lambda a, b: (a, b * 2))(none, x)
        assert (a.dtype, a.shape) == (xlab.dtypes.float0, (3,))
        np.testing.assert_array_equal(b, 2 * VALUES)


def test_tokens_go_between_programs_on_one_and_many_devices(d, mesh):
    token, x = lax.create_token(), put(VALUES, NamedSharding(mesh, P("x")))
    f = xlab.jit(lambda t, v: (t, v * 2))
    for values in (x, x, VALUES, x):
        token, out = f(token, values)
        np.testing.assert_array_equal(out, 2 * VALUES)
    for where in (None, d[3]):
        put(token, where).block_until_ready()


@pytest.mark.parametrize("devices", [1, 8])
def test_x17_results_of_every_kind_of_type_in_one_program(d, mesh, devices):
    where = NamedSharding(mesh, P("x")) if devices > 1 else SingleDeviceSharding(d[0])
    x, keys = put(VALUES, where), put(xlab.random.split(xlab.random.key(0), 8), where)

    @xlab.jit
    def f(keys, token, none, x):
        folded = xlab.vmap(xlab.random.fold_in, (0, None))(keys, 1)
        return {"k": folded, "t": token, "n": none, "x": x * 2, "b": x > 3}

    for _ in range(2):  # cold and warm
        out = f(keys, lax.create_token(), np.zeros(3, xlab.dtypes.float0), x)
        assert out["k"].dtype == keys.dtype and out["k"].sharding == where
        want = xlab.vmap(xlab.random.fold_in, (0, None))(
            xlab.random.split(xlab.random.key(0), 8), 1
        )
        np.testing.assert_array_equal(xlab.random.key_data(out["k"]), xlab.random.key_data(want))
        assert type(out["t"]) is type(lax.create_token())
        out["t"].block_until_ready()
        assert type(out["n"]) is np.ndarray and out["n"].dtype == xlab.dtypes.float0
        assert out["n"].shape == (3,)
        np.testing.assert_array_equal(out["x"], 2 * VALUES)
        assert out["x"].sharding == where and out["b"].dtype == bool
    with pytest.raises(
        TypeError, match=r"returned .* of type object as its result, which is not an array value"
    ):
        xlab.jit(lambda x: object())(x)


def test_keys_take_formats(d):
    keys = xlab.random.split(xlab.random.key(0), 6).reshape(2, 3)
    moved = put(keys, Format(Layout((1, 0)), SingleDeviceSharding(d[1])))
    assert ids(moved) == [1]
    np.testing.assert_array_equal(xlab.random.key_data(moved), xlab.random.key_data(keys))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3, [("a", "f4")]),
        np.zeros(3, np.longdouble),
        np.zeros(3, np.clongdouble),
        np.longdouble(1),
    ],
    ids=["record", "longdouble", "clongdouble", "scalar"],
)
def test_numpy_types_that_no_device_has_are_refused(value):
    for use in (put, xlab.jit(lambda a: a), jnp.asarray, lambda v: jnp.ones(3) + v):
        with pytest.raises(TypeError):
            use(value)


@pytest.mark.parametrize("which", ["parameter_shardings", "output_shardings"])
def test_what_the_compiler_lays_otherwise_than_asked_is_an_error_that_names_both(
    monkeypatch, which
):
    mesh = xlab.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    asked, another = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("y"))
    f = xlab.jit(
        lambda v: v * 3, in_shardings=asked, out_shardings=asked, name=f"overridden_{which}"
    )
    monkeypatch.setattr(f"xlab.backend.compiling.{which}", lambda exe: [another.to_hlo_sharding(1)])
    with pytest.raises(
        AssertionError,
        match=r"internal error in jit\(overridden_.*(argument `v`|result 0) of type float32\[8\].*P\('x',?\).*laid it out as \{devices=\[2",
    ):
        f(np.ones(8, np.float32))
    monkeypatch.undo()
    assert np.asarray(f(np.ones(8, np.float32))).tolist() == [3] * 8


def test_an_unknown_default_device_is_refused():
    with (
        xlab.default_device("nowhere"),
        pytest.raises(ValueError, match="default_device must be a device.*'nowhere'"),
    ):
        xlab.jit(lambda x: x)(np.ones(2))
