"""Where compiled programs are stored, for other processes and later ones.

The cache is trusted: who may write to its directory decides what programs run. Do not share it with others.
"""

from __future__ import annotations

import os
from typing import Any

from xlab.config import config

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: Any) -> None:
    """Stores compiled programs in a directory, and looks there before compiling; as `config.update("jax_compilation_cache_dir", path)`."""
    config.update("jax_compilation_cache_dir", os.fspath(path))


def reset_cache() -> None:
    """For programs that call it after they chose another directory: every compile looks at the directory of that moment, and nothing of the
    one before is kept that would have to be forgotten."""
