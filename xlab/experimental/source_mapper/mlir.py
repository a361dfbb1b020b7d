"""Source maps of MLIR text, under the path that programs import."""

from xlab.observe.programs.source_dumps import (
    create_mlir_sourcemap,
)

__all__ = ["create_mlir_sourcemap"]
