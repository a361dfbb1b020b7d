"""For those who extend the runtime: `backend.py` (compiler and devices), `core` (jaxprs and primitives), `linear_util.py` (functions under
transformations), `lowering.py` and `mlir` (for lowering rules), `xla.py` (passes of one's own in the compiler), `random.py` (random number generators), `sharding.py` (shardings as bytes),
`source_info_util.py` (where equations come from, and which frames are the user's)."""

from importlib import import_module as _import_module

__all__ = ["backend", "core", "linear_util", "lowering", "mlir", "random", "sharding", "source_info_util", "xla"]  # fmt: skip


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'xlab.extend' has no attribute {name!r}")
    return _import_module(f"xlab.extend.{name}")


def __dir__():
    return sorted({*globals(), *__all__})
