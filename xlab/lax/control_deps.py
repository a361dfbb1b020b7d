"""`control_dep`: one value is computed before another, although the other does not need it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from xlab.backend import partitioners
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.shardings import left_to_compiler, part_type

__all__ = ["control_dep", "control_dep_p", "schedule"]


def control_dep(src: Any, dst: Any) -> None:
    """Makes the program compute `src` before `dst`: the compiler gets a control dependency between the operations that make them.

    Outside of a program, where operations run one after the other, it does nothing. Under `vmap` the batched values are ordered; derivatives
    leave the order of tangents to the compiler.

    Args:
        src, dst: arrays, of any types.

    Raises:
        InvalidInputException: for what is no array.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> @xlab.jit
        ... def f(x, y):
        ...     first, second = x @ y, y @ x
        ...     control_dep(second, first)
        ...     return first, second
        >>> "control-predecessors" in f.lower(jnp.ones((2, 2)), jnp.ones((2, 2))).compile().as_text()
        True
    """
    control_dep_p.bind(src, dst)


def schedule(ops: Sequence[Any]) -> None:
    """Makes the program compute values in this order: `schedule([a, b, c])` computes `a` before `b`, and `b` before `c`.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> xlab.jit(lambda x: schedule([x + 1, x * 2]))(jnp.ones(3))
    """
    ops = list(ops)
    for src, dst in itertools.pairwise(ops):
        control_dep(src, dst)


control_dep_p = Primitive("control_dep", multiple_results=True, auto_pvary=False)
# The effect says that it is no dead code, although nothing comes of it.
control_dep_p.def_effectful_abstract_eval(lambda src, dst: ((), {_effects.debug_effect}))


@control_dep_p.def_impl
def _impl(src, dst):
    aval_of(src), aval_of(dst)
    return []


@functools.partial(ad.primitive_jvps.__setitem__, control_dep_p)
def _jvp(primals, tangents):
    return control_dep_p.bind(*primals), []


@functools.partial(ad.primitive_transposes.__setitem__, control_dep_p)
def _transpose(cts, *operands):
    return [None] * len(operands)


@functools.partial(batching.primitive_batchers.__setitem__, control_dep_p)
def _batch(operands, dims):
    return control_dep_p.bind(*operands), []


class _OnEachDevice:
    """Splits the operation over devices: it orders the parts of both values as they lie, and moves none."""

    def __init__(self, avals: Sequence[Any]):
        self.avals = tuple(avals)

    def __call__(self, operands: Sequence, results: Sequence) -> tuple[str, Sequence, Sequence]:
        types = [part_type(a, tiling) for a, tiling in zip(self.avals, operands, strict=True)]
        return (
            f"module {{ func.func @main(%a: {types[0]}, %b: {types[1]}) {{ {_text('%a', '%b', types)} return }} }}",
            operands,
            results,
        )

    def raise_failure(self) -> None:
        """Nothing of the user's runs here."""


def _text(src: str, dst: str, types: Sequence[str]) -> str:
    return (
        f"stablehlo.custom_call @control_dep({src}, {dst}) {{has_side_effect = true}} : "
        f"({', '.join(types)}) -> ()"
    )


def _lowering(ctx, src, dst):
    types = list(map(mlir.tensor_type, ctx.avals_in))
    if not left_to_compiler(ctx):
        ctx.op0(_text(src, dst, types))
        return []
    # A call that is partitioned as any other would have whole operands.
    split = _OnEachDevice(ctx.avals_in)
    ctx.module.partitioners.append(split)
    ctx.op0(
        f"stablehlo.custom_call @{partitioners.TARGET}({src}, {dst}) {{api_version = 2 : i32, has_side_effect = true, "
        f'backend_config = "{partitioners.add(split)}"}} : ({ctx.types_in()}) -> ()'
    )
    return []


mlir.register_text_lowering(control_dep_p, _lowering)

costs.register(costs.free, control_dep_p)
