"""Sparse arrays beside those of the reference: values, derivatives, layouts and errors."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.sample import Sample

LAWS = False  # functions of dense arrays made sparse inside: the laws of sparse arrays stand in test_laws.py

M = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [3, 0, -4, 0.5]], np.float32)
N = np.array([[0, 1, 0, 2], [1, 0, 0, 0], [-2, 0, 3, 0]], np.float32)
B = np.stack([M, N, 2 * M - N])
X = np.array([0.5, -1, 2, 3], np.float32)
Y = np.array([[1, 2], [0, -1], [0.5, 0], [3, 1]], np.float32)
VALUE = ("eager",)
DERIVED = ("jit.grad",)


def sparse(n):
    return import_module(f"{n.name}.experimental.sparse")


def plain(x):
    """What a sparse result stands for, with what is said of its layout."""
    if hasattr(x, "todense"):
        return x.todense(), [getattr(x, name, 0) for name in ("n_batch", "n_dense")]
    return x


def row(name, f, *args, transforms=VALUE, how=None, **options):
    """A sample: `f(sp, mats...)` where arrays of `how` (keywords of `fromdense`) are sparse and those after them dense."""
    layouts = [{"nse": 8}] if how is None else how

    def fun(n, *args):
        sp = sparse(n)
        mats = [sp.BCOO.fromdense(a, **kw) for a, kw in zip(args, layouts)]
        return plain(f(n, sp, *mats, *args[len(mats) :]))

    return Sample(name, fun, list(args), transforms, **options)


BATCHED, DENSE = {"nse": 6, "n_batch": 1}, {"nse": 11, "n_dense": 1}
TWO = [{"nse": 8}, {"nse": 8}]


def dot(contract, batch=((), ())):
    numbers = (contract, batch)
    return lambda n, sp, A, B: sp.bcoo_dot_general(A, B, dimension_numbers=numbers)


def sparsified(f):
    return lambda n, sp, *args: sp.sparsify(lambda *a: f(n, *a))(*args)


def traced(f):
    return lambda n, sp, *args: sp.sparsify(lambda *a: f(n, *a), use_tracer=True)(*args)


def gradient(f, **kw):
    def fun(n, sp, *args):
        out = sp.grad(lambda *a: f(n, *a).sum(), **kw)(*args)
        return [plain(o) for o in out] if isinstance(out, tuple) else out

    return fun


SAMPLES = [
    # to and from dense
    row("todense", lambda n, sp, A: A, M, transforms=("jit.grad", "vmap")),
    row("buffers", lambda n, sp, A: (A.data, A.indices, A.indices_sorted, A.unique_indices), M),
    row("too_few", lambda n, sp, A: (A.data, A.indices), M, how=[{"nse": 3}]),
    row("batched", lambda n, sp, A: A, B, how=[BATCHED]),
    row("dense_dims", lambda n, sp, A: A, B, how=[DENSE]),
    row("all_batch", lambda n, sp, A: A, M, how=[{"nse": 1, "n_batch": 2}]),
    row("all_dense", lambda n, sp, A: A, M, how=[{"nse": 1, "n_dense": 2}]),
    row("extract", lambda n, sp, A, v: sp.bcoo_extract(A, v), M, N, transforms=DERIVED),
    row("extract_first", lambda n, sp, A, v: sp.bcoo_extract(A + A, v).data, M, N),
    # order
    row("duplicates", lambda n, sp, A, C: (A + C).sum_duplicates(nse=9), M, N, how=TWO),
    row("duplicates_count", lambda n, sp, A, C: (A + C).sum_duplicates().nse, M, N, how=TWO),
    row("sort", lambda n, sp, A: (lambda S: (S.data, S.indices))(A.T.sort_indices()), M),
    row("transpose", lambda n, sp, A: A.transpose((0, 2, 1)), B, how=[BATCHED]),
    row("layout_down", lambda n, sp, A: A.update_layout(n_batch=0), B, how=[BATCHED]),
    row("layout_dense_down", lambda n, sp, A: A.update_layout(n_dense=0), B, how=[DENSE]),
    row("layout_up", lambda n, sp, A: A.update_layout(n_batch=1, on_inefficient=None), M, transforms=DERIVED),
    row("layout_dense_up", lambda n, sp, A: A.update_layout(n_dense=1, on_inefficient=None), M),
    # products
    row("matvec", lambda n, sp, A, x: A @ x, M, X, transforms=("eager", "jit.grad", "jvp", "vmap")),
    row("matmat", lambda n, sp, A, y: A @ y, M, Y),
    row("from_left", lambda n, sp, A, y: y @ A, M, Y[:3].T),
    row("batched_product", lambda n, sp, A, y: A @ y, B, Y, how=[BATCHED]),
    row("batch_dims", dot(((2,), (1,)), ((0,), (0,))), B, B[:, 0], how=[BATCHED], transforms=DERIVED),
    row("batch_contracted", dot(((0,), (0,))), B, Y[:3], how=[BATCHED]),
    row("kept_dense", dot(((1,), (0,))), B, Y[:3], how=[DENSE]),
    row("outer", dot(((), ())), M, X),
    row("both_contracted", dot(((0, 1), (0, 1))), M, N, transforms=DERIVED),
    row("integers", lambda n, sp, A, x: A @ x, np.int32(N), X),
    row("sparse_product", lambda n, sp, A, C: A @ C.T, M, N, how=TWO, transforms=("eager", "jit")),
    row("sparse_batched", dot(((2,), (2,)), ((0,), (0,))), B, B[::-1].copy(), how=[BATCHED, BATCHED]),
    row("sampled", lambda n, sp, A, u, v: sp.bcoo_dot_general_sampled(u, v, A.indices, dimension_numbers=(((1,), (0,)), ((), ()))),
        M, Y[:3], Y.T, transforms=DERIVED),
    # elementwise
    row("times_dense", lambda n, sp, A, v: A * v, M, N, transforms=DERIVED),
    row("times_row", lambda n, sp, A, v: A * v, M, X),
    row("times_sparse", lambda n, sp, A, C: A * C, M, N, how=TWO),
    row("times_twice_stored", lambda n, sp, A, C: (A + A) * (C + C), M, N, how=TWO),
    row("batched_times", lambda n, sp, A, C: A * C, B, B[::-1].copy(), how=[BATCHED, BATCHED]),
    row("divided", lambda n, sp, A, v: A / v, M, N + 5),
    row("sums", lambda n, sp, A, C: A - 2 * C, M, N, how=TWO),
    row("plus_dense", lambda n, sp, A, v: A + v, M, N),
    row("power", lambda n, sp, A: abs(-A) ** 3, M, transforms=DERIVED),
    row("power_of_twice_stored", lambda n, sp, A: (A + A) ** 2, M),
    row("cast", lambda n, sp, A: A.astype("int32"), N),
    # shape
    row("sum_axis", lambda n, sp, A: A.sum(0), M),
    row("sum_all", lambda n, sp, A: A.sum(), M),
    row("sum_batch", lambda n, sp, A: sp.bcoo_reduce_sum(A, axes=(0, 2)), B, how=[BATCHED]),
    row("sum_dense", lambda n, sp, A: sp.bcoo_reduce_sum(A, axes=(0, 2)), B, how=[DENSE]),
    row("reshaped", lambda n, sp, A: A.reshape(2, 6), M, transforms=DERIVED),
    row("reshaped_batch", lambda n, sp, A: A.reshape(1, 3, 6, 2), B, how=[BATCHED]),
    row("element", lambda n, sp, A: A[2, -1], M),
    row("rows", lambda n, sp, A: A[::-2, 1:], M, transforms=DERIVED),
    row("new_axis", lambda n, sp, A: A[None], M),
    row("picked", lambda n, sp, A: A[np.array([2, 0])], M),
    row("slice_batched", lambda n, sp, A: sp.bcoo_slice(A, start_indices=(1, 0, 1), limit_indices=(3, 3, 4), strides=(1, 2, 2)), B,
        how=[BATCHED]),
    row("slice_dense", lambda n, sp, A: sp.bcoo_slice(A, start_indices=(1, 0, 1), limit_indices=(3, 3, 4)), B, how=[DENSE]),
    row("slice_somewhere", lambda n, sp, A, i: sp.bcoo_dynamic_slice(A, (i, 1), (2, 3)), M, np.int32(7)),
    row("joined", lambda n, sp, A, C: sp.bcoo_concatenate([A, C], dimension=1), M, N, how=TWO),
    row("joined_batches", lambda n, sp, A, C: sp.bcoo_concatenate([A, C], dimension=0), B, B[:2], how=[BATCHED, {"nse": 5, "n_batch": 1}]),
    row("reversed", lambda n, sp, A: sp.bcoo_rev(A, (0, 1)), B, how=[BATCHED]),
    row("squeezed", lambda n, sp, A: sp.bcoo_squeeze(A, dimensions=(0,)), M[2:]),
    row("repeated", lambda n, sp, A: sp.bcoo_broadcast_in_dim(A, shape=(2, 3, 4), broadcast_dimensions=(1, 2)), M),
    row("convolved", lambda n, sp, A, C: sp.bcoo_conv_general_dilated(A, C, window_strides=(1,), padding=[(1, 2)]),
        X[None, None], Y[None, None, :3, 0], how=[{"nse": 4, "n_batch": 2}, {"nse": 3, "n_batch": 2}]),
    row("convolved_with_dense", lambda n, sp, A, k: sp.bcoo_conv_general_dilated(A, k, window_strides=(1,), padding="SAME"),
        X[None, None], Y[None, None, :3, 0], how=[{"nse": 4, "n_batch": 2}], transforms=DERIVED),
    row("dense_convolved", lambda n, sp, A, x: sp.bcoo_conv_general_dilated(x, A, window_strides=(1,), padding=[(2, 1)]),
        Y[None, None, :3, 0], X[None, None], how=[{"nse": 3, "n_batch": 2}]),
    row("sparsify_convolution", sparsified(lambda n, A, k: n.lax.conv_general_dilated(A, k, (1,), "VALID")),
        X[None, None], Y[None, None, :3, 0], how=[{"nse": 4, "n_batch": 2}]),
    # functions of sparse arrays
    row("sparsify", sparsified(lambda n, A, x: n.jnp.sin(A) @ x + A.sum(1)), M, X, transforms=DERIVED),
    row("sparsify_branch", sparsified(lambda n, A, x: n.lax.cond(x[0] > 0, lambda A: A @ x, lambda A: -(A @ x), A)), M, X),
    row("sparsify_loop", sparsified(lambda n, A, x: n.lax.fori_loop(0, 3, lambda i, c: A @ c, x)), M[:, :3], X[:3]),
    row("sparsify_stack", sparsified(lambda n, A, C: n.jnp.stack([A, C])), M, N, how=TWO),
    row("sparsify_roll", sparsified(lambda n, A: n.jnp.roll(A, 1, 0)), M),
    row("sparsify_mean", sparsified(lambda n, A: A.mean(0)), M),
    row("sparsify_dense", lambda n, sp, A: sp.sparsify(lambda A: sp.todense(A) + 1)(A), M),
    row("by_operation", traced(lambda n, A, x: n.jnp.sin(A) @ x + A.sum(1)), M, X, transforms=DERIVED),
    row("by_operation_branch", traced(lambda n, A, x: n.lax.cond(x[0] > 0, lambda A: A @ x, lambda A: -(A @ x), A)), M, X),
    row("by_operation_loop", traced(lambda n, A, x: n.lax.fori_loop(0, 3, lambda i, c: A @ c, x)), M[:, :3], X[:3]),
    row("by_operation_mapped", traced(lambda n, A: n.jax.vmap(lambda r: 2 * r)(A)), M),
    row("by_operation_compiled", traced(lambda n, A: n.jax.jit(lambda A: (A * 3).T)(A)), M),
    row("by_operation_dense", lambda n, sp, A: sp.sparsify(lambda A: sp.todense(A) + 1, use_tracer=True)(A), M),
    # derivatives
    row("grad", gradient(lambda n, A, x: n.jnp.tanh(A @ x)), M, X),
    row("grad_both", gradient(lambda n, A, x: n.jnp.tanh(A @ x), argnums=(0, 1)), M, X),
    row("grad_layouts", gradient(lambda n, A, y: (A @ y) ** 2), B, Y, how=[BATCHED]),
    row("jacrev", lambda n, sp, A, x: sp.jacrev(lambda A: n.jnp.tanh(A @ x))(A), M, X),
    row("jacfwd", lambda n, sp, A, x: sp.jacfwd(lambda A: n.jnp.tanh(A @ x))(A), M, X),
    row("value_and_grad", lambda n, sp, A, x: plain(sp.value_and_grad(lambda A: ((A @ x).sum(), 3), has_aux=True)(A)[1]), M, X),
    row("mapped", lambda n, sp, A, y: n.jax.vmap(lambda a, v: a @ v, (0, None))(A, y), B, X, how=[BATCHED]),
    row("mapped_rows", lambda n, sp, A: n.jax.vmap(lambda a: a[0])(A), B, how=[BATCHED]),
    # compressed rows, and matrices
    row("bcsr", lambda n, sp, A, x: (lambda R: (R.indices, R.indptr, R @ x, R.to_bcoo().todense()))(sp.BCSR.from_bcoo(A)), M, X),
    row("bcsr_batched", lambda n, sp, A: sp.BCSR.from_bcoo(A), B, how=[BATCHED]),
    row("bcsr_fromdense", lambda n, sp, m: (lambda R: (R.data, R.indices, R.indptr, R.todense()))(sp.BCSR.fromdense(m, nse=8)), M,
        how=[], transforms=DERIVED[:1]),
    row("bcsr_product", lambda n, sp, m, y: sp.BCSR.fromdense(m, nse=8) @ y, M, Y, how=[], transforms=DERIVED),
    row("bcsr_extract", lambda n, sp, m: sp.bcsr_extract(np.array([1, 0, 2]), np.array([0, 1, 1, 3]), m), M, how=[], transforms=DERIVED),
    *[
        row(f"{kind}_{how}", lambda n, sp, m, x, kind=kind, f=f: f(getattr(sp, kind).fromdense(m, nse=6), x), M, X, how=[])
        for kind in ("COO", "CSR", "CSC")
        for how, f in (("product", lambda A, x: A @ x), ("transposed", lambda A, x: A.T @ x[:3]), ("dense", lambda A, x: A.todense()))
    ],
    *[
        row(name, lambda n, sp, m, name=name, kw=kw: getattr(sp, name).bind(m, nse=5, index_dtype=np.dtype("int32"), **kw), M, how=[], transforms=("jit", "jvp"))
        for name, kw in (("coo_fromdense_p", {}), ("csr_fromdense_p", {}), ("bcsr_fromdense_p", {"n_batch": 0, "n_dense": 0}))
    ],
    row("coo_matmat", lambda n, sp, m, y: sp.coo_matmat(sp.COO.fromdense(m, nse=6), y[:3], transpose=True), M, Y, how=[]),
    # what methods and operators do, called as functions
    row("as_function_todense", lambda n, sp, A: sp.bcoo_todense(A), B, how=[BATCHED], transforms=("jit.grad",)),
    row("as_function_fromdense", lambda n, sp, m: sp.bcoo_fromdense(m, nse=6, n_batch=1, index_dtype=np.int16).indices, B, how=[]),
    row("as_function_transpose", lambda n, sp, A: sp.bcoo_transpose(A, permutation=(0, 2, 1)), B, how=[BATCHED], transforms=DERIVED),
    row("as_function_reshape", lambda n, sp, A: sp.bcoo_reshape(A, new_sizes=(4, 3), dimensions=(1, 0)), M),
    row("as_function_sort", lambda n, sp, A: sp.bcoo_sort_indices(sp.bcoo_transpose(A, permutation=(1, 0))).indices, M),
    row("as_function_duplicates", lambda n, sp, A, C: sp.bcoo_sum_duplicates(A + C, nse=7).data, M, N, how=TWO),
    row("as_function_layout", lambda n, sp, A: sp.bcoo_update_layout(A, n_batch=0), B, how=[BATCHED]),
    row("as_function_times_dense", lambda n, sp, A, v: sp.bcoo_multiply_dense(A, v), M, X, transforms=("jit.grad", "jvp")),
    row("as_function_times_dense_batched", lambda n, sp, A, v: sp.bcoo_multiply_dense(A, v), B, B[0], how=[BATCHED]),
    row("as_function_times_sparse", lambda n, sp, A, C: sp.bcoo_multiply_sparse(A, C), M, N, how=TWO, transforms=DERIVED),
    row("gathered_rows", lambda n, sp, A, i: sp.bcoo_gather(
        A, i[:, None], n.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)), (1, 4)),
        M, np.int32([2, 0, 2])),
    row("gathered_window", lambda n, sp, A, i: sp.bcoo_gather(
        A, i, n.lax.GatherDimensionNumbers(offset_dims=(0, 1), collapsed_slice_dims=(), start_index_map=(0, 1)), (2, 3)),
        M, np.int32([1, 1])),
    row("bcsr_todense", lambda n, sp, m: sp.bcsr_todense(sp.bcsr_fromdense(m, nse=6, n_batch=1)), B, how=[], transforms=DERIVED),
    row("bcsr_dot", lambda n, sp, m, y: sp.bcsr_dot_general(sp.BCSR.fromdense(m, nse=8), y, dimension_numbers=(((1,), (0,)), ((), ()))),
        M, Y, how=[], transforms=("jit.grad", "jvp")),
    row("bcsr_dot_batched", lambda n, sp, m, y: sp.bcsr_dot_general(
        sp.BCSR.fromdense(m, nse=6, n_batch=1), y, dimension_numbers=(((2,), (1,)), ((0,), (0,)))), B, B[:, 0], how=[]),
    row("bcsr_repeated", lambda n, sp, m: (lambda R: (R.n_batch, R.indptr, R.todense()))(
        sp.bcsr_broadcast_in_dim(sp.BCSR.fromdense(m, nse=8), shape=(2, 3, 4), broadcast_dimensions=(1, 2))), M, how=[]),
    row("bcsr_joined", lambda n, sp, m, k: (lambda R: (R.indices, R.indptr, R.todense()))(
        sp.bcsr_concatenate([sp.BCSR.fromdense(m), sp.BCSR.fromdense(k)], dimension=0)), M, N, how=[]),
    row("bcsr_joined_with_room", lambda n, sp, m, k: (lambda R: (R.nse, R.todense()))(
        sp.bcsr_concatenate([sp.BCSR.fromdense(m, nse=8), sp.BCSR.fromdense(k, nse=9)], dimension=0)), M, N, how=[]),
    *[
        row(f"{kind}_as_functions_{t}", lambda n, sp, m, x, y, kind=kind, t=t: (lambda A: (
            getattr(sp, f"{kind}_todense")(A), getattr(sp, f"{kind}_matvec")(A, x[:3] if t else x, transpose=t),
            getattr(sp, f"{kind}_matmat")(A, y[:3] if t else y, transpose=t)))(getattr(sp, f"{kind}_fromdense")(m, nse=6)),
            M, X, Y, how=[])
        for kind in ("coo", "csr") for t in (False, True)
    ],
    *[
        row(f"{kind}_kinds", lambda n, sp, m, kind=kind: (lambda A: (
            isinstance(A, sp.JAXSparse), A.shape, str(A.dtype), A.size, A.ndim, A.nse))(getattr(sp, kind).fromdense(m)), M, how=[])
        for kind in ("BCOO", "BCSR", "COO", "CSR", "CSC")
    ],
    # new arrays
    *[
        row(f"eye_{i}", lambda n, sp, x, a=args, kw=kw: sp.eye(*a, **kw), X, how=[])
        for i, (args, kw) in enumerate([((3,), {}), ((3, 4, 1), {}), ((4, 3, -1), {"n_batch": 1}), ((3,), {"n_dense": 1}),
                                        ((3, 5), {"n_batch": 1, "n_dense": 1}), ((3, 4, -2), {"sparse_format": "csr"})])
    ],
    row("empty", lambda n, sp, x: sp.empty((2, 3), n_batch=1, nse=2), X, how=[]),
    # errors
    row("no_nse", lambda n, sp, m: n.jax.jit(sp.BCOO.fromdense)(m), M, how=[], error="ConcretizationTypeError"),
    row("no_nse_for_duplicates", lambda n, sp, A: n.jax.jit(lambda A: A.sum_duplicates())(A), M, error="ValueError"),
    row("buffers_that_do_not_fit", lambda n, sp, m: sp.BCOO((m, np.zeros((3, 2), int)), shape=(4, 3)), M, how=[], error="ValueError"),
    row("dense_result", lambda n, sp, A: A > 0, M, error="NotImplementedError"),
    row("dense_result_of_function", sparsified(lambda n, A: n.jnp.cos(A)), M, error="NotImplementedError"),
    row("divided_by_sparse", lambda n, sp, A, v: v / A, M, N, error="NotImplementedError"),
    row("plus_number", lambda n, sp, A: A + 1.0, M, error="NotImplementedError"),
    row("inefficient", lambda n, sp, A: A.update_layout(n_dense=1), M, error="SparseEfficiencyError"),
    row("mixed_transpose", lambda n, sp, A: A.T, B, how=[BATCHED], error="NotImplementedError"),
    row("mixed_reshape", lambda n, sp, A: A.reshape(9, 4), B, how=[BATCHED], error="ValueError"),
    row("shapes", lambda n, sp, A, x: A @ x, M, X[:3], error="TypeError"),
    row("unknown_format", lambda n, sp, x: sp.empty((2, 3), sparse_format="dia"), X, how=[], error="ValueError"),
    row("dense_result_by_operation", traced(lambda n, A: n.jnp.cos(A)), M, error="NotImplementedError"),
    row("numbers_of_a_sparse_array", traced(lambda n, A: np.asarray(A)), M, error="TracerArrayConversionError"),
    row("unhashable", lambda n, sp, A: hash(A), M, error="TypeError"),
    row("mapped_elsewhere", lambda n, sp, A: n.jax.vmap(lambda a: a.T, out_axes=1)(A), B, how=[BATCHED], error="ValueError"),
]  # fmt: skip
