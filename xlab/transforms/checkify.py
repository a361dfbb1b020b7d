"""`checkify`: a function that also returns whether a check failed.

The function's program is run again equation by equation with an error beside its values; loops and branches carry it, and the first
failure is kept. The error categories select which operations are checked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import function_name
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, inner_jaxprs, open_jaxpr
from xlab.core.rules import RuleTable
from xlab.core.trace import EVAL, state
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import calls
from xlab.interpreters.control_flow import flow_of
from xlab.lax.bits import bitwise_and, bitwise_not, bitwise_or
from xlab.lax.comparison import eq, gt, lt, ne, select
from xlab.lax.control.cond import cond_p
from xlab.lax.control.custom_jvp_call import custom_jvp_call_p
from xlab.lax.control.scan import scan_p
from xlab.lax.control.while_loop import while_p
from xlab.lax.convert import convert_element_type, stop_gradient
from xlab.lax.creation import full
from xlab.lax.reductions import argmax, reduce_or
from xlab.lax.shape import broadcast_in_dim, concatenate, reshape
from xlab.lax.slicing_in_dim import dynamic_index_in_dim
from xlab.transforms import checks
from xlab.transforms.arguments import wraps
from xlab.transforms.checks import (
    DivisionByZeroError,
    Error,
    FailedCheckError,
    NaNError,
    OOBError,
    Site,
    check_p,
)
from xlab.transforms.custom_vjp import custom_vjp_call_p
from xlab.transforms.custom_vmap import custom_vmap_p

checkify_rules = RuleTable(
    "checkify.checkify_rules",
    "check the inside of",
    "rule(checker, failure, eqn, operands) -> (results, failure)",
    required=False,
)
"""For primitives with inner programs. Worked example: an equation that only calls its program is
`lambda checker, failure, eqn, operands: checker.run(eqn.params["jaxpr"], operands, failure)`."""


def checkify(f: Callable, errors: Any = checks.user_checks) -> Callable:
    """Makes a function return an `Error` beside its result: `checkify(f)(*args)` is `(error, f(*args))`.

    Args:
        f: the function; it may call `checkify.check`.
        errors: what to look for, a union of `user_checks`, `nan_checks`, `div_checks`, `index_checks`; `float_checks`, `automatic_checks`
            and `all_checks` are such unions.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import checkify
        >>> error, y = xlab.jit(checkify.checkify(lambda x, i: jnp.log(x[i]), errors=checkify.automatic_checks))(jnp.ones(3), 5)
        >>> error.get()
        'out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with size 3. '
    """
    if not callable(f):
        raise TypeError(f"checkify takes a function, got {f!r} of type {type(f).__name__}")
    errors = frozenset(errors)

    @wraps(f)
    def traced(*args, **kwargs):
        flat, in_tree = _tree.flatten((args, kwargs))
        trees = []

        def flat_fun(*leaves):
            a, k = _tree.unflatten(in_tree, leaves)
            out, tree = _tree.flatten(f(*a, **k))
            trees.append(tree)
            return out

        closed = pe.trace_to_closed_jaxpr(flat_fun, list(map(aval_of, flat)))
        checker = Checker(errors, _slots(closed.jaxpr, errors))
        outs, failure = checker.run(closed, flat, checker.nothing())
        return Error(failure[0], failure[1], checker.slots, failure[2:]), _tree.unflatten(
            trees[0], outs
        )

    whole = jit(traced, name=function_name(f))

    @wraps(f)
    def checked(*args, **kwargs):
        return (
            whole(*args, **kwargs)
            if state.trace is EVAL and not state.axes
            else traced(*args, **kwargs)
        )

    return checked


# -- which operations ---------------------------------------------------------------------------------------

_MAY_GIVE_NAN = frozenset(["acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt", "cholesky", "conv_general_dilated", "cos", "cosh", "cumlogsumexp", "cumprod", "cumsum", "custom_linear_solve", "digamma", "div", "dot_general", "eig", "eigh", "erf", "erf_inv", "erfc", "exp", "expm1", "fft", "igamma", "igamma_grad_a", "igammac", "integer_pow", "lgamma", "log", "log1p", "logistic", "lu", "mul", "pad", "polygamma", "pow", "qr", "random_gamma_grad", "ragged_dot_general", "reduce", "reduce_prod", "reduce_sum", "reduce_window", "reduce_window_sum", "regularized_incomplete_beta", "rem", "rsqrt", "schur", "sin", "sinh", "sqrt", "sub", "svd", "tan", "tanh", "triangular_solve", "zeta"])  # fmt: skip
_INDEXED = frozenset(
    (
        "gather",
        "scatter",
        "scatter-add",
        "scatter-sub",
        "scatter-mul",
        "scatter-min",
        "scatter-max",
        "dynamic_slice",
        "dynamic_update_slice",
    )
)
_PLACE = (((3,), np.dtype(np.int32)),)  # an index, its axis, the size there


def _slots(jaxpr: Jaxpr, errors) -> tuple:
    """The slots that a program's failures need, inner programs included."""
    found: dict[tuple, None] = {}

    def visit(j):
        for eqn in j.eqns:
            if eqn.primitive is check_p:
                if FailedCheckError in errors:
                    found.update(dict.fromkeys(eqn.params["slots"]))
            elif eqn.primitive.name in _INDEXED and OOBError in errors:
                found[_PLACE] = None
            for inner in inner_jaxprs(eqn.params):
                visit(inner)

    visit(jaxpr)
    return tuple(slot for slot in found if slot)


def _has_checks(jaxpr: Jaxpr) -> bool:
    return any(
        e.primitive is check_p or any(map(_has_checks, inner_jaxprs(e.params))) for e in jaxpr.eqns
    )


class Checker:
    """Runs programs and keeps their first failure: a flat list `failed, code, *values` with the values of all slots."""

    def __init__(self, errors: frozenset, slots: tuple):
        self.errors, self.slots = errors, slots

    def nothing(self) -> list:
        """No failure."""
        zeros = [full(shape, 0, dtype) for slot in self.slots for shape, dtype in slot]
        return [np.False_, np.int32(-1), *zeros]

    def fail(self, failure: list, failed, code, slots, values) -> list:
        """The failure, or this one if there was none so far."""
        fresh = bitwise_and(failed, bitwise_not(failure[0]))
        given, left = {}, iter(values)
        for slot in slots:
            given[slot] = [next(left) for _ in slot]
        old, new = (
            iter(failure[2:]),
            [bitwise_or(failure[0], failed), select(fresh, code, failure[1])],
        )
        for slot in self.slots:
            mine = given.get(slot)
            for i in range(len(slot)):
                before = next(old)
                new.append(before if mine is None else select(fresh, mine[i], before))
        return new

    def run(self, closed: ClosedJaxpr | Jaxpr, args, failure: list) -> tuple[list, list]:
        """Results of a program, and the first failure."""
        consts = closed.consts if isinstance(closed, ClosedJaxpr) else ()
        jaxpr = open_jaxpr(closed)
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))

        def read(a):
            return a.val if type(a) is Literal else env[a]

        previous = state.source_info
        try:
            for eqn in jaxpr.eqns:
                state.source_info = eqn.raw_source_info
                outs, failure = self.step(failure, eqn, [read(a) for a in eqn.invars])
                env.update(zip(eqn.outvars, outs))
        finally:
            state.source_info = previous
        return [read(a) for a in jaxpr.outvars], failure

    def step(self, failure, eqn, operands):
        prim = eqn.primitive
        if prim is check_p:
            if FailedCheckError in self.errors:
                failure = self.fail(
                    failure, operands[0], operands[1], eqn.params["slots"], operands[2:]
                )
            return [], failure
        if inner_jaxprs(eqn.params):
            rule = checkify_rules.get(prim)
            if rule is not None:
                return rule(self, failure, eqn, operands)
            if prim in calls:
                return _through_call(self, failure, eqn, operands)
        if DivisionByZeroError in self.errors and prim.name == "div":
            failure = self._failed_if(
                failure,
                _any(eq(operands[1], _zero(operands[1]))),
                DivisionByZeroError,
                "division by zero",
            )
        if OOBError in self.errors and prim.name in _INDEXED:
            failure = self._out_of_bounds(failure, eqn, operands)
        out = prim.bind(*operands, **eqn.params)
        outs = list(out) if prim.multiple_results else [out]
        if NaNError in self.errors and prim.name in _MAY_GIVE_NAN:
            for x in outs:
                if dtypes.issubdtype(aval_of(x).dtype, np.inexact):
                    failure = self._failed_if(
                        failure,
                        _any(ne(x, x)),
                        NaNError,
                        f"nan generated by primitive: {prim.name}.",
                    )
        return outs, failure

    def _failed_if(self, failure, failed, category, words):
        site = Site(category, words.replace("{", "{{").replace("}", "}}"), _NO_VALUES, ())
        return self.fail(failure, failed, checks.number_of(site), (), ())

    def _out_of_bounds(self, failure, eqn, operands):
        positions, axes, sizes = _positions(eqn, operands)
        shape = aval_of(operands[0]).shape
        if not axes:
            return failure
        last = np.asarray([shape[d] - sizes[d] for d in axes], np.int32)
        rows = aval_of(positions).size // len(axes)
        if not rows:
            return failure
        flat = reshape(convert_element_type(positions, np.int32), (rows, len(axes)))
        bound = broadcast_in_dim(last, (rows, len(axes)), (1,))
        wrong = reshape(bitwise_or(lt(flat, _zero_of(flat)), gt(flat, bound)), (rows * len(axes),))
        first = argmax(convert_element_type(wrong, np.int32), 0)
        where = np.stack(
            [
                np.tile(np.asarray(axes, np.int32), rows),
                np.tile(np.asarray([shape[d] for d in axes], np.int32), rows),
            ]
        )
        index = dynamic_index_in_dim(reshape(flat, (rows * len(axes),)), first, 0)
        place = concatenate([index, reshape(dynamic_index_in_dim(where, first, 1), (2,))], 0)
        site = Site(
            OOBError,
            f"out-of-bounds indexing for array of shape {shape}: index {{0[0]}} is out of bounds for axis {{0[1]}} with "
            f"size {{0[2]}}. ",
            _ONE_VALUE,
            _PLACE,
        )
        return self.fail(failure, _any(wrong), checks.number_of(site), (_PLACE,), (place,))

    def program(self, closed: ClosedJaxpr, before: int = 0) -> ClosedJaxpr:
        """An inner program that takes the failure after its first `before` inputs, and returns it before its results."""
        n = 2 + sum(map(len, self.slots))

        def run(*args):
            failure, rest = list(args[before : before + n]), [*args[:before], *args[before + n :]]
            outs, failure = self.run(closed, rest, failure)
            return [*failure, *outs]

        types = list(map(aval_of, self.nothing()))
        make = functools.partial(
            pe.trace_to_closed_jaxpr,
            run,
            [*closed.in_avals[:before], *types, *closed.in_avals[before:]],
            closed.jaxpr.debug_info,
        )
        return (
            make()
            if any(a.mat for a in closed.in_avals)
            else closed.memo(("checkify", self.errors, self.slots, before), make)
        )


_NO_VALUES = _tree.structure(((), {}))
_ONE_VALUE = _tree.structure(((0,), {}))


def _any(x):
    n = aval_of(x).ndim
    return reduce_or(x, tuple(range(n))) if n else x


def _zero(x):
    return np.zeros((), aval_of(x).dtype)[()]


def _zero_of(x):
    return full(aval_of(x).shape, 0, aval_of(x).dtype)


def _positions(eqn, operands):
    """The indices of an operation: positions (..., k), the axis of each component, and slice sizes."""
    prim, p = eqn.primitive.name, eqn.params
    shape = aval_of(operands[0]).shape
    if prim == "gather":
        return operands[1], p["dimension_numbers"].start_index_map, p["slice_sizes"]
    if prim.startswith("scatter"):
        d = p["dimension_numbers"]
        update = aval_of(operands[2]).shape
        window = iter([update[i] for i in d.update_window_dims])
        gone = {*d.inserted_window_dims, *d.operand_batching_dims}
        return (
            operands[1],
            d.scatter_dims_to_operand_dims,
            [1 if i in gone else next(window) for i in range(len(shape))],
        )
    starts, sizes = (
        (operands[1:], p["slice_sizes"])
        if prim == "dynamic_slice"
        else (operands[2:], aval_of(operands[1]).shape)
    )
    if not starts:
        return np.zeros((1, 0), np.int32), (), sizes
    return (
        concatenate([reshape(convert_element_type(s, np.int32), (1,)) for s in starts], 0),
        tuple(range(len(shape))),
        sizes,
    )


# -- inner programs -----------------------------------------------------------------------------------------


def _through_call(checker, failure, eqn, operands):
    """A call takes the failure so far in front of its operands, and gives the next in front of its results."""
    call, n = calls[eqn.primitive], len(failure)
    new = checker.program(call.closed(eqn.params))
    outs = call.bind(new, (*failure, *operands), eqn.params, "prepend", n, n)
    return outs[n:], outs[:n]


def _cond_rule(checker, failure, eqn, operands):
    index, *ops = operands
    branches = tuple(map(checker.program, eqn.params["branches"]))
    outs = cond_p.bind(index, *failure, *ops, **{**eqn.params, "branches": branches})
    return outs[len(failure) :], outs[: len(failure)]


def _scan_rule(checker, failure, eqn, operands):
    p, n = eqn.params, len(failure)
    nc = p["num_consts"]
    outs = scan_p.bind(
        *operands[:nc],
        *failure,
        *operands[nc:],
        **{**p, "jaxpr": checker.program(p["jaxpr"], nc), "num_carry": p["num_carry"] + n},
    )
    return outs[n:], outs[:n]


def _while_rule(checker, failure, eqn, operands):
    """The condition is asked before the loop and after each body, so that its checks count; its answer is part of the carry."""
    p, n = eqn.params, len(failure)
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    cc, bc, init = operands[:nc], operands[nc : nc + nb], operands[nc + nb :]
    (answer,), failure = checker.run(p["cond_jaxpr"], [*cc, *init], failure)

    def step(*args):
        c, b, failure, carry = (
            args[:nc],
            args[nc : nc + nb],
            list(args[nc + nb + 1 : nc + nb + 1 + n]),
            args[nc + nb + 1 + n :],
        )
        outs, failure = checker.run(p["body_jaxpr"], [*b, *carry], failure)
        (again,), failure = checker.run(p["cond_jaxpr"], [*c, *outs], failure)
        return [again, *failure, *outs]

    carry = [answer, *failure, *init]
    types = list(map(aval_of, carry))
    body = pe.trace_to_closed_jaxpr(
        step, [*map(aval_of, (*cc, *bc)), *types], p["body_jaxpr"].jaxpr.debug_info
    )
    cond = pe.trace_to_closed_jaxpr(
        lambda answer, *_: [answer], types, p["cond_jaxpr"].jaxpr.debug_info
    )
    outs = while_p.bind(
        *cc, *bc, *carry, cond_nconsts=0, cond_jaxpr=cond, body_nconsts=nc + nb, body_jaxpr=body
    )
    return outs[1 + n :], outs[1 : 1 + n]


def _custom_rule(checker, failure, eqn, operands):
    """A call with a custom derivative or batching rule: it is kept, and run once more to find failures."""
    closed = flow_of(eqn).jaxpr
    if _has_checks(open_jaxpr(closed)):
        return checker.run(closed, operands, failure)
    outs = eqn.primitive.bind(*operands, **eqn.params)
    _, failure = checker.run(closed, list(map(stop_gradient, operands)), failure)
    return list(outs), failure


checkify_rules[cond_p] = _cond_rule
checkify_rules[scan_p] = _scan_rule
checkify_rules[while_p] = _while_rule
for _prim in (custom_jvp_call_p, custom_vjp_call_p, custom_vmap_p):
    checkify_rules[_prim] = _custom_rule
