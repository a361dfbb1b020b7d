"""`sparse_primitive`: a primitive whose rules follow from how it is computed, and from what it is linear in.

Sparse operations are primitives so that programs read as they were written. Each is given by a function of the primitives of `lax`;
its type, its lowering and its transpose come from that function, its derivative from linearity, and its batching from the layout, in which
batch dimensions come first in all buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.jaxpr import DebugInfo
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad import UndefinedPrimal, Zero
from xlab.interpreters.costs import cost_rules, total


def sparse_primitive(
    name: str,
    impl: Callable,
    *,
    linear: Sequence[int],
    batch: Callable,
    results: bool = False,
    transpose: Callable | None = None,
) -> Primitive:
    """A primitive with all rules.

    Args:
        name: its name.
        impl: `impl(*operands, **params)`, in primitives that have all rules.
        linear: positions of the operands in each of which the results of inexact dtype are linear.
        batch: `batch(params, size)`, the parameters where all operands have one more batch dimension in front; or a batching rule,
            `batch(operands, dims, **params)`, if its name says so.
        results: whether `impl` returns a list.
        transpose: the transposed rule; without it that of `impl`.
    """
    prim = Primitive(name, multiple_results=results)

    def closed(avals, params):
        return pe.trace_to_closed_jaxpr(
            partial(_listed, impl, results, params), avals, DebugInfo(name)
        )

    @prim.def_abstract_eval
    def _aval(*avals, **params):
        out = closed(avals, params).out_avals
        return out if results else out[0]

    def jvp(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        terms = []
        for i in linear:
            if type(tangents[i]) is not Zero:
                operands = list(primals)
                operands[i] = ad.instantiate_zeros(tangents[i])
                term = prim.bind(*operands, **params)
                terms.append(term if results else [term])
        outs = list(out) if results else [out]
        tangents_out = [
            _sum([t[k] for t in terms]) if terms and _inexact(o) else Zero.of(o)
            for k, o in enumerate(outs)
        ]
        return (out, tangents_out) if results else (out, tangents_out[0])

    def transposed(cts, *operands, **params):
        cts = list(cts) if results else [cts]
        if all(type(ct) is Zero for ct in cts):
            return [
                Zero(x.aval.to_ct_aval()) if type(x) is UndefinedPrimal else None for x in operands
            ]
        avals = [x.aval if type(x) is UndefinedPrimal else aval_of(x) for x in operands]
        program = closed(avals, params)
        return ad.backward_pass(program.jaxpr, program.consts, operands, cts)

    def batched(operands, dims, **params):
        size = next(aval_of(x).shape[d] for x, d in zip(operands, dims) if d is not None)
        operands = [batching.bdim_at_front(x, d, size) for x, d in zip(operands, dims)]
        out = prim.bind(*operands, **batch(params, size))
        return out, [0] * len(out) if results else 0

    ad.primitive_jvps[prim] = jvp
    ad.primitive_transposes[prim] = transpose or transposed
    batching.primitive_batchers[prim] = batched
    cost_rules[prim] = lambda ins, outs, **params: total(closed(tuple(ins), params).jaxpr)
    mlir.register_text_lowering(prim, mlir.lower_fun(impl, multiple_results=results))
    return prim


def _listed(impl, results, params, *operands):
    out = impl(*operands, **params)
    return list(out) if results else [out]


def _inexact(x) -> bool:
    return dtypes.issubdtype(aval_of(x).dtype, np.inexact)


def _sum(terms):
    total = terms[0]
    for term in terms[1:]:
        total = ad.add_jaxvals(total, term)
    return total


def batched_info(*names: str) -> Callable:
    """The rule of parameters that are `SparseInfo`s: their shapes get the batch dimension in front."""

    def rule(params, size):
        return params | {n: params[n]._replace(shape=(size, *params[n].shape)) for n in names}

    return rule
