"""Call primitives, which call a jaxpr on all their operands: `define_call` gives them all their rules.

What differs between `jit`, `shard_map`, `checkpoint` and a call of one's own are the other parameters, and how they follow when a
transformation adds, drops or batches operands and results. A `ParamUpdater` says that; `AlignedParams` is the one for parameters with
an entry for every operand or result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

import numpy as np

from xlab.core import effects as _effects
from xlab.core.hi_types import HiPspec
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.interpreters.discharge import discharge_jaxpr, discharge_rules


class Split(NamedTuple):
    """A jaxpr split by partial evaluation into a known and an unknown part."""

    known: ClosedJaxpr  # known inputs -> known results, then the residuals that are not forwarded
    unknown: ClosedJaxpr  # residuals, then unknown inputs -> unknown results
    unknown_out: Sequence[bool]
    residuals: Sequence[Any]  # their types
    forwarded: Sequence[int | None]  # per residual the known input that it is

    @property
    def made(self) -> list:
        """Types of the residuals that the known part returns."""
        return [a for a, source in zip(self.residuals, self.forwarded) if source is None]


class ParamUpdater:
    """Updates the other parameters of a call under a transformation: methods return those that change.

    Flags are lists of bools: `nonzero` says which tangents or cotangents there are, `unknown` which values, `linear` which operands are
    transposed, `used` what dead code elimination keeps. A dimension is where the batch is, or None.
    """

    def jvp(self, params: dict, nonzero, nonzero_out) -> dict:
        """Operands are followed by their nonzero tangents, results too."""
        return {}

    def known(self, params: dict, unknown, split: Split) -> dict:
        """Known operands and results only; the residuals that are made follow the results."""
        return {}

    def unknown(self, params: dict, unknown, split: Split) -> dict:
        """Residuals, then the unknown operands; unknown results only."""
        return {}

    def transpose(self, params: dict, linear, nonzero, nonzero_out) -> dict:
        """Operands that are not linear, then nonzero cotangents of results; results are cotangents of linear operands, where `nonzero_out`."""
        return {}

    def batch(self, params: dict, axis, dims, out_dims) -> dict:
        """Operands and results with a batch dimension."""
        return {}

    def dce(self, params: dict, used, used_out) -> dict:
        """Fewer operands and results."""
        return {}

    def discharge(self, params: dict, written) -> dict:
        """The final values of the operands numbered in `written` follow the results."""
        return {}

    def prepend(self, params: dict, operands: int, results: int) -> dict:
        """More operands and results, in front."""
        return {}

    def lower(
        self,
        params: dict,
        ins: Sequence[int],
        outs: Sequence[int],
        written: Sequence[tuple[int, int]],
    ) -> dict:
        """Arrays in the place of values of hi types: how many each operand and result has. Of the operands in `written`, pairs of a number and how many
        they have afterwards, those arrays follow the results."""
        return {}


def keep(values: Sequence, flags: Sequence) -> tuple:
    """The values whose flag is set."""
    return tuple(compress(values, flags))


def drop(values: Sequence, flags: Sequence) -> tuple:
    """The values whose flag is not set."""
    return tuple(compress(values, map(not_, flags)))


class AlignedParams(ParamUpdater):
    """Parameters with an entry for every operand, or for every result.

    Args:
        operands, results: the names of the parameters; either may be left out.
        added: the entry of an operand or result that a transformation adds.
        residual: `residual(aval, params)`, the entry of a value that the known part hands to the unknown part; by default `added`.
        batched: `batched(entry, axis, dim, params)`, the entry of a value with a batch dimension at `dim`.
        cotangent: `cotangent(entry)`, the entry of a cotangent of a value.
    """

    def __init__(
        self,
        operands: str | None = None,
        results: str | None = None,
        *,
        added: Any = None,
        residual: Callable | None = None,
        batched: Callable | None = None,
        cotangent: Callable | None = None,
    ):
        self.operands, self.results, self.added = operands, results, added
        self.residual = residual or (lambda aval, params: added)
        self.batched = batched or (lambda entry, axis, dim, params: entry)
        self.cotangent = cotangent or (lambda entry: entry)

    def changes(self, params: dict, ins: Callable, outs: Callable) -> dict:
        """The parameters with entries made by `ins` from those of the operands, and by `outs` from those of the results."""
        changes = {}
        if self.operands:
            changes[self.operands] = ins(params[self.operands])
        if self.results:
            changes[self.results] = outs(params[self.results])
        return changes

    def jvp(self, params, nonzero, nonzero_out):
        return self.changes(
            params,
            lambda ins: (*ins, *compress(ins, nonzero)),
            lambda outs: (*outs, *compress(outs, nonzero_out)),
        )

    def known(self, params, unknown, split):
        return self.changes(
            params,
            lambda ins: drop(ins, unknown),
            lambda outs: (
                *drop(outs, split.unknown_out),
                *[self.residual(a, params) for a in split.made],
            ),
        )

    def unknown(self, params, unknown, split):
        def entries(ins):
            known = drop(ins, unknown)
            return (
                *[
                    self.residual(a, params) if source is None else known[source]
                    for a, source in zip(split.residuals, split.forwarded)
                ],
                *compress(ins, unknown),
            )

        return self.changes(params, entries, lambda outs: keep(outs, split.unknown_out))

    def transpose(self, params, linear, nonzero, nonzero_out):
        def entries(ins):
            cts = (
                compress(params[self.results], nonzero)
                if self.results
                else (self.added,) * sum(nonzero)
            )
            return (*drop(ins, linear), *map(self.cotangent, cts))

        def results(outs):
            back = (
                keep(keep(params[self.operands], linear), nonzero_out)
                if self.operands
                else (self.added,) * sum(nonzero_out)
            )
            return tuple(map(self.cotangent, back))

        return self.changes(params, entries, results)

    def batch(self, params, axis, dims, out_dims):
        def batched(entries, dims):
            return tuple(
                [
                    e if d is None else self.batched(e, axis, d, params)
                    for e, d in zip(entries, dims)
                ]
            )

        return self.changes(
            params, lambda ins: batched(ins, dims), lambda outs: batched(outs, out_dims)
        )

    def dce(self, params, used, used_out):
        return self.changes(params, lambda ins: keep(ins, used), lambda outs: keep(outs, used_out))

    def discharge(self, params, written):
        def results(outs):
            return (
                *outs,
                *(
                    [params[self.operands][i] for i in written]
                    if self.operands
                    else (self.added,) * len(written)
                ),
            )

        return self.changes(params, lambda ins: ins, results)

    def prepend(self, params, operands, results):
        return self.changes(
            params,
            lambda ins: (*(self.added,) * operands, *ins),
            lambda outs: (*(self.added,) * results, *outs),
        )

    def lower(self, params, ins, outs, written):
        def entries(given, counts):
            found: list = []
            for e, n in zip(given, counts):
                found += e.to_lo() if isinstance(e, HiPspec) else [e] * n
            return tuple(found)

        given = params[self.operands] if self.operands else [self.added] * len(ins)
        again = entries([given[i] for i, _ in written], [n for _, n in written])
        return self.changes(
            params, lambda e: entries(e, ins), lambda e: (*entries(e, outs), *again)
        )


calls: dict[Primitive, CallDefinition] = {}
"""The primitives defined by `define_call`."""


class CallDefinition:
    """A primitive that calls a jaxpr, and the rules that follow. See `define_call`."""

    def __init__(
        self,
        prim: Primitive,
        param: str,
        updaters: Sequence[ParamUpdater],
        context,
        split,
        transpose,
        batch_axis,
    ):
        self.prim, self.param, self.updaters = prim, param, updaters
        self.context, self.split, self.transposed, self.batch_axis = (
            context,
            split,
            transpose,
            batch_axis,
        )

    # -- parameters ----------------------------------------------------------------------------------------

    def closed(self, params: dict) -> ClosedJaxpr:
        jaxpr = params[self.param]
        return pe.close_jaxpr(jaxpr) if type(jaxpr) is Jaxpr else jaxpr

    def applied(
        self, new: ClosedJaxpr, operands: Sequence, params: dict, how: str = "", *args
    ) -> tuple[Sequence, dict]:
        """Operands and parameters of a call of another jaxpr; `how` names the method of the updaters that is asked, with `args`."""
        changed = {**params, self.param: new}
        for updater in self.updaters if how else ():
            changed.update(getattr(updater, how)(params, *args))
        if type(params[self.param]) is not Jaxpr:
            return operands, changed
        # Constants of an open jaxpr are operands.
        consts, changed[self.param] = pe.open_closed_jaxpr(new)
        if consts:
            changed.update(self.added(changed, len(consts)))
        return (*consts, *operands), changed

    def added(self, params: dict, operands: int) -> dict:
        """The parameters that change when operands are added in front."""
        changes: dict = {}
        for updater in self.updaters:
            changes.update(updater.prepend(params, operands, 0))
        return changes

    def bind(
        self, new: ClosedJaxpr, operands: Sequence, params: dict, how: str = "", *args
    ) -> list:
        """Calls another jaxpr: see `applied`."""
        operands, params = self.applied(new, operands, params, how, *args)
        return self.prim.bind(*operands, **params)

    # -- rules ---------------------------------------------------------------------------------------------

    def impl(self, *args, **params):
        closed = self.closed(params)
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)

    def abstract_eval(self, *avals, **params):
        jaxpr = params[self.param]
        return jaxpr.out_avals, jaxpr.effects

    def lowering(self, ctx, *args, **params):
        return ctx.jaxpr(self.closed(params), args)

    def jvp(self, primals, tangents, **params):
        nonzero = [type(t) is not ad.Zero for t in tangents]
        with self.context(params):
            new, nonzero_out = ad.jvp_jaxpr(self.closed(params), nonzero, False)
        outs = self.bind(
            new, (*primals, *keep(tangents, nonzero)), params, "jvp", nonzero, nonzero_out
        )
        given = iter(outs[len(nonzero_out) :])
        return outs[: len(nonzero_out)], [
            next(given) if nz else ad.Zero.of(x) for nz, x in zip(nonzero_out, outs)
        ]

    def partial_eval(self, trace, args, **params):
        unknown = tuple([trace.is_unknown(x) for x in args])
        closed = self.closed(params)
        with self.context(params):
            split: Split = closed.memo(
                ("call split", unknown), lambda: self.split(closed, unknown, params)
            )
        known_args, outs = drop(args, unknown), []
        if split.known.out_avals or split.known.effects:
            outs = trace.run_known(
                self.bind, split.known, known_args, params, "known", unknown, split
            )
        n_known = len(split.unknown_out) - sum(split.unknown_out)
        made = iter(outs[n_known:])
        residuals = [
            next(made) if source is None else _as_it_is(known_args[source])
            for source in split.forwarded
        ]
        operands, params = self.applied(
            split.unknown, (*residuals, *keep(args, unknown)), params, "unknown", unknown, split
        )
        known, waiting = (
            iter(outs[:n_known]),
            iter(trace.record_unknown(self.prim, operands, params)),
        )
        return [next(waiting) if u else next(known) for u in split.unknown_out]

    def transpose(self, cts, *operands, **params):
        linear = tuple([ad.is_undefined_primal(x) for x in operands])
        refs, operands = ad.open_cotangents(operands)
        refs, closed = tuple(refs), self.closed(params)
        nonzero = tuple([type(ct) is not ad.Zero for ct in cts])
        with self.context(params):
            new, nonzero_out = closed.memo(
                ("call transpose", linear, nonzero, refs),
                lambda: self.transposed(closed, linear, nonzero, refs, params),
            )
        given = iter(
            self.bind(
                new,
                (*drop(operands, linear), *keep(cts, nonzero)),
                params,
                "transpose",
                linear,
                nonzero,
                nonzero_out,
            )
        )
        found = iter([next(given) if nz else None for nz in nonzero_out])
        return [next(found) if lin else None for lin in linear]

    def batch(self, axis, operands, dims, **params):
        axis = self.batch_axis(axis, params)
        operands, batched = batching.move_batch_dims_to_front(operands, dims)
        with self.context(params):
            new, batched_out = batching.batch_jaxpr(self.closed(params), axis, batched, False)
        placed = [b.dim if type(b) is batching.BatchDim else 0 if b else None for b in batched]
        out_dims = [0 if b else None for b in batched_out]
        return self.bind(new, operands, params, "batch", axis, placed, out_dims), out_dims

    def dce(self, used_outputs, eqn):
        closed = self.closed(eqn.params)
        new, used = closed.memo(
            ("dce", tuple(used_outputs)), lambda: pe.dce_closed_jaxpr(closed, used_outputs)
        )
        if not any(used_outputs) and not _effects.prevents_dce(new.effects):
            return [False] * len(eqn.invars), None
        invars, params = self.applied(
            new, keep(eqn.invars, used), eqn.params, "dce", used, used_outputs
        )
        return used, eqn.replace(
            invars=list(invars), outvars=list(keep(eqn.outvars, used_outputs)), params=params
        )

    def discharge(self, eqn, ref_mask, operands):
        with self.context(eqn.params):
            new, written = discharge_jaxpr(self.closed(eqn.params), ref_mask)
        outs = self.bind(new, operands, eqn.params, "discharge", written)
        n = len(eqn.outvars)
        return dict(zip(written, outs[n:])), outs[:n]


def _as_it_is(x):
    """An operand used as a residual; NumPy arrays are copied, since the user may change them later."""
    return x.copy() if isinstance(x, np.ndarray) else x


def split_call(closed: ClosedJaxpr, unknown: Sequence[bool], params: dict) -> Split:
    """A jaxpr split into known and unknown part; residuals that are inputs are not returned again."""
    known, rest, unknown_out, residuals = pe.split_jaxpr(closed, unknown)
    first = len(known.out_avals) - len(residuals)
    sources = {v: i for i, v in enumerate(known.jaxpr.invars)}
    forwarded = [sources.get(v) for v in known.jaxpr.outvars[first:]]
    if any(source is not None for source in forwarded):
        made = [v for v, source in zip(known.jaxpr.outvars[first:], forwarded) if source is None]
        known = ClosedJaxpr(
            known.jaxpr.replace(outvars=[*known.jaxpr.outvars[:first], *made]), known.consts
        )
    return Split(known, rest, unknown_out, residuals, forwarded)


def transpose_call(closed: ClosedJaxpr, linear, nonzero, refs, params: dict):
    """The transposed jaxpr of a call, and which linear operands get a cotangent."""
    return ad.transpose_jaxpr(closed, linear, nonzero, refs)


_NO_CONTEXT = nullcontext()


def define_call(
    prim: Primitive,
    jaxpr_param: str = "jaxpr",
    *updaters: ParamUpdater,
    context: Callable[[dict], AbstractContextManager] = lambda params: _NO_CONTEXT,
    split: Callable = split_call,
    transpose: Callable = transpose_call,
    batch_axis: Callable = lambda axis, params: axis,
) -> CallDefinition:
    """Makes a primitive one that calls the jaxpr in one of its parameters on all its operands, and gives it all rules.

    Those are: types and effects, evaluation, lowering, derivatives in both modes, known and unknown parts, batching, dead code, mutable
    references, and how values flow. A rule that is registered afterwards takes the place of the one given here.

    Args:
        prim: the primitive. Its results are a list.
        jaxpr_param: the name of the parameter, a closed jaxpr, or an open one without constants.
        updaters: how the other parameters follow; parameters that no updater names stay as they are.
        context: `context(params)` surrounds every transformation of the jaxpr.
        split: `split(closed, unknown, params) -> Split`.
        transpose: `transpose(closed, linear, nonzero, refs, params) -> (jaxpr, which linear operands get a cotangent)`.
        batch_axis: `batch_axis(axis, params)`, the axis as the jaxpr sees it.

    Example:
        >>> import xlab
        >>> from xlab.extend.core import AlignedParams, Primitive, define_call
        >>> labeled_p = Primitive("labeled")
        >>> _ = define_call(labeled_p, "jaxpr", AlignedParams("labels", added="made by a transformation"))
        >>> def labeled(f, **args):
        ...     closed = xlab.make_jaxpr(f)(*args.values())
        ...     return labeled_p.bind(*args.values(), jaxpr=closed, labels=tuple(args))[0]
        >>> f = lambda x, y: labeled(lambda a, b: a * b, left=x, right=y)
        >>> float(xlab.jit(f)(2.0, 3.0)), float(xlab.grad(xlab.grad(lambda x: f(x, x)))(3.0))
        (6.0, 2.0)
        >>> eqn, = xlab.make_jaxpr(xlab.vmap(f, in_axes=(0, None)))(xlab.numpy.ones(3), 2.0).eqns
        >>> eqn.params["labels"], str(eqn.outvars[0].aval)
        (('left', 'right'), 'float32[3]')
    """
    prim.multiple_results, prim.auto_pvary, prim.context_dependent, prim.takes_refs = (
        True,
        False,
        True,
        True,
    )
    call = calls[prim] = CallDefinition(
        prim, jaxpr_param, updaters, context, split, transpose, batch_axis
    )
    prim.def_impl(call.impl)
    prim.def_effectful_abstract_eval(call.abstract_eval)
    mlir.register_text_lowering(prim, call.lowering)
    ad.primitive_jvps[prim] = call.jvp
    ad.primitive_transposes[prim] = call.transpose
    batching.axis_primitive_batchers[prim] = call.batch
    pe.partial_eval_rules[prim] = call.partial_eval
    pe.dce_rules[prim] = call.dce
    discharge_rules[prim] = call.discharge
    control_flow_rules[prim] = lambda params: CallFlow(params[jaxpr_param])
    return call
