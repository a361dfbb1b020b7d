"""Convolutions of sparse arrays, with one another and with dense ones, along one dimension."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.numpy.arithmetic import as_array
from xlab.sparse.bcoo import BCOO
from xlab.sparse.order import bcoo_sum_duplicates, bcoo_update_layout, in_bounds


def bcoo_conv_general_dilated(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    feature_group_count=1,
    batch_group_count=1,
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
    **_,
) -> BCOO:
    """`lax.conv_general_dilated` of sparse arrays, along one spatial dimension, of one example and one feature.

    Every pair of stored elements gives one term of the result.

    Args:
        lhs, rhs: arrays of three dimensions, sparse (`BCOO`) or dense: of a dense one all elements count as stored.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, preferred_element_type: as for
            `lax.conv_general_dilated`.
        feature_group_count, batch_group_count: 1.
        precision, out_sharding: not used: terms are added, not multiplied by a matrix unit.

    Returns:
        The sparse result, with the first two dimensions as batch dimensions.

    Raises:
        NotImplementedError: for other numbers of dimensions, examples and features.
        ValueError: for `padding` in words with `lhs_dilation`.

    Example:
        >>> import xlab.numpy as jnp
        >>> spikes = BCOO.fromdense(jnp.array([[[0., 2., 0., 0., 1.]]]))
        >>> bcoo_conv_general_dilated(spikes, jnp.array([[[1., 0., -1.]]]), window_strides=(1,), padding="SAME").todense().tolist()
        [[[-2.0, 0.0, 2.0, -1.0, 0.0]]]
    """
    lhs, rhs = (m if isinstance(m, BCOO) else as_array(m) for m in (lhs, rhs))
    if lhs.ndim != 3 or rhs.ndim != 3:
        raise NotImplementedError(
            f"bcoo_conv_general_dilated: only 1D convolutions, got operands of shapes {lhs.shape} and {rhs.shape}"
        )
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    if (
        numbers.lhs_spec != (0, 1, 2)
        or numbers.rhs_spec != (0, 1, 2)
        or numbers.out_spec != (0, 1, 2)
    ):
        raise NotImplementedError(
            "bcoo_conv_general_dilated: dimensions are in the order NCW, OIW, NCW"
        )
    if (
        lhs.shape[:2] != (1, 1)
        or rhs.shape[:2] != (1, 1)
        or feature_group_count != 1
        or batch_group_count != 1
    ):
        raise NotImplementedError(
            "bcoo_conv_general_dilated: one example with one feature, and one group"
        )
    (stride,) = window_strides
    (l_dilation,), (r_dilation,) = lhs_dilation or (1,), rhs_dilation or (1,)
    n, k = ((m.shape[2] - 1) * d + 1 for m, d in ((lhs, l_dilation), (rhs, r_dilation)))
    if isinstance(padding, str):
        if l_dilation != 1:
            raise ValueError(
                f"bcoo_conv_general_dilated: padding={padding!r} is not defined with lhs_dilation; give how much to pad before and "
                "behind, as [(low, high)]"
            )
        padding = lax.padtype_to_pads((n,), (k,), (stride,), padding)
    ((low, high),) = padding
    length = max(0, (n + low + high - k) // stride + 1)
    lhs, rhs = map(_stored, (lhs, rhs))
    dtype = preferred_element_type or jnp.result_type(lhs.data, rhs.data)
    at = lhs.indices[..., :, None, 0] * l_dilation + low - rhs.indices[..., None, :, 0] * r_dilation
    inside = (
        in_bounds(lhs.indices, lhs.shape)[..., :, None]
        & in_bounds(rhs.indices, rhs.shape)[..., None, :]
    )
    inside = inside & (at >= 0) & (at % stride == 0) & (at // stride < length)
    data = jnp.where(inside, lhs.data[..., :, None] * rhs.data[..., None, :], 0).astype(dtype)
    indices = jnp.where(inside, at // stride, length)
    out = BCOO((data.reshape(1, 1, -1), indices.reshape(1, 1, -1, 1)), shape=(1, 1, length))
    return bcoo_sum_duplicates(out, nse=length) if out.nse > length else out


def _stored(mat) -> BCOO:
    """An operand with one sparse dimension, the last; a dense one with all of its elements."""
    if isinstance(mat, BCOO):
        return bcoo_update_layout(mat, n_batch=2, n_dense=0, on_inefficient=None)
    at = lax.broadcasted_iota(np.int32, (*mat.shape, 1), 2)
    return BCOO((mat, at), shape=mat.shape, indices_sorted=True, unique_indices=True)


__all__ = ["bcoo_conv_general_dilated"]
