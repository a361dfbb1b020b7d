"""A hook that runs before a program over several processes starts, so that the processes can agree on it first."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

gate: Callable[[Any], None] | None = None
"""Called with the executable; None where nobody asks. `parallel/gate.py` sets it."""

in_group = False
"""Whether there ever was one: native code then must not learn to start such programs by itself."""

_LOCATION = r"(?m)^#\w+ = loc\(.*$"


def set_gate(ask: Callable[[Any], None] | None) -> None:
    """Sets the function that is called before every start of a program over several processes, or takes it away."""
    global gate, in_group
    gate, in_group = ask, in_group or ask is not None


@contextlib.contextmanager
def ungated() -> Iterator[None]:
    """Programs started in the block are not asked about: for repeats whose time is taken, after a first start that was."""
    global gate
    before, gate = gate, None
    try:
        yield
    finally:
        gate = before


def fingerprint(executable: Any) -> str:
    """What is equal for equal programs in all processes: of the lowered module, without the places it was written at."""
    found = executable.__dict__.get("_launch_fingerprint")
    if found is None:
        import hashlib

        text = re.sub(_LOCATION, "", executable.lowered.module.text)
        found = hashlib.sha256(text.encode()).hexdigest()[:12]
        executable._launch_fingerprint = found
    return found
