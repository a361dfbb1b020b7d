"""How sources are called in maps, under the path that programs import."""

from xlab.observe.programs.source_dumps import (
    canonicalize_filename,
)

__all__ = ["canonicalize_filename"]
