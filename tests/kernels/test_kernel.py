"""The decorator `kernel` (K57): with a mesh an `mpmd_map`, without one a `kernel_call`."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.kernels import (
    BlockSpec,
    CoreMesh,
    GridSpec,
    MemorySpace,
    kernel,
    kernel_call_p,
    mpmd_map_p,
    program_id,
)

S = xlab.ShapeDtypeStruct
F8 = S((8,), "float32")
TWO = CoreMesh("c", 2)
X = np.arange(8, dtype=np.float32)


def add_one(x, o):
    o[...] = x[...] + 1


def primitive(f, *args):
    (eqn,) = xlab.make_jaxpr(f)(*args).eqns
    return eqn.primitive


def test_k57_with_a_mesh_it_is_an_mpmd_map():
    f = kernel(add_one, F8, mesh=TWO, interpret=True)
    assert primitive(f, X) is mpmd_map_p
    np.testing.assert_array_equal(f(X), X + 1)
    assert f.__name__ == "add_one"


def test_k57_without_one_it_is_a_kernel_call():
    block = BlockSpec((4,), lambda i: (i,))

    def body(x, o, s):
        s[0] = program_id(0)
        o[...] = x[...] + s[0].astype("float32")

    options = {"scratch_shapes": [MemorySpace.LOCAL((1,), "int32")]}
    f = kernel(body, F8, grid=2, in_specs=[block], out_specs=block, interpret=True, **options)
    assert primitive(f, X) is kernel_call_p
    want = X + np.repeat([0, 1], 4)
    np.testing.assert_array_equal(f(X), want)
    spec = GridSpec(2, [block], block, options["scratch_shapes"])
    np.testing.assert_array_equal(kernel(body, F8, grid_spec=spec, interpret=True)(X), want)


@pytest.mark.parametrize("out", ["out_shape", "out_type"])
@pytest.mark.parametrize("scratch", ["scratch_shapes", "scratch_types"])
@pytest.mark.parametrize("mesh", [TWO, None])
def test_k57_as_a_decorator_with_both_spellings(out, scratch, mesh):
    @kernel(
        **{out: F8, scratch: {"s": MemorySpace.LOCAL((8,), "float32")}}, mesh=mesh, interpret=True
    )
    def twice(x, o, *, s):
        """Doubles."""
        s[...] = x[...] * 2
        o[...] = s[...]

    np.testing.assert_array_equal(twice(X), X * 2)
    assert twice.__doc__ == "Doubles."


@pytest.mark.parametrize(
    "both", [{"out_shape": F8, "out_type": F8}, {"scratch_shapes": (), "scratch_types": ()}]
)
def test_k57_one_spelling_at_a_time(both):
    with pytest.raises(TypeError, match="two names of one argument"):
        kernel(add_one, mesh=TWO, **both)


def test_k57_several_kernels_for_as_many_meshes():
    other = CoreMesh("d", 3, "scalar")

    def one(o):
        o[lax.axis_index("c")] = 1

    def two(o):
        o[2 + lax.axis_index("d")] = 2

    f = kernel([one, two], S((5,), "int32"), mesh=[TWO, other], interpret=True)
    assert f().tolist() == [1, 1, 2, 2, 2]
    with pytest.raises(
        ValueError, match="body and mesh sequences must have the same length.*2 kernels and 1"
    ):
        kernel([one, two], S((5,), "int32"), mesh=[TWO])
    with pytest.raises(ValueError, match="same length.*one mesh"):
        kernel([one], S((5,), "int32"), mesh=TWO)
    with pytest.raises(
        ValueError, match="mesh cannot be a sequence when body is a single callable"
    ):
        kernel(one, S((5,), "int32"), mesh=[TWO])
    with pytest.raises(ValueError, match="without meshes"):
        kernel([one], S((5,), "int32"))


@pytest.mark.parametrize(
    "option",
    [
        {"grid": 2},
        {"grid_spec": GridSpec(2)},
        {"in_specs": [BlockSpec()]},
        {"out_specs": BlockSpec()},
    ],
)
def test_k57_a_mesh_has_its_own_grid(option):
    with pytest.raises(ValueError, match=f"kernel got mesh and {next(iter(option))}"):
        kernel(add_one, F8, mesh=TWO, **option)


def test_k57_options_reach_both():
    for mesh in (TWO, None):
        f = kernel(add_one, F8, mesh=mesh, interpret=True, name="mine", metadata={"a": "b"}, input_output_aliases={0: 0})  # fmt: skip
        (eqn,) = xlab.make_jaxpr(f)(X).eqns
        assert eqn.params["name"] == "mine"
        assert eqn.params["metadata"] == (("a", "b"),)
        assert eqn.params["input_output_aliases"] == ((0, 0),)


@pytest.mark.reference
def test_k103_as_the_reference():
    jax = pytest.importorskip("jax")
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu

    theirs = tpu.create_tensorcore_mesh("c", num_cores=2)

    def rows(kernel, mesh, out):
        yield lambda: kernel(add_one, out, mesh=mesh, interpret=True)(X)
        yield lambda: kernel(add_one, (out,), mesh=mesh, interpret=True)(X)
        yield lambda: kernel(out_type=out, mesh=mesh, interpret=True)(add_one)(X)
        yield lambda: kernel([add_one], out, mesh=[mesh], interpret=True)(X)
        yield lambda: kernel(add_one, out, mesh=[mesh], interpret=True)(X)
        yield lambda: kernel([add_one] * 2, out, mesh=[mesh], interpret=True)(X)
        yield lambda: kernel(add_one, out, mesh=mesh)(X)

    def outcome(row):
        try:
            return xlab.tree.leaves(xlab.tree.map(np.asarray, row()))
        except Exception as e:
            return type(e)

    want = map(outcome, rows(pl.kernel, theirs, jax.ShapeDtypeStruct((8,), "float32")))
    got = map(outcome, rows(kernel, TWO, F8))
    for w, g in zip(want, got):
        if isinstance(w, type):
            assert g is w
        else:
            np.testing.assert_array_equal(g, w)
