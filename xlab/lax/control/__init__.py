"""Structured control flow: programs inside programs.

`common.py` (tracing bodies, agreeing on types), `cond.py`, `while_loop.py`, `scan.py`, `loops.py` (fori_loop, map,
associative_scan, written through the others).
"""

from xlab.lax.control.cond import cond, cond_p, switch
from xlab.lax.control.loops import associative_scan, fori_loop, map
from xlab.lax.control.scan import scan, scan_p
from xlab.lax.control.while_loop import while_loop, while_p

__all__ = ["associative_scan", "cond", "cond_p", "fori_loop", "map", "scan", "scan_p", "switch", "while_loop", "while_p"]
