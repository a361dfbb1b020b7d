"""The only door to jaxlib: devices, buffers, compiling, native dispatch, passes and profiles.

Reading order: `version` and `native` (what is imported, in which order, which native state is set), `import_guard` and `class_sharing`
(sharing a process with JAX), `neighbors` (what is said of its values), `client`, `shardings`, `arrays`, `compiling`, `dispatch`, then `ir`,
`worker` and what runs in it (`factors`, `partitioning`, `propagation`), `watchdog`, `processes`, `profiling`, `pytree`, `caches`, `values` (classes of values). May import
`errors`, `config`, `events`, jaxlib and numpy. Promises that no other room needs a private name of jaxlib, that importing it starts no
client, and that JAX is never imported.

Also: `calling.py` (what host callbacks may start), `collection_guard.py` (arrays freed by the garbage collector), `deprecated_host_names.py` (older names of
`process_index`), `failures.py` (exceptions of host callbacks), `ffi.py` (calls into foreign compiled code),
`inlining.py` (inlines calls before partitioning), `lapack.py` (routines of SciPy's library), `module_passes.py` (passes of the user's own in the compiler), `native_warnings.py` (suppresses
native warnings), `partitioners.py` (operations that Python partitions), `parts.py` (native calls that take arrays apart),
`profiler.py` (profiles as files for trace viewers), `top_k.py` (what the compiler's approximate top-k
returns), `scheduling.py` (the policy of native threads), `tpu_target.py` (compiles a program for a TPU that is not attached), `transfer_guards.py` (guards against
implicit transfers), `transfer_servers.py` (arrays that other processes fetch), `uninterruptible.py` (long native calls that no interrupt may end).
"""

from xlab.backend import native

XlabRuntimeError = JaxRuntimeError = native.XlaRuntimeError
