"""The operators and methods of sparse arrays: those of arrays, through `sparsify`. Imported for what it sets."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from xlab import numpy as jnp
from xlab.core.trace import is_tracer
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.sparse import rules as _rules  # noqa: F401  (what `sparsify` looks up)
from xlab.sparse.base import JAXSparse
from xlab.sparse.bcoo import BCOO
from xlab.sparse.bcsr import BCSR, bcsr_dot_general
from xlab.sparse.dense import bcoo_fromdense, bcoo_todense
from xlab.sparse.matrices import COO, CSC, CSR, product
from xlab.sparse.order import (
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    without_zeros,
)
from xlab.sparse.transform import sparsify

BINARY = {
    "matmul": jnp.matmul,
    "mul": jnp.multiply,
    "add": jnp.add,
    "sub": jnp.subtract,
    "truediv": jnp.true_divide,
    "pow": operator.pow,
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "eq": jnp.equal,
    "ne": jnp.not_equal,
}
REFLECTED = ("matmul", "mul", "add", "sub", "truediv", "pow")
UNARY = {"abs": jnp.abs, "neg": jnp.negative, "pos": jnp.positive}


def _known(x) -> bool:
    return isinstance(x, (JAXSparse, np.ndarray, np.generic, int, float, complex)) or hasattr(
        x, "aval"
    )


def _binary(fun: Callable, reflected: bool) -> Callable:
    compiled = jit_when_eager(
        sparsify((lambda x, y: fun(y, x)) if reflected else (lambda x, y: fun(x, y)))
    )

    def method(self, other):
        if not _known(other):
            return NotImplemented
        return compiled(self, other)

    return method


def _unary(fun: Callable) -> Callable:
    return jit_when_eager(sparsify(lambda x: fun(x)))


def _pow(reflected):
    def method(self, other):
        if reflected or isinstance(other, JAXSparse) or is_tracer(other) or np.ndim(other):
            return sparsify(operator.pow)(*((other, self) if reflected else (self, other)))
        return sparsify(lambda x: x**other)(self)  # the exponent is part of the program

    return method


def _in_class_of(method: Callable) -> Callable:
    """A method of BCOO as one of another class: its result is of that class too, where it has two sparse dimensions."""

    def converted(self, *args, **kwargs):
        args = [
            a.to_bcoo() if isinstance(a, JAXSparse) and not isinstance(a, BCOO) else a for a in args
        ]
        out = method(self.to_bcoo(), *args, **kwargs)
        whole = isinstance(out, BCOO) and out.n_sparse == 2
        if whole and (type(self) is BCSR or (out.ndim == 2)):
            return type(self).from_bcoo(out)
        return out

    converted.__name__, converted.__doc__ = method.__name__, method.__doc__
    return converted


def _sum(self, axis=None, **kwargs):
    """The sum over some dimensions: an array where all are summed, sparse otherwise."""
    return sparsify(lambda x: jnp.sum(x, axis=axis, **kwargs))(self)


def _getitem(self, index):
    """Elements at an index, as a sparse array."""
    return sparsify(lambda x: x[index])(self)


def _astype(self, *args, **kwargs):
    """The array with another dtype."""
    return self.like(self.data.astype(*args, **kwargs))


def _reshape(self, *shape, **kwargs):
    """The array with another shape; see `bcoo_reshape`."""
    return sparsify(lambda x: x.reshape(*shape, **kwargs))(self)


def _iter(self):
    if not self.ndim:
        raise TypeError("iteration over a 0-d sparse array")
    return (self[i] for i in range(self.shape[0]))


def _sum_duplicates(self, nse=None, remove_zeros=True):
    """The array with each element stored once; see `bcoo_sum_duplicates`.

    Args:
        nse: how many elements to store, as many as there are by default.
        remove_zeros: whether stored zeros are left out.
    """
    return bcoo_sum_duplicates(without_zeros(self) if remove_zeros else self, nse=nse)


def _transpose(self, axes=None):
    """The array with its dimensions in another order, reversed by default."""
    axes = tuple(range(self.ndim))[::-1] if axes is None else axes
    return bcoo_transpose(
        self, permutation=[int(a) % self.ndim if -self.ndim <= a < self.ndim else a for a in axes]
    )


def _from_scipy_sparse(cls, mat, *, index_dtype=None, n_dense=0, n_batch=0):
    """A matrix of `scipy.sparse`."""
    if n_dense or n_batch:
        raise NotImplementedError("BCOO.from_scipy_sparse with nonzero n_dense/n_batch")
    mat = mat.tocoo()
    indices = np.stack([mat.row, mat.col], -1).astype(index_dtype or np.int32)
    return cls((jnp.asarray(mat.data), jnp.asarray(indices)), shape=mat.shape)


def _fromdense(cls, mat, *, nse=None, index_dtype=np.int32, n_dense=0, n_batch=0):
    """The sparse array with the nonzero elements of a dense one; see `bcoo_fromdense`."""
    return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)


def _method_of(function: Callable) -> Callable:
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


for _name, _fun in UNARY.items():
    setattr(BCOO, f"__{_name}__", _unary(_fun))
for _name, _fun in BINARY.items():
    if _name != "pow":
        setattr(BCOO, f"__{_name}__", _binary(_fun, False))
        if _name in REFLECTED:
            setattr(BCOO, f"__r{_name}__", _binary(_fun, True))
BCOO.__pow__, BCOO.__rpow__ = _pow(False), _pow(True)
BCOO.__hash__ = None
BCOO.__getitem__, BCOO.__iter__ = _getitem, _iter
BCOO.sum, BCOO.astype, BCOO.reshape, BCOO.transpose = _sum, _astype, _reshape, _transpose
BCOO.sum_duplicates, BCOO.sort_indices = _sum_duplicates, _method_of(bcoo_sort_indices)
BCOO.todense, BCOO.update_layout = _method_of(bcoo_todense), _method_of(bcoo_update_layout)
BCOO.fromdense, BCOO.from_scipy_sparse = classmethod(_fromdense), classmethod(_from_scipy_sparse)

for _cls in (BCSR, COO, CSR, CSC):
    for _name in (*UNARY, *BINARY, *(f"r{n}" for n in REFLECTED), "getitem"):
        setattr(_cls, f"__{_name}__", _in_class_of(getattr(BCOO, f"__{_name}__")))
    _cls.__hash__ = None
    _cls.sum, _cls.astype = _in_class_of(BCOO.sum), _in_class_of(BCOO.astype)
BCSR.reshape, BCSR.transpose = _in_class_of(BCOO.reshape), _in_class_of(BCOO.transpose)

_sparse_product = _in_class_of(BCOO.__matmul__)


def _bcsr_matmul(self, other):
    if isinstance(other, JAXSparse) or not _known(other) or np.ndim(other) > 2 or self.ndim != 2:
        return _sparse_product(self, other)
    return bcsr_dot_general(self, other, dimension_numbers=(((1,), (0,)), ((), ())))


def _matrix_matmul(self, other):
    return _sparse_product(self, other) if isinstance(other, JAXSparse) else product(self, other)


BCSR.__matmul__ = _bcsr_matmul
for _cls in (COO, CSR, CSC):
    _cls.__matmul__ = _matrix_matmul
