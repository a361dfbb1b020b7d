"""Aliases: which outputs of a kernel start as one of its inputs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from xlab.core.refs import AbstractRef


def checked_aliases(
    aliases: Mapping[int, int],
    in_avals: Sequence[AbstractRef],
    in_origins: Sequence[str],
    out_avals: Sequence[AbstractRef],
    out_origins: Sequence[str],
) -> tuple[tuple[int, int], ...]:
    """The pairs of an `input_output_aliases`, in order.

    Args:
        aliases: number of a flat input to number of a flat output.
        in_avals, in_origins: types and paths of the inputs.
        out_avals, out_origins: those of the outputs.

    Raises:
        ValueError: a number is out of range, two types differ, or an output would start as two inputs.
    """
    pairs = sorted((operator.index(i), operator.index(o)) for i, o in dict(aliases).items())
    taken: dict[int, int] = {}
    for i, o in pairs:
        for number, avals, what in ((i, in_avals, "input"), (o, out_avals, "output")):
            if not 0 <= number < len(avals):
                raise ValueError(
                    f"input_output_aliases has the pair {i}: {o}, but {what} {number} is out of range: there are "
                    f"{len(avals)} flat {what}s, numbered from 0 ([0, {len(avals)}))"
                )
        a, b = in_avals[i].inner_aval, out_avals[o].inner_aval
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError(
                f"input_output_aliases has the pair {i}: {o}, but {in_origins[i]} has type {a} and {out_origins[o]} has type "
                f"{b}: an output that starts as an input has its shape and dtype"
            )
        if o in taken:
            raise ValueError(
                f"input_output_aliases has the pairs {taken[o]}: {o} and {i}: {o}: {out_origins[o]} cannot start as both "
                f"{in_origins[taken[o]]} and {in_origins[i]}"
            )
        taken[o] = i
    return tuple(pairs)
