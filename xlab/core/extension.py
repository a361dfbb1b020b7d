"""Names of `jax.core` and `jax.extend.core` for those who write transformations and analyses."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core import source_info as _source_info
from xlab.core.avals import AbstractValue, ShapedArray, aval_of
from xlab.core.effects import NO_EFFECTS, Effect
from xlab.core.jaxpr import Atom, Jaxpr, JaxprEqn, Var, inner_jaxprs
from xlab.core.primitive import Primitive
from xlab.core.trace import EVAL, Trace, set_trace, state
from xlab.core.trace import concrete_or_error as _concrete_or_error
from xlab.errors import XlabTypeError

Value = Any
ParamDict = dict[str, Any]
Effects = frozenset
no_effects = NO_EFFECTS
array_types: set[type] = {np.ndarray, *(np.dtype(t).type for t in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128")), dtypes.bfloat16}  # fmt: skip


class DropVar(Var):
    """An unused result, for jaxprs built by hand."""

    __slots__ = ()

    def __repr__(self):
        return "_"


class TraceTag:
    """A unique tag that identifies the traces of one transformation."""

    __slots__ = ()


def gensym() -> Callable:
    """A function that makes a new variable for a type."""
    return Var


def new_jaxpr_eqn(invars: Iterable[Atom], outvars: Iterable[Var], primitive: Primitive, params: Mapping[str, Any],
                  effects: Iterable[Effect] = NO_EFFECTS, source_info: tuple | None = None, ctx: Any = None) -> JaxprEqn:
    """One equation. `source_info` is that of the equation it comes from; without it, the caller's line."""
    if isinstance(source_info, _source_info.SourceInfo):
        source_info = tuple(source_info)
    return JaxprEqn(list(invars), list(outvars), primitive, dict(params), frozenset(effects), source_info or _source_info.UNKNOWN)


def jaxprs_in_params(params: ParamDict) -> Iterator[Jaxpr]:
    """The jaxprs among an equation's parameters.

    Example:
        >>> import xlab
        >>> eqn, = xlab.make_jaxpr(xlab.jit(lambda x: x + 1))(1.0).eqns
        >>> [len(j.eqns) for j in jaxprs_in_params(eqn.params)]
        [1]
    """
    yield from inner_jaxprs(params)


def mapped_aval(size: int, axis: int | None, aval: AbstractValue) -> AbstractValue:
    """The type of one example of a batch along `axis`.

    Example:
        >>> print(mapped_aval(3, 0, ShapedArray((3, 2), np.float32)))
        float32[2]
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    if aval.shape[axis] != size:
        raise XlabTypeError(f"a batch of {size} examples along axis {axis} was expected, got {aval}")
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis:][1:]))


def unmapped_aval(size: int, axis: int | None, aval: AbstractValue, explicit_mesh_axis: Any = None) -> AbstractValue:
    """The type of a batch along `axis` of examples of a type.

    Example:
        >>> print(unmapped_aval(3, 0, ShapedArray((2,), np.float32)))
        float32[3,2]
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def primal_dtype_to_tangent_dtype(primal_dtype):
    """The element type of derivatives: the same for numbers that can be differentiated, `float0` for the others."""
    return primal_dtype if dtypes.issubdtype(primal_dtype, np.inexact) else dtypes.float0


def valid_jaxtype(x: Any) -> bool:
    """Whether `x` can be an operand: an array, a NumPy array or scalar, a Python number."""
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def concrete_or_error(force: Callable | None, val: Any, context: str = "") -> Any:
    """`force(val)` if the value is known while tracing; the concretization error otherwise.

    Example:
        >>> concrete_or_error(int, np.float32(3.0))
        3
    """
    value = _concrete_or_error(val, context or "a concrete value is needed")
    return value if force is None else force(value)


# -- traces ----------------------------------------------------------------------------------------------


def find_top_trace(values=()):
    """The current trace, which interprets primitives bound now."""
    return state.trace


@contextmanager
def set_current_trace(trace: Trace | None, check_leaks: bool = False) -> Iterator[None]:
    """Makes `trace` the current one for a block."""
    with set_trace(EVAL if trace is None else trace):
        yield


@contextmanager
def take_current_trace():
    """Yields the current trace and makes the block evaluate eagerly."""
    previous = state.trace
    with set_trace(EVAL):
        yield previous


@contextmanager
def eval_context():
    """Primitives bound in the block are evaluated eagerly."""
    with set_trace(EVAL):
        yield


class OpaqueTraceState:
    """The current tracing state as an opaque value that can only be compared."""

    __slots__ = ("_key",)
    __hash__ = None  # type: ignore[assignment]  # how Python spells unhashable

    def __init__(self):
        self._key = (state.trace, tuple(state.axes), state.manual, state.manual_mesh)

    def __eq__(self, other):
        return isinstance(other, OpaqueTraceState) and all(map(_same, self._key, other._key))


def _same(a: Any, b: Any) -> bool:
    return a is b or (not hasattr(a, "process_primitive") and a == b)


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """A token for the state of tracing: compare it with a later one to see whether anything changed."""
    return OpaqueTraceState()


def unsafe_get_axis_names_DO_NOT_USE() -> list:
    """The axis names bound here."""
    return list(state.axes)


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether any axis name is bound here."""
    return bool(state.axes)


# -- dimensions ------------------------------------------------------------------------------------------


def max_dim(d1, d2):
    """The larger of two dimensions."""
    return max(operator.index(d1), operator.index(d2))


def min_dim(d1, d2):
    """The smaller of two dimensions."""
    return min(operator.index(d1), operator.index(d2))
