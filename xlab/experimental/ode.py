"""Ordinary differential equations by an explicit Runge-Kutta method, and their gradients by the adjoint equation.

Sources: Dormand and Prince (1980), A family of embedded Runge-Kutta formulae; Shampine (1986), Some practical Runge-Kutta formulas, for
the value in the middle of a step; Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, II.4, for the first step and
the control of steps; Chen, Rubanova, Bettencourt and Duvenaud (2018), Neural ordinary differential equations, appendix C, for the adjoint.

Example:
    >>> import xlab.numpy as jnp
    >>> y = odeint(lambda y, t: -y, jnp.array(1.0), jnp.array([0.0, 1.0]))
    >>> bool(abs(y[1] - jnp.exp(-1.0)) < 1e-5)
    True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xlab import lax, tree
from xlab import numpy as jnp
from xlab.compile.jit import jit
from xlab.core.trace import typeof
from xlab.flatten_util import ravel_pytree
from xlab.numpy.operands import kind_of
from xlab.transforms.closure_convert import closure_convert
from xlab.transforms.custom_vjp import custom_vjp
from xlab.transforms.vjp import vjp
from xlab.transforms.vmap import vmap

__all__ = ["odeint"]


def odeint(
    func: Callable,
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = jnp.inf,
    hmax: float = jnp.inf,
) -> Any:
    """The solution of `dy/dt = func(y, t, *args)` at given times, by adaptive Dormand-Prince steps.

    Gradients (`grad`, `vjp`) are those of the adjoint equation, solved backward with the same tolerances, with respect to `y0`, `t`, `args` and what
    `func` closes over. Forward mode is not available.

    Args:
        func: from the state, the time and `args` to the derivative of the state, of its structure and shapes.
        y0: the state at `t[0]`, an array of floats or a pytree of them.
        t: times, of shape `(n,)`, increasing or decreasing.
        args: pytrees of arrays.
        rtol, atol: relative and absolute tolerance of the error of a step.
        mxstep: the most steps between two times; what is not reached then is nan.
        hmax: the largest step.

    Returns:
        The states at all times: a pytree like `y0`, with an axis of length `n` in front.

    Raises:
        TypeError: where `t` or `y0` are no floats, or `args` no arrays.
        ValueError: where `func` returns something else than the derivative of `y0`.
    """
    for x in tree.leaves(args):
        if kind_of(x) is None:
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {x!r}: close over functions and the like"
            )
    t = jnp.asarray(t)
    if not jnp.issubdtype(t.dtype, jnp.floating):
        raise TypeError(
            f"odeint: t must be an array of floats, but got {t.dtype}: write t.astype(float)"
        )
    if t.ndim != 1:
        raise ValueError(f"odeint: t is an array of times, of shape (n,), got shape {t.shape}")
    for x in tree.leaves(y0):
        if kind_of(x) is None or not jnp.issubdtype(jnp.result_type(x), jnp.inexact):
            raise TypeError(
                f"odeint: y0 holds floats, but got {x!r}: a state of integers has no derivative"
            )
    y0 = tree.map(jnp.asarray, y0)
    flat, unravel = ravel_pytree(y0)

    def derivative(y, t, *args):
        state = unravel(y)
        out = func(state, t, *args)
        if tree.structure(out) != tree.structure(state) or any(
            jnp.shape(a) != jnp.shape(b) for a, b in zip(tree.leaves(out), tree.leaves(state))
        ):
            raise ValueError(
                f"odeint: func returns the derivative of the state, of type {tree.map(typeof, state)}; "
                f"it returned {tree.map(typeof, out)}"
            )
        return ravel_pytree(tree.map(lambda a, b: jnp.asarray(a).astype(b.dtype), out, state))[0]

    if t.shape[0] == 0:
        return tree.map(lambda x: jnp.zeros((0, *x.shape), x.dtype), y0)
    derivative, consts = closure_convert(derivative, flat, t[0], *args)
    found = _compiled(derivative, rtol, atol, mxstep, hmax, flat, t, args, tuple(consts))
    return vmap(unravel)(found)


# -- steps ----------------------------------------------------------------------------------------------------

_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])  # fmt: skip
_SOLUTION = _STAGES[-1]
_FOURTH = np.array([1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60])
_MIDDLE = 0.5 * np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598, -2691868925 / 45128329728,
    187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384,
])  # fmt: skip


class _State(NamedTuple):
    steps: Any
    y: Any
    slope: Any
    t: Any
    dt: Any
    last: Any  # where the last step began
    polynomial: Any  # of that step, highest power first


def _stages(fun, y, slope, t, dt):
    """The derivatives at the stages of a step, of shape `(7, n)`."""
    k = jnp.zeros((7, *y.shape), slope.dtype).at[0].set(slope)
    rows, times = jnp.asarray(_STAGES, y.real.dtype), jnp.asarray(_TIMES, t.dtype)

    def stage(i, k):
        at = y + dt.astype(y.dtype) * (rows[i - 1].astype(y.dtype) @ k)
        return k.at[i].set(fun(at, t + dt * times[i - 1]))

    return lax.fori_loop(1, 7, stage, k)


def _error(difference, y, y1, rtol, atol):
    """The root mean square of errors, in units of what is tolerated."""
    allowed = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(y1))
    return jnp.sqrt(jnp.mean(jnp.abs(difference / allowed) ** 2))


def _polynomial(y, y1, slope, slope1, middle, dt):
    """Of fourth order, with the values and derivatives at both ends and the value in the middle."""
    d, d1 = dt * slope, dt * slope1
    return jnp.stack([
        2 * (d1 - d) - 8 * (y + y1) + 16 * middle,
        5 * d - 3 * d1 + 18 * y + 14 * y1 - 32 * middle,
        -4 * d + d1 - 11 * y - 5 * y1 + 16 * middle,
        d,
        y,
    ])  # fmt: skip


def _first_step(fun, y, t, slope, rtol, atol):
    """A first step whose error is about what is tolerated."""
    scale = atol + jnp.abs(y) * rtol
    size, speed = (jnp.linalg.norm(jnp.abs(x) / scale) for x in (y, slope))
    unknown = (size < 1e-5) | (speed < 1e-5)
    h = jnp.where(unknown, 1e-6, 0.01 * size / jnp.where(unknown, 1, speed))
    bend = jnp.linalg.norm(jnp.abs(fun(y + h.astype(y.dtype) * slope, t + h) - slope) / scale) / h
    largest = jnp.maximum(speed, bend)
    flat = largest <= 1e-15
    h1 = jnp.where(
        flat, jnp.maximum(1e-6, h * 1e-3), (0.01 / jnp.where(flat, 1, largest)) ** (1 / 5)
    )
    return jnp.minimum(100 * h, h1).astype(t.dtype)


def _solve(fun, y0, times, rtol, atol, mxstep, hmax):
    """The states at increasing times, of shape `(times, n)`."""

    def step(s: _State):
        k = _stages(fun, s.y, s.slope, s.t, s.dt)
        dt = s.dt.astype(s.y.dtype)
        row = lambda coefficients: dt * (jnp.asarray(coefficients, s.y.dtype) @ k)
        y1 = s.y + row(_SOLUTION)
        error = _error(row(_SOLUTION - _FOURTH), s.y, y1, rtol, atol)
        accepted = error <= 1
        # No larger than before after a step that failed, and never more than ten times.
        factor = jnp.where(error == 0, 10.0, 0.9 * error ** (-1 / 5))
        factor = jnp.clip(factor, jnp.where(accepted, 1.0, 0.2), 10.0)
        factor = jnp.where(jnp.isnan(factor), 0.2, factor).astype(s.dt.dtype)
        new = _State(
            s.steps + 1, y1, k[-1], s.t + s.dt, jnp.minimum(s.dt * factor, hmax), s.t,
            _polynomial(s.y, y1, s.slope, k[-1], s.y + row(_MIDDLE), dt),
        )  # fmt: skip
        kept = s._replace(steps=s.steps + 1, dt=s.dt * factor)
        return _State(*(jnp.where(accepted, a, b) for a, b in zip(new, kept)))

    def reach(s: _State, target):
        going = lambda s: (s.t < target) & (s.steps < mxstep) & (s.t + s.dt > s.t)
        s = lax.while_loop(going, step, s._replace(steps=jnp.zeros_like(s.steps)))
        width = s.t - s.last
        part = (target - s.last) / jnp.where(width == 0, 1, width)
        value = jnp.polyval(s.polynomial, part.astype(s.y.dtype))
        return s, jnp.where(s.t < target, jnp.nan, value)

    slope = fun(y0, times[0])
    dt = jnp.minimum(_first_step(fun, y0, times[0], slope, rtol, atol), hmax).astype(times.dtype)
    still = jnp.concatenate([jnp.zeros((4, *y0.shape), y0.dtype), y0[None]])
    state = _State(jnp.zeros((), int), y0, slope, times[0], dt, times[0], still)
    found = lax.scan(reach, state, times[1:])[1]
    return jnp.concatenate([y0[None], found])


# -- derivatives ----------------------------------------------------------------------------------------------


@partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _odeint(derivative, rtol, atol, mxstep, hmax, y0, t, args, consts):
    # Time that runs backward is time that runs forward, with the sign of the derivative.
    sign = jnp.where(t[-1] < t[0], -1, 1).astype(t.dtype)
    fun = lambda y, s: sign.astype(y.dtype) * derivative(y, sign * s, *args, *consts)
    return _solve(fun, y0, sign * t, rtol, atol, mxstep, hmax)


_compiled = jit(_odeint, static_argnums=(0, 1, 2, 3, 4))


def _forward(derivative, rtol, atol, mxstep, hmax, y0, t, args, consts):
    found = _odeint(derivative, rtol, atol, mxstep, hmax, y0, t, args, consts)
    return found, (found, t, args, consts)


def _backward(derivative, rtol, atol, mxstep, hmax, kept, cotangents):
    found, t, args, consts = kept
    given, structure = tree.flatten((args, consts))
    given = [jnp.asarray(x) for x in given]
    smooth = [jnp.issubdtype(x.dtype, jnp.inexact) for x in given]
    variables = [x for x, s in zip(given, smooth) if s]

    def at(y, t, variables):
        it = iter(variables)
        leaves = [next(it) if s else x for x, s in zip(given, smooth)]
        args, consts = tree.unflatten(structure, leaves)
        return derivative(y, t, *args, *consts)

    def augmented(state, s, *variables):
        """Backward in time: the state, and what its cotangent, and those of the variables, gather."""
        y, y_bar, *_ = state
        slope, pull = vjp(at, y, -s, list(variables))
        y_part, t_part, variable_parts = pull(y_bar)
        return -slope, y_part, t_part, variable_parts

    def back(carry, step):
        y_bar, t0_bar, sums = carry
        y, t1, t0, cotangent = step
        # What a later time of this state would change.
        t1_bar = jnp.sum(at(y, t1, variables) * cotangent).real.astype(t.dtype)
        y_bar = y_bar + cotangent
        state = (y, y_bar, t0_bar - t1_bar, sums)
        out = odeint(
            augmented,
            state,
            jnp.stack([-t1, -t0]),
            *variables,
            rtol=rtol,
            atol=atol,
            mxstep=mxstep,
            hmax=hmax,
        )
        _, y_bar, t0_bar, sums = tree.map(lambda x: x[1], out)
        return (y_bar, t0_bar, sums), t1_bar

    start = (
        jnp.zeros_like(cotangents[-1]), jnp.zeros((), t.dtype), [jnp.zeros_like(x) for x in variables],
    )  # fmt: skip
    (y_bar, t0_bar, sums), t_bars = lax.scan(
        back, start, (found[1:], t[1:], t[:-1], cotangents[1:]), reverse=True
    )
    it = iter(sums)
    bars = [
        next(it) if s else np.zeros(x.shape, np.dtype([("float0", "V")]))
        for x, s in zip(given, smooth)
    ]
    args_bar, consts_bar = tree.unflatten(structure, bars)
    return y_bar + cotangents[0], jnp.concatenate([t0_bar[None], t_bars]), args_bar, consts_bar


_odeint.defvjp(_forward, _backward)
