"""Functions of arrays as functions of sparse arrays, under the path that programs import."""

from xlab.sparse import (
    sparse_rules,
    sparsify,
)

__all__ = [
    "sparse_rules",
    "sparsify",
]
