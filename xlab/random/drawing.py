"""Shared by distributions: checking arguments, and drawing as one program.

A distribution is a public function, which checks and completes its arguments, and a core function `(key, *static, *arrays)`
decorated with `drawn`: called eagerly it runs as one compiled program on the words of the key, called while something is
traced it is plain Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab.backend import caches
from xlab.compile import runtime_checks
from xlab.compile.jit import jit
from xlab.config import config
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import aval_of
from xlab.core.trace import EVAL, state
from xlab.lax.elementwise import convert_on_host
from xlab.lax.reshard import reshard
from xlab.lax.shape import canonical_shape
from xlab.random.bits import random_split_p, random_wrap_p
from xlab.sharding import NamedSharding, PartitionSpec, get_abstract_mesh
from xlab.sharding.typed import is_nowhere

SQRT2 = np.sqrt(2)


def drawn(static: int):
    """Decorates a core function whose first `static` arguments after the key are Python values.

    It always runs as a program of its own: eager calls stay on the native path, and traced ones are one equation.
    """

    def decorate(fun: Callable):
        name = fun.__name__

        def on_words(impl, words, *args):
            return fun(random_wrap_p.bind(words, impl=impl), *args)

        compiled = jit(on_words, static_argnums=(0, *range(2, 2 + static)), name=name)

        @functools.lru_cache(maxsize=256)
        def staged(out_sharding):
            return jit(
                fun,
                static_argnums=tuple(range(1, 1 + static)),
                out_shardings=out_sharding,
                name=name,
            )

        caches.register(staged.cache_clear)

        @functools.wraps(fun)
        def call(key, *args, out_sharding=None):
            if is_nowhere(out_sharding):
                out_sharding = None
            if out_sharding is None and state.trace is EVAL and type(key) is KeyArray:
                if config.debug_key_reuse:
                    runtime_checks.use_key(name.lstrip("_"), key)
                return compiled(key.aval.dtype.impl, key.base, *args)
            out = staged(out_sharding)(key, *args)
            asked = isinstance(out_sharding, (PartitionSpec, NamedSharding))
            return (
                reshard(out, out_sharding)
                if asked and state.trace is not EVAL and get_abstract_mesh().explicit_axes
                else out
            )

        return call

    return decorate


def float_dtype(name: str, dtype, *, complexes: bool = False):
    """The floating dtype asked for, the default one for None."""
    if dtype is None:
        return dtypes.canonicalize_dtype(float)
    dtype = dtypes.check_user_dtype(dtype, name)
    if not dtypes.issubdtype(dtype, np.inexact if complexes else np.floating):
        kind = "a float or complex dtype" if complexes else "a float dtype"
        raise ValueError(f"dtype argument to `{name}` must be {kind}, got {dtypes.name(dtype)}")
    return dtype


def number_dtype(name: str, dtype, default):
    """The dtype asked for, the default one for None."""
    if dtype is None:
        return dtypes.canonicalize_dtype(default)
    return dtypes.check_user_dtype(dtype, name)


def int_dtype(name: str, dtype, default=int, error: type[Exception] = ValueError):
    """The integer dtype asked for, the default one for None."""
    dtype = number_dtype(name, dtype, default)
    if not dtypes.issubdtype(dtype, np.integer):
        raise error(f"{name} only accepts integer dtypes, got {dtypes.name(dtype)}")
    return dtype


def joint_shape(name: str, shape, /, **params) -> tuple[int, ...]:
    """The shape to draw: that of the named parameters together, or the given one, which they must broadcast to."""
    shapes = {param: aval_of(value).shape for param, value in params.items()}
    if shape is None:
        try:
            return lax.broadcast_shapes(*shapes.values())
        except ValueError as e:
            parts = ", ".join(f"{param} of shape {own}" for param, own in shapes.items())
            raise ValueError(
                f"{name} got {parts}: Incompatible shapes for broadcasting. Sizes have to be equal or 1; reshape one "
                f"of them"
            ) from e
    shape = canonical_shape(shape)
    for param, own in shapes.items():
        check_broadcasts(name, shape, param, own)
    return shape


def check_broadcasts(name: str, shape, param: str, own, error: type[Exception] = ValueError):
    """Raises unless a parameter of shape `own` broadcasts to the shape to draw."""
    try:
        fits = lax.broadcast_shapes(own, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise error(
            f"{name} got shape {shape}, which its parameter {param} of shape {own} does not broadcast to; the shape "
            f"includes the dimensions of the parameters. Give a number, or an array whose sizes are, from the last, "
            f"those of the shape or 1"
        )


def as_dtype(x, dtype):
    """A parameter in the dtype of the draw."""
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return convert_on_host(x, dtype)[()]
    if isinstance(x, np.ndarray):
        return convert_on_host(x, dtype)
    return lax.convert_element_type(x, dtype)


def to_rank(x, ndim: int):
    """The array with leading dimensions of size 1, so that it goes elementwise with arrays of that rank."""
    shape = aval_of(x).shape
    if len(shape) == ndim or (not shape and ndim == 0):
        return x
    return lax.broadcast_in_dim(
        x, (*(1,) * (ndim - len(shape)), *shape), range(ndim - len(shape), ndim)
    )


def to_shape(x, shape):
    """The array broadcast to a shape, by NumPy's rule."""
    own = aval_of(x).shape
    if own == tuple(shape):
        return x
    return lax.broadcast_in_dim(x, shape, range(len(shape) - len(own), len(shape)))


def where(which, yes, no):
    """Elementwise choice; the alternatives may be scalars."""
    shape = aval_of(which).shape
    dtype = dtypes.result_type(yes, no)
    yes, no = (to_shape(as_dtype(x, dtype), shape) for x in (yes, no))
    return lax.select(which, yes, no)


def keys_from(key, n: int = 2):
    """`n` new keys from one, as separate values."""
    keys = random_split_p.bind(key, shape=(n,))
    return [lax.squeeze(lax.slice(keys, (i,), (i + 1,), (1,)), (0,)) for i in range(n)]


def halves(x):
    """The two parts of an array along its first dimension, of size 2."""
    shape = aval_of(x).shape
    start = (0,) * (len(shape) - 1)
    return [lax.squeeze(lax.slice(x, (i, *start), (i + 1, *shape[1:])), (0,)) for i in range(2)]


def nextafter(x, up: bool):
    """The next representable number above or below each element."""
    dtype = aval_of(x).dtype
    return lax.nextafter(x, np.asarray(np.inf if up else -np.inf).astype(dtype)[()])
