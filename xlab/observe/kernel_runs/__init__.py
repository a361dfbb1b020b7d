"""Kernels, seen: which block each step of a grid reads and writes, what that moves, and what the cores of a simulated run did.

Nothing is run: `blocks.py` (block visits from index maps), `movement.py` (bytes moved, reuse, remarks), `rooflines.py` (what machines can
reach), `static.py` (the kernels of a program). Simulated: `program.py` (what a machine runs), `log.py` (its events as records),
`contents.py` (what buffers hold over time), `schedules.py` (the shortest that shows a race), `recording.py` (`kernel_run`).
"""
