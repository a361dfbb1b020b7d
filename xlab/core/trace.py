"""Traces, which intercept the application of primitives.

There is one current trace per thread. `Primitive.bind` hands everything to it; a transformation installs its own
trace while the user's function runs, and that trace passes on to its parent whatever does not concern it. Concrete
evaluation is the trace at the bottom.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlab.backend import neighbors
from xlab.backend.native import set_tracing as _set_tracing
from xlab.config import config
from xlab.core import avals as _avals
from xlab.core import dtypes, source_info
from xlab.core.avals import AbstractValue, ShapedArray, aval_of
from xlab.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

if TYPE_CHECKING:
    from xlab.core.primitive import Primitive


class Axis(NamedTuple):
    """A bound axis name: its size and what binds it ('mesh', 'vmap' or 'plain')."""

    name: Any
    size: int
    kind: str
    trace: Any = None
    explicit_mesh_axes: Any = (
        None  # of a batched axis: (mesh, the Explicit mesh axes that shard its dimension)
    )
    spmd: tuple = ()  # of a batched axis: the mesh axes of `spmd_axis_name`
    index: Any = (
        None  # of a grid axis of a kernel: the function that gives the program's position along it
    )

    @property
    def spmd_entry(self):
        """The entry of a `PartitionSpec` for the batched dimension."""
        return None if not self.spmd else self.spmd[0] if len(self.spmd) == 1 else self.spmd


class Trace:
    """An interpretation of primitives. Subclasses define `process_primitive`, and a `label` for messages."""

    __slots__ = ("__weakref__", "alive")
    label = "a function"
    records_derivatives = False  # whether its values are unknown tangents
    makes_programs = (
        False  # operations become parts of programs, which run where their operands are
    )

    alive: bool

    def __init__(self):
        self.alive = True

    @property
    def main(self) -> Trace:
        """Identifies the transformation of this trace; the name is JAX's."""
        return self

    def process_primitive(self, prim, args, params):
        raise NotImplementedError(f"{type(self).__name__} does not define process_primitive")

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        """A call of a function with a rule of its own; a trace written for JAX's public API has it as `process_custom_jvp_call`."""
        return self._custom_call("process_custom_jvp_call", prim, (fun, jvp), args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        """As `process_custom_jvp`, of rules forwards and backwards: `process_custom_vjp_call`."""
        return self._custom_call("process_custom_vjp_call", prim, (fun, fwd, bwd), args, params)

    def _custom_call(self, name, prim, functions, args, params):
        rule = getattr(self, name, None)
        if rule is None:
            raise NotImplementedError(f"{type(self).__name__} does not define {name}")
        given = {"symbolic_zeros": params.get("symbolic_zeros", False)}
        if len(functions) == 3:
            given["out_trees"] = getattr(functions[2], "out_trees", None)
        return rule(prim, *map(WrappedFunction, functions), args, **given)

    def cur_qdd(self, x: Any) -> Any:
        """The state of a value of a mutable hi type (`hi_types.py`)."""
        if isinstance(x, Tracer):
            return x._trace.cur_qdd(x)
        parent = getattr(self, "parent", None)
        return x.cur_qdd() if parent is None else parent.cur_qdd(x)


class WrappedFunction:
    """A function as traces and interpreters written for JAX's public API call it."""

    __slots__ = ("call_wrapped", "f")

    def __init__(self, fun):
        self.f = self.call_wrapped = fun

    def __call__(self, *args):
        return self.f(*args)


class EvalTrace(Trace):
    """Concrete evaluation: primitives run at once, each through its eager rule."""

    __slots__ = ()
    label = "eager evaluation"

    def process_primitive(self, prim, args, params):
        impl = prim.impl
        if impl is None:
            impl = default_impl(prim)
        return impl(*args, **params)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        return fun(*args)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        return fun(*args)


class _State(threading.local):
    """What the current thread is doing. Class attributes are the values every thread starts with."""

    trace: Trace = EvalTrace()
    scope: str = ""  # stack of named scopes, joined by '/'
    source_info: Any = None  # location to use instead of the caller's
    callers: Any = None  # the user's frames around the trace that is being made
    called: Any = None  # the frame that made the last equation (`locations.py`)
    looked_at: Any = None  # the code of the function that an observer traces
    axes: dict[Any, Axis] = {}  # bound axis names; replaced, never changed in place
    manual: Any = None  # mesh axes under check_vma, or None where types do not vary
    manual_mesh: Any = None  # the mesh whose axes are manual
    kernel: Any = None  # the grid of the kernel that is traced (`kernels/program.py`)
    batch_sharding: Any = (
        None  # how the dimension being batched lies over Explicit mesh axes: (mesh, axes)
    )

    def __init__(self):
        # Each thread's own, so that `state.__dict__`, found once, has all of them: what runs for every equation reads them there.
        for name, value in _STARTED.items():
            setattr(self, name, value)

    def insert_pvary(self, prim, args):
        return insert_pvary(prim, args)

    def vary(self, x, axes):
        """`x` as a value that varies over mesh axes."""
        return _pvary(x, axes)

    def match(self, x, aval):
        """Casts `x`, an invarying value, to the manual axis type of `aval`; if that is unreduced, `x` is zero."""
        if not aval.mat:
            return x
        if self.manual is not None:
            return _match(x, aval.mat)
        return _reshard(x, aval) if aval.mat.unreduced or aval.mat.reduced else x


_STARTED = {name: getattr(_State, name) for name in _State.__annotations__}
state = _State()
_ANNOTATIONS = "annotations"
EVAL = _State.trace

# Hooks: set by the rooms above, each in one place, before they are called.
# compile/dispatch.py: primitive -> eager rule
_default_impl: Callable[[Primitive], Callable[..., Any]] = None  # type: ignore[assignment]
# the same file: (primitive, *operands, **parameters) -> result(s)
apply_primitive: Callable[..., Any] = None  # type: ignore[assignment]
# lax/collectives/casts.py: (x, axes) -> x varying over axes
_pvary: Callable[[Any, tuple], Any] = None  # type: ignore[assignment]
# the same file: (x, manual axis type) -> x of that type
_match: Callable[[Any, _avals.ManualAxisType], Any] = None  # type: ignore[assignment]
# lax/reshard.py: (x, type) -> x brought to the sharding that the type states over Explicit axes
_reshard: Callable[[Any, ShapedArray], Any] = None  # type: ignore[assignment]


def set_default_impl(make, apply):
    global _default_impl, apply_primitive
    _default_impl, apply_primitive = make, apply


def set_reshard(reshard):
    global _reshard
    _reshard = reshard


def set_pvary(pvary, match=None):
    global _pvary, _match
    _pvary, _match = pvary, match or _match


def default_impl(prim):
    return _default_impl(prim)


def insert_pvary(prim, args):
    """Makes operands vary over the same mesh axes, by casting invarying ones."""
    varying: frozenset[Any] = frozenset()
    unfinished = False
    mats = []
    for a in args:
        aval = a.aval if isinstance(a, Tracer) else None
        mat = aval.mat if type(aval) is ShapedArray else _avals.INVARYING
        mats.append(mat)
        if mat:
            varying |= mat.varying
            unfinished = unfinished or bool(mat.unreduced or mat.reduced)
    if not varying and not unfinished:
        return args
    out = []
    for a, mat in zip(args, mats):
        missing = varying - mat.varying - mat.unreduced
        if missing:
            if not config.auto_pcast:
                raise ValueError(
                    f"Primitive {prim.name} requires varying manual axes to match, but got "
                    f"{[set(m.varying) for m in mats]} while auto_pcast is off. Cast with xlab.lax.pcast(x, "
                    f"{tuple(sorted(missing, key=str))}, to='varying')."
                )
            a = _pvary(a, tuple(sorted(missing, key=str)))
        out.append(a)
    return (
        _insert_unreduced_casts(prim, args, out, mats, varying)
        if unfinished and config.auto_pcast
        else tuple(out)
    )


def _insert_unreduced_casts(prim, given, args, mats, varying):
    """Casts invarying operands used together with unreduced or reduced ones, without communication.

    A number has no derivative, so it may be cast to reduced; zero may be cast to unreduced, a sum of zeros.
    """
    unreduced: frozenset[Any] = frozenset().union(*(m.unreduced for m in mats))
    reduced: frozenset[Any] = frozenset().union(*(m.reduced for m in mats)) - varying - unreduced
    out = []
    for number, a, mat in zip(given, args, mats):
        sums: frozenset[Any] = frozenset()
        same: frozenset[Any] = frozenset()
        if not isinstance(number, Tracer) and np.ndim(number) == 0:
            if prim.linear_in_unreduced is True and not number:
                sums = unreduced - varying
            else:
                same = unreduced - varying
        if prim.casts_to_reduced and dtypes.issubdtype(getattr(a, "dtype", np.float32), np.inexact):
            same |= reduced - mat.reduced
        out.append(
            _match(
                a, mat.update(unreduced=mat.unreduced | sums, reduced=mat.reduced - varying | same)
            )
            if sums or same
            else a
        )
    return tuple(out)


def switch_trace(trace: Trace) -> Trace:
    """Makes `trace` the current one; returns the one before, to be switched back to."""
    here = state.__dict__
    previous, here["trace"] = here["trace"], trace
    if trace is EVAL:
        if previous is not EVAL:
            _set_tracing(False)
    elif previous is EVAL:
        _set_tracing(True)
    return previous


@contextmanager
def set_trace(trace: Trace) -> Iterator[Trace]:
    """Makes `trace` the current one for a block."""
    previous = switch_trace(trace)
    try:
        yield trace
    finally:
        switch_trace(previous)


def describe_place() -> str:
    """The line of what is running, for error messages: of the equation that is run anew, else of the caller."""
    place = state.source_info
    if place is None or place[0] is None:
        return source_info.describe_caller()
    return str(source_info.SourceInfo(*place))


@contextmanager
def user_context(eqn_source_info: Any, name_stack: str | None = None) -> Iterator[None]:
    """Gives everything bound in the block the location of an earlier equation, under its named scopes or under others."""
    previous = state.source_info, state.scope
    if name_stack is not None:
        state.scope = name_stack
        if eqn_source_info is not None:
            eqn_source_info = source_info.rescoped(eqn_source_info, name_stack)
    state.source_info = eqn_source_info
    try:
        yield
    finally:
        state.source_info, state.scope = previous


class _CompileTimeTrace(EvalTrace):
    """Eager evaluation while tracing: operations on traced values still go to the outer trace."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def _trace_for(self, args: Iterable[Any]) -> Trace:
        return self.parent if any(isinstance(x, Tracer) for x in args) else EVAL

    def process_primitive(self, prim, args, params):
        with set_trace(self._trace_for(args)) as trace:
            return trace.process_primitive(prim, args, params)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        with set_trace(self._trace_for(args)) as trace:
            return trace.process_custom_jvp(prim, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        with set_trace(self._trace_for(args)) as trace:
            return trace.process_custom_vjp(prim, fun, fwd, bwd, args, params)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Evaluates operations on concrete values eagerly in the block, even while a function is traced.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> @xlab.jit
        ... def f(x):
        ...     with xlab.ensure_compile_time_eval():
        ...         n = int(jnp.arange(4).sum())
        ...     return x * n
        >>> float(f(2.0))
        12.0
    """
    if state.trace is EVAL:
        yield
        return
    with set_trace(_CompileTimeTrace(state.trace)):
        yield


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Labels the equations made inside, for programs, profiles and error messages.

    Example:
        >>> import xlab
        >>> with xlab.named_scope("attention"):
        ...     y = xlab.numpy.ones(3) * 2
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope takes a string, got {name!r} of type {type(name).__name__}")
    previous = state.scope
    state.scope = source_info.extended(previous, name)
    try:
        yield
    finally:
        state.scope = previous


@contextmanager
def transforming(word: str) -> Iterator[None]:
    """Equations made inside are shown to compilers and profilers as made by a transformation, `jvp(...)`."""
    previous = state.scope
    state.scope = source_info.transformed(previous, word)
    try:
        yield
    finally:
        state.scope = previous


@contextmanager
def annotated(name: str, annotations: Mapping[str, str | None]) -> Iterator[None]:
    """A named scope whose equations carry annotations for the compiler, besides those around; None takes one away."""
    scope = source_info.extended(state.scope, name)
    merged = {**dict(source_info.annotations_of(scope)), **annotations}
    with annotated_as(tuple(sorted((k, v) for k, v in merged.items() if v is not None)), scope):
        yield


@contextmanager
def annotated_as(
    annotations: tuple[tuple[str, str], ...], scope: str | None = None
) -> Iterator[None]:
    """Equations made inside carry these annotations for the compiler and no others, in another scope if one is given."""
    previous = state.scope, state.source_info
    state.scope = source_info.annotated_scope(previous[0] if scope is None else scope, annotations)
    if scope is None and previous[1] is not None:
        place = source_info.annotated_scope(previous[1][2], annotations)
        state.source_info = source_info.rescoped(previous[1], place)
    key = config.set_context_value(_ANNOTATIONS, annotations or None)
    try:
        yield
    finally:
        config.set_context_value(_ANNOTATIONS, key)
        state.scope, state.source_info = previous


@contextmanager
def bound_axes(axes: Sequence[Axis]) -> Iterator[None]:
    """Binds axis names (a sequence of `Axis`) for a block; inner bindings shadow outer ones."""
    previous = state.axes
    if axes:
        state.axes = {**previous, **{a.name: a for a in axes}}
    try:
        yield
    finally:
        state.axes = previous


def axis_size(name: Any) -> int:
    """Size of a bound axis name; NameError when it is not bound."""
    return find_axis(name).size


def check_axis_name(name: Any, api: str) -> None:
    """Raises for a name that collectives could not tell from the number of an array axis."""
    if type(name) is int:
        raise TypeError(
            f"{api} got axis_name={name}: an int names an axis of an array, as in psum(x, {name}). Any other hashable value names a mapped "
            f"axis, such as axis_name='batch'"
        )


def find_axis(name: Any, api: str = "this operation") -> Axis:
    axis = state.axes.get(name)
    if axis is None:
        bound = ", ".join(repr(n) for n in state.axes) or "none"
        raise NameError(
            f"unbound axis name {name!r} in {api} at {source_info.describe_caller()}. Axis names that are bound here: "
            f"{bound}. Bind it with shard_map over a mesh that has this axis, or with vmap(..., axis_name={name!r})"
        )
    return axis


class Tracer:
    """Stands for a value while a function is traced. Operators and methods are those of arrays."""

    __slots__ = ("__weakref__", "_trace", "aval")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]  # how Python spells unhashable

    _trace: Trace
    aval: AbstractValue
    runs_now = False  # operations on it run at once, on the values of all devices

    def __init__(self, trace, aval):
        self._trace = trace
        self.aval = aval

    def origin(self) -> str:
        return "an unknown place"

    def known(self):
        """The value, where the transformation knows it; None otherwise."""
        return None

    def concrete(self):
        """The value for Python to act on: `known()`, which a transformation may go out of its way to find."""
        return self.known()

    def disagreement(self) -> str | None:
        """Why one Python value cannot stand for this one although values are known; None where they are not."""
        return None

    def _describe(self) -> str:
        return f"a traced value of type {self.aval.str_short(short_dtypes=True)} (made at {self.origin()})"

    def _refuse_disagreeing(self, error: type[Exception], wanted: str) -> None:
        if (found := self.disagreement()) is not None:
            raise error(
                f"Python needed {wanted} from {self._describe()} at {source_info.describe_caller()}, but {found}. Python runs once for "
                f"all devices: choose per device with xlab.numpy.where(pred, a, b) or xlab.lax.cond, or bring the devices to one "
                f"value first, as with xlab.lax.psum or xlab.lax.pmax over the mesh axes."
            )

    def __bool__(self):
        value = self.concrete()
        if value is not None:
            return bool(value)
        self._refuse_disagreeing(TracerBoolConversionError, "True or False")
        branch = "@xlab.kernels.when(pred), xlab.lax.cond" if state.kernel else "xlab.lax.cond"
        raise TracerBoolConversionError(
            f"Python needed True or False from {self._describe()} at {source_info.describe_caller()}, but its value is only "
            f"known when the compiled program runs. Write the branch as {branch}(pred, f, g, x) or "
            f"xlab.numpy.where(pred, a, b), a loop as xlab.lax.while_loop, or make the argument that decides static "
            f"(static_argnames; --static in a cell)."
        )

    def _number(self, convert, name=None):
        name = name or f"{convert.__name__}()"
        value = self.concrete()
        if value is not None:
            aval = _avals.aval_of(value)
            # A float has a derivative, which Python's number would be without.
            if convert is int or not dtypes.issubdtype(aval.dtype, np.inexact):  # type: ignore[attr-defined]
                return convert(value)
        self._refuse_disagreeing(ConcretizationTypeError, f"one number for {name}")
        raise ConcretizationTypeError(
            f"{name} needs a number, got {self._describe()} at {source_info.describe_caller()}. Keep it an array "
            f"(x.astype(...); xlab.numpy has the functions of Python's math), or make the argument it comes from static."
        )

    def __float__(self):
        return self._number(float)

    def __int__(self):
        return self._number(int)

    def __complex__(self):
        return self._number(complex)

    def __index__(self):
        value = self.concrete()
        if value is not None:
            return operator.index(value)
        self._refuse_disagreeing(TracerIntegerConversionError, "one integer")
        raise TracerIntegerConversionError(
            f"an integer is needed at {source_info.describe_caller()}, got {self._describe()}. Sizes, axes and Python loop "
            f"bounds must be known while tracing: use a Python int, a static argument, or lax.dynamic_slice / "
            f"lax.fori_loop."
        )

    def __array__(self, *args, **kwargs):
        # Even where the value is known: NumPy would lose its derivative.
        raise TracerArrayConversionError(
            f"NumPy was given {self._describe()} at {source_info.describe_caller()}, which it can neither compile nor differentiate. Use the "
            f"function of that name in xlab.numpy, or xlab.pure_callback to call NumPy from the program."
        )

    def __repr__(self):
        return f"{type(self).__name__}({self.aval})"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


_avals.aval_makers[Tracer] = lambda x: x.aval


def concrete_or_error(x: Any, why: str) -> Any:
    """The value of `x` if it is known while tracing; the concretization error otherwise."""
    if isinstance(x, Tracer):
        value = x.concrete()
        if value is None:
            raise ConcretizationTypeError(f"{why}: got {x._describe()}")
        return value
    return x


def is_tracer(x: Any) -> bool:
    return isinstance(x, Tracer)


def is_abstract(x: Any) -> bool:
    """Whether operations on `x` are recorded or transformed; those on arrays, and on the values of all devices, run now."""
    return isinstance(x, Tracer) and not x.runs_now


def typeof(x: Any) -> AbstractValue:
    """Type of a value: shape, dtype, weak type and so on.

    Example:
        >>> import xlab
        >>> str(xlab.typeof(xlab.numpy.ones((2, 3))))
        'float32[2,3]'
    """
    return aval_of(x)


neighbors.answer_jax(
    Tracer,
    ("__jax_array__",),
    "a value that xlab traces",
    "Each package traces its own functions: call the function of the same name in xlab, or let JAX trace the whole, as jax.jit(f) does.",
)
