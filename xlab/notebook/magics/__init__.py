"""The magics, one file each: they parse, record, run through the public API and show.

Also: `base.py` (what magics share), `xdiff.py` (`%xdiff f(x) g(x)`), `xflow.py` (`%xflow f(x)`), `xhlo.py` (`%xhlo
f(x)`), `xjit.py` (`%%xjit`), `xladder.py` (`%xladder f(x)`), `xledger.py` (`%xledger`), `xmem.py` (`%xmem`),
`xmesh.py` (`%xmesh`), `xreport.py` (`%xreport out.html`), `xshard.py` (`%xshard`), `xstep.py` (`%xstep f(x)`),
`xtime.py` (`%xtime f(x)`).

`MAGICS` is the list; the file of a magic is imported when it is first used or asked about. A class in it has one magic method, whose
arguments are declared so that `%name?` explains them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MAGICS = ("xjit", "xstep", "xshard", "xmesh", "xflow", "xtime", "xhlo", "xdiff", "xladder", "xledger", "xmem", "xreport")
_ALSO_CELL = ("xjit",)


class Magic:
    """Stands for a magic until it is used; its help is that of the real one."""

    def __init__(self, name: str, shell: Any):
        self.__name__, self._shell, self._method = name, shell, None

    def _load(self) -> Any:
        if self._method is None:
            module = import_module(f"xlab.notebook.magics.{self.__name__}")
            self._method = getattr(getattr(module, self.__name__.capitalize())(shell=self._shell), self.__name__)
        return self._method

    @property
    def __doc__(self) -> str | None:      # type: ignore[override]
        return self._load().__doc__

    def __call__(self, *given: Any) -> Any:
        return self._load()(*given)


def register(shell: Any) -> None:
    """Gives the shell all magics; a second time replaces the first."""
    for name in MAGICS:
        kind = "line_cell" if name in _ALSO_CELL else "line"
        shell.magics_manager.register_function(Magic(name, shell), magic_kind=kind, magic_name=name)


def unregister(shell: Any) -> None:
    """Takes them away."""
    for kind in ("line", "cell"):
        for name in MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
