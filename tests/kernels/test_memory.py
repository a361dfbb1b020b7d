"""Memory spaces, and the types of what lives in them."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab.core.avals import ShapedArray
from xlab.core.refs import AbstractRef
from xlab.kernels import ANY, HOST, BlockSpec, MemoryRef, MemorySpace, kernel_call
from xlab.kernels.memory import as_ref_aval

SPACES = ["any", "default", "error", "index", "key", "host", "shared", "local", "semaphore"]
F23 = ShapedArray((2, 3), np.dtype("float32"))


def test_k21_the_spaces_and_what_they_print():
    assert [str(s) for s in MemorySpace] == SPACES == [repr(s) for s in MemorySpace]
    assert MemorySpace("any") is ANY and MemorySpace("host") is HOST
    assert [s for s in MemorySpace if s.per_core] == [MemorySpace.DEFAULT, MemorySpace.LOCAL]


@pytest.mark.parametrize("space", MemorySpace)
def test_k21_a_space_makes_types(space):
    ref = space((2, 3), "float32")
    assert isinstance(ref, MemoryRef)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size) == ((2, 3), np.float32, 2, 6)
    assert ref.get_array_aval() is F23 and ref.get_ref_aval() is AbstractRef(F23, space)
    assert str(ref.get_ref_aval()) == f"Ref<{space}>{{float32[2,3]}}"
    assert repr(ref) == f"MemoryRef(float32[2,3], {space})"


def test_k21_types_are_compared_and_put_in_order():
    a, b, c = ANY((2,), "float32"), ANY((2,), "int32"), ANY((3,), "float32")
    d = HOST((2,), "float32")
    assert a == ANY([2], np.float32) and len({a, ANY((2,), "float32"), b, c, d}) == 4
    assert sorted([c, d, b, a]) == [a, d, b, c]
    assert a != 3
    with pytest.raises(TypeError):
        _ = a < 3


def test_k21_what_asks_for_a_reference():
    ref = AbstractRef(F23, ANY)
    assert as_ref_aval(ref, HOST) is ref and as_ref_aval(ANY((2, 3), "float32"), HOST) is ref
    assert as_ref_aval(F23, HOST) is AbstractRef(F23, HOST)
    assert as_ref_aval(xlab.ShapeDtypeStruct((2, 3), "float32")) is AbstractRef(F23)
    assert as_ref_aval(np.zeros((2, 3), np.float32), ANY) is ref
    with pytest.raises(ValueError, match="expected the type of an array .*, got 3 of type int"):
        as_ref_aval(3)


def test_k21_a_reference_keeps_its_space():
    def kernel(x, o, s):
        assert [r.aval.memory_space for r in (x, o, s)] == [ANY, HOST, MemorySpace.LOCAL]
        s[...] = x[...]
        o[...] = s[...] + 1

    call = kernel_call(
        kernel,
        xlab.ShapeDtypeStruct((2,), "int32"),
        in_specs=[BlockSpec(memory_space=ANY)],
        out_specs=BlockSpec(memory_space=HOST),
        scratch_shapes=[MemorySpace.LOCAL((2,), "int32")],
        interpret=True,
    )
    assert call(np.arange(2, dtype=np.int32)).tolist() == [1, 2]


def test_k23_compiled_programs_keep_all_spaces_in_ordinary_memory():
    def kernel(o, *scratch):
        for k, s in enumerate(scratch):
            s[...] = xlab.numpy.full((2,), k, "int32")
        o[...] = sum(s[...] for s in scratch)

    spaces = [s for s in MemorySpace if s is not MemorySpace.SEMAPHORE]
    call = kernel_call(
        kernel,
        xlab.ShapeDtypeStruct((2,), "int32"),
        scratch_shapes=[s((2,), "int32") for s in spaces],
        interpret=True,
    )
    assert call().tolist() == [sum(range(len(spaces)))] * 2
    assert "memory_space" not in xlab.jit(call).lower().as_text()
