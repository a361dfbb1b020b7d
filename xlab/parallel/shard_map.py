"""`shard_map`: a function written for one device, run on every device of a mesh.

Arguments are sharded by their specs, the body sees one part and the mesh axes by name, and results are put together again. With
`check_vma` the types of the body say over which axes a value varies, which catches wrong `out_specs` and makes gradients exact.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.compile import divergence
from xlab.compile.jit import jit
from xlab.compile.runtime_checks import replay
from xlab.compile.tracing import argument_names, context_key, function_name, made_of
from xlab.config import config
from xlab.core.avals import aval_of
from xlab.core.jaxpr import DebugInfo
from xlab.core.pending import AbstractTodo, at_boundary
from xlab.core.trace import EVAL, Tracer, set_trace, state
from xlab.core.typing import MeshLike
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.followed import following
from xlab.lax.collectives import casts
from xlab.lax.collectives.starting import check_awaited
from xlab.parallel import hi_values
from xlab.parallel import partial_callbacks as _partial_callbacks  # noqa: F401  (their lowering)
from xlab.parallel.by_operation import (
    Answered,
    BodyTrace,
    ShardMapTrace,
    Unfit,
    call,
    runs_on_values,
)
from xlab.parallel.manual import (
    body_context,
    check_closed_over,
    check_divisible,
    check_inputs,
    check_mesh,
    check_output,
    check_spec_types,
    check_specs,
    inferred_specs,
    is_spec,
    local_aval,
    rearranged,
    resolve_mesh,
)
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.sharding import Mesh, NamedSharding, PartitionSpec

_WHOLE = PartitionSpec()


def shard_map(
    f: Callable | None = None,
    /,
    *,
    mesh: MeshLike | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Callable:
    """Maps a function over the devices of a mesh: `f` sees one device's part of each argument.

    Called eagerly it runs as one compiled program, as long as Python asks for no value. Where the body prints a part, branches on it,
    or hands it to NumPy, what came before and the rest of that call run operation by operation: a print shows the part of each device
    with its mesh coordinates, and a branch or a number needs a value that all devices share. Under `disable_jit` every operation runs
    by itself. Under `jit` there are no values, as anywhere in a traced function.

    Args:
        f: the function of one device; inside, `lax.psum` and the other collectives speak of mesh axes by name.
        mesh: the devices; by default the one set by `set_mesh`, or inside another `shard_map` its mesh.
        in_specs, out_specs: a `PartitionSpec` per argument and result, or a pytree prefix of them; dimension `d` is sharded (or
            concatenated) along the mesh axes `spec[d]`, and along axes a spec does not name the value is the same everywhere.
        axis_names: the mesh axes that are under manual control, by default all; the compiler handles the others.
        check_vma: follow in the types over which axes a value varies. Without it `out_specs` are taken on trust.

    Returns:
        A function of whole arrays. Without `f`, a decorator.

    Example:
        >>> import xlab
        >>> from xlab.sharding import PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=xlab.sharding.AxisType.Auto)
        >>> total = xlab.shard_map(lambda x: xlab.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
        >>> float(total(xlab.lax.iota("float32", 4)))
        6.0
        >>> show = xlab.shard_map(lambda x: (print(x), x)[1], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
        >>> float(show(xlab.lax.iota("float32", 2)).sum())
        On cpu:0 at mesh coordinates (i,) = (0,):
        [0. 1.]
        <BLANKLINE>
        1.0
    """
    if f is None:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise TypeError(
            f"shard_map requires a callable for its first argument, but got {f!r} of type {type(f).__name__}."
        )
    check_mesh(mesh)
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    values_mapped = hi_values.on_arrays(
        lambda body, *specs: Mapped(body, mesh, *specs, axis_names, bool(check_vma)),
        f,
        in_specs,
        out_specs,
    )
    if hi_values.has_hi_specs(in_specs, out_specs):
        return functools.wraps(f)(values_mapped)
    check_spec_types("in_specs", in_specs)
    check_spec_types("out_specs", out_specs)
    mapped = Mapped(f, mesh, in_specs, out_specs, axis_names, bool(check_vma))

    how = mesh, in_specs, out_specs, axis_names, bool(check_vma)

    @made_of(f, "staged shard_map", *how)
    @functools.wraps(f)
    def staged(*args):
        return mapped.stage(args)

    whole = jit(
        staged, name=function_name(f), out_shardings=_spelled_out(mesh, out_specs, axis_names)
    )

    @made_of(f, "shard_map", *how)
    @functools.wraps(f)
    def wrapper(*args):
        return values_mapped(*args) if hi_values.has_hi_values(args) else mapped(args, whole)

    return wrapper


def _spelled_out(mesh, out_specs, axis_names):
    """The results' shardings where specs end in None, which the compiler's own would not: results of an eager call have the specs that are written."""
    specs = _tree.leaves(out_specs, is_leaf=_is_spec)
    written = all(map(_is_spec, specs)) and any(len(s) and s[-1] is None for s in specs)
    if not written or not isinstance(mesh, Mesh) or mesh.explicit_axes:
        return None
    if axis_names and set(axis_names) != set(mesh.axis_names):  # other axes are the compiler's
        return None
    try:
        return _tree.map(lambda s: NamedSharding(mesh, s), out_specs, is_leaf=_is_spec)
    except ValueError:  # tracing says what is wrong with them, and where
        return None


def _is_spec(x) -> bool:
    return isinstance(x, PartitionSpec)


_looking: weakref.WeakSet[Callable] = weakref.WeakSet()
"""Functions whose last call looked at values: the next one starts operation by operation."""


class Mapped:
    """A function, its specs, and the bodies traced so far. `out_specs` may be a function, called when the body has run."""

    def __init__(self, f, mesh, in_specs, out_specs, axis_names, check_vma):
        self.f, self.mesh, self.in_specs, self.out_specs = f, mesh, in_specs, out_specs
        self.axis_names, self.check_vma = axis_names, check_vma
        self.bodies: dict[tuple, Any] = {}

    def __call__(self, args, whole=None):
        """The call: one program, unless Python looks at values inside, from where on operations run one by one.

        `whole` is the call compiled as a whole, for calls with nothing around them.
        """
        eager = state.trace is EVAL and not state.axes
        if not eager and not runs_on_values():
            return self.stage(args)
        if (config.disable_jit or _remembered(self.f)) and following() is None:
            return self.run(args)
        if not eager or whole is None:
            return self.stage(args)
        before, call.args = call.args, args
        try:
            return whole(*args)
        except Answered as e:
            return _tree.unflatten(e.out_tree, e.outs)
        except Unfit:
            return self.as_program(args)
        finally:
            call.args = before

    def as_program(self, args):
        """The body as one program that Python cannot look into."""
        before, call.refused = call.refused, True
        try:
            return self.stage(args)
        finally:
            call.refused = before

    def run(self, args):
        """The body on the values of all devices, operation by operation."""
        flat, in_tree = _tree.flatten((args, {}))
        avals = tuple(map(aval_of, flat))
        mesh, names, in_specs, _ = self.checked(args, in_tree, avals)
        trace = ShardMapTrace(state.trace, mesh, names, self.check_vma, function_name(self.f))
        try:
            with body_context(mesh, names, self.check_vma), set_trace(trace):
                given, _ = _tree.unflatten(in_tree, trace.enter(flat, in_specs))
                results, out_specs, out_tree = self.finished(self.f(*given), trace.mesh, names)
                outs = trace.leave(results, out_specs)
        except Unfit:
            return self.as_program(args)
        finally:
            trace.alive = False
        _remember(self.f, trace.was_looked_at)
        return _tree.unflatten(out_tree, outs)

    def stage(self, args):
        """The body as one program."""
        if replay.active and runs_on_values():
            return self.run(args)
        flat, in_tree = _tree.flatten((args, {}))
        avals = tuple(map(aval_of, flat))
        key = (in_tree, avals, context_key())
        body = self.bodies.get(key)
        if body is None:
            try:
                body = self.trace(args, in_tree, avals)
            except Answered as e:
                if e.trace.parent is not state.trace:
                    raise
                return _tree.unflatten(e.out_tree, e.outs)
            # A body that was followed is that of one run.
            if following() is None and not any(isinstance(c, Tracer) for c in body[1]):
                self.bodies[key] = body
        params, consts, out_tree = body
        where = params["mesh"], params["newly_manual_axes"]
        specs = params["in_specs"][len(consts) :]
        flat = [rearranged(*x, *where) for x in zip(flat, avals, specs)]
        return _tree.unflatten(out_tree, shard_map_p.bind(*consts, *flat, **params))

    def trace(self, args, in_tree, avals):
        """The program of the body: parameters of the primitive, constants, and the structure of the results."""
        given, call.args = call.args, None
        name = function_name(self.f)
        mesh, names, in_specs, arg_names = self.checked(args, in_tree, avals)
        out: dict[str, Any] = {}
        values = recorder = None
        if given is not None or runs_on_values():
            follows = following()
            parent = state.trace if given is None and follows is None else EVAL
            values = ShardMapTrace(parent, mesh, names, self.check_vma, name)

        def flat_body(*leaves):
            a, _ = _tree.unflatten(in_tree, leaves)
            results, out["specs"], out["tree"] = self.finished(self.f(*a), mesh, names)
            if recorder is not None and recorder.switched and recorder.follows is None:
                _remember(self.f, True)
                outs = values.leave([recorder.now(x) for x in results], out["specs"])
                raise Answered(recorder, outs, out["tree"])
            return results

        local = [local_aval(a, mesh, s, self.check_vma, names) for a, s in zip(avals, in_specs)]
        with body_context(mesh, names, self.check_vma):
            if values is not None:
                flat = _tree.leaves((args if given is None else given, {}))
                recorder = BodyTrace(values, flat, in_specs, follows)
            try:
                jaxpr, consts = pe.trace_to_jaxpr(
                    flat_body, local, DebugInfo(name, arg_names), trace=recorder
                )
            finally:
                if values is not None:
                    values.alive = False
        check_closed_over(consts)
        divergence.check_body(jaxpr, mesh, in_specs, self.check_vma)
        check_awaited(jaxpr)
        params = {
            "jaxpr": pe.convert_constvars_jaxpr(jaxpr),
            "mesh": mesh,
            "in_specs": (_WHOLE,) * len(consts) + in_specs,
            "out_specs": out["specs"],
            "check_vma": self.check_vma,
            "newly_manual_axes": names,
        }
        return params, consts, out["tree"]

    def checked(self, args, in_tree, avals):
        """The mesh of a call, its manual axes, a spec for each argument leaf, and the leaves' names; raises where they do not fit."""
        name = function_name(self.f)
        mesh, names = resolve_mesh(self.mesh, self.axis_names)
        check_specs("in_specs", self.in_specs, mesh, names)
        if not callable(self.out_specs):
            check_specs("out_specs", self.out_specs, mesh, names)
        in_specs = (
            inferred_specs(avals, mesh, names)
            if self.in_specs is None and args
            else _broadcast_specs("shard_map in_specs", self.in_specs, args)
        )
        arg_names = argument_names(self.f, in_tree, len(avals))
        check_inputs(name, avals, in_specs, mesh, arg_names)
        check_divisible(avals, in_specs, mesh, names, arg_names)
        return mesh, names, in_specs, arg_names

    def finished(self, result, mesh, names):
        """The leaves of what the body returned, their specs and structure; raises where they do not fit."""
        results, out_tree = _tree.flatten(result)
        specs = self.out_specs() if callable(self.out_specs) else self.out_specs
        specs = _broadcast_specs("shard_map out_specs", specs, result)
        paths = [_tree.keystr(p) for p, _ in _tree.flatten_with_path(result)[0]]
        name = function_name(self.f)
        for x, s, p in zip(results, specs, paths):
            aval = aval_of(x)
            if type(aval) is AbstractTodo:
                raise at_boundary(aval, x, f"is a result of {name}, which shard_map traces")
            check_output(name, aval, s, p, mesh, names, self.check_vma)
        if self.check_vma:
            results = [casts.vary(x, tuple(s.axes())) for x, s in zip(results, specs)]
        return results, specs, out_tree


def _remembered(f) -> bool:
    try:
        return f in _looking
    except TypeError:  # not hashable, or not weakly referable
        return False


def _remember(f, looked: bool) -> None:
    with contextlib.suppress(TypeError):
        (_looking.add if looked else _looking.discard)(f)


def _broadcast_specs(what, specs, tree) -> tuple:
    flat = _tree.flatten_prefix(what, specs, tree, is_leaf=is_spec)
    values = _tree.leaves(tree, is_leaf=lambda x: x is None)
    if len(values) == len(flat):  # None holds no value, so it has no spec
        flat = [s for s, v in zip(flat, values) if v is not None]
    return tuple(_WHOLE if s is None else s for s in flat)
