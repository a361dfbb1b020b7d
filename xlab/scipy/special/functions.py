"""What the special functions share: bringing operands together, and being one program when called eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.errors import ComplexOperandError
from xlab.numpy.arithmetic import as_array
from xlab.numpy.conversion import from_lists
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import aligned, check, promoted_inexact, strip_weak_type
from xlab.transforms.custom_jvp import custom_jvp


def special(
    fun: Callable | None = None,
    *,
    complexes: bool = False,
    weak: bool = True,
    keywords: tuple[str, ...] = (),
    mismatch: type[Exception] = TypeError,
    lists: bool = False,
):
    """Decorates a function of floating point arrays of one dtype and one rank; integers are brought to floats first.

    Args:
        complexes: whether complex arguments are accepted.
        weak: whether the type of a result may be weak, as that of its arguments.
        keywords: names of further parameters, which are Python values.
        mismatch: what is raised for shapes that have no common one.
        lists: whether lists of numbers are arrays.
    """
    if fun is None:
        return functools.partial(
            special,
            complexes=complexes,
            weak=weak,
            keywords=keywords,
            mismatch=mismatch,
            lists=lists,
        )
    name = fun.__name__.lstrip("_")
    count = fun.__code__.co_argcount - len(keywords)

    @functools.wraps(fun)
    def whole(*args, **kwargs):
        args, rest = args[:count], args[count:]
        args = [as_array(x) for x in promoted_inexact(name, *args)]
        if not complexes and dtypes.issubdtype(args[0].dtype, np.complexfloating):
            raise ComplexOperandError(
                f"{name} does not take complex arguments, got dtype {dtypes.name(args[0].dtype)}"
            )
        try:
            lax.broadcast_shapes(*(x.shape for x in args))
        except ValueError as error:
            raise mismatch(f"{name}: {error}") from None
        out = fun(*aligned(name, *args), *rest, **kwargs)
        return out if weak else strip_weak_type(out)

    compiled = jit_when_eager(whole, static=keywords) if keywords else jit_when_eager(whole)
    if not lists:
        return compiled

    @functools.wraps(fun)
    def of_lists(*args, **kwargs):
        return compiled(*map(from_lists, args[:count]), *args[count:], **kwargs)

    return of_lists


def float_only(name: str, x):
    """The operand of a function that takes float32 and float64 alone."""
    (x,) = check(name, x)
    x = as_array(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"{name} takes float32 or float64, got dtype {dtypes.name(x.dtype)}; convert with astype"
        )
    return x


def at_least_single(fun: Callable, x):
    """`fun(x)` by way of float32 where `x` is narrower: complex numbers have no narrower parts."""
    if dtypes.finfo(x.dtype).bits >= 32:
        return fun(x)
    return fun(x.astype(np.float32)).astype(x.dtype)


def with_slopes(*slopes: Callable | None):
    """Gives a function of arrays its partial derivatives, `slope(ans, *args)` each; None where it is zero."""

    def decorate(fun: Callable):
        wrapped = custom_jvp(fun)
        wrapped.defjvps(
            *(None if s is None else lambda t, ans, *args, s=s: s(ans, *args) * t for s in slopes)
        )
        return wrapped

    return decorate


def number(value, like):
    """A scalar of the dtype of an array, a Python one where that is weak."""
    aval = aval_of(like)
    return value if aval.weak_type else np.asarray(value).astype(aval.dtype)[()]


def polynomial(x, coefficients):
    """The polynomial with the given coefficients, highest power first."""
    total = lax.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total = total * x + number(c, x)
    return total


def chebyshev(x, coefficients):
    """The sum of Chebyshev polynomials by Clenshaw's recurrence."""
    small = float(dtypes.finfo(x.dtype).eps) / 64
    last = max(i for i, c in enumerate(coefficients) if abs(c) > small)
    b1 = b2 = lax.full_like(x, 0)
    for c in coefficients[last:0:-1]:
        b1, b2 = 2 * x * b1 - b2 + number(c, x), b1
    return x * b1 - b2 + number(coefficients[0], x)
