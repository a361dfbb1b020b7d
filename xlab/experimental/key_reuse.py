"""Key reuse: programs that use one random key twice, and so draw the same numbers again.

`xlab.debug_key_reuse(True)`, as a block or with `config.update`, makes such a call raise `KeyReuseError` with both lines. `first_reuse` says it
of a traced program without running it. Primitives of one's own that draw, or that move keys, say so in `key_consumers` and `key_movers`.

Example:
    >>> import xlab
    >>> with xlab.debug_key_reuse(True):
    ...     key = xlab.random.key(0)
    ...     first = xlab.random.normal(key)
    ...     try:
    ...         second = xlab.random.normal(key)
    ...     except KeyReuseError as error:
    ...         print("uses a key that was used before" in str(error))
    True
"""

from xlab.errors import KeyReuseError
from xlab.interpreters.key_reuse import Finding, first_reuse, key_consumers, key_movers

__all__ = ["Finding", "KeyReuseError", "first_reuse", "key_consumers", "key_movers"]
