"""Sharding rules of primitives for Explicit mesh axes, as functions of types alone.

A rule gives, per result and dimension, the mesh axes that shard it. Where the answer is ambiguous, or would need devices to
communicate, it raises `ShardingTypeError` and names the way out.
"""

from __future__ import annotations

import math

from xlab.core.sharding_rules import described, elementwise_sharding
from xlab.core.trace import state
from xlab.errors import ShardingTypeError
from xlab.sharding.typed import NamedSharding, PartitionSpec, entries, parts

RESHARD = "Bring the operand to another sharding first with xlab.reshard, or leave this part to the compiler with xlab.sharding.auto_axes."


def requested_axes(sharding, ndim):
    """The axes per dimension that an `out_sharding` requests."""
    return [sharding.spec.axes_of(d) for d in range(ndim)]


def like(aval, other=None):
    """The sharding to ask of a value that should lie like the type `aval`; None where no Explicit axis is in play.

    `other` is a type that says which mesh is in use where `aval` is not sharded.
    """
    if aval.explicit_sharding is not None:
        return aval.explicit_sharding
    if other is not None and getattr(other, "explicit_sharding", None) is not None:
        return NamedSharding(other.explicit_sharding.mesh, PartitionSpec(*(None,) * aval.ndim))
    return None


def batched(sharding, aval):
    """The `out_sharding` of one example extended to the batch; `aval` is an operand's, with the batch in front."""
    if sharding is None:
        return None
    front = aval.explicit_sharding.spec[0] if aval.explicit_sharding is not None else None
    return NamedSharding(sharding.mesh, PartitionSpec(front, *sharding.spec))


def with_batch(aval, d):
    """The sharding of a value broadcast along the current batch, in a new dimension `d`."""
    mesh, axes = state.batch_sharding
    dim_axes = entries(aval)
    return NamedSharding(mesh, PartitionSpec(*dim_axes[:d], axes, *dim_axes[d:]))


def first_operand(ins, outs, **_):
    """Results are sharded like the first operand."""
    return [entries(ins[0])] * len(outs)


def each_operand(ins, outs, **_):
    """Result `i` is sharded like operand `i`."""
    return [entries(a) if a.ndim else () for a in ins]


def requested_only(ins, outs, *, sharding=None, out_sharding=None, **_):
    """Results have the requested sharding."""
    given = sharding if sharding is not None else out_sharding
    return [requested_axes(given, o.ndim) if given is not None else ((),) * o.ndim for o in outs]


def broadcast(ins, outs, *, shape, broadcast_dimensions, sharding):
    """Each operand dimension keeps its sharding; a requested sharding takes precedence."""
    if sharding is not None:
        return [requested_axes(sharding, len(shape))]
    dim_axes = [()] * len(shape)
    for axes, size, d in zip(entries(ins[0]), ins[0].shape, broadcast_dimensions):
        if size == shape[d]:
            dim_axes[d] = axes
    return [dim_axes]


def tile(ins, outs, *, reps):
    """A dimension that is repeated must be in one piece."""
    dim_axes = entries(ins[0])
    if any(axes and r != 1 for axes, r in zip(dim_axes, reps)):
        raise ShardingTypeError(
            f"tile of an operand of type {ins[0]} by {reps} repeats a dimension that is sharded. {RESHARD}"
        )
    return [dim_axes]


def transpose(ins, outs, *, permutation):
    dim_axes = entries(ins[0])
    return [[dim_axes[i] for i in permutation]]


def squeeze(ins, outs, *, dimensions):
    return [[axes for d, axes in enumerate(entries(ins[0])) if d not in dimensions]]


def reshape(ins, outs, *, new_sizes, dimensions, sharding):
    """Equal dimensions keep their sharding; one sharded dimension may be split, or a sharded run of dimensions merged."""
    x = ins[0]
    if sharding is not None:
        return [requested_axes(sharding, len(new_sizes))]
    dim_axes, out = entries(x), [()] * len(new_sizes)
    changed = 0
    for old, new in _groups(x.shape, new_sizes):
        axes = [dim_axes[d] for d in old]
        if not any(axes):
            continue
        changed += len(old) != 1 or len(new) != 1
        found = (
            _split(x.explicit_sharding.mesh, axes[0], [new_sizes[d] for d in new])
            if len(old) == 1
            else [_merged(axes)]
            if len(new) == 1
            else None
        )
        if found is None or None in found or changed > 1:
            raise ShardingTypeError(
                f"This reshape is not supported: of an operand of type {x} to {tuple(new_sizes)} it is not clear how the result should "
                f"be sharded. Please specify the sharding of the output via the `out_sharding` argument of reshape, or reshard the "
                f"operand first (xlab.reshard)."
            )
        for d, a in zip(new, found):
            out[d] = a
    return [out]


def _groups(old, new):
    """Runs of dimensions of two shapes with equal products; dimensions of size 1 belong to none."""
    i, j = [d for d, n in enumerate(old) if n != 1], [d for d, n in enumerate(new) if n != 1]
    out, a, b = [], [], []
    while i or j:
        if not a and not b:
            a.append(i.pop(0)) if i else b.append(j.pop(0))
        p, q = math.prod([old[d] for d in a]), math.prod([new[d] for d in b])
        if a and b and p == q:
            out.append((a, b))
            a, b = [], []
        elif (q < p or not b) and j:
            b.append(j.pop(0))
        elif i:
            a.append(i.pop(0))
        else:
            break
    if a or b:
        out.append((a + i, b + j))
    return out


def _split(mesh, axes, sizes):
    """The axes of a dimension handed out to the dimensions it is split into, the first of them first."""
    axes, out = list(axes), []
    for i, size in enumerate(sizes):
        taken = []
        while axes and size % parts(mesh, (*taken, axes[0])) == 0:
            taken.append(axes.pop(0))
        if axes and parts(mesh, tuple(taken)) != size:
            return None
        out.append(tuple(taken))
        if not axes:
            return out + [()] * (len(sizes) - i - 1)
    return None


def _merged(axes):
    """The axes of dimensions that become one: sharded ones first, whole ones after them."""
    whole = [i for i, a in enumerate(axes) if not a]
    if whole and any(axes[whole[0] :]):
        return None
    return tuple(a for dim_axes in axes for a in dim_axes)


def concatenate(ins, outs, **_):
    dim_axes = entries(ins[0])
    for a in ins[1:]:
        if entries(a) != dim_axes:
            raise ShardingTypeError(
                f"All operands of concatenate should have the same sharding, got {described(ins)}. Bring them to "
                f"one sharding with xlab.reshard."
            )
    return [dim_axes]


def stack(ins, outs, *, axis):
    dim_axes = entries(ins[0])
    if any(entries(a) != dim_axes for a in ins):
        raise ShardingTypeError(
            f"All operands of stack should have the same sharding, got {described(ins)}. Bring them to one sharding with "
            f"xlab.reshard."
        )
    return [(*dim_axes[:axis], (), *dim_axes[axis:])]


def unstack(ins, outs, *, axis):
    dim_axes = entries(ins[0])
    if dim_axes[axis]:
        raise ShardingTypeError(
            f"unstack operand cannot be sharded on the unstacking axis {axis}. Got operand type={ins[0]}. {RESHARD}"
        )
    return [(*dim_axes[:axis], *dim_axes[axis + 1 :])] * len(outs)


def resized(what):
    """For slices and paddings: a dimension whose size changes stays sharded, if the new size can be sharded evenly."""

    def rule(ins, outs, **_):
        x = ins[0]
        dim_axes = entries(x)
        for out in outs:
            for d, axes in enumerate(dim_axes):
                if (
                    axes
                    and x.shape[d] != out.shape[d]
                    and out.shape[d] % parts(x.explicit_sharding.mesh, axes)
                ):
                    raise ShardingTypeError(
                        f"{what} on sharded dims where out dim ({out.shape[d]}) is not divisible by mesh axes "
                        f"({parts(x.explicit_sharding.mesh, axes)}) with spec ({', '.join(map(str, axes))}) is not possible. Got input type={x} and "
                        f"output shape={out.shape}. {RESHARD}"
                    )
        return [dim_axes] * len(outs)

    return rule


def update(ins, outs, **_):
    x, new = ins[:2]
    if entries(x) != entries(new):
        raise ShardingTypeError(
            f"dynamic_update_slice operand sharding must be equal to update sharding, got operand {x} and update "
            f"{new}. Bring the update to the sharding of the operand with xlab.reshard."
        )
    return [entries(x)]


def reduction(ins, outs, *, axes=None, dimensions=None, out_sharding=None, **_):
    """The reduced dimensions go, with their sharding."""
    if out_sharding is not None:
        return [requested_axes(out_sharding, o.ndim) for o in outs]
    gone = axes if axes is not None else dimensions
    return [[a for d, a in enumerate(entries(ins[0])) if d not in gone]] * len(outs)


def along(what, parameter="axis"):
    """For what runs along one dimension, which must not be sharded."""

    def rule(ins, outs, **params):
        axis = params[parameter]
        for x in ins:
            if x.ndim and entries(x)[axis % x.ndim]:
                raise ShardingTypeError(
                    f"{what} needs its input unsharded over the dimension it works along. Got input type={x} and "
                    f"axis={axis}. {RESHARD}"
                )
        return elementwise_sharding(ins, outs)

    return rule


def select(ins, outs):
    which, *cases = ins
    dim_axes = entries(cases[0])
    if any(entries(c) != dim_axes for c in cases[1:]):
        raise ShardingTypeError(
            f"select cases must have the same shardings, got {described(cases)}. Bring them to one sharding with "
            f"xlab.reshard."
        )
    if which.ndim and entries(which) != dim_axes:
        raise ShardingTypeError(
            f"select `which` must be scalar or have the same sharding as cases, got `which` of type {which} and cases "
            f"{described(cases)}. Bring it to their sharding with xlab.reshard."
        )
    return [dim_axes]


def clamp(ins, outs):
    return [entries(ins[1])]


def bitcast(ins, outs, *, new_dtype):
    x, out = ins[0], outs[0]
    dim_axes = entries(x)
    if out.ndim < x.ndim and dim_axes[-1]:
        raise ShardingTypeError(
            f"bitcast_convert_type would read {x} as wider elements along a sharded dimension. {RESHARD}"
        )
    return [(*dim_axes, ())[: out.ndim]]


def dot(ins, outs, *, dimension_numbers, out_sharding, **_):
    """Batch dimensions, then what is left of each side; contracted dimensions must be in one piece."""
    if out_sharding is not None:
        return [requested_axes(out_sharding, outs[0].ndim)]
    lhs, rhs = ins
    (lc, rc), (lb, rb) = dimension_numbers
    left, right = entries(lhs), entries(rhs)
    for i, j in zip(lc, rc):
        if left[i] and right[j] and left[i] != right[j]:
            raise ShardingTypeError(
                f"dot_general requires contracting dimensions to have consistent sharding, got {left[i]} and {right[j]} "
                f"in {described(ins)}. {RESHARD}"
            )
        if left[i] and right[j]:
            raise ShardingTypeError(
                f"Contracting dimensions are sharded and it is ambiguous how the output should be sharded. Please specify the output "
                f"sharding via the `out_sharding` parameter. Got {described(ins)}, in which contracting dimensions {i} and {j} are sharded "
                f"along {left[i]} and {right[j]}."
            )
    batch = []
    for i, j in zip(lb, rb):
        if left[i] and right[j] and left[i] != right[j]:
            raise ShardingTypeError(
                f"dot_general batch dimensions {i} and {j} of {described(ins)} should have the same sharding. {RESHARD}"
            )
        batch.append(left[i] or right[j])
    return [
        [
            *batch,
            *(a for d, a in enumerate(left) if d not in (*lc, *lb)),
            *(a for d, a in enumerate(right) if d not in (*rc, *rb)),
        ]
    ]


def gather(ins, outs, *, dimension_numbers, slice_sizes, **_):
    """Dimensions read whole keep their sharding; those read in part must be in one piece, as must the indices of a sharded operand."""
    x, indices = ins
    n = dimension_numbers
    dim_axes, where = entries(x), entries(indices)
    gone = {*n.collapsed_slice_dims, *n.operand_batching_dims}
    paired = dict(zip(n.operand_batching_dims, n.start_indices_batching_dims))
    partly = any(
        dim_axes[d] and slice_sizes[d] != x.shape[d] for d in range(x.ndim) if d not in paired
    )
    apart = any(dim_axes[d] and where[b] and dim_axes[d] != where[b] for d, b in paired.items())
    where = [
        next((dim_axes[d] for d, b in paired.items() if b == i), axes) or axes
        for i, axes in enumerate(where)
    ]
    named = [a for axes in where for a in axes]
    clash = bool({a for d in range(x.ndim) if d not in paired for a in dim_axes[d]} & set(named))
    if partly or apart or clash or where[-1]:
        raise _unclear("get", "gather", ins)
    offsets = iter([dim_axes[d] for d in range(x.ndim) if d not in gone])
    batch = iter(where[:-1])
    return [[next(offsets) if i in n.offset_dims else next(batch) for i in range(outs[0].ndim)]]


def scatter(ins, outs, *, dimension_numbers, **_):
    """The operand's sharding; windows that do not cover a dimension may not write where it is sharded."""
    x, _, updates = ins
    n = dimension_numbers
    dim_axes, new = entries(x), entries(updates)
    paired = dict(zip(n.operand_batching_dims, n.scatter_indices_batching_dims))
    gone = {*n.inserted_window_dims, *paired}
    windows = dict(zip([d for d in range(x.ndim) if d not in gone], n.update_window_dims))
    for d in range(x.ndim):
        if d in paired:
            continue
        whole = d in windows and updates.shape[windows[d]] == x.shape[d]
        if (dim_axes[d] and not whole) or (whole and new[windows[d]] not in ((), dim_axes[d])):
            raise _unclear("set/add/mul/...", "scatter", ins)
    return [dim_axes]


def _unclear(method, what, ins):
    return ShardingTypeError(
        f"Use `.at[...].{method}(out_sharding=)` to provide output PartitionSpec for the {what} indexing as out sharding could not be "
        f"resolved unambiguously (or would require collectives on inputs). Got {described(ins)}."
    )


def convolution(ins, outs, *, dimension_numbers, out_sharding=None, **_):
    """The batch and the spatial dimensions of the left side keep their sharding; features must be in one piece. What is asked decides."""
    if out_sharding is not None:
        return [requested_axes(out_sharding, outs[0].ndim)]
    lhs, rhs = ins
    (lhs_batch, lhs_feature, *space), out_dims = (
        dimension_numbers.lhs_spec,
        dimension_numbers.out_spec,
    )
    left = entries(lhs)
    if left[lhs_feature] or any(entries(rhs)):
        raise ShardingTypeError(
            f"it is not clear how the result of a convolution of {described(ins)} should be sharded: the features of "
            f"the left side, or the right side, are sharded. Say so with out_sharding=. {RESHARD}"
        )
    out = [()] * outs[0].ndim
    out[out_dims[0]] = left[lhs_batch]
    for i, o in zip(space, out_dims[2:]):
        if left[i] and outs[0].shape[o] % parts(lhs.explicit_sharding.mesh, left[i]):
            raise ShardingTypeError(
                f"a convolution of {described(ins)} has dimension {o} of size {outs[0].shape[o]}, which cannot be sharded "
                f"along {left[i]}. {RESHARD}"
            )
        out[o] = left[i]
    return [out]


def batched_matrices(name, ranks):
    """For what works on the last `ranks[i]` dimensions of operand `i`, which must be in one piece; the others are a common batch."""

    def rule(ins, outs, **_):
        batches = []
        for x, r in zip(ins, ranks):
            dim_axes = entries(x)
            if any(dim_axes[x.ndim - r :]):
                raise ShardingTypeError(
                    f"{name} needs the last {r} dimensions of {x} unsharded: only batch dimensions may be sharded. {RESHARD}"
                )
            batches.append(dim_axes[: x.ndim - r])
        if any(b != batches[0] for b in batches):
            raise ShardingTypeError(
                f"the operands of {name} should have one sharding of their batch dimensions, got {described(ins)}. {RESHARD}"
            )
        return [(*batches[0], *((),) * (o.ndim - len(batches[0]))) for o in outs]

    return rule


def leading_dimensions(ins, outs, **_):
    """Dimensions at the end come or go whole; the others keep their sharding."""
    dim_axes = entries(ins[0])
    for o in outs:
        if any(dim_axes[o.ndim :]):
            raise ShardingTypeError(
                f"the last dimensions of {ins[0]} hold what belongs together, and must be unsharded. {RESHARD}"
            )
    return [(*dim_axes, *((),) * (o.ndim - len(dim_axes)))[: o.ndim] for o in outs]
