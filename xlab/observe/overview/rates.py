"""Programs whose times say how fast single operations are, at several sizes, and the rates that follow from them.

A small operation is not done at the rate of a large one: it is not divided among cores, or what that takes is much beside it. So each is
timed at sizes far apart, and what lies between is interpolated (`Machine.rate_of`). Nothing here knows how an operation is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.compile.jit import jit

FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "atanh",
    "atan2", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "erf_inv", "pow", "lgamma", "digamma",
)  # fmt: skip
"""Functions that are timed each by itself; others count as `tanh`."""

MORE = 8
"""How many products more a program has than the one beside it: what a call takes, and the memory of its results, is in both."""

TALL = 4
"""Rows for each column in products that sum over rows, which are those of gradients of weights over a batch."""
BATCH = 32
"""Products that are done as one."""
SHORT = 8
"""Elements that are reduced to one where these are few."""

LEAST_PART = 0.1
"""The part of its time that a function has at least in a loop of its own: times of a loop with it and without it are never that exact."""


class Timed(NamedTuple):
    """A program to time, its arguments, and how often it is called in a round."""

    program: Callable
    args: tuple
    often: int = 1


class Rated(NamedTuple):
    """What a timed program says: so much of `what`, `times` times, takes its time less that of the program `beside` it; "" for what only stands
    beside others."""

    what: str
    work: float
    timed: Timed
    beside: str = ""
    times: int = 1


def rated(unit: int) -> dict[str, Rated]:
    """All programs whose rates are measured, by names; the largest have about `unit` elements or a few times as many."""
    found: dict[str, Rated] = {}

    def add(
        name: str, work: float, program: Callable, *args: Any, beside: str = "", times: int = 1
    ) -> None:
        what = "" if name.startswith("one ") else name
        found[f"{name} {work:g}"] = Rated(what, work, Timed(jit(program), args), beside, times)

    def add_products(name: str, work: float, product: Callable, x: Any, a: Any) -> None:
        """One product, and the sum of several by as many matrices."""
        more = MORE if work < unit * 64 else 2
        matrices = [a + n for n in range(1 + more)]
        program = lambda x, *matrices: sum([product(x, a) for a in matrices])
        add(f"one {name}", work, program, x, matrices[0])
        add(name, work, program, x, *matrices, beside=f"one {name} {work:g}", times=more)

    side = math.isqrt(unit)
    for part in (16, 8, 4, 2):
        n = max(4, side // part)
        square, tall = jnp.ones((n, n)), jnp.ones((TALL * n, n))
        add_products("product f32", 2.0 * n**3, lambda x, a: x @ a, square, square)
        by_rows = lambda x, a: x.T @ a
        add_products("product f32 over rows", 2.0 * TALL * n**3, by_rows, tall, tall)
        if part > 2:
            many = jnp.ones((BATCH, n // 2, n // 2))
            work = 2.0 * BATCH * (n // 2) ** 3
            add_products("product f32 batched", work, lambda x, a: x @ a, many, many)
    for n in (unit // 8, unit):
        half: Any = jnp.full((max(1, n // 512), min(n, 512)), 0.5)
        add("one loop", half.size, lambda x: x + 1, half)
        for name in FUNCTIONS:
            add(name, half.size, _function(name), half, beside=f"one loop {half.size:g}")
        add("reduction", half.size - len(half), lambda x: x.sum(-1), half)
        short: Any = jnp.reshape(half, (-1, SHORT))
        add("reduction of few", short.size - len(short), lambda x: x.sum(-1), short)
    for n in sorted({max(4, side * k // 4) for k in (1, 2, 4, 8)}):
        # One that stands alone is a copy by blocks, one in a loop with others reads across rows.
        add("transpose", n * n, lambda x: x.T + 1, jnp.ones((n, n)))
        add("transpose alone", n * n, lambda x: x.T, jnp.ones((n, n)))
    for channels, size in ((16, max(4, side // 32)), (32, max(8, side // 16))):
        image, filters = jnp.ones((8, channels, size, size)), jnp.ones((channels, channels, 3, 3))
        work = 2.0 * 8 * size**2 * channels**2 * 9
        same = lambda x, f: lax.conv(x, f, (1, 1), "SAME")
        add("conv_general_dilated", work, same, image, filters)
    rows: Any = jnp.ones((max(1, unit // 256), 256))
    add("cumsum", rows.size, lambda x: lax.cumsum(x, 1), rows)
    where: Any = jnp.asarray(
        np.random.default_rng(0).integers(0, len(rows), max(1, len(rows) // 4))
    )
    updates: Any = jnp.ones((len(where), 256))
    add("scatter-add", updates.size, lambda x, i, u: x.at[i].add(u), rows, where, updates)
    return found


def _function(name: str) -> Callable:
    function = getattr(lax, name)
    if name in ("pow", "atan2"):
        return lambda x: function(x, x)
    return lambda x: function(x)


def rates_of(
    programs: Mapping[str, Rated], seconds: Mapping[str, float]
) -> tuple[tuple[str, float, float], ...]:
    """The rates, from the seconds of each program without those of a call.

    >>> one = Timed(len, ())
    >>> given = {"one loop 8": Rated("", 8, one), "exp 8": Rated("exp", 8, one, "one loop 8")}
    >>> rates_of(given, {"one loop 8": 2.0, "exp 8": 4.0})
    (('exp', 8, 4.0),)
    """
    found: list[tuple[str, float, float]] = []
    for name, p in programs.items():
        if not p.what:
            continue
        took = seconds[name]
        if p.beside:
            took = max(took - seconds[p.beside], LEAST_PART * took)
        found.append((p.what, p.work, p.times * p.work / took))
    return tuple(found)


def call_seconds(programs: Mapping[str, Rated], seconds: Mapping[str, float]) -> float:
    """Seconds of a call of a program that has some work, without those of the work: others than the smallest are handed to another thread.

    >>> given = {"one product 8": Rated("", 8, Timed(len, ())), "product 8": Rated("product", 8, Timed(len, ()), "one product 8", 4)}
    >>> call_seconds(given, {"one product 8": 3.0, "product 8": 7.0})
    2.0
    """
    found = []
    for name, p in programs.items():
        if p.times > 1:
            alone = seconds[p.beside]
            found.append(alone - max(0.0, seconds[name] - alone) / p.times)
    return max(0.0, min(found))


def product_seconds(rates: Sequence[tuple[str, float, float]], n: int) -> float:
    """Seconds of a product of square matrices that was timed.

    >>> product_seconds([("product f32", 16.0, 4.0)], 2)
    4.0
    """
    work = 2.0 * n**3
    return next(size / rate for name, size, rate in rates if name == "product f32" and size == work)
