"""Modules of few names: profiler, dlpack, mesh_utils, topologies, dtypes, memory."""

from __future__ import annotations

import gzip
import importlib
import inspect

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp


class TestProfiler:
    def test_a_trace_is_written(self, tmp_path):
        profiler = xlab.profiler

        @profiler.annotate_function
        def work(x):
            return xlab.block_until_ready(jnp.sin(x) @ x)

        with (
            profiler.trace(tmp_path, create_perfetto_trace=True),
            profiler.StepTraceAnnotation("train", step_num=1),
            profiler.TraceAnnotation("inner", size=3),
        ):
            work(jnp.ones((8, 8)))
        (found,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
        data = profiler.ProfileData.from_file(str(found))
        names = {e.name for plane in data.planes for line in plane.lines for e in line.events}
        assert {"train", "inner", work.__wrapped__.__qualname__} <= names
        (trace,) = tmp_path.glob("plugins/profile/*/perfetto_trace.json.gz")
        assert b"traceEvents" in gzip.decompress(trace.read_bytes())

    def test_one_at_a_time(self, tmp_path):
        with pytest.raises(RuntimeError, match="No profile started"):
            xlab.profiler.stop_trace()
        with (
            xlab.profiler.trace(tmp_path),
            pytest.raises(RuntimeError, match="already been started"),
        ):
            xlab.profiler.start_trace(tmp_path)
        with pytest.raises(NotImplementedError, match="create_perfetto_trace"):
            xlab.profiler.start_trace(tmp_path, create_perfetto_link=True)
        with pytest.raises(ValueError, match="No active profiler server"):
            xlab.profiler.stop_server()

    def test_a_profile_says_what_instructions_cost(self, tmp_path):
        read = importlib.import_module("xlab.experimental.profiler").get_profiled_instructions_proto
        with pytest.raises(FileNotFoundError, match="no profile under"):
            read(tmp_path)
        f, x = xlab.jit(lambda x: jnp.cumsum(jnp.sin(x) @ x)), jnp.ones((64, 64))
        f(x).block_until_ready()
        with xlab.profiler.trace(tmp_path):
            f(x).block_until_ready()
        found = read(str(tmp_path))
        costs = {}
        while found:  # messages of a name and a double
            size = found[1]
            message, found = found[2 : 2 + size], found[2 + size :]
            assert message[0] == 0x0A and message[-9] == 0x11
            name = message[2 : 2 + message[1]].decode()
            costs[name] = np.frombuffer(message[-8:], "<f8")[0]
        compiled = f.lower(x).compile().as_text()
        assert costs and all(f"%{name} = " in compiled and us > 0 for name, us in costs.items())
        (run,) = tmp_path.glob("plugins/profile/*")
        assert len(read(run)) == len(read(tmp_path))

    def test_what_memory_holds(self, tmp_path):
        held = jnp.ones(1000)
        xlab.profiler.save_device_memory_profile(tmp_path / "memory.prof")
        assert len(gzip.decompress((tmp_path / "memory.prof").read_bytes())) > 0
        del held


class TestDlpack:
    def test_from_another_library(self):
        data = np.arange(3, dtype=np.float32)
        x = xlab.dlpack.from_dlpack(data)
        assert isinstance(x, xlab.Array) and x.tolist() == [0, 1, 2]
        assert np.from_dlpack(x).tolist() == [0, 1, 2]
        assert (
            np.from_dlpack(x, copy=True).ctypes.data
            != np.from_dlpack(x, copy=False).ctypes.data
            == x.unsafe_buffer_pointer()
        )
        assert (
            x.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False) is not None
        )
        for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
            with pytest.raises(BufferError, match="host memory"):
                x.__dlpack__(**wrong)

    def test_types(self):
        yes = ["bool", "int8", "uint64", "float16", "bfloat16", "float64", "complex64"]
        no = ["int4", "uint4", "int2", "float8_e4m3fn", "float8_e5m2"]
        assert all(map(xlab.dlpack.is_supported_dtype, yes)) and not any(
            map(xlab.dlpack.is_supported_dtype, no)
        )
        assert not xlab.dlpack.is_supported_dtype(xlab.random.key(0).dtype)


class TestMeshes:
    def test_mesh_utils(self):
        mesh_utils = xlab.experimental.mesh_utils
        devices = xlab.devices()[:1]
        assert mesh_utils.create_device_mesh((1, 1), devices).shape == (1, 1)
        assert mesh_utils.create_hybrid_device_mesh(
            (1,), (1,), devices, should_sort_granules_by_key=False
        ).shape == (1,)
        kind, calls = devices[0].device_kind, []

        def handler(shape, devices, contiguous_submeshes=False):
            calls.append(shape)
            return np.array(devices, dtype=object).reshape(shape) if len(calls) > 1 else None

        mesh_utils.device_kind_handler_dict[kind] = handler
        try:
            for _ in range(2):
                assert mesh_utils.create_device_mesh((1, 1), devices).shape == (1, 1)
        finally:
            del mesh_utils.device_kind_handler_dict[kind]
        assert calls == [(1, 1), (1, 1)]

    def test_topologies(self):
        topologies = xlab.experimental.topologies
        topology = topologies.get_attached_topology()
        assert topology.devices == xlab.devices()
        mesh = topologies.make_mesh(topology, (len(topology.devices),), ("x",))
        lowered = xlab.jit(
            lambda x: x * 2, in_shardings=xlab.NamedSharding(mesh, xlab.P("x"))
        ).lower(xlab.ShapeDtypeStruct((len(topology.devices),), np.float32))
        assert lowered.compile() is not None
        with pytest.raises(NotImplementedError, match="topology not implemented for cpu"):
            topologies.get_topology_desc(platform="cpu")


def test_primitives_are_found_in_lax():
    for name in (
        "add_p",
        "mul_p",
        "exp_p",
        "tanh_p",
        "dot_general_p",
        "gather_p",
        "device_put_p",
        "optimization_barrier_p",
    ):
        assert getattr(xlab.lax, name).name == name.removesuffix("_p")
    with pytest.raises(AttributeError, match="no attribute 'no_such_p'"):
        xlab.lax.no_such_p


def test_strict_promotion_has_its_class():
    assert issubclass(xlab.dtypes.TypePromotionError, ValueError)
    with xlab.numpy_dtype_promotion("strict"), pytest.raises(xlab.dtypes.TypePromotionError):
        jnp.add(jnp.int32(1), jnp.float32(1))


class TestLayouts:
    def test_inside_a_program(self):
        layout = xlab.experimental.layout
        x = jnp.arange(6.0).reshape(2, 3)

        def f(x):
            return layout.with_layout_constraint(x * 2, layout.Layout((1, 0)))

        np.testing.assert_array_equal(f(x), x * 2)
        np.testing.assert_array_equal(xlab.jit(f)(x), x * 2)
        np.testing.assert_array_equal(
            xlab.jit(xlab.vmap(f, in_axes=1))(x[:, None] + jnp.zeros((2, 4, 3)))[0], x * 2
        )
        np.testing.assert_array_equal(xlab.grad(lambda x: (f(x) ** 2).sum())(x), 8 * x)
        text = xlab.jit(f).lower(x).as_text()
        assert "@LayoutConstraint" in text and "dense<[0, 1]> : tensor<2xindex>" in text
        compiled = xlab.jit(lambda x: f(x) @ x.T).lower(x).compile().as_text()
        assert "f32[2,3]{0,1}" in compiled

    def test_what_is_no_layout(self):
        layout = xlab.experimental.layout
        x = jnp.ones((2, 3))
        with pytest.raises(ValueError, match="orders 3 dimensions"):
            layout.with_layout_constraint(x, layout.Layout((1, 0, 2)))
        with pytest.raises(ValueError, match="takes a Layout"):
            layout.with_layout_constraint(x, 3)
        with pytest.raises(ValueError, match="major_to_minor must be an order"):
            layout.Layout((0, 0))

    def test_formats(self):
        Format, Layout = xlab.experimental.layout.Format, xlab.experimental.layout.Layout
        x = jnp.ones((2, 3))
        assert x.format == Format(Layout((0, 1)), x.sharding)
        assert xlab.device_put(x, x.format).tolist() == x.tolist()
        f = xlab.jit(lambda x: x * 2, in_shardings=Format(Layout.AUTO), out_shardings=x.format)
        compiled = f.lower(x).compile()
        assert compiled(x).tolist() == f(x).tolist() == (x * 2).tolist()
        assert (
            compiled.output_formats.layout == Layout((0, 1))
            and compiled.input_formats[0][0].sharding == x.sharding
        )
        other = Format(Layout((1, 0)), x.sharding)
        for y in (xlab.device_put(x, other), xlab.jit(lambda x: x, out_shardings=other)(x)):
            assert y.format == other and y.tolist() == x.tolist()
        with pytest.raises(ValueError, match="does not match the layout"):
            xlab.jit(lambda x: x, in_shardings=other)(xlab.device_put(x, x.format))


@pytest.mark.parametrize(
    ("module", "wrong", "right"),
    [
        ("numpy", "sinn", "sin"),
        ("lax", "cosh_", "cosh"),
        ("nn", "reluu", "relu"),
        ("random", "normall", "normal"),
        ("numpy.linalg", "slv", "solve"),
        ("scipy.linalg", "choleski", "cholesky"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_the_nearest(module, wrong, right):
    found = importlib.import_module(f"xlab.{module}")
    with pytest.raises(
        AttributeError,
        match=rf"module 'xlab.{module}' has no attribute '{wrong}'. Did you mean .*\b{right}\b",
    ):
        getattr(found, wrong)
    with pytest.raises(AttributeError, match=r"has no attribute '__path_of__'$"):
        found.__path_of__


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("numpy", ["fft", "linalg"]),
        ("lax", ["linalg"]),
        ("random", ["multivariate_normal", "orthogonal"]),
        ("sharding", ["ManualAxisType", "auto_axes", "explicit_axes", "reshard"]),
        ("experimental", ["array_serialization", "transfer"]),
        ("extend", ["lowering", "xla"]),
    ],
)
def test_names_that_are_imported_at_their_first_use_are_offered_before(module, names):
    found = importlib.import_module(f"xlab.{module}")
    assert set(names) <= set(dir(found))
    assert all(getattr(found, name) is not None for name in names)


def test_other_names_of_transformations():
    assert xlab.remat.__name__ == "remat" and xlab.jacobian.__name__ == "jacobian"
    assert xlab.jacobian(lambda x: x * 2)(1.0) == 2 and xlab.remat(lambda x: x * 2)(1.0) == 2


def test_names_of_arguments_for_programs():
    """Static arguments are left out; the others keep their own names."""
    from xlab.api_util import debug_info

    def fun(x, y, z=1):
        return x

    def names(**options):
        return debug_info("a test", fun, (1, {"k": 2}), {"z": 3}, **options).arg_names

    assert names() == ("x", "y['k']", "z")
    assert names(static_argnums=(0,)) == ("y['k']", "z")
    assert names(static_argnums=(-1,)) == ("x", "z")
    assert names(static_argnames=("z",)) == ("x", "y['k']")
    assert names(signature=inspect.signature(lambda p, q, z: 0)) == ("p", "q['k']", "z")
    given = debug_info("a test", fun, (1, 2), {}, sourceinfo="cell 3, line 1")
    assert given.position == "cell 3, line 1" and given.name == "fun"
