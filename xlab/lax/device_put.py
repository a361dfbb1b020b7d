"""The `device_put` primitive: values brought to a device, a sharding or a memory, at once or as one equation."""

from __future__ import annotations

import enum
from typing import Any

from xlab.backend.client import Device, default_memory_kind, memory_kinds
from xlab.compile import layouts
from xlab.compile.devices import sharding_sources
from xlab.compile.executable import physical_sharding
from xlab.compile.placement import check_alive, check_one_value, default_sharding, place
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.errors import InvalidInputException
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax.constraint import constraint_text
from xlab.sharding import NamedSharding, Sharding, SingleDeviceSharding
from xlab.sharding.placement import Format, MemorySpace
from xlab.sharding.typed import typed


class ArrayCopySemantics(enum.Enum):
    """Whether a placed array may share the buffers of its source."""

    REUSE_INPUT = enum.auto()
    DONATE_INPUT = enum.auto()
    ALWAYS_COPY = enum.auto()

    def __repr__(self) -> str:
        return f"ArrayCopySemantics.{self.name}"

    __str__ = __repr__


def _in_space(sharding: Sharding, space: MemorySpace) -> Sharding:
    """The same places, in a memory of the host or of the devices."""
    first = next(iter(sharding.device_set))
    kind = default_memory_kind(first)
    if space is MemorySpace.Host:
        kind = next((k for k in ("pinned_host", "unpinned_host") if k in memory_kinds(first)), kind)
    return sharding.with_memory_kind(kind)


def put(x, device, copy_semantics):
    try:
        aval = aval_of(x)
    except InvalidInputException as e:
        raise InvalidInputException(f"Argument {x!r} of type {type(x).__name__} is not a valid array type for device_put: {e}") from None
    if isinstance(device, Format):
        there = put(x, device.sharding, copy_semantics)
        return there if layouts.layout_of(there) == device.layout else layouts.relaid(there, device.layout)
    copy = copy_semantics is ArrayCopySemantics.ALWAYS_COPY
    if aval.dtype == dtypes.float0:
        return x
    native = is_native_array(x) or isinstance(x, KeyArray)
    if native:
        check_alive(x)
    if device is None or isinstance(device, MemorySpace):
        sharding, committed = (x.sharding, x.committed) if native else (default_sharding(), False)
        if isinstance(device, MemorySpace):
            sharding, committed = _in_space(sharding, device), True
        if native and not copy and sharding == x.sharding:
            return x
    else:
        sharding = SingleDeviceSharding(device) if isinstance(device, Device) else device
        committed = True
        sharding.shard_shape(aval.shape)  # raises where the value does not fit
        check_one_value(x, sharding)
    if isinstance(x, KeyArray):
        base = place(x.base, physical_aval(aval), physical_sharding(sharding, aval), committed=committed, copy=copy)
        return x if base is x.base else KeyArray(base, aval.dtype)
    return place(x, aval, sharding, committed=committed, copy=copy)


# -- the primitive ----------------------------------------------------------------------------------------

device_put_p = Primitive("device_put", multiple_results=True, joins=False)


@device_put_p.def_impl
def _impl(*xs, devices, srcs, copy_semantics):
    return [put(x, d, c) for x, d, c in zip(xs, devices, copy_semantics)]


@device_put_p.def_abstract_eval
def _aval(*xs, devices, srcs, copy_semantics):
    return [_moved_type(x, d) for x, d in zip(xs, devices)]


def _moved_type(aval, device):
    """The type says which memory a value is in, where that is not the devices' own, and how it lies over Explicit mesh axes."""
    if isinstance(aval, ShapedArray) and isinstance(device, Sharding):
        return typed(aval, device)
    if not isinstance(aval, ShapedArray) or not isinstance(device, MemorySpace):
        return aval
    space = "host" if device is MemorySpace.Host else None
    return aval if aval.memory_space == space else aval.update(memory_space=space)


def _jvp(primals, tangents, **params):
    outs = device_put_p.bind(*primals, **params)
    nonzero = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]
    moved = device_put_p.bind(*(tangents[i] for i in nonzero), **_chosen(params, nonzero)) if nonzero else []
    out = [ad.Zero.of(x) for x in outs]
    for i, t in zip(nonzero, moved):
        out[i] = t
    return outs, out


def _chosen(params, which) -> dict[str, Any]:
    return {k: tuple(v[i] for i in which) for k, v in params.items()}


def _transpose(cts, *operands, devices, srcs, copy_semantics):
    nonzero = [i for i, ct in enumerate(cts) if type(ct) is not ad.Zero]
    if any(copy_semantics[i] is ArrayCopySemantics.DONATE_INPUT for i in nonzero):
        raise ValueError("donate=True is not allowed when device_put is transposed (as for a gradient): the source is still needed")
    moved = device_put_p.bind(*(cts[i] for i in nonzero), devices=tuple(srcs[i] for i in nonzero),
                              srcs=tuple(devices[i] for i in nonzero),
                              copy_semantics=(ArrayCopySemantics.ALWAYS_COPY,) * len(nonzero)) if nonzero else []
    out = [None] * len(operands)
    for i, ct in zip(nonzero, moved):
        out[i] = ct
    return out


def _batch(operands, dims, **params):
    return device_put_p.bind(*operands, **params), list(dims)


def _lowering(ctx, *args, devices, **_):
    return [_placed_text(ctx, x, d, a) if isinstance(d, MemorySpace) else
            constraint_text(ctx, x, d, a) if isinstance(d, Sharding) else x
            for x, d, a in zip(args, devices, ctx.avals_in)]


def _placed_text(ctx, x, space, aval):
    """Asks the compiler for another memory. On a CPU device there is but one, and the value stays."""
    if ctx.platform == "cpu":
        return x
    kind = mlir.tensor_type(aval)
    where = "pinned_host" if space is MemorySpace.Host else "device"
    return ctx.op(f'stablehlo.custom_call @annotate_device_placement({x}) {{backend_config = "", has_side_effect = true, '
                  f'mhlo.frontend_attributes = {{_xla_buffer_placement = "{where}"}}}} : ({kind}) -> {kind}')


ad.primitive_jvps[device_put_p] = _jvp
ad.primitive_transposes[device_put_p] = _transpose
batching.primitive_batchers[device_put_p] = _batch
mlir.register_lowering(device_put_p, _lowering)
sharding_sources[device_put_p] = lambda eqn: [d for d in eqn.params["devices"] if isinstance(d, NamedSharding)]
