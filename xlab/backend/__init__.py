"""The only door to jaxlib: devices, buffers, compiling, native dispatch, passes and profiles, in our nouns.

Reading order: `version` and `native` (what is imported, in which order, which native state is set), `import_guard` and `class_sharing`
(living in one process with the reference), `client`, `shardings`, `arrays`, `compiling`, `dispatch`, then `ir`,
`worker` and what runs in it (`partitioning`, `propagation`), `watchdog`, `processes`, `profiling`, `pytree`, `caches`. May import
`errors`, `config`, `events`, jaxlib and numpy. Promises that no other room needs a private name of jaxlib, that importing it starts no
client, and that the reference is never imported.
"""

from xlab.backend import native

XlabRuntimeError = JaxRuntimeError = native.XlaRuntimeError
