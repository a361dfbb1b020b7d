"""Functions of sparse arrays of any kind, under the path that programs import."""

from xlab.sparse import (
    empty,
    eye,
    todense,
    todense_p,
)

__all__ = [
    "empty",
    "eye",
    "todense",
    "todense_p",
]
