"""`shard_alike`: values that the partitioner shards alike, whatever the sharding."""

from __future__ import annotations

import functools
from typing import Any

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.sharding.typed import entries

__all__ = ["shard_alike", "shard_alike_p"]


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """The two values, with the demand that they be sharded alike.

    The compiler chooses one sharding for both, from what it knows of either.

    Args:
        x, y: arrays of one shape, or trees of them of one structure.

    Returns:
        `(x, y)`.

    Raises:
        ValueError: when structures or shapes differ.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> a, b = shard_alike(jnp.ones(4), jnp.arange(4.0))
        >>> b.tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    xs, structure = _tree.flatten(x)
    ys, other = _tree.flatten(y)
    if structure != other:
        raise ValueError(
            f"Trees should match. Got x tree: {structure}, y tree: {other}: shard_alike takes two trees of one structure"
        )
    for a, b in zip(xs, ys):
        shapes = aval_of(a).shape, aval_of(b).shape
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"The leaves shapes of `x` and `y` should match. Got `x` leaf shape: {shapes[0]} and `y` leaf shape: {shapes[1]}: "
                f"dimensions are sharded one by one"
            )
    pairs = [shard_alike_p.bind(a, b) for a, b in zip(xs, ys)]
    return tuple(  # type: ignore[return-value]
        _tree.unflatten(structure, [p[i] for p in pairs]) for i in range(2)
    )


shard_alike_p = Primitive("shard_alike", multiple_results=True)
shard_alike_p.def_abstract_eval(lambda x, y: (x, y))
sharding_rules[shard_alike_p] = lambda ins, outs: list(map(entries, ins))


@functools.partial(ad.primitive_jvps.__setitem__, shard_alike_p)
def _jvp(primals, tangents):
    # A tangent is sharded as its value is; where both have one they are alike, too.
    if any(type(t) is ad.Zero for t in tangents):
        return shard_alike_p.bind(*primals), list(tangents)
    return shard_alike_p.bind(*primals), shard_alike_p.bind(*tangents)


@functools.partial(ad.primitive_transposes.__setitem__, shard_alike_p)
def _transpose(cts, *operands):
    if any(type(ct) is ad.Zero for ct in cts):
        return list(cts)
    return shard_alike_p.bind(*cts)


@functools.partial(batching.axis_primitive_batchers.__setitem__, shard_alike_p)
def _batch(axis, operands, dims):
    front = [batching.bdim_at_front(x, d, axis.size) for x, d in zip(operands, dims)]
    return shard_alike_p.bind(*front), [0, 0]


def _lowering(ctx, x, y):
    if ctx.module.devices > 1 and len(ctx.manual) == 0:
        number = ctx.module.unique_number("sharding_group")
        for value, aval in zip((x, y), ctx.avals_in):
            ctx.op0(f"sdy.sharding_group {value} group_id={number} : {mlir.tensor_type(aval)}")
    return [x, y]


mlir.register_text_lowering(shard_alike_p, _lowering)

costs.register(costs.free, shard_alike_p)
