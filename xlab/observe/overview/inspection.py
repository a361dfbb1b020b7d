"""`Inspection`: a program as the kinds of findings look at it, the register of these kinds, and the offer of a change once it was compiled."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, open_jaxpr
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.observe.overview.machines import current_machine
from xlab.observe.overview.measures import Measures, Proof, Prover, measured
from xlab.observe.programs import names as _names
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.modules import scope_of
from xlab.observe.programs.rewriting import shardings_of
from xlab.observe.programs.signatures import same_compiled
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Transfer
from xlab.observe.records.finding import Finding
from xlab.observe.timing.warm_runs import warm_us

LEAST = 1 << 16
"""Bytes from which a value is worth a word."""

MOST_EQUATIONS = 2000
"""A program with more is not compiled with a change."""

Kind = Callable[["Inspection"], Iterable[Finding]]

kinds: dict[str, Kind] = {}
"""What looks for findings, by the name of its kind."""

_last: set[Kind] = set()


def kind(*names: str, last: bool = False) -> Callable[[Kind], Kind]:
    """Registers what looks for findings of these kinds; `last` where others have more to win from the programs that may be compiled."""

    def register(look: Kind) -> Kind:
        kinds.update(dict.fromkeys(names, look))
        if last:
            _last.add(look)
        return look

    return register


def looks() -> list[Kind]:
    """What looks for findings, in the order in which they may compile."""
    return sorted(dict.fromkeys(kinds.values()), key=_last.__contains__)


@dataclass(frozen=True)
class EquationPlace:
    """An equation where it stands: its program, how often that runs, and what its inputs are outside."""

    eqn: JaxprEqn
    jaxpr: Jaxpr
    times: int | None
    loops: tuple[JaxprEqn, ...]


@dataclass
class Inspection:
    """A compiled program with what is known of it.

    Attributes:
        surprises: the collectives that belong to no known pattern.
        tries: how many programs may still be compiled.
        measure: whether a program whose change was compiled is run, before and after.
        only: the kind and the equation of the one finding whose change is compiled, however large the program is; None for all.
    """

    stages: ProgramStages
    transfers: Sequence[Transfer]
    surprises: Sequence[Transfer]
    program: int = 0
    tries: int = 0
    measure: bool = False
    only: tuple[str, int] | None = None
    _known: dict[Any, Measures | None] = field(default_factory=dict)
    _spent: tuple[float | None] | None = None  # what a run takes as it is, once measured
    _proves: bool = field(init=False)

    def __post_init__(self) -> None:
        self._proves = self.tries > 0

    @functools.cached_property
    def before(self) -> Measures:
        """The program as it is."""
        return measured(self.stages)

    @functools.cached_property
    def machine(self) -> Any:
        """What times are predicted for."""
        return current_machine()

    @functools.cached_property
    def places(self) -> tuple[EquationPlace, ...]:
        """Every equation with where it stands, in the order of the program."""
        return tuple(_places(self.stages, self.stages.closed.jaxpr, 1, ()))

    @functools.cached_property
    def readers(self) -> dict[Var, list[JaxprEqn]]:
        """The equations that read each value, in its own program."""
        found: dict[Var, list[JaxprEqn]] = {}
        for p in self.places:
            for v in dict.fromkeys(a for a in p.eqn.invars if type(a) is Var):
                found.setdefault(v, []).append(p.eqn)
        return found

    @functools.cached_property
    def makers(self) -> dict[Var, JaxprEqn]:
        """The equation that made each value, in its own program."""
        return {v: p.eqn for p in self.places for v in p.eqn.outvars}

    @functools.cached_property
    def outside(self) -> dict[Var, Any]:
        """Of an input of a nested program, the operand it stands for. What a loop carries or takes row by row is in it too."""
        found: dict[Var, Any] = {}
        for p in self.places:
            flow = flow_of(p.eqn)
            if type(flow) is CallFlow:
                found.update(zip(open_jaxpr(flow.jaxpr).invars, p.eqn.invars))
            elif type(flow) is BranchFlow:
                for branch in flow.branches:
                    found.update(zip(open_jaxpr(branch).invars, p.eqn.invars[1:]))
            elif type(flow) is LoopFlow:
                body = open_jaxpr(flow.body).invars
                found.update(zip(body, p.eqn.invars[flow.cond_consts :]))
            elif flow is not None:
                for _, inner in flow.jaxprs:
                    invars = open_jaxpr(inner).invars
                    if len(invars) == len(p.eqn.invars):
                        found.update(zip(invars, p.eqn.invars))
        return found

    @functools.cached_property
    def results(self) -> dict[Var, list[Var]]:
        """Of a result of a program that is called, what it is outside."""
        found: dict[Var, list[Var]] = {}
        for p in self.places:
            flow = flow_of(p.eqn)
            if type(flow) is CallFlow:
                for v, outer in zip(open_jaxpr(flow.jaxpr).outvars, p.eqn.outvars):
                    if type(v) is Var:
                        found.setdefault(v, []).append(outer)
        return found

    @functools.cached_property
    def names(self) -> dict[Var, str]:
        """What the user calls values: arguments, and what was assigned to a name."""
        from_programs = dict(_all_names(self.stages.closed.jaxpr))
        jaxpr = self.stages.closed.jaxpr
        for i, v in enumerate(jaxpr.invars):
            from_programs.setdefault(v, jaxpr.debug_info.arg_name(i))
        return from_programs

    def called(self, v: Any) -> str:
        """A value in the user's words: its name, else what made it."""
        seen = 0
        at = v
        while type(at) is Var and seen < 64:
            if at in self.names:
                return f"`{self.names[at]}`"
            if at in self.outside and at not in self.makers:
                at, seen = self.outside[at], seen + 1
                continue
            break
        made = self.makers.get(v)
        return f"the result of {made.primitive.name}" if made is not None else "a value"

    def heads(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """The arguments of the function that arrays are a part of."""
        info = self.stages.closed.jaxpr.debug_info
        return tuple(dict.fromkeys(re.split(r"[\[.]", info.arg_name(i))[0] for i in numbers))

    def argument_of(self, v: Any) -> int:
        """The argument that a value is, seen through programs, reshapes and conversions; -1 where it is none."""
        for _ in range(64):
            if type(v) is not Var:
                return -1
            made = self.makers.get(v)
            if made is not None:
                if made.primitive.name not in _VIEWS:
                    return -1
                v = made.invars[0]
            elif v in self.outside:
                v = self.outside[v]
            else:
                break
        found = [i for i, a in enumerate(self.stages.closed.jaxpr.invars) if a is v]
        return found[0] if found else -1

    def finding(self, kind: str, text: str, eqn: JaxprEqn | None = None, **more: Any) -> Finding:
        """A finding at the line of an equation."""
        source = _names.source_of(eqn) if eqn is not None else None
        number = self.stages.numbers.get(id(eqn), -1) if eqn is not None else -1
        scope = scope_of(eqn) if eqn is not None else ""
        given = {
            "source": source,
            "equation": number,
            "program": self.program,
            "call": scope or (source.function if source is not None else ""),
        }
        return Finding(kind, text, **{**given, **more})

    def tried(
        self, key: Any, make: Callable[[], ProgramStages], *, lowers: bool = False
    ) -> Measures | None:
        """The program with a change, compiled; None where it cannot be, or no more may be compiled.

        Args:
            lowers: the change is expected to leave what is compiled as it is, so that lowering tells and no more is compiled.
        """
        if key not in self._known:
            if not self._may_try(lowers):
                return None
            with (
                contextlib.suppress(ValueError, TypeError, NotImplementedError, KeyError),
                analysis_only(),
            ):
                made = make()
                if same_compiled(made, self.stages):
                    self._known[key] = replace(self.before, stages=made)
                elif self.tries > 0:
                    self.tries -= 1
                    self._known[key] = None
                    self._known[key] = measured(made)
                else:
                    return None
            if key not in self._known:  # it could not be made
                self.tries -= self.tries > 0
                self._known[key] = None
        return self._known[key]

    def _may_try(self, lowers: bool) -> bool:
        return (self._proves if lowers else self.tries > 0) and not self._too_large

    def offered(
        self,
        found: Finding,
        change: str,
        make: Callable[[], ProgramStages],
        proof: Prover,
        *,
        lowers: bool = False,
        holds: bool = False,
    ) -> Iterable[Finding]:
        """A finding with its change if that does what it says, without a change if no more may be compiled, and nothing if it does not help.

        Args:
            make: the changed program.
            proof: of the program before and after, what has become less; None where nothing has.
            lowers: as in `tried`.
            holds: it is a finding although the change makes nothing less or cannot be made; then it is told without.
        """
        key = found.kind, change, found.text
        if not self._wanted(found) or (key not in self._known and not self._may_try(lowers)):
            yield found
            return
        after = self.tried(key, make, lowers=lowers)
        if after is not None and (said := proof(self.before, after)):
            yield self.timed(proven(found, change, said), after.stages)
        elif holds:
            yield found

    def timed(self, found: Finding, after: ProgramStages | None) -> Finding:
        """A finding with what a run takes before and after its change, where that is wanted and both can be run."""
        if not self.measure or after is None or not self._wanted(found):
            return found
        given = self.stages.given
        if self._spent is None:
            self._spent = (warm_us(self.stages, given),)
        before, now = self._spent[0], warm_us(after, given)
        if before is None or now is None:
            return found
        if now > before:  # the change, or what else went on in one of the two: both once more
            again = warm_us(self.stages, given), warm_us(after, given)
            before, now = min(before, again[0] or before), min(now, again[1] or now)
            self._spent = (before,)
        return found.replace(measured_us=(before, now))

    def _wanted(self, found: Finding) -> bool:
        if self.only is None:
            return True
        kind, equation = self.only
        return equation == found.equation and kinds.get(kind) is kinds.get(found.kind)

    @property
    def _too_large(self) -> bool:
        return self.only is None and len(self.stages.equations) > MOST_EQUATIONS

    @functools.cached_property
    def shardings(self) -> list[Any]:
        """How arguments lie, one for each."""
        return shardings_of(self.stages)

    def ways(self, spec: Sequence[Sequence[str]]) -> int:
        """Over how many devices a spec splits."""
        sizes = self.sizes
        return math.prod(sizes.get(a, 1) for dim in spec for a in dim)

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """The mesh, empty on one device."""
        mesh = self.stages.mesh
        return dict(zip(mesh.axis_names, mesh.axis_sizes)) if mesh is not None else {}


def proven(found: Finding, change: str, proof: Proof) -> Finding:
    """A finding with its change and what that does."""
    return found.replace(change=change, proof=proof.text, outcome=proof.outcome)


_VIEWS = frozenset(
    ("convert_element_type", "copy", "reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "sharding_constraint", "slice",
     "dynamic_slice", "optimization_barrier", "pvary", "reshard")
)  # fmt: skip


def _places(
    stages: ProgramStages, jaxpr: Jaxpr, times: int | None, loops: tuple[JaxprEqn, ...]
) -> Iterable[EquationPlace]:
    for eqn in jaxpr.eqns:
        yield EquationPlace(eqn, jaxpr, times, loops)
        flow = flow_of(eqn)
        if flow is None:
            continue
        inner, around = times, loops
        if type(flow) is LoopFlow:
            rounds = stages.rounds(eqn)
            inner = None if times is None or rounds is None else times * rounds
            around = (*loops, eqn)
        for _, program in flow.jaxprs:
            yield from _places(stages, open_jaxpr(program), inner, around)


def _all_names(jaxpr: Jaxpr, outer: JaxprEqn | None = None) -> Iterable[tuple[Var, str]]:
    yield from _names.user_names(jaxpr, outer).items()
    for eqn in jaxpr.eqns:
        flow = flow_of(eqn)
        for _, inner in flow.jaxprs if flow is not None else ():
            yield from _all_names(open_jaxpr(inner), eqn)
