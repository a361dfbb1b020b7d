"""What kernels are written with besides references: branches, loops, checks, hints, and arithmetic of sizes.

The primitive `debug_check` takes one boolean; its parameter is the message of the error that a false one raises.
"""

from __future__ import annotations

import operator
import string
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.config import config
from xlab.config import enable_debug_checks as enable_debug_checks
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core import source_info as _source_info
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import is_tracer
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.callback_calls import FlatCallback, emit_python_callback
from xlab.lax.debugging import debug_print as _debug_print
from xlab.transforms.checks import JaxRuntimeError

T = TypeVar("T")

# -- branches and loops -------------------------------------------------------------------------------------


def when(condition: ArrayLike, /) -> Callable[[Callable[[], None]], None]:
    """Decorates a function without arguments, which is called at once if the condition holds.

    Args:
        condition: a boolean, or a boolean scalar of the program.

    Raises:
        TypeError: the condition is no scalar, or the function returns something where the condition is a value of the program.

    Example:
        >>> import xlab
        >>> from xlab.kernels import when
        >>> ref = xlab.new_ref(0.0)
        >>> @when(ref[...] < 1)
        ... def _():
        ...     ref[...] = 5.0
        >>> float(ref[...])
        5.0
    """

    def decorate(f):
        def write():
            result = f()
            if result is not None:
                raise TypeError(
                    f"{_source_info.describe_function(f)} is under when: it writes to references and returns None. It returned "
                    f"a tree of structure {_tree.structure(result)}"
                )

        if isinstance(condition, (bool, np.bool_)):
            if condition:
                f()
        else:
            lax.cond(condition, write, lambda: None)

    return decorate


def loop(
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    init_carry: Any = None,
    step: ArrayLike = 1,
    unroll: int | bool | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Decorates the body of a loop, which runs at once for `lower`, `lower + step`, ... below `upper`.

    Args:
        lower, upper: integers, which may be values of the program.
        init_carry: a tree of arrays that is handed from round to round; without it the body returns None.
        step: the distance between indices, at least 1.
        unroll: how many rounds one turn of the loop makes, or True for all; bounds and step must be known.

    Returns:
        A decorator for `body(i)`, or for `body(i, carry) -> carry`. What it gives is the last carry, or None.

    Raises:
        TypeError: a bound or the step is no integer scalar, or the carry changes its type.
        ValueError: the step is less than 1, or `unroll` where a bound is a value of the program.

    Example:
        >>> from xlab.kernels import loop
        >>> @loop(1, 10, step=3, init_carry=0)
        ... def total(i, carry):
        ...     return carry + i
        >>> int(total)
        12
    """
    for name, x in (("lower", lower), ("upper", upper), ("step", step)):
        aval = aval_of(x)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"loop takes integer scalars, got {name}={aval}")
    known = not any(map(is_tracer, (lower, upper, step)))
    if not is_tracer(step) and int(step) < 1:
        raise ValueError(
            f"loop takes a step of at least 1, got {int(step)}. To go down, count up and use upper - 1 - i."
        )
    rounds: Any
    if known:
        lower, step = int(lower), int(step)
        rounds = max(0, -(-(int(upper) - lower) // step))
    else:
        rounds = cdiv(upper - lower, step)
    plain = init_carry is None

    def decorate(body):
        def one(k, carry):
            i = k if known and (lower, step) == (0, 1) else k * step + lower
            if not plain:
                return body(i, carry)
            result = body(i)
            if result is not None:
                raise TypeError(
                    f"the body of a loop without init_carry returns None, got a result of structure {_tree.structure(result)}: "
                    f"write to references, or give the loop init_carry="
                )
            return None

        return lax.fori_loop(0, rounds, one, init_carry, unroll=unroll)

    return decorate


# -- looking and checking -----------------------------------------------------------------------------------


def debug_print(fmt: str, *args: ArrayLike) -> None:
    """Prints values each time a program of the grid comes to this line, in the order of the grid.

    Args:
        fmt: a `str.format` string for the values; without places for them they are printed after it.
        args: arrays.

    Example:
        >>> import xlab
        >>> from xlab.kernels import debug_print
        >>> debug_print("x = {}", 2); debug_print("y =", 3)
        x = 2
        y = 3
    """
    if isinstance(fmt, str) and args:
        fields = [field for _, field, _, _ in string.Formatter().parse(fmt) if field is not None]
        if not fields:
            fmt += " {}" * len(args)
    _debug_print(fmt, *args)


def debug_check(condition: ArrayLike, message: str) -> None:
    """Raises with a message where a condition does not hold, if debug checks are on (`enable_debug_checks`).

    Args:
        condition: a boolean, or a boolean scalar of the program.
        message: what the error says.

    Raises:
        ValueError: the condition is false, known at once. In a compiled program the error arrives with its results.

    Example:
        >>> from xlab.kernels import debug_check, enable_debug_checks
        >>> debug_check(False, "not looked at")
        >>> with enable_debug_checks():
        ...     debug_check(1 > 2, "one is less than two")
        Traceback (most recent call last):
          ...
        xlab.transforms.checks.JaxRuntimeError: one is less than two (`debug_check` failed)
    """
    if not isinstance(message, str):
        raise TypeError(
            f"debug_check takes a message, got {message!r} of type {type(message).__name__}"
        )
    if not config.debug_checks:
        return
    aval = aval_of(condition)
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(f"debug_check takes a boolean scalar, got {aval}")
    debug_check_p.bind(condition, message=message)


class _Check:
    """Raises the message of a check that failed."""

    __slots__ = ("message",)

    def __init__(self, message):
        self.message = message

    def __call__(self, condition):
        if not np.all(condition):
            raise JaxRuntimeError(f"{self.message} (`debug_check` failed)")
        return ()


debug_check_p = Primitive("debug_check", multiple_results=True, auto_pvary=False)
debug_check_p.def_effectful_abstract_eval(
    lambda condition, *, message: ([], {_effects.debug_effect})
)


@debug_check_p.def_impl
def _check_impl(condition, *, message):
    _Check(message)(condition)
    return []


def _check_lowering(ctx, condition, *, message):
    _, tree = _tree.flatten(((0,), {}))
    return emit_python_callback(
        ctx, FlatCallback(_Check(message), tree, "debug_check"), [condition]
    )


def _check_jvp(primals, tangents, **params):
    debug_check_p.bind(*primals, **params)
    return [], []


def _check_batch(operands, dims, **params):
    debug_check_p.bind(lax.reduce_and(operands[0], (dims[0],)), **params)
    return [], []


ad.primitive_jvps[debug_check_p] = _check_jvp
ad.primitive_transposes.excuse(debug_check_p, "a check has no results, so nothing flows back")
batching.primitive_batchers[debug_check_p] = _check_batch
mlir.register_text_lowering(debug_check_p, _check_lowering)


# -- hints and values ---------------------------------------------------------------------------------------


def multiple_of(x: ArrayLike, values: int | Sequence[int]) -> ArrayLike:
    """Says that `x` is a multiple of a number, which compilers for some targets use. The value is the same.

    With debug checks on (`enable_debug_checks`) it is checked.

    Args:
        x: integers.
        values: the number, or one per dimension of what `x` indexes.

    Raises:
        TypeError: `x` or a value is no integer.

    Example:
        >>> from xlab.kernels import multiple_of
        >>> multiple_of(16, 8)
        16
    """
    if not dtypes.issubdtype(aval_of(x).dtype, np.integer):
        raise TypeError(f"multiple_of takes integers, got {aval_of(x)}")
    numbers = tuple(map(operator.index, values if isinstance(values, Sequence) else (values,)))
    if config.debug_checks:
        for k in numbers:
            debug_check(jnp.all(jnp.asarray(x) % k == 0), f"a value is no multiple of {k}")
    return x


def reciprocal(x: ArrayLike, *, approx: bool = False, full_range: bool = True) -> Array:
    """`1 / x`. Interpretation is exact, whatever the hints say.

    Args:
        x: floating-point numbers.
        approx: an approximation is good enough.
        full_range: whether it has to hold for all numbers.

    Raises:
        TypeError: `x` holds no floating-point numbers.

    Example:
        >>> from xlab.kernels import reciprocal
        >>> float(reciprocal(4.0))
        0.25
    """
    aval = aval_of(x)
    if not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(f"reciprocal takes floating-point numbers, got {aval}")
    return lax.div(lax.full_like(x, 1), x)


def dot(
    a: Array,
    b: Array,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Array:
    """The product of two matrices, accumulated in 32 bits.

    Args:
        a, b: matrices.
        trans_a, trans_b: whether to transpose them first.
        allow_tf32: whether products may be rounded to TF32, in place of `precision`.
        precision: as for `xlab.lax.dot`.

    Raises:
        ValueError: `a` or `b` has not two dimensions, or both `allow_tf32` and `precision` are given.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import dot
        >>> dot(jnp.eye(2), jnp.arange(4.0).reshape(2, 2), trans_b=True).tolist()
        [[0.0, 2.0], [1.0, 3.0]]
    """
    for name, x in (("a", a), ("b", b)):
        if aval_of(x).ndim != 2:
            raise ValueError(f"`a` and `b` must be 2D arrays, got {name}={aval_of(x)}")
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError("Only one of `allow_tf32` and `precision` can be specified")
        precision = lax.Precision.HIGH if allow_tf32 else lax.Precision.HIGHEST
    dtype = dtypes.result_type(a, b)
    wide = np.int32 if dtypes.issubdtype(dtype, np.integer) else np.float32
    wide = dtype if dtype.itemsize > 4 else wide
    return lax.dot_general(
        a,
        b,
        (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ())),
        precision=precision,
        preferred_element_type=wide,
    )


def broadcast_to(a: ArrayLike, shape: Sequence[int]) -> Array:
    """The array repeated to a shape, as `xlab.numpy.broadcast_to`.

    Raises:
        ValueError: the shapes do not fit.

    Example:
        >>> from xlab.kernels import broadcast_to
        >>> broadcast_to(1, (2, 2)).tolist()
        [[1, 1], [1, 1]]
    """
    return jnp.broadcast_to(a, tuple(shape))


# -- sizes --------------------------------------------------------------------------------------------------


def cdiv(a: Any, b: Any) -> Any:
    """The quotient of integers, rounded up.

    Args:
        a, b: integers, which may be values of the program.

    Raises:
        TypeError: not integers.

    Example:
        >>> from xlab.kernels import cdiv
        >>> cdiv(7, 2), cdiv(8, 2)
        (4, 4)
    """
    for x in (a, b):
        if not dtypes.issubdtype(aval_of(x).dtype, np.integer):
            raise TypeError(f"cdiv takes integers, got {aval_of(x)}")
    return -(-a // b)


def align_to(a: Any, alignment: Any) -> Any:
    """The next multiple of `alignment` from `a` on.

    Example:
        >>> from xlab.kernels import align_to
        >>> align_to(130, 128)
        256
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is not less than `x`.

    Raises:
        ValueError: `x` is negative.

    Example:
        >>> from xlab.kernels import next_power_of_2
        >>> next_power_of_2(5), next_power_of_2(0)
        (8, 1)
    """
    x = operator.index(x)
    if x < 0:
        raise ValueError(f"`next_power_of_2` requires a non-negative integer, got {x}")
    return 1 << max(x - 1, 0).bit_length()


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """How many elements apart neighbors along each dimension are, for an array in row-major order.

    Example:
        >>> from xlab.kernels import strides_from_shape
        >>> strides_from_shape((2, 3, 4))
        (12, 4, 1)
    """
    strides, size = [], 1
    for n in reversed(tuple(shape)):
        strides.append(size)
        size *= n
    return tuple(reversed(strides))


costs.register(costs.free, debug_check_p)
