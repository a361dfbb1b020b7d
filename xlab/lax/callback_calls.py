"""Host callbacks: flat functions, their arguments and results, and the operation in the compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import calling, failures
from xlab.backend.client import default_device
from xlab.backend.transfer_guards import explicit_transfer
from xlab.compile.placement import default_sharding, place, put_host
from xlab.config import config
from xlab.core import dtypes, source_info
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.trace import EVAL, describe_place, set_trace, state, user_context
from xlab.interpreters import mlir
from xlab.interpreters.mlir.values import physical_aval
from xlab.sharding import SingleDeviceSharding

_ALIGNMENT = 64  # what buffers must have for the runtime to use host memory as it is


class FlatCallback:
    """A user's function on flat arguments and results; equal for equal functions."""

    __slots__ = ("api", "callback_func", "in_tree")

    def __init__(self, callback_func: Callable, in_tree: Any, api: str):
        self.callback_func, self.in_tree, self.api = callback_func, in_tree, api

    def __call__(self, *flat):
        args, kwargs = _tree.unflatten(self.in_tree, flat)
        return _tree.leaves(self.callback_func(*args, **kwargs))

    def __eq__(self, other):
        return (
            type(other) is FlatCallback
            and self.callback_func == other.callback_func
            and self.in_tree == other.in_tree
            and self.api == other.api
        )

    def __hash__(self):
        return hash((self.callback_func, self.in_tree))

    def __repr__(self):
        return f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"

    def describe(self) -> str:
        """The function's name and place, for messages."""
        fun = getattr(self.callback_func, "__wrapped__", self.callback_func)
        code = getattr(fun, "__code__", None)
        name = getattr(fun, "__name__", None) or type(fun).__name__
        if code is None:
            return f"`{name}`"
        cell = source_info.shown_name(code.co_filename)
        return f"`{name}` ({cell or code.co_filename}:{code.co_firstlineno})"


# -- arguments and results --------------------------------------------------------------------------------


def arguments(args: Sequence) -> list:
    """Concrete operands as the arrays a callback receives."""
    out = []
    for x in args:
        if not (is_native_array(x) or isinstance(x, KeyArray)):
            x = place(x, aval_of(x), default_sharding(), committed=False)
        out.append(x)
    return out


def _from_host(value: np.ndarray, aval: ShapedArray):
    """An array copied from the program's memory; it is ready at once and waits for no runtime thread."""
    physical = physical_aval(aval).strip_weak_type()
    raw = np.empty(value.nbytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    own = raw[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    own[...] = value
    sharding = SingleDeviceSharding(default_device())
    with explicit_transfer():
        made = _arrays.put([own], physical, sharding, [sharding.device], False, owned=True)
    return KeyArray(made, aval.dtype) if dtypes.is_extended(aval.dtype) else made


def check_results(
    callback: FlatCallback, outs: Sequence, result_avals: Sequence, x64: bool
) -> list[np.ndarray]:
    """A callback's results as host arrays of the declared types; raises if they have other types."""
    if len(outs) != len(result_avals):
        raise RuntimeError(
            f"Mismatched number of outputs from callback. The callback {callback.describe()} returned {len(outs)} "
            f"array(s), result_shape_dtypes describes {len(result_avals)}"
        )
    found = []
    for i, (x, aval) in enumerate(zip(outs, result_avals)):
        value = np.asarray(x)
        if value.shape != aval.shape:
            raise RuntimeError(
                f"Incorrect output shape for return value #{i}: Expected: {aval.shape}, Actual: {value.shape}. The "
                f"callback {callback.describe()} has to return what result_shape_dtypes says, {aval}"
            )
        if value.dtype != aval.dtype:
            narrowed = value.dtype if x64 else dtypes.canonicalize_dtype(value.dtype)
            if narrowed != aval.dtype:
                raise RuntimeError(
                    f"Incorrect output dtype for return value #{i}: Expected: {aval.dtype}, Actual: {value.dtype}. "
                    f"The callback {callback.describe()} has to return what result_shape_dtypes says, {aval}"
                )
            value = value.astype(aval.dtype)
        found.append(np.asarray(value, order="C"))
    return found


def results(values: Sequence[np.ndarray], avals: Sequence, sharding=None) -> list:
    """Host results of an eager callback as arrays."""
    where = sharding or default_sharding()
    with explicit_transfer():
        return [
            put_host(v.reshape(a.shape), a, where, sharding is not None)
            for v, a in zip(values, avals)
        ]


# -- the call ---------------------------------------------------------------------------------------------


@contextmanager
def _called(joint: bool = False):
    """A callback may use the runtime: concretely, whatever this thread was tracing, and without waiting for its own program."""
    with calling.inside(joint):
        if state.trace is EVAL:
            yield
        else:
            with set_trace(EVAL):
                yield


def _failed(callback: FlatCallback, where: str, error: BaseException) -> tuple[str, str]:
    """Texts for a callback that raised: a short one, and one with the user's frames."""
    import traceback

    at = f", called at {where}," if where else ""
    short = f"xlab.{callback.api} failed: {callback.describe()}{at} raised {type(error).__name__}: {error}"
    tb = error.__traceback__
    while tb is not None and source_info.is_internal(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    error.__traceback__ = tb
    return short, "".join(traceback.format_exception(type(error), error, tb))


def call_eagerly(
    callback: FlatCallback, args: Sequence, result_avals: Sequence
) -> list[np.ndarray]:
    """Runs the callback eagerly on concrete values; its exception becomes the cause of the error."""
    try:
        with calling.eagerly(), _called(), user_context(None):
            outs = callback(*args)
        return check_results(callback, outs, result_avals, config.enable_x64)
    except Exception as e:
        short, _ = _failed(callback, describe_place(), e)
        raise failures.RuntimeFailure(f"INTERNAL: {short}") from e


def _report(callback: FlatCallback, error: BaseException) -> None:
    """Logs that a callback failed, unless its user left the debugger there or stopped the program."""
    import bdb
    import logging

    if isinstance(error, Exception) and not isinstance(error, bdb.BdbQuit):
        logging.getLogger("xlab.lax.callbacks").error(
            "xlab.%s failed", callback.api, exc_info=error
        )


class HostCall:
    """What the compiled program, which is `joint` if it has several devices, calls: host arrays in, host arrays out, on a thread of the runtime.

    In a program whose devices wait for one another, a device that stopped would keep the others waiting until the runtime
    ends the process. There (`continues_after_failure`) a failed call gives zeros, and the failure is kept for the end of the run.
    """

    __slots__ = (
        "avals_in",
        "callback",
        "continues_after_failure",
        "failures",
        "joint",
        "ordered",
        "result_avals",
        "where",
        "x64",
    )

    def __init__(
        self,
        callback: FlatCallback,
        avals_in,
        result_avals,
        ordered: bool,
        where: source_info.SourceInfo,
    ):
        self.callback, self.avals_in, self.result_avals = callback, avals_in, result_avals
        self.ordered, self.where, self.x64 = ordered, where, config.enable_x64
        self.joint, self.continues_after_failure, self.failures = False, False, []

    def __call__(self, *given):
        if self.ordered:
            given = given[1:]
        try:
            values = [_from_host(v, a) for v, a in zip(given, self.avals_in)]
            with _called(self.joint):
                outs = self.callback(*values)
            outs = check_results(self.callback, outs, self.result_avals, self.x64)
        except BaseException as e:
            short, long = _failed(self.callback, str(self.where), e)
            _report(self.callback, e)
            if not self.continues_after_failure:
                failures.note(short, e, self.where)
                raise RuntimeError(f"{short}\n{long}") from None
            self.failures.append((short, e, self.where))
            outs = [np.zeros(a.shape, a.dtype) for a in self.result_avals]
        return (None, *outs) if self.ordered else tuple(outs)


# parallel/partial_callbacks.py: (ctx, callback, operands, has_side_effect) -> results, where some mesh axes are not manual
_partly_manual: Callable[..., list[str]] = None  # type: ignore[assignment]


def set_partly_manual(lower: Callable[..., list[str]]) -> None:
    """Sets how a callback is lowered in a region that leaves some mesh axes to the compiler."""
    global _partly_manual
    _partly_manual = lower


# -- lowering ---------------------------------------------------------------------------------------------


def emit_python_callback(
    ctx: mlir.Context,
    callback: FlatCallback,
    operands: Sequence[str],
    *,
    effect=None,
    has_side_effect: bool = True,
    sharding=None,
    partitioned: bool = False,
) -> list[str]:
    """Emits the call; returns the names of its results. An ordered `effect` passes its token through the call."""
    module = ctx.module
    avals_in, avals_out = [physical_aval(a) for a in ctx.avals_in], list(ctx.avals_out)
    ordered = effect is not None
    if ctx.manual and any(
        size > 1 for name, size in ctx.mesh.shape.items() if name not in ctx.manual
    ):
        if ordered:
            raise NotImplementedError(
                f"xlab.{callback.api} with ordered=True is only supported where all mesh axes are manual: here "
                f"{[n for n in ctx.mesh.axis_names if n not in ctx.manual]} are left to the compiler, which cannot keep the order of "
                f"calls. Leave ordered=True out, or give shard_map all axis_names"
            )
        return _partly_manual(ctx, callback, operands, has_side_effect)
    index = len(module.callbacks)
    module.callbacks.append(
        HostCall(callback, tuple(ctx.avals_in), tuple(avals_out), ordered, ctx.eqn.source_info)
    )
    several = module.devices > 1
    if several and not ctx.manual:
        mesh = module.meshes.whole(module.devices)
        place = module.meshes.maximal(_device_index(module, sharding))
        # Whole values first: going from shards straight to one device is something the partitioner only does with a warning.
        if not partitioned:
            operands = [_whole(ctx, x, a, mesh) for x, a in zip(operands, avals_in)]
    names, types_in = list(operands), [mlir.tensor_type(a) for a in avals_in]
    types_out = [mlir.tensor_type(a) for a in avals_out]
    layouts_in, layouts_out = (
        [_layout(a.ndim) for a in avals_in],
        [_layout(a.ndim) for a in avals_out],
    )
    if ordered:
        names.insert(0, ctx.token(effect))
        for types, layouts in ((types_in, layouts_in), (types_out, layouts_out)):
            types.insert(0, mlir.TOKEN_TYPE)
            layouts.insert(0, _layout(0))
    attributes = [
        f"api_version = 4 : i32, has_side_effect = {'true' if has_side_effect else 'false'}",
        f"backend_config = {{index = {index} : ui64}}",
        f"operand_layouts = [{', '.join(layouts_in)}], result_layouts = [{', '.join(layouts_out)}]",
    ]
    if several and not ctx.manual:
        each = ", ".join([f"<@{place}, []>"] * max(1, len(types_out)))
        attributes.append(f"sdy.sharding = #sdy.sharding_per_value<[{each}]>")
    target = (
        "xla_ffi_partitioned_python_cpu_callback" if partitioned else "xla_ffi_python_cpu_callback"
    )
    results = ", ".join(types_out)
    outs = ctx.ops(
        f"stablehlo.custom_call @{target}({', '.join(names)}) {{{', '.join(attributes)}}} : "
        f"({', '.join(types_in)}) -> {results if len(types_out) == 1 else f'({results})'}",
        len(types_out),
    )
    if ordered:
        outs = ctx.take_tokens([effect], outs)
    if several and not ctx.manual:
        outs = [_whole(ctx, x, a, mesh) for x, a in zip(outs, avals_out)]
    return outs


def _layout(ndim: int) -> str:
    order = ", ".join(map(str, reversed(range(ndim))))
    return f"dense<[{order}]> : tensor<{ndim}xindex>" if ndim else "dense<> : tensor<0xindex>"


def _whole(ctx, x: str, aval, mesh: str) -> str:
    """Constrains a value to be replicated on every device."""
    return ctx.op(
        f"sdy.sharding_constraint {x} <@{mesh}, [{', '.join(['{}'] * aval.ndim)}]> : {mlir.tensor_type(aval)}"
    )


def _device_index(module, sharding) -> int:
    if sharding is None:
        return 0
    if sharding.device not in module.assignment:
        raise ValueError(
            f"a callback is to be called on {sharding.device}, but the program runs on {list(module.assignment)}"
        )
    return list(module.assignment).index(sharding.device)
