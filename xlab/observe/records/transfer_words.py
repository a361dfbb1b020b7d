"""The words that a collective is told in: what it is, over what, who asked for it, why, and what to do about it."""

from __future__ import annotations

from xlab.observe.records.nouns import Transfer
from xlab.observe.records.units import plural

CAUTION = "(!)"
"""Stands behind what the partitioner moves because two shardings disagree."""


def transfer_name(t: Transfer) -> str:
    """`all_reduce add`."""
    return f"{t.kind} {t.reduction}".strip()


def transfer_over(t: Transfer) -> str:
    """The mesh axes, or the groups, it runs over."""
    if t.axes:
        return ",".join(t.axes)
    if t.groups:
        return f"{plural(len(t.groups), 'group')} of {len(t.groups[0])}"
    return f"{plural(len(t.pairs), 'pair')}" if t.pairs else "all"


def transfer_origin(t: Transfer, caution: str = CAUTION) -> str:
    """`you (psum)`, `partitioner`, or `partitioner (!)` where two shardings disagree."""
    if t.origin == "user":
        return f"you ({t.call})" if t.call else "you"
    return f"partitioner {caution}" if t.reshards else "partitioner"


def advice_word(tried: bool) -> str:
    """What goes before advice: a promise where it was followed and held."""
    return "Remove it: " if tried else "Might remove it (not tried): "


def sentences(reason: str, fix: str, tried: bool = True) -> str:
    """A reason and what to do about it, as sentences.

    >>> sentences("w is split", "keep it whole"), sentences("", "keep it whole", tried=False)
    ('w is split. Remove it: keep it whole.', 'Might remove it (not tried): keep it whole.')
    """
    return " ".join(s + "." * (not s.endswith(".")) for s in (reason, f"{advice_word(tried)}{fix}" if fix else "") if s)
