"""The JAX release whose public API this package follows, for programs that compare versions.

The package's own version is in its metadata: `importlib.metadata.version("xlab")`.
"""

__version__ = "0.10.2"
__version_info__ = tuple(int(part) for part in __version__.split("."))

__all__ = ["__version__", "__version_info__"]
