"""`grad` and its relatives for functions of sparse arrays: derivatives by the stored elements, as sparse arrays of the same coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.sparse.bcoo import BCOO
from xlab.sparse.transform import is_sparse
from xlab.transforms import grad as _grad
from xlab.transforms import jacobian as _jacobian
from xlab.transforms.arguments import wraps


def _lifted(transform: Callable) -> Callable:
    """A transformation with `argnums` and `has_aux` for functions whose arguments may be sparse."""

    def lifted(
        fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs
    ) -> Callable:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        @wraps(fun)
        def run(*args, **kw):
            places = [n % len(args) for n in numbers]
            flat, structure = _tree.flatten([args[n] for n in places], is_leaf=is_sparse)
            stored = [x.data if is_sparse(x) else x for x in flat]

            def of_data(stored):
                leaves = [_with_data(x, d) for x, d in zip(flat, stored)]
                given = list(args)
                for n, value in zip(places, _tree.unflatten(structure, leaves)):
                    given[n] = value
                return fun(*given, **kw)

            def finish(derivatives):
                found = [_with_data(x, d) for x, d in zip(flat, derivatives)]
                found = _tree.unflatten(structure, found)
                return found[0] if isinstance(argnums, int) else tuple(found)

            return transform(of_data, has_aux, kwargs)(stored, finish)

        return run

    return lifted


def _with_data(x, data):
    """A sparse array with other stored elements; of a derivative, whose first dimensions are those of what was derived, a batch of them."""
    if not is_sparse(x):
        return data
    if not isinstance(x, BCOO):
        leaves, structure = _tree.flatten(x)
        return _tree.unflatten(structure, [data, *leaves[1:]])
    more = aval_of(data).shape[: aval_of(data).ndim - aval_of(x.data).ndim]
    if not more:
        return x.like(data)
    indices = jnp.broadcast_to(x.indices, (*more, *aval_of(x.indices).shape))
    return BCOO(
        (data, indices),
        shape=(*more, *x.shape),
        indices_sorted=x.indices_sorted,
        unique_indices=x.unique_indices,
    )


def _gradient(of_data, has_aux, kwargs):
    def run(stored, finish):
        out = _grad.grad(of_data, has_aux=has_aux, **kwargs)(stored)
        return (finish(out[0]), out[1]) if has_aux else finish(out)

    return run


def _value_and_gradient(of_data, has_aux, kwargs):
    def run(stored, finish):
        value, out = _grad.value_and_grad(of_data, has_aux=has_aux, **kwargs)(stored)
        return value, finish(out)

    return run


def _jacobian_by(which):
    def transform(of_data, has_aux, kwargs):
        def run(stored, finish):
            def leaves(stored):
                out = of_data(stored)
                out, aux = out if has_aux else (out, None)
                if any(map(is_sparse, _tree.leaves(out, is_leaf=is_sparse))):
                    raise NotImplementedError(
                        "a jacobian of a function with a sparse result: take it of the stored elements, result.data"
                    )
                flat, structure = _tree.flatten(out)
                return flat, (structure, aux)

            kept = []

            def flat_only(stored):
                flat, (structure, aux) = leaves(stored)
                kept[:] = [structure]
                return flat, aux

            found, aux = which(flat_only, has_aux=True, **kwargs)(stored)
            out = _tree.unflatten(kept[0], [finish(d) for d in found])
            return (out, aux) if has_aux else out

        return run

    return transform


value_and_grad = _lifted(_value_and_gradient)
value_and_grad.__name__ = "value_and_grad"
value_and_grad.__doc__ = (
    """A function that returns the value of `fun` and its gradient; see `grad`."""
)

grad = _lifted(_gradient)
grad.__name__ = "grad"
grad.__doc__ = """The gradient of a function of arrays and sparse arrays.

    Args:
        fun: a function with a scalar result.
        argnums: by which arguments.
        has_aux: whether `fun` returns a pair, of which the second is passed on.
        kwargs: passed to `xlab.grad`.

    Returns:
        A function. The gradient by a sparse argument is that by its stored elements, a sparse array with the same coordinates.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.experimental import sparse
        >>> A = sparse.eye(2)
        >>> sparse.grad(lambda A, x: (A @ x).sum())(A, jnp.array([3., 4.])).data.tolist()
        [3.0, 4.0]
    """
jacfwd = _lifted(_jacobian_by(_jacobian.jacfwd))
jacfwd.__name__ = "jacfwd"
jacfwd.__doc__ = """The Jacobian by the stored elements, forwards; of a sparse argument a batch of sparse arrays."""
jacrev = _lifted(_jacobian_by(_jacobian.jacrev))
jacrev.__name__ = "jacrev"
jacrev.__doc__ = """The Jacobian by the stored elements, backwards; of a sparse argument a batch of sparse arrays."""
jacobian = jacrev

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]
