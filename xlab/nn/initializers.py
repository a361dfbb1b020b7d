"""Initial values of weights: functions that make functions `(key, shape, dtype) -> array`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from xlab import lax, numpy, random
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike, ShardingLike

__all__ = ["Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "kaiming_normal",
           "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform",
           "variance_scaling", "xavier_normal", "xavier_uniform", "zeros"]  # fmt: skip

# Standard deviation of a standard normal number that is known to lie in (-2, 2).
_TRUNCATED_DEVIATION = 0.87962566103423978
# What JAX divides by for complex ones: the root of the part of the variance that numbers within two deviations have.
_TRUNCATED_COMPLEX_DEVIATION = math.sqrt(1 - 5 * math.exp(-4))


class Initializer(Protocol):
    """What an initializer is: a function from key, shape and dtype to an array."""

    def __call__(self, key, shape, dtype=None, out_sharding=None): ...


def _dtype(dtype):
    return dtypes.canonicalize_dtype(float if dtype is None else dtype)


def _scaled(x, factor):
    return lax.mul(x, np.asarray(factor).astype(aval_of(x).dtype)[()])


def _filled(shape, value, dtype, out_sharding):
    out = lax.full(shape, value, _dtype(dtype))
    return out if out_sharding is None else lax.with_sharding_constraint(out, out_sharding)


def zeros(
    key: Array,
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array of zeros; the key is not used.

    Args:
        key: not looked at.
        shape: shape of the result.
        dtype: its dtype, float32 by default.
        out_sharding: where the result goes.

    Example:
        >>> import xlab
        >>> xlab.nn.initializers.zeros(xlab.random.key(0), (2, 3)).shape
        (2, 3)
    """
    return _filled(shape, 0, dtype, out_sharding)


def ones(
    key: Array,
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """An array of ones; the key is not used.

    Args:
        key: not looked at.
        shape: shape of the result.
        dtype: its dtype, float32 by default.
        out_sharding: where the result goes.
    """
    return _filled(shape, 1, dtype, out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Makes an initializer that fills arrays with one value."""

    def init(key, shape, dtype=dtype, out_sharding=None):
        return _filled(shape, value, dtype, out_sharding)

    return init


def uniform(scale: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """Makes an initializer that draws uniform numbers in [0, scale).

    Example:
        >>> import xlab
        >>> init = xlab.nn.initializers.uniform(10.0)
        >>> init(xlab.random.key(0), (2, 3), "bfloat16").dtype
        dtype(bfloat16)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        return _scaled(random.uniform(key, shape, _dtype(dtype), out_sharding=out_sharding), scale)

    return init


def normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """Makes an initializer that draws normal numbers with mean 0 and the given standard deviation."""

    def init(key, shape, dtype=dtype, out_sharding=None):
        return _scaled(random.normal(key, shape, _dtype(dtype), out_sharding=out_sharding), stddev)

    return init


def truncated_normal(
    stddev: ArrayLike = 0.01,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """Makes an initializer that draws normal numbers between `lower` and `upper`, then scales them by `stddev`.

    Args:
        stddev: the deviation before it is cut off.
        dtype: the default dtype of results, float32.
        lower, upper: where it is cut off, in deviations.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        return _scaled(
            random.truncated_normal(
                key, lower, upper, shape, _dtype(dtype), out_sharding=out_sharding
            ),
            stddev,
        )

    return init


def _product(shape, axes) -> int:
    return math.prod(shape[a] for a in ((axes,) if isinstance(axes, int) else axes))


def _fans(shape, in_axis, out_axis, batch_axis) -> tuple[float, float]:
    """How many inputs each output sees, and how many outputs each input feeds."""
    if len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor: weights of "
            f"shape {tuple(shape)} need at least two dimensions, or use normal(stddev) and the like"
        )
    inputs, outputs, batch = (_product(shape, a) for a in (in_axis, out_axis, batch_axis))
    field = math.prod(shape) / inputs / outputs / batch
    return inputs * field, outputs * field


_FANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}


def variance_scaling(
    scale: ArrayLike,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Makes an initializer with mean 0 and variance `scale / fan`, so that layers keep the size of signals.

    Args:
        scale: numerator of the variance.
        mode: which fan: of inputs, of outputs, or their mean.
        distribution: what to draw from.
        in_axis, out_axis, batch_axis: dimensions of inputs, of outputs, and those ignored; the others are a window.
        dtype: default dtype of the arrays.

    Example:
        >>> import xlab
        >>> init = xlab.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
        >>> w = init(xlab.random.key(0), (400, 200))
        >>> bool(abs(w.std() - (2 / 400) ** 0.5) < 1e-3)
        True
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        if mode not in _FANS:
            raise ValueError(
                f"invalid mode for variance scaling initializer: {mode!r}; modes are {', '.join(_FANS)}"
            )
        if distribution not in ("truncated_normal", "normal", "uniform"):
            raise ValueError(
                f"invalid distribution for variance scaling initializer: {distribution!r}; distributions are "
                f"truncated_normal, normal, uniform"
            )
        dtype = _dtype(dtype)
        fan = _FANS[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        part = np.zeros((), dtype).real.dtype
        variance = np.asarray(scale / fan).astype(part)
        if distribution == "normal":
            return _scaled(
                random.normal(key, shape, dtype, out_sharding=out_sharding), np.sqrt(variance)
            )
        if dtypes.issubdtype(dtype, np.complexfloating):
            x, deviation = _in_disk(key, shape, part, distribution, out_sharding)
            return _scaled(x, np.sqrt(variance) / np.asarray(deviation).astype(part))
        if distribution == "uniform":
            x = random.uniform(key, shape, dtype, minval=-1.0, out_sharding=out_sharding)
            return _scaled(x, np.sqrt(np.asarray(3).astype(part) * variance))
        x = random.truncated_normal(key, -2.0, 2.0, shape, dtype, out_sharding=out_sharding)
        return _scaled(x, np.sqrt(variance) / np.asarray(_TRUNCATED_DEVIATION).astype(part))

    return init


def _in_disk(key, shape, part, distribution: str, out_sharding) -> tuple[Any, float]:
    """Complex numbers in a disk, by their squared radius and their angle, and what `scale` is divided by for each distribution.

    Uniform in the unit disk, or normal (a squared radius of exponential distribution) within two deviations of zero.
    """
    for_radius, for_angle = random.split(key)
    draw = lambda key: random.uniform(key, shape, part, out_sharding=out_sharding)
    if distribution == "uniform":
        square, deviation = draw(for_radius), math.sqrt(0.5)
    else:
        within = np.asarray(1 - np.exp(-4.0)).astype(part)
        square, deviation = -numpy.log(1 - within * draw(for_radius)), _TRUNCATED_COMPLEX_DEVIATION
    angle = np.asarray(2 * np.pi).astype(part) * draw(for_angle)
    return numpy.sqrt(square) * numpy.exp(1j * angle), deviation


def _family(name: str, scale: float, mode: str, distribution: str, text: str, source: str):
    def make(
        in_axis: int | Sequence[int] = -2,
        out_axis: int | Sequence[int] = -1,
        batch_axis: int | Sequence[int] = (),
        dtype: DTypeLike | None = None,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Makes {text}: `variance_scaling({scale}, {mode!r}, {distribution!r})`.

    Args:
        in_axis: the axes of inputs in the shape of the weights.
        out_axis: the axes of outputs.
        batch_axis: the axes that are neither.
        dtype: default dtype of the arrays.

    Source:
        {source}

    Example:
        >>> import xlab
        >>> xlab.nn.initializers.{name}()(xlab.random.key(0), (2, 3)).shape
        (2, 3)
    """
    return make


glorot_uniform = xavier_uniform = _family(
    "glorot_uniform",
    1.0,
    "fan_avg",
    "uniform",
    "Glorot's uniform initializer",
    "Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward networks.",
)
glorot_normal = xavier_normal = _family(
    "glorot_normal",
    1.0,
    "fan_avg",
    "truncated_normal",
    "Glorot's normal initializer",
    "Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward networks.",
)
lecun_uniform = _family(
    "lecun_uniform",
    1.0,
    "fan_in",
    "uniform",
    "LeCun's uniform initializer",
    "LeCun, Bottou, Orr and Mueller (1998), Efficient BackProp.",
)
lecun_normal = _family(
    "lecun_normal",
    1.0,
    "fan_in",
    "truncated_normal",
    "LeCun's normal initializer",
    "LeCun, Bottou, Orr and Mueller (1998), Efficient BackProp.",
)
he_uniform = kaiming_uniform = _family(
    "he_uniform",
    2.0,
    "fan_in",
    "uniform",
    "He's uniform initializer",
    "He, Zhang, Ren and Sun (2015), Delving deep into rectifiers.",
)
he_normal = kaiming_normal = _family(
    "he_normal",
    2.0,
    "fan_in",
    "truncated_normal",
    "He's normal initializer",
    "He, Zhang, Ren and Sun (2015), Delving deep into rectifiers.",
)


def _moved(x, source: int, target: int):
    """One axis of a matrix-like shape put elsewhere, the others in order."""
    ndim = aval_of(x).ndim
    axes = list(range(ndim))
    axes.insert(target % ndim, axes.pop(source % ndim))
    return lax.transpose(x, axes)


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Makes an initializer that draws orthogonal matrices, every one equally likely, times `scale`.

    Args:
        scale: factor.
        column_axis: the axis whose slices are columns; the others together make the rows.
        dtype: default dtype.

    Example:
        >>> import numpy as np, xlab
        >>> w = xlab.nn.initializers.orthogonal()(xlab.random.key(0), (4, 2))
        >>> bool(abs(w.T @ w - np.eye(2)).max() < 1e-5)
        True
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        shape = tuple(shape)
        if len(shape) < 2:
            raise ValueError(f"orthogonal initializer requires at least a 2D shape, got {shape}")
        columns = shape[column_axis]
        rows = math.prod(shape) // columns if columns else 0
        q = random.orthogonal(key, rows, (), _dtype(dtype), columns)
        rest = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        out = _scaled(_moved(lax.reshape(q, (*rest, columns)), -1, column_axis), scale)
        return out if out_sharding is None else lax.with_sharding_constraint(out, out_sharding)

    return init


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Makes an initializer for convolutions that keep lengths: an orthogonal matrix at the kernel's center, zeros around it.

    Args:
        scale: factor.
        column_axis: as in `orthogonal`.
        dtype: default dtype.

    Example:
        >>> import xlab
        >>> w = xlab.nn.initializers.delta_orthogonal()(xlab.random.key(0), (3, 3, 2, 2))
        >>> bool((w[0] == 0).all()), bool((w[1, 1] != 0).any())
        (True, True)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        shape = tuple(shape)
        if len(shape) not in (3, 4, 5):
            raise ValueError(
                f"Delta orthogonal initializer requires a 3D, 4D or 5D shape, got {shape}."
            )
        if shape[-1] < shape[-2]:
            raise ValueError(
                f"`fan_in` must be less or equal than `fan_out`, got {shape[-2]} and {shape[-1]} in shape {shape}."
            )
        center = orthogonal(scale, column_axis)(key, shape[-2:], _dtype(dtype))
        around = [((n - 1) // 2, n - 1 - (n - 1) // 2, 0) for n in shape[:-2]]
        spread = lax.reshape(center, (*(1,) * (len(shape) - 2), *shape[-2:]))
        out = lax.pad(
            spread, np.zeros((), aval_of(center).dtype)[()], (*around, (0, 0, 0), (0, 0, 0))
        )
        return out if out_sharding is None else lax.with_sharding_constraint(out, out_sharding)

    return init
