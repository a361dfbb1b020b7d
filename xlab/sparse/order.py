"""The same array stored in another way: sorted, without duplicates, transposed, with other batch and dense dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.avals import aval_of
from xlab.core.source_info import warn
from xlab.core.trace import Tracer
from xlab.sparse.base import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    SparseInfo,
    batch_positions,
    columns,
    take_stored,
)
from xlab.sparse.bcoo import BCOO
from xlab.sparse.dense import begins, check_layout, over_dense, sorted_columns
from xlab.sparse.primitive import batched_info, sparse_primitive

# -- sort_indices ------------------------------------------------------------------------------------------


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with its stored elements in lexicographic order of their coordinates."""
    data, indices = bcoo_sort_indices_p.bind(mat.data, mat.indices, spinfo=mat.info)
    return mat.like(data, indices, indices_sorted=True)


def _sizes(indices, info):
    n_batch, n_sparse = aval_of(indices).ndim - 2, aval_of(indices).shape[-1]
    return info.shape[n_batch : n_batch + n_sparse]


def _sort_indices(data, indices, *, spinfo):
    cols, order = sorted_columns(indices, _sizes(indices, spinfo))
    return take_stored(data, order), jnp.stack(cols, -1) if cols else indices


bcoo_sort_indices_p = sparse_primitive(
    "bcoo_sort_indices", _sort_indices, results=True, linear=(0,), batch=batched_info("spinfo")
)


# -- sum_duplicates ----------------------------------------------------------------------------------------


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with each element stored once, sorted, and padding at the end.

    Args:
        mat: the array.
        nse: how many elements to store in each batch entry. By default as many as there are; inside `jit` and `vmap` it has to be given.

    Raises:
        ValueError: if `nse` is not given and `mat` is traced.
    """
    if nse is None:
        if isinstance(mat.indices, Tracer):
            raise ValueError(
                "bcoo_sum_duplicates: nse must be specified when using the function within jit, vmap, and other "
                "transformations requiring abstract evaluation: how many different elements there are depends on values."
            )
        nse = int(_count_different(mat.indices, mat.info))
    data, indices = bcoo_sum_duplicates_p.bind(mat.data, mat.indices, spinfo=mat.info, nse=int(nse))
    return mat.like(data, indices, indices_sorted=True, unique_indices=True)


def in_bounds(indices, shape):
    """Which stored elements are inside of an array of that shape, and not padding."""
    n_batch = aval_of(indices).ndim - 2
    inside = jnp.ones(aval_of(indices).shape[:-1], bool)
    for c, n in zip(columns(indices), shape[n_batch:]):
        inside = inside & (c < n)
    return inside


def padding(shape, dtype):
    """The coordinates of an element that is not there: all out of bounds."""
    return np.asarray(shape, dtype)


def _grouped(indices, info):
    """Sorted coordinates, their order, which of them are the first of a group, and whether they are inside."""
    sizes = _sizes(indices, info)
    out = padding(sizes, indices.dtype)
    cols, order = sorted_columns(
        jnp.where(in_bounds(indices, info.shape)[..., None], indices, out), sizes
    )
    indices = jnp.stack(cols, -1) if cols else indices
    inside = in_bounds(indices, info.shape)
    return indices, order, begins(cols, order) & inside, inside


def _count_different(indices, info):
    first = _grouped(indices, info)[2]
    return first.sum(-1).max() if first.size else 0


def _sum_duplicates(data, indices, *, spinfo, nse):
    *batch, _, n_sparse = aval_of(indices).shape
    batch = tuple(batch)
    indices, order, first, inside = _grouped(indices, spinfo)
    group = jnp.cumsum(first, -1, dtype=np.int32) - 1
    here = batch_positions(batch)
    dense = aval_of(data).shape[len(batch) + 1 :]
    target = jnp.zeros((*batch, nse, *dense), data.dtype).at[(*here, jnp.where(inside, group, nse))]
    summed = (target.max if data.dtype == bool else target.add)(
        take_stored(data, order), mode="drop"
    )
    out = jnp.broadcast_to(
        padding(spinfo.shape[len(batch) : len(batch) + n_sparse], indices.dtype),
        (*batch, nse, n_sparse),
    )
    out = out.at[(*here, jnp.where(first, group, nse))].set(indices, mode="drop")
    return summed, out


bcoo_sum_duplicates_p = sparse_primitive(
    "bcoo_sum_duplicates", _sum_duplicates, results=True, linear=(0,), batch=batched_info("spinfo")
)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array without stored zeros: those that remain are sorted and stored once. `nse` as for `bcoo_sum_duplicates`.

    Example:
        >>> from xlab.experimental import sparse
        >>> bcoo_eliminate_zeros(sparse.BCOO.fromdense(jnp.array([0., 1., 0., 2.]), nse=4)).nse
        2
    """
    return bcoo_sum_duplicates(without_zeros(mat), nse=nse)


def without_zeros(mat: BCOO) -> BCOO:
    """The array with stored zeros made padding."""
    dense = tuple(range(mat.n_batch + 1, mat.data.ndim))
    kept = (mat.data != 0).any(dense) if dense else mat.data != 0
    out = padding(mat.shape[mat.n_batch : mat.ndim - mat.n_dense], mat.indices.dtype)
    return mat.like(
        mat.data,
        jnp.where(kept[..., None], mat.indices, out),
        indices_sorted=False,
        unique_indices=False,
    )


# -- transpose ---------------------------------------------------------------------------------------------


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions in another order.

    Args:
        mat: the array.
        permutation: for each dimension of the result, that of `mat`; batch dimensions stay in front, dense ones at the end.

    Raises:
        NotImplementedError: if a dimension would become one of another kind; `update_layout` changes kinds.
        TypeError: if `permutation` is none.
    """
    permutation = tuple(int(d) for d in permutation)
    if sorted(permutation) != list(range(mat.ndim)):
        raise TypeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {permutation} for shape {mat.shape}."
        )
    for kind, first, last in (
        ("batch", 0, mat.n_batch),
        ("dense", mat.ndim - mat.n_dense, mat.ndim),
    ):
        if sorted(permutation[first:last]) != list(range(first, last)):
            raise NotImplementedError(
                f"transpose permutation cannot permute {kind} axes with non-{kind} axes; got permutation {permutation}, with "
                f"n_{kind}={last - first}. Bring the array to another layout first, as with mat.update_layout(n_{kind}=0)."
            )
    if permutation == tuple(range(mat.ndim)):
        return mat
    data, indices = bcoo_transpose_p.bind(
        mat.data, mat.indices, permutation=permutation, spinfo=mat.info
    )
    b = mat.n_batch
    moved = permutation[b : b + mat.n_sparse] != tuple(range(b, b + mat.n_sparse))
    return mat.like(
        data,
        indices,
        shape=[mat.shape[d] for d in permutation],
        indices_sorted=mat.indices_sorted and not moved,
    )


def _transpose(data, indices, *, permutation, spinfo):
    n_batch, n_sparse = aval_of(indices).ndim - 2, aval_of(indices).shape[-1]
    batch, sparse, dense = np.split(np.asarray(permutation, int), [n_batch, n_batch + n_sparse])
    indices = lax.transpose(indices, (*batch.tolist(), n_batch, n_batch + 1))
    indices = indices[..., tuple((sparse - n_batch).tolist())] if n_sparse else indices
    return lax.transpose(
        data, (*batch.tolist(), n_batch, *(dense - n_sparse + 1).tolist())
    ), indices


def _transpose_batch(params, size):
    moved = (0, *(d + 1 for d in params["permutation"]))
    return batched_info("spinfo")(params, size) | {"permutation": moved}


bcoo_transpose_p = sparse_primitive(
    "bcoo_transpose", _transpose, results=True, linear=(0,), batch=_transpose_batch
)


# -- update_layout -----------------------------------------------------------------------------------------


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The same array with other numbers of batch and dense dimensions.

    Args:
        mat: the array.
        n_batch: how many batch dimensions the result has; by default as many as `mat`.
        n_dense: how many dense dimensions it has; by default as many as `mat`.
        on_inefficient: what to do where sparse dimensions become batch or dense ones, which stores zeros: `"error"`, `"warn"` or None.

    Raises:
        SparseEfficiencyError: where it would, unless `on_inefficient` says otherwise.
        ValueError: for numbers that do not go together with the dimensions.
    """
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    if n_batch < 0 or n_dense < 0:
        raise ValueError(f"n_batch={n_batch} and n_dense={n_dense} must not be negative")
    if n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"sum of n_batch={n_batch} and n_dense={n_dense} cannot be larger than mat.ndim={mat.ndim}."
        )
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"on_inefficient is 'error', 'warn' or None, got {on_inefficient!r}")
    check_layout("bcoo_update_layout", mat.shape, n_batch, n_dense)
    for kind, old, new in (("n_batch", mat.n_batch, n_batch), ("n_dense", mat.n_dense, n_dense)):
        if new > old and on_inefficient:
            text = (
                f"For matrix of shape {mat.shape}, increasing {kind} from {old} to {new} results in inefficient storage. To disable "
                f"this {'error' if on_inefficient == 'error' else 'warning'}, set the on_inefficient argument of "
                f"bcoo_update_layout to None."
            )
            if on_inefficient == "error":
                raise SparseEfficiencyError(text)
            warn(text, SparseEfficiencyWarning)
    # First what becomes sparse, then what becomes batch or dense.
    while mat.n_batch > n_batch:
        mat = _batch_to_sparse(mat)
    while mat.n_dense > n_dense:
        mat = _dense_to_sparse(mat)
    while mat.n_batch < n_batch:
        mat = _sparse_to_batch(mat)
    while mat.n_dense < n_dense:
        mat = _sparse_to_dense(mat)
    return mat


def _batch_to_sparse(mat):
    b = mat.n_batch - 1
    *lead, size = mat.shape[: b + 1]
    nse = mat.nse
    here = lax.broadcasted_iota(mat.indices.dtype, (*lead, size, nse, 1), b)
    outside = ~in_bounds(mat.indices, mat.shape)[..., None]
    here = jnp.where(outside, size, here)  # padding stays padding
    indices = jnp.concatenate([here, mat.indices], -1)
    return BCOO(
        (
            mat.data.reshape(*lead, size * nse, *mat.data.shape[b + 2 :]),
            indices.reshape(*lead, size * nse, mat.n_sparse + 1),
        ),
        shape=mat.shape,
        unique_indices=mat.unique_indices,
    )


def _dense_to_sparse(mat):
    b, size = mat.n_batch, mat.data.shape[mat.n_batch + 1]
    batch, dense = mat.shape[:b], mat.data.shape[b + 2 :]
    here = lax.broadcasted_iota(mat.indices.dtype, (*batch, mat.nse, size, 1), b + 1)
    there = jnp.broadcast_to(mat.indices[..., None, :], (*batch, mat.nse, size, mat.n_sparse))
    here = jnp.where(in_bounds(mat.indices, mat.shape)[..., None, None], here, size)
    return BCOO(
        (
            mat.data.reshape(*batch, mat.nse * size, *dense),
            jnp.concatenate([there, here], -1).reshape(*batch, mat.nse * size, mat.n_sparse + 1),
        ),
        shape=mat.shape,
        unique_indices=mat.unique_indices,
    )


def _sparse_to_batch(mat):
    b = mat.n_batch
    size, batch = mat.shape[b], mat.shape[:b]
    mine = mat.indices[..., None, :, 0] == lax.broadcasted_iota(
        mat.indices.dtype, (*batch, size, 1), b
    )
    rest = padding(mat.shape[b + 1 : mat.ndim - mat.n_dense], mat.indices.dtype)
    data = jnp.expand_dims(mat.data, b)
    return BCOO(
        (
            jnp.where(over_dense(mine, data), data, jnp.zeros((), mat.dtype)),
            jnp.where(mine[..., None], mat.indices[..., None, :, 1:], rest),
        ),
        shape=mat.shape,
        unique_indices=mat.unique_indices and mat.n_sparse > 1,
    )


def _sparse_to_dense(mat):
    b, size = mat.n_batch, mat.shape[mat.ndim - mat.n_dense - 1]
    here = lax.broadcasted_iota(mat.indices.dtype, (*(1,) * (b + 1), size), b + 1)
    mine = mat.indices[..., -1:] == here
    data = jnp.expand_dims(mat.data, b + 1)
    return BCOO(
        (jnp.where(over_dense(mine, data), data, jnp.zeros((), mat.dtype)), mat.indices[..., :-1]),
        shape=mat.shape,
    )


def common_layout(*mats: BCOO) -> list[BCOO]:
    """Arrays with as many batch and dense dimensions as all of them have."""
    n_batch, n_dense = min(m.n_batch for m in mats), min(m.n_dense for m in mats)
    return [bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in mats]


def sparse_size(mat: BCOO) -> int:
    """How many elements the sparse dimensions have."""
    return math.prod(mat.shape[mat.n_batch : mat.ndim - mat.n_dense])


__all__ = ["SparseInfo", "bcoo_sort_indices", "bcoo_sort_indices_p", "bcoo_sum_duplicates", "bcoo_sum_duplicates_p", "bcoo_transpose",
           "bcoo_transpose_p", "bcoo_update_layout"]  # fmt: skip
