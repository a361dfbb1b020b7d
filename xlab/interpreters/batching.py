"""Batching (`vmap`): turns the program of one example into the program of a batch.

A batched value carries the position of its batch dimension. A rule receives operands and positions and returns the
batched result and its position; values without batch dimension pass through untouched.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from xlab.backend import caches
from xlab.core import dtypes
from xlab.core.avals import TOKEN, ShapedArray, aval_of, explicit_types
from xlab.core.current_trace import enclosing_traces
from xlab.core.effects import NamedAxisEffect
from xlab.core.hi_tracers import tracer_class
from xlab.core.hi_types import (
    HiType,
    StackedType,
    as_value,
    in_use,
    is_high,
    lower,
    raise_value,
)
from xlab.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xlab.core.refs import AbstractRef, is_ref
from xlab.core.rules import RuleTable
from xlab.core.sharding_rules import elementwise_sharding, sharding_rules
from xlab.core.trace import (
    Axis,
    Trace,
    Tracer,
    bound_axes,
    set_trace,
    state,
    switch_trace,
    transforming,
)
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad.jvp import Zero
from xlab.interpreters.vmappable import register_vmappable as register_vmappable
from xlab.interpreters.vmappable import unregister_vmappable as unregister_vmappable

primitive_batchers = RuleTable(
    "batching.primitive_batchers",
    "batch",
    "rule(operands, dims, **params) -> (result, dim), where a dim is an int or None (not batched)",
    phrase="Batching rule for '{}' not implemented",
)
"""Worked example, for a unary elementwise primitive: `lambda xs, ds: (sin_p.bind(xs[0]), ds[0])`. Several results give
lists. The rule runs only when some operand is batched."""


class _AxisRules(RuleTable):
    """A rule table that also takes JAX's older form, `rule(size, name, kind, operands, dims, **params)`."""

    def __setitem__(self, primitive, rule):
        code = getattr(rule, "__code__", None)
        older = code is not None and code.co_argcount - inspect.ismethod(rule) == 5
        super().__setitem__(primitive, _of_older_form(rule) if older else rule)


def _of_older_form(rule):
    return lambda axis, xs, ds, **params: rule(
        axis.size, axis.name, None, tuple(xs), tuple(ds), **params
    )


axis_primitive_batchers = _AxisRules(
    "batching.axis_primitive_batchers",
    "batch over a named axis",
    "rule(axis, operands, dims, **params) -> (result, dim), where `axis` has name and size",
    required=False,
)
"""For collectives and for primitives with inner programs: the rule also learns the axis being batched."""

fancy_primitive_batchers = axis_primitive_batchers

not_mapped = None


# One call in C for what is asked of every result.
_example_type = functools.lru_cache(maxsize=4096)(ShapedArray.without_dimension)
caches.register(_example_type.cache_clear)


class BatchTracer(Tracer):
    """A value with a batch dimension that the user's function does not see."""

    __slots__ = ("dim", "value")

    def __init__(self, trace, value, dim: int):
        self._trace = trace
        aval = value.aval if value.__class__ is pe.DynamicJaxprTracer else aval_of(value)
        if type(aval) is ShapedArray:
            self.aval = _example_type(aval, dim)
        elif aval is TOKEN:  # one token for all examples; `dim` is that of what it stands for
            self.aval = aval
        elif isinstance(aval, HiType):
            self.aval = aval.dec_rank(trace.axis.size, dim)
        else:
            self.aval = aval.without_dimension(dim)
        self.value, self.dim = value, dim

    def __repr__(self):
        return f"VmapTracer(aval={self.aval}, batched={aval_of(self.value)})"

    def origin(self):
        return self.value.origin() if isinstance(self.value, Tracer) else "an earlier line"


class BatchTrace(Trace):
    """Interprets primitives on batches along one axis."""

    __slots__ = ("axis", "parent", "tag")
    label = "a function under vmap"

    def __init__(self, parent: Trace, axis: Axis, tag=None):
        super().__init__()
        self.parent, self.axis = parent, axis
        self.tag = self if tag is None else tag  # traces with one tag batch the same examples

    def split(self, x):
        if x.__class__ is BatchTracer and (x._trace is self or x._trace.tag is self.tag):
            return x.value, x.dim
        return x, None

    def join(self, value, dim):
        if dim is None:
            return value
        if in_use.types:
            return tracer_class(BatchTracer, aval_of(value))(self, value, dim)
        return BatchTracer(self, value, dim)

    def cur_qdd(self, x):
        return self.parent.cur_qdd(self.split(x)[0])

    def process_primitive(self, prim, args, params):
        involved = False
        values, dims = [], []
        for x in args:
            if x.__class__ is BatchTracer and (x._trace is self or x._trace.tag is self.tag):
                values.append(x.value)
                dims.append(x.dim)
                involved = True
            else:
                values.append(x)
                dims.append(None)
        previous = switch_trace(self.parent)
        explicit_in_use = explicit_types.in_use
        if explicit_in_use:
            outer_sharding, state.batch_sharding = (
                state.batch_sharding,
                self.axis.explicit_mesh_axes,
            )
        try:
            rule = axis_primitive_batchers.get(prim)
            if rule is not None and (
                involved or prim.makes_ref or _mentions(params, self.axis.name)
            ):
                out, out_dim = rule(self.axis, tuple(values), tuple(dims), **params)
            elif not involved:
                return self.parent.process_primitive(prim, args, params)
            else:
                rule = primitive_batchers.get(prim)
                if rule is None:
                    raise primitive_batchers.missing(prim)
                out, out_dim = rule(tuple(values), tuple(dims), **params)
        finally:
            switch_trace(previous)
            if explicit_in_use:
                state.batch_sharding = outer_sharding
        if prim.multiple_results:
            if not isinstance(out_dim, (tuple, list)):
                out_dim = [out_dim] * len(out)
            return [self.join(x, d) for x, d in zip(out, out_dim)]
        return self.join(out, out_dim)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        # Also where no argument is batched: the function may close over batched values.
        values, dims = zip(*map(self.split, args)) if args else ((), ())
        batched_fun, out_dims = batch_flat(fun, self.axis, dims, tag=self.tag)
        batched_jvp, _ = batch_flat(
            jvp, self.axis, (*dims, *dims), out_dims_like=out_dims, tag=self.tag
        )
        with set_trace(self.parent):
            outs = self.parent.process_custom_jvp(prim, batched_fun, batched_jvp, values, params)
        return [self.join(x, d) for x, d in zip(outs, out_dims.get(len(outs)))]

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        values, dims = zip(*map(self.split, args)) if args else ((), ())
        batched_fun, out_dims = batch_flat(fun, self.axis, dims, tag=self.tag)
        # With symbolic zeros, a flag for each argument follows.
        batched_fwd, fwd_dims = batch_flat(
            fwd, self.axis, (*dims, *[None] * len(dims)), tag=self.tag
        )
        batched_bwd = BatchedBackward(bwd, self.axis, fwd_dims, dims, self.tag)
        with set_trace(self.parent):
            outs = self.parent.process_custom_vjp(
                prim, batched_fun, batched_fwd, batched_bwd, values, params
            )
        known = out_dims if out_dims.dims is not None else fwd_dims
        return [self.join(x, d) for x, d in zip(outs, known.get(len(outs)))]


def _mentions(params, name) -> bool:
    if name is None:
        return False
    for value in params.values():
        if value is name or (isinstance(value, tuple) and name in value):
            return True
        if isinstance(value, str) and value == name:
            return True
        effects = getattr(value, "effects", None)
        if effects and any(isinstance(e, NamedAxisEffect) and e.name == name for e in effects):
            return True
    return False


class OutDims:
    """Positions of the batch dimension in results, known once the function has run."""

    def __init__(self):
        self.dims: list | None = None

    def get(self, n):
        return self.dims[:n] if self.dims is not None else [None] * n


def batch_flat(
    fun: Callable, axis: Axis, in_dims: Sequence, out_dims_like: OutDims | None = None, tag=None
):
    """Batches a flat function: a function of batched values, and where the batch ended up in its results.

    `tag` is that of an earlier trace over the same examples, whose values the function may close over.

    With `out_dims_like` (for a derivative rule: results, then their tangents) the second half of the results is moved
    to the positions of the first.
    """
    out = OutDims()

    def batched(*values):
        trace = BatchTrace(state.trace, axis, tag)
        bound = axis._replace(trace=trace)
        args = [
            trace.join(v, d) if type(v) is not Zero else _example_zero(v, d)
            for v, d in zip(values, in_dims)
        ]
        try:
            with (
                set_trace(trace),
                transforming("vmap"),
                bound_axes([bound] if axis.name is not None else []),
            ):
                results = fun(*args)
                if in_use.types:
                    results = list(map(as_value, results))
                pairs = [trace.split(x) for x in results]
        finally:
            trace.alive = False
        if out_dims_like is not None:
            n = len(pairs) // 2
            joint = [
                0 if (p[1] is not None or t[1] is not None) else None
                for p, t in zip(pairs[:n], pairs[n:])
            ]
            out_dims_like.dims = joint
            with batch_sharding_context(axis):
                pairs = [
                    (move_batch_dim_to(v, d, axis.size, target), target)
                    for (v, d), target in zip(pairs, [*joint, *joint])
                ]
        out.dims = [d for _, d in pairs]
        return [v for v, _ in pairs]

    batched.__name__ = getattr(fun, "__name__", "fun")
    return batched, out


def _example_zero(zero, dim):
    shape = zero.shape
    return zero if dim is None else Zero(zero.aval.update(shape=(*shape[:dim], *shape[dim + 1 :])))


class BatchedBackward:
    """The backward function of a custom derivative on batches; cotangents of unbatched inputs are summed.

    `fwd` gave (results..., residuals...); `bwd` takes (residuals..., cotangents of the results...).
    """

    def __init__(self, bwd: Callable, axis: Axis, fwd_dims: OutDims, in_dims, tag):
        self.bwd, self.axis, self.fwd_dims, self.in_dims, self.tag = (
            bwd,
            axis,
            fwd_dims,
            in_dims,
            tag,
        )
        self.__name__ = getattr(bwd, "__name__", "bwd")

    @property
    def n_outputs(self) -> int:
        return self.bwd.n_outputs

    def __call__(self, *args):
        n_out, size = self.n_outputs, self.axis.size
        run, out_dims = batch_flat(
            self._instantiated,
            self.axis,
            [*self.fwd_dims.dims[n_out:], *self.fwd_dims.dims[:n_out]],
            tag=self.tag,
        )
        outs = iter(run(*args))
        dims = iter(out_dims.dims)
        final = []
        for given, want in zip(self.given, self.in_dims):
            if not given:
                final.append(None)
                continue
            x, d = next(outs), next(dims)
            final.append(
                (x if d is None else sum_batch_dim(x, d))
                if want is None
                else move_batch_dim_to(x, d, size, want)
            )
        return final

    def _instantiated(self, *args):
        outs = self.bwd(*args)
        self.given = [x is not None for x in outs]
        return [x for x in outs if x is not None]


# -- moving batch dimensions ----------------------------------------------------------------------------

# `lax` registers the array operations used here.
_moveaxis = _broadcast = _reduce_sum = None


def set_array_operations(moveaxis, broadcast, reduce_sum):
    """`moveaxis(x, src, dst)`, `broadcast(x, size, axis)` (a new leading dim at axis), `reduce_sum(x, axis)`."""
    global _moveaxis, _broadcast, _reduce_sum
    _moveaxis, _broadcast, _reduce_sum = moveaxis, broadcast, reduce_sum


def moveaxis(x, source: int, target: int):
    if in_use.types and is_high(aval := aval_of(x)):
        return _move_spec(x, aval, source, target)
    return x if source == target else _moveaxis(x, source, target)


def _move_spec(x, aval, source, target):
    """A value of a hi type with its examples where `target` says; 0 is in front of every array."""
    example = aval.dec_rank(None, source)
    if target == 0:
        target = example.leading_axis_spec()
    if source != target and isinstance(aval, StackedType) and type(source) is type(target) is int:
        moved = example.inc_rank(aval.size_of(source), target)
        return raise_value(moved, [_moveaxis(p, source, target) for p in lower(x, aval)])
    if source != target:
        raise NotImplementedError(
            f"the examples of a batch of type {aval} are at {source}, and they are needed at {target}: only its type knows how to move them. Give "
            f"vmap the values with their examples there, or move them with an operation of your own"
        )
    return x


def broadcast(x, size: int, axis: int, mesh_axis=None):
    """Repeats an unbatched value along a new dimension."""
    if type(x) is Zero:
        mesh, over = state.batch_sharding or (None, ())
        return Zero(x.aval.with_dimension(axis, size, over, mesh))
    if getattr(x, "dtype", None) == dtypes.float0:
        return np.zeros((*x.shape[:axis], size, *x.shape[axis:]), dtypes.float0)
    if in_use.types and is_high(aval := aval_of(x)):
        return _repeat_value(x, aval, size, axis)
    return _broadcast(x, size, axis)


def _repeat_value(x, aval, size, spec):
    """A batch of one value of a hi type: each of its arrays is repeated in front."""
    front = aval.leading_axis_spec()
    if spec not in (0, front):
        raise NotImplementedError(
            f"a value of type {aval} is the same for all examples, and a batch of it is needed with them at {spec}: only {front} is known, in "
            f"front of every array"
        )
    whole = aval.inc_rank(size, front)
    return raise_value(whole, [_broadcast(p, size, 0) for p in lower(x, aval)])


@contextmanager
def batch_sharding_context(axis: Axis):
    """Values broadcast along the batch dimension in the block are sharded as the batch is (Explicit axes)."""
    previous, state.batch_sharding = state.batch_sharding, axis.explicit_mesh_axes
    try:
        yield
    finally:
        state.batch_sharding = previous


def move_batch_dim_to(x, dim, size: int, target):
    """Puts the batch dimension of a value at `target`, making one if there is none."""
    if target is None:
        return x
    if dim is None:
        return broadcast(x, size, target)
    return moveaxis(x, dim, target)


def bdim_at_front(x, dim, size: int, mesh_axis=None):
    """The value with its batch dimension in front, made if there is none."""
    return move_batch_dim_to(x, dim, size, 0)


def sum_batch_dim(x, dim):
    return _reduce_sum(x, dim)


# -- jaxprs ---------------------------------------------------------------------------------------------


class BatchDim(NamedTuple):
    """The batch dimension of an input that is not in front: a reference, which cannot be transposed."""

    dim: int


def move_batch_dims_to_front(operands: Sequence, dims: Sequence) -> tuple[list, list]:
    """Operands with their batch dimensions in front, and which have one, for `batch_jaxpr`. References stay as they are."""
    fixed = [bool(d) and is_ref(x) for x, d in zip(operands, dims)]
    return (
        [x if d is None or f else moveaxis(x, d, 0) for x, d, f in zip(operands, dims, fixed)],
        [BatchDim(d) if f else d is not None for d, f in zip(dims, fixed)],
    )


def batch_jaxpr(
    closed: ClosedJaxpr,
    axis: Axis,
    batched_in: Sequence[bool | BatchDim],
    instantiate: bool | Sequence[bool],
) -> tuple[ClosedJaxpr, list[bool]]:
    """The batched program, with batch dimensions in front unless given; and which outputs are batched."""
    batched_in = tuple(batched_in)
    force = (
        (instantiate,) * len(closed.out_avals)
        if isinstance(instantiate, bool)
        else tuple(instantiate)
    )
    key = (
        "batch",
        axis.name,
        axis.size,
        axis.spmd,
        axis.explicit_mesh_axes,
        batched_in,
        force,
        tuple(state.axes),
        state.manual,
    )
    return closed.memo(key, lambda: _batch_jaxpr(closed, axis, batched_in, force))


def _batch_jaxpr(closed, axis, batched_in, force):
    aux: dict[str, Any] = {}
    mesh, over = axis.explicit_mesh_axes or (None, ())
    in_dims = [b.dim if type(b) is BatchDim else 0 if b else None for b in batched_in]
    in_avals = [
        a.with_dimension(d, axis.size, over, mesh)
        if d is not None and isinstance(a, (ShapedArray, AbstractRef, HiType))
        else a
        for a, d in zip(closed.in_avals, in_dims)
    ]
    by_hand = frozenset(axis.spmd) & frozenset(state.manual or ())
    if by_hand:  # each device has examples of its own
        in_avals = [
            a.update(mat=a.mat.update(varying=a.mat.varying | by_hand))
            if b and isinstance(a, ShapedArray)
            else a
            for a, b in zip(in_avals, batched_in)
        ]

    def run(*values):
        fun, out_dims = batch_flat(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), axis, in_dims
        )
        outs = fun(*values)
        dims = out_dims.dims
        aux["batched_out"] = [d is not None or f for d, f in zip(dims, force)]
        with batch_sharding_context(axis):
            return [
                move_batch_dim_to(x, d, axis.size, 0) if b else x
                for x, d, b in zip(outs, dims, aux["batched_out"])
            ]

    new = pe.trace_to_closed_jaxpr(run, in_avals, closed.jaxpr.debug_info)
    return new, aux["batched_out"]


# -- short ways to write rules --------------------------------------------------------------------------


def defvectorized(prim):
    """For unary elementwise primitives: the batch dimension stays where it is."""
    sharding_rules[prim] = elementwise_sharding
    primitive_batchers[prim] = lambda xs, ds, **params: (prim.bind(*xs, **params), ds[0])


def defbroadcasting(prim):
    """For elementwise primitives of several operands: ranks are aligned around the batch dimension."""
    sharding_rules[prim] = elementwise_sharding
    primitive_batchers[prim] = lambda xs, ds, **params: broadcast_batcher(prim, xs, ds, **params)


def broadcast_batcher(prim, xs, dims, **params):
    """Batches an elementwise primitive whose operands have one shape or are scalars."""
    shape: tuple = ()
    for x, d in zip(xs, dims):
        own = x.aval.shape if x.__class__ is pe.DynamicJaxprTracer else aval_of(x).shape
        if not own:
            continue
        if not shape:
            shape, dim = own, d
        elif own != shape or d != dim:
            break
    else:
        # Same shape, same position: nothing to align, scalars go along as they are.
        out = prim.bind(*xs, **params)
        return out, ([dim] * len(out) if prim.multiple_results else dim)
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    ndim = max(aval_of(x).ndim - (d is not None) for x, d in zip(xs, dims))
    aligned = []
    for x, d in zip(xs, dims):
        rank = aval_of(x).ndim - (d is not None)
        if d is None:
            # A scalar may stay a scalar: elementwise primitives accept it beside arrays.
            aligned.append(broadcast(x, size, 0) if rank else x)
            continue
        x = moveaxis(x, d, 0)
        if rank == 0 and ndim:
            x = expand_to(x, size, xs, dims, ndim)
        aligned.append(x)
    out = prim.bind(*aligned, **params)
    return out, ([0] * len(out) if prim.multiple_results else 0)


def expand_to(x, size, xs, dims, ndim):
    """Spreads a batch of scalars over the logical shape of the other operands."""
    shape = next(
        tuple(s for i, s in enumerate(aval_of(y).shape) if i != e)
        for y, e in zip(xs, dims)
        if aval_of(y).ndim - (e is not None) == ndim
    )
    return _broadcast_leading(x, (size, *shape))


_broadcast_leading = None


def set_broadcast_leading(spread):
    """`spread(x, shape)`: a vector along the first dimension of `shape`, the same everywhere else."""
    global _broadcast_leading
    _broadcast_leading = spread


def defreducer(prim, axes_param: str = "axes"):
    """For reductions over the positional axes named by a parameter."""

    def rule(xs, dims, **params):
        d = dims[0]
        axes = params[axes_param]
        shifted = tuple(a + (a >= d) for a in axes)
        out_dim = d - sum(a < d for a in shifted)
        if prim.multiple_results:
            outs = prim.bind(*xs, **{**params, axes_param: shifted})
            return outs, [out_dim] * len(outs)
        return prim.bind(*xs, **{**params, axes_param: shifted}), out_dim

    primitive_batchers[prim] = rule


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether what is bound now is being batched."""
    return any(isinstance(t, BatchTrace) for t in enclosing_traces())
