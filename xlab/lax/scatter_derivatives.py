"""Derivatives of `scatter` and its kin, and of `gather`, whose transpose adds at the same positions."""

from __future__ import annotations

import functools
import math

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.trace import Axis
from xlab.interpreters import ad, batching
from xlab.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal
from xlab.lax.arithmetic import add, div, mul, neg
from xlab.lax.comparison import eq, select
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like, iota, zeros_like_aval
from xlab.lax.elementwise import operand_aval
from xlab.lax.gather import (
    GatherScatterMode,
    gather_p,
)
from xlab.lax.scatter import (
    ScatterDimensionNumbers,
    read_back,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from xlab.lax.scatter_functions import scatter, scatter_add
from xlab.lax.shape import broadcast_in_dim, concatenate, reshape
from xlab.lax.slicing import set_per_example


def _promises(params):
    return {k: params[k] for k in ("indices_are_sorted", "unique_indices", "mode")}


def _additive_jvp(prim, primals, tangents, **params):
    x, indices, updates = primals
    tx, _, tu = tangents
    out = prim.bind(x, indices, updates, **params)
    if type(tx) is Zero and type(tu) is Zero:
        return out, Zero.of(out)
    if type(tu) is Zero:
        return out, tx
    return out, prim.bind(instantiate_zeros(tx), indices, tu, **params)


def _additive_transpose(sign, ct, x, indices, updates, *, dimension_numbers, **params):
    ct_updates = None
    if is_undefined_primal(updates):
        ct_updates = sign(
            read_back(ct, indices, updates.aval, dimension_numbers, **_promises(params))
        )
    return [ct if is_undefined_primal(x) else None, None, ct_updates]


for _p, _sign in ((scatter_add_p, lambda v: v), (scatter_sub_p, neg)):
    ad.primitive_jvps[_p] = functools.partial(_additive_jvp, _p)
    ad.primitive_transposes[_p] = functools.partial(_additive_transpose, _sign)


def _mul_jvp(primals, tangents, *, dimension_numbers, **params):
    x, indices, updates = primals
    tx, _, tu = tangents
    out = scatter_mul_p.bind(x, indices, updates, dimension_numbers=dimension_numbers, **params)
    total = None
    if type(tx) is not Zero:
        total = scatter_mul_p.bind(
            tx, indices, updates, dimension_numbers=dimension_numbers, **params
        )
    if type(tu) is not Zero:
        if not params["unique_indices"]:
            raise NotImplementedError(
                "the derivative of scatter_mul by its updates needs positions that do not repeat: pass unique_indices=True "
                "if that is so (x.at[i].multiply(v, unique_indices=True)), or multiply x by a factor you build yourself"
            )
        aval = aval_of(x)
        spread = scatter_add(
            full_like(aval, 0, aval.dtype), indices, tu, dimension_numbers, **_promises(params)
        )
        total = ad.add_tangents(total, mul(x, spread))
    return out, Zero.of(out) if total is None else total


def _mul_transpose(ct, x, indices, updates, *, dimension_numbers, **params):
    if is_undefined_primal(x):
        return [
            scatter_mul_p.bind(ct, indices, updates, dimension_numbers=dimension_numbers, **params),
            None,
            None,
        ]
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul is linear in its updates only where positions do not repeat: pass "
            "unique_indices=True if that is so"
        )
    return [
        None,
        None,
        read_back(mul(ct, x), indices, updates.aval, dimension_numbers, **_promises(params)),
    ]


ad.primitive_jvps[scatter_mul_p] = _mul_jvp
ad.primitive_transposes[scatter_mul_p] = _mul_transpose


def _extremal_jvp(prim, primals, tangents, *, dimension_numbers, **params):
    """The tangent of the extremal value at each position; the mean over ties."""
    x, indices, updates = primals
    tx, _, tu = tangents
    out = prim.bind(x, indices, updates, dimension_numbers=dimension_numbers, **params)
    if type(tx) is Zero and type(tu) is Zero:
        return out, Zero.of(out)
    aval, promises = aval_of(x), _promises(params)
    won = convert_element_type(eq(x, out), aval.dtype)
    back = read_back(out, indices, aval_of(updates), dimension_numbers, **promises)
    won_updates = convert_element_type(eq(updates, back), aval.dtype)
    zeros = full_like(aval, 0, aval.dtype)
    count = scatter_add(won, indices, won_updates, dimension_numbers, **promises)
    total = zeros if type(tx) is Zero else mul(tx, won)
    if type(tu) is not Zero:
        total = scatter_add(total, indices, mul(tu, won_updates), dimension_numbers, **promises)
    return out, div(total, count)


ad.primitive_jvps[scatter_min_p] = functools.partial(_extremal_jvp, scatter_min_p)
ad.primitive_jvps[scatter_max_p] = functools.partial(_extremal_jvp, scatter_max_p)


def _scatter_jvp(primals, tangents, *, dimension_numbers, update_jaxpr, update_consts, **params):
    x, indices, updates = primals
    tx, _, tu = tangents
    same = dict(
        dimension_numbers=dimension_numbers,
        update_jaxpr=update_jaxpr,
        update_consts=update_consts,
        **params,
    )
    out = scatter_p.bind(x, indices, updates, **same)
    if update_jaxpr is not None:
        return out, _apply_tangent(
            out, x, indices, updates, tx, dimension_numbers, update_jaxpr, params
        )
    if type(tx) is Zero and type(tu) is Zero:
        return out, Zero.of(out)
    if params["unique_indices"] or type(tu) is Zero:
        return out, scatter_p.bind(instantiate_zeros(tx), indices, instantiate_zeros(tu), **same)
    won = _winners(x, indices, updates, dimension_numbers, params)
    promises = _promises(params)
    tu = select(won, tu, full_like(tu, 0))
    if type(tx) is Zero:
        kept = full_like(x, 0)
    else:
        kept = scatter(
            tx, indices, full_like(updates, 0, aval_of(tx).dtype), dimension_numbers, **promises
        )
    return out, scatter_add(kept, indices, tu, dimension_numbers, **promises)


def _winners(x, indices, updates, numbers, params):
    """Which updates a `scatter` with repeated positions kept: scatter their numbers the same way, and read back."""
    shape = aval_of(updates).shape
    batch = [d for i, d in enumerate(shape) if i not in numbers.update_window_dims]
    ids = add(iota(np.uint32, math.prod(batch)), np.uint32(1))
    ids = broadcast_in_dim(
        reshape(ids, batch),
        shape,
        [i for i in range(len(shape)) if i not in numbers.update_window_dims],
    )
    promises = _promises(params)
    kept = scatter(full_like(x, 0, np.uint32), indices, ids, numbers, **promises)
    return eq(ids, read_back(kept, indices, aval_of(updates), numbers, **promises))


def _apply_tangent(out, x, indices, updates, tx, numbers, update_jaxpr, params):
    if type(tx) is Zero:
        return Zero.of(out)
    if not params["unique_indices"]:
        raise NotImplementedError(
            "the derivative of scatter_apply needs positions that do not repeat: pass unique_indices=True if that is so, or "
            "write x.at[i].set(f(x[i]))"
        )
    aval = aval_of(x)
    hit = scatter(
        full_like(aval, False, np.dtype(bool)),
        indices,
        full_like(updates, True, np.dtype(bool)),
        numbers,
        **_promises(params),
    )
    unused = np.zeros((), aval.dtype)[()]
    _, (applied,) = ad.jvp(lambda v: _elementwise(update_jaxpr, v, unused), (x,), (tx,))
    return select(hit, instantiate_zeros(applied), tx)


def _elementwise(jaxpr, x, unused):
    """A scalar program applied to every element."""
    aval = aval_of(x)
    flat = reshape(x, (aval.size,))
    run, dims = batching.batch_flat(
        lambda a, b: eval_jaxpr(jaxpr, (), a, b), Axis(None, aval.size, "vmap"), (0, None)
    )
    (out,) = run(flat, unused)
    return [reshape(batching.move_batch_dim_to(out, dims.dims[0], aval.size, 0), aval.shape)]


def _scatter_transpose(
    ct, x, indices, updates, *, dimension_numbers, update_jaxpr, update_consts, **params
):
    aval = operand_aval(updates)
    promises = _promises(params)
    ct_x = ct_updates = None
    if is_undefined_primal(x):
        ct_x = scatter(
            ct,
            indices,
            full_like(ct, 0, shape=aval.shape, sharding=aval.explicit_sharding),
            dimension_numbers,
            **promises,
        )
    if is_undefined_primal(updates):
        if not params["unique_indices"]:
            raise NotImplementedError(
                "scatter is linear in its updates only where positions do not repeat: pass "
                "unique_indices=True if that is so, or use scatter_add"
            )
        ct_updates = read_back(ct, indices, aval, dimension_numbers, **promises)
    return [ct_x, None, ct_updates]


ad.primitive_jvps[scatter_p] = _scatter_jvp
ad.primitive_transposes[scatter_p] = _scatter_transpose


def _updates_per_example(xs, dims):
    """One updated block per example of a batch, as a scatter."""
    x, update, *starts = xs
    d, du, *ds = dims
    size = next(aval_of(v).shape[e] for v, e in zip(xs, dims) if e is not None)
    x, update = (
        batching.move_batch_dim_to(x, d, size, 0),
        batching.move_batch_dim_to(update, du, size, 0),
    )
    starts = [
        convert_element_type(batching.move_batch_dim_to(s, e, size, 0), np.int32)
        for s, e in zip(starts, ds)
    ]
    index = concatenate([reshape(s, (size, 1)) for s in starts], 1)
    n = aval_of(x).ndim - 1
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, n + 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple(range(1, n + 1)),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    return scatter(
        x,
        index,
        update,
        numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
    )


set_per_example(updates=_updates_per_example)


def _gather_transpose(
    ct,
    x,
    indices,
    *,
    dimension_numbers,
    slice_sizes,
    indices_are_sorted,
    unique_indices,
    mode,
    fill_value,
):
    n = dimension_numbers
    numbers = ScatterDimensionNumbers(
        n.offset_dims,
        n.collapsed_slice_dims,
        n.start_index_map,
        n.operand_batching_dims,
        n.start_indices_batching_dims,
    )
    # Not weak, also where the operand is: so the reference has it.
    zeros = zeros_like_aval(x.aval.to_ct_aval().strip_weak_type())
    return [
        scatter_add(
            zeros,
            indices,
            ct,
            numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
        ),
        None,
    ]


ad.primitive_transposes[gather_p] = _gather_transpose
