"""`jet`: higher derivatives along a curve, all at once.

Example:
    >>> import xlab.numpy as jnp
    >>> y, (first, second) = jet(jnp.exp, (0.0,), ((1.0, 0.0),))
    >>> float(first), float(second)
    (1.0, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.interpreters.ad.jvp import Zero, instantiate_zeros
from xlab.interpreters.jet import jet_flat
from xlab.lax.convert import convert

__all__ = ["jet"]


def jet(
    fun: Callable, primals: Sequence, series: Sequence, factorial_scaled: bool = True, **_
) -> tuple[Any, Any]:
    """The value of a function and its derivatives along a curve.

    Args:
        fun: a function of arrays; its result may be a pytree.
        primals: where the curve is at time 0, an array per argument.
        series: for each argument a list of as many terms: the first, second, ... derivative of the curve at time 0.
        factorial_scaled: whether terms are derivatives. Otherwise they are coefficients of Taylor polynomials, derivatives divided by
            factorials, in arguments and results.

    Returns:
        The value, and for each of its arrays the list of derivatives.

    Raises:
        ValueError: where lists are not of one length, or an argument is no array.
        TypeError: where an argument holds no floats, or a term has another shape.

    Source:
        Griewank and Walther (2008), Evaluating Derivatives, chapter 13; the rule of a primitive that has no recurrence of its own
        follows from its derivative.
    """
    if len(primals) != len(series):
        raise ValueError(
            f"jet: a list of terms for each argument, got {len(primals)} arguments and {len(series)} lists"
        )
    orders = {len(terms) for terms in series}
    if len(orders) > 1:
        raise ValueError(
            f"jet terms have inconsistent lengths for different arguments: {[len(s) for s in series]}"
        )
    order = orders.pop() if orders else 0
    lists = []
    for i, (x, terms) in enumerate(zip(primals, series)):
        if not tree.structure(x) == tree.structure(0):
            raise ValueError(
                f"primal value at position {i} is not an array: close over trees, and pass their arrays"
            )
        aval = aval_of(x)
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            raise TypeError(
                f"jet: primal value at position {i} holds {aval.dtype}, and terms need floats"
            )
        for term in terms:
            if np.shape(term) != aval.shape:
                raise TypeError(
                    f"jet: a term of the argument at position {i} has shape {np.shape(term)}, the argument {aval.shape}"
                )
        scale = [math.factorial(k + 1) if factorial_scaled else 1 for k in range(order)]
        terms = [convert(term, aval.dtype, aval_of(term).weak_type) for term in terms]
        lists.append([term if s == 1 else term / s for term, s in zip(terms, scale)])
    structure = None

    def flat(*args):
        nonlocal structure
        leaves, structure = tree.flatten(fun(*args))
        return leaves

    outs, found = jet_flat(flat, primals, lists, order)
    # Recurrences have constants of their own; what was made of Python numbers alone stays as weak as they are.
    given = [v for x, terms in zip(primals, series) for v in (x, *terms)]
    weak = all(aval_of(v).weak_type for v in given)
    results = []
    for x, terms in zip(outs, found):
        if terms is None:
            terms = [instantiate_zeros(Zero.of(x)) for _ in range(order)]
        elif factorial_scaled:
            terms = [t if k == 0 else t * math.factorial(k + 1) for k, t in enumerate(terms)]
        if weak and (type_ := aval_of(x)).weak_type:
            terms = [convert(t, type_.dtype, True) for t in terms]
        results.append(list(terms))
    return tree.unflatten(structure, outs), tree.unflatten(structure, results)
