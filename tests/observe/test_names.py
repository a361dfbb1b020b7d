"""Names people know: the line of an equation, whatever other code is equal to its own."""

from xlab.core.source import Source
from xlab.observe import names


class Equation:
    def __init__(self, code):
        self.source = Source(code, 0, "")


def test_equal_code_of_two_cells_keeps_its_own_file():
    text = "def f(x):\n    return x\n"
    first, second = (compile(text, file, "exec").co_consts[0] for file in ("cell one", "cell two"))
    assert first == second, "what a cache by code object cannot tell apart"
    assert [names.source_of(Equation(code)).file for code in (first, second)] == ["cell one", "cell two"]


def test_the_counter_of_a_loop_is_not_what_the_loop_is_assigned_to():
    import numpy as np

    import xlab
    from xlab import lax, observe

    def f(x):
        out = lax.fori_loop(0, 3, lambda i, v: lax.mul(v, np.float32(2)), x)
        return out

    notes = {v.note for e, _ in observe.program(xlab.jit(f), np.float32(1)).walk() for v in e.outputs if v.type.dtype == "i32"}
    assert notes == {""}
