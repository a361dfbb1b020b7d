"""Compiled programs as bytes, for another process or other devices.

Example:
    >>> import numpy as np, xlab
    >>> compiled = xlab.jit(lambda x: x + 1).lower(np.ones(2, np.float32)).compile()
    >>> program, in_tree, out_tree = serialize(compiled)
    >>> deserialize_and_load(program, in_tree, out_tree)(np.ones(2, np.float32)).tolist()
    [2.0, 2.0]
"""

from xlab.compile.serialization import deserialize_and_load, serialize

__all__ = ["deserialize_and_load", "serialize"]
