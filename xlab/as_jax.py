"""Importing this module puts xlab in the place of JAX: every later `import jax` gives xlab, also in libraries.

    import xlab.as_jax   # first: the `jax` of every import below is xlab, in your program and in flax or optax

How it is done, and what libraries may ask for, is in `xlab.jax_alias`.
"""

from xlab.jax_alias.finder import is_on, off, on

__all__ = ["is_on", "off", "on"]

on()
