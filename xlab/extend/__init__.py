"""For those who extend the runtime: `core` (its language), `mlir` (what lowering rules are written with)."""

from importlib import import_module as _import_module

__all__ = ["core", "mlir"]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'xlab.extend' has no attribute {name!r}")
    return _import_module(f"xlab.extend.{name}")
