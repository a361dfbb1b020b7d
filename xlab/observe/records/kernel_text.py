"""The text forms of a kernel's run, and the words that its view shares with them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from xlab.observe.records.kernel import (
    MILD,
    READS,
    WRITES,
    BlockVisit,
    KernelCost,
    KernelEquation,
    KernelFault,
    KernelLint,
    KernelOperand,
    KernelRace,
    KernelRun,
    RefAccess,
    Roofline,
    inside,
)
from xlab.observe.records.source import line_text
from xlab.observe.records.text import Options, add_form, limited
from xlab.observe.records.units import plural, significant, size_text, table

FAULTS = {
    "bounds": "out of bounds",
    "uninitialized": "uninitialized read",
    "nan": "first NaN",
    "race": "race",
    "deadlock": "deadlock",
    "error": "error",
}
"""What can go wrong in a run, and the words for it."""


def slice_text(name: str, slices: Iterable[tuple[int, int]]) -> str:
    """`args[0][0:4, 8:16]`; a whole scalar is its name.

    >>> slice_text("args[0]", ((0, 4), (7, 8)))
    'args[0][0:4, 7]'
    """
    parts = [str(low) if high == low + 1 else f"{low}:{high}" for low, high in slices]
    return f"{name}[{', '.join(parts)}]" if parts else name


def grid_text(run: KernelRun) -> str:
    """`grid m=4, n=2 (8 steps)`, or what there is instead."""
    if run.kind == "mpmd_map":
        return f"{plural(len(run.pairs), 'program')} on {plural(len(run.cores), 'core')}"
    names = run.grid_names or ("",) * len(run.grid)
    sizes = ", ".join(f"{name}={n}" if name else str(n) for name, n in zip(names, run.grid))
    return f"grid ({sizes}), {plural(run.steps, 'step')}"


def operand_type(o: KernelOperand) -> str:
    """`f32[64,128]`."""
    return f"{o.dtype}[{','.join(map(str, o.shape))}]"


def headline(run: KernelRun) -> str:
    """One sentence: name, kind, grid, how it is known."""
    kind = run.kind if run.kind != run.name else ""
    return "   ".join(filter(None, (run.name, kind, grid_text(run), run.made)))


def step_lines(run: KernelRun) -> Iterator[str]:
    """`core 0, step (1,2): reads args[0][0:4], writes outputs[0:4]`, one line per step; then what the cores do, in the order they did it."""
    shapes = {o.name: o.shape for o in run.operands}
    for (_, core, grid), group in itertools.groupby(
        sorted(run.blocks, key=lambda e: (e.step, e.core)), lambda e: (e.step, e.core, e.grid)
    ):
        touched = list(group)
        words = []
        for verb, which in (("reads", READS), ("writes", WRITES)):
            parts = [
                slice_text(e.operand, inside(e, shapes.get(e.operand, ())))
                for e in touched
                if e.io in which
            ]
            words += [f"{verb} {', '.join(dict.fromkeys(parts))}"] if parts else []
        yield f"core {core}, step ({','.join(map(str, grid))}): {', '.join(words) or 'touches nothing'}"
    if any(run.blocks):
        return
    for e in run.accesses:
        yield f"t={e.t} core {e.core}, step ({','.join(map(str, e.grid))}): {access_text(e)}"


def access_text(e: RefAccess) -> str:
    """`reads args[0][0:4]`, `waits for sems[0] (1), until t=9`."""
    where = slice_text(e.ref, e.slice)
    if e.kind == "signal":
        return f"signals {where} (+{e.count})" + (f" of core {e.of}" if e.of else "")
    if e.kind == "wait":
        return f"waits for {where} ({e.count})" + (f", until t={e.until}" if e.until > e.t else "")
    if e.kind == "copy":
        return f"copies {e.of} to {where}"
    verb = {"read": "reads", "write": "writes", "accum": "adds to"}.get(e.kind, e.kind)
    return f"{verb} {where}" + (f", {plural(e.masked, 'lane')} masked" if e.masked else "")


def race_text(r: KernelRace) -> str:
    """Both sides of a race in one sentence."""
    sides = [
        f"core {core} {'reads' if kind == 'read' else 'adds to' if kind == 'accum' else 'writes'} {slice_text(r.ref, s)}"
        + (f" ({line_text(where)})" if where else "")
        for core, kind, s, where in zip(r.cores, r.kinds, r.slices, r.sources)
    ]
    return f"{sides[0]} and {sides[1]}, in no order"


def fault_text(f: KernelFault) -> str:
    """Kind, place and words of a fault."""
    where = f"step {f.step + 1}" if f.step >= 0 else f"t={f.t}" if f.t >= 0 else "the start"
    return f"{FAULTS.get(f.kind, f.kind)} at {where}, core {f.core}: {f.text}" + (
        f" ({line_text(f.source)})" if f.source else ""
    )


def movement_rows(cost: KernelCost) -> list[tuple[str, ...]]:
    """Rows of the table of what moves, without its head."""
    return [
        (
            m.operand,
            m.io,
            f"{m.visits:,}",
            f"{m.moves:,}",
            f"{m.distinct:,}",
            size_text(m.moved),
            size_text(m.least),
            f"{significant(m.most / m.moved, trim=True)}×" if m.moved else "",
        )
        for m in cost.movement
    ]


MOVEMENT_HEAD = ("operand", "io", "steps", "moves", "blocks", "moved", "at least", "reuse")


def intensity_line(cost: KernelCost) -> str:
    """Bytes moved, operations per byte, and where the operations come from."""
    words = [f"{size_text(cost.moved)} moved"]
    if cost.flops:
        words.append(f"{cost.flops:,} flops ({cost.origin})")
    if cost.intensity is not None:
        words.append(f"{significant(cost.intensity)} flops per byte")
    return ", ".join(words)


def bound(cost: KernelCost, roof: Roofline) -> tuple[float, str]:
    """What a machine can reach at this intensity, in operations per second, and what bounds it."""
    reach = (cost.intensity or 0.0) * roof.bandwidth
    return (reach, "bandwidth") if reach < roof.flops else (roof.flops, "arithmetic")


def roofline_line(cost: KernelCost, roof: Roofline) -> str:
    """`tpu:v5e: at most 12.3 TFLOP/s of 197, bound by bandwidth (819 GB/s)`."""
    reach, by = bound(cost, roof)
    return (
        f"{roof.target}: at most {significant(reach / 1e12)} of {significant(roof.flops / 1e12)} TFLOP/s, bound by {by} "
        f"(ridge at {significant(roof.flops / roof.bandwidth if roof.bandwidth else 0.0)} flops per byte)"
    )


def waiting_line(run: KernelRun) -> str:
    """Who waits for how long, all cores together."""
    waits = Counter(
        {
            e.core: 0
            for e in run.accesses
            if e.kind == "wait" and (e.until > e.t or (e.until < 0 and run.faults))
        }
    )
    for e in run.accesses:
        if e.core in waits and e.kind == "wait":
            waits[e.core] += max(0, (e.until if e.until >= 0 else run.time) - e.t)
    return ", ".join(f"core {core} waits {n} of {run.time}" for core, n in sorted(waits.items()))


def _kernel(run: KernelRun, o: Options) -> str:
    lines = [headline(run)]
    for number, pair in enumerate(run.pairs if run.kind == "mpmd_map" else ()):
        cores = (
            f"cores {pair.cores[0]}…{pair.cores[-1]}"
            if len(pair.cores) > 1
            else "core " + "".join(map(str, pair.cores))
        )
        lines.append(f"  pair {number}: {pair.fn} on {pair.mesh} ({pair.core_type}), {cores}")
    rows = [
        (
            x.name,
            operand_type(x),
            x.role,
            x.space,
            f"({', '.join(x.block)})" if x.block else "whole",
            x.index_map,
        )
        for x in run.operands
    ]
    lines += [table(rows)] if rows else []
    lines += [f"  {'warning' if f.kind in MILD else 'error'}: {fault_text(f)}" for f in run.faults]
    lines += [f"  error: {race_text(r)}" for r in run.races]
    lines += [f"  warning: {x.text}" + (f" Fix: {x.fix}" if x.fix else "") for x in run.lints]
    shown = list(itertools.islice(step_lines(run), None if o.limit is None else o.limit + 1))
    steps, _ = limited(shown, o, "step")
    lines += ["", *(f"  {line}" for line in steps)] if steps else []
    if len(shown) > len(steps):
        more = sum(1 for _ in step_lines(run)) - len(steps)
        lines.append(f"  … {plural(more, 'more line')}: text(record, limit=None) shows all")
    if run.scheduled_by:
        lines += ["", f"  schedule: {run.scheduled_by}, {plural(run.time, 'equation')}"]
        lines += [f"  {waits}"] if (waits := waiting_line(run)) else []
    if run.cost is not None and run.cost.movement:
        lines += ["", table([MOVEMENT_HEAD, *movement_rows(run.cost)], "llrrrrrr")]
        lines += [f"  {intensity_line(run.cost)}"]
        if run.cost.intensity is not None:
            lines += [f"  {roofline_line(run.cost, roof)}" for roof in run.cost.rooflines]
    lines += [f"  not kept: {words}" for words in run.left_out]
    return "\n".join(lines)


add_form(KernelRun, _kernel)
add_form(KernelOperand, lambda x, o: f"{x.name}: {operand_type(x)} {x.role}, {x.space}")
add_form(RefAccess, lambda e, o: f"t={e.t} core {e.core}: {access_text(e)}")
add_form(
    BlockVisit,
    lambda e, o: (
        f"step {e.step}: {e.io} {slice_text(e.operand, ((a, a + n) for a, n in zip(e.start, e.shape)))}"
    ),
)
add_form(KernelRace, lambda r, o: race_text(r))
add_form(KernelEquation, lambda e, o: f"{e.path}: {e.text}")
add_form(KernelFault, lambda f, o: fault_text(f))
add_form(
    KernelLint,
    lambda x, o: f"{x.operand}: {x.text}" if x.operand else x.text,
)
