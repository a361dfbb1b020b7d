"""Mistakes in a cell: a clear message with the person's own line, and every name as it was."""

from __future__ import annotations

import html
import re

import pytest
from IPython.utils.capture import capture_output

import xlab
from xlab.backend import arrays

SETUP = """
import numpy as np
import xlab
from xlab import lax
from xlab import numpy as jnp
x = jnp.arange(32.0).reshape(8, 4)
p = {"w": jnp.ones((4, 2)), "n": 2}
seen = []
near, far = (xlab.device_put(v, d) for v, d in zip((x, x), xlab.devices()[1:]))
"""

# cell, error class, words of the message, the line that is pointed at
MISTAKES = {
    "control flow on a traced value": (
        "%%xjit\ny = x + 1\nif y.sum() > 0:\n    y = -y",
        "TracerBoolConversionError", ("lax.cond", "--static", "line 3 of In["), "if y.sum() > 0:"),
    "a while loop on a traced value": (
        "%%xjit\nwhile x.sum() > 0:\n    x = x - 1",
        "TracerBoolConversionError", ("lax.while_loop",), "while x.sum() > 0:"),
    "range of a traced value": (
        "%%xjit\nn = x.sum().astype(int)\nfor i in range(n):\n    x = x + i",
        "TracerIntegerConversionError", ("fori_loop",), "for i in range(n):"),
    "numpy on a traced value": (
        "%%xjit\ny = np.asarray(x) + 1",
        "TracerArrayConversionError", ("xlab.numpy",), "y = np.asarray(x) + 1"),
    "an unknown name": (
        "%%xjit\ny = x + 1\nz = y + nothing_of_this_name",
        "NameError", ("nothing_of_this_name",), "z = y + nothing_of_this_name"),
    "a mesh larger than the machine": (
        "%%xjit --mesh data=16\ny = x + 1",
        "ValueError", ("16", "XLAB_NUM_CPU_DEVICES"), "%%xjit --mesh data=16"),
    "a spec that does not divide": (
        "%%xjit --mesh data=3 --in x=data\ny = x + 1",
        "IndivisibleError", ("3", "8"), "%%xjit --mesh data=3 --in x=data"),
    "devices that differ": (
        "%%xjit\ny = near + 1\n\nz = y + far",
        "IncompatibleDevices", ("`far`", "meet in add at line 4 of In["), "z = y + far"),
    "a spec without a mesh": (
        "%%xjit --in x=data\ny = x + 1",
        "ValueError", ("--mesh",), "%%xjit --in x=data"),
    "a spec for a name that is no input": (
        "%%xjit --mesh data=4 --in q=data\ny = x + 1",
        "NameError", ("'q'", "x"), "%%xjit --mesh"),
    "a spec nobody can read": (
        "%%xjit --mesh data=4 --in data,None\ny = x + 1",
        "ValueError", ("name=spec",), "%%xjit --mesh"),
    "an axis that the mesh has not": (
        "%%xjit --mesh data=4 --in x=rows\ny = x + 1",
        "ValueError", ("rows", "data"), "%%xjit --mesh"),
    "a wrong dtype": (
        "%%xjit\ny = lax.sin(x.astype(int))",
        "TypeError", ("int32", "float"), "y = lax.sin(x.astype(int))"),
    "shapes that do not fit": (
        "%%xjit\ny = x @ x",
        "TypeError", ("4",), "y = x @ x"),
    "an error half-way": (
        "%%xjit\nx = x + 1\np['w'] = x\nseen.append(x)\nfresh = 1\nraise RuntimeError('half-way')",
        "RuntimeError", ("half-way",), "raise RuntimeError('half-way')"),
    "an error in a function of another cell": (
        "%%xjit\ny = helper(x)",
        "ZeroDivisionError", ("division",), "y = helper(x)"),
    "an error before the first operation": (
        "%%xjit\nz = nothing_of_this_name\ny = x + 1",
        "NameError", ("nothing_of_this_name",), "z = nothing_of_this_name"),
    "an option that a line magic has not": (
        "%xshard x --foo",
        "ValueError", ("%xshard has no option --foo", "--shape", "--mesh", "--target"), "'xshard', 'x --foo'"),
    "a cell that is no Python": (
        "%%xjit\ny = (x + 1",
        "SyntaxError", ("never closed",), "y = (x + 1"),
}  # fmt: skip


@pytest.fixture
def lab(shell):
    shell.run_line_magic("load_ext", "xlab")
    shell.run_cell(SETUP).raise_error()
    shell.run_cell("def helper(a):\n    return a + 1 / 0").raise_error()
    return shell


def fails(lab, source):
    """Runs a cell that must fail; returns the error and everything that was written."""
    with capture_output() as got:
        result = lab.run_cell(source)
    assert not result.success
    return result.error_in_exec or result.error_before_exec, got.stdout + got.stderr, got.outputs


def names(lab):
    return {
        k: v for k, v in lab.user_ns.items() if not k.startswith("_") and k not in ("In", "Out")
    }


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(lab, mistake):
    source, kind, words, line = MISTAKES[mistake]
    before = names(lab)
    weights, number = lab.user_ns["p"]["w"], lab.user_ns["p"]["n"]
    error, text, _ = fails(lab, source)
    assert type(error).__name__ == kind
    for word in words:
        assert word in str(error), str(error)
    assert line in text
    assert names(lab) == before
    assert (
        lab.user_ns["p"]["w"] is weights
        and lab.user_ns["p"]["n"] == number
        and lab.user_ns["seen"] == []
    )
    lab.run_cell("%%xjit --quiet\ny = x + 1").raise_error()  # and the notebook goes on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_tracebacks_show_the_persons_frames_only(lab, mistake):
    _, text, _ = fails(lab, MISTAKES[mistake][0])
    assert "/xlab/" not in text.partition("Traceback")[2].rpartition("\n\n")[0]
    assert "interactiveshell" not in text and "run_cell_magic" not in text


PLAIN = "def wave(v):\n    return np.sin(v) * 2\nxlab.jit(lambda v: xlab.grad(wave)(v.sum()))(x)"


def test_errors_of_plain_cells_show_the_persons_frames_only(lab):
    """Not only magics: whatever a cell calls. `traceback_filtering` brings the others back, and so does unloading."""
    error, text, _ = fails(lab, PLAIN)
    assert type(error).__name__ == "TracerArrayConversionError"
    assert "/xlab/" not in text and "return np.sin(v) * 2" in text and "xlab.grad(wave)" in text
    xlab.config.update("traceback_filtering", "off")
    try:
        assert "/xlab/" in fails(lab, PLAIN)[1]
    finally:
        xlab.config.update("traceback_filtering", "auto")
    lab.run_line_magic("unload_ext", "xlab")
    assert "/xlab/" in fails(lab, PLAIN)[1]
    lab.run_line_magic("load_ext", "xlab")
    assert "/xlab/" not in fails(lab, PLAIN)[1]
    assert "1 / 0" in fails(lab, "1 / 0")[1]


def test_values_that_never_come_are_told_of_once(lab, capsys, monkeypatch):
    """What fails where a result is shown, on many devices, was said twice, each time with our own frames."""
    lab.run_cell(
        "from xlab import NamedSharding, P, make_mesh\n"
        "far = xlab.device_put(jnp.ones((8, 4)), NamedSharding(make_mesh((8,), ('d',)), P('d')));"
    )
    space = {"error": xlab.errors.CollectiveTimeoutError("they wait for one another")}
    exec(compile("def unread(shard): raise error", xlab.__file__, "exec"), space)
    monkeypatch.setattr(arrays, "to_numpy", space["unread"])
    capsys.readouterr()
    lab.run_cell("far")
    text = "".join(capsys.readouterr())
    assert (
        text.count("CollectiveTimeoutError: they wait for one another") == 1
        and "/xlab/" not in text
    )


def test_the_layout_of_an_array_that_is_gone_says_so(lab, capsys):
    lab.run_cell("gone = jnp.ones((8, 4))\ngone.delete()\n%xshard gone")
    assert "deleted or donated: this is how it lay" in "".join(capsys.readouterr())


def test_a_syntax_error_of_somebody_else_still_has_its_traceback(lab):
    fails(lab, MISTAKES["a cell that is no Python"][0])
    _, text, _ = fails(lab, "def reads(t): return compile(t, 'theirs', 'exec')\nreads('a = (1')")
    assert "reads('a = (1')" in text


def test_an_error_is_told_once(lab):
    """A report that had nothing but the error to say is left out: the traceback says it."""
    for mistake in ("a mesh larger than the machine", "an error before the first operation"):
        assert fails(lab, MISTAKES[mistake][0])[2] == [], mistake


def test_what_was_traced_before_an_error_is_shown(lab, monkeypatch):
    from xlab.backend import compiling
    from xlab.compile import lowering

    def broken(*args, **options):
        raise RuntimeError("no room for this program")

    def shown(cell):
        _, _, outputs = fails(lab, cell)
        return outputs[-1].data["text/plain"], html.unescape(outputs[-1].data["text/html"])

    for _ in range(2):  # the trace of the second is remembered
        plain, page = shown("%%xjit --mesh data=8 --out 'y=data'\ny = x[:3] * 5.5")
        assert (
            "what was traced before the error, and was not compiled" in plain
            and "IndivisibleError" in plain
        )
        assert "slice[" in page and "collectives" not in plain
        assert "/xlab/" not in page, "the package's frames"
    for module, name, number in (
        (lowering, "lower_module", 6.25),
        (compiling, "run_uninterruptible", 7.25),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, broken)
            for _ in range(2):
                plain, page = shown(f"%%xjit\ny = x * {number}")
                assert "1 equation" in plain and str(number) in page
    assert "an error ended the compile of `In[1]` before" in plain

    plain, page = shown(
        "%%xjit\ndef body(c, t):\n    u = c * t\n    return c, helper(jnp.sin(u))\n"
        "y = jnp.cos(x)\nz = xlab.lax.scan(body, y, jnp.ones((3, *x.shape)))"
    )
    page = re.sub("<[^>]*>", "", page)
    assert all(word in page for word in (" = cos", " = sin", " = mul", "body 2 equations")), (
        "the cell and the body of the loop"
    )
    assert plain.count("was not compiled") == 1
    plain, _ = shown("%%xjit\ny = jnp.sin(x).sum()\nif y > 0:\n    y = y + 1")
    assert "3 equations" in plain and "at In[1]:3" in plain


def test_what_was_recorded_is_still_shown(lab):
    _, _, outputs = fails(lab, "%%xjit\nz = xlab.jit(lambda a: a + 1)(x)\n1 / 0")
    assert any("ZeroDivisionError" in o.data["text/plain"] for o in outputs)


def test_an_interrupt_while_a_magic_is_loaded_says_so(lab, monkeypatch):
    from xlab.notebook import magics

    def interrupt(name):
        raise KeyboardInterrupt

    magics.register(lab)
    monkeypatch.setattr(magics, "_class", interrupt)
    error, text, _ = fails(lab, "%%xjit\ny = x + 1")
    assert type(error) is KeyboardInterrupt
    assert "interrupted while loading xjit" in text and "importlib" not in text
    monkeypatch.undo()
    assert lab.run_cell("%%xjit --quiet\ny = x + 1").success, "the next call loads it"


def test_an_interrupt_comes_back_to_the_prompt(lab):
    before = names(lab)
    error, text, _ = fails(lab, "%%xjit\nx = x + 1\nraise KeyboardInterrupt")
    assert type(error) is KeyboardInterrupt
    assert "interrupted while tracing" in text and "as they were" in text
    assert names(lab) == before
    lab.run_cell("%%xjit --quiet\ny = x + 1").raise_error()


def test_an_interrupt_during_the_compile(lab, monkeypatch):
    import _thread
    import signal

    from xlab.compile import executable

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("SIGINT is handled by somebody else")
    original = executable.Executable.__init__

    def interrupted(self, *args, **options):
        _thread.interrupt_main()
        original(self, *args, **options)

    monkeypatch.setattr(executable.Executable, "__init__", interrupted)
    before = names(lab)
    error, _text, _ = fails(lab, "%%xjit\nx = x * 17.5")
    assert type(error) is KeyboardInterrupt
    assert names(lab) == before


def test_line_magics_explain_themselves(lab):
    for line, word in (
        ("%xflow x", "takes a call"),
        ("%xshard", "takes an array"),
        ("%xmesh data", "axis=size"),
        ("%xstep 1 +", "takes a call"),
        ("%xshard P('data')", "mesh"),
        ("%xhlo f(x) --stage late", "optimized"),
        ("%xreport", "name of a file"),
    ):
        error, text, _ = fails(lab, line)
        assert word in str(error), line
        assert "/xlab/" not in text.partition("Traceback")[2].rpartition("\n\n")[0]


def test_failures_of_every_later_stage(lab, monkeypatch):
    """Lowering, compiling and running: one error with the person's line where there is one, names as they were, and on it goes."""
    from xlab.backend import compiling
    from xlab.compile import lowering

    def broken(*args, **options):
        raise RuntimeError("no room for this program")

    before = names(lab)
    for module, name, cell in (
        (lowering, "lower_module", "%%xjit\ny = x * 3.25"),
        (compiling, "run_uninterruptible", "%%xjit\ny = x * 4.25"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, broken)
            error, text, _ = fails(lab, cell)
        assert (
            "no room for this program" in str(error)
            and "/xlab/" not in text.partition("Traceback")[2].rpartition("\n\n")[0]
        ), name
        assert names(lab) == before
    cell = (
        "%%xjit\ndef told(a):\n    raise ValueError('told at run time')\n"
        "y = xlab.pure_callback(told, xlab.ShapeDtypeStruct(x.shape, x.dtype), x)"
    )
    error, text, outputs = fails(lab, cell)
    assert "told at run time" in text
    assert any("pure_callback" in o.data["text/html"] for o in outputs), (
        "what was compiled is shown"
    )
    assert names(lab) == before
    lab.run_cell("%%xjit --quiet\ny = x + 1").raise_error()


def test_huge_outputs_stay_small(lab):
    """A cell of thousands of results and a long literal: the bundle keeps to its budget and says what it cut."""
    source = (
        "%%xjit\nnote = '"
        + "long " * 40_000
        + "'\n"
        + "\n".join(f"y{i} = x + {i}.5" for i in range(300))
    )
    with capture_output() as got:
        lab.run_cell(source).raise_error()
    bundle = got.outputs[0].data
    assert len(bundle["text/html"]) < 400_000 and len(bundle["text/plain"]) < 100_000
    assert "more characters" in bundle["text/html"]


def test_a_list_that_holds_itself_is_one_error_and_harms_no_other_cell(shell):
    shell.run_line_magic("load_ext", "xlab")
    shell.run_cell(SETUP + "endless = [x]\nendless.append(endless)").raise_error()
    with capture_output() as got:
        for _ in range(2):
            result = shell.run_cell("%xshard endless")
            assert type(result.error_in_exec) is RecursionError
            assert "a list holds itself: x[1] is x" in str(result.error_in_exec)
        for cell in (
            "z = x * 2",
            "%xmem",
            "%%xjit --quiet\ny = len(endless) + x",
            "%xtime jnp.sin(x)",
        ):
            shell.run_cell(cell).raise_error()
    assert "Error in callback" not in got.stdout + got.stderr
    shell.run_cell("def down(n):\n    return down(n - 1) if n else 0\ndown(800)").raise_error()


PROXIES = """
class Proxy:
    def __getattr__(self, name):
        raise RuntimeError("outside of a request")
class Called(Proxy):
    def __call__(self):
        return self
request, session = Proxy(), Called()
def plain(x):
    return jnp.sin(x)
def named(x):
    return jnp.sin(x) if x.ndim < 5 else session()
"""


@pytest.mark.parametrize(
    "cell",
    [
        "%xhlo plain(x)",
        "%xtime plain(x) --repeat 2",
        "%xflow named(x)",
        "observe.findings(named, x)",
        "%%xjit --quiet\ny = x if request is not None and session is not None else 2 * x",
        "%xmem",
    ],
)
def test_names_that_answer_by_raising_are_let_be(shell, cell):
    shell.run_line_magic("load_ext", "xlab")
    shell.run_cell(SETUP + "from xlab import observe" + PROXIES).raise_error()
    with capture_output() as got:
        shell.run_cell(cell).raise_error()
    assert "Error in callback" not in got.stdout + got.stderr
