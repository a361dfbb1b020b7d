"""Semaphores: counters by which cores wait for one another, and their three primitives.

A semaphore is a reference of int16 in `MemorySpace.SEMAPHORE`; the `kind` of its type is 'regular', 'dma' or 'barrier'. Each primitive
takes the reference first, and its parameter `tree` is the structure of the leaves at the end:

- `semaphore_signal(sem, inc, *leaves)`, leaves of `(transforms, core)`: adds `inc`; `core` is None for the semaphore of the same core.
- `semaphore_wait(sem, value, *leaves; decrement)`, leaves of `(transforms,)`: goes on once the count has reached `value`, and takes that
  away again if `decrement`.
- `semaphore_read(sem, *leaves)`, leaves of `(transforms,)`: the count as an int32.

A compiled program runs its cores one after the other and cannot wait: there a wait only subtracts.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes, printing
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.refs import AbstractRef, Ref
from xlab.core.trace import is_tracer
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs
from xlab.kernels.memory import MemoryRef, MemorySpace
from xlab.kernels.ref_primitives import (
    check_ref,
    chosen,
    ref_primitive,
    shown,
    split_view,
    view_text,
)
from xlab.lax.convert import convert
from xlab.lax.refs import part_of, read, write

COUNT = np.dtype(np.int16)  # what a semaphore holds
MAX_COUNT = int(np.iinfo(COUNT).max)
_INT32 = np.dtype(np.int32)


class SemaphoreType(enum.Enum):
    """The kinds of semaphores. A kind is the type of one semaphore; called with a shape, that of an array of them.

    REGULAR ones are signaled by programs, DMA ones by copies, counting elements, and BARRIER ones are shared by all cores.

    Example:
        >>> from xlab.kernels import SemaphoreType
        >>> SemaphoreType.DMA((2,))
        SemaphoreRef(dma, (2,))
        >>> SemaphoreType.REGULAR.get_ref_aval().shape
        ()
    """

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int] = (), *, memory_space: Any = None) -> SemaphoreRef:
        return SemaphoreRef(tuple(shape), self, memory_space)

    def get_array_aval(self) -> ShapedArray:
        """The type of the count."""
        return self().get_array_aval()

    def get_ref_aval(self) -> AbstractRef:
        """The type of the reference."""
        return self().get_ref_aval()


class SemaphoreRef(MemoryRef):
    """The type of an array of semaphores, to be made as scratch memory of a kernel.

    Args:
        shape: that of the array.
        kind: the kind of all of them.
        memory_space: `MemorySpace.SEMAPHORE`, or that space tied to the cores of a mesh.
    """

    __slots__ = ("kind",)

    def __init__(self, shape: tuple[int, ...], kind: SemaphoreType, memory_space: Any = None):
        super().__init__(ShapedArray(shape, COUNT), memory_space or MemorySpace.SEMAPHORE)
        self.kind = kind

    def get_ref_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval, self.memory_space, self.kind.value)

    def __eq__(self, other):
        same = super().__eq__(other)
        return same and getattr(other, "kind", None) is self.kind if same is True else same

    def __hash__(self):
        return hash((super().__hash__(), self.kind))

    def __repr__(self):
        return f"SemaphoreRef({self.kind.value}, {self.shape})"


def is_semaphore(aval: Any) -> bool:
    """Whether a type is that of references to semaphores."""
    if type(aval) is not AbstractRef:
        return False
    space = aval.memory_space
    return getattr(space, "memory_space", space) is MemorySpace.SEMAPHORE


def semaphore_signal(
    sem_or_view: Ref, inc: ArrayLike = 1, *, core: ArrayLike | None = None
) -> None:
    """Adds to a semaphore, so that who waits for it may go on.

    Args:
        sem_or_view: a semaphore, or a view `sems.at[i]` of one.
        inc: how much, an int32.
        core: number of the core whose semaphore it is; by default the same core's.

    Raises:
        ValueError: not a single semaphore, `inc` is no integer, or the count overflows.

    Example:
        >>> import xlab
        >>> from xlab.kernels import SemaphoreType, run_scoped, semaphore_read, semaphore_signal
        >>> def count(sem):
        ...     semaphore_signal(sem, 2)
        ...     return semaphore_read(sem)
        >>> int(run_scoped(count, SemaphoreType.REGULAR))
        2
    """
    inc = _amount(inc, "inc", "semaphore_signal")
    if core is not None:
        core = _amount(core, "core", "semaphore_signal")
    if not is_tracer(inc):
        check_count(int(inc))

    def signal(sem):
        ref, transforms = _semaphore(sem, "signal")
        leaves, tree = _tree.flatten((transforms, core))
        semaphore_signal_p.bind(ref, inc, *leaves, tree=tree)

    chosen(sem_or_view, signal)


def semaphore_wait(sem_or_view: Ref, value: ArrayLike = 1, *, decrement: bool = True) -> None:
    """Waits until a semaphore has reached a value, and takes that away.

    Args:
        sem_or_view: a semaphore, or a view `sems.at[i]` of one.
        value: what to wait for, an int32.
        decrement: whether to subtract it afterwards.

    Raises:
        ValueError: not a single semaphore, or `value` is no integer.

    Example:
        >>> from xlab.kernels import SemaphoreType, run_scoped, semaphore_read, semaphore_signal, semaphore_wait
        >>> def left(sem):
        ...     semaphore_signal(sem, 3)
        ...     semaphore_wait(sem, 1)
        ...     return semaphore_read(sem)
        >>> int(run_scoped(left, SemaphoreType.REGULAR))
        2
    """
    value = _amount(value, "value", "semaphore_wait")

    def wait(sem):
        ref, transforms = _semaphore(sem, "wait")
        leaves, tree = _tree.flatten((transforms,))
        semaphore_wait_p.bind(ref, value, *leaves, tree=tree, decrement=bool(decrement))

    chosen(sem_or_view, wait)


def semaphore_read(sem_or_view: Ref) -> Array:
    """The count of a semaphore, an int32 scalar.

    Args:
        sem_or_view: a semaphore, or a view `sems.at[i]` of one.

    Raises:
        ValueError: not a single semaphore.

    Example:
        >>> from xlab.kernels import SemaphoreType, run_scoped, semaphore_read
        >>> int(run_scoped(lambda sems: semaphore_read(sems.at[1]), SemaphoreType.REGULAR((2,))))
        0
    """

    def count(sem):
        ref, transforms = _semaphore(sem, "read")
        leaves, tree = _tree.flatten((transforms,))
        return semaphore_read_p.bind(ref, *leaves, tree=tree)

    return chosen(sem_or_view, count)


# -- their arguments ----------------------------------------------------------------------------------------


def _semaphore(sem, verb):
    ref, transforms = split_view(sem, f"semaphore_{verb}")
    _check_semaphore(verb, aval_of(ref), transforms)
    return ref, transforms


def _check_semaphore(verb, aval, transforms):
    check_ref(f"semaphore_{verb}", aval)
    if not is_semaphore(aval):
        raise ValueError(
            f"Must {verb} semaphores of the following types: {', '.join(k.value for k in SemaphoreType)}. Got {aval}, which is "
            f"no semaphore. Semaphores are scratch memory: SemaphoreType.REGULAR among the types of scratch."
        )
    shape = part_of(aval.inner_aval, transforms).shape
    if shape:
        raise ValueError(
            f"Cannot {verb} on a non-()-shaped semaphore: {shape}. Choose one of the array, as in sems.at[i]."
        )


def _amount(x, name, api):
    if type(x) is int and abs(x) <= np.iinfo(_INT32).max:
        return np.int32(x)  # a literal: no equation of the program converts it
    aval = aval_of(x)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise ValueError(f"`{name}` of {api} must be an integer scalar (int32), got {aval}")
    if not is_tracer(x):
        return np.int32(x)
    return convert(x, _INT32, False)


def check_semaphore(verb: str, sem: Any, transforms: tuple, *amounts: Any) -> None:
    """Raises unless a type is that of one semaphore, and the amounts are int32 scalars."""
    _check_semaphore(verb, sem, transforms)
    for a in amounts:
        if a.shape or a.dtype != _INT32:
            raise ValueError(f"semaphore_{verb} takes int32 scalars, got {a}")


def check_count(count: int) -> None:
    """Raises if a semaphore cannot count that far."""
    if count > MAX_COUNT:
        raise ValueError(
            f"a semaphore overflows: it counts to {MAX_COUNT} (int16), and was signaled up to {count}. Wait for it more often, or "
            f"signal less."
        )


# -- the primitives -----------------------------------------------------------------------------------------


def counted(x: Array, transforms: tuple, amount: Any) -> Array:
    """The counts after an amount was added to one of them."""
    return write(x, transforms, convert(amount, COUNT, False), "add")


def _signal(x, inc, *leaves, tree):
    transforms, core = _tree.unflatten(tree, leaves)
    if core is not None:
        raise NotImplementedError(
            "a semaphore of another core is signaled, which a compiled program cannot do: it runs its cores one after the other. "
            "Run the kernel with interpret='value'."
        )
    if not is_tracer(x) and not is_tracer(inc):
        check_count(int(read(x, transforms)) + int(inc))
    return {0: counted(x, transforms, inc)}, []


semaphore_signal_p = ref_primitive("semaphore_signal", _signal, multiple_results=True)


@semaphore_signal_p.def_effectful_abstract_eval
def _signal_aval(sem, inc, *leaves, tree):
    transforms, core = _tree.unflatten(tree, leaves)
    check_semaphore("signal", sem, transforms, inc, *([] if core is None else [core]))
    return [], {_effects.WriteEffect(0)}


def _wait(x, value, *leaves, tree, decrement):
    (transforms,) = _tree.unflatten(tree, leaves)
    return {0: counted(x, transforms, -value)} if decrement else {}, []


semaphore_wait_p = ref_primitive("semaphore_wait", _wait, multiple_results=True)


@semaphore_wait_p.def_effectful_abstract_eval
def _wait_aval(sem, value, *leaves, tree, decrement):
    check_semaphore("wait", sem, *_tree.unflatten(tree, leaves), value)
    return [], {_effects.WriteEffect(0)}


def _read(x, *leaves, tree):
    (transforms,) = _tree.unflatten(tree, leaves)
    return {}, [convert(read(x, transforms), _INT32, False)]


semaphore_read_p = ref_primitive("semaphore_read", _read)


@semaphore_read_p.def_effectful_abstract_eval
def _read_aval(sem, *leaves, tree):
    check_semaphore("read", sem, *_tree.unflatten(tree, leaves))
    return ShapedArray((), _INT32), {_effects.ReadEffect(0)}


def _read_jvp(primals, tangents, **params):
    out = semaphore_read_p.bind(*primals, **params)
    return out, ad.Zero.of(out)


def _counting_jvp(prim):
    def jvp(primals, tangents, **params):
        prim.bind(*primals, **params)
        return [], []

    return jvp


def _text(eqn, names, used):
    transforms, *core = shown(eqn, names, 1 if eqn.primitive is semaphore_read_p else 2)
    words = [eqn.primitive.name, view_text(eqn.invars[0], transforms, names)]
    if eqn.primitive is semaphore_read_p:
        return f"{printing.binders(eqn.outvars, names, used)} = {' '.join(words)}"
    words.append(printing.atom_text(eqn.invars[1], names))
    if core and core[0]:
        words.append(f"on core {core[0]}")
    if eqn.params.get("decrement") is False:
        words.append("without decrement")
    return " ".join(words)


ad.primitive_jvps[semaphore_signal_p] = _counting_jvp(semaphore_signal_p)
ad.primitive_jvps[semaphore_wait_p] = _counting_jvp(semaphore_wait_p)
ad.primitive_jvps[semaphore_read_p] = _read_jvp
for _prim in (semaphore_signal_p, semaphore_wait_p, semaphore_read_p):
    ad.primitive_transposes.excuse(_prim, "a semaphore counts, it has no derivative")
    batching.primitive_batchers.excuse(
        _prim,
        "the cores that wait for one another would have to wait once per example: call the kernel under vmap instead",
    )
    printing.print_as(_prim.name, _text)

costs.register(costs.free, semaphore_signal_p, semaphore_wait_p, semaphore_read_p)
