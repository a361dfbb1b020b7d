"""Provenance: from which equation, and by which rules, each equation of a transformed program was made.

The equations of a marked program have a `Derived` as their location, which also holds the origin, and equations made from them
inherit it. While `named_rules` is on, the rule tables return rules that add their name to it. Without a marked program no table
is changed, and values of other threads have ordinary locations.

>>> import xlab
>>> from xlab.core.jaxpr import eval_jaxpr
>>> marked = mark(xlab.make_jaxpr(lambda x: xlab.lax.sin(x))(1.0))
>>> with named_rules():
...     made = xlab.make_jaxpr(xlab.grad(lambda x: eval_jaxpr(marked.jaxpr, (), x)[0]))(1.0)
>>> [(e.primitive.name, e.raw_source_info.origin, e.raw_source_info.rules) for e in made.eqns]
[('sin', 0, ('jvp of sin',)), ('cos', 0, ('jvp of sin',)), ('mul', 0, ('jvp of sin', 'transpose of mul'))]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, number_equations
from xlab.core.rules import RuleTable
from xlab.core.trace import state
from xlab.interpreters import ad, batching
from xlab.interpreters import partial_eval as pe


class Derived(tuple):
    """The location of an equation, the number of the equation it was made from, and the rules that made it, first to last."""

    origin: int
    rules: tuple[str, ...]

    def __new__(cls, place: tuple, origin: int, rules: tuple[str, ...] = ()) -> Derived:
        made = super().__new__(cls, place)
        made.origin, made.rules = origin, rules
        return made


def mark(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program, its equations marked with their numbers. Nothing that was remembered of the one is known of the other."""
    numbers = number_equations(closed.jaxpr)
    made: dict[int, Any] = {}

    def copy(given: Any) -> Any:
        if isinstance(given, tuple):
            if not any(isinstance(x, (Jaxpr, ClosedJaxpr)) for x in given):
                return given
            return (
                type(given)(*map(copy, given))
                if hasattr(given, "_fields")
                else tuple(map(copy, given))
            )
        if not isinstance(given, (Jaxpr, ClosedJaxpr)):
            return given
        found = made.get(id(given))
        if found is None:
            found = made[id(given)] = (
                ClosedJaxpr(copy(given.jaxpr), given.consts)
                if isinstance(given, ClosedJaxpr)
                else given.replace(eqns=[equation(e) for e in given.eqns])
            )
        return found

    def equation(eqn: JaxprEqn) -> JaxprEqn:
        params = {name: copy(value) for name, value in eqn.params.items()}
        return eqn.replace(
            params=params, source_info=Derived(eqn.raw_source_info, numbers[id(eqn)])
        )

    return copy(closed)


_TABLES: tuple[tuple[RuleTable, str], ...] = (
    (ad.primitive_jvps, "jvp"),
    (ad.primitive_transposes, "transpose"),
    (pe.partial_eval_rules, "partial eval"),
    (batching.primitive_batchers, "batch"),
    (batching.axis_primitive_batchers, "batch"),
)

_lock = threading.Lock()
_users = 0


@contextmanager
def named_rules() -> Iterator[None]:
    """While the block runs, what a rule makes from a marked equation carries the rule's name, as `jvp of sin`."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            for table, word in _TABLES:
                table.look_up_through(_naming(word))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                for table, _ in _TABLES:
                    table.look_up_through(None)


def _naming(word: str) -> Callable:
    def naming(primitive: Any, rule: Callable) -> Callable:
        here = state.source_info
        if type(here) is not Derived:
            return rule

        def named(*args: Any, **params: Any) -> Any:
            previous = state.source_info
            state.source_info = Derived(
                here, here.origin, (*here.rules, f"{word} of {primitive.name}")
            )
            try:
                return rule(*args, **params)
            finally:
                state.source_info = previous

        return named

    return naming
