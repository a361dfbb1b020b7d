"""Which jaxlib this release supports; checked before anything else imports it."""

from __future__ import annotations

from xlab.errors import UnsupportedVersionError

MINIMUM = (0, 10, 2)
BELOW = (0, 11)
REQUIREMENT = "jaxlib>=0.10.2,<0.11"


def parse(text: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    Example:
        >>> parse("0.10.2.dev3")
        (0, 10, 2)
    """
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def installed() -> str:
    """The version of the installed jaxlib."""
    import jaxlib

    return jaxlib.__version__


def check(found: str | None = None) -> None:
    """Raises `UnsupportedVersionError` unless the installed jaxlib is in the supported range."""
    if found is None:
        try:
            import jaxlib
        except ImportError as error:
            raise UnsupportedVersionError(
                f"xlab runs on jaxlib, which is not installed here. Install it with:\n    pip install '{REQUIREMENT}'"
            ) from error
        found = jaxlib.__version__
    if not MINIMUM <= parse(found) < BELOW:
        raise UnsupportedVersionError(
            f"xlab needs {REQUIREMENT} and found jaxlib {found}. Install a matching one, then restart the "
            f"interpreter or kernel:\n    pip install '{REQUIREMENT}'"
        )
