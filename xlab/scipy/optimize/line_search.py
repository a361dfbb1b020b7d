"""How far to go along a direction in which a function decreases.

Nocedal and Wright (2006), Numerical Optimization, algorithms 3.5 (bracket) and 3.6 (zoom), for the strong Wolfe conditions. Both are
states of one loop, so that the function is compiled once, and batches of searches run together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlab import lax
from xlab import numpy as jnp

__all__ = ["LineSearchEnd", "inner", "line_search"]

DECREASE, CURVATURE = 1e-4, 0.9
BRACKET, ZOOM, FOUND, FAILED, EXHAUSTED = range(5)


class LineSearchEnd(NamedTuple):
    """Where a search ended.

    Attributes:
        x, value, slope: the point, the function there, and its gradient.
        evaluations: how often the function was called.
        status: `FOUND`; `FAILED`, where nothing smaller was found; `EXHAUSTED`, where the steps ran out.
    """

    x: Any
    value: Any
    slope: Any
    evaluations: Any
    status: Any


class _State(NamedTuple):
    status: Any
    i: Any  # evaluations
    a: Any  # the step that comes next
    last: tuple  # (step, value, derivative) of the end that is lower, or of the one before while bracketing
    high: tuple  # the other end
    old: tuple  # (step, value) of the end that was thrown away
    zooms: Any
    best: tuple  # (step, value, gradient) of the lowest point


def inner(u, v):
    """The real inner product."""
    return jnp.vdot(u, v).real


def line_search(
    value_and_slope: Callable, x, direction, value, slope, first, limit: int
) -> LineSearchEnd:
    """A point along a direction that satisfies the strong Wolfe conditions, or the lowest seen.

    Args:
        value_and_slope: from `x` to the function and its gradient.
        x: where to start, of shape `(n,)`.
        direction: in which the function decreases.
        value, slope: the function and its gradient at `x`.
        first: the step to try first, as a factor of the direction.
        limit: the most evaluations while bracketing, and while zooming.
    """
    derivative = inner(slope, direction)
    start = (jnp.zeros_like(value), value, derivative)

    def judge(s: _State):
        here, slope_here = value_and_slope(x + s.a.astype(x.dtype) * direction)
        here = jnp.where(jnp.isnan(here), jnp.inf, here)
        d = inner(slope_here, direction)
        now = (s.a, here, d)
        lower = here < s.best[1]
        best = _choose(lower, (s.a, here, slope_here), s.best)
        too_high = (here > value + DECREASE * s.a * derivative) | (
            (here >= s.last[1]) & ((s.status == ZOOM) | (s.i > 0))
        )
        found = ~too_high & (jnp.abs(d) <= -CURVATURE * derivative)
        best = _choose(found, (s.a, here, slope_here), best)

        # While bracketing: between the last two points once the function rises.
        rising = d >= 0
        ends = _choose(too_high, (s.last, now), (now, s.last))
        bracketed = too_high | rising
        last, high = _choose(bracketed, ends, (now, now))
        bracket = s._replace(
            status=jnp.where(bracketed, ZOOM, BRACKET), last=last, high=high, old=last[:2]
        )
        # While zooming: the new point takes the place of one of the ends.
        turned = d * (s.high[0] - s.last[0]) >= 0
        kept = _choose(turned, s.last, s.high)
        last, high = _choose(too_high, (s.last, now), (now, kept))
        old = _choose(too_high | turned, s.high[:2], s.last[:2])
        zoom = s._replace(last=last, high=high, old=old, zooms=s.zooms + 1)
        after = _choose(s.status == BRACKET, bracket, zoom)

        width = jnp.abs(after.high[0] - after.last[0])
        # Where the ends differ by rounding alone there is nothing between them.
        closed = width <= 4 * jnp.finfo(width.dtype).eps * jnp.abs(after.last[0])
        zooming = after.status == ZOOM
        a = jnp.where(zooming, _between(after), 2 * s.a)
        spent = jnp.where(zooming, after.zooms >= limit, s.i + 1 >= limit)
        status = jnp.where(zooming & (closed | spent), FAILED, after.status)
        status = jnp.where(~zooming & spent, EXHAUSTED, status)
        status = jnp.where(found, FOUND, status)
        return after._replace(status=status, i=s.i + 1, a=a, best=best)

    state = _State(
        BRACKET, 0, first.astype(value.dtype), start, start, start[:2], 0, (*start[:2], slope)
    )
    state = lax.while_loop(lambda s: s.status <= ZOOM, judge, state)
    a, value_there, slope_there = state.best
    # Not what the conditions ask for, but lower: good enough to go on from, as at the limit of rounding.
    usable = (state.status == FAILED) & (value_there < value) & jnp.isfinite(value_there)
    status = jnp.where(usable, FOUND, state.status)
    ok = status == FOUND
    there = _choose(
        ok, (x + a.astype(x.dtype) * direction, value_there, slope_there), (x, value, slope)
    )
    return LineSearchEnd(*there, state.i, status)


def _between(s: _State):
    """The next step inside of a bracket: the minimum of a cubic, or of a parabola, or the middle where they lead near an end."""
    (low, f_low, d_low), (high, f_high, _), (old, f_old) = s.last, s.high, s.old
    width = high - low
    # The cubic with value and derivative at the low end, and the values at two more points.
    u, v = width, old - low
    p, q = f_high - f_low - d_low * u, f_old - f_low - d_low * v
    scale = u * u * v * v * (u - v)
    a, b = (v * v * p - u * u * q) / scale, (u * u * u * q - v * v * v * p) / scale
    cubic = low + (jnp.sqrt(b * b - 3 * a * d_low) - b) / (3 * a)
    parabola = low - d_low * width * width / (2 * p)
    left, right = jnp.minimum(low, high), jnp.maximum(low, high)

    def inside(step, margin):
        m = margin * (right - left)
        return jnp.isfinite(step) & (step >= left + m) & (step <= right - m)

    step = jnp.where(inside(parabola, 0.1), parabola, low + width / 2)
    return jnp.where((s.zooms > 0) & inside(cubic, 0.2), cubic, step)


def _choose(flag, yes, no):
    if isinstance(yes, tuple):
        parts = [_choose(flag, y, n) for y, n in zip(yes, no, strict=True)]
        return type(yes)(*parts) if hasattr(yes, "_fields") else tuple(parts)
    return jnp.where(flag, yes, no)
