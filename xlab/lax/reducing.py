"""`reduce` by any associative operation, and how such operations become scalar programs.

A computation is traced once to a program of scalars. That program is the body of the compiled reduction; for derivatives
and batched initial values it is mapped over arrays, so they need nothing but the derivatives of what it is made of.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.config import idle_argument
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import Axis, Tracer
from xlab.core.typing import ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad import Zero
from xlab.interpreters.control_flow import OpaqueFlow, control_flow_rules
from xlab.lax import arithmetic as _a
from xlab.lax import bits as _b
from xlab.lax import sharding_in_types
from xlab.lax.reduce_sum import reduced_shape
from xlab.lax.reductions import (
    _all_ones,
    highest,
    lowest,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from xlab.lax.shape import broadcast_in_dim, concatenate, reshape, transpose
from xlab.lax.slicing import slice_in_dim

__all__ = ["reduce"]


def _of_bits(identity: Callable) -> Callable:
    """The identity of an operation on bits, of types that have bits to operate on."""
    bits = (np.bool_, np.integer)
    return lambda d: identity(d) if any(dtypes.issubdtype(d, t) for t in bits) else None


_NUMBER = np.number
_KNOWN = {
    _a.add: (reduce_sum, lambda d: 0, _NUMBER),
    _a.mul: (reduce_prod, lambda d: 1, _NUMBER),
    _a.max: (reduce_max, lowest, None),
    _a.min: (reduce_min, highest, None),
    _b.bitwise_and: (reduce_and, _of_bits(_all_ones), None),
    _b.bitwise_or: (reduce_or, _of_bits(lambda d: 0), None),
    _b.bitwise_xor: (reduce_xor, _of_bits(lambda d: 0), None),
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable,
    dimensions: Sequence[int],
    out_sharding: ShardingLike | None = None,
) -> Any:
    """Reduces axes with an associative `computation(a, b)`; operands and initial values are pytrees of one structure.

    Args:
        operands: an array or a tree of arrays of one shape.
        init_values: what each reduction starts from, a scalar for each.
        computation: combines two values; associative.
        dimensions: the dimensions to reduce.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> float(lax.reduce(np.float32([1, 2, 3]), np.float32(0), lax.add, (0,)))
        6.0
    """
    idle_argument(
        "reduce", "out_sharding", out_sharding, "xlab.reshard brings the result to a sharding"
    )
    flat, inits, structure = flatten_operands("reduce", operands, init_values)
    axes = tuple(map(operator.index, dimensions))
    ndim = aval_of(flat[0]).ndim
    if any(not 0 <= a < ndim for a in axes):
        raise ValueError(
            f"reduction axes {axes} contains out-of-bounds indices for {aval_of(flat[0])}: they go from 0 to "
            f"{ndim - 1}"
        )
    if len(flat) == 1 and computation in _KNOWN:
        known, identity, kind = _KNOWN[computation]
        if is_identity(inits[0], flat[0], identity, kind):
            return _tree.unflatten(structure, [known(flat[0], axes)])
    check_inits("reduce", flat, inits)
    closed = staged(computation, structure, flat)
    if closes_over_tracers(closed):
        reduced_shape(aval_of(flat[0]), axes)
        return _tree.unflatten(structure, by_halves(closed, flat, inits, axes))
    return _tree.unflatten(
        structure,
        reduce_p.bind(*flat, *inits, computation=computation, jaxpr=closed, dimensions=axes),
    )


# -- operands and computations ------------------------------------------------------------------------------


def flatten_operands(name: str, operands, init_values):
    flat, structure = _tree.flatten(operands)
    inits, init_structure = _tree.flatten(init_values)
    if not flat:
        raise ValueError(f"{name} must have at least one operand")
    if structure != init_structure:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {structure} vs. {init_structure}"
        )
    shapes = [aval_of(x).shape for x in flat]
    if any(s != shapes[0] for s in shapes):
        raise ValueError(f"{name} needs operands of one shape, got {shapes}")
    return flat, inits, structure


def check_inits(name: str, flat, inits) -> None:
    avals = [aval_of(i) for i in inits]
    if any(a.shape for a in avals):
        raise TypeError(
            f"{name} expected init_values to be scalars but init_values have shapes {[a.shape for a in avals]}."
        )
    wanted = [aval_of(x).dtype for x in flat]
    if any(a.dtype != d for a, d in zip(avals, wanted)):
        raise TypeError(
            f"{name} got inconsistent dtypes for operands and init_values: got operand dtypes "
            f"{[dtypes.name(d) for d in wanted]} and init_value dtypes {[dtypes.name(a.dtype) for a in avals]}. "
            f"Convert the initial values, e.g. with numpy's scalar types."
        )


def is_identity(init, operand, identity: Callable, kind=None) -> bool:
    """Whether an initial value is known to be the one an operation starts from by itself.

    It is so among the numbers of its own type: minus infinity is where the maximum of integers may start too.
    """
    if isinstance(init, Tracer):
        return False
    aval, dtype = aval_of(init), aval_of(operand).dtype
    if (
        aval.shape
        or dtypes.is_extended(dtype)
        or dtypes.is_extended(aval.dtype)
        or (kind is not None and not dtypes.issubdtype(dtype, kind))
    ):
        return False
    start = identity(aval.dtype)
    return start is not None and bool(np.asarray(init) == np.asarray(start))


_programs: weakref.WeakKeyDictionary[Callable, dict] = weakref.WeakKeyDictionary()


def staged(computation: Callable, structure, operands) -> ClosedJaxpr:
    """The program of scalars `(a..., b...) -> (c...)` of a computation on pytrees; remembered with it."""
    avals = tuple(ShapedArray((), aval_of(x).dtype) for x in operands)
    try:
        known = _programs.setdefault(computation, {})
    except TypeError:
        known = {}
    key = (structure, avals)
    closed = known.get(key)
    if closed is None:
        n = len(avals)

        def flat(*args):
            out = computation(
                _tree.unflatten(structure, args[:n]), _tree.unflatten(structure, args[n:])
            )
            leaves, out_structure = _tree.flatten(out)
            if out_structure != structure:
                raise TypeError(
                    f"a reduction computation must return what it is given, a pytree of structure {structure}; "
                    f"it returned {out_structure}"
                )
            return leaves

        closed = pe.trace_to_closed_jaxpr(flat, (*avals, *avals))
        for given, made in zip(avals, closed.out_avals):
            if (given.shape, given.dtype) != (made.shape, made.dtype):
                raise ValueError(
                    f"a reduction computation must return scalars of the types it is given, "
                    f"{', '.join(map(str, avals))}; it returned {', '.join(map(str, closed.out_avals))}"
                )
        if not closes_over_tracers(closed):
            known[key] = closed
    return closed


def closes_over_tracers(closed: ClosedJaxpr) -> bool:
    return any(isinstance(c, Tracer) for c in closed.consts)


def map_scalars(closed: ClosedJaxpr, *xs):
    """A program of scalars applied at every element of arrays of one shape."""
    shape = aval_of(xs[0]).shape
    size = math.prod(shape)
    run, dims = batching.batch_flat(
        lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args),
        Axis(None, size, "vmap"),
        [0] * len(xs),
    )
    outs = run(*(reshape(x, (size,)) for x in xs))
    return [
        reshape(batching.move_batch_dim_to(o, d, size, 0), shape) for o, d in zip(outs, dims.dims)
    ]


def by_halves(closed: ClosedJaxpr, operands, inits, axes):
    """The reduction as operations on ever smaller arrays: halves against each other, in logarithmic depth.

    Where one element is all there is, compiled programs leave out the initial value, which ought to be an identity; so does this.
    """
    aval = aval_of(operands[0])
    kept = [i for i in range(aval.ndim) if i not in axes]
    shape = [aval.shape[i] for i in kept]
    size = math.prod([aval.shape[i] for i in axes])
    xs = [reshape(transpose(x, (*axes, *kept)), (size, *shape)) for x in operands]
    starts = [broadcast_in_dim(i, (1, *shape), ()) for i in inits]
    alone = size == 1
    while size > 1:
        half, odd = divmod(size, 2)
        pairs = map_scalars(
            closed,
            *(slice_in_dim(x, 0, half) for x in xs),
            *(slice_in_dim(x, half, 2 * half) for x in xs),
        )
        if odd:
            pairs = [
                concatenate([p, slice_in_dim(x, size - 1, size)], 0) for p, x in zip(pairs, xs)
            ]
        xs, size = pairs, half + odd
    if alone:
        return [reshape(x, shape) for x in xs]
    return [reshape(x, shape) for x in (map_scalars(closed, *starts, *xs) if size else starts)]


def _scalar_body(ctx, closed: ClosedJaxpr, op: str) -> str:
    """The region of a reduction that runs a program of scalars."""
    types = [mlir.tensor_type(a) for a in closed.in_avals]
    return ctx.block(
        types, lambda names: ctx.jaxpr(closed, names, scope=op), types[: len(types) // 2]
    )


def scalar_program_op(ctx, op: str, attributes: str, args, closed: ClosedJaxpr):
    """A reduction of operands, then initial values, by a program of scalars: one result per operand."""
    n = len(args) // 2
    types_out = [ctx.type_out(i) for i in range(n)]
    arrow = types_out[0] if n == 1 else f"({', '.join(types_out)})"
    return ctx.ops(
        f'"stablehlo.{op}"({", ".join(args)}) {attributes} ({_scalar_body(ctx, closed, op)}) : '
        f"({ctx.types_in()}) -> {arrow}",
        n,
    )


# -- the primitive ------------------------------------------------------------------------------------------


def _reduce_aval(*args, computation, jaxpr, dimensions):
    xs = args[: len(args) // 2]
    return [ShapedArray(reduced_shape(x, dimensions), x.dtype, x.weak_type) for x in xs]


def _halves(*args, computation, jaxpr, dimensions):
    n = len(args) // 2
    return by_halves(jaxpr, args[:n], args[n:], dimensions)


def _reduce_jvp(primals, tangents, **params):
    if all(type(t) is Zero for t in tangents):
        outs = reduce_p.bind(*primals, **params)
        return outs, [Zero.of(o) for o in outs]
    return ad.jvp(lambda *args: _halves(*args, **params), primals, tangents)


def _reduce_batch(args, dims, *, computation, jaxpr, dimensions):
    n = len(args) // 2
    size = next(aval_of(x).shape[d] for x, d in zip(args, dims) if d is not None)
    if any(d is not None for d in dims[n:]):
        run, out = batching.batch_flat(
            lambda *xs: _halves(*xs, computation=computation, jaxpr=jaxpr, dimensions=dimensions),
            Axis(None, size, "vmap"),
            dims,
        )
        return run(*args), out.dims
    xs = [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(args[:n], dims)]
    outs = reduce_p.bind(
        *xs,
        *args[n:],
        computation=computation,
        jaxpr=jaxpr,
        dimensions=tuple(d + 1 for d in dimensions),
    )
    return outs, [0] * n


def _reduce_lowering(ctx, *args, computation, jaxpr, dimensions):
    return scalar_program_op(
        ctx, "reduce", f"<{{dimensions = {mlir.values.i64_array(dimensions)}}}>", args, jaxpr
    )


reduce_p = Primitive("reduce", multiple_results=True)
reduce_p.def_abstract_eval(_reduce_aval)
ad.primitive_jvps[reduce_p] = _reduce_jvp
sharding_rules[reduce_p] = sharding_in_types.reduction
batching.primitive_batchers[reduce_p] = _reduce_batch
control_flow_rules[reduce_p] = lambda params: OpaqueFlow((("body", params["jaxpr"]),))
mlir.register_text_lowering(reduce_p, _reduce_lowering)

costs.register(costs.reduction, reduce_p)
