"""Records of programs with symbolic shapes: types say expressions, and what needs a compiled program says why there is none."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import export, observe
from xlab.notebook.views.program import ProgramView

F = np.float32


@pytest.fixture(scope="module")
def symbolic():
    f = xlab.jit(lambda x: (jnp.sin(x[1:]) @ x.T).sum(0) * x.shape[0])
    return f, xlab.ShapeDtypeStruct(export.symbolic_shape("2*a, b"), F)


def test_programs(symbolic):
    record = observe.program(*symbolic)
    assert (
        record.inputs[0].type.shape == ("2*a", "b") and record.inputs[0].type.text == "f32[2*a,b]"
    )
    assert "f32[2*a - 1,b] = slice" in repr(record) and "dim_as_value[dim=2*a]" in repr(record)
    assert type(record).from_json(record.to_json()) == record
    assert "f32[2*a - 1,b]" in str(ProgramView().tree(record))
    assert "f32[2,2*a - 1,b]" in repr(observe.ladder(*symbolic))


@pytest.mark.parametrize("name", ["memory", "transfers", "time", "passes", "trace"])
def test_what_needs_a_compiled_program(symbolic, name):
    with pytest.raises(ValueError, match=r"has symbolic shapes, its arguments being f32\[2\*a,b\]"):
        getattr(observe, name)(*symbolic)
    with pytest.raises(ValueError, match="no one program to compile"):
        symbolic[0].lower(symbolic[1]).compile()


def test_calls_of_exported_programs_are_like_others(symbolic):
    exported = export.export(symbolic[0])(symbolic[1])
    x = np.ones((4, 3), F)
    assert observe.memory(exported.call, x).peak > 0
    assert "call_exported" in repr(observe.program(exported.call, x))
    stepper = observe.Stepper(exported.call, x)
    stepper.run()
    np.testing.assert_allclose(stepper.result(), symbolic[0](x), rtol=1e-6)
