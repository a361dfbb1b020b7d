"""Divergence analysis: collectives that some of their devices may not reach.

A collective completes only if all of its devices reach it. Under a `cond` whose predicate differs between them, or in a `while` with
different numbers of iterations, some do not, and the others wait for ever. So `values` computes over which mesh axes each value of a
program can differ. Types are not enough: they are not always tracked, and a value that was only cast to varying does not differ.
A collective is a primitive with an entry in `arrivals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, open_jaxpr
from xlab.core.rules import RuleTable
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of

arrivals = RuleTable(
    "divergence.arrivals", "say who has to arrive for", "rule(params) -> Arrival", required=False
)
"""Who takes part in a collective. Worked example, a sum over everybody: `lambda p: Arrival(p["axes"], same=True)`."""


NOWHERE: frozenset = frozenset()


class Arrival(NamedTuple):
    """The axes a collective runs over, and whether all devices along them then hold the same.

    `everybody` is for one that keeps all devices of the mesh waiting, also those that differ along other axes.
    """

    axes: tuple
    same: bool = False
    everybody: bool = False


class Divergence(NamedTuple):
    """A collective that devices may reach differently, the equations that decide it, and the axes along which they differ."""

    collective: JaxprEqn
    deciders: tuple[JaxprEqn, ...]
    axes: tuple

    @property
    def places(self) -> tuple[str, ...]:
        return (str(self.collective.source_info), *(str(e.source_info) for e in self.deciders))

    def __str__(self):
        decider = self.deciders[-1]
        what = "number of rounds" if decider.primitive.name == "while" else "branch"
        along = " and ".join(repr(a) for a in self.axes)
        name = self.collective.primitive.name.removesuffix("_invariant")
        return (
            f"{name} at {self.collective.source_info} is inside the {decider.primitive.name} at {decider.source_info}, "
            f"whose {what} may differ between devices along {along}"
        )


class PickedResult(NamedTuple):
    """A result of an equation that its spec says is the same along `axes`, and that may differ there: that of the first device is taken."""

    equation: JaxprEqn
    result: int
    axes: tuple

    def __str__(self):
        along = " and ".join(repr(a) for a in self.axes)
        name = open_jaxpr(self.equation.params["jaxpr"]).debug_info.name
        return (
            f"result {self.result} of {name} may differ between devices along {along}, and is taken from the first of them: map it along "
            f"an axis of its own, or make it the same (lax.psum, lax.pmean)"
        )


def picked_results(jaxpr: Jaxpr | ClosedJaxpr) -> list[PickedResult]:
    """Results that are taken on trust to be the same on several devices, and that the program does not make the same."""
    analysis = _Analysis({}, False)
    analysis.run(open_jaxpr(jaxpr))
    return list(analysis.picked.values())


def divergences(jaxpr: Jaxpr | ClosedJaxpr) -> list[Divergence]:
    """The collectives of a program that its devices may reach differently."""
    return _Analysis({}, False).run(open_jaxpr(jaxpr))


def divergences_of_body(
    jaxpr: Jaxpr, mesh, in_specs: Sequence, check_vma: bool
) -> list[Divergence]:
    """The same for a function of one device, whose arguments are sharded by specs."""
    return _Analysis(dict(mesh.shape), check_vma).run(
        jaxpr, [frozenset(s.axes()) for s in in_specs]
    )


class _Analysis:
    """One walk through a program: over which axes each value differs, in a context that differs over `under`."""

    def __init__(self, sizes: dict, typed: bool):
        self.sizes, self.typed = sizes, typed
        self.stored: frozenset = NOWHERE  # over which axes anything in any reference differs
        self.found: dict[int, Divergence] = {}
        self.picked: dict[tuple[int, int], PickedResult] = {}
        self.under: frozenset = NOWHERE
        self.deciders: tuple[JaxprEqn, ...] = ()

    def run(self, jaxpr: Jaxpr, ins: Sequence[frozenset] | None = None) -> list[Divergence]:
        ins = [NOWHERE] * len(jaxpr.invars) if ins is None else [self.real(x) for x in ins]
        while True:  # what is stored later is read earlier in the next round of a loop
            before, self.found = self.stored, {}
            self.values(jaxpr, ins)
            if self.stored == before:
                return list(self.found.values())

    def real(self, axes: Iterable) -> frozenset:
        """The axes of more than one device."""
        return frozenset(a for a in axes if self.sizes.get(a, 1) > 1)

    def values(self, jaxpr: Jaxpr | ClosedJaxpr, ins: Sequence[frozenset]) -> list[frozenset]:
        """Over which axes the results of a program differ, of inputs that do over `ins`."""
        jaxpr = open_jaxpr(jaxpr)
        differs: dict[Any, frozenset] = dict(zip(jaxpr.invars, ins, strict=True))

        def read(a):
            return NOWHERE if type(a) is Literal else differs.get(a, NOWHERE)

        for eqn in jaxpr.eqns:
            for v, axes in zip(eqn.outvars, self.results(eqn, [read(a) for a in eqn.invars])):
                if axes:
                    differs[v] = self.as_typed(v.aval, axes)
        return [read(v) for v in jaxpr.outvars]

    def as_typed(self, aval, axes: frozenset) -> frozenset:
        """Removes axes over which the types, if they track this, say that a value is invarying."""
        if not self.typed or not isinstance(aval, ShapedArray):
            return axes
        return axes & (aval.mat.varying | aval.mat.unreduced)

    def results(self, eqn: JaxprEqn, ins: list[frozenset]) -> list[frozenset]:
        """Over which axes each result of an equation differs."""
        params, n, joined = eqn.params, len(eqn.outvars), NOWHERE.union(*ins)
        arrival = arrivals.get(eqn.primitive)
        if arrival is not None:
            return [self.collective(eqn, arrival(params), joined)] * n
        if eqn.primitive.name == "axis_index":
            return [self.real((params["axis_name"],))]
        if eqn.primitive.name == "shard_map":
            return self.inside_mesh(eqn, ins)
        outs = self.through(eqn, ins, joined)
        if any(isinstance(e, _effects.IO_EFFECTS) for e in eqn.effects):
            # A callback may return different values on each device.
            return [self.real(self.sizes)] * n
        if _effects.on_refs(eqn.effects):
            if _effects.written(eqn.effects):
                self.stored = self.stored.union(self.under, *ins)
            outs = [o | self.stored for o in outs]
        return outs

    def collective(self, eqn: JaxprEqn, arrival: Arrival, joined: frozenset) -> frozenset:
        over = self.real(a for a in arrival.axes if type(a) is not int)
        if over:
            apart = self.under if arrival.everybody else self.under & over
            if apart:
                self.found.setdefault(
                    id(eqn),
                    Divergence(eqn, self.deciders, tuple(a for a in self.sizes if a in apart)),
                )
        return joined - over if arrival.same else joined | over

    def inside_mesh(self, eqn: JaxprEqn, ins) -> list[frozenset]:
        params = eqn.params
        outer = self.sizes, self.typed
        names = params["newly_manual_axes"]
        self.sizes = {**self.sizes, **{a: n for a, n in params["mesh"].shape.items() if a in names}}
        self.typed = params["check_vma"]
        try:
            ins = [x | self.real(s.axes()) for x, s in zip(ins, params["in_specs"])]
            outs = self.values(params["jaxpr"], ins)
            for i, (x, spec) in enumerate(zip(outs, params["out_specs"])):
                apart = x & names - frozenset(spec.axes()) - spec.unreduced
                if apart:
                    axes = tuple(a for a in self.sizes if a in apart)
                    self.picked[id(eqn), i] = PickedResult(eqn, i, axes)
            return [x - names for x in outs]
        finally:
            self.sizes, self.typed = outer

    def through(self, eqn: JaxprEqn, ins: list[frozenset], joined: frozenset) -> list[frozenset]:
        """Over which axes the results of an equation with inner jaxprs differ."""
        flow = flow_of(eqn)
        if type(flow) is CallFlow:
            return self.values(flow.jaxpr, ins)
        if type(flow) is BranchFlow:
            index, operands = ins[0], ins[1:]
            outs = [index] * len(eqn.outvars)
            for branch in flow.branches:
                mine = self.deciding(eqn, index, lambda b=branch: self.values(b, operands))
                outs = [o | m for o, m in zip(outs, mine)]
            return outs
        if type(flow) is LoopFlow:
            return self.loop(eqn, flow, ins)
        for _, inner in flow.jaxprs if flow is not None else ():
            joined = joined.union(*self.values(inner, [joined] * len(inner.in_avals)))
        return [joined] * len(eqn.outvars)

    def loop(self, eqn: JaxprEqn, flow: LoopFlow, ins) -> list[frozenset]:
        """A loop. With a condition, devices that leave early miss the later iterations, and later tests of it."""
        cond_consts, consts, first, xs = flow.split(ins)
        again = NOWHERE

        def step(carry):
            nonlocal again
            if flow.cond is not None:
                again |= self.deciding(
                    eqn, again, lambda: self.values(flow.cond, [*cond_consts, *carry])
                )[0]
            return [
                c | again
                for c in self.deciding(
                    eqn, again, lambda: self.values(flow.body, [*consts, *carry, *xs])
                )
            ]

        carry = self.settled(first, lambda c: step(c)[: flow.num_carry])
        return [*carry, *step(carry)[flow.num_carry :]]

    def settled(self, carry: Sequence[frozenset], step: Callable) -> list[frozenset]:
        """The axes over which a loop's carry differs: the fixed point over its iterations."""
        carry = list(carry)
        while True:
            new = [a | b for a, b in zip(carry, step(carry))]
            if new == carry:
                return carry
            carry = new

    def deciding(
        self, eqn: JaxprEqn, axes: frozenset, run: Callable[[], list[frozenset]]
    ) -> list[frozenset]:
        """Calls `run()` in a context that only some devices along `axes` reach."""
        if not axes:
            return run()
        before = self.under, self.deciders
        self.under, self.deciders = self.under | axes, (*self.deciders, eqn)
        try:
            return run()
        finally:
            self.under, self.deciders = before
