"""Tracebacks of errors that leave a library's function, filtered where an option asks for it; and what makes arrays of a library's own dtype."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.config import config
from xlab.core import ShapedArray
from xlab.jax_alias import shims
from xlab.jax_alias.boundaries import UnfilteredStackTrace, api_boundary


@api_boundary
def outer(x):
    return xlab.jit(inner)(x)


@api_boundary
def inner(x):
    raise KeyError("here")


def caught(mode):
    before = config.traceback_filtering
    config.update("traceback_filtering", mode)
    try:
        outer(1.0)
    except KeyError as error:
        return error
    finally:
        config.update("traceback_filtering", before)


def frames(error):
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


@pytest.mark.parametrize("mode", ["off", "auto"])
def test_nothing_is_taken_out_unless_it_is_asked_for(mode):
    error = caught(mode)
    assert len(frames(error)) > 4 and error.__cause__ is None
    assert not any("__tracebackhide__" in frame.f_locals for frame in frames(error))


def test_hidden_frames_are_marked():
    found = frames(caught("tracebackhide"))
    assert len(found) == len(frames(caught("off")))
    shown = [frame for frame in found if "__tracebackhide__" not in frame.f_locals]
    assert [frame.f_code.co_name for frame in shown] == ["caught", "outer", "inner"]


def test_frames_are_taken_out_and_the_cause_has_them():
    error = caught("remove_frames")
    assert [frame.f_code.co_name for frame in frames(error)] == ["caught", "outer", "inner"]
    assert isinstance(error.__cause__, UnfilteredStackTrace) and len(frames(error.__cause__)) > 4
    quiet = caught("quiet_remove_frames")
    assert len(frames(quiet)) == 3 and quiet.__cause__ is None


def test_whole_arrays_of_those_of_the_devices():
    where = xlab.NamedSharding(xlab.make_mesh((8,), "i"), xlab.P("i"))
    x = xlab.device_put(np.arange(8.0, dtype=np.float32), where)
    make = shims.ResultHandlers()[ShapedArray](xlab.typeof(jnp.ones(8)), where, True)
    made = make(shard.data for shard in x.addressable_shards)
    assert made.sharding == where and made.tolist() == x.tolist()
    with pytest.raises(KeyError):
        shims.ResultHandlers()[int]
