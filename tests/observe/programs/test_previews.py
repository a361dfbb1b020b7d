"""Programs whose preview ends a process are looked at like all others: collectives, reasons, text; the process of the user lives."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import xlab
from tests.observe import previews
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.backend import partitioning, worker
from xlab.sharding import AxisType, NamedSharding, P, make_mesh

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def looked():
    child = subprocess.run(
        [sys.executable, "-m", "tests.observe.previews"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "8"},
    )
    found = {one["name"]: one for one in map(json.loads, child.stdout.splitlines())}
    assert child.returncode == 0, (
        f"ended with {child.returncode} after {list(found)}:\n{child.stderr[-2000:]}"
    )
    return found


GATHERS = (
    "lookup",
    "lookup of split ids",
    "gradient of lookup",
    "take",
    "take_along_axis",
    "permutation",
    "Explicit lookup",
)


@pytest.mark.parametrize("name", previews.PROGRAMS)
def test_is_looked_at(looked, name):
    found = looked[name]
    assert found["levels"] == ["stablehlo", "propagated", "partitioned", "optimized"]
    assert found["listed"] == len(found["kinds"]) and found["layouts"] > 1
    assert not any("not known" in text for text in (*found["reasons"], *found["notices"]))
    if name != "values nobody reads":
        assert found["kinds"] and all(found["reasons"])


@pytest.mark.parametrize("name", GATHERS)
def test_lookups_have_causes(looked, name):
    found = looked[name]
    assert found["kinds"] == ["all_reduce"] and found["fixes"][0]
    assert (
        found["reasons"][0].startswith("gather (line ") and "is split over" in found["reasons"][0]
    )
    assert (
        found["partitioned"].rstrip().endswith("does not depend on it")
        and "sdy.all_reduce" in found["partitioned"]
    )
    said = found["partitioned"].rpartition("\n//")[2]
    assert "ended before its stage `local`" in said and "SIGSEGV" in said
    assert not [n for n in found["notices"] if "local" in n]  # nothing that was asked is missing


@pytest.mark.parametrize(
    ("name", "primitive"),
    [("cumsum", "cumsum"), ("cummax", "cummax"), ("partly manual", "cumsum")],
)
def test_running_sums_say_which_operation(looked, name, primitive):
    found = looked[name]
    assert found["kinds"] == ["all_gather"] and found["reasons"][0].startswith(
        f"{primitive} (line "
    )
    assert "isPassthrough" in found["partitioned"]


def test_losses_over_split_classes(looked):
    assert (
        "gather (line " in looked["cross-entropy"]["reasons"][0]
        and "`logits`" in looked["cross-entropy"]["reasons"][0]
    )
    assert "all_to_all" in looked["median"]["kinds"]


def test_looking_again_after_the_worker_was_killed_in_the_middle(monkeypatch, mesh):
    x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data", "model")))
    f = xlab.jit(lambda x: x @ x)
    f(x)
    monkeypatch.setattr(partitioning, "stages_of", is_killed)
    with observe.record() as session:
        f(x)
    report = observe.report(session)
    assert report.transfers and all(
        "why is not known" in t.reason and "SIGKILL" in t.reason for t in report.transfers
    )
    assert any("ended before its stage `propagated`" in n.text for n in report.notices)
    assert "SIGKILL" in report.programs[0].levels[1].text
    monkeypatch.undo()
    with observe.record() as session:
        f(x)
    again = observe.report(session)
    assert all("dot_general (line" in t.reason for t in again.transfers) and again.notices == tuple(
        n for n in again.notices if "preview" not in n.text
    )


def is_killed(*args):
    yield "input", "module"
    os.kill(os.getpid(), signal.SIGKILL)


def stops(*args):
    yield "input", "module"
    time.sleep(60)


def test_a_pass_that_hangs_is_ended(monkeypatch, mesh):
    x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data", "model")))
    monkeypatch.setattr(partitioning, "stages_of", stops)
    monkeypatch.setattr(worker, "LIMIT", 0.5)
    found = observe.transfers(lambda x: x @ x, x)
    assert found and all("took longer than 0.5 s" in t.reason for t in found)


def test_the_cell_magic(shell, capsys):
    shell.run_line_magic("load_ext", "xlab")
    shell.user_ns.update(np=np, jnp=jnp, i=np.arange(4), x=np.ones((32, 16), np.float32))
    for code, collective in (
        ("y = x[i] * 2", "all_reduce"),
        ("y = jnp.cumsum(x, 0)", "all_gather"),
    ):
        shell.run_cell(f"%%xjit --mesh data=4,model=2 --in x=data,model\n{code}").raise_error()
        assert isinstance(shell.user_ns["y"], xlab.Array) and collective in capsys.readouterr().out


@pytest.mark.parametrize("name", ["lookup", "gradient of lookup", "Explicit lookup"])
def test_other_ways_to_look(shell, name):
    """An experiment, a compiled program as the value of a cell, and an assertion of a test."""
    f, *args = previews.PROGRAMS[name]()
    f = xlab.jit(f)
    tried = observe.Experiment(f, *args)
    assert (tried.now().collectives and "table" in repr(tried)) or "t P(" in repr(tried)
    observe.assert_collectives(f, args, allow={"all_reduce": 1})
    with pytest.raises(AssertionError, match=r"gather \(line \d+\)"):
        observe.assert_collectives(f, args)
    shell.run_line_magic("load_ext", "xlab")
    data, _ = shell.display_formatter.format(f.lower(*args).compile())
    assert "all_reduce" in data["text/html"] or "all-reduce" in data["text/html"]


# ------------------------------------------------------------------------------------------------ Fourier transforms


@pytest.mark.parametrize("axes", [("x", "y"), ("y", "x"), "x"], ids=str)
@pytest.mark.parametrize("n", [8, 12, 16, 64])
def test_transforms_over_split_dimensions(n, axes):
    mesh = make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = np.random.RandomState(0).randn(3, 2, n).astype(np.complex64)
    there = xlab.device_put(x, NamedSharding(mesh, P(None, None, axes)))
    for lengths in ((n,), (2, n)):
        found = xlab.jit(lambda v, lengths=lengths: lax.fft(v, "fft", lengths))(there)
        np.testing.assert_allclose(
            np.asarray(found), np.fft.fftn(x, axes=range(-len(lengths), 0)), atol=1e-4
        )


def test_transforms_partly_by_hand():
    mesh = make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = np.random.RandomState(0).randn(4, 2, 8).astype(np.complex64)
    f = xlab.shard_map(
        lambda v: lax.fft(v, "fft", (8,)),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
    )
    found = xlab.jit(f)(xlab.device_put(x, NamedSharding(mesh, P("x", None, "y"))))
    np.testing.assert_allclose(np.asarray(found), np.fft.fft(x), atol=1e-4)


# --------------------------------------------------------------------------------------------------- large constants


def test_what_stands_before_the_arguments_is_not_taken_for_them(mesh):
    """Large constants are parameters of the program as well, the first ones."""
    constant = jnp.asarray(np.random.RandomState(0).rand(16, 512).astype(np.float32))
    x = xlab.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P(None, "data")))
    f = xlab.jit(lambda x: x @ constant)
    assert len(f.lower(x)._lowered.module.hoisted) == 1
    (t,) = observe.transfers(f, x)
    assert "`x` f32[8,16@data] and `constant 0` f32[16@data,512]" in t.reason
    with observe.record() as session:
        f(x)
    report = observe.report(session)
    layouts = {layout.name: layout for layout in report.layouts}
    assert layouts["x"].type.spec == ((), ("data",)) and not any(
        "Error" in n.text for n in report.notices
    )
