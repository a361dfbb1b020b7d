"""Every primitive of sparse arrays has samples, which are programs of it, and a result that is the dense operation's."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.reference.harness import check_law, law_cases
from tests.reference.run import nested
from tests.reference.sample import Case, namespaces
from tests.sparse.samples_primitives import (
    BACKWARD_BY_LAW,
    DATA,
    MORE,
    PLACES,
    SAMPLES,
    SORTED,
    YT,
    I,
    M,
    X,
    Y,
)
from xlab.experimental import sparse

N = namespaces("xlab")
NAMES = sorted(name for name in vars(sparse) if name.endswith("_p"))
OF = {s.name: s for s in SAMPLES if not s.error}


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in nested(list(eqn.params.values())):
            yield from equations(inner)


def dense(data, indices=I):
    out = np.zeros((3, 4), np.float32)
    np.add.at(out, tuple(indices.T), data)
    return out


AT = tuple(I.T)
ROOM = PLACES != 0  # where what `fromdense` stores is
# What each sample's first result stands for, by NumPy.
DENSE = {
    "bcoo_todense_p": dense(DATA),
    "bcoo_extract_p": M[AT],
    "bcoo_extract_p.first": np.where([1, 1, 1, 1, 0], M[AT], 0),
    "bcoo_fromdense_p": np.append(M[ROOM], 0),
    "bcoo_fromdense_p.too_few": M[ROOM][:3],
    "bcoo_sort_indices_p": DATA[np.lexsort(I.T[::-1])],
    "bcoo_sum_duplicates_p": np.append(dense(DATA)[dense(DATA) != 0], [0, 0]),
    "bcoo_transpose_p": DATA,
    "bcoo_dot_general_p": dense(DATA) @ Y,
    "bcoo_dot_general_sampled_p": (YT @ Y.T)[AT],
    "bcoo_spdot_general_p": dense(DATA, SORTED) @ dense(MORE, SORTED).T,
    "bcsr_todense_p": dense(DATA, SORTED),
    "bcsr_extract_p": M[tuple(SORTED.T)],
    "bcsr_fromdense_p": np.append(M[ROOM], 0),
    "bcsr_dot_general_p": dense(DATA, SORTED) @ Y,
    "todense_p": M,
}
for kind, whole in (("coo", dense(DATA)), ("csr", dense(DATA, SORTED))):
    DENSE |= {
        f"{kind}_fromdense_p": M[ROOM],
        f"{kind}_todense_p": whole,
        f"{kind}_matvec_p.False": whole @ X,
        f"{kind}_matvec_p.True": whole.T @ X[:3],
        f"{kind}_matmat_p.False": whole @ Y,
        f"{kind}_matmat_p.True": whole.T @ YT,
    }


def test_every_primitive_has_a_sample_and_a_dense_operation():
    assert NAMES and {name.split(".")[0] for name in OF} == set(NAMES)
    assert {name.split(".")[0] for name in DENSE} == set(NAMES)


@pytest.mark.parametrize("name", OF)
def test_a_sample_is_a_program_of_its_primitive(name):
    sample = OF[name]
    program = lambda *args: sample.fun(N, *map(jnp.asarray, args))
    prim = getattr(sparse, name.split(".")[0])
    found = [e for e in equations(xlab.make_jaxpr(program)(*sample.args)) if e.primitive is prim]
    assert len(found) == 1 and f"{prim.name}_p" == name.split(".")[0]
    types = [(x.shape, x.dtype) for x in xlab.tree.leaves(xlab.eval_shape(program, *sample.args))]
    assert types == [(x.shape, x.dtype) for x in xlab.tree.leaves(program(*sample.args))]


@pytest.mark.parametrize("name", DENSE)
def test_a_result_is_the_dense_operations(name):
    sample = OF[name]
    found = xlab.tree.leaves(sample.fun(N, *map(jnp.asarray, sample.args)))[0]
    np.testing.assert_allclose(found, DENSE[name], rtol=1e-6)


@law_cases([Case(__name__, OF[name], "grad") for name in BACKWARD_BY_LAW])
def test_backward_derivatives_that_the_reference_lacks_are_transposes_of_forward_ones(case):
    check_law(case)


@pytest.mark.parametrize("name", ["coo", "csr"])
def test_padding_has_no_place_and_no_derivative(name):
    make, back = getattr(sparse, f"{name}_fromdense"), getattr(sparse, f"{name}_todense")
    full = M * (PLACES + [1, 0, 0, 0])  # something at (0, 0)
    out, slope = xlab.jvp(lambda m: make(m, nse=9), (full,), (np.ones_like(M),))
    assert out.nse == 9
    np.testing.assert_array_equal(back(out), full)
    tangent = out.tree_unflatten(out.tree_flatten()[1], [slope.data, *out.tree_flatten()[0][1:]])
    np.testing.assert_array_equal(back(tangent), full != 0)


@pytest.mark.parametrize("name", ["coo", "csr"])
def test_matrices_without_batches_say_what_has_them(name):
    sample = next(s for s in SAMPLES if s.name == f"{name}_todense_p.mapped")
    with pytest.raises(NotImplementedError, match="use BCOO or BCSR under vmap"):
        xlab.vmap(lambda d: sample.fun(N, d))(np.stack([DATA, MORE]))


@pytest.mark.parametrize("name", ["bcoo", "bcsr", "coo", "csr", "linalg", "transform", "ad", "api"])
def test_files_by_the_paths_that_programs_import(name):
    assert getattr(sparse, name).__name__ == f"xlab.experimental.sparse.{name}"
