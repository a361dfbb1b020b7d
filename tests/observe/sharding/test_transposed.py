"""The collectives of a program beside those of its transpose: for every collective the one that the table of transposes says."""

import numpy as np
import pytest

import xlab
from xlab import lax, observe
from xlab.observe.records import Record
from xlab.sharding import AxisType, make_mesh
from xlab.sharding import PartitionSpec as P

MESH = make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
X = np.arange(32, dtype=np.float32)
SPEC = P(("i", "j"))


def mapped(f, **options):
    return xlab.shard_map(f, mesh=MESH, in_specs=SPEC, out_specs=SPEC, **options)


# C110: what is written, and what its transpose sends.
TABLE = {
    "psum": (lambda x: lax.psum(x, "i"), []),
    "all_gather": (lambda x: lax.all_gather(x, "i", tiled=True), ["psum_scatter"]),
    "all_gather to invarying": (lambda x: lax.all_gather(x, "i", to="invarying", tiled=True), []),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True), ["all_gather"]),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), ["all_to_all"]),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), ["ppermute"]),
    "all_gather_start": (
        lambda x: lax.all_gather_start(x, "i", tiled=True).done(),
        ["psum_scatter_start"],
    ),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 1), ["psum"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_each_beside_its_transpose(name):
    f, expected = TABLE[name]
    found = observe.transposed(mapped(lambda x: _own(f(x))), X)
    assert [found.backward[j].call for j in found.beside[0]] == expected


def _own(x):
    """A value as one that each device has of its own."""
    missing = tuple(a for a in ("i", "j") if a not in xlab.typeof(x).mat.varying)
    return lax.pcast(x, missing, to="varying") if missing else x


def test_trips_totals_and_what_stands_alone():
    """C109."""

    def body(x, w):
        def step(c, _):
            return lax.ppermute(c * w, "i", [(0, 1), (1, 0)]), None

        c, _ = lax.scan(step, x, None, length=3)
        return lax.all_gather(c, "j", tiled=True)

    f = xlab.shard_map(body, mesh=MESH, in_specs=(SPEC, P()), out_specs=SPEC)
    found = observe.transposed(f, X, np.float32(2))
    assert [(t.call, t.times) for t in found.forward] == [("ppermute", 3), ("all_gather", 1)]
    assert [(found.backward[j].call, found.backward[j].times) for (j,) in found.beside] == [
        ("ppermute", 3),
        ("psum_scatter", 1),
    ]
    assert [found.backward[j].axes for j in found.alone] == [("i", "j")], "the weight's gradient"
    assert all(t.source in [s.source for s in found.forward] for t in found.backward[:1])
    text = observe.text(found)
    assert "2 collectives forwards, 3 backwards" in text
    assert "backwards: each device sends" in text and "ppermute over i, 16 B × 3" in text
    assert Record.from_json(found.to_json()) == found


def test_integers_have_no_transpose():
    with pytest.raises(TypeError, match="no argument has a derivative"):
        observe.transposed(mapped(lambda x: lax.psum_scatter(x, "i", tiled=True)), X.astype(int))
    with pytest.raises(TypeError, match="takes a function and its arguments"):
        observe.transposed(3)
