"""The program by its own structure: which of the user's functions called which, with what each costs.

A function that a loop in Python calls six times is one call, ×6: its equations stand there six times. How often is read from these
equations, for nobody counts calls while a program is traced; and from the caller, where that calls by name outside of its loops: then it is
what the function calls, as `tree.map` does a lambda, that has run more often.
"""

from __future__ import annotations

import dis
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlab.observe.overview.flattened import FlatEquation, Frame
from xlab.observe.programs import names as _names
from xlab.observe.records.call_tree import Call

HIDDEN = ("<listcomp>", "<dictcomp>", "<genexpr>", "<setcomp>")
"""What Python calls functions that are a part of the function around them."""


_CALLED = {"<lambda>": "a lambda", "<module>": "the cell"}


@dataclass
class Figures:
    """What one operation costs in one run of the program."""

    us: float = 0.0
    flops: float = 0.0
    nbytes: float = 0.0
    sent: float = 0.0


@dataclass
class _Node:
    """A function called at one place. Signatures count how often an equation, by its place in the program's text, stands in the program.

    Attributes:
        direct: whether the caller calls it by its name, outside of a loop: it runs as often as the caller.
    """

    name: str
    site: Frame | None = None
    in_loop: bool = False
    direct: bool = False
    own: list[tuple[FlatEquation, Figures]] = field(default_factory=list)
    children: dict[Any, _Node] = field(default_factory=dict)
    once: Counter = field(default_factory=Counter)
    every: Counter = field(default_factory=Counter)
    unknown: bool = False

    @functools.cached_property
    def often(self) -> int | None:
        """How often most of what stands outside of loops is done, calls too: one line, as that of a derivative, may make many equations."""
        called = [(c.often, c.direct) for c in self.children.values() if not c.in_loop]
        counts = Counter(
            [*self.once.values(), *(n for n, direct in called if n is not None and direct)]
        )
        if not counts:
            counts.update(n for n, _ in called if n is not None)
        return max(counts, key=lambda n: (counts[n], -n), default=None)


def call_tree(
    operations: Iterable[tuple[FlatEquation, Figures]],
    title: str,
    others: Iterable[FlatEquation] = (),
) -> Call:
    """The tree of calls of a program.

    Args:
        operations: what is in the program, with what each costs.
        title: of the program, for one whose operations have no function in common.
        others: equations that are no operations, which have their place too.
    """
    root = _Node(title)
    for op, figures in operations:
        _add(root, op, figures)
    for op in others:
        _add(root, op, Figures())
    if len(root.children) == 1:
        (only,) = root.children.values()
        named = only.name == _CALLED.get(title, title)
        if named:  # what a transformation does around the function that the program has its name of
            only.direct, only.own = True, [*only.own, *root.own]
        if named or not root.own:
            root = only
    return _record(root, 1)


@functools.lru_cache(maxsize=4096)
def _loops(code: Any) -> tuple[tuple[int, int], ...]:
    """Where the loops of a function begin and end, as offsets of instructions: a jump backwards closes each."""
    return tuple(
        (i.argval, i.offset)
        for i in dis.get_instructions(code)
        if i.opname.startswith("JUMP_BACKWARD") or i.opname.startswith("POP_JUMP_BACKWARD")
    )


def in_loop(code: Any, offset: int) -> bool:
    """Whether an instruction of a function stands in a loop of it.

    >>> def f(x):
    ...     y = x + 1
    ...     for _ in range(3):
    ...         y = y + 2
    ...     return y
    >>> import dis
    >>> [in_loop(f.__code__, i.offset) for i in dis.get_instructions(f) if i.opname == "BINARY_OP"]
    [False, True]
    """
    return any(begin <= offset <= end for begin, end in _loops(code))


@functools.lru_cache(maxsize=4096)
def called_name(code: Any, offset: int) -> tuple[str, str]:
    """How an instruction of a function loads what it calls, and its name; empty where that is no name.

    >>> def f(x, g):
    ...     return abs(x) + g.norm(x) + g(x)(x)
    >>> import dis
    >>> [called_name(f.__code__, i.offset)[1] for i in dis.get_instructions(f) if i.opname == "CALL"]
    ['abs', 'norm', 'g', '']
    """
    call = next(itertools.islice(code.co_positions(), offset // 2, None))
    if None in call:
        return "", ""
    line, end_line, column, end_column = call
    # What is called begins where the call does, and is the longest that ends before it.
    called = []
    for i in dis.get_instructions(code):
        if i.opname != "PUSH_NULL" and i.positions is not None and None not in i.positions:
            first, last, begin, end = i.positions
            if (first, begin) == (line, column) and (last, end) < (end_line, end_column):
                called.append(((last, end), i))
    longest = max(called, key=lambda c: c[0], default=(None, None))[1]
    if longest is None or not longest.opname.startswith("LOAD"):
        return "", ""
    return longest.opname, str(longest.argval)


def _add(root: _Node, op: FlatEquation, figures: Figures) -> None:
    """Puts an equation under the functions that led to it."""
    node, site, looped = root, None, False
    signature = op.eqn.primitive.name, op.path
    often = 0 if op.backward else op.times or 1
    for code, at in op.path:
        if code.co_name in HIDDEN:
            looped = True
            continue
        if code.co_name == "<module>" and op.path[0][0] is not code:
            continue  # the cell in which a function was traced first called nothing here
        child = node.children.get((site, code))
        if child is None:
            name = _CALLED.get(code.co_name, code.co_name)
            direct = not looped and site is not None and called_name(*site)[1] == code.co_name
            child = node.children[site, code] = _Node(name, site, looped, direct)
        # Python's own sum is a loop too; that of arrays is loaded from a module.
        summed = called_name(code, at) in (("LOAD_GLOBAL", "sum"), ("LOAD_NAME", "sum"))
        node, site, looped = child, (code, at), in_loop(code, at) or summed
        node.unknown |= op.times is None
        if often:
            node.every[signature] += often
    node.own.append((op, figures))
    if often and not looped:
        node.once[signature] += often


def _runs(node: _Node, around: int | None) -> int | None:
    """How often a function runs: as often as its caller, if that calls it once; else as often as what it does outside of loops; without that, as often as its caller, or what it calls."""
    if node.unknown:
        return None
    if node.direct and around is not None:
        return around
    if (often := node.often) is not None:
        return often
    if not node.every:
        return around
    least = min(node.every.values())
    return least if node.in_loop or around is None or least % around else around


def _shape(node: _Node) -> tuple:
    """What two calls have in common that compute the same: names, primitives and types."""
    own = tuple(
        (op.eqn.primitive.name, op.times, op.backward, *(v.aval for v in op.eqn.outvars))
        for op, _ in node.own
    )
    return node.name, own, tuple(_shape(c) for c in node.children.values())


def _merged(records: list[tuple[Any, Call]]) -> tuple[Call, ...]:
    """Calls of one function with one structure from several lines as one."""
    kept: dict[Any, Call] = {}
    for key, call in records:
        kept[key] = _sum(kept[key], call) if key in kept else call
    return tuple(sorted(kept.values(), key=lambda c: c.first))


def _sum(a: Call, b: Call) -> Call:
    add = lambda m, n: None if m is None or n is None else m + n
    return a.replace(
        times=add(a.times, b.times),
        calls=add(a.calls, b.calls),
        equations=tuple(sorted({*a.equations, *b.equations})),
        backward=tuple(sorted({*a.backward, *b.backward})),
        flops=a.flops + b.flops,
        nbytes=a.nbytes + b.nbytes,
        sent=a.sent + b.sent,
        us=a.us + b.us,
        backward_us=a.backward_us + b.backward_us,
        children=tuple(_sum(x, y).replace(calls=x.calls) for x, y in zip(a.children, b.children)),
        first=min(a.first, b.first),
        places=a.places + b.places,
    )


def _record(node: _Node, around: int | None) -> Call:
    times = _runs(node, around)
    calls = times
    if times is not None and around and times % around == 0:
        calls = times // around
    codes = Counter(code for _, code in node.children)
    children = _merged(
        [
            ((code, _shape(c) if codes[code] > 1 else ()), _record(c, times))
            for (_, code), c in node.children.items()
        ]
    )
    us, back, flops, nbytes, sent = (
        sum(f.us for _, f in node.own),
        sum(f.us for op, f in node.own if op.backward),
        sum(f.flops for _, f in node.own),
        sum(f.nbytes for _, f in node.own),
        sum(f.sent for _, f in node.own),
    )
    numbers = tuple(sorted({op.number for op, _ in node.own}))
    firsts: Sequence[int] = [*numbers[:1], *(c.first for c in children if c.first >= 0)]
    return Call(
        node.name,
        times,
        calls,
        _names.place(node.site) if node.site is not None else None,
        numbers,
        flops + sum(c.flops for c in children),
        nbytes + sum(c.nbytes for c in children),
        sent + sum(c.sent for c in children),
        us + sum(c.us for c in children),
        back + sum(c.backward_us for c in children),
        children,
        min(firsts, default=-1),
        backward=tuple(sorted({op.number for op, _ in node.own if op.backward})),
    )
