"""Names people know: the line of an equation, whatever other code is equal to its own."""

import linecache

from xlab.core import source_info
from xlab.core.source_info import SourceInfo
from xlab.observe.programs import names


class Equation:
    def __init__(self, code):
        self.source_info = SourceInfo(code, 0, "")


def test_equal_code_of_two_cells_keeps_its_own_file():
    text = "def f(x):\n    return x\n"
    first, second = (compile(text, file, "exec").co_consts[0] for file in ("cell one", "cell two"))
    assert first == second, "what a cache by code object cannot tell apart"
    assert [names.source_of(Equation(code)).file for code in (first, second)] == [
        "cell one",
        "cell two",
    ]


def test_a_cell_that_is_run_again_has_its_new_number(monkeypatch):
    """The same text is the same file and an equal code object, and the lines of a program go by what the file is called."""
    text = "def f(x):\n    return x\n"
    for number in (1, 7):
        monkeypatch.setitem(source_info.shown_names, "the cell", f"In[{number}]")
        equation = Equation(compile(text, "the cell", "exec").co_consts[0])
        monkeypatch.setitem(
            linecache.cache, "the cell", (len(text), None, text.splitlines(True), "the cell")
        )
        (listing,) = names.listings([equation])
        assert names.source_of(equation).file == listing.file == f"In[{number}]"


def test_the_counter_of_a_loop_is_not_what_the_loop_is_assigned_to():
    import numpy as np

    import xlab
    from xlab import lax, observe

    def f(x):
        out = lax.fori_loop(0, 3, lambda i, v: lax.mul(v, np.float32(2)), x)
        return out

    notes = {
        v.note
        for e, _ in observe.program(xlab.jit(f), np.float32(1)).walk()
        for v in e.outputs
        if v.type.dtype == "i32"
    }
    assert notes == {""}


def square(x):
    from xlab import lax

    return lax.mul(x, x)


def pairs(x):
    from xlab import lax

    a, b = lax.sin(x), lax.cos(x)
    (c, d), e = (lax.exp(a), lax.log(b)), [lax.neg(a)][0]
    u, v = square(c), square(d)
    return u, v, e


def notes(f, *args):
    from xlab import observe

    return [(e.primitive, v.note) for e, _ in observe.program(f, *args).walk() for v in e.outputs]


def test_values_that_go_into_a_tuple_and_results_have_their_names():
    import numpy as np

    import xlab

    expected = [
        ("sin", "a"),
        ("cos", "b"),
        ("exp", "c"),
        ("log", "d"),
        ("neg", "e"),
        ("mul", "u"),
        ("mul", "v"),
    ]
    assert notes(pairs, np.float32(1)) == expected
    assert notes(xlab.jit(pairs), np.float32(1)) == expected


def test_a_gradient_is_not_called_what_the_function_returns():
    import numpy as np

    import xlab
    from xlab import lax

    def loss(x):
        lost = square(lax.sin(x))
        return lost

    assert [n for _, n in notes(loss, np.float32(1))][-1] == "lost"
    for f in (
        xlab.grad(loss),
        xlab.jit(xlab.grad(loss)),
        xlab.grad(xlab.jit(loss)),
        xlab.value_and_grad(loss),
    ):
        assert [n for p, n in notes(f, np.float32(1)) if n] == []


def test_two_returns_and_nested_functions_name_nothing():
    import numpy as np

    from xlab import lax

    def either(x, way=True):
        if way:
            first = square(x)
            return first
        second = lax.neg(x)
        return second

    def outer(x):
        def inner(y):
            wrong = square(y)
            return wrong

        return inner(x)

    assert notes(either, np.float32(1)) == notes(outer, np.float32(1)) == [("mul", "")]


def test_what_is_made_of_a_jitted_function_is_not_that_function():
    """The methods of a jitted function stand in its `__dict__`, which wrapping copies."""
    import functools

    import numpy as np

    import xlab
    from xlab import lax

    f = xlab.jit(lambda x: lax.sin(x))

    @functools.wraps(f)
    def negative(x):
        return lax.neg(f(x))

    assert [p for p, _ in notes(negative, np.float32(1))][-1] == "neg"
    for made in (
        xlab.grad(f),
        xlab.value_and_grad(f),
        xlab.vmap(f),
        xlab.jacfwd(f),
        xlab.checkpoint(f),
    ):
        assert not any(
            hasattr(made, name) for name in ("lower", "trace", "eval_shape", "clear_cache")
        )
        assert made.__wrapped__ is f
    assert "cos" in [p for p, _ in notes(xlab.grad(f), np.float32(1))]
    assert "cos" in str(xlab.jit(xlab.grad(f)).trace(np.float32(1)).jaxpr)


def test_lines_of_the_shell_are_nobodys(shell):
    from xlab.observe.records import Program

    shell.run_line_magic("load_ext", "xlab")
    shell.run_cell("""import xlab, numpy as np
from xlab import lax
from xlab.sharding import AxisType, PartitionSpec as P
mesh = xlab.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
mapped = xlab.shard_map(lambda x: lax.psum(lax.mul(x, x), "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
x = np.ones(8, np.float32)""").raise_error()
    shell.run_cell("%xjit mapped(x)").raise_error()
    from xlab.notebook import recording

    (program,) = [p for p in recording.last.programs if isinstance(p, Program)]
    files = {listing.file for listing in program.sources}
    assert any(e.primitive == "shard_map" for e, _ in program.walk())
    assert files and all("IPython" not in f and "interactiveshell" not in f for f in files), files


def test_lines_with_magics_are_shown_as_they_were_typed():
    made = "get_ipython().run_line_magic('xstep', 'f(x)')"
    assert names.as_typed(made) == "%xstep f(x)"
    for line in (f"# {made[:-1]}", "get_ipython().run_line_magic(f, x)", "y = 1"):
        assert names.as_typed(line) == line


def test_results_of_loops_go_by_the_variables_they_are_unpacked_into():
    import numpy as np

    import xlab
    from xlab import lax, observe

    def f(x, n):
        (a, b), ys = lax.scan(lambda c, _: ((c[0], lax.sin(c[1])), c[1]), (x, x), None, length=3)
        out = lax.fori_loop(0, 3, lambda i, v: lax.sin(v), a)
        p, q = lax.fori_loop(0, n, lambda i, v: (lax.sin(v[1]), v[0]), (b, out))
        both = lax.fori_loop(0, 3, lambda i, v: (v[1], v[0]), (p, q))
        return lax.add(both[0], lax.add(both[1], lax.reduce_sum(ys, (0,))))

    program = observe.program(xlab.jit(f), np.float32(1), 3)
    loops = [tuple(v.note for v in e.outputs) for e in program.equations if len(e.outputs) > 1]
    assert loops == [("a", "b", "ys"), ("", "out"), ("", "", "p", "q"), ("", "", "")], (
        "several values under one name are none of them"
    )
    assert ":f32[] (out) = scan[" in observe.text(program)
