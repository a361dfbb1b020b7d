"""Calling Python from lowering rules: `interpreters.mlir.emit_python_callback`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core.jaxpr import DebugInfo
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.mlir.building import LoweringRuleContext, call_program
from xlab.lax.callback_calls import FlatCallback
from xlab.lax.callbacks import io_callback_p, pure_callback_p


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable,
    token: Any,
    operands: Sequence,
    operand_avals: Sequence,
    result_avals: Sequence,
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
):
    """Calls a Python function on MLIR values from inside a rule.

    Args:
        ctx: what the rule is given.
        callback: takes NumPy arrays, returns a sequence of arrays.
        token: None. A program that is to keep the order of calls has `xlab.experimental.io_callback` with `ordered=True`.
        operands, operand_avals: the values and their types.
        result_avals: types of the results.
        has_side_effect: the call is made even where its results are not used.

    Returns:
        `(results, token, keepalive)`, of which the last two are None: the program keeps the function itself.

    Raises:
        NotImplementedError: for a token, `partitioned`, or a `sharding`.
    """
    if token is not None or partitioned or sharding is not None:
        raise NotImplementedError(
            "emit_python_callback takes no token, sharding or partitioned=True: the call is made once, where the program runs. "
            "xlab.experimental.io_callback has ordered=True, and shard_map around it makes a call per device"
        )
    closed = _program(callback, operand_avals, result_avals, has_side_effect)
    return call_program(ctx, closed, operands, "callback"), None, None


def _program(callback, operand_avals, result_avals, has_side_effect):
    """A program that only calls a function of NumPy arrays."""
    _, in_tree = _tree.flatten((tuple(operand_avals), {}))

    def on_host(*args):
        return tuple(callback(*map(np.asarray, args)))

    params = {
        "callback": FlatCallback(on_host, in_tree, "emit_python_callback"),
        "result_avals": tuple(result_avals),
        "sharding": None,
    }

    def run(*args):
        if has_side_effect:
            return io_callback_p.bind(*args, ordered=False, **params)
        return pure_callback_p.bind(*args, vmap_method=None, **params)

    return pe.trace_to_closed_jaxpr(run, list(operand_avals), DebugInfo("callback"))
