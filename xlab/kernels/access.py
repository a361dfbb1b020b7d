"""Masked reads and writes of references: `load`, `store`, `swap`, and their two primitives.

`masked_load` takes a reference and the leaves of `(transforms, mask, other)`, whose structure is its parameter `tree`; it reads the
selected part where the mask is true and `other` elsewhere. `masked_swap` takes a reference, a value, and the leaves of
`(transforms, mask)`; it stores the value where the mask is true and gives what was there before. Mask and `other` have the shape of the
part, `other` its dtype too; each may be absent (None), which means everywhere, and uninitialized memory. A start that is a value of the
program is not moved into range (a negative one counts from the end): positions outside read as uninitialized and are not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.core import dtypes, printing
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.refs import Ref, is_ref
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs
from xlab.kernels.ref_primitives import check_ref, ref_primitive, shown, split_view, view_text
from xlab.lax.arithmetic import add, sub
from xlab.lax.bits import bitwise_and
from xlab.lax.clamp import clamp
from xlab.lax.comparison import ge, lt, select
from xlab.lax.convert import convert
from xlab.lax.creation import full, iota, zeros_like_aval
from xlab.lax.index_steps import Points, Strided, Window
from xlab.lax.indexers import NDIndexer, indexer
from xlab.lax.ref_batching import batched_index, batched_store
from xlab.lax.ref_views import RefView, SelectedRef
from xlab.lax.refs import check_stored, get_p, part_of, stored_tangent, swap_p, uninitialized
from xlab.lax.shape import broadcast_in_dim, broadcast_shapes, pad, transpose
from xlab.lax.slicing import dynamic_slice_p, dynamic_update_slice_p

# -- functions ----------------------------------------------------------------------------------------------


def load(ref: Ref, idx: Any = None, *, mask: ArrayLike | None = None, other: Any = None) -> Array:
    """Reads a part of a reference where a mask is true.

    Args:
        ref: a reference, or a view `ref.at[...]`.
        idx: as between brackets: integers, slices, `ds(start, size)`, integer arrays; None for everything. A traced start may lead
            outside: what is there reads as uninitialized memory (NaN, the lowest integer, False).
        mask: booleans that broadcast to the shape of the part.
        other: what to take where the mask is false; uninitialized memory by default.

    Raises:
        ValueError: `ref` is no reference, or the mask or `other` does not fit the part.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import load
        >>> ref = xlab.new_ref(jnp.arange(6))
        >>> load(ref, xlab.ds(1, 4), mask=jnp.arange(4) < 2, other=-1).tolist()
        [1, 2, -1, -1]
    """
    if type(ref) is SelectedRef:
        return ref.apply(lambda r: load(r, idx, mask=mask, other=other))
    ref, transforms, part = target(ref, idx, "load")
    mask = _mask(mask, part, "load")
    if other is not None:
        if mask is None:
            raise ValueError(
                "load takes `other` together with a mask: it stands where the mask is false"
            )
        # An integer literal, mostly 0, fills whatever the reference holds.
        kinds = (np.number,) if isinstance(other, int) else (np.floating, np.integer)
        other = _spread(fitting(other, part, kinds), part, "`other`", "load")
    if mask is None and not _may_leave(transforms):
        leaves, tree = _tree.flatten(transforms)
        return get_p.bind(ref, *leaves, tree=tree)
    leaves, tree = _tree.flatten((transforms, mask, other))
    return masked_load_p.bind(ref, *leaves, tree=tree)


def swap(ref: Ref, idx: Any, val: ArrayLike, *, mask: ArrayLike | None = None) -> Array:
    """Stores a value in a part of a reference where a mask is true, and returns what was in the part before.

    Args:
        ref: a reference, or a view `ref.at[...]`.
        idx: as for `load`. Positions outside are not written.
        val: an array of the part's shape and dtype; nothing is broadcast.
        mask: booleans that broadcast to the shape of the part.

    Raises:
        ValueError: `ref` is no reference, or the value or the mask does not fit the part.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import swap
        >>> ref = xlab.new_ref(jnp.arange(4))
        >>> swap(ref, None, jnp.zeros(4, int), mask=jnp.arange(4) > 1).tolist(), ref[...].tolist()
        ([0, 1, 2, 3], [0, 1, 0, 0])
    """
    if type(ref) is SelectedRef:
        return ref.apply(lambda r: swap(r, idx, val, mask=mask))
    ref, transforms, part = target(ref, idx, "swap")
    mask = _mask(mask, part, "store")
    val = fitting(val, part)
    if mask is None and not _may_leave(transforms):
        leaves, tree = _tree.flatten(transforms)
        return swap_p.bind(ref, val, *leaves, tree=tree)
    leaves, tree = _tree.flatten((transforms, mask))
    return masked_swap_p.bind(ref, val, *leaves, tree=tree)


def store(ref: Ref, idx: Any, val: ArrayLike, *, mask: ArrayLike | None = None) -> None:
    """Stores a value in a part of a reference where a mask is true.

    Args:
        ref: a reference, or a view `ref.at[...]`.
        idx: as for `load`. Positions outside are not written.
        val: an array of the part's shape and dtype; nothing is broadcast.
        mask: booleans that broadcast to the shape of the part.

    Raises:
        ValueError: as of `swap`.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import store
        >>> ref = xlab.new_ref(jnp.zeros(4))
        >>> store(ref, xlab.ds(0, 3), jnp.ones(3), mask=jnp.array([True, False, True]))
        >>> ref
        Ref([1., 0., 1., 0.], dtype=float32)
    """
    swap(ref, idx, val, mask=mask)


# -- their arguments ----------------------------------------------------------------------------------------


def target(ref: Any, idx: Any, api: str) -> tuple[Any, tuple, Any]:
    """The reference itself, the transforms that lead to the part at an index, and the type of the part."""
    ref, transforms = split_view(ref, api)
    part = part_of(aval_of(ref).inner_aval, transforms)
    last = indexer(idx, part.shape)
    if last is None:
        return ref, transforms, part
    return ref, (*transforms, last), part.update(shape=last.result_shape())


def fitting(value: Any, part: Any, kinds: Sequence = (np.floating, np.integer)) -> Any:
    """A value in the dtype of the part, where it is weak and of one of these kinds, as the part is; others are left to be refused."""
    if is_ref(value) or isinstance(value, RefView):
        raise ValueError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using `[...]`?"
        )
    aval = aval_of(value)
    if aval.dtype == part.dtype and aval.weak_type == part.weak_type:
        return value
    same_kind = any(
        dtypes.issubdtype(aval.dtype, k) and dtypes.issubdtype(part.dtype, k) for k in kinds
    )
    if aval.dtype == part.dtype or (aval.weak_type and same_kind):
        return convert(value, part.dtype, part.weak_type)
    return value


def _mask(mask, part, api):
    if mask is None:
        return None
    if aval_of(mask).dtype != np.bool_:
        raise ValueError(
            f"the mask of `{api}` holds booleans, got {aval_of(mask)}: compare first, as in x < n"
        )
    return _spread(mask, part, "mask", api)


def _spread(x, part, what, api):
    shape = aval_of(x).shape
    if shape == part.shape:
        return x
    try:
        fits = broadcast_shapes(shape, part.shape) == part.shape
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(f"Cannot broadcast {what} shape {shape} to {api} shape {part.shape}")
    return jnp.broadcast_to(x, part.shape)


def _may_leave(transforms) -> bool:
    """Whether a position may be out of range: only where the program computes it."""
    return not all(map(_is_static, _tree.leaves(transforms)))


def _is_static(x) -> bool:
    return isinstance(x, (int, np.integer))


# -- on values ----------------------------------------------------------------------------------------------


class _Window(NamedTuple):
    """A block that is not moved into range: outside of the array it reads uninitialized memory, and writes nothing."""

    starts: list
    sizes: tuple

    def _place(self, x):
        """The start moved into range, and by how much it was moved, in dimensions where that can happen."""
        starts, moved = [], {}
        for d, (start, size, n) in enumerate(zip(self.starts, self.sizes, aval_of(x).shape)):
            if _is_static(start):
                starts.append(np.int32(start))
                continue
            start = convert(start, np.dtype(np.int32), False)
            start = select(lt(start, np.int32(0)), add(start, np.int32(n)), start)
            # Beyond one size away all is outside, and the difference cannot overflow.
            start = clamp(np.int32(-size), start, np.int32(n))
            inside = clamp(np.int32(0), start, np.int32(n - size))
            starts.append(inside)
            moved[d] = sub(start, inside)
        return starts, moved

    def _block(self, x, starts):
        return dynamic_slice_p.bind(x, *starts, slice_sizes=self.sizes)

    def _shift(self, block, moved, sign, fill):
        """The block moved along its dimensions; `fill` comes in at the sides."""
        ndim = aval_of(block).ndim
        config = [(n, n, 0) if d in moved else (0, 0, 0) for d, n in enumerate(self.sizes)]
        starts = [
            sign(np.int32(self.sizes[d]), moved[d]) if d in moved else np.int32(0)
            for d in range(ndim)
        ]
        return self._block(pad(block, fill, config), starts)

    def read(self, x):
        starts, moved = self._place(x)
        block = self._block(x, starts)
        if not moved or 0 in self.sizes:
            return block
        return self._shift(block, moved, add, uninitialized(aval_of(x).update(shape=())))

    def write(self, x, value):
        if 0 in self.sizes:
            return x
        starts, moved = self._place(x)
        if moved:
            inside = [self._inside(d, by) for d, by in moved.items()]
            value = self._shift(value, moved, sub, zeros_like_aval(aval_of(x).update(shape=())))
            old = self._block(x, starts)
            value = select(reduce(bitwise_and, inside), value, old)
        return dynamic_update_slice_p.bind(x, value, *starts)

    def _inside(self, d, by):
        """Which positions of the block in range are positions of the block asked for."""
        places = sub(iota(np.int32, self.sizes[d]), broadcast_in_dim(by, (self.sizes[d],), ()))
        inside = bitwise_and(
            ge(places, full(places.shape, np.int32(0))),
            lt(places, full(places.shape, np.int32(self.sizes[d]))),
        )
        return broadcast_in_dim(inside, self.sizes, (d,))


def _steps(transforms):
    """The transforms as pairs of functions, `read(x)` and `write(x, value)`."""
    steps: list[tuple] = []
    for t in transforms:
        for step in _bounded(t.steps(), t.shape) if isinstance(t, NDIndexer) else (t,):
            if isinstance(step, Points):
                steps.append((step.read, partial(step.write, update="set")))
            else:
                steps.append((step.read, step.write))
    return steps


def _bounded(steps, shape):
    """The steps of an index, with windows whose starts are not moved into range."""
    window = Window([0] * len(shape), tuple(shape))
    if steps and isinstance(steps[0], Window):
        window, *steps = steps
    starts, sizes = list(window.starts), list(window.sizes)
    for k, step in enumerate(steps):
        if isinstance(step, Strided) and step.start is not None:
            starts[step.dim], sizes[step.dim] = step.start, (step.size - 1) * step.stride + 1
            steps[k] = step._replace(start=None)
    if all(map(_is_static, starts)):
        return [window, *steps]
    return [_Window(starts, tuple(sizes)), *steps]


def _read(x, steps):
    for read, _ in steps:
        x = read(x)
    return x


def _write(x, steps, value):
    if not steps:
        return value
    (read, write), *rest = steps
    return write(x, _write(read(x), rest, value) if rest else value)


def read_part(x: Array, transforms: tuple, mask: Any, other: Any) -> Array:
    """The part of an array that a masked load gives."""
    value = _read(x, _steps(transforms))
    if mask is None:
        return value
    return select(mask, value, uninitialized(aval_of(value)) if other is None else other)


def write_part(x: Array, transforms: tuple, mask: Any, value: Any) -> tuple[Array, Array]:
    """The array after a masked store, and the part before."""
    steps = _steps(transforms)
    old = _read(x, steps)
    return _write(x, steps, value if mask is None else select(mask, value, old)), old


# -- masked_load --------------------------------------------------------------------------------------------


def _load(x, *leaves, tree):
    return {}, [read_part(x, *_tree.unflatten(tree, leaves))]


masked_load_p = ref_primitive("masked_load", _load)


@masked_load_p.def_effectful_abstract_eval
def _load_aval(ref, *leaves, tree):
    check_ref("load", ref)
    transforms, mask, other = _tree.unflatten(tree, leaves)
    part = part_of(ref.inner_aval, transforms)
    if mask is not None and mask.shape != part.shape:
        raise ValueError(f"Cannot broadcast mask shape {mask.shape} to load shape {part.shape}")
    if other is not None and (other.shape != part.shape or other.dtype != part.dtype):
        raise ValueError(
            f"Invalid `other` for `load`: the part that is read is a {part}, what stands where the mask is false a {other}. "
            f"Convert it with .astype(ref.dtype)."
        )
    return part, {_effects.ReadEffect(0)}


def _load_jvp(primals, tangents, *, tree):
    out = masked_load_p.bind(*primals, tree=tree)
    _, mask, other = _tree.unflatten(tree, primals[1:])
    other_t = ad.Zero.of(out) if other is None else tangents[-1]
    if type(tangents[0]) is ad.Zero:
        if type(other_t) is ad.Zero:
            return out, ad.Zero.of(out)
        return out, select(mask, zeros_like_aval(aval_of(other_t)), other_t)
    if other is None:
        return out, masked_load_p.bind(tangents[0], *primals[1:], tree=tree)
    other_t = ad.instantiate_zeros(other_t)
    return out, masked_load_p.bind(tangents[0], *primals[1:-1], other_t, tree=tree)


def split_leaves(tree) -> tuple[int, Any, list]:
    """How many leaves the transforms of a `tree` have, their structure, and where the others are among the leaves (None: absent)."""
    inner, *others = tree.children()
    at, places = inner.num_leaves, []
    for other in others:
        places.append(at if other.num_leaves else None)
        at += other.num_leaves
    return inner.num_leaves, inner, places


def _load_batch(operands, dims, *, tree):
    ref, *leaves = operands
    n, inner_tree, (mask, other) = split_leaves(tree)
    size = next(aval_of(x).shape[d] for x, d in zip(operands, dims) if d is not None)
    # Where the mask is false nothing is read, so reading first and choosing then is the same.
    if all(d is None for d in dims[: 1 + n]):
        value, at = ref_load(ref, _tree.unflatten(inner_tree, leaves[:n])), None
    else:
        new, new_tree, at, order = batched_index(
            operands[: 1 + n], dims[: 1 + n], 1, inner_tree, size
        )
        value = ref_load(ref, _tree.unflatten(new_tree, new))
        if order is not None:
            value, at = transpose(value, order), 0
    if mask is None:
        return value, at
    value = batching.move_batch_dim_to(value, at, size, 0)
    mask, other = (
        None if i is None else batching.move_batch_dim_to(leaves[i], dims[1 + i], size, 0)
        for i in (mask, other)
    )
    return select(mask, value, uninitialized(aval_of(value)) if other is None else other), 0


def ref_load(ref: Any, transforms: tuple) -> Array:
    """The whole part that transforms lead to, uninitialized where it is outside."""
    leaves, tree = _tree.flatten((transforms, None, None))
    return masked_load_p.bind(ref, *leaves, tree=tree)


def _load_text(eqn, names, used):
    transforms, mask, other = shown(eqn, names, 1)
    place = view_text(eqn.invars[0], transforms, names)
    tail = (f" if {mask}" if mask else "") + (f" else {other}" if other else "")
    return f"{printing.binders(eqn.outvars, names, used)} <- {place}{tail}"


ad.primitive_jvps[masked_load_p] = _load_jvp
ad.primitive_transposes.excuse(masked_load_p, "kernels have forward derivatives only")
batching.primitive_batchers[masked_load_p] = _load_batch
printing.print_as("masked_load", _load_text)


# -- masked_swap --------------------------------------------------------------------------------------------


def _swap(x, value, *leaves, tree):
    new, old = write_part(x, *_tree.unflatten(tree, leaves), value)
    return {0: new}, [old]


masked_swap_p = ref_primitive("masked_swap", _swap)


@masked_swap_p.def_effectful_abstract_eval
def _swap_aval(ref, value, *leaves, tree):
    check_ref("store", ref)
    transforms, mask = _tree.unflatten(tree, leaves)
    part = part_of(ref.inner_aval, transforms)
    check_stored("store", ref, value, part)
    if mask is not None and mask.shape != part.shape:
        raise ValueError(f"Cannot broadcast mask shape {mask.shape} to store shape {part.shape}")
    return part, {_effects.WriteEffect(0)}


def _swap_jvp(primals, tangents, *, tree):
    t = stored_tangent("a masked store", primals, tangents)
    out = masked_swap_p.bind(*primals, tree=tree)
    if t is None:
        return out, ad.Zero.of(out)
    return out, masked_swap_p.bind(tangents[0], t, *primals[2:], tree=tree)


def _swap_batch(operands, dims, *, tree):
    ref, value, *leaves = operands
    n, inner_tree, (mask,) = split_leaves(tree)

    def stored(x, dim):
        return batched_store(
            "a masked store",
            [ref, x, *leaves[:n]],
            [dims[0], dim, *dims[2 : 2 + n]],
            inner_tree,
        )

    value, new, new_tree, at, order = stored(value, dims[1])
    mask = None if mask is None else stored(leaves[mask], dims[2 + mask])[0]
    leaves, tree = _tree.flatten((_tree.unflatten(new_tree, new), mask))
    out = masked_swap_p.bind(ref, value, *leaves, tree=tree)
    return (out, at) if order is None else (transpose(out, order), 0)


def _swap_text(eqn, names, used):
    transforms, mask = shown(eqn, names, 2)
    place = view_text(eqn.invars[0], transforms, names)
    value = printing.atom_text(eqn.invars[1], names) + (f" if {mask}" if mask else "")
    if used is not None and eqn.outvars[0] not in used:
        return f"{place} <- {value}"
    return f"{printing.binders(eqn.outvars, names, used)}, {place} <- {place}, {value}"


ad.primitive_jvps[masked_swap_p] = _swap_jvp
ad.primitive_transposes.excuse(masked_swap_p, "kernels have forward derivatives only")
batching.primitive_batchers[masked_swap_p] = _swap_batch
printing.print_as("masked_swap", _swap_text)


def _masked_cost(avals_in, avals_out, **_):
    return costs.Cost(nbytes=2 * costs.bytes_of(avals_out))


costs.register(_masked_cost, masked_load_p, masked_swap_p)
