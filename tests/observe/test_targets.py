"""Programs compiled for machines that are not there; what needs the TPU compiler runs where the extra `tpu` is installed."""

import numpy as np
import pytest

import xlab
from tests.observe import programs
from xlab import observe
from xlab.backend import tpu_target
from xlab.observe.targets import topology


def test_names_of_targets():
    assert topology("tpu:v4:2x2x4") == "v4:2x2x4"
    for wrong in ("tpu", "tpu:v5e", "gpu:h100:8", "v5e:4x4"):
        with pytest.raises(ValueError, match="a target is tpu:generation:shape"):
            topology(wrong)


def test_without_the_extra_the_message_has_the_command(monkeypatch):
    monkeypatch.setattr(tpu_target, "library", lambda: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'xlab\[tpu\]'"):
        observe.target("tpu:v5e:2x4", programs.dense, *programs.sharded_operands())


@pytest.mark.skipif(tpu_target.library() is None, reason="needs the extra tpu: pip install 'xlab[tpu]'")
def test_a_sharded_program_for_a_tpu_slice():
    found = observe.target("tpu:v5e:2x4", programs.dense, *programs.sharded_operands())
    assert {t.kind for t in found.transfers} == {"all_reduce"} and all(t.origin == "partitioner" for t in found.transfers)
    assert any("split over model" in t.reason for t in found.transfers)
    assert "T(2,128)" in found.programs[0].levels[-1].text and found.memory[0].peak > 0
    assert "compiled for tpu:v5e:2x4" in found.notices[0].text
    one = observe.target("tpu:v5e:2x4", lambda x: xlab.lax.sin(x), np.ones(8, np.float32))
    assert one.transfers == ()
    with pytest.raises(ValueError, match="has 16 devices and the program is for 8"):
        observe.target("tpu:v5e:4x4", programs.dense, *programs.sharded_operands())
    with pytest.raises(ValueError, match="no TPU topology"):
        observe.target("tpu:v99:4x4", programs.dense, *programs.sharded_operands())
