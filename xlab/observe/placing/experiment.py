"""`Experiment` as users have it: a program tried on other placements one by one, and searched for the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.overview.machines import link_of
from xlab.observe.overview.machines import machine as _machine
from xlab.observe.overview.step_cost import step_cost
from xlab.observe.placing.estimate import Estimator
from xlab.observe.placing.patterns import ArgumentGroup, groups_of, matches, put_line
from xlab.observe.placing.search import Search
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.records.machine import Machine
from xlab.observe.records.whatif import Placement, Ranking, WhatIf
from xlab.observe.sharding.experiment import BaseExperiment as _Experiment
from xlab.observe.sharding.experiment import Spec
from xlab.observe.sharding.reasons import spec_text
from xlab.observe.timing.warm_runs import warm_us

MOST_NAMED = 8
"""Arguments that an experiment names."""


class Experiment(_Experiment):
    """One program to try placements on; nothing runs, but for `prove(…, measure=True)`.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr, over a mesh.
        link: the interconnect that single collectives are predicted for.
        machine: for which steps are predicted: `cpu`, `tpu:v5e`, or a `Machine`.

    Raises:
        ValueError: the program lies on no mesh.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import AxisType, NamedSharding, PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
        >>> x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("i")))
        >>> tried = Experiment(xlab.jit(lambda x: x + 1), x).weigh({0: ((), ("i",))}, {"i": 4})
        >>> tried.after.arguments, len(tried.after.collectives)
        ((('x', 'f32[8,8@i]'),), 0)
    """

    def __init__(
        self,
        what: Any,
        *args: Any,
        link: str | Interconnect = "cpu",
        machine: str | Machine = "cpu",
        **kwargs: Any,
    ):
        super().__init__(what, *args, link=link, **kwargs)
        self.machine = _machine(machine)
        self._estimators: dict[tuple, Estimator] = {}
        self.call = ""

    def __repr__(self) -> str:
        """The program, its mesh, and where each argument lies; those of repeated layers are one.

        >>> import numpy as np, xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> from xlab.observe.sharding.experiment import mesh_of
        >>> Experiment(xlab.jit(lambda x: x + 1, name="f"), xlab.device_put(np.ones(8), NamedSharding(mesh_of({"i": 1}), P("i"))))
        Experiment(f over i=1: x P('i'))
        """
        groups = self.groups
        lies = [f"{g.pattern} {spec_text(self.present(g.members[0]))}" for g in groups[:MOST_NAMED]]
        lies += [f"{len(groups) - MOST_NAMED} more"] * (len(groups) > MOST_NAMED)
        axes = " ".join(f"{name}={size}" for name, size in self.mesh.shape.items())
        return f"Experiment({self.stages.name} over {axes}: {', '.join(lies)})"

    @property
    def groups(self) -> list[ArgumentGroup]:
        """Arguments that move together: those of repeated layers."""
        avals = self.stages.closed.in_avals
        kinds = [(s, str(avals[i].dtype)) for i, s in zip(self.arguments, self.shapes)]
        return groups_of(self.names, kinds)

    @property
    def put_line(self) -> str:
        """The line of code that puts the arguments somewhere else, under the names of `call`, where that was set."""
        return put_line(self.stages.name, self.names, self.every, self.call)

    @property
    def every(self) -> list[str]:
        """The paths of all arguments."""
        info = self.stages.closed.jaxpr.debug_info
        return [info.arg_name(i) for i in range(len(self.stages.closed.in_avals))]

    def estimator(
        self, axes: Mapping[str, int] | None = None, machine: Machine | None = None
    ) -> Estimator:
        """Estimates on meshes with axes of these names."""
        used = machine or self.machine
        key = (tuple(axes) if axes else None, used)
        if key not in self._estimators:
            stages = self.stages if axes is None else self.placed({}, axes)
            self._estimators[key] = Estimator(stages, used)
        return self._estimators[key]

    def compiled(
        self,
        specs: Mapping[int, Spec],
        axes: Mapping[str, int] | None = None,
        title: str = "",
        machine: Machine | None = None,
        free: Sequence[int] = (),
    ) -> Placement:
        """The cost of one placement, compiled: its collectives and memory, and the predicted time of a step."""
        used = machine or self.machine
        with analysis_only():
            stages = self.placed(specs, axes, free) if specs or axes else self.stages
            found = self.report(stages, link_of(used))
            cost = step_cost(stages, used, memory=_memory(stages), transfers=found.transfers)
        made = self.placement_from(found, title)
        return made.replace(step_us=cost.us, compute_us=cost.compute_us)

    def search(
        self,
        arguments: Sequence[int] | None = None,
        axes: Mapping[str, int] | None = None,
        *,
        machine: str | Machine | None = None,
        shapes: bool = True,
        prove: int = 3,
        limit: int = 20_000,
        seconds: float | None = None,
        progress: Callable[[Ranking], Any] | None = None,
    ) -> Ranking:
        """Looks for a placement that is better than the present one.

        Placements are estimated without compiling them, ranked by the predicted time of a step and the memory it needs: what does not fit the
        memory of a device comes last, and half of the memory is worth seven hundredths of the time. It starts from what is there and from the
        ways that have a name, on every shape of the mesh, and moves one group of arguments after the other to its best place. At the end the
        best are compiled; one that is then no better than what is, is not offered.

        Args:
            arguments: numbers of the arguments to vary; all by default. Those of repeated layers move together.
            axes: another mesh, by axis sizes; its devices need not be there.
            machine: for which steps are predicted; a TPU slice such as `tpu:v5e:16x16` also says how many devices there are.
            shapes: whether to try other shapes of the mesh with as many devices.
            prove: how many placements to compile at most before one is offered; where compiling takes long, the first that is better is enough.
            limit, seconds: when to stop; an interrupt does the same. What was found until then is kept.
            progress: called now and then with what was found so far.

        Returns:
            A `Ranking`: `better` is the best, or None where nothing is better than what is.

        Raises:
            ValueError: no such machine, or the mesh cannot be.
        """
        search = Search(
            self, arguments, axes, machine=machine, shapes=shapes, prove=prove, limit=limit
        )
        search.run(seconds, progress)
        return search.ranking()

    def prove(
        self,
        specs: Mapping[str, Spec] | Mapping[int, Spec],
        axes: Mapping[str, int] | None = None,
        machine: str | Machine | None = None,
        measure: bool = False,
    ) -> WhatIf:
        """The program as it is beside one other placement, both compiled, with the predicted times of their steps.

        Args:
            specs: by number of the argument, or by pattern of its path: `{"params['layers'][*]['wq']": ((), ("model",))}`.
            axes, machine: as in `search`.
            measure: run both for their measured times, where the devices are here and a run has no effects; on the arguments that the program was
                traced with, else on ones.

        Raises:
            ValueError: no argument has such a path.
        """
        search = Search(self, (), machine=machine, shapes=False)
        numbers = self.numbered(specs)
        found = search.proof(numbers, tuple(axes.items()) if axes else None)
        if not measure:
            return found
        given = self.stages.given
        with analysis_only():
            before, after = warm_us(self.stages, given), None
            if before is not None:
                after = warm_us(self.placed(numbers, axes), given)
        if before is None or after is None:
            return found
        return found.replace(
            before=found.before.replace(measured_us=before),
            after=found.after.replace(measured_us=after),
        )

    def numbered(self, specs: Mapping[Any, Spec]) -> dict[int, tuple[tuple[str, ...], ...]]:
        """Specs by number of the argument, from specs by number or by pattern."""
        out: dict[int, tuple[tuple[str, ...], ...]] = {}
        for key, spec in sorted(specs.items(), key=lambda item: "*" not in str(item[0])):
            found = (
                [key]
                if isinstance(key, int)
                else [n for n, name in enumerate(self.names) if matches(key, name)]
            )
            if not found:
                raise ValueError(
                    f"no argument is {key!r}; there are {', '.join(g.pattern for g in self.groups)}"
                )
            out |= dict.fromkeys(found, tuple(map(tuple, spec)))
        return out
