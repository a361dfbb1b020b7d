"""`minimize`, the public function.

Example:
    >>> import xlab.numpy as jnp
    >>> found = minimize(lambda x: ((x - 3) ** 2).sum(), jnp.zeros(2), method="BFGS")
    >>> bool(found.success), bool(jnp.allclose(found.x, 3))
    (True, True)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from xlab import numpy as jnp
from xlab.core.typing import Array
from xlab.numpy.operands import kind_of
from xlab.scipy.optimize.quasi_newton import bfgs, lbfgs

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """What a minimization found.

    Attributes:
        x: the point.
        success: whether it converged.
        status: 0 where it converged. BFGS: 1 for too many steps, 3 where a search found nothing smaller, 5 where it found no end.
            L-BFGS: 1 for too many steps, 2 of calls, 3 of gradients, 4 for too little progress, 5 where a search failed.
        fun: the function there.
        jac: its gradient.
        hess_inv: the approximation of its inverse Hessian; None for L-BFGS.
        nfev: how often the function was called.
        njev: how often its gradient was.
        nit: how many steps were made.
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


_METHODS = {"bfgs": bfgs, "l-bfgs-experimental-do-not-rely-on-this": lbfgs}


def minimize(
    fun: Callable,
    x0: Array,
    args: tuple = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of a function of several variables, by its gradient.

    Args:
        fun: from an array of shape `(n,)`, and `args`, to a scalar.
        x0: where to start, floats of shape `(n,)`; trees are brought there by `xlab.flatten_util.ravel_pytree`.
        args: further arguments of `fun`.
        method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this" for many variables.
        tol: the norm of the gradient that counts as converged, as the option `gtol`.
        options: for both methods `maxiter`, `norm` and `gtol`. For BFGS `line_search_maxiter`; for L-BFGS `maxcor`, `ftol`,
            `maxfun`, `maxgrad` and `maxls`.

    Returns:
        `OptimizeResults`. It can be compiled and batched; a batch stops when all of it has.

    Raises:
        ValueError: for an unknown method.
        TypeError: where `args` is no tuple, `x0` no float array of rank one, or an option is unknown.

    Source:
        Nocedal and Wright (2006), Numerical Optimization, chapters 3, 6 and 7.
    """
    if not isinstance(args, tuple):
        raise TypeError(
            f"args argument to minimize must be a tuple, got {args!r}: for one argument write args=({args!r},)"
        )
    solve = _METHODS.get(str(method).lower())
    if solve is None:
        raise ValueError(
            f"Method {method} not recognized: there are 'BFGS' and 'l-bfgs-experimental-do-not-rely-on-this'"
        )
    if kind_of(x0) is None or np.ndim(x0) != 1:
        raise TypeError(
            f"minimize: x0 is an array of shape (n,), got {np.shape(x0) if kind_of(x0) else type(x0).__name__}. "
            f"xlab.flatten_util.ravel_pytree makes one of other shapes and of trees"
        )
    x0 = jnp.asarray(x0)
    if not jnp.issubdtype(x0.dtype, jnp.inexact):
        raise TypeError(f"minimize: x0 holds floats, got {x0.dtype}: write x0.astype(float)")
    given = dict(options or {})
    known = list(inspect.signature(solve).parameters)[2:]
    for name in given:
        if name not in known:
            raise TypeError(
                f"minimize: {method} has no option {name!r}, there are {', '.join(known)}"
            )
    if tol is not None:
        given.setdefault("gtol", tol)
    found = solve(lambda x: fun(x, *args), x0, **given)
    return OptimizeResults(
        x=found.x,
        success=jnp.asarray(found.status == 0, bool),
        status=found.status,
        fun=found.value,
        jac=found.slope.conj(),
        hess_inv=found.memory if solve is bfgs else None,
        nfev=found.evaluations,
        njev=found.evaluations,
        nit=found.steps,
    )
