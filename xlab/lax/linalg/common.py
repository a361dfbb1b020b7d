"""Shared by decompositions: declaring a primitive on stacks of matrices, calling LAPACK, and products.

Leading dimensions are batch dimensions, and every call takes them as they are: the loop over matrices is in native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlab.backend import lapack
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import described, sharding_rules
from xlab.errors import MissingRule, ShardingTypeError
from xlab.interpreters import ad, batching, mlir
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import add, div
from xlab.lax.comparison import eq, ge, select
from xlab.lax.complexes import conj
from xlab.lax.control.loops import fori_loop
from xlab.lax.convert import convert
from xlab.lax.creation import broadcasted_iota, full_like
from xlab.lax.dot import dot_general
from xlab.lax.precision import Precision
from xlab.lax.reductions import reduce_sum
from xlab.lax.shape import broadcast_in_dim, transpose
from xlab.sharding.typed import entries

INT32 = np.dtype(np.int32)


# -- declaring a primitive --------------------------------------------------------------------------------


def define(
    name: str,
    rule: Callable,
    ranks: Sequence[int],
    *,
    multiple_results: bool = False,
    accepts: Callable = _e.inexact,
    no_derivative: str | None = None,
) -> Primitive:
    """A primitive on arrays whose last dimensions are matrices or vectors, the others a batch common to all operands.

    Args:
        rule: `(*shapes, dtype=, **params)`, on shapes without batch, gives the shape of the result, or a list of
            `(shape, dtype)` where there are several.
        ranks: how many dimensions of each operand are its own.
        no_derivative: the reason why there is none, if so.
    """
    prim = Primitive(name, multiple_results=multiple_results)

    @prim.def_abstract_eval
    def abstract(*avals, **params):
        for i, (a, r) in enumerate(zip(avals, ranks)):
            if a.ndim < r:
                raise TypeError(
                    f"Input {i} to {name} must have rank at least {r}, but got shape={a.shape}"
                )
        _e.check_dtypes(name, avals, accepts)
        batches = [a.shape[: a.ndim - r] for a, r in zip(avals, ranks)]
        if any(b != batches[0] for b in batches):
            raise TypeError(
                f"All inputs to {name} must have the same batch dimensions, but got {batches} of inputs with "
                f"shapes {[a.shape for a in avals]}"
            )
        out = rule(
            *(a.shape[a.ndim - r :] for a, r in zip(avals, ranks)), dtype=avals[0].dtype, **params
        )
        weak = all(a.weak_type for a in avals)
        if multiple_results:
            return [ShapedArray((*batches[0], *shape), dtype, weak) for shape, dtype in out]
        return ShapedArray((*batches[0], *out), avals[0].dtype, weak)

    def batch(xs, dims, **params):
        out = prim.bind(*move_batch_to_front(xs, dims), **params)
        return out, [0] * len(out) if multiple_results else 0

    sharding_rules[prim] = sharding_in_types.batched_matrices(name, ranks)

    def sharding_rule(ins, outs, **_):
        """Batch dimensions keep how they are sharded; matrices must be whole."""
        batch = [()] * (ins[0].ndim - ranks[0])
        for a in ins:
            for d, axes in enumerate(entries(a)):
                if not axes or (d < len(batch) and batch[d] == axes):
                    continue
                if d >= len(batch) or batch[d]:
                    raise ShardingTypeError(
                        f"{name} got operands of types {described(ins)}: it works on whole matrices, in batches sharded "
                        f"alike. Bring them to one piece with xlab.reshard."
                    )
                batch[d] = axes
        return [[*batch, *[()] * (o.ndim - len(batch))] for o in outs]

    batching.primitive_batchers[prim] = batch
    sharding_rules[prim] = sharding_rule
    if no_derivative:
        ad.not_differentiable(prim, no_derivative)
    return prim


def move_batch_to_front(xs, dims):
    """Operands with the batch dimension in front, repeated where there was none."""
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    return [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims)]


def square(name: str, shape) -> int:
    """The number of rows of a square matrix."""
    rows, columns = shape
    if rows != columns:
        raise ValueError(f"The input to {name} must be a square matrix. Got shape {shape}.")
    return rows


def complex_of(dtype):
    """The complex dtype with parts of a dtype's precision."""
    return np.dtype(np.complex64 if dtype in (np.float32, np.complex64) else np.complex128)


real_of = _e.real_part_dtype


# -- calling LAPACK -----------------------------------------------------------------------------------------

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def in_lapack(dtype) -> bool:
    """Whether LAPACK computes in a dtype."""
    return dtype.name in _LETTERS


def char(letter: str) -> str:
    """A letter as LAPACK's calls take it."""
    return f"{ord(letter)} : ui8"


def call(
    ctx,
    name: str,
    operands: Sequence[str],
    avals,
    results,
    batch: int,
    config: str = "",
    aliases=(),
) -> list[str]:
    """Emits a call of `lapack_<letter of the dtype><name>_ffi`; returns the names of its results.

    Args:
        name: of LAPACK's function, or the whole name of a call for all dtypes.
        operands, avals: names and types of the operands.
        results: types of the results.
        batch: how many leading dimensions are batch dimensions, in operands and results.
        config: attributes of the call.
        aliases: pairs (result, operand) that share a buffer.
    """
    if ctx.platform != "cpu":
        raise MissingRule(
            f"MLIR translation rule for primitive '{ctx.eqn.primitive.name}' not found for platform {ctx.platform}: it calls "
            f"LAPACK, which computes on CPUs. Of linear algebra cholesky and triangular_solve are lowered for other platforms."
        )
    lapack.ready()
    letter = _LETTERS.get(avals[0].dtype.name)
    if letter is None:
        raise NotImplementedError(
            f"Unsupported dtype {dtypes.name(avals[0].dtype)}: LAPACK computes in float32, float64, complex64 and complex128; "
            f"convert with .astype first"
        )
    alias = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if len(results) > 1 else ''}], operand_index = {i}, "
        f"operand_tuple_indices = []>"
        for out, i in aliases
    )
    extra = [
        f'mhlo.frontend_attributes = {{num_batch_dims = "{batch}"}}',
        f"operand_layouts = [{', '.join(_layout(a, batch) for a in avals)}]",
        f"result_layouts = [{', '.join(_layout(a, batch) for a in results)}]",
        f"output_operand_aliases = [{alias}]",
        f"sdy.sharding_rule = {_sharding_rule(avals, results, batch)}",
    ]
    target = name if name.endswith("_ffi") else f"lapack_{letter}{name}_ffi"
    return mlir.custom_call(
        ctx,
        target,
        operands,
        [mlir.tensor_type(a) for a in avals],
        [mlir.tensor_type(a) for a in results],
        config=config,
        extra=", ".join(extra),
    )


def _layout(aval, batch: int) -> str:
    """Matrices by columns, one after the other."""
    own = list(range(batch, aval.ndim))
    order = [*own, *reversed(range(batch))]
    return f"dense<{order if order else ''}> : tensor<{len(order)}xindex>"


def _sharding_rule(avals, results, batch: int) -> str:
    """What the partitioner may split: batch dimensions, alike everywhere."""
    sizes: list[int] = list(avals[0].shape[:batch])

    def factors(aval):
        first = len(sizes)
        sizes.extend(aval.shape[batch:])
        return "[" + ", ".join(map(_factor, [*range(batch), *range(first, len(sizes))])) + "]"

    taken, given = (", ".join(map(factors, group)) for group in (avals, results))
    listed = ", ".join(f"{_factor(i)}={n}" for i, n in enumerate(sizes))
    return f"#sdy.op_sharding_rule<({taken})->({given}) {{{listed}}}, custom>"


def _factor(i: int) -> str:
    return "ijklmnopqrstuvwxyz"[i] if i < 18 else f"z_{i - 17}"


def lapack_ok(ctx, info: str, batch: Sequence[int], direction: str = "EQ") -> str:
    """Whether each matrix was decomposed: `info` compared with zero."""
    aval = ShapedArray(batch, INT32)
    t, zero = mlir.tensor_type(aval), ctx.fill(0, aval)
    return ctx.op(
        f"stablehlo.compare {direction}, {info}, {zero}, SIGNED : ({t}, {t}) -> "
        f"{mlir.tensor_type(aval.update(dtype=np.dtype(bool)))}"
    )


def nan_unless(ctx, ok: str, batch: Sequence[int], x: str, aval) -> str:
    """The result where its matrix was decomposed, NaN elsewhere."""
    truth = aval.update(dtype=np.dtype(bool))
    ok = ctx.broadcast(ok, ShapedArray(batch, np.dtype(bool)), truth, range(len(batch)))
    nan = ctx.fill(complex(np.nan, np.nan) if aval.dtype.kind == "c" else np.nan, aval)
    return ctx.op(
        f"stablehlo.select {ok}, {x}, {nan} : {mlir.tensor_type(truth)}, {mlir.tensor_type(aval)}"
    )


def zeros(ctx, aval) -> str:
    return ctx.fill(0, aval)


def identity(ctx, aval) -> str:
    """A stack of matrices with ones on the diagonal."""
    positions, truth = (mlir.tensor_type(aval.update(dtype=np.dtype(d))) for d in (np.int32, bool))
    i, j = (ctx.op(f"stablehlo.iota dim = {aval.ndim - back} : {positions}") for back in (2, 1))
    same = ctx.op(f"stablehlo.compare EQ, {i}, {j}, SIGNED : ({positions}, {positions}) -> {truth}")
    return ctx.op(f"stablehlo.convert {same} : ({truth}) -> {mlir.tensor_type(aval)}")


def lower_rule(ctx, rule: Callable, names: Sequence[str], avals, **params) -> list[str]:
    """Applies another lowering rule to values of this one."""
    saved, ctx.avals_in = ctx.avals_in, list(avals)
    try:
        return rule(ctx, *names, **params)
    finally:
        ctx.avals_in = saved


def repeat(n: int, body: Callable, init):
    """`value = body(i, value)` for each i below n, an int32 whatever the default integers are."""
    return fori_loop(0, n, lambda i, value: body(convert(i, INT32), value), init)


# -- products and parts of matrices -----------------------------------------------------------------------


def matrix_transpose(x):
    """Each matrix transposed."""
    n = aval_of(x).ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def adjoint(x):
    """Each matrix transposed and conjugated."""
    return conjugate(matrix_transpose(x))


def conjugate(x):
    return conj(x) if _e.complexes(aval_of(x).dtype) else x


def product(a, b):
    """Products of matrices in full precision."""
    n = aval_of(a).ndim
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision=Precision.HIGHEST)


def eye(n: int, dtype, m: int | None = None):
    """The identity matrix."""
    return convert(_band_equal((n, n if m is None else m)), dtype)


def _band_equal(shape):
    return eq(
        add(broadcasted_iota(INT32, shape, 0), INT32.type(0)), broadcasted_iota(INT32, shape, 1)
    )


def _below(shape, k: int):
    return ge(
        add(broadcasted_iota(INT32, shape, 0), INT32.type(k)), broadcasted_iota(INT32, shape, 1)
    )


def _over_batch(mask, x):
    """A mask of one matrix for all matrices of x, cut as they are."""
    aval = aval_of(x)
    return (
        mask
        if aval.ndim == 2
        else broadcast_in_dim(
            mask, aval.shape, (aval.ndim - 2, aval.ndim - 1), out_sharding=aval.explicit_sharding
        )
    )


def stacked(x, batch):
    """One matrix repeated over batch dimensions."""
    return (
        broadcast_in_dim(x, (*batch, *aval_of(x).shape), (len(batch), len(batch) + 1))
        if batch
        else x
    )


def tril(x, k: int = 0):
    """The part of each matrix on and below its k-th diagonal."""
    shape = aval_of(x).shape
    return select(_over_batch(_below(shape[-2:], k), x), x, _nothing(x))


def triu(x, k: int = 0):
    """The part of each matrix on and above its k-th diagonal."""
    shape = aval_of(x).shape
    return select(_over_batch(_below(shape[-2:], k - 1), x), _nothing(x), x)


def _nothing(x):
    """Zeros like x, weak where it is."""
    aval = aval_of(x)
    return broadcast_in_dim(
        _e.scalar_like(0, aval), aval.shape, (), out_sharding=aval.explicit_sharding
    )


def diagonal(x):
    """The diagonal of each matrix."""
    shape = aval_of(x).shape
    kept = select(_over_batch(_band_equal(shape[-2:]), x), x, full_like(x, 0))
    return reduce_sum(kept, (len(shape) - 2 if shape[-2] >= shape[-1] else len(shape) - 1,))


def broadcast_over_columns(v, shape):
    """A stack of vectors as one row of each matrix, repeated to a shape."""
    n = len(shape)
    return broadcast_in_dim(v, shape, (*range(n - 2), n - 1))


def broadcast_over_rows(v, shape):
    """A stack of vectors as one column of each matrix, repeated to a shape."""
    return broadcast_in_dim(v, shape, tuple(range(len(shape) - 1)))


def symmetrize(x):
    """The mean of each matrix and its conjugate transpose."""
    return div(add(x, adjoint(x)), _e.scalar_like(2, aval_of(x)))
