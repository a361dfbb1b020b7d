"""Arrays of two processes in files of TensorStore's: each process writes and reads its own parts, and an error in one is told in both."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.parallel.workers import start_two

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorstore") is None,
        reason="tensorstore not installed: pip install '.[libraries]'",
    ),
]
START = """
import json, os, sys
import numpy as np, xlab, xlab.numpy as jnp
from xlab import NamedSharding, P
from xlab.experimental import multihost_utils
from xlab.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager, get_tensorstore_spec
address, me, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
xlab.distributed.initialize(address, 2, me)
mesh = xlab.make_mesh((4, 2), ("x", "y"))
manager = GlobalAsyncCheckpointManager(timeout_secs=60)
whole = np.arange(64, dtype=np.float32).reshape(8, 8)
def placed(*spec, mesh=mesh):
    sharding = NamedSharding(mesh, P(*spec))
    return xlab.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])
"""
ROUND_TRIP = """
specs = [("x", "y"), (None, ("x", "y")), ("y",), ()]
options = json.loads(sys.argv[4])
places = [get_tensorstore_spec(f"{folder}/{n}", **options) for n in range(len(specs))]
committed = []
manager.serialize([placed(*s) for s in specs], places, on_commit_callback=lambda: committed.append(sorted(os.listdir(folder)) != []))
manager.wait_until_finished()
turned = xlab.make_mesh((2, 4), ("y", "x"))
wanted = [[NamedSharding(over, P(*s)) for s in order] for over, order in ((mesh, specs), (mesh, specs[::-1]), (turned, specs))]
told = []
for shardings in wanted:
    found = manager.deserialize(shardings, places)
    told.append(all(
        x.sharding == s and all(np.array_equal(piece.data, whole[piece.index]) for piece in x.addressable_shards)
        for x, s in zip(found, shardings, strict=True)
    ))
    told.append([len(x.addressable_shards) for x in found])
longer, = manager.deserialize([NamedSharding(mesh, P("x"))], places[:1], [(12, 4)], ["bfloat16"])
padded = np.pad(whole[:, :4], ((0, 4), (0, 0)))
told += [str(longer.dtype), all(np.array_equal(p.data, padded[p.index].astype(p.data.dtype)) for p in longer.addressable_shards)]
multihost_utils.sync_global_devices("read")
# A second save to the same places is the one that is read.
whole = whole + 100
manager.serialize([placed("x", "y")], places[:1])
manager.check_for_errors()
manager.wait_until_finished()
again, = manager.deserialize([NamedSharding(mesh, P("y"))], places[:1])
told.append(all(np.array_equal(p.data, whole[p.index]) for p in again.addressable_shards))
print("told " + json.dumps([committed, told]))
"""
# What goes wrong, in which process, and whether while parts are written or when all are.
ERRORS = """
wrong, at = int(sys.argv[4]), sys.argv[5]
places = [get_tensorstore_spec(f"{folder}/a")]
def callback():
    if at == "commit":
        raise OSError("the folder cannot be renamed")
if at == "write" and me == wrong:
    # A file where the array's folder has to be, which TensorStore cannot write into.
    places = [get_tensorstore_spec(f"{folder}/file/a")]
manager.serialize([placed("x", "y")], places, on_commit_callback=callback)
told = []
for ask in (manager.wait_until_finished, manager.check_for_errors):
    try:
        ask()
        told.append("")
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
# And the next save is whole.
manager.serialize([placed("x", "y")], [get_tensorstore_spec(f"{folder}/b")])
manager.wait_until_finished()
x, = manager.deserialize([NamedSharding(mesh, P())], [get_tensorstore_spec(f"{folder}/b")])
print("told " + json.dumps([told, bool(np.array_equal(x, whole))]))
"""


def told(source: str, *arguments: str) -> list:
    """By process, what it told."""
    found = []
    for code, words in start_two(START + source, *arguments, devices=4):
        assert code == 0, words[-4000:]
        found.append(json.loads(words.rsplit("told ", 1)[1].splitlines()[0]))
    return found


@pytest.mark.parametrize("options", [{}, {"driver": "zarr3"}, {"ocdbt": True}])
def test_saved_by_two_and_read_under_other_shardings(tmp_path, options):
    first, second = told(ROUND_TRIP, str(tmp_path), json.dumps(options))
    fours = [True, [4, 4, 4, 4]]
    assert first == [[True], [*fours * 3, "bfloat16", True, True]]
    assert second == [[], first[1]]  # the end is told to the first process alone


@pytest.mark.parametrize("wrong", [0, 1])
def test_what_one_cannot_write_is_an_error_in_both(tmp_path, wrong):
    (tmp_path / "file").write_text("in the way")
    found = told(ERRORS, str(tmp_path), str(wrong), "write")
    (own, later), whole = found[wrong]
    (heard, later_too), whole_too = found[1 - wrong]
    assert "file/a" in own and not own.startswith("RuntimeError")
    assert heard.startswith(f"RuntimeError: the arrays are not saved: process {wrong} of 2 failed with {own[:20]}")  # fmt: skip
    assert later == later_too == "" and whole is whole_too is True


def test_what_cannot_be_committed_is_an_error_in_both(tmp_path):
    (first, second) = told(ERRORS, str(tmp_path), "0", "commit")
    assert first == [["OSError: the folder cannot be renamed", ""], True]
    said = (
        "the arrays are not saved: process 0 of 2 failed with OSError: the folder cannot be renamed"
    )
    assert second == [[f"RuntimeError: {said}", ""], True]
