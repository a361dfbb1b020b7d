"""`jit`: a function as one compiled program.

A jitted function is jaxlib's native callable. The first call with new types reaches `_Jit.cache_miss`, which traces, lowers
and compiles; later calls take the native fast path. Under another transformation the call becomes one
`jit` equation with the traced program inside.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xlab import events
from xlab import tree as _tree
from xlab.backend import dispatch as _native
from xlab.backend.neighbors import is_jaxs
from xlab.compile import hi_boundary, layouts, memory_cache, runtime_checks, stages
from xlab.compile.argument_paths import paths_of_user
from xlab.compile.arguments import (
    JitArguments,
    check_addressable,
    check_outermost,
    is_sharding_leaf,
    put_back,
    static_option,
)
from xlab.compile.devices import deprecated_device_sharding
from xlab.compile.donating import donating
from xlab.compile.executable import Executable
from xlab.compile.history import explain, parts
from xlab.compile.jit_primitive import jit_p
from xlab.compile.lowering import MeshComputation, lower
from xlab.compile.placement import (
    arg_sharding,
    as_sharding,
    from_host,
    shard_arg,
)
from xlab.compile.ref_discharge import check_arguments, check_captured, discharge_refs
from xlab.compile.tracing import TracedProgram, function_name, made_of, own, trace_program
from xlab.config import config
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import aval_of, escaped_tracer, value_and_type
from xlab.core.hi_states import AvalQDD, typed
from xlab.core.hi_types import in_use, value_classes
from xlab.core.jaxpr import ClosedJaxpr, Literal, eval_jaxpr, jaxpr_as_fun
from xlab.core.key_array import words_of
from xlab.core.refs import AbstractRef, Ref
from xlab.core.trace import EVAL, Tracer, state
from xlab.errors import InvalidInputException, UnexpectedTracerError
from xlab.interpreters import mlir
from xlab.interpreters.lojax import lower_hi_types, uses_hi_types
from xlab.sharding import get_concrete_mesh


class _Jit(JitArguments):
    """The state of one jitted function. `for_view`: made for a view only; `reason`: why it compiles, if known."""

    for_view = False
    reason = ""

    def __init__(
        self,
        fun,
        in_shardings,
        out_shardings,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        keep_unused,
        inline,
        name,
        compiler_options,
        moves_arguments=False,
    ):
        super().__init__(
            fun,
            name or function_name(fun),
            in_shardings,
            out_shardings,
            static_argnums,
            static_argnames,
            donate_argnums,
            donate_argnames,
            moves_arguments,
        )
        self.keep_unused, self.inline = keep_unused, inline
        self.compiler_options = dict(compiler_options or {})
        self.options = self.all_options()
        self.programs = memory_cache.programs_of(fun, self.options)
        self.executables, self.dispatch_cache = (
            self.programs.executables,
            self.programs.dispatch_cache,
        )

    def all_options(self) -> tuple:
        """All options given to `jit`: jits of one function with equal options share their programs."""
        shardings: tuple = ()
        if self.in_shardings is not None or self.out_shardings is not None:
            ins, in_tree = _tree.flatten(self.in_shardings, is_leaf=is_sharding_leaf)
            # Specs of results as they were asked for.
            outs, out_tree = _tree.flatten(self.out_shardings, is_leaf=is_sharding_leaf)
            shardings = *map(memory_cache.shortest, ins), in_tree, *outs, out_tree
        return (
            self.name,
            shardings,
            self.static_argnums,
            self.static_argnames,
            self.donate_argnums,
            self.donate_argnames,
            self.keep_unused,
            self.inline,
            self.moves_arguments,
            *((k, type(v), v) for k, v in sorted(self.compiler_options.items())),
        )

    def is_plain(self) -> bool:
        """Whether `jit` was called without options, so that its programs equal those of any plain jit."""
        return not any(
            (
                self.in_shardings,
                self.out_shardings,
                self.static_argnums,
                self.static_argnames,
                self.donate_argnums,
                self.donate_argnames,
                self.keep_unused,
                self.inline,
                self.compiler_options,
            )
        ) and self.name == function_name(self.fun)

    # -- from a call to a program ----------------------------------------------------------------------

    def program(self, flat: list, in_tree, static) -> TracedProgram:
        """The traced program; in `flat`, wrapped arrays are replaced by the arrays they wrap."""
        avals = []
        for i, x in enumerate(flat):
            try:
                avals.append(typed(x) if in_use.mutable else aval_of(x))
            except InvalidInputException as e:
                if is_jaxs(x):
                    raise
                if hasattr(type(x), "__jax_array__"):
                    flat[i] = x.__jax_array__()
                    avals.append(aval_of(flat[i]))
                    continue
                path = self.names(in_tree, len(flat), static)[i]
                raise InvalidInputException(
                    f"cannot call jit({self.name}): argument `{path}` is {value_and_type(x)}, which is not "
                    f"an array value. Convert it, or mark it static: "
                    f"jit({self.name}, {static_option(self.fun, path)})"
                ) from e
        names = functools.partial(self.names, in_tree, len(flat), static)
        given_names = lambda: paths_of_user(flat, names())
        kinds = set(map(type, avals))
        refs = AbstractRef in kinds or AvalQDD in kinds
        if refs:
            check_arguments(self.name, flat, names)
        if static:
            program = trace_program(
                self.fun,
                in_tree,
                avals,
                static=static,
                rebuild=functools.partial(put_back, static),
                names=given_names,
                label=self.name,
            )
        else:
            program = trace_program(self.fun, in_tree, avals, names=given_names, label=self.name)
        if refs:
            check_captured(self.name, program.closed.consts, flat, names)
        return program

    # -- the call --------------------------------------------------------------------------------------

    def known(self, flat, in_tree, static) -> tuple | None:
        """On a hit in the Python dispatch cache: runs the program and returns its result in a tuple."""
        if (
            self.dispatch_cache
            and not runtime_checks.observed()
            and not layouts.has_custom_layout(flat)
        ):
            known = self.dispatch_cache.find(flat, in_tree, static)
            if known is not None:
                return (_tree.unflatten(known.out_tree, known.executable.repeat(flat)),)
        return None

    def cache_miss(self, *args, **kwargs):
        """Called by the native dispatcher when it has no executable for the arguments."""
        if config.disable_jit:
            return self.fun(*args, **kwargs), None
        flat, in_tree, static = self.flatten(args, kwargs)
        if state.trace is not EVAL:
            return self.bind_under_trace(flat, in_tree, static), None
        if config.spmd_mode == "allow_jit" and own(self.fun, "_single_operation"):
            check_addressable(self.name, flat)
        known = self.known(flat, in_tree, static)
        if known is not None:
            return known[0], None
        for x in flat:
            if isinstance(x, Tracer):
                raise _leaked(x, self.name)
        traced = self.program(flat, in_tree, static)
        if uses_hi_types(traced.closed):
            low = lower_hi_types(traced.closed)
            if low.at_boundary:
                return hi_boundary.call(self, traced, low, flat, in_tree), None
            traced = traced._replace(closed=low.closed)
        keys_used = (
            runtime_checks.use_of_keys(self.name, traced.closed, flat)
            if config.debug_key_reuse
            else None
        )
        program = discharge_refs(traced)
        if config.forward_trivial and self.is_trivial(program):
            outs = forwarded(program.closed, flat)
            if keys_used is not None:
                keys_used(outs)
            return _tree.unflatten(program.out_tree, outs), None
        ref_discharge = program.ref_discharge
        compiled = self.executable(
            program, flat if ref_discharge is None else ref_discharge.given(flat), in_tree
        )
        outs = compiled.call(flat if ref_discharge is None else ref_discharge.arguments(flat))
        if runtime_checks.watching():
            self.check(outs, flat, in_tree, static)
        if keys_used is not None:
            keys_used(outs)
        if ref_discharge is not None:
            return _tree.unflatten(program.out_tree, ref_discharge.finish(flat, outs)), None
        result = _tree.unflatten(program.out_tree, outs)
        return result, self.fast_path(compiled, program, flat, in_tree, static, result)

    def is_trivial(self, program) -> bool:
        """Whether the program computes nothing, and no option asks where its arguments or results are."""
        closed = program.closed
        return not (
            closed.jaxpr.eqns
            or closed.effects
            or program.ref_discharge
            or self.in_shardings is not None
            or self.out_shardings is not None
            or self.donate_argnums
            or self.donate_argnames
        )

    def check(self, outs, flat, in_tree, static):
        """Under `debug_nans` or `debug_infs`: raises at the operation that produced such a value."""
        if getattr(self.fun, "_apply_primitive", False):
            runtime_checks.check_eager(self.name, outs)
            return
        kind = runtime_checks.find(outs)
        if kind is not None:
            # On our arrays: NumPy and Python operations cannot be checked.
            args, kwargs = _tree.unflatten(in_tree, map(from_host, flat))
            args, kwargs = put_back(static, args, kwargs) if static else (args, kwargs)
            runtime_checks.explain(kind, self.name, lambda: self.fun(*args, **kwargs))

    def fast_path(self, compiled, program, flat, in_tree, static, result):
        if runtime_checks.observed() or layouts.has_custom_layout(flat):
            return None
        if compiled.needs_serial_launch:
            if all(is_native_array(words_of(x)) for x in flat) and compiled.cacheable(flat):
                self.dispatch_cache.add(flat, in_tree, static, compiled, program.out_tree)
            return None
        return compiled.fast_path(program.out_tree, result)

    def bind_under_trace(self, flat, in_tree, static):
        """The call as an equation of whatever is being traced."""
        program = self.program(flat, in_tree, static)
        if self.inline:
            check_outermost(self.compiler_options, self.name)
            outs = eval_jaxpr(
                program.closed.jaxpr, program.closed.consts, *flat, propagate_source_info=False
            )
        else:
            moved, closed = hoisted(program.closed)
            n = len(moved)
            ins = self.of_arguments(in_tree, len(flat), as_sharding)
            outs = jit_p.bind(
                *moved,
                *flat,
                jaxpr=closed,
                in_shardings=(None,) * n + ins,
                out_shardings=self.of_results(program, as_sharding),
                donated_invars=(False,) * n + self.donated(in_tree, len(flat)),
                name=self.name,
                keep_unused=self.keep_unused,
                inline=False,
                compiler_options_kvs=tuple(sorted(self.compiler_options.items())),
            )
        return _tree.unflatten(program.out_tree, outs)

    def executable(self, program, flat, in_tree) -> Executable:
        """The compiled program for these argument placements."""
        placements = tuple(map(arg_sharding, flat))
        key = memory_cache.program_key(program.closed, placements, get_concrete_mesh())
        found = self.executables.get(key)
        if found is not None and found.lowered.closed is program.closed:
            events.emit("cache_hit", name=self.name, cache="memory", executable=found)
            return found.spelled(placements)
        reason, differences = explain.compile_miss(self, program.closed, key)
        events.emit(
            "cache_miss", name=self.name, cache="memory", reason=reason, closed=program.closed
        )
        try:
            return self.compiled(
                self.lowered(program, placements, flat, in_tree, key), in_tree, reason, differences
            )
        except BaseException:
            explain.compile_ended(self, program.closed)
            raise

    def lowered(self, program, placements, flat, in_tree, key=None) -> MeshComputation:
        """The program lowered for these placements; cached."""
        key = key or memory_cache.program_key(program.closed, placements, get_concrete_mesh())
        wanted = tuple(getattr(x, "_layout", None) for x in flat)  # of a ShapeDtypeStruct
        key += (wanted,) if any(wanted) else ()
        found = self.programs.lowered.get(key)
        if found is None or found.closed is not program.closed:
            found = self.lower(program, placements, flat, in_tree)
            found.key = key
            self.programs.keep(self.programs.lowered, key, found)
        return found

    def lower(self, program, placements, flat, in_tree, platform=None) -> MeshComputation:
        """The program lowered for these placements, or for another platform."""
        return lower(
            program.closed,
            self.name,
            self.request(
                program,
                placements,
                flat,
                in_tree,
                keep_unused=self.keep_unused,
                compiler_options=self.compiler_options,
                platform=platform,
            ),
        )

    def compiled(self, lowered, in_tree, reason, differences=()) -> Executable:
        """The executable of a program that `lowered` returned; cached."""
        found = self.executables.get(lowered.key)
        if found is not None and found.lowered is lowered:
            return found
        _, placements, mesh = lowered.key[:3]
        made = Executable(
            lowered,
            reason,
            differences,
            parts.PlacementKey(
                placements, mesh, explain.options_of(self), parts.number(self.programs)
            ),
        )
        made.made_by = weakref.ref(self), in_tree
        self.programs.keep(self.executables, lowered.key, made)
        return made


def forwarded(closed: ClosedJaxpr, flat: list) -> list:
    """The results of a program without equations: arguments, constants and literals, host data on the default device."""
    values = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *flat)))
    return [from_host(v.val if type(v) is Literal else values[v]) for v in closed.jaxpr.outvars]


def _leaked(tracer, name):
    if tracer._trace.alive:
        error = UnexpectedTracerError(
            f"jit({name}) was called outside of any tracing with a traced value of type {tracer.aval}, made at "
            f"{tracer.origin()}. Traced values exist only while their function is being traced."
        )
        error.tracer = tracer
        return error
    return escaped_tracer(tracer, f"as an argument of jit({name})")


def hoisted(closed: ClosedJaxpr) -> tuple[list, ClosedJaxpr]:
    """A program for use inside another: traced values and large arrays it closes over become leading operands."""
    limit = mlir.constants.INLINE_CONSTANT_LIMIT

    def moves(c):
        return (
            isinstance(c, (Tracer, KeyArray))
            or type(c) is Ref
            or type(c) in value_classes
            or getattr(aval_of(c), "size", 0) > limit
        )

    if not any(map(moves, closed.consts)):
        return [], closed
    if not any(isinstance(c, Tracer) for c in closed.consts):
        return closed.memo("hoisted", lambda: _hoist(closed, moves))
    return _hoist(closed, moves)


def _hoist(closed, moves):
    pairs = list(zip(closed.jaxpr.constvars, closed.consts))
    moved = [(v, c) for v, c in pairs if moves(c)]
    kept = [(v, c) for v, c in pairs if not moves(c)]
    jaxpr = closed.jaxpr.replace(
        constvars=[v for v, _ in kept], invars=[*(v for v, _ in moved), *closed.jaxpr.invars]
    )
    return [c for _, c in moved], ClosedJaxpr(jaxpr, [c for _, c in kept])


def jit(
    fun: Callable | None = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    name: str | None = None,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compiles a function: traced once per combination of argument types, then run as one program.

    Args:
        fun: a function of arrays (or pytrees of arrays), without side effects.
        in_shardings, out_shardings: shardings of arguments and results as a pytree prefix; None follows the arguments
            and leaves results to the compiler.
        static_argnums, static_argnames: arguments that are Python values, part of the program; they must be hashable.
        donate_argnums, donate_argnames: arguments whose buffers results may take over; they are deleted.
        keep_unused: keep arguments the program does not read.
        device, backend: former ways to say where a program runs; new programs place its arguments.
        inline: under another transformation, write the equations out instead of one `jit` equation.
        name: name of the program; the function's by default.
        compiler_options: XLA options for this function.

    Returns:
        A function with the same signature, and methods `trace`, `lower`, `eval_shape` and `clear_cache`.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> double = xlab.jit(lambda x: 2 * x)
        >>> print(double(jnp.arange(3)))
        [0 2 4]
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
            name=name,
            compiler_options=compiler_options,
        )
    placed = device is not None or backend is not None
    if placed:
        in_shardings = out_shardings = deprecated_device_sharding(
            device, backend, in_shardings, out_shardings
        )
    if not callable(fun):
        raise TypeError(f"jit takes a function, got {fun!r} of type {type(fun).__name__}")
    if inspect.isgeneratorfunction(fun) or inspect.iscoroutinefunction(fun):
        raise TypeError(
            f"jit cannot trace {function_name(fun)}, which is a generator or coroutine: return arrays instead "
            f"of yielding them"
        )
    self = _Jit(
        fun,
        in_shardings,
        out_shardings,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        keep_unused,
        inline,
        name,
        compiler_options,
        placed,
    )
    native = _native.native_jit(
        self.name,
        fun,
        self.cache_miss,
        self.static_argnums,
        self.static_argnames,
        key=(self.programs.number,),
        shard_arg=shard_arg,
    )
    gives = (self.donate_argnums or self.donate_argnames) and not getattr(
        fun, "_owns_what_it_is_given", False
    )
    wrapped = donating(self, native) if gives else native
    made_of(fun, "jit", self.options)(functools.wraps(fun)(wrapped))
    stages.attach(wrapped, self, native)
    return wrapped


@jit_p.def_impl
def _jit_impl(*args, jaxpr, **params):
    return list(compiled_jaxpr(jaxpr, params)(*args))


def compiled_jaxpr(closed: ClosedJaxpr, params: dict) -> Callable:
    """A native callable for an already traced program."""
    key = (
        "callable",
        *(
            params[p]
            for p in (
                "name",
                "in_shardings",
                "out_shardings",
                "donated_invars",
                "keep_unused",
                "compiler_options_kvs",
            )
        ),
    )

    def make():
        fun = jaxpr_as_fun(closed)
        fun._xlab_location, fun._xlab_key = closed.jaxpr.debug_info.position, None
        explicit_in = (
            params["in_shardings"] if any(s is not None for s in params["in_shardings"]) else None
        )
        explicit_out = (
            list(params["out_shardings"])
            if any(s is not None for s in params["out_shardings"])
            else None
        )
        return jit(
            fun,
            name=params["name"],
            in_shardings=explicit_in,
            out_shardings=explicit_out,
            donate_argnums=tuple(i for i, d in enumerate(params["donated_invars"]) if d) or None,
            keep_unused=params["keep_unused"],
            compiler_options=dict(params["compiler_options_kvs"]),
        )

    return closed.memo(key, make)


hi_boundary.set_compiled_jaxpr(compiled_jaxpr)
