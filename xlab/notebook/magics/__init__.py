"""The magics, one file each: they parse, record, run through the public API and show.

A magic is the file of its name, imported when the magic is first used or asked about. The class in it has one method, whose arguments are
declared once (`arguments.py`): parsing, `%name?`, completions and errors follow. `base.py` reads calls and names cells.

The magics: `xall.py` (`%%xall`), `xprocesses.py` (`%xprocesses`), `xcaches.py` (`%xcaches`), `xeffects.py` (`%xeffects`), `xsettings.py` (`%xsettings`), `xdiff.py` (`%xdiff f(x) g(x)`), `xflow.py` (`%xflow f(x)`), `xhlo.py` (`%xhlo
f(x)`), `xjax.py` (`%xjax`), `xjit.py` (`%%xjit`), `xladder.py` (`%xladder f(x)`), `xledger.py` (`%xledger`), `xmem.py` (`%xmem`),
`xmesh.py` (`%xmesh`), `xreport.py` (`%xreport out.html`), `xshard.py` (`%xshard`), `xstep.py` (`%xstep f(x)`),
`xtime.py` (`%xtime f(x)`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from xlab.notebook.tracebacks import interrupted

MAGICS = tuple(
    sorted(module.name for module in iter_modules(__path__) if module.name.startswith("x"))
)
OVER_CELLS = ("xall", "xjit")
"""Those that may stand over a cell, which the shell asks before it loads them."""

IN_KERNEL = ("xprocesses", "xall", "xjax", "xreport", "xsettings")
"""Magics that are about this kernel."""


def _forwarded(name: str, line: str) -> tuple[bool, str]:
    """Whether a call of a magic goes to the processes, and its line without what says so."""
    words = line.split()
    here, there = "--here" in words, "--processes" in words
    if name in IN_KERNEL or not (here or there or _group() is not None):
        return False, line
    if here and there:
        raise ValueError("--here is for this kernel, --processes for those of the group: give one")
    for word in ("--here", "--processes"):
        line = line.replace(word, "").strip()
    if there and _group() is None:
        raise ValueError("there are no processes: %xprocesses 2 starts two")
    return not here, line


def _group() -> Any:
    """The group of processes, without loading what starts one."""
    module = sys.modules.get("xlab.notebook.processes")
    return module.current() if module is not None else None


def _class(name: str) -> Any:
    return getattr(import_module(f"{__name__}.{name}"), name.capitalize())


def declared(name: str) -> Any:
    """The declared arguments of a magic.

    >>> [option.written for option in declared("xflow").options.values()]
    ['--target tpu:v5e:2x4', '--static n,m', '--better tpu:v5e:4x4']
    """
    return getattr(_class(name), name).arguments


class Magic:
    """A lazy stand-in for a magic; its help is that of the real one."""

    _ipython_magic_output_can_be_silenced = True
    """IPython's own name for a magic whose value a `;` at the end keeps from being shown."""

    def __init__(self, name: str, shell: Any):
        self.__name__, self._shell, self._method = name, shell, None

    @property
    def _ipython_magic_no_var_expand(self) -> bool:
        """IPython's own name for a magic that is given its line as written: the braces and dollars of Python are Python's."""
        return self._load().arguments.python

    def _load(self) -> Any:
        if self._method is None:
            try:
                self._method = getattr(_class(self.__name__)(shell=self._shell), self.__name__)
            except KeyboardInterrupt:
                raise interrupted(
                    f"interrupted while loading {self.__name__}, which its first use does; nothing of the cell has run"
                ) from None
        return self._method

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._load().__doc__

    def __call__(self, *given: Any) -> Any:
        there, line = _forwarded(self.__name__, given[0])
        if there:
            number = import_module(f"{__name__}.base").cell_number(self._shell)
            run = import_module("xlab.notebook.in_processes").run
            return run(given[1] if len(given) > 1 else "", (self.__name__, line), number)
        return self._load()(line, *given[1:])


def register(shell: Any) -> None:
    """Gives the shell all magics; a second time replaces the first."""
    for name in MAGICS:
        kind = "line_cell" if name in OVER_CELLS else "line"
        shell.magics_manager.register_function(Magic(name, shell), magic_kind=kind, magic_name=name)


def unregister(shell: Any) -> None:
    """Takes them away."""
    for kind in ("line", "cell"):
        for name in MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
