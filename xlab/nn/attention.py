"""Scaled dot-product attention."""

from __future__ import annotations

import numpy as np

import xlab.numpy as jnp
from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.nn.softmax import softmax
from xlab.numpy.arithmetic import as_array
from xlab.numpy.conversion import from_lists
from xlab.numpy.operands import cast_operand, check, shape_of


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """Attention: averages of values, weighted by the softmax of products of queries and keys.

    Args:
        query: `(batch, queries, heads, features)`, the batch optional.
        key, value: `(batch, keys, key heads, features)`; the number of key heads divides that of heads, and each serves a
            group of neighboring heads.
        bias: added to the scores, `(batch, heads, queries, keys)` or broadcasting to it.
        mask: where it is False, a query does not see a key; shaped as `bias`.
        scale: factor of the scores, `1 / sqrt(features)` by default.
        is_causal: whether a query sees only keys at or before its position.
        query_seq_lengths, key_value_seq_lengths: lengths per batch entry; what lies beyond is not seen.
        local_window_size: `(left, right)` numbers of keys seen around a query's position, or one number for both.
        implementation: None or "xla"; the computation is compiled the same way.
        return_residual: whether to return the log-sum-exp of the scores too.

    Example:
        >>> import xlab
        >>> x = xlab.numpy.ones((2, 5, 4, 8))
        >>> xlab.nn.dot_product_attention(x, x, x, is_causal=True).shape
        (2, 5, 4, 8)
    """
    if implementation not in (None, "xla"):
        raise ValueError(
            f"implementation must be None or 'xla', got {implementation!r}: no other is compiled here"
        )
    query, key, value, bias = map(from_lists, (query, key, value, bias))
    query, key, value = (as_array(x) for x in check("dot_product_attention", query, key, value))
    shape = query.shape
    if query.ndim not in (3, 4) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise ValueError(
            f"attention takes query, key and value of 3 or 4 dimensions, got {query.shape}, {key.shape}, "
            f"{value.shape}"
        )
    query, key, value = (
        x if x.ndim == 4 else lax.expand_dims(x, (0,)) for x in (query, key, value)
    )
    batch, n, heads, features = query.shape
    _, m, groups, _ = key.shape
    if (
        key.shape != (batch, m, groups, features)
        or value.shape[:3] != key.shape[:3]
        or heads % groups
    ):
        raise ValueError(
            f"attention: query {query.shape}, key {key.shape} and value {value.shape} do not fit: batch and "
            f"features are equal, keys and values have one length, and the heads of queries, {heads}, must be a multiple of those of "
            f"keys, {groups}"
        )
    scale = 1 / np.sqrt(features) if scale is None else scale
    grouped = lax.reshape(query, (batch, n, groups, heads // groups, features))
    accumulate = np.dtype(np.float32) if dtypes.itemsize(query.dtype) < 4 else query.dtype
    scores = jnp.einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=accumulate)
    scores = lax.reshape(scores, (batch, heads, n, m))
    scores = lax.mul(scores, cast_operand(float(scale), accumulate))
    if bias is not None:
        scores = jnp.add(scores, cast_operand(bias, accumulate))
    visible = _visible(
        n, m, mask, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size
    )
    if visible is not None:
        scores = jnp.where(
            visible, scores, cast_operand(0.7 * float(dtypes.finfo(accumulate).min), accumulate)
        )
    weights = cast_operand(softmax(scores, axis=-1), key.dtype)
    weights = lax.reshape(weights, (batch, groups, heads // groups, n, m))
    out = jnp.einsum("bkgts,bskh->btkgh", weights, value)
    out = lax.reshape(out, (batch, n, heads, value.shape[-1]))
    if query_seq_lengths is not None:
        rows = _positions((batch, n, 1, 1), 1)
        out = jnp.where(
            lax.lt(rows, lax.reshape(as_array(query_seq_lengths), (batch, 1, 1, 1))), out, 0
        )
    out = out if len(shape) == 4 else lax.squeeze(out, (0,))
    if not return_residual:
        return out
    from xlab.nn.softmax import logsumexp

    residual = lax.transpose(logsumexp(scores, axis=-1), (0, 2, 1))
    return out, residual if len(shape) == 4 else lax.squeeze(residual, (0,))


def _positions(shape, axis):
    return lax.broadcasted_iota(np.int32, shape, axis)


def _visible(n, m, mask, is_causal, query_lengths, key_lengths, window):
    """The mask `(batch, heads, queries, keys)` or one broadcasting to it; None if nothing is masked."""
    parts = []
    if mask is not None:
        mask = as_array(mask)
        if mask.dtype != np.bool_:
            raise ValueError(
                f"mask must be boolean, got {aval_of(mask)}; use bias for numbers to add"
            )
        parts.append(mask if mask.ndim == 4 else lax.expand_dims(mask, range(4 - mask.ndim)))
    rows, columns = _positions((1, 1, n, m), 2), _positions((1, 1, n, m), 3)
    if is_causal:
        parts.append(lax.ge(rows, columns))
    if window is not None:
        left, right = (window, window) if np.ndim(window) == 0 else window
        parts.append(
            lax.bitwise_and(
                lax.ge(columns, lax.sub(rows, np.int32(left))),
                lax.le(columns, lax.add(rows, np.int32(right))),
            )
        )
    for lengths, positions in ((query_lengths, rows), (key_lengths, columns)):
        if lengths is not None:
            lengths = as_array(lengths)
            parts.append(jnp.less(positions, lax.reshape(lengths, (shape_of(lengths)[0], 1, 1, 1))))
    out = None
    for part in parts:
        out = part if out is None else jnp.logical_and(out, part)
    return out
