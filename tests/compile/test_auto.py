"""Shardings that the compiler chooses: `AUTO(mesh)`, and specs with dimensions left open."""

import pickle

import numpy as np
import pytest

import xlab
from xlab.experimental.pjit import AUTO
from xlab.sharding import Mesh, NamedSharding
from xlab.sharding import PartitionSpec as P

A = np.arange(64, dtype=np.float32).reshape(8, 8)
OPEN = P.UNCONSTRAINED


@pytest.fixture
def mesh():
    return Mesh(np.array(xlab.devices()).reshape(4, 2), ("x", "y"))


def test_X61_choices_are_named_on_the_mesh(mesh):
    rows, auto = NamedSharding(mesh, P("x", "y")), AUTO(mesh)
    f = xlab.jit(lambda p, q, r: p @ q, in_shardings=(rows, auto, auto), out_shardings=auto)
    compiled = f.lower(*[xlab.ShapeDtypeStruct(A.shape, A.dtype)] * 3).compile()
    (p, q, r), _ = compiled.input_shardings
    assert (p, q, r) == (rows, NamedSharding(mesh, P("y")), NamedSharding(mesh, P()))
    assert compiled.output_shardings == NamedSharding(mesh, P("x"))
    assert len(compiled._executable.kept) == 3
    for run in (compiled, f, f):
        np.testing.assert_array_equal(run(A, A, A), A @ A)


def test_committed_arguments_stay_as_they_are(mesh):
    columns = xlab.device_put(A, NamedSharding(mesh, P(None, "y")))
    for asked in (AUTO(mesh), NamedSharding(mesh, P(OPEN, "y"))):
        f = xlab.jit(lambda p: p * 2, in_shardings=asked)
        compiled = f.lower(columns).compile()
        assert compiled.input_shardings[0][0].is_equivalent_to(columns.sharding, 2)
        np.testing.assert_array_equal(f(columns), 2 * A)


def test_open_dimensions_of_arguments_and_results(mesh):
    f = xlab.jit(lambda a: a.T, out_shardings=NamedSharding(mesh, P(OPEN, "x")))
    out = f(xlab.device_put(A, NamedSharding(mesh, P("x", "y"))))
    assert out.sharding.spec == P("y", "x")
    np.testing.assert_array_equal(out, A.T)
    with pytest.raises(ValueError, match="in_shardings asks for"):
        xlab.jit(lambda p: p, in_shardings=NamedSharding(mesh, P(OPEN, "y")))(
            xlab.device_put(A, NamedSharding(mesh, P("y", "x")))
        )


def test_mistakes(mesh):
    other = Mesh(np.array(xlab.devices()), ("i",))
    with pytest.raises(ValueError, match="AUTO shardings on different meshes"):
        xlab.jit(lambda p: p, in_shardings=AUTO(mesh), out_shardings=AUTO(other))(A)
    with pytest.raises(TypeError, match="AUTO takes a mesh of devices, got 3"):
        AUTO(3)
    assert pickle.loads(pickle.dumps(AUTO(mesh))) == AUTO(mesh) != AUTO(other)
    assert repr(AUTO(other)) == "AUTO(Mesh('i': 8, axis_types=(Auto,)))"
    assert xlab.jit(lambda x: x + 1, in_shardings=AUTO(mesh))(1.0) == 2
