"""Pytrees of arrays in folders: what is read is what was written, under any sharding, and nothing else is lost."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import NamedSharding, P
from xlab.experimental.array_serialization.pytree_serialization import (
    load,
    load_pytreedef,
    nonblocking_load,
    nonblocking_save,
    save,
)

SPECS = [P("data", "model"), P(), P("model"), P(None, ("data", "model"))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "bool", "complex64"])
def test_arrays_are_read_under_other_shardings(mesh, tmp_path, dtype):
    whole = (np.arange(128).reshape(8, 16) % 7).astype(jnp.dtype(dtype))
    other = xlab.make_mesh((2, 2), ("data", "model"), axis_types=mesh.axis_types)
    for given in SPECS:
        save({"x": xlab.device_put(whole, NamedSharding(mesh, given))}, tmp_path)
        for over in (mesh, other):
            for spec in SPECS:
                sharding = NamedSharding(over, spec)
                (x,) = xlab.tree.leaves(load(tmp_path, sharding))
                assert x.sharding == sharding and x.dtype == whole.dtype
                np.testing.assert_array_equal(np.asarray(x), whole)


def test_a_part_that_several_devices_hold_is_written_once(mesh, tmp_path):
    save(xlab.device_put(np.zeros((8, 4), np.float32), NamedSharding(mesh, P("data"))), tmp_path)
    files = list((tmp_path / "0").iterdir())
    assert len(files) == 4 and sum(f.stat().st_size for f in files) == 128


def test_structures_scalars_and_empty_arrays(mesh, tmp_path):
    tree = {"a": [np.float32(2), jnp.zeros((0, 3))], "b": (None, 3, jnp.ones(4, jnp.int8))}
    save(tree, tmp_path)
    types = load_pytreedef(tmp_path)
    assert xlab.tree.structure(types) == xlab.tree.structure(tree)
    back = load(tmp_path, NamedSharding(mesh, P()))
    for x, y in zip(xlab.tree.leaves(tree), xlab.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    masked = load(tmp_path, NamedSharding(mesh, P()), mask={"a": False, "b": True})
    assert masked["a"] == [None, None] and masked["b"][2].shape == (4,)


def test_in_the_background_values_are_those_of_the_call(mesh, tmp_path):
    x = xlab.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("data")))
    saving = nonblocking_save({"x": x}, tmp_path)
    x.delete()
    assert saving.result() is None and saving.done()
    loading = nonblocking_load(tmp_path, NamedSharding(mesh, P("model")))
    assert loading.pytree["x"].shape == (8,)
    assert loading.result()["x"].tolist() == list(range(8))


def test_errors(mesh, tmp_path):
    here = NamedSharding(mesh, P())
    with pytest.raises(FileNotFoundError, match="nothing was saved there"):
        load(tmp_path, here)
    with pytest.raises(ValueError, match=r"\['k'\] is of type .*; save xlab.random.key_data"):
        save({"k": xlab.random.key(0)}, tmp_path)
    with pytest.raises(ValueError, match="is of type str"):
        save({"k": "text"}, tmp_path)
    save([jnp.ones((4, 2))], tmp_path)
    with pytest.raises(ValueError, match="overwrite=False"):
        save([jnp.ones(4)], tmp_path, overwrite=False)
    with pytest.raises(ValueError, match="needs a sharding for"):
        load(tmp_path, [None])
    (part,) = (tmp_path / "0").iterdir()
    part.write_bytes(b"short")
    with pytest.raises(ValueError, match="cut short"):
        load(tmp_path, here)
    part.unlink()
    with pytest.raises(FileNotFoundError, match="0 of the 8 elements"):
        load(tmp_path, here)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RuntimeError, match="would be lost"):
        save([jnp.ones(4)], tmp_path)
    assert (tmp_path / "thesis.tex").exists()
