"""The ledger: every compile of the process, why it happened, what its key was beside all earlier ones, and what would avoid it."""

from __future__ import annotations

import re
from typing import Any

from xlab import events
from xlab.compile.history import ledger as _ledger
from xlab.compile.history import parts as _parts
from xlab.core.source_info import shown_name
from xlab.observe.programs.recorder import Session
from xlab.observe.records import Compilation, Difference, Ledger, Source

MOST_EARLIER = 50
"""Earlier keys that the latest compile of a function is held against; those before it against `FEWER_EARLIER`."""
FEWER_EARLIER = 8
MOST_PARTS = 12
"""Parts of a key that stand beside one another."""

_FIXES = {
    "text": "run {was} again in place of its copy: nothing is traced then",
    "shape": "pad {what} to a fixed size, or compile the sizes you need once: {function}.lower(...).compile()",
    "dtype": "convert once before the call: {what} = xlab.numpy.asarray({what}, dtype)",
    "weak type": "pass a value with a dtype of its own instead of a Python number: xlab.numpy.{dtype}({what})",
    "structure": "pass arguments with the same keys and lengths at every call",
    "static value": "make the value an ordinary argument if the program does not depend on it",
    "sharding": "place {what} once: {what} = xlab.device_put({what}, sharding), or give jit in_shardings",
    "committed": "place {what} at every call in the same way, or give jit in_shardings",
    "mesh": "call under the same mesh: with xlab.set_mesh(mesh)",
    "context": "set {what} once, before the first call: xlab.config.update({what!r}, value)",
    "backend": "put {what} on one kind of device: {what} = xlab.device_put({what}, sharding)",
    "closure": "pass {what} as an argument: an array if its value may vary, or with static_argnames={what!r}",
    "donated set": "give every jit of the function the same {what}, or call jit once and keep what it returns",
    "option": "give every jit of the function the same {what}, or call jit once and keep what it returns",
    "layout": "ask every jit of the function for the same layout, or leave it to the default: in_shardings=sharding instead of a Format",
    "jit": "call jit once and keep what it returns: {what} = xlab.jit({what})",
    "function": "define the function once, outside the loop or the function that makes it",
    "definition": "define {what} once, before the loop or in a cell of its own",
}
_DISK_FIXES = {
    "jaxlib": "programs are stored per version of jaxlib: the first run after an upgrade compiles",
    "XLA_FLAGS": "start every process with the same XLA_FLAGS",
    "devices": "run on the same devices: programs are stored for those they were compiled for",
    "compiler options": "give jit the same compiler_options",
}


def ledger(session: Session | None = None, *, eager: bool = False) -> Ledger:
    """Every compile of the process that is still in the list, or those of one recording; oldest first.

    Args:
        session: only compiles inside this recording. They are held against earlier ones all the same.
        eager: include the one-operation programs of eager calls.
    """
    together: dict[tuple[Any, ...], list[_ledger.Entry]] = {}
    chosen = []
    for entry in list(_ledger.entries):
        same = together.setdefault(entry.function, [])
        same.append(entry)
        if entry.eager and not eager:
            continue
        if session is None or session.start_ns <= entry.start_ns <= (
            session.end_ns or events.clock()
        ):
            chosen.append((entry, same, len(same)))
    texts: dict[int, dict[str, str]] = {}
    out = []
    for entry, same, nth in chosen:
        name, reason, place = _shown(entry)
        # What was not compiled needs no table of why.
        most = 0 if entry.shared else MOST_EARLIER if nth == len(same) else FEWER_EARLIER
        key, earlier = _against(same[:nth], most, texts)
        out.append(
            Compilation(
                name,
                nth,
                entry.duration_ns / 1e3,
                reason,
                _fix(entry),
                tuple(Difference(*d) for d in (*entry.differences, *entry.disk.differences)),
                place,
                f"disk {entry.disk.found}" if entry.disk.found else "",
                entry.disk.reason,
                key,
                earlier,
                sum(e.duration_ns for e in same[:nth]) / 1e3,
                entry.shared,
            )
        )
    return Ledger(tuple(out))


def _against(
    same: list[_ledger.Entry], most: int, texts: dict[int, dict[str, str]]
) -> tuple[Any, Any]:
    """The parts of the last key that are not the same in all, and these parts of the keys before it, oldest first."""
    last = same[-1]
    # One that was traced within another program has no key of its own to be held against.
    numbered = [
        (n, e)
        for n, e in enumerate(same[:-1], 1)
        if (e.key[0] is None) == (last.key[0] is None) and most
    ][-most:]
    if not numbered or last.key == (None, None):
        return (), ()
    before = [e for _, e in numbered]
    for entry in (*before, last):
        if entry.number not in texts:
            texts[entry.number] = _parts.parts(entry.key)
    now = texts[last.number]
    names = list(dict.fromkeys((*now, *(part for e in before for part in texts[e.number]))))
    moved = [n for n in names if any(texts[e.number].get(n) != now.get(n) for e in before)]
    if all(
        any(texts[e.number].get(n) != now.get(n) for n in moved if n not in _OBJECTS)
        for e in before
    ):
        # Other values make other objects: the values tell.
        moved = [n for n in moved if n not in _OBJECTS]
    shown = moved[:MOST_PARTS]
    more = (
        (("…", f"{len(moved) - MOST_PARTS} more parts differ"),) if len(moved) > MOST_PARTS else ()
    )
    which: dict[str, dict[str, str]] = {n: {} for n in shown if n in _OBJECTS}

    def row(entry: _ledger.Entry) -> tuple[tuple[str, str], ...]:
        found = texts[entry.number]
        return (
            *(
                (n, _ordinal(which[n], found.get(n, "")) if n in which else found.get(n, ""))
                for n in shown
            ),
            *more,
        )

    earlier = tuple((n, row(entry)) for n, entry in numbered)
    return row(last), earlier


_OBJECTS = ("function object", "jit")


def _ordinal(known: dict[str, str], value: str) -> str:
    """Numbers objects in the order in which they appeared."""
    return known.setdefault(value, f"no. {len(known) + 1}") if value else ""


def _shown(entry: _ledger.Entry) -> tuple[str, str, Source | None]:
    """Name, sentence and place of a compile as the user knows them: a cell is called by its prompt."""
    file, _, line = entry.position.rpartition(":")
    if line.isdigit():
        cell = entry.shown or shown_name(file)
        name = (
            "".join(f"{outer}(" for outer in entry.made_by) + entry.name + ")" * len(entry.made_by)
        )
        return (
            name,
            entry.reason.replace(f"`{entry.name}`", f"`{name}`"),
            Source(cell or file, int(line), function=entry.name),
        )
    cell = (entry.shown or shown_name(entry.position)) if entry.position else None
    if cell is None:
        return entry.name, entry.reason, None
    return (
        cell,
        entry.reason.replace(f"`{entry.name}`", f"`{cell}`"),
        Source(cell, 1, function=cell),
    )


_LONG = {"f": "float", "i": "int", "u": "uint", "c": "complex", "bf": "bfloat"}


def _dtype(entry: _ledger.Entry) -> str:
    """The dtype of the first difference, as its types have it."""
    found = re.search(r"\b(f|i|u|c|bf)(\d+)\[", " ".join(entry.differences[0][2:]))
    return _LONG[found[1]] + found[2] if found else "float32"


def _fix(entry: _ledger.Entry) -> str:
    if not entry.differences:
        return next((_DISK_FIXES[d[1]] for d in entry.disk.differences if d[1] in _DISK_FIXES), "")
    cause, what, was = entry.differences[0][:3]
    if cause == "closure" and not entry.position.rpartition(":")[2].isdigit():
        return f"{what} = xlab.numpy.asarray({what}) makes it an input of the cell"
    if (
        cause in ("definition", "function")
        and what == entry.name
        and not entry.position.rpartition(":")[2].isdigit()
    ):
        return (
            "run the cell with the same text and the same Python values: a program is made for each"
        )
    is_function = entry.name.isidentifier() and entry.position.rpartition(":")[2].isdigit()
    return _FIXES.get(
        "option" if cause == "sharding" and what.endswith("_shardings") else cause, ""
    ).format(what=what, was=was, function=entry.name if is_function else "f", dtype=_dtype(entry))


def ledger_of(name: str, position: str) -> tuple[Compilation, ...]:
    """The compiles of one function, oldest first: of those with this name that stand at this place."""
    wanted = {
        e.number
        for e in _ledger.entries
        if e.name == name and e.position == position and not e.eager
    }
    if not wanted:
        return ()
    every = [e for e in list(_ledger.entries) if not e.eager]
    return tuple(c for e, c in zip(every, ledger().entries) if e.number in wanted)
