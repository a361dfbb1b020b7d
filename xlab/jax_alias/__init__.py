"""xlab in the place of JAX: programs and libraries written for JAX's public API run on this runtime, unchanged.

`import xlab.as_jax` turns it on; so do `%xjax` in a notebook, `xlab run script.py`, and the environment variable `XLAB_AS_JAX=1`.
`finder.py` answers `import jax...` with xlab's modules, `missing.py` says what a library asked for that is not here, `private.py`
lists the private names of JAX that libraries use, each with its user, `shims.py` defines the few of them that are nowhere else, `boundaries.py` filters the
tracebacks of errors that leave a library's functions, `pickles.py` reads what was pickled under JAX, and `run.py` is the command `xlab run`. May import every room; no room imports it.
"""
