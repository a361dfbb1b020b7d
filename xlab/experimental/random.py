"""Random numbers from a generator that remembers where it is, as NumPy's `Generator` does.

The state is a key, and a counter in a mutable reference: draw number `i` uses `random.fold_in(key, i)`. So a generator may be used in
compiled functions, in loops and under `vmap`, which carry references, but it cannot be a result or a carry.

Example:
    >>> rng = stateful_rng(42)
    >>> float(rng.uniform()), float(rng.uniform())
    (0.5302608013153076, 0.7276642322540283)
    >>> import xlab
    >>> draw = xlab.jit(rng.normal)
    >>> bool(draw() != draw())
    True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlab import numpy as jnp
from xlab import random as _random
from xlab.core.refs import Ref
from xlab.core.trace import EVAL, state
from xlab.lax.ref_functions import new_ref
from xlab.tree_util import register_dataclass

__all__ = ["StatefulPRNG", "stateful_rng"]

Size = int | Sequence[int] | None


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator of random numbers.

    Args:
        seed: an integer; left out, one is drawn from the operating system.
        impl: kind of the key, as `random.key` takes it.

    Raises:
        TypeError: without a seed inside of a function that is traced, whose program would draw the same at every call; for a seed that
            is no integer.

    Example:
        >>> stateful_rng(3).integers(10, size=4).tolist() == stateful_rng(3).integers(10, size=4).tolist()
        True
    """
    if seed is None:
        if state.trace is not EVAL:
            raise TypeError(
                "When used within transformed code, stateful_rng() requires an explicit seed to be set: what it drew from the operating "
                "system would be part of the program. Make the generator outside, or give it a seed that is an argument"
            )
        seed = int(np.random.SeedSequence().generate_state(1, np.uint32)[0] >> 1)
    return StatefulPRNG(_random.key(seed, impl=impl), new_ref(0))


@register_dataclass
@dataclass(frozen=True)
class StatefulPRNG:
    """A generator: made by `stateful_rng`, `split` or `spawn`."""

    _base_key: Any
    _counter: Ref

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of keys of a shape; everything else is drawn with these.

        Raises:
            ValueError: for the several generators that `split` made: map over them with `vmap`.
        """
        if self._base_key.shape:
            raise ValueError(
                f"cannot operate on split stateful generator: this one holds {math.prod(self._base_key.shape)} generators of shape "
                f"{self._base_key.shape}. Map a function over it with xlab.vmap, or make a list of generators with spawn(n)"
            )
        at = self._counter[...]
        self._counter[...] = at + 1
        key = _random.fold_in(self._base_key, at)
        return _random.split(key, shape) if shape != () else key

    def random(self, size: Size = None, dtype: Any = float) -> Any:
        """Floats from [0, 1), uniformly.

        Example:
            >>> stateful_rng(0).random((2, 3)).shape
            (2, 3)
        """
        return self.uniform(size=size, dtype=dtype)

    def uniform(self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Floats from [low, high), uniformly; of the shape that the bounds have together where `size` is left out."""
        shape = _shape(size, low, high)
        return _random.uniform(self.key(), shape, dtype, minval=low, maxval=high)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Normal numbers of mean `loc` and standard deviation `scale`.

        Example:
            >>> stateful_rng(0).normal([0.0, 100.0], 0.1).round().tolist()[1]
            100.0
        """
        shape = _shape(size, loc, scale)
        loc, scale = jnp.asarray(loc, dtype), jnp.asarray(scale, dtype)
        return loc + scale * _random.normal(self.key(), shape, dtype)

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Any:
        """Integers from `low` up to, not including, `high`; up to `low` from 0 where that is all.

        Example:
            >>> int(stateful_rng(0).integers(1))
            0
        """
        if high is None:
            low, high = 0, low
        shape = _shape(size, low, high)
        return _random.randint(self.key(), shape, low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Several generators in one, to be mapped over with `vmap`.

        Example:
            >>> import xlab
            >>> xlab.vmap(lambda rng: rng.random())(stateful_rng(0).split(3)).shape
            (3,)
        """
        keys = self.key(num)
        return StatefulPRNG(keys, new_ref(jnp.zeros(keys.shape, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of new generators, each with a state of its own."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def _shape(size: Size, *given: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*map(np.shape, given))
    return (int(size),) if np.ndim(size) == 0 else tuple(size)  # type: ignore[arg-type]
