"""For those who extend the runtime: `backend.py` (compiler and devices), `core` (jaxprs and primitives), `linear_util.py` (functions under
transformations), `mlir` (for lowering rules), `random.py` (random number generators), `sharding.py` (shardings as bytes),
`source_info_util.py` (where equations come from, and which frames are the user's)."""

from importlib import import_module as _import_module

__all__ = ["backend", "core", "linear_util", "mlir", "random", "sharding", "source_info_util"]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'xlab.extend' has no attribute {name!r}")
    return _import_module(f"xlab.extend.{name}")
