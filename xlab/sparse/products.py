"""Products of sparse arrays: with a dense array, of dense arrays at sparse coordinates, and with one another.

A product with a sparse operand reads the other operand at the coordinates of the stored elements (a gather), multiplies, and adds what
belongs to one element of the result (a scatter, or a sum where no sparse dimension is left). The work is that of the stored elements.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.interpreters import batching
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import SparseInfo, batch_positions, columns
from xlab.sparse.bcoo import BCOO
from xlab.sparse.order import _sum_duplicates as summed
from xlab.sparse.order import (
    bcoo_update_layout,
    in_bounds,
    padding,
)
from xlab.sparse.primitive import batched_info, sparse_primitive

# -- a sparse and a dense array ----------------------------------------------------------------------------


def bcoo_dot_general(
    lhs, rhs, *, dimension_numbers, precision=None, preferred_element_type=None, out_sharding=None
):
    """`lax.dot_general` where one operand or both are sparse.

    Args:
        lhs: a BCOO or an array.
        rhs: a BCOO or an array.
        dimension_numbers: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.
        precision: has no effect: products of stored elements are those of the dtype.
        preferred_element_type: dtype of the result, that of the operands by default.
        out_sharding: has to be None.

    Returns:
        An array; a BCOO if both operands are sparse.

    Raises:
        TypeError: for dimension numbers that do not fit the shapes, and if no operand is sparse.
    """
    if out_sharding is not None:
        raise NotImplementedError("bcoo_dot_general: sparse products take no out_sharding")
    if not isinstance(lhs, BCOO) and not isinstance(rhs, BCOO):
        raise TypeError(
            "bcoo_dot_general takes a BCOO on one side at least: use lax.dot_general for arrays"
        )
    (lc, rc), (lb, rb) = numbers = normalized(dimension_numbers)
    check_dimensions("bcoo_dot_general", lhs.shape, rhs.shape, numbers)
    dtype = preferred_element_type and np.dtype(preferred_element_type)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_sparse(lhs, rhs, numbers, dtype)
    if isinstance(rhs, BCOO):
        out = bcoo_dot_general(
            rhs,
            lhs,
            dimension_numbers=((rc, lc), (rb, lb)),
            preferred_element_type=preferred_element_type,
        )
        nb = len(lb)
        r_free = rhs.ndim - len(rc) - nb
        order = (*range(nb), *range(nb + r_free, out.ndim), *range(nb, nb + r_free))
        return lax.transpose(out, order)
    data, rhs = _promoted(lhs.data, as_array(rhs))
    return bcoo_dot_general_p.bind(
        data,
        lhs.indices,
        rhs,
        dimension_numbers=numbers,
        preferred_element_type=dtype or data.dtype,
        lhs_spinfo=lhs.info,
    )


def _promoted(*xs):
    dtype = dtypes.result_type(*xs)
    return [x if x.dtype == dtype else x.astype(dtype) for x in xs]


def normalized(dimension_numbers):
    """Dimension numbers as nested tuples of Python integers."""
    return tuple(tuple(tuple(int(d) for d in dims) for dims in pair) for pair in dimension_numbers)


def check_dimensions(name: str, lhs: Sequence[int], rhs: Sequence[int], numbers) -> None:
    for what, l_dims, r_dims in zip(("contracting", "batch"), *zip(*numbers)):
        sizes = [
            [shape[d] if 0 <= d < len(shape) else None for d in dims]
            for shape, dims in ((lhs, l_dims), (rhs, r_dims))
        ]
        if len(l_dims) != len(r_dims) or None in sizes[0] + sizes[1] or sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general requires {what} dimensions to have the same shape, got {tuple(sizes[0])} and {tuple(sizes[1])}: "
                f"{name} was given operands of shapes {tuple(lhs)} and {tuple(rhs)}, and {what} dimensions {l_dims} and {r_dims}"
            )


def gathered(x, roles: Sequence, indices):
    """An array read at sparse coordinates.

    Args:
        x: the array.
        roles: of each dimension: an integer for a batch or sparse dimension of the coordinates (which of them, batch dimensions first), a
            letter for a dimension that stays.
        indices: `(*batch, nse, n_sparse)`.

    Returns:
        The values, with padding zero, and the dimensions as a string: integers became the letters `A`, `B`, ... of batch
        dimensions and `Z` of stored elements. An array of batch dimensions alone is not read, but stays.
    """
    n_batch = aval_of(indices).ndim - 2
    if not any(isinstance(r, int) and r >= n_batch for r in roles):
        return x, "".join(string.ascii_uppercase[r] if isinstance(r, int) else r for r in roles)
    at = [d for d, r in enumerate(roles) if isinstance(r, int)]
    rest = [d for d, r in enumerate(roles) if not isinstance(r, int)]
    where = (*batch_positions(aval_of(indices).shape[:-2]), *columns(indices))
    picked = lax.transpose(x, (*at, *rest)).at[tuple(where[roles[d]] for d in at)]
    values = picked.get(mode="fill", fill_value=0)
    return values, string.ascii_uppercase[:n_batch] + "Z" + "".join(roles[d] for d in rest)


def _dot(data, indices, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    (lc, rc), (lb, rb) = dimension_numbers
    n_batch, n_sparse = aval_of(indices).ndim - 2, aval_of(indices).shape[-1]
    ndim, at = len(lhs_spinfo.shape), n_batch + n_sparse
    letters = iter(string.ascii_lowercase)
    # Batch and sparse dimensions are numbers, dense ones letters.
    roles = [d if d < at else next(letters) for d in range(ndim)]
    partner = dict(zip((*rc, *rb), (*lc, *lb)))
    r_roles = [roles[partner[d]] if d in partner else next(letters) for d in range(rhs.ndim)]
    values, dims = gathered(rhs, r_roles, indices)
    out = [roles[d] for d in lb]
    out += [roles[d] for d in range(ndim) if d not in (*lc, *lb)]
    out += [r_roles[d] for d in range(rhs.ndim) if d not in partner]
    stored = string.ascii_uppercase[:n_batch] + "Z" + "".join(roles[at:])
    return scattered(
        (data, values), (stored, dims), out, indices, lhs_spinfo, preferred_element_type
    )


def scattered(operands, dims, out, indices, info, dtype):
    """The product of operands over stored elements, added up to an array with dimensions `out`, roles as in `gathered`."""
    n_batch = aval_of(indices).ndim - 2
    letter = lambda r: string.ascii_uppercase[r] if isinstance(r, int) else r
    if not any(isinstance(r, int) and r >= n_batch for r in out):
        return jnp.einsum(
            f"{','.join(dims)}->{''.join(map(letter, out))}",
            *operands,
            preferred_element_type=dtype,
        )
    tail = [r for r in out if not isinstance(r, int)]
    every = string.ascii_uppercase[:n_batch] + "Z" + "".join(tail)
    terms = jnp.einsum(f"{','.join(dims)}->{every}", *operands, preferred_element_type=dtype)
    into = [r for r in out if isinstance(r, int)]
    where = (*batch_positions(aval_of(indices).shape[:-2]), *columns(indices))
    shape = (*(info.shape[r] for r in into), *aval_of(terms).shape[n_batch + 1 :])
    rows = info.indices_sorted and not n_batch and into[0] == 0
    summed = (
        jnp.zeros(shape, terms.dtype)
        .at[tuple(where[r] for r in into)]
        .add(terms, mode="drop", indices_are_sorted=rows and len(into) == 1)
    )
    order = [*into, *tail]
    return lax.transpose(summed, tuple(order.index(r) for r in out))


def _dot_batch(operands, dims, *, dimension_numbers, lhs_spinfo, preferred_element_type):
    (data, indices, rhs), (lc, rc), (lb, rb) = operands, *dimension_numbers
    size = next(aval_of(x).shape[d] for x, d in zip(operands, dims) if d is not None)
    up = lambda ds: tuple(d + 1 for d in ds)
    if (
        dims[0] is None and dims[1] is None
    ):  # one sparse array, many dense ones: one more dimension of these
        rhs = batching.moveaxis(rhs, dims[2], aval_of(rhs).ndim - 1)
        out = bcoo_dot_general_p.bind(
            data, indices, rhs, dimension_numbers=dimension_numbers, lhs_spinfo=lhs_spinfo,
            preferred_element_type=preferred_element_type,
        )  # fmt: skip
        return out, aval_of(out).ndim - 1
    data, indices = (batching.bdim_at_front(x, d, size) for x, d in zip((data, indices), dims))
    info = lhs_spinfo._replace(shape=(size, *lhs_spinfo.shape))
    if dims[2] is None:  # a free dimension of the sparse array
        numbers, at = ((up(lc), rc), (up(lb), rb)), len(lb)
    else:
        rhs = batching.moveaxis(rhs, dims[2], 0)
        numbers, at = ((up(lc), up(rc)), ((0, *up(lb)), (0, *up(rb)))), 0
    out = bcoo_dot_general_p.bind(
        data, indices, rhs, dimension_numbers=numbers, lhs_spinfo=info,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip
    return out, at


bcoo_dot_general_p = sparse_primitive(
    "bcoo_dot_general", _dot, linear=(0, 2), batch=lambda params, size: params
)
batching.primitive_batchers[bcoo_dot_general_p] = _dot_batch


# -- dense arrays at sparse coordinates --------------------------------------------------------------------


def bcoo_dot_general_sampled(A, B, indices, *, dimension_numbers):
    """The elements of `lax.dot_general(A, B, dimension_numbers)` at sparse coordinates, and no others.

    Args:
        A: an array.
        B: an array.
        indices: `(*batch, nse, n_sparse)`, coordinates in the result.
        dimension_numbers: as of `lax.dot_general`.

    Returns:
        An array of shape `(*batch, nse, *dense)`.
    """
    A, B = _promoted(as_array(A), as_array(B))
    numbers = normalized(dimension_numbers)
    check_dimensions("bcoo_dot_general_sampled", A.shape, B.shape, numbers)
    return bcoo_dot_general_sampled_p.bind(A, B, as_array(indices), dimension_numbers=numbers)


def _sampled(A, B, indices, *, dimension_numbers):
    (ac, bc), (ab, bb) = dimension_numbers
    n_batch, n_sparse = aval_of(indices).ndim - 2, aval_of(indices).shape[-1]
    letters = iter(string.ascii_lowercase)
    a_free = [d for d in range(A.ndim) if d not in (*ac, *ab)]
    b_free = [d for d in range(B.ndim) if d not in (*bc, *bb)]
    n_out = len(ab) + len(a_free) + len(b_free)
    roles = [d if d < n_batch + n_sparse else next(letters) for d in range(n_out)]
    shared = [next(letters) for _ in ac]
    a_roles = dict(zip((*ab, *a_free, *ac), (*roles[: len(ab) + len(a_free)], *shared)))
    b_roles = dict(
        zip((*bb, *b_free, *bc), (*roles[: len(bb)], *roles[len(ab) + len(a_free) :], *shared))
    )
    (a, a_dims), (b, b_dims) = (
        gathered(x, [r[d] for d in range(x.ndim)], indices) for x, r in ((A, a_roles), (B, b_roles))
    )
    out = string.ascii_uppercase[:n_batch] + "Z" + "".join(roles[n_batch + n_sparse :])
    if "Z" not in a_dims + b_dims:  # no sparse dimension
        one = jnp.ones(aval_of(indices).shape[-2], a.dtype)
        return jnp.einsum(f"{a_dims},{b_dims},Z->{out}", a, b, one)
    return jnp.einsum(f"{a_dims},{b_dims}->{out}", a, b)


def _sampled_batch(params, size):
    (ac, bc), (ab, bb) = params["dimension_numbers"]
    up = lambda ds: tuple(d + 1 for d in ds)
    return {"dimension_numbers": ((up(ac), up(bc)), ((0, *up(ab)), (0, *up(bb))))}


bcoo_dot_general_sampled_p = sparse_primitive(
    "bcoo_dot_general_sampled", _sampled, linear=(0, 1), batch=_sampled_batch
)


# -- two sparse arrays -------------------------------------------------------------------------------------


def _sparse_sparse(lhs: BCOO, rhs: BCOO, numbers, dtype) -> BCOO:
    (lc, rc), (lb, rb) = numbers
    # Batch dimensions of the product are those of both layouts; everything else is sparse.
    lead = tuple(range(len(lb)))
    if lb != lead or rb != lead or min(lhs.n_batch, rhs.n_batch) < len(lb):
        raise NotImplementedError(
            f"bcoo_dot_general of two sparse arrays: batch dimensions {lb} and {rb} must be the first dimensions of both, and "
            f"batch dimensions of their layouts (n_batch is {lhs.n_batch} and {rhs.n_batch})"
        )
    lhs, rhs = (bcoo_update_layout(m, n_batch=len(lb), n_dense=0) for m in (lhs, rhs))
    ldata, rdata = _promoted(lhs.data, rhs.data)
    data, indices = bcoo_spdot_general_p.bind(
        ldata,
        lhs.indices,
        rdata,
        rhs.indices,
        dimension_numbers=numbers,
        lhs_spinfo=lhs.info,
        rhs_spinfo=rhs.info,
        preferred_element_type=dtype or ldata.dtype,
    )
    free = lambda m, *used: [
        n for d, n in enumerate(m.shape) if d not in {d for u in used for d in u}
    ]
    return BCOO(
        (data, indices), shape=(*lhs.shape[: len(lb)], *free(lhs, lc, lb), *free(rhs, rc, rb))
    )


def _spdot(
    ldata, lidx, rdata, ridx, *, dimension_numbers, lhs_spinfo, rhs_spinfo, preferred_element_type
):
    (lc, rc), (lb, _) = dimension_numbers
    nb = len(lb)
    batch = lhs_spinfo.shape[:nb]
    l_free = [d for d in range(nb, len(lhs_spinfo.shape)) if d not in lc]
    r_free = [d for d in range(nb, len(rhs_spinfo.shape)) if d not in rc]
    sizes = [lhs_spinfo.shape[d] for d in l_free] + [rhs_spinfo.shape[d] for d in r_free]
    pairs = (*batch, lidx.shape[-2], ridx.shape[-2])
    meet = (
        in_bounds(lidx, lhs_spinfo.shape)[..., :, None]
        & in_bounds(ridx, rhs_spinfo.shape)[..., None, :]
    )
    for a, b in zip(lc, rc):
        meet = meet & (lidx[..., :, None, a - nb] == ridx[..., None, :, b - nb])
    product = (
        ldata.astype(preferred_element_type)[..., :, None]
        * rdata.astype(preferred_element_type)[..., None, :]
    )
    data = jnp.where(meet, product, jnp.zeros((), product.dtype)).reshape(*batch, -1)
    cols = [jnp.broadcast_to(lidx[..., :, None, d - nb], pairs) for d in l_free]
    cols += [jnp.broadcast_to(ridx[..., None, :, d - nb], pairs) for d in r_free]
    nse = pairs[-1] * pairs[-2]
    dtype = np.promote_types(lidx.dtype, ridx.dtype)
    out = padding(sizes, dtype)
    indices = (
        jnp.where(meet[..., None], jnp.stack(cols, -1), out).reshape(*batch, nse, len(sizes))
        if cols
        else jnp.zeros((*batch, nse, 0), dtype)
    )
    if nse > math.prod(sizes):
        info = SparseInfo((*batch, *sizes))
        return summed(data, indices, spinfo=info, nse=math.prod(sizes))
    return data, indices


def _spdot_batch(params, size):
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    up = lambda ds: tuple(d + 1 for d in ds)
    numbers = ((up(lc), up(rc)), ((0, *up(lb)), (0, *up(rb))))
    return batched_info("lhs_spinfo", "rhs_spinfo")(params, size) | {"dimension_numbers": numbers}


bcoo_spdot_general_p = sparse_primitive(
    "bcoo_spdot_general", _spdot, results=True, linear=(0, 2), batch=_spdot_batch
)
