"""The magics, one file each: they parse, record, run through the public API and show.

`MAGICS` is the list; a class in it has one magic method, whose arguments are declared so that `%name?` explains them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MAGICS = ("xjit", "xstep", "xshard", "xmesh", "xflow", "xtime", "xhlo", "xladder", "xledger", "xmem", "xreport")


def register(shell: Any) -> None:
    """Gives the shell all magics; a second time replaces the first."""
    for name in MAGICS:
        shell.register_magics(getattr(import_module(f"xlab.notebook.magics.{name}"), name.capitalize()))


def unregister(shell: Any) -> None:
    """Takes them away."""
    manager = shell.magics_manager
    for name in MAGICS:
        for kind in ("line", "cell"):
            manager.magics[kind].pop(name, None)
        manager.registry.pop(name.capitalize(), None)
