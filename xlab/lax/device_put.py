"""The `device_put` primitive: moves values to a device, a sharding or a memory, eagerly or as one equation."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.backend.client import Device, default_memory_kind, memory_kinds
from xlab.compile import layouts
from xlab.compile.devices import sharding_sources
from xlab.compile.executable import relayout
from xlab.compile.placement import (
    check_alive,
    check_one_value,
    default_sharding,
    one_transfer,
    physical_sharding,
    place,
    transfer,
)
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray, aval_of, value_and_type
from xlab.core.hi_types import HiType, lower, raise_value
from xlab.core.primitive import Primitive
from xlab.core.tokens import Token
from xlab.core.trace import EVAL, Tracer, state
from xlab.errors import InvalidInputException
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.key_reuse import key_movers
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax.constraint import constraint_text
from xlab.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding
from xlab.sharding.placement import Format, MemorySpace, default_layout
from xlab.sharding.typed import memory_kind, result_sharding, typed


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
        raise InvalidInputException(
            f"Argument {value_and_type(x)} is not a valid array type for device_put: {e}"
        ) from None
    if isinstance(x, Token):
        return Token(put(x.base, device, copy_semantics))
    if isinstance(aval, HiType):  # each of its arrays
        return raise_value(aval, [put(p, device, copy_semantics) for p in lower(x, aval)])
    if isinstance(device, Format) and device.layout is None:
        # The default layout, which an array in another one is brought to.
        data = x.base if isinstance(x, KeyArray) else x
        device = (
            Format(default_layout(aval.ndim), device.sharding)
            if layouts.has_custom_layout([data])
            else device.sharding
        )
    if isinstance(device, Format):
        if isinstance(x, KeyArray) and not (
            layouts.is_default(device.layout)
            and layouts.layout_of(x.base) == default_layout(x.base.ndim)
        ):
            base = put(
                x.base,
                Format(
                    layouts.of_words(device.layout, x.base.ndim),
                    physical_sharding(device.sharding, aval),
                ),
                copy_semantics,
            )
            return KeyArray(base, aval.dtype)
        there = put(x, device.sharding, copy_semantics)
        if layouts.layout_of(there) == device.layout:
            return there
        made = relayout(there, device.layout)
        if (
            copy_semantics is ArrayCopySemantics.DONATE_INPUT
            and is_native_array(x)
            and not x.is_deleted()
        ):
            _arrays.give_up(x)
        return made
    donated = copy_semantics is ArrayCopySemantics.DONATE_INPUT and _reorders(x, device)
    copy = copy_semantics is ArrayCopySemantics.ALWAYS_COPY or donated
    if aval.dtype == dtypes.float0:
        return x
    native = is_native_array(x) or isinstance(x, KeyArray)
    if native:
        check_alive(x)
    if device is None or isinstance(device, MemorySpace):
        sharding, committed = (x.sharding, x.committed) if native else (default_sharding(), False)
        if isinstance(device, MemorySpace):
            sharding, committed = _in_space(sharding, device), True
        if native and not copy and sharding == x.sharding and x.committed == committed:
            return x
    else:
        sharding = SingleDeviceSharding(device) if isinstance(device, Device) else device
        committed = True
        sharding.shard_shape(aval.shape)  # raises where the value does not fit
        check_one_value(x, sharding)
    if isinstance(x, KeyArray):
        base = place(
            x.base,
            physical_aval(aval),
            physical_sharding(sharding, aval),
            committed=committed,
            copy=copy,
        )
        return x if base is x.base else KeyArray(base, aval.dtype)
    made = place(x, aval, sharding, committed=committed, copy=copy)
    if donated:
        _arrays.give_up(x)
    return made


def put_all(xs: Sequence, devices: Sequence, copies: Sequence[ArrayCopySemantics]) -> list:
    """Moves several values, each as `put` does. Arrays that go from one device to another go in one transfer."""
    if len(xs) == 1:
        return [put(xs[0], devices[0], copies[0])]
    outs: list[Any] = [None] * len(xs)
    together: list[tuple[int, SingleDeviceSharding]] = []
    on_one: dict[Any, SingleDeviceSharding] = {}  # by destination
    with one_transfer():
        for i, (x, device, copy) in enumerate(zip(xs, devices, copies, strict=True)):
            if is_native_array(x) and isinstance(device, (Device, SingleDeviceSharding)):
                target = on_one.get(device)
                if target is None:
                    target = on_one[device] = (
                        SingleDeviceSharding(device) if isinstance(device, Device) else device
                    )
                if _changes_device(x, target):
                    together.append((i, target))
                    continue
            outs[i] = put(x, device, copy)
        if together:
            given = [xs[i] for i, _ in together]
            for x in given:
                check_alive(x)
                transfer("device to device", int(x.aval.nbytes), "one copy")
            made = _arrays.copy_all(given, [target for _, target in together])
            for (i, _), moved in zip(together, made):
                outs[i] = moved
    return outs


def _changes_device(x, target: SingleDeviceSharding) -> bool:
    """Whether an array lies on one device of this process, and another one, in memory of the same kind, is to have it."""
    native = x._sharding
    held = native._internal_device_list
    return (
        len(held) == 1
        and held[0] is not target.device
        and held[0].client is target.device.client
        and target.is_fully_addressable
        and native.memory_kind == target.memory_kind
        and layouts.layout_of(x) == default_layout(x.ndim)
    )


def _reorders(x, device) -> bool:
    """Whether an array moves to its own devices in another order; then it is donated where allowed."""
    return (
        is_native_array(x)
        and isinstance(device, Sharding)
        and x.sharding.device_set == device.device_set
        and x.sharding.devices_in_order != device.devices_in_order
    )


def sharding_of(device):
    """The sharding of a format, whose layout means nothing inside a program; other destinations as they are."""
    return device.sharding if isinstance(device, Format) else device


def source_of(x):
    """The placement of a value, for its cotangent to return to; None if it is unknown while tracing."""
    value = x.known() if isinstance(x, Tracer) else x
    return value.sharding if is_native_array(value) else None


def in_memory(x, aval):
    """Moves a new value to the memory space of a type."""
    if aval_of(x).memory_space == aval.memory_space:
        return x
    if state.trace is EVAL and not isinstance(x, Tracer):
        sharding = _in_space(x.sharding if is_native_array(x) else default_sharding(), _space(aval))
        return place(x, aval_of(x), sharding, committed=is_native_array(x) and x.committed)
    return device_put_p.bind(
        x, devices=(_space(aval),), srcs=(None,), copy_semantics=(ArrayCopySemantics.REUSE_INPUT,)
    )[0]


def _space(aval) -> MemorySpace:
    return MemorySpace.Host if aval.memory_space else MemorySpace.Device


# -- the primitive ----------------------------------------------------------------------------------------

device_put_p = Primitive("device_put", multiple_results=True, auto_pvary=False)
key_movers[device_put_p] = lambda params, *keys: list(keys)


@device_put_p.def_impl
def _impl(*xs, devices, srcs, copy_semantics):
    return put_all(xs, devices, copy_semantics)


@device_put_p.def_abstract_eval
def _aval(*xs, devices, srcs, copy_semantics):
    return [_moved_type(x, d) for x, d in zip(xs, devices)]


def _moved_type(aval, device):
    """The type of a moved value: with its memory space and its sharding over Explicit mesh axes."""
    device = sharding_of(device)
    if isinstance(aval, ShapedArray) and isinstance(device, Sharding):
        return typed(aval, device)
    if not isinstance(aval, ShapedArray) or not isinstance(device, MemorySpace):
        return aval
    space = "host" if device is MemorySpace.Host else None
    return aval if aval.memory_space == space else aval.update(memory_space=space)


def _jvp(primals, tangents, **params):
    outs = device_put_p.bind(*primals, **params)
    nonzero = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]
    moved = (
        device_put_p.bind(*(tangents[i] for i in nonzero), **_chosen(params, nonzero))
        if nonzero
        else []
    )
    out = [ad.Zero.of(x) for x in outs]
    for i, t in zip(nonzero, moved):
        out[i] = t
    return outs, out


def _chosen(params, which) -> dict[str, Any]:
    return {k: tuple(v[i] for i in which) for k, v in params.items()}


def _transpose(cts, *operands, devices, srcs, copy_semantics):
    nonzero = [i for i, ct in enumerate(cts) if type(ct) is not ad.Zero]
    if any(copy_semantics[i] is ArrayCopySemantics.DONATE_INPUT for i in nonzero):
        raise ValueError(
            "donate=True is not allowed when device_put is transposed (as for a gradient): the source is still needed"
        )
    moved = (
        device_put_p.bind(
            *(cts[i] for i in nonzero),
            devices=tuple(_home(operands[i].aval, srcs[i], devices[i]) for i in nonzero),
            srcs=tuple(devices[i] for i in nonzero),
            copy_semantics=(ArrayCopySemantics.ALWAYS_COPY,) * len(nonzero),
        )
        if nonzero
        else []
    )
    out = [None] * len(operands)
    for i, ct in zip(nonzero, moved):
        out[i] = ct
    return out


def _home(aval, src, device):
    """The placement for the cotangent of an operand of this type: the operand's own, if known."""
    if src is not None:
        return src
    device = sharding_of(device)
    if (
        isinstance(device, NamedSharding)
        and isinstance(device.mesh, Mesh)
        and device.mesh.explicit_axes
    ):
        return result_sharding(aval, device.mesh)
    if (
        isinstance(aval, ShapedArray)
        and _moved_type(aval, device).memory_space != aval.memory_space
    ):
        return _space(aval)
    return None


def _batch(operands, dims, **params):
    return device_put_p.bind(*operands, **params), list(dims)


def _lowering(ctx, *args, devices, **_):
    return [_placed_text(ctx, x, d, a) for x, d, a in zip(args, devices, ctx.avals_in)]


def _placed_text(ctx, x, device, aval):
    """Constrains how the value lies, and asks the compiler for its memory. The compiler for CPUs knows but one, and the value stays."""
    device = sharding_of(device)
    if isinstance(device, Sharding):
        x = constraint_text(ctx, x, device, aval)
        where = device.memory_kind or "device"
    elif isinstance(device, MemorySpace):
        where = "pinned_host" if device is MemorySpace.Host else "device"
    else:
        return x
    if ctx.platform == "cpu" or (
        where == "device" and not isinstance(device, MemorySpace) and not memory_kind(aval)
    ):
        return x
    kind = mlir.tensor_type(aval)
    return ctx.op(
        f'stablehlo.custom_call @annotate_device_placement({x}) {{backend_config = "", has_side_effect = true, '
        f'mhlo.frontend_attributes = {{_xla_buffer_placement = "{where}"}}}} : ({kind}) -> {kind}'
    )


ad.primitive_jvps[device_put_p] = _jvp
ad.primitive_transposes[device_put_p] = _transpose
batching.primitive_batchers[device_put_p] = _batch
mlir.register_text_lowering(device_put_p, _lowering)
sharding_sources[device_put_p] = lambda eqn: [
    d for d in map(sharding_of, eqn.params["devices"]) if isinstance(d, (Sharding, MemorySpace))
]

costs.register(costs.moves, device_put_p)
