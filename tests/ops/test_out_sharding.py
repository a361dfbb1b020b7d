"""Segments whose result is asked for with a sharding."""

import numpy as np

import xlab
from xlab import ops
from xlab.sharding import AxisType, make_mesh
from xlab.sharding import PartitionSpec as P


def test_a_segment_sum_lies_as_asked_for():
    with xlab.set_mesh(make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,))):
        made = xlab.jit(lambda x: ops.segment_sum(x, np.arange(8) % 4, 4, out_sharding=P("d")))(
            np.arange(8, dtype=np.float32)
        )
    assert made.sharding.spec == P("d") and made.tolist() == [4, 6, 8, 10]
