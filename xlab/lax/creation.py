"""Arrays made from nothing: filled, counted, copied; and the barrier that keeps the compiler from moving them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import HOST_VALUES, ShapedArray, aval_of
from xlab.core.hi_types import is_high, raise_value
from xlab.core.key_array import key_of_words
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import EVAL, Tracer, state
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike, ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero, drop_zeros
from xlab.interpreters.key_reuse import key_movers
from xlab.lax import sharding_in_types
from xlab.lax.convert import convert
from xlab.lax.device_put import in_memory
from xlab.lax.elementwise import scalar_like
from xlab.lax.shape import broadcast_in_dim_p, canonical_axis, canonical_shape
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = ["broadcasted_iota", "copy", "empty", "full", "full_like", "iota", "optimization_barrier"]


def full(
    shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, sharding: Any = None
) -> Array:
    """An array of the given shape with one value everywhere.

    Args:
        shape: the shape of the result.
        fill_value: a scalar.
        dtype: the dtype of the result.
        sharding: where the result goes.
    """
    return _filled(shape, fill_value, dtype, False, sharding)


def _filled(shape, fill_value, dtype, weak, sharding):
    shape = canonical_shape(shape)
    if dtype is None or type(fill_value) is not int:
        aval = aval_of(fill_value)
        if aval.shape:
            raise TypeError(f"full takes a scalar fill value, got {aval}")
        if dtype is None:
            weak, dtype = aval.weak_type, aval.dtype
    dtype = dtypes.canonicalize_dtype(dtype)
    if (
        type(fill_value) is complex
        and not weak
        and not dtypes.issubdtype(dtype, np.complexfloating)
    ):
        raise TypeError(
            f"full cannot put the complex number {fill_value} into an array of {dtypes.name(dtype)}: give its real part, or "
            f"a complex dtype"
        )
    own = dtypes.is_extended(dtype) and dtype._rules is not None
    if own and not dtypes.is_extended(aval_of(fill_value).dtype):
        value = dtype.rule("full")((), fill_value, dtype)
    elif dtypes.is_extended(dtype) and type(fill_value) in (bool, int, float):
        value = key_of_words(fill_value, dtype)
    elif isinstance(fill_value, HOST_VALUES):
        value = scalar_like(fill_value, ShapedArray((), dtype, weak))
        if weak and isinstance(value, np.generic):  # a weak type that no Python number has
            value = convert(value, dtype, True)
    else:
        value = convert(fill_value, dtype, weak)
    asked = None if sharding is None else canonical_out_sharding(sharding, "full", len(shape))
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=asked)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    sharding: Any = None,
) -> Array:
    """Like `full`, with shape and dtype of `x` unless given.

    Args:
        x: an array whose shape and dtype are taken.
        fill_value: a scalar.
        dtype: another dtype.
        shape: another shape.
        sharding: where the result goes.
    """
    aval = x if isinstance(x, ShapedArray) else aval_of(x)
    if (
        sharding is None
        and aval.explicit_sharding is not None
        and (shape is None or tuple(shape) == aval.shape)
    ):
        sharding = aval.explicit_sharding
    shape = aval.shape if shape is None else shape
    out = (
        _filled(shape, fill_value, aval.dtype, aval.weak_type, sharding)
        if dtype is None
        else _filled(shape, fill_value, dtype, False, sharding)
    )
    out = out if aval.memory_space is None else in_memory(out, aval)
    return over_mesh_like(out, aval, fill_value)


def over_mesh_like(out, aval, fill_value):
    """A filled array cast to the manual axis type of `aval`; only zeros may become unreduced."""
    mat = aval.mat
    if not mat or not config.auto_pcast:
        return out
    if state.manual is None:
        made = aval_of(out)
        return state.match(
            out,
            aval
            if made.shape == aval.shape
            else aval.update(shape=made.shape, sharding=made.explicit_sharding),
        )
    have = aval_of(out).mat
    if mat.unreduced and (
        have or isinstance(fill_value, Tracer) or np.ndim(fill_value) or fill_value
    ):
        mat = mat.update(unreduced=())
    return (
        state.match(
            out, aval.update(mat=mat.update(reduced=mat.reduced - have.varying - have.unreduced))
        )
        if mat
        else out
    )


def empty(
    shape: Sequence[int], dtype: DTypeLike, *, out_sharding: ShardingLike | None = None
) -> Array:
    """An array whose contents do not matter (zeros).

    Args:
        shape: the shape of the result.
        dtype: the dtype of the result.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    return full(shape, 0, dtype, sharding=out_sharding)


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, ..., size-1 in the given dtype."""
    if dtype is None:
        raise ValueError("iota needs a dtype, such as numpy.int32")
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: DTypeLike,
    shape: Sequence[int],
    dimension: int,
    *,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Each element's index along one dimension.

    Args:
        dtype: the dtype of the result.
        shape: the shape of the result.
        dimension: the dimension along which numbers grow.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    shape = canonical_shape(shape)
    asked = canonical_out_sharding(out_sharding, "broadcasted_iota", len(shape))
    return iota_p.bind(
        dtype=dtypes.canonicalize_dtype(dtype),
        shape=shape,
        dimension=canonical_axis(dimension, len(shape)),
        sharding=asked,
    )


def _iota_aval(*, dtype, shape, dimension, sharding):
    if not dtypes.issubdtype(dtype, np.number):
        raise TypeError(
            f"iota does not accept dtype {dtypes.name(dtype)}: it takes integer or floating-point dtypes"
        )
    return ShapedArray(shape, dtype)


iota_p = Primitive("iota")
iota_p.def_abstract_eval(_iota_aval)
ad.defzero(iota_p)
sharding_rules[iota_p] = sharding_in_types.requested_only
batching.primitive_batchers.excuse(iota_p, "it has no operands to batch")
mlir.register_text_lowering(
    iota_p,
    lambda ctx, *, dtype, shape, dimension, sharding: ctx.op(
        f"stablehlo.iota dim = {dimension} : {ctx.type_out()}"
    ),
)


def copy(x: Any) -> Any:
    """The value in a buffer of its own."""
    return copy_p.bind(x)


copy_p = Primitive("copy")
copy_p.linear_in_unreduced = True
copy_p.def_abstract_eval(lambda x: x)
ad.deflinear2(copy_p, lambda ct, x: [ct])
batching.defvectorized(copy_p)
key_movers[copy_p] = lambda params, keys: [keys]
mlir.register_text_lowering(
    copy_p, lambda ctx, x: ctx.op(f"stablehlo.optimization_barrier {x} : {ctx.type_out()}")
)


def optimization_barrier(operand: Any) -> Any:
    """Returns the same pytree; the compiler does not move or fuse computations across this point."""
    flat, structure = _tree.flatten(operand)
    return _tree.unflatten(structure, optimization_barrier_p.bind(*flat))


optimization_barrier_p = Primitive("optimization_barrier", multiple_results=True)
optimization_barrier_p.linear_in_unreduced = True
optimization_barrier_p.def_abstract_eval(lambda *xs: xs)
ad.primitive_jvps[optimization_barrier_p] = lambda primals, tangents: (
    optimization_barrier_p.bind(*primals),
    _barrier_tangents(tangents),
)
ad.primitive_transposes[optimization_barrier_p] = lambda cts, *xs: _barrier_tangents(cts)
sharding_rules[optimization_barrier_p] = sharding_in_types.each_operand
key_movers[optimization_barrier_p] = lambda params, *keys: list(keys)
batching.primitive_batchers[optimization_barrier_p] = lambda xs, dims: (
    optimization_barrier_p.bind(*xs),
    list(dims),
)
mlir.register_text_lowering(
    optimization_barrier_p,
    lambda ctx, *xs: (
        ctx.ops(f"stablehlo.optimization_barrier {', '.join(xs)} : {ctx.types_in()}", len(xs))
        if xs
        else []
    ),
)


def _barrier_tangents(ts):
    """Nonzero tangents pass through a barrier of their own."""
    given = drop_zeros(ts)
    out = iter(optimization_barrier_p.bind(*given) if given else ())
    return [t if type(t) is Zero else next(out) for t in ts]


def zeros_like_aval(aval):
    """An array of zeros of a type; of a hi type the value of arrays of zeros."""
    if is_high(aval):
        return raise_value(aval, list(map(zeros_like_aval, aval.lo_ty())))
    if aval.memory_space is not None:
        return in_memory(zeros_like_aval(aval.update(memory_space=None)), aval)
    own = dtypes.is_extended(aval.dtype)
    value = aval.dtype.rule("zero")(aval.dtype) if own else scalar_like(0, aval)
    if aval.shape:
        return state.match(
            broadcast_in_dim_p.bind(
                value, shape=aval.shape, broadcast_dimensions=(), sharding=aval.explicit_sharding
            ),
            aval,
        )
    if state.trace is not EVAL and not aval.weak_type and not aval.mat:
        return value  # becomes a literal of the program
    if own:
        return state.match(value, aval)
    return state.match(convert(0 if aval.weak_type else value, aval.dtype, aval.weak_type), aval)


costs.register(costs.fused_moves, iota_p)
costs.register(costs.moves, copy_p)
costs.register(costs.free, optimization_barrier_p)
