"""A cell as a function: names in, names out, everything else as in an ordinary cell."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.core.trace import is_tracer
from xlab.notebook.cell import Cell, is_array, write_back
from xlab.notebook.free_variables import reads_of
from xlab.observe.programs.values_read import token


@pytest.fixture
def space():
    ones = np.ones(3, np.float32)
    return {
        "__name__": "__main__",
        "lax": lax,
        "x": ones,
        "p": {"w": ones, "layers": 2},
        "seen": [],
        "k": 3,
    }


def run(source, space, **options):
    cell = Cell(source, space, **options)
    return cell.commit(xlab.jit(cell.function())(*cell.arguments()))


def test_reads_hold_arrays_and_writes_come_back(space):
    cell = Cell("y = lax.sin(x)\nz = lax.add(y, p['w'])", space)
    assert cell.reads == ("x", "p")
    cell.commit(xlab.jit(cell.function())(*cell.arguments()))
    np.testing.assert_allclose(space["z"], np.sin(1) + np.ones(3), rtol=1e-6)
    assert not is_tracer(space["y"])


def test_last_expression_is_returned_and_a_semicolon_silences_it(space):
    assert run("lax.add(x, x)", space).tolist() == [2, 2, 2]
    assert run("lax.add(x, x);", space) is None
    assert run("'a word'", space) == "a word"


def test_imports_defs_and_python_values_are_kept(space):
    run("import math\nn = k * 2\ndef twice(a): return lax.add(a, a)\ny = twice(x)", space)
    assert space["math"].pi > 3
    assert space["n"] == 6
    assert space["twice"](space["x"]).tolist() == [2, 2, 2]


def test_a_function_defined_in_the_cell_sees_the_notebook_afterwards(space):
    run("y = lax.sin(x)\ndef later(): return y", space)
    assert not is_tracer(space["later"]())


def test_names_read_through_functions_are_inputs(space):
    exec("def g(a): return lax.add(a, w)\nw = x", space)
    cell = Cell("y = g(x)", space)
    assert set(cell.reads) == {"x", "w"}


def test_names_assigned_first_are_no_inputs(space):
    assert Cell("x = lax.full((2,), 1.0)\ny = lax.sin(x)", space).reads == ()


def test_changed_containers_are_outputs_in_place(space):
    alias, seen = space["p"], space["seen"]
    run("p['w'] = lax.add(p['w'], x)\nseen.append(lax.sin(x))", space)
    assert space["p"] is alias and space["seen"] is seen
    assert alias["w"].tolist() == [2, 2, 2] and alias["layers"] == 2
    assert len(seen) == 1 and not is_tracer(seen[0])


def test_unchanged_containers_are_left_alone(space):
    before = space["p"]["w"]
    run("y = lax.sin(p['w'])", space)
    assert space["p"]["w"] is before


def test_deleted_names_are_deleted(space):
    run("y = lax.sin(x)\ndel k", space)
    assert "k" not in space


def test_an_error_leaves_everything_as_it_was(space):
    before = dict(space)
    with pytest.raises(ZeroDivisionError):
        run("x = lax.sin(x)\np['w'] = x\nseen.append(x)\nnew = 1\n1 / 0", space)
    assert {k: v for k, v in space.items() if k != "__builtins__"} == before
    assert space["seen"] == [] and type(space["p"]["w"]) is np.ndarray


def test_the_same_cell_is_the_same_function(space):
    source = "y = lax.mul(x, np32(k))"
    space["np32"] = np.float32
    one, two = Cell(source, space), Cell(source, space)
    assert one.function() is two.function()
    space["k"] = 4
    assert Cell(source, space).function() is not one.function()
    assert run(source, space) is None and space["y"].tolist() == [4, 4, 4]


def test_a_changed_list_of_numbers_is_not_stale(space):
    space["factors"] = [1.0]
    source = "y = lax.mul(x, lax.full((3,), factors[0]))"
    run(source, space)
    space["factors"][0] = 5.0
    run(source, space)
    assert space["y"].tolist() == [5, 5, 5]


def test_static_names_are_python_values(space):
    space["flag"] = np.array(True)
    run("if flag:\n    y = lax.neg(x)", space, static=("flag",))
    assert space["y"].tolist() == [-1, -1, -1]
    with pytest.raises(NameError, match="does not read 'other'"):
        Cell("y = x", space, static=("other",))


def test_named_outputs_come_first(space):
    cell = Cell("y = lax.sin(x)\nz = lax.cos(x)", space, named=("z",))
    named, outcome = xlab.jit(cell.function())(*cell.arguments())
    assert len(named) == 1 and set(outcome.values) == {"y"}
    cell.commit((named, outcome))
    assert {"y", "z"} <= space.keys()
    with pytest.raises(NameError, match="does not assign"):
        run("y = lax.sin(x)", space, named=("q",))


def test_a_warning_is_shown_and_is_no_output(space):
    with pytest.warns(RuntimeWarning, match="invalid value"):
        run("import numpy as np\nk = np.log(-1.0)\ny = lax.sin(x)", space)
    assert np.isnan(space["k"])
    assert "__warningregistry__" not in space


def test_a_dict_whose_keys_have_no_order_stays_as_it_is_and_holds_no_traced_value(space):
    run("d = [{1: 2, 'b': 3}]\ny = lax.sin(x)", space)
    assert space["d"] == [{1: 2, "b": 3}]
    with pytest.raises(TypeError, match=r"d\[0\]\['b'\].*keys of this dict have no order"):
        run("d = [{1: 2, 'b': lax.sin(x)}]", space)
    assert space["d"] == [{1: 2, "b": 3}]


def test_a_traced_value_inside_an_object_is_refused(space):
    with pytest.raises(TypeError, match=r"m\.w.*register_pytree_node_class"):
        run("class M: pass\nm = M()\nm.w = lax.sin(x)", space)
    assert "m" not in space


def test_running_often_keeps_no_array_alive(space):
    import gc
    import weakref

    for i in range(20):
        space["x"] = xlab.device_put(np.full(3, i, np.float32))
        last = weakref.ref(space["x"])
        run("y = lax.sin(x)", space)
    space["x"] = None
    gc.collect()
    assert last() is None


def test_what_is_an_array():
    assert is_array(np.ones(2)) and is_array(xlab.device_put(np.ones(2)))
    assert not any(map(is_array, (1, 2.0, "a", None, [1], np.array(["a"]), np.array([None]))))


def test_reads_of_code():
    def names(source, **space):
        return reads_of(ast.parse(source), "<cell>", space)

    assert names("y = [a for a in b]") == ("b",)
    assert names("for i in r:\n    t = t + i") == ("r", "t")
    assert names("def f(a):\n    return a + c\ny = f(x)") == ("c", "x")
    assert names("x += 1") == ("x",)
    assert names("x = 1\ny = x") == ()
    assert names("if c:\n    x = 1\ny = x") == ("c", "x")
    assert names("y = f'{x}'") == ("x",)


def test_tokens_tell_values_apart():
    assert token(1) != token(1.0) and token(0.0) != token(-0.0)
    assert token([1, [2]]) == token([1, [2]]) and token([1]) != token((1,))
    assert token(np.ones(2)) == token(np.ones(2)) != token(np.zeros(2))
    assert token(print) == token(print)


def test_write_back_keeps_aliases():
    inner = [1]
    old = {"a": inner, "gone": 2}
    assert write_back(old, {"a": [1, 2], "b": 3}) is old
    assert old == {"a": [1, 2], "b": 3} and old["a"] is inner


@pytest.mark.parametrize(
    ("source", "outputs"),
    [
        ("y = x * 2\ny", 1),
        ("y = x * 2\nx", 1),
        ("y = x * 2\nx[0] + 0", 2),
        ("y = x * 2\n(y, y)", 3),
    ],
)
def test_showing_what_has_a_name_adds_no_output(source, outputs):
    space = {"x": xlab.numpy.arange(4.0)}
    cell = Cell(source, space)
    traced = xlab.jit(cell.function()).trace(*cell.arguments())
    assert len(traced.jaxpr.out_avals) == outputs
    shown = cell.commit(xlab.jit(cell.function())(*cell.arguments()))
    want = eval(source.split("\n")[1], dict(space))
    assert xlab.tree.all(xlab.tree.map(lambda a, b: bool((a == b).all()), shown, want))


def test_results_have_the_names_of_the_cell(space):
    """In findings, and in the module that is compiled: not their numbers."""
    space |= {"jnp": xlab.numpy, "d": {}}
    made = Cell("big = jnp.zeros((512, 512))\nd['b'] = x * 2\nx + 1", space)
    lowered = xlab.jit(made.function()).lower(*made.arguments())
    names = "d['b']", "big", "the last expression"
    assert re.findall(r'jax.result_info = "(.*?)"', lowered.as_text()) == list(names)
    (found,) = observe.findings(lowered, tries=0)
    assert found.kind == "constant result" and found.text.startswith(
        "big, f32[512,512], is the same"
    )
