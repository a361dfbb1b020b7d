"""Checks derivatives against difference quotients, in both modes and of any order.

Example:
    >>> import xlab.numpy as jnp
    >>> check_grads(jnp.sin, (0.7,), order=2)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.transforms.jvp import jvp as _jvp
from xlab.transforms.vjp import vjp as _vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

_TOLERANCE = {
    "bfloat16": 1e-1,
    "float16": 1e-2,
    "float32": 1e-3,
    "complex64": 1e-3,
    "float64": 1e-5,
    "complex128": 1e-5,
}


def check_jvp(
    f: Callable,
    f_jvp: Callable,
    args,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float = 1e-4,
    err_msg: str = "",
) -> None:
    """Compares `f_jvp(primals, tangents)` with the difference quotient of `f` along a random direction.

    Raises:
        AssertionError: naming the result and the difference, where they disagree.
    """
    draw = np.random.RandomState(0)
    tangents = _tree.map(functools.partial(_direction, draw), args)
    out, slope = f_jvp(args, tangents)
    _compare(out, f(*args), atol, rtol, f"{err_msg} result of the jvp", 1)
    ahead, behind = (f(*_moved(args, tangents, step)) for step in (eps / 2, -eps / 2))
    quotient = _tree.map(lambda a, b: (_wide(a) - _wide(b)) / eps, ahead, behind)
    _compare(slope, quotient, atol, rtol, f"{err_msg} tangent", 10)


def check_vjp(
    f: Callable,
    f_vjp: Callable,
    args,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float = 1e-4,
    err_msg: str = "",
) -> None:
    """Compares `f_vjp(*primals)` with difference quotients: cotangent times slope is gradient times direction.

    Raises:
        AssertionError: where they disagree.
    """
    draw = np.random.RandomState(1)
    out, pullback = f_vjp(*args)
    _compare(out, f(*args), atol, rtol, f"{err_msg} result of the vjp", 1)
    tangents = _tree.map(functools.partial(_direction, draw), args)
    ahead, behind = (f(*_moved(args, tangents, step)) for step in (eps / 2, -eps / 2))
    quotient = _tree.map(lambda a, b: (_wide(a) - _wide(b)) / eps, ahead, behind)
    cotangent = _tree.map(functools.partial(_direction, draw), out)
    gradient = pullback(cotangent)
    _compare(
        _dot(tangents, gradient),
        _dot(quotient, cotangent),
        atol,
        rtol,
        f"{err_msg} gradient along a direction",
        10,
        out,
    )


def check_grads(
    f: Callable,
    args: Sequence,
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compares derivatives up to `order`, in forward mode, reverse mode and their combinations, with difference quotients.

    Args:
        f: the function.
        args: a tuple of its arguments, pytrees of arrays.
        order: of the highest derivative.
        modes: which of `"fwd"` and `"rev"`.
        atol, rtol: tolerances, by default those of the dtype.
        eps: the step of the quotients; by default several are tried in narrow types, and one has to agree.

    Raises:
        AssertionError: where they disagree.
    """
    args = tuple(args)
    narrow = any(
        _name(x) in ("float32", "complex64", "float16", "bfloat16") for x in _tree.leaves(args)
    )
    # A long step errs where a function bends, a short one where numbers are narrow: what is right agrees with one of them.
    steps = (eps,) if eps else (1e-2, 1e-3, 1e-4) if narrow else (1e-4,)

    def try_steps(run):
        for step in steps[:-1]:
            try:
                return run(step)
            except AssertionError:
                pass
        return run(steps[-1])

    def check(fun, at, left, path):
        if "fwd" in modes:
            name = "forward" + path
            try_steps(
                lambda step: check_jvp(
                    fun, functools.partial(_jvp, fun), at, atol, rtol, step, name
                )
            )
            if left > 1:
                draw = np.random.RandomState(left)
                directions = _tree.map(functools.partial(_direction, draw), at)
                check(lambda *xs: _jvp(fun, xs, directions), at, left - 1, " of " + name)
        if "rev" in modes:
            name = "reverse" + path
            try_steps(
                lambda step: check_vjp(
                    fun, functools.partial(_vjp, fun), at, atol, rtol, step, name
                )
            )
            if left > 1:
                out, _ = _vjp(fun, *at)
                cotangent = _tree.map(
                    functools.partial(_direction, np.random.RandomState(left)), out
                )
                check(lambda *xs: _vjp(fun, *xs)[1](cotangent), at, left - 1, " of " + name)

    check(f, args, order, "")


def _name(x) -> str:
    return (
        dtypes.name(getattr(x, "dtype", None) or np.asarray(x).dtype)
        if not isinstance(x, float)
        else "float32"
    )


def _inexact(x) -> bool:
    return dtypes.issubdtype(getattr(x, "dtype", np.asarray(x).dtype), np.inexact)


def _direction(draw, x):
    """A random tangent of unit scale."""
    shape = np.shape(x)
    if not _inexact(x):
        return np.zeros(shape, dtypes.float0)
    dtype = getattr(x, "dtype", np.dtype(np.float32))
    values = np.asarray(draw.standard_normal(shape))
    if dtypes.issubdtype(dtype, np.complexfloating):
        values = values + 1j * np.asarray(draw.standard_normal(shape))
    from xlab import numpy as jnp

    return jnp.asarray(values, dtype)


def _moved(args, tangents, step):
    return _tree.map(lambda x, t: x + step * t if _inexact(x) else x, args, tangents)


def _wide(x):
    x = np.asarray(x)
    if x.dtype == dtypes.float0 or not _inexact(x):
        return np.zeros(x.shape)
    return x.astype(np.complex128 if dtypes.issubdtype(x.dtype, np.complexfloating) else np.float64)


def _dot(xs, ys) -> float:
    return float(
        sum(
            np.real(np.sum(_wide(x) * _wide(y)))
            for x, y in zip(_tree.leaves(xs), _tree.leaves(ys), strict=True)
        )
    )


def _compare(ours, theirs, atol, rtol, what, scale, like=None):
    leaves, others = _tree.leaves(ours), _tree.leaves(theirs)
    for a, b in zip(leaves, others, strict=True):
        tolerance = scale * max(
            (
                _TOLERANCE.get(_name(x), 1e-3)
                for x in (_tree.leaves(like) if like is not None else [a])
            ),
            default=1e-3,
        )
        np.testing.assert_allclose(
            _wide(a),
            _wide(b),
            rtol=tolerance if rtol is None else rtol,
            atol=tolerance if atol is None else atol,
            err_msg=f"{what.strip()} disagrees with difference quotients",
        )
