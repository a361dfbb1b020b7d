"""References in loops and branches: discharge rules of `scan`, `while` and `cond`.

References a body writes become carries, those it only reads stay constants. References among the xs of a scan give each
iteration its element, and what it leaves there is stacked.
"""

from __future__ import annotations

import functools

from xlab import tree as _tree
from xlab.backend import caches
from xlab.compile.dispatch import apply_primitive
from xlab.compile.jit import jit
from xlab.config import config
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, JaxprEqn, Var, eval_jaxpr
from xlab.core.refs import Ref, is_ref
from xlab.interpreters import batching
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import discharge_jaxpr, discharge_rules
from xlab.lax.control.common import reorder
from xlab.lax.control.cond import cond_p
from xlab.lax.control.scan import scan_p
from xlab.lax.control.while_loop import split_while, while_p
from xlab.lax.ref_batching import unbatched
from xlab.lax.refs import get_p, new_ref_p, swap_p

_WHOLE = _tree.structure(())


def _scan_discharge(eqn, ref_mask, operands):
    p = eqn.params
    nc, nr = p["num_consts"], p["num_carry"]
    body, final_refs = discharge_jaxpr(p["jaxpr"], ref_mask)
    n_out = len(p["jaxpr"].out_avals)
    carried = [i for i in final_refs if i < nc]  # constants that are written
    stacked = [i for i in final_refs if i >= nc]  # xs that are written
    ends = {i: n_out + k for k, i in enumerate(final_refs)}
    constant = [i for i in range(nc) if i not in ends]
    ins = [*constant, *carried, *range(nc, len(operands))]
    outs = [*(ends[i] for i in carried), *range(n_out), *(ends[i] for i in stacked)]
    new = body.memo(("scan on values", nc), lambda: reorder(body, ins, outs))
    k = len(carried)
    results = scan_p.bind(
        *(operands[i] for i in ins),
        **{**p, "jaxpr": new, "num_consts": len(constant), "num_carry": nr + k},
    )
    updates = {**dict(zip(carried, results[:k])), **dict(zip(stacked, results[k + n_out :]))}
    return updates, results[k : k + n_out]


def _while_discharge(eqn, ref_mask, operands):
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    if any(ref_mask[i] for i in _effects.written(p["cond_jaxpr"].effects)):
        return _while_testing(eqn, ref_mask, operands)
    cond, _ = discharge_jaxpr(
        p["cond_jaxpr"], [*ref_mask[:nc], *[False] * (len(operands) - nc - nb)], ()
    )
    body, final_refs = discharge_jaxpr(p["body_jaxpr"], ref_mask[nc:])
    n_out = len(p["body_jaxpr"].out_avals)
    carried = [i for i in final_refs if i < nb]
    k, wide = len(carried), [i for i in range(nb) if i not in final_refs]
    # Carry: the written references, then the loop's own. References the condition reads are carried too if the body writes them.
    place = {eqn.invars[nc + i]: j for j, i in enumerate(carried)}
    shared = [place.get(a) if c else None for a, c in zip(eqn.invars[:nc], ref_mask)]
    kept = [i for i in range(nc) if shared[i] is None]
    order_body = [*wide, *carried, *range(nb, nb + n_out)]
    new_body = body.memo(
        ("while on values", tuple(order_body)),
        lambda: reorder(body, order_body, [*range(n_out, n_out + k), *range(n_out)]),
    )
    new_cond = _condition(
        cond, kept, shared, [new_body.in_avals[len(wide) + j] for j in range(k)], nc
    )
    results = while_p.bind(
        *(operands[i] for i in kept),
        *(operands[nc + i] for i in wide),
        *(operands[nc + i] for i in carried),
        *operands[nc + nb :],
        cond_nconsts=len(kept),
        cond_jaxpr=new_cond,
        body_nconsts=len(wide),
        body_jaxpr=new_body,
    )
    return {nc + i: v for i, v in zip(carried, results)}, results[k:]


def _while_testing(eqn, ref_mask, operands):
    """A loop whose condition writes: it runs before the loop and after each body, and its result is in the carry."""
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    n_out = len(p["body_jaxpr"].out_avals)
    cond, cond_final_refs = discharge_jaxpr(p["cond_jaxpr"], [*ref_mask[:nc], *[False] * n_out])
    body, body_final_refs = discharge_jaxpr(p["body_jaxpr"], ref_mask[nc:])
    body_final_refs = [i for i in body_final_refs if i < nb]
    # The first operand that is each variable: a reference may be given to both.
    first: dict[Var, int] = {}
    same = [first.setdefault(v, i) if type(v) is Var else i for i, v in enumerate(eqn.invars)]
    written = sorted(
        {*(same[i] for i in cond_final_refs), *(same[nc + i] for i in body_final_refs)}
    )
    fixed = [i for i in range(nc + nb) if same[i] == i and i not in written]

    def ask(values, carry):
        """The condition's result; what it wrote is stored in `values`, by operand number."""
        pred, *new = eval_jaxpr(
            cond.jaxpr, cond.consts, *(values[same[i]] for i in range(nc)), *carry
        )
        values.update({same[i]: v for i, v in zip(cond_final_refs, new)})
        return pred

    def step(*args):
        values = dict(zip((*fixed, *written), args))
        outs = eval_jaxpr(
            body.jaxpr,
            body.consts,
            *(values[same[nc + i]] for i in range(nb)),
            *args[len(fixed) + len(written) + 1 :],
        )
        values.update({same[nc + i]: v for i, v in zip(body_final_refs, outs[n_out:])})
        pred = ask(values, outs[:n_out])
        return [*(values[i] for i in written), pred, *outs[:n_out]]

    values = {i: operands[i] for i in (*fixed, *written)}
    answer = ask(values, operands[nc + nb :])
    init = [*(values[i] for i in written), answer, *operands[nc + nb :]]
    constants = [operands[i] for i in fixed]
    new_body = pe.trace_to_closed_jaxpr(
        step, list(map(aval_of, (*constants, *init))), p["body_jaxpr"].debug_info
    )
    at = len(written)
    new_cond = pe.trace_to_closed_jaxpr(
        lambda *carry: [carry[at]], list(map(aval_of, init)), p["cond_jaxpr"].debug_info
    )
    outs = while_p.bind(
        *constants,
        *init,
        cond_nconsts=0,
        cond_jaxpr=new_cond,
        body_nconsts=len(constants),
        body_jaxpr=new_body,
    )
    return dict(zip(written, outs[:at])), outs[at + 1 :]


def _condition(cond: ClosedJaxpr, kept, shared, carried_avals, nc):
    """The condition of the constants it keeps, then of the whole carry."""
    n, k = len(kept), len(carried_avals)

    def run(*args):
        constants, carried = iter(args[:n]), args[n : n + k]
        first = [next(constants) if s is None else carried[s] for s in shared]
        return eval_jaxpr(cond.jaxpr, cond.consts, *first, *args[n + k :])

    in_avals = [*(cond.in_avals[i] for i in kept), *carried_avals, *cond.in_avals[nc:]]
    return cond.memo(
        ("while on values", tuple(kept), tuple(shared), k),
        lambda: pe.trace_to_closed_jaxpr(run, in_avals, cond.debug_info),
    )


def _cond_discharge(eqn, ref_mask, operands):
    branches = eqn.params["branches"]
    final_refs = sorted(
        {i for b in branches for i in _effects.written(b.effects) if i >= 0 and ref_mask[i + 1]}
    )
    new = tuple(discharge_jaxpr(b, ref_mask[1:], final_refs)[0] for b in branches)
    outs = cond_p.bind(*operands, **{**eqn.params, "branches": new})
    n = len(eqn.outvars)
    return {i + 1: v for i, v in zip(final_refs, outs[n:])}, outs[:n]


discharge_rules[scan_p] = _scan_discharge
discharge_rules[while_p] = _while_discharge
discharge_rules[cond_p] = _cond_discharge


# -- known and unknown --------------------------------------------------------------------------------------


def _while_partial_eval(trace, args, **params):
    """The recorded loop also repeats the known part, so it works on copies of the known references."""
    recorded, copies = list(args), {}
    for i, x in enumerate(args):
        if is_ref(x) and not trace.is_unknown(x):
            if id(x) not in copies:
                now = trace.run_known(get_p.bind, x, tree=_WHOLE)
                copies[id(x)] = trace.record_unknown(
                    new_ref_p, (now,), {"memory_space": None, "kind": aval_of(x).kind}
                )
            recorded[i] = copies[id(x)]
    return split_while(trace, args, recorded, **params)


pe.partial_eval_rules[while_p] = _while_partial_eval


# -- under vmap ---------------------------------------------------------------------------------------------


def _batched_on_values(prim, axis, operands, dims, params):
    """For a batched condition: references are read before, and written with each example's final value."""
    ref_mask = [is_ref(x) for x in operands]
    names: dict[int, Var] = {}
    invars = [names.setdefault(id(x), Var(aval_of(x))) for x in operands]
    given = [get_p.bind(x, tree=_WHOLE) if c else x for x, c in zip(operands, ref_mask)]
    written: dict[int, int] = {}

    def run(*values):
        avals, _ = prim.abstract(tuple(_example(x, d) for x, d in zip(operands, dims)), params)
        eqn = JaxprEqn(invars, list(map(Var, avals)), prim, params)
        updates, outs = discharge_rules[prim](eqn, ref_mask, values)
        written.update({i: len(outs) + k for k, i in enumerate(updates)})
        return [*outs, *updates.values()]

    fun, out_dims = batching.batch_flat(run, axis, dims)
    outs = fun(*given)
    for i, k in written.items():
        if dims[i] is None and out_dims.dims[k] is not None:
            raise unbatched("a set/swap", operands[i])
        swap_p.bind(
            operands[i],
            batching.move_batch_dim_to(outs[k], out_dims.dims[k], axis.size, dims[i]),
            tree=_WHOLE,
        )
    n = len(outs) - len(written)
    return outs[:n], out_dims.dims[:n]


def _example(x, dim):
    aval = aval_of(x)
    return aval if dim is None else aval.without_dimension(dim)


def _with_refs_on_values(prim, wanted):
    plain = batching.axis_primitive_batchers[prim]

    def rule(axis, operands, dims, **params):
        if any(map(is_ref, operands)) and wanted(operands, dims, params):
            return _batched_on_values(prim, axis, operands, dims, params)
        return plain(axis, operands, dims, **params)

    batching.axis_primitive_batchers[prim] = rule


def _slices_a_batched_ref(operands, dims, params):
    """Whether a scan takes slices of a batched reference."""
    first = params["num_consts"] + params["num_carry"]
    return any(d is not None and is_ref(x) for x, d in zip(operands[first:], dims[first:]))


_with_refs_on_values(cond_p, lambda operands, dims, params: dims[0] is not None)
_with_refs_on_values(while_p, lambda *_: True)
_with_refs_on_values(scan_p, _slices_a_batched_ref)


# -- eagerly ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def _with_shared(prim, params, positions, context):
    return jit(
        lambda *values: prim.bind(*(values[i] for i in positions), **dict(params)), name=prim.name
    )


caches.register(_with_shared.cache_clear)


def _eagerly(prim):
    """Runs a primitive whose inner programs may use one reference each for itself: it is given once."""

    def impl(*args, **params):
        refs = [id(x) for x in args if type(x) is Ref]
        if len(set(refs)) == len(refs):
            return apply_primitive(prim, *args, **params)
        place: dict[int, int] = {}
        positions, values = [], []
        for x in args:
            i = place.get(id(x)) if type(x) is Ref else None
            if i is None:
                i = place[id(x)] = len(values)
                values.append(x)
            positions.append(i)
        return _with_shared(prim, tuple(params.items()), tuple(positions), config.trace_context())(
            *values
        )

    prim.def_impl(impl)


_eagerly(while_p)
_eagerly(cond_p)
