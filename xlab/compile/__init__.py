"""From traced programs to executables, and calling them.

Reading order: `jit.py` (a call, from the first to the warm one), `arguments.py` (which are static or donated, where they lie),
`tracing.py` (a Python function to a jaxpr, cached), `argument_paths.py` (what the user calls what a library hands on),
`resolve.py` (its devices, shardings and layouts), `queries.py` (what is in a program), `lowering.py` (the module), `executable.py` (compiled, bound and called), `history/` (why a program was traced and compiled). May import interpreters
and below.

Also: `ahead.py` (checks calls of ahead-of-time compiled programs), `devices.py` (which devices a program runs on, and the
error when its parts disagree), `disk_cache.py` (the persistent cache), `dispatch.py` (one primitive, eagerly),
`hi_boundary.py` (values of the user's own types at the boundary of a program), `dispatch_cache.py` (calls of known signatures), `divergence.py` (programs whose devices may diverge at a
collective), `donating.py` (calls of functions that donate arguments), `effects.py` (effects at run time), `equal_programs.py` (equal programs under several names), `exchange.py` (arrays laid out anew, shard to shard),
`jit_primitive.py` (a call of a traced program, in another), `launching.py` (what is asked before programs over several processes start), `layouts.py` (memory layouts other
than the default), `logs.py` (logs of compilations), `memory_cache.py` (programs shared by the jits of one function),
`placement.py` (places values on devices), `ref_discharge.py` (mutable references at the boundary of a compiled program),
`runtime_checks.py` (NaN, infinities and reused keys), `serialization.py` (executables as bytes), `stages.py` (Traced, Lowered, Compiled),
`structures.py` (in what two structures of arguments differ).
"""
