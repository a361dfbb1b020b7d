"""Sharding rules of one operation: which dimensions of its operands and results are the same factor.

A factor is an index of the loop nest that an operation stands for: in `i k, k j -> i j` the factor `k` is summed over, and a value
that is sharded along `i` asks the result to be. This is what Shardy propagates through (Shardy, "Op sharding rule":
https://openxla.org/shardy/sdy_op_interfaces). `ShardingRule` is a rule as users write it, `Factors` one for particular shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

BATCHING = "…"
"""Stands for any number of leading dimensions, all different factors. `BATCHING + "0"` and `BATCHING + "1"` are two such groups."""

_TOKEN = re.compile(r"\.\.\.(\d*)|([A-Za-z]\w*)|(\d\w*)|([(),])|(\s+)|(.)")


class CompoundFactor(tuple):
    """Factors that share one dimension, the first of them varying slowest.

    Example:
        >>> CompoundFactor("i", "j")
        ('i', 'j')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError(
                f"A compound factor should contain at least two factors, got {factors}"
            )
        for f in factors:
            _check_name(f)
            if f.startswith(BATCHING):
                raise ValueError(
                    "Ellipsis can't be used in a compound factor: it stands for whole leading dimensions"
                )
        return super().__new__(cls, factors)


class ArrayMapping(tuple):
    """The factors of each dimension of one operand or result.

    Example:
        >>> ArrayMapping(BATCHING, "i")
        ('…', 'i')
    """

    __slots__ = ()

    def __new__(cls, *dims: str | tuple) -> ArrayMapping:
        made: list[str | CompoundFactor] = []
        for k, d in enumerate(dims):
            if isinstance(d, str):
                if d.startswith(BATCHING):
                    if k:
                        raise ValueError(
                            "Ellipsis can only be used at the beginning of a dimension list: it stands for leading dimensions"
                        )
                    _check_group(d)
                else:
                    _check_name(d)
                made.append(d)
            elif isinstance(d, tuple):
                made.append(CompoundFactor(*d))
            else:
                raise TypeError(
                    f"each dimension is a factor's name, a CompoundFactor or BATCHING, got {d!r} of type {type(d).__name__}"
                )
        return super().__new__(cls, made)


class ShardingRule:
    """The factors of all operands and results of an operation, known as `SdyShardingRule`.

    Args:
        operand_mappings, result_mappings: per operand and result a tuple with an entry per dimension: a factor's name, a
            `CompoundFactor` of several names, or first of all `BATCHING` for any number of leading dimensions.
        reduction_factors: those that are reduced: where one is sharded, parts of the result have to be added up.
        need_replication_factors: those whose dimensions have to be whole on every device.
        permutation_factors: those along which neighbors exchange data where they are sharded.
        factor_sizes: the sizes of factors that stand only in compound ones.

    Raises:
        ValueError: when a factor is in two of these lists, in none of the mappings, or lacks a size that is needed.

    Example:
        >>> ShardingRule((("i", "k"), ("k", "j")), (("i", "j"),), reduction_factors=("k",))
        SdyShardingRule((('i', 'k'), ('k', 'j')), (('i', 'j'),), {} reduction_factors=('k',))
    """

    def __init__(
        self,
        operand_mappings: tuple,
        result_mappings: tuple,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ):
        self.operand_mappings = tuple(ArrayMapping(*m) for m in operand_mappings)
        self.result_mappings = tuple(ArrayMapping(*m) for m in result_mappings)
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        self.factor_sizes = factor_sizes
        self._check()

    def _check(self) -> None:
        alone: set[str] = set()
        within: set[str] = set()
        for mapping in (*self.operand_mappings, *self.result_mappings):
            for d in mapping:
                if isinstance(d, tuple):
                    within.update(d)
                elif not d.startswith(BATCHING):
                    alone.add(d)
        for f, size in self.factor_sizes.items():
            if f not in alone | within:
                raise ValueError(
                    f"Factor {f} is not used in the rule, but size is provided: {self}"
                )
            if f in alone:
                raise ValueError(
                    f"Factor {f} represents a whole dimension; do not specify its size, which the dimension says: {self}"
                )
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"The size of factor {f} has to be a positive int, got {size!r}")
        for f in sorted(within - alone - set(self.factor_sizes)):
            raise ValueError(
                f"Factor {f} is only used in compound factors; must specify its size, as in def_partition(..., {f}=4)"
            )
        taken: set[str] = set()
        for kind in ("reduction_factors", "need_replication_factors", "permutation_factors"):
            factors = getattr(self, kind)
            if not isinstance(factors, tuple):
                raise ValueError(f"{kind} must be a tuple of factors, got {factors!r}")
            for f in factors:
                if f not in alone | within:
                    raise ValueError(f"Factor {f} in {kind} is not used in the rule {self}")
                if f in taken:
                    raise ValueError(
                        f"Factor {f} can only be in one of the reduction, need replication, or permutation factor sets."
                    )
                taken.add(f)

    def _key(self) -> tuple:
        return (
            self.operand_mappings,
            self.result_mappings,
            self.reduction_factors,
            self.need_replication_factors,
            self.permutation_factors,
            tuple(sorted(self.factor_sizes.items())),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardingRule) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        kinds = "".join(
            f" {kind}={getattr(self, kind)}"
            for kind in ("reduction_factors", "need_replication_factors", "permutation_factors")
            if getattr(self, kind)
        )
        return f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, {self.factor_sizes}{kinds})"

    @property
    def text(self) -> str:
        """The rule as a string of `parse_rule`, with its lists of factors: `i k, k j -> i j, reduction k`."""
        kinds = [
            f"{label} {' '.join(factors)}"
            for label, factors in (
                ("reduction", self.reduction_factors),
                ("needs replication", self.need_replication_factors),
                ("permutation", self.permutation_factors),
            )
            if factors
        ]
        sides = (
            ", ".join(map(_mapping_text, m)) for m in (self.operand_mappings, self.result_mappings)
        )
        return "; ".join([" -> ".join(sides), *kinds])

    def factors(self, operands: Sequence[tuple], results: Sequence[tuple]) -> Factors:
        """The rule for operands and results of these shapes.

        Raises:
            ValueError: when numbers, ranks or sizes do not fit the rule.
        """
        sizes: dict[Any, int] = {}
        groups: dict[str, int] = {}
        sides = []
        for what, mappings, shapes in (
            ("operand", self.operand_mappings, operands),
            ("result", self.result_mappings, results),
        ):
            if len(mappings) != len(shapes):
                raise ValueError(
                    f"Sharding rule has {len(mappings)} {what}s, but the operation has {len(shapes)} {what}s: the rule is "
                    f"`{self.text}`"
                )
            sides.append(
                [
                    self._expand(f"{k}th {what}", m, tuple(shape), groups)
                    for k, (m, shape) in enumerate(zip(mappings, shapes))
                ]
            )
        for dims, shape in zip((*sides[0], *sides[1]), (*operands, *results)):
            for names, size in zip(dims, shape):
                for n in names:
                    if len(names) == 1:
                        sizes[n] = min(size, sizes.get(n, size))
                    else:  # in the order of first use
                        sizes.setdefault(n, self.factor_sizes.get(n, size))
        self._check_products("operand", sides[0], operands, sizes)
        self._check_products("result", sides[1], results, sizes)
        return Factors(tuple(sides[0]), tuple(sides[1]), sizes, self)

    def _expand(self, what: str, mapping: ArrayMapping, shape: tuple, groups: dict) -> tuple:
        """Per dimension the names of its factors, a batching group one by one."""
        group = mapping[0] if mapping and str(mapping[0]).startswith(BATCHING) else None
        named = mapping[1:] if group is not None else mapping
        leading = len(shape) - len(named)
        if leading < 0 or (leading and group is None):
            raise ValueError(
                f"Sharding rule {what} has rank {len(named)}, but the operation {what} has rank {len(shape)}: the rule is "
                f"`{self.text}`, its shape {shape}"
            )
        if group is not None:
            if groups.setdefault(group, leading) != leading:
                raise ValueError(
                    f"Ellipsis represents different number of leading dimensions {groups[group]} and {leading}: number them, as "
                    f"in `...0 i, ...1 i -> ...0 i`"
                )
        return (
            *(((group, d),) for d in range(leading)),
            *(tuple(d) if isinstance(d, tuple) else (d,) for d in named),
        )

    def _check_products(self, what: str, side: Sequence, shapes: Sequence, sizes: dict) -> None:
        for k, (dims, shape) in enumerate(zip(side, shapes)):
            for names, size in zip(dims, shape):
                product = math.prod(sizes[n] for n in names)
                if len(names) > 1 and product != size:
                    raise ValueError(
                        f"{k}th {what} actual size {size} doesn't match the size {product} derived from the compound factors "
                        f"{names} of sizes {tuple(sizes[n] for n in names)}"
                    )


class Factors(NamedTuple):
    """A rule for particular shapes: per value and dimension the names of its factors, and the factors' sizes in order of use."""

    operands: tuple
    results: tuple
    sizes: dict
    rule: ShardingRule

    def leading(
        self, operands: Sequence[int], results: Sequence[int], sizes: Sequence[int]
    ) -> Factors:
        """The rule of the operation on batches: `operands[k]` has bit `b` set where batch `b` is a leading dimension of operand `k`."""

        def widened(dims, bits):
            return (*((("batch", b),) for b in range(len(sizes)) if bits >> b & 1), *dims)

        return Factors(
            tuple(map(widened, self.operands, operands)),
            tuple(map(widened, self.results, results)),
            {**{("batch", b): size for b, size in enumerate(sizes)}, **self.sizes},
            self.rule,
        )

    def attribute(self) -> str:
        """The attribute `#sdy.op_sharding_rule<...>`."""
        order: list[Any] = []
        for dims in (*self.operands, *self.results):
            for names in dims:
                if len(set(names)) != len(names) or any(
                    n in other for other in dims if other is not names for n in names
                ):
                    raise ValueError(
                        f"a factor stands for two dimensions of one value in the sharding rule `{self.rule.text}`: cannot reuse "
                        f"factors for the same tensor value"
                    )
                order += [n for n in names if n not in order]
        symbol = {n: _symbol(k) for k, n in enumerate(order)}

        def side(values):
            return ", ".join(
                "[" + ", ".join("".join(symbol[n] for n in names) for names in dims) + "]"
                for dims in values
            )

        sizes = ", ".join(f"{symbol[n]}={self.sizes[n]}" for n in order)
        kinds = "".join(
            f" {label}={{{', '.join(sorted((symbol[f] for f in factors), key=_place))}}}"
            for label, factors in (
                ("reduction", self.rule.reduction_factors),
                ("need_replication", self.rule.need_replication_factors),
                ("permutation", self.rule.permutation_factors),
            )
            if factors
        )
        return f"#sdy.op_sharding_rule<({side(self.operands)})->({side(self.results)}) {{{sizes}}}{kinds}, custom>"


def parse_rule(rule: str, **kinds_and_sizes: Any) -> ShardingRule:
    """A rule from its string: names of factors by spaces, values by commas, `->` before the results.

    Args:
        rule: as `"... i k, ... k j -> ... i j"`. `...` stands for leading dimensions, `...0` and `...1` for different ones;
            `(i j)` is one dimension that two factors share.
        kinds_and_sizes: as `ShardingRule` takes them.

    Raises:
        TypeError: when it is no string.
        ValueError: when it cannot be read.

    Example:
        >>> parse_rule("... i, i j -> ... j", reduction_factors=("i",)).text
        '... i, i j -> ... j; reduction i'
    """
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    sides = rule.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: {rule!r}, or more than one")
    return ShardingRule(*(_parse_side(side, rule) for side in sides), **kinds_and_sizes)


def _parse_side(text: str, rule: str) -> tuple:
    mappings: list[tuple] = []
    dims: list[Any] = []
    compound: list[str] | None = None
    for group, name, number, mark, space, other in _TOKEN.findall(text + ","):
        if space:
            continue
        if other:
            if other == ".":
                raise ValueError(
                    f"Character '.' must be used inside ellipsis '...', in rule: {rule!r}"
                )
            raise ValueError(f"Unknown character {other!r} in rule: {rule!r}")
        if number:
            raise ValueError(
                f"Factor names have to start with a letter, but got {number!r} in rule: {rule!r}"
            )
        if mark == "(":
            if compound is not None:
                raise ValueError(
                    f"Compound factors should be one level, nested brackets are not allowed, in rule: {rule!r}"
                )
            compound = []
        elif mark == ")":
            if compound is None:
                raise ValueError(f"Brackets are not balanced in rule: {rule!r}")
            if len(compound) < 2:
                raise ValueError(f"Brackets should contain at least two factors, in rule: {rule!r}")
            dims.append(CompoundFactor(*compound))
            compound = None
        elif mark == ",":
            if compound is not None:
                raise ValueError(f"Brackets are not balanced in rule: {rule!r}")
            mappings.append(tuple(dims))
            dims = []
        elif name:
            (dims if compound is None else compound).append(name)
        else:
            (dims if compound is None else compound).append(BATCHING + group)
    return tuple(mappings)


def _mapping_text(mapping: ArrayMapping) -> str:
    return " ".join(
        f"({' '.join(d)})" if isinstance(d, tuple) else d.replace(BATCHING, "...") for d in mapping
    )


def _check_name(f: Any) -> None:
    if not isinstance(f, str):
        raise TypeError(f"a factor is a string, got {f!r} of type {type(f).__name__}")
    if not f.startswith(BATCHING) and not (f[:1].isalpha() and f.replace("_", "").isalnum()):
        raise ValueError(f"Factor names have to start with a letter, but got {f!r}")


def _check_group(d: str) -> None:
    if d != BATCHING and not d.removeprefix(BATCHING).isdigit():
        raise ValueError(
            f"a batching dimension is BATCHING, or BATCHING followed by a number, got {d!r}"
        )


def _symbol(k: int) -> str:
    """How Shardy spells its k-th factor: i to z, then z_1, z_2, ..."""
    return chr(ord("i") + k) if k < 18 else f"z_{k - 17}"


def _place(symbol: str) -> tuple[int, str]:
    return len(symbol), symbol
