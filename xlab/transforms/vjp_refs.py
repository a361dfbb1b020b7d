"""Cotangents accumulated in references: the requests and answers of `pullback.with_refs`."""

from __future__ import annotations

from dataclasses import dataclass

from xlab import tree as _tree
from xlab.core.refs import is_ref
from xlab.lax.ref_functions import ref_addupdate


@dataclass(frozen=True)
class GradValue:
    """Asks for a cotangent as a value."""


@dataclass(frozen=True)
class DontWant:
    """Asks for no cotangent."""


@dataclass(frozen=True)
class GradRef:
    """Says that a cotangent was added to the reference that was given."""


@dataclass(frozen=True)
class DidntWant:
    """Says that a cotangent was not asked for."""


def with_refs(pullback, wanted: tuple):
    """The pullback with cotangents added to references, returned, or dropped, as `wanted` says per primal."""
    leaves, tree = _tree.flatten(wanted)
    if tree != pullback.in_tree:
        raise ValueError(
            f"with_refs takes one entry per primal, with their structure {pullback.in_tree}, got {tree}"
        )
    for x in leaves:
        if not is_ref(x) and not isinstance(x, (GradValue, DontWant)):
            raise TypeError(
                f"with_refs takes references, xlab.ad.GradValue() and xlab.ad.DontWant(), got {x!r} of type "
                f"{type(x).__name__}"
            )

    def pull(cotangent):
        out = []
        for x, ct in zip(leaves, _tree.leaves(pullback(cotangent))):
            if is_ref(x):
                ref_addupdate(x, None, ct)
                out.append(GradRef())
            else:
                out.append(ct if isinstance(x, GradValue) else DidntWant())
        return _tree.unflatten(tree, out)

    return pull
