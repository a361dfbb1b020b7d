"""Compiled programs as bytes, to be loaded in another process or onto other devices.

Besides the machine code the bytes hold what calls need: types, names, shardings, layouts, donation and the constants that the program
takes as arguments. Devices stand in it by their place in the program, so that others can take their places. Native code would end the
process over damaged bytes; it gets them only if they are whole and made by the same version.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import errors
from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.backend import compiling as _compiling
from xlab.backend.client import Device
from xlab.backend.shardings import HloSharding, hlo_from_bytes, hlo_to_bytes
from xlab.backend.version import installed
from xlab.compile.executable import Executable
from xlab.compile.lowering import MeshComputation
from xlab.compile.stages import Compiled, Lowered, Traced
from xlab.compile.tracing import TracedProgram, argument_names
from xlab.core.array import KeyArray
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Var
from xlab.interpreters.mlir import LoweredModule
from xlab.sharding import GSPMDSharding, Mesh, SingleDeviceSharding

_MAGIC = b"xlab executable 1\n"


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled program as bytes, and the structures of its arguments and results, for `deserialize_and_load`.

    Args:
        compiled: what `Lowered.compile()` gave.

    Raises:
        TypeError: when it is something else.
        ValueError: when the program belongs to this process: it calls Python, or works on references.

    Example:
        >>> import numpy as np, xlab
        >>> parts = serialize(xlab.jit(lambda x: x * 2).lower(np.ones(3, np.float32)).compile())
        >>> deserialize_and_load(*parts)(np.ones(3, np.float32)).tolist()
        [2.0, 2.0, 2.0]
    """
    if not isinstance(compiled, Compiled):
        raise TypeError(
            f"serialize takes a compiled program, jit(f).lower(...).compile(), got {compiled!r} of type {type(compiled).__name__}"
        )
    exe, lowered = compiled._executable, compiled._lowered
    if exe.callbacks:
        raise ValueError(
            f"serialize of {exe.name}: it calls Python functions, which exist only in this process. Take host callbacks and prints out"
        )
    if lowered._ref_discharge is not None:
        raise ValueError(
            f"serialize of {exe.name}: it works on references, whose arrays exist only in this process. Pass the arrays and return the new ones"
        )
    known = exe.lowered
    content = {
        "name": exe.name,
        "signature": _parameters(lowered._traced),
        "in_avals": exe.in_avals,
        "out_avals": exe.out_avals,
        "names": known.closed.jaxpr.debug_info.arg_names,
        "kept": exe.kept,
        "committed": known.committed,
        "donated": known.donated,
        "in_shardings": known.in_shardings,
        "out_shardings": known.out_shardings,
        "mesh": known.mesh,
        "in_layouts": known.in_layouts,
        "out_layouts": known.out_layouts,
        "ordered": exe.ordered,
        "effects": known.closed.effects,
        "options": known.compiler_options,
        "consts": [
            np.asarray(c.base if isinstance(c, KeyArray) else c) for c in known.module.hoisted
        ],
    }
    packed = io.BytesIO()
    _Pickler(packed, exe.devices).dump(content)
    native = _compiling.serialize(exe.native)
    body = packed.getvalue() + native
    head = {
        "jaxlib": installed(),
        "platform": exe.devices[0].platform,
        "devices": [d.id for d in exe.devices],
        "content": len(packed.getvalue()),
        "digest": hashlib.sha256(body).hexdigest(),
    }
    return _MAGIC + json.dumps(head).encode() + b"\n" + body, compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence | None = None,
) -> Compiled:
    """A program from bytes of `serialize`, ready to be called.

    They are machine code and a pickle: load only what comes from sources that you trust.

    Args:
        serialized, in_tree, out_tree: what `serialize` gave; structures can be pickled.
        backend: the platform it runs on, by name; it has to be that of the program.
        execution_devices: as many devices as it was compiled for, in order; by default those of the same ids.

    Raises:
        ValueError: when the bytes are damaged or of another version or platform, or there are not these devices.
    """
    if not isinstance(serialized, bytes) or not serialized.startswith(_MAGIC):
        raise ValueError(
            "these are not the bytes of a program: give the first of the three values that serialize returned"
        )
    line, _, body = serialized[len(_MAGIC) :].partition(b"\n")
    try:
        head = json.loads(line)
        whole = hashlib.sha256(body).hexdigest() == head["digest"]
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise ValueError("the program is damaged: its bytes are not what serialize returned")
    if head["jaxlib"] != installed():
        raise ValueError(
            f"the program was compiled with jaxlib {head['jaxlib']}, and this is {installed()}: machine code is not carried over. "
            f"Programs that outlive a version are made with xlab.export"
        )
    devices = _devices(head, backend, execution_devices)
    content = _Unpickler(io.BytesIO(body[: head["content"]]), devices).load()
    lowered = _lowered(content, in_tree, out_tree, devices)
    options = _compiling.compile_options(devices, len(devices))
    native = _compiling.deserialize(body[head["content"] :], devices, options)
    return Compiled(lowered, Executable(lowered._lowered, loaded=native))


def _devices(head: dict, backend: Any, execution_devices: Sequence | None) -> tuple:
    platform = backend if isinstance(backend, str) else getattr(backend, "platform", None)
    wanted = head["devices"]
    if execution_devices is None:
        there = {d.id: d for d in _client.devices(platform or head["platform"])}
        missing = [i for i in wanted if i not in there]
        if missing:
            raise ValueError(
                f"the program was compiled for the devices {wanted}, of which {missing} are not there: say where it runs with "
                f"execution_devices, {len(wanted)} of them"
            )
        devices = tuple(there[i] for i in wanted)
    else:
        devices = tuple(execution_devices)
        if len(devices) != len(wanted) or len({d.id for d in devices}) != len(devices):
            raise ValueError(
                f"the program was compiled for {len(wanted)} devices, and execution_devices are {[d.id for d in devices]}: give as many, "
                f"each once"
            )
    if devices[0].platform != head["platform"]:
        raise ValueError(
            f"the program was compiled for the platform {head['platform']}, and is to run on {devices[0].platform}: compile it there"
        )
    return devices


# -- what stands for devices and tilings --------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, devices: Sequence):
        super().__init__(file, protocol=5)
        self.places = {d: i for i, d in enumerate(devices)}

    def persistent_id(self, x: Any) -> Any:
        if isinstance(x, Device):
            return ("device", self.places[x])
        return ("tiling", hlo_to_bytes(x)) if isinstance(x, HloSharding) else None

    def reducer_override(self, x: Any) -> Any:
        # These are pickled by the ids of devices elsewhere.
        if type(x) is Mesh:
            return _mesh, (x.devices.ravel().tolist(), x.devices.shape, x.axis_names, x.axis_types)
        if type(x) is SingleDeviceSharding:
            return SingleDeviceSharding, (x.device, x.memory_kind)
        if type(x) is GSPMDSharding:
            return GSPMDSharding, (x.devices_in_order, x.to_hlo_sharding(0), x.memory_kind)
        return NotImplemented


def _mesh(devices: list, shape: tuple, names: tuple, types: tuple) -> Mesh:
    made = np.empty(len(devices), dtype=object)
    made[:] = devices
    return Mesh(made.reshape(shape), names, types)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, devices: Sequence):
        super().__init__(file)
        self.devices = devices

    def persistent_load(self, pid: Any) -> Any:
        kind, what = pid
        return self.devices[what] if kind == "device" else hlo_from_bytes(what)


# -- the stages before, as far as they are known -------------------------------------------------------------


class _Origin:
    """Stands for the jit that made a program: what errors of calls say of its parameters."""

    def __init__(self, name: str, parameters: Sequence, donated: Sequence[int]):
        self.name, self._donated = name, frozenset(donated)
        self.fun = _signed(parameters)

    def names(self, in_tree: Any, n: int, static: tuple) -> tuple[str, ...]:
        return argument_names(self.fun, in_tree, n)

    def donated(self, in_tree: Any, n: int) -> tuple[bool, ...]:
        return tuple(i in self._donated for i in range(n))

    def of_results(self, program: TracedProgram, read: Any) -> tuple:
        return (None,) * len(program.closed.out_avals)


def _signed(parameters: Sequence) -> Any:
    def fun(*args, **kwargs):
        raise errors.XlabTypeError("this program was loaded: its function is not here")

    if parameters is not None:
        fun.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect._ParameterKind(kind)) for name, kind in parameters]
        )
    return fun


def _parameters(traced: Traced) -> Any:
    """Names and kinds of the parameters that are not static; None where they are not known."""
    owner = traced._owner
    static = {i for i, _ in traced._static[0]} if traced._static else set()
    try:
        found = inspect.signature(owner.fun).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, int(p.kind)) for i, p in enumerate(found) if i not in static]


class LoadedProgram(Lowered):
    """The stage before a program that came as machine code: its types are known, its text is not."""

    def is_trivial(self) -> bool:
        return False

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        raise _not_here(self.name)

    def compiler_ir(self, dialect: str = "stablehlo") -> Any:
        raise _not_here(self.name)

    def compile(self, compiler_options: Any = None, device_assignment: Any = None) -> Compiled:
        raise _not_here(self.name)

    def cost_analysis(self) -> Any:
        raise _not_here(self.name)

    def __repr__(self) -> str:
        return f"LoadedProgram({self.name})"


def _not_here(name: str) -> ValueError:
    return ValueError(
        f"{name} was loaded as machine code: what it was lowered from is not part of the bytes. as_text() of the compiled program shows what "
        f"runs; xlab.export keeps programs as StableHLO"
    )


def _lowered(content: dict, in_tree: Any, out_tree: Any, devices: tuple) -> LoadedProgram:
    names = content["names"]
    jaxpr = Jaxpr(
        (),
        [Var(a) for a in content["in_avals"]],
        [Var(a) for a in content["out_avals"]],
        [],
        content["effects"],
        debug_info=DebugInfo(content["name"], names),
    )
    closed = ClosedJaxpr(jaxpr, ())
    if in_tree.num_leaves != len(content["in_avals"]) or out_tree.num_leaves != len(
        content["out_avals"]
    ):
        raise ValueError(
            f"{content['name']} has {len(content['in_avals'])} arguments and {len(content['out_avals'])} results, and the structures "
            f"given have {in_tree.num_leaves} and {out_tree.num_leaves}: give those that serialize returned with these bytes"
        )
    computation = MeshComputation(
        closed,
        LoweredModule("", content["name"], hoisted=content["consts"], ordered=content["ordered"]),
        content["name"],
        devices,
        content["committed"],
        content["kept"],
        content["in_shardings"],
        content["out_shardings"],
        content["donated"],
        content["mesh"],
        content["options"],
        in_layouts=content["in_layouts"],
        out_layouts=content["out_layouts"],
    )
    origin = _Origin(content["name"], content["signature"], content["donated"])
    program = TracedProgram(closed, out_tree, content["name"])
    flat = _tree.leaves(_tree.unflatten(in_tree, content["in_avals"]))
    return LoadedProgram(Traced(origin, program, flat, in_tree), computation)
