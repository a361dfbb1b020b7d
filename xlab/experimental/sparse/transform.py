"""Functions of arrays as functions of sparse arrays, under the path that programs import."""

from xlab.sparse import (
    SparseTracer,
    sparse_rules,
    sparsify,
)

__all__ = [
    "SparseTracer",
    "sparse_rules",
    "sparsify",
]
