"""Between sparse and dense: `bcoo_todense`, `bcoo_fromdense`, and `bcoo_extract`, which reads a dense array at sparse coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import concrete_or_error
from xlab.interpreters import ad
from xlab.interpreters.ad import UndefinedPrimal, Zero
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import JAXSparse, SparseInfo, batch_positions, columns, take_stored
from xlab.sparse.bcoo import BCOO
from xlab.sparse.primitive import batched_info, sparse_primitive


def coordinates(indices) -> tuple:
    """Positions along all batch and sparse dimensions, to index an array with."""
    return (*batch_positions(aval_of(indices).shape[:-2]), *columns(indices))


# -- todense -----------------------------------------------------------------------------------------------


def bcoo_todense(mat: BCOO):
    """The array with all its elements; elements stored twice are added, padding is left out."""
    return bcoo_todense_p.bind(mat.data, mat.indices, spinfo=mat.info)


def _todense(data, indices, *, spinfo):
    n_batch, n_sparse = aval_of(indices).ndim - 2, aval_of(indices).shape[-1]
    if not n_sparse:
        return data.any(n_batch) if data.dtype == bool else data.sum(n_batch, dtype=data.dtype)
    target = jnp.zeros(spinfo.shape, data.dtype).at[coordinates(indices)]
    return (target.max if data.dtype == bool else target.add)(data, mode="drop")


def _todense_transpose(ct, data, indices, *, spinfo):
    if type(ct) is Zero or type(data) is not UndefinedPrimal:
        return [Zero(data.aval.to_ct_aval()) if type(data) is UndefinedPrimal else None, None]
    return [bcoo_extract_p.bind(indices, ct, assume_unique=True), None]


bcoo_todense_p = sparse_primitive(
    "bcoo_todense",
    _todense,
    linear=(0,),
    batch=batched_info("spinfo"),
    transpose=_todense_transpose,
)


# -- extract -----------------------------------------------------------------------------------------------


def bcoo_extract(sparr: BCOO, arr, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the coordinates of a sparse one.

    Args:
        sparr: the array whose coordinates are used.
        arr: an array of the same shape.
        assume_unique: whether every stored element gets the value; otherwise only the first of those with the same
            coordinates does, and the others zero. By default what `sparr` says of itself.

    Raises:
        TypeError: if `sparr` is not a BCOO.
        ValueError: if the shapes differ.
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(f"bcoo_extract takes a BCOO first, got {type(sparr).__name__}")
    arr = as_array(arr)
    if aval_of(arr).shape != sparr.shape:
        raise ValueError(
            f"bcoo_extract: the shape of the dense array, {aval_of(arr).shape}, is not that of the sparse one, {sparr.shape}"
        )
    if assume_unique is None:
        assume_unique = sparr.unique_indices
    data = bcoo_extract_p.bind(sparr.indices, arr, assume_unique=bool(assume_unique))
    return sparr.like(data)


def _extract(indices, mat, *, assume_unique):
    *batch, nse, n_sparse = aval_of(indices).shape
    if n_sparse:
        out = mat.at[coordinates(indices)].get(mode="fill", fill_value=0)
    else:
        dense = aval_of(mat).shape[len(batch) :]
        out = jnp.broadcast_to(jnp.expand_dims(mat, len(batch)), (*batch, nse, *dense))
    if assume_unique:
        return out
    return jnp.where(
        over_dense(first_stored(indices, _sizes(indices, mat)), out), out, jnp.zeros((), out.dtype)
    )


def _sizes(indices, mat):
    """The sizes of the sparse dimensions of an array that is read at coordinates."""
    *batch, _, n_sparse = aval_of(indices).shape
    shape = mat.aval.shape if isinstance(mat, UndefinedPrimal) else aval_of(mat).shape
    return shape[len(batch) : len(batch) + n_sparse]


def over_dense(mask, data):
    """A mask of stored elements as one that broadcasts over dense dimensions."""
    return mask.reshape(*aval_of(mask).shape, *(1,) * (aval_of(data).ndim - aval_of(mask).ndim))


def sorted_columns(indices, sizes=None):
    """The coordinates in lexicographic order, with the order they stand in: `(columns, order)`.

    With the `sizes` of the dimensions, coordinates are compared as one number each where it fits into 32 bits; past the end of a
    dimension all are one.
    """
    shape = aval_of(indices).shape[:-1]
    here = lax.broadcasted_iota(np.int32, shape, len(shape) - 1)
    cols = columns(indices)
    if not cols:
        return (), here
    if sizes is not None and math.prod(n + 1 for n in sizes) < np.iinfo(np.int32).max:
        flat = jnp.zeros(shape, np.int32)
        for c, n in zip(cols, sizes):
            flat = flat * np.int32(n + 1) + jnp.minimum(c, n).astype(np.int32)
        _, order = lax.sort((flat, here), dimension=-1, num_keys=1)
        return columns(take_stored(indices, order)), order
    *cols, order = lax.sort((*cols, here), dimension=-1, num_keys=len(cols))
    return tuple(cols), order


def begins(cols, like):
    """Which of sorted coordinates differ from those before them."""
    first = lax.broadcasted_iota(np.int32, aval_of(like).shape, aval_of(like).ndim - 1) == 0
    for c in cols:
        first = first | (c != jnp.roll(c, 1, -1))
    return first


def first_stored(indices, sizes):
    """Which stored elements are the first with their coordinates."""
    cols, order = sorted_columns(indices, sizes)
    out = jnp.zeros(aval_of(order).shape, bool)
    return out.at[(*batch_positions(aval_of(order).shape[:-1]), order)].set(begins(cols, order))


def _extract_transpose(ct, indices, mat, *, assume_unique):
    if type(mat) is not UndefinedPrimal or type(ct) is Zero:
        return [None, Zero(mat.aval.to_ct_aval()) if type(mat) is UndefinedPrimal else None]
    if not assume_unique:
        ct = jnp.where(
            over_dense(first_stored(indices, _sizes(indices, mat)), ct), ct, jnp.zeros((), ct.dtype)
        )
    info = SparseInfo(tuple(mat.aval.shape), unique_indices=assume_unique)
    return [None, bcoo_todense_p.bind(ct, indices, spinfo=info)]


bcoo_extract_p = sparse_primitive(
    "bcoo_extract",
    _extract,
    linear=(1,),
    batch=lambda params, size: params,
    transpose=_extract_transpose,
)


# -- fromdense ---------------------------------------------------------------------------------------------


def bcoo_fromdense(
    mat, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype=jnp.int32
) -> BCOO:
    """The sparse array with the nonzero elements of a dense one.

    Args:
        mat: the array.
        nse: the number of elements to store, in each batch entry: more are padding, fewer leave out the last ones. By default as many as
            there are; inside `jit` and `vmap` it has to be given.
        n_batch: how many leading dimensions are batch dimensions.
        n_dense: how many trailing dimensions are dense: their elements are stored if one of them is not zero.
        index_dtype: dtype of the coordinates.

    Raises:
        ConcretizationTypeError: if `nse` is not given and `mat` is traced.
        ValueError: if `n_batch` and `n_dense` are more than there are dimensions.

    Example:
        >>> import xlab.numpy as jnp
        >>> bcoo_fromdense(jnp.eye(3), nse=4)
        BCOO(float32[3, 3], nse=4)
    """
    mat = as_array(mat)
    check_layout("bcoo_fromdense", mat.shape, n_batch, n_dense)
    nse = number_to_store("bcoo_fromdense", mat, nse, n_batch, n_dense)
    data, indices = bcoo_fromdense_p.bind(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def number_to_store(name: str, mat, nse: int | None, n_batch: int = 0, n_dense: int = 0) -> int:
    """`nse`, or as many as there are; an error names the function `name`."""
    if nse is None:
        nse = concrete_or_error(
            count_stored(mat, n_batch, n_dense),
            f"{name} needs the number of stored elements while tracing, and it depends on values: give nse",
        )
    return int(nse)


def check_layout(name: str, shape, n_batch: int, n_dense: int) -> None:
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > len(shape):
        raise ValueError(
            f"{name}: n_batch={n_batch} and n_dense={n_dense} must not be negative, and together no more than the "
            f"{len(shape)} dimensions of shape {tuple(shape)}"
        )


def count_stored(mat, n_batch: int, n_dense: int):
    """How many elements have to be stored in a batch entry, at most, as an array."""
    mask = _nonzero(mat, n_batch, n_dense)
    if not mask.size:
        return np.int32(0)
    return mask.reshape(*mask.shape[:n_batch], -1).sum(-1).max()


def _nonzero(mat, n_batch, n_dense):
    mask = mat != 0
    return mask.any(tuple(range(mat.ndim - n_dense, mat.ndim))) if n_dense else mask


def _fromdense(mat, nse, n_batch, n_dense, index_dtype):
    shape = aval_of(mat).shape
    batch, sparse = shape[:n_batch], shape[n_batch : len(shape) - n_dense]
    size = math.prod(sparse)
    mask = _nonzero(mat, n_batch, n_dense)
    # Each element that is stored knows its slot: how many are stored before it, in its row and in the rows before.
    rows = (
        mask.reshape(*batch, -1, sparse[-1] if sparse else 1)
        if size
        else mask.reshape(*batch, 1, size)
    )
    counts = jnp.cumsum(rows, -1, dtype=np.int32)
    totals = counts[..., -1] if size else jnp.zeros((*batch, 1), np.int32)
    before = jnp.cumsum(totals, -1, dtype=np.int32) - totals
    mask = mask.reshape(*batch, size)
    slot = jnp.where(mask, (before[..., None] + counts).reshape(*batch, size) - 1, nse)
    here = lax.broadcasted_iota(np.int32, mask.shape, n_batch)
    flat = jnp.full((*batch, nse), size, np.int32)
    flat = flat.at[(*batch_positions(batch), slot)].set(here, mode="drop")
    cols, stride = [], size
    for n in sparse:
        stride = stride // n if n else 1
        cols.append(jnp.where(flat < size, flat // max(stride, 1) % max(n, 1), n))
    indices = (
        jnp.stack(cols, -1).astype(index_dtype)
        if cols
        else jnp.zeros((*batch, nse, 0), index_dtype)
    )
    return _extract(indices, mat, assume_unique=True), indices


def fromdense_primitive(name: str, split: Callable, coordinates: Callable) -> Primitive:
    """The primitive that finds the elements of a dense array, and where they are.

    Args:
        name: its name.
        split: its results, from the elements, their coordinates, and the number of rows.
        coordinates: the coordinates from the results after the first.
    """

    def impl(mat, *, nse, index_dtype, n_batch=0, n_dense=0):
        data, indices = _fromdense(mat, nse, n_batch, n_dense, np.dtype(index_dtype))
        return split(data, indices, aval_of(mat).shape[n_batch : n_batch + 1])

    def jvp(primals, tangents, **params):
        data, *where = prim.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            t = Zero.of(data)
        else:
            t = bcoo_extract_p.bind(coordinates(*where), tangents[0], assume_unique=True)
        return [data, *where], [t, *map(Zero.of, where)]

    prim = sparse_primitive(
        name,
        impl,
        results=True,
        linear=(),
        batch=lambda params, size: params | {"n_batch": params.get("n_batch", 0) + 1},
    )
    ad.primitive_jvps[prim] = jvp
    return prim


bcoo_fromdense_p = fromdense_primitive(
    "bcoo_fromdense", lambda data, indices, rows: [data, indices], lambda indices: indices
)


# -- any kind ----------------------------------------------------------------------------------------------


def todense(arr):
    """A sparse array with all its elements; an array as it is.

    Inside `sparsify` this is where values become dense.
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return todense_p.bind(as_array(arr))


todense_p = sparse_primitive("todense", lambda x: x, linear=(0,), batch=lambda params, size: params)

__all__ = ["bcoo_extract", "bcoo_extract_p", "bcoo_fromdense", "bcoo_fromdense_p", "bcoo_todense", "bcoo_todense_p", "todense",
           "todense_p"]  # fmt: skip
