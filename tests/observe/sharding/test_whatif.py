"""Other shardings without running."""

import numpy as np
import pytest

from tests.observe import sample_programs as programs
from xlab import observe
from xlab.observe.sharding.whatif import predicted_us
from xlab.sharding import PartitionSpec as P

ARGS = (np.ones((8, 16), np.float32), np.ones((16, 4), np.float32))


def test_another_sharding_removes_the_collective():
    mesh = programs.mesh()
    split = observe.what_if(
        programs.matmul, ARGS, in_shardings=(P("data", "model"), P("model", None)), mesh=mesh
    )
    whole = observe.what_if(
        programs.matmul, ARGS, in_shardings=(P("data", None), P(None, "model")), mesh=mesh
    )
    assert [t.kind for t in split.transfers] == ["all_reduce"] and whole.transfers == ()
    assert predicted_us(split) > predicted_us(whole) == 0
    assert [x.type.text for x in whole.layouts if x.role == "argument"] == [
        "f32[8@data,16]",
        "f32[16,4@model]",
    ]
    assert whole.layouts[-1].type.text == "f32[8@data,4@model]"


def test_search_ranks_by_communication_then_memory():
    found = observe.search_shardings(
        programs.matmul, ARGS, programs.mesh(), arguments=[1], limit=20
    )
    costs = [predicted_us(r) for r in found]
    assert costs == sorted(costs) and costs[0] == 0 and len({r.title for r in found}) == len(found)
    few = observe.search_shardings(programs.matmul, ARGS, programs.mesh(), limit=2)
    assert "not tried: limit=2" in few[-1].title
    with pytest.raises(ValueError, match="needs a mesh"):
        observe.search_shardings(programs.matmul, ARGS)


def test_live_arrays():
    x = programs.put(np.ones((64, 64)), "data", "model")
    assert any(made.type.text == "f32[64@data,64@model]" for made in observe.live_arrays())
    del x
