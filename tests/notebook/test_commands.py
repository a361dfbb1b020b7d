"""The command line's subcommands, and the drawing of shardings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from xml.etree import ElementTree

import numpy as np
import pytest

import xlab
from xlab.notebook import doctor, lab, options, report_command, tour
from xlab.notebook.visualize import visualize_array_sharding, visualize_sharding
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

SCRIPT = """
import xlab
from xlab import numpy as jnp

SCALE = 2.0

def step(w, x):
    return SCALE * jnp.tanh(x @ w).sum()

def spare(x, mask):
    return x * 2

def talks(x):
    xlab.debug.print("{}", x.sum())
    return x

def twice(x):
    y = jnp.tanh(x)
    return y, y

def broken(x):
    if x.sum() > 0:
        return x
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return path


def test_report_of_a_function(script, tmp_path, capsys):
    out, records = tmp_path / "out.html", tmp_path / "out.json"
    status = report_command.main(
        [
            f"{script}:step",
            "--args",
            "f32[4,2]",
            "f32[8,4]",
            "-o",
            str(out),
            "--json",
            str(records),
            "--repeat",
            "3",
        ]
    )
    text = capsys.readouterr().out
    assert status == 0 and "step" in text and "warm" in text
    assert "tanh" in out.read_text()
    assert json.loads(records.read_text())["record"] == "Report"


def test_a_check_says_what_could_be_otherwise(script, tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("found.sarif", "found.xml")]
    words = [f"{script}:spare", "--args", "f32[4]", "f32[8]", "--check"]
    assert report_command.main([*words, *files]) == 1
    assert "unused argument: `mask` is given and not used" in capsys.readouterr().out
    (run,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    assert [r["ruleId"] for r in run["results"]] == ["unused-argument"]
    suite = ElementTree.parse(files[1]).getroot()[0]
    assert suite.get("failures") == "1" and "mask" in suite[0].get("name")
    # Both files have what the change does, as it was compiled: in words, and as numbers.
    said = "given at a call 48 B → 16 B"
    (result,) = run["results"]
    assert said in result["message"]["text"] and said in suite[0].find("failure").get("message")
    assert result["properties"] == {
        "change": "leave it out of the call",
        "outcome": [{"name": "given at a call", "before": 48, "after": 16, "unit": "B"}],
    }
    numbers = {p.get("name"): p.get("value") for p in suite[0].iter("property")}
    assert numbers == {"given at a call, before": "48", "given at a call, after": "16"}
    assert report_command.main([*words, "--allow", "unused argument"]) == 0
    assert "spare: no findings" in capsys.readouterr().out
    assert report_command.main([*words, "--allow", "nonsense"]) == 2
    assert "there are the kinds" in capsys.readouterr().err


def test_changes_are_proved_where_that_is_asked(script, tmp_path, capsys):
    """`--prove`: what a run takes before and after each change stands beside it, in a report and in a check."""
    words = [f"{script}:twice", "--args", "f32[256,256]", "--prove"]
    said = (
        r"without result\[1\].*bytes read and written.*measured a run: [\d.]+ [µm]s → [\d.]+ [µm]s"
    )
    assert report_command.main([*words, "--repeat", "0", "-o", str(tmp_path / "out.html")]) == 0
    assert re.search(said, capsys.readouterr().out)
    assert re.search(said, (tmp_path / "out.html").read_text())
    assert report_command.main([*words, "--check"]) == 1
    assert re.search(said, capsys.readouterr().out)


def test_a_step_is_predicted_for_the_machine_that_is_named(script, tmp_path, capsys):
    words = [f"{script}:twice", "--args", "f32[256,256]", "--machine", "tpu:v5e"]
    assert report_command.main([*words, "--repeat", "0", "-o", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text()
    assert "1 device of tpu:v5e" in page and "predicted, counting with: " in page
    capsys.readouterr()
    costs = []
    for machine in (words[3:], []):
        assert report_command.main([*words[:3], *machine, "--check"]) == 1
        costs.append(float(re.search(r"\(([\d.]+) µs, 262 KB\)", capsys.readouterr().out)[1]))
    assert costs[0] < costs[1]


def test_a_check_names_the_line(script, tmp_path, capsys):
    file = str(tmp_path / "found.sarif")
    assert report_command.main([f"{script}:talks", "--args", "f32[4]", "--check", file]) == 1
    (run,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    line = place["region"]["startLine"]
    assert "debug.print" in script.read_text().splitlines()[line - 1]
    assert place["artifactLocation"]["uri"].endswith("model.py")
    assert "calls of the host 1 → 0" in result["message"]["text"]


def test_report_of_a_function_that_fails(script, tmp_path, capsys):
    out = tmp_path / "out.html"
    assert report_command.main([f"{script}:broken", "--args", "f32[4]", "-o", str(out)]) == 1
    assert "lax.cond" in capsys.readouterr().out
    assert "TracerBoolConversionError" in out.read_text()


def test_a_mesh_has_its_devices_where_nobody_said_how_many(script, tmp_path):
    known = {
        name: value
        for name, value in os.environ.items()
        if name not in ("XLAB_NUM_CPU_DEVICES", "XLA_FLAGS")
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "xlab",
            "report",
            f"{script}:step",
            "--args",
            "f32[4,2]",
            "f32[8,4]",
            "--mesh",
            "data=4",
            "-o",
            str(tmp_path / "o.html"),
            "--repeat",
            "0",
        ],
        capture_output=True,
        text=True,
        env=known,
        check=True,
    )
    assert "x: f32[8,4] over data=4" in done.stdout


def test_arguments_lie_as_the_command_says(script, tmp_path, capsys):
    """By name, or by path to a part, with `*` for any number."""
    script.write_text(
        f"{SCRIPT}\nimport numpy as np\nP = [{{'w': np.ones((8, 4)), 'b': np.ones(4)}}] * 2\n"
        "def layers(params, x):\n    return sum((x @ p['w'] + p['b']).sum() for p in params)\n"
    )
    given = [f"{script}:layers", "--args", "P", "f32[16,8]", "--repeat", "0", "-o", str(tmp_path / "o.html")]  # fmt: skip
    given += ["--mesh", "data=4,model=2", "--in", "params[*]['w']=None,model; params=; x=data"]
    assert report_command.main(given) == 0
    out = capsys.readouterr().out
    for line in (
        "params[0]['w'], params[1]['w']: f32[8,4@model]",
        "params[0]['b'], params[1]['b']: f32[4] over",
        "x: f32[16@data,8]",
    ):
        assert line in out


BAD = {
    "a spec of nothing": (["{script}:step", "--args", "f32[4,2]", "f32[8,4]", "--mesh", "data=4", "--in", "y=data"], 2, "--in names 'y', which is no argument of step; its arguments are w, x"),
    "a spec of no part": (["{script}:step", "--args", "f32[4,2]", "f32[8,4]", "--mesh", "data=4", "--in", "x[0]=data"], 2, "--in: no argument is 'x[0]'; there are x"),
    "no spec": (["{script}:step", "--args", "f32[4,2]", "f32[8,4]", "--in", "x"], 2, "or a path such as layers[*]['wq'] for a name; cannot read 'x'"),
    "a spec without a mesh": (["{script}:step", "--args", "f32[4,2]", "f32[8,4]", "--in", "x=data"], 2, "there is no mesh: add --mesh"),
    "no file": (["nowhere.py:f"], 2, "there is no file nowhere.py"),
    "a folder": ([".:f"], 2, "there is no file ."),
    "no function": (["step"], 2, "FILE.py:FUNCTION, such as model.py:step"),
    "a wrong function": (["{script}:stepp"], 2, "did you mean step? it has step, spare, talks, twice, broken"),
    "a class": (["{script}:SCALE"], 2, "it has step, spare, talks, twice, broken"),
    "no Python": (["{folder}/syntax.py:f"], 2, "syntax.py could not be imported: SyntaxError: '(' was never closed"),
    "a failing import": (["{folder}/needs.py:f"], 2, "ModuleNotFoundError: No module named 'nothing_like_it' (line 2)"),
    "no arguments": (["{script}:step"], 2, "step(w, x): missing a required argument: 'w'; no arguments were given"),
    "too few": (["{script}:step", "--args", "f32[4]"], 2, "missing a required argument: 'x'; 1 argument was given"),
    "too many": (["{script}:step", "--args", "1", "2", "3"], 2, "too many positional arguments; 3 arguments were given"),
    "an open bracket": (["{script}:step", "--args", "f32[4", "1"], 2, "cannot read the argument 'f32[4': it is neither a type such as f32[8,4]"),
    "an unknown type": (["{script}:step", "--args", "q99[4]", "1"], 2, "NameError: name 'q99' is not defined"),
    "an expression that fails": (["{script}:step", "--args", "1/0", "1"], 2, "ZeroDivisionError"),
    "no mesh": (["{script}:step", "--args", "1", "1", "--mesh", "data"], 2, "axis=size"),
    "a large mesh": (["{script}:step", "--args", "1", "1", "--mesh", "data=99"], 2, "XLAB_NUM_CPU_DEVICES=99"),
    "a folder that is not there": (["{script}:step", "--args", "1", "1", "-o", "no/such/out.html"], 2, "there is no folder no/such"),
    "records where nothing is": (["{script}:step", "--args", "1", "1", "--json", "no/such.json"], 2, "--json no/such.json: there is no folder no"),
    "a machine that is none": (["{script}:step", "--args", "1", "1", "--machine", "tpu:v99"], 2, "'tpu:v99'; there are tpu:v4"),
    "fewer than no runs": (["{script}:step", "--args", "1", "1", "--repeat", "-3"], 2, "--repeat -3"),
    "shapes that do not fit": (["{script}:step", "--args", "f32[4,2]", "f32[8,5]"], 1, "step failed: TypeError"),
    "control flow": (["{script}:broken", "--args", "f32[4]"], 1, "broken failed: TracerBoolConversionError"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", BAD)
def test_report_says_what_is_wrong(mistake, script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "syntax.py").write_text("def f(x:")
    (tmp_path / "needs.py").write_text("import math\nimport nothing_like_it")
    words, status, said = BAD[mistake]
    assert report_command.main([w.format(script=script, folder=tmp_path) for w in words]) == status
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert error.startswith("xlab report: ")


def test_records_on_the_output(script, tmp_path, capsys):
    assert (
        report_command.main(
            [
                f"{script}:step",
                "--args",
                "f32[4,2]",
                "f32[8,4]",
                "-o",
                str(tmp_path / "o.html"),
                "--repeat",
                "0",
                "--json",
                "-",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["record"] == "Report"


def test_lab_says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert lab.main(["--folder", str(tmp_path / "file")]) == 2
    assert "is a file; the notebooks go to a folder" in capsys.readouterr().err
    assert lab.main(["--folder", str(tmp_path / "here"), "--notebook", "nope.ipynb"]) == 2
    assert "there is no notebook nope.ipynb" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        lab.main(["--no-browser", "--port", "9000"])
    assert "xlab lab -- --no-browser --port 9000" in capsys.readouterr().err


def test_without_the_lab_the_command_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert lab.main(["--folder", str(tmp_path / "here")]) == 1
    assert "pip install 'xlab[lab]'" in capsys.readouterr().err


def test_doctor(capsys):
    assert doctor.main([]) == 0
    text = capsys.readouterr().out
    assert "jaxlib" in text and "compile and run" in text and "works" in text


def test_doctor_names_the_fix(monkeypatch, capsys):
    monkeypatch.setitem(
        doctor._PACKAGES, "a-package-nobody-has", ("nothing", "pip install it", True)
    )
    assert doctor.main([]) == 1
    assert "fix: pip install it" in capsys.readouterr().out


def test_notebooks_are_copied_and_kept(tmp_path):
    made = lab.copy_notebooks(tmp_path / "here")
    assert lab.TOUR in [path.name for path in made] and tour.NOTEBOOK in [
        path.name for path in made
    ]
    made[0].write_text("mine")
    lab.copy_notebooks(tmp_path / "here")
    assert made[0].read_text() == "mine"


def test_the_tour_leaves_the_history_of_the_user_alone(tmp_path, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    before = set(threading.enumerate())
    try:
        shell = tour.quiet_shell()
        assert shell.run_cell("x = 1 + 1", store_history=True).success and shell.user_ns["x"] == 2
    finally:
        InteractiveShell.clear_instance()
    assert not list(tmp_path.rglob("history*")) and set(threading.enumerate()) == before


@pytest.mark.slow
def test_the_tour(tmp_path, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    pytest.importorskip("sklearn")
    out = tmp_path / "report.html"
    try:
        assert tour.main(["-o", str(out)]) == 0
    finally:
        InteractiveShell.clear_instance()
    text = capsys.readouterr().out
    assert "4×2 mesh data·model" in text and "test accuracy 9" in text
    assert "all_reduce add" in text and "In[7]:13" in text  # a collective, with its line
    blocks = ", ".join(f"params['blocks'][{i}]['up']" for i in range(2))
    assert f"{blocks}: f32[64,128@model]" in text
    page = out.read_text()
    assert "all_reduce" in page and "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_a_short_tour_says_how_far_it_came(tmp_path, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    pytest.importorskip("sklearn")
    out = tmp_path / "report.html"
    try:
        assert (
            tour.main(["--epochs", "1", "-o", str(out)]) == 1
        )  # far from 95 %, and no assertion in the way
    finally:
        InteractiveShell.clear_instance()
    text = capsys.readouterr().out
    assert (
        "Traceback" not in text
        and "all_reduce add" in text
        and text.rindex("test accuracy") > text.index("Phases")
    )
    assert out.exists()


def test_options():
    assert options.axes("data=4 model=2") == {"data": 4, "model": 2}
    assert options.spec("P('data', None)") == P("data", None)
    for bad in ("data", "data=x", "=4", "data=0", "data=2,data=2", ""):
        with pytest.raises(ValueError, match="mesh"):
            options.axes(bad)
    with pytest.raises(ValueError, match="name=spec"):
        options.specs("data")
    with pytest.raises(ValueError, match="cannot read"):
        options.spec("1x")


def test_shardings_of_any_rank_are_drawn(capsys):
    mesh = xlab.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(xlab.sharding.AxisType.Auto,) * 3)
    for shape, spec in (
        ((), P()),
        ((8,), P("a")),
        ((4, 4), P("a", "b")),
        ((4, 4, 4), P("a", "b", "c")),
        ((2, 2, 2, 2, 4), P(None, "a", None, None, ("b", "c"))),
    ):
        sharding = NamedSharding(mesh, spec)
        visualize_sharding(shape, sharding)
        visualize_array_sharding(xlab.device_put(np.ones(shape, np.float32), sharding))
        drawn = capsys.readouterr().out
        assert drawn[: len(drawn) // 2] == drawn[len(drawn) // 2 :]
    with pytest.raises(TypeError, match="takes an array of xlab"):
        visualize_array_sharding(np.ones(3))
