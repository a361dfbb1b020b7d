import numpy as np
import pytest

from tests.backend import toys
from xlab.backend import arrays, client, compiling, ir, profiling, version
from xlab.backend.partitioning import partition_stages
from xlab.core.avals import ShapedArray
from xlab.errors import UnsupportedVersionError


def dot():
    return compiling.compile_text(toys.SHARDED_DOT, client.devices()[:8], partitions=8)


def test_what_an_executable_says_of_itself():
    exe = dot()
    assert "all-reduce" in compiling.hlo_text(exe)
    assert "eqn3" in compiling.hlo_text(exe)
    assert str(compiling.output_shardings(exe)[0]) == "{replicated}"
    assert str(compiling.parameter_shardings(exe)[0]) == "{devices=[1,8]<=[8]}"
    assert compiling.memory_stats(exe).argument_size_in_bytes == 2 * 16 * 2 * 4
    raw, stats = exe.get_compiled_memory_stats(), compiling.memory_stats(exe)
    sizes = {n: getattr(raw, n) for n in dir(raw) if n.endswith("_in_bytes")}
    assert (
        len(sizes) >= 11
        and {n: getattr(stats, n, None) for n in sizes} == sizes
        and stats.peak_memory_in_bytes > 0
    )
    assert compiling.cost_analysis(exe)["flops"] > 0
    assert compiling.output_memory_kinds(exe) == ["device"]
    assert compiling.memory_plan(exe)[1]
    assert compiling.hlo_dot(exe).startswith("digraph")
    assert (
        compiling.output_shardings(compiling.compile_text(toys.DOUBLE, client.devices()[:1]))
        is None
    )


def test_serialized_executables_run():
    again = compiling.deserialize(compiling.serialize(dot()), client.devices()[:8])
    x = np.eye(16, dtype=np.float32)
    handler = arrays.result_handler(ShapedArray((16, 16), np.float32), toys.along())
    out = arrays.execute(
        again, [toys.put(x, toys.along(None, "x")), toys.put(x, toys.along("x"))], [handler]
    )[0]
    np.testing.assert_allclose(toys.gather(out), np.tanh(x), rtol=1e-6)


def test_modules_with_callbacks_are_compiled_in_contexts_of_their_own(monkeypatch):
    """The compiler works without the interpreter's lock, and a context that other threads build in has no lock of its own."""
    given = []
    monkeypatch.setattr(
        compiling, "_backend_compile", lambda _, module, *rest: given.append(module)
    )
    for _ in range(2):
        compiling.compile_text(toys.DOUBLE, client.devices()[:1], host_callbacks=[lambda x: x])
    contexts = {id(module.context) for module in given} | {id(ir.context())}
    assert len(contexts) == 3


def test_options_and_callbacks():
    compiling.compile_text(
        toys.DOUBLE, client.devices()[:1], options={"xla_backend_optimization_level": 0}
    )
    with pytest.raises(Exception, match="No such compile option"):
        compiling.compile_text(toys.DOUBLE, client.devices()[:1], options={"xla_no_such_flag": 1})
    text = """module @cb { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %r = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {api_version = 4 : i32, has_side_effect = true,
        backend_config = {index = 0 : ui64}, operand_layouts = [dense<[0]> : tensor<1xindex>],
        result_layouts = [dense<[0]> : tensor<1xindex>]} : (tensor<4xf32>) -> tensor<4xf32>
      return %r : tensor<4xf32> } }"""
    exe = compiling.compile_text(
        text, client.devices()[:1], host_callbacks=[lambda x: (np.asarray(x) * 3,)]
    )
    x = toys.put(np.ones(4, np.float32), toys.single())
    out = arrays.execute(exe, [x], [arrays.result_handler(x.aval, toys.single())])[0]
    np.testing.assert_array_equal(arrays.to_numpy(out), 3)


def test_partitions_must_fit_the_devices():
    with pytest.raises(ValueError, match="as many devices as"):
        compiling.compile_text(toys.DOUBLE, client.devices()[:8], partitions=4)


def test_stages_of_partitioning():
    stages = partition_stages(toys.SHARDED_DOT)
    assert list(stages) == ["input", "propagated", "resharded", "collectives", "local"]
    assert "sdy.all_reduce" in stages["resharded"]
    assert "stablehlo.all_reduce" in stages["local"]
    assert "tensor<16x2xf32>" in stages["local"]
    assert (
        "eqn3"
        in partition_stages(toys.SHARDED_DOT, locations=True, last="propagated")["propagated"]
    )
    with pytest.raises(Exception, match=r"custom op|expected|unregistered"):
        ir.parse("func.func @main() { nonsense }")


def test_profile_names_every_instruction_on_every_device():
    exe = dot()
    x = np.eye(16, dtype=np.float32)
    a, b = toys.put(x, toys.along(None, "x")), toys.put(x, toys.along("x"))
    handler = arrays.result_handler(ShapedArray((16, 16), np.float32), toys.along())
    arrays.execute(exe, [a, b], [handler])[0].block_until_ready()
    with profiling.profile() as taken:
        arrays.execute(exe, [a, b], [handler])[0].block_until_ready()
    names = {i.name for c in compiling.hlo_modules(exe)[0].computations() for i in c.instructions()}
    table = taken.by_instruction()
    assert table
    assert set(table) <= names
    collective = next(v for k, v in table.items() if k.startswith("all-reduce"))
    assert sorted(collective) == list(range(8))
    for events in collective.values():
        assert 0 <= events[0].wait_ns <= events[0].duration_ns


def test_profile_of_a_compilation_lists_passes():
    with profiling.profile(detail=3) as taken:
        dot()
    assert any("shardy" in e.name for e in taken.compiler_passes())


@pytest.mark.parametrize("found", ["0.9.9", "0.10.1", "0.11.0", "1.0"])
def test_other_versions_are_refused_with_the_command(found):
    with pytest.raises(UnsupportedVersionError, match=rf"found jaxlib {found}(.|\n)*pip install"):
        version.check(found)


def test_supported_versions_pass():
    version.check("0.10.2")
    version.check("0.10.9")
