"""The ledger as the person at the keyboard reads it: their functions, their lines, and no compile that a magic made twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlab
from xlab import observe
from xlab.backend import compiling
from xlab.compile.history import ledger

SETUP = """
import xlab
from xlab import lax
from xlab import numpy as jnp
x = jnp.arange(32.0).reshape(8, 4)
w = jnp.ones((4, 2))
"""
MAGICS = (
    "%xflow {}(x, w)",
    "%xtime --repeat 2 {}(x, w)",
    "%xmem {}(x, w)",
    "%xhlo {}(x, w)",
    "%xstep {}(x, w)",
    "%xladder {}(x, w)",
    "%xjit {}(x, w)",
    "xlab.observe.memory({}, x, w)",
    "xlab.observe.profile({}, x, w, repeat=1)",
)


@pytest.fixture
def lab(shell):
    shell.run_line_magic("load_ext", "xlab")
    assert shell.run_cell(SETUP).success
    return shell


@pytest.fixture
def run(lab):
    from IPython.utils.capture import capture_output

    def go(source):
        lab.execution_count += 1
        with capture_output() as got:
            result = lab.run_cell(source)
            result.raise_error()
        return got

    return go


def entries(name):
    return [e for e in observe.ledger().entries if e.function == name]


def test_every_magic_on_one_function_compiles_it_once(run):
    run("def one_function(x, w): return jnp.tanh(x @ w)")
    for line in (*MAGICS, *MAGICS):
        run(line.format("one_function"))
    found = entries("one_function")
    assert [e.nth for e in found] == [1] and "never seen before" in found[0].reason


def test_a_magic_uses_the_jit_that_the_notebook_has(run):
    run("def of_mine(x, w): return jnp.cos(x @ w)\nmine = xlab.jit(of_mine)\nmine(x, w)")
    for line in MAGICS:
        run(line.format("of_mine"))
    assert len(entries("of_mine")) == 1


def test_a_jit_after_a_magic_compiles_nothing(run):
    run("def looked_at(x, w): return jnp.sin(x @ w)")
    run("%xtime --repeat 2 looked_at(x, w)")
    run("first = xlab.jit(looked_at)\nfirst(x, w)")
    run("second = xlab.jit(looked_at)\nsecond(x, w)")
    assert len(entries("looked_at")) == 1
    run("third = xlab.jit(looked_at, keep_unused=True)\nthird(x, w)")
    assert (
        "for a view only" in entries("looked_at")[1].reason
        and not entries("looked_at")[1].differences
    )


def test_a_jit_with_options_is_not_mistaken_for_the_function(run):
    run(
        "def with_options(x, w): return x + w.sum()\ndonating = xlab.jit(with_options, donate_argnums=0)\ndonating(x + 0, w)"
    )
    run("%xmem with_options(x, w)")
    assert "without the options" in entries("with_options")[1].reason


def test_a_function_defined_again_says_so(run):
    for _ in range(2):
        run("def again(x): return jnp.sum(x) * 3\nxlab.jit(again)(x)")
    first, second = entries("again")[0], entries("again")[-1]
    assert "never seen before" in first.reason
    if second.nth == 2:  # where a cell that runs again keeps the name of its file
        assert "was defined again" in second.reason and "run the cell" in second.fix


def test_lines_are_those_of_the_cells(lab, run):
    lab.execution_count = 40
    run("y = 1\n\ndef in_a_cell(x):\n    return jnp.sum(x)\nxlab.jit(in_a_cell)(x)")
    number = lab.execution_count
    (entry,) = entries("in_a_cell")
    assert (entry.source.file, entry.source.line) == (f"In[{number}]", 3)
    run("z = 2\n%xtime --repeat 2 (lambda q: jnp.sum(q) * 5)(x)")
    entry = entries("<lambda>")[-1]
    assert (entry.source.file, entry.source.line) == (f"In[{lab.execution_count}]", 2)
    assert not [
        e for e in observe.ledger().entries[-2:] if re.search(r"\.py|ipython|xtime", str(e.source))
    ]


def test_a_cell_that_runs_again_leaves_the_first_run_its_number(lab, run, monkeypatch):
    # A kernel names the file of a cell by its text alone; the number of its last run is then that of the file.
    monkeypatch.setattr(lab.compile, "get_code_name", lambda *_: "/cells/one.py")
    for number in (7, 19):
        lab.execution_count = number - 1
        run("def run_again(x): return jnp.sum(x) * 13\nxlab.jit(run_again)(x)")
    first, second = entries("run_again")
    assert [e.source.file for e in (first, second)] == ["In[7]", "In[19]"]
    assert [e.source.line for e in (first, second)] == [1, 1]


def test_equal_cells_compile_once(run):
    for _ in range(3):
        run("%%xjit --quiet\nresult_of_cell = jnp.sum(x @ w) * 11\n")
    made = [e for e in observe.ledger().entries if e.function.startswith("In[")]
    assert len({e.function for e in made if "result_of_cell" in str(e)}) <= 1
    assert made[-1].nth == 1


def test_a_copy_of_a_cell_says_what_it_is_a_copy_of(lab, run, monkeypatch):
    """Its tracebacks name it, so it has a program of its own: traced, found equal, and not compiled."""
    # As a kernel names files.
    monkeypatch.setattr(lab.compile, "get_code_name", lambda raw, *_: f"/cells/{hash(raw)}.py")
    first = lab.execution_count + 1
    for magic in ("%%xjit", "%%xjit", "%%xjit --show timings"):
        run(f"{magic}\ncopied = jnp.sin(x) @ w * 3")
    one, copy = [e for e in observe.ledger().entries if e.function.startswith("In[")][-2:]
    assert (one.function, copy.function) == (f"In[{first}]", f"In[{first + 2}]")
    assert copy.shared == f"In[{first + 1}]"  # where it ran last
    assert copy.reason.endswith(
        f"`In[{first + 2}]` has the text of `In[{first + 1}]`, and each cell has a program of its own"
    )
    assert copy.fix == f"run In[{first + 1}] again in place of its copy: nothing is traced then"


def test_arrays_of_a_cell_have_its_lines(lab, run):
    from xlab.observe.arrays import allocation_sites

    for source, name, line in (
        ("first_made = 1\nmade_below = x * 2", "made_below", 2),
        ("\n\nmade_lower = x * 3", "made_lower", 3),
        ("%%xjit --quiet\na = 1\nmade_compiled = x * 4", "made_compiled", 3),
    ):
        lab.run_cell(source, store_history=True).raise_error()
        found = allocation_sites.origin(lab.user_ns[name])
        assert (found.file, found.line) == (f"In[{lab.execution_count - 1}]", line), source


def test_unloading_stops_recording_lines(lab, run):
    from xlab.backend import arrays
    from xlab.observe.arrays import allocation_sites

    run("%xmem --lines")
    assert allocation_sites.tracking()
    lab.run_line_magic("unload_ext", "xlab")
    assert not allocation_sites.tracking() and arrays._made is None


def test_a_cell_names_the_function_that_was_defined_again(run):
    for _ in range(2):
        run("@xlab.jit\ndef inner_one(x): return jnp.sin(x)")
        run("%%xjit\nwith_inner = inner_one(x) + 1")
    (second,) = [e for e in observe.ledger().entries if "calls `inner_one`" in e.reason]
    assert "which was defined again" in second.reason
    assert "define inner_one once, before the loop" in second.fix


def test_equal_programs_under_several_magics_are_compiled_once(shell, monkeypatch):
    compiled = []
    real = compiling.compile_text
    monkeypatch.setattr(
        compiling, "compile_text", lambda *a, **k: compiled.append(a) or real(*a, **k)
    )
    xlab.clear_caches()
    ledger.clear()
    define = "def shared_step(x):\n    return jnp.tanh(x @ x) + 0.375"
    shell.run_cell("%load_ext xlab")
    shell.run_cell("import xlab.numpy as jnp\nx = jnp.ones((8, 8))\n" + define)
    compiled.clear()
    for cell in (
        "%xjit shared_step(x)",
        "%xflow shared_step(x)",
        "%xhlo shared_step(x)",
        "%xmem shared_step(x)",
        "%xtime --repeat 1 shared_step(x)",
        "%xdiff shared_step(x) shared_step(x)",
        "%%xjit\ny = shared_step(x)",
        "%%xjit\nz = jnp.tanh(x @ x) + 0.375",
        define,
        "%xjit shared_step(x)",
    ):
        assert shell.run_cell(cell).success
    assert len(compiled) == 1
    said = observe.text(observe.ledger())
    assert said.startswith("1 compile, and 3 equal programs that used its executable")
    assert "shared: the same program as `shared_step`" in said
    np.testing.assert_array_equal(shell.user_ns["y"], shell.user_ns["z"])
    shell.run_cell("%xtime --cold --repeat 1 shared_step(x)")
    assert len(compiled) == 2, "a cold time is that of a compile"
    shell.run_cell("%%xjit\nw = jnp.tanh(x @ x) + 0.376")
    assert len(compiled) == 3, "another constant is another program"
    shell.run_cell("%%xjit\nv = jnp.tanh(x @ x) + 0.376")
    assert "shared: the same program as `In[" in observe.text(observe.ledger()), (
        "a cell by its prompt"
    )
