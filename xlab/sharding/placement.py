"""Memory layouts of arrays on a device, and formats (layout and sharding)."""

from __future__ import annotations

import enum
from typing import Any

from xlab.backend.values import value_class
from xlab.sharding.named import Sharding


class AutoLayout:
    """Leaves the layout to the compiler; `Layout.AUTO` is the one instance."""

    def __repr__(self) -> str:
        return "AUTO"


@value_class
class Layout:
    """The order of dimensions in memory, slowest first, and optional tiles.

    Example:
        >>> Layout((1, 0)).minor_to_major
        (0, 1)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __post_init__(self):
        object.__setattr__(self, "major_to_minor", tuple(self.major_to_minor))
        if sorted(self.major_to_minor) != list(range(len(self.major_to_minor))):
            raise ValueError(
                f"major_to_minor must be an order of all dimensions; got {self.major_to_minor}."
            )

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        return self.major_to_minor[::-1]

    @property
    def mode(self) -> str:
        """The layout as programs spell it."""
        return "{" + ",".join(map(str, self.minor_to_major)) + "}"


AUTO = Layout.AUTO = AutoLayout()  # type: ignore[attr-defined]


def default_layout(ndim: int) -> Layout:
    """The row-major layout: the last dimension varies fastest."""
    return Layout(tuple(range(ndim)))


@value_class
class Format:
    """A layout and a sharding together, either of which may be left open."""

    layout: Any = None
    sharding: Sharding | None = None

    def __post_init__(self):
        if self.sharding is not None and not isinstance(self.sharding, Sharding):
            raise ValueError(
                f"Format expects a Sharding as its second argument; got {self.sharding!r}."
            )
        if self.layout is not None and not isinstance(self.layout, (Layout, AutoLayout)):
            raise TypeError(f"Format expects a Layout as its first argument; got {self.layout!r}.")
        if isinstance(self.layout, Layout) and self.sharding is None:
            raise ValueError(
                "A concrete layout needs a sharding beside it: Format(layout, sharding)."
            )


class MemorySpace(enum.Enum):
    """Where values can be: in the devices' own memory, in the host's, or in either."""

    Device = "device"
    Host = "host"
    Any = "any"

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__
