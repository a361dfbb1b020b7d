"""Programs compiled ahead of time: static arguments, the mismatches of a call, devices given late, several platforms, compiler options."""

from collections import OrderedDict

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.sharding import AbstractMesh, AxisType, Format, Layout, Mesh, NamedSharding
from xlab.sharding import PartitionSpec as P


class Scale:
    def __init__(self, k):
        self.k = k

    def __hash__(self):
        return hash(self.k)

    def __eq__(self, other):
        return self.k == other.k

    @xlab.jit(static_argnums=0)
    def by(self, x):
        return self.k * x


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda: xlab.jit(lambda a, b: 2 * a + b, static_argnums=0).lower(7, 8).compile()(5), 19),
        (
            lambda: (
                xlab.jit(lambda n, v: v * n, static_argnums=0)
                .lower(3, jnp.arange(2.0))
                .compile()(jnp.arange(2.0))
                .sum()
            ),
            3,
        ),
        (lambda: xlab.jit(lambda a, n: a * n, static_argnums=1).lower(2.0, 3).compile()(4.0), 12),
        (
            lambda: xlab.jit(lambda a, n: a * n, static_argnums=1).lower(2.0, 3).compile()(4.0, 3),
            12,
        ),
        (
            lambda: (
                xlab.jit(lambda a, n: a * n, static_argnames="n").lower(2.0, n=3).compile()(4.0)
            ),
            12,
        ),
        (
            lambda: (
                xlab.jit(lambda a, n: a * n, static_argnames="n")
                .lower(2.0, n=3)
                .compile()(4.0, n=3)
            ),
            12,
        ),
        (
            lambda: (
                xlab.jit(lambda *a: sum(a), static_argnums=0).lower(1, 2.0, 3.0).compile()(4.0, 5.0)
            ),
            10,
        ),
        (lambda: Scale.by.lower(Scale(3), 2.0).compile()(4.0), 12),
        (lambda: Scale.by.lower(Scale(3), 2.0).compile()(Scale(3), 4.0), 12),
    ],
)
def test_static_arguments_are_left_out_or_what_they_were(call, want):
    assert float(call()) == want


@pytest.mark.parametrize(
    "call",
    [
        lambda: xlab.jit(lambda a, n: a * n, static_argnums=1).lower(2.0, 3).compile()(2.0, 4),
        lambda: (
            xlab.jit(lambda a, n: a * n, static_argnames="n").lower(2.0, n=3).compile()(2.0, n=4)
        ),
        lambda: xlab.jit(lambda n, a: a * n, static_argnums=0).lower(3, 2.0).compile()(True, 2.0),
        lambda: xlab.jit(lambda a, n: a * n, static_argnums=1).lower(2.0, 3).compile()(2.0, [4]),
    ],
)
def test_other_values_of_static_arguments_are_refused(call):
    with pytest.raises(TypeError, match=r"`n`: compiled for 3, called with (4|True|\[4\])"):
        call()


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        (({"a": 1.0}, 2.0), {}, r"1 difference: `t\['b'\]` is missing"),
        (({"a": 1.0, "b": 1.0, "c": 1.0}, 2.0), {}, r"1 difference: `t\['c'\]` was not there"),
        (
            ({"a": 1.0, "c": 1.0}, 2.0),
            {},
            r"2 differences: `t\['b'\]` is missing; `t\['c'\]` was not there",
        ),
        (({"a": 1.0, "b": 1.0},), {}, "1 difference: `u` is missing"),
        (({"a": 1.0, "b": 1.0},), {"u": 2.0}, "by keyword and not by position"),
        (
            (OrderedDict(a=1.0, b=1.0), 2.0),
            {},
            "where `t` was of type dict, and is of type OrderedDict",
        ),
    ],
)
def test_other_structures_are_told_by_path(args, kwargs, said):
    compiled = xlab.jit(lambda t, u: t).lower({"a": 1.0, "b": 1.0}, 2.0).compile()
    with pytest.raises(TypeError, match=said):
        compiled(*args, **kwargs)


def test_containers_of_other_types_are_told_by_path():
    compiled = xlab.jit(lambda p, *, o: p).lower({"q": [(1.0,)]}, o=(1.0,)).compile()
    with pytest.raises(
        TypeError, match=r"where `p\['q'\]\[0\]` was of type tuple, and is of type list"
    ):
        compiled({"q": [[1.0]]}, o=(1.0,))
    with pytest.raises(TypeError, match="where `o` was of type tuple, and is of type list"):
        compiled({"q": [(1.0,)]}, o=[1.0])


def test_every_mismatch_is_counted():
    mesh = xlab.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    cut, whole = (
        xlab.device_put(np.ones(8, np.float32), NamedSharding(mesh, spec)) for spec in (P("i"), P())
    )
    compiled = xlab.jit(lambda *q: q).lower(*[cut] * 7).compile()
    with pytest.raises(
        ValueError,
        match=r"other shardings .*`q\[0\]`, `q\[1\]`, .*`q\[6\]` of type f32\[8\]: compiled for P\('i',?\) .*\(7 of 7 arguments\)",
    ) as caught:
        compiled(*[whole] * 7)
    assert str(caught.value).count("compiled for P(") == 1
    turned = [
        xlab.device_put(np.ones((8, 8), np.float32), s) for s in (cut.sharding, whole.sharding)
    ]
    product = xlab.jit(lambda *q: q).lower(*turned).compile()
    with pytest.raises(
        ValueError,
        match=r"other layouts .*`q\[1\]` .* major_to_minor=\(0, 1\), called with major_to_minor=\(1, 0\)\.",
    ):
        product(turned[0], xlab.device_put(turned[1], Format(Layout((1, 0)), whole.sharding)))
    with pytest.raises(
        ValueError,
        match=r"other shardings and layouts .*`q\[1\]` .*P\(.*; `q\[1\]` .*major_to_minor",
    ):
        product(turned[0], xlab.device_put(turned[1], Format(Layout((1, 0)), cut.sharding)))
    with pytest.raises(
        TypeError, match=r"`q\[1\]`: compiled for f32\[8\], called with i32\[8\]; `q\[6\]`"
    ):
        compiled(cut, jnp.arange(8), *[cut] * 4, jnp.arange(3.0))
    with pytest.raises(TypeError, match="BatchTracer"):
        xlab.vmap(compiled)(*[jnp.ones((2, 8))] * 7)


class TestDevicesGivenLate:
    def lowered(self, size=4):
        mesh = AbstractMesh((size,), ("x",), axis_types=(AxisType.Auto,))
        x = xlab.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("x")))
        return xlab.jit(lambda v: v * 2 + v.sum()).trace(x).lower(lowering_platforms=("cpu",))

    def test_a_mesh_without_devices(self):
        devices = xlab.devices()[2:6]
        with pytest.raises(RuntimeError, match="device_assignment"):
            self.lowered().compile()
        compiled = self.lowered().compile(device_assignment=devices)
        mesh = Mesh(np.array(devices, dtype=object), ("x",))
        x = xlab.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
        y = compiled(x)
        np.testing.assert_array_equal(y, np.arange(8) * 2 + 28)
        assert y.devices() == set(devices)
        np.testing.assert_array_equal(
            compiled(np.arange(8, dtype=np.float32)), np.arange(8) * 2 + 28
        )

    def test_a_mesh_that_types_speak_of(self):
        devices = xlab.devices()[2:6]
        mesh = AbstractMesh((4,), ("x",), axis_types=(AxisType.Explicit,))
        given = xlab.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("x")))
        lowered = xlab.jit(lambda v: v * 2).trace(given).lower(lowering_platforms=("cpu",))
        compiled = lowered.compile(device_assignment=devices)
        values = np.arange(8, dtype=np.float32)
        explicit, auto = (
            Mesh(np.array(devices, dtype=object), ("x",), axis_types=(kind,))
            for kind in (AxisType.Explicit, AxisType.Auto)
        )
        for x in (values, xlab.numpy.asarray(values),
                  *(xlab.device_put(values, NamedSharding(m, P("x"))) for m in (explicit, auto))):  # fmt: skip
            y = compiled(x)
            assert y.tolist() == (values * 2).tolist() and y.devices() == set(devices)
        with pytest.raises(ValueError, match="shardings"):
            compiled(xlab.device_put(values, NamedSharding(explicit, P())))
        with pytest.raises(TypeError, match="compiled for f32"):
            compiled(values.astype(np.int32))

    def test_too_few(self):
        with pytest.raises(
            ValueError, match="4 devices of platform CPU, and cannot be compiled for 2"
        ):
            self.lowered().compile(device_assignment=xlab.devices()[:2])

    def test_others_than_it_has(self):
        lowered = xlab.jit(lambda v: v * 2).lower(xlab.device_put(np.ones(8), xlab.devices()[1]))
        assert (
            float(
                lowered.compile(device_assignment=(xlab.devices()[1],))(np.ones(8, np.float32))[0]
            )
            == 2
        )
        with pytest.raises(
            ValueError, match=r"device ids \[1\] on platform CPU, but .* device ids \[0, 1\]"
        ):
            lowered.compile(device_assignment=xlab.devices()[:2])


def test_several_platforms():
    traced = xlab.jit(lambda v: jnp.sin(v) * 2).trace(jnp.arange(3.0))
    lowered = traced.lower(lowering_platforms=("tpu", "cpu"))
    assert "stablehlo.sine" in lowered.as_text() and "HloModule" in lowered.as_text("hlo")
    np.testing.assert_allclose(
        lowered.compile()(jnp.arange(3.0)), np.sin(np.arange(3.0)) * 2, rtol=1e-6
    )
    differing = xlab.jit(
        lambda v: xlab.lax.platform_dependent(v, cpu=lambda v: v + 1, default=lambda v: v + 2)
    ).trace(jnp.arange(3.0))
    text = differing.lower(lowering_platforms=("tpu", "cpu")).as_text()
    assert text.count("func.func public @main") == (2 if "// for tpu" in text else 1)
    np.testing.assert_array_equal(
        differing.lower(lowering_platforms=("tpu", "cpu")).compile()(jnp.arange(3.0)), [1, 2, 3]
    )


class TestOptions:
    def test_joined_with_those_of_the_jit(self):
        f = xlab.jit(lambda v: v + 1, compiler_options={"xla_no_such": True})
        lowered = f.lower(1.0)
        with pytest.raises(Exception, match="xla_no_such"):
            lowered.compile({"xla_embed_ir_in_executable": True})
        again = xlab.jit(
            lambda v: v + 1, compiler_options={"xla_embed_ir_in_executable": False}
        ).lower(1.0)
        assert again.compile(
            {"xla_embed_ir_in_executable": True}
        )._executable.lowered.compiler_options == {"xla_embed_ir_in_executable": True}
        assert again.compile({})._executable.lowered.compiler_options == {
            "xla_embed_ir_in_executable": False
        }

    def test_given_they_make_a_new_program(self):
        lowered = xlab.jit(lambda v: v + 1).lower(1.0)
        assert (
            lowered.compile() is lowered.compile() and lowered.compile({}) is not lowered.compile()
        )

    def test_values(self):
        lowered = xlab.jit(lambda v: v + 1).lower(1.0)
        assert float(lowered.compile({"fdo_profile": b""})(1.0)) == 2
        with pytest.raises(TypeError, match="fdo_profile takes the bytes"):
            lowered.compile({"fdo_profile": 3})
        with pytest.raises(
            TypeError, match=r"xla_embed_ir_in_executable takes .* got \[1\] of type list"
        ):
            lowered.compile({"xla_embed_ir_in_executable": [1]})


def test_what_is_known_of_results():
    mesh = Mesh(np.array(xlab.devices()[:2]), ("i",))
    x = xlab.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, P("i")))
    lowered = xlab.jit(lambda x: {"r": x * 2, "s": (x.sum(),)}).lower(x)
    text = lowered.as_text()
    assert "jax.result_info = \"result['r']\"" in text
    assert "jax.result_info = \"result['s'][0]\"" in text
    info = lowered.compile().out_info
    assert info["r"].sharding.is_equivalent_to(x.sharding, 2) and info["r"].shape == (4, 4)
    assert info["s"][0].sharding.is_fully_replicated
    assert lowered.compile().call(x)["s"][0] == 16


def test_results_have_the_shardings_that_are_known():
    """Of a traced and of a lowered program, and of `eval_shape`: those asked for, and those of types."""
    line = Mesh(np.array(xlab.devices()), ("i",))
    whole, split = NamedSharding(line, P()), NamedSharding(line, P("i"))
    open_ = NamedSharding(line, P(P.UNCONSTRAINED))
    x = np.ones(8, np.float32)

    def f(v, n):
        return {"r": v * n, "s": (v, v.sum())}

    asked = {"r": split, "s": (None, whole)}
    jitted = xlab.jit(f, static_argnums=1, out_shardings=asked)
    for found in (
        jitted.trace(x, 3).out_info,
        jitted.lower(x, 3).out_info,
        jitted.eval_shape(x, 3),
        xlab.eval_shape(jitted, x, 3),
    ):
        assert found["r"].sharding == split and found["s"][1].sharding == whole
        assert found["s"][0].sharding is None
        assert found["r"].shape == (8,) and found["s"][1].shape == ()
    assert xlab.jit(lambda v: v, out_shardings=open_).trace(x).out_info.sharding is None
    assert xlab.jit(lambda v: v).lower(xlab.device_put(x, split)).out_info.sharding is None
    typed = xlab.make_mesh((8,), ("e",), axis_types=(AxisType.Explicit,))
    on_typed = xlab.jit(lambda v: v * 2).trace(xlab.device_put(x, NamedSharding(typed, P("e"))))
    assert on_typed.out_info.sharding.spec == on_typed.lower().out_info.sharding.spec == P("e")
    assert on_typed.lower().out_info.sharding.mesh == typed


def test_functions_that_are_compiled_already_keep_their_options_in_eval_shape():
    f = xlab.jit(lambda x, n, how: x.reshape(n, -1), static_argnums=1, static_argnames="how")
    assert xlab.eval_shape(f, np.ones(6), 2, how="any").shape == (2, 3)
    got = xlab.eval_shape(f, xlab.ShapeDtypeStruct((8,), np.float32), 4, how=None)
    assert (got.shape, got.dtype) == ((4, 2), np.float32)


def test_a_program_says_how_its_arguments_and_results_are_called():
    info = xlab.jit(lambda a, k: {"r": a * k["z"]}).trace(1.0, {"z": 2.0}).jaxpr.jaxpr.debug_info
    assert info.arg_names == ("a", "k['z']") and info.result_paths == ("result['r']",)
    assert info.func_name == "<lambda>"
    assert info.func_src_info.startswith("<lambda> at ") and info.func_src_info.count(".py:") == 1


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["plain", "jit"])
def test_what_has_a_shape_and_a_dtype_stands_for_an_array_in_eval_shape(wrap):
    class Described:
        shape, dtype = (3, 2), np.dtype(np.int16)

    got = xlab.eval_shape(wrap(lambda d: d["x"].sum(0) * d["y"]), {"x": Described(), "y": 2})
    assert (got.shape, got.dtype) == ((2,), np.int32)
    with pytest.raises(xlab.errors.InvalidInputException, match="'text'|of type str"):
        xlab.eval_shape(wrap(lambda x: x), "text")


def test_a_shape_has_the_length_of_its_first_dimension():
    assert len(xlab.ShapeDtypeStruct((3, 2), np.float32)) == 3
    assert not xlab.ShapeDtypeStruct((0, 2), np.float32)
    with pytest.raises(TypeError, match="unsized"):
        len(xlab.ShapeDtypeStruct((), np.float32))


def test_a_shape_refuses_a_sharding_of_more_dimensions():
    mesh = xlab.make_mesh((8,), ("x",))
    long = NamedSharding(mesh, P("x", None))
    with pytest.raises(ValueError, match=r"rank at least 2, .* rank 1 \(shape \(8,\)\)"):
        xlab.ShapeDtypeStruct((8,), np.float32, sharding=long)
    matrix = xlab.ShapeDtypeStruct((8, 2), np.float32, sharding=long)
    with pytest.raises(ValueError, match="rank at least 2"):
        matrix.update(shape=(8,))
    assert matrix.update(shape=(8,), sharding=NamedSharding(mesh, P("x"))).shape == (8,)
