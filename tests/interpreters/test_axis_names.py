"""Names of mesh axes as the partitioner reads them: most words pass, those that would end the process are refused."""

import numpy as np
import pytest

import xlab
from xlab import NamedSharding, P
from xlab.sharding import AxisType


def on_axis(name):
    mesh = xlab.make_mesh((4, 2), (name, "m>}"), axis_types=(AxisType.Auto,) * 2)
    return xlab.device_put(np.ones((16, 8), np.float32), NamedSharding(mesh, P(name, "m>}")))


@pytest.mark.parametrize("name", ["ü", "数", "a\\b", "a\nb", "\u202e"])
def test_names_that_the_compiler_dies_of_are_refused(name):
    with pytest.raises(ValueError, match="printable ASCII"):
        xlab.jit(lambda x: x + 1)(on_axis(name))


@pytest.mark.parametrize("name", ["a\"b'c", "{a}", "b]", "<img src=x>", "c, d", "x:(2)4"])
def test_any_other_name_is_found_again_in_the_layouts(name):
    x = on_axis(name)
    with xlab.observe.record() as session:
        xlab.jit(lambda x: (xlab.lax.sin(x) @ x.T, xlab.numpy.sort(x, 0)))(x)
    report = xlab.observe.report(session)
    assert not [n for n in report.notices if "could not be shown" in n.text]
    assert report.layouts and {
        axis for layout in report.layouts for dim in layout.type.spec for axis in dim
    } <= {name, "m>}"}
