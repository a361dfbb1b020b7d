"""Solvers for sparse matrices."""
