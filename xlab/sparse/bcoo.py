"""`BCOO`, a sparse array of batched coordinates: its buffers, and the questions about their layout.

The dimensions of an array are `n_batch` batch dimensions, then `n_sparse` sparse ones, then `n_dense` dense ones. `data` has shape
`(*batch, nse, *dense)` and `indices` `(*batch, nse, n_sparse)`: the coordinates of the stored elements. Elements that are stored twice are
added; those with coordinates out of bounds are padding. Functions and methods stand in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.interpreters.vmappable import batched_in_front
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import BatchedSparse


class DimensionCounts(NamedTuple):
    """How many dimensions of an array are of which kind, and how many elements are stored."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def layout_of(data: Any, indices: Any, shape: Sequence[int]) -> DimensionCounts:
    """The layout of buffers; raises ValueError where they do not go together with the shape."""
    data, indices = tuple(aval_of(data).shape), tuple(aval_of(indices).shape)
    if len(indices) < 2:
        raise ValueError(
            f"indices of a BCOO have shape (*batch, nse, n_sparse), got an array of shape {indices}"
        )
    n_batch, n_sparse, nse = len(indices) - 2, indices[-1], indices[-2]
    n_dense = len(data) - n_batch - 1
    if n_dense < 0 or n_batch + n_sparse + n_dense != len(shape):
        raise ValueError(
            f"Invalid data.shape={data} and indices.shape={indices} for shape={tuple(shape)}: "
            f"data has shape (*batch, nse, *dense), indices (*batch, nse, n_sparse)"
        )
    batch, dense = tuple(shape[:n_batch]), tuple(shape[n_batch + n_sparse :])
    fits = all(d in (1, s) for part in (data, indices) for d, s in zip(part[:n_batch], batch))
    if not fits or data[n_batch] not in (1, nse) or data[n_batch + 1 :] != dense:
        raise ValueError(
            f"Invalid data.shape={data} for nse={nse}, n_batch={n_batch}, n_dense={n_dense}: "
            f"with shape={tuple(shape)} it is expected to be {(*batch, nse, *dense)}"
        )
    return DimensionCounts(n_batch, n_sparse, n_dense, nse)


@_tree.register_pytree_with_keys_class
class BCOO(BatchedSparse):
    """A sparse array, batched, as coordinates.

    Args:
        args: `(data, indices)`.
        shape: of the array.
        indices_sorted: whether the coordinates are in lexicographic order.
        unique_indices: whether no element is stored twice.

    Raises:
        ValueError: if the shapes of the buffers do not go together with `shape`.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import sparse
        >>> A = sparse.BCOO.fromdense(jnp.array([[0., 1.], [2., 0.]]))
        >>> A, (A @ jnp.ones(2)).tolist()
        (BCOO(float32[2, 2], nse=2), [1.0, 2.0])
    """

    __slots__ = ("_rest", "data", "indices", "indices_sorted", "unique_indices")
    _buffer_names = ("data", "indices")
    _rank_of_one = 2

    def __init__(
        self,
        args: tuple,
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        data, indices = map(as_array, args)
        shape = tuple(map(int, shape))
        n_batch = layout_of(data, indices, shape).n_batch
        # Buffers may have one entry for all of a batch; those of this class have all of them, so that the shape follows from them.
        self.data, self.indices = _whole(data, shape[:n_batch]), _whole(indices, shape[:n_batch])
        self._rest = shape[n_batch:]
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions."""
        return aval_of(self.indices).shape[-1]

    def like(self, data, indices=None, *, shape=None, indices_sorted=None, unique_indices=None):
        """An array with other buffers; what is not given stays."""
        return BCOO(
            (data, self.indices if indices is None else indices),
            shape=self.shape if shape is None else shape,
            indices_sorted=self.indices_sorted if indices_sorted is None else indices_sorted,
            unique_indices=self.unique_indices if unique_indices is None else unique_indices,
        )


def _whole(x, batch):
    shape = aval_of(x).shape
    if tuple(shape[: len(batch)]) == batch:
        return x
    from xlab import numpy as jnp

    return jnp.broadcast_to(x, (*batch, *shape[len(batch) :]))


batched_in_front.add(BCOO)
