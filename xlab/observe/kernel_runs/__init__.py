"""Kernels, seen: which block each step of a grid reads and writes, what that moves, and what the cores of a simulated run did.

`static.py` (the kernels of a program, nothing is run), `blocks.py` (block visits from index maps), `movement.py` (bytes moved, reuse,
remarks), `rooflines.py` (what machines can reach).
"""
