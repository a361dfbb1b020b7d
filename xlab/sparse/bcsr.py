"""`BCSR`, a sparse array of batched compressed rows: `data` and column `indices` of the stored elements, and where each row begins.

The layout is that of `BCOO` with two sparse dimensions, the first of which is compressed: row `i` has the stored elements from `indptr[i]` up to
`indptr[i + 1]`; those after the last row are padding. Products and shapes are those of the coordinates, which are counted out from the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.interpreters.vmappable import batched_in_front
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import BatchedSparse, JAXSparse, batch_positions
from xlab.sparse.bcoo import BCOO
from xlab.sparse.dense import (
    _extract,
    _todense,
    check_layout,
    fromdense_primitive,
    number_to_store,
)
from xlab.sparse.order import bcoo_eliminate_zeros, bcoo_sort_indices, bcoo_sum_duplicates
from xlab.sparse.primitive import batched_info, sparse_primitive
from xlab.sparse.products import _dot, check_dimensions, normalized
from xlab.sparse.shape import bcoo_broadcast_in_dim, bcoo_concatenate


@_tree.register_pytree_with_keys_class
class BCSR(BatchedSparse):
    """A sparse array, batched, as compressed rows.

    Args:
        args: `(data, indices, indptr)`.
        shape: of the array.
        indices_sorted: whether the columns of each row are in order.
        unique_indices: whether no element is stored twice.

    Raises:
        ValueError: if the shapes of the buffers do not go together with `shape`.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import sparse
        >>> A = sparse.BCSR.fromdense(jnp.array([[0., 1.], [2., 0.]]))
        >>> A.indptr.tolist(), (A @ jnp.ones(2)).tolist()
        ([0, 1, 2], [1.0, 2.0])
    """

    __slots__ = ("_rest", "data", "indices", "indices_sorted", "indptr", "unique_indices")
    _buffer_names = ("data", "indices", "indptr")
    _rank_of_one = 1

    def __init__(
        self,
        args: tuple,
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices, self.indptr = map(as_array, args)
        shape = tuple(map(int, shape))
        data, indices, indptr = (
            tuple(aval_of(x).shape) for x in (self.data, self.indices, self.indptr)
        )
        n = len(indices) - 1
        fits = (
            len(indices) >= 1
            and len(shape) == len(data) + 1
            and indices[:-1] == shape[:n] == data[:n] == indptr[:-1]
            and indptr[-1:] == (shape[n] + 1,)
            and data[n] == indices[-1]
            and data[n + 1 :] == shape[n + 2 :]
        )
        if not fits:
            raise ValueError(
                f"BCSR of shape={shape}: data.shape={data}, indices.shape={indices}, indptr.shape={indptr} do not go together: "
                f"they are (*batch, nse, *dense), (*batch, nse) and (*batch, rows + 1)"
            )
        self._rest = shape[n:]
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)

    n_sparse = 2

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32, n_dense=0, n_batch=0):
        """See `bcsr_fromdense`."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    def todense(self):
        """The array with all its elements."""
        return bcsr_todense(self)

    def sum_duplicates(self, nse=None, remove_zeros=True):
        """The array with each element stored once."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))

    def to_bcoo(self) -> BCOO:
        """The same array as coordinates."""
        return BCOO(
            (self.data, coordinates_of(self.indices, self.indptr)),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array as compressed rows.

        Raises:
            NotImplementedError: unless `arr` has two sparse dimensions.
        """
        if arr.n_sparse != 2:
            raise NotImplementedError(
                f"BCSR.from_bcoo requires n_sparse=2; got n_sparse={arr.n_sparse}"
            )
        if not arr.indices_sorted:
            arr = bcoo_sort_indices(arr)
        rows = arr.shape[arr.n_batch]
        return cls(
            (arr.data, arr.indices[..., 1], row_starts(arr.indices[..., 0], rows)),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

    @classmethod
    def from_scipy_sparse(cls, mat, *, index_dtype=None, n_dense=0, n_batch=0):
        """A matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse with nonzero n_dense/n_batch")
        mat = mat.tocsr()
        return cls(
            tuple(
                jnp.asarray(x)
                for x in (
                    mat.data,
                    mat.indices.astype(index_dtype or np.int32),
                    mat.indptr.astype(index_dtype or np.int32),
                )
            ),
            shape=mat.shape,
        )


def coordinates_of(indices, indptr):
    """Coordinates `(row, column)` of the stored elements; those after the last row are out of bounds."""
    *batch, nse = aval_of(indices).shape
    # How many rows end at or before each element.
    ends = jnp.zeros((*batch, nse), indices.dtype)
    ends = ends.at[(*batch_positions(tuple(batch)), indptr[..., 1:])].add(1, mode="drop")
    rows = jnp.cumsum(ends, -1, dtype=indices.dtype)
    return jnp.stack([rows, indices], -1)


def row_starts(rows, size: int):
    """Where each of `size` rows begins among sorted row numbers."""
    batch = tuple(aval_of(rows).shape[:-1])
    counts = jnp.zeros((*batch, size), rows.dtype)
    counts = counts.at[(*batch_positions(batch), rows)].add(1, mode="drop")
    ends = jnp.cumsum(counts, -1, dtype=rows.dtype)
    return jnp.concatenate([jnp.zeros((*batch, 1), rows.dtype), ends], -1)


batched_in_front.add(BCSR)


# -- functions ---------------------------------------------------------------------------------------------


def bcsr_todense(mat: BCSR):
    """The array with all its elements."""
    return bcsr_todense_p.bind(mat.data, mat.indices, mat.indptr, spinfo=mat.info)


bcsr_todense_p = sparse_primitive(
    "bcsr_todense",
    lambda data, indices, indptr, *, spinfo: _todense(
        data, coordinates_of(indices, indptr), spinfo=spinfo
    ),
    linear=(0,),
    batch=batched_info("spinfo"),
)


def bcsr_extract(indices, indptr, mat):
    """The elements of a dense array where a BCSR with these `indices` and `indptr` stores them."""
    return bcsr_extract_p.bind(as_array(indices), as_array(indptr), as_array(mat))


bcsr_extract_p = sparse_primitive(
    "bcsr_extract",
    lambda indices, indptr, mat: _extract(coordinates_of(indices, indptr), mat, assume_unique=True),
    linear=(2,),
    batch=lambda params, size: params,
)


def bcsr_fromdense(mat, *, nse=None, n_batch=0, n_dense=0, index_dtype=jnp.int32) -> BCSR:
    """The compressed rows of the nonzero elements of an array; arguments as of `bcoo_fromdense`.

    Raises:
        ValueError: unless two dimensions are sparse.
    """
    mat = as_array(mat)
    check_layout("bcsr_fromdense", mat.shape, n_batch, n_dense)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
    buffers = bcsr_fromdense_p.bind(
        mat,
        nse=number_to_store("bcsr_fromdense", mat, nse, n_batch, n_dense),
        n_batch=n_batch,
        n_dense=n_dense,
        index_dtype=np.dtype(index_dtype),
    )
    return BCSR(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)


def compressed(data, indices, rows) -> list:
    """The buffers of compressed rows, from sorted coordinates."""
    return [data, indices[..., 1], row_starts(indices[..., 0], *rows)]


bcsr_fromdense_p = fromdense_primitive("bcsr_fromdense", compressed, coordinates_of)


def bcsr_dot_general(
    lhs, rhs, *, dimension_numbers, precision=None, preferred_element_type=None, out_sharding=None
):
    """`lax.dot_general` of a BCSR and an array.

    Raises:
        NotImplementedError: for other operands: products of two sparse arrays are those of their `to_bcoo()`.
    """
    if not isinstance(lhs, BCSR) or isinstance(rhs, JAXSparse):
        raise NotImplementedError(
            "bcsr_dot_general currently implemented for BCSR lhs and ndarray rhs; use to_bcoo() for others"
        )
    rhs = as_array(rhs)
    numbers = normalized(dimension_numbers)
    check_dimensions("bcsr_dot_general", lhs.shape, rhs.shape, numbers)
    dtype = jnp.result_type(lhs.data, rhs)
    return bcsr_dot_general_p.bind(
        lhs.data.astype(dtype),
        lhs.indices,
        lhs.indptr,
        rhs.astype(dtype),
        dimension_numbers=numbers,
        preferred_element_type=np.dtype(preferred_element_type or dtype),
        lhs_spinfo=lhs.info,
    )


def _dot_batch(params, size):
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    up = lambda ds: tuple(d + 1 for d in ds)
    numbers = ((up(lc), up(rc)), ((0, *up(lb)), (0, *up(rb))))
    return batched_info("lhs_spinfo")(params, size) | {"dimension_numbers": numbers}


bcsr_dot_general_p = sparse_primitive(
    "bcsr_dot_general",
    lambda data, indices, indptr, rhs, **params: _dot(
        data, coordinates_of(indices, indptr), rhs, **params
    ),
    linear=(0, 3),
    batch=_dot_batch,
)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array with each element stored once; see `bcoo_sum_duplicates`."""
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse=nse))


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array without stored zeros; see `bcoo_eliminate_zeros`."""
    return BCSR.from_bcoo(bcoo_eliminate_zeros(mat.to_bcoo(), nse=nse))


def bcsr_broadcast_in_dim(mat: BCSR, *, shape, broadcast_dimensions, sharding=None) -> BCSR:
    """The array with new dimensions; see `bcoo_broadcast_in_dim`."""
    return BCSR.from_bcoo(
        bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    )


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays one after another along a dimension; see `bcoo_concatenate`."""
    return BCSR.from_bcoo(bcoo_concatenate([m.to_bcoo() for m in operands], dimension=dimension))


__all__ = ["BCSR", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_dot_general_p", "bcsr_extract", "bcsr_extract_p",
           "bcsr_fromdense", "bcsr_fromdense_p", "bcsr_sum_duplicates", "bcsr_todense", "bcsr_todense_p"]  # fmt: skip
