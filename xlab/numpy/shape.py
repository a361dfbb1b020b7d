"""Shapes: reshaping, moving and adding axes, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, dim_index
from xlab.core.source_info import warn
from xlab.core.typing import Array, ArrayLike, AxisLike, ShapeLike, ShardingLike
from xlab.errors import InconclusiveDimensionOperation
from xlab.lax.reshard import reshard
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import check, kind_of, known_axis, ndim_of, numbers, shape_of, spread_to
from xlab.numpy.reductions import axes_of

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims",
           "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "resize", "rollaxis", "shape", "size",
           "squeeze", "swapaxes", "transpose"]  # fmt: skip

broadcast_shapes = lax.broadcast_shapes


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The shape of an array.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.shape(jnp.ones((2, 3)))
        (2, 3)
    """
    return _shape_of("shape", a)


def ndim(a: ArrayLike) -> int:
    """The number of dimensions of an array.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ndim(1.0)
        0
    """
    return len(_shape_of("ndim", a))


def size(a: ArrayLike, axis: AxisLike | None = None) -> int:
    """The number of elements of an array, or along axes.

    Args:
        a: an array.
        axis: the axes to count; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.size(jnp.ones((2, 3)), 1)
        3
    """
    dims = _shape_of("size", a)
    return math.prod(dims[i] for i in axes_of("size", axis, len(dims)))


def _shape_of(name, x):
    if kind_of(x) is None and hasattr(x, "shape"):
        return tuple(x.shape)
    if x is None:
        warn(f"{name}(None) will be an error: None is no array, pass one", DeprecationWarning)
        return ()
    if isinstance(x, (list, tuple)):
        warn(
            f"{name} of a list or tuple will be an error: pass xlab.numpy.asarray(x)",
            DeprecationWarning,
        )
        return as_array(x).shape
    return shape_of(*check(name, x))


# -- reshaping --------------------------------------------------------------------------------------------


def _check_divides(shape, sizes, total, known) -> None:
    if known == 0 or total % known != 0:
        raise InconclusiveDimensionOperation(
            f"Cannot divide evenly the sizes of shapes {shape} and {sizes}: the known sizes have the product {known}, and the remainder "
            f"of {total} by it is not 0 for all values of the dimension variables. Say so where it is, as in "
            f"symbolic_shape(..., constraints=['mod({total}, {known}) == 0'])."
        )


def new_shape(a, sizes) -> tuple[int, ...]:
    """Sizes with the one unknown (-1) worked out."""
    total = math.prod(shape_of(a))
    try:
        sizes = (dim_index(sizes),)
    except TypeError:
        try:
            sizes = tuple(dim_index(d) for d in sizes)
        except TypeError:
            raise TypeError(
                f"Shapes must be 1D sequences of concrete values of integer type, got {sizes!r}. Sizes must be "
                f"known while tracing: use Python ints or a static argument."
            ) from None
    unknown = [i for i, d in enumerate(sizes) if d == -1]
    if len(unknown) > 1:
        raise TypeError(f"reshape can only have one unknown size (-1), got {sizes}")
    if unknown:
        known = math.prod(d for d in sizes if d != -1)
        if isinstance(total, SymbolicDim) or isinstance(known, SymbolicDim):
            _check_divides(shape_of(a), sizes, total, known)
        elif not known or total % known:
            raise TypeError(
                f"cannot reshape array of shape {shape_of(a)} (size {total}) into shape {sizes}: the product of "
                f"the known sizes ({known}) does not divide {total}"
            )
        sizes = tuple(total // known if d == -1 else d for d in sizes)
    if any(d < 0 for d in sizes) or math.prod(sizes) != total:
        raise TypeError(
            f"cannot reshape array of shape {shape_of(a)} (size {total}) into shape {sizes} "
            f"(size {math.prod(sizes)})"
        )
    return sizes


def reshape(
    a: ArrayLike,
    shape: ShapeLike,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """The elements under another shape; one size may be -1.

    A NumPy array stays one, of the same dtype: inside `jit` its elements are still known while the program is traced.

    Args:
        a: an array.
        shape: the new shape; one entry may be -1.
        order: 'C' or 'F': whether the last or the first index varies fastest; 'A' for NumPy arrays alone.
        copy: True or None, without effect on arrays; False is not available, since arrays have no views.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import numpy as np, xlab.numpy as jnp
        >>> jnp.reshape(jnp.arange(6), (2, -1)).shape
        (2, 3)
        >>> jnp.reshape(np.ones(2), (2, 1))
        array([[1.],
               [1.]])
    """
    (a,) = check("reshape", a)
    if copy is False:
        raise NotImplementedError("reshape: copy=False is not available; arrays have no views")
    sizes = new_shape(a, shape)
    if isinstance(a, (np.ndarray, np.generic)) and out_sharding is None:
        found = a.reshape(sizes, order=order or "C")
        return found.copy() if copy else found
    if order in ("C", None):
        return lax.reshape(as_array(a), sizes, out_sharding=out_sharding)
    if out_sharding is not None:
        return reshard(reshape(a, sizes, order), out_sharding)
    if order == "F":
        n = ndim_of(a)
        flipped = lax.reshape(lax.transpose(as_array(a), range(n)[::-1]), sizes[::-1])
        return lax.transpose(flipped, range(len(sizes))[::-1])
    if order == "A":
        raise NotImplementedError(
            "reshape: order='A' needs strides, which arrays do not have; use 'C' or 'F'"
        )
    raise ValueError(f"reshape: order must be 'C' or 'F', got {order!r}")


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: ShardingLike | None = None) -> Array:
    """The elements as a vector.

    Args:
        a: an array.
        order: 'C' or 'F': whether the last or the first index varies fastest.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ravel(jnp.ones((2, 3))).shape
        (6,)
    """
    (a,) = check("ravel", a)
    if order == "K":
        raise NotImplementedError(
            "ravel: order='K' needs strides, which arrays do not have; use 'C' or 'F'"
        )
    return reshape(as_array(a), (math.prod(shape_of(a)),), order, out_sharding=out_sharding)


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """The elements repeated or cut to fill a shape.

    Args:
        a: an array.
        new_shape: the new shape.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.resize(jnp.arange(2), (5,))
        Array([0, 1, 0, 1, 0], dtype=int32)
    """
    (a,) = check("resize", a)
    sizes = numbers(new_shape)
    if any(d < 0 for d in sizes):
        raise ValueError(f"all elements of new_shape must be non-negative, got {sizes}")
    return _resize(a, sizes=sizes)


@jit_when_eager(static="sizes")
def _resize(a, sizes):
    flat, wanted = ravel(a), math.prod(sizes)
    n = shape_of(flat)[0]
    if not n or not wanted:
        return lax.full(sizes, 0, aval_of(a).dtype)
    times = -(-wanted // n)
    flat = lax.reshape(lax.broadcast_in_dim(flat, (times, n), (1,)), (times * n,))
    return lax.reshape(lax.slice(flat, (0,), (wanted,)), sizes)


def expand_dims(a: ArrayLike, axis: AxisLike) -> Array:
    """The array with new dimensions of size 1 at the given places of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.expand_dims(jnp.ones(3), (0, 2)).shape
        (1, 3, 1)
    """
    (a,) = check("expand_dims", a)
    known_axis(axis, "expand_dims")
    return lax.expand_dims(as_array(a), numbers(axis))


def squeeze(a: ArrayLike, axis: AxisLike | None = None) -> Array:
    """The array without dimensions of size 1: all of them, or the given ones.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
        (3,)
    """
    (a,) = check("squeeze", a)
    if axis is None:
        axis = tuple(i for i, d in enumerate(shape_of(a)) if d == 1)
    return lax.squeeze(as_array(a), axes_of("squeeze", axis, ndim_of(a)))


def _atleast(n, place, *arys):
    out = []
    for a in arys:
        a = as_array(*check(f"atleast_{n}d", a))
        out.append(place(a) if a.ndim < n else a)
    return out[0] if len(out) == 1 else out


def atleast_1d(*arys: ArrayLike) -> Array | list[Array]:
    """Arrays with at least one dimension.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.atleast_1d(1.0).shape
        (1,)
    """
    return _atleast(1, lambda a: lax.expand_dims(a, (0,)), *arys)


def atleast_2d(*arys: ArrayLike) -> Array | list[Array]:
    """Arrays with at least two dimensions, new ones in front.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.atleast_2d(jnp.ones(3)).shape
        (1, 3)
    """
    return _atleast(2, lambda a: lax.expand_dims(a, range(2 - a.ndim)), *arys)


def atleast_3d(*arys: ArrayLike) -> Array | list[Array]:
    """Arrays with at least three dimensions: vectors become `(1, n, 1)`, matrices `(m, n, 1)`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.atleast_3d(jnp.ones((2, 3))).shape
        (2, 3, 1)
    """
    return _atleast(3, lambda a: lax.expand_dims(a, ((0, 1, 2), (0, 2), (2,))[a.ndim]), *arys)


# -- order of axes ----------------------------------------------------------------------------------------


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The array with its axes reversed, or in the given order.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.transpose(jnp.ones((2, 3, 4)), (0, 2, 1)).shape
        (2, 4, 3)
    """
    (a,) = check("transpose", a)
    n = ndim_of(a)
    if axes is None:
        return lax.transpose(as_array(a), tuple(range(n))[::-1])
    axes = tuple(canonical_axis(i, n) for i in axes)
    return lax.transpose(as_array(a), axes)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """As `transpose` with the axes given.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.permute_dims(jnp.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    if axes is None:
        raise TypeError("permute_dims needs the order of the axes; transpose(a) reverses it")
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The array with its last two axes exchanged.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.matrix_transpose(jnp.ones((2, 3, 4))).shape
        (2, 4, 3)
    """
    if ndim_of(*check("matrix_transpose", x)) < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={ndim_of(x)}"
        )
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """The array with two axes exchanged.

    Args:
        a: an array.
        axis1: the two axes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.swapaxes(jnp.ones((2, 3)), 0, 1).shape
        (3, 2)
    """
    (a,) = check("swapaxes", a)
    perm = list(range(ndim_of(a)))
    i, j = canonical_axis(axis1, len(perm)), canonical_axis(axis2, len(perm))
    perm[i], perm[j] = perm[j], perm[i]
    return lax.transpose(as_array(a), perm)


def moveaxis(a: ArrayLike, source: AxisLike, destination: AxisLike) -> Array:
    """The array with axes moved to other places, the rest in order.

    Args:
        a: an array.
        source, destination: where the axes are, and where they go.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    (a,) = check("moveaxis", a)
    n = ndim_of(a)
    source, destination = axes_of("moveaxis", source, n), axes_of("moveaxis", destination, n)
    if len(source) != len(destination):
        raise ValueError(
            f"moveaxis needs as many sources as destinations, got {len(source)} and {len(destination)}"
        )
    perm = [i for i in range(n) if i not in source]
    for target, origin in sorted(zip(destination, source)):
        perm.insert(target, origin)
    return lax.transpose(as_array(a), perm)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """The array with one axis moved back until it stands at `start`.

    Args:
        a: an array.
        axis: the axis to move.
        start: the axis it is put before.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    (a,) = check("rollaxis", a)
    n = ndim_of(a)
    if not -n <= start <= n:
        raise ValueError(f"start={start} must satisfy {-n}<=start<={n}")
    axis, start = canonical_axis(axis, n), start + n if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


# -- broadcasting -----------------------------------------------------------------------------------------


def broadcast_to(
    array: ArrayLike, shape: ShapeLike, *, out_sharding: ShardingLike | None = None
) -> Array:
    """The array spread over a shape.

    Args:
        array: an array.
        shape: the shape of the result.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.broadcast_to(jnp.arange(2), (3, 2)).shape
        (3, 2)
    """
    (array,) = check("broadcast_to", array)
    sizes = numbers(shape)
    if out_sharding is not None and ndim_of(array) <= len(sizes):
        return lax.broadcast_in_dim(
            as_array(array),
            sizes,
            range(len(sizes) - ndim_of(array), len(sizes)),
            out_sharding=out_sharding,
        )
    return as_array(spread_to(array, sizes))


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays spread over their common shape.

    Example:
        >>> import xlab.numpy as jnp
        >>> [a.shape for a in jnp.broadcast_arrays(jnp.ones(3), jnp.ones((2, 1)))]
        [(2, 3), (2, 3)]
    """
    args = check("broadcast_arrays", *args)
    common = broadcast_shapes(*map(shape_of, args))
    return [as_array(spread_to(a, common)) for a in args]
