"""Errors and warnings of running kernels, whoever runs them. Those of the value interpreter alone are in `machine/failures.py`."""

from __future__ import annotations

import warnings
from typing import Any

from xlab.core import source_info as _source_info
from xlab.errors import XlabError


class KernelRunError(XlabError):
    """Base of what goes wrong while a kernel is interpreted. `place` says where."""

    place: dict[str, Any] = {}


class DeadlockError(KernelRunError, RuntimeError):
    """All cores that have not ended wait for semaphores that nobody will signal. `waiting` lists them.

    Fix: signal before waiting in one of the cores, or signal as often as is waited for.
    """

    waiting: list[dict[str, Any]] = []

    @classmethod
    def of(cls, name: str, waiting: list[dict[str, Any]], t: int) -> DeadlockError:
        lines = [
            f"  core {w['core']} (pair {w['pair']}, grid point {w['grid']}) waits at equation {w['eqn']}, {w['line']}, for "
            f"{w['semaphore']}: needs {w['needed']}, has {w['present']}"
            for w in waiting
        ]
        made = cls(
            f"deadlock in {name} after {t} turns: every core that has not ended waits.\n"
            + "\n".join(lines)
        )
        made.waiting, made.place = waiting, waiting[0] if waiting else {}
        return made


class KernelWarning(UserWarning):
    """Something about a kernel's run that is allowed and probably not meant: leftover signals, writes to inputs, races."""


def warn(text: str) -> None:
    """Warns of something about a kernel, at the user's line."""
    frame = _source_info.user_frame(2)
    if frame is None:
        return warnings.warn(text, KernelWarning, stacklevel=3)
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        text, KernelWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry
    )
