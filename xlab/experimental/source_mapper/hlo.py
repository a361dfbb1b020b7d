"""Source maps of HLO text, under the path that programs import."""

from xlab.observe.programs.source_dumps import (
    parse_hlo_dump,
)

__all__ = ["parse_hlo_dump"]
