"""`buffer_callback`: Python functions that read and write the memory of a program, without copies."""

from xlab.backend.ffi import Buffer, ExecutionContext, ExecutionStage
from xlab.lax.buffer_callbacks import buffer_callback

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]
