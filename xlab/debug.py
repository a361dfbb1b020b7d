"""Looking at values and shardings while programs run: JAX's `debug` names."""

from xlab.core.effects import DebugEffect, OrderedDebugEffect
from xlab.lax.debugging import debug_callback as callback
from xlab.lax.debugging import debug_log as log
from xlab.lax.debugging import debug_print as print
from xlab.lax.inspecting import inspect_array_sharding
from xlab.notebook.visualize import visualize_array_sharding, visualize_sharding
from xlab.observe.stepping.debugger import breakpoint

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
