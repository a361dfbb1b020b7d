"""Whose frames are the user's: libraries name their own files, so that messages and programs point past them.

Example:
    >>> register_exclusion("/a/library/wrappers.py")
"""

from __future__ import annotations

from xlab.core.source_info import exclude as register_exclusion

__all__ = ["register_exclusion"]
