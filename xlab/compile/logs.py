"""Logs of compilations: log lines, and with `config.dump_ir_to` the programs as files."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from xlab import events
from xlab.backend.compiling import fingerprint
from xlab.config import config

if TYPE_CHECKING:
    import logging

MODES = ("stablehlo", "jaxpr")
_modules, _jaxprs = itertools.count(), itertools.count()


dumped: deque[Path] = deque(maxlen=1000)
"""The latest files that were written, oldest first."""


def enabled() -> bool:
    """Whether log lines about stages of compilation are enabled."""
    return (config.log_compiles or _debugs()) and not events.exiting


def logger() -> logging.Logger:
    """The package's logger. `logging` is imported with the first line for it: it takes as long as a room of this package."""
    import logging

    return logging.getLogger("xlab")


def _debugs() -> bool:
    """Whether lines for debugging are read: by nobody in a program that has not imported `logging`."""
    if "logging" not in sys.modules:
        return False
    import logging

    return logger().isEnabledFor(logging.DEBUG)


def log(text: str, *args) -> None:
    """A line about a stage of compilation: a warning under `config.log_compiles`, else for debugging."""
    if config.log_compiles:
        warn(text, *args)
    elif _debugs():
        logger().debug(text, *args)


def warn(text: str, *args) -> None:
    """A line that is a warning whatever `config.log_compiles` says."""
    logger().warning(text, *args)


def log_placement(executable) -> None:
    """Under `config.distributed_debug`, a warning that says where a compiled program runs and how its values lie."""
    closed, lowered = executable.lowered.closed, executable.lowered
    names = closed.jaxpr.debug_info.arg_names
    lines = [
        f"  argument {names[i] if i < len(names) else i}: {executable.in_avals[i].str_short(short_dtypes=True)}, {_place(s)}"
        for i, s in zip(lowered.kept, executable.in_shardings)
    ]
    lines += [
        f"  result {i}: {a.str_short(short_dtypes=True)}, {_place(s)}"
        for i, (a, s) in enumerate(zip(executable.out_avals, executable.out_shardings))
    ]
    warn(
        "jit(%s) was compiled for devices %s of platform %s, fingerprint %s:\n%s",
        executable.name,
        [d.id for d in executable.devices],
        executable.devices[0].platform,
        (fingerprint(executable.native) or b"none").decode("ascii", "backslashreplace"),
        "\n".join(lines) or "  no arguments, no results",
    )


def _place(sharding) -> str:
    return str(getattr(sharding, "spec", sharding))


def timed(*what) -> AbstractContextManager:
    """A line with the name and the seconds when the stage ends, `with timed("Finished tracing %s in %.9f sec", name)`."""
    return _Timed(*what) if enabled() else _SILENT


_SILENT = nullcontext()


class _Timed:
    __slots__ = ("start", "what")

    def __init__(self, *what):
        self.what = what

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *exc_info):
        log(*self.what, time.perf_counter() - self.start)


def dump(name: str, text: str, closed) -> None:
    """Writes a program on its way to the compiler into the folder that `config.dump_ir_to` names."""
    if not config.dump_ir_to:
        return
    folder = Path(config.dump_ir_to)
    folder.mkdir(parents=True, exist_ok=True)
    modes = _modes(config.dump_ir_modes)
    if "stablehlo" in modes:
        _write(folder / f"xlab_ir{next(_modules):04d}_{_safe(f'jit_{name}')}_compile.mlir", text)
    if "jaxpr" in modes:
        _write(folder / f"xlab_{next(_jaxprs):06d}_{_safe(name)}.jaxpr.txt", str(closed))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    dumped.append(path)


def _safe(name: str) -> str:
    """A name without characters that file names cannot contain."""
    return re.sub(r"[^\w.)( -]", "_", name)


def _modes(text: str) -> list[str]:
    modes = [m.strip() for m in text.split(",") if m.strip()]
    wrong = [m for m in modes if m not in MODES]
    if wrong:
        raise ValueError(
            f"config.dump_ir_modes accepts {' and '.join(map(repr, MODES))}, separated by commas; got {text!r}"
        )
    return modes


config.add_validator("dump_ir_modes", _modes)
