"""Options on the command lines of programs that absl starts: `python train.py --jax_debug_nans=true`.

Ground floor, used by `config.py`. absl is the user's: it is imported only where a program asks for this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["define", "parse"]


def define(options: Iterable[Any], update: Callable[[str, Any], None]) -> None:
    """Defines an absl flag `--jax_NAME` for each option; `absl.app.run` updates those that are given.

    Args:
        options: with a `name`, a `kind`, a `doc`, and `parse` for text.
        update: called with the name and the value of an option that is given.
    """
    from absl import app, flags

    options = tuple(options)
    for option in options:
        if f"jax_{option.name}" in flags.FLAGS:
            continue
        if option.kind is bool:
            flags.DEFINE_bool(f"jax_{option.name}", option.default, option.doc)
        else:
            flags.DEFINE_string(f"jax_{option.name}", None, option.doc)
    app.call_after_init(lambda: _take(options, update))


def parse(options: Iterable[Any], update: Callable[[str, Any], None]) -> None:
    """As `define`, and reads the command line now; arguments that are no options of ours are left alone."""
    from absl import flags

    options = tuple(options)
    define(options, update)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(sys.argv, known_only=True)
    _take(options, update)


def _take(options: Iterable[Any], update: Callable[[str, Any], None]) -> None:
    from absl import flags

    for option in options:
        given = flags.FLAGS[f"jax_{option.name}"]
        if given.present:
            value = given.value
            update(option.name, option.parse(value) if isinstance(value, str) else value)
