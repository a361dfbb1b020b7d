"""The time of each compiler pass: joins the modules a pass wrote to its runs in the profile.

A pipeline may run several times, and a pass several times in it. Each run of a pipeline writes a module when it begins and has one span, so
the n-th belong together; inside it a pass is known by its name and by the pass that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab.observe.records.passes import Pass

_PIPELINE = re.compile(r" \([^()]*\)$")
_WRAPPER = re.compile(r"::|RunInvariantCheckers|^PjRt|\bCompile\b|^Codegen$")
_LAST = "pipeline_end"


class PassPlace(NamedTuple):
    """Where a pass ran: its pipeline, which run of it from 0, and the pass that came next."""

    pipeline: str
    run: int
    following: str


def plain(name: str) -> str:
    """A name as file names have it.

    >>> plain("simplification after layout-assignment")
    'simplification_after_layout_assignment'
    """
    return re.sub(r"\W", "_", name)


def timed(found: Sequence[Pass], places: Sequence[PassPlace], events: Sequence[Any]) -> list[Pass]:
    """Passes with their times, those that changed nothing between them in the order they ran, and last what writes code."""
    pipelines = sorted((e for e in events if _PIPELINE.search(e.name)), key=lambda e: e.start_ns)
    inside = [
        e
        for e in events
        if e not in pipelines
        and not _WRAPPER.search(e.name)
        and any(s.start_ns <= e.start_ns and e.end_ns <= s.end_ns for s in pipelines)
    ]
    took = _own_times(inside)
    runs = _runs(pipelines, inside)
    seen: dict[int, int] = {}  # event: the pass that it is
    waiting = []
    for n, (p, place) in enumerate(zip(found, places, strict=True)):
        event = _event_of(p, place, runs, seen)
        if event is not None:
            seen[id(event)] = n
            p = p.replace(name=event.name, duration_us=took[id(event)])
        waiting.append(_until(p, place, pipelines, inside))
    out: list[Pass] = []
    done = 0
    for event in sorted(inside, key=lambda e: e.end_ns):  # as modules are written: when a pass ends
        at = seen.get(id(event))
        if at is None:
            _idle(out, event.name, took[id(event)])
        else:
            out += waiting[done : at + 1]
            done = max(done, at + 1)
    out += waiting[done:]
    rest: dict[str, list[float]] = {}
    held = {id(e) for e in (*pipelines, *inside)}
    for event in events:
        if id(event) not in held and (not _WRAPPER.search(event.name) or event.name == "Codegen"):
            rest.setdefault(event.name, []).append(event.duration_ns / 1e3)
    return out + [
        Pass(name, "codegen", duration_us=sum(us), runs=len(us))
        for name, us in sorted(rest.items(), key=lambda kv: -sum(kv[1]))
    ]


def _runs(pipelines: Sequence[Any], inside: Sequence[Any]) -> dict[str, list[list[Any]]]:
    """Per pipeline and run of it the passes in it, in order, without those of pipelines inside it."""
    direct: dict[int, list[Any]] = {id(s): [] for s in pipelines}
    for event in sorted(inside, key=lambda e: e.start_ns):
        around = [s for s in pipelines if s.start_ns <= event.start_ns and event.end_ns <= s.end_ns]
        direct[id(min(around, key=lambda s: s.end_ns - s.start_ns))].append(event)
    runs: dict[str, list[list[Any]]] = {}
    for span in pipelines:
        # What a pass calls is not a pass of the pipeline.
        own = [
            e
            for e in direct[id(span)]
            if not any(
                o is not e and o.start_ns <= e.start_ns and e.end_ns <= o.end_ns
                for o in direct[id(span)]
            )
        ]
        runs.setdefault(plain(_PIPELINE.sub("", span.name)), []).append(own)
    return runs


def _event_of(
    p: Pass, place: PassPlace, runs: dict[str, list[list[Any]]], seen: dict[int, int]
) -> Any:
    """The run of a pass that made a change; None where the profiler saw none such."""
    every = runs.get(plain(place.pipeline), [])
    if not 0 <= place.run < len(every):
        return None
    own = every[place.run]
    named = [
        (event, plain(own[k + 1].name) if k + 1 < len(own) else _LAST)
        for k, event in enumerate(own)
        if plain(event.name) == plain(p.name) and id(event) not in seen
    ]
    return next(
        (e for e, following in named if following == plain(place.following)),
        named[0][0] if len(named) == 1 else None,
    )


def _own_times(events: Sequence[Any]) -> dict[int, float]:
    """Microseconds of each event without those of the events inside it."""
    took: dict[int, float] = {}
    open_now: list[Any] = []
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        while open_now and open_now[-1].end_ns < event.end_ns:
            open_now.pop()
        if open_now:
            took[id(open_now[-1])] -= event.duration_ns / 1e3
        took[id(event)] = event.duration_ns / 1e3
        open_now.append(event)
    return {key: max(0.0, us) for key, us in took.items()}


def _until(p: Pass, place: PassPlace, pipelines: Sequence[Any], inside: Sequence[Any]) -> Pass:
    """Assigns changes made before a nested pipeline to the enclosing pass, if it is in the profile."""
    if p.name == f"before {p.pipeline}":
        spans = [e for e in pipelines if plain(_PIPELINE.sub("", e.name)) == plain(place.pipeline)]
        began = spans[place.run] if 0 <= place.run < len(spans) else None
        around = [
            e
            for e in inside
            if began is not None and e.start_ns <= began.start_ns and began.end_ns <= e.end_ns
        ]
        if around:
            return p.replace(
                name=f"{min(around, key=lambda e: e.duration_ns).name} until {p.pipeline}"
            )
    return p


def _idle(out: list[Pass], name: str, us: float) -> None:
    """Adds a run that changed nothing; runs of one pass between two changes are one."""
    for n in range(len(out) - 1, -1, -1):
        if out[n].changed:
            break
        if out[n].name == name:
            out[n] = out[n].replace(
                duration_us=(out[n].duration_us or 0.0) + us, runs=out[n].runs + 1
            )
            return
    out.append(Pass(name, "xla", duration_us=us))
