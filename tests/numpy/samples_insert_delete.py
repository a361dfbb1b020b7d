"""Samples of arrays joined, edited, trimmed, picked from and taken as sets: every parameter, weak types, traced positions."""

from __future__ import annotations

import array
from dataclasses import replace

import numpy as np

from tests.numpy.samples_more import do, rows
from tests.reference.data import floats, ints
from tests.reference.sample import VALUE, WHOLE, Sample

LAWS = False        # compared with the reference alone
X, V, I = floats(3, 4), floats(6), ints(3, 4)
A, B = np.int32([3, 1, 3, 2, 5, 1]), np.int32([1, 2, 7])
F = np.float32([1, np.nan, 2, np.nan, 1, -0.0, 0.0])
FRAMED = np.zeros((5, 6), np.float32)
FRAMED[1:3, 2:4] = 1
AT, MASK = np.int32([0, 2]), np.array([True, False, True])
JITTED = ("eager", "jit")

JOINING = [
    *rows(VALUE, ("jnp.vstack([1, 2, 3])",), ("jnp.hstack([1, 2.5])",), ("jnp.dstack([1, 2])",), ("jnp.column_stack([1, 2])",), ("jnp.stack([1, 2])",),
          ("jnp.concatenate([1, 2], axis=None)",), ("jnp.block([[1, 2], [3, 4.5]])",), ("jnp.append(1, 2)",), ("jnp.r_[1, 2]",), ("jnp.c_[1, 2]",),
          ("jnp.pad(1, 0)",), ("jnp.pad(jnp.asarray(2.0)[None], 1, mode='linear_ramp')",), ("jnp.hstack([x, 1])", V), ("jnp.split(x, 2.0)", V),
          ("jnp.r_['r', [1, 2], [3]]",), ("jnp.r_['c', [1, 2], [3]]",), ("jnp.c_['r', [1, 2], [3, 4]]",), ("jnp.r_['r', x, x]", I), ("jnp.r_['c', x]", V),
          ("jnp.r_['-1', [1, 2], [3]]",), ("jnp.r_['0,2', x, x]", V), ("jnp.r_['0,3,1', x]", V), ("jnp.r_['0,3,-2', x]", V), ("jnp.r_['0,3,5', x]", V),
          ("jnp.r_['0,3,-5', x]", V), ("jnp.c_['0,3', x]", V), ("jnp.mgrid[()]",)),
    *rows(WHOLE, ("jnp.fromfunction(lambda i, j: i + j * x, (2, 3))", V)),
    *rows(VALUE, ("jnp.fromfunction(lambda i: i * jnp.arange(3), (2,))",),
          ("jnp.fromfunction(lambda i: {'a': i, 'b': 1}, 3)",)),
]

EDITS = [
    *rows(("eager", "jit", "grad", "vmap"), ("jnp.delete(x, 1, axis=1)", X), ("jnp.delete(x, np.array([0, -1]))", X), ("jnp.insert(x, 1, 9, axis=1)", X),
          ("jnp.insert(x, np.array([3, 0]), y, axis=1)", X, floats(3, 2)), ("jnp.insert(x, 20, 9.0)", V)),
    *rows(JITTED, ("jnp.delete(x, y, assume_unique_indices=True)", V, AT), ("jnp.delete(x, y, axis=1, assume_unique_indices=True)", X, AT),
          ("jnp.delete(x, y, assume_unique_indices=True)", V, np.int32([[5, -6]])), ("jnp.delete(x, y, assume_unique_indices=True)", V, np.int32([9, 0])),
          ("jnp.insert(x, y, z)", V, AT, 9.0), ("jnp.insert(x, y, 7)", V, np.int32(-2)), ("jnp.insert(x, y, z, axis=1)", X, np.int32([3, 0]), 9.0),
          ("jnp.insert(x, y, x[:, :2].T, axis=1)", X, np.int32(1))),
    *rows(("eager",), ("jnp.trim_zeros(x)", FRAMED), ("jnp.trim_zeros(x, 'f')", FRAMED), ("jnp.trim_zeros(x, 'b', axis=1)", FRAMED),
          ("jnp.trim_zeros(x, axis=(0, -1))", FRAMED), ("jnp.trim_zeros(x, axis=())", FRAMED), ("jnp.trim_zeros(0 * x)", FRAMED), ("jnp.trim_zeros(5)",),
          ("jnp.delete(x, slice(None, None, -2))", V), ("jnp.delete(x, y, axis=0)", X, MASK)),
]

PICKS = [
    *rows(("eager",), ("jnp.asarray(x).compress(y, axis=0)", X, MASK), ("jnp.asarray(x).compress(y, 0, size=3, fill_value=2.5)", X, MASK)),
    *rows(JITTED, ("jnp.compress(y, x, axis=0, size=3, fill_value=z)", X, MASK, 4.0), ("jnp.piecewise(x, [x < 0, x > 0], [jnp.square, 2, 0.5])", V),
          ("jnp.piecewise(x, jnp.array([x < 0, x == 0, x > 0]), [-1, 0, 1])", V), ("jnp.piecewise(x, [True], [1, 2])", V),
          ("jnp.piecewise(x, [x < 0, x > -3], [lambda v, a: v * a, lambda v, a: v - a], y)", V, 3.0), ("jnp.partition(x, 3)", A),
          ("jnp.argpartition(x, 3)", A), ("jnp.partition(x, -2, axis=0)", X), ("jnp.argpartition(x, 1)", X), ("jnp.argpartition(x, 1, axis=0)", I)),
    *rows(("grad",), ("jnp.piecewise(x, [x > 0], [jnp.log, 0])", np.float32([-1, 0, 2])), ("jnp.partition(x, 2)", V)),
]

SETS = [
    *rows(("eager",), *((text, A, B) for text in (
        "jnp.setdiff1d(x, y)", "jnp.setdiff1d(x, y, True)", "jnp.setdiff1d(x, y * 1.0)", "jnp.intersect1d(x, y, return_indices=True)", "jnp.setxor1d(x, y)",
        "jnp.setxor1d(y, x[1:5], True)", "jnp.union1d(x, y)")), *((text, F, B) for text in (
            "jnp.unique(x)", "jnp.unique(x, equal_nan=False)", "jnp.setdiff1d(x, y)", "jnp.intersect1d(x, x, return_indices=True)", "jnp.setxor1d(x, y)",
            "jnp.setxor1d(x, x)", "jnp.union1d(x, x)", "jnp.unique_all(x)._asdict()", "jnp.unique_counts(x)._asdict()", "jnp.unique_inverse(x)._asdict()")),
          ("jnp.unique(jnp.asarray(1.0)[None], True, True, True)",), ("jnp.setdiff1d(1.0, 2)",)),
    *rows(JITTED, ("jnp.setdiff1d(x, y, size=4, fill_value=z)", A, B, 9), ("jnp.setdiff1d(x, y, True, size=5)", A, B), ("jnp.setdiff1d(x, y, size=6)", F, B),
          ("jnp.setdiff1d(x, y, size=2)", np.float32([]), B), ("jnp.union1d(x, y, size=8, fill_value=z)", A, B, 9), ("jnp.setxor1d(x, y, size=8)", A, B),
          ("jnp.setxor1d(x, y, size=8, fill_value=z)", A, B, 9), ("jnp.setxor1d(x, y, size=9)", F, B), ("jnp.setxor1d(x, x, size=3)", A),
          ("jnp.setxor1d(y, x[1:5], True, size=9)", A, B), ("jnp.intersect1d(x, y, size=4)", A, B), ("jnp.intersect1d(x, y, size=4, fill_value=8)", A, B),
          ("jnp.intersect1d(x, y, return_indices=True, size=4)", A, B), ("jnp.intersect1d(x, x, return_indices=True, size=9)", F),
          ("jnp.intersect1d(x, y[:0], size=2)", A, B), ("jnp.unique(x, True, True, True, size=2)", A), ("jnp.unique(x, True, True, True, size=9)", F),
          ("jnp.unique_all(x, size=6)._asdict()", A),
          *((f"jnp.isin(x, y, method={method!r}, invert=True)", F, F) for method in ("auto", "compare_all", "binary_search", "sort"))),
]

PYTHON = [
    *rows(("eager",), *((f"[jnp.isscalar(v) for v in [{values}]]",) for values in (
        "1, True, 1j, 'a', b'a', None, [1], ()", "np.array(1.0), np.array([1.0]), np.float32(1), np.array('a')", "jnp.array(1), jnp.ones(1), jnp.float32")),
          ("jnp.ravel_multi_index((1, 2), (2, 3), dtype='int8')",), ("jnp.ravel_multi_index((1, 2), (2, 3))",), ("jnp.array('1', dtype=float)",), ("jnp.array([1j, 0], dtype=bool)",), ("jnp.array(bytearray(b'abc'))",), ("[jnp.iscomplexobj('a'), jnp.iscomplexobj([1j])]",)),
    *rows(JITTED, ("jnp.argsort(x, dtype='int8')", V),
          ("jnp.concat([x, x], axis=0)", V), *((f"lax.{call}, allow_negative_indices={negative})", V, np.int32(-2)) for negative in (True, False) for call in (
              "dynamic_slice(x, (y,), (2,)", "dynamic_index_in_dim(x, y", "dynamic_update_slice(x, x[:2], (y,)", "dynamic_update_index_in_dim(x, x[0], y, 0"))),
    *(Sample(f"array.array {code}", lambda n, code=code: n.jnp.asarray(array.array(code, [2, 3, 5])), [], ("eager",)) for code in "bBhilqfd"),
]

ERRORS = [
    Sample(f"{error}: {text}", do(text), list(args), error=error) for error, text, *args in [
        ("ValueError", "jnp.block([(1, 2)])"), ("TypeError", "jnp.hstack(3)"), ("TypeError", "jnp.atleast_1d([1])"), ("ValueError", "jnp.split(x, [-1])", V),
        ("TypeError", "jnp.array(b'abc')"), ("TypeError", "jnp.array([jnp.ones(2), 1])"), ("TypeError", "jnp.array(1j, dtype=float)"), ("TypeError", "jnp.asarray(np.ones(2, '>f4'))"),
        ("TypeError", "jnp.trim_zeros([0, 1])"), ("ValueError", "jnp.trim_zeros(x, axis=(0, 0))", X), ("ValueError", "jnp.delete(x, 9)", V), ("IndexError", "jnp.delete(x, np.array([9]))", V),
        ("TypeError", "jnp.delete(x, [1])", V), ("ValueError", "jnp.delete(x, np.array([True]))", V), ("ValueError", "jnp.insert(x, 1.5, 1)", V),
        ("ConcretizationTypeError", "jax.jit(jnp.delete)(x, 1)", V), ("ValueError", "jnp.compress(y, x, axis=3)", X, MASK), ("ValueError", "jnp.compress(x > 9, x[:2])", np.float32([8, 9, 10, 11, 12, 13])),
        ("TypeError", "jnp.compress([True], x)", V), ("ValueError", "jnp.compress(y, x, axis=0, size=4)", X, MASK), ("ValueError", "jnp.piecewise(x, x < 0, [1])", V),
        ("ValueError", "jnp.piecewise(x, [], [1])", V), ("TypeError", "jnp.piecewise(x, [x < 0], [np.arange(6)])", V), ("ValueError", "jnp.partition(x, 6)", V),
        ("NotImplementedError", "jnp.partition(x * 1j, 1)", V), ("ValueError", "jnp.isin(x, x, method='other')", V), ("ValueError", "jnp.r_['x', 1]"), ("ValueError", "jnp.r_[1, 'r']"),
        ("ConcretizationTypeError", "jax.jit(jnp.trim_zeros)(x)", V), *(("ConcretizationTypeError", f"jax.jit(lambda x, axis: jnp.{name}(x, axis=axis))(x, 0)", X)
                                                                       for name in ("min", "sum", "squeeze", "expand_dims")),
        ("ConcretizationTypeError", "jax.jit(jnp.split)(x, 2)", V), ("KeyError", "jnp.einsum_path('ij,jk,kl', x, x.T, x, optimize='other')", X)]
]

def path(text, shapes, **options):
    """The order of products and the printed report, for operands of given shapes."""
    return Sample(f"{text} {options}", lambda n: [str(part) for part in n.jnp.einsum_path(text, *map(np.ones, shapes), **options)], [], ("eager",))


CHAIN = [(2, 2), (2, 5), (5, 3), (3, 7)]
PATHS = [
    *(path("ij,jk,kl,lm->im", CHAIN, optimize=way) for way in ("auto", "optimal", "greedy", True, False, [(0, 1), (0, 1), (0, 1)])),
    *(path(text, shapes) for text, shapes in (
        ("ij,jk,kl", CHAIN[:3]), ("ij->ji", CHAIN[:1]), ("ij->", CHAIN[:1]), ("ii", CHAIN[:1]), ("i,j->ij", [(2,), (3,)]), ("ij,ij->ij", [(2, 2)] * 2), ("ij,ij->", [(2, 2)] * 2),
        ("...ij,...jk", [(4, 2, 3), (4, 3, 2)]), ("ij,j->i", [(2, 2), (2,)]), ("ijk,kj->i", [(2, 3, 4), (4, 3)]), ("jik,jk->i", [(3, 2, 4), (3, 4)]), ("ijk,jl->ikl", [(2, 3, 4), (3, 5)]),
        ("ij,ji->", [(2, 2)] * 2), ("a,b,c,d->abcd", [(2,), (3,), (4,), (5,)]), ("ijk,ilm,njm,nlk,abc->", [(4, 4, 4)] * 5), ("i,->i", [(2,), ()]))),
]

SAMPLES = []
for _kind, _rows in (("joining", JOINING), ("edit", EDITS), ("pick", PICKS), ("set", SETS), ("python", PYTHON), ("path", PATHS), ("error", ERRORS)):
    for _i, _sample in enumerate(_rows):
        SAMPLES.append(replace(_sample, name=f"{_kind} {_i}: {_sample.name}"))
