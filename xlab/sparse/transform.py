"""`sparsify`: functions of arrays as functions of sparse arrays.

The function is traced as if its arguments were dense, and the program is run with sparse values: each primitive with a sparse operand by its
rule in `sparse_rules`. Rules give sparse results wherever zeros stay zeros. Or the function is called with a `SparseTracer` for each sparse
argument, and runs operation by operation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.compile.tracing import trace_program
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, last_uses, open_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.rules import RuleTable
from xlab.core.source_info import describe_caller
from xlab.core.trace import Trace, Tracer, set_trace, state
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.sparse.base import JAXSparse
from xlab.sparse.bcoo import BCOO
from xlab.transforms.arguments import check_callable, wraps

sparse_rules = RuleTable(
    "sparse.sparse_rules",
    "run with sparse operands",
    "rule(*operands, **params) -> results, where operands are arrays and BCOOs",
    required=False,
)
"""For primitives of sparse programs. Worked example, for one that keeps zeros:
`lambda x: x.like(double_p.bind(x.data))`."""


def sparsify(f: Callable, use_tracer: bool = False) -> Callable:
    """`f` for sparse arguments.

    Args:
        f: a function of arrays.
        use_tracer: whether `f` is called with tracers that hold the sparse arrays, in place of being traced first: then its dense values are
            what they are outside, so that Python can print them and decide by them.

    Returns:
        A function that takes sparse arrays where `f` takes arrays. Its results are sparse where the program keeps zeros.

    Raises:
        NotImplementedError: by a call whose program has an operation without a rule for sparse operands, or one whose result
            would be dense; `todense` makes values dense where that is meant.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import sparse
        >>> A = sparse.BCOO.fromdense(jnp.diag(jnp.arange(3.)))
        >>> sparse.sparsify(lambda A, x: jnp.sin(A) @ x + A.sum(1))(A, jnp.ones(3)).shape
        (3,)
    """
    check_callable(f, "sparsify")

    @wraps(f)
    def run(*args, **kwargs):
        flat, in_tree = _tree.flatten((args, kwargs), is_leaf=is_sparse)
        flat = [as_bcoo(x) for x in flat]
        if use_tracer:
            return _by_operation(f, in_tree, flat)
        program = trace_program(f, in_tree, [dense_type(x) for x in flat])
        outs = evaluate(program.closed.jaxpr, program.closed.consts, flat)
        return _tree.unflatten(program.out_tree, outs)

    return run


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse array."""
    return isinstance(x, JAXSparse)


def as_bcoo(x: Any) -> Any:
    """A sparse array as BCOO; anything else as it is."""
    return x.to_bcoo() if isinstance(x, JAXSparse) and not isinstance(x, BCOO) else x


def dense_type(x: Any):
    """The type that a value has in a program of dense arrays."""
    return ShapedArray(x.shape, x.dtype) if isinstance(x, BCOO) else aval_of(x)


def evaluate(jaxpr: Jaxpr, consts: Sequence, args: Sequence) -> list:
    """Runs a program on arrays and sparse arrays."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def read(a):
        return a.val if type(a) is Literal else values[a]

    for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr)):
        operands = [read(a) for a in eqn.invars]
        if any(map(is_sparse, operands)):
            outs = apply_rule(eqn.primitive, operands, eqn.params, eqn)
        else:
            outs = eqn.primitive.bind(*operands, **eqn.params)
        values.update(zip(eqn.outvars, outs if isinstance(outs, (list, tuple)) else [outs]))
        for v in dead:
            values.pop(v, None)
    return [read(v) for v in jaxpr.outvars]


def apply_rule(prim: Primitive, operands: Sequence, params: dict, eqn: JaxprEqn | None = None):
    """The results of a primitive with sparse operands, in a program or at the user's line."""
    rule = sparse_rules.get(prim)
    if rule is not None:
        return rule(*operands, **params)
    flow = flow_of(JaxprEqn((), (), prim, params))
    if type(flow) is CallFlow:
        return _inner(flow.jaxpr, operands)
    if type(flow) is BranchFlow:
        return _branches(flow, operands)
    if type(flow) is LoopFlow:
        return _loop(flow, operands)
    reason = sparse_rules.excuse_for(prim)
    where = describe_caller() if eqn is None else eqn.source_info
    raise NotImplementedError(
        f"sparse rule for {prim.name} is not implemented{' ' + reason if reason else ''}. If this is your intent, use "
        f"sparse.todense() to convert your arguments to dense arrays (at {where})."
    )


def _inner(inner, operands):
    consts = inner.consts if isinstance(inner, ClosedJaxpr) else ()
    return evaluate(open_jaxpr(inner), consts, operands)


def _branches(flow, operands):
    which, *rest = operands
    branches = [functools.partial(_called, branch) for branch in flow.branches]
    return lax.switch(jnp.asarray(which, np.int32), branches, *rest)


def _called(inner, *operands):
    return _inner(inner, operands)


def _loop(flow, operands):
    cond_consts, consts, carry, xs = flow.split(operands)
    k = flow.num_carry
    if flow.cond is not None:
        return lax.while_loop(
            lambda c: _inner(flow.cond, [*cond_consts, *c])[0],
            lambda c: _inner(flow.body, [*consts, *c]),
            carry,
        )
    if any(isinstance(x, BCOO) and not x.n_batch for x in xs):
        raise NotImplementedError(
            "a scan takes sparse arrays row by row where their first dimension is a batch dimension: "
            "use mat.update_layout(n_batch=1)"
        )

    def body(c, row):
        outs = _inner(flow.body, [*consts, *c, *row])
        return outs[:k], outs[k:]

    carry, ys = lax.scan(body, carry, xs, length=flow.length, reverse=flow.reverse)
    return [*carry, *ys]


# -- operation by operation --------------------------------------------------------------------------------


class SparseTracer(Tracer):
    """Stands for a sparse array, `mat`, in a function that is run with sparse arrays."""

    __slots__ = ("mat",)

    def __init__(self, trace: SparseTrace, mat: BCOO):
        super().__init__(trace, dense_type(mat))
        self.mat = mat

    def __repr__(self):
        return f"SparseTracer({self.mat!r})"

    def origin(self) -> str:
        return "the arguments of a function of sparse arrays"


class SparseTrace(Trace):
    """Runs primitives that have sparse operands by their rules, and leaves the others to the trace around it."""

    __slots__ = ("parent",)
    label = "a function of sparse arrays"

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def held(self, x: Any) -> Any:
        """The sparse array that a tracer stands for; any other value as it is."""
        return x.mat if x.__class__ is SparseTracer and x._trace is self else x

    def tracer(self, x: Any) -> Any:
        """A tracer for a sparse array; any other value as it is."""
        return SparseTracer(self, x) if isinstance(x, BCOO) else x

    def process_primitive(self, prim, args, params):
        operands = [self.held(x) for x in args]
        with set_trace(self.parent):
            if not any(map(is_sparse, operands)):
                return self.parent.process_primitive(prim, args, params)
            outs = apply_rule(prim, operands, params)
        if prim.multiple_results:
            return [self.tracer(x) for x in outs]
        return self.tracer(outs)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        if any(is_sparse(self.held(x)) for x in args):
            return fun(*args)
        with set_trace(self.parent):
            return self.parent.process_custom_jvp(prim, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        if any(is_sparse(self.held(x)) for x in args):
            return fun(*args)
        with set_trace(self.parent):
            return self.parent.process_custom_vjp(prim, fun, fwd, bwd, args, params)


def _by_operation(f, in_tree, flat):
    trace = SparseTrace(state.trace)
    try:
        with set_trace(trace):
            args, kwargs = _tree.unflatten(in_tree, [trace.tracer(x) for x in flat])
            outs = f(*args, **kwargs)
    finally:
        trace.alive = False
    return _tree.map(trace.held, outs)


__all__ = ["SparseTracer", "sparsify"]
