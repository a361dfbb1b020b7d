"""What `observe` returns, as the value of a cell; and the words of `%xflow` and of an error, which are those of the report and of the line."""

from __future__ import annotations

import pytest

SETUP = """
import numpy as np, xlab
from xlab import lax, nn, observe
from xlab import numpy as jnp
mesh = xlab.make_mesh((4, 2), ("data", "model"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
def put(x, *spec):
    return xlab.device_put(x, xlab.NamedSharding(mesh, xlab.P(*spec)))
def layers(ws, x):
    h, _ = lax.scan(lambda c, w: (nn.relu(c @ w), None), x, ws)
    return h.sum()
ws = put(np.ones((6, 64, 64), np.float32), None, "data", None)
x = put(np.ones((32, 64), np.float32), "data")
"""


@pytest.fixture
def run(shell):
    """Runs a cell; gives what it printed and displayed, as text and as a page."""
    from IPython.utils.capture import capture_output

    def go(source):
        with capture_output() as got:
            shell.run_cell(source).raise_error()
        pages = "".join(o.data.get("text/html", "") for o in got.outputs)
        return got.stdout + "\n".join(o.data.get("text/plain", "") for o in got.outputs), pages

    shell.run_line_magic("load_ext", "xlab")
    go(SETUP)
    return go


def test_xflow_calls_known_patterns_by_their_name(run):
    """As the report does, which has no advice against them."""
    for cell in ("%xflow layers(ws, x)", "%xjit layers(ws, x)"):
        text, page = run(cell)
        assert "partitioner: FSDP gather" in text and "FSDP gather" in page, cell
        assert "(!)" not in text and "Remove it" not in text, cell
    text, _ = run("%xflow (lambda x: jnp.roll(x, 1, 0) + x)(x)")
    assert "partitioner: halo exchange" in text and "(!)" not in text
    text, _ = run("%xflow (lambda x: jnp.sort(x, 0))(x)")
    assert "partitioner (!)" in text and "emove it" in text, "a surprise is still one"


def test_findings_are_told_as_a_value_and_shown(run):
    known = "no findings\nknown: FSDP gather over data: 1 collective, 73.7 KB sent"
    text, _ = run("found = observe.findings(layers, ws, x); found")
    assert known in text and "no surprise: 2 collectives" in text
    text, page = run("xlab.notebook.show(found)")
    assert known in text and "no findings" in page and "FSDP gather" in page
    run("some = observe.findings(lambda x, s: x * 2, x, jnp.ones(1000))")
    text, page = run("xlab.notebook.show(some)")
    assert text.startswith("unused argument: `s` is given and not used (4 KB)")
    assert "`s` is given and not used" in page and "leave it out of the call" in page
    assert "no findings" not in page


def test_an_experiment_says_where_its_arguments_lie(run):
    text, _ = run("observe.Experiment(layers, ws, x)")
    assert "Experiment(layers over data=4 model=2: ws P(None, 'data', None), x P('data', None))" in text  # fmt: skip
    run("many = {f'w{n}x': put(np.ones((8, 8 + n), np.float32)) for n in range(12)}")
    text, _ = run("observe.Experiment(lambda many: sum(v.sum() for v in many.values()), many)")
    assert "4 more)" in text and "0x" not in text.replace("w0x", "").replace("w10x", "")


def test_an_error_in_what_a_magic_evaluates_shows_its_line(run, shell, capsys):
    source = "y = 1\n%xflow layers(ws, not_there)"
    with pytest.raises(NameError, match="not_there") as error:
        run(source)
    shell.showtraceback((type(error.value), error.value, error.value.__traceback__))
    said = capsys.readouterr()
    assert "layers(ws, not_there)" in said.out + said.err
    assert "Could not get source" not in said.out + said.err
