"""Exchange of arrays with other libraries, without copies where possible."""

from xlab.core.dtypes import is_dlpack_dtype as is_supported_dtype
from xlab.numpy import from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]
