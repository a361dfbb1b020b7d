"""Elementwise products: `bcoo_multiply_dense` reads the dense operand where elements are stored, `bcoo_multiply_sparse` looks one up in the other."""

from __future__ import annotations

import math

import numpy as np

from xlab import numpy as jnp
from xlab.core.avals import aval_of
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import batch_positions, columns
from xlab.sparse.bcoo import BCOO
from xlab.sparse.dense import coordinates, over_dense
from xlab.sparse.order import bcoo_sum_duplicates, common_layout, in_bounds
from xlab.sparse.shape import bcoo_broadcast_in_dim
from xlab.transforms.vmap import vmap


def bcoo_multiply_dense(sp_mat: BCOO, v):
    """The stored elements of `sp_mat * v`, at the coordinates of `sp_mat`.

    Args:
        sp_mat: the sparse array.
        v: an array whose shape broadcasts to that of `sp_mat`.

    Returns:
        The data, `(*batch, nse, *dense)`.

    Raises:
        NotImplementedError: if the product has another shape than `sp_mat`.
    """
    return sp_mat.data * at_stored(sp_mat, as_array(v), 0, "multiplication")


def at_stored(mat: BCOO, v, fill, what: str):
    """The elements of an array that broadcasts to the shape of `mat`, where `mat` stores elements; `fill` at padding."""
    shape = np.broadcast_shapes(mat.shape, v.shape)
    if shape != mat.shape:
        raise NotImplementedError(
            f"{what} between sparse and dense is only implemented for cases where the output shape matches the sparse "
            f"matrix shape. Got shape={mat.shape}, v.shape={v.shape}"
        )
    if not v.ndim:
        return v
    v = v.reshape(*(1,) * (mat.ndim - v.ndim), *v.shape)
    if not mat.n_sparse:
        return v.reshape(*v.shape[: mat.n_batch], 1, *v.shape[mat.n_batch :])
    # A dimension of size 1 is read at its one position.
    at = (p if n > 1 else jnp.minimum(p, 0) for p, n in zip(coordinates(mat.indices), v.shape))
    return v.at[tuple(at)].get(mode="fill", fill_value=fill)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays of one shape, or of shapes that broadcast.

    Every stored element of the array with fewer of them is looked up in the other one, by binary search; so the result stores no more than
    the smaller of both.
    """
    shape = np.broadcast_shapes(lhs.shape, rhs.shape)
    lhs, rhs = (
        m
        if m.shape == shape
        else bcoo_broadcast_in_dim(
            m, shape=shape, broadcast_dimensions=tuple(range(len(shape) - m.ndim, len(shape)))
        )
        for m in (lhs, rhs)
    )
    lhs, rhs = common_layout(lhs, rhs)
    if lhs.nse > rhs.nse:
        lhs, rhs = rhs, lhs
    if not rhs.n_sparse or not lhs.nse:
        return lhs.like(lhs.data * rhs.data.sum(lhs.n_batch, keepdims=True))
    if not (rhs.indices_sorted and rhs.unique_indices):
        rhs = bcoo_sum_duplicates(rhs, nse=rhs.nse)
    sizes = lhs.shape[lhs.n_batch : lhs.ndim - lhs.n_dense]
    if math.prod(sizes) < np.iinfo(np.int32).max:
        found = _look_up
        for _ in range(lhs.n_batch):
            found = vmap(found)
        at = found(_positions(lhs, sizes), _positions(rhs, sizes))
        values = rhs.data.at[(*batch_positions(lhs.shape[: lhs.n_batch]), at)].get(
            mode="fill", fill_value=0
        )
    else:  # positions do not fit into 32 bits: every pair
        meet = in_bounds(lhs.indices, lhs.shape)[..., :, None]
        for a, b in zip(columns(lhs.indices), columns(rhs.indices)):
            meet = meet & (a[..., :, None] == b[..., None, :])
        values = jnp.where(over_dense(meet, rhs.data[..., None, :]), rhs.data[..., None, :], 0).sum(
            -1
        )
    return lhs.like(lhs.data * values)


def _positions(mat, sizes):
    """Coordinates as one number each, in lexicographic order; all padding is one number past the end."""
    flat = jnp.zeros(aval_of(mat.indices).shape[:-1], np.int32)
    for c, n in zip(columns(mat.indices), sizes):
        flat = flat * n + c.astype(np.int32)
    return jnp.where(in_bounds(mat.indices, mat.shape), flat, math.prod(sizes))


def _look_up(wanted, among):
    """Where each number stands in a sorted array; past its end where it does not."""
    n = aval_of(among).shape[0]
    at = jnp.searchsorted(among, wanted).astype(np.int32)
    return jnp.where(among[jnp.minimum(at, n - 1)] == wanted, at, n)


__all__ = ["bcoo_multiply_dense", "bcoo_multiply_sparse"]
