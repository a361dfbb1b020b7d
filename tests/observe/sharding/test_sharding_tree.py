"""Pytrees on devices: the structure, bytes that agree with the shards, equal layers as one, what is refused."""

import numpy as np
import pytest

import xlab
from xlab import ShapeDtypeStruct, observe
from xlab.observe.records import Record
from xlab.observe.records.sharding_tree import rows
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P


@pytest.fixture
def params(mesh):
    def put(shape, *spec):
        return xlab.device_put(np.ones(shape, np.float32), NamedSharding(mesh, P(*spec)))

    layers = [{"wq": put((8, 8), None, "model"), "b": put((8,))} for _ in range(3)]
    return {"layers": layers, "emb": put((16, 8), "data"), "step": xlab.numpy.float32(0), "rate": 3}


def test_bytes_are_those_of_the_shards(params):
    made = observe.sharding_tree(params, name="params")
    held = {d.id: 0 for d in xlab.devices()}
    for leaf in xlab.tree.leaves(params):
        for shard in getattr(leaf, "addressable_shards", ()):
            held[shard.device.id] += shard.data.nbytes
    assert dict(made.devices) == held and made.uneven
    assert [leaf.bytes_total for leaf in made.leaves if leaf.path == ("emb",)] == [16 * 8 * 4]
    assert Record.from_json(made.to_json()) == made


def test_layers_that_are_alike_are_one_line(params):
    found = [
        (r.depth, r.label, r.times, r.leaf.type if r.leaf else "", r.bytes_per_device)
        for r in rows(observe.sharding_tree(params))
    ]
    assert found == [
        (0, "emb", 1, "f32[16@data,8]", 128),
        (0, "layers", 1, "", 3 * (128 + 32)),
        (1, "[0] … [2]", 3, "", 3 * (128 + 32)),
        (2, "b", 1, "f32[8]", 32),
        (2, "wq", 1, "f32[8,8@model]", 128),
        (0, "rate", 1, "int", 0),
        (0, "step", 1, "f32[]", 4),
    ]
    params["layers"][1]["b"] = params["layers"][1]["b"].astype("bfloat16")
    labels = [r.label for r in rows(observe.sharding_tree(params))]
    assert "[0]" in labels and "[1]" in labels and "[0] … [2]" not in labels


def test_copies_are_counted(params):
    made = observe.sharding_tree({"b": params["layers"][0]["b"]})
    assert made.leaves[0].copies == 8 and made.repeated == 7 * 32
    assert "copies take 224 B more" in repr(made)


def test_shapes_and_specs_without_arrays(mesh):
    sharding = NamedSharding(mesh, P("data"))
    shapes = observe.sharding_tree({"x": ShapeDtypeStruct((8, 4), np.float32, sharding=sharding)})
    assert shapes.leaves[0].type == "f32[8@data,4]" and shapes.leaves[0].bytes_per_device == 32
    specs = observe.sharding_tree({"x": P("data", None), "y": [sharding]}, name="specs")
    assert [leaf.sharding for leaf in specs.leaves] == ["P('data', None)", "P('data',)"]
    assert [leaf.path for leaf in specs.leaves] == [("x",), ("y", "[0]")]
    assert repr(specs).startswith("specs: 2 leaves")


def test_what_lies_nowhere_is_refused():
    with pytest.raises(TypeError, match="none of which lies on a device"):
        observe.sharding_tree({"x": np.ones(3), "n": 3})
