"""Kernels: programs over grids of blocks, with references, memory spaces, semaphores and cores.

Reading order: `memory.py` (memory spaces and the types of scratch).

The room may import everything below `observe`; nothing below imports it.
"""

from xlab.kernels.memory import ANY as ANY
from xlab.kernels.memory import HOST as HOST
from xlab.kernels.memory import MemoryRef as MemoryRef
from xlab.kernels.memory import MemorySpace as MemorySpace

__all__ = ["ANY", "HOST", "MemoryRef", "MemorySpace"]
