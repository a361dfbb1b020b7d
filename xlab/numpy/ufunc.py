"""`ufunc`: functions of scalars as functions of arrays, with NumPy's methods; `frompyfunc` makes them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab.compile.jit import jit
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import ArrayLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.creation import full
from xlab.numpy.functional import vectorize
from xlab.numpy.grids import arange
from xlab.numpy.operands import check
from xlab.numpy.shape import broadcast_to, expand_dims, moveaxis, reshape
from xlab.transforms.make_jaxpr import eval_shape

__all__ = ["frompyfunc", "ufunc"]


def frompyfunc(
    func: Callable, /, nin: int, nout: int, *, identity: ArrayLike | None = None
) -> ufunc:
    """A function of scalars as one of arrays that broadcast, with NumPy's methods `reduce`, `accumulate`, `at`, `outer`, `reduceat`.

    Args:
        func: takes `nin` scalars and returns `nout`.
        identity: what a reduction of nothing gives, if there is such a value.

    Example:
        >>> import xlab.numpy as jnp
        >>> total = jnp.frompyfunc(lambda a, b: a + b, nin=2, nout=1, identity=0)
        >>> print(total(jnp.arange(3), 10), total.reduce(jnp.arange(4)), total.accumulate(jnp.arange(4)))
        [10 11 12] 6 [0 1 3 6]
    """
    return ufunc(func, operator.index(nin), operator.index(nout), identity=identity)


class _Kind(type):
    """`isinstance` knows the elementwise functions of `numpy` that have a ufunc's methods; they stay plain functions, quick to call."""

    def __instancecheck__(cls, x):
        return type.__instancecheck__(cls, x) or getattr(x, "is_ufunc", False) is True


class ufunc(metaclass=_Kind):
    """A function that works element by element, with the ways to apply it along an axis.

    Results have the dtype that the function gives on elements of the array, or `dtype`; one that cannot hold them is a TypeError.

    Example:
        >>> import xlab.numpy as jnp
        >>> times = jnp.frompyfunc(lambda a, b: a * b, 2, 1, identity=1)
        >>> print(times.outer(jnp.array([1, 2]), jnp.array([3, 4, 5])))
        [[ 3  4  5]
         [ 6  8 10]]
    """

    def __init__(
        self,
        func: Callable,
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        identity: ArrayLike | None = None,
    ):
        if not callable(func):
            raise TypeError(
                f"a ufunc is made of a function, got {func!r} of type {type(func).__name__}"
            )
        if nin < 0 or nout < 0:
            raise ValueError(
                f"a ufunc has a number of operands and results, got nin={nin}, nout={nout}"
            )
        self.func, self.nin, self.nout, self.nargs, self.identity = func, nin, nout, nin, identity
        self.__name__ = name or getattr(func, "__name__", type(func).__name__)
        self.__doc__ = func.__doc__ or type(self).__doc__
        self._apply = vectorize(func)
        self._call = jit(self._apply)
        self._reduce = jit(self._reduced, static_argnames=("axis", "dtype", "keepdims"))
        self._accumulate = jit(self._accumulated, static_argnames=("axis", "dtype"))
        self._at = jit(self._changed, static_argnames="n")
        self._reduceat = jit(self._reduced_at, static_argnames=("axis", "dtype"))

    def __repr__(self):
        return f"<jnp.ufunc '{self.__name__}'>"

    def _key(self):
        return self.func, self.__name__, self.nin, self.nout, self.identity

    def __eq__(self, other):
        return isinstance(other, ufunc) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __call__(self, *args, out=None, where=None):
        """The function on arrays that broadcast."""
        self._in_place(out)
        if where is not None:
            raise NotImplementedError(
                f"where argument of {self!r}: choose between the result and another array with where(...) instead"
            )
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} operands, got {len(args)}")
        return self._call(*check(self.__name__, *args))

    def _in_place(self, out):
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self!r}: arrays are not changed in place; use the result"
            )

    def _binary(self, method):
        if self.nin != 2:
            raise ValueError(
                f"{method} only supported for binary ufuncs, and {self.__name__} takes {self.nin}"
            )
        if self.nout != 1:
            raise ValueError(
                f"{method} only supported for functions returning a single value, and {self.__name__} returns {self.nout}"
            )

    def outer(self, A, B, /):
        """The function of every element of `A` with every element of `B`."""
        self._binary("outer")
        A, B = map(as_array, check(f"{self.__name__}.outer", A, B))
        return self(reshape(A, A.shape + (1,) * B.ndim), B)

    def reduce(
        self, a, axis=0, dtype=None, out=None, keepdims: bool = False, initial=None, where=None
    ):
        """Combines all elements along an axis, or along all with None, the first ones first.

        Args:
            initial: what the reduction starts with; by default the identity, or else the first elements.
            where: which elements take part.
        """
        self._binary("reduce")
        self._in_place(out)
        (a,) = check(f"{self.__name__}.reduce", a)
        shape = aval_of(a).shape
        axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(canonical_axis(i, len(shape)) for i in axes)
        start = self.identity if initial is None else initial
        if start is None:
            if where is not None:
                raise ValueError(
                    f"reduction operation {self.__name__!r} does not have an identity, so to use a where mask one has to specify "
                    f"'initial'."
                )
            if not all(shape[i] for i in axes):
                raise ValueError(
                    f"zero-size array to reduction operation {self.__name__} which has no identity"
                )
        return self._reduce(a, start, where, axis=axes, dtype=_kind(dtype), keepdims=bool(keepdims))

    def _kept(self, dtype, *operands):
        """The dtype of repeated application: that of the function's result for these operands, or `dtype`."""
        made = eval_shape(
            self._apply,
            *(ShapeDtypeStruct((), x.dtype, weak_type=aval_of(x).weak_type) for x in operands),
        ).dtype
        if dtype is not None and dtypes.promote_types(made, dtype) != dtype:
            raise TypeError(
                f"{self.__name__} of {' and '.join(dtypes.name(x.dtype) for x in operands)} gives {dtypes.name(made)}, which "
                f"{dtypes.name(dtype)} cannot hold; give dtype={dtypes.name(made)}, or convert the array first"
            )
        return made if dtype is None else dtype

    def _reduced(self, a, start, where, axis, dtype, keepdims):
        a = _as(a, dtype)
        a = _as(a, self._kept(dtype, a, a))
        kept = tuple(1 if i in axis else n for i, n in enumerate(a.shape))
        rest = tuple(n for i, n in enumerate(a.shape) if i not in axis)

        def in_front(v):
            return reshape(
                moveaxis(v, axis, range(len(axis))),
                (-1 if all(rest) else math.prod(a.shape[i] for i in axis), *rest),
            )

        if where is not None:
            where = in_front(broadcast_to(where, a.shape))
        a = in_front(a)
        if start is None:
            start, a = a[0], a[1:]

        def step(carry, pair):
            x, wanted = pair
            new = _as(self._apply(carry, x), a.dtype)
            return (new if wanted is None else select_promoted(wanted, new, carry)), None

        out, _ = lax.scan(step, _as(broadcast_to(_as(start, a.dtype), rest), a.dtype), (a, where))
        return reshape(out, kept) if keepdims else out

    def accumulate(self, a, axis=0, dtype=None, out=None):
        """The results of reducing the first element, the first two, the first three, ... along an axis."""
        self._binary("accumulate")
        self._in_place(out)
        (a,) = check(f"{self.__name__}.accumulate", a)
        if axis is None or isinstance(axis, tuple):
            raise ValueError(f"accumulate does not allow multiple axes, got axis={axis}")
        return self._accumulate(a, axis=canonical_axis(axis, aval_of(a).ndim), dtype=_kind(dtype))

    def _accumulated(self, a, axis, dtype):
        a = _as(a, dtype)
        a = moveaxis(_as(a, self._kept(dtype, a, a)), axis, 0)
        if not a.shape[0]:
            return moveaxis(a, 0, axis)

        def step(carry, x):
            new = _as(self._apply(carry, x), a.dtype)
            return new, new

        _, rest = lax.scan(step, a[0], a[1:])
        return moveaxis(lax.concatenate([a[:1], rest], 0), 0, axis)

    def at(self, a, indices, b=None, /, *, inplace: bool = True):
        """The array with the function applied at positions, once per occurrence of a position.

        Args:
            b: second operands, for functions of two.
            inplace: must be False: the result is a new array.
        """
        if inplace:
            raise NotImplementedError(
                "arrays are immutable, so ufunc.at cannot change one in place: pass inplace=False and use the result, as "
                "a = f.at(a, indices, b, inplace=False)"
            )
        if self.nin != (1 if b is None else 2):
            raise ValueError(
                f"at needs a second operand for functions of two, and none for functions of one; {self.__name__} takes {self.nin}"
            )
        (a,) = check(f"{self.__name__}.at", a)
        n = aval_of(a).size
        places = reshape(arange(n), aval_of(a).shape)[indices]
        return self._at(a, places, b, n=n)

    def _changed(self, a, places, b, n):
        a = as_array(a)
        a = _as(a, self._kept(None, a, *(() if b is None else (as_array(b),))))
        given = () if b is None else (reshape(broadcast_to(_as(b, None), places.shape), -1),)

        def step(flat, item):
            i, *others = item
            new = _as(self._apply(flat[i], *others), a.dtype)
            return flat.at[i].set(new), None

        flat, _ = lax.scan(step, reshape(a, -1), (reshape(places, -1), *given))
        return reshape(flat, a.shape)

    def reduceat(self, a, indices, axis=0, dtype=None, out=None):
        """Reductions of slices along an axis: from each index up to the next, the last one to the end; of one element where the next
        index is not larger."""
        self._binary("reduceat")
        self._in_place(out)
        a, indices = check(f"{self.__name__}.reduceat", a, indices)
        if not dtypes.issubdtype(aval_of(indices).dtype, np.integer):
            raise ValueError(
                f"reduceat: indices must have an integer type, got {dtypes.name(aval_of(indices).dtype)}"
            )
        if not aval_of(a).ndim:
            raise ValueError("reduceat: a must have 1 or more dimension, got a.shape=()")
        if aval_of(indices).ndim != 1:
            raise ValueError(
                f"reduceat: indices must be one-dimensional, got indices.shape={aval_of(indices).shape}"
            )
        if axis is None or isinstance(axis, tuple):
            raise ValueError(f"reduceat does not allow multiple axes, got axis={axis}")
        return self._reduceat(
            a, indices, axis=canonical_axis(axis, aval_of(a).ndim), dtype=_kind(dtype)
        )

    def _reduced_at(self, a, indices, axis, dtype):
        a, indices = moveaxis(_as(a, dtype), axis, 0), as_array(indices)
        self._kept(a.dtype, a, a)
        if not indices.shape[0]:
            return moveaxis(a[:0], 0, axis)
        ends = lax.concatenate([indices[1:], full((1,), a.shape[0], indices.dtype)], 0)

        def step(carry, item):
            i, x = item
            inside = expand_dims((i > indices) & (i < ends), tuple(range(1, a.ndim)))
            return select_promoted(inside, _as(self._apply(carry, x), a.dtype), carry), None

        out, _ = lax.scan(step, a[indices], (arange(a.shape[0], dtype=indices.dtype), a))
        return moveaxis(out, 0, axis)


def _kind(dtype):
    return None if dtype is None else dtypes.check_user_dtype(dtype, "ufunc")


def _as(x, dtype):
    x = as_array(x)
    return x if dtype is None else lax.convert_element_type(x, dtype)
