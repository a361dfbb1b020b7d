"""Source maps of all forms of a function, under the path that programs import."""

from xlab.observe.programs.source_dumps import (
    generate_sourcemaps,
)

__all__ = ["generate_sourcemaps"]
