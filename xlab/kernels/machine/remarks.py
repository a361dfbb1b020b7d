"""What is remarked at the end of a run: leftover signals, writes to inputs, outputs that are not written or are visited again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from xlab.kernels.machine.accesses import left_signals
from xlab.kernels.machine.state import inside

if TYPE_CHECKING:
    from xlab.kernels.machine.engine import Engine


def final_remarks(engine: Engine) -> list[str]:
    """Adds what only the end shows to the machine's `lint`; returns what is worth a warning."""
    st, program = engine.now, engine.program
    for buffer in st.buffers.values():
        left_signals(engine, buffer)
    for copy in st.copies:
        name = st.buffers[copy.src].name if copy.src in st.buffers else "a reference"
        engine.note_lint(
            "copy not waited for",
            (copy.core, copy.t),
            f"core {copy.core} started a copy from {name} in turn {copy.t} that nobody waited for: it never took place",
        )
    for i in program.results:
        written = st.buffers[i].written
        operand = program.operands[i]
        if written is None or operand.starts_as is not None:
            continue
        part = written[inside(operand)] if operand.padding else written
        missing = int(part.size - np.count_nonzero(part))
        if missing:
            engine.note_lint(
                "output not written",
                (operand.name,),
                f"{missing} of {part.size} elements of {operand.name} are never written: they are uninitialized",
                ref=operand.name,
            )
    _revisits(engine)
    warned = ("semaphore leftover", "write to input", "copy not waited for")
    texts = [e["text"] for e in st.lint.values() if e["kind"] in warned]
    if engine.detector is not None and engine.params.on_race == "warn":
        texts += [str(r) for r in engine.detector.races]
    return texts


def _revisits(engine: Engine) -> None:
    """Output blocks that a core leaves and comes back to."""
    operands = engine.program.operands
    for (core, number), blocks in engine.visits.items():
        operand = operands[number]
        if operand.role != "output":
            continue
        for index, steps in blocks.items():
            gap = next((b for a, b in itertools.pairwise(steps) if b != a + 1), None)
            if gap is not None:
                engine.note_lint(
                    "output revisited",
                    (operand.name,),
                    f"block {index} of {operand.name} is visited again in step {gap} of core {core} after other blocks were: hardware "
                    f"has written it back by then, and what it reads is undefined. Let the axes that the block does not depend on run "
                    f"fastest.",
                    ref=operand.name,
                )
