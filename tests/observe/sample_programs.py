"""Programs that several tests observe, on eight CPU devices."""

import numpy as np

import xlab
from xlab import lax
from xlab.sharding import AxisType, NamedSharding, make_mesh
from xlab.sharding import PartitionSpec as P


def mesh():
    return make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def put(value, *spec):
    return xlab.device_put(np.asarray(value, np.float32), NamedSharding(mesh(), P(*spec)))


def matmul(x, w):
    return lax.dot_general(x, w, (((1,), (0,)), ((), ())))


def dense(x, w):
    hidden = matmul(x, w)
    active = lax.tanh(hidden)
    with xlab.named_scope("head"):
        total = lax.reduce_sum(active, (0,))
    return total, active


def sharded_operands():
    return put(np.ones((8, 16)), "data", "model"), put(np.ones((16, 4)), "model", None)


def ring_body(x, w):
    y = lax.psum(matmul(x, w), "model")

    def turn(c, _):
        return lax.mul(c, lax.ppermute(c, "data", [(0, 1), (1, 2), (2, 3), (3, 0)])), None

    y, _ = lax.scan(turn, y, None, length=3)
    return lax.all_gather(y, "data", tiled=True)


def ring():
    return xlab.shard_map(
        ring_body,
        mesh=mesh(),
        in_specs=(P("data", "model"), P("model", None)),
        out_specs=P("data", None),
    )


def control(x):
    def body(c, i):
        c = lax.mul(lax.sin(c), c)
        return c, lax.reduce_sum(c, (0, 1))

    c, ys = lax.scan(body, x, np.arange(3, dtype=np.float32))
    n = lax.while_loop(
        lambda v: lax.lt(v, np.float32(100)),
        lambda v: lax.mul(v, np.float32(3)),
        lax.add(lax.abs(lax.reduce_sum(ys, (0,))), np.float32(1)),
    )
    z = lax.cond(lax.gt(n, np.float32(0)), lax.log, lax.neg, n)
    return c, ys, z
