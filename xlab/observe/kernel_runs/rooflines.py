"""Peak and memory bandwidth of one chip of each target, as its maker's data sheet states them."""

from __future__ import annotations

from xlab.observe.comparison.targets import topology
from xlab.observe.records.kernel import Roofline

NOTE = "one chip's bfloat16 matrix peak and memory bandwidth on its maker's data sheet"

ROOFLINES = tuple(
    Roofline(f"tpu:{generation}", tera * 1e12, giga * 1e9, NOTE)
    for generation, tera, giga in (
        ("v4", 275.0, 1228.0),
        ("v5e", 197.0, 819.0),
        ("v5p", 459.0, 2765.0),
        ("v6e", 918.0, 1640.0),
        ("tpu7x", 2307.0, 7380.0),
    )
)


def rooflines(target: str = "") -> tuple[Roofline, ...]:
    """The rooflines of all targets, or of the one that is named.

    Args:
        target: empty, `tpu:v5e`, or with a topology `tpu:v5e:4x4`, of which a kernel's core group is on one chip.

    Raises:
        ValueError: there is no such target.

    Example:
        >>> [roof.target for roof in rooflines("tpu:v5e:4x4")]
        ['tpu:v5e']
    """
    if not target:
        return ROOFLINES
    generation = topology(target if target.count(":") > 1 else f"{target}:1").partition(":")[0]
    found = tuple(r for r in ROOFLINES if r.target == f"tpu:{generation}")
    if not found:
        known = ", ".join(r.target for r in ROOFLINES)
        raise ValueError(f"no peak and bandwidth are known for {target!r}; there are {known}")
    return found
