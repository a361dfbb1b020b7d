"""Random sparse arrays, under the path that programs import."""

from xlab.sparse import (
    random_bcoo,
)

__all__ = [
    "random_bcoo",
]
