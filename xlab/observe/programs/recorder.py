"""`record`: collects the runtime's events during a block, and the programs compiled or run in it.

While a recorder is active every call of the thread comes to Python, so that warm calls are seen too. Recorders nest; each sees
everything inside it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from xlab import events
from xlab.backend import dispatch as _dispatch
from xlab.compile.runtime_checks import replay
from xlab.observe.beside.calls import JaxExecutable
from xlab.observe.programs.stages import ProgramStages, program_stages

LIMIT = 20_000
_logger = logging.getLogger("xlab")


class Session:
    """What happened in a block.

    Attributes:
        events: finished events in the order they ended; the latest `LIMIT` are kept and `dropped` counts the others.
        subjects: the programs compiled or run, in order of first use. One-operation programs of eager calls come last.
        lines: what the runtime logged: the time, the thread, the level and the text of each line.
        unfinished: the programs that an error kept from being compiled, the outermost first: as much of each as was traced.
        error: the exception that ended the block, if any.
        profile: a profile, or the measured times of a program, for the report to use.
        measured: timings that `observe.time` took during the block.
        passes: passes of the compiler for the report to show.
        targets: the programs as other machines' compilers scheduled them.
    """

    def __init__(self, title: str = ""):
        self.title = title
        self.events: deque[events.Event] = deque(maxlen=LIMIT)
        self.lines: deque[tuple[int, int, str, str]] = deque(maxlen=LIMIT)
        self.dropped = 0
        self.start_ns = self.end_ns = 0
        self.error: BaseException | None = None
        self.profile: Any = None
        self.measured: list[Any] = []
        self.passes: tuple = ()
        self.targets: tuple = ()
        self._executables: dict[int, Any] = {}
        self._begun: dict[int, Any] = {}
        self._thread = threading.get_ident()

    def _listen(self, event: events.Event) -> None:
        if len(self.events) == LIMIT:
            self.dropped += 1
        self.events.append(event)
        found = event.attrs.get("executable")
        # Programs of a function that runs again, to find where a value is not a number, are nobody's.
        if found is not None and hasattr(found, "native") and not replay.active:
            self._executables.setdefault(id(found), found)
        closed = event.attrs.get("closed")
        if event.kind == "compile" and event.error is None:
            self._begun.clear()
        elif closed is not None and (event.error is not None or event.depth == 0):
            self._begun.setdefault(id(closed), (event, closed))

    def _hear(self, line: logging.LogRecord) -> bool:
        """A filter of the logger, which lets everything pass: a handler would silence those that are set up for nobody."""
        self.lines.append((events.clock(), line.thread or 0, line.levelname, line.getMessage()))
        return True

    @property
    def executables(self) -> list[Any]:
        """Compiled programs that were made or run, functions before single eager operations."""
        found = list(self._executables.values())
        return [e for e in found if not is_eager(e)] + [e for e in found if is_eager(e)]

    @property
    def subjects(self) -> list[ProgramStages]:
        """Each function that was compiled or run, as the stages that further questions are asked of; eager operations left out."""
        return [program_stages(e) for e in self.executables if not is_eager(e)]

    @property
    def unfinished(self) -> list[ProgramStages]:
        """What was traced when an error ended the block; empty where none did."""
        if self.error is None:
            return []
        begun = sorted(self._begun.values(), key=lambda one: one[0].start_ns)
        return [ProgramStages(closed, str(event.attrs["name"])) for event, closed in begun]

    def __repr__(self):
        names = ", ".join(s.name for s in self.subjects) or "no compiled function"
        return f"Session({len(self.events)} events; {names})"


def check_recorded(what: Any, maker: str) -> None:
    """Refuses what is no recording."""
    if not hasattr(what, "events"):
        raise TypeError(
            f"{maker} takes a recording, which `with observe.record() as session:` makes; given {what!r} of type {type(what).__name__}"
        )


def is_eager(executable: Any) -> bool:
    """Whether a program is a single operation run eagerly; what JAX compiled is none, although a later stage of it is one equation here."""
    if isinstance(executable, JaxExecutable):
        return False
    eqns = executable.lowered.closed.jaxpr.eqns
    return len(eqns) == 1 and eqns[0].primitive.name == executable.name


_active = threading.local()


@contextlib.contextmanager
def record(title: str = "") -> Iterator[Session]:
    """Records a block; the session may be asked during it and afterwards.

    Example:
        >>> import numpy as np, xlab
        >>> f = xlab.jit(lambda x: xlab.lax.sin(x), name="f")
        >>> with record() as session:
        ...     y = f(np.ones(3, np.float32))
        >>> [e.kind for e in session.events]
        ['trace', 'cache_miss', 'lower', 'compile', 'execute']
    """
    session = Session(title)

    # A listener of its own per recorder: the same function added twice would be removed twice.
    def listen(event: events.Event) -> None:
        session._listen(event)

    depth = getattr(_active, "depth", 0)
    _active.depth = depth + 1
    sessions = _active.sessions = (*getattr(_active, "sessions", ()), session)
    events.add(listen)
    _logger.addFilter(session._hear)
    if depth == 0:
        _dispatch.watch(True)
    session.start_ns = events.clock()
    try:
        yield session
    except BaseException as error:
        session.error = error
        raise
    finally:
        session.end_ns = events.clock()
        events.remove(listen)
        _logger.removeFilter(session._hear)
        _active.depth = depth
        _active.sessions = sessions[:-1]
        if depth == 0:
            _dispatch.watch(False)


def active() -> tuple[Session, ...]:
    """The recordings of this thread that are going on, outermost first."""
    return getattr(_active, "sessions", ())


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Lets calls run natively in a block inside a recording, for measuring."""
    depth = getattr(_active, "depth", 0)
    if depth:
        _dispatch.watch(False)
    kept = list(events.listeners)
    for listener in kept:
        events.remove(listener)
    try:
        yield
    finally:
        for listener in kept:
            events.add(listener)
        if depth:
            _dispatch.watch(True)
