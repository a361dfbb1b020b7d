"""`target`: a program as the compiler of another machine would make it: a TPU slice of any size, on a machine that has none."""

from __future__ import annotations

from typing import Any

from xlab.backend import tpu_target
from xlab.interpreters import traffic
from xlab.observe import hlo as _hlo
from xlab.observe.program import mesh_info
from xlab.observe.program import program as _program
from xlab.observe.records import Memory, Notice, Report
from xlab.observe.subject import Subject, subject
from xlab.observe.transfers import transfers as _transfers
from xlab.observe.units import plural

TOPOLOGIES = "tpu:v5e:4x4, tpu:v4:2x2x4, tpu:v5p:4x4x4, tpu:v6e:8x8, tpu:tpu7x:2x2x2"


def topology(name: str) -> str:
    """The topology a target names.

    >>> topology("tpu:v5e:4x4")
    'v5e:4x4'
    """
    platform, _, rest = name.partition(":")
    if platform != "tpu" or ":" not in rest:
        raise ValueError(f"a target is tpu:generation:shape, such as {TOPOLOGIES}; given {name!r}")
    return rest


def target(name: str, what: Any, *args: Any, link: str | traffic.Link = "ici", **kwargs: Any) -> Report:
    """A report of a program compiled ahead of time for another machine; nothing runs.

    It has the scheduled module, the collectives and the memory as that machine's compiler made them. Needs the extra `tpu`.

    Args:
        name: `tpu:generation:shape`, such as `tpu:v5e:2x4`; as many devices as the mesh of the program, or a program for one.
        what: a function with its arguments, or a stage of `jit`.
        link: the interconnect that collectives are predicted for.

    Raises:
        ModuleNotFoundError: without the TPU compiler; the message has the command that installs it.
        ValueError: there is no such topology, or its devices are not as many as the program's.
    """
    wanted = topology(name)
    given = subject(what, args, kwargs)
    low = given.lowered
    text = low.module.text
    made = tpu_target.compile_for(wanted, text if isinstance(text, str) else text.decode(), len(low.devices),
                                  [s is None for s in low.out_shardings])
    about = Subject(given.closed, given.name, lowered=low)
    about.__dict__["hlo"] = _hlo.parse(made["hlo"])      # what the other machine would run, in place of this one's
    moved = _transfers(about, link=link)
    stats = made["memory"]
    used = Memory(about.name, stats["argument_size_in_bytes"], stats["output_size_in_bytes"], stats["temp_size_in_bytes"],
                  stats["alias_size_in_bytes"], stats["generated_code_size_in_bytes"], stats["peak_memory_in_bytes"])
    levels = ("stablehlo", *(("propagated", "partitioned") if len(low.devices) > 1 else ()), "optimized")
    return Report(f"{about.name} on {name}", (_program(about, levels=levels),), transfers=moved, memory=(used,),
                  mesh=mesh_info(about.mesh), notices=tuple(_notices(name, made)), opens="collectives")


def _notices(name: str, made: dict[str, Any]) -> list[Notice]:
    devices = plural(len(made["devices"]), "device")
    out = [Notice("info", f"compiled for {name} ({made['kind']}, {devices}) ahead of time; nothing ran, and predicted times are a model")]
    cost = made["cost"]
    seconds = cost.get("optimal_seconds", 0.0)
    if seconds > 0:      # negative where the compiler does not know
        out.append(Notice("info", f"the TPU compiler estimates at best {seconds * 1e6:,.3g} µs a run; an estimate, not a measurement"))
    begun = sum(line.count("-start(") > 0 for line in made["hlo"].splitlines())
    if begun:
        out.append(Notice("info", f"{plural(begun, 'asynchronous operation')} in the schedule: started, and waited for later"))
    return out
