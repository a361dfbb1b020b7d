"""Completions after a magic: its options, and names of the notebook."""

from __future__ import annotations

import re
from typing import Any

from xlab.notebook.magics import MAGICS, declared

_LINE = re.compile(r"\s*%%?(\w+)\s(.*)$", re.DOTALL)


def complete(line: str, names: dict[str, Any]) -> tuple[str, list[str]]:
    """The last word of a line and its completions; none if the line is not one of our magics.

    >>> complete("%xtime --re", {})
    ('--re', ['--repeat'])
    >>> complete("%%xjit --donate pa", {"params": 1, "path": 2, "_p": 3})
    ('pa', ['params', 'path'])
    """
    found = _LINE.match(line)
    if found is None or found[1] not in MAGICS:
        return "", []
    word = re.search(r"[-\w]*$", found[2])[0]  # type: ignore[index]
    choices = declared(found[1]).completions(found[2])
    if choices is None:
        choices = sorted(name for name in names if not name.startswith("_")) if word else ()
    return word, [c for c in choices if c.startswith(word)]


class Matcher:
    """The completion matcher that the shell calls."""

    def __init__(self, shell: Any):
        self.shell = shell
        self.__qualname__ = self.__name__ = "xlab_magics"

    def __call__(self, text: str) -> list[str]:
        word, choices = complete(self.shell.Completer.line_buffer, self.shell.user_ns)
        return (
            choices
            if text == word
            else [text[: len(text) - len(word)] + c for c in choices]
            if text.endswith(word)
            else []
        )


def register(shell: Any) -> None:
    """Adds completions to a shell; a second time replaces the first."""
    unregister(shell)
    shell.Completer.custom_matchers.append(Matcher(shell))


def unregister(shell: Any) -> None:
    """Removes the completions."""
    kept = shell.Completer.custom_matchers
    kept[:] = [m for m in kept if not isinstance(m, Matcher)]
