"""Arrays that were given away: who took them, said to whoever uses them again.

A call that may reuse the buffers of an argument leaves an array without data. It is marked as deleted at once, and so are arrays
that share its buffers: native code looks for that mark before it starts a program, and reads whatever it finds where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.core import source_info


def take(arrays: Sequence[Any], name: str) -> None:
    """Notes that a call of `name`, which has just been started, took those of the arrays that are gone."""
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
    except TypeError:       # there are other values among them; keys are made of an array
        native = [x if type(x) is _arrays.ArrayImpl else getattr(x, "base", None) for x in arrays]
        take([x for x in native if type(x) is _arrays.ArrayImpl], name)


def delete(x: Any) -> None:
    """Frees the buffers of an array now; who uses it later, or an array of the same buffers, is told where."""
    if x.is_deleted():
        return
    frame = source_info.user_frame(2)
    for one in _arrays.give_up(x):
        one._xlab_taken = ("", frame and frame.f_code, frame.f_lasti if frame else 0)  # type: ignore[attr-defined]


def gone(x: Any) -> RuntimeError:
    """The error of using an array that has no data any more: its type, and the call and line that took it where one did."""
    taken = getattr(x, "_xlab_taken", None)
    kind = x.aval.str_short()
    if taken is None:
        return RuntimeError(f"the array of type {kind} was deleted or donated: it has no buffers any more. Keep it, or make it again")
    name, code, lasti = taken
    place = f" at {source_info.position(code, lasti)}" if code is not None else ""
    if not name:
        return RuntimeError(f"the array of type {kind} was deleted: x.delete(){place} freed its buffers. Keep it, or make it again")
    return RuntimeError(f"the array of type {kind} was deleted or donated: the call of {name}{place} took it, and its buffer now belongs to a "
                        f"result of that call. Use that result, or do not donate this argument there, or give it a copy (x.copy())")


def check_alive(x: Any) -> None:
    """Raises when an array, or the array that keys are made of, has no data any more."""
    if x.is_deleted():
        raise gone(getattr(x, "base", x))


def clash(args: Sequence[Any], donated: Sequence[int]) -> tuple[int, int] | None:
    """The places of an array among the arguments of a call that takes it, and of itself or of another array of the same buffers."""
    if _arrays.all_apart(args):
        return None
    given: dict[int, int] = {}
    for i, x in enumerate(args):
        if type(x) is _arrays.ArrayImpl:
            j = given.setdefault(_arrays.alias_group(x), i)
            if j != i and (i in donated or j in donated):
                return j, i
    return None


def check_apart(name: str, args: Sequence[Any], donated: Sequence[int], names: Callable[[], Sequence[str]]) -> None:
    """Raises where an array that a call takes is among its arguments twice, itself or as another array of the same buffers.

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
    raise RuntimeError(f"jit({name}) was given {same}, of type {x.aval.str_short()}, as `{called[j]}` and as `{called[i]}`, and {how}: a buffer "
                       f"that is given away cannot be used once more, as in f(donated(x), x). Pass a copy for `{called[other]}` (x.copy()), "
                       f"or donate neither")
