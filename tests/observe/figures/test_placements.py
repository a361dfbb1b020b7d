"""Layouts and collectives as matplotlib figures: on the Axes given, with every block and bar."""

import numpy as np
import pytest

from tests.observe import sample_programs as programs
from xlab import observe
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

pytest.importorskip("matplotlib").use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.mark.parametrize(
    ("shape", "spec", "blocks"),
    [
        ((8, 4), P("data", "model"), 8),
        ((8,), P("data"), 4),
        ((4, 8, 4), P("data", None, "model"), 8),
        ((8, 4), P(), 1),
    ],
)
def test_a_block_per_piece(shape, spec, blocks):
    ax = observe.layout(NamedSharding(programs.mesh(), spec), shape).plot()
    assert len(ax.patches) == blocks and "over data=4 model=2" in ax.get_title()
    labels = ",".join(t.get_text() for t in ax.texts)
    assert "0" in labels
    pyplot.close("all")


def test_a_bar_per_collective_on_the_axes_given():
    _, ax = pyplot.subplots()
    found = observe.transfers(programs.dense, *programs.sharded_operands())
    assert found.plot(ax=ax) is ax and found[0].plot(ax=pyplot.subplots()[1]) is not ax
    assert len(ax.patches) == 2 and ax.get_yticklabels()[0].get_text().startswith(
        "all_reduce add over model"
    )
    assert ax.get_title() == "2 collectives, 56 B sent per device"
    assert np.allclose([p.get_width() for p in ax.patches], [32, 24])
    pyplot.close("all")
