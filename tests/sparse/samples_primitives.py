"""Each primitive of sparse arrays by its public function: values, types, derivatives and batches. `test_primitives.py` asks that none is missing."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import ALL, Sample

I = np.int32([[2, 1], [0, 3], [0, 0], [1, 2], [0, 3]])  # not sorted, and (0, 3) twice
SORTED = np.int32([[0, 0], [0, 3], [1, 2], [2, 1], [2, 2]])
COLS, ROWS = SORTED[:, 1].copy(), np.int32([0, 2, 3, 5])
DATA = np.float32([1.5, -2, 0.5, 3, -0.25])
MORE = np.float32([0.5, 1, -1.5, 2, 0.75])
M = np.float32([[1, -2, 0.5, 3], [2, 1.5, -1, 0.25], [-0.5, 4, 1, -3]])
PLACES = np.float32([[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 1, 0]])
X, XT = np.float32([0.5, -1, 2, 3]), np.float32([0.5, -1, 2])
Y, YT = np.float32([[1, 2], [0.5, -1], [0.5, 4], [3, 1]]), np.float32([[1, 2], [0.5, -1], [0.5, 4]])
SHAPE = (3, 4)
OF_TYPE = ("eval_shape", *ALL)
UNBATCHED = ("eval_shape", "eager", "jit", "grad", "jvp")
# The reference has no backward derivative of these, or that of the product with the matrix as it is: `test_primitives.py` has the law.
BACKWARD_BY_LAW = ("bcoo_extract_p.first", "bcoo_spdot_general_p",
                   *(f"{kind}_{product}_p.True" for kind in ("coo", "csr") for product in ("matvec", "matmat")))  # fmt: skip


def row(name, f, *args, transforms=OF_TYPE, **options):
    """A sample of the primitive whose name comes before a dot, of `f(sp, *args)`."""
    if name in BACKWARD_BY_LAW:
        transforms = tuple(t for t in transforms if t != "grad")
    return Sample(name, lambda n, *args: f(import_module(f"{n.name}.experimental.sparse"), *args), list(args), transforms, **options)


def buffers(A):
    return A.data, A.indices


def bcoo(sp, data, indices, shape=SHAPE):
    return sp.BCOO((data, indices), shape=shape)


def bcsr(sp, data):
    return sp.BCSR((data, COLS, ROWS), shape=SHAPE)


def coo(sp, data):
    return sp.COO((data, I[:, 0], I[:, 1]), shape=SHAPE)


def csr(sp, data):
    return sp.CSR((data, COLS, ROWS), shape=SHAPE)


def numbers(lc, rc, lb=(), rb=()):
    return {"dimension_numbers": ((lc, rc), (lb, rb))}


SAMPLES = [
    row("bcoo_todense_p", lambda sp, d, i: sp.bcoo_todense(bcoo(sp, d, i)), DATA, I),
    row("bcoo_todense_p.batched", lambda sp, d: sp.bcoo_todense(bcoo(sp, d, np.stack([I, I[::-1]]), (2, 3, 4))), np.stack([DATA, MORE])),
    row("bcoo_todense_p.dense", lambda sp, d: sp.bcoo_todense(bcoo(sp, d, I[:, :1], (3, 2))), np.stack([DATA, MORE], 1)),
    row("bcoo_extract_p", lambda sp, i, m: sp.bcoo_extract(bcoo(sp, DATA, i), m, assume_unique=True).data, I, M),
    row("bcoo_extract_p.first", lambda sp, i, m: sp.bcoo_extract(bcoo(sp, DATA, i), m, assume_unique=False).data, I, M),
    row("bcoo_fromdense_p", lambda sp, m: buffers(sp.bcoo_fromdense(m * PLACES, nse=6)), M),
    row("bcoo_fromdense_p.too_few", lambda sp, m: buffers(sp.bcoo_fromdense(m * PLACES, nse=3)), M),
    row("bcoo_sort_indices_p", lambda sp, d, i: buffers(sp.bcoo_sort_indices(bcoo(sp, d, i))), DATA, I),
    row("bcoo_sum_duplicates_p", lambda sp, d, i: buffers(sp.bcoo_sum_duplicates(bcoo(sp, d, i, (4, 4)), nse=6)), DATA, I),
    row("bcoo_transpose_p", lambda sp, d, i: buffers(sp.bcoo_transpose(bcoo(sp, d, i), permutation=(1, 0))), DATA, I),
    row("bcoo_dot_general_p", lambda sp, d, y: sp.bcoo_dot_general(bcoo(sp, d, I), y, **numbers((1,), (0,))), DATA, Y),
    row("bcoo_dot_general_p.batch", lambda sp, d, y: sp.bcoo_dot_general(
        bcoo(sp, d, np.stack([I, I[::-1]]), (2, 3, 4)), y, **numbers((2,), (1,), (0,), (0,))), np.stack([DATA, MORE]), np.stack([Y, -Y])),
    row("bcoo_dot_general_sampled_p", lambda sp, a, b, i: sp.bcoo_dot_general_sampled(a, b, i, **numbers((1,), (1,))), YT, Y, I),
    row("bcoo_spdot_general_p", lambda sp, d, e: sp.bcoo_dot_general(
        bcoo(sp, d, SORTED), bcoo(sp, e, SORTED), **numbers((1,), (1,))).todense(), DATA, MORE),
    row("bcsr_todense_p", lambda sp, d: sp.bcsr_todense(bcsr(sp, d)), DATA),
    row("bcsr_extract_p", lambda sp, m: sp.bcsr_extract(np.asarray(COLS), np.asarray(ROWS), m), M),
    row("bcsr_fromdense_p", lambda sp, m: (lambda R: (R.data, R.indices, R.indptr))(sp.bcsr_fromdense(m * PLACES, nse=6)), M),
    row("bcsr_dot_general_p", lambda sp, d, y: sp.bcsr_dot_general(bcsr(sp, d), y, **numbers((1,), (0,))), DATA, Y),
    # No padding: the reference stores (0, 0) once more where `test_primitives.py` asks for what is outside.
    row("coo_fromdense_p", lambda sp, m: (lambda A: (A.data, A.row, A.col))(sp.coo_fromdense(m * PLACES, nse=5)), M, transforms=UNBATCHED),
    row("csr_fromdense_p", lambda sp, m: (lambda A: (A.data, A.indices, A.indptr))(sp.csr_fromdense(m * PLACES, nse=5)), M, transforms=UNBATCHED),
    *[
        row(f"{kind}_{name}_p.{transpose}" if args else f"{kind}_{name}_p", lambda sp, d, *xs, kind=kind, name=name, make=make, kw=kw: getattr(sp, f"{kind}_{name}")(
            make(sp, d), *xs, **kw), DATA, *args, transforms=UNBATCHED)
        for kind, make in (("coo", coo), ("csr", csr))
        for name, transpose, args in (
            ("todense", None, []), ("matvec", False, [X]), ("matvec", True, [XT]), ("matmat", False, [Y]), ("matmat", True, [YT]))
        for kw in [{} if transpose is None else {"transpose": transpose}]
    ],
    *[
        row(f"{kind}_todense_p.mapped", lambda sp, d, kind=kind, make=make: getattr(sp, f"{kind}_todense")(make(sp, d)), DATA,
            transforms=("vmap",), error="NotImplementedError")
        for kind, make in (("coo", coo), ("csr", csr))
    ],
    row("todense_p", lambda sp, x: sp.todense(x), M),
]  # fmt: skip
