import itertools
import math
import pickle

import numpy as np
import pytest

from tests.backend import toys
from xlab.backend import client
from xlab.config import config
from xlab.errors import IndivisibleError
from xlab.sharding import (
    AbstractMesh,
    AxisType,
    Format,
    GSPMDSharding,
    Layout,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    from_hlo_sharding,
    from_native,
    get_abstract_mesh,
    get_mesh,
    make_mesh,
    set_mesh,
    use_abstract_mesh,
)

DEVICES = np.array(client.devices()[:8])
MESHES = [
    Mesh(DEVICES.reshape(4, 2), ("x", "y")),
    Mesh(DEVICES.reshape(2, 2, 2), ("x", "y", "z")),
    Mesh(DEVICES[::-1].reshape(2, 4), ("x", "y")),
    Mesh(DEVICES[[3, 1, 0, 2]].reshape(4, 1), ("x", "y")),
]


def specs(mesh, ndim):
    entries = [None, *mesh.axis_names, *itertools.permutations(mesh.axis_names, 2)]
    for choice in itertools.product(entries, repeat=ndim):
        used = [a for e in choice if e for a in (e if isinstance(e, tuple) else (e,))]
        if len(set(used)) == len(used):
            yield P(*choice)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_slices_agree_with_the_compilers_tiling(mesh):
    """Indices are computed from the spec; the tiling's own assignment must say the same."""
    shape = (16, 32)
    for spec in specs(mesh, 2):
        sharding = NamedSharding(mesh, spec)
        tiling = sharding.to_hlo_sharding(2)
        assert GSPMDSharding(sharding.devices_in_order, tiling).devices_indices_map(
            shape
        ) == sharding.devices_indices_map(shape), spec
        found = from_hlo_sharding(tiling, mesh, 2)
        assert NamedSharding(mesh, found).is_equivalent_to(sharding, 2), (spec, found)
        cover = np.zeros(shape, int)
        for index in sharding.devices_indices_map(shape).values():
            assert cover[index].shape == sharding.shard_shape(shape)
            cover[index] += 1
        assert (
            cover == mesh.size * math.prod(sharding.shard_shape(shape)) // math.prod(shape)
        ).all()


def test_values_put_and_read_back():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    for spec in (P("x", "y"), P("y", "x"), P(("y", "x")), P(None, "x"), P()):
        array = toys.put(x, NamedSharding(MESHES[0], spec))
        np.testing.assert_array_equal(toys.gather(array), x)
        assert from_native(array._sharding).spec == spec


def test_equality_hash_and_identity():
    mesh = Mesh(DEVICES.reshape(4, 2), ("x", "y"))
    assert mesh is MESHES[0]
    assert mesh != MESHES[2]
    a = NamedSharding(mesh, P("x"))
    assert a is NamedSharding(mesh, P("x"), "device")
    assert hash(a) == hash(NamedSharding(mesh, P(("x",))))
    assert a != NamedSharding(mesh, P("x", None))
    assert a.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2)
    assert a != NamedSharding(mesh, P("x"), "pinned_host")
    assert SingleDeviceSharding(DEVICES[0]) is SingleDeviceSharding(DEVICES[0])
    one = NamedSharding(Mesh(DEVICES[:1], ("x",)), P("x"))
    assert one.is_equivalent_to(SingleDeviceSharding(DEVICES[0]), 1)
    assert one.is_fully_replicated
    for value in (
        mesh,
        a,
        P("x", unreduced={"y"}),
        SingleDeviceSharding(DEVICES[1]),
        AbstractMesh((2,), ("x",)),
    ):
        assert pickle.loads(pickle.dumps(value)) == value
    assert a.native == NamedSharding(mesh, P("x")).native
    assert a.native != NamedSharding(mesh, P("y")).native


def test_specs():
    assert repr(P("x", None, ("y", "z"))) == "P('x', None, ('y', 'z'))"
    assert not isinstance(P(), tuple)
    assert P(("x",), (), ["y", "z"]) == P("x", None, ("y", "z"))
    assert P("x") != P("x", None)
    assert P("x") != ("x",)
    assert P("x") + P("y") == P("x", "y") == P("x") + ("y",)
    assert list(P("x", "y")) == ["x", "y"]
    assert P("x", "y")[1:] == ("y",)
    assert len(P("x")) == 1
    assert repr(P("x", unreduced={"y"}, reduced={"z"})) == "P('x', unreduced={'y'}, reduced={'z'})"
    with pytest.raises(ValueError, match="cannot contain None"):
        P(unreduced={None})
    with pytest.raises(ValueError, match="cannot overlap"):
        P("x", unreduced={"x"})
    with pytest.raises(TypeError, match="set of mesh axes"):
        P(unreduced="x")
    with pytest.raises(AttributeError, match="immutable"):
        P("x").partitions = ()


def test_shardy_text_and_tilings():
    mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    assert (
        NamedSharding(mesh, P(("y", "x"), P.UNCONSTRAINED)).sdy(3, "m")
        == '#sdy.sharding<@m, [{"y", "x"}, {?}, {}]>'
    )
    assert (
        NamedSharding(mesh, P("x", unreduced={"y"})).sdy(1)
        == '#sdy.sharding<@mesh, [{"x"}], unreduced={"y"}>'
    )
    expected = {
        P("x", "y"): "{devices=[4,2]<=[8]}",
        P("y"): "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        P(): "{replicated}",
        P(("y", "x")): "{devices=[8,1]<=[4,2]T(1,0)}",
    }
    for spec, text in expected.items():
        assert str(NamedSharding(mesh, spec).to_hlo_sharding(2)) == text
    manual = mesh.update_axis_types({"x": AxisType.Manual})
    assert "manual" in str(NamedSharding(manual, P(None, "y")).to_hlo_sharding(2))
    assert manual.manual_axes == ("x",)
    assert manual.explicit_axes == ("y",)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda m: NamedSharding(m, P("q")), ValueError, "'x', 'y'"),
        (lambda m: NamedSharding(m, P("x", "x")), ValueError, "duplicate entries for `x`"),
        (lambda m: NamedSharding(m, ("x",)), TypeError, r"Write P\('x',\)"),
        (lambda m: NamedSharding(m, P(unreduced={"x"})), ValueError, "Explicit"),
        (lambda m: NamedSharding(m, P("x"), "disk"), ValueError, "pinned_host"),
        (lambda m: NamedSharding(m, P("x", "y")).shard_shape((8,)), ValueError, "rank at least 2"),
        (
            lambda m: NamedSharding(AbstractMesh((2,), ("x",)), P("x")).native,
            ValueError,
            "abstract",
        ),
        (lambda m: Mesh(DEVICES, ("x", "y")), ValueError, "ndim"),
        (lambda m: Mesh(DEVICES[:2].reshape(2, 1), ("x", "x")), ValueError, "differ"),
        (lambda m: Mesh(DEVICES[[0, 0]], ("x",)), ValueError, "twice"),
        (lambda m: Mesh([1, 2], ("x",)), TypeError, "made of devices"),
        (lambda m: make_mesh((4, 4), ("x", "y")), ValueError, "XLAB_NUM_CPU_DEVICES=16"),
        (lambda m: make_mesh((0,), ("x",)), ValueError, "at least size 1"),
        (lambda m: AbstractMesh((2, 2), ("x",)), ValueError, "size for each"),
        (lambda m: set_mesh("x"), ValueError, "expects a Mesh"),
        (lambda m: AbstractMesh((2,), ("x",)).devices, ValueError, "no devices"),
        (lambda m: Format(Layout((0, 1)), None), ValueError, "needs a sharding"),
        (lambda m: Layout((0, 2)), ValueError, "order of all dimensions"),
    ],
)
def test_mistakes_are_explained(make, error, words):
    with pytest.raises(error, match=words):
        make(MESHES[0])


def test_uneven_parts_say_what_to_try():
    with pytest.raises(IndivisibleError) as caught:
        NamedSharding(MESHES[0], P("x", "y")).shard_shape((6, 4))
    text = str(caught.value)
    for words in (
        "axis 0",
        "4 times",
        "'x' of size 4",
        "size is 6",
        "('y')",
        "pad the dimension to 8",
    ):
        assert words in text


def test_current_mesh():
    outside = config.trace_context()
    with set_mesh(MESHES[0]):
        assert get_mesh() is MESHES[0]
        assert get_abstract_mesh() is MESHES[0].abstract_mesh
        assert config.trace_context() != outside
        with use_abstract_mesh(AbstractMesh((2,), ("q",))):
            assert get_abstract_mesh().axis_names == ("q",)
            assert get_mesh() is MESHES[0]
    assert get_mesh().empty
    assert get_abstract_mesh().empty
    assert config.trace_context() == outside
    with MESHES[0], MESHES[1]:
        assert get_mesh() is MESHES[1]
    assert get_mesh().empty
    setter = set_mesh(MESHES[0])
    assert get_mesh() is MESHES[0]
    setter.__exit__()
    assert get_mesh().empty


def test_mesh_words():
    mesh = MESHES[0]
    assert str(mesh) == "Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"
    assert repr(mesh) == "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert make_mesh((4, 2), ("x", "y")).axis_types == (AxisType.Explicit,) * 2
    assert dict(mesh.shape) == {"x": 4, "y": 2}
    assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.local_mesh is mesh
    assert not mesh.is_multi_process
    assert len(mesh.local_devices) == 8
    assert (
        repr(NamedSharding(mesh, P("x")))
        == f"NamedSharding(mesh={mesh!s}, spec=P('x',), memory_kind=device)"
    )
