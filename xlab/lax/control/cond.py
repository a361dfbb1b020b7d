"""`cond` and `switch`: one of several programs, chosen at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.ref_discharge import check_refs
from xlab.config import config, idle_argument
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.hi_states import is_mutable, typed
from xlab.core.hi_types import is_high
from xlab.core.jaxpr import ClosedJaxpr, Var, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.refs import is_ref
from xlab.core.trace import is_abstract, is_tracer
from xlab.core.typing import ArrayLike
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import BranchFlow, control_flow_rules
from xlab.lax.clamp import clamp
from xlab.lax.comparison import eq, select_n
from xlab.lax.control.common import (
    add_inputs,
    args_tree,
    cast_hint,
    check_callables,
    describe,
    join_weak,
    name_of,
    reorder,
    trace_body,
    with_outputs,
)
from xlab.lax.control.select import select_examples
from xlab.lax.convert import convert_element_type, stop_gradient
from xlab.lax.creation import zeros_like_aval
from xlab.lax.shape import broadcast_in_dim

_ABSENT = object()


def _one_operand(api, operand, operands):
    if operands:
        raise TypeError(
            f"lax.{api} takes operands by position, or one as operand=: got operand={operand!r} and {len(operands)} by position"
        )
    return (operand,)


def switch(
    index: ArrayLike, branches: Sequence[Callable], *operands: Any, operand: Any = _ABSENT
) -> Any:
    """Calls the branch with number `index` (clamped into range) on the operands.

    Args:
        index: an integer scalar, moved into the range of branches.
        branches: functions whose results have equal structures, shapes and dtypes.
        operands: what the branch is called with, trees of arrays.
        operand: the operands as one, in place of `operands`.

    Example:
        >>> from xlab import lax
        >>> float(lax.switch(1, [lambda x: x, lambda x: 10 * x], 2.0))
        20.0
    """
    if operand is not _ABSENT:
        operands = _one_operand("switch", operand, operands)
    branches = tuple(branches)
    if not branches:
        raise ValueError("lax.switch needs at least one branch")
    for i, b in enumerate(branches):
        check_callables("switch", **{f"branch_{i}": b})
    aval = aval_of(index)
    if aval.shape:
        raise TypeError(
            f"lax.switch needs a scalar index, got {aval}. Under vmap the index of each example is a scalar."
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"lax.switch needs an integer index, got {aval}")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit and not is_abstract(index):
        known = index.known() if is_tracer(index) else index
        if known is not None:  # else the devices disagree
            return branches[min(max(int(known), 0), len(branches) - 1)](*operands)
    index = convert_element_type(index, np.int32)
    return choose(
        "switch", clamp(np.int32(0), index, np.int32(len(branches) - 1)), branches, operands
    )


def cond(
    pred: ArrayLike,
    true_fun: Callable,
    false_fun: Callable,
    *operands: Any,
    operand: Any = _ABSENT,
    linear: Any = None,
) -> Any:
    """Calls `true_fun` or `false_fun` on the operands; only the chosen one runs.

    Both must return the same structure, shapes and dtypes. Under vmap over `pred` both run and the result is selected.

    Args:
        pred: a scalar; nonzero is true.
        true_fun, false_fun: the branches, called with the operands; their results have equal
            structures, shapes and dtypes.
        operands: what the branches are called with, trees of arrays.
        operand: the operands as one, in place of `operands`.
        linear: has no effect.

    Example:
        >>> from xlab import lax
        >>> float(lax.cond(True, lambda x: x + 1, lambda x: x - 1, 2.0))
        3.0
    """
    idle_argument("cond", "linear", linear, "linearity is found out")
    if operand is not _ABSENT:
        operands = _one_operand("cond", operand, operands)
    elif (
        len(operands) == 2
        and callable(false_fun)
        and callable(operands[1])
        and not callable(true_fun)
    ):
        # The older form: an operand before each function.
        true_operand, when_true, false_operand, when_false = true_fun, false_fun, *operands
        return cond(
            pred, lambda t, _: when_true(t), lambda _, f: when_false(f), true_operand, false_operand
        )
    check_callables("cond", true_fun=true_fun, false_fun=false_fun)
    if type(pred) is int and not -(2**31) <= pred < 2**31:
        pred = pred != 0
    try:
        aval = aval_of(pred)
    except TypeError:
        raise TypeError(
            f"lax.cond takes a boolean scalar as its first argument, got {pred!r} of type "
            f"{type(pred).__name__}"
        ) from None
    if aval.shape:
        raise TypeError(
            f"Pred must be a scalar, got {aval}. Reduce it with .all() or .any(), or use "
            f"xlab.numpy.where for an elementwise choice."
        )
    real = dtypes.issubdtype(aval.dtype, np.integer) or dtypes.issubdtype(aval.dtype, np.floating)
    if not (aval.dtype == np.bool_ or real):
        raise TypeError(f"Pred type must be either boolean or number, a real one, got {aval}")
    if config.disable_jit and not is_abstract(pred):
        known = pred.known() if is_tracer(pred) else pred
        if known is not None:
            return true_fun(*operands) if known else false_fun(*operands)
    if aval.dtype != np.bool_:
        from xlab.lax.comparison import ne

        pred = ne(pred, np.zeros((), aval.dtype)[()])
    return choose("cond", convert_element_type(pred, np.int32), (false_fun, true_fun), operands)


def choose(api, index, branches, operands, **params):
    """Traces the branches, makes them agree, and binds `cond`; `params` are further ones of its."""
    flat, in_tree = args_tree(*operands)
    avals = [typed(x) for x in flat]
    traced = [trace_body(b, in_tree, avals) for b in branches]
    for closed, captured, _ in traced:
        check_refs(closed, flat, captured)
    first_tree = traced[0][2]
    for (_, _, tree), b in zip(traced[1:], branches[1:]):
        if tree != first_tree:
            raise TypeError(
                f"lax.{api} branch outputs must have the same pytree structure, but {name_of(branches[0])} returns "
                f"{first_tree} and {name_of(b)} returns {tree}"
            )
    out_avals = list(traced[0][0].out_avals)  # in weakness the first branch decides
    for (closed, _, _), b in zip(traced[1:], branches[1:]):
        joined = [join_weak(x, y) for x, y in zip(out_avals, closed.out_avals)]
        if any(j is None for j in joined):
            wrong = [(x, y) for x, y, j in zip(out_avals, closed.out_avals, joined) if j is None]
            hint = cast_hint(
                [(f"the result of type {x}", x, f"the result of type {y}", y) for x, y in wrong]
            )
            raise TypeError(
                f"lax.{api}: branches must return equal types, but {name_of(branches[0])} gives "
                f"{describe(x for x, _ in wrong)} where {name_of(b)} gives {describe(y for _, y in wrong)}.{hint and ' ' + hint}"
            )
    # Every branch takes what any branch closes over.
    consts = [c for _, cs, _ in traced for c in cs]
    n, seen, closed_branches = len(consts), 0, []
    for closed, cs, _ in traced:
        before = [typed(c) for c in consts[:seen]]
        rest = [typed(c) for c in consts[seen + len(cs) :]]
        if n > len(cs):
            closed = closed.memo(
                ("widen", tuple(before), tuple(rest)),
                lambda c=closed, b=before, r=rest, k=len(cs): _widen(c, b, r, k),
            )
        seen += len(cs)
        closed_branches.append(with_outputs(closed, out_avals))
    if any(map(_is_place, consts)):
        consts, closed_branches = _share_refs(consts, closed_branches)
    outs = cond_p.bind(index, *consts, *flat, branches=tuple(closed_branches), **params)
    return _tree.unflatten(first_tree, outs)


def _is_place(x) -> bool:
    return is_ref(x) or is_mutable(x)


def _share_refs(consts, branches):
    """Passes a reference that several branches close over only once; likewise other values that change in place."""
    first: dict[int, int] = {}
    source = [first.setdefault(id(c), i) if _is_place(c) else i for i, c in enumerate(consts)]
    keep = [i for i, s in enumerate(source) if s == i]

    def shared(closed):
        def fun(*args):
            given = dict(zip(keep, args))
            return eval_jaxpr(
                closed.jaxpr, closed.consts, *(given[s] for s in source), *args[len(keep) :]
            )

        return closed.memo(
            ("share", tuple(source)),
            lambda: pe.trace_to_closed_jaxpr(
                fun,
                [*(closed.in_avals[i] for i in keep), *closed.in_avals[len(source) :]],
                closed.debug_info,
            ),
        )

    return [consts[i] for i in keep], list(map(shared, branches))


def _widen(closed, before, rest, k):
    wide = add_inputs(closed, (*before, *rest), ())
    nb, nr = len(before), len(rest)
    own = range(nb + nr, nb + nr + k)
    tail = range(nb + nr + k, len(wide.jaxpr.invars))
    return reorder(wide, [*range(nb), *own, *range(nb, nb + nr), *tail])


cond_p = Primitive("cond", multiple_results=True, auto_pvary=False, context_dependent=True)
cond_p.takes_refs = True


@cond_p.def_effectful_abstract_eval
def _cond_aval(index, *operands, branches, **_):
    if index.dtype != np.int32 or index.shape:
        raise TypeError(f"cond needs an int32 scalar index, got {index}")
    outs = branches[0].out_avals
    mat = getattr(index, "mat", None)
    if mat:
        outs = [a.update(mat=a.mat.update(varying=a.mat.varying | mat.varying)) for a in outs]
    effects = _effects.join(b.effects for b in branches)
    _effects.check_control_flow("cond", effects)
    return outs, _effects.moved(effects, lambda i: i + 1)


def _cond_jvp(primals, tangents, *, branches, **params):
    index, *ops = primals
    _, *dots = tangents
    nonzero = ad.nonzero_mask(dots)
    outs_nz = [ad.jvp_jaxpr(b, nonzero, False)[1] for b in branches]
    union = tuple(map(any, zip(*outs_nz)))
    new = tuple(ad.jvp_jaxpr(b, nonzero, union)[0] for b in branches)
    outs = cond_p.bind(index, *ops, *ad.drop_zeros(dots), branches=new, **params)
    n = len(union)
    given = iter(outs[n:])
    return outs[:n], [
        next(given) if nz else ad.Zero(v.to_tangent_aval())
        for nz, v in zip(union, branches[0].out_avals)
    ]


ad.primitive_jvps[cond_p] = _cond_jvp
control_flow_rules[cond_p] = lambda params: BranchFlow(params["branches"])


def _cond_partial_eval(trace, args, *, branches, **params):
    index, *ops = args
    if trace.is_unknown(index):
        return trace.record_unknown(cond_p, args, dict(branches=branches, **params))
    unknown = [trace.is_unknown(x) for x in ops]
    outs_unknown = [pe.split_jaxpr(b, unknown)[2] for b in branches]
    union = tuple(map(any, zip(*outs_unknown)))
    splits = [pe.split_jaxpr(b, unknown, union) for b in branches]
    slots, places = _residual_slots([s[3] for s in splits])
    n_known = sum(not u for u in union)
    known = tuple(_give_residuals(s[0], n_known, slots, p) for s, p in zip(splits, places))
    waiting = tuple(_take_residuals(s[1], len(s[3]), slots, p) for s, p in zip(splits, places))
    known_args = [x for x, u in zip(ops, unknown) if not u]
    known_outs = trace.run_known(cond_p.bind, index, *known_args, branches=known, **params)
    residuals = known_outs[n_known:]
    unknown_args = [x for x, u in zip(ops, unknown) if u]
    outs = trace.record_unknown(
        cond_p, [index, *residuals, *unknown_args], dict(branches=waiting, **params)
    )
    k, w = iter(known_outs[:n_known]), iter(outs)
    return [next(w) if u else next(k) for u in union]


def _residual_slots(per_branch):
    """Joint residuals of all branches: slots by type, and which slot each branch's residual takes."""
    slots: list = []
    places = []
    for avals in per_branch:
        taken: set[int] = set()
        place = []
        for a in avals:
            i = next((i for i, s in enumerate(slots) if s is a and i not in taken), None)
            if i is None:
                slots.append(a)
                i = len(slots) - 1
            taken.add(i)
            place.append(i)
        places.append(place)
    return slots, places


def _give_residuals(closed, n_known, slots, place):
    def fun(*args):
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        mine = dict(zip(place, outs[n_known:]))
        return [
            *outs[:n_known],
            *(mine[i] if i in mine else zeros_like_aval(s) for i, s in enumerate(slots)),
        ]

    return closed.memo(
        ("residuals", n_known, tuple(slots), tuple(place)),
        lambda: pe.trace_to_closed_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info),
    )


def _take_residuals(closed, n_res, slots, place):
    j = closed.jaxpr
    extra = add_inputs(closed, slots, ())
    order: list[int] = list(range(len(slots)))
    for k, i in enumerate(place):
        order[i] = len(slots) + k
    return reorder(extra, [*order, *range(len(slots) + n_res, len(slots) + len(j.invars))])


pe.partial_eval_rules[cond_p] = _cond_partial_eval


def _cond_transpose(cts, index, *ops, branches, **params):
    if ad.is_undefined_primal(index):
        raise TypeError("cond is not linear in its index")
    linear = [ad.is_undefined_primal(x) for x in ops]
    nonzero = ad.nonzero_mask(cts)
    refs, ops = ad.open_cotangents(ops)
    of_integers = ad.has_integers(cts)
    transposed = [ad.transpose_jaxpr(b, linear, nonzero, refs, of_integers) for b in branches]
    union = tuple(map(any, zip(*(nz for _, nz in transposed)))) if any(linear) else ()
    lin_avals = [
        a.to_tangent_aval().to_ct_aval() for a, lin in zip(branches[0].in_avals, linear) if lin
    ]
    new = tuple(_instantiate(c, nz, union, lin_avals) for c, nz in transposed)
    values = [x for x, lin in zip(ops, linear) if not lin]
    outs = cond_p.bind(
        index, *values, *(ct for ct, nz in zip(cts, nonzero) if nz), branches=new, **params
    )
    given = iter(outs)
    found = iter([next(given) if u else None for u in union])
    return [None, *(next(found) if lin else None for lin in linear)]


def _instantiate(closed, nonzero, wanted, avals):
    """The transposed program with zeros for cotangents that only other branches give."""
    if tuple(nonzero) == tuple(wanted):
        return closed

    def fun(*args):
        outs = iter(eval_jaxpr(closed.jaxpr, closed.consts, *args))
        pairs = [next(outs) if nz else zeros_like_aval(a) for nz, a in zip(nonzero, avals)]
        return [x for x, w in zip(pairs, wanted) if w]

    return closed.memo(
        ("instantiate", tuple(nonzero), tuple(wanted)),
        lambda: pe.trace_to_closed_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info),
    )


ad.primitive_transposes[cond_p] = _cond_transpose


def _cond_batch(axis, args, dims, *, branches, **params):
    index, *ops = args
    di, *ds = dims
    ops, batched = batching.move_batch_dims_to_front(ops, ds)
    if di is None:
        outs_b = [batching.batch_jaxpr(b, axis, batched, False)[1] for b in branches]
        union = tuple(map(any, zip(*outs_b)))
        new = tuple(batching.batch_jaxpr(b, axis, batched, union)[0] for b in branches)
        outs = cond_p.bind(index, *ops, branches=new, **params)
        return outs, [0 if b else None for b in union]
    # A choice per example: all branches run, the results are selected.
    if any(isinstance(e, _effects.IO_EFFECTS) for b in branches for e in b.effects):
        raise NotImplementedError(
            "IO effect not supported in vmap-of-cond: with a predicate per example all branches run, and with "
            "them their io_callback. Move it out of the branches, or map with lax.map"
        )
    index = batching.moveaxis(index, di, 0)
    ops = [x if b else batching.broadcast(x, axis.size, 0) for x, b in zip(ops, batched)]
    handed, unspread = _handed_through(branches, args[1:]), list(zip(args[1:], ds))
    results = []
    for i, b in enumerate(branches):
        closed, _ = batching.batch_jaxpr(b, axis, [True] * len(ops), True)
        results.append(
            eval_jaxpr(closed.jaxpr, closed.consts, *(_only_where(index, i, x) for x in ops))
        )
    outs = []
    for cases, source in zip(zip(*results), handed):
        if source is not None:  # whatever is chosen
            outs.append(unspread[source])
            continue
        which = eq(index, np.int32(1)) if len(cases) == 2 else index
        outs.append((select_examples(which, cases), 0))
    return [x for x, _ in outs], [d for _, d in outs]


def _handed_through(branches, operands) -> list[int | None]:
    """For each result the operand that every branch forwards unchanged, or None."""
    places = [{v: i for i, v in enumerate(b.jaxpr.invars)} for b in branches]
    out = []
    for vs in zip(*(b.jaxpr.outvars for b in branches)):
        found = [place.get(v) if type(v) is Var else None for v, place in zip(vs, places)]
        out.append(
            found[0]
            if all(i is not None and operands[i] is operands[found[0]] for i in found)
            else None
        )
    return out


def _only_where(index, i: int, x):
    """`x` for branch `i`, constant to derivatives in examples that take another branch: an infinite slope there would
    turn the zero cotangent of the result that is not selected into NaN."""
    aval = aval_of(x)
    if (
        is_high(aval)
        or not dtypes.issubdtype(aval.dtype, np.inexact)
        or not aval_of(index).mat.varying <= aval.mat.varying
    ):
        return x  # the last: what all devices share has to stay so for the branch's own casts
    taken = eq(index, np.int32(i))
    if aval.ndim > 1:
        taken = broadcast_in_dim(taken, aval.shape, (0,))
    return select_n(taken, stop_gradient(x), x)


batching.axis_primitive_batchers[cond_p] = _cond_batch


def _cond_dce(used_outputs, eqn):
    if not any(used_outputs) and not _effects.prevents_dce(eqn.effects):
        return [False] * len(eqn.invars), None
    branches = eqn.params["branches"]
    used = list(map(any, zip(*(pe.dce_jaxpr(b.jaxpr, used_outputs)[1] for b in branches))))
    new = tuple(
        ClosedJaxpr(pe.dce_jaxpr(b.jaxpr, used_outputs, instantiate=used)[0], b.consts)
        for b in branches
    )
    used_in = [True, *used]
    return used_in, eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used_in) if u],
        outvars=[v for v, u in zip(eqn.outvars, used_outputs) if u],
        params={**eqn.params, "branches": new},
    )


pe.dce_rules[cond_p] = _cond_dce


def _cond_lowering(ctx, index, *ops, branches, branches_platforms=None, **_):
    if branches_platforms is not None:
        return ctx.jaxpr(branches[mlir.branch_for_platform(ctx.platform, branches_platforms)], ops)
    ordered = _effects.in_order(ctx.eqn.effects)
    types = [*[mlir.TOKEN_TYPE] * len(ordered), *(mlir.tensor_type(a) for a in ctx.avals_out)]
    tokens = ctx.tokens(ordered)

    def branch(b):
        return ctx.block(
            [],
            lambda _names: ctx.with_tokens(
                ordered,
                tokens,
                lambda _: mlir.constrain_sums(
                    ctx, ctx.jaxpr(b, mlir.constrain_sums(ctx, ops, b.in_avals)), b.out_avals
                ),
            ),
            types,
        )

    regions = ", ".join(map(branch, branches))
    outs = ctx.ops(
        f'"stablehlo.case"({index}) ({regions}) : (tensor<i32>) -> ({", ".join(types)})', len(types)
    )
    return ctx.take_tokens(ordered, outs)


mlir.register_text_lowering(cond_p, _cond_lowering)
