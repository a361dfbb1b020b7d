"""For those who extend the runtime: `core` (jaxprs and primitives), `linear_util` (functions under transformations), `mlir` (for lowering
rules), `source_info_util` (which frames are the user's)."""

from importlib import import_module as _import_module

__all__ = ["core", "linear_util", "mlir", "source_info_util"]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'xlab.extend' has no attribute {name!r}")
    return _import_module(f"xlab.extend.{name}")
