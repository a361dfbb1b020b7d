"""Collectives in two parts: a primitive that starts one and gives a pending value, and one that waits for it.

Each start primitive belongs to a synchronous one and gets its rules from those: `StartTrace` runs a rule and starts the collectives in it.
So the tangent of a start is a start; waiting transposes to starting the transposed collective, and starting to waiting for it;
a start of a batch is the start of the batched collective.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from xlab.core.avals import aval_makers, aval_of
from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, inner_jaxprs
from xlab.core.pending import AbstractTodo
from xlab.core.primitive import Primitive
from xlab.core.source_info import describe_caller, warn
from xlab.core.trace import Trace, Tracer, set_trace, state
from xlab.errors import PendingValueError, PendingValueWarning, UnexpectedTracerError
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.communication import collective_rules
from xlab.interpreters.divergence import arrivals
from xlab.interpreters.mlir import tensor_type
from xlab.interpreters.mlir.values import dims_text, physical_aval
from xlab.lax.collectives.all_gather import all_gather_p, all_gather_reduced_p, widened
from xlab.lax.collectives.all_to_all import all_to_all_p
from xlab.lax.collectives.common import (
    AxisPrimitive,
    as_names,
    groups_of,
    inserted,
    require_varying,
    reshaped,
    resized,
)
from xlab.lax.collectives.ppermute import pbroadcast_p, ppermute_p, select_source
from xlab.lax.collectives.psum import psum, psum_invariant_p, psum_p, unreduced_psum_p
from xlab.lax.collectives.psum_scatter import reduce_scatter_p, unreduced_reduce_scatter_p

starts: dict[Primitive, Primitive] = {}
"""By the synchronous primitive, the one that starts it."""

waits: dict[Primitive, Primitive] = {}
"""By the primitive that starts a collective, the one that waits for it."""


synchronous: dict[Primitive, Primitive] = {}
"""By the primitive that starts a collective, the one that carries it out at once."""


class StartTrace(Trace):
    """Starts collectives instead of carrying them out; everything else goes to the trace around it."""

    __slots__ = ("parent",)
    label = "the start of a collective"

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def process_primitive(self, prim, args, params):
        with set_trace(self.parent):
            return self.parent.process_primitive(starts.get(prim, prim), args, params)


def started(fun, *args, **kwargs) -> Any:
    """Calls `fun` and starts the collectives in it: their results are pending."""
    with set_trace(StartTrace(state.trace)):
        return fun(*args, **kwargs)


def wait(x: Any) -> Any:
    """The result of a pending value; any other value as it is."""
    aval = aval_of(x)
    if type(aval) is not AbstractTodo:
        return x
    if isinstance(x, Tracer) and not x._trace.alive:
        raise _escaped(x)
    return waits[aval.start].bind(x)


def _escaped(x: Tracer) -> UnexpectedTracerError:
    error = UnexpectedTracerError(
        f"{x.aval.start.name} at {x.origin()} gave a value of type {x.aval} while {x._trace.label} was traced, and it is waited for at "  # type: ignore[attr-defined]
        f"{describe_caller()}, where that function has ended. A collective is waited for in the function that starts it: call done() there, "
        f"and return the result."
    )
    error.tracer = x
    return error


def check_awaited(jaxpr: Jaxpr) -> None:
    """Raises where the body of a `shard_map` waits twice for a collective that it started; warns where it does not wait."""
    waiting: dict[Var, JaxprEqn] = {}
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            if type(v) is Var and type(v.aval) is AbstractTodo:
                if v in waiting:
                    places = f": at {waiting[v].source_info} and at {eqn.source_info}"
                    raise twice(v.aval, places)
                waiting[v] = eqn
    for eqn in jaxpr.eqns:
        if eqn.primitive in waits and eqn.outvars[0] not in waiting:
            _warn_unawaited(eqn)
        if eqn.primitive.name != "shard_map":  # which was checked when it was traced
            for inner in inner_jaxprs(eqn.params):
                check_awaited(inner)


def _warn_unawaited(eqn: JaxprEqn) -> None:
    place = eqn.source_info.position()
    message = (
        f"{eqn.primitive.name} at {eqn.source_info} starts a collective for which nobody waits, so the compiler leaves it out. Call "
        f"done() on what it returned and use the result, or do not start it."
    )
    if place is None:
        warn(message, PendingValueWarning)
    else:
        warnings.warn_explicit(message, PendingValueWarning, place.file, place.line)


class Finished:
    """A pending value whose collective ran at once, where nothing is traced."""

    __slots__ = ("aval", "value")

    def __init__(self, value, start):
        self.value: Any = value
        self.aval = AbstractTodo(aval_of(value), start)

    def __repr__(self):
        return f"Finished({self.aval})"

    def take(self):
        """The result, once."""
        if self.value is None:
            raise twice(self.aval, f" and again at {describe_caller()}")
        value, self.value = self.value, None
        return value


aval_makers[Finished] = lambda x: x.aval


def twice(aval: AbstractTodo, where: str) -> ValueError:
    """The error for waiting twice for one pending value."""
    return ValueError(
        f"a value of type {aval}, {'' if aval.start is None else f'started by {aval.start.name}, '}is waited for twice{where}: a collective "
        f"that was started is awaited once. Keep the result; Todo.done() does, and returns it again."
    )


# -- waiting ----------------------------------------------------------------------------------------------


class PendingName(str):
    """The name of a `!stablehlo.future` in a lowered program, the type of what comes, and what is to be done with it then."""

    aval: Any
    finish: Callable[[str], str] | None

    def __new__(cls, name: str, aval, finish=None):
        self = super().__new__(cls, name)
        self.aval, self.finish = aval, finish
        return self


def _done_aval(name):
    def rule(x):
        if type(x) is not AbstractTodo:
            raise PendingValueError(
                f"{name} waits for a value of type Todo, as a collective that was started gives, got {x} at {describe_caller()}"
            )
        return x.inner_aval

    return rule


def _done_impl(x):
    if isinstance(x, Tracer):
        raise _escaped(x)
    return x.take()


def _done_lowering(ctx, x):
    """A value that was not started, because its platform or its size needs no start, is here already."""
    if type(x) is not PendingName:
        return x
    del ctx.started[x]
    t = tensor_type(x.aval)
    y = ctx.op(f'"stablehlo.async_done"({x}) : (!stablehlo.future<{t}>) -> {t}')
    return y if x.finish is None else x.finish(y)


def _done_transpose(ct, x):
    """Starts the transposed collective on the cotangent; the transpose of the start waits for it."""
    pending = x.aval
    if pending.params is None:  # nothing was started
        return [ct]
    sync, params = synchronous[pending.start], pending.params
    if sync is pbroadcast_p:
        names = as_names(params["axis_name"])
        return [started(psum, require_varying("pbroadcast", ct, names), names)]
    rule = ad.primitive_transposes[sync]
    return started(rule, ct, ad.UndefinedPrimal(pending.operands[0]), **params)


def _done(name: str) -> Primitive:
    prim = Primitive(f"{name}_done", auto_pvary=False)
    prim.takes_pending = True
    prim.def_abstract_eval(_done_aval(prim.name))
    prim.def_impl(_done_impl)
    ad.deflinear2(prim, _done_transpose)
    batching.primitive_batchers[prim] = lambda xs, dims: (prim.bind(*xs), dims[0])
    mlir.register_text_lowering(prim, _done_lowering)
    return prim


# -- starting ---------------------------------------------------------------------------------------------


def _start(sync: Primitive, done: Primitive) -> Primitive:
    start = AxisPrimitive(
        f"{sync.name}_start", auto_pvary=False, context_dependent=sync.context_dependent
    )

    def aval(x, **params):
        out, effects = sync.abstract((x,), params)
        return AbstractTodo(out, start, (x,), params), effects

    def transpose(ct, x, **params):
        out = wait(ct)
        return [select_source(out, **params) if sync is pbroadcast_p else out]

    def batch(axis, operands, dims, **params):
        rule = batching.axis_primitive_batchers[sync]
        if axis.name is None or axis.name not in _names(params):
            return started(rule, axis, operands, dims, **params)
        # Over the mapped axis itself nothing is sent: the value is there at once.
        out, dim = rule(axis, operands, dims, **params)
        return finished_p.bind(out, start=start), dim

    def moved(avals_in, avals_out, **params):
        return collective_rules[sync](avals_in, [a.inner_aval for a in avals_out], **params)

    start.def_effectful_abstract_eval(aval)
    start.def_impl(lambda x, **params: Finished(sync.bind(x, **params), start))
    ad.deflinear2(start, transpose)
    batching.axis_primitive_batchers[start] = batch
    mlir.register_text_lowering(start, _start_lowering(sync))
    collective_rules[start] = moved
    arrivals[start] = arrivals[sync]
    starts[sync], waits[start], synchronous[start] = start, done, sync
    return start


def _names(params) -> tuple:
    return as_names(params["axes"] if "axes" in params else params["axis_name"])


def _start_lowering(sync):
    """The synchronous operation, alone in a region. What prepares its operand stands before it, what rearranges its result after the wait."""

    def rule(ctx, x, **params):
        lower, out = mlir.lowerings[sync], ctx.avals_out[0].inner_aval
        before = ctx.avals_in, ctx.avals_out
        try:
            ctx.avals_out = [out]
            if not _sends(ctx, sync, out, params):
                return lower(ctx, x, **params)
            prepare = _preparations.get(sync, _as_it_is)
            x, aval, result, finish = prepare(ctx, x, ctx.avals_in[0], out, params)
            ctx.avals_in, ctx.avals_out = [aval], [result]
            t, coming = tensor_type(aval), tensor_type(result)
            region = ctx.block([t], lambda names: [lower(ctx, *names, **params)], [coming])
            name = ctx.op(
                f'"stablehlo.async_start"({x}) ({region}) : ({t}) -> !stablehlo.future<{coming}>'
            )
            ctx.started[name] = ctx.lines, ctx.lines[-1]
            return (PendingName(name, result, finish),)
        finally:
            ctx.avals_in, ctx.avals_out = before

    return rule


def _sends(ctx, sync, out, params) -> bool:
    """Whether there is an operation to start."""
    if sync is pbroadcast_p:  # elsewhere it is not one operation
        return ctx.platform in ("cuda", "rocm", "gpu")
    if sync is all_to_all_p and _members(ctx, params) == 1:
        return False
    return 0 not in out.shape


def _members(ctx, params) -> int:
    """Devices that take part together in the equation that is lowered."""
    return len(groups_of(ctx, _names(params), params["axis_index_groups"])[0])


# What stands around the operation, by primitive: `prepare(ctx, x, aval, out, params)` gives its operand with its type, the type of its result,
# and what makes of the result, when it is there, the result of the primitive. It may change `params`.


def _as_it_is(ctx, x, aval, out, params):
    return x, aval, out, None


def _stacked(ctx, x, aval, out, params):
    if params["tiled"]:
        return x, aval, out, None
    x, aval = widened(ctx, x, aval, params["all_gather_dimension"])
    params["tiled"] = True
    return x, aval, out, None


def _unstacked(ctx, x, aval, out, params):
    if params["tiled"]:
        return x, aval, out, None
    block = aval.update(shape=resized(aval.shape, params["scatter_dimension"], 1))
    params["tiled"] = True
    return x, aval, block, lambda y: reshaped(ctx, y, block, out)


def _exchanged(ctx, x, aval, out, params):
    """Blocks along the first dimension: XLA exchanges along one, and does the rest in operations of its own, which may not be in the region."""
    split, concat, n = params["split_axis"], params["concat_axis"], _members(ctx, params)
    if split == concat:
        return x, aval, out, None
    aval, out = physical_aval(aval), physical_aval(out)
    rest = resized(aval.shape, split, aval.shape[split] // n)
    cut = aval.update(shape=inserted(rest, split, n))
    blocks = aval.update(shape=(n, *rest))
    x = reshaped(ctx, x, aval, cut)
    x = _transposed(ctx, x, cut, blocks, [split, *(i for i in range(cut.ndim) if i != split)])
    params["split_axis"] = params["concat_axis"] = 0

    def joined(y):
        places = [*range(1, blocks.ndim)]
        places.insert(concat, 0)
        beside = blocks.update(shape=tuple(blocks.shape[i] for i in places))
        return reshaped(ctx, _transposed(ctx, y, blocks, beside, places), beside, out)

    return x, blocks, blocks, joined


def _transposed(ctx, x, aval, out, places) -> str:
    return ctx.op(
        f"stablehlo.transpose {x}, dims = {dims_text(places)} : ({tensor_type(aval)}) -> {tensor_type(out)}"
    )


_preparations = {
    all_gather_p: _stacked,
    all_gather_reduced_p: _stacked,
    reduce_scatter_p: _unstacked,
    unreduced_reduce_scatter_p: _unstacked,
    all_to_all_p: _exchanged,
}

all_gather_done_p = _done("all_gather")
psum_done_p = _done("psum")
reduce_scatter_done_p = _done("reduce_scatter")
all_to_all_done_p = _done("all_to_all")
pbroadcast_done_p = _done("pbroadcast")
ppermute_done_p = _done("ppermute")

all_gather_start_p = _start(all_gather_p, all_gather_done_p)
all_gather_reduced_start_p = _start(all_gather_reduced_p, all_gather_done_p)
psum_start_p = _start(psum_p, psum_done_p)
psum_invariant_start_p = _start(psum_invariant_p, psum_done_p)
unreduced_psum_start_p = _start(unreduced_psum_p, psum_done_p)
reduce_scatter_start_p = _start(reduce_scatter_p, reduce_scatter_done_p)
unreduced_reduce_scatter_start_p = _start(unreduced_reduce_scatter_p, reduce_scatter_done_p)
all_to_all_start_p = _start(all_to_all_p, all_to_all_done_p)
pbroadcast_start_p = _start(pbroadcast_p, pbroadcast_done_p)
ppermute_start_p = _start(ppermute_p, ppermute_done_p)

# A value that is there already in the place of one that is pending.
finished_p = Primitive("finished", auto_pvary=False)


@finished_p.def_abstract_eval
def _finished_aval(x, *, start):
    return AbstractTodo(x, start)


finished_p.def_impl(lambda x, *, start: Finished(x, start))
ad.deflinear2(finished_p, lambda ct, x, *, start: [wait(ct)])
batching.primitive_batchers[finished_p] = lambda xs, dims, *, start: (
    finished_p.bind(*xs, start=start),
    dims[0],
)
mlir.register_text_lowering(finished_p, lambda ctx, x, *, start: x)

# What is sent is counted where it is started.
costs.register(
    costs.free,
    all_gather_done_p,
    psum_done_p,
    reduce_scatter_done_p,
    all_to_all_done_p,
    pbroadcast_done_p,
    ppermute_done_p,
    finished_p,
)
