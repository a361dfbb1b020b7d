"""`program`: a traced function as a record, linked to its source and to its later forms.

Equation ids are those the lowering writes into the location of each operation, so lines of StableHLO, of the partitioner's
stages and of the optimized HLO lead back to equations.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.core.effects import InternalMutableArrayEffect, NamedAxisEffect, RefEffect
from xlab.core.hi_types import is_high
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    open_jaxpr,
)
from xlab.core.printing import Names, atom_text, shown_params, value_text
from xlab.interpreters import communication
from xlab.interpreters.control_flow import flow_of
from xlab.observe.programs import hlo as _hlo
from xlab.observe.programs import names as _names
from xlab.observe.programs.modules import modules_of, scope_of
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Equation, Level, MeshInfo, Program, Type, Variable
from xlab.observe.records.repeats import repeats
from xlab.sharding.factor_rules import ShardingRule

LEVELS = ("stablehlo", "propagated", "partitioned", "optimized")


def program(
    what: Any, *args: Any, levels: bool | Sequence[str] | None = None, **kwargs: Any
) -> Program:
    """The program of a function, a stage of `jit`, or a jaxpr, as a record.

    Args:
        what: a function (with its arguments), a `Traced`, `Lowered` or `Compiled`, or a `ClosedJaxpr`.
        levels: which later forms to include, of `stablehlo`, `propagated`, `partitioned`, `optimized`; True for all. By
            default those that exist already: none of a function, StableHLO of what was lowered, all of what was compiled.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab import lax
        >>> p = program(lambda x: lax.sin(lax.mul(x, x)), np.ones(3, np.float32))
        >>> [(e.id, e.primitive, e.inputs) for e in p.equations]
        [(0, 'mul', ('a', 'a')), (1, 'sin', ('b',))]
    """
    stages = program_stages(what, args, kwargs)
    if levels is None:
        levels = LEVELS if stages.is_compiled else LEVELS[:2] if stages.is_lowered else ()
    elif isinstance(levels, bool):
        levels = LEVELS if levels else ()
    unknown = set(levels) - set(LEVELS)
    if unknown:
        raise ValueError(f"unknown levels {sorted(unknown)}; there are {', '.join(LEVELS)}")
    if "partitioned" in levels:
        stages.stage("local")  # brings the stages before it
    made = tuple(found for name in levels if (found := level(stages, name)) is not None)
    specs = propagated_specs(stages) if "propagated" in levels else {}
    record = _Maker(stages, specs).program(stages.closed.jaxpr, stages.name, top=True)
    return record.replace(
        effects=tuple(sorted(str(e) for e in stages.closed.effects if not isinstance(e, _INSIDE))),
        sources=_names.listings(stages.equations.values()),
        levels=made,
        mesh=mesh_info(stages.mesh),
        made_by=stages.made_by,
    )


# What is said by the equations themselves: writes to references, and axes in scope.
_INSIDE = (RefEffect, NamedAxisEffect, InternalMutableArrayEffect)


class _Maker:
    def __init__(self, stages: ProgramStages, specs: dict[int, list[tuple]]):
        self.stages, self.specs = stages, specs
        self.letters = _names.letter_names(stages.closed.jaxpr)
        self.names = Names(self.letters)
        self.made: dict[int, tuple[Equation, ...]] = {}

    def variable(self, v: Var, note: str = "", spec: Any = None) -> Variable:
        return Variable(self.names(v), type_of(v.aval, spec), note)

    def program(
        self, jaxpr: Jaxpr, name: str, top: bool = False, outer: JaxprEqn | None = None
    ) -> Program:
        notes = _names.user_names(jaxpr, outer)
        arg_names = jaxpr.debug_info.arg_names
        if len(arg_names) != len(jaxpr.invars):
            arg_names = ("",) * len(jaxpr.invars)
        specs = argument_specs(self.stages) if top else {}
        inputs = tuple(
            self.variable(v, n, specs.get(i))
            for i, (v, n) in enumerate(zip(jaxpr.invars, arg_names))
        )
        modules = modules_of(outer) if outer is not None else ()
        equations = tuple(self.equation(e, notes, modules) for e in jaxpr.eqns)
        return Program(
            name,
            inputs,
            tuple(atom_text(a, self.names) for a in jaxpr.outvars),
            tuple(self.variable(v) for v in jaxpr.constvars),
            equations,
            layer_names=tuple(
                _names.function_around(jaxpr.eqns[r.start : r.start + r.length])
                for r in repeats(equations)
            ),
        )

    def equation(self, eqn: JaxprEqn, notes: dict[Var, str], modules: tuple[str, ...]) -> Equation:
        number = self.stages.numbers[id(eqn)]
        nested, labels = [], []
        flow = flow_of(eqn)
        for label, inner in flow.jaxprs if flow is not None else ():
            body = open_jaxpr(inner)
            nested.append(
                self.program(
                    body, eqn.params.get("name") or body.debug_info.name or label, outer=eqn
                )
            )
            labels.append(label)
        specs = list(self.specs.get(number, ()))
        outputs = []
        for v in eqn.outvars:
            spec = next((s for s, shape in specs if shape == getattr(v.aval, "shape", None)), None)
            outputs.append(self.variable(v, notes.get(v, ""), spec))
        params = params_text(eqn, self.names)
        return Equation(
            number,
            eqn.primitive.name,
            tuple(atom_text(a, self.names) for a in eqn.invars),
            tuple(outputs),
            params,
            _names.source_of(eqn),
            scope_of(eqn, modules),
            tuple(nested),
            tuple(labels),
            equation_line(eqn, self.names, params),
            communication.axes_of(eqn.primitive, eqn.params),
        )


def params_text(eqn: JaxprEqn, names: Names) -> str:
    """The parameters a reader needs, without inner programs, on one line."""
    out = []
    for key, value in shown_params(eqn):
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            continue
        if isinstance(value, (tuple, list)) and any(
            isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value
        ):
            continue
        text = value.text if isinstance(value, ShardingRule) else value_text(value, names, 0)
        out.append(f"{key}={' '.join(text.split())}")
    return " ".join(out)


@functools.lru_cache(maxsize=4096)
def _short(aval: Any) -> str:
    return aval.str_short(short_dtypes=True)


def equation_line(eqn: JaxprEqn, names: Names, params: str) -> str:
    left = " ".join(f"{names(v)}:{_short(v.aval)}" for v in eqn.outvars)
    operands = " ".join(atom_text(a, names) for a in eqn.invars)
    head = eqn.primitive.name + (f"[{params}]" if params else "")
    return " ".join(part for part in (f"{left} =" if left else "", head, operands) if part)


# ------------------------------------------------------------------------------------------------ types and meshes


@functools.lru_cache(maxsize=4096)
def type_of(aval: Any, spec: Any = None) -> Type:
    """A type as a record; `spec`, what the compiler decided, is used where the type itself splits nothing."""
    if is_high(aval) or not hasattr(aval, "shape"):
        return Type("", label=aval.str_short(short_dtypes=True))
    own = spec_of(aval.sharding, aval.ndim)
    mat = aval.mat
    return Type(
        dtypes.short_name(aval.dtype),
        tuple(d if isinstance(d, int) else str(d) for d in aval.shape),
        spec if spec is not None and not any(own or ()) else own,
        tuple(sorted(map(str, mat.varying))),
        tuple(sorted(map(str, mat.unreduced))),
        bool(aval.weak_type),
        reduced=tuple(sorted(map(str, mat.reduced))),
    )


def spec_of(sharding: Any, ndim: int) -> tuple[tuple[str, ...], ...] | None:
    """Per dimension the mesh axes that split it; None when the sharding names no axes."""
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return None
    return tuple(
        tuple(map(str, spec.axes_of(i) or ())) if i < len(spec) else () for i in range(ndim)
    )


def mesh_info(mesh: Any) -> MeshInfo | None:
    """A mesh as a record; None for none. An abstract mesh has no device ids."""
    if mesh is None or mesh.empty:
        return None
    kinds = tuple(t.name for t in mesh.axis_types)
    names, sizes = tuple(map(str, mesh.axis_names)), tuple(int(n) for n in mesh.axis_sizes)
    devices = (
        getattr(mesh, "_devices", None)
        if not hasattr(mesh, "devices_in_order")
        else mesh.devices_in_order
    )
    if devices is None:
        return MeshInfo(names, sizes, axis_types=kinds)
    devices = tuple(devices)
    hosts = tuple(int(d.process_index) for d in devices)
    return MeshInfo(
        names, sizes, tuple(int(d.id) for d in devices), str(devices[0].platform), hosts, kinds
    )


def argument_specs(stages: ProgramStages) -> dict[int, Any]:
    if not stages.is_lowered:
        return {}
    low = stages.lowered
    return {
        i: spec_of(s, len(low.closed.in_avals[i].shape))
        for i, s in zip(low.kept, low.in_shardings)
        if isinstance(low.closed.in_avals[i], ShapedArray)
    }


# ------------------------------------------------------------------------------------------------------- levels


_TRAILING = re.compile(r' loc\((?:(#\w+)|"(?:[^"\\]|\\.)*;e(\d+)[^"]*"(?:\(#\w+\))?)\)$')
_DEFINED = re.compile(r'^(#\w+) = loc\("(?:[^"\\]|\\.)*;e(\d+)(?:["/.])')
_INLINE = re.compile(r' loc\("(?:[^"\\]|\\.)*"(?:\(#\w+\)|:\d+:\d+)?\)')
_ARGUMENT_LOC = re.compile(r' loc\("[^"]*"(?:\([^)]*\)|:\d+:\d+)\)(?=[,)])| loc\(#\w+\)(?=[,)])')


def level(stages: ProgramStages, name: str) -> Level | None:
    """One later form of a program with its lines joined to equations; None where it does not exist (one device)."""
    if name == "stablehlo":
        return mlir_level(name, stages.lowered.module.text)
    if name == "optimized":
        return hlo_level(name, stages.hlo)
    wanted = ("propagated",) if name == "propagated" else ("local", "collectives", "resharded")
    found = next(filter(None, map(stages.stage, wanted)), None)
    ended = stages.unstaged if stages.stage(wanted[0]) is None else ""
    if found is None:
        return Level(name, _comment(ended)) if ended else None
    joined = mlir_level(name, found)
    return joined.replace(text=joined.text + _comment(ended)) if ended else joined


def _comment(sentence: str) -> str:
    """Words as the last lines of a module."""
    return "".join(f"// {line}\n" for line in sentence.splitlines())


def _places(lines: list[str], kept: list[str]) -> dict[int, int]:
    """Where lines stand among those that were kept, both counted from 1.

    >>> _places(["a", "table", "b"], ["a", "b"])
    {1: 1, 3: 2}
    """
    found: dict[int, int] = {}
    rest = iter(enumerate(kept, 1))
    place, wanted = next(rest, (0, None))
    for number, line in enumerate(lines, 1):
        if line == wanted:
            found[number] = place
            place, wanted = next(rest, (0, None))
    return found


def hlo_level(name: str, module: _hlo.Module) -> Level:
    """A level from HLO, without the tables in front of it."""
    text = _hlo.readable(module.text)
    places = _places(module.text.split("\n"), text.split("\n"))
    return Level(name, text, tuple((places[line], ids) for line, ids in _hlo.links(module)))


def mlir_level(name: str, text: str) -> Level:
    """A level from MLIR text with locations: locations are cut out of the lines and become links."""
    lines = text.split("\n")
    defined = {m.group(1): int(m.group(2)) for m in map(_DEFINED.match, lines) if m}
    shown: list[str] = []
    links = []
    for line in lines:
        if line.startswith("#"):
            continue
        end = _TRAILING.search(line)
        if end:
            line = line[: end.start()]
            number = int(end.group(2)) if end.group(2) else defined.get(end.group(1))
            if number is not None:
                links.append((len(shown) + 1, (number,)))
        if " loc(" in line:
            line = _ARGUMENT_LOC.sub("", _INLINE.sub("", line))
        shown.append(line)
    return Level(name, "\n".join(shown).strip("\n") + "\n", tuple(links))


_VALUE_SHARDING = re.compile(
    r"sdy\.sharding = #sdy\.sharding_per_value<\[(.*?)\]>\}|out_sharding=(<@\w+, \[[^\]]*\][^>]*>)"
)
_DIMENSION = r'\{((?:[^"}]|"[^"]*")*)\}'
_ONE = re.compile(rf"<@\w+, \[((?:{_DIMENSION}(?:, )?)*)\]")
_HEX = re.compile(r"\\([0-9A-F]{2})")
_RESULTS = re.compile(r"tensor<([^>]*)>")


def parse_sharding(text: str) -> tuple[tuple[str, ...], ...]:
    """`<@mesh, [{"data"}, {}]>` as a spec; sub-axes keep their notation.

    >>> parse_sharding('<@mesh, [{"data", "model"}, {}]>')
    (('data', 'model'), ())
    >>> parse_sharding('<@mesh, [{"{a}", "b"}, {}]>')
    (('{a}', 'b'), ())
    """
    found = _ONE.search(text)
    if not found:
        return ()
    return tuple(
        tuple(
            _unescaped(a.strip('"').replace('":', ":"))
            for a in re.findall(r'"[^"]*"(?::\(\d+\)\d+)?', dim)
        )
        for dim in re.findall(_DIMENSION, found.group(1))
    )


def _unescaped(name: str) -> str:
    r"""A name as it was before MLIR wrote it between quotes.

    >>> _unescaped(r"a\22b")
    'a"b'
    """
    return _HEX.sub(lambda m: chr(int(m.group(1), 16)), name)


def result_shardings(line: str) -> list[tuple[tuple, tuple[int, ...]]]:
    """The `(spec, shape)` of each result of an operation, from a line of a propagated program."""
    found = _VALUE_SHARDING.search(line)
    specs = (
        re.findall(r"<@\w+, \[(?:\{[^}]*\}(?:, )?)*\][^>]*>", found.group(1) or found.group(2))
        if found
        else []
    )
    tail = line.rsplit("->", 1)[-1] if "->" in line else line.rsplit(" : ", 1)[-1]
    shapes = [tensor_shape(t) for t in _RESULTS.findall(tail)]
    if "stablehlo.while(" in line:
        shapes = [tensor_shape(t) for t in _RESULTS.findall(line.partition(" : ")[2])]
    elif (
        "->" not in line
    ):  # operands and result in one list, as of a select: the result stands last
        shapes = shapes[-1:]
    out = []
    for i, shape in enumerate(shapes):
        spec = parse_sharding(specs[i]) if i < len(specs) else ((),) * len(shape)
        out.append((spec if len(spec) == len(shape) else ((),) * len(shape), shape))
    return out


def tensor_shape(text: str) -> tuple[int, ...]:
    """`8x4xf32` as `(8, 4)`."""
    return tuple(int(d) for d in text.split("x")[:-1] if d.isdigit())


def propagated_specs(stages: ProgramStages) -> dict[int, list[tuple]]:
    """Per equation the specs and shapes of the results the propagation decided, last operation first."""
    if stages.propagated_specs is not None:
        return stages.propagated_specs
    found = stages.stage("propagated")
    if not found:
        return {}
    made = mlir_level("propagated", found)
    lines = made.text.split("\n")
    out: dict[int, list[tuple]] = {}
    for number, ids in made.links:
        line = lines[number - 1]
        if " = " in line or line.lstrip().startswith(
            "})"
        ):  # the end of an operation with a region has its types
            out.setdefault(ids[0], [])[:0] = result_shardings(line)
    stages.propagated_specs = out
    return out
