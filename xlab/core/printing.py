"""Jaxprs as text, in the form that JAX prints.

Variables get letters in order of appearance. Inside a `jit` equation the inner program shows the names of the outer
operands, so a value keeps its letter; long inner programs are printed once, in front.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import AbstractValue
from xlab.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    open_jaxpr,
    set_printer,
)

WIDTH = 80
_ADDRESS = r"\b0x[0-9a-f]{8,}\b"  # of objects: equal programs have equal text
HOIST_FROM = 10  # jit bodies with at least this many equations are printed in front

# Parameters that are left out, by primitive: those that say nothing beyond the types, and unset ones.
_hidden: dict[str, tuple[str, ...]] = {}
_hidden_when: dict[str, dict[str, Any]] = {}


def hide_params(primitive: str, *names: str, when: dict[str, Any] | None = None) -> None:
    """Leaves parameters of a primitive out of the text: always, or when they have the given value."""
    _hidden[primitive] = (*_hidden.get(primitive, ()), *names)
    if when:
        _hidden_when.setdefault(primitive, {}).update(when)


hide_params("broadcast_in_dim", "shape", "sharding", when={"broadcast_dimensions": ()})
hide_params("convert_element_type", when={"sharding": None})
hide_params("reduce_max", when={"out_sharding": None})
hide_params("reduce_min", when={"out_sharding": None})
hide_params("dot_general", "out_sharding", when={"precision": None, "preferred_element_type": None})
hide_params(
    "jit",
    "in_shardings",
    "out_shardings",
    "donated_invars",
    "keep_unused",
    "inline",
    "compiler_options_kvs",
)
hide_params("integer_pow")
hide_params("scan", "linear", "debug")
hide_params("cond", "debug")
hide_params("custom_jvp_call", "num_consts", "out_tree")
hide_params("custom_vjp_call", "num_consts", "out_trees", "n_out")


# Primitives with a form of their own: `writer(eqn, names, used) -> text`.
_writers: dict[str, Callable[[JaxprEqn, Names, Container[Var] | None], str]] = {}


def print_as(
    primitive: str, writer: Callable[[JaxprEqn, Names, Container[Var] | None], str]
) -> None:
    """Prints the equations of a primitive in a form of their own."""
    _writers[primitive] = writer


def letters(n: int) -> str:
    """0, 1, ... as a, b, ..., z, ba, bb, ..."""
    out = ""
    while True:
        n, digit = divmod(n, 26)
        out = chr(ord("a") + digit) + out
        if n == 0:
            return out


class Names:
    """Letters given to variables so far; `_` stands for unused results."""

    def __init__(self, given: dict[Var, str] | None = None):
        self.given = dict(given or {})
        self.count = 0
        self.shared: dict[int, str] = {}
        self.marked: list[JaxprEqn] | None = None  # equations printed, where their ends are marked
        self.types = True  # whether binders have them
        self.effects = False  # whether the ends of programs have theirs
        self.short = True  # whether a program that fits stands on one line

    def __call__(self, var: Var) -> str:
        name = self.given.get(var)
        if name is None:
            name = self.given[var] = letters(self.count)
            self.count += 1
        return name


def literal_text(atom: Literal) -> str:
    value = atom.val
    if hasattr(value, "_host_value"):
        value = value._host_value()
    value = np.asarray(value)
    if value.dtype == np.bool_:
        text = str(bool(value))
    elif dtypes.issubdtype(value.dtype, np.complexfloating):
        text = str(complex(value))
    elif dtypes.issubdtype(value.dtype, np.floating) or dtypes.issubdtype(
        atom.aval.dtype, np.floating
    ):
        text = str(float(value.astype(atom.aval.dtype)))
    else:
        text = str(value.item() if value.ndim == 0 else value)
    return f"{text}:{atom.aval.str_short(short_dtypes=True)}"


def atom_text(atom: Atom, names: Names) -> str:
    return literal_text(atom) if type(atom) is Literal else names(atom)


def binders(vars_: Iterable[Var], names: Names, used: Container[Var] | None = None) -> str:
    """Variables with their types, as they stand left of an equation."""
    return " ".join(
        (names(v) if used is None or v in used else "_")
        + (f":{v.aval.str_short(short_dtypes=True)}" if names.types else "")
        for v in vars_
    )


def value_text(value: Any, names: Names, indent: int, before: int = 0) -> str:
    """A parameter's value; jaxprs are written out. `before` characters stand on the line already."""
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return _body(open_jaxpr(value), names, indent, before)
    if type(value) is tuple and value and all(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value):
        pad = " " * (indent + 2)
        return (
            "(\n"
            + "\n".join(pad + _body(open_jaxpr(v), names, indent + 2) for v in value)
            + "\n"
            + " " * indent
            + ")"
        )
    if hasattr(value, "_fields") and any(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value):
        pad = " " * (indent + 2)
        parts = [
            f"{pad}{k}={value_text(v, names, indent + 2, len(k) + 1)}\n"
            for k, v in zip(value._fields, value)
        ]
        return f"{type(value).__name__}(\n{''.join(parts)}{' ' * indent})"
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, AbstractValue):
        return value.str_short(short_dtypes=False)
    if isinstance(value, type):
        return value.__name__
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    text = str(value)
    return re.sub(_ADDRESS, "0xXXXXXXXXXXXX", text) if "0x" in text else text


def shown_params(eqn: JaxprEqn) -> list[tuple[str, Any]]:
    """The parameters a reader needs, sorted by name."""
    name = eqn.primitive.name
    hidden, when = _hidden.get(name, ()), _hidden_when.get(name, {})
    out = []
    for k in sorted(eqn.params):
        v = eqn.params[k]
        if k in hidden or (
            k in when and (v is when[k] or (type(v) is type(when[k]) and v == when[k]))
        ):
            continue
        out.append((k, v))
    if name == "jit":
        out.sort(key=lambda kv: kv[0] != "name")
    if name in ("custom_jvp_call", "custom_vjp_call"):
        out.sort(key=lambda kv: kv[0] != "name")
    if name == "dot_general":
        out = [(k, _dot_numbers(v) if k == "dimension_numbers" else v) for k, v in out]
    return out


def _dot_numbers(numbers):
    (lc, rc), (lb, rb) = numbers
    return f"(({list(lc)}, {list(rc)}), ({list(lb)}, {list(rb)}))"


def equation_text(
    eqn: JaxprEqn, names: Names | None = None, indent: int = 0, used: Container[Var] | None = None
) -> str:
    """One equation, over several lines if it is long."""
    names = names or Names()
    writer = _writers.get(eqn.primitive.name)
    if writer is not None:
        text = writer(eqn, names, used)
    else:
        text = _plain_text(eqn, names, indent, used)
    if names.marked is None:
        return text
    names.marked.append(eqn)
    return f"{_START}{len(names.marked) - 1}{_NUMBERED}{text}{_END}"


def _plain_text(eqn: JaxprEqn, names: Names, indent: int, used: Container[Var] | None) -> str:
    is_jit = eqn.primitive.name == "jit"
    left = binders(eqn.outvars, names, used)
    operands = " ".join(atom_text(v, names) for v in eqn.invars)
    params = []
    for key, value in shown_params(eqn):
        if is_jit and key == "jaxpr":
            shared = names.shared.get(id(value))
            if shared is not None:
                params.append(f"{key}={shared}")
                continue
            inner = open_jaxpr(value)
            saved = dict(names.given)
            for v, atom in zip(inner.invars, eqn.invars):
                if type(atom) is Var:
                    names.given[v] = names(atom)
            for atom, out in zip(inner.outvars, eqn.outvars):
                if type(atom) is Var and atom not in inner.invars and (used is None or out in used):
                    names.given.setdefault(atom, names(out))
            params.append(f"{key}={value_text(value, names, indent + 2, len(key) + 1)}")
            names.given = {**saved, **{v: n for v, n in names.given.items() if v in saved}}
        else:
            params.append(f"{key}={value_text(value, names, indent + 2, len(key) + 1)}")
    head = f"{left} = {eqn.primitive.name}" if left else eqn.primitive.name
    if not params:
        return f"{head} {operands}"
    flat = f"{head}[{' '.join(params)}] {operands}"
    if "\n" not in flat and _width(flat) + indent <= WIDTH:
        return flat
    pad = " " * (indent + 2)
    return f"{head}[\n" + "\n".join(pad + p for p in params) + "\n" + " " * indent + f"] {operands}"


def _used_vars(jaxpr: Jaxpr) -> set[Var]:
    used = {v for e in jaxpr.eqns for v in e.invars if type(v) is Var}
    used.update(v for v in jaxpr.outvars if type(v) is Var)
    return used


def _body(jaxpr: Jaxpr, names: Names, indent: int, before: int = 0) -> str:
    consts, ins = binders(jaxpr.constvars, names), binders(jaxpr.invars, names)
    head = f"{{ lambda {consts}; {ins}. let"
    used = _used_vars(jaxpr)
    eqns = [equation_text(e, names, indent + 4, used) for e in jaxpr.eqns]
    outs = _outs(jaxpr, names)
    if len(eqns) < 8 and names.short:
        flat = f"{head} {'; '.join(eqns)} in {outs} }}"
        if "\n" not in flat and _width(flat) + indent + before <= WIDTH:
            return flat
    pad = " " * (indent + 4)
    return (
        head + "\n" + "".join(pad + e + "\n" for e in eqns) + " " * (indent + 2) + f"in {outs} }}"
    )


def _outs(jaxpr: Jaxpr, names: Names) -> str:
    outs = [atom_text(v, names) for v in jaxpr.outvars]
    effects = f" : {{ {', '.join(sorted(map(str, jaxpr.effects)))} }}" if names.effects else ""
    return (f"({outs[0]},)" if len(outs) == 1 else f"({', '.join(outs)})") + effects


def _long_bodies(jaxpr: Jaxpr, found: dict[int, tuple[str, Any]]) -> None:
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, (Jaxpr, ClosedJaxpr)):
                    if id(inner) in found:
                        continue
                    _long_bodies(open_jaxpr(inner), found)
                    if eqn.primitive.name == "jit" and len(open_jaxpr(inner).eqns) >= HOIST_FROM:
                        found[id(inner)] = (eqn.params.get("name", "fn"), inner)


def jaxpr_text(
    jaxpr: Jaxpr,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    name_stack: bool = False,
    print_effects: bool = False,
    use_color: bool | None = None,
    names: dict[Var, str] | None = None,
) -> str:
    """A program as text.

    Args:
        source_info: whether a comment says on which line of the user each equation was written.
        print_shapes: whether variables stand with their types where they are made.
        name_stack: whether a comment says in which scopes each equation was written.
        print_effects: whether the ends of programs have their effects.
        use_color: changes nothing: the text has no color.
        names: letters of some variables.

    Example:
        >>> import xlab
        >>> print(xlab.make_jaxpr(lambda x: x + 1)(2.0).pretty_print(print_shapes=False))
        { lambda ; a. let b = add a 1.0:f32[] in (b,) }
    """
    table = Names(names)
    table.types, table.effects = print_shapes, print_effects
    if not (source_info or name_stack):
        return _text(jaxpr, table)
    table.short = False
    text, located = _located(jaxpr, table)
    lines, said, notes = text.split("\n"), set[int](), []
    for line, found in zip(lines, located, strict=True):
        eqn = next((e for _, e in found if e is not None and id(e) not in said), None)
        if eqn is None:
            notes.append((line, ""))
            continue
        said.add(id(eqn))
        info = eqn.source_info
        scopes, where = f"[{info.name_stack}]" if name_stack else "", str(info) * source_info
        notes.append((line.rstrip(), " ".join(filter(None, (scopes, where)))))
    width = max((len(line) for line, note in notes if note), default=0)
    return "\n".join(f"{line:<{width}} # {note}" if note else line for line, note in notes)


def located_text(jaxpr: Jaxpr) -> tuple[str, list[list[tuple[int, JaxprEqn | None]]]]:
    """A program as text, and for each of its lines where on it which equation begins, goes on, or (None) is over: columns from 0."""
    return _located(jaxpr, Names())


def _located(jaxpr: Jaxpr, names: Names) -> tuple[str, list[list[tuple[int, JaxprEqn | None]]]]:
    made: list[JaxprEqn] = []
    names.marked = made
    lines, located = [], []
    around: list[JaxprEqn] = []
    for line in _text(jaxpr, names).split("\n"):
        plain = ""
        found: list[tuple[int, JaxprEqn | None]] = []
        begins = True  # the next letter is another equation's than the one before it, or the first of its line
        for part in _MARK.split(line):
            if part == _END:
                around.pop()
                begins = True
            elif part.startswith(_START):
                around.append(made[int(part[1:-1])])
                begins = True
            else:
                if begins and part.strip():
                    if around or found:
                        column = len(plain) + len(part) - len(part.lstrip())
                        found.append((column, around[-1] if around else None))
                    begins = False
                plain += part
        lines.append(plain)
        located.append(found)
    return "\n".join(lines), located


# What stands around a marked equation: its number in `Names.marked` between the first two, the third behind its text.
_START, _NUMBERED, _END = "\x02", "\x03", "\x04"
_MARK = re.compile(f"({_START}[0-9]+{_NUMBERED}|{_END})")


def _width(text: str) -> int:
    return len(_MARK.sub("", text)) if _END in text else len(text)


def _text(jaxpr: Jaxpr, table: Names) -> str:
    bodies: dict[int, tuple[str, Any]] = {}
    _long_bodies(jaxpr, bodies)
    taken: dict[str, int] = {}
    out = []
    for key, (name, inner) in bodies.items():
        taken[name] = taken.get(name, -1) + 1
        label = name if not taken[name] else f"{name}{taken[name]}"
        out.append(f"let {label} = {_body(open_jaxpr(inner), table, 0)} in\n")
        table.shared[key] = label
    return "".join(out) + _body(jaxpr, table, 0)


set_printer(sys.modules[__name__])
