"""Donated arrays: an error for using one again, which names the call it was donated to.

A call with a donated argument leaves an array without data. That array is marked as deleted at once, and so are arrays that share
its buffers: native code checks only this mark before it starts a program, and would otherwise read freed memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.core import source_info


def take(arrays: Sequence[Any], name: str) -> None:
    """Records that a call of `name`, just started, took the arrays that are now deleted."""
    frame = source_info.user_frame(3)
    taker = (name, None, 0) if frame is None else (name, frame.f_code, frame.f_lasti)
    is_deleted, mark_deleted, sharing = _arrays.is_deleted, _arrays.mark_deleted, _arrays.sharing
    try:
        for x in filter(is_deleted, arrays):
            if sharing and id(x) in sharing:
                for one in _arrays.give_up(x):
                    one._xlab_taken = taker  # type: ignore[attr-defined]  # native arrays take attributes
            else:
                mark_deleted(x)
                x._xlab_taken = taker
    except TypeError:  # there are other values among them; keys are made of an array
        native = [x if type(x) is _arrays.ArrayImpl else getattr(x, "base", None) for x in arrays]
        take([x for x in native if type(x) is _arrays.ArrayImpl], name)


def delete(x: Any) -> None:
    """Frees the buffers of an array; a later use of it, or of an array sharing them, names this place."""
    if x.is_deleted():
        return
    frame = source_info.user_frame(2)
    for one in _arrays.give_up(x):
        one._xlab_taken = ("", frame and frame.f_code, frame.f_lasti if frame else 0)  # type: ignore[attr-defined]


def gone(x: Any) -> RuntimeError:
    """The error for using a deleted or donated array: its type, and the call and line that took it."""
    taken = getattr(x, "_xlab_taken", None)
    kind = x.aval.str_short(short_dtypes=True)
    if taken is None:
        return RuntimeError(
            f"the array of type {kind} was deleted or donated: it has no buffers any more. Keep it, or make it again"
        )
    name, code, lasti = taken
    place = f" at {source_info.position(code, lasti)}" if code is not None else ""
    if not name:
        return RuntimeError(
            f"the array of type {kind} was deleted: x.delete(){place} freed its buffers. Keep it, or make it again"
        )
    return RuntimeError(
        f"the array of type {kind} was deleted or donated: the call of {name}{place} took it, and its buffer now belongs to a "
        f"result of that call. Use that result, or do not donate this argument there, or give it a copy (x.copy())"
    )


def check_alive(x: Any) -> None:
    """Raises if an array, or the base array of keys, was deleted or donated."""
    if x.is_deleted():
        raise gone(getattr(x, "base", x))


def clash(args: Sequence[Any], donated: Sequence[int]) -> tuple[int, int] | None:
    """The positions of a donated argument and of another argument that shares its buffers."""
    if _arrays.all_apart(args):
        return None
    given: dict[int, int] = {}
    for i, x in enumerate(args):
        if type(x) is _arrays.ArrayImpl:
            j = given.setdefault(_arrays.alias_group(x), i)
            if j != i and (i in donated or j in donated):
                return j, i
    return None


def check_apart(
    name: str, args: Sequence[Any], donated: Sequence[int], names: Callable[[], Sequence[str]]
) -> None:
    """Raises if a donated argument shares its buffers with another argument of the call.

    Args:
        donated: positions in `args` of those it takes.
        names: gives those of all arguments.
    """
    found = clash(args, donated)
    if found is None:
        return
    j, i = found
    x, called = args[i], names()
    same = "the same array" if x is args[j] else "arrays that share their buffers"
    both = i in donated and j in donated
    taken, other = (i, j) if i in donated else (j, i)
    how = "both are donated" if both else f"`{called[taken]}` is donated"
    raise RuntimeError(
        f"jit({name}) was given {same}, of type {x.aval.str_short(short_dtypes=True)}, as `{called[j]}` and as `{called[i]}`, and {how}: a buffer "
        f"that is given away cannot be used once more, as in f(donated(x), x). Pass a copy for `{called[other]}` (x.copy()), "
        f"or donate neither"
    )
