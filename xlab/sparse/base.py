"""What all sparse arrays have in common: the class `JAXSparse`, what is known of the indices, the warnings."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from xlab import lax
from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.core.avals import aval_of


class SparseEfficiencyError(ValueError):
    """A layout was asked for that takes more storage than the one before."""


class SparseEfficiencyWarning(UserWarning):
    """A layout takes more storage than the one before, or an operation is slower than it could be."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """An operation takes a slower path on GPUs."""


class SparseInfo(NamedTuple):
    """What primitives know of their sparse operand besides its buffers.

    Attributes:
        shape: of the array that the buffers stand for.
        indices_sorted: whether indices are in lexicographic order.
        unique_indices: whether no element is stored twice.
    """

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class JAXSparse:
    """A sparse array: the base class of `BCOO`, `BCSR`, `COO`, `CSR` and `CSC`.

    Operators and methods are those of arrays where the result is sparse as well, or the array is contracted; what would
    need every element (`exp`, a comparison) says so. See `sparsify` for functions.
    """

    __slots__ = ()
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # how Python spells unhashable

    data: Any
    shape: tuple[int, ...]

    @property
    def dtype(self):
        """The dtype of the elements."""
        return aval_of(self.data).dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def nse(self) -> int:
        """The number of stored elements, of each batch entry."""
        raise NotImplementedError(type(self).__name__)

    @property
    def T(self):
        """The array with its dimensions reversed."""
        return self.transpose()

    def transpose(self, axes=None):
        raise NotImplementedError(type(self).__name__)

    def todense(self):
        raise NotImplementedError(type(self).__name__)

    def block_until_ready(self):
        """Waits until all buffers are computed; returns the array."""
        for x in self._buffers():
            x.block_until_ready()
        return self

    def _buffers(self) -> tuple:
        raise NotImplementedError(type(self).__name__)

    def _notes(self) -> str:
        return ""

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object: the array has no dimension")
        return self.shape[0]

    def __repr__(self):
        name, aval = type(self).__name__, getattr(self.data, "dtype", None)
        try:
            shape = ", ".join(map(str, self.shape))
            text = f"{name}({aval}[{shape}], nse={self.nse}{self._notes()})"
        except (AttributeError, IndexError, TypeError):  # a container of other things than arrays
            return f"{name}(<invalid>)"
        return f"Tracer[{text}]" if _is_traced(self.data) else text


class BatchedSparse(JAXSparse):
    """A sparse array with batch dimensions in front and dense ones behind: `BCOO` and `BCSR`.

    What it is follows from its buffers, of which `indices` has the batch dimensions, one for the stored elements, and what a format
    adds to them.
    """

    __slots__ = ()
    _buffer_names: tuple[str, ...]
    _rank_of_one: int  # of `indices` without batches
    indices: Any
    _rest: tuple[int, ...]  # of the shape, what is no batch
    indices_sorted: bool
    unique_indices: bool

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape: batch dimensions are those of the buffers, so that `vmap` can map over them."""
        return (*aval_of(self.indices).shape[: -self._rank_of_one], *self._rest)

    @property
    def nse(self) -> int:
        """The number of stored elements, of each batch entry."""
        return aval_of(self.indices).shape[-self._rank_of_one]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return aval_of(self.indices).ndim - self._rank_of_one

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return aval_of(self.data).ndim - 1 - self.n_batch

    @property
    def info(self) -> SparseInfo:
        """What primitives know of this array."""
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def _buffers(self):
        return tuple(getattr(self, name) for name in self._buffer_names)

    def _notes(self):
        return "".join([f", {k}={v}" for k in ("n_batch", "n_dense") if (v := getattr(self, k))])

    def tree_flatten(self):
        return self._buffers(), (self._rest, self.indices_sorted, self.unique_indices)

    def tree_flatten_with_keys(self):
        names = map(_tree.GetAttrKey, self._buffer_names)
        return tuple(zip(names, self._buffers())), self.tree_flatten()[1]

    @classmethod
    def tree_unflatten(cls, aux, children):
        self = object.__new__(cls)  # children may be anything
        for name, child in zip(cls._buffer_names, children, strict=True):
            setattr(self, name, child)
        self._rest, self.indices_sorted, self.unique_indices = aux
        return self


def _is_traced(x) -> bool:
    from xlab.core.trace import Tracer

    return isinstance(x, Tracer)


# -- batches of indices ------------------------------------------------------------------------------------


def batch_positions(batch: tuple[int, ...], extra: int = 1, dtype=jnp.int32) -> tuple:
    """For each batch dimension its position, as an array of shape `(*batch, 1, ...)` that broadcasts over what follows."""
    shape = (*batch, *(1,) * extra)
    return tuple(lax.broadcasted_iota(dtype, shape, d) for d in range(len(batch)))


def columns(indices) -> tuple:
    """The coordinates in `indices`, an array of shape `(..., n)`, one array per dimension."""
    return tuple(indices[..., k] for k in range(aval_of(indices).shape[-1]))


def take_stored(x, order):
    """The stored elements of `x` (`(*batch, nse, ...)`) in another order (`(*batch, n)`)."""
    batch = aval_of(order).shape[:-1]
    return x[(*batch_positions(batch), order)]
