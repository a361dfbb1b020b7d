"""The version of the compiled library underneath."""

from xlab.backend.version import installed as _installed

__version__ = _installed()
__all__ = ["__version__"]
