"""`caches`: what was found and what was made, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

from xlab.compile import disk_cache, logs
from xlab.compile.dispatch import eager_cache_info
from xlab.compile.history import ledger
from xlab.config import config
from xlab.observe.records.caches import Caches

MOST_DUMPS = 200


def caches() -> Caches:
    """What the caches of programs did for this process so far.

    Example:
        >>> import xlab
        >>> xlab.clear_caches()
        >>> y = xlab.lax.sin(xlab.lax.sin(1.0))
        >>> made = caches()
        >>> made.eager_hits, made.eager_misses
        (1, 1)
    """
    eager = eager_cache_info()
    entries = list(ledger.entries)
    folder = Path(config.compilation_cache_dir) if config.compilation_cache_dir else None
    sizes = []
    if folder is not None and folder.is_dir():
        for path in folder.glob("*-cache"):
            try:
                sizes.append(path.stat().st_size)
            except OSError:  # another process took it away
                continue
    use = disk_cache.use
    return Caches(
        eager.hits,
        eager.misses,
        eager.currsize,
        len(entries),
        sum(e.duration_ns for e in entries) / 1e3,
        folder is not None and config.enable_compilation_cache,
        use.hits,
        use.misses,
        use.saved * 1e6,
        use.reading * 1e6,
        folder.name if folder is not None else "",
        len(sizes),
        sum(sizes),
        Path(config.dump_ir_to).name if config.dump_ir_to else "",
        tuple(path.name for path in list(logs.dumped)[-MOST_DUMPS:]),
    )
