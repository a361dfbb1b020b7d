"""The order in which an `einsum` multiplies, and the report on what that order costs."""

from __future__ import annotations

import math
from typing import Any

from xlab.backend.values import value_class
from xlab.core.typing import ArrayLike
from xlab.numpy.einsum import _LETTERS, _sizes, _spelled, cheap_path, parse
from xlab.numpy.operands import check, shape_of

__all__ = ["einsum_path"]


def einsum_path(
    subscripts: str | ArrayLike,
    /,
    *operands: Any,
    optimize: str | bool | list[tuple[int, ...]] = "auto",
) -> tuple[list[Any], Any]:
    """The order in which `einsum` multiplies, and a report about it.

    Args:
        subscripts, operands: as for `einsum`.
        optimize: "optimal" for the cheapest order, "greedy" for the cheapest next product, "auto" or True for one of these by the number
            of operands, False for the operands as they come; or a path, to be reported on.

    Returns:
        A list of tuples, positions of the operands multiplied at each step (they are removed and their product put at the end), and a
        `PathInfo`, which prints as a table.

    Raises:
        KeyError: `optimize` names no way to find an order.

    Example:
        >>> import xlab.numpy as jnp
        >>> path, info = jnp.einsum_path("ij,jk,kl->il", jnp.ones((2, 9)), jnp.ones((9, 9)), jnp.ones((9, 2)))
        >>> path, info.opt_cost, info.naive_cost
        ([(0, 1), (0, 1)], 396, 972)
    """
    spec, operands = _spelled(subscripts, operands)
    shapes = [shape_of(x) for x in check("einsum_path", *operands)]
    inputs, result = _lowered(spec, *parse(spec, shapes), shapes)
    sizes = _sizes(spec, inputs, shapes)
    path = _path(optimize, inputs, result, sizes)
    return path, _report(inputs, result, sizes, path)


def _lowered(spec, inputs, result, shapes):
    """The letters that stand for `...` as the first ones that are free, as many as dimensions are needed."""
    named = set(spec)
    hidden = sorted({c for c in "".join(inputs) if c not in named}, key=_LETTERS.index)
    free = [c for c in _LETTERS if c not in named][: max(map(len, shapes), default=0)]
    names = str.maketrans(dict(zip(hidden, free[len(free) - len(hidden) :])))
    return [text.translate(names) for text in inputs], result.translate(names)


def _path(optimize, inputs, result, sizes):
    if isinstance(optimize, (list, tuple)):
        steps = optimize[1:] if optimize and optimize[0] == "einsum_path" else optimize
        return [tuple(step) for step in steps]
    if optimize not in (True, False, "auto", "optimal", "greedy"):
        raise KeyError(
            f"einsum_path: optimize={optimize!r} is no way to find an order; expected 'auto', 'optimal', 'greedy', True, False, "
            f"or a path"
        )
    if len(inputs) == 1:
        return [(0,)]
    if optimize is False:
        return [(0, 1)] * (len(inputs) - 1)
    return (
        _greedy(inputs, result, sizes)
        if optimize == "greedy"
        else list(cheap_path(inputs, result, sizes))
    )


def _greedy(inputs, result, sizes):
    """Of pairs with a letter in common the one that shrinks memory most; the others at the end, smallest first."""
    terms, path = [frozenset(t) for t in inputs], []
    while len(terms) > 1:
        pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
        joined = [p for p in pairs if terms[p[0]] & terms[p[1]]]

        made = {p: _volume(_kept(terms, p, result), sizes) for p in joined or pairs}
        if joined:
            made = {
                (i, j): size - _volume(terms[i], sizes) - _volume(terms[j], sizes)
                for (i, j), size in made.items()
            }
        i, j = min(made, key=made.get)
        path.append((i, j))
        terms = [*(t for k, t in enumerate(terms) if k not in (i, j)), _kept(terms, (i, j), result)]
    return path


def _kept(terms, chosen, result):
    rest = frozenset(result).union(*(t for k, t in enumerate(terms) if k not in chosen))
    return frozenset().union(*(terms[k] for k in chosen)) & rest


def _volume(letters, sizes) -> int:
    return math.prod(sizes[c] for c in letters)


def _operations(letters, sums: bool, factors: int, sizes) -> int:
    """Multiplications of every element, and additions where something is summed."""
    return _volume(letters, sizes) * (max(1, factors - 1) + sums)


@value_class
class _Step:
    scale: int
    kind: str
    product: str
    left: str


@value_class
class PathInfo:
    """What an order of products costs: operations in all, the largest product, and each step; prints as a table."""

    eq: str
    path: list
    size_dict: dict
    naive_scale: int
    naive_cost: int
    opt_cost: int
    largest_intermediate: int
    steps: tuple

    @property
    def speedup(self) -> float:
        return self.naive_cost / max(1, self.opt_cost)

    @property
    def scale_list(self) -> list[int]:
        return [step.scale for step in self.steps]

    def __repr__(self):
        rule = "-" * 80
        rows = [f"{s.scale:4d} {s.kind:>14} {s.product:>22} {s.left:>37}" for s in self.steps]
        head = f"{'scaling':<8}{'BLAS':>11} {'current':>22} {'remaining':>37}"
        return "\n".join(
            [
                f"  Complete contraction:  {self.eq}",
                f"         Naive scaling:  {self.naive_scale}",
                f"     Optimized scaling:  {max(self.scale_list)}",
                f"      Naive FLOP count:  {_scientific(self.naive_cost)}",
                f"  Optimized FLOP count:  {_scientific(self.opt_cost)}",
                f"   Theoretical speedup:  {_scientific(self.speedup)}",
                f"  Largest intermediate:  {_scientific(self.largest_intermediate)} elements",
                rule,
                head,
                rule,
                *rows,
            ]
        )


def _scientific(x) -> str:
    mantissa, exponent = f"{x:.3e}".split("e")
    return f"{mantissa}e{int(exponent):+d}"


def _report(inputs, result, sizes, path) -> PathInfo:
    terms, steps, cost, largest = list(inputs), [], 0, 0
    for n, chosen in enumerate(path):
        chosen = sorted(chosen, reverse=True)
        kept = _kept([frozenset(t) for t in terms], chosen, result)
        taken = [terms.pop(i) for i in chosen]
        letters = "".join(dict.fromkeys("".join(taken)))
        made = result if n == len(path) - 1 else "".join(c for c in letters if c in kept)
        cost += _operations(letters, len(kept) < len(letters), len(taken), sizes)
        largest = max(largest, _volume(kept, sizes))
        terms.append(made)
        steps.append(
            _Step(
                len(letters),
                _kind(taken, kept),
                f"{','.join(taken)}->{made}",
                f"{','.join(terms)}->{result}",
            )
        )
    letters = set("".join(inputs))
    naive = _operations(
        letters, sum(len(set(t)) for t in inputs) > len(letters), len(inputs), sizes
    )
    return PathInfo(
        f"{','.join(inputs)}->{result}",
        path,
        sizes,
        len(letters),
        naive,
        cost,
        largest,
        tuple(steps),
    )


def _kind(taken, kept) -> str:
    """The routine of BLAS that a product of two amounts to: 0 for none, /EINSUM where dimensions would have to move first."""
    if len(taken) != 2:
        return "0"
    a, b = taken
    shared = set(a) & set(b)
    if any(len(set(t)) < len(t) for t in taken) or shared & kept or (set(a) ^ set(b)) - kept:
        return "0"
    if not shared:
        return "OUTER/EINSUM"
    if set(a) == set(b):
        return "DOT" if a == b else "DOT/EINSUM"
    n = len(shared)
    if any(x == y and set(x) == shared for x in (a[:n], a[-n:]) for y in (b[:n], b[-n:])):
        return "GEMM"
    return "GEMV/EINSUM" if shared in (set(a), set(b)) else "TDOT"
