"""Calls of functions that are given buffers: which arguments those are, and what is noted of each call."""

from __future__ import annotations

from xlab import tree as _tree
from xlab.core import donation
from xlab.core.trace import EVAL, state


def donations(jitted, in_tree, n) -> tuple[bool, ...]:
    """Which leaves of the arguments a function is given for good."""
    if not jitted.donate_argnums and not jitted.donate_argnames:
        return (False,) * n
    args, kwargs = _tree.unflatten(in_tree, list(range(n)))
    static = len(jitted.static_argnums)
    out = [False] * n
    positions = {i - sum(s < i for s in jitted.static_argnums) if static else i for i in jitted.donate_argnums}
    for i, a in enumerate(args):
        if i in positions or i - len(args) in positions:
            for leaf in _tree.leaves(a):
                out[leaf] = True
    for k, v in kwargs.items():
        if k in jitted.donate_argnames:
            for leaf in _tree.leaves(v):
                out[leaf] = True
    return tuple(out)


def give(jitted, native, *args, **kwargs):
    """Every call of a function that is given buffers: what `native` does, and the arrays it took are noted.

    A program may only start on arrays that are apart, and whoever uses one of these later has to be told of this call: native code
    does neither.
    """
    if state.trace is not EVAL:
        return jitted.miss(*args, **kwargs)
    flat, in_tree, static = jitted.flatten(args, kwargs)
    known = jitted.known(flat, in_tree, static)
    if known is not None:
        return known[0], None
    positions = jitted.given.get(in_tree)
    if positions is None:
        positions = jitted.given[in_tree] = tuple(i for i, d in enumerate(donations(jitted, in_tree, len(flat))) if d)
    if donation.clash(flat, positions) is not None:
        return jitted.miss(*args, **kwargs)[0], None      # which sees whether the program takes any of those
    out = native(*args, **kwargs)
    donation.take([flat[i] for i in positions], f"jit({jitted.name})")
    return out, None
