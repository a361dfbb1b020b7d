"""Makes the record of a function under each transformation, its equations joined to those they came from.

The function is traced once and marked (`interpreters/provenance.py`). Each rung is then the public transformation of that program,
traced as anybody's would be; while it is, rules leave their names on what they make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.compile.jit import jit
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    eval_jaxpr,
    open_jaxpr,
    subjaxprs_of_params,
)
from xlab.interpreters import ad
from xlab.interpreters.provenance import Derived, mark, named_rules
from xlab.observe.program import program as _program
from xlab.observe.records import Program
from xlab.observe.rungs import Ladder, Rung
from xlab.observe.subject import Subject, subject
from xlab.parallel.shard_map import shard_map
from xlab.sharding import AxisType, Mesh, PartitionSpec, get_mesh, make_mesh, set_mesh
from xlab.transforms.grad import grad
from xlab.transforms.jvp import jvp
from xlab.transforms.vjp import vjp
from xlab.transforms.vmap import vmap

RUNGS = ("jvp", "linearize", "transpose", "grad", "vmap", "shard_map")
EXAMPLES = 2
"""Examples in a batch of the `vmap` rung, and on each device of the `shard_map` rung."""


class _Does(NamedTuple):
    """What one transformation is: the words for it, and what it makes of a function and its arguments' types."""

    says: str
    make: Callable[[Callable, tuple], tuple[Callable, tuple]]


def ladder(fun: Any, *args: Any, rungs: Sequence[str] = RUNGS, **kwargs: Any) -> Ladder:
    """A function under each transformation, one program after the other; every equation with its origin and its rule.

    Args:
        fun: a function; derivatives and batches are over its first argument.
        args, kwargs: its arguments, or their types; nothing runs.
        rungs: which transformations: `jvp`, `linearize`, `transpose`, `grad`, `vmap`, `shard_map`, or one of another, as
            `vmap(grad)`. `shard_map` cuts the batch of `vmap` over the first axis of the current mesh, or over all devices.

    Returns:
        The ladder; a transformation that does not apply is in its `left_out`, with the reason.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> made = ladder(lambda x: lax.sin(x), np.float32(1), rungs=("grad",))
        >>> [(e.primitive, e.rule) for e in made.rungs[1].program.equations]
        [('sin', 'jvp of sin'), ('cos', 'jvp of sin'), ('mul', 'jvp of sin → transpose of mul')]
    """
    if kwargs:
        given, fun = fun, lambda *a: given(*a, **kwargs)
    about = subject(fun, args)
    closed = mark(about.closed)
    traced = (fun if hasattr(fun, "trace") else jit(fun)).trace(*args)
    out_tree = traced.out_tree

    def base(*xs: Any) -> Any:
        return _tree.unflatten(out_tree, eval_jaxpr(closed.jaxpr, closed.consts, *_tree.leaves(xs)))
    base.__name__ = about.name

    first = Rung("f", _program(about).replace(name="f"), f"{about.name}, as it is traced" if about.name not in ("f", "<lambda>") else "")
    origins = about.equations
    made, left_out = [first], []
    for name in rungs:
        try:
            made.append(_rung(name, base, _types(args), first.program, origins))
        except Exception as error:
            left_out.append((name, " ".join(f"{error}".split()) or type(error).__name__))
    return Ladder(f"ladder of {about.name}", tuple(made), tuple(left_out))


def _types(args: tuple) -> tuple:
    def typed(x: Any) -> ShapeDtypeStruct:
        aval: Any = aval_of(x) if not isinstance(x, ShapeDtypeStruct) else x
        return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    return _tree.map(typed, tuple(args))


def _rung(name: str, base: Callable, args: tuple, first: Program, origins: dict[int, JaxprEqn]) -> Rung:
    words = [w for w in re.split(r"[()\s]+", name) if w and w != "f"]
    unknown = [w for w in words if w not in _DOES]
    if unknown or not words:
        raise ValueError(f"a rung is one of {', '.join(RUNGS)}, or one of another, as vmap(grad); given {name!r}")
    fun, types = base, args
    with named_rules(), set_mesh(_mesh()) if "shard_map" in words else nullcontext():
        for word in reversed(words):
            fun, types = _DOES[word].make(fun, types)
        about = _linear_part(fun, types) if words[0] == "linearize" else subject(fun, types)
    kept = _residual_names(base, args, first) if words in (["linearize"], ["transpose"]) else []
    return _record(name, f"{_DOES[words[0]].says}{', of ' + name[len(words[0]) + 1:-1] if words[1:] else ''}", about, words, first,
                   origins, len(_tree.leaves(types[:1])), kept)


def _mesh() -> Mesh:
    """All devices in one axis, or as the current mesh has them; with Auto axes, since nothing lies over them before."""
    current = get_mesh()
    shape = {"devices": len(_client.devices())} if current.empty else dict(current.shape)
    return make_mesh(tuple(shape.values()), tuple(shape), axis_types=(AxisType.Auto,) * len(shape))


# ------------------------------------------------------------------------------------------------- the transformations


def _of_floats(args: tuple, what: str) -> list[Any]:
    if not args:
        raise TypeError(f"{what} needs an argument")
    leaves = _tree.leaves(args[0])
    if not leaves or not all(dtypes.issubdtype(x.dtype, np.inexact) for x in leaves):
        raise TypeError(f"the first argument is not of real or complex numbers: {', '.join(str(x.dtype) for x in leaves) or 'it is empty'}")
    return leaves


def _jvp(fun: Callable, args: tuple) -> tuple[Callable, tuple]:
    _of_floats(args, "jvp")
    return (lambda x, tangent, *rest: jvp(lambda first: fun(first, *rest), (x,), (tangent,))), (args[0], args[0], *args[1:])


def _pulled(fun: Callable, args: tuple) -> Any:
    """The pullback of a function at arguments that are being traced: the real one, with what it keeps as values of that trace."""
    return vjp(lambda first: fun(first, *args[1:]), args[0])


def _linearize(fun: Callable, args: tuple) -> tuple[Callable, tuple]:
    _of_floats(args, "linearize")
    return fun, args


def _linear_part(fun: Callable, args: tuple) -> Subject:
    kept: list[Any] = []

    def run(*xs: Any) -> Any:
        kept.append(_pulled(fun, xs)[1])
        return ()
    jit(run).trace(*args)
    return Subject(ClosedJaxpr(kept[0].jaxpr, [0] * len(kept[0].jaxpr.constvars)), "linearize")


def _transpose(fun: Callable, args: tuple) -> tuple[Callable, tuple]:
    """A function of what linearisation kept and of the results' cotangents."""
    _of_floats(args, "transpose")
    kept: list[Any] = []

    def values(*xs: Any) -> Any:
        out, pullback = _pulled(fun, xs)
        kept.append(pullback)
        return out, pullback.consts
    out, residuals = jit(values).trace(*args).out_info
    aux = _tree.structure(kept[0])
    if any(not dtypes.issubdtype(x.dtype, np.inexact) for x in _tree.leaves(out)):
        raise TypeError("the result is not of real or complex numbers")

    def back(cotangent: Any, residuals: Any) -> Any:
        return _tree.unflatten(aux, residuals)(cotangent)[0]
    return back, (out, list(residuals))


def _grad(fun: Callable, args: tuple) -> tuple[Callable, tuple]:
    _of_floats(args, "grad")
    return grad(fun), args


def _vmap(fun: Callable, args: tuple) -> tuple[Callable, tuple]:
    if not args or not _tree.leaves(args[0]):
        raise TypeError("vmap needs an argument")
    batch = _tree.map(lambda x: ShapeDtypeStruct((EXAMPLES, *x.shape), x.dtype), args[0])
    return vmap(fun, in_axes=(0, *[None] * (len(args) - 1))), (batch, *args[1:])


def _shard_map(fun: Callable, args: tuple) -> tuple[Callable, tuple]:
    mapped, (batch, *rest) = _vmap(fun, args)
    mesh = get_mesh()
    axis = mesh.axis_names[0]
    over = _tree.map(lambda x: ShapeDtypeStruct((x.shape[0] * mesh.shape[axis], *x.shape[1:]), x.dtype), batch)
    cut = PartitionSpec(axis)
    return shard_map(mapped, mesh=mesh, in_specs=(cut, *[PartitionSpec()] * len(rest)), out_specs=cut), (over, *rest)


_DOES = {
    "jvp": _Does("values with their tangents: each primitive's rule gives both", _jvp),
    "linearize": _Does("only the tangents: what the values gave is constant", _linearize),
    "transpose": _Does("the linear program backwards: from cotangents of results to cotangents of the argument", _transpose),
    "grad": _Does("the values forwards, then their linear program backwards from 1", _grad),
    "vmap": _Does(f"a batch of {EXAMPLES} examples: each primitive's rule places the batch dimension", _vmap),
    "shard_map": _Does(f"the batched program on each device, {EXAMPLES} examples each", _shard_map),
}


# -------------------------------------------------------------------------------------------------------- the record


def _record(name: str, says: str, about: Subject, words: list[str], first: Program, origins: dict[int, JaxprEqn],
            primal_inputs: int, kept: list[str]) -> Rung:
    rules: dict[int, str] = {}
    links: list[tuple[int, int]] = []

    def visit(jaxpr: Any, outer: JaxprEqn | None) -> None:
        for eqn in jaxpr.eqns:
            number = about.numbers[id(eqn)]
            if number in rules:
                continue
            place = eqn.place if isinstance(eqn.place, Derived) or outer is None else outer.place
            rules[number] = f"{words[0]} itself"
            if isinstance(place, Derived):
                links.append((number, place.origin))
                rules[number] = _rule(eqn, place, origins[place.origin], words, inside=place is not eqn.place)
            for _, inner in subjaxprs_of_params(eqn.params):
                visit(open_jaxpr(inner), eqn if isinstance(eqn.place, Derived) else outer)
    visit(about.closed.jaxpr, None)
    if {"grad", "transpose"} & set(words):
        derivative = {n for n, rule in rules.items() if rule == _SUM or "transpose of" in rule}
    else:
        derivative = set(rules) if words[0] == "linearize" else _tangents(about, primal_inputs) if words[0] == "jvp" else set()
    forward = words[0] in ("jvp", "linearize")
    notes = _notes(first, dict(links), {n: e.primitive.name for n, e in about.equations.items()}, derivative, forward)
    record = _named(_program(about), rules, notes).replace(name=name, sources=())
    return Rung(name, _with_inputs(record, words, first, primal_inputs, kept), says, tuple(sorted(links)), tuple(sorted(derivative)))


_SUM = "sum of cotangents"


def _rule(eqn: JaxprEqn, place: Derived, origin: JaxprEqn, words: list[str], inside: bool) -> str:
    """The rules that made an equation, or what it is where none did."""
    chain = list(place.rules)
    name, of = eqn.primitive.name, origin.primitive.name
    if of.startswith("custom_") and name != of and not inside and not (chain and chain[0].startswith(("jvp", "batch"))):
        chain.insert(0, f"custom rule of {origin.params.get('name') or of}")
    backwards = bool({"grad", "transpose"} & set(words))
    if backwards and eqn.primitive is ad.add_jaxvals_primitive() and name != of and not (
            chain and chain[-1].startswith("transpose") and not inside):
        return _SUM
    if inside:
        return f"inside {' → '.join(chain) or of}"
    return " → ".join(chain) or ("unchanged" if name == of else f"for {of}")


def _tangents(about: Subject, primal_inputs: int) -> set[int]:
    """Equations of a program of values and tangents that depend on a tangent."""
    found: set[int] = set()

    def reach(jaxpr: Jaxpr, flags: Sequence[bool]) -> list[bool]:
        reached = {v for v, flag in zip(jaxpr.invars, flags) if flag}
        for eqn in jaxpr.eqns:
            given = [type(v) is not Literal and v in reached for v in eqn.invars]
            if not any(given):
                continue
            outs = inner(eqn, given)
            reached.update(v for v, flag in zip(eqn.outvars, outs) if flag)
            if all(outs):
                found.add(about.numbers[id(eqn)])
        return [type(v) is not Literal and v in reached for v in jaxpr.outvars]

    def inner(eqn: JaxprEqn, given: list[bool]) -> list[bool]:
        bodies = [open_jaxpr(j) for _, j in subjaxprs_of_params(eqn.params)]
        carried = eqn.params.get("num_carry", 0)
        if len(bodies) != 1 or len(bodies[0].invars) != len(given) or len(bodies[0].outvars) != len(eqn.outvars):
            for body in bodies:     # branches, and loops of several programs: each may pass on all it is given
                reach(body, [any(given)] * len(body.invars))
            return [any(given)] * len(eqn.outvars)
        first = eqn.params.get("num_consts", 0)
        while True:
            outs = reach(bodies[0], given)
            again = [g or (first <= i < first + carried and outs[i - first]) for i, g in enumerate(given)]
            if again == given:
                return outs
            given = again
    reach(about.closed.jaxpr, [primal_inputs <= i < 2 * primal_inputs for i in range(len(about.closed.jaxpr.invars))])
    return found


# ------------------------------------------------------------------------------------------------------------- names


def _notes(first: Program, origin: dict[int, int], primitives: dict[int, str], derivative: set[int], forward: bool) -> dict[int, str]:
    """What to call results: as the user called that of the equation they came from; its tangent with a `d` in front."""
    called = {e.id: (e.outputs[0].note, e.primitive) for e, _ in first.walk() if len(e.outputs) == 1 and e.outputs[0].note}
    found: dict[str, int] = {}
    for number, of in origin.items():
        if of in called:
            note, primitive = called[of]
            if number not in derivative and primitives[number] == primitive:
                found[note] = number
            elif number in derivative and forward:
                found[f"d{note}"] = number
    return {number: note for note, number in found.items()}


def _named(program: Program, rules: dict[int, str], notes: dict[int, str]) -> Program:
    """The program with the rule of every equation, and the names of what the user named."""
    return program.replace(equations=tuple(
        e.replace(rule=rules.get(e.id), nested=tuple(_named(p, rules, notes) for p in e.nested),
                  outputs=tuple(v.replace(note=notes.get(e.id, "")) for v in e.outputs)) for e in program.equations))


def _residual_names(fun: Callable, args: tuple, first: Program) -> list[str]:
    """What to call the values that linearisation keeps: as the user called them, or as the function of one named value."""
    kept: list[Any] = []

    def run(*xs: Any) -> Any:
        kept.extend(getattr(x, "variable", None) for x in _pulled(fun, xs)[1].consts)
        return ()
    with named_rules():
        jaxpr = jit(run).trace(*args).jaxpr.jaxpr
    called = {e.id: (e.outputs[0].note, e.primitive) for e, _ in first.walk() if len(e.outputs) == 1}
    names: dict[Any, str] = dict(zip(jaxpr.invars, (v.note for v in first.inputs)))
    for eqn in jaxpr.eqns:
        note, primitive = called.get(getattr(eqn.place, "origin", -1), ("", ""))
        given = names.get(eqn.invars[0], "") if len(eqn.invars) == 1 and type(eqn.invars[0]) is not Literal else ""
        if len(eqn.outvars) == 1:
            names[eqn.outvars[0]] = note if primitive == eqn.primitive.name and note else f"{eqn.primitive.name}({given})" if given else ""
    return [names.get(v, "") for v in kept]


def _with_inputs(program: Program, words: list[str], first: Program, primal_inputs: int, kept: list[str]) -> Program:
    """The program with the user's names of its inputs; tangents and cotangents have a `d` in front."""
    names = [v.note for v in first.inputs]
    tangents = [f"d{n}" if n else "" for n in names[:primal_inputs]]
    if words[0] == "linearize":
        names = tangents
    elif words[0] == "transpose":
        last = next((v.note or v.name for e in first.equations for v in e.outputs if (v.name,) == first.outputs), "")
        names = [f"d{last}", *kept] if last else []
    elif words[0] == "jvp":
        names[primal_inputs:primal_inputs] = tangents
    if "jvp" in words[1:] or "transpose" in words[1:]:
        names = []
    names += [""] * (len(program.inputs) - len(names))
    constants = [*kept, *[""] * len(program.constants)] if words[0] == "linearize" else [""] * len(program.constants)
    return program.replace(inputs=tuple(v.replace(note=n) for v, n in zip(program.inputs, names)),
                           constants=tuple(v.replace(note=n) for v, n in zip(program.constants, constants)))
