"""The arguments and outputs of kernels: as types of references, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab import tree as _tree
from xlab.core.avals import INVARYING, ShapedArray, aval_of
from xlab.core.refs import AbstractRef, is_ref
from xlab.core.trace import state
from xlab.kernels.memory import as_ref_aval


def operand_ref(x: Any, origin: str) -> AbstractRef:
    """The type of an argument as a reference.

    Raises:
        ValueError: it is sharded over mesh axes of type Explicit.
    """
    aval = aval_of(x)
    if aval.explicit_sharding is not None:
        raise ValueError(
            f"{origin} of a kernel call has the type {aval}, sharded over mesh axes of type Explicit: all mesh axes must be "
            f"manual. Call the kernel inside a shard_map over these axes, on each device's part."
        )
    return aval if isinstance(aval, AbstractRef) else AbstractRef(aval.strip_weak_type())


def output_ref(x: Any, origin: str) -> AbstractRef:
    """The type of an output as a reference.

    Raises:
        ValueError: it is no type of an array.
    """
    try:
        aval = as_ref_aval(x)
    except ValueError as e:
        raise ValueError(f"{origin} of out_shape: {e}") from None
    mat = x.mat if isinstance(x, ShapedArray) else getattr(x, "manual_axis_type", None)
    return aval.update(mat=mat) if mat else aval


def in_kernel(aval: AbstractRef) -> AbstractRef:
    """The type of an array as a kernel sees it: it does not say over which mesh axes its values vary."""
    return aval.update(mat=INVARYING) if aval.mat else aval


def check_manual(outputs: Sequence[Any], origins: Sequence[str]) -> None:
    """Raises ValueError where a shard_map checks over which mesh axes values vary, and an output does not say it."""
    silent = [
        (x, origin)
        for x, origin in zip(outputs, origins)
        if not isinstance(x, ShapedArray) and getattr(x, "manual_axis_type", None) is None
    ]
    if state.manual and silent:
        raise ValueError(
            f"{silent[0][1]} of out_shape, {silent[0][0]}, is made inside a shard_map that checks over which mesh axes values "
            f"vary: it has to say so, as xlab.ShapeDtypeStruct(shape, dtype, "
            f"manual_axis_type=xlab.sharding.ManualAxisType(varying={{'x'}})). Or call shard_map with check_vma=False"
        )


def check_passed_once(what: str, args: Any) -> None:
    """Raises NotImplementedError if a reference is among the arguments twice."""
    refs = [id(x) for x in _tree.leaves(args) if is_ref(x)]
    if len(set(refs)) == len(refs):  # nearly always
        return
    seen: dict[int, str] = {}
    for path, x in _tree.flatten_with_path(args)[0]:
        if is_ref(x):
            here = f"args{_tree.keystr(path)}"
            if id(x) in seen:
                raise NotImplementedError(
                    f"the reference {x} is passed twice to {what}, as {seen[id(x)]} and as {here}, which would alias: "
                    f"pass it once"
                )
            seen[id(x)] = here


def check_captured_once(
    captured: Sequence[Any], leaves: Sequence[Any], origins: Sequence[str]
) -> None:
    """Raises NotImplementedError if a reference that is captured is also an argument."""
    places = {id(x): origin for x, origin in zip(leaves, origins) if is_ref(x)}
    for ref in captured:
        if id(ref) in places:
            raise NotImplementedError(
                f"the reference {ref} is captured by the kernel and also passed as {places[id(ref)]}, which would alias: do one of "
                f"both"
            )
