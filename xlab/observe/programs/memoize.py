"""Caches records of compiled programs, which do not change.

A record is kept as long as the executable lives, and made again when the number of its cell changes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from xlab.core.source_info import shown_name
from xlab.observe.programs.stages import ProgramStages

T = TypeVar("T")

_answers: weakref.WeakKeyDictionary[Any, tuple[tuple[str, ...], dict[Any, Any]]] = (
    weakref.WeakKeyDictionary()
)


def memoize(stages: ProgramStages, key: Hashable, make: Callable[[], T]) -> T:
    """The cached result of `make`, called the first time.

    Example:
        >>> import xlab
        >>> from xlab.observe.programs.stages import program_stages
        >>> stages = program_stages(xlab.jit(xlab.lax.sin).lower(1.0).compile())
        >>> memoize(stages, "first", lambda: "made"), memoize(stages, "first", lambda: "made again")
        ('made', 'made')
    """
    if not stages.is_compiled:
        return make()
    executable = stages.executable
    found = _answers.get(executable)
    if found is None:
        named = {
            e.source_info.code.co_filename
            for e in stages.equations.values()
            if e.source_info.code is not None
        }
        found = _answers[executable] = tuple(sorted(named)), {}
    files, kept = found
    whole = key, tuple(shown_name(file) for file in files)
    if whole not in kept:
        for old in [k for k in kept if k[0] == key]:
            del kept[old]
        made = make()
        if (
            stages.unfinished
        ):  # not cached: trying again may succeed, since the worker process may have been killed
            return made
        kept[whole] = made
    return kept[whole]
