"""xlab in the place of JAX: programs and libraries written for JAX's public API run on this runtime, unchanged.

    import xlab.as_jax        # first
    import jax, flax, optax   # `jax` is xlab from here on

Importing this room turns it on; so do `%xjax` in a notebook, `xlab run script.py`, and the environment variable `XLAB_AS_JAX=1`.
`finder.py` answers `import jax...` with xlab's modules, `missing.py` says what a library asked for that is not here, `private.py`
lists the private names of JAX that libraries use, each with its user, and `shims.py` defines the few of them that are nowhere else.
May import every room; no room imports it.
"""

from xlab.as_jax.finder import is_on, off, on

__all__ = ["is_on", "off", "on"]

on()
