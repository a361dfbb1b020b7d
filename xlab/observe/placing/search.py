"""The search for a better placement: a walk from what is there and from the ways that have a name, with estimates; then the best are compiled."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlab.core import dtypes
from xlab.observe.comparison.targets import topology
from xlab.observe.overview.machines import machine as _machine
from xlab.observe.placing.estimate import Estimate, Estimator, spec_of_sharding
from xlab.observe.placing.patterns import by_pattern
from xlab.observe.placing.proofs import Axes, Key, Proofs, Specs
from xlab.observe.placing.recipes import Roles, recipes, roles
from xlab.observe.records import MeshInfo, Type
from xlab.observe.records.machine import Machine
from xlab.observe.records.whatif import Placement, Ranking, Spec, WhatIf
from xlab.observe.sharding.experiment import LARGEST, placements_of
from xlab.observe.sharding.reasons import spec_text
from xlab.sharding import NamedSharding

if TYPE_CHECKING:
    from xlab.observe.placing.experiment import Experiment

SHOWN = 24
"""Placements of a ranking besides those that have a name."""

FEW = 300
"""Combinations on one mesh that are all tried."""

MESHES = 24
"""Shapes of the mesh that are tried at most."""

STARTS = 4
"""Placements that a walk starts from."""

MEMORY_WEIGHT = 0.1
"""The power of memory in what is ranked: half of it is worth seven hundredths of the time."""

BETTER = 0.995
"""The part of the present cost from which a placement is called better."""

APART = 0.97
"""The part of the cost that must be left for repeated arguments to lie differently."""


class _Enough(Exception):
    """As many placements were tried as may be."""


class Search:
    """One search, which can go on step by step.

    Args:
        experiment: the program.
        arguments, axes, machine, shapes, prove, limit: as `Experiment.search` takes them.
        seconds: time for estimates; None for as long as it takes.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.observe.placing.experiment import Experiment
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
        >>> x = xlab.device_put(np.ones((512, 512), np.float32), xlab.NamedSharding(mesh, xlab.P()))
        >>> search = Search(Experiment(xlab.jit(lambda x: x @ x), x), axes={"i": 4}, prove=0)
        >>> while not search.advance(0.5):
        ...     pass
        >>> search.ranking().better.title
        "x P('i', None)"
    """

    def __init__(
        self,
        experiment: Experiment,
        arguments: Sequence[int] | None = None,
        axes: Mapping[str, int] | None = None,
        *,
        machine: str | Machine | None = None,
        shapes: bool = True,
        prove: int = 3,
        limit: int = 20_000,
        seconds: float | None = None,
    ):
        self.experiment = experiment
        self.machine = experiment.machine if machine is None else _machine(machine)
        self.base: Axes = tuple((axes or self._axes_of(machine)).items())
        self.here: Axes = tuple((str(n), int(s)) for n, s in experiment.mesh.shape.items())
        self.chosen = sorted(range(len(experiment.names)) if arguments is None else set(arguments))
        chosen = set(self.chosen)
        self.groups = [
            g._replace(members=tuple(n for n in g.members if n in chosen))
            for g in experiment.groups
            if chosen & set(g.members)
        ]
        self.shapes, self.prove, self.limit, self.seconds = shapes, prove, limit, seconds
        self.tried: dict[Key, Estimate | None] = {}
        self.names: dict[Key, str] = {}
        self.phase, self.done, self.used = "", False, 0.0
        self.explicit = not experiment.mesh.are_all_axes_auto
        low = experiment.stages.lowered
        position = {i: n for n, i in enumerate(low.kept)}
        self.positions = [position[i] for i in experiment.arguments]
        self.fixed: list[Spec] = [
            spec_of_sharding(s, getattr(low.closed.in_avals[i], "ndim", 0), dict(self.here))
            for i, s in zip(low.kept, low.in_shardings)
        ]
        self.present: Specs = tuple(
            _fitting(self.fixed[p], experiment.shapes[n], dict(self.base))
            for n, p in enumerate(self.positions)
        )
        self.free = self._free()
        self.first: Key = (self.base, self.present)
        self.proofs = Proofs(experiment, self.machine, self.here, self.first, self.free)
        self._work = self._steps()

    # -- where it looks ----------------------------------------------------------------------------------------

    def _axes_of(self, machine: Any) -> dict[str, int]:
        """The mesh that is asked for: the present one, on as many devices as a named slice has."""
        axes = {str(n): int(s) for n, s in self.experiment.mesh.shape.items()}
        if not isinstance(machine, str) or machine.count(":") < 2:
            return axes
        devices = math.prod(int(n) for n in topology(machine).partition(":")[2].split("x"))
        first, *others = axes
        rest = math.prod(axes[a] for a in others)
        if devices % rest:
            rest, axes = 1, {**axes, **dict.fromkeys(others, 1)}
        return {**axes, first: devices // rest}

    def _free(self) -> tuple[int, ...]:
        """Results that lie as an argument of the same type does, and go where that goes."""
        low = self.experiment.stages.lowered
        given = [
            (low.closed.in_avals[i].str_short(short_dtypes=True), s)
            for i, s in zip(low.kept, low.in_shardings)
            if isinstance(s, NamedSharding)
        ]
        return tuple(
            n
            for n, (s, aval) in enumerate(zip(low.out_shardings, low.closed.out_avals))
            if isinstance(s, NamedSharding) and (aval.str_short(short_dtypes=True), s) in given
        )

    def meshes(self) -> list[Axes]:
        """The asked mesh, and its other shapes with as many devices."""
        names, sizes = [a for a, _ in self.base], [n for _, n in self.base]
        count = math.prod(sizes)
        if not self.shapes or len(names) < 2 or self.explicit or self._written():
            return [self.base]
        found = [tuple(zip(names, s)) for s in _factors(count, len(names))]
        found.sort(key=lambda axes: sum(abs(math.log2(n / m)) for (_, n), m in zip(axes, sizes)))
        return [self.base, *(axes for axes in found if axes != self.base)][:MESHES]

    def _written(self) -> bool:
        """Whether a part of the program is written for the shape of its mesh."""
        return any(op.name == "manual_computation" for op in self.estimator().model.ops)

    def estimator(self) -> Estimator:
        """Estimates for the asked mesh."""
        axes = None if self.base == self.here else dict(self.base)
        return self.experiment.estimator(axes, self.machine)

    # -- the cost of one placement -----------------------------------------------------------------------------

    def estimate(self, key: Key) -> Estimate | None:
        """What a placement would cost; None where it is no program."""
        if key in self.tried:
            return self.tried[key]
        if self.tried and (
            len(self.tried) >= self.limit
            or (self.seconds is not None and self._elapsed() > self.seconds)
        ):
            raise _Enough
        axes, specs = key
        found: Estimate | None = None
        try:
            made = self.estimator()
            if self.explicit and key != self.first:
                given = {n: s for n, s in enumerate(specs) if s != self.present[n]}
                made = Estimator(self.experiment.placed(given, dict(axes)), self.machine)
            found = made.estimate(
                self._all(specs, axes), dict(axes), () if key == self.first else self.free
            )
        except ValueError:  # a dimension inside does not divide
            if key == self.first:
                raise
        self.tried[key] = found
        return found

    def _all(self, specs: Specs, axes: Axes) -> list[Spec]:
        """Specs of everything the lowered program takes."""
        out = [tuple(tuple(a for a in d if a in dict(axes)) for d in s) for s in self.fixed]
        for p, spec in zip(self.positions, specs):
            out[p] = spec
        return out

    def cost(self, key: Key) -> tuple[bool, float]:
        """What placements are ranked by: whether one does not fit, then time, and memory a little."""
        placed = self.proofs.compiled.get(key)
        found = self.tried.get(key)
        if placed is None and found is None:
            return True, math.inf
        us, peak = (placed.step_us, placed.peak) if placed is not None else (found.us, found.peak)  # type: ignore[union-attr]
        return not self._fits(key, peak), us * max(1.0, peak) ** MEMORY_WEIGHT

    def _fits(self, key: Key, peak: float) -> bool:
        if not self.machine.memory:
            return True
        devices = math.prod(n for _, n in key[0]) if self.machine.shared_memory else 1
        return peak * devices <= self.machine.memory

    def is_better(self, key: Key) -> bool:
        """Whether a placement is better than what is: no slower, and less in what placements are ranked by; or it fits where that does not."""
        (late, cost), (late_now, cost_now) = self.cost(key), self.cost(self.first)
        if late != late_now:
            return late_now
        us, now = (
            (p.step_us if (p := self.proofs.compiled.get(k)) is not None else self.tried[k].us)  # type: ignore[union-attr]
            for k in (key, self.first)
        )
        return cost < BETTER * cost_now and us <= now

    # -- the walk ----------------------------------------------------------------------------------------------

    def advance(self, seconds: float | None = None) -> bool:
        """Goes on for about so long; whether the search is done. What was found is kept if it is interrupted."""
        start = self._started = time.perf_counter()
        try:
            for _ in self._work:
                if seconds is not None and time.perf_counter() - start > seconds:
                    break
            else:
                self.done = True
        finally:
            self.used += time.perf_counter() - start
            self._started = None
        return self.done

    _started: float | None = None

    def _elapsed(self) -> float:
        return self.used + (time.perf_counter() - self._started if self._started else 0.0)

    def run(
        self, seconds: float | None = None, progress: Callable[[Ranking], Any] | None = None
    ) -> None:
        """Goes on to the end; an interrupt ends it with what was found."""
        self.seconds = seconds
        try:
            while not self.advance(1.0 if progress is not None else None):
                if progress is not None:
                    progress(self.ranking())
        except KeyboardInterrupt:
            if not self.tried:
                raise
            self.phase = "interrupted"

    def _steps(self) -> Iterator[None]:
        self.phase = "compiling what is"
        self.estimate(self.first)
        self.names[self.first] = "now"
        yield
        if self.prove:
            self._compile(self.first)
        now = self.proofs.compiled.get(self.first)
        if now is not None:
            self.estimator().fit(self._all(self.present, self.base), dict(self.base), now.peak)
            del self.tried[self.first]
            self.estimate(self.first)
        yield
        try:
            for _ in self._estimates():
                yield
        except _Enough:
            pass
        yield from self._proofs()
        self.phase = ""

    def _estimates(self) -> Iterator[None]:
        meshes = self.meshes()
        self.phase = "ways that have a name"
        for axes in meshes if not self.explicit else ():
            for name, specs in self._named(axes):
                key = axes, specs
                if self.estimate(key) is not None:
                    self.names.setdefault(key, name)
                yield
        for n, axes in enumerate(meshes):
            if self._total(axes) <= FEW:
                self.phase = f"all placements, mesh {n + 1} of {len(meshes)}"
                options = [list(self._options(g.members[0], axes)) for g in self.groups]
                carried = self._carried(axes)
                for choice in itertools.product(*options):
                    self.estimate((axes, self._with(carried, zip(self.groups, choice))))
                    yield
        starts = [k for k in sorted(self.tried, key=self.cost) if self.tried[k] is not None]
        starts = [self.first, *(k for k in starts if k != self.first)][:STARTS]
        for n, start in enumerate(starts):
            if self._total(start[0]) > FEW:
                self.phase = f"one argument after the other, start {n + 1} of {len(starts)}"
                yield from self._walk(start, [g.members for g in self.groups])
        best = min(self.tried, key=self.cost)
        single = [(m,) for g in self.groups if 1 < len(g.members) <= 6 for m in g.members]
        if single:
            self.phase = "repeated arguments one by one"
            yield from self._walk(best, single, APART)

    def _walk(
        self, start: Key, moves: Sequence[Sequence[int]], gain: float = 1.0
    ) -> Iterator[None]:
        """Moves one group after the other to its best place until none moves; each must bring the cost below its `gain`."""
        best, before = start, None
        axes = start[0]
        size = lambda members: -sum(math.prod(self.experiment.shapes[m]) for m in members)
        while best != before:
            before = best
            for members in sorted(moves, key=size):
                for spec in self._options(members[0], axes):
                    key = axes, tuple(spec if n in members else s for n, s in enumerate(best[1]))
                    if self.estimate(key) is not None and self._gains(key, best, gain):
                        best = key
                    yield

    def _gains(self, key: Key, best: Key, gain: float) -> bool:
        (late, cost), (late_before, before) = self.cost(key), self.cost(best)
        return (late, cost) < (late_before, gain * before)

    def _options(self, n: int, axes: Axes) -> Iterator[Spec]:
        return placements_of(self.experiment.shapes[n], dict(axes))

    def _total(self, axes: Axes) -> float:
        return math.prod(
            float(sum(1 for _ in self._options(g.members[0], axes))) for g in self.groups
        )

    def _with(self, specs: Specs, given: Any) -> Specs:
        out = list(specs)
        for group, spec in given:
            for n in group.members:
                out[n] = spec
        return tuple(out)

    def _carried(self, axes: Axes) -> Specs:
        """The present placement on another mesh, whole where an axis is missing or does not divide."""
        return tuple(
            _fitting(spec, shape, dict(axes))
            for spec, shape in zip(self.present, self.experiment.shapes)
        )

    def _named(self, axes: Axes) -> Iterator[tuple[str, Specs]]:
        tried = self.experiment
        made = self.estimator()
        if not hasattr(self, "_roles"):
            self._roles: Roles = roles(made, tried.names, tried.shapes)
        chosen = set(self.chosen)
        others = self._carried(axes)
        for name, specs in recipes(
            made, self._roles, tried.groups, tried.names, tried.shapes, dict(axes)
        ):
            yield name, tuple(s if n in chosen else others[n] for n, s in enumerate(specs))

    # -- proof -------------------------------------------------------------------------------------------------

    def _compile(self, key: Key) -> Placement | None:
        made = self.proofs.compile(key)
        if made is None:
            self.tried[key] = None
        return made

    def _proofs(self) -> Iterator[None]:
        """Compiles the best, as many as may be needed to prove one."""
        for n in range(self.prove):
            better = [k for k, e in self.tried.items() if e is not None and self.is_better(k)]
            best = self.proofs.following(n, better, self.names, self.cost)
            if best is None:
                return
            self.phase = f"compiling the best ({n + 1} of {self.prove} at most)"
            yield
            self._compile(best)
            yield

    def proof(self, specs: Mapping[int, Spec], axes: Axes | None = None) -> WhatIf:
        """The present placement beside another, both compiled."""
        where = axes or self.base
        self.estimate(self.first)
        self.names[self.first] = "now"
        key = where, tuple(specs.get(n, s) for n, s in enumerate(self._carried(where)))
        self.tried.setdefault(key, None)
        self._compile(self.first)
        self.proofs.compiled.pop(key, None) if self.proofs.compiled.get(key) is None else None
        made = self._compile(key)
        if made is None:
            given = dict(specs.items())
            self.experiment.placed(given, None if where == self.here else dict(where))
            raise ValueError(f"{self.experiment.stages.name} could not be compiled so")
        return WhatIf(
            self.experiment.stages.name,
            self._placement(self.first).replace(title="now"),
            self._placement(key).replace(title="what if"),
        )

    # -- what was found ----------------------------------------------------------------------------------------

    def ranking(self) -> Ranking:
        """What was found so far."""
        found = {k: e for k, e in self.tried.items() if e is not None}
        order = sorted(found, key=self.cost)
        front = self._front(order)
        named: dict[str, Key] = {}
        for k in order:  # of each way that has a name its best shape
            if k in self.names:
                named.setdefault(self.names[k], k)
        kept = {*named.values(), *(k for k, p in self.proofs.compiled.items() if p is not None)}
        alike: dict[tuple, Key] = {}
        for k in order:  # of those that cost the same one
            us, peak = self._figures(k)
            alike.setdefault(
                (k[0], round(60 * math.log(us + 1)), round(60 * math.log(peak + 1))), k
            )
        shown = [*itertools.islice(alike.values(), SHOWN), *kept]
        better = [k for k in dict.fromkeys(shown) if self.is_better(k)]
        proven = [k for k in better if self.proofs.compiled.get(k) is not None]
        best = min(better, key=self.cost, default=None)
        if self.done and self.prove and best not in proven:
            best = min(proven, key=self.cost, default=None)
        total = sum(self._total(axes) for axes in {k[0] for k in found}) if found else 0.0
        place = {k: n for n, k in enumerate(order)}
        keys = sorted(set(shown), key=place.__getitem__)
        placements = tuple(self._placement(k, k in front) for k in keys)
        both = best in proven and self.proofs.compiled.get(self.first) is not None
        return Ranking(
            self.experiment.stages.name,
            placements,
            int(min(1e15, max(0.0, total - len(self.tried)))),
            len(self.tried) - len(found),
            len(self.tried),
            self.machine.name,
            self.machine.memory,
            keys.index(best) if best is not None else -1,
            WhatIf(
                self.experiment.stages.name,
                self._placement(self.first).replace(title="now"),
                self._placement(best).replace(title="what if"),
            )
            if both and best is not None
            else None,
            self.done,
            self.phase,
            tuple(g.pattern for g in self.groups),
            self.code(best) if best is not None else "",
        )

    def _front(self, order: Sequence[Key]) -> set[Key]:
        """Placements to which no other is better in both time and memory."""
        figures = sorted((*self._figures(k), n) for n, k in enumerate(order))
        out, least = set(), math.inf
        for _, peak, n in figures:
            if peak < least:
                out.add(order[n])
                least = peak
        return out

    def _figures(self, key: Key) -> tuple[float, float]:
        made = self.proofs.compiled.get(key)
        found = self.tried[key]
        assert found is not None
        return (made.step_us, made.peak) if made is not None else (found.us, found.peak)

    def _placement(self, key: Key, front: bool = False) -> Placement:
        axes, specs = key
        made = self.proofs.compiled.get(key)
        avals = self.experiment.stages.closed.in_avals
        name = self.names.get(key, "")
        common: dict[str, Any] = {
            "title": self._title(key),
            "name": name,
            "specs": by_pattern(self.experiment.names, specs, self.experiment.groups),
            "front": front,
        }
        if made is not None:
            return made.replace(**common)
        found = self.tried[key]
        assert found is not None
        arguments = tuple(
            (name, Type(dtypes.short_name(avals[i].dtype), shape, spec).text)
            for name, i, shape, spec in zip(
                self.experiment.names, self.experiment.arguments, self.experiment.shapes, specs
            )
        )
        kinds = tuple("Explicit" if self.explicit else "Auto" for _ in axes)
        mesh = MeshInfo(tuple(a for a, _ in axes), tuple(n for _, n in axes), axis_types=kinds)
        return Placement(
            mesh=mesh,
            arguments=arguments,
            sent=int(found.sent),
            predicted_us=found.communication_us,
            peak=int(found.peak),
            step_us=found.us,
            compute_us=found.compute_us,
            estimated=True,
            count=found.collectives,
            **common,
        )

    def _title(self, key: Key) -> str:
        specs = key[1]
        listed = [(p, s) for p, s in by_pattern(self.experiment.names, specs, self.groups)]
        if len(listed) > 3:
            listed = [(p, s) for p, s in listed if any(s)]
        more = len(listed) - 8
        words = [f"{p} {spec_text(s)}" for p, s in listed[: 8 if more > 0 else None]]
        text = ", ".join(words) + (f", and {more} more" if more > 0 else "")
        return "now: " * (key == self.first) + (text or "everything whole")

    def code(self, key: Key) -> str:
        """Python that puts the arguments so."""
        axes, specs = key
        names, sizes = tuple(a for a, _ in axes), tuple(n for _, n in axes)
        kind = "Explicit" if self.explicit else "Auto"
        lines = [
            f"    {pattern!r}: {spec_text(spec)},"
            for pattern, spec in by_pattern(self.experiment.names, specs, self.experiment.groups)
            if any(spec)
        ]
        return "\n".join(
            (
                "import xlab",
                "from xlab import observe",
                "from xlab.sharding import AxisType, PartitionSpec as P",
                "",
                f"mesh = xlab.make_mesh({sizes!r}, {names!r}, axis_types=(AxisType.{kind},) * {len(names)})",
                "specs = {",
                *lines,
                "}",
                f"{self.experiment.put_line}    # what is not named is whole on every device",
            )
        )


def _fitting(spec: Spec, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """A spec without axes that a mesh lacks, whole along dimensions that it does not divide.

    >>> _fitting((("a",), ("b", "c")), (4, 6), {"a": 4, "b": 3})
    (('a',), ('b',))
    """
    kept = [tuple(a for a in dim if a in sizes) for dim in spec]
    return tuple(
        dim if size % math.prod(sizes[a] for a in dim) == 0 else ()
        for dim, size in zip(kept, shape)
    )


def _factors(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a number as an ordered product.

    >>> list(_factors(4, 2))
    [(1, 4), (2, 2), (4, 1)]
    """
    if count > LARGEST:
        return
    if parts == 1:
        yield (count,)
        return
    for first in range(1, count + 1):
        if count % first == 0:
            for rest in _factors(count // first, parts - 1):
                yield (first, *rest)
