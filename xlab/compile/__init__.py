"""From traced programs to executables, and calling them.

Reading order: `tracing.py` (a Python function to a program, remembered), `placement.py` (values onto devices),
`devices.py` (which devices a program runs on), `executable.py` (lower, compile, call), `jit.py` and
`jit_primitive.py`, `dispatch.py` (one primitive, eagerly), `stages.py` (Traced, Lowered, Compiled), `memory_cache.py`
(what the jits of one function share), `history/` (why a program was traced and compiled). May import interpreters and below.
"""
