"""`pjit` at its former address: `xlab.jit`, which takes shardings itself; and `AUTO(mesh)`, a sharding that the compiler chooses."""

from __future__ import annotations

import warnings

from xlab.compile.jit import jit as _jit
from xlab.sharding.auto import AutoSharding as AUTO

__all__ = ["AUTO"]


def __getattr__(name: str):
    if name != "pjit":
        raise AttributeError(f"module 'xlab.experimental.pjit' has no attribute {name!r}")
    warnings.warn(
        "xlab.experimental.pjit.pjit is the former name of xlab.jit.",
        DeprecationWarning,
        stacklevel=2,
    )
    return _jit
