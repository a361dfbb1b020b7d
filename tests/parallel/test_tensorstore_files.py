"""Arrays in files of TensorStore's: what is read is what was written, under any sharding, in other shapes and dtypes too."""

from __future__ import annotations

import builtins
import importlib.util

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import NamedSharding, P
from xlab.experimental.array_serialization.serialization import (
    GlobalAsyncCheckpointManager,
    GlobalAsyncCheckpointManagerBase,
    get_tensorstore_spec,
)

needs_tensorstore = pytest.mark.skipif(
    importlib.util.find_spec("tensorstore") is None,
    reason="tensorstore not installed: pip install '.[libraries]'",
)
SPECS = [P("data", "model"), P(), P("model"), P(None, ("data", "model"))]


@pytest.fixture
def manager():
    manager = GlobalAsyncCheckpointManager(timeout_secs=60)
    yield manager
    manager.wait_until_finished()


@pytest.mark.parametrize(
    ("path", "options", "store"),
    [
        ("/a/b", {}, {"driver": "file", "path": "/a/b"}),
        ("a/b", {}, {"driver": "file", "path": "a/b"}),
        ("/a/b", {"process_idx": 3}, {"driver": "file", "path": "/a/process_3/b"}),
        ("gs://k/x/y", {}, {"driver": "gcs", "bucket": "k", "path": "x/y"}),
        ("s3://k/x/y", {}, {"driver": "s3", "bucket": "k", "path": "x/y"}),
        ("/a/b", {"ocdbt": True}, {"driver": "ocdbt", "base": {"driver": "file", "path": "/a"}, "path": "b"}),
        ("gs://k/x/y", {"ocdbt": True}, {"driver": "ocdbt", "base": {"driver": "gcs", "bucket": "k", "path": "x"}, "path": "y"}),
    ],
)  # fmt: skip
def test_places(path, options, store):
    assert get_tensorstore_spec(path, **options) == {"driver": "zarr", "kvstore": store}
    assert get_tensorstore_spec(path, driver="zarr3", **options)["driver"] == "zarr3"


def test_places_of_an_array(mesh):
    x = xlab.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data")))
    assert get_tensorstore_spec("/a", arr=x)["metadata"] == {"compressor": {"id": "zstd"}, "shape": (8, 4), "chunks": [2, 4]}  # fmt: skip
    assert get_tensorstore_spec("/a", arr=x, driver="zarr3")["metadata"]["data_type"] == "float32"
    with pytest.raises(ValueError, match="give an absolute one, got 'a/b'"):
        get_tensorstore_spec("a/b", ocdbt=True)
    with pytest.raises(ValueError, match="not as 'n5': leave arr out"):
        get_tensorstore_spec("/a", arr=x, driver="n5")


@needs_tensorstore
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "bool", "complex64"])
@pytest.mark.parametrize("options", [{}, {"driver": "zarr3"}, {"ocdbt": True}])
def test_arrays_are_read_under_other_shardings(mesh, tmp_path, manager, dtype, options):
    if dtype == "int4" and options.get("driver") == "zarr3":
        options = {}  # which writes whole bytes
    whole = (np.arange(128).reshape(8, 16) % 7).astype(jnp.dtype(dtype))
    other = xlab.make_mesh((2, 2), ("data", "model"), axis_types=mesh.axis_types)
    places = [get_tensorstore_spec(tmp_path / str(k), **options) for k in range(len(SPECS))]
    manager.serialize([xlab.device_put(whole, NamedSharding(mesh, s)) for s in SPECS], places)
    manager.wait_until_finished()
    for over in (mesh, other):
        wanted = [NamedSharding(over, s) for s in SPECS[::-1]]
        for x, sharding in zip(manager.deserialize(wanted, places), wanted, strict=True):
            assert x.sharding == sharding and x.dtype == whole.dtype
            np.testing.assert_array_equal(np.asarray(x), whole)


@needs_tensorstore
def test_other_shapes_and_dtypes(mesh, tmp_path, manager):
    whole = np.arange(8, dtype=np.float32).reshape(4, 2)
    path = str(tmp_path / "x")
    manager.serialize_with_paths([jnp.array(whole), jnp.float32(3)], [path, path + "0"])
    manager.wait_until_finished()
    here = NamedSharding(mesh, P("data"))
    read = lambda *args: manager.deserialize_with_paths([here], [path], *args)[0]
    longer = read([(8, 3)], ["int32"])
    assert longer.dtype == np.int32 and longer.sharding == here
    np.testing.assert_array_equal(longer, np.pad(whole, ((0, 4), (0, 1))))
    np.testing.assert_array_equal(read([(4, 1)]), whole[:, :1])
    (scalar,) = manager.deserialize_with_paths([NamedSharding(mesh, P())], [path + "0"])
    assert scalar.shape == () and scalar == 3
    with pytest.raises(ValueError, match=r"2 dimensions is written there, of shape \(4, 2\)"):
        read([(8,)])


@needs_tensorstore
def test_values_are_those_of_the_call_and_the_end_is_told(tmp_path, manager):
    x, said = jnp.arange(8.0), []
    path = str(tmp_path / "x")
    manager.serialize_with_paths([x], [path], on_commit_callback=lambda: said.append((tmp_path / "x" / ".zarray").exists()))  # fmt: skip
    x.delete()
    manager.wait_until_finished()
    assert said == [True]
    (back,) = manager.deserialize_with_paths([jnp.ones(1).sharding], [path])
    assert back.tolist() == list(range(8))

    def refuse():
        raise RuntimeError("no room")

    manager.serialize_with_paths([back], [path], on_commit_callback=refuse)
    with pytest.raises(RuntimeError, match="no room"):
        manager.wait_until_finished()
    manager.check_for_errors()  # it was told once


@needs_tensorstore
def test_a_transaction_is_its_owners(tmp_path, manager):
    import tensorstore

    transaction = tensorstore.Transaction(atomic=False)
    path = str(tmp_path / "x")
    manager.serialize_with_paths([jnp.arange(4)], [path], transaction=transaction)
    manager.wait_until_finished()
    here = [jnp.ones(1).sharding]
    with pytest.raises(ValueError, match="NOT_FOUND"):
        manager.deserialize_with_paths(here, [path])
    transaction.commit_sync()
    assert manager.deserialize_with_paths(here, [path])[0].tolist() == [0, 1, 2, 3]


@needs_tensorstore
def test_errors(tmp_path, manager):
    path = str(tmp_path / "x")
    with pytest.raises(
        ValueError, match="number 1 is of type KeyArray; write xlab.random.key_data"
    ):
        manager.serialize_with_paths([jnp.ones(1), xlab.random.key(0)], [path, path])
    with pytest.raises(ValueError, match="number 0 is of type list"):
        manager.serialize_with_paths([[1.0]], [path])
    with pytest.raises(ValueError, match="1 arrays and 0 tensorstore_specs were given"):
        manager.serialize([jnp.ones(1)], [])
    with pytest.raises(ValueError, match="1 shardings and 2 dtypes were given"):
        manager.deserialize_with_paths([jnp.ones(1).sharding], [path], None, ["int8", "int8"])
    with pytest.raises(ValueError, match="NOT_FOUND"):
        manager.deserialize_with_paths([jnp.ones(1).sharding], [path])


def test_without_tensorstore(monkeypatch, manager):
    load = builtins.__import__

    def without(name, *args):
        if name == "tensorstore":
            raise ModuleNotFoundError(name)
        return load(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install tensorstore"):
        manager.serialize([], [])


def test_libraries_derive_their_own():
    class Mine(GlobalAsyncCheckpointManagerBase):
        serialize = deserialize = check_for_errors = lambda self, *args: None

    with pytest.raises(TypeError, match="wait_until_finished"):
        Mine()
    assert isinstance(GlobalAsyncCheckpointManager(), GlobalAsyncCheckpointManagerBase)
