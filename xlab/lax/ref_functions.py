"""Mutable references: the functions that make, read, write and end them.

The primitives behind them are in `refs.py`, views in `ref_views.py`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of, value_and_type
from xlab.core.hi_states import is_mutable
from xlab.core.hi_types import is_high
from xlab.core.refs import Ref, is_ref, set_operations
from xlab.core.trace import EVAL, is_tracer, state
from xlab.core.typing import Array, ArrayLike
from xlab.lax import hi_refs
from xlab.lax import ref_batching as _ref_batching  # noqa: F401  (its rules)
from xlab.lax.convert import convert
from xlab.lax.indexers import indexer
from xlab.lax.ref_transforms import part_of
from xlab.lax.ref_views import RefIndexer, RefView, SelectedRef, TransformedRef, view
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
    if is_ref(init_val) or isinstance(init_val, RefView):
        raise TypeError(
            f"new_ref takes an array, got a reference of type {init_val.aval}: read it first, as ref[...]"
        )
    try:
        if is_high(aval_of(init_val)):
            return hi_refs.new_hi_ref_p.bind(init_val)
    except TypeError as e:
        raise TypeError(
            f"Error interpreting argument to new_ref as an array: got {init_val!r} of type "
            f"{type(init_val).__name__}. A reference holds one array: convert it with xlab.numpy.asarray, or make one "
            f"reference per leaf of a pytree."
        ) from e
    return new_ref_p.bind(init_val, memory_space=memory_space, kind=kind)


def empty_ref(ty: Any, memory_space: Any = None, *, dtype: Any = None) -> Ref:
    """A mutable reference to an array of a type, with unspecified contents: write before you read.

    What it holds at first is easy to see, NaN or the lowest integer; the option `uninitialized_memory` makes it zeros.

    Args:
        ty: the type: a `ShapeDtypeStruct`, or what `typeof` gives; or a shape, with the dtype second.
        memory_space: where a kernel keeps it; after a shape the dtype.
        dtype: the dtype that goes with a shape.

    Raises:
        TypeError: what is given says no shape and dtype.

    Example:
        >>> import xlab
        >>> ref = xlab.empty_ref((3,), "float32")
        >>> ref
        Ref([nan, nan, nan], dtype=float32)
        >>> ref[...] = xlab.numpy.ones(3)
        >>> ref
        Ref([1., 1., 1.], dtype=float32)
    """
    if isinstance(ty, (int, tuple, list)) and not isinstance(ty, bool):
        if dtype is None:
            dtype, memory_space = memory_space, None
        if dtype is not None:
            shape = (ty,) if isinstance(ty, int) else tuple(ty)
            ty, dtype = ShapedArray(shape, dtypes.canonicalize_dtype(dtype)), None
    aval = ty if isinstance(ty, ShapedArray) else None
    if aval is None and hasattr(ty, "shape") and hasattr(ty, "dtype") and not hasattr(ty, "aval"):
        aval = ShapedArray(
            ty.shape, dtypes.canonicalize_dtype(ty.dtype), getattr(ty, "weak_type", False)
        )
    if aval is None or dtype is not None:
        raise TypeError(
            f"empty_ref takes the type of an array, such as xlab.ShapeDtypeStruct(shape, dtype) or "
            f"xlab.typeof(x), or a shape and a dtype; got {ty!r} of type {type(ty).__name__}"
            + ("" if dtype is None else f" and dtype {dtype!r}")
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
    if is_mutable(ref):
        return hi_refs.get(ref)
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
    if is_mutable(ref):
        return hi_refs.get(ref, idx)
    if type(ref) is SelectedRef:
        return ref.apply(lambda r: ref_get(r, idx))
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
    if is_mutable(ref):
        return hi_refs.swap(ref, value, idx)
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
    if type(ref) is SelectedRef:
        return ref.apply(lambda r: ref_addupdate(r, idx, x))
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
    if type(ref) is SelectedRef:
        old = ref.apply(lambda r: ref_swap(r, idx, value))
        return None if unread else old
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
    if is_ref(value) or isinstance(value, RefView):
        raise ValueError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using `[...]`?"
        )
    if isinstance(value, (list, tuple)):
        raise TypeError(
            f"a reference stores arrays, got {value_and_type(value)}: convert it with "
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


def select_ref(idx: ArrayLike, *refs: Any) -> Any:
    """One of several references or views of one type, by a number that may be a value of the program.

    Args:
        idx: the number, an integer scalar; values outside the range of the references mean the first or the last.
        refs: the references.

    Returns:
        What is read and written like the reference chosen.

    Raises:
        TypeError: the references differ in shape, dtype, memory space or kind, or the number is no integer scalar.
        ValueError: no reference is given, or the number is known and out of range.

    Example:
        >>> import xlab
        >>> a, b = xlab.new_ref(1.0), xlab.new_ref(2.0)
        >>> @xlab.jit
        ... def double(i):
        ...     chosen = select_ref(i, a, b)
        ...     chosen[...] = chosen[...] * 2
        >>> double(1)
        >>> float(a[...]), float(b[...])
        (1.0, 4.0)
    """
    if not refs:
        raise ValueError("select_ref chooses among references, got none")
    avals = [r.aval if isinstance(r, RefView) else aval_of(_ref(r, "select_ref")) for r in refs]
    for k, aval in enumerate(avals):
        if aval.strip_weak_type() is not avals[0].strip_weak_type():
            raise TypeError(
                f"select_ref chooses among references of one type, but reference 0 is {avals[0]} and reference {k} is "
                f"{aval}"
            )
    index = aval_of(idx)
    if index.shape or not dtypes.issubdtype(index.dtype, np.integer):
        raise TypeError(f"the number given to select_ref must be an integer scalar, got {index}")
    if is_tracer(idx):
        return SelectedRef(idx, refs)
    k = operator.index(idx)
    if not 0 <= k < len(refs):
        raise ValueError(f"select_ref has {len(refs)} references to choose from, got number {k}")
    return refs[k]


set_operations(
    new=new_ref,
    get=ref_get,
    set=ref_set,
    swap=ref_swap,
    addupdate=ref_addupdate,
    at=RefIndexer,
    view=view,
)
