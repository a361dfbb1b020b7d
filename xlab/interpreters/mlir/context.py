"""From a jaxpr to a StableHLO function, as text: what a lowering rule sees and writes to, and the loop over the equations.

Every operation carries the number of the jaxpr equation it came from in its location, `"jit(f)/scope/sin;e12"` with file
and line. XLA keeps it through optimization, so compiled instructions and profiler events lead back to equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray, aval_of, explicit_types
from xlab.core.dims import SymbolicDim
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
)
from xlab.interpreters.mlir.annotations import attribute_text
from xlab.interpreters.mlir.constants import (
    host_value,
)
from xlab.interpreters.mlir.lowering_rules import lowerings, single_operations
from xlab.interpreters.mlir.module_builder import ModuleBuilder
from xlab.interpreters.mlir.shardings import constrain_results
from xlab.interpreters.mlir.values import constant_text, physical_aval, tensor_type

TOKEN_TYPE = "!stablehlo.token"
_I32 = ShapedArray((), np.int32)
_SCALARS = frozenset({bool, int, float, np.float32, np.int32})
_NOT_INLINED = attribute_text((("inlineable", "false"),))


class Context:
    """What a lowering rule sees: types of one equation, and where to write.

    Attributes:
        avals_in, avals_out: types of operands and results.
        params: the equation's parameters.
        module: the module builder (meshes, callbacks, platform).
        axes: bound mesh axes where the code runs per device: `{name: size}` of the whole mesh, and
            `manual`, those among them that are under manual control; empty outside.
    """

    __slots__ = (
        "_fn",
        "avals_in",
        "avals_out",
        "eqn",
        "indent",
        "lines",
        "loc",
        "manual",
        "mesh",
        "module",
        "scope",
        "started",
    )

    def __init__(
        self, module: ModuleBuilder, fn: _FunctionNames, lines, scope, mesh=None, manual=()
    ):
        self.module, self._fn, self.lines, self.scope = module, fn, lines, scope
        self.mesh, self.manual = mesh, manual
        self.avals_in = self.avals_out = ()
        self.eqn = None
        # By name: operations that have to be awaited, and are taken out again if the program does not; the lines and the line.
        self.started: dict[str, tuple[list[str], str]] = {}
        self.loc = ""
        self.indent = "    "

    @property
    def params(self):
        return self.eqn.params

    @property
    def platform(self) -> str:
        return self.module.platform

    def fresh(self) -> str:
        fn = self._fn
        fn.count += 1
        return f"%{fn.count}"

    def type_in(self, i: int = 0) -> str:
        return tensor_type(self.avals_in[i])

    def type_out(self, i: int = 0) -> str:
        aval = self.avals_out[i]
        return aval.mlir or tensor_type(aval)

    def types_in(self) -> str:
        return ", ".join(map(tensor_type, self.avals_in))

    def op(self, text: str) -> str:
        """Emits an operation with one result; returns the result's name."""
        fn = self._fn
        fn.count += 1
        name = f"%{fn.count}"
        self.lines.append(f"    {name} = {text}{self.loc}")
        return name

    def op0(self, text: str):
        """Emits an operation without results."""
        self.lines.append(f"    {text}{self.loc}")

    def ops(self, text: str, n: int) -> list[str]:
        """Emits an operation with `n` results."""
        if n == 1:
            return [self.op(text)]
        if n == 0:
            self.op0(text)
            return []
        name = self.fresh()
        self.lines.append(f"    {name}:{n} = {text}{self.loc}")
        return [f"{name}#{i}" for i in range(n)]

    def constant(self, value, aval) -> str:
        """A constant, written once per function and region."""
        text = constant_text(value, aval)
        cache = self._fn.constants[-1]
        name = cache.get(text)
        if name is None:
            name = cache[text] = self.fresh()
            self.lines.append(f"    {name} = {text}")
        return name

    def dimension(self, d) -> str:
        """A size as an i32 scalar."""
        return self.constant(d if type(d) is SymbolicDim else np.int32(d), _I32)

    def fill(self, value, aval) -> str:
        """An array with the same scalar everywhere."""
        if type(value) is SymbolicDim:
            scalar = aval.update(shape=())
            return self.broadcast(self.constant(value, scalar), scalar, aval)
        return (
            self.constant(np.full((), value), aval)
            if not aval.shape
            else self.op(
                constant_text(np.full((), value), aval.update(shape=())).replace(
                    f": {tensor_type(aval.update(shape=()))}", f": {tensor_type(aval)}"
                )
            )
        )

    def broadcast(self, x: str, aval_in, aval_out, dims=()) -> str:
        """`broadcast_in_dim` of `x`; `dims` places its dimensions in the result."""
        if aval_in.shape == aval_out.shape:
            return x
        dims = ", ".join(map(str, dims))
        return self.op(
            f"stablehlo.broadcast_in_dim {x}, dims = [{dims}] : "
            f"({tensor_type(aval_in)}) -> {tensor_type(aval_out)}"
        )

    def broadcast_operand(self, x: str, aval_in, aval_out) -> str:
        """An elementwise operand in the result's shape: scalars and dimensions of size 1 are repeated."""
        if aval_in.shape == aval_out.shape:
            return x
        if aval_in.dtype is aval_out.dtype:
            target = aval_out.mlir or tensor_type(aval_out)
        else:
            target = tensor_type(aval_in.update(shape=aval_out.shape))
        # Trailing dimensions that a random key is made of.
        words = physical_aval(aval_in).ndim - aval_in.ndim
        dims = ", ".join(
            map(str, (*range(aval_in.ndim), *range(aval_out.ndim, aval_out.ndim + words)))
        )
        return self.op(
            f"stablehlo.broadcast_in_dim {x}, dims = [{dims}] : ({tensor_type(aval_in)}) -> {target}"
        )

    def literal(self, atom: Literal) -> str:
        """The name of a literal of the program, written once per function and region."""
        value = atom.val
        kind = value.__class__
        if kind in _SCALARS:
            # The two zeros are equal.
            key = (kind, value if value else repr(value), atom.aval)
        elif isinstance(value, np.generic):
            key = (kind, value.tobytes(), atom.aval)
        else:
            return self.constant(host_value(value), atom.aval)
        cache = self._fn.constants[-1]
        name = cache.get(key)
        if name is None:
            name = cache[key] = self.constant(host_value(value), atom.aval)
        return name

    # -- tokens ----------------------------------------------------------------------------------------

    def token(self, effect) -> str:
        """The current token of an ordered effect."""
        return self._fn.tokens[effect]

    def tokens(self, effects) -> list[str]:
        """Tokens to hand to an inner program with these ordered effects, in front of its operands."""
        return [self._fn.tokens[e] for e in effects]

    def take_tokens(self, effects, results: Sequence[str]) -> list[str]:
        """Keeps the tokens in front of an operation's results; returns the rest."""
        self._fn.tokens.update(zip(effects, results))
        return list(results[len(effects) :])

    def with_tokens(self, effects, names: Sequence[str], body: Callable) -> list[str]:
        """Runs `body(names)` in a region whose leading names are tokens; its results, tokens in front."""
        if not effects:
            return body(names)
        fn = self._fn
        outer, fn.tokens = fn.tokens, {**fn.tokens, **dict(zip(effects, names))}
        try:
            outs = body(names[len(effects) :])
            return [*self.tokens(effects), *outs]
        finally:
            fn.tokens = outer

    # -- inner programs --------------------------------------------------------------------------------

    def jaxpr(
        self,
        jaxpr: Jaxpr | ClosedJaxpr,
        args: Sequence[str],
        consts: Sequence[str] | None = None,
        scope: str = "",
    ) -> list[str]:
        """Writes the equations of an inner program here; returns the names of its results."""
        if isinstance(jaxpr, ClosedJaxpr):
            consts = [self.value(c) for c in jaxpr.consts]
            jaxpr = jaxpr.jaxpr
        saved = (self.eqn, self.avals_in, self.avals_out, self.loc, self.scope)
        if scope:
            self.scope = f"{self.scope}/{scope}" if self.scope else scope
        try:
            return _lower_equations(self, jaxpr, consts or (), args)
        finally:
            self.eqn, self.avals_in, self.avals_out, self.loc, self.scope = saved

    def value(self, x) -> str:
        """The name of a concrete value known while lowering."""
        hoisted = self._fn.hoisted.get(id(x)) if self._fn.hoisted else None
        if hoisted is not None:
            return hoisted
        return self.constant(host_value(x), aval_of(x))

    def region(
        self,
        jaxpr,
        arg_names: Sequence[str],
        terminator: str = "stablehlo.return",
        prologue: Callable | None = None,
        scope: str = "",
        types_out=None,
    ) -> str:
        """The text of a region `{ ... terminator results }` that runs an inner program on named values."""
        outer, self.lines = self.lines, []
        self._fn.constants.append({})
        try:
            args = prologue(self) if prologue is not None else arg_names
            outs = (
                self.jaxpr(jaxpr, args, scope=scope) if not callable(jaxpr) else jaxpr(self, args)
            )
            if types_out is None:
                closed = jaxpr
                types_out = [
                    tensor_type(a)
                    for a in (closed.out_avals if hasattr(closed, "out_avals") else self.avals_out)
                ]
            if outs:
                self.lines.append(f"    {terminator} {', '.join(outs)} : {', '.join(types_out)}")
            else:
                self.lines.append(f"    {terminator}")
            return "{\n" + "\n".join(self.lines) + "\n    }"
        finally:
            self._fn.constants.pop()
            self.lines = outer

    def block(
        self,
        types_in: Sequence[str],
        body: Callable,
        types_out: Sequence[str],
        terminator: str = "stablehlo.return",
    ) -> str:
        """A region `({ ^bb0(args): ... })` as text; `body(names)` emits operations and returns result names."""
        names = [self.fresh() for _ in types_in]
        outer, self.lines = self.lines, []
        self._fn.constants.append({})
        try:
            outs = body(names)
            lines = self.lines
        finally:
            self._fn.constants.pop()
            self.lines = outer
        header = ", ".join(f"{n}: {t}" for n, t in zip(names, types_in))
        label = f"    ^bb0({header}):\n" if names else ""
        end = f"{terminator} {', '.join(outs)} : {', '.join(types_out)}" if outs else terminator
        return "{\n" + label + "".join(f"{line}\n" for line in lines) + f"    {end}\n    }}"

    def call(
        self, key, name: str, closed: ClosedJaxpr, args: Sequence[str], attributes: str = ""
    ) -> list[str]:
        """Calls an inner program as a function of the module, written once per `key`."""
        symbol = self.function(key, name, closed)
        ordered = _effects.in_order(closed.effects)
        tokens = [TOKEN_TYPE] * len(ordered)
        types_in = ", ".join([*tokens, *(tensor_type(a) for a in closed.in_avals)])
        types_out = ", ".join([*tokens, *(tensor_type(a) for a in closed.out_avals)])
        outs = self.ops(
            f"func.call @{symbol}({', '.join([*self.tokens(ordered), *args])})"
            f"{f' {{{attributes}}}' if attributes else ''} : ({types_in}) -> ({types_out})",
            len(ordered) + len(closed.out_avals),
        )
        return self.take_tokens(ordered, outs)

    def function(self, key, name: str, closed: ClosedJaxpr) -> str:
        """The symbol of an inner program as a function of the module, written once per `key`."""
        module = self.module
        key = (key, self.mesh, self.manual)
        symbol = module.shared.get(key)
        if symbol is None:
            symbol = module.shared[key] = module.unique_symbol(name)
            module.keepalive.append(closed)
            module.functions.append(
                function_text(
                    module,
                    symbol,
                    closed,
                    f"{self.scope}/jit({name})" if self.scope else f"jit({name})",
                    mesh=self.mesh,
                    manual=self.manual,
                )
            )
        return symbol

    def apart(self, name: str, body: Callable, operands: Sequence[str], avals_in, aval_out) -> str:
        """What `body(names)` emits, as a function that the CPU compiler does not inline.

        The compiler fuses cheap elementwise operations into each of their users, however many they are: sixty of them are compiled and run
        again by everyone who takes a part of the result. A function stays one, and its result is stored. For other platforms, whose compilers
        weigh what to fuse, the operations are written in place.
        """
        module = self.module
        if module.platform != "cpu":
            return body(operands)
        symbol = module.unique_symbol(name)
        args = [f"%arg{i}" for i in range(len(operands))]
        types_in = [tensor_type(a) for a in avals_in]
        kind = tensor_type(aval_out)
        fn, lines = self._fn, self.lines
        self._fn, self.lines = _FunctionNames(), []
        try:
            out = body(args)
            header = ", ".join(f"{a}: {t}" for a, t in zip(args, types_in))
            inner = "\n".join(self.lines)
        finally:
            self._fn, self.lines = fn, lines
        module.functions.append(
            f"  func.func private @{symbol}({header}) -> {kind} {{\n{inner}\n    return {out} : {kind}\n  }}"
        )
        return self.op(
            f"func.call @{symbol}({', '.join(operands)}) {{{_NOT_INLINED}}} : ({', '.join(types_in)}) -> {kind}"
        )

    def with_axes(self, mesh, manual):
        """A context for code that runs per device over the `manual` axes of `mesh`."""
        inner = Context(self.module, self._fn, self.lines, self.scope, mesh, tuple(manual))
        inner.loc, inner.eqn = self.loc, self.eqn
        inner.avals_in, inner.avals_out = self.avals_in, self.avals_out
        return inner


class _FunctionNames:
    __slots__ = ("constants", "count", "hoisted", "tokens")

    def __init__(self):
        self.count = -1
        self.tokens: dict[Any, str] = {}
        self.constants: list[dict[Any, str]] = [{}]
        self.hoisted: dict[int, str] = {}


def _sums_left(ctx) -> bool:
    """Whether results of the equation are unreduced over the mesh of the whole program."""
    return not ctx.manual and any(type(a) is ShapedArray and a.mat.unreduced for a in ctx.avals_out)


_NO_ACCURACY = {"accuracy": None}
"""The parameters of an operation of which no accuracy is asked: none that the text would hold."""


def _lower_equations(ctx: Context, jaxpr: Jaxpr, consts, args) -> list[str]:
    env = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    module, scope, rules = ctx.module, ctx.scope, lowerings.get
    literal, fn, write, numbers = ctx.literal, ctx._fn, ctx.lines.append, module.numbers
    places: dict[tuple, tuple] = {}
    outside = len(ctx.started)
    constrain_shardings = module.devices > 1 and explicit_types.in_use
    try:
        for eqn, number in zip(jaxpr.eqns, map(numbers.get, map(id, jaxpr.eqns))):
            prim = eqn.primitive
            site = (id(eqn.raw_source_info), prim)
            place = places.get(site)
            if place is None:
                rule = rules(prim)
                if rule is None:
                    raise lowerings.missing(prim, f" for the platform {module.platform}")
                operation = None if constrain_shardings else single_operations.get(rule)
                place = places[site] = (rule, operation, *module.around_number(eqn, scope))
            rule, operation, before, after = place
            if number is None and (number := numbers.get(id(eqn))) is None:
                number = numbers[id(eqn)] = len(numbers)
            outvars, params = eqn.outvars, eqn.params
            if (
                operation is not None
                and (not params or params == _NO_ACCURACY)
                and (operation[1] or outvars[0].aval.dtype.kind != "c")
            ):
                # Most equations of most programs: written here, without calls.
                v = outvars[0]
                out = v.aval
                operands = ""
                for a in eqn.invars:
                    if a.aval is not out and a.aval.shape != out.shape:
                        break
                    name = literal(a) if type(a) is Literal else env[a]
                    operands = f"{operands}, {name}" if operands else name
                else:
                    fn.count = count = fn.count + 1
                    env[v] = name = f"%{count}"
                    write(
                        f"    {name} = {operation[0]}{operands} : {out.mlir or tensor_type(out)}{before}{number}{after}"
                    )
                    continue
            names = []
            avals_in = []
            for v in eqn.invars:
                avals_in.append(v.aval)
                names.append(literal(v) if type(v) is Literal else env[v])
            ctx.eqn = eqn
            ctx.avals_in = avals_in
            ctx.avals_out = [v.aval for v in outvars]
            ctx.loc = f"{before}{number}{after}"
            out = rule(ctx, *names, **params)
            if constrain_shardings and (prim.auto_pvary or _sums_left(ctx)):
                out = constrain_results(ctx, out)
            if out.__class__ is str:
                env[outvars[0]] = out
            else:
                env.update(zip(outvars, out))
    except ValueError as e:
        if not hasattr(e, "__notes__"):  # the innermost equation is the one
            e.add_note(f"This is the equation `{eqn.primitive}` of {eqn.source_info}.")
        raise
    while len(ctx.started) > outside:  # nobody waits for them here, and nobody else can
        lines, line = ctx.started.popitem()[1]
        lines.remove(line)
    return [literal(v) if type(v) is Literal else env[v] for v in jaxpr.outvars]


def function_text(
    module,
    symbol,
    closed: ClosedJaxpr,
    scope,
    *,
    mesh=None,
    manual=(),
    public=False,
    arg_attributes=None,
    result_attributes=None,
    hoisted=(),
) -> str:
    fn = _FunctionNames()
    lines: list[str] = []
    ctx = Context(module, fn, lines, scope, mesh, manual)
    ordered = _effects.in_order(closed.effects)
    fn.tokens = {e: f"%token{i}" for i, e in enumerate(ordered)}
    tokens = [TOKEN_TYPE] * len(ordered)
    operands = [f"%arg{i}" for i in range(len(closed.in_avals))]
    fn.hoisted = {id(c): f"%const{i}" for i, c in enumerate(hoisted)}
    args = [*fn.tokens.values(), *fn.hoisted.values(), *operands]
    types = [
        *tokens,
        *(tensor_type(aval_of(c)) for c in hoisted),
        *(tensor_type(a) for a in closed.in_avals),
    ]
    attributes = [
        *([" {jax.token = true}"] * len(ordered)),
        *([""] * len(hoisted)),
        *(arg_attributes or [""] * len(operands)),
    ]
    header = ", ".join(f"{a}: {t}{x}" for a, t, x in zip(args, types, attributes))
    consts = [ctx.value(c) for c in closed.consts]
    outs = _lower_equations(ctx, closed.jaxpr, consts, operands)
    outs = [*ctx.tokens(ordered), *outs]
    out_types = [*tokens, *(tensor_type(a) for a in closed.out_avals)]
    result_attributes = [
        *([" {jax.token = true}"] * len(ordered)),
        *(result_attributes or [""] * len(closed.out_avals)),
    ]
    results = ", ".join(t + x for t, x in zip(out_types, result_attributes))
    visibility = "public" if public else "private"
    body = "\n".join(lines)
    ending = f"    return {', '.join(outs)} : {', '.join(out_types)}" if outs else "    return"
    return (
        f"  func.func {visibility} @{symbol}({header}) -> ({results}) {{\n{body}\n{ending}\n  }}"
        if lines
        else f"  func.func {visibility} @{symbol}({header}) -> ({results}) {{\n{ending}\n  }}"
    )
