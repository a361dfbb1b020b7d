"""New sparse arrays: `empty`, `eye`, and `random_bcoo`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from xlab import numpy as jnp
from xlab import random
from xlab.sparse.base import JAXSparse
from xlab.sparse.bcoo import BCOO
from xlab.sparse.bcsr import BCSR
from xlab.sparse.matrices import COO, CSC, CSR
from xlab.transforms.vmap import vmap

FORMATS = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name):
    if name not in FORMATS:
        raise ValueError(f"sparse_format={name!r} not recognized; must be one of {list(FORMATS)}")
    return FORMATS[name]


def empty(
    shape: Sequence[int], dtype=None, index_dtype="int32", sparse_format: str = "bcoo", **kwds
) -> JAXSparse:
    """A sparse array without elements: all are zero.

    Args:
        shape: of the array.
        dtype: of the elements, the default float by default.
        index_dtype: of the coordinates.
        sparse_format: `bcoo`, `bcsr`, `coo`, `csr` or `csc`.
        kwds: of `bcoo` and `bcsr`: `n_batch`, `n_dense`, and `nse` for as much padding.

    Raises:
        ValueError: for another format.
    """
    kind, shape = _format(sparse_format), tuple(map(operator.index, shape))
    dtype = jnp.zeros((), dtype).dtype
    if kind not in (BCOO, BCSR):
        return kind._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)
    out = _empty_bcoo(shape, dtype, index_dtype, **kwds)
    return out if kind is BCOO else BCSR.from_bcoo(out)


def _empty_bcoo(shape, dtype, index_dtype, n_batch=0, n_dense=0, nse=0):
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense, nse) < 0:
        raise ValueError(
            f"Invalid inputs: shape={shape}, n_dense={n_dense}, n_batch={n_batch}, nse={nse}"
        )
    batch, sparse, dense = (
        shape[:n_batch],
        shape[n_batch : n_batch + n_sparse],
        shape[n_batch + n_sparse :],
    )
    indices = np.broadcast_to(np.asarray(sparse, index_dtype), (*batch, nse, n_sparse))
    return BCOO(
        (jnp.zeros((*batch, nse, *dense), dtype), jnp.asarray(indices)),
        shape=shape,
        indices_sorted=True,
        unique_indices=True,
    )


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype=None,
    index_dtype="int32",
    sparse_format: str = "bcoo",
    **kwds,
) -> JAXSparse:
    """A sparse matrix with ones on a diagonal.

    Args:
        N: its rows.
        M: its columns, as many by default.
        k: which diagonal: above the main one for positive numbers.
        dtype: of the elements, the default float by default.
        index_dtype: of the coordinates.
        sparse_format: `bcoo`, `bcsr`, `coo`, `csr` or `csc`.
        kwds: of `bcoo`: `n_batch` and `n_dense`.

    Raises:
        ValueError: for another format.

    Example:
        >>> eye(2, 3).todense().tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    kind = _format(sparse_format)
    N, M, k = operator.index(N), operator.index(N if M is None else M), operator.index(k)
    n_batch, n_dense = kwds.pop("n_batch", 0), kwds.pop("n_dense", 0)
    if kwds or min(n_batch, n_dense) < 0 or n_batch + n_dense > 2:
        raise ValueError(
            f"eye: n_batch={n_batch}, n_dense={n_dense} for a matrix, and unknown {sorted(kwds)}"
        )
    dtype = jnp.zeros((), dtype).dtype
    first, count = max(0, -k), max(0, min(N, M - k) - max(0, -k))
    rows = np.arange(first, first + count)
    cols = rows + k
    if n_batch == 0 and n_dense == 0:
        data, indices = np.ones(count), np.stack([rows, cols], -1)
    elif n_batch == 0 and n_dense == 1:  # a row of the matrix for each stored element
        data, indices = np.zeros((count, M)), rows[:, None]
        data[np.arange(count), cols] = 1
    elif n_batch == 0:
        data, indices = np.eye(N, M, k)[None], np.zeros((1, 0))
    elif n_batch == 1:
        data, indices = np.zeros((N, 1)), np.full((N, 1, 1), M)
        data[rows, 0], indices[rows, 0, 0] = 1, cols
        if n_dense == 1:
            data, indices = np.eye(N, M, k)[:, None], np.zeros((N, 1, 0))
    else:
        data, indices = np.eye(N, M, k)[:, :, None], np.zeros((N, M, 1, 0))
    out = BCOO(
        (jnp.asarray(data, dtype), jnp.asarray(indices.astype(index_dtype))),
        shape=(N, M),
        indices_sorted=True,
        unique_indices=True,
    )
    return out if kind is BCOO else kind.from_bcoo(out)


def random_bcoo(
    key,
    shape: Sequence[int],
    *,
    dtype=float,
    indices_dtype=None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable = random.uniform,
    **kwds,
) -> BCOO:
    """A sparse array of random elements at random coordinates.

    Args:
        key: a key, used up by the call.
        shape: of the array.
        dtype: of the elements.
        indices_dtype: of the coordinates, the default integer by default.
        nse: how many elements to store in each batch entry; a part of all where it is less than 1.
        n_batch: how many leading dimensions are batch dimensions.
        n_dense: how many trailing dimensions are dense.
        unique_indices: whether no element is stored twice.
        sorted_indices: whether coordinates are in order.
        generator: `generator(key, shape=, dtype=, **kwds)` draws the elements.
        kwds: passed to it.

    Raises:
        ValueError: for an `nse` that is negative or more than there are elements.
    """
    shape = tuple(map(operator.index, shape))
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0:
        raise ValueError(f"Invalid inputs: shape={shape}, n_dense={n_dense}, n_batch={n_batch}")
    batch, sparse, dense = (
        shape[:n_batch],
        shape[n_batch : n_batch + n_sparse],
        shape[n_batch + n_sparse :],
    )
    size = math.prod(sparse)
    count = math.ceil(nse * size) if 0 < nse < 1 else int(nse)
    if nse < 0 or (unique_indices and count > size):
        raise ValueError(f"got nse={nse}, expected to be between 0 and {size}")
    index_dtype = np.dtype(indices_dtype or jnp.zeros((), int).dtype)
    data_key, index_key = random.split(key)

    def coordinates(key):
        if not sparse:
            return jnp.zeros((count, 0), index_dtype)
        flat = random.choice(key, size, (count,), replace=not unique_indices)
        if sorted_indices:
            flat = jnp.sort(flat)
        return jnp.stack(jnp.unravel_index(flat, sparse), -1).astype(index_dtype)

    if batch:
        keys = random.split(index_key, math.prod(batch))
        indices = vmap(coordinates)(keys).reshape(*batch, count, n_sparse)
    else:
        indices = coordinates(index_key)
    data = generator(data_key, shape=(*batch, count, *dense), dtype=dtype, **kwds)
    return BCOO(
        (data, indices), shape=shape, indices_sorted=sorted_indices, unique_indices=unique_indices
    )


__all__ = ["empty", "eye", "random_bcoo"]
