"""Which decision of the partitioner a compiled collective carries out: found by the equations around its instruction, and by its axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from xlab.interpreters import communication
from xlab.observe.programs import hlo as _hlo
from xlab.observe.sharding.reasons import Cause, Try
from xlab.observe.sharding.reasons import together as gathered


class CollectiveAxes(NamedTuple):
    """The axes that a compiled collective runs over, and the equations whose parts are summed over some, with these."""

    axes: tuple[str, ...]
    summed: set[tuple[int, tuple[str, ...]]]


def joint_cause(
    known: list[Cause], ids: Any, c: _hlo.HloCollective, module: _hlo.Module, run: CollectiveAxes
) -> Cause | None:
    """The cause of a collective; for one combined from several, all of their causes."""
    if len(c.operand_shapes) < 2:
        return _cause(known, ids, c, run)
    together = dict.fromkeys([*ids, *operand_equations(module, c.instruction)])
    unique = {id(k): k for i in together if (k := _cause(known, (i,), c, run)) is not None}
    found = list(unique.values())
    if len(found) < 2:
        return found[0] if found else None
    reason, fix = gathered(found, len(c.operand_shapes))
    # What takes all of them away is one way for each, together.
    one: dict[int, tuple] = {n: spec for k in found if k.tries for n, spec in k.tries[0].specs}
    together_ = Try(
        tuple(sorted(one.items())),
        tuple(sorted({n for k in found if k.tries for n in k.tries[0].free})),
    )
    return replace(
        found[0],
        reason=reason,
        fix=fix,
        operand=operands_text(c.operand_shapes),
        tries=(together_,) if all(k.tries for k in found) else (),
    )


def operands_text(shapes: Sequence[str]) -> str:
    """Types of what a collective moves, equal ones counted and without their layouts.

    >>> operands_text(["f32[]", "f32[4,4]{1,0}", "f32[4,4]{1,0}"])
    'f32[] 2×f32[4,4]'
    """
    counted = Counter(s.split("{")[0] for s in shapes)
    parts = [f"{n}×{s}" if n > 1 else s for s, n in counted.items()]
    return " ".join(parts[:4]) + (f" and {len(parts) - 4} more types" if len(parts) > 4 else "")


def operand_equations(module: _hlo.Module, instruction: _hlo.Instruction) -> list[int]:
    """Equations that made the operands of an instruction, operand by operand."""
    home = _home(module, instruction)
    return [
        i for name in instruction.operands if name in home for i in module.equations_of(home[name])
    ]


def _home(module: _hlo.Module, instruction: _hlo.Instruction) -> dict[str, _hlo.Instruction]:
    return next(
        c for c in module.computations.values() if any(i is instruction for i in c.instructions)
    ).by_name()


def producer(module: _hlo.Module, instruction: _hlo.Instruction) -> tuple[int, ...]:
    """Equations of the nearest operand that has any: what an instruction without a location works on."""
    home = _home(module, instruction)
    todo, seen = list(instruction.operands), set()
    while todo:
        name = todo.pop(0)
        found = home.get(name)
        if found is None or name in seen:
            continue
        seen.add(name)
        ids = module.equations_of(found)
        if ids:
            return ids
        todo += found.operands
    return ()


def consumer(module: _hlo.Module, instruction: _hlo.Instruction) -> tuple[int, ...]:
    """Equations of the nearest reader that has any."""
    home = _home(module, instruction)
    todo, seen = [instruction.name], {instruction.name}
    while todo:
        name = todo.pop(0)
        for user in (i for i in home.values() if name in i.operands and i.name not in seen):
            seen.add(user.name)
            if ids := module.equations_of(user):
                return ids
            todo.append(user.name)
    return ()


_MOVING = frozenset(
    ("bitcast", "copy", "transpose", "reshape", "slice", "dynamic-slice", "pad", "concatenate", "get-tuple-element", "tuple", "all-gather",
     "all-to-all", "collective-permute")
)  # fmt: skip
_COMBINING = frozenset(("reduce", "dot", "convolution", "scatter", "reduce-window", "sort"))


def _moves(module: _hlo.Module, i: _hlo.Instruction) -> bool:
    """Whether an instruction gives entries of its operands, and computes nothing of the program."""
    return i.opcode in _MOVING or (i.opcode == "fusion" and not module.equations_of(i))


def goes_into(module: _hlo.Module, instruction: _hlo.Instruction, equation: int) -> bool:
    """Whether the operation of an equation works on what an instruction gives, moved at most: then none of its results is moved by it."""
    home = _home(module, instruction).values()
    todo, seen = [instruction.name], {instruction.name}
    while todo:
        name = todo.pop()
        for i in (i for i in home if name in i.operands and i.name not in seen):
            seen.add(i.name)
            if _moves(module, i):
                todo.append(i.name)
            elif i.opcode != "fusion" and equation in i.equations:
                return True
    return False


def returned(module: _hlo.Module, instruction: _hlo.Instruction) -> bool:
    """Whether the program gives back what an instruction gives, moved at most."""
    home = _home(module, instruction).values()
    todo, seen = [instruction], {instruction.name}
    while todo:
        here = todo.pop()
        if here.root:
            return here.name in module.entry.by_name()
        found = [i for i in home if here.name in i.operands and i.name not in seen]
        seen.update(i.name for i in found)
        todo += [i for i in found if _moves(module, i)]
    return False


def has_parts(module: _hlo.Module, instruction: _hlo.Instruction, equation: int) -> bool:
    """Whether the operands of an instruction, moved at most, are what an equation combined on each device."""
    home = _home(module, instruction)
    todo, seen = list(instruction.operands), set()
    while todo:
        name = todo.pop()
        found = home.get(name)
        if found is None or name in seen:
            continue
        seen.add(name)
        if found.opcode in _MOVING:
            todo += found.operands
        elif equation in module.equations_of(found):
            inside = (i for c in module.called_by(found) for i in c.instructions)
            if any(i.opcode in _COMBINING and equation in i.equations for i in (found, *inside)):
                return True
    return False


def _cause(
    known: list[Cause], ids: Any, c: _hlo.HloCollective, run: CollectiveAxes
) -> Cause | None:
    """The decision of the partitioner that a compiled collective carries out: one over its axes, and of several one that none has yet."""
    here = [k for k in known if k.equation in ids or k.reader in ids]
    summing = communication.reduces(c.kind)

    def fits(k: Cause) -> tuple[bool, ...]:
        sums = k.kind == "all_reduce"
        instead = sums and (k.equation, k.axes) not in run.summed
        return (
            bool(k.axes and run.axes) and not set(k.axes) & set(run.axes),
            sums != summing and not instead,
            k.used,
            set(k.axes) != set(run.axes),
        )

    if not here:
        return None
    found = min(here, key=fits)
    found.used = True
    return found
