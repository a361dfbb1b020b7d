"""What is said of a name of JAX that is not here: which, who asked for it on which line, and what is nearest."""

from __future__ import annotations

import difflib
import dis
import importlib
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from xlab.jax_alias import private

__all__ = ["explain", "module", "stands_for", "users_of_jax"]

_FROM = dis.opmap["IMPORT_FROM"]
_explained: dict[str, str] = {}
"""The name of JAX's that each module of ours stands for, by its own."""


def module(name: str) -> ModuleNotFoundError:
    """The error for `import name`."""
    parent, _, last = name.rpartition(".")
    around = sys.modules.get(parent)
    return ModuleNotFoundError(_sentence(f"module {name}", last, around), name=name)


def explain(found: ModuleType, name: str) -> None:
    """Makes a module say what it lacks in terms of `name`, the name of JAX's that it stands for; and the modules that are attributes of it."""
    if found.__name__ in _explained:
        return
    _explained[found.__name__] = name
    for attribute, value in tuple(vars(found).items()):
        if _inside(found, attribute, value) and stands_for(value.__name__):
            explain(value, f"{name}.{attribute}")
    before: Callable[[str], Any] | None = vars(found).get("__getattr__")

    def __getattr__(attribute: str) -> Any:
        if private.has(name, attribute):
            return private.value(name, attribute)
        if private.module(f"{name}.{attribute}") is not None:
            return importlib.import_module(f"{name}.{attribute}")
        if before is not None:
            try:
                value = before(attribute)
            except AttributeError:
                pass
            else:
                if _inside(found, attribute, value):
                    explain(value, f"{name}.{attribute}")
                return value
        asked = sys._getframe(1)
        text = _sentence(f"{name}.{attribute}", attribute, found)
        # `from m import a` makes its own, shorter message of an AttributeError.
        if _is_from_import(asked):
            raise ImportError(text, name=name)
        raise AttributeError(text, name=attribute, obj=found)

    found.__getattr__ = __getattr__  # type: ignore[method-assign]


def stands_for(name: str) -> str:
    """The name of JAX's for a module of ours that may not be imported yet: one inside of a module that has one, and public there."""
    parent, _, last = name.rpartition(".")
    if parent not in _explained:
        return ""
    public = getattr(sys.modules.get(parent), "__all__", None)
    return f"{_explained[parent]}.{last}" if public is None or last in public else ""


def _inside(found: ModuleType, attribute: str, value: Any) -> bool:
    """Whether a value is a module inside of another, as most programs reach `jax.numpy.linalg`."""
    return isinstance(value, ModuleType) and value.__name__ == f"{found.__name__}.{attribute}"


def _is_from_import(frame: FrameType) -> bool:
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _FROM


def users_of_jax() -> str:
    """The libraries that hold JAX's name now, as a list in words; empty for none."""
    users = {
        name.partition(".")[0]
        for name, found in tuple(sys.modules.items())
        if any(
            isinstance(value, ModuleType) and value is sys.modules.get("jax")
            for value in tuple(vars(found).values() if isinstance(found, ModuleType) else ())
        )
    } - {"jax", "xlab", "__main__"}
    return ", ".join(sorted(users))


def _sentence(what: str, last: str, around: ModuleType | None) -> str:
    near = difflib.get_close_matches(last, dir(around) if around is not None else (), 3, 0.6)
    ours = around.__name__ if around is not None else "xlab"
    who = _asked_by()
    return (
        f"xlab stands in for JAX and has no {what}"
        + (f", which {who} asks for" if who else "")
        + ". "
        + (f"Nearest: {', '.join(f'{ours}.{n}' for n in near)}. " if near else "")
        + (_OF_PICKLE if _by_unpickling() else _OF_PROGRAM)
    )


_OF_PROGRAM = "If the program can do without it, guard that line; else it needs JAX itself: start without xlab.as_jax."
_OF_PICKLE = (
    "It is not asked for by the program, the pickle holds it: where it was made, store NumPy arrays (jax.device_get(tree), "
    "jax.random.key_data(key)) and names instead, or open it under JAX itself."
)


def _by_unpickling() -> bool:
    """Whether the nearest line outside calls a function that reads pickles, and imports nothing itself."""
    frame = _asking()
    if frame is None or frame.f_code.co_code[frame.f_lasti] in _IMPORTS:
        return False
    return not _READING.isdisjoint(frame.f_code.co_names)


_IMPORTS = frozenset((_FROM, dis.opmap["IMPORT_NAME"]))
_READING = frozenset(("load", "loads", "Unpickler"))


def _asking() -> FrameType | None:
    """The nearest frame outside of the import system and this room."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("xlab.jax_alias", "importlib", "_frozen_importlib")):
            return frame
        frame = frame.f_back
    return None


def _asked_by() -> str:
    frame = _asking()
    if frame is None:
        return ""
    return f"{frame.f_globals.get('__name__', '')} ({frame.f_code.co_filename}:{frame.f_lineno})"
