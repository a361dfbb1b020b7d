"""`--target`: another machine's compiler beside this one's, in a cell, and what is said where it is not installed."""

import pytest

from tests.notebook.shells import loaded, ran, shown
from tests.notebook.views import sample
from xlab import observe
from xlab.backend import tpu_target
from xlab.notebook import export, recording

SETUP = "from xlab import numpy as jnp\nfrom xlab.sharding import PartitionSpec as P\nx = jnp.ones((16, 8)); w = jnp.ones((8, 4))"


@pytest.fixture
def lab(shell):
    with loaded(shell, SETUP) as made:
        yield made


@pytest.fixture
def there(monkeypatch):
    """A TPU compiler that answers with the sample, and remembers what it was asked."""
    asked = []
    monkeypatch.setattr(tpu_target, "library", lambda: "here")

    def scheduled(name, *call):
        asked.append((name, call))
        return sample.scheduled().replace(target=name, function="cell")

    monkeypatch.setattr(observe, "scheduled", scheduled)
    return asked


def run(lab, source):
    result, outputs, printed = ran(lab, source)
    return result, shown(outputs), printed


def test_a_cell_runs_here_and_is_compiled_there(lab, there):
    result, text, _ = run(lab, "%%xjit --target tpu:v5e:2x4 --mesh data=8 --in 'x=data'\ny = x @ w")
    assert result.success and lab.user_ns["y"].shape == (16, 4)
    assert (
        "Targets" in text
        and "tpu:v5e:2x4 (TPU v5 lite, 8 devices)" in text
        and "not shown as fact" in text
    )
    assert there[0][0] == "tpu:v5e:2x4"


def test_a_mesh_larger_than_this_machine_is_compiled_and_not_run(lab, there):
    result, text, printed = run(
        lab,
        "%%xjit --target tpu:v5e:4x4 --mesh data=4,model=4 --in 'x=data,None; w=None,model'\nz = x @ w",
    )
    assert result.success and "z" not in lab.user_ns
    assert (
        "compiled and not run: the mesh has 16 devices" in printed and "4×4 mesh data·model" in text
    )


def test_without_the_extra_the_message_has_the_command_and_nothing_runs(lab, monkeypatch):
    monkeypatch.setattr(tpu_target, "library", lambda: None)
    for source in (
        "%%xjit --target tpu:v5e:2x4\nz = x + 1",
        "%xflow jnp.sin(x) --target tpu:v5e:2x4",
        "%xshard P('data') --shape 8 --mesh data=8 --target tpu:v5e:2x4",
    ):
        result, *_ = run(lab, source)
        assert "pip install 'xlab[tpu]'" in str(result.error_in_exec) and "z" not in lab.user_ns


def test_a_target_that_is_none(lab, there):
    result, *_ = run(lab, "%%xjit --target gpu:h100\nz = x + 1")
    assert (
        "a target is tpu:generation:shape" in str(result.error_in_exec)
        and "z" not in lab.user_ns
        and there == []
    )


def test_a_spec_on_the_devices_of_a_target(lab, monkeypatch):
    monkeypatch.setattr(
        tpu_target,
        "topology_devices",
        lambda name: {
            "devices": [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15],
            "hosts": [n // 4 for n in range(16)],
            "kind": "TPU v5 lite",
        },
    )
    result, text, _ = run(
        lab, "%xshard P('data', None) --shape 8,4 --mesh data=4,model=4 --target tpu:v5e:4x4"
    )
    assert (
        result.success
        and "tpu:v5e:4x4: f32[8@data,4] over data=4 model=4" in text
        and "0,1,4,5" in text
    )
    result, *_ = run(lab, "%xshard P('data', None) --target tpu:v5e:4x4")
    assert "needs --shape 8,4 and --mesh data=4,model=4" in str(result.error_in_exec)


def test_the_page_has_the_module_beside_the_others():
    made = sample.report()
    program = made.programs[0]
    page = export.to_html(
        made.replace(
            programs=(program.replace(levels=(*program.levels, sample.scheduled().level)),),
            targets=(sample.scheduled(),),
        )
    )
    assert "Targets" in page and "tpu:v5e:2x4" in page and "waited for at once" in page


@pytest.mark.parametrize("magic", ["%%xjit {}\ny = x @ w", "%xjit {} f(x, w)"])
def test_a_step_is_predicted_for_a_machine_that_is_named(lab, magic):
    """It runs here and needs no extra; a machine that is none is refused before anything runs."""
    assert lab.run_cell("def f(x, w): return x @ w").success
    result, _, _ = run(lab, magic.format("--machine tpu:v5e"))
    assert result.success and recording.last.costs[0].machine.name == "tpu:v5e"
    lab.user_ns.pop("y", None)
    result, *_ = run(lab, magic.format("--machine tpu:v99"))
    assert not result.success and "y" not in lab.user_ns
    assert "'tpu:v99'; there are tpu:v4" in str(result.error_before_exec or result.error_in_exec)
