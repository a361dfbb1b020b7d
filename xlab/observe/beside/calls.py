"""A call of JAX's: traced, lowered, compiled and run by JAX, and described as ours are.

What JAX lowers is its own program with the number of each equation in the names of its operations, which join the levels of a program;
nothing else of it is changed, and the user's function keeps its own caches.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import events
from xlab.backend import caches
from xlab.compile.executable import Executable
from xlab.compile.lowering import MeshComputation
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    Var,
    eval_jaxpr,
    number_equations,
)
from xlab.interpreters.mlir import LoweredModule
from xlab.observe.beside import convert, opaque, recognize, values
from xlab.observe.beside.held import Held, held_of, without
from xlab.sharding import NamedSharding

_MARKED = re.compile(r'(loc\(|op_name=)"((?:[^"\\]|\\.)*;e\d+(?:[^"\\]|\\.)*)"')
_MARK = re.compile(r"/?;e(\d+)")
_ARGUMENT = re.compile(r' loc\("[^"]*"\)(?=[,)])')


class JaxProgram:
    """A program of JAX's with what JAX made of it.

    Attributes:
        closed: its equations as ours.
        traced: JAX's `Traced`; None where only a later stage is known.
        held: what of the arguments is no array, where there is something.
    """

    def __init__(
        self,
        name: str,
        traced: Any = None,
        lowered: Any = None,
        compiled: Any = None,
        held: Held | None = None,
        code: Any = None,
    ):
        self.name, self.traced, self.version = name, traced, recognize.version()
        self.held = held
        self._lowered, self._compiled = lowered, compiled
        self.closed: ClosedJaxpr
        self.equations: dict[int, tuple[Any, JaxprEqn]] = {}
        if traced is not None:
            self.closed, self.equations = convert.converted(traced.jaxpr, code)
        else:
            self.closed = self._one_equation()

    @property
    def made_by(self) -> str:
        """Who traced and who compiled, in words."""
        if self.traced is None:
            return f"lowered and compiled by {self.version}, which keeps no equations of it"
        return f"traced and compiled by {self.version}"

    @property
    def has_module(self) -> bool:
        """Whether JAX keeps the lowered module."""
        return self.traced is not None or self._lowered is not None

    # -- stages --------------------------------------------------------------------------------------

    @functools.cached_property
    def jax_lowered(self) -> Any:
        """JAX's `Lowered`."""
        if self._lowered is not None or self.traced is None:
            return self._lowered
        try:
            with events.span("lower", name=self.name, closed=self.closed):
                return numbered(self).lower()
        except ValueError as error:
            if "AbstractMesh" not in str(error):
                raise
            raise TypeError(
                f"{self.name} was traced for arguments over a mesh, and its types say neither its devices nor where they lie on it: pass the "
                "arguments with it, as in observe.transfers(jaxpr, *args), or jax.jit(f).trace(*args) instead of the jaxpr"
            ) from error

    @functools.cached_property
    def jax_compiled(self) -> Any:
        """JAX's `Compiled`."""
        return self._compiled if self._compiled is not None else self.jax_lowered.compile()

    def compile_again(self, options: dict[str, Any]) -> None:
        """Has JAX compile its module once more, with options of the compiler besides its own; what it made before stays.

        Raises:
            TypeError: only the `Compiled` is known, which keeps no module.
        """
        if not self.has_module:
            raise TypeError(
                f"{self.name} is a Compiled of JAX's, which keeps no module to compile again; pass the function with its arguments, or "
                "what .lower(...) returned"
            )
        self.jax_lowered.compile(compiler_options=options)

    @functools.cached_property
    def lowered(self) -> MeshComputation:
        """JAX's module, described as our lowered programs are."""
        return _described(self)

    @property
    def executable(self) -> JaxExecutable:
        """JAX's executable, described as ours are."""
        found = vars(self).get("_executable")
        if found is not None:
            events.emit("cache_hit", name=self.name, cache="memory", executable=found)
            return found
        self._executable = self._compile()
        return self._executable

    def _compile(self) -> JaxExecutable:
        lowered = self.lowered
        if "jax_compiled" in vars(self):
            return JaxExecutable(self, lowered)
        reason = f"asked for of {self.version}"
        with events.span(
            "compile", name=self.name, devices=len(lowered.devices), reason=reason
        ) as attrs:
            self.jax_compiled  # noqa: B018
            attrs["executable"] = found = JaxExecutable(self, lowered)
        return found

    # -- calls -----------------------------------------------------------------------------------------

    def run(self, args: tuple, kwargs: dict[str, Any], fun: Any = None) -> Any:
        """What JAX returns for these arguments, when it is there; `fun` is called where some of them are static."""
        found = recognize.jax()
        executable = self.executable
        call = self.callee(args, kwargs, fun)
        with events.span(
            "execute", name=self.name, devices=len(executable.devices), executable=executable
        ):
            return found.block_until_ready(call(*args, **kwargs))

    def callee(self, args: tuple, kwargs: dict[str, Any], fun: Any) -> Any:
        """JAX's executable, or the function where some arguments are static."""
        if self.held is not None:
            return fun if fun is not None else self._with_held
        info = getattr(self.traced, "args_info", None)
        static = info is not None and (len(info[0]) != len(args) or set(info[1]) != set(kwargs))
        return fun if static and fun is not None else self.jax_compiled

    def _with_held(self, *args: Any, **kwargs: Any) -> Any:
        assert self.held is not None  # `callee` has asked
        args, kwargs = self.held.dynamic(args, kwargs)
        return self.jax_compiled(*args, **kwargs)

    def flat(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the program, without static ones."""
        found = recognize.jax()
        if self.held is not None:
            args, kwargs = self.held.dynamic(args, kwargs)
        flat = list(found.tree_util.tree_leaves((args, kwargs)))
        needed = len(self.closed.in_avals)
        if self.traced is not None:
            needed = found.tree_util.tree_structure(self.traced.args_info).num_leaves
        if len(flat) != needed:
            raise TypeError(self.takes(len(flat), needed))
        return flat

    def takes(self, given: int, needed: int) -> str:
        """Why a number of values is the wrong one, and what to do."""
        words = f"{self.name} takes {needed} value{'s' * (needed != 1)}, given {given}: "
        if given < needed:
            return words + (
                "a stage or a jaxpr of JAX's has none of its own, and is run and stepped through with its arguments, as in %xstep f.trace(x)(x)"
            )
        return words + (
            "of static arguments its equations know nothing more: bind them first, as in jax.jit(functools.partial(f, n)), to step "
            "through it"
        )

    def results(self, flat: list[Any]) -> list[Any]:
        """JAX's own results for flat arguments, as host arrays."""
        found = recognize.jax()
        tree = self.traced.in_tree if self.traced is not None else self.jax_compiled.in_tree
        args, kwargs = found.tree_util.tree_unflatten(tree, flat)
        return list(found.tree_util.tree_leaves(self.jax_compiled(*args, **kwargs)))

    def ones(self) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of ones, where nothing else is known of them."""
        found = recognize.jax()
        stage = self.traced if self.traced is not None else self.jax_compiled
        flat = [_ones(a) for a in self.closed.in_avals]
        args, kwargs = found.tree_util.tree_unflatten(stage.in_tree, flat)
        return list(args), dict(kwargs)

    @property
    def out_tree(self) -> Any:
        return (self.traced if self.traced is not None else self.jax_compiled).out_tree

    def _one_equation(self) -> ClosedJaxpr:
        """A program whose one equation JAX runs as a whole: a later stage keeps no equations."""
        found = recognize.jax()
        stage = self._compiled if self._compiled is not None else self._lowered
        paths, _ = found.tree_util.tree_flatten_with_path(stage.in_avals)
        ins = [Var(values.aval(a)) for _, a in paths]
        outs = [
            Var(ShapedArray(tuple(o.shape), values.dtype(o.dtype)))
            for o in found.tree_util.tree_leaves(stage.out_info)
        ]
        names = [("args", "kwargs")[p[0].idx] + found.tree_util.keystr(p[1:]) for p, _ in paths]
        primitive, params = opaque.whole(self, [v.aval for v in outs])
        eqn = JaxprEqn(ins, outs, primitive, params)
        return ClosedJaxpr(Jaxpr([], ins, outs, [eqn], debug_info=DebugInfo(self.name, names)))


def _ones(aval: ShapedArray) -> Any:
    if not hasattr(aval.dtype, "impl"):
        return np.ones(aval.shape, aval.dtype)
    random = recognize.jax().random
    key = random.key(1, impl=aval.dtype.impl.name)
    return random.split(key, aval.shape) if aval.shape else key


class JaxExecutable(Executable):
    """An executable that JAX compiled and that JAX runs."""

    def __init__(self, program: JaxProgram, lowered: MeshComputation):
        self.program = program
        super().__init__(lowered, loaded=program.jax_compiled.runtime_executable())

    def call(self, flat: Any) -> list:
        """Runs it, on arrays of JAX's or of ours; the results are ours."""
        given = [values.back(x) if recognize.is_ours(x) else x for x in flat]
        with events.span("execute", name=self.name, devices=len(self.devices), executable=self):
            return list(map(values.array, self.program.results(given)))


class JaxFunction:
    """A function of JAX's whose calls are recorded like ours.

    Attributes:
        made_by: who traced and compiled what was called last.
    """

    _xlab_beside = True
    made_by = ""

    def __init__(self, fun: Any):
        self.fun = fun
        named = program_of(fun).name if recognize.is_stage(fun) else type(fun).__name__
        self.__name__ = getattr(fun, "__name__", named)

    @classmethod
    def of(cls, fun: Any, static: tuple[str, ...]) -> JaxFunction:
        """A function with static arguments, by name."""
        return cls(recognize.jax().jit(fun, static_argnames=static))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program(args, kwargs).run(args, kwargs, self.fun)

    def _program(self, args: tuple, kwargs: dict[str, Any]) -> JaxProgram:
        made = program_of(self.fun, args, kwargs)
        self.made_by = made.made_by
        if recognize.is_stage(self.fun):  # which JAX would run without a word on what is missing
            made.flat(args, kwargs)
        return made

    def prepared(self, args: tuple, kwargs: dict[str, Any]) -> Callable[..., Any]:
        """What repeats the call with these arguments as JAX does, without asking again what it is."""
        found = recognize.jax()
        made: list[JaxProgram] = []

        def repeat(*args: Any, **kwargs: Any) -> Any:
            if not made:
                made.append(self._program(args, kwargs))
                return made[0].run(args, kwargs, self.fun)
            return found.block_until_ready(made[0].callee(args, kwargs, self.fun)(*args, **kwargs))

        repeat.__name__ = self.__name__
        return repeat

    def __repr__(self) -> str:
        return f"<{self.__name__}, traced and compiled by {recognize.version()}>"


# -- from what a user has to a program --------------------------------------------------------------------

_programs: caches.Latest[tuple, JaxProgram] = caches.Latest(64)
_jits: caches.Latest[tuple, Any] = caches.Latest(64)
for _kept in (_programs, _jits):
    caches.register(_kept.clear)


def program_of(what: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> JaxProgram:
    """The program of a function of JAX's with its arguments, of a stage, or of a jaxpr.

    Raises:
        TypeError: arguments given with a stage, which has them already.
    """
    kwargs = kwargs or {}
    what = what.fun if isinstance(what, JaxFunction) else what
    kind = recognize.kind_of(what)
    if kind not in ("", "jit"):
        return _of_stage(kind, what, (args, kwargs))
    found, fun = recognize.jax(), what
    held = None
    if kind != "jit":
        held = held_of(what, args, kwargs) or None
        # A wrapper that is made anew for each call would be traced anew.
        if held is None:
            what = _jits.get_or_make((id(fun),), lambda: found.jit(fun))
        else:
            kept = _jits.get_or_make(held.key(fun), lambda: found.jit(without(fun, held)))
            what, (args, kwargs) = kept, held.dynamic(args, kwargs)
    name = getattr(fun, "__name__", type(fun).__name__)
    with events.span("trace", name=name):
        traced = what.trace(*args, **kwargs)
    written = getattr(inspect.unwrap(fun), "__code__", None)
    return _of_traced(traced, held, written)


def _of_traced(traced: Any, held: Held | None = None, code: Any = None) -> JaxProgram:
    key = (id(traced.jaxpr), str(getattr(traced, "_meta_tys_flat", "")), traced.in_tree)
    return _programs.get_or_make(
        key, lambda: JaxProgram(str(traced.fun_name), traced, held=held, code=code)
    )


def _of_stage(kind: str, what: Any, given: tuple[tuple, dict[str, Any]]) -> JaxProgram:
    found = recognize.jax()
    if kind == "Traced":
        return _of_traced(what)
    if kind in ("Lowered", "Compiled"):
        stage = {kind.lower(): what}
        return _programs.get_or_make((id(what), kind), lambda: JaxProgram(_name(what), **stage))
    closed = what
    if kind == "Jaxpr":
        if what.constvars:
            raise TypeError(
                f"an open jaxpr of JAX's has {len(what.constvars)} constants whose values it does not have: pass the ClosedJaxpr"
            )
        closed = recognize.extended().ClosedJaxpr(what, ())
    fun = recognize.extended().jaxpr_as_fun(closed)

    def run(*xs: Any) -> Any:
        return fun(*xs)

    run.__name__ = run.__qualname__ = closed.jaxpr.debug_info.func_name or "jaxpr"
    jitted = _jits.get_or_make((id(what), kind), lambda: found.jit(run))
    # Arguments say on which devices and where on their mesh they lie, which types do not.
    flat = found.tree_util.tree_leaves(given) or list(closed.in_avals)
    made = _of_traced(jitted.trace(*closed.in_avals if len(flat) != len(closed.in_avals) else flat))
    if len(flat) != len(closed.in_avals):
        raise TypeError(made.takes(len(flat), len(closed.in_avals)))
    for n, (x, aval) in enumerate(zip(made.closed.in_avals, closed.in_avals)):
        if x.shape != aval.shape or x.dtype != aval.dtype:
            raise TypeError(
                f"{run.__name__} is a jaxpr whose value {n} is {values.aval(aval).str_short(short_dtypes=True)}, given one of type {x.str_short(short_dtypes=True)}"
            )
    return made


def _name(stage: Any) -> str:
    """The name of a function that only its module still has."""
    text = stage.as_text() or ""
    found = re.search(r"(?m)^(?:module @|HloModule )(?:jit_)?([\w.<>-]+)", text)
    return found[1].strip("_") if found else "function"


# -- numbers and descriptions --------------------------------------------------------------------------------


def numbered(program: JaxProgram) -> Any:
    """The `Traced` with the numbers of its equations in their names; as it is where this JAX keeps its program elsewhere."""
    traced = program.traced
    params = getattr(traced, "_params", None)
    if not isinstance(params, dict) or "jaxpr" not in params:
        return traced
    made = copy.copy(traced)
    made._params = {**params, "jaxpr": _Numbering(program).closed(params["jaxpr"])}
    made._lojax = None
    return made


class _Numbering:
    """JAX's equations with the numbers of ours; a program that is used twice stays one."""

    def __init__(self, program: JaxProgram):
        ours = number_equations(program.closed.jaxpr)
        self.numbers = {i: ours[id(eqn)] for i, (_, eqn) in program.equations.items()}
        self.done: dict[int, tuple[Any, Any]] = {}

    def closed(self, theirs: Any) -> Any:
        found = self.done.get(id(theirs))
        if found is None:
            found = self.done[id(theirs)] = (theirs, theirs.replace(jaxpr=self.jaxpr(theirs.jaxpr)))
        return found[1]

    def jaxpr(self, theirs: Any) -> Any:
        found = self.done.get(id(theirs))
        if found is None:
            made = theirs.replace(eqns=list(map(self.equation, theirs.eqns)))
            found = self.done[id(theirs)] = (theirs, made)
        return found[1]

    def equation(self, e: Any) -> Any:
        number = self.numbers.get(id(e))
        if number is None:  # inside of what stays JAX's own
            return e
        stack = e.source_info.name_stack.extend(f";e{number}")
        params = {k: self.value(v) for k, v in e.params.items()}
        return e.replace(params=params, source_info=e.source_info.replace(name_stack=stack))

    def value(self, v: Any) -> Any:
        kind = type(v).__name__
        if kind == "ClosedJaxpr":
            return self.closed(v)
        if kind == "Jaxpr" and hasattr(v, "eqns"):
            return self.jaxpr(v)
        if isinstance(v, (tuple, list)) and any(
            type(x).__name__ in ("ClosedJaxpr", "Jaxpr") for x in v
        ):
            parts = [self.value(x) for x in v]
            return type(v)(*parts) if hasattr(v, "_fields") else type(v)(parts)
        return v


def readable(text: str) -> str:
    """A module of JAX's with the number of an equation at the end of each name, as ours have them.

    >>> readable('%0 = stablehlo.sine %x loc("jit(f)/;e0/while/body/;e1/sin"(#loc3))')
    '%0 = stablehlo.sine %x loc("jit(f)/while/body/sin;e0;e1"(#loc3))'
    """

    def moved(found: re.Match) -> str:
        numbers = dict.fromkeys(_MARK.findall(found[2]))
        # As ours: of what was called, the operation's own number stands last.
        return f'{found[1]}"{_MARK.sub("", found[2])}{"".join(f";e{n}" for n in numbers)}"'

    return _MARKED.sub(moved, _ARGUMENT.sub("", text))


def _described(program: JaxProgram) -> MeshComputation:
    found = recognize.jax()
    stage, closed = program.jax_lowered, program.closed
    if stage is None:
        inner = getattr(program.jax_compiled, "_executable", None)
        facts: dict[str, Any] = {
            "kept_var_idx": getattr(inner, "_kept_var_idx", None),
            "in_shardings": getattr(inner, "_in_shardings", ()),
            "out_shardings": getattr(inner, "_out_shardings", ()),
        }
        consts: list[Any] = []
        text = "// a Compiled of JAX's keeps no StableHLO\n"
        devices = tuple(program.jax_compiled.runtime_executable().local_devices())
    else:
        lowering = stage._lowering
        facts, consts = lowering.compile_args, list(lowering.const_args)
        text = readable(stage.as_text(debug_info=True))
        listed = getattr(lowering, "_device_list", None)
        devices = tuple(listed) if listed is not None else (found.devices()[0],)
    total = len(closed.in_avals)
    kept = facts.get("kept_var_idx")
    # JAX counts the constants that it passes before the arguments.
    skip = len(consts)
    kept = tuple(i - skip for i in sorted(kept) if i >= skip) if kept is not None else tuple(range(total))  # fmt: skip
    ins = tuple(map(_sharding, tuple(facts.get("in_shardings", ()))[skip:]))
    outs = tuple(map(_sharding, facts.get("out_shardings", ())))
    several = len(devices) > 1
    ins = ins if len(ins) == len(kept) else (None,) * len(kept)
    outs = outs if len(outs) == len(closed.out_avals) else (None,) * len(closed.out_avals)
    mesh = next((s.mesh for s in (*ins, *outs) if isinstance(s, NamedSharding)), None)
    mesh = mesh if mesh is not None or not several else _mesh_inside(closed.jaxpr)
    if several:  # what is given for one device is left to what the executable says
        ins = tuple(s if isinstance(s, NamedSharding) else None for s in ins)
        outs = tuple(s if isinstance(s, NamedSharding) else None for s in outs)
    given_away = getattr(getattr(stage, "_lowering", None), "_donated_invars", ()) or ()
    donated = tuple(np.flatnonzero(given_away).tolist())
    module = LoweredModule(
        text,
        program.name,
        hoisted=[values.array(c) for c in consts],
        ordered=tuple(map(str, facts.get("ordered_effects", ()) or ())),
        shards=several,
    )
    return MeshComputation(
        closed, module, program.name, devices, True, kept, tuple(ins), tuple(outs), donated, mesh
    )


def _sharding(theirs: Any) -> Any:
    try:
        return values.sharding(theirs)
    except values.Untranslatable:
        return None


def _mesh_inside(jaxpr: Jaxpr) -> Any:
    """The mesh of the first `shard_map` or constraint in a program."""
    for eqn in jaxpr.eqns:
        for value in (eqn.params.get("mesh"), getattr(eqn.params.get("sharding"), "mesh", None)):
            if value is not None and hasattr(value, "devices"):
                return value
        inner = eqn.params.get("jaxpr")
        found = _mesh_inside(getattr(inner, "jaxpr", inner)) if inner is not None else None
        if found is not None:
            return found
    return None


def ours_of(program: JaxProgram, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple]:
    """A program as a function of our transformations, and its arguments' types.

    Positions of arguments stay as they are where each is one array; else they are those of the flat arguments.
    """
    types = tuple(
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in program.closed.in_avals
    )
    flat = program.flat(args, kwargs) if args or kwargs else types
    if len(types) != len(flat):
        raise TypeError(program.takes(len(flat), len(types)))
    single = len(program.closed.out_avals) == 1
    closed = program.closed

    def run(*xs: Any) -> Any:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *xs)
        return outs[0] if single else outs

    run.__name__ = run.__qualname__ = program.name
    return run, types
