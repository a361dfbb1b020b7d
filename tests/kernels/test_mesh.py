"""Meshes of cores: the protocol, which meshes run together, and memory spaces tied to a mesh."""

from __future__ import annotations

import contextlib
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from xlab.core.effects import debug_effect
from xlab.kernels import (
    ANY,
    CoreMemorySpace,
    CoreMesh,
    KernelMesh,
    MemoryRef,
    MemorySpace,
    create_core_mesh,
)
from xlab.kernels.mesh import IncompatibleByDefault, check_meshes, mesh_of, super_mesh_shape

LOCAL, SHARED = MemorySpace.LOCAL, MemorySpace.SHARED


class Foreign(IncompatibleByDefault):
    """A mesh of somebody else's: the members of the protocol and nothing more."""

    default_memory_space = ANY
    shape = OrderedDict(lane=2)
    core_type = "foreign"
    supported_memory_spaces = ()


def test_k58_anything_with_the_members_is_a_mesh():
    assert isinstance(CoreMesh("c", 2), KernelMesh)
    assert isinstance(Foreign(), KernelMesh)
    assert not isinstance(3, KernelMesh)
    mesh = CoreMesh(("a", "b"), (2, 3), dimension_semantics=["parallel", "arbitrary"])
    assert mesh.default_memory_space is ANY
    assert list(mesh.shape.items()) == [("a", 2), ("b", 3)]
    assert mesh.dimension_semantics == ("parallel", "arbitrary")
    assert mesh.kernel_type is None
    assert not mesh.discharges_effect(debug_effect)
    assert isinstance(mesh.tracing_context(), contextlib.AbstractContextManager)


def test_k58_what_is_no_mesh_is_refused():
    with pytest.raises(TypeError, match=r"expected a mesh of cores .* got 3 of type int"):
        check_meshes([CoreMesh("c", 1), 3])


def test_k59_a_core_mesh_is_frozen_hashable_and_compared_by_value():
    mesh, same = CoreMesh("c", 2), CoreMesh(("c",), (2,))
    assert mesh == same
    assert hash(mesh) == hash(same)
    assert mesh.core_type == "vector"
    assert mesh.num_cores == 2
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    with pytest.raises(AttributeError):
        mesh.sizes = (3,)
    assert mesh != CoreMesh("c", 2, "scalar")


def test_k59_its_representation_makes_it_again():
    for mesh in (CoreMesh("c", 2), CoreMesh(("a", "b"), (2, 3), "scalar", "a", kernel_type="k")):
        assert eval(repr(mesh)) == mesh
    assert repr(CoreMesh("c", 2)) == "CoreMesh(('c',), (2,), 'vector')"
    assert str(CoreMesh("c", 2)) == "CoreMesh(c=2; vector)"


@pytest.mark.parametrize(
    ("names", "sizes", "words"),
    [
        (("a", "b"), (2,), "one size for each axis name"),
        (("a", "a"), (2, 2), "each name once"),
        ("a", 0, "positive int, got 0"),
        ("a", 2.5, "positive int, got 2.5"),
    ],
)
def test_k59_names_and_sizes_go_together(names, sizes, words):
    with pytest.raises(ValueError, match=words):
        CoreMesh(names, sizes)


def test_k59_core_axes_are_axes():
    with pytest.raises(ValueError, match=r"core_axis_names=\('z',\) names 'z'"):
        CoreMesh("a", 2, core_axis_names="z")


def test_k59_create_core_mesh():
    assert create_core_mesh("c", num_cores=3) == CoreMesh("c", 3)
    assert create_core_mesh("c", devices=[0, 1], core_type="scalar") == CoreMesh("c", 2, "scalar")
    assert create_core_mesh("c").num_cores == 1
    with pytest.raises(ValueError, match=r"devices or num_cores, not both.*2 devices.*num_cores=2"):
        create_core_mesh("c", devices=[0, 1], num_cores=2)


def test_k60_equal_meshes_are_compatible():
    check_meshes([CoreMesh("c", 2), CoreMesh("c", 2), CoreMesh("c", 2)])


def test_k60_different_core_types_are_compatible():
    check_meshes(
        [
            CoreMesh("core", 2, "scalar", core_axis_names="core"),
            CoreMesh(("core", "subcore"), (2, 4), "vector", core_axis_names="core"),
        ]
    )
    check_meshes([CoreMesh("p", 1, "scalar"), CoreMesh("q", 2, "vector")])


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (CoreMesh("c", 2), CoreMesh("c", 3), "different core types"),
        (CoreMesh("c", 2), CoreMesh("c", 3, "scalar"), "axis 'c' has size 2 in one and 3"),
        (
            CoreMesh("c", 2, core_axis_names="c"),
            CoreMesh("d", 2, "scalar", core_axis_names="d"),
            "different axes",
        ),
        (CoreMesh("c", 2), Foreign(), "only another CoreMesh"),
        (Foreign(), CoreMesh("c", 2), "no other mesh can run beside it"),
        (Foreign(), Foreign(), "no other mesh can run beside it"),
    ],
)
def test_k60_others_are_not_and_the_message_prints_both(one, other, words):
    with pytest.raises(ValueError, match="not compatible") as e:
        check_meshes([one, other])
    assert words in str(e.value)
    assert str(one) in str(e.value)
    assert str(other) in str(e.value)


def test_k61_the_super_mesh_has_all_axes():
    shape = super_mesh_shape([CoreMesh("core", 2, "scalar"), CoreMesh(("core", "sub"), (2, 16))])
    assert list(shape.items()) == [("core", 2), ("sub", 16)]
    assert super_mesh_shape([]) == {}


def test_k61_meshes_agree_on_the_axes_they_share():
    with pytest.raises(
        ValueError, match=r"axis 'core' has size 2 in mesh .*scalar.* and size 3 in mesh .*vector"
    ):
        super_mesh_shape([CoreMesh("core", 2, "scalar"), CoreMesh("core", 3)])


def test_k22_a_space_tied_to_a_mesh():
    mesh = CoreMesh("c", 2, "scalar")
    space = CoreMemorySpace(LOCAL, mesh)
    assert str(space) == repr(space) == "local@scalar"
    assert space == LOCAL @ mesh
    assert hash(space) == hash(LOCAL @ mesh)
    ref = space((4, 2), np.int32)
    assert isinstance(ref, MemoryRef)
    assert ref.get_array_aval().str_short(short_dtypes=True) == "i32[4,2]"
    assert str(ref.get_ref_aval().memory_space) == "local@scalar"
    assert ref.get_ref_aval().str_short(short_dtypes=True) == "Ref<local@scalar>{i32[4,2]}"
    assert mesh_of(space) is mesh
    assert mesh_of(LOCAL) is None
    assert space.per_core
    assert not (SHARED @ mesh).per_core


def test_k22_the_mesh_has_to_support_the_space():
    mesh = CoreMesh("c", 2, supported_memory_spaces=(LOCAL,))
    with pytest.raises(ValueError, match=r"memory space shared is not supported by mesh CoreMesh"):
        CoreMemorySpace(SHARED, mesh)
    with pytest.raises(ValueError, match="memory space key is not supported by mesh"):
        MemorySpace.KEY @ CoreMesh("c", 2)
