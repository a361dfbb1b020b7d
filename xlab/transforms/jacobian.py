"""Whole Jacobians and Hessians: a derivative pushed or pulled along every unit vector at once, by `vmap`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlab import tree as _tree
from xlab.compile.tracing import made_of
from xlab.core import dtypes
from xlab.core.alias import alias
from xlab.core.avals import aval_of
from xlab.lax.arithmetic import add
from xlab.lax.comparison import eq
from xlab.lax.convert import convert, convert_element_type
from xlab.lax.creation import broadcasted_iota
from xlab.lax.shape import reshape
from xlab.lax.slicing import slice_in_dim
from xlab.transforms.arguments import (
    canonical_argnums,
    check_argnums,
    check_callable,
    is_single,
    split_arguments,
    wraps,
)
from xlab.transforms.jvp import jvp
from xlab.transforms.vjp import vjp
from xlab.transforms.vmap import vmap


def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """A function that returns the Jacobian of `fun`, column by column in forward mode.

    Cheaper than `jacrev` where there are fewer inputs than outputs. Every array of the output has, in its place, one
    array per differentiated argument of shape `output.shape + input.shape`.

    Args:
        fun: the function.
        argnums: which arguments to differentiate in, one number or several.
        has_aux: whether the function returns a pair, of which the second is handed through.
        holomorphic: whether it is a complex function with a complex derivative.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> print(xlab.jacfwd(lambda x: x * x)(jnp.array([1.0, 2.0])))
        [[2. 0.]
         [0. 4.]]
    """
    check_callable(fun, "jacfwd")
    check_argnums(argnums, "jacfwd")

    @made_of(fun, "jacfwd", argnums, has_aux, holomorphic)
    @wraps(fun)
    def jacobian_fun(*args, **kwargs):
        nums = canonical_argnums(argnums, len(args), "jacfwd")
        part, chosen = split_arguments(fun, args, kwargs, nums)
        leaves = _tree.leaves(chosen)
        for x in leaves:
            _require(aval_of(x), "jacfwd", "inputs", holomorphic)
        basis = _unit_vectors(chosen)

        def push(
            tangents,
        ):  # values that go through a mutable reference count as mapped, so they stay inside
            return jvp(part, chosen, tangents, has_aux=has_aux)[1:]

        columns, *aux = vmap(push, out_axes=(-1, None) if has_aux else (-1,))(basis)
        for x in _tree.leaves(columns) if holomorphic else ():
            _require(aval_of(x), "jacfwd", "outputs", holomorphic)
        single = is_single(argnums)
        jacobian = _tree.map(lambda c: _nest(_split(c, leaves, -1), chosen, single), columns)
        return (jacobian, *aux) if has_aux else jacobian

    return jacobian_fun


def jacrev(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """A function that returns the Jacobian of `fun`, row by row in reverse mode; nested as by `jacfwd`.

    Args:
        fun: the function.
        argnums: which arguments to differentiate in, one number or several.
        has_aux: whether the function returns a pair, of which the second is handed through.
        holomorphic: whether it is a complex function with a complex derivative.
        allow_int: whether integers may be differentiated in; their derivatives are of type float0.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> print(xlab.jacrev(lambda x: jnp.stack([x.sum(), x.prod()]))(jnp.array([3.0, 5.0])))
        [[1. 1.]
         [5. 3.]]
    """
    check_callable(fun, "jacrev")
    check_argnums(argnums, "jacrev")

    @made_of(fun, "jacrev", argnums, has_aux, holomorphic, allow_int)
    @wraps(fun)
    def jacobian_fun(*args, **kwargs):
        nums = canonical_argnums(argnums, len(args), "jacrev")
        part, chosen = split_arguments(fun, args, kwargs, nums)
        for x in _tree.leaves(chosen):
            _require(aval_of(x), "jacrev", "inputs", holomorphic, real=False, allow_int=allow_int)
        out, pull, *aux = vjp(part, *chosen, has_aux=has_aux)
        leaves = _tree.leaves(out)
        for x in leaves:
            _require(aval_of(x), "jacrev", "outputs", holomorphic)
        rows = vmap(pull)(_unit_vectors(out))
        single = is_single(argnums)
        # Rows are nested like the arguments and hold all outputs one after another; turn that inside out.
        per_output = zip(*(_split(r, leaves, 0) for r in _tree.leaves(rows)))
        nested = [_nest(list(given), chosen, single) for given in per_output]
        jacobian = _tree.unflatten(_tree.structure(out), nested)
        return (jacobian, *aux) if has_aux else jacobian

    return jacobian_fun


jacobian = alias(jacrev, "jacobian")


def hessian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """A function that returns the matrix of second derivatives of `fun`, forward over reverse.

    Args:
        fun: the function.
        argnums: which arguments to differentiate in, one number or several.
        has_aux: whether the function returns a pair, of which the second is handed through.
        holomorphic: whether it is a complex function with a complex derivative.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> print(xlab.hessian(lambda x: x[0] * x[0] * x[1])(jnp.array([3.0, 1.0])))
        [[2. 6.]
         [6. 0.]]
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _unit_vectors(like):
    """For every number in the leaves of `like` one tree that is 1 there and 0 elsewhere, stacked in front."""
    leaves, treedef = _tree.flatten(like)
    avals = [aval_of(x) for x in leaves]
    total, offset, out = sum(a.size for a in avals), 0, []
    for a in avals:
        row = broadcasted_iota(np.int32, (total, a.size), 0)
        column = broadcasted_iota(np.int32, (total, a.size), 1)
        ones = convert_element_type(
            eq(row, add(column, np.int32(offset)) if offset else column), a.dtype
        )
        out.append(convert(reshape(ones, (total, *a.shape)), a.dtype, a.weak_type))
        offset += a.size
    return _tree.unflatten(treedef, out)


def _split(x, leaves, axis: int) -> list:
    """Cuts the long axis of unit vectors into one piece per leaf, shaped like it."""
    shape, pieces, start = aval_of(x).shape, [], 0
    axis %= len(shape)
    whole = len(leaves) == 1
    for leaf in leaves:
        inner = aval_of(leaf).shape
        size = math.prod(inner)
        part = (
            x
            if whole
            else _float0(x, axis, size)
            if aval_of(x).dtype == dtypes.float0
            else slice_in_dim(x, start, start + size, axis=axis)
        )
        target = (*shape[:axis], *inner, *shape[axis + 1 :])
        pieces.append(
            np.zeros(target, dtypes.float0)
            if aval_of(x).dtype == dtypes.float0
            else reshape(part, target)
        )
        start += size
    return pieces


def _float0(x, axis, size):
    return np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), dtypes.float0)


def _nest(pieces, chosen, single: bool):
    nested = _tree.unflatten(_tree.structure(chosen), pieces)
    return nested[0] if single else nested


def _require(
    aval, api: str, what: str, holomorphic: bool, *, real: bool = True, allow_int: bool = False
):
    """Raises unless values of this type can be differentiated by `api`."""
    name = dtypes.name(aval.dtype)
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{api} with holomorphic=True requires {what} with complex dtype, but got {name}."
            )
    elif real and not dtypes.issubdtype(aval.dtype, np.floating):
        other = "jvp" if api == "jacfwd" else "vjp"
        raise TypeError(
            f"{api} requires real-valued {what} (a sub-dtype of np.floating), but got {name}. For a holomorphic "
            f"function pass holomorphic=True; for other complex or integer {what} use xlab.{other}."
        )
    elif not real and not allow_int and not dtypes.issubdtype(aval.dtype, np.inexact):
        raise TypeError(
            f"{api} requires real- or complex-valued {what} (a sub-dtype of np.inexact), but got {name}. For "
            f"integer {what} use xlab.vjp, or pass allow_int=True for a derivative of type float0."
        )
