"""The value path of a kernel in programs: at once where its operands are there, else as a call back from the compiled program.

The value interpreter stands above this file and registers itself (`set_runner`). Calls from compiled programs are ordered, one after
the other also from one program to the next; where a program is written per device, each device has its own run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import effects as _effects
from xlab.core.avals import HOST_VALUES, ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.refs import is_ref
from xlab.kernels.interpret import InterpretParams
from xlab.lax.callback_calls import FlatCallback, emit_python_callback, results
from xlab.lax.refs import swap_p


class ValueRunEffect(_effects.Effect):
    """A kernel is run by the value interpreter. To run it again is harmless, so it may stand in functions under `checkpoint`."""

    ordered = True
    shardable = True

    def __str__(self):
        return "ValueRun"


value_run_effect = ValueRunEffect()
_WHOLE = _tree.structure(())
_DEVICE = ShapedArray((), np.dtype(np.uint32))
_runner: list[Callable[..., Any]] = []


def set_runner(run: Callable[..., Any]) -> None:
    """Sets what runs a kernel's equation: `(primitive, params, operands, device, position) -> outputs, {operand: its new value}`.

    `position` is that of the device along the axes of its mesh.
    """
    _runner[:] = [run]


def is_value(interpret: Any) -> bool:
    """Whether a call's mode is that of the value interpreter."""
    return interpret == "value" or isinstance(interpret, InterpretParams)


def value_effects(interpret: Any) -> frozenset[_effects.Effect]:
    """The effects that a call has because of its mode."""
    return frozenset((value_run_effect,)) if is_value(interpret) else _effects.NO_EFFECTS


def as_typed(x: Any) -> Any:
    """An operand that is of NumPy or Python as an array of the type that programs give it: float64 is float32 to most of them."""
    if isinstance(x, HOST_VALUES):
        return np.asarray(x, aval_of(x).dtype)
    return x


def run_eagerly(
    prim: Primitive, operands: Sequence[Any], params: dict[str, Any], avals: Sequence
) -> list:
    """Runs a kernel on concrete operands; references among them get their new values.

    Args:
        avals: the types of the results.
    """
    outs, updates = _runner[0](prim, params, [*map(as_typed, operands)], None, {})
    made = results([np.asarray(x) for x in outs], avals)
    for i, value in updates.items():
        if is_ref(operands[i]):
            inner = aval_of(operands[i]).inner_aval
            swap_p.bind(operands[i], results([np.asarray(value)], [inner])[0], tree=_WHOLE)
    return made


class ValueCall:
    """What a compiled program calls."""

    def __init__(
        self, prim: Primitive, params: dict[str, Any], per_device: bool, axes: dict[Any, int]
    ):
        self.prim, self.params, self.per_device, self.axes = prim, params, per_device, axes
        self.__name__ = params.get("name") or prim.name

    def __call__(self, *operands):
        device = None
        if self.per_device:
            *operands, number = operands
            device = int(number)
        at = np.unravel_index(device or 0, tuple(self.axes.values())) if self.axes else ()
        position = {name: int(i) for name, i in zip(self.axes, at)}
        return _runner[0](self.prim, self.params, operands, device, position)[0]


def lower_value(
    ctx: Any, prim: Primitive, args: Sequence[str], params: dict[str, Any]
) -> list[str]:
    """The call back from a compiled program."""
    per_device = bool(ctx.manual) and ctx.module.devices > 1
    names, avals = list(args), ctx.avals_in
    if per_device:
        names.append(ctx.op("stablehlo.partition_id : tensor<ui32>"))
        ctx.avals_in = (*avals, _DEVICE)
    axes = dict(ctx.mesh.shape) if ctx.manual else {}
    call = ValueCall(prim, params, per_device, axes)
    tree = _tree.structure(((0,) * len(names), {}))
    try:
        return emit_python_callback(
            ctx,
            FlatCallback(call, tree, "kernels"),
            names,
            effect=value_run_effect if value_run_effect in ctx.eqn.effects else None,
        )
    finally:
        ctx.avals_in = avals
