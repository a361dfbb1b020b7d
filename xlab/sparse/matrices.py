"""`COO`, `CSR` and `CSC`: matrices without batch and dense dimensions, and their products with vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import JAXSparse, SparseInfo
from xlab.sparse.bcoo import BCOO
from xlab.sparse.bcsr import BCSR, compressed, coordinates_of
from xlab.sparse.dense import _todense, fromdense_primitive, number_to_store
from xlab.sparse.order import bcoo_sort_indices
from xlab.sparse.primitive import sparse_primitive
from xlab.sparse.products import _dot


class COOInfo(NamedTuple):
    """What is known of a `COO` besides its buffers."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


class _Matrix(JAXSparse):
    """A matrix of three buffers; `names` are theirs."""

    __slots__ = ()
    names: tuple[str, ...]

    def _buffers(self):
        return tuple(getattr(self, n) for n in self.names)

    @property
    def nse(self) -> int:
        return aval_of(self.data).shape[0]

    def _aux(self):
        return (self.shape,)

    def tree_flatten(self):
        return self._buffers(), self._aux()

    def tree_flatten_with_keys(self):
        return tuple(zip(map(_tree.GetAttrKey, self.names), self._buffers())), self._aux()

    @classmethod
    def tree_unflatten(cls, aux, children):
        self = object.__new__(cls)  # children may be anything
        for name, child in zip(cls.names, children, strict=True):
            setattr(self, name, child)
        self._set_aux(*aux)
        return self

    def _set_aux(self, shape):
        self.shape = shape

    @classmethod
    def _empty(cls, shape, *, dtype=None, index_dtype="int32"):
        if len(shape) != 2:
            raise ValueError(f"{cls.__name__} must have ndim=2; got shape={tuple(shape)}")
        return cls.from_bcoo(
            BCOO(
                (jnp.empty(0, dtype), jnp.empty((0, 2), index_dtype)),
                shape=shape,
                indices_sorted=True,
                unique_indices=True,
            )
        )


@_tree.register_pytree_with_keys_class
class COO(_Matrix):
    """A sparse matrix as coordinates.

    Args:
        args: `(data, row, col)`, each of shape `(nse,)`.
        shape: of the matrix.
        rows_sorted: whether elements are in order of their rows.
        cols_sorted: whether elements are in order of their columns.
    """

    __slots__ = ("col", "cols_sorted", "data", "row", "rows_sorted", "shape")
    names = ("data", "row", "col")

    def __init__(self, args, *, shape, rows_sorted=False, cols_sorted=False):
        self.data, self.row, self.col = map(as_array, args)
        self._set_aux(tuple(shape), rows_sorted, cols_sorted)

    def _aux(self):
        return self.shape, self.rows_sorted, self.cols_sorted

    def _set_aux(self, shape, rows_sorted, cols_sorted):
        self.shape, self.rows_sorted, self.cols_sorted = shape, rows_sorted, cols_sorted

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        return BCOO((self.data, jnp.stack([self.row, self.col], -1)), shape=self.shape)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> COO:
        """The same matrix as `COO`."""
        return cls(
            (mat.data, mat.indices[:, 0], mat.indices[:, 1]),
            shape=mat.shape,
            rows_sorted=mat.indices_sorted,
        )

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32) -> COO:
        """See `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    def todense(self):
        """The matrix with all its elements."""
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The transposed matrix: the same data."""
        _only_reversed(axes)
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self.cols_sorted,
            cols_sorted=self.rows_sorted,
        )


def _only_reversed(axes):
    if axes is not None and tuple(axes) not in ((1, 0), (-1, -2)):
        raise NotImplementedError("axes argument to transpose(): a matrix is transposed as (1, 0)")


@_tree.register_pytree_with_keys_class
class CSR(_Matrix):
    """A sparse matrix as compressed rows.

    Args:
        args: `(data, indices, indptr)`: elements, their columns, and where each row begins.
        shape: of the matrix.
    """

    __slots__ = ("data", "indices", "indptr", "shape")
    names = ("data", "indices", "indptr")

    def __init__(self, args, *, shape):
        self.data, self.indices, self.indptr = map(as_array, args)
        self.shape = tuple(shape)

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        return BCSR(self._buffers(), shape=self.shape).to_bcoo()

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSR:
        """The same matrix as `CSR`."""
        return cls(BCSR.from_bcoo(mat)._buffers(), shape=mat.shape)

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32) -> CSR:
        """See `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    def todense(self):
        """The matrix with all its elements."""
        return csr_todense(self)

    def transpose(self, axes=None) -> CSC:
        """The transposed matrix: the same buffers, as compressed columns."""
        _only_reversed(axes)
        return CSC(self._buffers(), shape=self.shape[::-1])


@_tree.register_pytree_with_keys_class
class CSC(_Matrix):
    """A sparse matrix as compressed columns.

    Args:
        args: `(data, indices, indptr)`: elements, their rows, and where each column begins.
        shape: of the matrix.
    """

    __slots__ = ("data", "indices", "indptr", "shape")
    names = ("data", "indices", "indptr")

    def __init__(self, args, *, shape):
        self.data, self.indices, self.indptr = map(as_array, args)
        self.shape = tuple(shape)

    def to_bcoo(self) -> BCOO:
        """The same matrix as `BCOO`."""
        return self.transpose().to_bcoo().T

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSC:
        """The same matrix as `CSC`."""
        return cls(BCSR.from_bcoo(bcoo_sort_indices(mat.T))._buffers(), shape=mat.shape)

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32) -> CSC:
        """The compressed columns of the nonzero elements of a matrix; arguments and errors as of `coo_fromdense`."""
        return csr_fromdense(as_array(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    def todense(self):
        """The matrix with all its elements."""
        return csr_todense(self.transpose()).T

    def transpose(self, axes=None) -> CSR:
        """The transposed matrix: the same buffers, as compressed rows."""
        _only_reversed(axes)
        return CSR(self._buffers(), shape=self.shape[::-1])


# -- functions ---------------------------------------------------------------------------------------------


def _pair(row, col):
    return jnp.stack([row, col], -1)


def _times(data, indices, v, shape, transpose):
    """The product of a matrix, or the transposed one, with a vector or a matrix."""
    numbers = (((0 if transpose else 1,), (0,)), ((), ()))
    return _dot(
        data,
        indices,
        v,
        dimension_numbers=numbers,
        preferred_element_type=data.dtype,
        lhs_spinfo=SparseInfo(shape),
    )


def _unbatched(name):
    def batch(params, size):
        raise NotImplementedError(f"{name} has no batch dimensions: use BCOO or BCSR under vmap")

    return batch


def _primitive(name, impl, linear):
    return sparse_primitive(name, impl, linear=linear, batch=_unbatched(name))


coo_todense_p = _primitive(
    "coo_todense",
    lambda data, row, col, *, spinfo: _todense(data, _pair(row, col), spinfo=spinfo),
    (0,),
)
coo_matvec_p = _primitive(
    "coo_matvec",
    lambda data, row, col, v, *, spinfo, transpose: _times(
        data, _pair(row, col), v, spinfo.shape, transpose
    ),
    (0, 3),
)
coo_matmat_p = _primitive(
    "coo_matmat",
    lambda data, row, col, B, *, spinfo, transpose: _times(
        data, _pair(row, col), B, spinfo.shape, transpose
    ),
    (0, 3),
)
csr_todense_p = _primitive(
    "csr_todense",
    lambda data, indices, indptr, *, shape: _todense(
        data, coordinates_of(indices, indptr), spinfo=SparseInfo(shape)
    ),
    (0,),
)
csr_matvec_p = _primitive(
    "csr_matvec",
    lambda data, indices, indptr, v, *, shape, transpose: _times(
        data, coordinates_of(indices, indptr), v, shape, transpose
    ),
    (0, 3),
)
csr_matmat_p = _primitive(
    "csr_matmat",
    lambda data, indices, indptr, B, *, shape, transpose: _times(
        data, coordinates_of(indices, indptr), B, shape, transpose
    ),
    (0, 3),
)


def coo_fromdense(mat, *, nse: int | None = None, index_dtype=jnp.int32) -> COO:
    """The coordinates of the nonzero elements of a matrix.

    Args:
        mat: the matrix.
        nse: how many elements to store, as many as there are by default; further ones are padding, with coordinates outside.
        index_dtype: of the coordinates.

    Raises:
        ValueError: for an array that is no matrix.
        ConcretizationTypeError: if `nse` is not given and `mat` is traced.
    """
    buffers, shape = _elements("coo_fromdense", coo_fromdense_p, mat, nse, index_dtype)
    return COO(buffers, shape=shape, rows_sorted=True)


coo_fromdense_p = fromdense_primitive(
    "coo_fromdense", lambda data, indices, rows: [data, indices[..., 0], indices[..., 1]], _pair
)


def _elements(name, prim, mat, nse, index_dtype):
    mat = as_array(mat)
    if mat.ndim != 2:
        raise ValueError(
            f"{name} takes a matrix, got shape {mat.shape}: BCOO and BCSR have other dimensions"
        )
    nse = number_to_store(name, mat, nse)
    return prim.bind(mat, nse=nse, index_dtype=np.dtype(index_dtype)), mat.shape


def coo_todense(mat: COO):
    """The matrix with all its elements."""
    return coo_todense_p.bind(*mat._buffers(), spinfo=COOInfo(*mat._aux()))


def coo_matvec(mat: COO, v, transpose: bool = False):
    """The product of a matrix, or the transposed one, with a vector."""
    data, v = _alike(mat, v, 1, transpose)
    return coo_matvec_p.bind(
        data, mat.row, mat.col, v, spinfo=COOInfo(*mat._aux()), transpose=transpose
    )


def coo_matmat(mat: COO, B, *, transpose: bool = False):
    """The product of a matrix, or the transposed one, with a matrix."""
    data, B = _alike(mat, B, 2, transpose)
    return coo_matmat_p.bind(
        data, mat.row, mat.col, B, spinfo=COOInfo(*mat._aux()), transpose=transpose
    )


def csr_fromdense(mat, *, nse: int | None = None, index_dtype=np.int32) -> CSR:
    """The compressed rows of the nonzero elements of a matrix; arguments and errors as of `coo_fromdense`."""
    buffers, shape = _elements("csr_fromdense", csr_fromdense_p, mat, nse, index_dtype)
    return CSR(buffers, shape=shape)


csr_fromdense_p = fromdense_primitive("csr_fromdense", compressed, coordinates_of)


def csr_todense(mat: CSR):
    """The matrix with all its elements."""
    return csr_todense_p.bind(*mat._buffers(), shape=mat.shape)


def csr_matvec(mat: CSR, v, transpose: bool = False):
    """The product of a matrix, or the transposed one, with a vector."""
    data, v = _alike(mat, v, 1, transpose)
    return csr_matvec_p.bind(data, mat.indices, mat.indptr, v, shape=mat.shape, transpose=transpose)


def csr_matmat(mat: CSR, B, *, transpose: bool = False):
    """The product of a matrix, or the transposed one, with a matrix."""
    data, B = _alike(mat, B, 2, transpose)
    return csr_matmat_p.bind(data, mat.indices, mat.indptr, B, shape=mat.shape, transpose=transpose)


def _alike(mat, v, ndim, transpose):
    v = as_array(v)
    if v.ndim != ndim or v.shape[0] != mat.shape[0 if transpose else 1]:
        what = "transposed " if transpose else ""
        raise ValueError(
            f"a {what}{type(mat).__name__} of shape {mat.shape} cannot be multiplied with an array of shape {v.shape}"
        )
    dtype = jnp.result_type(mat.data, v)
    return mat.data.astype(dtype), v.astype(dtype)


def product(mat, other):
    """`mat @ other` for a matrix of this file and an array."""
    if isinstance(mat, CSC):
        mat, functions, transpose = mat.transpose(), (csr_matvec, csr_matmat), True
    else:
        functions = (coo_matvec, coo_matmat) if isinstance(mat, COO) else (csr_matvec, csr_matmat)
        transpose = False
    other = as_array(other)
    if other.ndim not in (1, 2):
        raise NotImplementedError(
            f"matmul with object of shape {other.shape}: one or two dimensions"
        )
    return functions[other.ndim - 1](mat, other, transpose=transpose)


__all__ = ["COO", "CSC", "CSR", "coo_fromdense", "coo_fromdense_p", "coo_matmat", "coo_matmat_p", "coo_matvec", "coo_matvec_p",
           "coo_todense", "coo_todense_p", "csr_fromdense", "csr_fromdense_p", "csr_matmat", "csr_matmat_p", "csr_matvec", "csr_matvec_p",
           "csr_todense", "csr_todense_p"]  # fmt: skip
