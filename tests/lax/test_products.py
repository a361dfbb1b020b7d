"""Ragged and sliding products that the reference does not have, against their laws; products inside fusions."""

import itertools

import numpy as np
import pytest

import xlab
from tests.lax.samples_products import BEYOND
from tests.reference import laws
from tests.reference.harness import law_cases, report, subject
from tests.reference.sample import Case
from xlab import lax
from xlab import numpy as jnp

_BEYOND = [
    Case("", sample, transform)
    for sample in BEYOND
    for transform in laws.LAWS
    if transform != "vmap" or not sample.name.startswith("outer_sizes")
]


@law_cases(_BEYOND)
def test_laws_beyond_the_reference(case):
    report(case, "breaks a law", laws.law(case, subject()))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32])
def test_mulhi_inside_fusions(dtype):
    x = np.asarray([5, 2**6 - 1, 3], dtype)
    expected = ((x.astype(np.int64) * (x.astype(np.int64) * 2)) >> (8 * x.dtype.itemsize)).astype(
        dtype
    ) * 3
    for n in (1, 3):
        out = xlab.jit(lambda x: lax.mulhi(x, x * 2) * 3)(x[:n])
        np.testing.assert_array_equal(out, expected[:n])


def test_a_product_of_two_types_is_in_the_wider():
    for narrow, wide in (
        ("bfloat16", "float32"), ("uint8", "int8"), ("int8", "uint32"), ("uint32", "int32"), ("int32", "float16"), ("float16", "bfloat16"),
        ("float8_e4m3fn", "float8_e5m2"), ("float32", "complex64"), ("bool", "uint8"),
    ):  # fmt: skip
        x, y = jnp.ones((2, 3), narrow), jnp.ones((3,), wide)
        for out in (lax.dot(x, y), lax.dot(y, x.T), xlab.jit(lax.dot)(x, y)):
            assert out.dtype == wide, (narrow, wide)
            np.testing.assert_array_equal(np.asarray(out).astype(complex), [3, 3])


def test_derivatives_of_a_product_of_two_types_have_the_types_of_the_operands():
    x, y = jnp.asarray([[1.5, 2.0]], jnp.bfloat16), jnp.asarray([[3.0], [4.0]], jnp.float32)
    dx, dy = xlab.grad(lambda x, y: lax.dot(x, y).sum(), argnums=(0, 1))(x, y)
    assert (dx.dtype, dy.dtype) == (x.dtype, y.dtype)
    np.testing.assert_array_equal(np.asarray(dx, np.float32), [[3, 4]])
    np.testing.assert_array_equal(dy, [[1.5], [2]])
    whole = np.int32([[1], [2]])
    dx = xlab.grad(lambda x: lax.dot(x, whole).sum())(x)
    assert dx.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(dx, np.float32), [[1, 2]])


def all_numbers(left: int, right: int):
    """Every way to pair dimensions of two operands, at most one as batch and at most two to sum."""
    for batch in (0, 1):
        for summed in (0, 1, 2):
            for ls in itertools.permutations(range(left), batch + summed):
                for rs in itertools.permutations(range(right), batch + summed):
                    yield (ls[batch:], rs[batch:]), (ls[:batch], rs[:batch])


@pytest.mark.parametrize("ranks", [(2, 2), (3, 2), (3, 3)], ids=str)
def test_cotangents_of_every_product(ranks):
    """Against sums of products by letters, whose derivative has the letters exchanged."""
    rng = np.random.default_rng(0)
    left, right = ranks
    for (lc, rc), (lb, rb) in all_numbers(left, right):
        letters = ["abc"[:left], list("xyz"[:right])]
        for i, j in zip((*lc, *lb), (*rc, *rb), strict=True):
            letters[1][j] = letters[0][i]
        one, other = letters[0], "".join(letters[1])
        free = [c for c in one if c not in other] + [c for c in other if c not in one]
        out = "".join([*(one[i] for i in lb), *free])
        size = dict(zip("abcxyz", (2, 3, 4, 5, 6, 7), strict=True))
        x, y, ct = (rng.normal(size=[size[c] for c in s]).astype(np.float32) for s in (one, other, out))  # fmt: skip
        product = lambda x, y, n=((lc, rc), (lb, rb)): lax.dot_general(x, y, n)
        value, pull = xlab.vjp(product, x, y)
        np.testing.assert_allclose(value, np.einsum(f"{one},{other}->{out}", x, y), 1e-4, 1e-4)
        dx, dy = pull(jnp.asarray(ct))
        np.testing.assert_allclose(dx, np.einsum(f"{out},{other}->{one}", ct, y), 1e-4, 1e-4)
        np.testing.assert_allclose(dy, np.einsum(f"{out},{one}->{other}", ct, x), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("abi,ij->abj", ((5, 2, 3), (3, 4))),
        ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))),
        ("abi,ihd->abhd", ((5, 2, 3), (3, 4, 6))),
    ],
)
def test_the_cotangents_of_products_as_programs_have_them_are_not_moved(subscripts, shapes):
    """They are multiplied in the order that leaves them as their operands lie."""
    args = [jnp.ones(s) for s in shapes]
    grad = xlab.grad(lambda *xs: jnp.sin(jnp.einsum(subscripts, *xs)).sum(), (0, 1))
    made = {e.primitive.name for e in xlab.make_jaxpr(grad)(*args).eqns}
    assert "dot_general" in made and "transpose" not in made


def test_the_text_of_a_gradient_of_a_product():
    """As the reference prints it, but that it multiplies the second cotangent the other way round and transposes it."""
    loss = lambda x, w: lax.dot_general(x, w, (((0,), (0,)), ((), ()))).sum()
    made = xlab.make_jaxpr(xlab.grad(loss, (0, 1)))(jnp.ones(3), jnp.ones((3, 2)))
    assert str(made).splitlines()[-3:] == [
        "    e:f32[3,2] = dot_general[dimension_numbers=(([], []), ([], []))] a d",
        "    f:f32[3] = dot_general[dimension_numbers=(([0], [1]), ([], []))] d b",
        "  in (f, e) }",
    ]
