"""`debug.breakpoint`: a prompt in the middle of a running program, with the variables of the lines that wrote it.

While tracing, the user's frames are copied down with whatever traced values their variables hold; when the program comes by, a
debug callback has the numbers, puts them into the frames, and asks for commands with `input`.
"""

from __future__ import annotations

import bdb
import cmd
import linecache
import pprint
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from xlab import tree as _tree
from xlab.core.source_info import is_internal
from xlab.core.trace import Tracer
from xlab.lax.debugging import debug_callback

_one_at_a_time = threading.Lock()
_AROUND = 5
_FRONT_ENDS = (None, "cli")


@dataclass
class DebuggerFrame:
    """A line of the user's program and its variables."""

    filename: str
    function: str
    lineno: int
    first_line: int
    locals: dict[str, Any]
    globals: dict[str, Any]

    def listing(self, around: int | None = _AROUND) -> str:
        """The lines around this one, or with None all of the function, as far as the source can be read."""
        lines = []
        start = self.first_line if around is None else max(self.first_line, self.lineno - around)
        number, indent = start, None
        while around is None or number <= self.lineno + around:
            text = linecache.getline(self.filename, number, self.globals)
            if not text:
                break
            depth = len(text) - len(text.lstrip())
            if (
                indent is not None
                and number > self.lineno
                and text.strip()
                and depth <= indent
                and self.function != "<module>"
            ):
                break  # the next function
            if number == self.first_line:
                indent = depth
            lines.append(f"{'->' if number == self.lineno else '  '}  {text.rstrip()}")
            number += 1
        return f"> {self.filename}({self.lineno})\n" + "\n".join(lines)


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stops the program here when it runs, and asks for commands: `help` lists them, `c` goes on.

    Args:
        backend: None or 'cli', the prompt.
        filter_frames: leave out the frames of this package.
        num_frames: show at most this many frames, the innermost ones.
        ordered: breakpoints stop in program order; on one device only.

    Where nobody can be asked (no terminal, no input), the place and its variables are printed and the program goes on.
    """
    if backend not in _FRONT_ENDS:
        raise ValueError(
            f"xlab.debug.breakpoint knows the backends {', '.join(map(repr, _FRONT_ENDS))}; got {backend!r}"
        )
    frames = _frames(sys._getframe(1), filter_frames, num_frames)
    dynamic: list[Any] = []
    kept = [
        (
            frame,
            {name: _taken_apart(value, dynamic) for name, value in frame.locals.items()}
            if frame.locals is not frame.globals
            else None,
        )
        for frame in frames
    ]

    def stop(*values: Any) -> None:
        made = [
            frame
            if parts is None
            else replace(frame, locals={name: put(values) for name, put in parts.items()})
            for frame, parts in kept
        ]
        with _one_at_a_time:
            Prompt(made).run()

    stop.__name__ = "breakpoint"
    debug_callback(stop, *dynamic, ordered=ordered, **kwargs)


def _taken_apart(value: Any, dynamic: list[Any]) -> Callable[[Any], Any]:
    """Adds the traced values inside a variable to `dynamic`; a function that puts the values of `dynamic` in their places."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            leaves, tree = _tree.flatten(value)
        except Exception:  # a tree that cannot be taken apart stays as it is
            leaves = []
    slots = {}
    for i, x in enumerate(leaves):
        if isinstance(x, Tracer) and x._trace.alive:
            slots[i] = len(dynamic)
            dynamic.append(x)
    if not slots:
        return lambda _: value
    return lambda values: _tree.unflatten(
        tree, [values[slots[i]] if i in slots else x for i, x in enumerate(leaves)]
    )


def _frames(
    frame: FrameType | None, filter_frames: bool, num_frames: int | None
) -> list[DebuggerFrame]:
    """The user's frames, innermost first."""
    found: list[DebuggerFrame] = []
    while frame is not None and (num_frames is None or len(found) < num_frames):
        code = frame.f_code
        if not (filter_frames and is_internal(code.co_filename)):
            values = frame.f_globals if frame.f_locals is frame.f_globals else dict(frame.f_locals)
            found.append(
                DebuggerFrame(
                    code.co_filename,
                    code.co_name,
                    frame.f_lineno,
                    code.co_firstlineno,
                    values,
                    frame.f_globals,
                )
            )
        frame = frame.f_back
    return found


class Prompt(cmd.Cmd):
    """The commands at a breakpoint."""

    prompt = "(xdb) "
    doc_header = "Commands (type help <command>); anything else is evaluated as an expression"

    def __init__(self, frames: list[DebuggerFrame]):
        super().__init__()
        self.frames, self.at = frames, 0

    @property
    def frame(self) -> DebuggerFrame:
        return self.frames[self.at]

    def run(self) -> None:
        """Asks for commands until one goes on."""
        self._say("Entering xdb:")
        try:
            self.cmdloop()
        except (bdb.BdbQuit, KeyboardInterrupt):
            raise
        except Exception as e:  # a kernel without a front end, closed or captured input
            self._say(
                f"no input can be asked for here ({type(e).__name__}: {e}); at the breakpoint:"
            )
            self._summary()

    def _say(self, text: str) -> None:
        sys.stdout.write(text + "\n")

    def _summary(self) -> None:
        self._say(self.frame.listing())
        if self.frame.locals is not self.frame.globals:
            for name, value in self.frame.locals.items():
                self._say(f"{name} = {value!r}")

    def _value(self, expression: str) -> Any:
        return eval(expression, {**self.frame.globals, **self.frame.locals})

    def emptyline(self) -> bool:
        return False

    def default(self, line: str) -> None:
        self._show(line, repr)

    def _show(self, expression, form):
        try:
            self._say(form(self._value(expression)))
        except Exception as e:
            self._say(f"*** {type(e).__name__}: {e}")

    def do_p(self, arg):
        """p expression: its value, with the variables of the current frame."""
        self._show(arg, repr)

    def do_pp(self, arg):
        """pp expression: its value, over several lines."""
        self._show(arg, pprint.pformat)

    def do_list(self, _):
        """l(ist): the source around the current line."""
        self._say(self.frame.listing())

    def do_longlist(self, _):
        """ll, longlist: the source of the whole function."""
        self._say(self.frame.listing(None))

    def do_args(self, _):
        """a(rgs), locals: the variables of the current frame."""
        self._summary()

    def do_where(self, _):
        """w(here), bt: how the program got here, innermost line last."""
        self._say("Traceback:")
        for f in reversed(self.frames):
            text = linecache.getline(f.filename, f.lineno, f.globals).strip()
            self._say(f'  File "{f.filename}", line {f.lineno}, in {f.function}\n    {text}')

    def do_up(self, _):
        """u(p): to the frame that called this one."""
        if self.at + 1 < len(self.frames):
            self.at += 1
        self._say(self.frame.listing())

    def do_down(self, _):
        """d(own): to the frame that this one called."""
        self.at = max(self.at - 1, 0)
        self._say(self.frame.listing())

    def do_continue(self, _):
        """c(ontinue): go on with the program."""
        return True

    def do_quit(self, _):
        """q(uit), exit: end the program with an error."""
        raise bdb.BdbQuit("the program was ended at a breakpoint")

    def do_EOF(self, _):
        """End of input: go on with the program."""
        self._say("no more input: the program goes on")
        return True

    do_l, do_ll, do_a, do_locals, do_w, do_bt, do_u, do_d, do_c, do_cont, do_q, do_exit = (
        do_list,
        do_longlist,
        do_args,
        do_args,
        do_where,
        do_where,
        do_up,
        do_down,
        do_continue,
        do_continue,
        do_quit,
        do_quit,
    )
    do_h = cmd.Cmd.do_help
