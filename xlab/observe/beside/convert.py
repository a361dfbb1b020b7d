"""A jaxpr of JAX's as one of ours, equation by equation, each with the user's line and scope.

A primitive that we have by its name keeps its parameters; one that we lack, or whose parameters or types we cannot say, stays one equation
that JAX itself runs (`opaque.py`). A program that is used twice stays one program.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab.core import effects as _effects
from xlab.core import source_info as _source_info
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var
from xlab.core.primitive import Primitive, all_primitives
from xlab.interpreters import communication
from xlab.observe.beside import loops, opaque, rules, values
from xlab.observe.beside.recognize import jax
from xlab.observe.beside.values import Untranslatable

# Rooms whose primitives a program may have.
_ROOMS = (
    "xlab.lax", "xlab.lax.linalg", "xlab.random", "xlab.nn", "xlab.numpy", "xlab.scipy.special", "xlab.parallel.shard_map",
    "xlab.lax.callback_calls", "xlab.transforms.checkpoint", "xlab.custom_derivatives",
)  # fmt: skip
_NAMES = {"remat2": "checkpoint"}
# Parameters that only JAX has, with the value that means nothing special; another value keeps the equation JAX's.
_DROPPED: dict[str, tuple] = {
    "accuracy": (None,),
    "ctx_mesh": (),
    "in_layouts": (),
    "out_layouts": (),
    "out_dtype": (None,),
}


@functools.cache
def _known(count: int) -> dict[str, Primitive]:
    return {p.name: p for p in all_primitives()}


def _primitive(name: str) -> Primitive | None:
    for room in _ROOMS:
        importlib.import_module(room)
    known = _known(len(list(all_primitives())))
    return known.get(name) or known.get(_NAMES.get(name, ""))


def closed_jaxpr(theirs: Any) -> ClosedJaxpr:
    """Our form of a closed jaxpr of JAX's; its constants lie where JAX's do."""
    return converted(theirs)[0]


def converted(theirs: Any, code: Any = None) -> tuple[ClosedJaxpr, dict[int, tuple[Any, JaxprEqn]]]:
    """The same, with our equation of each of JAX's by its id, nested ones included.

    `code` is of the user's function, where it is known: the place of what only a library's own lines led to.

    Raises:
        TypeError: the types of its arguments or results have nothing like them here.
    """
    try:
        made = _Converter(code)
        return made.closed(theirs), made.equations
    except Untranslatable as error:
        raise TypeError(
            f"this program of JAX's takes or gives {error}, for which there is no type here; give it arrays of numbers, or look at the "
            "part of it that computes with arrays"
        ) from None


class _Converter:
    def __init__(self, code: Any) -> None:
        self.done: dict[int, tuple[Any, Jaxpr]] = {}
        self.closed_done: dict[int, tuple[Any, ClosedJaxpr]] = {}
        self.equations: dict[int, tuple[Any, JaxprEqn]] = {}
        self.loops_done: dict[tuple[int, int], dict[str, Any]] = {}
        # JAX traces some bodies once and for all, with no frame of the user's: they have the place of the equation around them.
        self.around: tuple = _source_info.SourceInfo(code, 0, "", ((), None) if code else None)
        # What the user calls the arguments, for the program inside that a library made of them.
        self.named: dict[Any, str] = {}
        self.handed_on: list[str] = []

    def closed(self, theirs: Any) -> ClosedJaxpr:
        """The same object for the same program, so that what is shared stays shared."""
        found = self.closed_done.get(id(theirs))
        if found is None:
            made = ClosedJaxpr(self.jaxpr(theirs.jaxpr), [values.array(c) for c in theirs.consts])
            found = self.closed_done[id(theirs)] = (theirs, made)
        return found[1]

    def jaxpr(self, theirs: Any) -> Jaxpr:
        found = self.done.get(id(theirs))
        if found is None:
            found = self.done[id(theirs)] = (theirs, self._jaxpr(theirs))
        return found[1]

    def _jaxpr(self, theirs: Any) -> Jaxpr:
        env: dict[Any, Var] = {}
        info = _debug_info(theirs.debug_info)
        names, self.handed_on = self.handed_on, []
        if len(names) == len(info.arg_names) == len(theirs.invars):
            info.arg_names = tuple(n or own for n, own in zip(names, info.arg_names))
        if len(info.arg_names) == len(theirs.invars):
            self.named.update(zip(theirs.invars, info.arg_names))

        def atom(a: Any) -> Any:
            if type(a).__name__ == "Literal":
                val = np.asarray(a.val)[()] if hasattr(a.val, "dtype") else a.val
                return Literal(val, values.aval(a.aval))
            if a not in env:
                env[a] = Var(values.aval(a.aval))
            return env[a]

        consts, ins = [[atom(v) for v in part] for part in (theirs.constvars, theirs.invars)]
        eqns = [self.equation(e, atom) for e in theirs.eqns]
        self.equations.update((id(e), (e, made)) for e, made in zip(theirs.eqns, eqns))
        outs = [atom(v) for v in theirs.outvars]
        return Jaxpr(consts, ins, outs, eqns, debug_info=info)

    def equation(self, e: Any, atom: Callable[[Any], Any]) -> JaxprEqn:
        ins, outs = [atom(a) for a in e.invars], [atom(v) for v in e.outvars]
        place = source(e.source_info, self.around)
        if e.primitive.name == "jit" and place[:2] == self.around[:2]:  # no line of the user's
            self.handed_on = [self.named.get(v, "") if _is_var(v) else "" for v in e.invars]
        outside, self.around = self.around, place
        try:
            return self._equation(e, ins, outs, place)
        finally:
            self.around = outside

    def _equation(self, e: Any, ins: list, outs: list, place: tuple) -> JaxprEqn:
        primitive = _primitive(e.primitive.name)
        if primitive is not None:
            try:
                params = self.params(e)
                if e.primitive.name == "while" and loops.has_examples(params):
                    ins, params = self.with_one_truth(ins, params, place)
                axes = [f.name for f in e.effects if type(f).__name__ == "NamedAxisEffect"]
                effects = _effects_of(primitive, ins, outs, params, axes)
                return JaxprEqn(ins, outs, primitive, params, effects, place)
            except (
                Exception
            ) as error:  # whatever it is, JAX can run this equation and say what it is
                why = f"{error}"
        else:
            why = "no primitive of this name here"
        name = e.primitive.name if primitive is None else f"jax.{e.primitive.name}"
        primitive, params = opaque.primitive(e, name, [v.aval for v in outs], why)
        return JaxprEqn(ins, outs, primitive, params, _effects.NO_EFFECTS, place)

    def with_one_truth(self, ins: list, params: dict[str, Any], place: tuple) -> tuple[list, dict]:
        """A loop over examples; the same programs for the same loop, so that what is shared stays shared."""
        key = id(params["cond_jaxpr"]), id(params["body_jaxpr"])
        if key not in self.loops_done:
            self.loops_done[key] = loops.with_one_truth(params, place)
        return [*ins[: params["cond_nconsts"]], *ins], self.loops_done[key]

    def params(self, e: Any) -> dict[str, Any]:
        name, given = e.primitive.name, dict(e.params)
        if name in ("custom_jvp_call", "custom_vjp_call"):
            return rules.params(name, given, self.closed)
        out = {}
        for key, value in given.items():
            if key in _DROPPED and (not _DROPPED[key] or value in _DROPPED[key]):
                continue
            out[key] = self.param(value)
        if name in ("reduce_max", "reduce_min"):
            out.setdefault("out_sharding", None)
        if name == "round":
            out["rounding_method"] = int(given["rounding_method"])
        if "callback" in out:
            out["callback"] = rules.callback(name, given["callback"])
        return out

    def param(self, value: Any) -> Any:
        kind = type(value).__name__
        if kind == "ClosedJaxpr":
            return self.closed(value)
        if kind == "Jaxpr" and hasattr(value, "eqns"):
            return self.jaxpr(value)
        if kind == "_FlatCallback":
            return value  # `params` puts ours in its place
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            parts = [self.param(v) for v in value]
            ours = values.ours(type(value))
            return ours(*parts)
        if type(value) in (tuple, list):
            return type(value)(map(self.param, value))
        if hasattr(value, "bind") and hasattr(value, "multiple_results"):
            found = _primitive(value.name)
            if found is None:
                raise Untranslatable(f"the primitive {value.name}")
            return found
        return values.param(value)


def _is_var(atom: Any) -> bool:
    return type(atom).__name__ != "Literal"


def _effects_of(
    primitive: Primitive, ins: list, outs: list, params: dict, axes: list
) -> frozenset[_effects.Effect]:
    """The effects of an equation whose types are those that our rule gives.

    Raises:
        Untranslatable: our rule gives other types.
    """
    named = axes or communication.axes_of(primitive, params)
    if named:  # their sizes are known only inside of the `shard_map` around it
        return frozenset(_effects.NamedAxisEffect(a) for a in named)
    found, effects = primitive.abstract(tuple(a.aval for a in ins), params)
    found = found if primitive.multiple_results else (found,)
    wanted = [v.aval for v in outs]
    if len(found) != len(wanted) or any(
        isinstance(w, ShapedArray) and (f.shape, f.dtype) != (w.shape, w.dtype)
        for f, w in zip(found, wanted)
    ):
        raise Untranslatable(f"results of types {found} where JAX has {wanted}")
    return effects


def _debug_info(info: Any) -> DebugInfo:
    paths = info.result_paths
    results = (
        [p if isinstance(p, str) else "" for p in paths] if isinstance(paths, (tuple, list)) else ()
    )
    file, _, line = (info.func_src_info or "").rpartition(" at ")[2].rpartition(":")
    return DebugInfo(
        info.func_name or "<unknown>",
        tuple(n or "" for n in info.arg_names or ()),
        results,
        f"{file}:{line}" if line.isdigit() else "",
        (),
    )


def source(info: Any, around: tuple) -> tuple:
    """Where an equation comes from: the innermost frame of the user's and those that called it, and the scope.

    Without such a frame it is the place of the equation `around` it.
    """
    scope, backward = _scope(info.name_stack)
    frames = _frames(info.traceback)
    known = around[0] is not None and not _source_info.is_library(around[0].co_filename)
    if not frames or (known and all(_source_info.is_library(c.co_filename) for c, _ in frames)):
        found: tuple = (*around[:2], scope, *around[3:])
    else:
        found = (*frames[0], scope, (tuple(x for f in frames[1:] for x in f), None))
    return _source_info.TransposedLocation(found) if backward else found


def _frames(traceback: Any) -> list[tuple[Any, int]]:
    if traceback is None:
        return []
    codes, lasti = traceback.raw_frames()
    frames = list(zip(codes, lasti))
    return [f for f in frames if not _theirs(f[0].co_filename)]


@functools.lru_cache(maxsize=4096)
def _theirs(file: str) -> bool:
    """Whether a file is JAX's, ours or the interpreter's."""
    home = os.path.dirname(os.path.abspath(jax().__file__)) + os.sep
    return os.path.abspath(file).startswith(home) or _source_info.is_internal(file)


def _scope(stack: Any) -> tuple[str, bool]:
    """The named scopes around an equation, and whether a transposition is among them."""
    names: list[str] = []
    backward = False
    for part in getattr(stack, "stack", ()):
        if type(part).__name__ == "Scope":
            names.append(str(part.name))
        else:
            backward = backward or getattr(part, "name", "") == "transpose"
    return "/".join(names), backward
