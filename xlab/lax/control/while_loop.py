"""`while_loop`: a program repeated as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.config import config
from xlab.core import effects as _effects
from xlab.core.avals import HOST_VALUES, aval_of
from xlab.core.hi_states import typed
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.refs import is_ref
from xlab.core.trace import is_abstract, is_tracer
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import LoopFlow
from xlab.lax.control.common import (
    add_inputs,
    args_tree,
    as_carry,
    cast_hint,
    check_callables,
    define_loop,
    join_carry,
    name_of,
    of_library,
    reorder,
    rounds_of,
    settled,
    trace_body,
)
from xlab.lax.control.select import select_examples
from xlab.lax.convert import convert
from xlab.lax.reductions import reduce_or


def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
    """Repeats `val = body_fun(val)` while `cond_fun(val)` holds, and returns the last `val`.

    The body keeps structure, shapes and dtypes. Forward-mode derivatives work; reverse mode needs `scan` or a `fori_loop`
    with static bounds.

    Args:
        cond_fun: `value -> bool`: whether to go on.
        body_fun: `value -> value` of unchanged structure, shapes and dtypes.
        init_val: the value before the first step, a tree of arrays.

    Example:
        >>> from xlab import lax
        >>> int(lax.while_loop(lambda i: i < 10, lambda i: i + 3, 0))
        12
    """
    check_callables("while_loop", cond_fun=cond_fun, body_fun=body_fun)
    if config.disable_jit and not any(map(is_abstract, _tree.leaves(init_val))):
        init_val = _tree.map(held_as_array, init_val)
        holds = cond_fun(init_val)
        while not is_tracer(holds) or holds.known() is not None:
            if not holds:
                return init_val
            init_val = _tree.map(held_as_array, body_fun(init_val))
            holds = cond_fun(init_val)
        # From here on the devices disagree: each goes on for itself.
    init, in_tree = args_tree(init_val)
    body, body_consts, init = fixed_point("while_loop", body_fun, in_tree, init)
    cond, cond_consts, cond_tree = trace_body(cond_fun, in_tree, [typed(x) for x in init])
    if len(cond.out_avals) != 1 or cond_tree.num_leaves != 1 or cond_tree.num_nodes != 1:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but {name_of(cond_fun)} returns {cond_tree}"
        )
    out = cond.out_avals[0]
    if out.shape or out.dtype != np.bool_:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but {name_of(cond_fun)} returns {out}. Reduce it with .all() "
            f"or .any()."
        )
    outs = while_p.bind(
        *cond_consts,
        *body_consts,
        *init,
        cond_nconsts=len(cond_consts),
        cond_jaxpr=cond,
        body_nconsts=len(body_consts),
        body_jaxpr=body,
    )
    return _tree.unflatten(_tree.structure(init_val), outs)


def held_as_array(x):
    """A value of a loop that Python runs: an array, as in a compiled one, so that a body may use its methods."""
    aval = aval_of(x)
    return convert(x, aval.dtype, aval.weak_type) if isinstance(x, HOST_VALUES) else x


def fixed_point(api, body_fun, in_tree, init, out_of=lambda t: t):
    """Traces a loop body; weak initial values take the dtype of the body's results."""
    own = of_library(body_fun)
    for _ in range(rounds_of(body_fun, init)):
        avals = [typed(x) for x in init]
        body, consts, out_tree = trace_body(body_fun, in_tree, avals)
        want = in_tree.children()[0].children()[0]
        if out_tree != want:
            raise TypeError(
                f"lax.{api}: {name_of(body_fun)} must return the structure of its input, {want}, got {out_tree}"
            )
        joined = [join_carry(a, b, own) for a, b in zip(avals, body.out_avals)]
        if any(j is None for j in joined):
            raise TypeError(carry_mismatch(api, name_of(body_fun), avals, body.out_avals, joined))
        if all(j is a for j, a in zip(joined, avals)):
            return body, consts, init
        init = list(map(as_carry, init, avals, joined))
    raise AssertionError("types of a loop do not settle")


def carry_mismatch(api, name, given, got, joined) -> str:
    wrong = [i for i, j in enumerate(joined) if j is None]
    lines = "; ".join(
        f"component {i} goes in as {given[i]} and comes out as {got[i]}" for i in wrong[:3]
    )
    hints = []
    if casts := cast_hint(
        [
            (f"the initial value of component {i}", given[i], f"what {name} returns as component {i}", got[i])
            for i in wrong
        ]
    ):  # fmt: skip
        hints.append(casts)
    if any(
        getattr(given[i], "explicit_sharding", None) != getattr(got[i], "explicit_sharding", None)
        for i in wrong
    ):
        hints.append(
            "They are sharded differently over Explicit mesh axes: bring one to the sharding of the other with xlab.reshard."
        )
    if not hints or any(
        getattr(given[i], of, None) != getattr(got[i], of, None)
        for i in wrong
        for of in ("shape", "dtype")
    ):
        hints.append("Convert with .astype or reshape inside the body so that both agree.")
    hint = " ".join(hints)
    return f"lax.{api}: {name} must keep the types of the loop's carry, but {lines}. {hint}"


while_p = Primitive("while", multiple_results=True, auto_pvary=False, context_dependent=True)
while_p.takes_refs = True


@while_p.def_effectful_abstract_eval
def _while_aval(*avals, cond_nconsts, cond_jaxpr, body_jaxpr, **_):
    effects = _effects.join(
        (cond_jaxpr.effects, _effects.moved(body_jaxpr.effects, lambda i: i + cond_nconsts))
    )
    _effects.check_control_flow("while_loop", effects)
    return body_jaxpr.out_avals, effects


def _split(args, cond_nconsts, body_nconsts):
    return (
        args[:cond_nconsts],
        args[cond_nconsts : cond_nconsts + body_nconsts],
        args[cond_nconsts + body_nconsts :],
    )


def _while_jvp(primals, tangents, *, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr):
    cc, bc, init = _split(primals, cond_nconsts, body_nconsts)
    _, bc_t, init_t = _split(tangents, cond_nconsts, body_nconsts)
    bc_nz = ad.nonzero_mask(bc_t)
    nz = ad.nonzero_mask(init_t)
    nz = settled(nz, lambda nz: ad.jvp_jaxpr(body_jaxpr, [*bc_nz, *nz], nz)[1])
    new_body, _ = ad.jvp_jaxpr(body_jaxpr, [*bc_nz, *nz], nz)
    bc_dots = ad.drop_zeros(bc_t)
    init_dots = [ad.instantiate_zeros(t) for t, n in zip(init_t, nz) if n]
    # jvp_jaxpr takes (consts, carry, const tangents, carry tangents); the loop wants consts first.
    nb, nc = len(bc), len(init)
    order = [
        *range(nb),
        *range(nb + nc, nb + nc + len(bc_dots)),
        *range(nb, nb + nc),
        *range(nb + nc + len(bc_dots), nb + nc + len(bc_dots) + len(init_dots)),
    ]
    body = new_body.memo(("order", tuple(order)), lambda: reorder(new_body, order))
    dots = tuple(v.to_tangent_aval() for v, n in zip(cond_jaxpr.in_avals[cond_nconsts:], nz) if n)
    cond = cond_jaxpr.memo(("ignore", dots), lambda: add_inputs(cond_jaxpr, (), dots))
    outs = while_p.bind(
        *cc,
        *bc,
        *bc_dots,
        *init,
        *init_dots,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=cond,
        body_nconsts=nb + len(bc_dots),
        body_jaxpr=body,
    )
    given = iter(outs[nc:])
    return outs[:nc], [
        next(given) if n else ad.Zero(a.to_tangent_aval()) for n, a in zip(nz, body_jaxpr.out_avals)
    ]


ad.primitive_jvps[while_p] = _while_jvp


def split_while(trace, args, recorded, *, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr):
    """Runs the part of a loop that is known; the recorded loop, of operands `recorded`, repeats it beside the unknown part."""
    cc, bc, init = _split(args, cond_nconsts, body_nconsts)
    params = {
        "cond_nconsts": cond_nconsts,
        "cond_jaxpr": cond_jaxpr,
        "body_nconsts": body_nconsts,
        "body_jaxpr": body_jaxpr,
    }
    bc_u = [trace.is_unknown(x) for x in bc]
    carry_u = [trace.is_unknown(x) for x in init]
    carry_u = settled(
        carry_u, lambda u: pe.split_jaxpr(body_jaxpr, [*bc_u, *u], [False] * len(u))[2]
    )
    _, used = pe.dce_jaxpr(cond_jaxpr.jaxpr, [True])
    cond_unknown = any(trace.is_unknown(x) for x in cc) or any(
        u and c for u, c in zip(used[cond_nconsts:], carry_u)
    )
    if cond_unknown or (
        all(carry_u) and not any(is_ref(x) and not trace.is_unknown(x) for x in args)
    ):
        return trace.record_unknown(while_p, recorded, params)
    known_body, *_ = pe.split_jaxpr(body_jaxpr, [*bc_u, *carry_u], carry_u)
    n_known = sum(not u for u in carry_u)
    body = known_body.memo(("first", n_known), lambda: reorder(known_body, None, range(n_known)))
    keep = [*range(cond_nconsts), *(cond_nconsts + i for i, u in enumerate(carry_u) if not u)]
    cond = cond_jaxpr.memo(("keep", tuple(keep)), lambda: reorder(cond_jaxpr, keep))
    known_bc = [x for x, u in zip(bc, bc_u) if not u]
    known = trace.run_known(
        while_p.bind,
        *cc,
        *known_bc,
        *(x for x, u in zip(init, carry_u) if not u),
        cond_nconsts=cond_nconsts,
        cond_jaxpr=cond,
        body_nconsts=len(known_bc),
        body_jaxpr=body,
    )
    outs = trace.record_unknown(while_p, recorded, params)
    k = iter(known)
    return [o if u else next(k) for o, u in zip(outs, carry_u)]


def _while_transpose(*_, **__):
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values: the "
        "number of iterations is unknown, so what they need later cannot be stored. Use lax.scan, lax.fori_loop with static "
        "(Python int) bounds, or forward mode (jvp, jacfwd)."
    )


ad.primitive_transposes[while_p] = _while_transpose


def _while_batch(axis, args, dims, *, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr):
    cc, bc, init = _split(args, cond_nconsts, body_nconsts)
    cd, bd, carry_d = _split(dims, cond_nconsts, body_nconsts)
    args = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(args, dims)]
    cc, bc, init = _split(args, cond_nconsts, body_nconsts)
    cc_b, bc_b = [d is not None for d in cd], [d is not None for d in bd]
    carry_b = [d is not None for d in carry_d]
    body_in, body_out = body_jaxpr.jaxpr.invars[body_nconsts:], body_jaxpr.jaxpr.outvars
    # The same for all examples, however often they go round.
    fixed = [d is None and v is o for d, v, o in zip(carry_d, body_in, body_out)]

    def once(b):
        if batching.batch_jaxpr(cond_jaxpr, axis, [*cc_b, *b], False)[1][0]:
            b = [not f for f in fixed]
        return batching.batch_jaxpr(body_jaxpr, axis, [*bc_b, *b], b)[1]

    carry_b = settled(carry_b, once)
    cond, pred_b = batching.batch_jaxpr(cond_jaxpr, axis, [*cc_b, *carry_b], False)
    body, _ = batching.batch_jaxpr(body_jaxpr, axis, [*bc_b, *carry_b], carry_b)
    init = [
        x if d is not None or not b else batching.broadcast(x, axis.size, 0)
        for x, d, b in zip(init, carry_d, carry_b)
    ]
    if not pred_b[0]:
        outs = while_p.bind(
            *cc,
            *bc,
            *init,
            cond_nconsts=cond_nconsts,
            cond_jaxpr=cond,
            body_nconsts=body_nconsts,
            body_jaxpr=body,
        )
        return outs, [0 if b else None for b in carry_b]
    # A condition per example: go on while any holds, and keep the examples that are done as they are.
    if any(isinstance(e, _effects.IO_EFFECTS) for e in (*cond_jaxpr.effects, *body_jaxpr.effects)):
        raise NotImplementedError(
            "IO effects are not supported in while_loop with a batched predicate: the loop goes on for examples "
            "that are done, and would repeat their io_callback. Map with lax.map instead of vmap"
        )
    nc = cond_nconsts

    def any_cond(*xs):
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *xs)
        return [reduce_or(pred, (0,))]

    def masked_body(*xs):
        c, b, carry = xs[:nc], xs[nc : nc + body_nconsts], xs[nc + body_nconsts :]
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *c, *carry)
        new = eval_jaxpr(body.jaxpr, body.consts, *b, *carry)
        return [select_examples(pred, [o, n]) if b else o for n, o, b in zip(new, carry, carry_b)]

    carry_avals = [typed(x) for x in init]
    cc_avals, bc_avals = [typed(x) for x in cc], [typed(x) for x in bc]
    new_cond = cond.memo(
        ("any", tuple(carry_avals)),
        lambda: pe.trace_to_closed_jaxpr(
            any_cond, [*cc_avals, *carry_avals], cond.jaxpr.debug_info
        ),
    )
    new_body = body.memo(
        ("masked", id(cond), tuple(cc_avals), tuple(carry_b)),
        lambda: pe.trace_to_closed_jaxpr(
            masked_body, [*cc_avals, *bc_avals, *carry_avals], body.jaxpr.debug_info
        ),
    )
    outs = while_p.bind(
        *cc,
        *cc,
        *bc,
        *init,
        cond_nconsts=nc,
        cond_jaxpr=new_cond,
        body_nconsts=nc + body_nconsts,
        body_jaxpr=new_body,
    )
    return outs, [0 if b else None for b in carry_b]


batching.axis_primitive_batchers[while_p] = _while_batch


define_loop(
    while_p,
    lambda p: LoopFlow(
        p["body_jaxpr"],
        p["body_nconsts"],
        len(p["body_jaxpr"].out_avals),
        p["cond_jaxpr"],
        p["cond_nconsts"],
    ),
    lambda flow: {
        "body_jaxpr": flow.body,
        "body_nconsts": flow.num_consts,
        "cond_jaxpr": flow.cond,
        "cond_nconsts": flow.cond_consts,
    },
)


def _while_lowering(ctx, *args, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr):
    cc, bc, init = _split(args, cond_nconsts, body_nconsts)
    ordered = _effects.in_order(ctx.eqn.effects)
    n = len(ordered)
    types = [*[mlir.TOKEN_TYPE] * n, *(mlir.tensor_type(a) for a in body_jaxpr.out_avals)]
    # The condition then runs in order, before the loop and after each body.
    again = _effects.in_order(cond_jaxpr.effects)

    def held(carry):
        return mlir.constrain_sums(ctx, carry, body_jaxpr.out_avals)

    def constants(names, closed):
        return mlir.constrain_sums(ctx, names, closed.in_avals[: len(names)])

    def test(carry):
        return ctx.jaxpr(cond_jaxpr, [*constants(cc, cond_jaxpr), *held(carry)])

    def step(carry):
        if not again:
            return held(ctx.jaxpr(body_jaxpr, [*constants(bc, body_jaxpr), *held(carry)]))
        new = held(ctx.jaxpr(body_jaxpr, [*constants(bc, body_jaxpr), *held(carry[1:])]))
        return [*test(new), *new]

    if again:
        init = [*test(init), *init]
        types.insert(n, "tensor<i1>")
    cond = ctx.block(types, lambda names: [names[n]] if again else test(names[n:]), ["tensor<i1>"])
    body = ctx.block(types, lambda names: ctx.with_tokens(ordered, names, step), types)
    joined = ", ".join(types)
    outs = ctx.ops(
        f'"stablehlo.while"({", ".join([*ctx.tokens(ordered), *init])}) ({cond}, {body}) : ({joined}) -> ({joined})',
        len(types),
    )
    outs = ctx.take_tokens(ordered, outs)
    return outs[1:] if again else outs


mlir.register_text_lowering(while_p, _while_lowering)
