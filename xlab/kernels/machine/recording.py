"""A run as plain data, which is what views draw.

    {"schema": 1, "name": "matmul", "device": null,
     "operands": [{"name": "args[0]", "role": "input", "shape": [32, 32], "dtype": "float32", "space": "default"}, ...],
     "grid": [4, 4, 4],
     "pairs": [{"mesh": null, "core_type": null, "fn": "matmul", "grid": [4, 4, 4], "cores": [0],
                "equations": {"body/0": {"text": "c:f32[8,8] <- a[...]", "line": "matmul.py:7 (matmul)"}, ...}}],
     "events": [...], "schedule": {"kind": "sequential", "entries": [[0, 0, 720]]}, "races": [], "lint": [],
     "cost": null, "turns": 720, "done": true, "left_out": {"events": 0}}

- `operands`: role "captured", "prefetch", "input", "output" or "scratch" (what a core has for itself is there too, with `"owner":
  "core"`). `grid` is that of the first pair.
- `pairs`: `mesh` is a list of [axis, size], `cores` the numbers of the pair's cores; `equations` gives text and line by path.
- `events`: as `events.py` says, in the order in which they happened; a block event has `operand` and `io`, an access `ref` and `kind`.
  Where each device has its own run, events have `device`, its number.
- `schedule.entries`: [turn, core, turns in a row].
- `races`: two accesses each: `ref`, `count`, and pairs of `kinds`, `cores`, `pairs`, `eqns`, `lines`, `slices`, `grids`, `turns`.
- `lint`: `kind`, `text`, `count`, and where it is about a reference `ref`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlab.core import dtypes
from xlab.kernels.machine.events import VERBS
from xlab.kernels.machine.programs import KernelProgram, space_name
from xlab.kernels.machine.text import equations

if TYPE_CHECKING:
    from xlab.kernels.machine.machine import Machine

SCHEMA = 1


@dataclass(frozen=True)
class MachineRecording:
    """What a run has told so far.

    Args:
        data: the contract of views, as nested lists and dicts.

    Example:
        >>> import xlab
        >>> from xlab.kernels import kernel_call
        >>> from xlab.kernels.machine import Machine
        >>> def fill(o_ref):
        ...     o_ref[...] = 1.0
        >>> machine = Machine(kernel_call(fill, xlab.ShapeDtypeStruct((), "float32")))
        >>> _ = machine.run()
        >>> print(machine.record())
        core 0, step (): writes outputs[0], writes outputs[0][]
    """

    data: dict[str, Any]

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(self.data, separators=(",", ":"))

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.data["events"]

    def __str__(self):
        lines: list[str] = []
        last = None
        for e in self.events:
            where = (e["core"], tuple(e["grid"]))
            words = _words(e)
            if where == last:
                lines[-1] += f", {words}"
            else:
                lines.append(f"core {where[0]}, step ({','.join(map(str, where[1]))}): {words}")
            last = where
        return "\n".join(lines)


def _words(e: dict[str, Any]) -> str:
    if "operand" in e:
        box = [f"{a}:{a + n}" for a, n in zip(e["start"], e["shape"])]
        return f"{VERBS[e['io']]} {e['operand']}[{','.join(box)}]"
    box = [f"{a}:{b}" for a, b in e["slice"]]
    return f"{VERBS[e['kind']]} {e['ref']}" + (f"[{','.join(box)}]" if box else "")


def record_of(machine: Machine, start: int = 0, stop: int | None = None) -> MachineRecording:
    """The run of a machine so far."""
    program = machine.program
    data = {
        "schema": SCHEMA,
        "name": program.name,
        "device": program.device,
        "operands": _operands(program),
        "grid": list(program.pairs[0].grid),
        "pairs": _pairs(program, machine),
        "events": _events(machine, start, stop),
        "schedule": machine.schedule.to_json(),
        "races": [r.to_dict() for r in machine.races],
        "lint": machine.lint,
        "cost": _cost(program.cost),
        "turns": machine.count,
        "done": machine.done,
        "left_out": {"events": machine.left_out},
    }
    return MachineRecording(data)


def _events(machine, start, stop) -> list[dict[str, Any]]:
    device = machine.program.device
    more = {} if device is None else {"device": device}
    return [{**e.to_dict(), **more} for e in machine.events(start, stop)]


def _operands(program: KernelProgram) -> list[dict[str, Any]]:
    out = [
        {
            "name": o.name,
            "role": o.role,
            "shape": list(o.aval.shape),
            "dtype": dtypes.name(o.aval.dtype),
            "space": o.space,
        }
        for o in program.operands
    ]
    seen = set()
    for pair in program.pairs:
        for s in pair.sources:
            if s.operand is None and s.aval is not None and s.name not in seen:
                seen.add(s.name)
                out.append(
                    {
                        "name": s.name,
                        "role": "scratch",
                        "shape": list(s.aval.shape),
                        "dtype": dtypes.name(s.aval.dtype),
                        "space": space_name(s.aval.memory_space),
                        "owner": "core",
                    }
                )
    return out


def _pairs(program: KernelProgram, machine: Machine) -> list[dict[str, Any]]:
    out, first = [], 0
    for pair in program.pairs:
        cores = list(range(first, first + len(pair.shares)))
        first += len(cores)
        out.append(
            {
                "mesh": None if pair.mesh is None else [[str(k), n] for k, n in pair.mesh.items()],
                "core_type": pair.core_type,
                "fn": pair.name,
                "grid": list(pair.grid),
                "cores": cores,
                "equations": dict(equations(pair.jaxpr.jaxpr)),
            }
        )
    return out


def _cost(cost: Any) -> Any:
    if cost is None:
        return None
    names = ("flops", "transcendentals", "bytes_accessed", "remote_bytes_transferred")
    return {n: getattr(cost, n) for n in names if hasattr(cost, n)}
