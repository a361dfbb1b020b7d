"""MLIR for those who write lowering rules: `ir` (its objects) and `dialects` (its operations)."""

from xlab.extend.mlir import dialects as dialects


def __getattr__(name: str):
    if name == "ir":
        from xlab.backend.ir import objects

        return objects()
    raise AttributeError(f"module 'xlab.extend.mlir' has no attribute {name!r}")
