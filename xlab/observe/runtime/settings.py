"""`settings`: the options of the runtime, and where each value is from."""

from __future__ import annotations

from xlab.config import FLAGS, config
from xlab.observe.records.settings import Setting, Settings


def settings(word: str = "", *, changed: bool = False) -> Settings:
    """The options of the runtime, with the values of this thread.

    Args:
        word: only those with this in their name.
        changed: only those that do not have their default.

    Example:
        >>> import xlab
        >>> with xlab.debug_nans(True):
        ...     [(s.value, s.source) for s in settings("debug_nans").rows]
        [('True', 'local')]
    """
    rows = [
        Setting(
            name,
            _text(getattr(config, name)),
            config.source(name),
            _text(flag.default),
            flag.doc,
            flag.idle,
        )
        for name, flag in sorted(FLAGS.items())
    ]
    kept = tuple(s for s in rows if word in s.name and (not changed or s.source != "default"))
    return Settings(kept, len(rows) - len(kept))


def _text(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
