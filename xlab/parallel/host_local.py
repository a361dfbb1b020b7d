"""Converts between process-local and global arrays, at the ends of a `pmap` over several processes.

Both ways are linear, so they are primitives with derivatives. They happen between programs: inside one there are no processes.
"""

from __future__ import annotations

import functools

from xlab.backend import arrays as _arrays
from xlab.compile.placement import physical_sharding, place
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import physical_aval
from xlab.sharding import NamedSharding, PartitionSpec, from_native

to_global_p = Primitive("host_local_array_to_global_array", auto_pvary=False)
to_local_p = Primitive("global_array_to_host_local_array", auto_pvary=False)


def to_global(x, mesh, axis):
    """This process's rows along `axis`, one for each of its devices of the mesh, as part of the rows of all processes; with `axis=None`
    a value that every process has."""
    return to_global_p.bind(x, mesh=mesh, axis=axis)


def to_local(x, mesh, axis):
    """The rows of this process, on its devices."""
    return to_local_p.bind(x, mesh=mesh, axis=axis)


def _spec(mesh, axis) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*(None,) * axis, *mesh.axis_names)


def _resized(aval, axis, size) -> ShapedArray:
    shape = aval.shape if axis is None else (*aval.shape[:axis], size, *aval.shape[axis + 1 :])
    return ShapedArray(shape, aval.dtype, aval.weak_type)


def _convert(x, aval, source, target):
    """The same parts on the devices of this process, as parts of another array."""
    if isinstance(x, KeyArray):
        words = _convert(
            x.base,
            physical_aval(aval),
            physical_sharding(source, x.aval),
            physical_sharding(target, x.aval),
        )
        return KeyArray(words, aval.dtype)
    laid = place(x, aval_of(x), source)
    by_device = dict(
        zip(from_native(laid._sharding).addressable_in_order, _arrays.shards(laid), strict=True)
    )
    return _arrays.from_shards(aval, target, [by_device[d] for d in target.addressable_in_order])


@to_global_p.def_impl
def _global_impl(x, *, mesh, axis):
    if (is_native_array(x) or isinstance(x, KeyArray)) and not x.is_fully_addressable:
        return x
    spec = _spec(mesh, axis)
    return _convert(
        x,
        _resized(aval_of(x), axis, mesh.size),
        NamedSharding(mesh.local_mesh, spec),
        NamedSharding(mesh, spec),
    )


@to_local_p.def_impl
def _local_impl(x, *, mesh, axis):
    spec = _spec(mesh, axis)
    return _convert(
        x,
        _resized(aval_of(x), axis, len(mesh.local_devices)),
        NamedSharding(mesh, spec),
        NamedSharding(mesh.local_mesh, spec),
    )


to_global_p.def_abstract_eval(lambda x, *, mesh, axis: _resized(x, axis, mesh.size))
to_local_p.def_abstract_eval(lambda x, *, mesh, axis: _resized(x, axis, len(mesh.local_devices)))


def _outside_only(ctx, x, *, mesh, axis):
    raise ValueError(
        "pmap over the devices of several processes takes the rows of each process and gives them back, which no compiled program "
        "can do: call it outside of jit, or use shard_map in the program, whose arrays are those of all processes"
    )


def _linear(primitive, inverse):
    def jvp(primals, tangents, **params):
        out = primitive.bind(*primals, **params)
        return out, ad.Zero.of(out) if type(tangents[0]) is ad.Zero else primitive.bind(
            *tangents, **params
        )

    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = lambda ct, x, **params: [
        ct if type(ct) is ad.Zero else inverse.bind(ct, **params)
    ]
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
    mlir.register_text_lowering(primitive, _outside_only)


def _batch(primitive, operands, dims, *, mesh, axis):
    x = batching.moveaxis(operands[0], dims[0], 0)
    return primitive.bind(x, mesh=mesh, axis=None if axis is None else axis + 1), 0


_linear(to_global_p, to_local_p)
_linear(to_local_p, to_global_p)

costs.register(costs.free, to_global_p, to_local_p)
