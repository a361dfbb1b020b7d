"""Systems of equations given by a matrix-vector product: `linalg`."""

from xlab.scipy.sparse import linalg as linalg

__all__ = ["linalg"]
