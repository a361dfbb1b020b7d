"""`figure` and `animation`: any record, or any part of a report, as a file for a paper or a slide.

`sizes.py` says how large and with which type; `listings.py` sets what is text, `plots.py`, `placements.py`, `costs.py`, `moves.py` and
`graph_figure.py` draw the rest.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from xlab.observe.figures.costs import plot_cost, plot_ranking, plot_whatif
from xlab.observe.figures.graph_figure import draw_graph
from xlab.observe.figures.listings import (
    Line,
    equation_line,
    lines_of,
    listing,
    step_lines,
    text_lines,
)
from xlab.observe.figures.moves import draw_round, rounds_of, tall_of
from xlab.observe.figures.placements import plot_layout, plot_transfers
from xlab.observe.figures.plots import plot_memory, plot_phases
from xlab.observe.figures.sizes import Size, size_of, style
from xlab.observe.records import (
    ArrayLayout,
    Equation,
    Memory,
    Program,
    Record,
    Report,
    Step,
    StepTrace,
    Transfer,
)
from xlab.observe.records.cost import StepCost
from xlab.observe.records.layout import layout_line
from xlab.observe.records.program import shown_names
from xlab.observe.records.replay import Replay
from xlab.observe.records.resharding import Resharding
from xlab.observe.records.whatif import Ranking, WhatIf

FORMATS = ("svg", "png", "pdf")
MOST_LAYOUTS = 6
MOST_ROWS = 24
BETWEEN = 4
"""Frames of a round of an animation: arrows grow from one to the next."""


def figure(record: Any, path: Any = None, *, size: str = "column", of: str = "") -> Any:
    """A record drawn by matplotlib for a column of a paper (3.3 inches wide) or a slide (10 inches), with letters of a size to match.

    Args:
        record: any record, or a tuple of transfers. What has no drawing is set as its text.
        path: a file to write, by its end SVG, PNG or PDF; none is written without.
        size: `"column"` or `"slide"`.
        of: the part of a report to draw, `overview`, `program`, `graph`, `shardings`, `collectives`, `stepper`, `timings` or `memory`;
            of a program or a run, `graph` draws it as one; of a collective, `rounds` are its messages.

    Returns:
        The matplotlib figure, for changes of one's own.

    Raises:
        ValueError: the report has nothing of that kind, there is no such size, or the file is of another kind.

    Example:
        >>> from xlab.observe.records import Equation, Program
        >>> made = figure(Program("f", equations=(Equation(0, "iota"),)), size="slide")
        >>> [t.get_text() for t in made.texts]
        ['f', '  1 equation', 'iota']
    """
    chosen = size_of(size)
    kind = "" if path is None else _kind(path)
    return _made(record, chosen, of, path, kind)


def _made(record: Any, size: Size, of: str, target: Any = None, kind: str = "") -> Any:
    """A record's figure, written to a path or a file where one is given: what it is set with holds until then."""
    figures, rc = _matplotlib()
    with rc(style(size)):
        made = figures(figsize=(size.width, size.width / 2), layout="constrained")
        _draw(made, size, record, of)
        if target is not None:
            # Without the time, so that the same record gives the same file.
            metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
            made.savefig(target, format=kind, metadata=metadata)
    return made


def encoded(record: Any, kind: str, size: str, of: str = "") -> bytes:
    """The bytes of a figure's file."""
    out = io.BytesIO()
    _made(record, size_of(size), of, out, kind)
    return out.getvalue()


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "figures need matplotlib, which is not installed: pip install matplotlib"
        ) from None

    def make(**options: Any) -> Any:
        made = Figure(**options)
        FigureCanvasAgg(made)  # no window, no pyplot: nothing of the notebook's own figures changes
        return made

    return make, rc_context


def _kind(path: Any) -> str:
    end = Path(os.fspath(path)).suffix.lower().removeprefix(".")
    if end not in FORMATS:
        raise ValueError(
            f"a figure is written as .svg, .png or .pdf; given {os.fspath(path)!r}."
            + (" observe.animation writes a GIF." if end == "gif" else "")
        )
    return end


def _draw(made: Any, size: Size, record: Any, of: str) -> None:
    if isinstance(record, Report):
        record, of = _part(record, of)
    if isinstance(record, StepTrace) and of == "graph":
        record = record.program
    for kind, draw in _DRAWN:
        if isinstance(record, kind) and (of == "graph" or kind is not Program):
            draw(made, size, record, of)
            return
    if isinstance(record, tuple) and record:
        if all(isinstance(x, Transfer) for x in record):
            _rows(made, size, len(record), lambda ax: plot_transfers(record[:MOST_ROWS], ax))
            return
        if all(isinstance(x, ArrayLayout) for x in record):
            _layouts(made, size, record)
            return
    if not isinstance(record, (Record, tuple)) or record == ():
        raise TypeError(
            f"figure draws records of xlab.observe and tuples of them; given {type(record).__name__}. "
            "Pass what observe.program, observe.transfers, observe.report and the others give."
        )
    listing(
        made, size, lines_of(record, size) if isinstance(record, Record) else text_lines(record)
    )


def _largest(report: Report) -> Program | None:
    return max(report.programs, key=lambda p: sum(n for _, n in p.counts), default=None)


_PARTS: dict[str, Callable[[Report], Any]] = {
    "overview": lambda r: max(r.costs, key=lambda c: c.us) if r.costs else None,
    "program": _largest,
    "graph": _largest,
    "shardings": lambda r: tuple(r.layouts) or None,
    "collectives": lambda r: tuple(r.transfers) or None,
    "stepper": lambda r: r.trace,
    "timings": lambda r: r if r.phases else None,
    "memory": lambda r: max(r.memory, key=lambda m: m.peak) if r.memory else None,
}
"""Parts of a report by the names of their tabs."""


def _part(report: Report, of: str) -> tuple[Any, str]:
    there = [name for name, find in _PARTS.items() if find(report) is not None]
    of = of or (there[0] if there else "")
    if of not in there:
        raise ValueError(
            f"this report has {', '.join(there) or 'nothing'} to draw; asked for {of!r}"
        )
    return _PARTS[of](report), of


def _rows(made: Any, size: Size, rows: int, plot: Callable[[Any], Any]) -> None:
    """Axes with so many rows, their letters and labels of this size."""
    tall = (min(rows, MOST_ROWS) * 1.9 + 7.5) * size.text / 72
    made.set_size_inches(size.width, min(size.tallest, max(tall, 0.28 * size.width)))
    ax = made.add_subplot()
    plot(ax)
    title = ax.get_title()
    ax.set_title("")
    ax.set_title(title, loc="left", wrap=True, fontsize=size.title)
    for words in ax.texts:
        words.set_fontsize(size.text - 1)
    fit_labels(ax, 0.4 * size.width * 72 / (0.6 * (size.text - 1)))
    legend = ax.get_legend()
    if legend is not None:  # below: beside the bars there is no room in a column
        handles, labels = legend.legend_handles, [t.get_text() for t in legend.get_texts()]
        legend.remove()
        made.legend(handles, labels, frameon=False, ncols=2, loc="outside lower left")


def fit_labels(ax: Any, most: float) -> None:
    """Leaves the two ends of labels that are longer."""
    words = [t.get_text() for t in ax.get_yticklabels()]
    half = int(most) // 2
    short = [w if len(w) <= most else f"{w[:half]}…{w[1 - half :]}" for w in words]
    if short != words:
        ax.set_yticks(ax.get_yticks(), short)


def _layout(made: Any, size: Size, layout: ArrayLayout, of: str) -> None:
    _layouts(made, size, (layout,))


def _layouts(made: Any, size: Size, layouts: tuple[ArrayLayout, ...]) -> None:
    """Arrays as blocks, those on several devices first."""
    split = sorted(layouts, key=lambda x: -len(x.blocks))[:MOST_LAYOUTS]
    across = 1 if len(split) == 1 else 2 if size.width < 5 else min(3, len(split))
    down = -(-len(split) // across)
    each = size.width / across
    made.set_size_inches(size.width, min(size.tallest, down * 0.72 * each))
    for number, layout in enumerate(split, 1):
        ax = made.add_subplot(down, across, number)
        plot_layout(layout, ax)
        ax.set_title("")
        most = int(each * 72 / (0.58 * size.text))
        title = f"{layout.name}: {layout.type.text}" if layout.name else layout.type.text
        shard = f"shard {layout.type.dtype}[{','.join(map(str, layout.shard_shape))}]"
        lines = [title, f"{shard}, {layout_line(layout).rsplit(', ', 1)[-1]}"]
        ax.set_title(
            "\n".join(x if len(x) <= most else f"{x[: most - 1]}…" for x in lines),
            loc="left",
            fontsize=size.text,
        )
        for words in ax.texts:
            words.set_fontsize(size.text - 1)
        ax.set_xlabel(ax.get_xlabel(), fontsize=size.text - 1)
        ax.set_ylabel(ax.get_ylabel(), fontsize=size.text - 1)


def _transfer(made: Any, size: Size, record: Any, of: str) -> None:
    """Its rounds one under the other, as many as fit."""
    tall = tall_of(record, size)
    most = 3 if size.width > 5 else 1
    count = max(1, min(len(rounds_of(record)), most * int(size.tallest // tall)))
    across = min(count, most)
    down = -(-count // across)
    made.set_size_inches(size.width, min(size.tallest, tall * down))
    for number in range(count):
        draw_round(
            made.add_subplot(down, across, number + 1), size, record, number, size.width / across
        )


def _cost(made: Any, size: Size, record: StepCost, of: str) -> None:
    _rows_like(made, size, 12, lambda ax: plot_cost(record, ax, size))


def _rows_like(made: Any, size: Size, rows: int, plot: Callable[[Any], Any]) -> None:
    made.set_size_inches(size.width, min(size.tallest, (rows * 1.9 + 7.5) * size.text / 72))
    plot(made.add_subplot())


_DRAWN: tuple[tuple[Any, Callable[[Any, Size, Any, str], None]], ...] = (
    (Program, lambda made, size, record, of: draw_graph(made, size, record)),
    (ArrayLayout, _layout),
    ((Transfer, Replay, Resharding), _transfer),
    (StepCost, _cost),
    (
        Report,
        lambda made, size, r, of: _rows(
            made,
            size,
            len({(p.depth, p.function) for p in r.phases}),
            lambda ax: plot_phases(r.phases, ax, r.title),
        ),
    ),
    (
        Memory,
        lambda made, size, m, of: _rows(made, size, len(m.buffers), lambda ax: plot_memory(m, ax)),
    ),
    (
        Ranking,
        lambda made, size, r, of: _rows_like(made, size, 10, lambda ax: plot_ranking(r, ax, size)),
    ),
    (
        WhatIf,
        lambda made, size, r, of: _rows_like(made, size, 6, lambda ax: plot_whatif(r, ax, size)),
    ),
)


def animation(
    record: Any, path: Any, *, size: str = "column", seconds: float = 1.0, limit: int = 200
) -> int:
    """Writes a GIF of a collective, round by round, or of a run, step by step; returns the number of its frames.

    Args:
        record: a `Transfer`, a `Replay`, a `Resharding` or a `StepTrace`.
        path: a file that ends in `.gif`.
        size: `"column"` or `"slide"`.
        seconds: for a round or a step.
        limit: the most rounds or steps.

    Raises:
        TypeError: the record has no rounds and no steps.
        ValueError: the file is of another kind, or there is nothing to show.
    """
    if not os.fspath(path).lower().endswith(".gif"):
        raise ValueError(f"an animation is written as .gif; given {os.fspath(path)!r}")
    chosen = size_of(size)
    figures, rc = _matplotlib()
    with rc(style(chosen)):
        if isinstance(record, StepTrace):
            made = list(_steps(figures, chosen, record, limit))
            pace = seconds
        elif isinstance(record, (Transfer, Replay, Resharding)):
            made = list(_moves(figures, chosen, record, limit))
            pace = seconds / BETWEEN
        else:
            raise TypeError(
                f"a collective (Transfer, Replay), a resharding and a run (StepTrace) can be shown step by step; given {type(record).__name__}. "
                "observe.figure draws the others."
            )
    if not made:
        raise ValueError("there is nothing to show: no message is sent, and no step was recorded")
    first, *others = made
    first.save(
        os.fspath(path),
        format="GIF",
        save_all=True,
        append_images=others,
        duration=max(20, round(1000 * pace)),
        loop=0,
    )
    return len(made)


def _image(made: Any) -> Any:
    from PIL import Image

    made.canvas.draw()
    wide, tall = made.canvas.get_width_height()
    seen = Image.frombytes("RGBA", (wide, tall), bytes(made.canvas.buffer_rgba()))
    return seen.convert("RGB").quantize(64)


def _moves(figures: Any, size: Size, record: Any, limit: int) -> Iterator[Any]:
    for number in range(min(limit, len(rounds_of(record)))):
        for part in range(1, BETWEEN + 1):
            made = figures(
                figsize=(size.width, tall_of(record, size)), dpi=_PIXELS[size], layout="constrained"
            )
            draw_round(made.add_subplot(), size, record, number, size.width, part / BETWEEN)
            yield _image(made)


_PIXELS = {size_of("column"): 200, size_of("slide"): 100}
AROUND = 5
"""Equations before and after the current one that an animation shows."""


def _steps(figures: Any, size: Size, trace: StepTrace, limit: int) -> Iterator[Any]:
    frames = []
    steps = trace.steps[:limit]
    equations, names = {e.id: e for e, _ in trace.program.walk()}, shown_names(trace.program)
    for at, step in enumerate(steps):
        lines: list[Line] = [
            ((trace.program.name, "head"), (f"  step {at + 1} of {trace.total}", "dim"))
        ]
        for near in range(at - AROUND, at + AROUND + 1):
            there = steps[near] if 0 <= near < len(steps) else None
            mark = "▸ " if near == at else "  "
            lines.append(((mark, "now"), *(_step_line(there, equations, names) if there else ())))
        frames.append([*lines, (), *step_lines(step)[2:]])
    tall = max(map(len, frames), default=0)
    for lines in frames:
        made = figures(figsize=(1, 1), dpi=_PIXELS[size])
        listing(made, size, [*lines, *[()] * (tall - len(lines))])
        yield _image(made)


def _step_line(step: Step, equations: dict[int, Equation], names: dict[str, str]) -> Line:
    """The equation of a step as programs show it, or the step's own words where the program does not have it."""
    e = equations.get(step.equation)
    return ((step.text, ""),) if e is None else equation_line(e, names)
