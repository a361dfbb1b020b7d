"""Key reuse: follows random keys through a program, and says where one is used twice.

Drawing bits and splitting consume a key; folding data in does not, since other data give other keys, nor does reading its words. Every key
has a `KeyUse` that says where it was used up; a value of a program is an array of them, so that slices of an array of keys are followed
one by one. What a primitive does with keys stands in two tables here: `key_consumers` and `key_movers`. A primitive in neither gives new keys.

Where a program chooses among keys at run time: the result of a selection stands for all keys it may be (using it uses each), and the
result of a dynamic slice for one key that is not known, which is the same again for the same start. Raw keys are plain arrays and are
not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from xlab.core import dtypes, source_info
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, inner_jaxprs, open_jaxpr
from xlab.core.rules import RuleTable
from xlab.errors import KeyReuseError
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of

key_consumers = RuleTable(
    "key_reuse.key_consumers",
    "say which keys are used up by",
    "rule(params) -> positions of the operands whose keys are used up",
    required=False,
)
"""For primitives that draw. Worked example, for one whose first operand is the key: `lambda params: (0,)`."""

key_movers = RuleTable(
    "key_reuse.key_movers",
    "follow keys through",
    "rule(params, *operands) -> the states of the keys of each result, as object arrays, None for other values",
    required=False,
)
"""For primitives whose results are keys of their operands, moved. Worked example, for one that turns an array around:
`lambda params, keys: [keys[::-1]]`."""

MOST = 1 << 16
"""Larger arrays of keys are not followed."""


class KeyUse:
    """The state of one key: where it was consumed, if it was.

    Attributes:
        used: the place, as text.
        one_of: the keys that this one may be; empty for a key of its own.
        known: whether using this one counts as a use of all of `one_of`, not of one that is not known.
    """

    __slots__ = ("known", "one_of", "used")

    def __init__(self, one_of: Sequence[KeyUse] = (), known: bool = True):
        self.used, self.one_of, self.known = "", tuple(one_of), known


class KeyUses:
    """One walk through a program; `spent` are the keys it consumes, with the places."""

    def __init__(self, name: str):
        self.name = name
        self.spent: dict[KeyUse, str] = {}
        self.picked: dict[Any, np.ndarray] = {}  # dynamic slices, by keys and start
        self.computed: dict[Any, int] = {}  # a number for each computation without keys
        # The call of an internal function, whose own lines the user does not know.
        self.at: JaxprEqn | None = None
        self.equation_now: Any = None  # where a key was used last

    def run(self, jaxpr: Jaxpr | ClosedJaxpr, ins: Sequence) -> list:
        jaxpr = open_jaxpr(jaxpr)
        cells: dict[Any, Any] = dict(zip(jaxpr.invars, ins, strict=True))
        for v in jaxpr.constvars:
            cells[v] = fresh(v.aval)
        run = object()  # inputs are those of this run: another round of a loop has others
        numbers: dict[Any, Any] = {}  # what a value was computed by: equal numbers, equal values

        def read(a):
            return None if type(a) is Literal else cells.get(a)

        def number(a):
            return (a.val, str(a.aval)) if type(a) is Literal else numbers.get(a) or (run, a)

        for eqn in jaxpr.eqns:
            given = [read(a) for a in eqn.invars]
            if any(c is not None for c in given) or (eqn.params and inner_jaxprs(eqn.params)):
                outs = self.equation(eqn, given, number)
            else:
                outs = [fresh(v.aval) for v in eqn.outvars]
                self.number_results(eqn, numbers, number)
            cells.update(zip(eqn.outvars, outs))
        return [read(v) for v in jaxpr.outvars]

    def number_results(self, eqn: JaxprEqn, numbers: dict, number: Callable) -> None:
        """Numbers the results of an equation without keys by what computes them."""
        if eqn.effects:
            return
        try:
            # One number for each computation: the computations themselves, one inside the other, would be hashed again and again.
            key = (eqn.primitive, tuple(eqn.params.items()), *map(number, eqn.invars))
            which = self.computed.setdefault(key, len(self.computed))
        except TypeError:  # a parameter or literal that cannot be hashed: results like no others
            return
        numbers.update((v, (which, i)) for i, v in enumerate(eqn.outvars))

    def equation(self, eqn: JaxprEqn, ins: list, number: Callable) -> list:
        prim, params = eqn.primitive, eqn.params
        consumer = key_consumers.get(prim)
        if consumer is not None:
            for i in consumer(params):
                self.spend(ins[i], eqn)
            return [fresh(v.aval) for v in eqn.outvars]
        mover = key_movers.get(prim)
        if mover is not None:
            return self.moved(eqn, mover(params, *ins), number)
        flow = flow_of(eqn)
        if type(flow) is BranchFlow:
            return self.branches(eqn, flow, ins)
        if type(flow) is LoopFlow:
            return self.loop(eqn, flow, ins)
        if type(flow) is CallFlow:
            position = open_jaxpr(flow.jaxpr).debug_info.position.rpartition(":")[0]
            if self.at is not None or not position or not source_info.is_internal(position):
                return self.call(eqn, flow.jaxpr, ins)
            self.at = eqn
            try:
                return self.call(eqn, flow.jaxpr, ins)
            finally:
                self.at = None
        return [fresh(v.aval) for v in eqn.outvars]

    def moved(self, eqn, outs, number) -> list:
        """What a mover gave; keys that are not known are the same again where the same operands chose them."""
        if not any(
            o is not None and o.size and o.flat[0].one_of and not o.flat[0].known for o in outs
        ):
            return list(outs)
        try:
            key = (eqn.primitive, tuple(eqn.params.items()), *map(number, eqn.invars))
            return self.picked.setdefault(key, list(outs))
        except TypeError:  # not hashable
            return list(outs)

    def call(self, eqn, inner, ins) -> list:
        parts = [
            c if c is None or c.shape == v.aval.shape else fresh(v.aval)
            for c, v in zip(ins, open_jaxpr(inner).invars)
        ]
        outs = self.run(inner, parts)
        for whole, part in zip(ins, parts):  # cut into parts, one for each device
            if whole is not part and any(c in self.spent for c in part.flat):
                self.spend(whole, eqn)
        return [
            o if o is None or o.shape == v.aval.shape else fresh(v.aval)
            for o, v in zip(outs, eqn.outvars)
        ]

    def branches(self, eqn, flow: BranchFlow, ins) -> list:
        before, after, results = dict(self.spent), {}, []
        for branch in flow.branches:
            self.spent = dict(before)
            results.append(self.run(branch, ins[1:]))
            after.update(self.spent)
        self.spent = after
        return [either(outs) for _, *outs in zip(eqn.outvars, *results)]

    def loop(self, eqn, flow: LoopFlow, ins) -> list:
        cond_consts, consts, carry, xs = flow.split(ins)
        k, length = flow.num_carry, flow.length
        # What one round uses up the next must not use.
        rows = [0, 1] if length is None or length > 1 else [0] * length
        for i in rows:
            if flow.cond is not None:
                self.run(flow.cond, [*cond_consts, *carry])
            row = [None if x is None else x[i : i + 1].reshape(x.shape[1:]) for x in xs]
            carry = self.run(flow.body, [*consts, *carry, *row])[:k]
        for x in xs:  # and so on with the other rows
            if x is not None and length:
                for one, whole in zip(x[:1].flat, np.moveaxis(x, 0, -1).reshape(-1, length)):
                    if one in self.spent:
                        self.spent.update((c, self.spent[one]) for c in whole)
        return [*carry, *(fresh(v.aval) for v in eqn.outvars[k:])]

    def spend(self, cells, eqn) -> None:
        """Uses keys up; raises if one was used before."""
        if cells is None:
            return
        self.equation_now = self.at or eqn
        where = f"{eqn.primitive.name} at {self.equation_now.source_info}"
        whole = set(cells.flat)
        for cell in whole:
            first = first_use(cell, self.spent)
            if first:
                raise reused(f"{where}, in {self.name},", first)
        for cell, first in self.spent.items():
            if cell.one_of and not cell.known and whole.issuperset(cell.one_of):
                raise reused(f"{where}, in {self.name},", first)
        self.spent.update((c, where) for cell in whole for c in all_of(cell))


def first_use(cell: KeyUse, spent: Mapping[KeyUse, str] = MappingProxyType({})) -> str:
    """Where a key was used up, before or among `spent`; empty text for a key that was not."""
    first = cell.used or spent.get(cell, "")
    if not first and cell.one_of:
        uses = [first_use(c, spent) for c in cell.one_of]
        # One that is not known was used before for certain only where all were.
        first = next(filter(None, uses), "") if cell.known or all(uses) else ""
    return first


def all_of(cell: KeyUse) -> list[KeyUse]:
    """A key with those that are used up with it."""
    return [cell, *(c for one in cell.one_of for c in all_of(one))] if cell.known else [cell]


def reused(what: str, first: str) -> KeyReuseError:
    """The error for a key that is used a second time, with both places."""
    return KeyReuseError(
        f"{what} uses a key that was used before, by {first}: two draws from one key are equal. Split it, `key, subkey = "
        f"xlab.random.split(key)`, and use each once; inside a loop xlab.random.fold_in(key, i) gives a key for each round; "
        f"xlab.random.clone(key) says that equal draws are meant."
    )


def fresh(aval):
    """States of new keys; None for other values and for very large key arrays."""
    if not isinstance(aval, ShapedArray) or not dtypes.issubdtype(aval.dtype, dtypes.prng_key):
        return None
    if aval.size > MOST:
        return None
    out = np.empty(aval.shape, object)
    for i in np.ndindex(aval.shape):
        out[i] = KeyUse()
    return out


def either(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """States of keys that come from one of several arrays of one shape; None if one of them is not followed."""
    given = [a for a in arrays if a is not None]
    if len(given) < len(arrays) or not given:
        return None
    if all(a is given[0] for a in given):
        return given[0]
    out = np.empty(given[0].shape, object)
    for i in np.ndindex(out.shape):
        cells = {a[i]: None for a in given}
        out[i] = next(iter(cells)) if len(cells) == 1 else KeyUse(list(cells))
    return out


def unknown_part(cells: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """States of keys of which it is not known where in `cells` they stand."""
    if shape == cells.shape:
        return cells
    out, one_of = np.empty(shape, object), list(cells.flat)
    for i in np.ndindex(shape):
        out[i] = KeyUse(one_of, known=False)
    return out


class Finding(NamedTuple):
    """The first key that a program uses twice: what is said of it, and the equation that uses it again."""

    text: str
    equation: JaxprEqn


def _draws(jaxpr: Jaxpr) -> bool:
    """Whether anything in a program uses up a key."""
    return any(
        key_consumers.get(eqn.primitive) is not None
        or (eqn.params and any(map(_draws, inner_jaxprs(eqn.params))))
        for eqn in jaxpr.eqns
    )


def first_reuse(closed: ClosedJaxpr, name: str = "program") -> Finding | None:
    """The first key that a program uses twice, if there is one; its arguments count as new keys.

    Args:
        closed: the program.
        name: what it is called in the text.

    Example:
        >>> import xlab
        >>> twice = lambda key: xlab.random.bits(key) + xlab.random.bits(key)
        >>> "uses a key that was used before" in first_reuse(xlab.make_jaxpr(twice)(xlab.random.key(0))).text
        True
    """
    if not _draws(closed.jaxpr):
        return None
    jaxpr, walk = closed.jaxpr, KeyUses(name)
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    try:
        walk.run(jaxpr.replace(constvars=[], invars=inputs), [fresh(v.aval) for v in inputs])
    except KeyReuseError as error:
        return Finding(str(error), walk.equation_now)
    return None
