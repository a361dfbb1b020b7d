"""The persistent cache of compiled programs, under the name that programs import: `compilation_cache.compilation_cache`."""

from xlab.experimental.compilation_cache import compilation_cache

__all__ = ["compilation_cache"]
