"""Arrays over many devices and processes in files of TensorStore's, and the managers of them that libraries' checkpoints use."""

from xlab.parallel.tensorstore_files import (
    GlobalAsyncCheckpointManager,
    GlobalAsyncCheckpointManagerBase,
    get_tensorstore_spec,
)

__all__ = [
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "get_tensorstore_spec",
]
