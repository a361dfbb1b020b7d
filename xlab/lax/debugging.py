"""Looking into programs while they run: `debug.callback`, `debug.print`, `debug.log`.

These see values and change nothing: derivatives pass them by, vmap shows them each example, and dead code elimination
leaves them alone. Eagerly they act at once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from xlab import tree as _tree
from xlab.compile.effects import runtime_tokens
from xlab.core import effects as _effects
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import HOST_VALUES, aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import Tracer
from xlab.errors import InvalidInputException
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.callback_calls import FlatCallback, arguments, emit_python_callback
from xlab.lax.shape import squeeze
from xlab.lax.slicing import slice

if TYPE_CHECKING:
    import logging


def debug_callback(
    callback: Callable | None = None,
    *args,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs,
):
    """Calls a Python function for its side effects with values of the program; what it returns is ignored.

    Args:
        callback: called with `args` and `kwargs`, arrays as arrays and everything else as it is. Without it,
            the function that is left to be called with it.
        ordered: calls happen in program order; on one device only.
        partitioned: in a program over several devices, one call per device with its part, instead of one with the whole.

    Example:
        >>> import xlab
        >>> @xlab.jit
        ... def f(x):
        ...     xlab.debug.callback(lambda v: print("x is", v), x)
        ...     return 2 * x
        >>> y = f(3.0); xlab.effects_barrier()
        x is 3.0
    """
    if callback is None:
        return functools.partial(debug_callback, ordered=ordered, partitioned=partitioned)
    if not callable(callback):
        raise TypeError(
            f"first argument to xlab.debug.callback must be callable, but got an object of type {type(callback)}"
        )
    dynamic, restore, in_tree = _split_static(args, kwargs)

    def called(*values):
        given, named = _tree.unflatten(in_tree, restore(values))
        callback(*given, **named)
        return ()

    called.__name__ = getattr(callback, "__name__", type(callback).__name__)
    if hasattr(callback, "__code__"):
        called.__wrapped__ = callback
    effect = _effects.ordered_debug_effect if ordered else _effects.debug_effect
    debug_callback_p.bind(*dynamic, callback=called, effect=effect, partitioned=partitioned)


def _split_static(args, kwargs):
    """Array leaves, how to put them back among the other leaves, and the structure."""
    flat, in_tree = _tree.flatten((args, kwargs))
    dynamic, static = [], {}
    for i, x in enumerate(flat):
        if _is_array(x):
            dynamic.append(x)
        else:
            static[i] = x
    count = len(flat)

    def restore(
        values,
    ):  # kept by the program, whose tracers must not be: they would keep the function that was traced
        values = iter(values)
        return [static[i] if i in static else next(values) for i in range(count)]

    return dynamic, restore, in_tree


def _is_array(x) -> bool:
    if isinstance(x, (Tracer, KeyArray, *HOST_VALUES)) or is_native_array(x):
        try:
            aval_of(x)
        except (InvalidInputException, OverflowError, TypeError):
            return False
        return True
    return False


debug_callback_p = Primitive(
    "debug_callback", multiple_results=True, auto_pvary=False, context_dependent=True
)
debug_callback_p.def_effectful_abstract_eval(lambda *avals, effect, **_: ((), {effect}))


@debug_callback_p.def_impl
def _callback_impl(*args, callback, effect, **_):
    if effect.ordered:
        runtime_tokens.wait_for(effect)
    callback(*arguments(args))
    return []


def _host_callback(callback, n):
    _, tree = _tree.flatten(((0,) * n, {}))
    return FlatCallback(callback, tree, "debug.callback")


def _callback_lowering(ctx, *args, callback, effect, partitioned):
    return emit_python_callback(
        ctx,
        _host_callback(callback, len(args)),
        args,
        effect=effect if effect.ordered else None,
        partitioned=partitioned,
    )


# -- print ------------------------------------------------------------------------------------------------


def debug_print(
    fmt: str | None = None,
    *args,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs,
):
    """Prints values of the program when it runs: `fmt` is a `str.format` string for the values.

    Args:
        fmt: format string; do not put values in it with an f-string, which would format what stands for them while tracing.
        ordered: prints appear in program order; on one device only.
        partitioned: in a program over several devices, one line per device with its part.
        skip_format_check: do not check now that the values fit `fmt`.

    Example:
        >>> import xlab
        >>> f = xlab.jit(lambda x: xlab.debug.print("x = {x:.2f}", x=x))
        >>> f(1.5); xlab.effects_barrier()
        x = 1.50
    """
    if fmt is None:
        return functools.partial(
            debug_print,
            ordered=ordered,
            partitioned=partitioned,
            skip_format_check=skip_format_check,
            _use_logging=_use_logging,
        )
    if not isinstance(fmt, str):
        raise TypeError(
            f"xlab.debug.print takes a format string first, as in print('x = {{}}', x); expected str, got "
            f"{type(fmt).__name__}"
        )
    if skip_format_check:
        has_placeholders = "{" in fmt
    else:
        has_placeholders = _checked_format(fmt, args, kwargs)
    flat, in_tree = _tree.flatten((args, kwargs))
    dynamic, static = [], []
    for i, x in enumerate(flat):
        if _is_array(x):
            dynamic.append(x)
        else:
            static.append((i, _Held(x)))
    debug_print_p.bind(
        *dynamic,
        fmt=fmt,
        ordered=bool(ordered),
        partitioned=bool(partitioned),
        in_tree=in_tree,
        static_args=tuple(static),
        np_printoptions=_print_options(),
        has_placeholders=has_placeholders,
        logging_record=_log_record() if _use_logging else None,
    )
    return None


def debug_log(
    fmt: str | None = None,
    *args,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs,
):
    """Like `debug.print`, to the logger `xlab.debug` at level INFO, as coming from the line that calls it.

    Example:
        >>> import xlab
        >>> xlab.jit(lambda x: xlab.debug.log("x = {}", x))(1.0)
    """
    return debug_print(
        fmt,
        *args,
        ordered=ordered,
        partitioned=partitioned,
        skip_format_check=skip_format_check,
        _use_logging=True,
        **kwargs,
    )


def _checked_format(fmt: str, args: tuple, kwargs: dict) -> bool:
    """Checks that a format string and its arguments belong together, without formatting anything; whether it has places for them."""
    import string

    class Checker(string.Formatter):
        def format_field(self, value, format_spec):
            return ""

        def convert_field(self, value, conversion):
            return value

        def get_field(self, field_name, args, kwargs):
            first = field_name.partition(".")[0].partition("[")[0]
            key = int(first) if first.isdigit() else first
            return None, self.get_value(key, args, kwargs) is None or key

        def check_unused_args(self, used_args, args, kwargs):
            positional = [a for i, a in enumerate(args) if i not in used_args]
            named = [k for k in kwargs if k not in used_args]
            if positional:
                raise ValueError(
                    f"Unused positional arguments to `xlab.debug.print`: {positional}. Give each a place {{}} in the format string"
                )
            if named:
                raise ValueError(
                    f"Unused keyword arguments to `xlab.debug.print`: {named}. Give each a place {{name}} in the format string"
                )

    checker = Checker()
    checker.vformat(fmt, args, kwargs)
    return any(field is not None for _, field, _, _ in checker.parse(fmt))


class _Held:
    """A value that is no array, as part of an equation's parameters."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is _Held and (
            self.value is other.value
            or (type(self.value) is type(other.value) and self.value == other.value)
        )

    def __hash__(self):
        return hash(type(self.value))

    def __repr__(self):
        return repr(self.value)


def _print_options() -> tuple:
    """NumPy's current print options, which the callback uses."""
    return tuple(
        (k, tuple(sorted(v.items())) if isinstance(v, dict) else v)
        for k, v in np.get_printoptions().items()
    )


def _log_record() -> logging.LogRecord:
    import logging

    frame = sys._getframe(1)
    from xlab.core.source_info import is_internal

    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return logging.LogRecord(
        "xlab.debug",
        logging.INFO,
        frame.f_code.co_filename,
        frame.f_lineno,
        "",
        None,
        None,
        frame.f_code.co_name,
    )


class _Printer:
    """Formats and prints one equation's values."""

    def __init__(
        self, fmt, in_tree, static_args, np_printoptions, has_placeholders, logging_record
    ):
        self.fmt, self.in_tree, self.static, self.has_placeholders = (
            fmt,
            in_tree,
            dict(static_args),
            has_placeholders,
        )
        self.options = {k: dict(v) if k == "formatter" and v else v for k, v in np_printoptions}
        self.record = logging_record
        self.__name__ = "print"

    def __call__(self, *values):
        if self.has_placeholders:
            values = iter(values)
            n = self.in_tree.num_leaves
            flat = [self.static[i].value if i in self.static else next(values) for i in range(n)]
            args, kwargs = _tree.unflatten(self.in_tree, flat)
            with np.printoptions(**self.options):
                text = self.fmt.format(*args, **kwargs)
        else:
            text = self.fmt
        if self.record is None:
            sys.stdout.write(text + "\n")
            return ()
        import logging

        log = logging.getLogger(self.record.name)
        if log.isEnabledFor(self.record.levelno):
            made = logging.LogRecord(
                self.record.name,
                self.record.levelno,
                self.record.pathname,
                self.record.lineno,
                text,
                None,
                None,
                self.record.funcName,
            )
            log.handle(made)
        return ()


debug_print_p = Primitive(
    "debug_print", multiple_results=True, auto_pvary=False, context_dependent=True
)


def _print_effect(ordered):
    return _effects.ordered_debug_effect if ordered else _effects.debug_effect


debug_print_p.def_effectful_abstract_eval(
    lambda *avals, ordered, **_: ((), {_print_effect(ordered)})
)


@debug_print_p.def_impl
def _print_impl(*args, ordered, partitioned, **params):
    if ordered:
        runtime_tokens.wait_for(_effects.ordered_debug_effect)
    _Printer(**params)(*arguments(args))
    return []


def _print_lowering(ctx, *args, ordered, partitioned, **params):
    effect = _effects.ordered_debug_effect if ordered else None
    callback = FlatCallback(
        _Printer(**params), _host_callback(None, len(args)).in_tree, "debug.print"
    )
    return emit_python_callback(ctx, callback, args, effect=effect, partitioned=partitioned)


# -- rules of both ----------------------------------------------------------------------------------------


def _jvp(prim):
    def rule(primals, tangents, **params):
        return prim.bind(*primals, **params), []

    return rule


def _transpose(prim):
    def rule(cts, *args, **params):
        # The linear values it would show exist only when the function runs forwards.
        return [None] * len(args)

    return rule


def _batch(prim):
    def rule(axis, args, dims, **params):
        for i in range(axis.size):
            prim.bind(
                *(x if d is None else _example(x, i, d) for x, d in zip(args, dims)), **params
            )
        return [], []

    return rule


def _example(x, i, dim):
    shape = aval_of(x).shape
    starts, limits = [0] * len(shape), list(shape)
    starts[dim], limits[dim] = i, i + 1
    return squeeze(slice(x, starts, limits, [1] * len(shape)), (dim,))


for _p in (debug_callback_p, debug_print_p):
    ad.primitive_jvps[_p] = _jvp(_p)
    ad.primitive_transposes[_p] = _transpose(_p)
    batching.axis_primitive_batchers[_p] = _batch(_p)
mlir.register_text_lowering(debug_callback_p, _callback_lowering)
mlir.register_text_lowering(debug_print_p, _print_lowering)
mlir.lowered_with_devices |= {debug_callback_p, debug_print_p}

costs.register(costs.host, debug_callback_p, debug_print_p)
