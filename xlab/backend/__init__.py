"""The only door to jaxlib: devices, buffers, compiling, native dispatch, passes and profiles, in our nouns.

Reading order: `version` and `native` (what is imported, in which order, which native state is set), `import_guard` and `class_sharing`
(living in one process with the reference), `client`, `shardings`, `arrays`, `compiling`, `dispatch`, then `ir`,
`worker` and what runs in it (`partitioning`, `propagation`), `watchdog`, `processes`, `profiling`, `pytree`, `caches`. May import
`errors`, `config`, `events`, jaxlib and numpy. Promises that no other room needs a private name of jaxlib, that importing it starts no
client, and that the reference is never imported.

Also: `collection_guard.py` (arrays that the garbage collector had to free), `deprecated_host_names.py` (older names of
`process_index`), `failures.py` (what went wrong in a host callback), `ffi.py` (calls into foreign compiled code),
`inlining.py` (modules before partitioning), `lapack.py` (routines of SciPy's library), `native_warnings.py` (warnings of native code that are shown elsewhere), `profiler.py` (profiles as files for trace viewers), `top_k.py` (what the compiler's approximate top-k
returns), `tpu_target.py` (compiles a program for a TPU that is not there), `transfer_guards.py` (guards against
transfers nobody asked for), `uninterruptible.py` (long native calls that must end once begun).
"""

from xlab.backend import native

XlabRuntimeError = JaxRuntimeError = native.XlaRuntimeError
