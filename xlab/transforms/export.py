"""`export`: a compiled function as a file that other processes and later versions run.

A program is kept as a portable StableHLO artifact, with the types and structures of its arguments and results, and on request
with the program of its derivative. Called, it is one equation, `call_exported`, whose lowering is the kept program.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.backend import ir as _ir
from xlab.compile.jit import jit
from xlab.compile.tracing import own
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dim_scope import SymbolicScope
from xlab.core.jaxpr import inner_jaxprs
from xlab.interpreters import mlir
from xlab.sharding import NamedSharding
from xlab.transforms.custom_vjp import custom_vjp
from xlab.transforms.export_shapes import check_shapes, result_types, scope_of
from xlab.transforms.export_trees import (
    UnregisteredNode,
    read_aval,
    read_sharding,
    read_tree,
    write_aval,
    write_sharding,
    write_tree,
)
from xlab.transforms.exported_call import (
    DisabledSafetyCheck,
    call_exported_p,
)
from xlab.transforms.vjp import vjp as _vjp

maximum_supported_calling_convention_version = 10
minimum_supported_calling_convention_version = 9
_FORMAT = 3
_FORMAT_OF_SYMBOLIC_SHAPES = 4
_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def default_export_platform() -> str:
    """The platform programs are exported for unless told otherwise."""
    return _client.default_backend()


@dataclass(frozen=True, repr=False, eq=False)
class Exported:
    """A program that can be called, saved and read back; `export` makes it."""

    fun_name: str
    in_tree: Any
    in_avals: tuple
    out_tree: Any
    out_avals: tuple
    platforms: tuple[str, ...]
    mlir_module_serialized: bytes
    module_kept_var_idx: tuple[int, ...]
    nr_devices: int = 1
    ordered_effects: tuple = ()
    unordered_effects: tuple = ()
    disabled_safety_checks: tuple = ()
    calling_convention_version: int = maximum_supported_calling_convention_version
    uses_global_constants: bool = False
    constants: tuple = ()  # large ones, passed to the program before its arguments
    other_programs: tuple = ()  # (platform, program) of platforms whose program is not that of the first
    _in_named_shardings: tuple = ()  # per argument and result: over an abstract mesh, or None
    _out_named_shardings: tuple = ()
    _places: tuple = ()  # in the process that exported: the same over its devices
    _get_vjp: Callable | None = None
    _templates: dict = field(default_factory=dict)

    def __repr__(self):
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, platform: str | None = None) -> str:
        """The program as StableHLO text: that of a platform, by default the first."""
        return _ir.print_module(_ir.from_portable(self._program(platform)), large_constants=None)

    def _program(self, platform: str | None = None) -> bytes:
        return dict(self.other_programs).get(platform, self.mlir_module_serialized)

    in_shardings_hlo = property(
        lambda self: (None,) * len(self.in_avals), doc="None: shardings are named here."
    )
    out_shardings_hlo = property(
        lambda self: (None,) * len(self.out_avals), doc="None: shardings are named here."
    )

    def in_shardings_jax(self, mesh) -> tuple:
        """The shardings of the flat arguments over a mesh of devices; None where the program leaves them open."""
        return tuple(_over(s, mesh) for s in self._in_named_shardings)

    def out_shardings_jax(self, mesh) -> tuple:
        """The shardings of the flat results over a mesh of devices."""
        return tuple(_over(s, mesh) for s in self._out_named_shardings)

    def has_vjp(self) -> bool:
        """Whether the derivative is known."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The program of the derivative: flat arguments and cotangents of the results to cotangents of the arguments."""
        if self._get_vjp is None:
            raise ValueError(
                f"No VJP is available for {self.fun_name}: serialize it with vjp_order=1 to keep its derivative"
            )
        return self._get_vjp(self)

    def call(self, *args, **kwargs):
        """Runs the program, or makes it part of the one being traced."""
        flat, tree = _tree.flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                f"The invocation args and kwargs must have the same pytree structure as when the function "
                f"{self.fun_name!r} was exported: expected {self.in_tree}, got {tree}"
            )
        avals = list(map(aval_of, flat))
        check_shapes(self, avals)
        for i, (got, want) in enumerate(zip(avals, self.in_avals)):
            if got.dtype != want.dtype:
                raise ValueError(
                    f"Dtype mismatch for argument {i} of {self.fun_name}: expected {dtypes.name(want.dtype)} and called with "
                    f"{dtypes.name(got.dtype)}"
                )
        result_types(self, avals)
        return _tree.unflatten(self.out_tree, _flat_call(self)(*flat))

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, with derivatives up to `vjp_order`."""
        scope = scope_of(self.in_avals)
        head = {
            "format": _FORMAT if scope is None else _FORMAT_OF_SYMBOLIC_SHAPES,
            **({} if scope is None else {"constraints": scope.constraints}),
            "fun_name": self.fun_name,
            "in_tree": write_tree(self.in_tree),
            "out_tree": write_tree(self.out_tree),
            "in_avals": list(map(write_aval, self.in_avals)),
            "out_avals": list(map(write_aval, self.out_avals)),
            "platforms": self.platforms,
            "kept": self.module_kept_var_idx,
            "disabled": [c.name for c in self.disabled_safety_checks],
            "version": self.calling_convention_version,
            "constants": [write_aval(aval_of(c)) for c in self.constants],
            "devices": self.nr_devices,
            "others": [name for name, _ in self.other_programs],
            "in_shardings": list(map(write_sharding, self._in_named_shardings)),
            "out_shardings": list(map(write_sharding, self._out_named_shardings)),
        }
        head["digests"] = [
            _digest(self.mlir_module_serialized),
            *(_digest(program) for _, program in self.other_programs),
        ]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as files:
            files.writestr("program.json", json.dumps(head))
            files.writestr("program.stablehlo", self.mlir_module_serialized)
            for name, program in self.other_programs:
                files.writestr(f"program.{name}.stablehlo", program)
            for i, c in enumerate(self.constants):
                files.writestr(f"constant{i}", np.ascontiguousarray(np.asarray(c)).tobytes())
            if vjp_order > 0:
                files.writestr("vjp", bytes(self.vjp().serialize(vjp_order - 1)))
        return bytearray(out.getvalue())


# Bytes; a small file may unpack to any number.
_LONGEST = {
    "program.json": 1 << 26,
    "program.stablehlo": 1 << 30,
}


def deserialize(blob: bytes | bytearray) -> Exported:
    """The program that `Exported.serialize` wrote.

    Its digests detect damage, on which native code may end the process. They are no signature: an attacker can compute them
    too, so load only files from sources that you trust.

    Raises:
        ValueError: for bytes that are anything else, damaged, or of a version that stored no digests.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(bytes(blob))) as files:
            head = json.loads(_unpacked(files, "program.json"))
            if not isinstance(head, dict) or "format" not in head:
                raise ValueError("its head is not what `serialize` writes")
            if head["format"] not in (_FORMAT, _FORMAT_OF_SYMBOLIC_SHAPES):
                raise _OtherFormat(
                    f"the exported program has format {head['format']}, this version reads {_FORMAT}: export it again"
                )
            return _read(head, files)
    except (_OtherFormat, UnregisteredNode):
        raise
    except Exception as e:  # any error here means that the file is invalid
        raise ValueError(
            f"these bytes are not an exported program: {type(e).__name__}: {e}"
        ) from None


class _OtherFormat(ValueError):
    """A program that another version exported."""


def _digest(program: bytes) -> str:
    return hashlib.sha256(program).hexdigest()


def _unpacked(files: zipfile.ZipFile, name: str, size: int | None = None) -> bytes:
    """A decompressed part of the file; raises if it has another size than given, or is too large."""
    said = files.getinfo(name).file_size
    if said > _LONGEST.get(name, 1 << 30) if size is None else said != size:
        raise ValueError(
            f"its part {name!r} is said to have {said} bytes"
            + ("" if size is None else f", and has to have {size}")
        )
    return files.read(name)


def _read(head: dict, files: zipfile.ZipFile) -> Exported:
    scope = SymbolicScope(head["constraints"]) if "constraints" in head else None
    ins, outs = (tuple(read_aval(a, scope) for a in head[k]) for k in ("in_avals", "out_avals"))
    in_tree, out_tree, kept = (
        read_tree(head["in_tree"]),
        read_tree(head["out_tree"]),
        tuple(head["kept"]),
    )
    in_shardings, out_shardings = (
        tuple(map(read_sharding, head.get(k, ()))) for k in ("in_shardings", "out_shardings")
    )
    platforms, others, devices, name = (
        tuple(head["platforms"]),
        tuple(head.get("others", ())),
        head.get("devices", 1),
        head["fun_name"],
    )
    fits = (
        in_tree.num_leaves == len(ins)
        and out_tree.num_leaves == len(outs)
        and len(in_shardings) in (0, len(ins))
        and len(out_shardings) in (0, len(outs))
        and type(devices) is int
        and devices > 0
        and type(name) is str
        and all(type(i) is int and 0 <= i < len(ins) for i in kept)
        and len(set(kept)) == len(kept)
        and platforms
        and {*platforms, *others} <= {*_PLATFORMS}
        and all(type(c) is str for c in head["disabled"])
        and type(head["version"]) is int
    )
    if not fits:
        raise ValueError("the parts of its head contradict one another")
    constants = []
    for i, c in enumerate(head["constants"]):
        aval = read_aval(c)
        constants.append(
            np.frombuffer(_unpacked(files, f"constant{i}", aval.nbytes), aval.dtype).reshape(
                aval.shape
            )
        )
    further = _unpacked(files, "vjp") if "vjp" in files.namelist() else None
    programs = [
        _unpacked(files, part)
        for part in ("program.stablehlo", *(f"program.{n}.stablehlo" for n in others))
    ]
    if "digests" not in head:
        raise _OtherFormat(
            "the exported program has no digests, so nothing tells whether it is damaged: an earlier version stored it. Make it "
            "again with xlab.export.export(f)(*args).serialize()"
        )
    if list(map(_digest, programs)) != head["digests"]:  # native code may end the process over it
        raise ValueError("the program is damaged: it is not what was stored")
    return Exported(
        name,
        in_tree,
        ins,
        out_tree,
        outs,
        platforms,
        programs[0],
        kept,
        nr_devices=devices,
        disabled_safety_checks=tuple(map(DisabledSafetyCheck, head["disabled"])),
        calling_convention_version=head["version"],
        constants=tuple(constants),
        other_programs=tuple(zip(others, programs[1:])),
        _in_named_shardings=in_shardings,
        _out_named_shardings=out_shardings,
        _get_vjp=None if further is None else lambda _: deserialize(further),
    )


def export(
    fun_jit: Callable,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable:
    """Prepares a jitted function for use elsewhere: `export(f)(*args)`, where types of arguments are enough.

    Args:
        platforms: what the program is for, several of 'cpu', 'cuda', 'rocm' and 'tpu'; by default the platform of this process. Where
            their programs differ, one is kept for each.
        disabled_checks: checks to leave out.

    Returns:
        A function of example arguments, or `ShapeDtypeStruct`s, that gives an `Exported`.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> kept = export(xlab.jit(jnp.sin))(xlab.ShapeDtypeStruct((2,), "float32")).serialize()
        >>> deserialize(kept).call(jnp.zeros(2)).tolist()
        [0.0, 0.0]
    """
    if own(fun_jit, "lower") is None or own(fun_jit, "trace") is None:
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit!r}")
    wanted = tuple(platforms or (default_export_platform(),))
    unknown = [p for p in wanted if p not in _PLATFORMS]
    if unknown:
        raise ValueError(
            f"export for the platforms {wanted}: {unknown[0]!r} is none of {', '.join(_PLATFORMS)}"
        )

    def exporter(*args, **kwargs) -> Exported:
        traced = fun_jit.trace(*args, **kwargs)
        scope_of(traced.jaxpr.in_avals)  # is one
        if len(wanted) > 1:
            _check_platforms(traced.jaxpr.jaxpr, wanted)
        lowered = traced.lower(lowering_platforms=wanted[:1])
        program, name = lowered._lowered, lowered.name
        if program.module.callbacks or program.closed.effects:
            raise NotImplementedError(
                f"export of {name}: Python callbacks and other effects exist only in this process; take them out of "
                f"the function"
            )
        if program.module.partitioners:
            raise NotImplementedError(
                f"export of {name}: the functions that split its custom_partitioning operations exist only in this process; export it for "
                f"one device, or use shard_map"
            )
        closed, others = program.closed, []
        _check_custom_calls(name, program.module.text, disabled_checks)
        for other in wanted[1:]:
            module = traced.lower(lowering_platforms=(other,))._lowered.module
            _check_custom_calls(name, module.text, disabled_checks)
            if module.text != program.module.text:
                others.append((other, bytes(_ir.to_portable(module.text))))
        given = dict(zip(program.kept, program.in_shardings))
        ins, outs = (
            [_named(s) for s in found]
            for found in (map(given.get, range(len(closed.in_avals))), program.out_shardings)
        )
        return Exported(
            name,
            lowered.in_tree,
            tuple(closed.in_avals),
            lowered.out_tree,
            tuple(closed.out_avals),
            wanted,
            _ir.to_portable(program.module.text),
            tuple(program.kept),
            nr_devices=len(program.devices),
            disabled_safety_checks=tuple(disabled_checks),
            constants=tuple(np.asarray(c) for c in program.module.hoisted),
            other_programs=tuple(others),
            _in_named_shardings=tuple(map(_abstract, ins)),
            _out_named_shardings=tuple(map(_abstract, outs)),
            _places=(*ins, *outs),
            _get_vjp=lambda e: _derivative(e, fun_jit, lowered.in_tree),
        )

    return exporter


# Targets that this package writes; each version of the compiler has them, or its passes take them away.
_KNOWN_TARGETS = re.compile(
    r"lapack_\w+_ffi|stablehlo\.[\w.]+|mhlo\.[\w.]+|chlo\.[\w.]+|xla\.[\w.]+|shape_assertion|Sharding|ApproxTopK|LayoutConstraint|"
    r"annotate_device_placement|dce_sink|ragged_all_to_all"
)
_TARGET = re.compile(r'custom_call @(?:"([^"]*)"|([\w.$-]+))|call_target_name = "([^"]*)"')


def _check_custom_calls(
    name: str, text: str, disabled_checks: Sequence[DisabledSafetyCheck]
) -> None:
    """Raises where a program calls a foreign function that nobody answers for."""
    allowed = {check.is_custom_call() for check in disabled_checks}
    found = dict.fromkeys(next(filter(None, m)) for m in _TARGET.findall(text) if any(m))
    unknown = [t for t in found if t not in allowed and not _KNOWN_TARGETS.fullmatch(t)]
    if unknown:
        raise ValueError(
            f"Cannot serialize code with custom calls whose targets have no compatibility guarantees: {name} calls "
            f"{', '.join(map(repr, unknown))}, which the process that reads the program may not have, or have otherwise. If every "
            f"process registers it alike, say so: export(f, disabled_checks=[DisabledSafetyCheck.custom_call({unknown[0]!r})])."
        )


def _check_platforms(jaxpr, wanted) -> None:
    for eqn in jaxpr.eqns:
        if eqn.primitive in mlir.single_platform_primitives:
            raise NotImplementedError(
                f"{eqn.primitive} does not support multi-platform lowering, and is exported for {', '.join(wanted)}: export the "
                f"function once for each. It stands at {eqn.source_info}"
            )
        for inner in inner_jaxprs(eqn.params):
            _check_platforms(inner, wanted)


def _named(sharding):
    return sharding if isinstance(sharding, NamedSharding) else None


def _abstract(sharding):
    return None if sharding is None else NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)


def _over(sharding, mesh):
    if sharding is None:
        return None
    if mesh.shape_tuple != sharding.mesh.shape_tuple:
        raise ValueError(
            f"the program was exported over a mesh of axes {dict(sharding.mesh.shape)}, and cannot be laid over one of "
            f"{dict(mesh.shape)}"
        )
    return NamedSharding(mesh, sharding.spec)


def _derivative(exported: Exported, fun, in_tree) -> Exported:
    """The exported program of the pullback; cotangents of integers and the like are `float0`, and lead nowhere."""
    n = len(exported.in_avals)
    followed = [dtypes.issubdtype(a.dtype, np.inexact) for a in exported.out_avals]

    def flat(*xs):
        args, kwargs = _tree.unflatten(in_tree, xs)
        return list(itertools.compress(_tree.leaves(fun(*args, **kwargs)), followed))

    def pullback(*values):
        return tuple(_vjp(flat, *values[:n])[1](list(itertools.compress(values[n:], followed))))

    pullback.__name__ = f"{exported.fun_name}_vjp"
    avals = (*exported.in_avals, *(a.to_tangent_aval() for a in exported.out_avals))
    return export(jit(pullback), platforms=exported.platforms)(
        *map(_struct, avals, exported._places)
    )


def _struct(aval: ShapedArray, sharding):
    from xlab.compile.stages import ShapeDtypeStruct

    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


def _flat_call(exported: Exported) -> Callable:
    """The program as a function of flat arguments that knows its derivative."""

    def run(*args):
        return call_exported_p.bind(*args, exported=exported)

    def backward(args, cts):
        given = exported.vjp().call(*args, *cts)
        return tuple(
            ct if dtypes.issubdtype(a.dtype, np.inexact) else None
            for ct, a in zip(given, exported.in_avals)
        )

    run.__name__ = exported.fun_name
    flat = custom_vjp(run)
    # Not `run`: derivatives of derivatives go through here again.
    flat.defvjp(lambda *args: (flat(*args), args), backward)
    return flat
