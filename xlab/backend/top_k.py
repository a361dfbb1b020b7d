"""What the compiler's approximate top-k returns: how many candidates."""

from __future__ import annotations

from xlab.backend.native import _jax


def candidates(
    size: int, ndim: int, k: int, recall_target: float, aggregate: bool, size_override: int
) -> int:
    """The number of results along a dimension of `size` elements of an array with `ndim` dimensions."""
    return _jax.approx_top_k_reduction_output_size(
        size, ndim, k, recall_target, aggregate, size_override
    )[0]
