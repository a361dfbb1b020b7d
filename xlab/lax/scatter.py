"""The primitives of `scatter` and its kin: an array with slices at run-time positions replaced, or combined with updates.

The mirror image of `gather`. Where positions repeat, `scatter_add`, `scatter_mul`, `scatter_min` and `scatter_max`
combine all updates, and `scatter` keeps one of them. The functions stand in `scatter_functions.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import batching, costs, mlir
from xlab.interpreters.control_flow import OpaqueFlow, control_flow_rules
from xlab.interpreters.mlir.values import dims_text, physical_aval
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import add_p, complex_extremum, max_p, min_p, mul_p, sub_p
from xlab.lax.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    check_indices,
    check_positions,
    clip_positions,
    gather,
)


class ScatterDimensionNumbers(NamedTuple):
    """How the dimensions of operand, indices and updates of a `scatter` belong together.

    Attributes:
        update_window_dims: dimensions of the updates that run over the slice.
        inserted_window_dims: operand dimensions of slice size 1 that the updates leave out.
        scatter_dims_to_operand_dims: the operand dimension of each component of a position.
        operand_batching_dims, scatter_indices_batching_dims: dimensions of operand and indices that go together.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def window_sizes(operand_shape, update_shape, numbers) -> tuple[int, ...]:
    """Size of the written slice along each operand dimension."""
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter([update_shape[d] for d in numbers.update_window_dims])
    return tuple(1 if d in gone else next(sizes) for d in range(len(operand_shape)))


def _scatter_aval(name, accepts):
    def rule(x, indices, updates, *, dimension_numbers, **_):
        n = dimension_numbers
        check_indices(name, indices)
        if not accepts(x.dtype):
            _e.check_dtypes(name, (x,), accepts)
        if x.dtype != updates.dtype:
            raise TypeError(f"{name} needs operand and updates of one dtype, got {x} and {updates}")
        check_positions(
            name,
            x,
            indices,
            n.scatter_dims_to_operand_dims,
            n.inserted_window_dims,
            n.operand_batching_dims,
            n.scatter_indices_batching_dims,
        )
        if (
            len(n.update_window_dims) + len(n.inserted_window_dims) + len(n.operand_batching_dims)
            != x.ndim
        ):
            raise TypeError(
                f"the windows of a {name} must cover the {x.ndim} dimensions of {x}: update_window_dims="
                f"{n.update_window_dims}, inserted_window_dims={n.inserted_window_dims}, "
                f"operand_batching_dims={n.operand_batching_dims}"
            )
        if updates.ndim != indices.ndim - 1 + len(n.update_window_dims):
            raise TypeError(
                f"{name} updates must have {indices.ndim - 1 + len(n.update_window_dims)} dimensions, got "
                f"{updates}"
            )
        batch = tuple(d for i, d in enumerate(updates.shape) if i not in n.update_window_dims)
        if batch != indices.shape[:-1]:
            raise TypeError(
                f"{name} updates {updates} do not fit the indices {indices}: the dimensions outside "
                f"update_window_dims must be {indices.shape[:-1]}"
            )
        sizes = window_sizes(x.shape, updates.shape, n)
        if any(s > d for s, d in zip(sizes, x.shape) if d or s > 1):
            raise TypeError(f"the window {sizes} of a {name} is larger than the operand {x}")
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    return rule


def read_back(ct, indices, updates_aval, numbers, mode, indices_are_sorted, unique_indices):
    """The slices of `ct` that updates went to; zero for those that were dropped."""
    n = numbers
    reading = GatherDimensionNumbers(
        n.update_window_dims,
        n.inserted_window_dims,
        n.scatter_dims_to_operand_dims,
        n.operand_batching_dims,
        n.scatter_indices_batching_dims,
    )
    sizes = window_sizes(aval_of(ct).shape, updates_aval.shape, n)
    return gather(
        ct,
        indices,
        reading,
        sizes,
        mode=mode,
        fill_value=0,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )


# -- batching, lowering -------------------------------------------------------------------------------------


def _up(dims):
    return tuple(d + 1 for d in dims)


def _scatter_batch(prim, xs, dims, *, dimension_numbers, **params):
    n = dimension_numbers
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    x, updates = (
        batching.move_batch_dim_to(xs[0], dims[0], size, 0),
        batching.move_batch_dim_to(xs[2], dims[2], size, 0),
    )
    numbers = ScatterDimensionNumbers(
        _up(n.update_window_dims),
        _up(n.inserted_window_dims),
        _up(n.scatter_dims_to_operand_dims),
        _up(n.operand_batching_dims),
        n.scatter_indices_batching_dims,
    )
    if dims[1] is None:
        numbers = numbers._replace(update_window_dims=(0, *numbers.update_window_dims))
        indices = xs[1]
    else:
        indices = batching.moveaxis(xs[1], dims[1], 0)
        numbers = numbers._replace(
            operand_batching_dims=(0, *numbers.operand_batching_dims),
            scatter_indices_batching_dims=(0, *_up(n.scatter_indices_batching_dims)),
        )
    return prim.bind(x, indices, updates, dimension_numbers=numbers, **params), 0


def _clipped(prim):
    def run(x, indices, updates, *, dimension_numbers, **params):
        shape = aval_of(x).shape
        sizes = window_sizes(shape, aval_of(updates).shape, dimension_numbers)
        indices = clip_positions(
            indices, shape, sizes, dimension_numbers.scatter_dims_to_operand_dims
        )
        return prim.bind(
            x,
            indices,
            updates,
            dimension_numbers=dimension_numbers,
            **{**params, "mode": GatherScatterMode.PROMISE_IN_BOUNDS},
        )

    return mlir.lower_fun(run)


def _scatter_lowering(op: str | None, clipped):
    def rule(
        ctx,
        x,
        indices,
        updates,
        *,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
        update_jaxpr,
        update_consts,
    ):
        if mode is GatherScatterMode.CLIP and ctx.avals_in[1].size:
            return clipped(
                ctx,
                x,
                indices,
                updates,
                dimension_numbers=dimension_numbers,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                update_jaxpr=update_jaxpr,
                update_consts=update_consts,
            )[0]
        n = dimension_numbers
        src, ups = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_in[2])
        window = (*n.update_window_dims, *range(ctx.avals_in[2].ndim, ups.ndim))
        numbers = (
            f"#stablehlo.scatter<update_window_dims = {dims_text(window)}, "
            f"inserted_window_dims = {dims_text(n.inserted_window_dims)}, "
            f"input_batching_dims = {dims_text(n.operand_batching_dims)}, "
            f"scatter_indices_batching_dims = {dims_text(n.scatter_indices_batching_dims)}, "
            f"scatter_dims_to_operand_dims = {dims_text(n.scatter_dims_to_operand_dims)}, "
            f"index_vector_dim = {ctx.avals_in[1].ndim - 1}>"
        )
        one = src.update(shape=(), weak_type=False)
        scalar = mlir.tensor_type(one)

        def combined(names):
            if op is None:
                return [names[1]] if update_jaxpr is None else ctx.jaxpr(update_jaxpr, names)
            if op in ("stablehlo.maximum", "stablehlo.minimum") and _e.complexes(src.dtype):
                # The native operation does not know complex numbers.
                return [complex_extremum(ctx, op, *names, one)]
            return [ctx.op(f"{op} {', '.join(names)} : {scalar}")]

        region = ctx.block([scalar, scalar], combined, [scalar])
        t = mlir.tensor_type(src)
        return ctx.op(
            f'"stablehlo.scatter"({x}, {indices}, {updates}) <{{scatter_dimension_numbers = {numbers}, '
            f"indices_are_sorted = {str(indices_are_sorted).lower()}, "
            f"unique_indices = {str(unique_indices).lower()}}}> ({region}) : "
            f"({t}, {ctx.type_in(1)}, {mlir.tensor_type(ups)}) -> {t}"
        )

    return rule


class _Scatter(Primitive):
    """A scatter primitive, with the primitive that combines old value and update."""

    __slots__ = ("combine",)


def _family(name: str, accepts, combine=None, op: str | None = None):
    prim = _Scatter(name)
    prim.combine = combine
    prim.def_abstract_eval(_scatter_aval(name.replace("-", "_"), accepts))
    sharding_rules[prim] = sharding_in_types.scatter
    batching.primitive_batchers[prim] = functools.partial(_scatter_batch, prim)
    mlir.register_text_lowering(prim, _scatter_lowering(op, _clipped(prim)))
    control_flow_rules[prim] = lambda params: OpaqueFlow(
        (("update", params["update_jaxpr"]),) if params["update_jaxpr"] is not None else ()
    )
    return prim


scatter_p = _family("scatter", lambda d: True)
scatter_p.linear_in_unreduced = lambda *_, unique_indices, **__: unique_indices and ((0, 2),)
scatter_add_p = _family("scatter-add", _e.numeric, add_p, "stablehlo.add")
scatter_add_p.linear_in_unreduced = ((0, 2),)
scatter_sub_p = _family("scatter-sub", _e.numeric, sub_p, "stablehlo.subtract")
scatter_sub_p.linear_in_unreduced = ((0, 2),)
scatter_mul_p = _family("scatter-mul", _e.numeric, mul_p, "stablehlo.multiply")
scatter_min_p = _family("scatter-min", _e.sortable, min_p, "stablehlo.minimum")
scatter_max_p = _family("scatter-max", _e.sortable, max_p, "stablehlo.maximum")


def _scatter_cost(avals_in, avals_out, **_):
    # Every update is combined with what is there; the operand is copied first.
    return costs.Cost(avals_in[2].size, unit="serial")


costs.register(costs.moves, scatter_p)
costs.register(
    _scatter_cost, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p
)
