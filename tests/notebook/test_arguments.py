"""What magics take: one declaration each, from which parsing, help, completions and errors follow."""

from __future__ import annotations

import ast
import itertools
import json
import re
from pathlib import Path

import pytest

from xlab.notebook.completions import complete
from xlab.notebook.magics import MAGICS, OVER_CELLS, declared
from xlab.notebook.magics.arguments import Arguments, Option

ROOT = Path(__file__).parents[2]
OPTIONS = [(name, option) for name in MAGICS for option in declared(name).options.values()]

# Python of a line, with dashes in every place where Python has them
EXPRESSIONS = (
    "f(x)",
    "f(x --1)",
    "f(x, -- n)",
    "f(x --repeat)",
    "f('a --repeat 3', x)",
    'f("it\'s --in x", x)',
    "f('''--mesh \" ''')",
    r"f('\' --cold ')",
    "(lambda a: a --n)(x)",
    "f(lambda a, b=--1: {a: [b --1]})",
    "f(x)[-1]",
    "f(x) --1",
    "f(x)--n",
    "f(x) --n",
    "f(x) - -repeat",
    "f(r'\\ --save')",
)


def value(option: Option) -> str:
    """What a person gives an option."""
    return option.choices[-1] if option.choices else option.example


def written(option: Option, form: str) -> str:
    return f"--{option.name}{form}{value(option)}" if option.example else f"--{option.name}"


def expected(option: Option):
    made = option.value(value(option)) if option.example else True
    return (made,) if option.repeated else made


@pytest.mark.parametrize(
    "magic", [name for name in MAGICS if declared(name).takes and declared(name).python]
)
def test_options_in_every_position(magic):
    known = declared(magic)
    for text in EXPRESSIONS:
        given = known.parse(text, {"n", "x"})
        assert given.rest == text and not given.used and given.line == text
        for option, form in itertools.product(known.options.values(), (" ", "=", "  ", " = ")):
            after = known.parse(f"{text} {written(option, form)}", {"n", "x"})
            assert (after.rest, getattr(after, option.attribute), after.used) == (
                text,
                expected(option),
                (option.name,),
            )
            if not option.python:  # an expression goes on until the next option
                before = known.parse(f"{written(option, form)} {text}", {"n", "x"})
                assert (before.rest, getattr(before, option.attribute)) == (text, expected(option))
        for one, other in itertools.permutations(known.options.values(), 2):
            lines = (
                (one, f"{written(one, ' ')} {text} {written(other, '=')}"),
                (None, f"{text} {written(one, '=')} {written(other, ' ')}"),
                (other, f"{written(one, ' ')} {written(other, ' ')} {text}"),
            )
            for before_text, line in lines:
                if before_text is not None and before_text.python:
                    continue
                given = known.parse(line, {"n", "x"})
                assert (
                    given.rest,
                    getattr(given, one.attribute),
                    getattr(given, other.attribute),
                ) == (text, expected(one), expected(other)), line


@pytest.mark.parametrize("quote", ["'{}'", '"{}"'])
def test_a_value_in_quotes_may_hold_anything(quote):
    known = declared("xjit")
    for text in ("x=data, None; w=None,model", "a b --quiet", "(x", "#1"):
        given = known.parse(f"--in {quote.format(text)} --out={quote.format(text)} --quiet")
        assert (given.ins, given.outs, given.quiet) == (text, text, True)
    assert known.parse("--in x=P('data', None) --save it's.html").ins == "x=P('data', None)"
    assert known.parse("--save it's.html --quiet").save == "it's.html"


def test_an_expression_as_a_value():
    given = declared("xstep").parse("f(x --1) --against g(lambda a: a --b, '--against')")
    assert (given.rest, given.against) == ("f(x --1)", "g(lambda a: a --b, '--against')")
    assert declared("xstep").parse("--against = g(x)").against == "g(x)"


def test_between_two_calls_and_twice():
    given = declared("xdiff").parse("f(x) --repeat 3 g(x) --in x=data --in='w=model'")
    assert (given.rest, given.repeat, given.ins) == ("f(x)  g(x)", 3, ("x=data", "w=model"))
    assert declared("xtime").parse("--repeat 2 f(x) --repeat 3").repeat == 3


def test_a_name_of_the_notebook_is_python_and_any_other_an_option():
    known = declared("xshard")
    assert known.parse("x --y", {"x", "y"}).rest == "x --y"
    assert known.parse("x --y-1", {"x", "y"}).rest == "x --y-1"
    assert known.parse("x --shape 8,4", {"x", "shape"}).shape == (
        8,
        4,
    )  # what is declared is an option
    assert (
        known.parse("(x --shape)", {"x", "shape"}).rest == "(x --shape)"
    )  # and Python in brackets
    with pytest.raises(
        ValueError,
        match=r"%xshard has no option --y\. Its options are --shape 8,4, --mesh data=4,model=2, --target",
    ):
        known.parse("x --y", {"x"})


def test_a_comment_ends_a_line_of_python_only():
    assert declared("xtime").parse("f(x) # and --repeat 3").repeat == 20
    assert declared("xtime").parse("f('#') --repeat 3").repeat == 3
    assert declared("xreport").parse("out#1.html").rest == "out#1.html"


def test_a_semicolon_at_the_end_silences_the_value(shell, capsys):
    assert declared("xtime").parse("f(x);").rest == "f(x)"
    assert declared("xtime").parse("f(x) --repeat 3; ").repeat == 3
    assert declared("xreport").parse("out.html;").rest == "out.html;", (
        "a name of a file has its own"
    )
    shell.run_cell("%load_ext xlab\nimport xlab\nx = xlab.numpy.ones(3)")
    capsys.readouterr()
    for end, shown in (("", True), (";", False)):
        ran = shell.run_cell(f"%xjit (lambda x: x + 41)(x){end}")
        ran.raise_error()
        assert (ran.result is not None) == shown
        assert "equation" in capsys.readouterr().out, "the report is there"


@pytest.mark.parametrize(
    ("magic", "option"), OPTIONS, ids=[f"{name}-{option.name}" for name, option in OPTIONS]
)
def test_a_misspelt_option_is_named(magic, option):
    known = declared(magic)
    for wrong in {
        option.name[:-1],
        option.name + "s",
        *([option.name[1::-1] + option.name[2:]] if len(option.name) > 2 else []),
    } - set(known.options):
        for line in (f"f(x) --{wrong} 3", f"--{wrong}=3 f(x)", f"--{wrong}"):
            with pytest.raises(
                ValueError,
                match=rf"%{magic} has no option --{wrong}; did you mean --\w.* Its options are --",
            ):
                known.parse(line)
    with pytest.raises(ValueError, match=f"did you mean --{option.name}"):
        known.parse(f"f(x) --{option.name}s")


@pytest.mark.parametrize(
    ("magic", "option"),
    [pair for pair in OPTIONS if pair[1].example and not pair[1].alone],
    ids=[
        f"{name}-{option.name}" for name, option in OPTIONS if option.example and not option.alone
    ],
)
def test_an_option_without_its_value(magic, option):
    for line in (
        f"--{option.name}",
        f"--{option.name} ",
        f"--{option.name}=",
        f"--{option.name} --{next(iter(declared(magic).options))}",
    ):
        with pytest.raises(
            ValueError, match=re.escape(f"--{option.name} takes a value, such as {option.written}")
        ):
            declared(magic).parse(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("xtime --repeat few f(x)", "--repeat takes a number of runs, at least 1; given 'few'"),
        ("xtime --repeat 0 f(x)", "at least 1"),
        ("xtime --cold=yes f(x)", "--cold takes no value"),
        ("xjit --repeat -1", "--repeat takes a number of runs, at least 0; given '-1'"),
        ("xjit y = x + 1", None),
        (
            "xhlo f(x) --stage late",
            "--stage takes one of stablehlo, propagated, partitioned, optimized; there is no stage 'late'",
        ),
        ("xjit --show hlo,all", "--show takes some of jaxpr, .*; there is no part 'all'"),
        ("xmem --lines=maybe", "--lines takes one of on, off"),
        ("xshard x --shape a,b", "--shape takes the sizes of an array, such as 8,4; given 'a,b'"),
        ("xladder f(x) --argnums w", "--argnums takes a number or several, such as 0,1; given 'w'"),
        ("xledger all", "%xledger takes nothing; given 'all'"),
        ("xledger --all", "%xledger has no option --all"),
    ],
)
def test_what_a_value_should_be(line, words):
    magic, _, rest = line.partition(" ")
    if words is None:
        assert declared(magic).parse(rest).rest == rest
        return
    with pytest.raises(ValueError, match=words):
        declared(magic).parse(rest)


def test_an_option_that_may_stand_alone():
    known = declared("xmem")
    assert [
        known.parse(line).lines
        for line in ("", "--lines", "--lines on", "--lines off", "--lines=off", "--lines f(x)")
    ] == [None, "on", "on", "off", "off", "on"]
    assert known.parse("--lines f(x)").rest == "f(x)"


@pytest.mark.parametrize("magic", MAGICS)
def test_help_and_completions_name_every_option(magic):
    from xlab.notebook.magics import Magic

    known, text = declared(magic), Magic(magic, None).__doc__
    assert (
        text.startswith(f"%{'%' * known.cell}{magic}")
        and known.takes in text
        and "None" not in text.splitlines()[0]
    )
    assert [f"--{name}" for name in known.options] == re.findall(r"^  (--\S+)", text, re.MULTILINE)
    assert complete(f"%{magic} f(x) --", {})[1] == [f"--{name}" for name in known.options]
    for option in known.options.values():
        assert option.help.split()[0] in text
        for between in (" ", "="):
            choices = complete(f"%{magic} --{option.name}{between}", {})[1]
            assert choices == list(option.choices)
        if option.several:
            assert complete(
                f"%{magic} --{option.name} '{option.choices[0]},{option.choices[1][:2]}", {}
            )[1] == [option.choices[1]]


def test_the_magics_that_stand_over_cells():
    assert {name for name in MAGICS if declared(name).cell} == set(OVER_CELLS)


def test_declarations_of_a_magic_of_ones_own():
    known = Arguments("mine", [Option("depth", "how deep", "3", int, default=1)], "f(x)")
    assert (known.parse("f(x) --depth 4").depth, known.parse("f(x)").depth) == (4, 1)
    with pytest.raises(ValueError, match=r"--depth takes invalid literal.*; given 'deep'"):
        known.parse("--depth deep")


def lines_of_magics() -> list[tuple[str, str, str]]:
    """Every magic with its line, in the README, the notebooks, and the docstrings and messages of the package."""
    texts = {"README.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts[path.name] = "\n".join("".join(cell["source"]) for cell in cells)
    for path in {*(ROOT / "xlab").rglob("*.py")} - {
        ROOT / "xlab/notebook/completions.py",
        ROOT / "xlab/notebook/magics/arguments.py",
    }:
        strings = [
            node.value
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        texts[path.name] = "\n".join(s for s in strings if "%x" in s)
    return [
        (file, name, line)
        for file, text in texts.items()
        for name, line in re.findall(r"%%?(x[a-z]+)([^\n`;|]*)", text)
    ]


def test_what_is_written_of_magics_is_declared():
    found = lines_of_magics()
    assert {name for _, name, _ in found} == set(MAGICS)
    for file, name, line in found:
        for option in re.findall(r"\s--([a-z][\w-]*)", line):
            assert option in declared(name).options, f"{file}: %{name}{line}"
    table = re.findall(r"^\|.*", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`%%?(x[a-z]+)", "\n".join(table))) == set(MAGICS)


def test_in_a_shell(shell):
    from xlab.notebook import recording

    shell.run_line_magic("load_ext", "xlab")
    try:
        shell.run_cell(
            "import xlab\nfrom xlab import numpy as jnp\nx = jnp.ones(3)\nf = xlab.jit(lambda x: x * 2)"
        ).raise_error()
        for line in (
            "%xtime f(x) --repeat 3",
            "%xtime --repeat 3 f(x --1)",
            "%xtime --repeat=3 f(x) # three",
        ):
            shell.run_cell(line).raise_error()
            assert recording.last.timings[0].runs == 3, line
        for line, words in (
            ("%xshard x --shpe 3", "%xshard has no option --shpe; did you mean --shape?"),
            ("%%xjit --meshh data=4\ny = x", "%xjit has no option --meshh; did you mean --mesh?"),
            (
                "%%xjit data=4\ny = x",
                "%%xjit takes options, and the program in the lines below it; given 'data=4'",
            ),
            ("%xjit f(x) --repeat 3", "--repeat is an option of %%xjit, over a cell"),
            ("%xmem --lines f(x)", "%xmem --lines takes on or off and stands alone; given 'f(x)'"),
        ):
            assert words in str(shell.run_cell(line).error_in_exec), line
    finally:
        shell.run_line_magic("unload_ext", "xlab")


def test_errors_of_processes_are_told_in_words_alone(shell, capsys, monkeypatch):
    from xlab.errors import ProcessLost
    from xlab.notebook import in_processes

    def lost(*_):
        raise ProcessLost("process 1 of 2 ended during In[3]")

    monkeypatch.setattr(in_processes, "run", lost)
    shell.run_line_magic("load_ext", "xlab")
    try:
        shell.run_cell("%%xall\nx = 3")
    finally:
        shell.run_line_magic("unload_ext", "xlab")
    told = "".join(capsys.readouterr())
    assert "ProcessLost: process 1 of 2 ended during In[3]" in told
    assert "run_cell_magic" not in told and "Traceback" not in told
