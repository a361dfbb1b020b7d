"""`analysis_only`: compiles for inspection only, kept out of the ledger and without native warnings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from xlab.backend.native_warnings import suppress_warnings
from xlab.compile.history.unlisted import unlisted

__all__ = ["analysis_only", "suppress_warnings"]


@contextlib.contextmanager
def analysis_only() -> Iterator[None]:
    """Compiles of this thread in the block are not listed in the ledger and write no native warnings.

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
