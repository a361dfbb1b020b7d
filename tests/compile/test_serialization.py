"""Compiled programs as bytes: every way to run a program gives one answer, other devices, another process, what is refused."""

import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental.serialize_executable import deserialize_and_load, serialize
from xlab.sharding import Format, Layout, Mesh, NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh(devices=None):
    return Mesh(np.array(devices or xlab.devices()[:4]).reshape(2, 2), ("x", "y"))


PLACES = {
    "one": lambda kind: SingleDeviceSharding(xlab.devices()[2], kind),
    "rows": lambda kind: NamedSharding(mesh(), P("x"), kind),
    "tiles": lambda kind: NamedSharding(mesh(), P("x", "y"), kind),
    "copies": lambda kind: NamedSharding(mesh(), P(), kind),
}
SWEEP = [
    *itertools.product(PLACES, [None, (1, 0)], [None, (1, 0)], ["device"]),
    *itertools.product(["one", "tiles"], [None], [None], ["pinned_host"]),
]


@pytest.mark.parametrize(("place", "order_in", "order_out", "kind"), SWEEP)
def test_every_way_to_run_gives_one_answer(place, order_in, order_out, kind, tmp_path):
    where = PLACES[place](kind)

    def form(order):
        return where if order is None else Format(Layout(order), where)

    def f(x):
        return x * 2

    x = xlab.device_put(X, form(order_in))
    made = xlab.jit(f, in_shardings=form(order_in), out_shardings=form(order_out))
    compiled = made.lower(x).compile()
    loaded = deserialize_and_load(*serialize(compiled))
    xlab.config.update("jax_compilation_cache_dir", str(tmp_path))
    xlab.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    try:
        stored = [
            xlab.jit(f, in_shardings=form(order_in), out_shardings=form(order_out))
            .lower(x)
            .compile({"xla_embed_ir_in_executable": False})
            for _ in range(2)
        ]
    finally:
        xlab.config.update("jax_compilation_cache_dir", None)
        xlab.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    assert list(tmp_path.iterdir())
    for run in (made, compiled, loaded, *stored):
        for _ in range(2):
            out = run(x)
            np.testing.assert_array_equal(out, 2 * X)
            assert out.sharding.is_equivalent_to(where, 2) and out.sharding.memory_kind == kind
            assert out.format.layout.major_to_minor == (order_out or (0, 1))
    assert loaded.input_formats == compiled.input_formats
    assert loaded.output_formats == compiled.output_formats


def test_what_is_known_of_a_program_is_known_of_the_loaded_one():
    def f(a, *, k):
        return {"r": a * k["z"] + 1}

    compiled = xlab.jit(f, donate_argnums=0).lower(np.ones(4, np.float32), k={"z": 2.0}).compile()
    program, *trees = serialize(compiled)
    loaded = deserialize_and_load(program, *pickle.loads(pickle.dumps(trees)))
    for name in (
        "in_avals",
        "out_info",
        "in_tree",
        "out_tree",
        "input_shardings",
        "donate_argnums",
    ):
        assert getattr(loaded, name) == getattr(compiled, name), name
    assert loaded.as_text().startswith("HloModule jit_f, ")
    assert loaded.cost_analysis() == compiled.cost_analysis()
    assert loaded.memory_analysis() == compiled.memory_analysis()
    a = jnp.ones(4)
    assert loaded(a, k={"z": 3.0})["r"].tolist() == [4.0] * 4 and a.is_deleted()
    with pytest.raises(TypeError, match=r"`k\['z'\]` is missing"):
        loaded(jnp.ones(4))
    with pytest.raises(TypeError, match=r"`a`: compiled for f32\[4\], called with i32\[4\]"):
        loaded(jnp.ones(4, int), k={"z": 3.0})
    with pytest.raises(ValueError, match="loaded as machine code"):
        loaded.lowered.as_text()


def test_on_other_devices():
    f = xlab.jit(lambda x: (x @ x.T, jnp.arange(200.0) + x[0, 0]))
    x = xlab.device_put(X, NamedSharding(mesh(), P("x", "y")))
    parts = serialize(f.lower(x).compile())
    others = xlab.devices()[:3:-1]
    loaded = deserialize_and_load(*parts, execution_devices=others)
    there = xlab.device_put(X, NamedSharding(mesh(others), P("x", "y")))
    product, row = loaded(there)
    np.testing.assert_array_equal(product, X @ X.T)
    np.testing.assert_array_equal(row, np.arange(200, dtype=np.float32))
    assert product.sharding.devices_in_order == tuple(others)
    with pytest.raises(ValueError, match="shardings"):
        loaded(x)
    one = deserialize_and_load(
        *serialize(xlab.jit(lambda x: x + 1).lower(X).compile()),
        execution_devices=xlab.devices()[3:4],
    )
    assert one(X).devices() == {xlab.devices()[3]}


def test_keys_static_arguments_and_closed_over_arrays():
    big = jnp.arange(1000.0)

    def f(key, x, n):
        return xlab.random.split(key, n), x + big

    compiled = xlab.jit(f, static_argnums=2).lower(xlab.random.key(0), 1.0, 3).compile()
    loaded = deserialize_and_load(*serialize(compiled))
    keys, sums = loaded(xlab.random.key(7), 2.0)
    assert (
        xlab.random.key_data(keys) == xlab.random.key_data(xlab.random.split(xlab.random.key(7), 3))
    ).all()
    np.testing.assert_array_equal(sums, np.arange(1000, dtype=np.float32) + 2)


def test_in_another_process(tmp_path):
    x = xlab.device_put(X, NamedSharding(mesh(), P("x", "y")))
    f = xlab.jit(lambda x: {"sum": x.sum(), "t": x.T}, name="both")
    with open(tmp_path / "program", "wb") as file:
        pickle.dump(serialize(f.lower(x).compile()), file)
    script = f"""
import pickle, numpy as np, xlab
from xlab.experimental.serialize_executable import deserialize_and_load
loaded = deserialize_and_load(*pickle.load(open({str(tmp_path / "program")!r}, "rb")))
(where,), _ = loaded.input_shardings
out = loaded(xlab.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), where))
print(float(out["sum"]), out["t"].shape, out["t"].sharding.spec, loaded)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("496.0 (4, 8) P('y', 'x') Compiled(both, 4 device(s), ")


@pytest.fixture(scope="module")
def parts():
    return serialize(xlab.jit(lambda x: x + 1).lower(X).compile())


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:40], lambda b: b[:-9] + b"x" + b[-8:]]
)
def test_damaged_bytes_do_not_reach_native_code(parts, damage):
    with pytest.raises(ValueError, match="damaged"):
        deserialize_and_load(damage(parts[0]), *parts[1:])


def test_what_cannot_be_carried_over(parts):
    program, *trees = parts
    with pytest.raises(ValueError, match="not the bytes of a program"):
        deserialize_and_load(b"abc", *trees)
    with pytest.raises(ValueError, match=r"compiled with jaxlib 0\.1\.2"):
        from xlab.backend.version import installed

        deserialize_and_load(program.replace(installed().encode(), b"0.1.2", 1), *trees)
    with pytest.raises(ValueError, match="1 arguments and 1 results"):
        deserialize_and_load(program, trees[0], xlab.tree.structure((1, 2)))
    with pytest.raises(ValueError, match=r"for 1 devices, and execution_devices are \[0, 1\]"):
        deserialize_and_load(*parts, execution_devices=xlab.devices()[:2])
    with pytest.raises(TypeError, match="takes a compiled program"):
        serialize(xlab.jit(lambda x: x))
    with pytest.raises(ValueError, match="calls Python functions"):
        serialize(xlab.jit(lambda x: xlab.pure_callback(lambda v: v, x, x)).lower(X).compile())
    ref = xlab.new_ref(jnp.zeros(2))
    with pytest.raises(ValueError, match="works on references"):
        serialize(xlab.jit(lambda r: r[...]).lower(ref).compile())
