"""`custom_root`: a zero of a function, differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.trace import state
from xlab.interpreters import ad
from xlab.lax.arithmetic import neg
from xlab.lax.control.common import args_tree, check_callables, trace_body
from xlab.lax.control.custom_jvp_call import custom_jvp_call_p


def custom_root(
    f: Callable, initial_guess: Any, solve: Callable, tangent_solve: Callable, has_aux: bool = False
) -> Any:
    """Finds `x` with `f(x) = 0` by a given solver; derivatives come from `f` at the solution.

    Args:
        f: function of one pytree that returns the same structure; what it closes over can be differentiated.
        initial_guess: where the solver starts; the solution has its structure.
        solve: `solve(f, initial_guess)` gives the solution. It is not differentiated.
        tangent_solve: `tangent_solve(g, y)` solves `g(x) = y` for the linear `g`.
        has_aux: `solve` returns `(solution, aux)`.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> def newton(f, x):
        ...     return lax.fori_loop(0, 20, lambda i, x: x - f(x) / xlab.grad(f)(x), x)
        >>> def sqrt(a):
        ...     return lax.custom_root(lambda x: x * x - a, a, newton, lambda g, y: y / g(1.0))
        >>> float(sqrt(4.0)), float(xlab.grad(sqrt)(4.0))
        (2.0, 0.25)
    """
    check_callables("custom_root", f=f, solve=solve, tangent_solve=tangent_solve)
    flat, in_tree = args_tree(initial_guess)
    tree, avals = _tree.structure(initial_guess), [aval_of(x) for x in flat]

    def check(got, role):
        if got != tree:
            raise TypeError(
                f"{role}() output pytree structure must match initial_guess, got {got} and {tree}."
            )

    f_jaxpr, f_consts, f_tree = trace_body(f, in_tree, avals)
    check(f_tree, "f")
    solve_jaxpr, solve_consts, out_tree = trace_body(lambda x: solve(f, x), in_tree, avals)
    if has_aux:
        children = out_tree.children()
        if len(children) != 2:
            raise TypeError(
                f"lax.custom_root: with has_aux=True, solve must return a pair (solution, aux), got {out_tree}"
            )
        check(children[0], "solve")
    else:
        check(out_tree, "solve")

    def linear_solve(x, y):
        point = _tree.leaves(x)
        _, _, jaxpr, consts = ad.linearize(
            lambda *xs: _tree.leaves(f(_tree.unflatten(tree, xs))), point, "f"
        )

        def g(t):
            return _tree.unflatten(tree, eval_jaxpr(jaxpr, consts, *_tree.leaves(t)))

        out = tangent_solve(g, y)
        check(_tree.structure(out), "tangent_solve")
        return out

    pair, pair_tree = args_tree(initial_guess, initial_guess)
    linear_jaxpr, linear_consts, _ = trace_body(linear_solve, pair_tree, [aval_of(x) for x in pair])

    n, n_f = len(flat), len(f_consts)
    start = n_f + len(linear_consts)

    def _custom_root(*args):
        return eval_jaxpr(solve_jaxpr.jaxpr, solve_jaxpr.consts, *args[start:])

    def _root_jvp(*values):
        primals, tangents = values[: len(values) // 2], values[len(values) // 2 :]
        outs = state.trace.process_custom_jvp(
            custom_jvp_call_p, _custom_root, _root_jvp, primals, params
        )
        x, aux = outs[:n], outs[n:]
        # f(a, x(a)) = 0 gives df/dx dx = -df/da da.
        _, moved = ad.jvp(
            lambda *xs: eval_jaxpr(f_jaxpr.jaxpr, f_jaxpr.consts, *xs),
            [*primals[:n_f], *x],
            [*tangents[:n_f], *(ad.Zero.of(v) for v in x)],
        )
        if all(type(m) is ad.Zero for m in moved):
            return [*outs, *(ad.instantiate_zeros(ad.Zero.of(o)) for o in outs)]
        dx = eval_jaxpr(
            linear_jaxpr.jaxpr,
            linear_jaxpr.consts,
            *primals[n_f:start],
            *x,
            *map(ad.instantiate_zeros, moved),
        )
        return [*outs, *map(neg, dx), *(ad.instantiate_zeros(ad.Zero.of(a)) for a in aux)]

    params = {"name": "_custom_root", "num_consts": 0, "symbolic_zeros": False}
    outs = state.trace.process_custom_jvp(
        custom_jvp_call_p,
        _custom_root,
        _root_jvp,
        [*f_consts, *linear_consts, *solve_consts, *flat],
        params,
    )
    return _tree.unflatten(out_tree, outs)
