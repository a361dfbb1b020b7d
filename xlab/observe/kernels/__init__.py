"""Kernels, seen: which block each step of a grid reads and writes, what that moves, and what the cores of a simulated run did.

`blocks.py` (block visits from index maps alone, nothing is run), `movement.py` (bytes moved, reuse, lints), `rooflines.py` (what machines
can reach).
"""
