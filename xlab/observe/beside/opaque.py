"""An equation that only JAX understands: one step, run by JAX's own compiled piece, with its StableHLO as a parameter."""

from __future__ import annotations

import functools
import re
from typing import Any

from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.mlir.building import Template, place_functions
from xlab.interpreters.mlir.values import tensor_type
from xlab.observe.beside import values
from xlab.observe.beside.recognize import jax

_SYMBOL = re.compile(r"func\.func private @([\w.$-]+)")
LONGEST = 400
"""Characters of StableHLO in the line of an equation; the program's StableHLO has all of it."""


class Piece:
    """What JAX makes of one equation, compiled when it is first run.

    Attributes:
        why: what kept the equation from being one of ours.
    """

    def __init__(self, eqn: Any, out_avals: tuple, why: str):
        self.why, self.out_avals = why, out_avals
        self._avals = [a.aval for a in eqn.invars]

        def run(*xs: Any) -> Any:
            given = eqn.primitive.get_bind_params(eqn.params)
            inner, params = given if isinstance(given, tuple) else ((), given)
            return eqn.primitive.bind(*inner, *xs, **params)

        self._fun = run

    @functools.cached_property
    def lowered(self) -> Any:
        """JAX's lowered module of this equation alone."""
        types = [
            jax().ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False))
            for a in self._avals
        ]
        return jax().jit(self._fun, keep_unused=True).lower(*types)

    @functools.cached_property
    def stablehlo(self) -> str:
        """The operations of that module; the reason where it cannot be lowered alone."""
        try:
            return str(self.lowered.as_text())
        except Exception as error:
            return f"not lowered alone: {type(error).__name__}: {error}"

    @functools.cached_property
    def _compiled(self) -> Any:
        return self.lowered.compile()

    def functions(self) -> list[str]:
        """The functions of the module, as private ones: `@function` is the equation."""
        text = str(self.lowered.as_text())
        found = re.findall(r"(?ms)^  func\.func .*?^  \}$", text)
        return [
            re.sub(r"@main(?![\w.$-])", "@function", f).replace(
                "func.func public", "func.func private", 1
            )
            for f in found
        ]

    def __call__(self, *args: Any) -> list[Any]:
        found = jax()
        given = [
            found.numpy.asarray(values.back(x), a.dtype) if not hasattr(a.dtype, "_impl") else values.back(x)
            for x, a in zip(args, self._avals)
        ]  # fmt: skip
        outs = self._compiled(*given)
        return list(map(values.array, outs if isinstance(outs, (tuple, list)) else [outs]))

    def __repr__(self) -> str:
        lines = [line.strip() for line in self.stablehlo.splitlines()]
        body = "; ".join(
            line
            for line in lines
            if ("stablehlo." in line and "sdy.mesh" not in line) or line.startswith("not lowered")
        )
        return "{" + (body if len(body) <= LONGEST else body[:LONGEST] + " …") + "}"


def primitive(
    eqn: Any, name: str, out_avals: list[Any], why: str
) -> tuple[Primitive, dict[str, Any]]:
    """A primitive of this name that JAX runs, and its parameters."""
    made = _named(name, bool(eqn.primitive.multiple_results))
    return made, {"stablehlo": Piece(eqn, tuple(out_avals), why)}


def whole(program: Any, out_avals: list[Any]) -> tuple[Primitive, dict[str, Any]]:
    """A whole program that JAX compiled, as one primitive."""
    return _named(program.name, True), {"stablehlo": _Whole(program, tuple(out_avals))}


class _Whole(Piece):
    """A program of which only a later stage is known."""

    def __init__(self, program: Any, out_avals: tuple):
        self.program, self.out_avals, self.why = program, out_avals, "its equations are not kept"

    @functools.cached_property
    def lowered(self) -> Any:
        if self.program.jax_lowered is None:
            raise TypeError("a Compiled of JAX's keeps no StableHLO")
        return self.program.jax_lowered

    def __repr__(self) -> str:
        return f"of {self.program.version}"

    def __call__(self, *args: Any) -> list[Any]:
        return list(map(values.array, self.program.results(list(map(values.back, args)))))


@functools.cache
def _named(name: str, several: bool) -> Primitive:
    made = Primitive(
        name, multiple_results=several, auto_pvary=False, context_dependent=True, hidden=True
    )

    def run(*args: Any, stablehlo: Piece) -> Any:
        outs = stablehlo(*args)
        return outs if several else outs[0]

    def types(*_: Any, stablehlo: Piece) -> Any:
        return stablehlo.out_avals if several else stablehlo.out_avals[0]

    made.def_impl(run)
    made.def_abstract_eval(types)
    mlir.register_text_lowering(made, _lower)
    for table, word in (
        (ad.primitive_jvps, "derivative"),
        (batching.primitive_batchers, "batching"),
    ):
        table[made] = functools.partial(_refuse, made, word)
    return made


def _lower(ctx: Any, *names: str, stablehlo: Piece) -> Any:
    """JAX's own module of the equation, as functions of ours."""
    functions = stablehlo.functions()
    symbols = [_SYMBOL.search(f)[1] for f in functions]  # type: ignore[index]  # each begins with its name
    symbol = place_functions(ctx, Template(functions, symbols), "jax_piece")
    types = [[tensor_type(a) for a in part] for part in (ctx.avals_in, ctx.avals_out)]
    outs = ctx.ops(
        f"func.call @{symbol}({', '.join(names)}) : ({', '.join(types[0])}) -> ({', '.join(types[1])})",
        len(types[1]),
    )
    return outs


def _refuse(made: Primitive, word: str, *_: Any, **__: Any) -> Any:
    raise TypeError(
        f"{made.name} is a primitive of JAX's alone, so that there is no {word} rule here: it can be run and stepped over as a whole. "
        "Transform the function with JAX first, and look at what comes of that."
    )
