"""How large a figure is, and its type: a column of a paper, or a slide."""

from __future__ import annotations

from typing import Any, NamedTuple

WORDS, CODE = "DejaVu Sans", "DejaVu Sans Mono"
"""Fonts that matplotlib brings, so that a figure is the same everywhere."""
ADVANCE = 0.6021
"""Width of a letter of the code font, in its size."""


class Size(NamedTuple):
    """Inches across, and at most down; points of text, of code and of a title; pixels of an inch where there are pixels."""

    width: float
    tallest: float
    text: float
    code: float
    title: float
    dpi: int

    @property
    def letters(self) -> int:
        """How many letters of code fit across."""
        return int((self.width - 2 * MARGIN) * 72 / (self.code * ADVANCE))

    @property
    def lines(self) -> int:
        """How many lines of code fit down."""
        return int((self.tallest - 2 * MARGIN) * 72 / (self.code * LEADING))


MARGIN = 0.04
LEADING = 1.38
SIZES = {
    "column": Size(3.3, 8.8, 7.0, 6.0, 8.0, 300),
    "slide": Size(10.0, 5.6, 14.0, 11.0, 16.0, 150),
}


def size_of(name: Any) -> Size:
    """The size of a name.

    >>> size_of("column").width, size_of("slide").letters
    (3.3, 107)

    Raises:
        ValueError: there is no such size.
    """
    if name not in SIZES:
        raise ValueError(
            f"size must be one of {', '.join(map(repr, SIZES))}; given {name!r}. "
            "column is 3.3 inches wide with text of 7 points, slide 10 inches with 14 points."
        )
    return SIZES[name]


def style(size: Size) -> dict[str, Any]:
    """matplotlib's settings for a size: text stays text in SVG and PDF, and a `$` in a name is no mathematics."""
    return {
        "font.family": "sans-serif",
        "font.sans-serif": [WORDS],
        "font.monospace": [CODE],
        "font.size": size.text,
        "axes.titlesize": size.title,
        "axes.labelsize": size.text,
        "xtick.labelsize": size.text - 1,
        "ytick.labelsize": size.text - 1,
        "legend.fontsize": size.text - 1,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.5 * size.text / 7,
        "svg.fonttype": "none",
        "svg.hashsalt": "xlab",
        "pdf.fonttype": 42,
        "text.parse_math": False,
        "savefig.dpi": size.dpi,
        "figure.dpi": size.dpi,
    }
