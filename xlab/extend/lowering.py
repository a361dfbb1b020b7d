"""What a lowering rule is given, and a context of MLIR for modules of one's own.

Example:
    >>> from xlab.extend import lowering
    >>> from xlab.extend.mlir import ir
    >>> with lowering.JaxIrContext(), ir.Location.unknown():
    ...     print(ir.Module.parse("func.func @main() { return }").body.operations[0].name)
    "main"
"""

from typing import Any

from xlab.backend import ir as _ir
from xlab.interpreters.mlir import LoweringRuleContext

__all__ = ["LoweringRuleContext"]


def __getattr__(name: str) -> Any:
    # Made when they are asked for: MLIR's objects take a while to load.
    if name == "upstream_dialects":
        value = _ir.registry()
    elif name == "JaxIrContext":
        value = _ir.context_class()
    else:
        raise AttributeError(f"module 'xlab.extend.lowering' has no attribute {name!r}")
    globals()[name] = value
    return value
