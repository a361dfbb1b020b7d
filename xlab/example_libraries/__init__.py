"""Small libraries, written for users: `optimizers.py` (updates of parameters by gradients), `stax.py` (neural networks as pairs of functions)."""

from importlib import import_module as _import_module

__all__ = ["optimizers", "stax"]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'xlab.example_libraries' has no attribute {name!r}")
    return _import_module(f"xlab.example_libraries.{name}")
