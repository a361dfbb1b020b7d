"""`linear_call` and `custom_transpose`: linear functions with a transpose of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.compile.tracing import function_name, trace_flat
from xlab.core.avals import aval_of
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.transforms.arguments import check_callable, text_attributes


def linear_call(
    fun: Callable, fun_transpose: Callable, residual_args: Any, linear_args: Any
) -> Any:
    """Calls `fun(residuals, x)`, linear in `x`, whose transpose is `fun_transpose(residuals, ct)`.

    Args:
        fun: takes the residuals and the linear arguments, each one pytree.
        fun_transpose: takes the residuals and a cotangent of the output, returns a cotangent of the linear arguments.

    Example:
        >>> import xlab
        >>> def scaled(scale, x):
        ...     return linear_call(lambda r, x: x / r, lambda r, ct: 100 * ct / r, scale, x)
        >>> float(scaled(2.0, 3.0)), float(xlab.grad(scaled, 1)(2.0, 3.0))
        (1.5, 50.0)
    """
    check_callable(fun, "linear_call")
    check_callable(fun_transpose, "linear_call")
    residuals = _tree.leaves(residual_args)
    linear, lin_tree = _tree.flatten(linear_args)
    res_avals, lin_avals = [aval_of(x) for x in residuals], [aval_of(x) for x in linear]
    closed, consts, out_tree = _traced(fun, (residual_args, linear_args), [*res_avals, *lin_avals])

    def transpose_thunk():
        cts = _tree.unflatten(out_tree, list(range(len(closed.out_avals))))
        ct_avals = [a.to_tangent_aval().to_ct_aval() for a in closed.out_avals]
        transposed, t_consts, t_tree = _traced(
            fun_transpose, (residual_args, cts), [*res_avals, *ct_avals]
        )
        if t_tree != lin_tree:
            raise TypeError(
                f"transpose output pytree structure must match that of linear inputs, got output structure {t_tree} "
                f"and input structure {lin_tree}."
            )
        for got, want in zip(transposed.out_avals, lin_avals):
            if got.shape != want.shape or got.dtype != want.to_tangent_aval().dtype:
                raise ValueError(
                    f"{function_name(fun_transpose)} must return a cotangent of type {want.to_tangent_aval()} for a "
                    f"linear argument of that type, got {got}"
                )
        return transposed, t_consts

    outs = linear_call_p.bind(
        *consts,
        *residuals,
        *linear,
        callee=closed,
        transpose_thunk=_Once(transpose_thunk),
        num_callee_consts=len(consts),
        num_res=len(residuals),
    )
    return _tree.unflatten(out_tree, outs)


def _traced(fun, args, avals):
    """The program of `fun(*args)` with what it closes over as leading inputs, those values, and the output structure."""
    closed, out_tree = trace_flat(fun, _tree.structure((args, {})), avals)
    return pe.close_jaxpr(pe.convert_constvars_jaxpr(closed.jaxpr)), closed.consts, out_tree


class _Once:
    """A function of nothing, called at most once: the transpose is traced when it is first needed."""

    __name__ = "transpose"

    def __init__(self, make):
        self.make, self.made = make, None

    def __call__(self):
        if self.made is None:
            self.made = self.make()
        return self.made


linear_call_p = Primitive(
    "linear_call", multiple_results=True, auto_pvary=False, context_dependent=True
)
linear_call_p.def_effectful_abstract_eval(
    lambda *avals, callee, **_: (callee.out_avals, callee.effects)
)
control_flow_rules[linear_call_p] = lambda params: CallFlow(params["callee"])
mlir.register_text_lowering(linear_call_p, lambda ctx, *args, callee, **_: ctx.jaxpr(callee, args))


def _jvp(primals, tangents, *, callee, num_callee_consts, num_res, **params):
    """In the linear arguments the function is its own derivative; in the others it is differentiated."""
    params = {
        "callee": callee,
        "num_callee_consts": num_callee_consts,
        "num_res": num_res,
        **params,
    }
    n = num_callee_consts + num_res
    outs = linear_call_p.bind(*primals, **params)
    moved = [ad.Zero.of(o) for o in outs]
    if not all(type(t) is ad.Zero for t in tangents[n:]):
        moved = linear_call_p.bind(*primals[:n], *map(ad.instantiate_zeros, tangents[n:]), **params)
    if not all(type(t) is ad.Zero for t in tangents[:n]):
        _, more = ad.jvp(
            lambda *xs: eval_jaxpr(callee.jaxpr, callee.consts, *xs),
            primals,
            [*tangents[:n], *map(ad.Zero.of, primals[n:])],
        )
        moved = list(map(ad.add_tangents, moved, more))
    return outs, moved


def _transpose(cts, *operands, callee, transpose_thunk, num_callee_consts, num_res):
    """The transpose is a linear call too, with this function as its transpose."""
    consts, residuals = (
        operands[:num_callee_consts],
        operands[num_callee_consts : num_callee_consts + num_res],
    )
    transposed, t_consts = transpose_thunk()
    outs = linear_call_p.bind(
        *t_consts,
        *residuals,
        *map(ad.instantiate_zeros, cts),
        callee=transposed,
        transpose_thunk=_Once(lambda: (callee, consts)),
        num_callee_consts=len(t_consts),
        num_res=num_res,
    )
    return [*[None] * (num_callee_consts + num_res), *outs]


def _batch(axis, operands, dims, *, callee, transpose_thunk, num_callee_consts, num_res):
    """Arguments and results of the linear part are all batched, so that the transpose fits."""
    n = num_callee_consts + num_res
    n_lin = len(operands) - n
    operands = [
        x if d is None and i < n else batching.move_batch_dim_to(x, d, axis.size, 0)
        for i, (x, d) in enumerate(zip(operands, dims))
    ]
    flags = [d is not None for d in dims[:n]]
    batched, _ = batching.batch_jaxpr(callee, axis, [*flags, *[True] * n_lin], True)

    def thunk():
        transposed, t_consts = transpose_thunk()
        n_ct = len(transposed.in_avals) - len(t_consts) - num_res
        new, _ = batching.batch_jaxpr(
            transposed,
            axis,
            [*[False] * len(t_consts), *flags[num_callee_consts:], *[True] * n_ct],
            True,
        )
        return new, t_consts

    outs = linear_call_p.bind(
        *operands,
        callee=batched,
        transpose_thunk=_Once(thunk),
        num_callee_consts=num_callee_consts,
        num_res=num_res,
    )
    return outs, [0] * len(outs)


ad.primitive_jvps[linear_call_p] = _jvp
ad.primitive_transposes[linear_call_p] = _transpose
batching.axis_primitive_batchers[linear_call_p] = _batch


class custom_transpose:
    """A linear function with a transpose of its own, called as `f(out_type, residuals, x)`.

    Args:
        fun: `fun(residuals, x)`, linear in `x`.

    Example:
        >>> import xlab
        >>> @custom_transpose
        ... def third(_, x):
        ...     return x / 3
        >>> @third.def_transpose
        ... def third_transpose(_, ct):
        ...     return ct / 3
        >>> round(float(xlab.linear_transpose(lambda x: third(1.0, (), x), 1.0)(6.0)[0]), 4)
        2.0
    """

    def __init__(self, fun: Callable):
        check_callable(fun, "custom_transpose")
        functools.update_wrapper(self, fun, assigned=text_attributes(fun))
        self.fun = fun
        self.transpose: Callable | None = None

    def def_transpose(self, transpose: Callable) -> Callable:
        """Sets the rule `(residuals, ct) -> cotangent of x`."""
        self.transpose = check_callable(transpose, "custom_transpose.def_transpose")
        return transpose

    def __call__(self, out_type, residual_arg, linear_arg):
        name = function_name(self.fun)
        if self.transpose is None:
            raise AttributeError(
                f"No transpose defined for custom_transpose function {name} using def_transpose."
            )
        out = linear_call(self.fun, self.transpose, residual_arg, linear_arg)
        want, got = _tree.structure(out_type), _tree.structure(out)
        if want != got:
            raise TypeError(
                f"custom_transpose function {name} was declared to return the structure {want}, but returned {got}"
            )
        for declared, leaf in zip(_tree.leaves(out_type), _tree.leaves(out)):
            aval = (
                declared
                if hasattr(declared, "shape") and hasattr(declared, "dtype")
                else aval_of(declared)
            )
            if tuple(aval.shape) != aval_of(leaf).shape or aval.dtype != aval_of(leaf).dtype:
                raise TypeError(
                    f"custom_transpose function {name} was declared to return {declared}, but returned "
                    f"{aval_of(leaf)}"
                )
        return out
