"""`report`: everything a recording saw, as one record."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.backend import version
from xlab.core.source_info import is_internal, shown_name
from xlab.interpreters.communication_costs import LINKS, Interconnect
from xlab.interpreters.divergence import picked_results
from xlab.interpreters.key_reuse import first_reuse
from xlab.observe.arrays.live import bytes_on_devices
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.overview.findings import findings_of
from xlab.observe.overview.machines import current_machine, link_of, predicting_for
from xlab.observe.overview.step_cost import brief_cost
from xlab.observe.overview.timeline import timelines
from xlab.observe.programs.memoize import memoize
from xlab.observe.programs.program import mesh_info
from xlab.observe.programs.program import program as _program
from xlab.observe.programs.recorder import Session, check_recorded
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import (
    ArrayLayout,
    Failure,
    Memory,
    Notice,
    Program,
    Report,
    Source,
    StepTrace,
    Timing,
    Transfer,
)
from xlab.observe.records.cost import StepCost
from xlab.observe.records.finding import Finding, Pattern
from xlab.observe.records.kernel import PRIMITIVES, KernelRun
from xlab.observe.records.machine import Machine
from xlab.observe.records.passes import Pass
from xlab.observe.records.targets import Scheduled
from xlab.observe.records.timeline import Timeline
from xlab.observe.records.units import an
from xlab.observe.sharding.program_layouts import program_layouts, rebuilt
from xlab.observe.sharding.transfers import transfers_of
from xlab.observe.timing.ledger import ledger
from xlab.observe.timing.log import log_lines
from xlab.observe.timing.phases import phases, timings
from xlab.observe.timing.processes import own_part
from xlab.observe.timing.profile import heat

PARTS = ("programs", "layouts", "transfers", "phases", "memory", "ledger", "kernels", "costs")
MOST_BLOCKS = 3000
"""Block visits of one kernel that a report has."""


def report(
    session: Session,
    *,
    title: str = "",
    parts: Sequence[str] = PARTS,
    levels: Any = True,
    link: str | Interconnect = "cpu",
    measured: Sequence[Timing] = (),
    trace: StepTrace | None = None,
    passes: Sequence[Pass] = (),
    prove: bool = False,
    machine: str | Machine = "cpu",
) -> Report:
    """The report of a recording: programs with their levels, layouts, collectives, phases, memory, compiles and kernels.

    Args:
        session: what `record()` gave.
        title: what to call it; the session's title, or its only function's name.
        parts: which parts to make; others stay empty.
        levels: the later forms of each program to include, as for `program`.
        link: the interconnect that transfers are predicted for; that of `machine` where it is another than this CPU.
        measured: steady timings, from `observe.time`.
        trace, passes: a recorded run, and the compiler's passes, to go along.
        prove: compile the changes of findings, and run the programs with and without them, so that each says what it would bring.
        machine: what steps and findings are predicted for, as for `cost`: `cpu`, a target such as `tpu:v5e`, or a `Machine`.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.observe.programs.recorder import record
        >>> with record() as session:
        ...     y = xlab.jit(lambda x: xlab.lax.sin(x), name="wave")(np.ones(3, np.float32))
        >>> report(session).title
        'wave'
    """
    check_recorded(session, "report")
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise ValueError(f"unknown parts {sorted(unknown)}; there are {', '.join(PARTS)}")
    with predicting_for(machine) as found:
        if machine != "cpu" and link == "cpu":
            link = link_of(found)
        return _report(session, title, parts, levels, link, measured, trace, passes, prove)


def _report(
    session: Session,
    title: str,
    parts: Sequence[str],
    levels: Any,
    link: str | Interconnect,
    measured: Sequence[Timing],
    trace: StepTrace | None,
    passes: Sequence[Pass],
    prove: bool,
) -> Report:
    """What `report` returns, with steps predicted for the current machine."""
    subjects = session.subjects
    programs: list[Program] = []
    layouts: list[ArrayLayout] = []
    moved: list[Transfer] = []
    used: list[Memory] = []
    kernels: list[KernelRun] = []
    costs: list[StepCost] = []
    findings: list[Finding] = []
    patterns: list[Pattern] = []
    notices: list[Notice] = []
    unknown_collectives = False
    assumed = LINKS[link] if isinstance(link, str) and link in LINKS else link
    same_link = assumed == link_of(current_machine())
    for index, stages in enumerate(subjects):
        if "programs" in parts:
            made = _guard(
                lambda stages=stages: memoize(
                    stages,
                    ("program", levels if isinstance(levels, bool) else tuple(levels)),
                    lambda: _program(stages, levels=levels),
                ),
                notices,
                f"the program of {stages.name}",
                index,
            )
            programs.append(made or Program(stages.name))
        if "layouts" in parts:
            layouts += (
                _guard(
                    lambda stages=stages, index=index: memoize(
                        stages, ("layouts", index), lambda: program_layouts(stages, index)
                    ),
                    notices,
                    f"the shardings of {stages.name}",
                    index,
                )
                or ()
            )
        if "transfers" in parts:
            found = _guard(
                lambda stages=stages, index=index: memoize(
                    stages,
                    ("transfers", index, repr(link)),
                    lambda: transfers_of(stages, link=link, program=index),
                ),
                notices,
                f"the collectives of {stages.name}",
                index,
            )
            unknown_collectives |= found is None
            moved += found or ()
        if "memory" in parts:
            one = _guard(
                lambda stages=stages, index=index: memoize(
                    stages, ("memory", index), lambda: _memory(stages, program=index)
                ),
                notices,
                f"the memory of {stages.name}",
                index,
            )
            used += [one] if one is not None else []
        if "costs" in parts:
            known = (
                [t for t in moved if t.program == index]
                if same_link and "transfers" in parts and not unknown_collectives
                else None
            )
            kept = next((m for m in used if m.program == index), None)
            one_cost = _guard(
                lambda stages=stages, index=index, known=known, kept=kept: memoize(
                    stages,
                    ("cost", index, current_machine()),
                    lambda: brief_cost(stages, index, known, kept),
                ),
                notices,
                f"the cost of {stages.name}",
                index,
            )
            costs += [one_cost] if one_cost is not None else []
            here = tuple(t for t in moved if t.program == index)
            looked_at = _guard(
                lambda stages=stages, index=index, here=here: findings_of(
                    stages, here, index, prove
                ),
                notices,
                f"the findings of {stages.name}",
                index,
            )
            if looked_at is not None:
                findings += looked_at
                patterns += looked_at.patterns
                named = [t.replace(pattern=looked_at.known.get(n, "")) for n, t in enumerate(here)]
                moved = [*(t for t in moved if t.program != index), *named]
        if "kernels" in parts:
            kernels += (
                _guard(
                    lambda stages=stages, index=index: _kernels(stages, index),
                    notices,
                    f"the kernels of {stages.name}",
                    index,
                )
                or ()
            )
        notices += [
            Notice("info", sentence, "program", program=index) for sentence in stages.unknown
        ]
        notices += (
            _guard(
                lambda stages=stages, index=index: memoize(
                    stages, ("key reuse", index), lambda: _reused_keys(stages, index)
                ),
                notices,
                f"the keys of {stages.name}",
                index,
            )
            or ()
        )
        notices += (
            _guard(
                lambda stages=stages, index=index: memoize(
                    stages, ("picked results", index), lambda: _picked_results(stages, index)
                ),
                notices,
                f"the results of {stages.name}",
                index,
            )
            or ()
        )
    if "programs" in parts:
        begun = [
            made
            for stages in session.unfinished
            if stages.closed.jaxpr.eqns
            and (
                made := _guard(
                    lambda stages=stages: _program(stages),
                    notices,
                    f"the program of {stages.name}",
                    0,
                )
            )
        ]
        if begun:
            programs += begun
            notices.append(
                Notice(
                    "info",
                    "the program is what was traced before the error, and was not compiled",
                    "program",
                    equation=begun[-1].equations[-1].id,
                    program=len(programs) - 1,
                )
            )
    lines: tuple[Timeline, ...] | None = ()
    if session.profile is not None and programs:
        programs, moved = heat(session.profile, subjects, programs, moved)
        lines = _guard(
            lambda: timelines(session.profile, subjects), notices, "what the devices did", 0
        )
    notices += [
        Notice(
            "warning",
            f"kernel {run.name}: {lint.text}",
            "kernels",
            lint.fix,
            run.equation,
            run.program,
        )
        for run in kernels
        for lint in run.lints
    ]
    notices += _notices(layouts, moved, used)
    layouts = list(rebuilt(layouts, moved))
    if session.dropped:
        notices.append(
            Notice(
                "warning",
                f"{session.dropped:,} early events were dropped: the recording keeps the latest",
                "timings",
            )
        )
    failed = failure(session.error) if session.error is not None else None
    if failed is not None:
        notices += _failed_equation(session.error, failed, programs)
    mesh = next((p.mesh for p in programs if p.mesh), None) or next(
        (m for s in subjects if (m := mesh_info(s.mesh))), None
    )
    programs = [
        with_targets(p, [t for t in session.targets if t.program == n])
        for n, p in enumerate(programs)
    ]
    calls = {c.program: c.tree for c in costs}
    programs = [p.replace(calls=calls[n]) if calls.get(n) else p for n, p in enumerate(programs)]
    spent = phases(session) if "phases" in parts else ()
    compiled = ledger(session) if "ledger" in parts else None
    together = _guard(
        lambda: own_part(session, moved, spent, compiled, bytes_on_devices),
        notices,
        "the part of this process",
        0,
    )
    return Report(
        title or session.title or (subjects[-1].name if subjects else "recording"),
        tuple(programs),
        tuple(layouts),
        tuple(moved),
        spent,
        timings(session, (*session.measured, *measured)),
        tuple(used),
        tuple(passes) or session.passes,
        compiled,
        trace,
        mesh,
        tuple(notices),
        failed,
        versions(),
        targets=session.targets,
        counted="transfers" in parts and bool(subjects) and not unknown_collectives,
        kernels=tuple(kernels),
        log=log_lines(session, spent) if spent else (),
        costs=tuple(costs),
        findings=tuple(sorted(findings, key=lambda f: (-f.us, -f.nbytes))),
        patterns=tuple(patterns),
        timelines=lines or (),
        processes=together,
    )


def _kernels(stages: ProgramStages, index: int) -> tuple[KernelRun, ...]:
    """The kernels of a program."""
    if not any(eqn.primitive.name in PRIMITIVES for eqn in stages.equations.values()):
        return ()
    # Their room is loaded where there is one: the first report of a kernel is waited for.
    from xlab.observe.kernel_runs.static import kernels_of

    return kernels_of(stages, index, MOST_BLOCKS)


def _failed_equation(
    error: BaseException | None, failed: Failure, programs: Sequence[Program]
) -> tuple[Notice, ...]:
    """Where a program has the operation at which a check of its values stopped."""
    primitive, at = getattr(error, "primitive", None), failed.source
    if primitive is None or at is None:
        return ()
    for index, one in enumerate(programs):
        for equation, _ in one.walk():
            source = equation.source
            if (
                equation.primitive == primitive
                and source is not None
                and (source.file, source.line) == (at.file, at.line)
            ):
                words = f"equation {equation.id} made the value: `{primitive}` in {one.name}"
                return (Notice("error", words, "program", "", equation.id, index, source),)
    return ()


def _guard(make: Any, notices: list[Notice], what: str, index: int) -> Any:
    """Runs one part of the report; if it fails, a notice says what is missing and the rest is kept."""
    try:
        return make()
    except Exception as error:
        notices.append(
            Notice(
                "error",
                f"{what} could not be shown: {type(error).__name__}: {error}",
                "program",
                program=index,
            )
        )
        return None


def _reused_keys(stages: ProgramStages, index: int) -> tuple[Notice, ...]:
    """What is said of the first random key that a program uses twice."""
    found = first_reuse(stages.closed, stages.name)
    if found is None:
        return ()
    number = stages.numbers.get(id(found.equation), -1)
    return (Notice("warning", found.text, "program", equation=number, program=index),)


def _picked_results(stages: ProgramStages, index: int) -> list[Notice]:
    """What is said of results that differ between devices where the program says that they are the same."""
    if not any(eqn.primitive.name == "shard_map" for eqn in stages.equations.values()):
        return []
    numbers = stages.numbers
    return [
        Notice(
            "warning",
            str(found),
            "program",
            equation=numbers.get(id(found.equation), -1),
            program=index,
        )
        for found in picked_results(stages.closed)
    ]


def with_targets(program: Program, targets: Sequence[Scheduled]) -> Program:
    """A program with the modules that other machines' compilers scheduled, beside its own."""
    return (
        program.replace(
            levels=(*program.levels, *(t.level for t in targets if t.level is not None))
        )
        if targets
        else program
    )


def _notices(layouts: Any, moved: Any, used: Any) -> list[Notice]:
    out = [
        Notice(
            "warning",
            f"{x.name or 'an array'}: {w}",
            "shardings",
            equation=x.equation,
            program=x.program,
        )
        for x in layouts
        for w in x.warnings
    ]
    for t in moved:
        if t.reshards:
            often = " in a loop" if t.times is None else f" {t.times} times" if t.times > 1 else ""
            out.append(
                Notice(
                    "warning",
                    f"the partitioner adds {an(t.kind)}{f', run{often}' if often else ''}: {t.reason}",
                    "collectives",
                    t.fix,
                    t.equation,
                    t.program,
                    t.source,
                )
            )
    out += [
        Notice(
            "warning", f"donated argument {name} was not used: {why}", "memory", program=m.program
        )
        for m in used
        for name, why in m.refused
    ]
    return _condensed(out)


_SPOKEN = 2
_REST = {
    "shardings": "more arrays are copied like that",
    "collectives": "more collectives come from shardings that disagree",
    "memory": "more donated arguments were not used",
}


def _condensed(notices: list[Notice]) -> list[Notice]:
    """The first few of each kind, and how many more there are: all of them stand in their tab."""
    out: list[Notice] = []
    for tab, rest in _REST.items():
        of = _once([n for n in notices if n.tab == tab])
        out += of[:_SPOKEN] if len(of) > _SPOKEN + 1 else of
        if len(of) > _SPOKEN + 1:
            out.append(
                Notice(
                    "warning",
                    f"{len(of) - _SPOKEN} {rest}: see {tab.capitalize()}",
                    tab,
                    program=of[_SPOKEN].program,
                )
            )
    return out


def _once(notices: list[Notice]) -> list[Notice]:
    """The notices, those that say the same as one, with how many there are: of layers that are alike, each has its own."""
    alike: dict[tuple[str, str], list[Notice]] = {}
    for n in notices:
        alike.setdefault((n.text, n.fix), []).append(n)
    return [
        of[0] if len(of) == 1 else of[0].replace(text=f"{of[0].text} ({len(of)} times)")
        for of in alike.values()
    ]


def failure(error: BaseException) -> Failure:
    """An exception as a record: the innermost line of the user's code, and a traceback without the package's frames."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_internal(f.filename)]
    where = frames[-1] if frames else None
    source = (
        Source(
            shown_name(where.filename) or where.filename,
            where.lineno or 0,
            where.colno or 0,
            where.end_colno or 0,
            "" if where.name == "<module>" else where.name,
            where.line or "",
        )
        if where is not None
        else None
    )
    return Failure(
        type(error).__name__,
        str(error),
        source,
        "".join(traceback.format_list(frames)),
        getattr(error, "sides", ()),
    )


def versions() -> tuple[tuple[str, str], ...]:
    """Versions of what a report depends on."""
    return (
        ("python", platform.python_version()),
        ("jaxlib", version.installed()),
        ("numpy", np.__version__),
    )
