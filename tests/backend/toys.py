"""Hand-written programs and a toy jit over the native call path, for tests of the backend alone."""

from __future__ import annotations

import numpy as np

from xlab.backend import arrays, client, compiling, dispatch
from xlab.backend.pytree import registry
from xlab.core.avals import ShapedArray
from xlab.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

DOUBLE = """module @jit_double { func.func public @main(%a: tensor<16xf32>) -> tensor<16xf32> {
  %0 = stablehlo.add %a, %a : tensor<16xf32>
  return %0 : tensor<16xf32> } }"""

SHARDED_DOUBLE = """module @jit_double { sdy.mesh @mesh = <["x"=8]>
func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.add %a, %a : tensor<16xf32>
  return %0 : tensor<16xf32> } }"""

SHARDED_DOT = """module @jit_step { sdy.mesh @mesh = <["x"=8]>
func.func public @main(
    %a: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
     : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("eqn3"("cell.py":10:2))
  %1 = stablehlo.tanh %0 : tensor<16x16xf32> loc("eqn4"("cell.py":11:2))
  return %1 : tensor<16x16xf32> } }"""


def single(device=0):
    return SingleDeviceSharding(client.devices()[device])


def line_mesh():
    return Mesh(np.array(client.devices()[:8]), ("x",))


def along(*spec):
    return NamedSharding(line_mesh(), PartitionSpec(*spec))


def put(value, sharding, **kwargs):
    value = np.asarray(value)
    aval = ShapedArray(value.shape, value.dtype)
    shards = [value[i] for i in sharding.devices_indices_map(value.shape).values()]
    return arrays.put(shards, aval, sharding, sharding.devices_in_order, **kwargs)


def gather(array):
    """The whole array, from its shards."""
    from xlab.sharding import from_native

    sharding = from_native(array._sharding)
    out = np.zeros(array.aval.shape, array.aval.dtype)
    for index, shard in zip(
        sharding.devices_indices_map(out.shape).values(), arrays.shards(array), strict=True
    ):
        out[index] = arrays.to_numpy(shard)
    return out


def toy_jit(sharding):
    """A jit of `x + x` for f32[16]; `misses` counts how often Python was asked."""
    count = sharding.num_devices
    misses = []

    def miss(x):
        misses.append(x)
        text = DOUBLE if count == 1 else SHARDED_DOUBLE
        exe = compiling.compile_text(text, sharding.devices_in_order, partitions=count)
        out = arrays.execute(exe, [x], [arrays.result_handler(x.aval, sharding)])[0]
        native = sharding.native
        fast = dispatch.FastPath(
            exe, registry.flatten(out)[1], [native], [native], [x.aval], [True], [True], [None], []
        )
        return out, fast

    def shard_arg(x, native, layout):
        raise AssertionError("native code could not place an argument")

    fn = dispatch.native_jit(
        "double", lambda x: x, miss, (), (), ("toy", count, id(misses)), shard_arg
    )
    return fn, misses
