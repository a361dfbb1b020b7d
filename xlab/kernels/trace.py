"""From a kernel, a function of references, to its jaxpr."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.core import source_info as _source_info
from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters import partial_eval as pe
from xlab.kernels.program import kernel_grid


def trace_kernel(
    kernel: Callable[..., Any],
    call: Callable[..., Any],
    ref_avals: Sequence[AbstractRef],
    grid: Sequence[int | None],
    grid_names: Sequence[Any] | None = None,
    names: Sequence[str] = (),
    label: str | None = None,
) -> tuple[ClosedJaxpr, list]:
    """The jaxpr of a kernel, and the references that it captures: its first inputs.

    Args:
        kernel: the function, for messages.
        call: `call(*refs)` runs it on flat references.
        ref_avals: the types of these.
        grid, grid_names: the grid, for `program_id` and named axes.
        names: of the references, for messages.
        label: the name in programs; by default the kernel's.

    Raises:
        ValueError: the kernel returns something, or captures arrays.
    """
    jaxpr, consts = trace_open_kernel(kernel, call, ref_avals, grid, grid_names, names, label)
    check_captured(kernel, [a for a in map(aval_of, consts) if not isinstance(a, AbstractRef)])
    if consts:
        jaxpr = pe.convert_constvars_jaxpr(jaxpr)
    return ClosedJaxpr(pe.dce_jaxpr_eqns(jaxpr)), consts


def trace_open_kernel(
    kernel: Callable[..., Any],
    call: Callable[..., Any],
    ref_avals: Sequence[AbstractRef],
    grid: Sequence[int | None],
    grid_names: Sequence[Any] | None = None,
    names: Sequence[str] = (),
    label: str | None = None,
) -> tuple[Jaxpr, list]:
    """Like `trace_kernel`, with everything that the kernel captures as constants.

    Raises:
        ValueError: the kernel returns something.
    """
    name = label or getattr(kernel, "__name__", None) or type(kernel).__name__

    def flat(*refs):
        with kernel_grid(grid, grid_names):
            result = call(*refs)
        if result is not None:
            raise ValueError(
                f"The kernel function {_text(kernel, label)} should return None. It writes its results to "
                f"references; got a result of structure {_tree.structure(result)}"
            )
        return ()

    jaxpr, consts = pe.trace_to_jaxpr(flat, ref_avals, DebugInfo(name, tuple(names), ()))
    return jaxpr, list(consts)


def _text(kernel, label: str | None) -> str:
    """A kernel in messages, with the name that it was given."""
    text = _source_info.describe_function(kernel)
    return (
        text
        if label in (None, getattr(kernel, "__name__", None))
        else f"{label} for kernel function {text}"
    )


def check_captured(kernel: Callable[..., Any], refused: Sequence[Any]) -> None:
    """Raises ValueError if a kernel captures values of these types."""
    if refused:
        raise ValueError(
            f"The kernel function {_source_info.describe_function(kernel)} captures constants "
            f"{', '.join(map(str, refused))}: a kernel sees only its references, so pass them as inputs. Numbers and "
            f"references may be captured."
        )


def call_kernel(
    kernel: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], scratch: Any
) -> Any:
    """Calls a kernel with its references; a dictionary of scratch is passed by keyword.

    Raises:
        TypeError: the kernel takes others.
    """
    named = scratch if isinstance(scratch, dict) else {}
    args = (*inputs, *outputs, *(() if named else scratch))
    check_arity(
        kernel,
        args,
        named,
        lambda: (
            f"The kernel function {_source_info.describe_function(kernel)} is called with {len(inputs)} inputs, "
            f"{len(outputs)} outputs and {len(scratch)} references to scratch, in this order"
        ),
    )
    return kernel(*args, **named)


def check_arity(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Any, explain: Callable[[], str]
) -> None:
    """Raises TypeError, with what `explain` says, if a function cannot be called with these arguments."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return  # nothing is known of it
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{explain()}, but its signature is {signature}: {error}") from None


def split_scratch(scratch_shapes: Any) -> tuple[list, Any]:
    """Leaves and structure of scratch types: a dictionary if the kernel gets them by keyword, else a tuple."""
    if scratch_shapes is None:
        scratch_shapes = ()
    if not isinstance(scratch_shapes, (Sequence, Mapping)):
        raise ValueError(
            f"scratch is a sequence of types, or a dictionary of them for references by keyword, got {scratch_shapes!r}. One type "
            f"stands in a list: [{scratch_shapes!r}]"
        )
    return _tree.flatten(
        dict(scratch_shapes) if isinstance(scratch_shapes, Mapping) else tuple(scratch_shapes)
    )
