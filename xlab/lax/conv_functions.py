"""The public convolution functions, and their forms of dimension numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import dim_indices
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.lax.conv import ConvDimensionNumbers, conv_general_dilated_p, in_spec_order, ordered
from xlab.lax.dot import dot_general
from xlab.lax.precision import PrecisionLike, canonical_precision
from xlab.lax.shape import broadcast_in_dim, reshape, rev, transpose
from xlab.lax.window_selection import check_pairs, dilated, window_counts
from xlab.lax.windows import padtype_to_pads
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = [
    "ConvDimensionNumbers",
    "ConvGeneralDilatedDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_general_permutations",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]

ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


def conv_general_permutations(dimension_numbers: Any) -> tuple[tuple[int, ...], ...]:
    """Three strings, like `("NHWC", "HWIO", "NHWC")`, as positions: the fields of `ConvDimensionNumbers`.

    Example:
        >>> conv_general_permutations(("NHWC", "HWIO", "NCHW"))
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 1, 2, 3))
    """
    lhs, rhs, out = dimension_numbers
    if not all(isinstance(spec, str) for spec in (lhs, rhs, out)):
        raise TypeError(
            f"convolution dimension_numbers must be three strings, such as ('NHWC', 'HWIO', 'NHWC'), got {dimension_numbers!r}"
        )
    for i, (spec, (one, two)) in enumerate(
        zip((lhs, rhs, out), (("N", "C"), ("O", "I"), ("N", "C")))
    ):
        if spec.count(one) != 1 or spec.count(two) != 1:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{one}' and '{two}' exactly "
                f"once, got {spec}."
            )
        if len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {spec}."
            )
    space = [c for c in rhs if c not in "OI"]
    if set(lhs) - set("NC") != set(space) or set(out) - set("NC") != set(space):
        raise TypeError(
            f"convolution dimension_numbers elements must each have the same set of spatial characters, got "
            f"{dimension_numbers}."
        )
    return tuple(
        tuple(spec.index(c) for c in (*ends, *space))
        for spec, ends in zip((lhs, rhs, out), ("NC", "OI", "NC"))
    )


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Dimension numbers in any of their forms as a `ConvDimensionNumbers`.

    Args:
        lhs_shape, rhs_shape: shapes of the operands.
        dimension_numbers: None for batch, features, then space; three strings of letters, N for batch, C for features, O and
            I for features of the kernel, any others for space; or a `ConvDimensionNumbers`.

    Example:
        >>> conv_dimension_numbers((1, 8, 8, 3), (2, 2, 3, 4), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {ndim} and {len(rhs_shape)}."
        )
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(ndim)),) * 3)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            f"convolution dimension_numbers must be tuple/list or None, got {type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            f"convolution dimension_numbers list/tuple must be length 3, got {len(dimension_numbers)}."
        )
    if not all(isinstance(spec, str) for spec in dimension_numbers):
        raise TypeError(
            f"convolution dimension_numbers elements must all be strings, got "
            f"{tuple(type(spec) for spec in dimension_numbers)}."
        )
    for i, spec in enumerate(dimension_numbers):
        if len(spec) != ndim:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and rhs, got "
                f"{len(spec)} for lhs and rhs shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


_NO_STRING = (
    "String padding is not implemented for transposed convolution using this op. Please either exactly specify the "
    "required padding or use conv_transpose."
)


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """General convolution (without mirroring the kernel): strides, padding, dilations, groups.

    Args:
        lhs: input; batch, features and spatial dimensions, where `dimension_numbers` says.
        rhs: kernel; output features, input features per group and spatial dimensions.
        window_strides: steps of the window.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) per spatial dimension; negative amounts cut.
        lhs_dilation, rhs_dilation: distances between neighbors in the input and in the kernel.
        dimension_numbers: see `conv_dimension_numbers`.
        feature_group_count, batch_group_count: number of independent groups of features, or of the batch.
        precision: see `xlab.lax.Precision`.
        preferred_element_type: dtype to accumulate in and return.
        out_sharding: how the result should lie over Explicit mesh axes, where the operands leave that open.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.conv_general_dilated(jnp.ones((1, 8, 8, 3)), jnp.ones((3, 3, 3, 5)), (1, 1), "SAME",
        ...                          dimension_numbers=("NHWC", "HWIO", "NHWC")).shape
        (1, 8, 8, 5)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    numbers = conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    ndim = len(numbers.lhs_spec) - 2

    def given(values):
        return (1,) * ndim if values is None else dim_indices(values)

    strides, base, spread = given(window_strides), given(lhs_dilation), given(rhs_dilation)
    if any(s < 1 for s in strides):
        raise ValueError(f"conv_general_dilated window_strides must be positive, got {strides}")
    if isinstance(padding, str):
        if any(d != 1 for d in base):
            raise ValueError(_NO_STRING)
        if any(d < 1 for d in spread):
            raise TypeError(f"All dilations must be positive, got {spread}.")
        kernel = ordered(right.shape, numbers.rhs_spec)[2:]
        padding = padtype_to_pads(
            ordered(left.shape, numbers.lhs_spec)[2:],
            list(map(dilated, kernel, spread)),
            strides,
            padding,
        )
    pairs = check_pairs("conv_general_dilated", padding, None)
    preferred = (
        None
        if preferred_element_type is None
        else dtypes.check_user_dtype(preferred_element_type, "conv_general_dilated")
    )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=pairs,
        lhs_dilation=base,
        rhs_dilation=spread,
        dimension_numbers=numbers,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonical_precision(precision),
        preferred_element_type=preferred,
        out_sharding=canonical_out_sharding(out_sharding, "conv_general_dilated", left.ndim),
    )


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolution of (batch, features, space...) with (output features, input features, space...).

    Args:
        lhs: the input, `(batch, features, ...)`.
        rhs: the kernel, `(out, in, ...)`.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((5, 3, 3, 3)), (2, 2), "SAME").shape
        (1, 5, 4, 4)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`conv` with explicit padding and dilations.

    Args:
        lhs: the input, `(batch, features, ...)`.
        rhs: the kernel, `(out, in, ...)`.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.
        lhs_dilation: how far apart elements of each operand are set, along each spatial dimension.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# -- transposed convolution ---------------------------------------------------------------------------------


def _transposed_padding(k: int, s: int, padding) -> tuple[int, int]:
    """Padding of a convolution over an input spread by `s` that undoes one with 'SAME' or 'VALID' padding."""
    if padding == "SAME":
        total = k + s - 2
        low = k - 1 if s > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total = k + s - 2 + max(k - s, 0)
        low = k - 1
    else:
        raise ValueError(_NO_STRING)
    return low, total - low


_DEFAULT_NUMBERS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolution over an input spread out by `strides`: what a strided convolution does to cotangents.

    Args:
        lhs, rhs: input and kernel; by default batch, space, features and space, input features, output features.
        strides: factors by which space grows.
        padding: 'SAME', 'VALID', or (low, high) per spatial dimension.
        rhs_dilation: distances between neighbors in the kernel.
        dimension_numbers: see `conv_dimension_numbers`.
        transpose_kernel: mirror the kernel and exchange its features, which makes it the transpose of `conv`.
        precision, preferred_element_type: as for `conv_general_dilated`.
        use_consistent_padding: whether explicit padding is that of the convolution that is transposed.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.conv_transpose(jnp.ones((1, 4, 4, 3)), jnp.ones((3, 3, 3, 5)), (2, 2), "SAME").shape
        (1, 8, 8, 5)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if left.ndim != right.ndim:
        raise TypeError(
            f"conv_transpose requires lhs and rhs ndim to be equal, got {left} and {right}"
        )
    if dimension_numbers is None:
        if left.ndim not in _DEFAULT_NUMBERS:
            raise ValueError(
                f"No 4+ dimensional dimension_number defaults: say which of the {left.ndim} dimensions is which."
            )
        dimension_numbers = _DEFAULT_NUMBERS[left.ndim]
    numbers = conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    kernel = ordered(right.shape, numbers.rhs_spec)[2:]
    reach = [
        dilated(k, d)
        for k, d in zip(kernel, (1,) * len(kernel) if rhs_dilation is None else rhs_dilation)
    ]
    if isinstance(padding, str):
        padding = [_transposed_padding(k, s, padding) for k, s in zip(reach, strides)]
    elif use_consistent_padding:
        padding = [(k - 1 - lo, k - 1 - hi) for k, (lo, hi) in zip(reach, padding)]
    if transpose_kernel:
        for axis in numbers.rhs_spec[2:]:
            rhs = rev(rhs, (axis,))
        order = list(range(right.ndim))
        one, two = numbers.rhs_spec[:2]
        order[one], order[two] = two, one
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(kernel),
        padding,
        strides,
        rhs_dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# -- patches, kernels that differ from place to place -------------------------------------------------------


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """What each window of a convolution sees, as features: per input feature, the window's elements in order.

    Args:
        lhs: an array.
        filter_shape: shape of a patch.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.
        lhs_dilation: how far apart elements of each operand are set, along each spatial dimension.
        dimension_numbers: which dimension is which.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.conv_general_dilated_patches(jnp.ones((1, 3, 8, 8)), (2, 2), (1, 1), "VALID").shape
        (1, 12, 7, 7)
    """
    aval = aval_of(lhs)
    filter_shape = dim_indices(filter_shape)
    numbers = conv_dimension_numbers(aval.shape, (1, 1, *filter_shape), dimension_numbers)
    size = math.prod(filter_shape)
    features = aval.shape[numbers.lhs_spec[1]]
    eye = np.eye(size, dtype=aval.dtype)
    rhs = reshape(
        broadcast_in_dim(eye, (features, size, size), (1, 2)), (features * size, 1, *filter_shape)
    )
    rhs = transpose(rhs, in_spec_order(range(len(numbers.rhs_spec)), numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        features,
        precision=None if precision is None else (precision, "default"),
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: PrecisionLike | None = None,
) -> Array:
    """Convolution with a separate kernel at every output position.

    Args:
        lhs: input.
        rhs: kernels: output features, the elements of a window over all input features, and the result's spatial dimensions.
        filter_shape: sizes of the window.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision: as for `conv_general_dilated`.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import lax
        >>> lax.conv_general_dilated_local(jnp.ones((1, 3, 8)), jnp.ones((5, 6, 7)), (1,), "VALID", (2,)).shape
        (1, 5, 7)
    """
    numbers = conv_dimension_numbers(aval_of(lhs).shape, aval_of(rhs).shape, dimension_numbers)
    pair = canonical_precision(precision)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        ConvDimensionNumbers(numbers.lhs_spec, numbers.rhs_spec, numbers.lhs_spec),
        None if pair is None else pair[0],
    )
    left, right = numbers.lhs_spec, numbers.rhs_spec
    out = dot_general(
        patches, rhs, (((left[1],), (right[1],)), (left[2:], right[2:])), precision=pair
    )
    n = len(left) - 2
    return transpose(out, in_spec_order((n, n + 1, *range(n)), numbers.out_spec))


# -- shapes -------------------------------------------------------------------------------------------------


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of (batch, features, space...) with (output features, input features, space...).

    Args:
        lhs_shape, rhs_shape: shapes of the operands, `(batch, features, ...)` and `(out, in, ...)`.
        strides: steps of the window.
        pads: padding of each spatial dimension.
        batch_group_count: into how many groups the batch is divided.
    """
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got {len(pads)}."
        )
    if lhs_shape[0] % batch_group_count:
        raise ValueError(
            f"batch_group_count {batch_group_count} must divide the batch, {lhs_shape[0]}"
        )
    counts = window_counts(lhs_shape[2:], rhs_shape[2:], strides, pads)
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *counts)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a convolution with dimension numbers in three strings.

    Args:
        lhs_shape, rhs_shape: shapes of the operands.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.
        dimension_numbers: which dimension is which.
    """
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    return in_spec_order(
        conv_shape_tuple(
            ordered(lhs_shape, lhs_spec), ordered(rhs_shape, rhs_spec), window_strides, padding
        ),
        out_spec,
    )


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a `conv_transpose` with dimension numbers in three strings.

    Args:
        lhs_shape, rhs_shape: shapes of the operands.
        window_strides: steps of the window along each spatial dimension.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or a pair of numbers for each spatial dimension.
        dimension_numbers: which dimension is which.

    Example:
        >>> conv_transpose_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (2, 2), "VALID", ("NHWC", "HWIO", "NCHW"))
        (2, 4, 17, 19)
    """
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    (n, _, *space), (o, _, *kernel) = ordered(lhs_shape, lhs_spec), ordered(rhs_shape, rhs_spec)
    if isinstance(padding, str):
        padding = [_transposed_padding(k, s, padding) for k, s in zip(kernel, window_strides)]
    return in_spec_order(
        (n, o, *window_counts(space, kernel, (1,) * len(kernel), padding, window_strides)), out_spec
    )
