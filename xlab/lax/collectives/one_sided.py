"""One-sided communication: `psend` hands a value over and gives a token, `precv` takes the token and gives what arrived.

GPUs have instructions for it. On CPU there is an emulation, for trying programs out: with `config.emulate_send_recv` the two of a
pair become one `collective_permute` where the value is received.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.config import config
from xlab.core import dtypes, source_info
from xlab.core.avals import INVARYING, TOKEN, ManualAxisType, ShapedArray, aval_of
from xlab.core.effects import Effect
from xlab.core.primitive import Primitive
from xlab.core.source_info import warn
from xlab.core.typing import Array, ArrayLike, AxisName
from xlab.errors import InvalidInputException
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.communication import CollectiveOp, collective_rules, size
from xlab.interpreters.divergence import arrivals
from xlab.interpreters.mlir import tensor_type
from xlab.lax.collectives.common import (
    CHANNEL,
    axis_names,
    effects_of,
    everybody,
    mesh_names,
    refuse_unfinished,
    require_varying,
    size_of,
)
from xlab.lax.collectives.ppermute import checked_pairs, pairs_text
from xlab.lax.creation import optimization_barrier_p

__all__ = ["precv", "psend"]


class SingleSideCollectiveEffect(Effect):
    """The equation is one of the two sides of a communication; both stay in the program."""

    def __str__(self):
        return "one-sided communication"


single_side_collective_effect = SingleSideCollectiveEffect()


class OutShape(NamedTuple):
    """What a `precv` receives: a shape and a dtype."""

    shape: tuple[int, ...]
    dtype: Any

    def __str__(self):
        return ShapedArray(self.shape, self.dtype).str_short(False)


def psend(x: ArrayLike, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends values along pairs of ranks `(source, destination)`; the token it gives is for `precv`.

    Args:
        x: array or pytree; a pytree gives a token per leaf.
        axis_name: a bound name of `shard_map` or a tuple of them; ranks are those of `ppermute`.
        perm: pairs of ranks; no source and no destination may come twice.

    Example:
        >>> import xlab
        >>> from xlab.sharding import AxisType, PartitionSpec as P
        >>> def f(x):
        ...     token = xlab.lax.psend(x, "i", [(0, 0)])
        ...     return xlab.lax.precv(token, x, "i", [(0, 0)])
        >>> g = xlab.shard_map(f, mesh=xlab.make_mesh((1,), ("i",), axis_types=AxisType.Auto), in_specs=P("i"), out_specs=P("i"))
        >>> print(len(xlab.make_jaxpr(g)(xlab.numpy.ones(2)).eqns[0].params["jaxpr"].eqns))
        2
    """
    names = axis_names(axis_name, "psend")
    perm = checked_pairs("psend", perm, size_of(names))
    return _tree.map(
        lambda v: psend_p.bind(require_varying("psend", v, names), axis_name=names, perm=perm), x
    )


def precv(
    token: Any, out_shape: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]
) -> Array:
    """Receives the value sent by the `psend` that returned the token; ranks without a sender receive zeros.

    Args:
        token: what `psend` gave.
        out_shape: anything with the shape and dtype of what was sent, such as a `ShapeDtypeStruct`.
        axis_name, perm: as for the `psend`.
    """
    names = axis_names(axis_name, "precv")
    perm = checked_pairs("precv", perm, size_of(names))
    try:
        sent = aval_of(token)
    except InvalidInputException:
        sent = None
    if sent is not TOKEN:
        raise TypeError(
            f"precv takes a token, as psend gives it; got {token!r} of type {type(token).__name__}"
        )
    if not (hasattr(out_shape, "shape") and hasattr(out_shape, "dtype")):
        raise TypeError(
            f"precv out_shape needs a shape and a dtype, as a ShapeDtypeStruct has them; got {out_shape!r}"
        )
    kind = OutShape(tuple(out_shape.shape), dtypes.canonicalize_dtype(out_shape.dtype))
    return precv_p.bind(token, out_shape=kind, axis_name=names, perm=perm)


def _effects(names):
    return effects_of(names) | {single_side_collective_effect}


def _send_aval(x, *, axis_name, perm):
    refuse_unfinished("psend", x, axis_name)
    return TOKEN, _effects(axis_names(axis_name, "psend"))


def _recv_aval(token, *, out_shape, axis_name, perm):
    names = axis_names(axis_name, "precv")
    over = mesh_names(names)
    return ShapedArray(*out_shape, mat=ManualAxisType(over) if over else INVARYING), _effects(names)


# -- lowering ---------------------------------------------------------------------------------------------


class _Sent(NamedTuple):
    """What an emulated token stands for."""

    value: str
    aval: ShapedArray
    axis_name: tuple
    perm: tuple
    raw_source_info: tuple
    received: list


_sent: weakref.WeakKeyDictionary[Any, dict[tuple[Any, str], _Sent]] = weakref.WeakKeyDictionary()
"""By module: what was sent, by function and name of the token there."""


_MANUAL = '{mhlo.sharding = "{manual}"}'
"""Says that the partitioner leaves the operation to each device."""


def _send_lowering(ctx, x, *, axis_name, perm):
    pairs = _pairs("psend", ctx, axis_name, perm)
    token = ctx.op("stablehlo.create_token : !stablehlo.token")
    return ctx.op(
        f'"stablehlo.send"({x}, {token}) <{{{CHANNEL}, source_target_pairs = {pairs}}}> {_MANUAL} : '
        f"({ctx.type_in()}, {mlir.TOKEN_TYPE}) -> {mlir.TOKEN_TYPE}"
    )


def _recv_lowering(ctx, token, *, out_shape, axis_name, perm):
    pairs = _pairs("precv", ctx, axis_name, perm)
    return ctx.ops(
        f'"stablehlo.recv"({token}) <{{{CHANNEL}, source_target_pairs = {pairs}}}> {_MANUAL} : ({mlir.TOKEN_TYPE}) -> '
        f"({ctx.type_out()}, {mlir.TOKEN_TYPE})",
        2,
    )[0]


def _pairs(name, ctx, axis_name, perm) -> str:
    if ctx.mesh is None:
        raise NotImplementedError(
            f"{name} only supports manual sharding: run it under shard_map, over the axes {axis_name}"
        )
    return pairs_text(ctx, axis_name, perm)


def _only_on_gpus(name, platform) -> NotImplementedError:
    advice = (
        ": for a trial, xlab.config.update('emulate_send_recv', True) makes a psend and its precv one collective_permute"
        if platform == "cpu"
        else "; ppermute works on all platforms"
    )
    return NotImplementedError(
        f"{name} is currently only implemented on GPU, not on {platform}{advice}"
    )


def _send_elsewhere(ctx, x, *, axis_name, perm):
    if ctx.platform != "cpu" or not config.emulate_send_recv:
        raise _only_on_gpus("psend", ctx.platform)
    token = ctx.op("stablehlo.create_token : !stablehlo.token")
    _sent.setdefault(ctx.module, {})[ctx._fn, token] = _Sent(
        x, ctx.avals_in[0], axis_name, perm, ctx.eqn.raw_source_info, []
    )
    return token


def _recv_elsewhere(ctx, token, *, out_shape, axis_name, perm):
    if ctx.platform != "cpu" or not config.emulate_send_recv:
        raise _only_on_gpus("precv", ctx.platform)
    sent = _sent.get(ctx.module, {}).get((ctx._fn, token))
    if sent is None:
        raise ValueError(
            "precv: its token does not come from a psend in the same program, directly or through optimization_barrier; "
            "the emulation on CPU follows tokens no further"
        )
    if (sent.axis_name, sent.perm) != (axis_name, perm):
        raise ValueError(
            f"precv over {axis_name} with {perm} got the token of a psend over {sent.axis_name} with {sent.perm}; "
            f"both sides of a communication must name the same axes and pairs"
        )
    if (sent.aval.shape, sent.aval.dtype) != tuple(out_shape):
        raise ValueError(
            f"precv expects {out_shape}, but the psend of its token sends {sent.aval.str_short(False)}"
        )
    sent.received.append(True)
    t = tensor_type(sent.aval)
    return ctx.op(
        f'"stablehlo.collective_permute"({sent.value}) <{{{CHANNEL}, source_target_pairs = '
        f"{_pairs('precv', ctx, axis_name, perm)}}}> : ({t}) -> {t}"
    )


def warn_unreceived(ctx) -> None:
    """Warns of values that a program sends and never receives; the emulation drops them."""
    for sent in _sent.pop(ctx.module, {}).values():
        if not sent.received:
            code, last = sent.raw_source_info[:2]
            where = source_info.position(code, last) if code is not None else None
            warn(
                f"psend of {sent.aval.str_short(False)} over {sent.axis_name}{f' at {where.file}:{where.line}' if where else ''} "
                f"is never received, so nothing is sent: give its token to precv",
                UserWarning,
            )


def _barrier_lowering(ctx, *xs):
    """Lowers a barrier: its result tokens stand for the same sends as its operands."""
    outs = _barrier(ctx, *xs)
    sent = _sent.get(ctx.module)
    if sent:
        sent.update(
            {
                (ctx._fn, new): sent[ctx._fn, old]
                for old, new in zip(xs, outs)
                if (ctx._fn, old) in sent
            }
        )
    return outs


# -- batching ---------------------------------------------------------------------------------------------


def _not_own(name, axis, axis_name):
    if axis.name in axis_name:
        raise NotImplementedError(
            f"{name} works between devices, under shard_map, and {axis.name!r} is an axis of vmap: use ppermute"
        )


def _send_batch(axis, operands, dims, *, axis_name, perm):
    _not_own("psend", axis, axis_name)
    x, d = operands[0], dims[0]
    if d is None:
        return psend_p.bind(x, axis_name=axis_name, perm=perm), None
    return psend_p.bind(batching.moveaxis(x, d, 0), axis_name=axis_name, perm=perm), 0


def _recv_batch(axis, operands, dims, *, out_shape, axis_name, perm):
    """The token of a batch is one token; what is received for it has the batch in front."""
    _not_own("precv", axis, axis_name)
    if dims[0] is not None:
        out_shape = out_shape._replace(shape=(axis.size, *out_shape.shape))
    return precv_p.bind(operands[0], out_shape=out_shape, axis_name=axis_name, perm=perm), dims[0]


psend_p = Primitive("psend", auto_pvary=False, context_dependent=True)
psend_p.def_effectful_abstract_eval(_send_aval)
precv_p = Primitive("precv", auto_pvary=False, context_dependent=True)
precv_p.def_effectful_abstract_eval(_recv_aval)
for _p, _rule, _elsewhere in (
    (psend_p, _send_lowering, _send_elsewhere),
    (precv_p, _recv_lowering, _recv_elsewhere),
):
    ad.primitive_jvps.excuse(_p, "a token has no tangent")
    ad.primitive_transposes.excuse(_p, "a token has no cotangent")
    mlir.register_text_lowering(_p, _elsewhere)
    mlir.register_text_lowering(_p, _rule, "gpu")
batching.axis_primitive_batchers[psend_p] = _send_batch
batching.axis_primitive_batchers[precv_p] = _recv_batch
_barrier = mlir.lowerings[optimization_barrier_p]
mlir.register_text_lowering(optimization_barrier_p, _barrier_lowering)
collective_rules[precv_p] = lambda avals_in, avals_out, axis_name, perm, **_: (
    CollectiveOp(  # what its psend gave away
        "collective_permute", axis_name, "", size(avals_out), size(avals_out), perm=perm
    )
)
arrivals[psend_p] = arrivals[precv_p] = everybody

# What is sent is counted where it is received.
costs.register(costs.free, psend_p)
