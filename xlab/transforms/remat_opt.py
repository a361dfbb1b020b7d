"""`remat_opt`: the forward rule of a `custom_vjp` with `optimize_remat=True`.

The equation gives residuals and results. Where the residuals are unused, as in the forward pass of a checkpointed function, dead
code elimination puts the function itself in its place.
"""

from __future__ import annotations

from collections.abc import Callable

from xlab.compile.jit import hoisted
from xlab.core import effects as _effects
from xlab.core.hi_states import typed
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.trace import Tracer, set_trace
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.lax.call import closed_call_p
from xlab.lax.control.common import reorder

remat_opt_p = Primitive(
    "remat_opt", multiple_results=True, auto_pvary=False, context_dependent=True
)
remat_opt_p.def_effectful_abstract_eval(
    lambda *avals, fwd_jaxpr, **_: (fwd_jaxpr.out_avals, fwd_jaxpr.effects)
)
control_flow_rules[remat_opt_p] = lambda params: CallFlow(params["fwd_jaxpr"])
mlir.register_text_lowering(
    remat_opt_p, lambda ctx, *args, fwd_jaxpr, **_: ctx.jaxpr(fwd_jaxpr, args)
)


def optimized(fun: Callable, fwd: Callable, n_results: Callable, flagged: bool) -> Callable:
    """The forward rule `fwd(*args)`, which gives results and then residuals, as one equation that `fun` can replace.

    With `flagged`, a flag for each argument follows the arguments. `n_results()` is known once `fwd` has run.
    """

    def rule(*values):
        n = len(values) // 2 if flagged else len(values)
        args, flags = values[:n], values[n:]
        avals = [typed(x) for x in args]
        consts, closed = hoisted(
            pe.trace_to_closed_jaxpr(lambda *xs: fwd(*xs, *flags), avals, DebugInfo(fwd.__name__))
        )
        n_out, total = n_results(), len(closed.out_avals)
        closed = reorder(closed, None, [*range(n_out, total), *range(n_out)])
        plain: ClosedJaxpr | None = pe.trace_to_closed_jaxpr(fun, avals, DebugInfo(fun.__name__))
        if any(isinstance(c, Tracer) for c in plain.consts):
            plain = None
        n_res = total - n_out
        outs = remat_opt_p.bind(
            *consts,
            *args,
            fwd_jaxpr=closed,
            fun_jaxpr_thunk=_Known(plain),
            num_consts=len(consts),
            num_res=n_res,
        )
        return [*outs[n_res:], *outs[:n_res]]

    rule.__name__ = fwd.__name__
    return rule


class _Known:
    """Gives the program of the function itself, or None where there is none."""

    __name__ = "fun"

    def __init__(self, closed: ClosedJaxpr | None):
        self.closed = closed

    def __call__(self) -> ClosedJaxpr | None:
        return self.closed


def _jvp(primals, tangents, *, fwd_jaxpr, fun_jaxpr_thunk, num_consts, num_res):
    nonzero = ad.nonzero_mask(tangents)
    plain = fun_jaxpr_thunk()
    new, moved = ad.jvp_jaxpr(fwd_jaxpr, nonzero, False)
    k, n_given = len(moved), sum(moved)
    res_dots = sum(moved[:num_res])
    order = [
        *range(num_res),
        *range(k, k + res_dots),
        *range(num_res, k),
        *range(k + res_dots, k + n_given),
    ]
    new = reorder(new, None, order)
    # The function may move other results than its forward rule does: then it cannot take its place.
    if plain is not None and not num_consts:
        plain, plain_moved = ad.jvp_jaxpr(plain, nonzero, moved[num_res:])
        plain = plain if list(plain_moved) == list(moved[num_res:]) else None
    else:
        plain = None
    outs = remat_opt_p.bind(
        *primals,
        *ad.drop_zeros(tangents),
        fwd_jaxpr=new,
        fun_jaxpr_thunk=_Known(plain),
        num_consts=num_consts,
        num_res=num_res + res_dots,
    )
    back = [None] * len(order)
    for value, i in zip(outs, order):
        back[i] = value
    given = iter(back[k:])
    return back[:k], [
        next(given) if m else ad.Zero(a.to_tangent_aval())
        for m, a in zip(moved, fwd_jaxpr.out_avals)
    ]


def _batch(axis, operands, dims, *, fwd_jaxpr, fun_jaxpr_thunk, num_consts, num_res):
    flags = [d is not None for d in dims]
    new, batched = batching.batch_jaxpr(fwd_jaxpr, axis, flags, False)
    plain = fun_jaxpr_thunk()
    if plain is not None:
        plain, plain_batched = batching.batch_jaxpr(
            plain, axis, flags[num_consts:], batched[num_res:]
        )
        plain = plain if list(plain_batched) == list(batched[num_res:]) else None
    operands = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(operands, dims)]
    outs = remat_opt_p.bind(
        *operands,
        fwd_jaxpr=new,
        fun_jaxpr_thunk=_Known(plain),
        num_consts=num_consts,
        num_res=num_res,
    )
    return outs, [0 if b else None for b in batched]


def _partial_eval(trace, args, *, fwd_jaxpr, **_):
    with set_trace(trace):
        return eval_jaxpr(fwd_jaxpr.jaxpr, fwd_jaxpr.consts, *args)


def _dce(used_outputs, eqn):
    plain, n_res, n_consts = (
        eqn.params["fun_jaxpr_thunk"](),
        eqn.params["num_res"],
        eqn.params["num_consts"],
    )
    if not any(used_outputs) and not _effects.prevents_dce(eqn.effects):
        return [False] * len(eqn.invars), None
    if plain is None or any(used_outputs[:n_res]):
        return [True] * len(eqn.invars), eqn
    call = eqn.replace(
        invars=eqn.invars[n_consts:],
        outvars=eqn.outvars[n_res:],
        primitive=closed_call_p,
        params={"call_jaxpr": plain},
        effects=plain.effects,
    )
    used, new = pe.dce_rules[closed_call_p](used_outputs[n_res:], call)
    return [*[False] * n_consts, *used], new


ad.primitive_jvps[remat_opt_p] = _jvp
batching.axis_primitive_batchers[remat_opt_p] = _batch
pe.partial_eval_rules[remat_opt_p] = _partial_eval
pe.dce_rules[remat_opt_p] = _dce
