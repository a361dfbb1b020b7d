"""`custom_vmap`: a function with its own batching rule."""

from __future__ import annotations

import functools
from collections.abc import Callable

from xlab import tree as _tree
from xlab.compile.jit import hoisted
from xlab.compile.tracing import function_name, trace_program
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.hi_states import typed
from xlab.core.jaxpr import ClosedJaxpr
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import ParamUpdater, define_call
from xlab.lax.control.common import reorder
from xlab.lax.control.loops import map as lax_map
from xlab.transforms.arguments import check_callable, text_attributes
from xlab.transforms.custom_jvp import inner_rule, resolve_kwargs

custom_vmap_p = Primitive("custom_vmap_call")


class custom_vmap:
    """A function whose batched form is given by a rule instead of by batching its body.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> from xlab.custom_batching import custom_vmap
        >>> @custom_vmap
        ... def f(x):
        ...     return x + 1
        >>> @f.def_vmap
        ... def rule(axis_size, in_batched, x):
        ...     return x + 10, in_batched[0]
        >>> float(f(1.0)), xlab.vmap(f)(jnp.arange(2.0)).tolist()
        (2.0, [10.0, 11.0])
    """

    def __init__(self, fun: Callable):
        check_callable(fun, "custom_vmap")
        functools.update_wrapper(self, fun, assigned=text_attributes(fun))
        self.fun = fun
        self.vmap_rule: Callable | None = None

    def def_vmap(self, vmap_rule: Callable) -> Callable:
        """Sets the rule `(axis_size, in_batched, *args) -> (out, out_batched)`; batches come along axis 0."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    __getattr__ = inner_rule

    def __call__(self, *args, **kwargs):
        name = function_name(self.fun)
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap."
            )
        args = resolve_kwargs(self.fun, args, kwargs)
        flat, in_tree = _tree.flatten(args)
        program = trace_program(self.fun, _tree.structure((args, {})), [typed(x) for x in flat])
        consts, closed = hoisted(program.closed)
        rule = _FlatRule(self.vmap_rule, in_tree, program.out_tree, len(consts), name)
        outs = custom_vmap_p.bind(*consts, *flat, call=closed, rule=rule)
        return _tree.unflatten(program.out_tree, outs)


class _FlatRule:
    """The user's rule on leaves: `rule(size, batched, leaves) -> (leaves, batched)`."""

    def __init__(self, rule, in_tree, out_tree, n_consts, name):
        self.rule, self.in_tree, self.out_tree, self.n_consts, self.name = (
            rule,
            in_tree,
            out_tree,
            n_consts,
            name,
        )
        self.__name__ = function_name(rule)

    def __call__(self, size, batched, values):
        n = self.n_consts
        if any(batched[:n]):
            raise TypeError(
                f"{self.name} has a custom batching rule and closes over a batched value, which its rule cannot "
                f"see. Pass it as an argument instead."
            )
        args = _tree.unflatten(self.in_tree, values[n:])
        flags = list(_tree.unflatten(self.in_tree, batched[n:]))
        result = self.rule(size, flags, *args)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"the batching rule of {self.name} must return a pair (output, which parts are batched), got "
                f"{type(result).__name__}"
            )
        outs, tree = _tree.flatten(result[0])
        if tree != self.out_tree:
            raise TypeError(
                f"the batching rule of {self.name} must return the structure of its function, {self.out_tree}, "
                f"got {tree}"
            )
        return outs, list(_tree.broadcast_prefix(result[1], result[0]))


def _batch(axis, operands, dims, *, call, rule):
    batched = [d is not None for d in dims]
    values = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(operands, dims)]
    outs, out_batched = rule(axis.size, batched, values)
    return outs, [0 if b else None for b in out_batched]


class _RuleUpdater(ParamUpdater):
    """Transforms the batching rule together with the function: its jvp and its transpose."""

    def jvp(self, params, nonzero, nonzero_out):
        return {"rule": _jvp_rule(params["rule"], nonzero, nonzero_out)}

    def transpose(self, params, linear, nonzero, nonzero_out):
        return {
            "rule": _transposed_rule(
                params["rule"], params["call"].in_avals, linear, nonzero, nonzero_out
            )
        }


def _jvp_rule(rule, nonzero, nonzero_out):
    n = len(nonzero)

    def jvp_rule(size, batched, values):
        given = iter(zip(batched[n:], values[n:]))
        flags, ps, ts = list(batched[:n]), list(values[:n]), []
        for i, nz in enumerate(nonzero):
            if not nz:
                ts.append(ad.Zero(aval_of(ps[i]).to_tangent_aval()))
                continue
            b, t = next(given)
            if b != flags[i]:  # a value and its tangent are batched together
                t = t if b else batching.broadcast(t, size, 0)
                ps[i] = ps[i] if flags[i] else batching.broadcast(ps[i], size, 0)
                flags[i] = True
            ts.append(t)
        out_flags = []

        def primal_rule(*xs):
            outs, found = rule(size, flags, list(xs))
            out_flags[:] = found
            return outs

        outs, touts = ad.jvp(primal_rule, ps, ts)
        some = [
            (ad.instantiate_zeros(t), f) for t, f, nz in zip(touts, out_flags, nonzero_out) if nz
        ]
        return [*outs, *(t for t, _ in some)], [*out_flags, *(f for _, f in some)]

    return jvp_rule


def _transposed_rule(rule, avals, linear, nonzero_ct, nonzero):
    n = len(linear) - sum(linear)
    lin_avals = [a for a, lin in zip(avals, linear) if lin]

    def transposed_rule(size, batched, values):
        flags = iter(batched[:n])
        flags = [True if lin else next(flags) for lin in linear]
        out_flags: list = []

        def of_linear(*xs):
            known, given = iter(values[:n]), iter(xs)
            outs, found = rule(size, flags, [next(given if lin else known) for lin in linear])
            out_flags[:] = found
            return outs

        jaxpr, consts = pe.trace_to_jaxpr(
            of_linear, [a.update(shape=(size, *a.shape)) for a in lin_avals]
        )
        arrived = iter(zip(values[n:], batched[n:]))
        arrived = [next(arrived) if nz else (None, False) for nz in nonzero_ct]
        full = []
        for v, (ct, is_batched), f in zip(jaxpr.outvars, arrived, out_flags):
            if ct is None:
                full.append(ad.Zero(v.aval))
            elif f == is_batched:
                full.append(ct)
            else:
                full.append(batching.broadcast(ct, size, 0) if f else batching.sum_batch_dim(ct, 0))
        given = ad.backward_pass(
            jaxpr, consts, [ad.UndefinedPrimal(v.aval) for v in jaxpr.invars], full
        )
        outs = [ad.instantiate_zeros(ct) for ct, nz in zip(given, nonzero) if nz]
        return outs, [True] * len(outs)

    return transposed_rule


def _only(call, rule, outputs: list[int]) -> dict:
    """The parameters of a call that gives some of the results."""

    def chosen(size, batched, values):
        outs, out_flags = rule(size, batched, values)
        return [outs[i] for i in outputs], [out_flags[i] for i in outputs]

    return {
        "call": call.memo(("outputs", tuple(outputs)), lambda: reorder(call, None, outputs)),
        "rule": chosen,
    }


def _partial_eval(trace, args, *, call, rule):
    """Two calls of the same rule: one gives the known results, the other is recorded for the rest, with all the arguments."""
    unknown = [trace.is_unknown(x) for x in args]
    _, _, out_unknown, _ = pe.split_jaxpr(call, unknown)
    known_outs = [i for i, u in enumerate(out_unknown) if not u]
    unknown_outs = [i for i, u in enumerate(out_unknown) if u]
    known = iter(())
    if known_outs:
        missing = [v.aval for v, u in zip(call.jaxpr.invars, unknown) if u]

        def known_rule(size, batched, values):
            flags, given, fill = iter(batched), iter(values), iter(missing)
            outs, out_flags = rule(
                size,
                [False if u else next(flags) for u in unknown],
                [ad.instantiate_zeros(ad.Zero(next(fill))) if u else next(given) for u in unknown],
            )
            return [outs[i] for i in known_outs], [out_flags[i] for i in known_outs]

        jaxpr, _ = pe.dce_jaxpr(call.jaxpr, [not u for u in out_unknown], [not u for u in unknown])
        known = iter(
            trace.run_known(
                custom_vmap_p.bind,
                *(x for x, u in zip(args, unknown) if not u),
                call=ClosedJaxpr(jaxpr, call.consts),
                rule=known_rule,
            )
        )

    recorded = iter(trace.record_unknown(custom_vmap_p, args, _only(call, rule, unknown_outs)))
    return [next(recorded if u else known) for u in out_unknown]


def _dce(used_outputs, eqn):
    """Results can go; the rule is for all the arguments."""
    outputs = [i for i, used in enumerate(used_outputs) if used]
    if not outputs and not _effects.prevents_dce(eqn.effects):
        return [False] * len(eqn.invars), None
    return [True] * len(eqn.invars), eqn.replace(
        outvars=[eqn.outvars[i] for i in outputs], params=_only(**eqn.params, outputs=outputs)
    )


define_call(custom_vmap_p, "call", _RuleUpdater())
custom_vmap_p.takes_refs = False  # a rule is written for values
batching.axis_primitive_batchers[custom_vmap_p] = _batch
pe.partial_eval_rules[custom_vmap_p] = _partial_eval
pe.dce_rules[custom_vmap_p] = _dce


def sequential_vmap(f: Callable) -> custom_vmap:
    """`f`, whose batched form is a loop over the examples."""
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size, in_batched, *args):
        leaves, treedef = _tree.flatten(args)
        flags = _tree.leaves(tuple(in_batched))

        def one(given):
            given = iter(given)
            return f(
                *_tree.unflatten(
                    treedef, [next(given) if flag else x for x, flag in zip(leaves, flags)]
                )
            )

        out = lax_map(one, [x for x, flag in zip(leaves, flags) if flag])
        return out, _tree.map(lambda _: True, out)

    return mapped
