"""The subject of an observation: a traced program with those of its lowered and compiled forms that exist.

Every maker takes a function with arguments, or any stage of `jit`, or a jaxpr; `program_stages` turns it into a `ProgramStages`, which
lowers and compiles on demand and keeps what it made.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

from xlab import events
from xlab.backend import compiling
from xlab.backend import partitioning as _partitioning
from xlab.backend import propagation as _propagation
from xlab.compile.executable import Executable
from xlab.compile.hi_boundary import CompiledHi, LoweredHi, on_arrays
from xlab.compile.lowering import MeshComputation, lower
from xlab.compile.queries import devices_needed
from xlab.compile.ref_discharge import discharge_refs
from xlab.compile.resolve import LoweringRequest
from xlab.compile.stages import AHEAD, Compiled, Lowered, ShapeDtypeStruct, Traced
from xlab.compile.tracing import own
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    number_equations,
    open_jaxpr,
    subjaxprs_of_params,
)
from xlab.core.locations import looking_at
from xlab.interpreters.lojax import lower_hi_types, uses_hi_types
from xlab.observe.beside.calls import JaxExecutable, JaxProgram, program_of, readable
from xlab.observe.beside.recognize import belongs_to_jax, held_stage, kind_of
from xlab.observe.programs import hlo, names
from xlab.observe.programs.stage_function import StageFunction
from xlab.observe.programs.view_jits import jitted
from xlab.sharding import Sharding

# Where the compiler's words are about.
_PLACE = re.compile(r'(?:error: )?"[^"]*"\("[^"]*":\d+:\d+[^)]*\): ')


_COLLECTIVE = re.compile(
    r"stablehlo\.(?:all_|reduce_scatter|collective_|send|recv|custom_call @ragged)"
)
_LOCATION = re.compile(r' loc\((?:(#\w+)|"(?:[^"\\]|\\.)*;e(\d+)[^"]*"(?:\(#\w+\))?)\)$')
_NAMED = re.compile(r'^(#\w+) = loc\("(?:[^"\\]|\\.)*;e(\d+)(?:["/.])')


class ProgramStages:
    """A program and its stages."""

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        *,
        traced: Traced | None = None,
        lowered: MeshComputation | None = None,
        executable: Executable | None = None,
        origin: Any = None,
        beside: JaxProgram | None = None,
    ):
        self.closed, self.name = closed, name
        self._compiled_by: Callable[[], Executable] | None = None
        self.beside = beside  # what JAX traced, lowers and compiles
        # The jitted function it was traced from, with the structure of its arguments, where these are known.
        self.origin = (traced._owner, traced._in_tree) if traced is not None else origin
        self._traced, self._lowered, self._executable = traced, lowered, executable
        self._stages: dict[str, str] = {}
        self.propagated_specs: dict[int, list[tuple]] | None = None
        self._propagation: _propagation.Propagation | None = None

    @property
    def given(self) -> tuple[Any, ...]:
        """The values of the arguments that it was traced for; none where it was traced for types."""
        flat = self._traced._flat if self._traced is not None else ()
        return () if any(isinstance(x, ShapeDtypeStruct) for x in flat) else tuple(flat)

    @property
    def lowered(self) -> MeshComputation:
        if self._lowered is None:
            if self.beside is not None:
                self._lowered = self.beside.lowered
            elif self._traced is not None:
                self._lowered = self._traced.lower()._lowered
            else:
                self._lowered = lower(
                    self.closed, self.name, LoweringRequest([None] * len(self.closed.in_avals))
                )
        return self._lowered

    @property
    def executable(self) -> Executable:
        if self._executable is None:
            traced = self._traced
            if self._compiled_by is not None:
                self._executable = self._compiled_by()
            elif self.beside is not None:
                self._executable = self.beside.executable
                self._lowered = self._executable.lowered
            elif traced is not None and not any(
                isinstance(x, ShapeDtypeStruct) for x in traced._flat
            ):
                # What a call with these arguments runs, compiled once for both.
                discharged = traced._program.ref_discharge
                self._executable = traced._owner.executable(
                    traced._program,
                    traced._flat if discharged is None else discharged.given(traced._flat),
                    traced._in_tree,
                )
                self._lowered = self._executable.lowered
            else:
                self._executable = Executable(self.lowered, AHEAD)
        return self._executable

    @property
    def made_by(self) -> str:
        """Who traced and compiled it, where that was not this package."""
        return self.beside.made_by if self.beside is not None else ""

    @property
    def is_lowered(self) -> bool:
        return self._lowered is not None

    @property
    def device_count(self) -> int:
        """On how many devices it runs. Before it is lowered: what its arguments lie on, and its meshes and shardings name."""
        if self._lowered is not None:
            return max(1, len(self._lowered.devices))
        flat = self._traced._flat if self._traced is not None else ()
        placed = [getattr(x, "sharding", None) for x in flat]
        return max(
            [
                devices_needed(self.closed),
                *(s.num_devices for s in placed if isinstance(s, Sharding)),
            ]
        )

    @functools.cached_property
    def lines_of_collectives(self) -> dict[int, str]:
        """The StableHLO line of each collective equation: its operation, operands and attributes."""
        out: dict[int, str] = {}
        lines = self.lowered.module.text.split("\n")
        named = {m[1]: int(m[2]) for m in map(_NAMED.match, lines) if m}
        for n, line in enumerate(lines):
            if not _COLLECTIVE.search(line):
                continue
            end = line
            if line.rstrip().endswith("({"):  # with a region, the location stands behind it
                indent = line[: len(line) - len(line.lstrip())]
                end = next((x for x in lines[n:] if x.startswith(indent + "})")), line)
            found = _LOCATION.search(end)
            number = found and (int(found[2]) if found[2] else named.get(found[1]))
            if number is not None and number not in out:
                out[number] = _LOCATION.sub("", line).strip().removesuffix("({").rstrip()
        return out

    @property
    def is_compiled(self) -> bool:
        return self._executable is not None

    @functools.cached_property
    def numbers(self) -> dict[int, int]:
        """Equation ids by `id(equation)`."""
        return number_equations(self.closed.jaxpr)

    @functools.cached_property
    def equations(self) -> dict[int, JaxprEqn]:
        """Equations by id, nested ones included."""
        found: dict[int, JaxprEqn] = {}
        numbers = self.numbers

        def visit(jaxpr: Jaxpr) -> Any:
            for eqn in jaxpr.eqns:
                number = numbers[id(eqn)]
                if number not in found:
                    found[number] = eqn
                    for _, inner in subjaxprs_of_params(eqn.params):
                        visit(open_jaxpr(inner))

        visit(self.closed.jaxpr)
        return found

    def innermost(self, ids: Iterable[int]) -> list[int]:
        """Of the equations that an instruction is named after those that it computes: not the programs around them."""
        known = [i for i in ids if i in self.equations]
        return [i for i in known if self.is_leaf(i)] or known

    def is_leaf(self, number: int) -> bool:
        """Whether there is an equation of this number, and it holds no program."""
        eqn = self.equations.get(number)
        return eqn is not None and not any(subjaxprs_of_params(eqn.params))

    def rounds(self, eqn: JaxprEqn) -> int | None:
        """How many rounds a loop makes: as it says itself, or as the compiler found out of a `while`, once it is compiled. None where neither."""
        if eqn.primitive.name == "scan":
            return int(eqn.params["length"])
        return self._trips.get(self.numbers[id(eqn)]) if self.is_compiled else None

    @functools.cached_property
    def _trips(self) -> dict[int, int]:
        """The rounds of `while` loops by id, where the compiled module knows them, and all copies of the loop in it make as many."""
        found: dict[int, set[int | None]] = {}
        for i in self.hlo.instructions():
            # The last one named is what it computes, those before are the programs around it.
            if i.opcode == "while" and i.equations:
                found.setdefault(i.equations[-1], set()).add(i.trip_count)
        known = {n: next(iter(trips)) for n, trips in found.items() if len(trips) == 1}
        return {
            n: trips
            for n, trips in known.items()
            if trips is not None
            and n in self.equations
            and self.equations[n].primitive.name == "while"
        }

    @functools.cached_property
    def times(self) -> dict[int, int | None]:
        """How often each equation runs in one run of the program, by id; None in a loop of unknown length."""
        found: dict[int, int | None] = {}

        def visit(jaxpr: Jaxpr, often: int | None) -> None:
            for eqn in jaxpr.eqns:
                number = self.numbers[id(eqn)]
                known = found.get(number, 0)
                found[number] = None if often is None or known is None else known + often
                rounds = self.rounds(eqn) if eqn.primitive.name in ("scan", "while") else 1
                inner = None if often is None or rounds is None else often * rounds
                for _, nested in subjaxprs_of_params(eqn.params):
                    visit(open_jaxpr(nested), inner)

        visit(self.closed.jaxpr, 1)
        return found

    @functools.cached_property
    def user_names(self) -> dict[Var, str]:
        """The user's names of variables of the outermost program."""
        return names.user_names(self.closed.jaxpr)

    @functools.cached_property
    def hlo(self) -> hlo.Module:
        """The optimized module, parsed."""
        text = compiling.hlo_text(self.executable.native)
        return hlo.parse(readable(text) if self.beside is not None else text)

    def stage(self, name: str) -> str | None:
        """The program at a stage of partitioning with locations; None for one device, and where `unstaged` says why there is none."""
        if self.beside is not None and not self.beside.has_module:
            return None
        if name not in self._stages and not self.unstaged and len(self.lowered.devices) > 1:
            self._stages = _partitioning.partition_stages(
                self.lowered.module.text, locations=True, last=name
            )
        return self._stages.get(name)

    @property
    def unstaged(self) -> str:
        """A sentence about a preview of partitioning that came to no end: before which stage, and why. Empty where it did."""
        stage, _, why = self._stages.get("failed", "").partition(": ")
        why = _PLACE.sub("", " ".join(why.split()))[:300]
        return (
            (
                f"the partitioner's preview of this program ended before its stage `{stage}`, where its text stops ({why}); what is "
                "compiled and runs does not depend on it"
            )
            if why
            else ""
        )

    @property
    def propagation(self) -> _propagation.Propagation:
        """How shardings traveled through the program."""
        if self._propagation is None:
            self._propagation = _propagation.propagation(self.lowered.module.text)
        return self._propagation

    @property
    def unknown(self) -> tuple[str, ...]:
        """Sentences on who made the program where that was another, and on analyses that did not finish."""
        return (*filter(None, (self.made_by,)), *self.unfinished)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Sentences on analyses that did not finish."""
        failed = self._propagation.failed if self._propagation is not None else ""
        # This stage exists although the analysis failed later.
        ended = "" if self._stages.get("failed", "").startswith("local:") else self.unstaged
        return tuple(
            filter(
                None,
                (
                    ended,
                    failed and f"how the values inside were decided to lie is not known: {failed}",
                ),
            )
        )

    @property
    def before_arguments(self) -> list[str]:
        """What the lowered program takes before its arguments: tokens of ordered effects, and large constants."""
        module = self.lowered.module
        return [
            *(f"token {i}" for i in range(len(module.ordered))),
            *(f"constant {i}" for i in range(len(module.hoisted))),
        ]

    @property
    def parameter_names(self) -> list[str]:
        """The names of the lowered program's parameters."""
        return [
            *self.before_arguments,
            *map(self.closed.jaxpr.debug_info.arg_name, self.lowered.kept),
        ]

    @property
    def mesh(self) -> Any:
        """The mesh it was lowered for, None before that."""
        return self._lowered.mesh if self._lowered is not None else None


def program_stages(
    what: Any, args: tuple = (), kwargs: dict | None = None, *, as_traced: bool = False
) -> ProgramStages:
    """The stages of `what`: a function with arguments, a `Traced`, `Lowered` or `Compiled`, an executable, or a jaxpr.

    Of a program on values of hi types they are those of the program on arrays that is compiled in its place, unless it is asked for as it was traced.

    Raises:
        TypeError: anything else, or arguments given with something that has them already.
    """
    kwargs = kwargs or {}
    if isinstance(what, ProgramStages):
        return what
    what = held_stage(what)
    if isinstance(what, StageFunction):
        what.check(args, kwargs)
        return _of_function(what, as_traced)
    if belongs_to_jax(what, args, kwargs):
        return beside_stages(what, args, kwargs)
    stage = _stage(what, as_traced)
    if stage is not None:
        if args or kwargs:
            raise TypeError(
                f"{type(what).__name__} is already specialized to its arguments; given {len(args)} more. "
                "Pass it alone, or pass the function with arguments."
            )
        return stage
    if callable(what):
        traced = traced_by(what, args, kwargs)
        traced = traced if as_traced else _compiled_form(traced)
        return ProgramStages(traced.jaxpr, traced.fun_name, traced=traced)
    raise TypeError(
        f"expected a function and its arguments, a Traced, Lowered or Compiled, or a jaxpr; "
        f"given {what!r} of type {type(what).__name__}"
    )


def _compiled_form(traced: Traced) -> Traced:
    """What is compiled in place of a traced program: one on arrays, without values of hi types and references."""
    traced = on_arrays(traced)
    program = discharge_refs(traced._program)
    if program is traced._program:
        return traced
    return Traced(traced._owner, program, traced._flat, traced.in_tree, traced._static)


def is_specialized(what: Any) -> bool:
    """Whether it is a stage of `jit`, of either package or of a library's own, which was made for its arguments.

    >>> from xlab import jit
    >>> is_specialized(jit(lambda x: x + 1).trace(1.0)), is_specialized(len)
    (True, False)
    """
    what = held_stage(what)
    return isinstance(what, Traced | Lowered | Compiled) or kind_of(what) in (
        "Traced",
        "Lowered",
        "Compiled",
    )


def traced_by(fun: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Traced:
    """A function traced with its arguments; a library's own form of `jit` traces in its way, with what it makes of the arguments.

    >>> traced_by(lambda x: x + 1, (1.0,)).jaxpr.in_avals
    [ShapedArray(float32[], weak_type=True)]
    """
    if isinstance(fun, StageFunction):
        fun.check(args, kwargs or {})
        return fun.traced
    trace = own(fun, "trace")
    with looking_at(fun):
        if trace is None and own(fun, "lower") is not None:
            return held_stage(fun.lower(*args, **(kwargs or {})))._traced
        return held_stage((trace or jitted(fun, None, args, kwargs).trace)(*args, **(kwargs or {})))


def beside_stages(what: Any, args: tuple, kwargs: dict[str, Any]) -> ProgramStages:
    """The stages of a call of JAX's, or of one of JAX's stages."""
    if is_specialized(what) and (args or kwargs):
        raise TypeError(
            f"a {type(what).__name__} of JAX's is already specialized to its arguments; given {len(args)} more. "
            "Pass it alone, or pass the function with arguments."
        )
    found = program_of(what, args, kwargs)
    return ProgramStages(found.closed, found.name, beside=found)


def _of_function(what: StageFunction, as_traced: bool) -> ProgramStages:
    """The stages of a stage that is called; it is compiled once for all who look and for the call, and a recording hears of it."""

    def compiled() -> Executable:
        known = what.is_compiled
        found = what.compiled._executable
        if known:
            events.emit("cache_hit", name=what.__name__, cache="memory", executable=found)
        return found

    if as_traced:
        return program_stages(what.traced, as_traced=True)
    made = _stage(what.stage if isinstance(what.stage, Compiled) else what.lowered, False)
    assert made is not None
    made._executable, made._compiled_by = None, compiled
    return made


def _stage(what: Any, as_traced: bool) -> ProgramStages | None:
    if isinstance(what, CompiledHi | LoweredHi):
        what = what._on_arrays
    if isinstance(what, Compiled):
        low = what._executable.lowered
        return ProgramStages(
            low.closed,
            low.name,
            lowered=low,
            executable=what._executable,
            origin=_origin(what._lowered),
        )
    if isinstance(what, Executable):
        low = what.lowered
        owner, in_tree = what.made_by
        return ProgramStages(
            low.closed,
            low.name,
            lowered=low,
            executable=what,
            origin=(made, in_tree) if (made := owner()) is not None else None,
            beside=what.program if isinstance(what, JaxExecutable) else None,
        )
    if isinstance(what, Lowered):
        return ProgramStages(
            what._lowered.closed, what.name, lowered=what._lowered, origin=_origin(what)
        )
    if isinstance(what, MeshComputation):
        return ProgramStages(what.closed, what.name, lowered=what)
    if isinstance(what, Traced):
        what = what if as_traced else _compiled_form(what)
        return ProgramStages(what.jaxpr, what.fun_name, traced=what)
    if isinstance(what, Jaxpr):
        what = ClosedJaxpr(what, ())
    if isinstance(what, ClosedJaxpr):
        if not as_traced and uses_hi_types(what):
            what = lower_hi_types(what).closed
        return ProgramStages(what, what.jaxpr.debug_info.name)
    return None


def _origin(stage: Lowered) -> Any:
    traced = getattr(stage, "_traced", None)
    return (traced._owner, traced._in_tree) if traced is not None else None
