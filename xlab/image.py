"""Images of other sizes: `resize`, `scale_and_translate`.

Example:
    >>> import xlab.numpy as jnp
    >>> resize(jnp.array([0., 2.]), (4,), "linear").tolist()
    [0.0, 0.5, 1.5, 2.0]
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.dims import dim_indices
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How values between the pixels are found."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name: nearest, linear (bilinear, trilinear, triangle), cubic (bicubic), lanczos3, lanczos5 ..."""
        found = _NAMES.get(s)
        if found is None:
            raise ValueError(f"Unknown resize method {s!r}: choose one of {', '.join(_NAMES)}")
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
}


def resize(
    image,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision=lax.Precision.HIGHEST,
):
    """The image in another shape; the corners of the first pixel and of the last one stay where they are.

    Args:
        image: an array; every dimension whose size changes is resized.
        shape: the new shape, of the same rank.
        method: a `ResizeMethod` or its name.
        antialias: whether shrinking averages over the pixels in between.
        precision: of the products, see `xlab.lax.Precision`.
    """
    method = ResizeMethod.from_string(method) if isinstance(method, str) else method
    image = as_array(image)
    shape = dim_indices(shape)
    if len(shape) != image.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of image; {shape} vs {image.shape}"
        )
    if method == ResizeMethod.NEAREST:
        for axis, (old, new) in enumerate(zip(image.shape, shape)):
            if old != new:
                image = jnp.take(image, _nearest(old, new), axis=axis)
        return image
    image = as_array(*promoted_inexact("resize", image))
    axes = [i for i, (old, new) in enumerate(zip(image.shape, shape)) if old != new]
    scale = [shape[i] / image.shape[i] for i in axes]
    return _scaled(
        image, shape, axes, scale, [0.0] * len(axes), _kernel(method), antialias, precision
    )


def _nearest(old, new):
    """The position of the pixel nearest to each of the new ones."""
    known = isinstance(old, int) and isinstance(new, int)
    xnp = np if known else jnp
    ratio = np.float32(old / new) if known else jnp.asarray(old / new, np.float32)
    places = xnp.floor((xnp.arange(new).astype(np.float32) + np.float32(0.5)) * ratio)
    return xnp.minimum(places.astype(np.int32), old - 1)


def scale_and_translate(
    image,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale,
    translation,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision=lax.Precision.HIGHEST,
):
    """The image with pixel `x` of each of some dimensions at `x * scale + translation`; zeros where nothing comes to lie.

    Args:
        image: an array.
        shape: the shape of the result.
        spatial_dims: the dimensions to move.
        scale, translation: a number for each of them, which may be traced.
        method, antialias, precision: as for `resize`; not "nearest".
    """
    method = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if method == ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for scale_and_translate."
        )
    image = as_array(*promoted_inexact("scale_and_translate", image))
    shape = dim_indices(shape)
    if len(shape) != image.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of image; {shape} vs {image.shape}"
        )
    axes = [d % image.ndim for d in spatial_dims]
    scale, translation = (
        as_array(*promoted_inexact("scale_and_translate", v)) for v in (scale, translation)
    )
    return _scaled(
        image,
        shape,
        axes,
        [scale[i] for i in range(len(axes))],
        [translation[i] for i in range(len(axes))],
        _kernel(method),
        antialias,
        precision,
    )


def _scaled(image, shape, axes, scale, translation, kernel, antialias, precision):
    for axis, factor, shift in zip(axes, scale, translation, strict=True):
        weights = _weights(image.shape[axis], shape[axis], factor, shift, kernel, antialias).astype(
            image.dtype
        )
        image = jnp.moveaxis(
            jnp.tensordot(image, weights, ((axis,), (0,)), precision=precision), -1, axis
        )
    return image


def _weights(old: int, new: int, scale, shift, kernel: Callable, antialias: bool):
    """How much every old pixel gives to every new one, as a matrix."""
    inverse = 1 / scale
    width = jnp.maximum(inverse, 1) if antialias else 1
    middle = (jnp.arange(new) + 0.5) * inverse - shift * inverse - 0.5
    weights = kernel(jnp.abs(middle[None] - jnp.arange(old)[:, None]) / width)
    total = weights.sum(0, keepdims=True)
    weights = jnp.where(
        jnp.abs(total) > 1000 * float(np.finfo(np.float32).eps),
        weights / jnp.where(total != 0, total, 1),
        0,
    )
    return jnp.where((middle >= -0.5) & (middle <= old - 0.5), weights, 0)


def _kernel(method: ResizeMethod) -> Callable:
    found = _KERNELS.get(method)
    if found is None:
        raise ValueError(
            f"the method {method} is not available: choose nearest, linear, cubic, lanczos3 or lanczos5"
        )
    return found


def _triangle(x):
    return jnp.maximum(0, 1 - x)


def _cubic(slope: float):
    """Keys' cubic, with that slope at distance 1."""

    def kernel(x):
        near = ((slope + 2) * x - (slope + 3)) * x * x + 1
        far = ((slope * x - 5 * slope) * x + 8 * slope) * x - 4 * slope
        return jnp.where(x < 1, near, jnp.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: float):
    def kernel(x):
        product = radius * jnp.sin(math.pi * x) * jnp.sin(math.pi * x / radius)
        out = jnp.where(x > 1e-3, product / jnp.where(x != 0, math.pi**2 * x**2, 1), 1)
        return jnp.where(x > radius, 0, out)

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
}
