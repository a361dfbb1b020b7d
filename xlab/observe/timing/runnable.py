"""What is run to be measured: a function, or the program of a stage or a jaxpr, with arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.ref_discharge import copied
from xlab.compile.stages import Compiled, Lowered, ShapeDtypeStruct, Traced
from xlab.compile.tracing import own
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from xlab.observe.beside.calls import JaxFunction, program_of
from xlab.observe.beside.recognize import held_stage, is_ours, is_stage, is_theirs, jax
from xlab.observe.programs.recorder import paused
from xlab.observe.programs.stage_function import StageFunction
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.programs.view_jits import jitted


def callable_of(what: Any, asker: str) -> Any:
    """What runs when it is called with arguments: a stage is compiled, a jaxpr is compiled at its first call, a function stays as it is.

    Raises:
        TypeError: nothing of it can run.

    Example:
        >>> import numpy as np, xlab
        >>> low = xlab.jit(lambda x: x + 1).lower(np.float32(1))
        >>> float(callable_of(low, "profile")(np.float32(2)))
        3.0
    """
    what = held_stage(what)
    if is_stage(what):
        return JaxFunction(what)
    if isinstance(what, StageFunction):
        return what.compiled if not what.given else what
    if isinstance(what, Traced):
        what = what.lower()
    if isinstance(what, Lowered):
        return what.compile()
    if isinstance(what, Jaxpr):
        what = ClosedJaxpr(what, ())
    if isinstance(what, ClosedJaxpr):
        return jit(jaxpr_as_fun(what), name=what.jaxpr.debug_info.name)
    if not callable(what):
        raise TypeError(
            f"{asker} takes a function and its arguments, given {what!r} of type {type(what).__name__}"
        )
    return what


def measured_call(
    what: Any, args: tuple, kwargs: dict[str, Any], asker: str
) -> tuple[Any, tuple, dict[str, Any], ProgramStages]:
    """What is called, the arguments, and the stages of the program that then runs.

    A stage or a jaxpr without arguments runs on those that it was traced with where it still has them, else on ones.
    """
    what = held_stage(what)
    call = callable_of(what, asker)
    if not args and not kwargs:
        args, kwargs = _own_arguments(what, call)
    if isinstance(call, Compiled):
        return call, args, kwargs, program_stages(call)
    call = jitted(call, None, args, kwargs)
    return call, args, kwargs, program_stages(call, args, kwargs)


class Spared:
    """The arguments of runs that are looked at: what a run takes for itself (donation) is a copy, so that the caller's arrays stay alive.

    A call gives those of one run. Where it is not known that a function takes nothing, the first run gets copies of all arrays, and the next ones
    of those that it took.

    Example:
        >>> import numpy as np, xlab
        >>> x = xlab.device_put(np.ones(3))
        >>> taking = xlab.jit(lambda x: x + 1, donate_argnums=0)
        >>> given, named = Spared(taking, (x,), {})()
        >>> _ = taking(*given, **named)
        >>> given[0].is_deleted(), x.is_deleted()
        (True, False)
    """

    def __init__(self, call: Any, args: tuple, kwargs: dict[str, Any]):
        self.given = args, kwargs
        self._copies: dict[int, Any] = {}
        self._flat: list[Any] = []
        self._taken: set[int] = set()
        self._structure: Any = None
        if _takes_nothing(call):
            return
        theirs = isinstance(call, JaxFunction)  # by the classes that JAX knows
        flatten = jax().tree_util.tree_flatten if theirs else _tree.flatten
        self._flat, self._structure = flatten(self.given)
        self._taken = {
            id(x) for x in self._flat if (is_ours(x) or is_theirs(x)) and not x.is_deleted()
        }

    def __call__(self) -> tuple[tuple, dict[str, Any]]:
        if self._copies:
            self._taken = {k for k, x in self._copies.items() if x.is_deleted()}
        if not self._taken:
            self._copies = {}
            return self.given
        # An array that is given twice is one array in a run too.
        with paused():
            self._copies = {
                id(x): copied(x) if is_ours(x) else x.copy()
                for x in self._flat
                if id(x) in self._taken
            }
            for x in self._copies.values():
                x.block_until_ready()
        flat = [self._copies.get(id(x), x) for x in self._flat]
        return self._structure.unflatten(flat)


def _takes_nothing(call: Any) -> bool:
    """Whether it is known that no run takes an argument for itself."""
    owner = own(call, "_xlab_jit")
    if owner is not None:
        return not (owner.donate_argnums or owner.donate_argnames)
    stage = call.compiled if isinstance(call, StageFunction) else call
    if isinstance(stage, Compiled):
        return not any(info.donated for info in _tree.leaves(stage.args_info))
    return False


def _own_arguments(what: Any, call: Any) -> tuple[tuple, dict[str, Any]]:
    if is_stage(what):
        given, named = program_of(what).ones()
        return tuple(given), named
    if isinstance(what, Jaxpr | ClosedJaxpr):
        closed = what if isinstance(what, ClosedJaxpr) else ClosedJaxpr(what, ())
        return tuple(map(_ones, closed.in_avals)), {}
    if not isinstance(call, Compiled):
        return (), {}
    traced: Any = what if isinstance(what, Traced) else getattr(call.lowered, "traced", None)
    given = traced._flat if traced is not None else _tree.leaves(call.in_avals)
    flat = [_ones(x) if isinstance(x, ShapeDtypeStruct | ShapedArray) else x for x in given]
    args, kwargs = _tree.unflatten(call.in_tree, flat)
    return args, kwargs


def _ones(aval: Any) -> Any:
    if not hasattr(aval.dtype, "impl"):
        return np.ones(aval.shape, aval.dtype)
    from xlab import random

    key = random.key(1, impl=aval.dtype.impl.name)
    return random.split(key, aval.shape) if aval.shape else key
