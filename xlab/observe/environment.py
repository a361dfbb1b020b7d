"""Versions, devices and system, for a bug report."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from xlab.backend.client import devices, local_device_count, process_count


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints versions, devices and system, or returns the text.

    Example:
        >>> print_environment_info(return_string=True).split(":")[0]
        'xlab'
    """
    found = devices()
    kinds = ", ".join(sorted({d.device_kind for d in found}))
    lines = [
        f"xlab:   {_version('xlab')}",
        f"jaxlib: {_version('jaxlib')}",
        f"numpy:  {_version('numpy')}",
        f"python: {sys.version}",
        f"device info: {kinds}-{len(found)}, {local_device_count()} local devices",
        f"process_count: {process_count()}",
        f"platform: {platform.uname()}",
        *(
            f"{name}={os.environ[name]}"
            for name in sorted(os.environ)
            if name.startswith(("XLAB_", "XLA_FLAGS"))
        ),
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
