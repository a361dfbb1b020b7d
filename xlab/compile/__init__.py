"""From traced programs to executables, and calling them.

Reading order: `jit.py` (a call, from the first to the warm one), `arguments.py` (which are static or donated, where they lie),
`tracing.py` (a Python function to a program, remembered), `resolve.py` (where it runs and how its values lie), `lowering.py` (the
module), `executable.py` (compiled, bound and called), `history/` (why a program was traced and compiled). May import interpreters
and below.

Also: `ahead.py` (calls of programs that were compiled ahead of time), `devices.py` (which devices a program runs on, and the
error when its parts disagree), `disk_cache.py` (the persistent cache), `dispatch.py` (one primitive, eagerly),
`dispatch_cache.py` (calls that were answered before), `divergence.py` (what becomes of a program whose devices may reach a
collective differently), `donating.py` (calls of functions that donate arguments), `effects.py` (effects at run time),
`jit_primitive.py` (a call of a traced program, in another), `layouts.py` (arrays whose dimensions lie in memory in another order
than the default), `logs.py` (what is written down of every compilation), `memory_cache.py` (what the jits of one function
share), `placement.py` (values onto devices), `ref_discharge.py` (mutable references at the boundary of a compiled program),
`runtime_checks.py` (looking for values that should not be there), `stages.py` (Traced, Lowered, Compiled).
"""
