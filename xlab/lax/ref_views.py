"""Views of mutable references: what `ref.at[index]`, `ref.reshape(shape)` and the like give.

A view is a reference and transforms (`ref_transforms.py`), which the equations that read and write it carry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab.core.avals import aval_of
from xlab.core.refs import AbstractRef, Accessible, Ref, in_brackets, no_operators
from xlab.lax.control.cond import switch
from xlab.lax.indexers import indexer
from xlab.lax.ref_transforms import RefBitcaster, RefReshaper, RefTransposer, part_of


class RefView(Accessible):
    """What all views have: they are read, written and viewed like references."""

    __slots__ = ()
    explains_itself = True

    then: Callable[[Any], RefView]

    at = property(lambda self: RefIndexer(self), doc=Ref.at.__doc__)
    T = property(lambda self: self.transpose(), doc=Ref.T.__doc__)

    def reshape(self, *shape: Any) -> RefView:
        """A view of all elements in another shape; one size may be -1."""
        return self.then(RefReshaper.of(self.shape, shape))

    def transpose(self, *permutation: Any) -> RefView:
        """A view with the dimensions in another order; reversed if none is given."""
        return self.then(RefTransposer.of(self.shape, permutation))

    def bitcast(self, dtype: Any) -> RefView:
        """A view of the same bits as another dtype; the last dimension grows or shrinks with the size of elements."""
        return self.then(RefBitcaster.of(self.shape, self.dtype, dtype))

    def __bool__(self):
        raise TypeError(
            f"the truth of a view of a reference, of type {self.aval}, is not defined: read it first, as view[...]"
        )

    def __jax_array__(self):
        raise TypeError(
            f"a view of a reference, of type {self.aval}, was given where an array is expected: read it first, as view[...]"
        )

    def __array__(self, *args, **kwargs):
        self.__jax_array__()


no_operators(RefView)


class TransformedRef(RefView):
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

    def __init__(self, ref, transforms=()):
        self.ref, self.transforms = ref, tuple(transforms)

    @property
    def aval(self) -> AbstractRef:
        """The type of the part, as a reference."""
        whole = aval_of(self.ref)
        return AbstractRef(
            part_of(whole.inner_aval, self.transforms), whole.memory_space, whole.kind
        )

    def then(self, transform) -> TransformedRef:
        """The view with one more transform."""
        return TransformedRef(self.ref, (*self.transforms, transform))

    def __repr__(self):
        return f"TransformedRef({aval_of(self.ref)}, {list(self.transforms)})"


class SelectedRef(RefView):
    """One of several references of one type, by a number of the program. Made by `select_ref`."""

    __slots__ = ("refs", "which")

    def __init__(self, which, refs):
        self.which, self.refs = which, tuple(refs)

    @property
    def aval(self) -> AbstractRef:
        """The type of each of the references."""
        first = self.refs[0]
        return first.aval if isinstance(first, RefView) else aval_of(first)

    def then(self, transform) -> SelectedRef:
        """The view with one more transform."""
        return SelectedRef(self.which, [view(r).then(transform) for r in self.refs])

    def apply(self, f: Callable) -> Any:
        """What a function of a reference gives for the one that is chosen."""
        return switch(self.which, [lambda r=r: f(r) for r in self.refs])

    def __repr__(self):
        return f"SelectedRef({self.which}, {list(self.refs)})"


def view(ref) -> RefView:
    """The view of everything."""
    return ref if isinstance(ref, RefView) else TransformedRef(ref)


class RefIndexer:
    """What `ref.at` is: index it for a view."""

    __slots__ = ("ref",)

    def __init__(self, ref):
        self.ref = ref

    def __getitem__(self, index) -> RefView:
        whole = view(self.ref)
        new = indexer(in_brackets(index), whole.shape)
        return whole if new is None else whole.then(new)
