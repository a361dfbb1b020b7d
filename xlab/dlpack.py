"""Exchange of arrays with other libraries, without copies where possible."""

from xlab import numpy as _numpy
from xlab.core.alias import alias as _alias
from xlab.core.dtypes import is_dlpack_dtype as _is_dlpack_dtype

__all__ = ["from_dlpack", "is_supported_dtype"]

is_supported_dtype = _alias(_is_dlpack_dtype, "is_supported_dtype", "xlab.dlpack")


def from_dlpack(external_array, device=None, copy: bool | None = None):
    """An array from another library's, through the DLPack protocol; `numpy.from_dlpack` with arguments by position.

    Example:
        >>> import numpy as np
        >>> from_dlpack(np.ones(2, np.float32), None, True)
        Array([1., 1.], dtype=float32)
    """
    return _numpy.from_dlpack(external_array, device=device, copy=copy)
