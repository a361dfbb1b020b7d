"""A model of partitioning: where every value of a program would lie, and what would be sent, guessed in milliseconds and without a compiler.

Shardings go forward from the arguments, operation by operation, along the factors of `xlab.backend.factors`. Where operands disagree the way
that sends least is taken; sums over split dimensions are added up at once. The real partitioner also looks backwards and combines
collectives, so what is chosen by this model is compiled before it is offered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xlab.backend.factors import Factored, FactorOp, Region, Rule
from xlab.interpreters.communication_costs import sent_per_device

Spec = tuple[tuple[str, ...], ...]
"""Per dimension the mesh axes that split it."""


class PlannedCollective(NamedTuple):
    """One collective that would run: over which axes, bytes of each device before it, how often, for which equation, and after how many others.

    `level` is -1 for one that no other operation than of elements waits for: the compiler makes one of all of these.
    """

    kind: str
    axes: tuple[str, ...]
    nbytes: float
    times: float
    equation: int
    level: int = 0


class Partitioned(NamedTuple):
    """What a run of the model gives.

    `specs` are by number of the value, None where nothing decides; `parts` by operation in order of `PartitionModel.ops`: the part of the
    work that one device does, and of the bytes.
    """

    specs: list[Spec | None]
    messages: list[PlannedCollective]
    parts: list[tuple[float, float]]


class _Decision(NamedTuple):
    required: tuple[Spec | None, ...]
    results: tuple[Spec, ...]
    moves: tuple[tuple[int, str, tuple[str, ...], float], ...]
    sums: tuple[tuple[str, tuple[str, ...], float], ...]
    part: float
    share: float


class PartitionModel:
    """The model of one program.

    Args:
        program: its operations.
        times: how often the body of the loop of an equation runs.
        manual: what an equation inside of `shard_map` sends, as `(kind, axes, bytes)`.

    Example:
        >>> from xlab.backend.factors import factored
        >>> made = factored('func.func public @main(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {'
        ...     ' %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>'
        ...     ' return %0 : tensor<8x2xf32> }')
        >>> placed = PartitionModel(made).run([((), ("i",)), (("i",), ())], {"i": 4})
        >>> placed.messages, placed.specs[2]
        ([PlannedCollective(kind='all_reduce', axes=('i',), nbytes=64.0, times=1.0, equation=-1, level=-1)], ((), ()))
    """

    def __init__(
        self,
        program: Factored,
        times: Callable[[int], float] = lambda equation: 1.0,
        manual: Callable[[int], tuple[str, tuple[str, ...], float] | None] = lambda equation: None,
    ):
        self.program, self.times, self.manual = program, times, manual
        self.ops: list[FactorOp] = []
        self._flat(program.main)
        self.index = {id(op): n for n, op in enumerate(self.ops)}
        shapes, sizes = program.shapes, program.itemsizes
        self.nbytes = [math.prod(s) * b for s, b in zip(shapes, sizes)]
        widths = {id(op): (op.rule, tuple(sizes[v] for v in op.operands)) for op in self.ops}
        self.signatures = {key: (w, hash(w)) for key, w in widths.items()}
        self.last = self._last()
        self._memo: dict = {}
        self._steps: dict = {}

    def _flat(self, region: Region) -> None:
        for op in region.ops:
            self.ops.append(op)
            for inner in op.regions:
                self._flat(inner)

    def _last(self) -> dict[int, bool]:
        """By operation of the outermost program whether only operations of elements come after it."""
        waits: set[int] = set()
        found: dict[int, bool] = {}
        for op in reversed(self.program.main.ops):
            found[id(op)] = not waits & set(op.results)
            if not found[id(op)] or op.name in WAITS or op.regions:
                waits |= set(op.operands)
        return {id(op): found.get(id(op), False) for op in self.ops}

    def run(
        self,
        arguments: Sequence[Spec | None],
        sizes: Mapping[str, int],
        results: Sequence[Spec | None] = (),
    ) -> Partitioned:
        """Where everything lies and what is sent, for arguments that lie so on a mesh of these sizes; results that must lie somewhere are moved there."""
        run = _Run(self, sizes)
        main = self.program.main
        for v, spec in zip(main.arguments, arguments):
            run.specs[v] = spec
        run.block(main.ops, 1.0, False)
        for v, spec in zip(main.results, results):
            if spec is not None:
                run.move(v, spec, 1.0, -1)
        return Partitioned(run.specs, run.messages, run.parts)


class _Run:
    """One run of the model."""

    def __init__(self, model: PartitionModel, sizes: Mapping[str, int]):
        self.model, self.sizes = model, dict(sizes)
        self.key = tuple(self.sizes.items())
        self.specs: list[Spec | None] = [None] * len(model.program.shapes)
        self.messages: list[PlannedCollective] = []
        self.parts: list[tuple[float, float]] = [(1.0, 1.0)] * len(model.ops)
        self.moved: set = set()
        self.levels = [0] * len(model.program.shapes)

    def block(self, ops: Sequence[FactorOp], times: float, local: bool) -> None:
        specs, model = self.specs, self.model
        memo = model._memo.setdefault(self.key, {})
        for op in ops:
            if op.regions:
                self.nested(op, times, local)
                continue
            if local:
                sent = model.manual(op.equation) if op.equation >= 0 else None
                if sent is not None and op.name in _COLLECTIVE:
                    self.messages.append(PlannedCollective(*sent, times, op.equation))
                for v in op.results:
                    specs[v] = ((),) * len(model.program.shapes[v])
                continue
            if op.name == "sharding_constraint":
                self.constraint(op, times)
                continue
            given = tuple([specs[v] for v in op.operands])
            if op.rule < 0:
                self.opaque(op, given, times)
                continue
            key = (model.signatures[id(op)], given)
            made = memo.get(key)
            if made is None:
                made = memo[key] = self.decide(op, given)
            level = max([self.levels[v] for v in op.operands])
            for k, kind, axes, nbytes in made.moves:
                wanted = (op.operands[k], made.required[k])
                if (*wanted, kind, axes) not in self.moved:
                    self.moved.add((*wanted, kind, axes))
                    after = self.levels[op.operands[k]]
                    self.messages.append(
                        PlannedCollective(kind, axes, nbytes, times, op.equation, after)
                    )
            if made.sums:
                last = model.last[id(op)]
                for kind, axes, nbytes in made.sums:
                    one = PlannedCollective(
                        kind, axes, nbytes, times, op.equation, -1 if last else level
                    )
                    self.messages.append(one)
                level += 1
            for v in op.results:
                self.levels[v] = level
            for v, required in zip(op.operands, made.required):
                if specs[v] is None:
                    specs[v] = required
            for v, spec in zip(op.results, made.results):
                specs[v] = spec
            self.parts[model.index[id(op)]] = (made.part, made.share)

    # -- single operations -------------------------------------------------------------------------------------

    def decide(self, op: FactorOp, given: tuple[Spec | None, ...]) -> _Decision:
        """How one operation is divided: each operand's own way is tried, and the one that sends least is taken."""
        rule = self.model.program.rules[op.rule]
        shapes = [self.model.program.shapes[v] for v in op.operands]
        sizes = [self.model.program.itemsizes[v] for v in op.operands]
        if all(spec is None for spec in given):
            return _Decision(given, (None,) * len(op.results), (), (), 1.0, 1.0)  # type: ignore[arg-type]
        wishes = [self.wish(rule, k, spec) for k, spec in enumerate(given)]
        order = sorted(
            (k for k, w in enumerate(wishes) if w), key=lambda k: -math.prod(shapes[k]) * sizes[k]
        )
        best, least = None, (math.inf, math.inf)
        for first in order or [-1]:
            factors: dict[int, tuple[str, ...]] = {}
            for k in (first, *(k for k in order if k != first)) if order else ():
                _join(factors, wishes[k], rule, self.sizes)
            made = self.divided(op, rule, factors, given, shapes, sizes)
            cost = (
                sum(self.sent(kind, axes, n) for _, kind, axes, n in made.moves)
                + sum(self.sent(kind, axes, n) for kind, axes, n in made.sums),
                made.part,
            )
            if best is None or cost < least:
                best, least = made, cost
        assert best is not None
        return best

    def divided(
        self,
        op: FactorOp,
        rule: Rule,
        factors: dict[int, tuple[str, ...]],
        given: tuple[Spec | None, ...],
        shapes: Sequence[Sequence[int]],
        sizes: Sequence[float],
    ) -> _Decision:
        for dims in (*rule.operands, *rule.results):
            for names in dims:
                if len(names) > 1:
                    _representable(names, factors, rule, self.sizes)
        spec = lambda dims: tuple(
            tuple(a for f in names for a in factors.get(f, ())) for names in dims
        )
        required = tuple(
            spec(dims) if k < len(given) else None for k, dims in enumerate(rule.operands)
        )
        moves = []
        for k, (was, wanted) in enumerate(zip(given, required)):
            if was is not None and wanted is not None and was != wanted:
                moves += [(k, *m) for m in self.steps(was, wanted, shapes[k], sizes[k])]
        results = tuple(map(spec, rule.results))
        summed = tuple(a for f in sorted(rule.reduction) for a in factors.get(f, ()))
        sums = []
        if summed:
            for v, at in zip(op.results, results):
                sums.append(("all_reduce", summed, self.local(v, at)))
        ways = math.prod(self.sizes[a] for axes in factors.values() for a in axes)
        whole = sum(self.model.nbytes[v] for v in (*op.operands, *op.results)) or 1.0
        here = sum(
            self.local(v, s) for v, s in zip((*op.operands, *op.results), (*required, *results))
        )
        return _Decision(required, results, tuple(moves), tuple(sums), 1 / ways, here / whole)

    def wish(self, rule: Rule, k: int, spec: Spec | None) -> dict[int, tuple[str, ...]]:
        """The factors that an operand's own sharding splits."""
        out: dict[int, tuple[str, ...]] = {}
        if not spec or k >= len(rule.operands):
            return out
        for names, axes in zip(rule.operands[k], spec):
            rest = list(axes)
            for f in names:
                taken: list[str] = []
                while rest and (
                    len(names) == 1
                    or rule.sizes[f] % math.prod(self.sizes[a] for a in (*taken, rest[0])) == 0
                ):
                    taken.append(rest.pop(0))
                if taken and f not in rule.replicated and f not in rule.permuted:
                    out[f] = tuple(taken)
                if math.prod(self.sizes[a] for a in taken) != rule.sizes[f]:
                    break
        return out

    def steps(
        self, was: Spec, wanted: Spec, shape: Sequence[int], size: float
    ) -> tuple[tuple[str, tuple[str, ...], float], ...]:
        """The collectives that lead from one sharding to another: slices are free, then what changes its dimension, then gathers."""
        key = (was, wanted, tuple(shape), size, self.key)
        found = self.model._steps.get(key)
        if found is None:
            found = self.model._steps[key] = resharding(was, wanted, shape, size, self.sizes)
        return found

    def opaque(self, op: FactorOp, given: tuple[Spec | None, ...], times: float) -> None:
        """What nobody has a rule for is done on whole values."""
        for v, spec in zip(op.operands, given):
            if spec is not None and any(spec):
                self.move(v, ((),) * len(spec), times, op.equation)
        for v in op.results:
            known = given and any(s is not None for s in given)
            self.specs[v] = ((),) * len(self.model.program.shapes[v]) if known else None

    def constraint(self, op: FactorOp, times: float) -> None:
        (v,), (r,) = op.operands, op.results
        before = self.specs[v]
        wanted = constrained(op.shardings[0], before, len(self.model.program.shapes[v]), self.sizes)
        self.move(v, wanted, times, op.equation)
        self.specs[r] = wanted

    def move(self, v: int, wanted: Spec, times: float, equation: int) -> None:
        """Moves a value to where it must lie."""
        was = self.specs[v]
        if was is None:
            self.specs[v] = wanted
        elif was != wanted and (v, wanted) not in self.moved:
            self.moved.add((v, wanted))
            shape, size = self.model.program.shapes[v], self.model.program.itemsizes[v]
            for kind, axes, nbytes in self.steps(was, wanted, shape, size):
                self.messages.append(PlannedCollective(kind, axes, nbytes, times, equation))

    def local(self, v: int, spec: Spec | None) -> float:
        nbytes = self.model.nbytes[v]
        return nbytes / self.ways(spec) if spec else nbytes

    def ways(self, spec: Spec) -> int:
        return math.prod(self.sizes[a] for axes in spec for a in axes)

    def sent(self, kind: str, axes: Sequence[str], nbytes: float) -> float:
        return sent_per_device(kind, math.prod(self.sizes[a] for a in axes), int(nbytes))

    # -- programs inside ---------------------------------------------------------------------------------------

    def nested(self, op: FactorOp, times: float, local: bool) -> None:
        if op.name == "while":
            self.loop(op, times, local)
        elif op.name == "manual_computation":
            ins, outs = (listed(text, self.sizes) for text in op.shardings)
            body = op.regions[0]
            for v, spec in zip(op.operands, ins):
                self.move(v, spec, times, op.equation)
            for v in body.arguments:
                self.specs[v] = ((),) * len(self.model.program.shapes[v])
            self.block(body.ops, times, True)
            for v, spec in zip(op.results, outs):
                self.specs[v] = spec
        else:
            for branch in op.regions:
                self.block(branch.ops, times / len(op.regions), local)
                for v, made in zip(op.results, branch.results):
                    if self.specs[v] is None:
                        self.specs[v] = self.specs[made]
                    elif not local:
                        self.move(made, self.specs[v], times / len(op.regions), op.equation)  # type: ignore[arg-type]

    def loop(self, op: FactorOp, times: float, local: bool) -> None:
        body = op.regions[-1]
        often = times * self.model.times(op.equation)
        carry = [self.specs[v] for v in op.operands]
        for _ in range(2):  # what the first turn makes of values that lie nowhere yet
            kept, moved = len(self.messages), set(self.moved)
            for v, spec in zip(body.arguments, carry):
                self.specs[v] = spec
            self.block(body.ops, often, local)
            made = [self.specs[v] for v in body.results]
            better = [
                m if c is None or (m is not None and not any(c) and any(m)) else c
                for c, m in zip(carry, made)
            ]
            if better == carry:
                break
            carry = better
            if _ == 0:
                del self.messages[kept:]
                self.moved = moved
        for v, spec in zip(body.results, carry):
            if spec is not None and not local:
                self.move(v, spec, often, op.equation)
        for v, r, spec in zip(op.operands, op.results, carry):
            if spec is not None and not local:
                self.move(v, spec, times, op.equation)
            self.specs[r] = spec


WAITS = frozenset(
    ["dot_general", "convolution", "reduce", "gather", "scatter", "sort", "fft", "custom_call"]
)
"""Operations that are no loop over elements: a collective before one of them cannot be put off."""

_COLLECTIVE = frozenset(
    [
        "all_reduce",
        "all_gather",
        "all_to_all",
        "reduce_scatter",
        "collective_permute",
        "collective_broadcast",
        "custom_call",
    ]
)


def _join(factors: dict, wish: Mapping, rule: Rule, sizes: Mapping[str, int]) -> None:
    """Adds what an operand wishes where nothing stands against it."""
    for f, axes in wish.items():
        used = {a for g, other in factors.items() if g != f for a in other}
        if used & set(axes):
            axes = axes[: next(n for n, a in enumerate(axes) if a in used)]
        before = factors.get(f, ())
        if axes and (not before or axes[: len(before)] == before):
            factors[f] = axes


def _representable(
    names: Sequence[int], factors: dict, rule: Rule, sizes: Mapping[str, int]
) -> None:
    """Of a dimension that several factors share only the first may be split in part."""
    whole = True
    for f in names:
        if not whole:
            factors.pop(f, None)
        whole = whole and math.prod(sizes[a] for a in factors.get(f, ())) == rule.sizes[f]


def resharding(
    was: Spec, wanted: Spec, shape: Sequence[int], size: float, sizes: Mapping[str, int]
) -> tuple[tuple[str, tuple[str, ...], float], ...]:
    """The collectives between two shardings of a value, with the bytes of each device before them.

    >>> resharding((("i",), ()), ((), ("i",)), (8, 4), 4, {"i": 4})
    (('all_to_all', ('i',), 32.0),)
    >>> resharding((("i",), ()), ((), ()), (8, 4), 4, {"i": 4})
    (('all_gather', ('i',), 32.0),)
    >>> resharding(((), ()), ((), ("i",)), (8, 4), 4, {"i": 4})
    ()
    """
    before = {a: d for d, axes in enumerate(was) for a in axes}
    after = {a: d for d, axes in enumerate(wanted) for a in axes}
    nbytes = math.prod(shape) * size / math.prod(sizes[a] for a in before)
    nbytes /= math.prod(sizes[a] for a in after if a not in before)
    out: list[tuple[str, tuple[str, ...], float]] = []
    turned = tuple(a for a, d in before.items() if a in after and after[a] != d)
    if turned:
        out.append(("all_to_all", turned, nbytes))
    kept = [
        ([a for a in x if after.get(a) == d], [a for a in y if before.get(a) == d])
        for d, (x, y) in enumerate(zip(was, wanted))
    ]
    gathered = tuple(a for a in before if a not in after)
    if gathered:
        out.append(("all_gather", gathered, nbytes))
    elif any(x != y for x, y in kept):
        changed = tuple(a for x, y in kept if x != y for a in x)
        out.append(("collective_permute", changed, nbytes))
    return tuple(out)


_DIM = re.compile(r'\{((?:[^"}]|"[^"]*")*)\}')
_AXIS = re.compile(r'"([^"]*)"')


def constrained(text: str, now: Spec | None, ndim: int, sizes: Mapping[str, int]) -> Spec:
    """Where a constraint puts a value; dimensions that it leaves open stay as they are.

    >>> constrained('#sdy.sharding<@mesh, [{"i"}, {?}]>', ((), ("j",)), 2, {"i": 2, "j": 2})
    (('i',), ('j',))
    """
    dims = _DIM.findall(text.partition("[")[2])
    out = []
    for d in range(ndim):
        given = dims[d] if d < len(dims) else ""
        axes = tuple(a for a in _AXIS.findall(given) if a in sizes)
        out.append(axes if axes or "?" not in given or now is None else now[d])
    used: set[str] = set()
    return tuple(tuple(a for a in axes if not (a in used or used.add(a))) for axes in out)  # type: ignore[func-returns-value]


def listed(text: str, sizes: Mapping[str, int]) -> list[Spec]:
    """The shardings of a list.

    >>> listed('#sdy.sharding_per_value<[<@mesh, [{"i"}, {}]>, <@mesh, []>]>', {"i": 2})
    [(('i',), ()), ()]
    """
    return [
        tuple(tuple(a for a in _AXIS.findall(dim) if a in sizes) for dim in _DIM.findall(one))
        for one in re.findall(r"<@\w+, \[((?:[^\]\"]|\"[^\"]*\")*)\]", text)
    ]
