"""Older names of `process_index`, `process_count` and `process_indices`, with a warning."""

from __future__ import annotations

import warnings

from xlab.backend.client import process_count, process_index, process_indices


def _renamed(old: str, new: str) -> None:
    warnings.warn(
        f"xlab.{old} has been renamed to xlab.{new}. This alias will eventually be removed; please update your code.",
        stacklevel=3,
    )


def host_id(backend: str | None = None) -> int:
    """`process_index`, under its older name.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     host_id()
        0
    """
    _renamed("host_id", "process_index")
    return process_index(backend)


def host_count(backend: str | None = None) -> int:
    """`process_count`, under its older name."""
    _renamed("host_count", "process_count")
    return process_count(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """`process_indices`, under its older name."""
    _renamed("host_ids", "process_indices")
    return process_indices()
