"""Arrays whose dimensions lie in memory in another order than the default.

A `Format` in `in_shardings`, `out_shardings` or `device_put` asks for one. Programs are compiled for the layouts they were asked for,
the default one elsewhere; an argument that lies otherwise is brought into place by a program of its own before the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from xlab.backend import arrays as _arrays
from xlab.backend import caches
from xlab.core.array import is_native_array
from xlab.core.avals import ShapedArray
from xlab.sharding.placement import Format, Layout, default_layout

_made = False      # whether an array of another layout was made in this process
_jit: Callable = None  # type: ignore[assignment]  # set by `jit.py`


def set_jit(jit: Callable) -> None:
    global _jit
    _jit = jit


def in_use() -> bool:
    """Whether arguments have to be looked at: one of them may lie in another order."""
    return _made


def has_custom_layout(flat) -> bool:
    """Whether an argument does not lie in the default order."""
    return _made and any(is_native_array(x) and layout_of(x) != default_layout(x.ndim) for x in flat)


def pad_layouts(values, n: int) -> tuple:
    """One value for each of `n`, or nothing where none is given."""
    return () if all(v is None for v in values) else (*values, *(None,) * (n - len(values)))


def requested_layout(x):
    """The layout that a user's `Format` states, or None where it leaves it open."""
    return x.layout if isinstance(x, Format) and isinstance(x.layout, Layout) else None


def note(layouts) -> None:
    """Says that arrays of these layouts come into being."""
    global _made
    if not _made and any(w is not None and w != default_layout(len(w.major_to_minor)) for w in layouts):
        _made = True


def layout_of(x) -> Layout:
    """How an array lies in memory."""
    if not _made or not is_native_array(x) or not x.ndim or x.is_deleted():
        return default_layout(x.ndim)
    return Layout(_arrays.major_to_minor(x))


def ensure_layout(x, asked: Layout | None, given, name: str):
    """The placed argument `given` in the layout that a program was compiled for: the one asked for, or the default."""
    target = asked or default_layout(x.ndim)
    found = layout_of(x)
    if found == target:
        return x
    if asked is not None and is_native_array(given) and given._committed:
        raise ValueError(f"Layout passed to jit does not match the layout on the respective arg: jit({name}) was asked for {asked}, and got an "
                         f"array of type {x.aval.str_short()} that lies as {found}. Bring it there with xlab.device_put(x, Format(...)), or "
                         f"leave this entry of in_shardings out.")
    return relayout(x, target)


def is_default(layout: Layout) -> bool:
    """Whether dimensions lie in the order of their numbers."""
    return layout == default_layout(len(layout.major_to_minor))


def of_words(layout: Layout, ndim: int) -> Layout:
    """The layout of the `ndim`-dimensional words that an array of keys in this layout is made of."""
    return Layout((*layout.major_to_minor, *range(len(layout.major_to_minor), ndim)))


def relayout(x, target: Layout):
    """A copy of the array in another layout, where it is."""
    return _copier(x.aval, x.sharding, layout_of(x), target)(x)


@functools.lru_cache(maxsize=512)
def _copier(aval: ShapedArray, sharding, source: Layout, target: Layout):
    note((source, target))
    return _jit(lambda x: x.copy(), name="relayout", in_shardings=Format(source, sharding), out_shardings=Format(target, sharding))


caches.register(_copier.cache_clear)


def attribute(layout: Layout | None, aval, what: str) -> list[str]:
    """The attribute of an argument or result that states its layout."""
    if layout is None:
        return []
    if len(layout.major_to_minor) != len(aval.shape):
        raise ValueError(f"{what} is incompatible with its layout annotation {layout}: Length of major_to_minor and the rank of the value "
                         f"should match. Got major_to_minor={layout.major_to_minor} and shape={aval.shape}")
    return [f'mhlo.layout_mode = "{layout.mode}"'] if aval.ndim else []
