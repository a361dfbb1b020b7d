"""Minimization by directions from gradients seen so far: BFGS with a whole matrix, L-BFGS with a few vectors.

Source:
    Nocedal and Wright (2006), Numerical Optimization, algorithms 6.1 and 7.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlab import lax
from xlab import numpy as jnp
from xlab.scipy.optimize.line_search import EXHAUSTED, FOUND, inner, line_search
from xlab.transforms.grad import value_and_grad

__all__ = ["Found", "bfgs", "lbfgs"]

RUNNING = -1


class Found(NamedTuple):
    """Where a minimization ended; `status` is RUNNING while it goes on."""

    x: Any
    value: Any
    slope: Any
    before: Any  # the value one step ago
    evaluations: Any
    steps: Any
    status: Any
    memory: Any


def bfgs(
    fun: Callable,
    x0,
    maxiter: int | None = None,
    norm=jnp.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> Found:
    """Minimizes with an approximation of the inverse Hessian.

    Args:
        fun: a function from `(n,)` to a scalar.
        x0: where to start.
        maxiter: the most steps, 200 per variable by default.
        norm: the order of the norm of the gradient that is looked at.
        gtol: converged where the norm is smaller.
        line_search_maxiter: the most evaluations of a search.
    """
    n = x0.shape[0]
    maxiter = 200 * n if maxiter is None else maxiter
    eye = jnp.eye(n, dtype=x0.dtype)

    def direction(s):
        return -(s.memory @ s.slope)

    def remember(H, step, change, curvature):
        rho = jnp.where(curvature > 0, 1 / curvature, 0)
        left = eye - rho * jnp.outer(step, change.conj())
        new = left @ H @ left.conj().T + rho * jnp.outer(step, step.conj())
        return jnp.where((curvature > 0) & jnp.isfinite(rho), new, H)

    def judge(s, old, search):
        small = jnp.linalg.norm(s.slope, norm) < gtol
        status = jnp.where(s.steps >= maxiter, 1, RUNNING)
        failed = jnp.where(search == EXHAUSTED, 5, 3)
        return jnp.where(small, 0, jnp.where(search == FOUND, status, failed))

    out = _descend(fun, x0, eye, direction, remember, judge, line_search_maxiter, maxiter)
    small = jnp.linalg.norm(out.slope, norm) < gtol
    return out._replace(status=jnp.where(small, 0, jnp.where(out.status == RUNNING, 1, out.status)))


def lbfgs(
    fun: Callable,
    x0,
    maxiter: float | None = None,
    norm=jnp.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-5,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> Found:
    """Minimizes with the last few steps instead of a matrix.

    Args:
        fun: a function from `(n,)` to a scalar.
        x0: where to start.
        maxiter: the most steps; if none of these three is given, 200 per variable.
        norm: the order of the norm of the gradient that is looked at.
        maxcor: how many steps to remember.
        ftol: stops where the function decreases by less, relatively.
        gtol: converged where the norm is smaller.
        maxfun, maxgrad: the most evaluations of the function and of its gradient.
        maxls: the most evaluations of a search.
    """
    n = x0.shape[0]
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = maxfun = maxgrad = 200 * n
    maxiter, maxfun, maxgrad = (
        jnp.inf if most is None else most for most in (maxiter, maxfun, maxgrad)
    )
    real = x0.real.dtype
    # Steps, changes of the gradient, and one over their products; zero for what is not there yet. The newest are last.
    memory = (
        jnp.zeros((maxcor, n), x0.dtype),
        jnp.zeros((maxcor, n), x0.dtype),
        jnp.zeros(maxcor, real),
        jnp.ones((), real),
    )

    def direction(s):
        steps, changes, rhos, scale = s.memory

        def back(q, pair):
            step, change, rho = pair
            alpha = rho * inner(step, q)
            return q - alpha.astype(q.dtype) * change, alpha

        def forth(r, pair):
            step, change, rho, alpha = pair
            return r + (alpha - rho * inner(change, r)).astype(r.dtype) * step, None

        q, alphas = lax.scan(back, s.slope, (steps, changes, rhos), reverse=True)
        return -lax.scan(forth, scale.astype(q.dtype) * q, (steps, changes, rhos, alphas))[0]

    def remember(memory, step, change, curvature):
        keep = curvature > 0
        values = step, change, 1 / curvature
        lists = (jnp.concatenate([old[1:], value[None]]) for old, value in zip(memory, values))
        new = (*lists, curvature / inner(change, change))
        return tuple(jnp.where(keep, a, b) for a, b in zip(new, memory))

    def judge(s, old, search):
        status = jnp.where(old.value - s.value < ftol * jnp.abs(s.value), 4, RUNNING)
        status = jnp.where(s.evaluations >= maxgrad, 3, status)
        status = jnp.where(s.evaluations >= maxfun, 2, status)
        status = jnp.where(s.steps >= maxiter, 1, status)
        status = jnp.where(jnp.linalg.norm(s.slope, norm) < gtol, 0, status)
        return jnp.where(search == FOUND, status, 5)

    out = _descend(fun, x0, memory, direction, remember, judge, maxls, maxiter)
    small = jnp.linalg.norm(out.slope, norm) < gtol
    return out._replace(status=jnp.where(small, 0, jnp.where(out.status == RUNNING, 1, out.status)))


def _descend(fun, x0, memory, direction, remember, judge, limit, maxiter) -> Found:
    """Steps along directions until `judge` gives a status."""

    def value_and_slope(x):
        value, slope = value_and_grad(fun)(x)
        return value, slope.conj()  # of a function of complex numbers, the way up

    def step(s: Found):
        p = direction(s)
        down = inner(s.slope, p)
        # As far as the last step would have gone had the function been a parabola, and not beyond Newton's.
        first = 1.01 * 2 * (s.value - s.before) / down
        first = jnp.where((first > 0) & (first < 1), first, 1.0)
        search = line_search(value_and_slope, s.x, p, s.value, s.slope, first, limit)
        moved, change = search.x - s.x, search.slope - s.slope
        memory = remember(s.memory, moved, change, inner(change, moved))
        new = Found(
            search.x, search.value, search.slope, s.value,
            s.evaluations + search.evaluations, s.steps + 1, s.status, memory,
        )  # fmt: skip
        return new._replace(status=judge(new, s, search.status))

    value, slope = value_and_slope(x0)
    before = value + jnp.linalg.norm(slope) / 2
    state = Found(x0, value, slope, before, 1, 0, RUNNING, memory)
    at_minimum = ~jnp.any(slope != 0)
    return lax.while_loop(
        lambda s: (s.status == RUNNING) & ~(at_minimum & (s.steps == 0)) & (s.steps < maxiter),
        step,
        state,
    )
