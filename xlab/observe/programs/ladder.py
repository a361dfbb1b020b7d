"""A function under each transformation, as a record that links every equation to its origin.

The function is traced once and marked (`interpreters/provenance.py`). Each rung is the public transformation of that program,
traced as usual, while rules add their names to the equations they make.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.compile.jit import jit
from xlab.compile.tracing import own
from xlab.core.jaxpr import (
    Jaxpr,
    JaxprEqn,
    Literal,
    eval_jaxpr,
    open_jaxpr,
    subjaxprs_of_params,
)
from xlab.core.refs import AbstractRef
from xlab.interpreters import ad
from xlab.interpreters.control_flow import CallFlow, LoopFlow, flow_of
from xlab.interpreters.provenance import Derived, mark, named_rules
from xlab.observe.beside.calls import ours_of, program_of
from xlab.observe.beside.recognize import belongs_to_jax
from xlab.observe.programs.ladder_forms import (
    RUNGS,
    TRANSFORMATIONS,
    Form,
    batch_axes,
    linear_part,
    positions,
    pulled,
    types_of,
)
from xlab.observe.programs.program import program as _program
from xlab.observe.programs.stages import ProgramStages, program_stages, traced_by
from xlab.observe.programs.view_jits import HoldingJit, jitted
from xlab.observe.records import Program
from xlab.observe.records.ladder import Ladder, Rung
from xlab.sharding import AxisType, Mesh, get_mesh, make_mesh, set_mesh


def ladder(
    fun: Any,
    *args: Any,
    rungs: Sequence[str] = RUNGS,
    argnums: int | Sequence[int] | None = None,
    in_axes: int | Sequence[int | None] | None = None,
    **kwargs: Any,
) -> Ladder:
    """The programs of a function under each transformation; every equation has its origin and its rule.

    Args:
        fun: a function.
        args, kwargs: its arguments, or their types; nothing runs.
        rungs: which transformations: `jvp`, `linearize`, `transpose`, `grad`, `vmap`, `shard_map`, or one of another, as
            `vmap(grad)`. `shard_map` cuts the batch of `vmap` over the first axis of the current mesh, or over all devices.
        argnums: which argument derivatives are taken of, or which several, as for `grad`; by default the first that holds arrays.
        in_axes: where the batch dimension of each argument goes, as for `vmap`; by default that argument has one, in front.

    Returns:
        The ladder; a transformation that does not apply is in its `left_out`, with the reason.

    Raises:
        ValueError: `argnums` or `in_axes` that do not fit the arguments.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> made = ladder(lambda x: lax.sin(x), np.float32(1), rungs=("grad",))
        >>> [(e.primitive, e.rule) for e in made.rungs[1].program.equations]
        [('sin', 'jvp of sin'), ('cos', 'jvp of sin'), ('mul', 'jvp of sin → transpose of mul')]
    """
    made_by = ""
    if belongs_to_jax(fun, args, kwargs):
        theirs = program_of(fun, args, kwargs)
        made_by = f"traced by {theirs.version}, transformed by the rules of xlab"
        fun, args = ours_of(theirs, args, kwargs)
        kwargs = {}
    if isinstance(holding := jitted(fun, None, args, kwargs), HoldingJit):
        fun, args, kwargs = holding.of_arrays(args, kwargs)
    owner = own(fun, "_xlab_jit")
    static = owner.flatten(args, kwargs)[2] if owner is not None else ()
    fixed = {i: args[i] for i, _ in static[0]} if static else {}
    free = tuple(None if i in fixed else x for i, x in enumerate(args))
    if _tree.leaves(kwargs):
        given, named = fun, kwargs
        fun = lambda *a: given(*(fixed.get(i, x) for i, x in enumerate(a)), **named)
        args, kwargs = free, {}
    stages = program_stages(fun, args, kwargs, as_traced=True)
    closed = mark(stages.closed)
    traced = traced_by(fun, args, kwargs)
    out_tree = traced.out_tree
    if own(fun, "lower") is not None and own(fun, "_xlab_jit") is None:
        args = tuple(traced._flat)  # a library's own form of jit takes its objects apart
    else:
        args = free
    first_traced = next((i for i, x in enumerate(args) if _tree.leaves(x)), 0)

    def base(*xs: Any) -> Any:
        return _tree.unflatten(out_tree, eval_jaxpr(closed.jaxpr, closed.consts, *_tree.leaves(xs)))

    base.__name__ = stages.name

    form = Form(
        base,
        types_of(args),
        positions(first_traced if argnums is None else argnums, len(args)),
        batch_axes(in_axes, len(args), first_traced),
    )
    first = Rung(
        "f",
        _program(stages).replace(name="f"),
        f"{stages.name}, as it is traced" if stages.name not in ("f", "<lambda>") else "",
    )
    origins = stages.equations
    made, left_out = [first], []
    for name in rungs:
        try:
            if any(type(aval) is AbstractRef for aval in closed.in_avals):
                raise TypeError(
                    "an argument is a reference, and rungs take arrays: give the function its array, and make the reference inside with "
                    "xlab.new_ref"
                )
            made.append(_rung(name, form, first.program, origins))
        except Exception as error:
            left_out.append((name, " ".join(f"{error}".split()) or type(error).__name__))
    return Ladder(f"ladder of {stages.name}", tuple(made), tuple(left_out), made_by)


def _rung(name: str, base: Form, first: Program, origins: dict[int, JaxprEqn]) -> Rung:
    words = [w for w in re.split(r"[()\s]+", name) if w and w != "f"]
    unknown = [w for w in words if w not in TRANSFORMATIONS]
    if unknown or not words:
        raise ValueError(
            f"a rung is one of {', '.join(RUNGS)}, or one of another, as vmap(grad); given {name!r}"
        )
    form = base
    with named_rules(), set_mesh(_mesh()) if "shard_map" in words else nullcontext():
        for word in reversed(words):
            form = TRANSFORMATIONS[word].make(form)
        stages = (
            linear_part(form)
            if words[0] == "linearize"
            else program_stages(form.fun, form.args, as_traced=True)
        )
    names = _input_names(base, words, first, form.tangents)
    return _record(
        name,
        f"{TRANSFORMATIONS[words[0]].says}{', of ' + name[len(words[0]) + 1 : -1] if words[1:] else ''}",
        stages,
        words,
        first,
        origins,
        form.tangents,
        names,
    )


def _mesh() -> Mesh:
    """All devices in one axis, or as the current mesh has them; with Auto axes, since nothing lies over them before."""
    current = get_mesh()
    shape = {"devices": len(_client.devices())} if current.empty else dict(current.shape)
    return make_mesh(tuple(shape.values()), tuple(shape), axis_types=(AxisType.Auto,) * len(shape))


# -------------------------------------------------------------------------------------------------------- the record


def _record(
    name: str,
    says: str,
    stages: ProgramStages,
    words: list[str],
    first: Program,
    origins: dict[int, JaxprEqn],
    tangents: range,
    names: tuple[list[str], list[str]],
) -> Rung:
    rules: dict[int, str] = {}
    links: list[tuple[int, int]] = []

    def visit(jaxpr: Any, outer: JaxprEqn | None) -> None:
        for eqn in jaxpr.eqns:
            number = stages.numbers[id(eqn)]
            if number in rules:
                continue
            place = (
                eqn.raw_source_info
                if isinstance(eqn.raw_source_info, Derived) or outer is None
                else outer.raw_source_info
            )
            rules[number] = f"{words[0]} itself"
            if isinstance(place, Derived):
                links.append((number, place.origin))
                rules[number] = _rule(
                    eqn,
                    place,
                    origins[place.origin],
                    words,
                    inside=place is not eqn.raw_source_info,
                )
            for _, inner in subjaxprs_of_params(eqn.params):
                visit(open_jaxpr(inner), eqn if isinstance(eqn.raw_source_info, Derived) else outer)

    visit(stages.closed.jaxpr, None)
    if {"grad", "transpose"} & set(words):
        derivative = {n for n, rule in rules.items() if rule == _SUM or "transpose of" in rule}
    else:
        derivative = (
            set(rules)
            if words[0] == "linearize"
            else _tangents(stages, tangents)
            if words[0] == "jvp"
            else set()
        )
    forward = words[0] in ("jvp", "linearize")
    notes = _notes(
        first,
        dict(links),
        {n: e.primitive.name for n, e in stages.equations.items()},
        derivative,
        forward,
    )
    record = _named(_program(stages), rules, notes).replace(name=name, sources=())
    return Rung(
        name, _with_inputs(record, *names), says, tuple(sorted(links)), tuple(sorted(derivative))
    )


_SUM = "sum of cotangents"


def _rule(eqn: JaxprEqn, place: Derived, origin: JaxprEqn, words: list[str], inside: bool) -> str:
    """The rules that made an equation; for equations without a rule, their origin as text."""
    chain = list(place.rules)
    name, of = eqn.primitive.name, origin.primitive.name
    if (
        of.startswith("custom_")
        and name != of
        and not inside
        and not (chain and chain[0].startswith(("jvp", "batch")))
    ):
        chain.insert(0, f"custom rule of {origin.params.get('name') or of}")
    backwards = bool({"grad", "transpose"} & set(words))
    if (
        backwards
        and eqn.primitive is ad.add_jaxvals_primitive()
        and name != of
        and not (chain and chain[-1].startswith("transpose") and not inside)
    ):
        return _SUM
    if inside:
        return f"inside {' → '.join(chain) or of}"
    return " → ".join(chain) or ("unchanged" if name == of else f"for {of}")


def _tangents(stages: ProgramStages, tangents: range) -> set[int]:
    """Equations of a program of values and tangents that depend on a tangent, `tangents` being their positions among its inputs."""
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
                found.add(stages.numbers[id(eqn)])
        return [type(v) is not Literal and v in reached for v in jaxpr.outvars]

    def inner(eqn: JaxprEqn, given: list[bool]) -> list[bool]:
        flow = flow_of(eqn)
        if type(flow) is CallFlow:
            return reach(open_jaxpr(flow.jaxpr), given)
        if type(flow) is LoopFlow and flow.cond is None:
            return repeated(flow, given)
        for _, body in flow.jaxprs if flow is not None else ():  # each may pass on all it is given
            reach(open_jaxpr(body), [any(given)] * len(body.in_avals))
        return [any(given)] * len(eqn.outvars)

    def repeated(flow: LoopFlow, given: list[bool]) -> list[bool]:
        _, consts, carry, xs = flow.split(given)
        while True:
            outs = reach(open_jaxpr(flow.body), [*consts, *carry, *xs])
            again = [c or o for c, o in zip(carry, outs)]
            if again == carry:
                return outs
            carry = again

    reach(stages.closed.jaxpr, [i in tangents for i in range(len(stages.closed.jaxpr.invars))])
    return found


# ------------------------------------------------------------------------------------------------------------- names


def _notes(
    first: Program,
    origin: dict[int, int],
    primitives: dict[int, str],
    derivative: set[int],
    forward: bool,
) -> dict[int, str]:
    """What to call results: as the user called that of the equation they came from; its tangent with a `d` in front."""
    called = {
        e.id: (e.outputs[0].note, e.primitive)
        for e, _ in first.walk()
        if len(e.outputs) == 1 and e.outputs[0].note
    }
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
    return program.replace(
        equations=tuple(
            e.replace(
                rule=rules.get(e.id),
                nested=tuple(_named(p, rules, notes) for p in e.nested),
                outputs=tuple(v.replace(note=notes.get(e.id, "")) for v in e.outputs),
            )
            for e in program.equations
        )
    )


def _residual_names(form: Form, first: Program) -> list[str]:
    """What to call the values that linearization keeps: as the user called them, or as the function of one named value."""
    kept: list[Any] = []

    def run(*xs: Any) -> Any:
        kept.extend(getattr(x, "variable", None) for x in pulled(form, xs)[1].consts)
        return ()

    with named_rules():
        jaxpr = jit(run).trace(*form.args).jaxpr.jaxpr
    called = {
        e.id: (e.outputs[0].note, e.primitive) for e, _ in first.walk() if len(e.outputs) == 1
    }
    names: dict[Any, str] = dict(zip(jaxpr.invars, (v.note for v in first.inputs)))
    for eqn in jaxpr.eqns:
        note, primitive = called.get(getattr(eqn.raw_source_info, "origin", -1), ("", ""))
        given = (
            names.get(eqn.invars[0], "")
            if len(eqn.invars) == 1 and type(eqn.invars[0]) is not Literal
            else ""
        )
        if len(eqn.outvars) == 1:
            names[eqn.outvars[0]] = (
                note
                if primitive == eqn.primitive.name and note
                else f"{eqn.primitive.name}({given})"
                if given
                else ""
            )
    return [names.get(v, "") for v in kept]


def _input_names(
    base: Form, words: list[str], first: Program, tangents: range
) -> tuple[list[str], list[str]]:
    """The user's names of a rung's inputs and of its constants; tangents and cotangents have a `d` in front."""
    names = [v.note for v in first.inputs]
    ends = [len(_tree.leaves(base.args[:n])) for n in range(len(base.args) + 1)]
    directions = (
        [f"d{name}" if name else "" for n in base.numbers for name in names[ends[n] : ends[n + 1]]]
        if base.args
        else []
    )
    if {"jvp", "transpose", "linearize"} & set(words[1:]):
        return [], []
    if words[0] in ("linearize", "transpose"):
        kept = _residual_names(base, first) if len(words) == 1 else []
        if words[0] == "linearize":
            return directions, kept
        last = next(
            (
                v.note or v.name
                for e in first.equations
                for v in e.outputs
                if (v.name,) == first.outputs
            ),
            "",
        )
        return [f"d{last}", *kept] if last else [], []
    names[tangents.start : tangents.start] = directions if tangents else []
    return names, []


def _with_inputs(program: Program, inputs: list[str], constants: list[str]) -> Program:
    """The program with names of its inputs and constants; those without keep none."""

    def named(variables: tuple, names: list[str]) -> tuple:
        return tuple(v.replace(note=n) for v, n in zip(variables, [*names, *[""] * len(variables)]))

    return program.replace(
        inputs=named(program.inputs, inputs), constants=named(program.constants, constants)
    )
