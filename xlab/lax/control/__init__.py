"""Structured control flow: primitives with inner jaxprs.

`common.py` (tracing bodies, agreeing on types), `cond.py`, `while_loop.py`, `scan.py`, `scan_lowering.py` (the loop that it is), `loops.py` (fori_loop, map,
associative_scan, written through the others), `linear_solve.py` and `root.py` (solutions that know their derivative).

Also: `custom_jvp_call.py` (the call of a function with a forward derivative rule of its own), `platform.py`
(`platform_dependent`), `refs.py` (references in loops and branches), `select.py` (what each example takes, where they choose).
"""

from xlab.lax.control import refs as _refs
from xlab.lax.control import scan_lowering as _scan_lowering
from xlab.lax.control.cond import cond, cond_p, switch
from xlab.lax.control.linear_solve import custom_linear_solve, linear_solve_p
from xlab.lax.control.loops import associative_scan, fori_loop, map
from xlab.lax.control.platform import platform_dependent, platform_index_p
from xlab.lax.control.root import custom_root
from xlab.lax.control.scan import scan, scan_p
from xlab.lax.control.while_loop import while_loop, while_p

__all__ = ["associative_scan", "cond", "cond_p", "custom_linear_solve", "custom_root", "fori_loop", "linear_solve_p", "map",
           "platform_dependent", "platform_index_p", "scan", "scan_p", "switch", "while_loop", "while_p"]  # fmt: skip
