"""Forms of programs as texts with source maps, and those that programs register, under the path that programs import."""

from xlab.observe.programs.source_dumps import (
    Pass,
    SourceMapDump,
    all_passes,
    compile_with_env,
    filter_passes,
    register_pass,
)

__all__ = [
    "Pass",
    "SourceMapDump",
    "all_passes",
    "compile_with_env",
    "filter_passes",
    "register_pass",
]
