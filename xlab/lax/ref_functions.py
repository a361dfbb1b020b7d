"""Mutable references: the functions that make, read, write and end them, and views of parts.

The primitives behind them are in `refs.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.refs import AbstractRef, Ref, is_ref, set_operations
from xlab.core.trace import EVAL, state
from xlab.core.typing import Array
from xlab.lax import ref_batching as _ref_batching  # noqa: F401  (its rules)
from xlab.lax.convert import convert
from xlab.lax.indexers import indexer
from xlab.lax.ref_transforms import RefBitcaster, RefReshaper, RefTransposer, part_of
from xlab.lax.refs import (
    addupdate_p,
    empty_ref_p,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
    store,
    swap_p,
)

# -- functions ----------------------------------------------------------------------------------------------


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A mutable reference to an array that starts as `init_val`.

    Args:
        init_val: an array or number.
        memory_space: where a kernel keeps it; None for ordinary memory.
        kind: 'no_grad_no_remat' keeps the reference out of differentiation: what is written to it counts as constant.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> @xlab.jit
        ... def count(total, x):
        ...     total[...] += x.sum()
        >>> total = xlab.new_ref(0.0)
        >>> count(total, jnp.ones(3)); count(total, jnp.ones(2))
        >>> float(total[...])
        5.0
    """
    if is_ref(init_val):
        raise TypeError(
            f"new_ref takes an array, got a reference of type {aval_of(init_val)}: read it first, as ref[...]"
        )
    try:
        aval_of(init_val)
    except TypeError as e:
        raise TypeError(
            f"Error interpreting argument to new_ref as an array: got {init_val!r} of type "
            f"{type(init_val).__name__}. A reference holds one array: convert it with xlab.numpy.asarray, or make one "
            f"reference per leaf of a pytree."
        ) from e
    return new_ref_p.bind(init_val, memory_space=memory_space, kind=kind)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A mutable reference to an array of a type, with unspecified contents: write before you read.

    Args:
        ty: the type: a `ShapeDtypeStruct`, or what `typeof` gives.

    Example:
        >>> import xlab
        >>> ref = xlab.empty_ref(xlab.ShapeDtypeStruct((3,), "float32"))
        >>> ref[...] = xlab.numpy.ones(3)
        >>> ref
        Ref([1., 1., 1.], dtype=float32)
    """
    aval = ty if isinstance(ty, ShapedArray) else None
    if aval is None and hasattr(ty, "shape") and hasattr(ty, "dtype") and not hasattr(ty, "aval"):
        aval = ShapedArray(
            ty.shape, dtypes.canonicalize_dtype(ty.dtype), getattr(ty, "weak_type", False)
        )
    if aval is None:
        raise TypeError(
            f"empty_ref takes the type of an array, such as xlab.ShapeDtypeStruct(shape, dtype) or "
            f"xlab.typeof(x), got {ty!r} of type {type(ty).__name__}"
        )
    return empty_ref_p.bind(ty=aval, memory_space=memory_space)


def freeze(ref: Ref) -> Array:
    """Gives a reference up and returns its last value.

    Example:
        >>> import xlab
        >>> ref = xlab.new_ref(1.0)
        >>> ref[...] = 2.0
        >>> float(xlab.ref.freeze(ref))
        2.0
    """
    return freeze_p.bind(_ref(ref, "freeze"))


def free_ref(ref: Ref) -> None:
    """Gives a reference up; its value is lost."""
    free_ref_p.bind(_ref(ref, "free_ref"))


def ref_get(ref: Ref, idx=None):
    """The value at an index of a reference, or the whole array.

    Example:
        >>> import xlab
        >>> xlab.ref.get(xlab.new_ref(xlab.numpy.arange(5)), slice(1, 3)).tolist()
        [1, 2]
    """
    ref, leaves, tree, _ = _target(ref, idx, "ref_get")
    return get_p.bind(ref, *leaves, tree=tree)


def ref_set(ref: Ref, idx, value) -> None:
    """Stores a value at an index of a reference; nothing is broadcast.

    Example:
        >>> import xlab
        >>> ref = xlab.new_ref(xlab.numpy.zeros(3))
        >>> xlab.ref.set(ref, 1, 10.0)
        >>> ref
        Ref([ 0., 10.,  0.], dtype=float32)
    """
    _swap(ref, idx, value, "ref_set", unread=True)


def ref_swap(ref: Ref, idx, value):
    """Stores a value at an index of a reference and returns what was there.

    Example:
        >>> import xlab
        >>> int(xlab.ref.swap(xlab.new_ref(xlab.numpy.arange(5)), 3, 10))
        3
    """
    return _swap(ref, idx, value, "ref_swap")


def ref_addupdate(ref: Ref, idx, x) -> None:
    """Adds to the value at an index of a reference; where positions repeat, everything is added.

    Derivatives of it are cheaper than those of `ref[idx] += x`, which reads first.

    Example:
        >>> import xlab
        >>> ref = xlab.new_ref(xlab.numpy.arange(3))
        >>> xlab.ref.addupdate(ref, 2, 10)
        >>> ref
        Ref([ 0,  1, 12], dtype=int32)
    """
    ref, leaves, tree, part = _target(ref, idx, "ref_addupdate")
    addupdate_p.bind(ref, _fitting(ref, x, part), *leaves, tree=tree)


def _ref(ref, api):
    if not is_ref(ref):
        raise ValueError(
            f"Can only call `{api}` on a `Ref`, got {ref!r} of type {type(ref).__name__}. Make one with "
            f"xlab.new_ref(array)."
        )
    return ref


def _swap(ref, idx, value, api, unread=False):
    ref, leaves, tree, part = _target(ref, idx, api)
    value = _fitting(ref, value, part)
    if unread and type(ref) is Ref and state.trace is EVAL:
        return store(ref, value, leaves, tree, "set")
    return swap_p.bind(ref, value, *leaves, tree=tree)


def _target(ref, idx, api):
    """The reference itself, leaves and structure of the transforms, and the type of the part they select."""
    before = ()
    if isinstance(ref, TransformedRef):
        ref, before = ref.ref, ref.transforms
    aval = aval_of(_ref(ref, api)).inner_aval
    part = part_of(aval, before)
    last = indexer(idx, part.shape)
    transforms = before if last is None else (*before, last)
    leaves, tree = _tree.flatten(transforms)
    return ref, leaves, tree, part if last is None else part.update(shape=last.result_shape())


def _fitting(ref, value, part):
    """A value in the type of the part it replaces, where only weakness differs; the rule of the primitive rejects others."""
    if is_ref(value) or isinstance(value, TransformedRef):
        raise ValueError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using `[...]`?"
        )
    if isinstance(value, (list, tuple)):
        raise TypeError(
            f"a reference stores arrays, got {value!r} of type {type(value).__name__}: convert it with "
            f"xlab.numpy.asarray"
        )
    aval = aval_of(value)
    weak = aval.weak_type and any(
        dtypes.issubdtype(aval.dtype, k) and dtypes.issubdtype(part.dtype, k)
        for k in (np.floating, np.integer)
    )
    if aval.dtype == part.dtype or weak:
        if isinstance(value, (bool, int, float, complex, np.generic)) and not part.weak_type:
            value = np.asarray(value).astype(part.dtype)[()]
        elif isinstance(value, np.ndarray):
            value = value.astype(part.dtype)
        elif aval.dtype != part.dtype or aval.weak_type != part.weak_type:
            value = convert(value, part.dtype, part.weak_type)
    missing = part.mat.varying - aval.mat.varying
    return (
        state.vary(value, tuple(sorted(missing, key=str)))
        if missing and state.manual is not None
        else value
    )


class TransformedRef:
    """A view: a reference to a part of what another refers to, or to its elements in another order or shape.

    `ref.at[index]`, `ref.reshape(shape)`, `ref.transpose(order)`, `ref.T` and `ref.bitcast(dtype)` make one, and a view has all of
    them too. Reads and writes of a view are reads and writes of the reference.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> ref = xlab.new_ref(jnp.zeros((2, 3), int))
        >>> ref.at[1].reshape(3, 1).T[0, 2] = 5
        >>> ref[...].tolist()
        [[0, 0, 0], [0, 0, 5]]
    """

    __slots__ = ("ref", "transforms")
    __array_ufunc__ = None

    def __init__(self, ref, transforms=()):
        self.ref, self.transforms = ref, tuple(transforms)

    @property
    def aval(self) -> AbstractRef:
        """The type of the part, as a reference."""
        whole = aval_of(self.ref)
        return AbstractRef(
            part_of(whole.inner_aval, self.transforms), whole.memory_space, whole.kind
        )

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    at = property(lambda self: RefIndexer(self), doc=Ref.at.__doc__)
    T = property(lambda self: self.transpose(), doc=Ref.T.__doc__)

    def reshape(self, *shape: Any) -> TransformedRef:
        """A view of all elements in another shape; one size may be -1."""
        return self._then(RefReshaper.of(self.shape, shape))

    def transpose(self, *permutation: Any) -> TransformedRef:
        """A view with the dimensions in another order; reversed if none is given."""
        return self._then(RefTransposer.of(self.shape, permutation))

    def bitcast(self, dtype: Any) -> TransformedRef:
        """A view of the same bits as another dtype; the last dimension grows or shrinks with the size of elements."""
        return self._then(RefBitcaster.of(self.shape, self.dtype, dtype))

    def _then(self, transform) -> TransformedRef:
        return TransformedRef(self.ref, (*self.transforms, transform))

    def __getitem__(self, index):
        return ref_get(self, index)

    def __setitem__(self, index, value):
        ref_set(self, index, value)

    def get(self, idx=None):
        """The value at an index, or of the whole view."""
        return ref_get(self, idx)

    def set(self, value: Any, idx: Any = None) -> None:
        """Stores a value at an index, or in place of the whole view."""
        ref_set(self, idx, value)

    def swap(self, value, idx=None):
        """Stores a value at an index and returns what was there."""
        return ref_swap(self, idx, value)

    def addupdate(self, x: Any, idx: Any = None) -> None:
        """Adds to the value at an index."""
        ref_addupdate(self, idx, x)

    def __len__(self):
        return ref_length(self)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __array__(self, *args, **kwargs):
        raise TypeError(
            f"NumPy was given a view of a reference, of type {self.aval}: read it first, as view[...]"
        )

    def __repr__(self):
        return f"TransformedRef({aval_of(self.ref)}, {list(self.transforms)})"


def ref_length(ref) -> int:
    """The size of the first dimension of a reference or view."""
    if not ref.shape:
        raise TypeError("len() of unsized object: the reference holds an array without dimensions")
    return ref.shape[0]


def view(ref) -> TransformedRef:
    """The view of everything."""
    return ref if isinstance(ref, TransformedRef) else TransformedRef(ref)


class RefIndexer:
    """What `ref.at` is: index it for a view."""

    __slots__ = ("ref",)

    def __init__(self, ref):
        self.ref = ref

    def __getitem__(self, index) -> TransformedRef:
        whole = view(self.ref)
        new = indexer(index, whole.shape)
        return whole if new is None else whole._then(new)


set_operations(
    new=new_ref,
    get=ref_get,
    set=ref_set,
    swap=ref_swap,
    addupdate=ref_addupdate,
    at=RefIndexer,
    view=view,
)
