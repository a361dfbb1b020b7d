"""`xlab run`: a script or a module whose `import jax` gives xlab."""

from __future__ import annotations

import os
import runpy
import sys

from xlab.jax_alias.finder import on

__all__ = ["main"]


_USAGE = """usage: xlab run SCRIPT.py [ARGUMENTS...]
       xlab run -m MODULE [ARGUMENTS...]

Runs a Python program written for JAX on xlab: every `import jax` in it, and in the libraries it uses, gives xlab."""


def main(argv: list[str]) -> int:
    """Runs a Python program with xlab in the place of JAX.

    Args:
        argv: `SCRIPT.py ARGUMENTS...`, or `-m MODULE ARGUMENTS...`. What follows the program is the program's own.
    """
    if argv[:1] in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    as_module, given = argv[:1] == ["-m"], argv[1:] if argv[:1] == ["-m"] else argv
    if not given:
        return _refused("give a program: xlab run train.py")
    if not as_module and not os.path.exists(given[0]):
        return _refused(f"there is no file {given[0]!r}")
    on()
    sys.argv = given
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
    else:
        # As `python SCRIPT.py` has it: the folder of the script comes first.
        sys.path.insert(0, os.path.dirname(os.path.abspath(given[0])))
        runpy.run_path(given[0], run_name="__main__")
    return 0


def _refused(why: str) -> int:
    print(f"xlab run: {why}\n{_USAGE}", file=sys.stderr)
    return 2
