"""Arguments that hold what is no array, as a model of equinox holds its activation: they stay what they are, and the arrays among them are traced.

That is what equinox's `filter_jit` does with its arguments; of a plain function it is what the views do, where `jax.jit` would refuse them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.tracing import own
from xlab.core.avals import HOST_VALUES, aval_of
from xlab.observe.beside import recognize

HOLD_NUMBERS = ("equinox",)
"""Libraries whose own form of `jit` holds Python's numbers too."""

PYTHON_NUMBERS: tuple[type, ...] = (bool, int, float, complex)

Split = tuple[tuple, dict[str, Any]]
"""Arguments with None in the place of what is no array."""


class Held:
    """What of the arguments of a call stays as it is.

    Attributes:
        numbers: the kinds of Python's numbers that are held too.
        leaves: the parts of the arguments in order, None for those that are arrays.
    """

    def __init__(self, args: tuple, kwargs: dict[str, Any], numbers: tuple[type, ...]):
        flat, self.tree = self.flatten((args, kwargs))
        self.numbers = numbers
        self.leaves = [None if self.is_dynamic(x) else x for x in flat]

    def __bool__(self) -> bool:
        return any(x is not None for x in self.leaves)

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """The parts of a tree of JAX's, None among them."""
        return recognize.jax().tree_util.tree_flatten(tree, is_leaf=lambda x: x is None)

    def is_result(self, x: Any) -> bool:
        """Whether a part of what is returned is a result of the program."""
        return recognize.is_theirs(x) or recognize.is_traced(x) or isinstance(x, HOST_VALUES)

    def is_dynamic(self, x: Any) -> bool:
        """Whether JAX traces a part of the arguments: arrays, and Python's numbers where they are not held."""
        if recognize.is_theirs(x) or recognize.is_traced(x) or recognize.is_ours(x):
            return True
        if isinstance(x, (np.ndarray, np.generic)):
            return x.dtype.kind not in "OSU"
        if isinstance(x, PYTHON_NUMBERS):
            return not isinstance(x, self.numbers)
        return hasattr(x, "__jax_array__") or type(x).__name__ == "ShapeDtypeStruct"

    def dynamic(self, args: tuple, kwargs: dict[str, Any]) -> Split:
        """The arguments with None in the place of what is held."""
        flat, tree = self.flatten((args, kwargs))
        return tree.unflatten([x if self.is_dynamic(x) else None for x in flat])

    def whole(self, args: tuple, kwargs: dict[str, Any]) -> Split:
        """The arguments of a call from what `dynamic` left of them."""
        flat, _ = self.flatten((args, kwargs))
        return self.tree.unflatten(
            [x if held is None else held for x, held in zip(flat, self.leaves, strict=True)]
        )

    def key(self, what: Any) -> tuple:
        """Equal for calls that trace the same; by identity where something held has no hash."""
        try:
            hash(parts := tuple(self.leaves))
        except TypeError:
            parts = tuple(map(id, self.leaves))
        # 1, 1.0 and True are equal, 0.0 and -0.0 too.
        spelled = tuple(repr(x) if isinstance(x, PYTHON_NUMBERS) else "" for x in self.leaves)
        return id(what), self.tree, parts, spelled


class OurHeld(Held):
    """The same of a call that is traced here."""

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        return _tree.flatten(tree, is_leaf=lambda x: x is None)

    def is_dynamic(self, x: Any) -> bool:
        if isinstance(x, PYTHON_NUMBERS):
            return not isinstance(x, self.numbers)
        return self.is_result(x)

    def is_result(self, x: Any) -> bool:
        try:
            aval_of(x)
        except TypeError:
            return False
        return True


def held_of(what: Any, args: tuple, kwargs: dict[str, Any]) -> Held:
    """What a call of JAX's holds."""
    return Held(args, kwargs, _numbers_held_by(what))


def our_held_of(what: Any, args: tuple, kwargs: dict[str, Any]) -> Held:
    """What a call that is traced here holds."""
    return OurHeld(args, kwargs, _numbers_held_by(what))


def _numbers_held_by(what: Any) -> tuple[type, ...]:
    lower = own(what, "lower")
    if lower is None:
        return ()
    said = own(what, "numbers_held")
    if said is not None:
        return said
    # Of what `jax.pmap` returns, which has no `trace`, a number can only be an argument that it holds too.
    mapped = own(what, "trace") is None and (lower.__module__ or "").startswith("jax.")
    holds = mapped or type(what).__module__.partition(".")[0] in HOLD_NUMBERS
    return PYTHON_NUMBERS if holds else ()


def without(what: Callable, held: Held) -> Callable:
    """The function of the arrays alone; of its results too, what is no array is None."""

    @functools.wraps(what)
    def run(*args: Any, **kwargs: Any) -> Any:
        whole, named = held.whole(args, kwargs)
        flat, tree = held.flatten(what(*whole, **named))
        return tree.unflatten([x if held.is_result(x) else None for x in flat])

    run.__name__ = getattr(what, "__name__", type(what).__name__)
    return run
