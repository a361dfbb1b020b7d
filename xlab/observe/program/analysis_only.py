"""`analysis_only`: compiles that are made to look at a program and never run are nobody's: not in the ledger, and not heard of twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from xlab.backend.native_warnings import suppress_warnings
from xlab.compile.history.ledger import is_unlisted as is_looking
from xlab.compile.history.ledger import unlisted

__all__ = ["is_looking", "analysis_only", "suppress_warnings"]


@contextlib.contextmanager
def analysis_only() -> Iterator[None]:
    """What this thread compiles in a block is not listed in the ledger and writes no native warnings.

    >>> import numpy as np, xlab
    >>> from xlab import observe
    >>> before = len(observe.ledger().entries)
    >>> with analysis_only():
    ...     made = xlab.jit(lambda x: x + 1).lower(np.ones(3, np.float32)).compile()
    >>> len(observe.ledger().entries) - before
    0
    """
    with suppress_warnings(), unlisted():
        yield
