"""Excludes a library's files from source locations, so that messages point to its caller.

Example:
    >>> register_exclusion("/a/library/wrappers.py")
"""

from __future__ import annotations

from xlab.core.source_info import exclude as register_exclusion

__all__ = ["register_exclusion"]
