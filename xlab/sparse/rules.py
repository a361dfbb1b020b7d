"""The rules of `sparsify`: what each primitive does with sparse operands."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.primitive import all_primitives
from xlab.sparse.bcoo import BCOO
from xlab.sparse.conv import bcoo_conv_general_dilated
from xlab.sparse.dense import bcoo_todense, coordinates, todense_p
from xlab.sparse.elementwise import at_stored, bcoo_multiply_dense, bcoo_multiply_sparse
from xlab.sparse.order import (
    bcoo_sum_duplicates,
    bcoo_transpose,
    common_layout,
)
from xlab.sparse.products import bcoo_dot_general
from xlab.sparse.shape import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)
from xlab.sparse.transform import sparse_rules

_primitives = {p.name: p for p in all_primitives()}

# Linear in the stored elements; the others need each element stored once.
LINEAR = "copy neg real imag conj reduce_precision device_put optimization_barrier"
KEEP_ZEROS = "abs asin asinh atan atanh bessel_i1e cbrt ceil convert_element_type erf erf_inv expm1 floor log1p round sign sin sinh sqrt square tan tanh"
DENSE = (
    "acos acosh cos cosh eq erfc exp exp2 ge gt is_finite le lgamma log logistic lt ne not rsqrt"
)


def _unary(prim, linear):
    def rule(*mats, **params):
        mats = [
            m if linear or m.unique_indices else bcoo_sum_duplicates(m, nse=m.nse) for m in mats
        ]
        outs = prim.bind(*(m.data for m in mats), **params)
        if prim.multiple_results:
            return [m.like(o) for m, o in zip(mats, outs)]
        return mats[0].like(outs)

    return rule


for _name in (LINEAR + " " + KEEP_ZEROS).split():
    if _name in _primitives:
        sparse_rules[_primitives[_name]] = _unary(_primitives[_name], _name in LINEAR.split())
for _name in DENSE.split():
    if _name in _primitives:
        sparse_rules.excuse(_primitives[_name], "because it would result in dense output")


def _integer_pow(x, *, y):
    if y <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {y} is not implemented because it would result in dense "
            f"output. If this is your intent, use sparse.todense() to convert your arguments to dense arrays."
        )
    if not x.unique_indices:
        x = bcoo_sum_duplicates(x, nse=x.nse)
    return x.like(lax.integer_pow(x.data, y))


def _add(x, y, **_):
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        if x.shape != y.shape:
            raise NotImplementedError(
                f"addition of sparse arrays of shapes {x.shape} and {y.shape}"
            )
        x, y = common_layout(x, y)
        b = x.n_batch
        dtype = np.promote_types(x.dtype, y.dtype)
        return BCOO(
            (
                jnp.concatenate([x.data.astype(dtype), y.data.astype(dtype)], b),
                jnp.concatenate([x.indices, y.indices.astype(x.indices.dtype)], b),
            ),
            shape=x.shape,
        )
    mat, dense = (x, y) if isinstance(x, BCOO) else (y, x)
    if np.shape(dense) != mat.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the output shape is larger than "
            "Y.shape. This is to prevent silent densification of a large sparse array due to implicit broadcasting. If this "
            "is your intent, use sparse.todense() to convert your arguments."
        )
    if not mat.n_sparse:
        return dense + bcoo_todense(mat)
    return jnp.asarray(dense).at[coordinates(mat.indices)].add(mat.data, mode="drop")


def _sub(x, y):
    return _add(x, y.like(-y.data) if isinstance(y, BCOO) else -y)


def _mul(x, y):
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return bcoo_multiply_sparse(x, y)
    mat, dense = (x, y) if isinstance(x, BCOO) else (y, x)
    return mat.like(bcoo_multiply_dense(mat, dense))


def _div(x, y):
    if isinstance(y, BCOO):
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in dense output. If this is your intent, use "
            "sparse.todense() to convert your arguments to dense arrays."
        )
    return x.like(x.data / at_stored(x, jnp.asarray(y), 1, "division"))


def _reduce_sum(x, *, axes, **_):
    out = bcoo_reduce_sum(x, axes=axes)
    return out if out.shape else bcoo_todense(out)


def _broadcast_in_dim(x, *sizes, shape, broadcast_dimensions, **_):
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=broadcast_dimensions)


def _dynamic_slice(x, *starts, slice_sizes):
    if not isinstance(x, BCOO):
        raise NotImplementedError("dynamic_slice at positions that are a sparse array")
    return bcoo_dynamic_slice(x, starts, slice_sizes)


def _gather(x, indices, *, dimension_numbers, slice_sizes, **params):
    if not isinstance(x, BCOO):
        raise NotImplementedError("gather at positions that are a sparse array")
    return bcoo_gather(x, indices, dimension_numbers, slice_sizes)


def _stack(*xs, axis):
    _all_sparse("stack", xs)
    shape = xs[0].shape
    dims = [d + (d >= axis) for d in range(len(shape))]
    new = (*shape[:axis], 1, *shape[axis:])
    parts = [bcoo_broadcast_in_dim(x, shape=new, broadcast_dimensions=dims) for x in xs]
    return bcoo_concatenate(_alike(parts), dimension=axis)


def _concatenate(*xs, dimension):
    _all_sparse("concatenate", xs)
    return bcoo_concatenate(_alike(xs), dimension=dimension)


def _alike(mats):
    return common_layout(*mats) if len({(m.n_batch, m.n_dense) for m in mats}) > 1 else mats


def _all_sparse(name, xs):
    if not all(isinstance(x, BCOO) for x in xs):
        raise ValueError(
            f"{name}: expected operands to be a sequence of BCOO arrays. Got {[type(x).__name__ for x in xs]}; "
            f"sparse.todense() makes sparse ones dense, BCOO.fromdense dense ones sparse"
        )


def _split(x, *, sizes, axis):
    ends = np.cumsum(sizes)
    bounds = [[(0, n) for n in x.shape] for _ in sizes]
    for b, size, end in zip(bounds, sizes, ends):
        b[axis] = (int(end - size), int(end))
    return [
        bcoo_slice(x, start_indices=[a for a, _ in b], limit_indices=[z for _, z in b])
        for b in bounds
    ]


def _unstack(x, *, axis):
    parts = _split(x, sizes=[1] * x.shape[axis], axis=axis)
    return [bcoo_squeeze(part, dimensions=(axis,)) for part in parts]


RULES = {
    "integer_pow": _integer_pow,
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "dot_general": lambda x, y, *, dimension_numbers, preferred_element_type=None, **_: (
        bcoo_dot_general(
            x, y, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
        )
    ),
    "transpose": lambda x, *, permutation: bcoo_transpose(x, permutation=permutation),
    "reshape": lambda x, *, new_sizes, dimensions=None, **_: bcoo_reshape(
        x, new_sizes=new_sizes, dimensions=dimensions
    ),
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "unstack": _unstack,
    "reduce_sum": _reduce_sum,
    "rev": lambda x, *, dimensions: bcoo_rev(x, dimensions),
    "squeeze": lambda x, *, dimensions: bcoo_squeeze(x, dimensions=dimensions),
    "slice": lambda x, *, start_indices, limit_indices, strides=None: bcoo_slice(
        x, start_indices=start_indices, limit_indices=limit_indices, strides=strides
    ),
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "conv_general_dilated": lambda x, y, **params: bcoo_conv_general_dilated(x, y, **params),
}
for _name, _rule in RULES.items():
    if _name in _primitives:
        sparse_rules[_primitives[_name]] = _rule
sparse_rules[todense_p] = bcoo_todense
