"""`scan`: a program repeated over the leading axis of arrays, carrying state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.compile.ref_discharge import check_refs
from xlab.config import config, idle_argument
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, dim_index, known_negative
from xlab.core.hi_states import typed
from xlab.core.hi_types import HiType, is_high
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.refs import is_ref
from xlab.core.trace import concrete_or_error, is_abstract
from xlab.interpreters import ad, batching
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import LoopFlow
from xlab.lax.control.common import (
    args_tree,
    as_carry,
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
from xlab.lax.control.while_loop import carry_mismatch
from xlab.lax.creation import zeros_like_aval
from xlab.lax.slicing import index_in_dim


def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> Any:
    """Repeats `carry, y = f(carry, x)` over the leading axis of `xs`.

    Args:
        f: the body; it keeps the structure, shapes and dtypes of the carry.
        init: first carry.
        xs: pytree of arrays with a common leading size, or None.
        length: number of iterations, needed when `xs` is empty.
        reverse: run from the last element to the first; ys keep their places.
        unroll: iterations written out per loop step (True: all of them).

    Returns:
        The last carry, and the ys stacked along a leading axis.

    Example:
        >>> from xlab import lax
        >>> import xlab.numpy as jnp
        >>> total, partial = lax.scan(lambda c, x: (c + x, c + x), 0, jnp.arange(4))
        >>> int(total), partial.tolist()
        (6, [0, 1, 3, 6])
    """
    idle_argument("scan", "_split_transpose", _split_transpose, "the way back is one scan")
    check_callables("scan", f=f)
    xs_flat, xs_tree = _tree.flatten(xs)
    n = _length(f, xs_flat, xs, length)
    if config.disable_jit and not any(map(is_abstract, (*_tree.leaves(init), *xs_flat))):
        return _python_scan(f, init, xs_flat, xs_tree, n, reverse)
    for a in map(aval_of, xs_flat):
        if a.explicit_sharding is not None and a.explicit_sharding.spec[0] is not None:
            raise ValueError(
                f"0th dimension of all xs should be replicated. Got {a.explicit_sharding.spec} for xs of type {a} in scan over {name_of(f)}: "
                f"every device runs every iteration. Reshard it first (xlab.reshard)."
            )
    x_avals = [
        a.without_dimension(0, n) if isinstance(a, HiType) else a.without_dimension(0)
        for a in map(aval_of, xs_flat)
    ]
    init_flat, init_tree = _tree.flatten(init)
    element = _tree.unflatten(xs_tree, x_avals)
    own = of_library(f)
    for _ in range(rounds_of(f, init_flat)):
        avals = [typed(x) for x in init_flat]
        in_avals, in_tree = args_tree(_tree.unflatten(init_tree, avals), element)
        body, consts, out_tree = trace_body(f, in_tree, in_avals)
        children = out_tree.children() if out_tree.num_leaves or out_tree.num_nodes > 1 else []
        if len(children) != 2:
            raise TypeError(
                f"scan body output must be a pair (carry, y), but {name_of(f)} returns {out_tree}"
            )
        carry_tree, y_tree = children
        if carry_tree != init_tree:
            raise TypeError(
                f"scan carry output and input must have identical types and structure: {name_of(f)} takes a carry "
                f"of structure {init_tree} and returns {carry_tree}"
            )
        nc = len(avals)
        joined = [join_carry(a, b, own) for a, b in zip(avals, body.out_avals[:nc])]
        if any(j is None for j in joined):
            raise TypeError(
                "scan body function carry input and carry output must have equal types. "
                + carry_mismatch("scan", name_of(f), avals, body.out_avals[:nc], joined)
            )
        if all(j is a for j, a in zip(joined, avals)):
            break
        init_flat = list(map(as_carry, init_flat, avals, joined))
    check_refs(body, [*init_flat, *xs_flat], consts)
    if unroll is not True and dim_index(unroll) < 0:
        raise ValueError(f"scan: `unroll` must be a `bool` or a non-negative `int`, got {unroll!r}")
    if isinstance(n, SymbolicDim):
        unroll = 1
    elif unroll is True or (unroll is not False and dim_index(unroll) > max(n, 1)):
        unroll = max(n, 1)
    unroll = max(1, dim_index(unroll))
    outs = scan_p.bind(
        *consts,
        *init_flat,
        *xs_flat,
        reverse=bool(reverse),
        length=n,
        jaxpr=body,
        num_consts=len(consts),
        num_carry=nc,
        unroll=unroll,
    )
    return _tree.unflatten(init_tree, outs[:nc]), _tree.unflatten(y_tree, outs[nc:])


def _length(f, flat, xs, length) -> int:
    sizes = set()
    for x in flat:
        aval = aval_of(x)
        if is_high(aval):
            continue
        if not aval.shape:
            raise ValueError(
                f"scan got value with no leading axis to scan over: {aval} among xs of {name_of(f)}"
            )
        sizes.add(aval.shape[0])
    if length is not None:
        length = dim_index(
            concrete_or_error(
                length,
                "scan needs to know its `length` while tracing: use lax.fori_loop or "
                "lax.while_loop where it is data",
            )
        )
        if known_negative(length):
            raise ValueError(f"scan length must not be negative, got {length}")
        if sizes - {length}:
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{[aval_of(x).shape[0] for x in flat if not is_high(aval_of(x))]}."
            )
        return length
    if len(sizes) > 1:
        raise ValueError(
            f"scan got values with different leading axis sizes: {[aval_of(x).shape[0] for x in flat if not is_high(aval_of(x))]}."
        )
    if not sizes and flat:
        raise ValueError(
            f"scan over values of hi types alone, such as {aval_of(flat[0])}, must provide `length`: these do not say how many elements they have"
        )
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes.pop()


def _python_scan(f, carry, xs_flat, xs_tree, n, reverse):
    from xlab.lax.shape import concatenate, expand_dims

    ys = []
    for i in reversed(range(n)) if reverse else range(n):
        row = [x.at[i] if is_ref(x) else index_in_dim(x, i, 0, False) for x in xs_flat]
        carry, y = f(carry, _tree.unflatten(xs_tree, row))
        ys.append(y)
    if reverse:
        ys.reverse()
    if not ys:
        raise ValueError(
            "a scan of length zero cannot run under disable_jit: the type of its results is unknown"
        )
    return carry, _tree.map(lambda *a: concatenate([expand_dims(v, (0,)) for v in a], 0), *ys)


scan_p = Primitive("scan", multiple_results=True, auto_pvary=False, context_dependent=True)
scan_p.takes_refs = True


@scan_p.def_effectful_abstract_eval
def _scan_aval(*avals, jaxpr, length, num_carry, **_):
    _effects.check_control_flow("scan", jaxpr.effects)
    outs = jaxpr.out_avals
    return [
        *outs[:num_carry],
        *(a.with_dimension(0, length) for a in outs[num_carry:]),
    ], jaxpr.effects


def parts(values, num_consts, num_carry):
    return (
        values[:num_consts],
        values[num_consts : num_consts + num_carry],
        values[num_consts + num_carry :],
    )


def _scan_jvp(primals, tangents, *, jaxpr, num_consts, num_carry, **params):
    consts, init, xs = parts(primals, num_consts, num_carry)
    c_t, i_t, x_t = parts(tangents, num_consts, num_carry)
    c_nz, nz, x_nz = ad.nonzero_mask(c_t), ad.nonzero_mask(i_t), ad.nonzero_mask(x_t)
    n_ys = len(jaxpr.out_avals) - num_carry

    def derived(nz):
        return ad.jvp_jaxpr(jaxpr, [*c_nz, *nz, *x_nz], [*nz, *[False] * n_ys])

    nz = settled(nz, lambda nz: derived(nz)[1])
    new, out_nz = derived(nz)
    ys_nz = out_nz[num_carry:]
    c_dots = ad.drop_zeros(c_t)
    i_dots = [ad.instantiate_zeros(t) for t, n in zip(i_t, nz) if n]
    x_dots = ad.drop_zeros(x_t)
    # From (primals, tangents) of everything to consts, carry and xs, each with its tangents.
    a, b, c = num_consts, num_carry, len(xs)
    base = a + b + c
    p1, p2 = base + len(c_dots), base + len(c_dots) + len(i_dots)
    ins = [
        *range(a),
        *range(base, p1),
        *range(a, a + b),
        *range(p1, p2),
        *range(a + b, base),
        *range(p2, p2 + len(x_dots)),
    ]
    n_out = len(jaxpr.out_avals)
    n_ct = sum(nz)
    outs_order = [
        *range(b),
        *range(n_out, n_out + n_ct),
        *range(b, n_out),
        *range(n_out + n_ct, n_out + n_ct + sum(ys_nz)),
    ]
    body = new.memo(
        ("scan order", tuple(ins), tuple(outs_order)), lambda: reorder(new, ins, outs_order)
    )
    outs = scan_p.bind(
        *consts,
        *c_dots,
        *init,
        *i_dots,
        *xs,
        *x_dots,
        jaxpr=body,
        num_consts=a + len(c_dots),
        num_carry=b + n_ct,
        **params,
    )
    carry, carry_t = outs[:b], iter(outs[b : b + n_ct])
    ys, ys_t = outs[b + n_ct : b + n_ct + n_ys], iter(outs[b + n_ct + n_ys :])
    zeros = _scan_aval(jaxpr=jaxpr, num_carry=num_carry, **params)[0]
    out_t = [next(carry_t) if n else None for n in nz] + [next(ys_t) if n else None for n in ys_nz]
    return [*carry, *ys], [
        ad.Zero(z.to_tangent_aval()) if t is None else t for t, z in zip(out_t, zeros)
    ]


ad.primitive_jvps[scan_p] = _scan_jvp


def _scan_partial_eval(trace, args, *, jaxpr, num_consts, num_carry, **params):
    consts, init, xs = parts(args, num_consts, num_carry)
    c_u, x_u = [trace.is_unknown(v) for v in consts], [trace.is_unknown(v) for v in xs]
    u = [trace.is_unknown(v) for v in init]
    n_ys = len(jaxpr.out_avals) - num_carry

    def split(u):
        return pe.split_jaxpr(jaxpr, [*c_u, *u, *x_u], [*u, *[False] * n_ys])

    u = settled(u, lambda u: split(u)[2])
    known, unknown, out_u, res_avals = split(u)
    ys_u = out_u[num_carry:]
    known_in = [v for v, f in zip(args, [*c_u, *u, *x_u]) if not f]
    kc, kr = sum(not f for f in c_u), sum(not f for f in u)
    n_known_out = sum(not f for f in out_u)
    # What each iteration would compute alike is computed once, before the loop.
    before, known = known.memo(
        ("scan invariant", kc, n_known_out), lambda: _take_out_invariant(known, kc, n_known_out)
    )
    if before is not None:
        values = trace.run_known(eval_jaxpr, before.jaxpr, before.consts, *known_in[:kc])
        known_in, kc = [*values, *known_in], kc + len(values)
    # A residual that is an input as it stands is not stacked: constants stay constants, elements are read again.
    inputs = {v: i for i, v in enumerate(known.jaxpr.invars)}
    where = [inputs.get(v) if type(v) is Var else None for v in known.jaxpr.outvars[n_known_out:]]
    constant = [i is not None and i < kc for i in where]
    element = [i is not None and i >= kc + kr for i in where]
    stacked = [not c and not e for c, e in zip(constant, element)]
    keep = [*range(n_known_out), *(n_known_out + i for i, s in enumerate(stacked) if s)]
    known_body = known.memo(("scan known", tuple(keep)), lambda: reorder(known, None, keep))
    outs = trace.run_known(
        scan_p.bind, *known_in, jaxpr=known_body, num_consts=kc, num_carry=kr, **params
    )
    known_outs, stacks = outs[:n_known_out], iter(outs[n_known_out:])
    residuals = [known_in[i] if not s else next(stacks) for i, s in zip(where, stacked)]
    # The recorded scan: constants first, then the unknown carry, then stacked residuals and unknown elements.
    nr, n_uc, n_uu = len(res_avals), sum(c_u), sum(u)
    as_const = [i for i in range(nr) if constant[i]]
    as_x = [i for i in range(nr) if not constant[i]]
    order = [
        *as_const,
        *range(nr, nr + n_uc),
        *range(nr + n_uc, nr + n_uc + n_uu),
        *as_x,
        *range(nr + n_uc + n_uu, len(unknown.jaxpr.invars)),
    ]
    body = unknown.memo(("scan unknown", tuple(order)), lambda: reorder(unknown, order))
    operands = [
        *(residuals[i] for i in as_const),
        *(v for v, f in zip(consts, c_u) if f),
        *(v for v, f in zip(init, u) if f),
        *(residuals[i] for i in as_x),
        *(v for v, f in zip(xs, x_u) if f),
    ]
    new = trace.record_unknown(
        scan_p,
        operands,
        dict(jaxpr=body, num_consts=len(as_const) + n_uc, num_carry=n_uu, **params),
    )
    k, w = iter(known_outs), iter(new)
    return [next(w) if f else next(k) for f in (*u, *ys_u)]


pe.partial_eval_rules[scan_p] = _scan_partial_eval


def _take_out_invariant(known: ClosedJaxpr, num_consts: int, num_results: int):
    """Splits off the residuals that depend on constants only.

    Returns a program from the constants to those residuals (None if there are none), and the rest of the body with the
    residuals as leading inputs.
    """
    j = known.jaxpr
    fixed, eqns = {*j.constvars, *j.invars[:num_consts]}, []
    for eqn in j.eqns:
        if not eqn.effects and all(type(v) is Literal or v in fixed for v in eqn.invars):
            fixed.update(eqn.outvars)
            eqns.append(eqn)
    given = {*j.constvars, *j.invars}
    residuals = {
        v for v in j.outvars[num_results:] if type(v) is Var and v in fixed and v not in given
    }
    if not residuals:
        return None, known
    made = [eqn for eqn in eqns if residuals.intersection(eqn.outvars)]
    taken = [v for eqn in made for v in eqn.outvars]
    before = pe.dce_jaxpr_eqns(
        Jaxpr(j.constvars, j.invars[:num_consts], taken, eqns, debug_info=j.debug_info)
    )
    dropped = set(map(id, made))
    rest = pe.dce_jaxpr_eqns(
        j.replace(invars=[*taken, *j.invars], eqns=[e for e in j.eqns if id(e) not in dropped])
    )
    return ClosedJaxpr(before, known.consts), ClosedJaxpr(rest, known.consts)


def _scan_transpose(cts, *args, jaxpr, num_consts, num_carry, length, reverse, unroll):
    consts, init, xs = parts(args, num_consts, num_carry)
    undefined = ad.is_undefined_primal
    c_lin, x_lin = [undefined(v) for v in consts], [undefined(v) for v in xs]
    refs, args = ad.open_cotangents(args)
    consts, init, xs = parts(args, num_consts, num_carry)
    ct_carry = [ad.instantiate_zeros(ct) for ct in cts[:num_carry]]
    ct_ys = [ad.instantiate_zeros(ct) for ct in cts[num_carry:]]
    res_c = [v for v, lin in zip(consts, c_lin) if not lin]
    res_x = [v for v, lin in zip(xs, x_lin) if not lin]
    c_avals = [v.aval.to_tangent_aval().to_ct_aval() for v, lin in zip(consts, c_lin) if lin]
    in_avals = jaxpr.in_avals
    carry_avals = in_avals[num_consts : num_consts + num_carry]
    n_rc, n_c, n_y = len(res_c), len(c_avals), len(ct_ys)

    def backward(*values):
        rc, rest = values[:n_rc], values[n_rc:]
        ct_c, rest = rest[:n_c], rest[n_c:]
        ct_state, rest = rest[:num_carry], rest[num_carry:]
        ct_y, rx = rest[:n_y], iter(rest[n_y:])
        rc = iter(rc)
        primals = [
            ad.UndefinedPrimal(a) if lin else next(rc)
            for a, lin in zip(in_avals[:num_consts], c_lin)
        ]
        primals += [ad.UndefinedPrimal(a) for a in carry_avals]
        primals += [
            ad.UndefinedPrimal(a) if lin else next(rx)
            for a, lin in zip(in_avals[num_consts + num_carry :], x_lin)
        ]
        given = ad.backward_pass(
            jaxpr.jaxpr, jaxpr.consts, ad.collecting(primals, refs), [*ct_state, *ct_y]
        )
        gc, gi, gx = parts(given, num_consts, num_carry)
        gc = [g for g, lin in zip(gc, c_lin) if lin]
        sums = [ad.instantiate_zeros(ad.add_tangents(a, b)) for a, b in zip(ct_c, gc)]
        return [
            *sums,
            *map(ad.instantiate_zeros, gi),
            *(ad.instantiate_zeros(g) for g, lin in zip(gx, x_lin) if lin),
        ]

    types = [
        *(aval_of(v) for v in res_c),
        *c_avals,
        *(aval_of(v) for v in ct_carry),
        *(a.without_dimension(0) for a in map(aval_of, (*ct_ys, *res_x))),
    ]
    body = jaxpr.memo(
        ("scan transpose", tuple(c_lin), tuple(x_lin), tuple(types), tuple(refs)),
        lambda: pe.trace_to_closed_jaxpr(backward, types, jaxpr.jaxpr.debug_info),
    )
    outs = scan_p.bind(
        *res_c,
        *map(zeros_like_aval, c_avals),
        *ct_carry,
        *ct_ys,
        *res_x,
        jaxpr=body,
        num_consts=n_rc,
        num_carry=n_c + num_carry,
        length=length,
        reverse=not reverse,
        unroll=unroll,
    )
    out_c, out_i, out_x = (
        iter(outs[:n_c]),
        outs[n_c : n_c + num_carry],
        iter(outs[n_c + num_carry :]),
    )
    return [
        *(next(out_c) if lin else None for lin in c_lin),
        *(ct if undefined(v) else None for ct, v in zip(out_i, init)),
        *(next(out_x) if lin else None for lin in x_lin),
    ]


ad.primitive_transposes[scan_p] = _scan_transpose
# Cotangents of the carry are arrays, of zeros too, so that they reach the rules of custom_vjp functions in the body.
scan_p.transposes_zeros = lambda p: p["jaxpr"].memo(
    "answers zeros",
    lambda: ad.answers_zeros(p["jaxpr"].jaxpr, p["jaxpr"].jaxpr.outvars[: p["num_carry"]]),
)


def _scan_batch(axis, args, dims, *, jaxpr, num_consts, num_carry, **params):
    c_d, i_d, x_d = parts(dims, num_consts, num_carry)
    consts, init, xs = parts(args, num_consts, num_carry)
    consts, c_b = batching.move_batch_dims_to_front(consts, c_d)
    b, x_b = ([d is not None for d in part] for part in (i_d, x_d))
    n_ys = len(jaxpr.out_avals) - num_carry

    def batched(b):
        return batching.batch_jaxpr(jaxpr, axis, [*c_b, *b, *x_b], [*b, *[False] * n_ys])

    b = settled(b, lambda b: batched(b)[1])
    body, out_b = batched(b)
    init = [
        batching.move_batch_dim_to(v, d, axis.size, 0) if f else v for v, d, f in zip(init, i_d, b)
    ]
    xs = [batching.moveaxis(v, d, 1) if d is not None else v for v, d in zip(xs, x_d)]
    outs = scan_p.bind(
        *consts, *init, *xs, jaxpr=body, num_consts=num_consts, num_carry=num_carry, **params
    )
    return outs, [*(0 if f else None for f in b), *(1 if f else None for f in out_b[num_carry:])]


batching.axis_primitive_batchers[scan_p] = _scan_batch


define_loop(
    scan_p,
    lambda p: LoopFlow(
        p["jaxpr"], p["num_consts"], p["num_carry"], length=p["length"], reverse=p["reverse"]
    ),
    lambda flow: {"jaxpr": flow.body, "num_consts": flow.num_consts, "num_carry": flow.num_carry},
)
