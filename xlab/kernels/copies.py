"""Copies between references: `sync_copy`, `async_copy` and `make_async_copy`, and their two primitives.

`dma_start` and `dma_wait` take the same operands: source, destination, semaphore, and the leaves of the three lists of transforms, whose
structure is the parameter `tree`; with `add` the copy adds to what is in the destination. A start copies, then or at the wait, and counts
the elements that have arrived in the semaphore; the wait waits for as many and takes them away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import effects as _effects
from xlab.core import printing
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.refs import Ref, is_ref
from xlab.core.trace import is_tracer
from xlab.core.typing import Array
from xlab.interpreters import ad, batching, costs, mlir
from xlab.kernels.ref_primitives import (
    check_ref,
    chosen,
    ref_primitive,
    shown,
    split_view,
    view_text,
)
from xlab.kernels.semaphores import COUNT, SemaphoreType, check_semaphore, counted, is_semaphore
from xlab.lax.creation import zeros_like_aval
from xlab.lax.ref_views import SelectedRef
from xlab.lax.refs import addupdate_p, get_p, part_of, read, swap_p, write

# -- functions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AsyncCopy:
    """A copy that is started and waited for: what `make_async_copy` gives."""

    src: Any
    dst: Any
    sem: Any
    add: bool = field(default=False, kw_only=True)

    def start(self) -> None:
        """Starts it."""
        self._bind(dma_start_p)

    def wait(self) -> None:
        """Waits until it has arrived."""
        self._bind(dma_wait_p)

    def _bind(self, prim):
        def bind(*views):
            refs, transforms = zip(*(split_view(x, "async_copy") for x in views))
            leaves, tree = _tree.flatten(transforms)
            prim.bind(*refs, *leaves, tree=tree, add=self.add)

        chosen(
            self.src,
            lambda src: chosen(self.dst, lambda dst: chosen(self.sem, partial(bind, src, dst))),
        )


def make_async_copy(src_ref: Ref, dst_ref: Ref, sem: Ref) -> AsyncCopy:
    """A copy from a reference to another that has not begun: `.start()` starts it, `.wait()` waits for it.

    Args:
        src_ref, dst_ref: references, or views of parts, of one shape and dtype.
        sem: a semaphore of the kind `SemaphoreType.DMA` that counts what has arrived.

    Raises:
        ValueError: shapes or dtypes differ, or `sem` is no such semaphore.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import SemaphoreType, make_async_copy, run_scoped
        >>> x, y = xlab.new_ref(jnp.arange(4.0)), xlab.new_ref(jnp.zeros(2))
        >>> def body(sem):
        ...     copy = make_async_copy(x.at[1:3], y, sem)
        ...     copy.start()
        ...     copy.wait()
        >>> run_scoped(body, SemaphoreType.DMA)
        >>> y
        Ref([1., 2.], dtype=float32)
    """
    return _checked(AsyncCopy(src_ref, dst_ref, sem))


def async_copy(src_ref: Ref, dst_ref: Ref, sem: Ref, *, add: bool = False) -> AsyncCopy:
    """Starts a copy from a reference to another; `.wait()` of the result waits for it.

    Args:
        src_ref, dst_ref: references, or views of parts, of one shape and dtype.
        sem: a semaphore of the kind `SemaphoreType.DMA` that counts what has arrived.
        add: whether to add to the destination instead of replacing what is there.

    Raises:
        ValueError: shapes or dtypes differ, or `sem` is no such semaphore.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import SemaphoreType, async_copy, run_scoped
        >>> x, y = xlab.new_ref(jnp.arange(3)), xlab.new_ref(jnp.ones(3, int))
        >>> run_scoped(lambda sem: async_copy(x, y, sem, add=True).wait(), SemaphoreType.DMA)
        >>> y
        Ref([1, 2, 3], dtype=int32)
    """
    copy = _checked(AsyncCopy(src_ref, dst_ref, sem, add=bool(add)))
    copy.start()
    return copy


def sync_copy(src_ref: Ref, dst_ref: Ref, *, add: bool = False) -> None:
    """Copies from a reference to another, and waits for it.

    Args:
        src_ref, dst_ref: references, or views of parts, of one shape and dtype.
        add: whether to add to the destination instead of replacing what is there.

    Raises:
        ValueError: shapes or dtypes differ.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import sync_copy
        >>> x, y = xlab.new_ref(jnp.arange(4)), xlab.new_ref(jnp.zeros(4, int))
        >>> sync_copy(x.at[2:], y.at[:2])
        >>> y
        Ref([2, 3, 0, 0], dtype=int32)
    """
    from xlab.kernels.scoped import run_scoped

    run_scoped(lambda sem: async_copy(src_ref, dst_ref, sem, add=add).wait(), SemaphoreType.DMA)


def _checked(copy):
    """The copy, if it can be one: what `select_ref` chooses among is looked at when the copy is started."""
    views = (copy.src, copy.dst, copy.sem)
    if not any(isinstance(x, SelectedRef) for x in views):
        refs, transforms = zip(*(split_view(x, "async_copy") for x in views))
        _check(*map(aval_of, refs), transforms)
    return copy


def _check(src, dst, sem, transforms):
    """Raises unless a copy is one; returns the type of what it moves."""
    check_ref("async_copy", src, dst, sem)
    given = part_of(src.inner_aval, transforms[0])
    place = part_of(dst.inner_aval, transforms[1])
    if given.shape != place.shape or given.dtype != place.dtype:
        raise ValueError(
            f"a copy takes a source and a destination of one shape and dtype, got {given} and {place} (parts of {src} and {dst}). "
            f"Choose the part to copy with ref.at[...]; convert with dst[...] = src[...].astype(dst.dtype)."
        )
    if not is_semaphore(sem) or sem.kind != SemaphoreType.DMA.value:
        raise ValueError(
            f"a copy counts in a semaphore of the kind SemaphoreType.DMA, got {sem}"
            + (f" of the kind {sem.kind!r}" if is_semaphore(sem) else ", which is no semaphore")
        )
    check_semaphore("wait", sem, transforms[2])
    return place


# -- the primitives -----------------------------------------------------------------------------------------


def _amount(x, sign=1):
    """How much a copy counts, in the arithmetic of a semaphore."""
    return np.asarray(sign * aval_of(x).size).astype(COUNT)[()]


def _start(src, dst, sem, *leaves, tree, add):
    src_at, dst_at, sem_at = _tree.unflatten(tree, leaves)
    value = read(src, src_at)
    new = write(dst, dst_at, value, "add" if add else "set")
    return {1: new, 2: counted(sem, sem_at, _amount(value))}, []


def _wait(src, dst, sem, *leaves, tree, add):
    src_at, _, sem_at = _tree.unflatten(tree, leaves)
    return {2: counted(sem, sem_at, _amount(read(src, src_at), -1))}, []


dma_start_p = ref_primitive("dma_start", _start, multiple_results=True)
dma_wait_p = ref_primitive("dma_wait", _wait, multiple_results=True)


def _copy_aval(src, dst, sem, *leaves, tree, add):
    _check(src, dst, sem, _tree.unflatten(tree, leaves))
    return [], {_effects.ReadEffect(0), _effects.WriteEffect(1), _effects.WriteEffect(2)}


def _start_jvp(primals, tangents, *, tree, add):
    # Tangents are copied at once: the semaphore counts the copy of the values.
    _, dst, _, *leaves = primals
    (src_t, dst_t, *_), (src_at, dst_at, _) = tangents, _tree.unflatten(tree, leaves)
    dma_start_p.bind(*primals, tree=tree, add=add)
    given, place = _tree.flatten(src_at), _tree.flatten(dst_at)
    if type(src_t) is not ad.Zero:
        value = get_p.bind(src_t, *given[0], tree=given[1])
    elif type(dst_t) is not ad.Zero:
        value = zeros_like_aval(part_of(aval_of(dst_t).inner_aval, dst_at))
    else:
        return [], []
    if type(dst_t) is ad.Zero:
        raise ValueError(
            f"a differentiated value is copied into a reference of type {aval_of(dst)} that has no derivative: make it an argument "
            f"of the differentiated function"
        )
    if add:
        addupdate_p.bind(dst_t, value, *place[0], tree=place[1])
    else:
        swap_p.bind(dst_t, value, *place[0], tree=place[1])
    return [], []


def _wait_jvp(primals, tangents, **params):
    dma_wait_p.bind(*primals, **params)
    return [], []


def _copy_text(eqn, names, used):
    parts = shown(eqn, names, 3)
    src, dst, sem = (view_text(v, t, names) for v, t in zip(eqn.invars, parts))
    arrow = "+=" if eqn.params["add"] else "<-"
    return f"{eqn.primitive.name} {dst} {arrow} {src} ({sem})"


dma_start_p.def_effectful_abstract_eval(_copy_aval)
dma_wait_p.def_effectful_abstract_eval(_copy_aval)
ad.primitive_jvps[dma_start_p] = _start_jvp
ad.primitive_jvps[dma_wait_p] = _wait_jvp
for _prim in (dma_start_p, dma_wait_p):
    ad.primitive_transposes.excuse(_prim, "kernels have forward derivatives only")
    batching.primitive_batchers.excuse(
        _prim, "its semaphore counts for all examples at once: call the kernel under vmap instead"
    )
    printing.print_as(_prim.name, _copy_text)


# -- with_memory_space_constraint ---------------------------------------------------------------------------


def with_memory_space_constraint(x: Array, memory_space: Any) -> Array:
    """Says in which memory space a value of a traced program has to live. The value is the same.

    Args:
        x: an array of a program that is being traced.
        memory_space: a `MemorySpace`.

    Raises:
        ValueError: nothing is traced.
        NotImplementedError: `x` is a reference.

    Example:
        >>> import xlab
        >>> from xlab.kernels import MemorySpace, with_memory_space_constraint
        >>> f = xlab.jit(lambda x: with_memory_space_constraint(x, MemorySpace.HOST) + 1)
        >>> float(f(2.0))
        3.0
    """
    if is_ref(x) or not isinstance(aval_of(x), ShapedArray):
        raise NotImplementedError(
            f"with_memory_space_constraint takes arrays, got {aval_of(x)}: the memory space of a reference is part of its type"
        )
    if not is_tracer(x):
        raise ValueError(
            "Cannot eagerly run with_memory_space_constraint: it is a remark to the compiler. Call it inside of a function under "
            "xlab.jit."
        )
    return memory_space_constraint_p.bind(x, memory_space=memory_space)


memory_space_constraint_p = Primitive("with_memory_space_constraint")
memory_space_constraint_p.def_abstract_eval(lambda x, *, memory_space: x)
memory_space_constraint_p.def_impl(lambda x, *, memory_space: x)
memory_space_constraint_p.linear_in_unreduced = True
ad.deflinear2(
    memory_space_constraint_p,
    lambda ct, x, *, memory_space: [memory_space_constraint_p.bind(ct, memory_space=memory_space)],
)
batching.defvectorized(memory_space_constraint_p)
mlir.register_text_lowering(memory_space_constraint_p, lambda ctx, x, *, memory_space: x)

costs.register(costs.moves, dma_start_p)
costs.register(costs.free, dma_wait_p, memory_space_constraint_p)
