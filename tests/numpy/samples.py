"""Samples of `numpy`: what a transformer uses, and the basics around it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.reference.data import BF16, EDGES, bools, complexes, floats, ints
from tests.reference.sample import VALUE, WHOLE, Sample

X, Y, V, I = floats(3, 4), floats(3, 4), floats(4), ints(3, 4)


def call(name, **options):
    return lambda n, *args: getattr(n.jnp, name)(*args, **options)


REDUCTIONS = [
    *(Sample(f"{name}{suffix}", call(name, **options), [X])
      for name in ("sum", "mean", "var", "std", "max", "min", "prod")
      for suffix, options in (("", {}), ("_axis", {"axis": 1}), ("_axes", {"axis": (0, -1)}),
                              ("_keepdims", {"axis": 0, "keepdims": True}))),
    *(Sample(f"{name}_int", call(name), [I], WHOLE) for name in ("sum", "mean", "max", "min", "prod", "var")),
    *(Sample(f"{name}_bool", call(name, axis=0), [bools(3, 4)], WHOLE) for name in ("sum", "mean", "any", "all")),
    *(Sample(f"{name}_bfloat16", call(name, axis=1), [floats(3, 4, dtype=BF16)], WHOLE) for name in ("sum", "mean", "max")),
    *(Sample(name, call(name, axis=-1), [X], WHOLE) for name in ("argmax", "argmin")),
    *(Sample(name, call(name, axis=1), [floats(3, 4, low=0.5)]) for name in ("cumsum", "cumprod")),
    Sample("var_ddof", call("var", axis=0, ddof=1), [X]),
    Sample("sum_where", lambda n, x, m: n.jnp.sum(x, where=m), [X, bools(3, 4)]),
    Sample("sum_dtype", call("sum", dtype=np.float16), [X], WHOLE),
    Sample("median", call("median", axis=1), [X], WHOLE),
    Sample("count_nonzero", call("count_nonzero"), [I], WHOLE),
    Sample("linalg_norm", lambda n, x: n.jnp.linalg.norm(x, axis=1), [X]),
    Sample("logsumexp", lambda n, x: n.jax.nn.logsumexp(x, axis=1), [X]),
    Sample("logaddexp", call("logaddexp"), [X, Y]),
    Sample("average", lambda n, x, w: n.jnp.average(x, axis=1, weights=w), [X, floats(4, low=0.5)]),
]

ELEMENTWISE = [
    *(Sample(name, call(name), [X]) for name in ("sin", "exp", "tanh", "square", "negative", "abs")),
    *(Sample(name, call(name), [floats(3, low=0.3)]) for name in ("sqrt", "log", "log2", "log1p", "reciprocal")),
    *(Sample(f"{name}_int", call(name), [I], WHOLE) for name in ("sin", "sqrt", "square", "sign", "abs")),
    *(Sample(name, call(name), [X, Y]) for name in ("add", "subtract", "multiply", "maximum", "minimum", "divide")),
    *(Sample(f"{name}_promotes", call(name), [I, V]) for name in ("add", "multiply", "maximum")),
    *(Sample(f"{name}_int", call(name), [I, ints(3, 4, low=1)], WHOLE)
      for name in ("floor_divide", "remainder", "true_divide", "power", "bitwise_and", "equal", "less")),
    Sample("floor_divide", call("floor_divide"), [X, Y], WHOLE),
    Sample("mod", call("mod"), [X, Y], WHOLE),
    Sample("power", call("power"), [floats(3, low=0.5), floats(3)]),
    Sample("power_static", lambda n, x: x ** 3 + x ** -1 + x ** 0.5, [floats(3, low=0.5)]),
    Sample("clip", call("clip"), [X, -1.0, 1.0], ("eager", "jit", "grad")),
    Sample("where", call("where"), [bools(3, 4), X, V]),
    Sample("where_weak", lambda n, m, x: n.jnp.where(m, x, 0.0), [bools(3, 4), X]),
    Sample("where_nan", lambda n, x: n.jnp.where(n.jnp.isnan(x), 0.0, x), [EDGES], WHOLE),
    *(Sample(name, call(name), [EDGES], WHOLE) for name in ("isnan", "isinf", "isfinite", "sign", "round", "nan_to_num")),
    Sample("logical", lambda n, a, b: (n.jnp.logical_and(a, b), n.jnp.logical_or(a, b), n.jnp.logical_not(a)),
           [bools(4), bools(4)], WHOLE),
    Sample("operators", lambda n, x, y: (x + y, x - y, x * y, x / (y + 5), -x, abs(x), x @ y.T), [X, Y]),
    Sample("reflected", lambda n, x: (1 + x, 2.0 - x, 3 * x, 1 / (x + 5), 2.0 ** x), [X]),
    Sample("comparisons", lambda n, x, y: (x < y, x <= y, x > 0, x >= 0, x == y, x != y), [X, Y], WHOLE),
    Sample("int_operators", lambda n, x, y: (x // y, x % y, x & y, x | y, x ^ y, ~x, x << 1, x >> 1, x / y),
           [I, ints(3, 4, low=1)], WHOLE),
    Sample("bf16_with_float", lambda n, x, y: x + y, [floats(4, dtype=BF16), floats(4)], smooth=False),
    Sample("bf16_with_python", lambda n, x: x * 2.0 + 1, [floats(4, dtype=BF16)], WHOLE),
    Sample("isclose", call("isclose"), [X, X + 1e-9], WHOLE),
]

SHAPES = [
    Sample("reshape", call("reshape", shape=(2, -1)), [X]),
    Sample("ravel", call("ravel"), [X]),
    Sample("transpose", call("transpose"), [X]),
    Sample("transpose_axes", lambda n, x: n.jnp.transpose(x, (0, 2, 1)), [floats(2, 3, 4)]),
    Sample("swapaxes", lambda n, x: n.jnp.swapaxes(x, 0, 1), [X]),
    Sample("moveaxis", lambda n, x: n.jnp.moveaxis(x, 0, -1), [floats(2, 3, 4)]),
    Sample("expand_dims", lambda n, x: n.jnp.expand_dims(x, (0, 2)), [X]),
    Sample("squeeze", call("squeeze"), [floats(1, 3, 1)]),
    Sample("broadcast_to", lambda n, x: n.jnp.broadcast_to(x, (2, 3, 4)), [X]),
    Sample("stack", lambda n, x, y: n.jnp.stack([x, y], axis=1), [X, Y]),
    Sample("concatenate", lambda n, x, y: n.jnp.concatenate([x, y], axis=-1), [X, Y]),
    Sample("concatenate_promotes", lambda n, x, y: n.jnp.concatenate([x, y]), [V, ints(3)]),
    Sample("hstack", lambda n, x, y: n.jnp.hstack([x, y]), [X, Y]),
    Sample("vstack", lambda n, x, y: n.jnp.vstack([x, y]), [X, V]),
    Sample("split", lambda n, x: n.jnp.split(x, 2, axis=1), [X]),
    Sample("split_at", lambda n, x: n.jnp.split(x, (1, 3), axis=1), [X]),
    Sample("tile", lambda n, x: n.jnp.tile(x, (2, 1)), [X]),
    Sample("repeat", lambda n, x: n.jnp.repeat(x, 2, axis=1), [X]),
    Sample("flip", lambda n, x: n.jnp.flip(x, 0), [X]),
    Sample("roll", lambda n, x: n.jnp.roll(x, 2, axis=1), [X]),
    Sample("pad", lambda n, x: n.jnp.pad(x, ((1, 0), (0, 2))), [X]),
    Sample("tril", call("tril"), [X]),
    Sample("triu", call("triu", k=1), [X]),
    Sample("diag", call("diag"), [V]),
    Sample("take", lambda n, x, i: n.jnp.take(x, i, axis=0), [X, ints(2, 2, low=0, high=3)]),
    Sample("take_out_of_bounds", lambda n, x: n.jnp.take(x, np.array([0, 9]), axis=0), [X], WHOLE),
    Sample("take_along_axis", lambda n, x, i: n.jnp.take_along_axis(x, i, axis=1), [X, ints(3, 1, low=0, high=4)]),
    Sample("astype", lambda n, x: x.astype(n.jnp.bfloat16), [X], WHOLE),
    Sample("methods", lambda n, x: (n.jnp.asarray(x).sum(0), n.jnp.asarray(x).mean(), n.jnp.asarray(x).T,
                                    n.jnp.asarray(x).reshape(-1), n.jnp.asarray(x).max(axis=1)), [X]),
    Sample("sort", call("sort", axis=0), [X]),
    Sample("searchsorted", call("searchsorted"), [np.float32([1, 2, 3, 4]), floats(5)], VALUE),
    Sample("unique_size", lambda n, x: n.jnp.unique(x, size=4), [ints(6, low=0, high=4)], VALUE),
    Sample("meshgrid", lambda n, x, y: n.jnp.meshgrid(x, y), [floats(2), floats(3)]),
]

CREATION = [
    *(Sample(name, lambda n, f=f: f(n.jnp), [], VALUE) for name, f in {
        "zeros": lambda jnp: jnp.zeros((2, 3)),
        "ones_int": lambda jnp: jnp.ones(3, int),
        "full": lambda jnp: jnp.full((2,), 7),
        "full_float": lambda jnp: jnp.full((2,), 7.0),
        "arange": lambda jnp: jnp.arange(5),
        "arange_float": lambda jnp: jnp.arange(1.0, 3.0, 0.5),
        "arange_step": lambda jnp: jnp.arange(10, 0, -3),
        "arange_dtype": lambda jnp: jnp.arange(4, dtype=jnp.bfloat16),
        "linspace": lambda jnp: jnp.linspace(0, 1, 5),
        "linspace_open": lambda jnp: jnp.linspace(-1.0, 1.0, 4, endpoint=False),
        "eye": lambda jnp: jnp.eye(3),
        "eye_offset": lambda jnp: jnp.eye(3, 4, k=1, dtype=jnp.int32),
        "array_python": lambda jnp: jnp.array([1, 2, 3]),
        "array_nested": lambda jnp: jnp.array([[1.0, 2], [3, 4]]),
        "array_scalar": lambda jnp: jnp.array(1.5),
        "asarray_scalar": lambda jnp: jnp.asarray(1.5),
        "array_bool": lambda jnp: jnp.array([True, False]),
        "array_complex": lambda jnp: jnp.array([1j, 2]),
        "array_float64": lambda jnp: jnp.array(np.arange(3.0)),
        "array_int64": lambda jnp: jnp.array(np.arange(3)),
        "empty_list": lambda jnp: jnp.array([]),
        "tri": lambda jnp: jnp.tri(3),
        "float32": lambda jnp: jnp.float32(2),
        "promote": lambda jnp: jnp.zeros(2, jnp.int8) + 1,
        "promote_weak": lambda jnp: jnp.zeros(2, jnp.int8) + 1.5,
        "finfo": lambda jnp: jnp.full(2, jnp.finfo(jnp.bfloat16).max),
    }.items()),
    Sample("zeros_like", call("zeros_like"), [X], WHOLE),
    Sample("ones_like", call("ones_like"), [I], WHOLE),
    Sample("iota_mask", lambda n, x: n.jnp.where(n.jnp.arange(3)[:, None] >= n.jnp.arange(4), x, -n.jnp.inf), [X], smooth=False),
]

PRODUCTS = [
    Sample("matmul", call("matmul"), [X, floats(4, 2)]),
    Sample("matmul_vector", call("matmul"), [X, V]),
    Sample("matmul_batch", call("matmul"), [floats(2, 1, 3, 4), floats(3, 4, 2)]),
    Sample("matmul_promotes", call("matmul"), [I, V]),
    Sample("dot", call("dot"), [X, V]),
    Sample("dot_scalar", call("dot"), [X, 2.0], ("eager", "jit", "grad")),
    Sample("inner", call("inner"), [X, Y]),
    Sample("outer", call("outer"), [V, V]),
    Sample("vdot", call("vdot"), [complexes(3), complexes(3)], WHOLE),
    Sample("tensordot", call("tensordot", axes=1), [X, floats(4, 2)]),
    *(Sample(f"einsum_{i}", lambda n, *args, spec=spec: n.jnp.einsum(spec, *args), [floats(*s) for s in shapes])
      for i, (spec, shapes) in enumerate([
          ("ij,jk->ik", [(2, 3), (3, 4)]), ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
          ("bhqk,bkhd->bqhd", [(2, 2, 3, 5), (2, 5, 2, 4)]), ("ii->i", [(3, 3)]), ("ij->", [(2, 3)]),
          ("...i,i->...", [(2, 3, 4), (4,)]), ("ij,ij,ij->j", [(2, 3)] * 3), ("ij->ji", [(2, 3)]), ("a1,1b", [(2, 3), (3, 4)])])),
    Sample("einsum_preferred", lambda n, x, y: n.jnp.einsum("ij,jk", x, y, preferred_element_type=n.jnp.float32),
           [floats(2, 3, dtype=BF16), floats(3, 2, dtype=BF16)], WHOLE),
]

NN = [
    *(Sample(f"nn_{name}", lambda n, x, name=name: getattr(n.nn, name)(x), [X])
      for name in ("relu", "gelu", "silu", "softmax", "log_softmax", "sigmoid", "softplus", "elu", "tanh")),
    Sample("gelu_exact", lambda n, x: n.nn.gelu(x, approximate=False), [X]),
    Sample("softmax_axis", lambda n, x: n.nn.softmax(x, axis=0), [X]),
    Sample("softmax_masked", lambda n, x, m: n.nn.softmax(x, where=m), [X, np.array([[True] * 3 + [False]] * 3)]),
    Sample("softmax_infinite", lambda n, x: n.nn.softmax(x), [np.float32([0, -np.inf, 1])], WHOLE),
    Sample("one_hot", lambda n, i: n.nn.one_hot(i, 5), [np.int32([0, 4, 7, -1])], WHOLE),
    Sample("one_hot_int", lambda n, i: n.nn.one_hot(i, 3, dtype=n.jnp.int32, axis=0), [ints(4, low=0, high=3)], VALUE),
    Sample("standardize", lambda n, x: n.nn.standardize(x), [X], tol=(1e-4, 1e-5)),
    Sample("cross_entropy", lambda n, x, i: -n.jnp.mean(n.jnp.take_along_axis(
        n.nn.log_softmax(x), i[:, None], axis=1)), [X, ints(3, low=0, high=4)]),
    Sample("layer_norm", lambda n, x, g: g * (x - x.mean(-1, keepdims=True)) * n.lax.rsqrt(
        x.var(-1, keepdims=True) + 1e-5), [X, V], tol=(1e-4, 1e-5)),
    Sample("attention", lambda n, q, k, v: n.nn.softmax(q @ n.jnp.swapaxes(k, -1, -2) / 2.0) @ v,
           [floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 4)]),
]

ERRORS = [
    Sample("add_shapes", call("add"), [V, floats(3)], error="TypeError"),
    Sample("reshape_size", call("reshape", shape=(5, 5)), [X], error="TypeError"),
    Sample("matmul_sizes", call("matmul"), [X, X], error="TypeError"),
    Sample("concatenate_empty", lambda n: n.jnp.concatenate([]), [], error="ValueError"),
    Sample("sum_axis", call("sum", axis=5), [X], error="ValueError"),
    Sample("sum_list", call("sum"), [[1.0, 2.0]], error="TypeError"),
    Sample("stack_shapes", lambda n, x, y: n.jnp.stack([x, y]), [V, floats(3)], error="ValueError"),
    Sample("einsum_rank", lambda n, x: n.jnp.einsum("ijk->i", x), [X], error="ValueError"),
    Sample("einsum_sizes", lambda n, x, y: n.jnp.einsum("ij,jk", x, y), [X, X], error="ValueError"),
    Sample("split_uneven", lambda n, x: n.jnp.split(x, 3, axis=1), [X], error="ValueError"),
    Sample("truth", lambda n, x: bool(n.jnp.asarray(x)), [X], error="ValueError"),
    Sample("iterate_scalar", lambda n, x: list(n.jnp.asarray(x)), [np.float32(1)], error="TypeError"),
    Sample("array_of_text", lambda n: n.jnp.array(["a"]), [], error="TypeError"),
    Sample("squeeze_size", call("squeeze", axis=0), [X], error="ValueError"),
    Sample("transpose_axes_count", lambda n, x: n.jnp.transpose(x, (0,)), [X], error="TypeError"),
    Sample("broadcast_to_size", lambda n, x: n.jnp.broadcast_to(x, (2, 3)), [X], error="ValueError"),
]

SAMPLES = [*REDUCTIONS, *(replace(s, name=f"elementwise_{s.name}") for s in ELEMENTWISE),
           *(replace(s, name=f"shape_{s.name}") for s in SHAPES),
           *CREATION, *PRODUCTS, *NN, *(replace(s, name=f"error_{s.name}") for s in ERRORS)]
