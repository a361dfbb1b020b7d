"""What the array API asks of a namespace: its version, its default dtypes, its devices.

Source:
    Consortium for Python Data API Standards, Python array API standard 2024.12, inspection.

Example:
    >>> import xlab.numpy as jnp
    >>> jnp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
"""

from __future__ import annotations

import numpy as np

from xlab.backend import client
from xlab.core import dtypes

__all__ = ["VERSION", "ArrayNamespaceInfo", "check_version"]

VERSION = "2024.12"

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class ArrayNamespaceInfo:
    """What a namespace can do, as `__array_namespace_info__()` returns it."""

    def capabilities(self) -> dict:
        """Which optional parts of the standard there are."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self):
        """None: arrays that are given no device may be moved to that of others."""
        return None

    def devices(self) -> list:
        """None, the default, and the devices of this process."""
        return [None, *client.local_devices()]

    def default_dtypes(self, *, device=None) -> dict:
        """The dtype of results by kind where none is asked for.

        Args:
            device: a device; all have the same.
        """
        named = {
            "real floating": np.float64,
            "complex floating": np.complex128,
            "integral": np.int64,
            "indexing": np.int64,
        }
        return {kind: dtypes.canonicalize_dtype(np.dtype(d)) for kind, d in named.items()}

    def dtypes(self, *, device=None, kind: str | tuple[str, ...] | None = None) -> dict:
        """The dtypes of the standard by name; those of 64 bits where these are enabled.

        Args:
            device: a device; all have the same.
            kind: a kind, such as "integral", or several; by default all.

        Raises:
            KeyError: for an unknown kind.
        """
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        found = {}
        for k in kinds:
            if k not in _KINDS:
                raise KeyError(f"{k!r} is no kind of dtypes; there are {', '.join(_KINDS)}")
            found |= {name: np.dtype(name) for name in _KINDS[k]}
        return {name: d for name, d in found.items() if dtypes.canonicalize_dtype(d) == d}


def check_version(api_version: str | None) -> None:
    """Raises ValueError for a version of the standard that there is not."""
    if api_version not in (None, VERSION):
        raise ValueError(
            f"api_version={api_version!r} is not available; available versions are: {[VERSION]}"
        )
