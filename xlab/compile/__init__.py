"""From traced programs to executables, and calling them.

Reading order: `tracing.py` (a Python function to a program, remembered), `placement.py` (values onto devices),
`devices.py` (which devices a program runs on), `executable.py` (lower, compile, call), `jit.py` and
`jit_primitive.py`, `dispatch.py` (one primitive, eagerly), `stages.py` (Traced, Lowered, Compiled), `explain.py` (why it
was traced again), `memory_cache.py` (what the jits of one function share). May import interpreters and below.

Also: `ahead.py` (calls of programs that were compiled ahead of time), `arguments.py` (which arguments of a function
its user means), `disk_cache.py` (the persistent cache), `dispatch_cache.py` (calls that were answered before),
`divergence.py` (what becomes of a program whose devices may reach a collective differently), `donating.py` (calls of
functions that donate arguments), `effects.py` (effects at run time), `keys.py` (what chose a compiled program),
`layouts.py` (arrays whose dimensions lie in memory in another order than the default), `ledger.py` (what was compiled
in this process and why), `logs.py` (what is written down of every compilation), `ref_discharge.py` (mutable
references at the boundary of a compiled program), `runtime_checks.py` (looking for values that should not be there).
"""
