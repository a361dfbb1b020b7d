"""Comparisons and selection."""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal
from xlab.interpreters.key_reuse import either, key_movers
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like
from xlab.lax.elementwise import elementwise
from xlab.lax.shape import broadcast_in_dim

__all__ = ["eq", "ge", "gt", "le", "lt", "ne", "select", "select_n"]


def _kind(dtype) -> str:
    if dtypes.issubdtype(dtype, np.inexact):
        return "FLOAT"
    if dtypes.issubdtype(dtype, np.unsignedinteger) or dtype == np.bool_:
        return "UNSIGNED"
    return "SIGNED"


def _total_kind(dtype) -> str:
    """In the total order of floats -0.0 comes before 0.0, and every NaN has a place."""
    return "TOTALORDER" if dtypes.issubdtype(dtype, np.inexact) else _kind(dtype)


def _comparison(name: str, accepts, kind=_kind, words=None):
    prim = elementwise(name, accepts, result=_e.to_bool, operands=2)
    ad.defzero(prim)
    direction = name[:2].upper()
    rule = mlir.comparison(direction, kind)
    mlir.register_text_lowering(
        prim, rule if words is None else _on_keys_as_well(rule, direction, *words)
    )
    return prim


def _on_keys_as_well(rule, direction: str, join: str, start: bool):
    """The lowering rule of a comparison that also takes random keys: compares their words and combines the results."""

    def lowering(ctx, x, y, **params):
        src, out = ctx.avals_in[0], ctx.avals_out[0]
        if not dtypes.is_extended(src.dtype):
            return rule(ctx, x, y, **params)
        x, y = ctx.broadcast_operand(x, src, out), ctx.broadcast_operand(y, ctx.avals_in[1], out)
        words = mlir.values.physical_aval(src.update(shape=out.shape, sharding=None))
        flags = words.update(dtype=np.dtype(bool))
        t, f = mlir.tensor_type(words), mlir.tensor_type(flags)
        same = ctx.op(f"stablehlo.compare {direction}, {x}, {y}, UNSIGNED : ({t}, {t}) -> {f}")
        init = ctx.constant(np.asarray(start), flags.update(shape=()))
        dims = ", ".join(map(str, range(out.ndim, words.ndim)))
        return ctx.op(
            f"stablehlo.reduce({same} init: {init}) applies {join} across dimensions = [{dims}] : "
            f"({f}, tensor<i1>) -> {ctx.type_out()}"
        )

    return lowering


def _any_dtype(_):
    return True


eq_p = _comparison("eq", _any_dtype, words=("stablehlo.and", True))
ne_p = _comparison("ne", _any_dtype, words=("stablehlo.or", False))
ge_p = _comparison("ge", _e.ordered)
gt_p = _comparison("gt", _e.ordered)
le_p = _comparison("le", _e.ordered)
lt_p = _comparison("lt", _e.ordered)
eq_to_p = _comparison("eq_to", _e.ordered, _total_kind)
le_to_p = _comparison("le_to", _e.ordered, _total_kind)
lt_to_p = _comparison("lt_to", _e.ordered, _total_kind)


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x == y`."""
    return eq_p.bind(x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x != y`."""
    return ne_p.bind(x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x >= y`."""
    return ge_p.bind(x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x > y`."""
    return gt_p.bind(x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x <= y`."""
    return le_p.bind(x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x < y`."""
    return lt_p.bind(x, y)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elementwise `on_true` where `pred` holds, else `on_false`; `pred` may be a scalar.

    Args:
        pred: booleans, of the shape of the cases or a scalar.
        on_true, on_false: what is taken where they are true, and false.
    """
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elementwise choice among cases: by a bool (two cases) or an index; `which` may be a scalar."""
    if not cases:
        raise TypeError("select_n needs at least one case")
    dtype = aval_of(which).dtype
    if dtype != np.bool_ and dtype != np.int32 and dtypes.issubdtype(dtype, np.integer):
        which = convert_element_type(which, np.int32)
    return select_n_p.bind(which, *cases)


def _select_n_aval(which, *cases):
    for c in cases[1:]:
        if c.shape != cases[0].shape or c.dtype != cases[0].dtype:
            raise TypeError(f"select_n cases must have one type, got {', '.join(map(str, cases))}")
    if which.dtype != np.bool_ and which.dtype != np.int32:
        raise TypeError(f"select_n chooses by bool or int32, got {which}")
    if which.dtype == np.bool_ and len(cases) > 2:
        raise TypeError(f"select_n by bool takes at most 2 cases, got {len(cases)}")
    if which.shape not in ((), cases[0].shape):
        raise TypeError(
            f"the selector must be a scalar or have the cases' shape {cases[0].shape}, got {which.shape}"
        )
    return ShapedArray(cases[0].shape, cases[0].dtype, all(c.weak_type for c in cases))


def _select_n_jvp(primals, tangents):
    which, *cases = primals
    _, *ts = tangents
    out = select_n_p.bind(which, *cases)
    if all(type(t) is Zero for t in ts):
        return out, Zero.of(out)
    return out, select_n_p.bind(which, *(instantiate_zeros(t) for t in ts))


def _select_n_transpose(ct, which, *cases):
    zero = full_like(ct, 0)
    out = [None]
    for i, c in enumerate(cases):
        if is_undefined_primal(c):
            out.append(select_n_p.bind(which, *(ct if j == i else zero for j in range(len(cases)))))
        else:
            out.append(None)
    return out


def _select_n_batch(xs, dims):
    which, *cases = xs
    dw, *dc = dims
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    cases = [batching.move_batch_dim_to(c, d, size, 0) for c, d in zip(cases, dc)]
    shape = aval_of(cases[0]).shape
    if dw is None:
        if aval_of(which).shape:
            which = batching.broadcast(which, size, 0)
    else:
        which = batching.moveaxis(which, dw, 0)
        if aval_of(which).ndim == 1 and len(shape) > 1:
            which = broadcast_in_dim(which, shape, (0,))
    return select_n_p.bind(which, *cases), 0


def _select_n_lowering(ctx, which, *cases):
    w, out = ctx.avals_in[0], ctx.avals_out[0]
    if len(cases) == 1:
        return cases[0]
    t = mlir.tensor_type(out)
    if mlir.values.physical_aval(out).ndim != out.ndim and w.shape:
        physical = mlir.values.physical_aval(out)
        target = ShapedArray(physical.shape, w.dtype)
        which = ctx.broadcast(which, w, target, range(w.ndim))
        w = target

    def choose(lo, hi):
        """Binary decision among cases[lo:hi]."""
        if hi - lo == 1:
            return cases[lo]
        mid = (lo + hi) // 2
        if w.dtype == np.bool_:
            pred, tp = which, mlir.tensor_type(w)
        else:
            tp = mlir.tensor_type(w.update(dtype=np.dtype(bool)))
            bound = ctx.fill(mid, w)
            ti = mlir.tensor_type(w)
            pred = ctx.op(f"stablehlo.compare LT, {which}, {bound}, SIGNED : ({ti}, {ti}) -> {tp}")
            return ctx.op(
                f"stablehlo.select {pred}, {choose(lo, mid)}, {choose(mid, hi)} : {tp}, {t}"
            )
        return ctx.op(f"stablehlo.select {pred}, {choose(mid, hi)}, {choose(lo, mid)} : {tp}, {t}")

    return choose(0, len(cases))


select_n_p = Primitive("select_n")
select_n_p.linear_in_unreduced = (slice(1, None),)
select_n_p.casts_to_reduced = True
select_n_p.def_abstract_eval(_select_n_aval)
ad.primitive_jvps[select_n_p] = _select_n_jvp
ad.primitive_transposes[select_n_p] = _select_n_transpose
sharding_rules[select_n_p] = sharding_in_types.select
batching.primitive_batchers[select_n_p] = _select_n_batch
key_movers[select_n_p] = lambda params, which, *keys: [either(keys)]
mlir.register_text_lowering(select_n_p, _select_n_lowering)

costs.register(costs.fused_moves, select_n_p)
