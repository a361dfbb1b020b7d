"""What a placement would cost, guessed in milliseconds: the roofline of `observe.cost` over the shardings that `partition_model` predicts.

Counts of arithmetic and of bytes are those of the cost rules; how they are divided is the model's. Memory is what is alive in program order,
scaled to the compiled program where that is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.backend.factors import FactorOp, Region, factored
from xlab.interpreters.communication import collective_rules
from xlab.interpreters.communication_costs import price, sent_per_device
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.observe.overview.flattened import flattened
from xlab.observe.overview.machines import link_of
from xlab.observe.overview.step_cost import operation_parts
from xlab.observe.placing.partition_model import (
    Partitioned,
    PartitionModel,
    PlannedCollective,
    Spec,
)
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.machine import Machine
from xlab.sharding import NamedSharding


class Estimate(NamedTuple):
    """What one placement would cost on each device: microseconds of a step, and bytes."""

    us: float
    compute_us: float
    communication_us: float
    peak: float
    sent: float
    collectives: int
    messages: tuple[PlannedCollective, ...] = ()


class Estimator:
    """Estimates for one program as it was lowered.

    Args:
        stages: a lowered program over a mesh; the meshes that are asked about have axes of the same names.
        machine: for which times are predicted.

    Raises:
        ValueError: the program cannot be read as operations with rules, or has sizes that are symbols.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.observe.overview.machines import machine
        >>> from xlab.observe.programs.stages import program_stages
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
        >>> x = xlab.device_put(np.ones((64, 64), np.float32), NamedSharding(mesh, P("i")))
        >>> made = Estimator(program_stages(xlab.jit(lambda x, y: x @ y).lower(x, x)), machine("tpu:v5e"))
        >>> whole, split = [made.estimate([s, ((), ())], {"i": 4}) for s in (((), ()), (("i",), ()))]
        >>> whole.compute_us > split.compute_us, whole.peak / split.peak
        (True, 2.0)
    """

    def __init__(self, stages: ProgramStages, machine: Machine):
        low = self.lowered = stages.lowered
        made = factored(low.module.text)
        if made is None:
            raise ValueError(f"how {stages.name} would be divided cannot be predicted")
        self.program, self.machine = made, machine
        self.link = link_of(machine)
        self.bare = ProgramStages(low.closed, low.name)
        self.leading = len(stages.before_arguments)
        self.model = PartitionModel(made, self._length, self._sent_by)
        self.operations = flattened(self.bare)
        self.temporary = 1.0
        self.live = _Liveness(self.model)
        self._shares()
        self._prices: dict[tuple, tuple[float, float]] = {}

    def _length(self, equation: int) -> float:
        eqn = self.bare.equations.get(equation)
        flow = flow_of(eqn) if eqn is not None else None
        if not isinstance(flow, LoopFlow) or flow.length is None:
            return 1.0
        unrolled = eqn.params.get("unroll", 1)  # type: ignore[union-attr]
        return flow.length / (unrolled if type(unrolled) is int and unrolled > 0 else 1)

    def _sent_by(self, equation: int) -> tuple[str, tuple[str, ...], float] | None:
        eqn = self.bare.equations.get(equation)
        if eqn is None or eqn.primitive not in collective_rules:
            return None
        avals = [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
        moved = collective_rules[eqn.primitive](*avals, **eqn.params)
        return moved.kind, tuple(map(str, moved.axes)), float(moved.bytes_in)

    def _shares(self) -> None:
        """What each equation costs on one device that does all of it, and which operations of the lowered program carry it out."""
        rows: dict[int, np.ndarray] = {}
        for op in self.operations:
            often = (1 if op.times is None else op.times) * op.probability
            us = often * np.array(operation_parts(op, self.machine))
            rows[op.number] = rows.get(op.number, 0.0) + us
        number = {e: n for n, e in enumerate(rows)}
        self.costs = np.array(list(rows.values())).reshape(-1, 4)
        ops = self.model.ops
        counted = [n for n, op in enumerate(ops) if op.equation in number and op.name not in _FREE]
        self.carried = np.array(counted, dtype=np.int64)
        self.carriers = np.array([number[ops[n].equation] for n in counted], dtype=np.int64)
        self.weights = np.maximum(
            1.0,
            np.array([sum(self.model.nbytes[v] for v in ops[n].results) for n in counted] or [0.0]),
        )[: len(counted)]

    # -- one placement ------------------------------------------------------------------------------------------

    def estimate(
        self,
        arguments: Sequence[Spec],
        sizes: Mapping[str, int],
        free: Sequence[int] = (),
        messages: bool = False,
    ) -> Estimate:
        """The cost of a placement.

        Args:
            arguments: the spec of each argument that the lowered program keeps.
            sizes: the mesh.
            free: results that lie as it comes.
            messages: whether to list what is sent.
        """
        placed = self.placed(arguments, sizes, free)
        devices = math.prod(sizes.values())
        scale = self.machine.part(1) / self.machine.part(devices)
        compute = scale * self._compute(placed)
        sent = us = count = 0.0
        for m in combined(placed.messages):
            t, n = self._price(m, sizes)
            us += m.times * t
            sent += m.times * n
            count += t > 0
        dispatch = self.machine.dispatch_us + (devices - 1) * self.machine.dispatch_device_us
        return Estimate(
            compute + us + dispatch, compute, us, self._peak(placed, sizes, devices), sent, int(count),
            tuple(placed.messages) if messages else (),
        )  # fmt: skip

    def placed(
        self, arguments: Sequence[Spec], sizes: Mapping[str, int], free: Sequence[int] = ()
    ) -> Partitioned:
        """Where all values would lie."""
        given = [*((),) * self.leading, *arguments]
        return self.model.run(given, sizes, self._results(sizes, free))

    def _results(self, sizes: Mapping[str, int], free: Sequence[int]) -> list[Spec | None]:
        """Where the results must lie; those of ordered effects stand before them."""
        asked: list[Spec | None] = []
        for n, s in enumerate(self.lowered.out_shardings):
            pinned = isinstance(s, NamedSharding) and n not in free
            ndim = getattr(self.lowered.closed.out_avals[n], "ndim", 0)
            asked.append(spec_of_sharding(s, ndim, sizes) if pinned else None)
        before = len(self.program.main.results) - len(asked)
        return [*(None,) * before, *asked] if before >= 0 else []

    def _price(self, m: PlannedCollective, sizes: Mapping[str, int]) -> tuple[float, float]:
        n = math.prod(sizes.get(a, 1) for a in m.axes)
        key = (m.kind, n, m.nbytes)
        found = self._prices.get(key)
        if found is None:
            made = price(m.kind, n, int(m.nbytes)) if n > 1 else None
            us = made.us(self.link) if made is not None else 0.0
            if m.kind == "collective_permute" and n > 1:
                us = self.link.start + self.link.alpha + m.nbytes / self.link.beta
            sent = sent_per_device(m.kind, n, int(m.nbytes))
            found = self._prices[key] = (us, sent)
        return found

    def _compute(self, placed: Partitioned) -> float:
        parts = np.array(placed.parts).reshape(-1, 2)
        count = np.bincount(self.carriers, self.weights, minlength=len(self.costs))
        known = parts[self.carried]
        default = known.mean(0) if len(known) else np.ones(2)
        means = [
            np.where(
                count > 0,
                np.bincount(self.carriers, self.weights * known[:, k], minlength=len(self.costs))
                / np.maximum(count, 1e-9),
                default[k],
            )
            for k in (0, 1)
        ]
        arithmetic, functions, memory, start = self.costs.T
        longer = np.maximum(arithmetic * means[0], memory * means[1])
        return float((longer + functions * means[0] + start).sum())

    def _peak(self, placed: Partitioned, sizes: Mapping[str, int], devices: int) -> float:
        ways: dict[Spec | None, float] = {None: float(devices)}
        part = []
        for spec in placed.specs:
            if spec not in ways:
                ways[spec] = math.prod(sizes[a] for axes in spec or () for a in axes)
            part.append(ways[spec])
        local = np.array(self.model.nbytes) / np.array(part or [1.0])[: len(self.model.nbytes)]
        main = self.program.main
        given = sum(local[v] for v in main.arguments)
        reused = sum(local[main.arguments[i + self.leading]] for i in self._donated())
        made = sum(local[v] for v in dict.fromkeys(main.results))
        return float(given + max(0.0, made - reused) + self.temporary * self.live.peak(local))

    def _donated(self) -> list[int]:
        low = self.lowered
        return [n for n, i in enumerate(low.kept) if i in low.donated]

    def fit(self, arguments: Sequence[Spec], sizes: Mapping[str, int], peak: int) -> None:
        """Scales temporaries so that the estimate of one placement is what its compiled program takes."""
        self.temporary = 0.0
        least = self.estimate(arguments, sizes).peak
        self.temporary = 1.0
        alive = self.estimate(arguments, sizes).peak - least
        if alive > 0 and peak > least:
            self.temporary = min(4.0, max(0.1, (peak - least) / alive))


def combined(messages: Sequence[PlannedCollective]) -> list[PlannedCollective]:
    """Sums that can wait for one another as one, as compilers combine them.

    >>> [m.nbytes for m in combined([PlannedCollective("all_reduce", ("i",), n, 1.0, 0, -1) for n in (4.0, 8.0)])]
    [12.0]
    """
    out: list[PlannedCollective] = []
    at: dict[tuple, int] = {}
    for m in messages:
        key = (m.kind, m.axes, m.times, m.level)
        if m.kind == "all_reduce" and key in at:
            n = at[key]
            out[n] = out[n]._replace(nbytes=out[n].nbytes + m.nbytes)
        else:
            at[key] = len(out)
            out.append(m)
    return out


def spec_of_sharding(s: Any, ndim: int, sizes: Mapping[str, int]) -> Spec:
    """The spec of a sharding, without axes that a mesh lacks.

    >>> spec_of_sharding(None, 2, {})
    ((), ())
    """
    if not isinstance(s, NamedSharding):
        return ((),) * ndim
    return tuple(
        tuple(a for a in (s.spec.axes_of(d) or ()) if a in sizes) if d < len(s.spec) else ()
        for d in range(ndim)
    )


_FREE = frozenset(
    [
        "constant",
        "iota",
        "broadcast_in_dim",
        "reshape",
        "get_tuple_element",
        "optimization_barrier",
        "sharding_constraint",
        "bitcast_convert",
    ]
)
_HEAVY = frozenset(
    [
        "dot_general",
        "convolution",
        "reduce",
        "reduce_window",
        "gather",
        "scatter",
        "sort",
        "while",
        "case",
        "if",
        "custom_call",
        "fft",
        "dynamic_update_slice",
        "concatenate",
        "select_and_scatter",
        "cholesky",
        "triangular_solve",
        "manual_computation",
        "rng_bit_generator",
        "all_reduce",
        "all_gather",
        "all_to_all",
        "reduce_scatter",
    ]
)


class _Liveness:
    """Which values are written, and from which operation to which they are alive; the same for all placements."""

    def __init__(self, model: PartitionModel):
        self.main = self._region(model.program.main)

    def _region(self, region: Region) -> tuple:
        used: dict[int, list[int]] = {}
        maker: dict[int, FactorOp] = {}
        for n, op in enumerate(region.ops):
            for v in dict.fromkeys(op.operands):
                used.setdefault(v, []).append(n)
            for v in op.results:
                maker[v] = op
        last: dict[int, int] = dict.fromkeys(region.results, len(region.ops))
        rows, inside = [], []
        written: set[int] = set()
        for n in range(len(region.ops) - 1, -1, -1):
            op = region.ops[n]
            for v in op.results:
                readers = [region.ops[k] for k in used.get(v, ())]
                free = op.name in _FREE
                if not free and (
                    op.name in _HEAVY
                    or len(readers) > 1
                    or any(r.name in _HEAVY and r.name != "reduce" for r in readers)
                ):
                    written.add(v)
                if v in written and v not in region.results:
                    rows.append((v, n, max(last.get(v, n), n)))
            # A value that is not written makes those it is made of live as long as itself.
            until = max((n if v in written else last.get(v, n) for v in op.results), default=n)
            for v in op.operands:
                last[v] = max(last.get(v, -1), until, n)
            if op.regions:
                inside.append((n, [self._region(r) for r in op.regions]))
        values, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return len(region.ops), values, starts, ends, inside

    def peak(self, local: np.ndarray, of: tuple | None = None) -> float:
        """The most bytes alive at once."""
        count, values, starts, ends, inside = of or self.main
        change = np.zeros(count + 2)
        np.add.at(change, starts, local[values])
        np.add.at(change, ends + 1, -local[values])
        alive = np.cumsum(change)
        for n, regions in inside:
            alive[n] += max(self.peak(local, r) for r in regions)
        return float(max(0.0, alive.max()))
