"""A tree of arrays as one vector, and back."""

from __future__ import annotations

import math

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes as _dtypes
from xlab.core.avals import aval_of as _aval_of
from xlab.lax.convert import convert_element_type as _convert
from xlab.lax.shape import concatenate as _concatenate
from xlab.lax.shape import reshape as _reshape
from xlab.lax.slicing import slice_in_dim as _slice

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree):
    """All numbers of a tree as one vector of their common dtype, and the function that makes the tree from such a vector.

    Example:
        >>> import xlab.numpy as jnp
        >>> flat, unravel = ravel_pytree({"a": jnp.ones(2), "b": 3.0})
        >>> flat.tolist(), unravel(flat)["b"].tolist()
        ([1.0, 1.0, 3.0], 3.0)
    """
    leaves, treedef = _tree.flatten(pytree)
    avals = [_aval_of(x) for x in leaves]
    dtype = _dtypes.result_type(*leaves) if leaves else np.dtype(np.float32)
    vectors = [_reshape(_convert(x, dtype), (a.size,)) for x, a in zip(leaves, avals)]
    flat = _concatenate(vectors, 0) if vectors else np.zeros(0, dtype)
    total = sum(a.size for a in avals)

    def unravel(vector):
        given = _aval_of(vector)
        if given.shape != (total,):
            raise ValueError(f"unravel takes a vector of {total} numbers, got {given}")
        if given.dtype != dtype:
            raise TypeError(f"unravel takes a vector of dtype {_dtypes.name(dtype)}, got {given}")
        out, start = [], 0
        for a in avals:
            size = math.prod(a.shape)
            out.append(_convert(_reshape(_slice(vector, start, start + size), a.shape), a.dtype))
            start += size
        return _tree.unflatten(treedef, out)

    return flat, unravel
