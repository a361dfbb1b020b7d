"""Runs code for a magic: records it, shows the report, and shortens errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from xlab import observe
from xlab.notebook import deferred_display, experiments, formatters
from xlab.notebook.options import PARTS
from xlab.notebook.tracebacks import failure, interrupted, present, shorten
from xlab.observe.programs.analysis_only import suppress_warnings
from xlab.observe.records import Failure, Notice, Report

_FIELDS = {
    "overview": ("costs", "findings", "patterns"),
    "jaxpr": ("programs",),
    "shardings": ("layouts",),
    "collectives": ("transfers",),
    "timings": ("phases", "timings", "ledger", "timelines"),
    "memory": ("memory",),
    "kernels": ("kernels",),
}

_MAGICS = {"collectives": "%xflow", "memory": "%xmem"}
"""What shows a part and nothing else."""

_STAGES = {"trace": "tracing", "lower": "lowering", "compile": "compiling"}
_AFTER = {"trace": "lowering", "lower": "compiling"}
_GOES_ON = ". What a device has begun goes on to its end: if the next call waits, it waits for that, and a loop without an end needs the kernel restarted"
_DONE = ("trace", "lower", "compile", "execute")

last: Report | None = None
"""The report that was shown or saved last."""


class Recording:
    """One recorded run: the session while it goes on, the report after it."""

    def __init__(self, title: str, session: Any):
        self.title, self.session = title, session
        self.doing = "running"
        self.failed: Failure | None = None
        self.prove = False
        self.machine: Any = "cpu"

    def report(self, parts: frozenset[str] = frozenset(PARTS)) -> Report:
        """Everything recorded, without the parts that are not wanted."""
        made = observe.report(self.session, prove=self.prove, machine=self.machine)
        made = made.replace(title=self.title)
        if self.failed is not None:
            made = made.replace(error=self.failed)
        return only(called(made, self.title) if self.title.startswith("In[") else made, parts)


@contextmanager
def recording(
    title: str, shell: Any, file: str | None = None, flagged: bool = True
) -> Iterator[Recording]:
    """Records what the block does. An error leaves it shortened to the user's lines, an interrupt as one sentence.

    `flagged` says that a report follows which flags what the compiler warns of; the compiler then does not write it as well.
    """
    with observe.record() as session, suppress_warnings() if flagged else nullcontext():
        run = Recording(title, session)
        try:
            yield run
        except KeyboardInterrupt:
            doing = _doing(run)
            told = interrupted(
                f"interrupted while {doing}; all names are as they were before the cell"
                + ("" if doing in _STAGES.values() else _GOES_ON)
            )
            run.failed = failure(told)
            raise told from None
        except BaseException as error:
            # At once: what leaves this block gets back the frames in between.
            run.failed = failure(
                present(error, shell, file) if shell is not None else shorten(error)
            )
            raise


def _doing(run: Recording) -> str:
    """What an interrupt ended: the unfinished stage, or the current activity; between two stages, the second."""
    stages = [e for e in run.session.events if e.kind in _STAGES]
    ended = next((e.kind for e in reversed(stages) if e.error is not None), "")
    if ended or run.doing != "compiling":
        return _STAGES.get(ended, run.doing)
    return _AFTER.get(stages[-1].kind if stages else "", "running")


def called(report: Report, name: str, was: str = "cell") -> Report:
    """A report in which the function of a cell goes by the cell's own name, as the ledger calls it."""

    def named(records: Any, field: str = "function") -> Any:
        return tuple(x.replace(**{field: name}) if getattr(x, field) == was else x for x in records)

    phases = tuple(
        p.replace(reason=p.reason.replace(f"`{was}`", f"`{name}`")) for p in named(report.phases)
    )
    return report.replace(
        programs=named(report.programs, "name"),
        phases=phases,
        timings=named(report.timings),
        memory=named(report.memory),
        targets=named(report.targets),
        costs=named(report.costs, "title"),
        timelines=named(report.timelines),
    )


def only(report: Report, parts: frozenset[str]) -> Report:
    """A report with some of its parts."""
    dropped: dict[str, Any] = {}
    for part, fields in _FIELDS.items():
        if part not in parts:
            dropped.update({field: None if field == "ledger" else () for field in fields})
            if part == "collectives":
                dropped["counted"] = False
    if "hlo" not in parts and "programs" not in dropped:
        dropped["programs"] = tuple(p.replace(levels=()) for p in report.programs)
    dropped["notices"] = tuple(_leading(n, parts) for n in report.notices)
    return report.replace(**dropped) if dropped else report


def _leading(n: Notice, parts: frozenset[str]) -> Notice:
    """A notice that leads to a tab which is there, and says where the other one is."""
    if n.tab not in _FIELDS or n.tab in parts:
        return n
    elsewhere = f": {_MAGICS.get(n.tab, '%%xjit')} has them all"
    return n.replace(tab="program", text=n.text.replace(f": see {n.tab.capitalize()}", elsewhere))


def report_of(run: Recording, parts: frozenset[str], opens: str = "") -> Report:
    """The report of a run, which is the last one from now on: what `%xreport` writes."""
    global last
    last = run.report(parts).replace(opens=opens)
    return last


def show_report(
    run: Recording, parts: frozenset[str] = frozenset(PARTS), opens: str = "", *, now: bool = False
) -> Report | None:
    """Displays the report of a run, open at one tab. A report that cannot be made says why and breaks nothing.

    In a live page the cell's result goes first and the report follows it, and None is returned, unless it is wanted `now`.
    """

    shown: list[Report] = []

    def make() -> Report:
        shown[:] = [made := report_of(run, parts, opens)]
        return made

    done = any(e.error is None and e.kind in _DONE for e in run.session.events) or any(
        s.closed.jaxpr.eqns for s in run.session.unfinished
    )
    if run.failed is not None and not done:
        return None  # nothing was recorded: there is only the error, and its traceback tells it
    shell = formatters.kernel_shell()
    handlers = (
        experiments.handlers(
            run.session.subjects, lambda: shown[0].findings if shown else (), run.title
        )
        if shell is not None
        else None
    )
    if not now and shell is not None and deferred_display.can_wait(shell):
        deferred_display.show_later(shell, run.title, make, handlers)
        return None
    try:
        formatters.show(make(), handlers=handlers)
        return last
    except Exception as error:
        print(f"xlab: no report of {run.title}: {type(error).__name__}: {error}")
        return None
