"""Arrays that another process fetches: within one process, and of a child process that knows only an address."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import xlab
from tests.parallel.workers import ROOT
from xlab import numpy as jnp
from xlab.experimental import transfer
from xlab.sharding import NamedSharding, P, SingleDeviceSharding


@pytest.fixture(scope="module")
def server():
    return transfer.start_transfer_server(xlab.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])


@pytest.fixture(scope="module")
def connection(server):
    return server.connect(server.address())


def of(x, sharding=None):
    return xlab.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding or x.sharding)


def soon(seconds=0.3):
    return datetime.datetime.now() + datetime.timedelta(seconds=seconds)


def test_a_tree_of_many_types_arrives(server, connection):
    values = {d: jnp.arange(6).astype(d).reshape(2, 3)
              for d in ("bool", "int4", "uint8", "bfloat16", "float32", "complex64", "float8_e4m3fn")}  # fmt: skip
    values["scalar"], values["empty"] = jnp.float32(3), jnp.zeros((0, 3))
    server.await_pull(10, values)
    came = connection.pull(10, xlab.tree.map(of, values))
    for name, x in values.items():
        assert came[name].dtype == x.dtype and np.array_equal(came[name], x), name
    grown = xlab.jit(lambda x: x + 1)(came["float32"])  # they are arrays as any others
    assert grown.tolist() == [[1, 2, 3], [4, 5, 6]] and came["float32"].committed


def test_only_empty_arrays(server, connection):
    x = jnp.zeros((3, 0), "int32")
    server.await_pull(11, [x])
    (came,) = connection.pull(11, [of(x)])
    assert came.shape == (3, 0) and came.dtype == "int32"


def test_shard_by_shard_onto_other_devices(server, connection):
    devices = xlab.devices()
    here = NamedSharding(xlab.make_mesh((2,), ("a",), devices=devices[:2]), P("a"))
    there = NamedSharding(xlab.make_mesh((2,), ("b",), devices=devices[2:4]), P("b"))
    x = xlab.device_put(jnp.arange(8), here)
    server.await_pull(12, x)
    came = connection.pull(12, of(x, there))
    assert came.sharding == there and came.tolist() == list(range(8))
    assert [s.device for s in came.addressable_shards] == list(devices[2:4])
    server.await_pull(13, x[:4])
    alone = SingleDeviceSharding(devices[1])
    with pytest.raises(xlab.errors.JaxRuntimeError):  # it has one shard, two are offered
        np.asarray(connection.pull(13, of(x, alone)))


def test_fetched_before_it_is_offered(server, connection):
    x = jnp.arange(3)
    came = connection.pull(14, of(x))
    server.await_pull(14, x)
    assert came.tolist() == [0, 1, 2]


def test_what_is_not_offered_in_time_is_an_error(server):
    connection = server.connect(server.address())
    came = connection.pull(15, of(jnp.arange(3)), timeout=soon())
    with pytest.raises(xlab.errors.JaxRuntimeError, match="closed|InjectFailure"):
        np.asarray(came)
    again, x = server.connect(server.address()), jnp.arange(3)
    server.await_pull(16, x)
    assert again.pull(16, of(x), timeout=soon(60)).tolist() == [0, 1, 2]


def test_an_array_that_could_not_be_had():
    x = transfer.make_error_array(of(jnp.zeros(3)), "the trainer has gone")
    assert x.shape == (3,) and x.sharding == jnp.zeros(3).sharding
    with pytest.raises(xlab.errors.JaxRuntimeError, match="the trainer has gone"):
        np.asarray(x)


@pytest.mark.parametrize(
    ("kind", "words", "act"),
    [
        (TypeError, "a number, an int", lambda s, c: s.await_pull("1", jnp.zeros(3))),
        (TypeError, "a number, an int", lambda s, c: c.pull(1.5, [])),
        (TypeError, "point of time", lambda s, c: c.pull(1, [], timeout=3)),
        (TypeError, "device_put makes one", lambda s, c: s.await_pull(1, [np.zeros(3)])),
        (TypeError, "key_data", lambda s, c: s.await_pull(1, xlab.random.key(0))),
        (TypeError, "key_data", lambda s, c: c.pull(1, of(xlab.random.key(0)))),
        (TypeError, "sharding=", lambda s, c: c.pull(1, xlab.ShapeDtypeStruct((3,), "float32"))),
        (RuntimeError, "deleted", lambda s, c: s.await_pull(1, deleted())),
    ],
)
def test_error(server, connection, kind, words, act):
    with pytest.raises(kind, match=words):
        act(server, connection)


def deleted():
    x = jnp.zeros(3) + 1
    x.delete()
    return x


def test_from_another_process():
    source = """
        import xlab, xlab.numpy as jnp
        from xlab.experimental import transfer
        server = transfer.start_transfer_server(xlab.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
        mesh = xlab.make_mesh((2,), ("x",))
        weights = xlab.device_put(jnp.arange(4.0), xlab.NamedSharding(mesh, xlab.P("x")))
        server.await_pull(1, {"w": weights, "n": jnp.int32(7)})
        print(server.address(), flush=True)
        input()
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLAB_NUM_CPU_DEVICES": "2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = child.stdout.readline().strip()
        mine = transfer.start_transfer_server(
            xlab.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"]
        )
        connection = mine.connect(address)
        mesh = xlab.make_mesh((2,), ("x",), devices=xlab.devices()[:2])
        types = {
            "w": xlab.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, P("x"))),
            "n": of(jnp.int32(0)),
        }
        came = connection.pull(1, types, timeout=soon(60))
        assert came["w"].tolist() == [0, 1, 2, 3] and int(came["n"]) == 7
        waits = connection.pull(2, types)  # never offered
        child.communicate("\n", timeout=60)
        with pytest.raises(xlab.errors.JaxRuntimeError):
            np.asarray(waits["w"])
    finally:
        child.kill()
        child.wait()
