"""Solvers for sparse matrices, under the path that programs import."""

from xlab.sparse.linalg import *  # noqa: F403
