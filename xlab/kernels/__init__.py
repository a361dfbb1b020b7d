"""Kernels: programs over grids of blocks, with references, memory spaces, semaphores and cores.

Reading order: `memory.py` (memory spaces and the types of scratch), `mesh.py` (meshes of cores, and memory spaces tied to them).

The room may import everything below `observe`; nothing below imports it.
"""

from xlab.kernels.memory import ANY as ANY
from xlab.kernels.memory import HOST as HOST
from xlab.kernels.memory import MemoryRef as MemoryRef
from xlab.kernels.memory import MemorySpace as MemorySpace
from xlab.kernels.mesh import CoreMemorySpace as CoreMemorySpace
from xlab.kernels.mesh import CoreMesh as CoreMesh
from xlab.kernels.mesh import KernelMesh as KernelMesh
from xlab.kernels.mesh import create_core_mesh as create_core_mesh

__all__ = [
    "ANY",
    "HOST",
    "CoreMemorySpace",
    "CoreMesh",
    "KernelMesh",
    "MemoryRef",
    "MemorySpace",
    "create_core_mesh",
]
