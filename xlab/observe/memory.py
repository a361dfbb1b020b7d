"""Memory of a compiled program: what the compiler reports, and the values behind it with their lifetimes in the schedule."""

from __future__ import annotations

from typing import Any

from xlab.backend import client as _client
from xlab.backend import compiling as _compiling
from xlab.core.array import is_native_array
from xlab.observe import hlo as _hlo
from xlab.observe import names as _names
from xlab.observe.layout import of_sharding
from xlab.observe.records import Buffer, Layout, Memory
from xlab.observe.subject import Subject, subject

# Operations whose result is their operand's memory, or part of it.
_ALIASES = ("bitcast", "tuple", "get-tuple-element", "optimization-barrier", "while", "copy-done", "all-reduce-done",
            "all-gather-done", "collective-permute-done")


def memory(what: Any, *args: Any, program: int = 0, **kwargs: Any) -> Memory:
    """Bytes per device of a compiled program, its buffers over the schedule, and what became of donations.

    Totals are the compiler's own. Buffers are the entry's values by size; loops count as one step, and several values of
    disjoint lifetimes may share memory.

    Example:
        >>> import numpy as np
        >>> m = memory(lambda x: x, np.ones(4, np.float32))
        >>> m.arguments, m.outputs
        (16, 16)
    """
    about = subject(what, args, kwargs)
    stats = _compiling.memory_stats(about.executable.native)
    buffers, peak_step = _buffers(about)
    donated, refused = _donations(about)
    return Memory(about.name, stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.temp_size_in_bytes, stats.alias_size_in_bytes,
                  stats.generated_code_size_in_bytes, stats.peak_memory_in_bytes, peak_step, buffers, donated, refused, program)


def _buffers(about: Subject) -> tuple[tuple[Buffer, ...], int]:
    module = about.hlo
    entry = module.entry.instructions
    owners: dict[str, tuple[str, ...]] = {}        # value: the buffers it lies in
    last: dict[str, int] = {}
    made: dict[str, int] = {}
    by_name = {i.name: i for i in entry}
    for step, i in enumerate(entry):
        for operand in i.operands:
            for owner in owners.get(operand, ()):
                last[owner] = step
        if i.opcode in _ALIASES:
            owners[i.name] = tuple(dict.fromkeys(o for name in i.operands for o in owners.get(name, ())))
        else:
            owners[i.name] = (i.name,)
            made[i.name] = last[i.name] = step
    end = len(entry) - 1
    root = next((i for i in entry if i.root), entry[-1])
    results = set(owners.get(root.name, ()))
    out = []
    arguments = _argument_names(about)
    for name, start in made.items():
        i = by_name[name]
        size = i.bytes
        if not size:
            continue
        kind, stop, shown = "temporary", last[name], name
        if i.opcode == "parameter":
            kind, start, stop = "argument", 0, end
            number = int(i.argument) if i.argument.isdigit() else -1
            shown = arguments[number] if 0 <= number < len(arguments) else name
        elif i.opcode == "constant":
            kind, start, stop = "constant", 0, end
        elif name in results:
            kind, stop = "output", end
        ids = module.equations_of(i)
        eqn = about.equations.get(ids[-1]) if ids else None
        out.append(Buffer(shown, size, kind, start, stop, name, ids[-1] if eqn is not None else -1,
                          _names.source_of(eqn) if eqn is not None else None))
    change: dict[int, int] = {}
    for b in out:
        change[b.start] = change.get(b.start, 0) + b.size
        change[b.end + 1] = change.get(b.end + 1, 0) - b.size
    now = best = 0
    peak = -1
    for step in sorted(change):
        now += change[step]
        if now > best:
            best, peak = now, step
    return tuple(sorted(out, key=lambda b: (b.start, b.name))), peak


def _argument_names(about: Subject) -> list[str]:
    low = about.lowered
    names = low.closed.jaxpr.debug_info.arg_names
    kept = [names[i] if i < len(names) else f"argument {i}" for i in low.kept]
    return kept + [f"constant {i}" for i in range(len(low.module.hoisted))]


def _donations(about: Subject) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Names of donated arguments whose buffer a result took, and of those where none did, with the reason."""
    low = about.lowered
    header = about.hlo.text.split("\n", 1)[0]
    aliased = _hlo.attribute(header, "input_output_alias")
    names = _argument_names(about)
    used, refused = [], []
    for i in low.donated:
        position = low.kept.index(i)
        if f"({position}," in aliased:
            used.append(names[position])
        else:
            refused.append((names[position], f"no result of type {low.closed.in_avals[i]} was placed in it by the compiler"))
    for i in low.refused:
        name = low.closed.jaxpr.debug_info.arg_names[i] if i < len(low.closed.jaxpr.debug_info.arg_names) else f"argument {i}"
        why = "the program does not read it" if i not in low.kept else f"no result has its type, {low.closed.in_avals[i]}"
        refused.append((name, why))
    return tuple(used), tuple(refused)


def live_arrays(limit: int | None = None) -> tuple[Layout, ...]:
    """Layouts of the arrays that are alive now, the largest first; nothing is read from them.

    Example:
        >>> isinstance(live_arrays(limit=3), tuple)
        True
    """
    found = [x for x in _client.live_arrays() if is_native_array(x) and not x.is_deleted()]
    found.sort(key=lambda x: -x.aval.nbytes)
    return tuple(of_sharding(x.sharding, x.aval, committed=bool(x.committed)) for x in found[:limit])
