"""Memory layouts: arrays whose dimensions are stored in another order than the default.

A `Format` in `in_shardings`, `out_shardings` or `device_put` asks for one. Programs are compiled for the layouts they were asked for,
the default one elsewhere; an argument in another layout is first copied by a separate program (`executable.py`).
"""

from __future__ import annotations

from xlab.backend import arrays as _arrays
from xlab.core.array import is_native_array
from xlab.sharding.placement import Format, Layout, default_layout

_made = False  # whether an array of another layout was made in this process


def in_use() -> bool:
    """Whether arguments have to be checked: one of them may have a custom layout."""
    return _made


def has_custom_layout(flat) -> bool:
    """Whether an argument has another layout than the default."""
    return _made and any(
        is_native_array(x) and layout_of(x) != default_layout(x.ndim) for x in flat
    )


def pad_layouts(values, n: int) -> tuple:
    """One value for each of `n`, or nothing where none is given."""
    return () if all(v is None for v in values) else (*values, *(None,) * (n - len(values)))


def requested_layout(x):
    """The layout that a user's `Format` states, or None where it leaves it open."""
    return x.layout if isinstance(x, Format) and isinstance(x.layout, Layout) else None


def note(layouts) -> None:
    """Notes that arrays with these layouts will be made."""
    global _made
    if not _made and any(
        w is not None and w != default_layout(len(w.major_to_minor)) for w in layouts
    ):
        _made = True


def layout_of(x) -> Layout:
    """The layout of an array."""
    if not _made or not is_native_array(x) or not x.ndim or x.is_deleted():
        return default_layout(x.ndim)
    return Layout(_arrays.major_to_minor(x))


def is_default(layout: Layout) -> bool:
    """Whether a layout is the default, row-major one."""
    return layout == default_layout(len(layout.major_to_minor))


def of_words(layout: Layout, ndim: int) -> Layout:
    """The layout of the `ndim`-dimensional words that an array of keys in this layout is made of."""
    return Layout((*layout.major_to_minor, *range(len(layout.major_to_minor), ndim)))


def attribute(layout: Layout | None, aval, what: str) -> list[str]:
    """The attribute of an argument or result that states its layout."""
    if layout is None:
        return []
    if len(layout.major_to_minor) != len(aval.shape):
        raise ValueError(
            f"{what} is incompatible with its layout annotation {layout}: Length of major_to_minor and the rank of the value "
            f"should match. Got major_to_minor={layout.major_to_minor} and shape={aval.shape}"
        )
    return [f'mhlo.layout_mode = "{layout.mode}"'] if aval.ndim else []
