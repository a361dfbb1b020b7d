"""`checkpoint` (rematerialization): the backward pass recomputes what the forward pass did not save."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence

from xlab import tree as _tree
from xlab.compile.arguments import StaticValue, put_back, static_positions
from xlab.compile.jit import hoisted
from xlab.compile.jit_primitive import jit_p
from xlab.compile.ref_discharge import check_refs
from xlab.compile.tracing import argument_names, function_name, made_of, trace_program
from xlab.config import config, idle_argument
from xlab.core import effects as _effects
from xlab.core.alias import alias
from xlab.core.avals import aval_of
from xlab.core.hi_states import is_mutable, typed
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr, results_of
from xlab.core.pending import AbstractTodo
from xlab.core.primitive import Primitive
from xlab.core.refs import AbstractRef
from xlab.interpreters import ad, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import define_call
from xlab.interpreters.ref_flow import unknown_variables
from xlab.lax.device_put import ArrayCopySemantics, device_put_p
from xlab.sharding.placement import MemorySpace
from xlab.transforms.arguments import check_callable, text_attributes, wraps
from xlab.transforms.policies import Offloadable, is_saveable


def checkpoint(
    fun: Callable | None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: bool = False,
) -> Callable:
    """`fun` as before, but its reverse-mode derivative keeps only its inputs and recomputes the rest.

    Args:
        policy: `policy(primitive, *avals, **params)` says which results are kept, by a bool or by `Saveable`, `Recompute` or
            `Offloadable(src, dst)`; see `checkpoint_policies`.
        prevent_cse: keep the compiler from merging the recomputation with the first computation.
        static_argnums: positional arguments that are Python values.
        static_argnames: names of arguments that are Python values, given by keyword or by position.

    Source: Griewank and Walther, "Revolve" (2000); Chen et al., "Training deep nets with sublinear memory cost" (2016).

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> round(float(xlab.grad(xlab.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0)), 4)
        0.36
    """
    idle_argument(
        "checkpoint", "concrete", concrete, "static_argnums makes arguments Python values"
    )
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    check_callable(fun, "checkpoint")
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    by_name, names = static_positions(fun, None, static_argnames)

    @made_of(fun, "checkpoint", prevent_cse, policy, static, by_name, names)
    @wraps(fun)
    def checkpointed(*args, **kwargs):
        for i in static:
            if not -len(args) <= i < len(args):
                raise ValueError(
                    f"checkpoint of {function_name(fun)}: static_argnums={static_argnums} names argument {i}, but the call has "
                    f"{len(args)} positional arguments"
                )
        program, flat = _traced(fun, args, kwargs, {*static, *by_name}, names)
        consts, closed = hoisted(program.closed)
        check_refs(closed, flat, (*closed.consts, *consts), function_name(fun))
        values = [*closed.consts, *consts, *flat]
        if any(map(is_mutable, values)):
            # Run again on the way back it would change these values twice, and read what they are then.
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *consts, *flat)
            return _tree.unflatten(program.out_tree, outs)
        jaxpr = closed.memo("open", lambda: pe.convert_constvars_jaxpr(closed.jaxpr))
        outs = remat_p.bind(
            *values, jaxpr=jaxpr, prevent_cse=prevent_cse, differentiated=False, policy=policy
        )
        return _tree.unflatten(program.out_tree, outs)

    return checkpointed


def _traced(fun, args, kwargs, static, names):
    """The function's program for these arguments, and those of them that are not static."""
    n = len(args)
    fixed = sorted({i % n for i in static if i < n})
    dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
    flat, in_tree = _tree.flatten((dynamic, {k: v for k, v in kwargs.items() if k not in names}))
    avals = [typed(x) for x in flat]
    if not fixed and not any(k in kwargs for k in names):
        return trace_program(fun, in_tree, avals), flat
    values = [(i, args[i]) for i in fixed], [(k, kwargs[k]) for k in sorted(names) if k in kwargs]
    label = function_name(fun)
    try:
        kept = tuple(tuple((k, StaticValue(v, label)) for k, v in part) for part in values)
    except ValueError:  # without a hash, a value cannot select a program: trace every time

        def chosen(*dynamic, **kw):
            dynamic = list(dynamic)
            for i, value in values[0]:
                dynamic.insert(i, value)
            return fun(*dynamic, **dict(values[1]), **kw)

        functools.update_wrapper(chosen, fun, assigned=text_attributes(fun))
        return trace_program(chosen, in_tree, avals), flat
    arg_names = functools.partial(argument_names, fun, in_tree, len(flat), fixed)
    rebuild = functools.partial(put_back, kept)
    return (
        trace_program(fun, in_tree, avals, static=kept, rebuild=rebuild, names=arg_names),
        flat,
    )


remat = alias(checkpoint, "remat")

logger = logging.getLogger("xlab")
remat_p = Primitive("remat2")


def _remat_partial_eval(trace, args, *, jaxpr, policy, prevent_cse, differentiated):
    """Runs the known part without saving its inner values, and records the whole body for the unknown part."""
    if any(type(v.aval) is AbstractRef for v in jaxpr.invars):
        # Running it again would write again: what the way back needs is kept.
        return eval_jaxpr(jaxpr, (), *args)
    unknown = [trace.is_unknown(x) for x in args]
    io = [e for e in jaxpr.effects if isinstance(e, _effects.IO_EFFECTS)]
    if io:
        raise NotImplementedError(
            f"Effects not supported in partial-eval of `checkpoint`/`remat`: {io}. The function runs again on the way "
            f"back, and would repeat its io_callback; move that out of the checkpointed function"
        )
    known, _, out_unknown, _ = pe.split_jaxpr(pe.close_jaxpr(jaxpr), unknown)
    n_known = sum(not u for u in out_unknown)
    body, saved, waiting = jaxpr, [], set()
    if policy is not None:
        body = _inline_jits(jaxpr)
        saved, waiting = _saveable(body, unknown, policy)
    params = {"policy": policy, "prevent_cse": prevent_cse, "differentiated": differentiated}
    # What runs now: the known results, and what the policy keeps.
    if saved:
        saved, moves = map(list, zip(*saved))
        wanted = [v for v, u in zip(body.outvars, out_unknown) if not u]
        known_eqns = [e for e in body.eqns if waiting.isdisjoint(_variables(e))]
        now, used = pe.dce_jaxpr(
            body.replace(eqns=known_eqns, outvars=[*wanted, *saved]),
            [True] * (n_known + len(saved)),
        )
        operands = [x for x, u in zip(args, used) if u]
    else:
        consts, now = pe.open_closed_jaxpr(known)
        now, used = pe.dce_jaxpr(now.replace(outvars=now.outvars[:n_known]), [True] * n_known)
        operands = [
            x for x, u in zip((*consts, *(x for x, u in zip(args, unknown) if not u)), used) if u
        ]
    outs = trace.run_known(eval_jaxpr, now, (), *operands)
    known_outs, residuals = outs[:n_known], outs[n_known:]
    if saved:
        residuals = [
            trace.run_known(_moved, x, m.dst) if m else x for x, m in zip(residuals, moves)
        ]
    # What is recorded: the body with the kept values as inputs, for the unknown results only.
    kept = set(saved)
    eqns = [e for e in body.eqns if not (e.outvars and all(v in kept for v in e.outvars))]
    waiting, back = list(saved), []
    for i, v in enumerate(saved):
        if moves[i]:
            waiting[i] = Var(aval_of(residuals[i]))
            back.append(JaxprEqn([waiting[i]], [v], device_put_p, _move(moves[i].src)))
    eqns = [*back, *eqns]
    rest = Jaxpr((), [*waiting, *body.invars], body.outvars, eqns, debug_info=body.debug_info)
    rest, used = pe.dce_jaxpr(rest, out_unknown)
    outs = []
    if any(out_unknown):
        operands = [x for x, u in zip((*residuals, *args), used) if u]
        if config.log_checkpoint_residuals:
            n = len(saved)
            _log_residuals(
                [x.aval for x, u, unk in zip(body.invars, used[n:], unknown) if u and not unk],
                [v for v, u in zip(saved, used) if u],
                body,
            )
        outs = trace.record_unknown(
            remat_p, operands, dict(params, jaxpr=rest, differentiated=True)
        )
    k, w = iter(known_outs), iter(outs)
    return [next(w) if u else next(k) for u in out_unknown]


def _log_residuals(inputs, saved, body) -> None:
    """Under `config.log_checkpoint_residuals`: logs the residuals kept for the backward pass."""
    made_by = {v: e for e in body.eqns for v in e.outvars}
    if inputs:
        logger.warning(
            "checkpointed function saving inputs with shapes:\n%s",
            "\n".join(f"  {a}" for a in inputs),
        )
    if saved:
        logger.warning(
            "checkpointed function saving these intermediates:\n%s",
            "\n".join(
                f"  {v.aval} from output of {made_by[v].primitive.name} from {made_by[v].source_info}"
                if v in made_by
                else f"  {v.aval}"
                for v in saved
            ),
        )


def _inline_jits(jaxpr: Jaxpr) -> Jaxpr:
    """The body with nested `jit` equations written out, so that a policy sees what is inside."""
    if not any(e.primitive is jit_p for e in jaxpr.eqns):
        return jaxpr

    def run(*args):
        return _eval_inlined(jaxpr, (), args)

    new, consts = pe.trace_to_jaxpr(run, [v.aval for v in jaxpr.invars], jaxpr.debug_info)
    if consts:
        return jaxpr
    return new


def _eval_inlined(jaxpr, consts, args):
    env = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))

    def read(a):
        return a.val if type(a) is Literal else env[a]

    for eqn in jaxpr.eqns:
        values = [read(a) for a in eqn.invars]
        if eqn.primitive is jit_p:
            inner = eqn.params["jaxpr"]
            outs = _eval_inlined(inner.jaxpr, inner.consts, values)
        else:
            outs = results_of(eqn, values)
        env.update(zip(eqn.outvars, outs))
    return [read(a) for a in jaxpr.outvars]


def _variables(eqn: JaxprEqn) -> list[Var]:
    return [v for v in (*eqn.invars, *eqn.outvars) if type(v) is not Literal]


def _saveable(
    jaxpr: Jaxpr, unknown, policy
) -> tuple[list[tuple[Var, Offloadable | None]], set[Var]]:
    """Results of known equations that the policy saves, with the memory each is offloaded to, if any; and what is unknown."""
    waiting = {v for v, u in zip(jaxpr.invars, unknown) if u}
    if _effects.on_refs(jaxpr.effects):
        waiting |= unknown_variables(jaxpr, unknown)
    saved: list = []
    for eqn in jaxpr.eqns:
        if any(type(v) is Var and v in waiting for v in eqn.invars):
            waiting.update(eqn.outvars)
            continue
        if _effects.on_refs(
            eqn.effects
        ):  # what it does to a reference has to happen on the way back too
            continue
        if any(type(v.aval) is AbstractTodo for v in eqn.outvars):
            continue  # what is under way is started again, together with its wait
        answer = policy(eqn.primitive, *(v.aval for v in eqn.invars), **eqn.params)
        if isinstance(answer, Offloadable):
            saved.extend((v, answer) for v in eqn.outvars)
        elif is_saveable(answer):
            saved.extend((v, None) for v in eqn.outvars)
    return saved, waiting


def _move(kind) -> dict:
    """Parameters of the equation that brings a value to a memory."""
    space = (
        kind
        if isinstance(kind, MemorySpace)
        else MemorySpace.Device
        if kind == "device"
        else MemorySpace.Host
    )
    return {
        "devices": (space,),
        "srcs": (None,),
        "copy_semantics": (ArrayCopySemantics.ALWAYS_COPY,),
    }


def _moved(x, kind):
    return device_put_p.bind(x, **_move(kind))[0]


def _transposed(closed, linear, nonzero, refs, params):
    """Recompute what is known, then run the linear rest backwards, all in one program."""
    known, waiting, out_unknown, res_avals = pe.split_jaxpr(closed, linear)
    n_known = sum(not u for u in out_unknown)
    value_avals = [a for a, lin in zip(closed.in_avals, linear) if not lin]
    ct_avals = [a.to_tangent_aval().to_ct_aval() for a, nz in zip(closed.out_avals, nonzero) if nz]
    aux = {}

    def run(*args):
        values, cts = args[: len(value_avals)], iter(args[len(value_avals) :])
        residuals = eval_jaxpr(known.jaxpr, known.consts, *values)[n_known:]
        cotangents = [
            next(cts) if nz else ad.Zero(a.to_tangent_aval().to_ct_aval())
            for nz, a in zip(nonzero, closed.out_avals)
        ]
        cotangents = [ct for ct, u in zip(cotangents, out_unknown) if u]
        primals = [*residuals, *(ad.UndefinedPrimal(a) for a in waiting.in_avals[len(res_avals) :])]
        given = ad.backward_pass(waiting.jaxpr, waiting.consts, primals, cotangents)[
            len(res_avals) :
        ]
        aux["nonzero"] = ad.nonzero_mask(given)
        return ad.drop_zeros(given)

    new = pe.trace_to_closed_jaxpr(run, [*value_avals, *ct_avals], closed.jaxpr.debug_info)
    return new, aux["nonzero"]


define_call(remat_p, "jaxpr", transpose=_transposed)
pe.partial_eval_rules[remat_p] = _remat_partial_eval


def _remat_lowering(ctx, *args, jaxpr, prevent_cse, differentiated, policy):
    if prevent_cse and differentiated and args:
        types = ctx.types_in()
        args = ctx.ops(f"stablehlo.optimization_barrier {', '.join(args)} : {types}", len(args))
    return ctx.jaxpr(
        ClosedJaxpr(jaxpr), args, scope="rematted_computation" if differentiated else "checkpoint"
    )


mlir.register_text_lowering(remat_p, _remat_lowering)
