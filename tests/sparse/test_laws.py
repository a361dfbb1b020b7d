"""Laws of sparse arrays that need no reference: a sparse program is the dense one, with the derivatives by the stored elements."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental import sparse

M = np.array([[0, 1.5, -2], [0, 0, 0], [3, 0, -4]], np.float32)
N = np.array([[0, 1, 2], [1, 0, 0], [-2, 3, 0]], np.float32)
B = np.stack([M, N])
X = np.array([0.5, -1, 2], np.float32)
SIGNAL = np.array([[[0, 2, 0, 0, -1, 3, 0.5]]], np.float32)
KERNEL = np.array([[[0.5, 0, -2]]], np.float32)


def bcoo(m, **kw):
    return sparse.BCOO.fromdense(m, nse=kw.pop("nse", 6), **kw)


# A sparse program of one array, and the dense one.
PROGRAMS = {
    "product": (lambda m: bcoo(m) @ X, lambda m: m @ X, M),
    "from the left": (lambda m: X @ bcoo(m), lambda m: X @ m, M),
    "two sparse": (lambda m: (bcoo(m) @ bcoo(N)).todense(), lambda m: m @ N, M),
    "with itself": (lambda m: (bcoo(m) @ bcoo(m).T).todense(), lambda m: m @ m.T, M),
    "elementwise": (lambda m: (bcoo(m) * bcoo(N)).todense(), lambda m: m * N, M),
    "a square": (lambda m: (bcoo(m) * bcoo(m)).todense(), lambda m: m * m, M),
    "a sum": (lambda m: (bcoo(m) + bcoo(N)).sum_duplicates(nse=7).todense(), lambda m: m + N, M),
    "sorted": (lambda m: bcoo(m).T.sort_indices().todense(), lambda m: m.T, M),
    "dense dimensions": (
        lambda m: sparse.bcoo_dot_general(bcoo(m, n_dense=1), X, dimension_numbers=(((2,), (0,)), ((), ()))),
        lambda m: m @ X,
        B,
    ),
    "sparse batch dimensions": (
        lambda m: sparse.bcoo_dot_general(bcoo(m), N, dimension_numbers=(((1,), (1,)), ((0,), (0,)))),
        lambda m: (m * N).sum(1),
        M,
    ),
    "compressed rows": (lambda m: sparse.BCSR.fromdense(m, nse=7) @ X, lambda m: m @ X, M),
    "rows times two": (lambda m: (2 * sparse.BCSR.fromdense(m, nse=7)).T.todense(), lambda m: 2 * m.T, M),
    "COO": (lambda m: sparse.COO.fromdense(m, nse=7) @ X, lambda m: m @ X, M),
    "CSC": (lambda m: sparse.CSC.fromdense(m, nse=7) @ N, lambda m: m @ N, M),
    "repeated": (
        lambda m: sparse.bcoo_broadcast_in_dim(bcoo(m), shape=(3, 2, 3), broadcast_dimensions=(0, 2)).todense(),
        lambda m: jnp.stack([m, m], 1),
        M,
    ),
    "joined along dense dimensions": (
        lambda m: sparse.bcoo_concatenate([bcoo(m, n_dense=1)] * 2, dimension=2).todense(),
        lambda m: jnp.concatenate([m, m], 2),
        B,
    ),
    "convolved with a dense kernel": (
        lambda m: sparse.bcoo_conv_general_dilated(bcoo(m, nse=4, n_batch=2), KERNEL, window_strides=(2,), padding=[(1, 2)], lhs_dilation=(2,)).todense(),
        lambda m: xlab.lax.conv_general_dilated(m, KERNEL, (2,), [(1, 2)], lhs_dilation=(2,)),
        SIGNAL,
    ),
    "a dense signal convolved": (
        lambda m: sparse.bcoo_conv_general_dilated(KERNEL, bcoo(m, nse=4, n_batch=2), window_strides=(1,), padding=[(8, 6)], rhs_dilation=(2,)).todense(),
        lambda m: xlab.lax.conv_general_dilated(KERNEL, m, (1,), [(8, 6)], rhs_dilation=(2,)),
        SIGNAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sparse_program_is_the_dense_one(name):
    program, dense, m = PROGRAMS[name]
    np.testing.assert_allclose(program(m), dense(m), rtol=1e-5)
    weights = np.cos(np.arange(np.size(dense(m)), dtype=np.float32)).reshape(dense(m).shape)
    by_stored = xlab.jit(xlab.grad(lambda m: (weights * jnp.sin(program(m))).sum()))(m)
    by_all = xlab.grad(lambda m: (weights * jnp.sin(dense(m))).sum())(m)
    stored = (m != 0).any(-1, keepdims=True) if "dense dim" in name else m != 0
    np.testing.assert_allclose(by_stored, np.where(stored, by_all, 0), rtol=1e-4, atol=1e-5)


def test_programs_say_how_elements_are_found():
    for kind, name in (("COO", "coo"), ("CSR", "csr"), ("BCSR", "bcsr"), ("CSC", "csr")):
        found = xlab.make_jaxpr(
            lambda m, kind=kind: getattr(sparse, kind).fromdense(m, nse=5).data
        )(M)
        assert f"{name}_fromdense" in str(found)
        mapped = xlab.vmap(
            lambda m, kind=kind: getattr(sparse, kind).fromdense(m, nse=5).data.sum()
        )(B)
        np.testing.assert_allclose(mapped, B.sum((1, 2)), rtol=1e-6)
    with pytest.raises(ValueError, match="coo_fromdense takes a matrix"):
        sparse.coo_fromdense(X)
    with pytest.raises(xlab.errors.ConcretizationTypeError, match="csr_fromdense needs the number"):
        xlab.jit(sparse.csr_fromdense)(M)


def test_python_decides_by_values_in_a_function_that_runs_operation_by_operation():
    seen = []

    def program(A, x):
        seen.append(A)
        product = A @ x
        return (A * 2, "positive") if product.sum() > 0 else (A.T, "negative")

    run = sparse.sparsify(program, use_tracer=True)
    for x, word, dense in ((-X, "positive", 2 * M), (X, "negative", M.T)):
        out, which = run(bcoo(M), x)
        assert which == word and isinstance(out, sparse.BCOO)
        np.testing.assert_array_equal(out.todense(), dense)
    assert isinstance(seen[0], sparse.SparseTracer) and seen[0].mat.nse == 6
    assert repr(seen[0]) == "SparseTracer(BCOO(float32[3, 3], nse=6))"
    with pytest.raises(xlab.errors.TracerBoolConversionError):
        sparse.sparsify(program)(bcoo(M), X)
    with pytest.raises(xlab.errors.UnexpectedTracerError):
        seen[0] + seen[0]


def test_custom_derivatives_in_a_function_that_runs_operation_by_operation():
    @xlab.custom_jvp
    def double(x):
        return 2 * x

    double.defjvp(lambda primals, tangents: (double(*primals), 20 * tangents[0]))

    def program(A, x):
        return double(A) @ double(x)

    for use_tracer in (False, True):
        run = sparse.sparsify(program, use_tracer=use_tracer)
        np.testing.assert_allclose(run(bcoo(M), X), 4 * M @ X, rtol=1e-6)
        slope = xlab.grad(lambda x, run=run: run(bcoo(M), x).sum())(X)
        np.testing.assert_allclose(slope, 40 * M.sum(0), rtol=1e-6)


@pytest.mark.parametrize("name", ["product", "two sparse", "sorted", "compressed rows", "a sum"])
def test_mapped_programs_are_loops(name):
    program, _, _ = PROGRAMS[name]
    ms = np.stack([M, N, N.T])
    np.testing.assert_allclose(xlab.vmap(program)(ms), [program(m) for m in ms], rtol=1e-5)


def test_derivatives_by_a_dense_kernel():
    A = bcoo(SIGNAL, nse=4, n_batch=2)

    def sparse_sum(k):
        out = sparse.bcoo_conv_general_dilated(A, k, window_strides=(1,), padding="SAME")
        return jnp.sin(out.todense()).sum()

    def dense_sum(k):
        return jnp.sin(xlab.lax.conv_general_dilated(SIGNAL, k, (1,), "SAME")).sum()

    np.testing.assert_allclose(
        xlab.grad(sparse_sum)(KERNEL), xlab.grad(dense_sum)(KERNEL), rtol=1e-5
    )


def test_zeros_that_are_stored_can_go():
    from xlab.experimental.sparse.bcoo import bcoo_eliminate_zeros
    from xlab.experimental.sparse.bcsr import bcsr_eliminate_zeros

    A = bcoo(M, nse=4) * jnp.array(
        [0.0, 1.0, 1.0]
    )  # what is stored in the first column became zero
    assert bcoo_eliminate_zeros(A).nse == 3
    assert xlab.jit(lambda A: bcoo_eliminate_zeros(A, 5))(A).nse == 5
    rows = bcsr_eliminate_zeros(sparse.BCSR.from_bcoo(A))
    assert rows.nse == 3 and rows.indptr.tolist() == [0, 2, 2, 3]
    np.testing.assert_array_equal(rows.todense(), A.todense())


def test_derivatives_of_extraction_where_elements_are_stored_twice():
    A = bcoo(M) + bcoo(M)
    back = xlab.grad(lambda v: (sparse.bcoo_extract(A, v).data * 3).sum())(N)
    np.testing.assert_allclose(back, np.where(M != 0, 3.0, 0))


def test_a_product_stores_no_more_than_the_smaller_factor():
    few = bcoo(M, nse=4)
    assert (few * bcoo(N)).nse == 4 == (bcoo(N) * few).nse


def test_layouts_of_one_array():
    A = bcoo(B, nse=10)
    for n_batch in (0, 1):
        for n_dense in (0, 1):
            other = A.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
            assert (other.n_batch, other.n_dense) == (n_batch, n_dense)
            np.testing.assert_array_equal(other.todense(), B)
            np.testing.assert_array_equal(other.update_layout(n_batch=0, n_dense=0).todense(), B)
    with pytest.warns(sparse.SparseEfficiencyWarning):
        A.update_layout(n_batch=1, on_inefficient="warn")


def test_padding_is_left_out():
    A = sparse.BCOO((jnp.array([1.0, 5.0, 7.0]), jnp.array([[0, 1], [2, 3], [2, 3]])), shape=(2, 3))
    np.testing.assert_array_equal(A.todense(), [[0, 1, 0], [0, 0, 0]])
    assert A.sum_duplicates().nse == 1 and float(A.sum()) == 1
    np.testing.assert_array_equal(A @ jnp.ones(3), [1, 0])
    np.testing.assert_array_equal(A.T[::-1].todense(), A.T.todense()[::-1])
    np.testing.assert_array_equal(A.reshape(6).todense(), A.todense().reshape(6))
    np.testing.assert_array_equal(sparse.BCSR.from_bcoo(A).todense(), A.todense())


def test_random_arrays():
    key = xlab.random.key(0)
    A = sparse.random_bcoo(
        key, (3, 4, 5), n_batch=1, nse=0.5, dtype=np.float32, sorted_indices=True
    )
    assert A.shape == (3, 4, 5) and A.nse == 10 and A.unique_indices
    assert (np.count_nonzero(A.todense(), axis=(1, 2)) == 10).all()
    np.testing.assert_array_equal(A.sort_indices().indices, A.indices)
    with pytest.raises(ValueError, match="between 0 and 20"):
        sparse.random_bcoo(key, (4, 5), nse=30)
    _, places = xlab.random.split(key)
    drawn = xlab.random.choice(places, 12, (6,), replace=False)
    rows, columns = sparse.random_bcoo(key, (3, 4), nse=6, sorted_indices=False).indices.T
    np.testing.assert_array_equal(rows * 4 + columns, drawn)


def test_a_program_names_what_it_does():
    A = bcoo(M)
    text = str(xlab.make_jaxpr(lambda A, x: A @ x)(A, X))
    assert "bcoo_dot_general" in text and "SparseInfo(shape=(3, 3)" in text
    assert len(xlab.make_jaxpr(lambda A, x: A @ x)(A, X).eqns) == 1


def test_containers_of_anything():
    A = bcoo(M)
    assert xlab.tree.map(lambda x: None, A).data is None
    paths = [xlab.tree_util.keystr(p) for p, _ in xlab.tree_util.tree_leaves_with_path(A)]
    assert paths == [".data", ".indices"]
    assert "nse=6" in repr(A) and str(sparse.BCSR.from_bcoo(A)).startswith("BCSR(float32[3, 3]")
    B2 = xlab.jit(lambda A: A.like(2 * A.data))(A)
    np.testing.assert_array_equal(B2.todense(), 2 * M)
    assert B2.indices_sorted and B2.block_until_ready() is B2 and len(B2) == 3
    assert [r.shape for r in A] == [(3,)] * 3
