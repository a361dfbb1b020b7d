"""The largest and smallest elements, approximately where the hardware is faster for it: `approx_max_k`, `approx_min_k`."""

from __future__ import annotations

import math
import operator

import numpy as np

from xlab.backend import top_k as _top_k
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.reductions import highest, lowest
from xlab.lax.sort import take_along

__all__ = ["approx_max_k", "approx_min_k"]


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` largest elements along a dimension, or most of them, in descending order, and their positions.

    Args:
        operand: floating-point array.
        k: how many.
        reduction_dimension: along which dimension.
        recall_target: the expected share of the true ones, between 0 and 1. CPUs and GPUs find all of them.
        reduction_input_size_override: the number of elements to reckon with, where this is one of several shards.
        aggregate_to_topk: whether to return the `k` results, or all candidates for them, unsorted.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> values, positions = lax.approx_max_k(np.float32([1, 3, 2]), 2)
        >>> print(values, positions)
        [3. 2.] [1 2]
    """
    return _bind(
        operand,
        k,
        reduction_dimension,
        recall_target,
        True,
        reduction_input_size_override,
        aggregate_to_topk,
    )


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` smallest elements along a dimension, or most of them, in ascending order, and their positions.

    Args:
        operand: an array of floats.
        k: how many.
        reduction_dimension: the dimension to search.
        recall_target: the share of the true ones that is wanted.
        reduction_input_size_override: the size to plan for, where the operand is a part of
            something larger.
        aggregate_to_topk: whether the candidates are sorted and cut to `k`.

    Source:
        Chern et al. (2022), TPU-KNN: K nearest neighbor search at peak FLOP/s.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.approx_min_k(np.float32([1, 3, 2]), 2)[0])
        [1. 2.]
    """
    return _bind(
        operand,
        k,
        reduction_dimension,
        recall_target,
        False,
        reduction_input_size_override,
        aggregate_to_topk,
    )


def _bind(operand, k, dimension, recall_target, is_max_k, override, aggregate):
    return list(
        approx_top_k_p.bind(
            operand,
            k=operator.index(k),
            reduction_dimension=operator.index(dimension),
            recall_target=float(recall_target),
            is_max_k=is_max_k,
            reduction_input_size_override=operator.index(override),
            aggregate_to_topk=bool(aggregate),
        )
    )


def _approx_aval(
    x,
    *,
    k,
    reduction_dimension,
    recall_target,
    is_max_k,
    reduction_input_size_override,
    aggregate_to_topk,
):
    if k <= 0:
        raise ValueError(f"k must be positive, got {k}")
    if not x.ndim:
        raise TypeError(f"approx_top_k operand must have >= 1 dimension, got {x.shape}")
    if not -x.ndim <= reduction_dimension < x.ndim:
        raise IndexError(f"reduction_dimension {reduction_dimension} is out of bounds for {x}")
    axis = reduction_dimension % x.ndim
    size = x.shape[axis]
    if size < k:
        raise ValueError(f"k must be smaller than the size of reduction_dim {size}, got {k}")
    if not _e.floating(x.dtype):
        raise ValueError(f"operand must be a floating type, got {dtypes.name(x.dtype)}")
    if not 0 < recall_target <= 1:
        raise ValueError(f"recall_target must be above 0 and not above 1, got {recall_target}")
    if reduction_input_size_override >= 0 and reduction_input_size_override < size:
        raise ValueError(
            f"reduction_input_size_override is the number of elements in all shards together, at least the {size} "
            f"along the dimension here; got {reduction_input_size_override}"
        )
    n = _top_k.candidates(
        size, x.ndim, k, recall_target, aggregate_to_topk, reduction_input_size_override
    )
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    return ShapedArray(shape, x.dtype), ShapedArray(shape, np.int32)


def _approx_jvp(primals, tangents, **params):
    values, positions = approx_top_k_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return (values, positions), (Zero.of(values), Zero.of(positions))
    axis = params["reduction_dimension"] % aval_of(primals[0]).ndim
    return (values, positions), (take_along(tangents[0], positions, axis), Zero.of(positions))


def _approx_batch(xs, dims, *, reduction_dimension, **params):
    d = dims[0]
    axis = reduction_dimension % (aval_of(xs[0]).ndim - 1)
    return approx_top_k_p.bind(xs[0], reduction_dimension=axis + (axis >= d), **params), [d, d]


def _comparator(module, dtype, is_max_k) -> str:
    """The function of the module that says which of two elements comes first; written once."""
    direction, t = ("GT" if is_max_k else "LT"), dtypes.mlir_type(dtype)
    name = f"top_k_{direction.lower()}_{t}_comparator"
    if ("top_k", name) not in module.shared:
        module.shared["top_k", name] = symbol = module.unique_symbol(name)
        module.functions.append(
            f"  func.func private @{symbol}(%arg0: tensor<{t}>, %arg1: tensor<{t}>, %arg2: tensor<i32>, %arg3: tensor<i32>) -> "
            f"tensor<i1> {{\n    %0 = stablehlo.compare {direction}, %arg0, %arg1, FLOAT : (tensor<{t}>, tensor<{t}>) -> "
            f"tensor<i1>\n    return %0 : tensor<i1>\n  }}"
        )
    return module.shared["top_k", name]


def _approx_lowering(
    ctx,
    x,
    *,
    k,
    reduction_dimension,
    recall_target,
    is_max_k,
    reduction_input_size_override,
    aggregate_to_topk,
):
    aval = ctx.avals_in[0]
    axis = reduction_dimension % aval.ndim
    index = ShapedArray(aval.shape, np.int32)
    scalar, i32 = aval.update(shape=(), weak_type=False), ShapedArray((), np.int32)
    worst = ctx.constant(np.asarray((lowest if is_max_k else highest)(aval.dtype)), scalar)
    nowhere = ctx.constant(np.asarray(-1, np.int32), i32)
    positions = ctx.op(f"stablehlo.iota dim = {axis} : {mlir.tensor_type(index)}")
    symbol = _comparator(ctx.module, aval.dtype, is_max_k)
    fallback = ", is_fallback = true" if ctx.platform != "tpu" else ""
    settings = (
        f"aggregate_to_topk = {str(aggregate_to_topk).lower()}{fallback}, "
        f"recall_target = {recall_target:.9e} : f32, reduction_dim = {axis} : i64, "
        f"reduction_input_size_override = {reduction_input_size_override} : i64, top_k = {k} : i64"
    )
    types = ", ".join(map(mlir.tensor_type, (aval, index, scalar, i32)))
    return ctx.ops(
        f'stablehlo.custom_call @ApproxTopK({x}, {positions}, {worst}, {nowhere}) {{backend_config = "", '
        f"called_computations = [@{symbol}], mhlo.backend_config = {{{settings}}}}} : ({types}) -> "
        f"({ctx.type_out(0)}, {ctx.type_out(1)})",
        2,
    )


approx_top_k_p = Primitive("approx_top_k", multiple_results=True)
approx_top_k_p.def_abstract_eval(_approx_aval)
ad.primitive_jvps[approx_top_k_p] = _approx_jvp
sharding_rules[approx_top_k_p] = sharding_in_types.along("approx_top_k", "reduction_dimension")
batching.primitive_batchers[approx_top_k_p] = _approx_batch
mlir.register_text_lowering(approx_top_k_p, _approx_lowering)

costs.register(
    costs.per_element(lambda k: max(1.0, math.log2(max(k, 2))), lambda x, params: params["k"]),
    approx_top_k_p,
)
