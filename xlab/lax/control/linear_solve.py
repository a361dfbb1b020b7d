"""`custom_linear_solve`: the solution of a linear system, differentiated by solving again.

The primitive carries four programs: the product with the matrix, the product with its transpose, and a solver for each.
Whatever the solvers do inside, derivatives never look into them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.control_flow import OpaqueFlow, control_flow_rules
from xlab.lax.arithmetic import neg
from xlab.lax.control.common import args_tree, check_callables, describe, trace_body


class _LinearSolveTuple(NamedTuple):
    """One thing for each program; `transpose` swaps the system for its transpose."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> _LinearSolveTuple:
        return _LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def custom_linear_solve(
    matvec: Callable,
    b: Any,
    solve: Callable,
    transpose_solve: Callable | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solves `matvec(x) = b` by a given solver; derivatives solve the same system again.

    Args:
        matvec: linear function of one pytree; what it closes over can be differentiated.
        b: the right-hand side; the solution has its structure.
        solve: `solve(matvec, b)` gives the solution. It is not differentiated.
        transpose_solve: `transpose_solve(vecmat, b)` for the transposed system, which reverse mode needs.
        symmetric: the system is its own transpose, so `solve` serves for both.
        has_aux: the solvers return `(x, aux)`.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> def half(a, b):
        ...     return lax.custom_linear_solve(lambda x: a * x, b, lambda matvec, b: b / a, symmetric=True)
        >>> float(half(2.0, 3.0)), float(xlab.grad(half)(2.0, 3.0))
        (1.5, -0.75)
    """
    check_callables(
        "custom_linear_solve",
        matvec=matvec,
        solve=solve,
        **({} if transpose_solve is None else {"transpose_solve": transpose_solve}),
    )
    flat, in_tree = args_tree(b)
    tree, avals = _tree.structure(b), [aval_of(x) for x in flat]

    def shaped(fun, role, aux=False):
        def checked(x):
            out = fun(x)
            if aux and not (isinstance(out, tuple) and len(out) == 2):
                raise ValueError(
                    f"lax.custom_linear_solve: with has_aux=True, {role} must return a pair (x, aux), got "
                    f"{type(out).__name__}"
                )
            _check_like(out[0] if aux else out, tree, avals, role)
            return out

        checked.__name__ = role
        return checked

    def solver(fun, product, role):
        return trace_body(shaped(lambda b: fun(product, b), role, has_aux), in_tree, avals)

    product = shaped(matvec, "matvec")
    matvec_jaxpr, matvec_consts, _ = trace_body(product, in_tree, avals)
    solve_jaxpr, solve_consts, out_tree = solver(solve, product, "solve")
    if symmetric:
        jaxprs = _LinearSolveTuple(matvec_jaxpr, matvec_jaxpr, solve_jaxpr, solve_jaxpr)
        consts = _LinearSolveTuple(matvec_consts, matvec_consts, solve_consts, solve_consts)
    elif transpose_solve is None:
        jaxprs = _LinearSolveTuple(matvec_jaxpr, None, solve_jaxpr, None)
        consts = _LinearSolveTuple(matvec_consts, (), solve_consts, ())
    else:

        def transposed(ct):
            primals = [*matvec_consts, *(ad.UndefinedPrimal(a) for a in avals)]
            given = ad.backward_pass(
                matvec_jaxpr.jaxpr, matvec_jaxpr.consts, primals, _tree.leaves(ct)
            )
            return _tree.unflatten(
                tree, [ad.instantiate_zeros(x) for x in given[len(matvec_consts) :]]
            )

        vecmat = shaped(transposed, "transpose of matvec")
        vecmat_jaxpr, vecmat_consts, _ = trace_body(vecmat, in_tree, avals)
        transpose_jaxpr, transpose_consts, transpose_tree = solver(
            transpose_solve, vecmat, "transpose_solve"
        )
        if transpose_tree != out_tree:
            raise ValueError(
                f"lax.custom_linear_solve: transpose_solve must return the structure of solve, {out_tree}, got "
                f"{transpose_tree}"
            )
        jaxprs = _LinearSolveTuple(matvec_jaxpr, vecmat_jaxpr, solve_jaxpr, transpose_jaxpr)
        consts = _LinearSolveTuple(matvec_consts, vecmat_consts, solve_consts, transpose_consts)
    lengths = _LinearSolveTuple(*map(len, consts))
    outs = linear_solve_p.bind(
        *(c for part in consts for c in part), *flat, const_lengths=lengths, jaxprs=jaxprs
    )
    return _tree.unflatten(out_tree, outs)


def _check_like(out, tree, avals, role):
    got_tree, got = _tree.structure(out), [aval_of(x) for x in _tree.leaves(out)]
    if [a.shape for a in got] != [a.shape for a in avals]:
        raise ValueError(
            f"{role}() output shapes must match b, got {[a.shape for a in got]} and {[a.shape for a in avals]}"
        )
    if got_tree != tree:
        raise TypeError(f"{role}() output pytree structure must match b, got {got_tree} and {tree}")


linear_solve_p = Primitive(
    "custom_linear_solve", multiple_results=True, auto_pvary=False, context_dependent=True
)


@linear_solve_p.def_effectful_abstract_eval
def _aval(*avals, const_lengths, jaxprs):
    n = sum(const_lengths)
    for a, want in zip(avals[n:], jaxprs.solve.in_avals[const_lengths.solve :]):
        if a.shape != want.shape or a.dtype != want.dtype:
            raise TypeError(f"custom_linear_solve was traced for {want}, got {describe([a])}")
    return jaxprs.solve.out_avals, _effects.join(j.effects for j in jaxprs if j is not None)


def _split(args, lengths):
    """The constants of each program, and the right-hand side."""
    parts, start = [], 0
    for n in lengths:
        parts.append(list(args[start : start + n]))
        start += n
    return _LinearSolveTuple(*parts), list(args[start:])


def _joined(parts, b):
    return [*(c for part in parts for c in part), *b]


def _jvp(primals, tangents, *, const_lengths, jaxprs):
    """`A x = b` gives `A dx = db - dA x`: one more solution of the same system."""
    outs = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, b = _split(primals, const_lengths)
    const_dots, b_dot = _split(tangents, const_lengths)
    x, aux = outs[: len(b)], outs[len(b) :]
    if not all(type(t) is ad.Zero for t in const_dots.matvec):
        matvec = jaxprs.matvec
        zeros = [ad.Zero.of(v) for v in x]
        _, moved = ad.jvp(
            lambda *xs: eval_jaxpr(matvec.jaxpr, matvec.consts, *xs),
            [*consts.matvec, *x],
            [*const_dots.matvec, *zeros],
        )
        b_dot = [
            db if type(m) is ad.Zero else ad.add_tangents(db, neg(m)) for db, m in zip(b_dot, moved)
        ]
    if all(type(t) is ad.Zero for t in b_dot):
        return outs, [ad.Zero.of(o) for o in outs]
    dots = linear_solve_p.bind(
        *_joined(consts, map(ad.instantiate_zeros, b_dot)),
        const_lengths=const_lengths,
        jaxprs=jaxprs,
    )
    return outs, [*dots[: len(b)], *map(ad.Zero.of, aux)]


def _transpose(cts, *args, const_lengths, jaxprs):
    consts, b = _split(args, const_lengths)
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of custom_linear_solve: pass "
            "transpose_solve, or symmetric=True where the system is its own transpose"
        )
    cts = [ad.instantiate_zeros(ct) for ct in cts[: len(b)]]
    outs = linear_solve_p.bind(
        *_joined(consts.transpose(), cts),
        const_lengths=const_lengths.transpose(),
        jaxprs=jaxprs.transpose(),
    )
    return [*[None] * sum(const_lengths), *outs[: len(b)]]


def _batch(axis, args, dims, *, const_lengths, jaxprs):
    args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    consts, b = _split(args, const_lengths)
    batched, b_batched = _split([d is not None for d in dims], const_lengths)
    n = len(b)
    x_batched = list(b_batched)

    def of_solver(closed, flags, instantiate):
        n_aux = len(closed.out_avals) - n
        return batching.batch_jaxpr(
            closed, axis, [*flags, *x_batched], [*instantiate, *[False] * n_aux]
        )

    def grow(found):
        return [a or f for a, f in zip(x_batched, found)]

    # Right-hand side and solution are batched together, part by part: each is the other's in the transposed system.
    while True:
        before = list(x_batched)
        for closed, flags in zip(jaxprs, batched):
            if closed is not None:
                x_batched = grow(of_solver(closed, flags, [False] * n)[1][:n])
        if x_batched == before:
            break
    new = _LinearSolveTuple(
        *(None if j is None else of_solver(j, f, x_batched)[0] for j, f in zip(jaxprs, batched))
    )
    _, out_batched = of_solver(jaxprs.solve, batched.solve, x_batched)
    b = [
        x if was or not now else batching.broadcast(x, axis.size, 0)
        for x, was, now in zip(b, b_batched, x_batched)
    ]
    outs = linear_solve_p.bind(*_joined(consts, b), const_lengths=const_lengths, jaxprs=new)
    return outs, [0 if f else None for f in out_batched]


def _lower(ctx, *args, const_lengths, jaxprs):
    consts, b = _split(args, const_lengths)
    return ctx.jaxpr(jaxprs.solve, [*consts.solve, *b])


ad.primitive_jvps[linear_solve_p] = _jvp
ad.primitive_transposes[linear_solve_p] = _transpose
batching.axis_primitive_batchers[linear_solve_p] = _batch
control_flow_rules[linear_solve_p] = lambda params: OpaqueFlow(
    tuple((name, jaxpr) for name, jaxpr in params["jaxprs"]._asdict().items() if jaxpr is not None)
)
mlir.register_text_lowering(linear_solve_p, _lower)
