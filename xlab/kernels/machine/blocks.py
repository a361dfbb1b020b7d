"""`trace_blocks`: which blocks each step of a call reads and writes, without running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab.core.trace import EVAL, set_trace
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine.events import BlockEvent
from xlab.kernels.machine.placement import depends_on_data
from xlab.kernels.machine.points import static_events
from xlab.kernels.machine.traced import captured_program


def trace_blocks(
    call: Callable[..., Any], *args: Any, params: InterpretParams | None = None
) -> list[BlockEvent]:
    """The block events of a call: those of a run, but for inputs that the kernel writes.

    Args:
        call: what `kernel_call` gave, or a function that calls one kernel.
        args: its arguments; only their types count.
        params: the number of cores.

    Raises:
        ValueError: an index map depends on prefetched scalars, so that blocks are known only in a run.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import BlockSpec, kernel_call
        >>> from xlab.kernels.machine import trace_blocks
        >>> def copy(x_ref, o_ref):
        ...     o_ref[...] = x_ref[...]
        >>> block = BlockSpec((2,), lambda i: (i,))
        >>> call = kernel_call(copy, xlab.ShapeDtypeStruct((4,), "int32"), grid=2, in_specs=[block], out_specs=block)
        >>> for event in trace_blocks(call, jnp.arange(4)):
        ...     print(event.grid, event.text())
        (0,) reads args[0][0:2]
        (0,) writes outputs[0][0:2]
        (1,) reads args[0][2:4]
        (1,) writes outputs[0][2:4]
    """
    program, _ = captured_program(call, args, params)
    for source in program.pairs[0].sources:
        if source.mapping is not None and depends_on_data(source.mapping):
            raise ValueError(
                f"the index map of {source.name} reads prefetched scalars: which blocks it names is known only in a run. Use "
                f"Machine(call, *args) and its events."
            )
    if program.pairs[0].mesh is not None:
        return []  # cores of a mesh see whole arrays
    with set_trace(EVAL):
        return list(static_events(program))
