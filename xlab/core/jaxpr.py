"""Programs as data: `Var`, `Literal`, `JaxprEqn`, `Jaxpr`, `ClosedJaxpr`, and evaluating them.

A jaxpr is a flat list of equations over typed variables. Variables have no names; printing gives them letters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, final

from xlab.backend.values import value_class
from xlab.core import effects as _effects
from xlab.core import source_info as _source_info
from xlab.core.avals import AbstractValue, ShapedArray
from xlab.core.trace import annotated_as, state

if TYPE_CHECKING:
    from xlab.core.primitive import Primitive

_printer: Any = None  # printing.py, which imports this file and registers itself


def set_printer(printer):
    global _printer
    _printer = printer


class Var:
    """A variable of a jaxpr, identified by its object identity."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self):
        return f"Var:{self.aval.str_short(short_dtypes=True)}"


@final
class Literal:
    """A scalar constant written into an equation."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray):
        self.val, self.aval = val, aval

    def __repr__(self):
        return f"{self.val}:{self.aval.str_short(short_dtypes=True)}"


Atom = Var | Literal
Value = Any
ParamDict = dict[str, Any]


class JaxprEqn:
    """One application of a primitive: `outvars = primitive[params](invars)`, with its place in the source."""

    __slots__ = ("effects", "invars", "outvars", "params", "primitive", "raw_source_info")

    invars: list[Atom]
    outvars: list[Var]
    primitive: Primitive
    params: dict[str, Any]
    effects: frozenset[_effects.Effect]
    raw_source_info: tuple

    def __init__(
        self,
        invars,
        outvars,
        primitive,
        params,
        effects=_effects.NO_EFFECTS,
        source_info=_source_info.UNKNOWN,
    ):
        self.invars, self.outvars, self.primitive, self.params = invars, outvars, primitive, params
        self.effects, self.raw_source_info = effects, source_info

    @property
    def source_info(self) -> _source_info.SourceInfo:
        """Location in the user's program, above the libraries that it calls; stored as a plain tuple until it is needed."""
        return _source_info.at_user(self.raw_source_info)

    @property
    def ctx(self) -> EquationContext:
        """What surrounds the equation beside its place: to be entered where it is bound again."""
        return EquationContext(_source_info.annotations_of(self.raw_source_info[2]))

    def replace(self, **changes: Any) -> JaxprEqn:
        fields = {
            name: getattr(self, name)
            for name in ("invars", "outvars", "primitive", "params", "effects", "source_info")
        }
        fields["source_info"] = self.raw_source_info
        fields.update(changes)
        return JaxprEqn(**fields)

    def __repr__(self):
        return _printer.equation_text(self)


@value_class
class EquationContext:
    """What an equation has from the blocks around the operation that made it, as `compute_on` and `set_xla_metadata`.

    Example:
        >>> import xlab
        >>> from xlab.experimental.xla_metadata import set_xla_metadata
        >>> with set_xla_metadata(stage=1):
        ...     eqn, = xlab.make_jaxpr(lambda x: x + 1)(1.0).eqns
        >>> with eqn.ctx.manager:
        ...     again, = xlab.make_jaxpr(lambda x: x * 2)(1.0).eqns
        >>> again.ctx.annotations
        (('stage', '1'),)
    """

    annotations: tuple[tuple[str, str], ...]

    @property
    def manager(self) -> AbstractContextManager:
        """A block in which equations have the same."""
        return annotated_as(self.annotations)


class DebugInfo:
    """Names for messages: the function, paths of its arguments and results, its source place, and transformations."""

    __slots__ = ("_result_names", "arg_names", "around", "name", "position")

    def __init__(
        self,
        name: str = "<unknown>",
        arg_names: Iterable[Any] = (),
        result_names: Iterable[Any] = (),
        position: str = "",
        around: tuple[str, ...] | None = None,
    ):
        self.name = name
        self.arg_names = tuple(arg_names)
        self._result_names: tuple | Callable[[], tuple] = tuple(result_names)
        self.position = position
        self.around = around

    def arg_name(self, i: int) -> str:
        """The name of an argument, or its number if names are not known."""
        return self.arg_names[i] if i < len(self.arg_names) else f"argument {i}"

    @property
    def result_names(self) -> tuple:
        """Paths of the results; none where they are not known."""
        if callable(self._result_names):
            self._result_names = self._result_names()
        return self._result_names

    result_paths = property(lambda self: self.result_names)
    func_name = property(lambda self: self.name)
    func_src_info = property(
        lambda self: f"{self.name} at {self.position}" if self.position else self.name
    )

    def named_by(self, result_names: Callable[[], tuple]) -> None:
        """What `result_names` are, asked when they are needed: the structure of results is known after tracing."""
        self._result_names = result_names

    def result_name(self, i: int) -> str:
        """The name of a result, or its number if names are not known."""
        names = self.result_names
        return names[i] if i < len(names) and names[i] else f"result {i}"

    def __repr__(self):
        return f"DebugInfo({self.name}, args={self.arg_names})"


class Jaxpr:
    """A program: inputs, equations, outputs. `constvars` are inputs whose values belong to the program."""

    __slots__ = (
        "__weakref__",
        "_calls",
        "_closed",
        "constvars",
        "debug_info",
        "effects",
        "eqns",
        "invars",
        "outvars",
    )

    def __init__(self, constvars, invars, outvars, eqns, effects=None, debug_info=None):
        self.constvars: list[Var] = list(constvars)
        self.invars: list[Var] = list(invars)
        self.outvars: list[Atom] = list(outvars)
        self.eqns: list[JaxprEqn] = list(eqns)
        self.effects = effects_of(self) if effects is None else effects
        self.debug_info: DebugInfo = debug_info or DebugInfo()
        self._calls: tuple[int, list] | None = None

    def replace(self, **changes: Any) -> Jaxpr:
        fields = {
            "constvars": self.constvars,
            "invars": self.invars,
            "outvars": self.outvars,
            "eqns": self.eqns,
            "debug_info": self.debug_info,
        }
        if "eqns" not in changes and not (
            _effects.on_refs(self.effects) and ("invars" in changes or "constvars" in changes)
        ):
            fields["effects"] = self.effects
        fields.update(changes)
        return Jaxpr(**fields)

    @property
    def in_avals(self):
        return [v.aval for v in self.invars]

    @property
    def out_avals(self):
        return [v.aval for v in self.outvars]

    @property
    def calls(self) -> list[tuple[JaxprEqn, Sequence[Jaxpr]]]:
        """The equations with programs inside, each with its `inner_jaxprs`: looked for once, as long as there are as many equations."""
        if self._calls is None or self._calls[0] != len(self.eqns):
            found = (
                (eqn, inner)
                for eqn in self.eqns
                if eqn.params and (inner := inner_jaxprs(eqn.params))
            )
            self._calls = (len(self.eqns), list(found))
        return self._calls[1]

    def pretty_print(self, **options: Any) -> str:
        """The program as text; `source_info`, `print_shapes`, `name_stack` and `print_effects` say what it has, see `core.printing.jaxpr_text`."""
        return _printer.jaxpr_text(self, **options)

    def __str__(self):
        return self.pretty_print()

    __repr__ = __str__


def effects_of(jaxpr: Jaxpr) -> frozenset[_effects.Effect]:
    """The effects of a program's equations, without those on references the program makes itself."""
    effects = _effects.join(e.effects for e in jaxpr.eqns)
    if not _effects.on_refs(effects):
        return effects
    inputs = input_positions(jaxpr)
    return _effects.join(outer_effects(e, inputs) for e in jaxpr.eqns)


def input_positions(jaxpr: Jaxpr) -> dict[Var, int]:
    """The number of each input as effects count them: constants come before 0."""
    return {v: i for i, v in enumerate((*jaxpr.constvars, *jaxpr.invars), -len(jaxpr.constvars))}


def outer_effects(eqn: JaxprEqn, inputs: dict[Var, int]) -> frozenset[_effects.Effect]:
    """An equation's effects in terms of the inputs of its program."""
    return _effects.moved(eqn.effects, lambda i: inputs.get(eqn.invars[i]) if i >= 0 else None)  # type: ignore[arg-type]  # references are no literals


class ClosedJaxpr:
    """A jaxpr together with the values of its constants."""

    __slots__ = ("__weakref__", "_memo", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        if len(jaxpr.constvars) != len(consts):
            raise ValueError(
                f"the jaxpr has {len(jaxpr.constvars)} constants, got {len(consts)} values"
            )
        self.jaxpr = jaxpr
        self.consts = list(consts)
        self._memo: dict = {}

    in_avals = property(lambda self: [v.aval for v in self.jaxpr.invars])
    out_avals = property(lambda self: [v.aval for v in self.jaxpr.outvars])
    eqns = property(lambda self: self.jaxpr.eqns)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    constvars = property(lambda self: self.jaxpr.constvars)
    literals = property(lambda self: self.consts)
    effects = property(lambda self: self.jaxpr.effects)
    debug_info = property(lambda self: self.jaxpr.debug_info)

    def replace(
        self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None
    ) -> ClosedJaxpr:
        return ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )

    def memo(self, key, make):
        """Remembers something derived from this program, for as long as the program lives."""
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = make()
        return found

    def pretty_print(self, **options: Any) -> str:
        """The program as text; `source_info`, `print_shapes`, `name_stack` and `print_effects` say what it has, see `core.printing.jaxpr_text`."""
        return _printer.jaxpr_text(self.jaxpr, **options)

    def __str__(self):
        return self.pretty_print()

    __repr__ = __str__


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list]:
    """The function of flat arguments, returning a list, that a closed jaxpr describes."""

    def fun(*args):
        return eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)

    fun.__name__ = closed_jaxpr.jaxpr.debug_info.name
    return fun


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Iterable[Any], *args: Any, propagate_source_info: bool = True
) -> list:
    """Runs a jaxpr on values under the current interpretation; its equations keep their places unless `propagate_source_info` is False.

    Example:
        >>> import xlab
        >>> closed = xlab.make_jaxpr(lambda x: x + 1)(1.0)
        >>> [float(y) for y in xlab.core.eval_jaxpr(closed.jaxpr, closed.consts, 2.0)]
        [3.0]
    """
    if len(args) != len(jaxpr.invars):
        raise TypeError(f"the jaxpr takes {len(jaxpr.invars)} arguments, got {len(args)}")
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    previous_source_info, previous_scope = state.source_info, state.scope
    last_use = last_uses(jaxpr)
    try:
        for i, eqn in enumerate(jaxpr.eqns):
            if propagate_source_info:
                state.source_info = eqn.raw_source_info
            values = [a.val if type(a) is Literal else env[a] for a in eqn.invars]
            out = eqn.primitive.bind(*values, **eqn.params)
            del values
            if eqn.primitive.multiple_results:
                for v, x in zip(eqn.outvars, out):
                    env[v] = x
            else:
                env[eqn.outvars[0]] = out
            for v in last_use[i]:
                env.pop(v, None)
    finally:
        state.source_info, state.scope = previous_source_info, previous_scope
    return [a.val if type(a) is Literal else env[a] for a in jaxpr.outvars]


def results_of(eqn: JaxprEqn, values: Iterable[Any]) -> list:
    """What an equation gives on values, under the current interpretation; a list of one where it has one result.

    Example:
        >>> import xlab
        >>> eqn = xlab.make_jaxpr(lambda x: x * 2)(xlab.numpy.ones(2)).eqns[0]
        >>> results_of(eqn, [xlab.numpy.ones(2), xlab.numpy.float32(3)])
        [Array([3., 3.], dtype=float32)]
    """
    out = eqn.primitive.bind(*values, **eqn.params)
    return list(out) if eqn.primitive.multiple_results else [out]


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation, the variables not used afterwards (so that evaluation can free them)."""
    seen = {v for v in jaxpr.outvars if type(v) is Var}
    out: list[list[Var]] = []
    for eqn in reversed(jaxpr.eqns):
        dead = []
        for v in (*eqn.invars, *eqn.outvars):
            if type(v) is Var and v not in seen:
                seen.add(v)
                dead.append(v)
        out.append(dead)
    out.reverse()
    return out


def subjaxprs_of_params(params: dict) -> Iterator[tuple[str, Jaxpr | ClosedJaxpr]]:
    """The jaxprs among an equation's parameters, each with the parameter's name (`branches[1]` in tuples)."""
    for name, value in params.items():
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            yield name, value
        elif isinstance(value, (tuple, list)):
            for i, item in enumerate(value):
                if isinstance(item, (Jaxpr, ClosedJaxpr)):
                    yield f"{name}[{i}]", item


_PLAIN = frozenset({type(None), bool, int, float, str})
"""What most parameters are, and no program."""


def inner_jaxprs(params: dict) -> Sequence[Jaxpr]:
    """The open jaxprs among an equation's parameters, as `subjaxprs_of_params` finds them, without names."""
    found: list[Jaxpr] | None = None
    for value in params.values():
        kind = value.__class__
        if kind in _PLAIN:
            continue
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            found = [*(found or ()), open_jaxpr(value)]
        elif isinstance(value, (tuple, list)):
            for item in value:
                if item.__class__ not in _PLAIN and isinstance(item, (ClosedJaxpr, Jaxpr)):
                    found = [*(found or ()), open_jaxpr(item)]
    return found or ()


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs directly inside a jaxpr, in equation order."""
    for _, inner in open_jaxpr(jaxpr).calls:
        yield from inner


def open_jaxpr(j: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return j.jaxpr if isinstance(j, ClosedJaxpr) else j


def number_equations(jaxpr: Jaxpr) -> dict[int, int]:
    """Gives every equation of a program, nested ones included, its number: `{id(eqn): number}`.

    The numbers are what joins the levels of a program: the lowering writes them into the location of every
    operation, and records carry them. Order: an equation, then its inner programs; a jaxpr that is used
    twice is numbered once.
    """
    numbers: dict[int, int] = {}
    number = numbers.setdefault
    done: set[int] = set()

    def visit(j: Jaxpr) -> None:
        if id(j) in done:
            return
        done.add(id(j))
        calls = {id(eqn): inner for eqn, inner in j.calls}
        if not numbers and not calls:
            # Nothing is inside anything: they are numbered at once.
            numbers.update(zip(map(id, j.eqns), itertools.count()))
            return
        for eqn in j.eqns:
            number(id(eqn), len(numbers))
            for inner in calls.get(id(eqn), ()):
                visit(inner)

    visit(jaxpr)
    return numbers


def number_part(part: Jaxpr, whole: Jaxpr) -> dict[int, int]:
    """Numbers for a program's equations, taken from the larger program it is a part of."""
    numbers = number_equations(whole)

    def visit(part: Jaxpr, whole: Jaxpr) -> None:
        if part is whole:
            return
        candidates = iter(whole.eqns)
        for eqn in part.eqns:
            for old in candidates:
                if old is eqn or (
                    old.primitive is eqn.primitive
                    and old.raw_source_info == eqn.raw_source_info
                    and set(eqn.outvars) <= set(old.outvars)
                ):
                    break
            else:
                return
            if old is not eqn:
                numbers[id(eqn)] = numbers[id(old)]
                for pair in zip(inner_jaxprs(eqn.params), inner_jaxprs(old.params)):
                    visit(*pair)

    visit(part, whole)
    return numbers


# -- put together by hand ----------------------------------------------------------------------------------


class DropVar(Var):
    """An unused result, for jaxprs built by hand."""

    __slots__ = ()

    def __repr__(self):
        return "_"


def gensym() -> Callable:
    """A function that makes a new variable for a type."""
    return Var


def new_jaxpr_eqn(
    invars: Iterable[Atom],
    outvars: Iterable[Var],
    primitive: Primitive,
    params: Mapping[str, Any],
    effects: Iterable[_effects.Effect] = _effects.NO_EFFECTS,
    source_info: tuple | None = None,
    ctx: Any = None,
) -> JaxprEqn:
    """One equation. `source_info` is that of the equation it comes from; without it, the caller's line."""
    if isinstance(source_info, _source_info.SourceInfo):
        source_info = tuple(source_info)
    return JaxprEqn(
        list(invars),
        list(outvars),
        primitive,
        dict(params),
        frozenset(effects),
        source_info or _source_info.UNKNOWN,
    )


def jaxprs_in_params(params: ParamDict) -> Iterator[Jaxpr]:
    """The jaxprs among an equation's parameters.

    Example:
        >>> import xlab
        >>> eqn, = xlab.make_jaxpr(xlab.jit(lambda x: x + 1))(1.0).eqns
        >>> [len(j.eqns) for j in jaxprs_in_params(eqn.params)]
        [1]
    """
    yield from inner_jaxprs(params)
