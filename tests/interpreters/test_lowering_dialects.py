"""A lowering rule works on MLIR values or on text as it was registered, wherever its code was written."""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import xlab
from xlab.errors import MissingRule
from xlab.extend.core import Primitive
from xlab.interpreters import mlir
from xlab.interpreters.mlir import lowering_rules

PACKAGE = Path(xlab.__file__).parent

# As a notebook names its cells, as a script, as a prompt, and as a file of the package itself.
FILES = (
    "<ipython-input-3-0a1b2c3d>",
    "/tmp/ipykernel_42/1234567890.py",
    "model.py",
    "<stdin>",
    str(PACKAGE / "lax" / "not_there.py"),
    str(PACKAGE / "interpreters" / "mlir" / "helpers.py"),
)


def worked_example() -> str:
    """The indented block of the text under the table's declaration."""
    body = ast.parse(Path(lowering_rules.__file__).read_text(encoding="utf-8")).body
    at = next(
        n
        for n, node in enumerate(body)
        if isinstance(node, ast.Assign) and node.targets[0].id == "lowerings"
    )
    _, _, example = body[at + 1].value.value.partition("Worked example:\n\n")
    return textwrap.dedent(example)


@pytest.mark.parametrize("file", FILES)
def test_the_worked_example_of_the_table_runs_wherever_it_is_pasted(file):
    names: dict = {}
    exec(compile(worked_example(), file, "exec"), names)
    x = np.array([0.5, 1.5], np.float32)
    for prim in (names["wave_p"], names["ripple_p"]):
        for run in (prim.bind, xlab.jit(prim.bind)):
            np.testing.assert_allclose(run(x), np.sin(x), rtol=1e-6)
        assert "stablehlo.sine" in xlab.jit(prim.bind).lower(x).as_text()


TWICE = {
    "text": (
        "register_text_lowering",
        'lambda ctx, x: ctx.op(f"stablehlo.add {x}, {x} : {ctx.type_out()}")',
    ),
    "values": ("register_lowering", "lambda ctx, x: [hlo.add(x, x)]"),
    "marked": (
        "register_lowering",
        'mlir.text_rule(lambda ctx, x: ctx.op(f"stablehlo.add {x}, {x} : {ctx.type_out()}"))',
    ),
    "a partial of what is marked": (
        "register_lowering",
        'partial(mlir.text_rule(lambda ctx, x, *, op: ctx.op(f"{op} {x}, {x} : {ctx.type_out()}")), '
        'op="stablehlo.add")',
    ),
    "lower_fun": ("register_lowering", "mlir.lower_fun(lambda x: x + x, multiple_results=False)"),
    "lower_fun as text": ("register_text_lowering", "mlir.lower_fun(lambda x: x + x)"),
    "for one platform": (
        "register_text_lowering",
        'lambda ctx, x: ctx.op(f"stablehlo.add {x}, {x} : {ctx.type_out()}"), platform="cpu"',
    ),
    "values for one platform": (
        "register_lowering",
        'lambda ctx, x: hlo.add(x, x), platform="cpu"',
    ),
}


@pytest.mark.parametrize("form", TWICE)
@pytest.mark.parametrize("file", FILES)
def test_the_registration_says_the_dialect_and_not_the_file(form, file):
    registration, rule = TWICE[form]
    prim = Primitive("twice")
    prim.def_abstract_eval(lambda x: x)
    names = {"mlir": mlir, "prim": prim, "partial": functools.partial}
    exec(
        compile(
            f"from xlab.extend.mlir.dialects import stablehlo as hlo\nmlir.{registration}(prim, {rule})",
            file,
            "exec",
        ),
        names,
    )
    assert float(xlab.jit(prim.bind)(np.float32(2))) == 4.0


def test_rules_of_the_package_are_registered_as_text():
    found = {
        path.relative_to(PACKAGE): re.findall(
            r"^(?!.*>>>).*\bregister_lowering\(.*_p", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "mlir"
    }
    assert not {path: lines for path, lines in found.items() if lines}
    assert "co_filename" not in "".join(
        path.read_text(encoding="utf-8")
        for path in (PACKAGE / "interpreters" / "mlir").glob("*.py")
    )


def test_what_a_missing_rule_recommends_works():
    prim = Primitive("ripple")
    prim.def_abstract_eval(lambda x: x)
    with pytest.raises(MissingRule) as caught:
        xlab.jit(prim.bind)(1.0)
    words = str(caught.value)
    assert "MLIR values such as hlo.sine(x)" in words
    registration = re.search(r"registered with (mlir\.register_lowering\(ripple_p, rule\))", words)[
        1
    ]
    names = {"mlir": mlir, "ripple_p": prim}
    exec(
        compile(
            "from xlab.extend.mlir.dialects import stablehlo as hlo\ndef rule(ctx, *operands, **params):\n    return hlo.sine(*operands)\n"
            + registration,
            "<ipython-input-7-0>",
            "exec",
        ),
        names,
    )
    assert float(xlab.jit(prim.bind)(0.0)) == 0.0
