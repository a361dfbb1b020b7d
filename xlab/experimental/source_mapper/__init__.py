"""Source maps of printed programs: from lines of a jaxpr, of StableHLO and of HLO to the lines of Python that they come from.

The same by the paths that programs import: `common.py`, `generate_map.py`, `hlo.py`, `jaxpr.py`, `mlir.py`.

Example:
    >>> import xlab.numpy as jnp
    >>> dumps = generate_sourcemaps(lambda x: jnp.cos(x), all_passes())(1.0)
    >>> [dump.pass_name for dump in dumps]
    ['jaxpr', 'hlo:stable-hlo', 'hlo:original', 'hlo:optimized']
"""

from xlab.observe.programs.source_dumps import (
    Pass,
    SourceMapDump,
    all_passes,
    canonicalize_filename,
    compile_with_env,
    create_mlir_sourcemap,
    filter_passes,
    generate_sourcemaps,
    register_pass,
)
from xlab.observe.programs.source_map import MappingsGenerator, SourceMap

from xlab.experimental.source_mapper import common, generate_map, hlo, jaxpr, mlir  # isort: skip

__all__ = ["MappingsGenerator", "Pass", "SourceMap", "SourceMapDump", "all_passes", "canonicalize_filename", "compile_with_env",
           "create_mlir_sourcemap", "filter_passes", "generate_sourcemaps", "register_pass"]  # fmt: skip
