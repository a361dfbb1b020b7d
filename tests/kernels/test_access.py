"""Masked loads and stores: what they read and leave alone, outside of the array too, against a model in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.core.jaxpr import eval_jaxpr
from xlab.interpreters.discharge import discharge_state
from xlab.kernels import kernel_call, load, store, swap
from xlab.kernels.access import masked_load_p, masked_swap_p

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

X = np.arange(8, dtype=np.float32)


def placed(x, index):
    """Positions of the part that an index selects, and which of them are in the array: the model."""
    axes = []
    for n, (start, size, stride) in zip(x.shape, index):
        start = start + n if start < 0 else start
        axes.append(start + np.arange(size) * stride)
    inside = np.ones([len(a) for a in axes], bool)
    for d, (a, n) in enumerate(zip(axes, x.shape)):
        ok = (a >= 0) & (a < n)
        inside &= ok.reshape([-1 if k == d else 1 for k in range(len(axes))])
    return np.ix_(*[np.clip(a, 0, n - 1) for a, n in zip(axes, x.shape)]), inside


def model_load(x, index, mask, other):
    at, inside = placed(x, index)
    value = np.where(inside, x[at], np.nan)
    return value if mask is None else np.where(mask, value, np.nan if other is None else other)


def model_store(x, index, value, mask):
    at, inside = placed(x, index)
    new, old = x.copy(), x[at]
    written = inside if mask is None else inside & mask
    # Positions outside are moved onto others by the clip: write only what is written.
    rows = np.broadcast_arrays(*at)
    for k in np.argwhere(written):
        new[tuple(r[tuple(k)] for r in rows)] = value[tuple(k)]
    return new, np.where(inside, old, np.nan)


@st.composite
def accesses(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=2)))
    index = []
    for n in shape:
        stride = draw(st.integers(1, 2))
        size = draw(st.integers(1, (n - 1) // stride + 1))
        index.append((draw(st.integers(-n - 2, n + 3)), size, stride))
    sizes = tuple(i[1] for i in index)
    bits = st.lists(st.booleans(), min_size=math.prod(sizes), max_size=math.prod(sizes))
    mask = draw(st.one_of(st.none(), bits))
    return shape, index, None if mask is None else np.reshape(mask, sizes), draw(st.booleans())


@hypothesis.given(accesses())
@hypothesis.settings(max_examples=40)
def test_k17_loads_and_stores_are_those_of_the_model(access):
    shape, index, mask, with_other = access
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    value = -1 - np.arange(np.prod([i[1] for i in index]), dtype=np.float32).reshape(
        [i[1] for i in index]
    )
    other = np.float32(100) if with_other and mask is not None else None

    @xlab.jit
    def run(x, value, starts):
        ref = xlab.new_ref(x)
        at = tuple(xlab.ds(starts[d], i[1], i[2]) for d, i in enumerate(index))
        got = load(ref, at, mask=mask, other=other)
        old = swap(ref, at, value, mask=mask)
        return got, old, ref[...]

    starts = np.array([i[0] for i in index], np.int32)
    got, old, new = run(x, value, starts)
    # A negative start counts from the end; further away than that everything is outside.
    index = [(s, *rest) for s, (_, *rest) in zip(starts.tolist(), index)]
    np.testing.assert_array_equal(got, model_load(x, index, mask, other))
    wanted, before = model_store(x, index, value, mask)
    np.testing.assert_array_equal(new, wanted)
    np.testing.assert_array_equal(old, before)


def test_k17_a_mask_broadcasts_and_other_takes_the_places_left_out():
    ref = xlab.new_ref(jnp.arange(6.0).reshape(2, 3))
    column = jnp.array([[True], [False]])
    assert load(ref, mask=column, other=-1.0).tolist() == [[0, 1, 2], [-1, -1, -1]]
    assert load(ref, mask=column, other=jnp.array([7.0, 8.0, 9.0])).tolist() == [
        [0, 1, 2],
        [7, 8, 9],
    ]
    assert np.isnan(load(ref, mask=column)[1]).all()
    assert load(xlab.new_ref(jnp.ones(2, int)), mask=np.array([True, False])).tolist() == [
        1,
        -(2**31),
    ]


def test_k17_views_and_integers():
    ref = xlab.new_ref(jnp.arange(12.0).reshape(3, 4))
    store(ref.at[1], slice(0, 2), jnp.full(2, -1.0), mask=np.array([False, True]))
    assert ref[1].tolist() == [4, -1, 6, 7]
    assert float(load(ref, (2, 3))) == 11
    assert load(ref.at[:, 1], None, mask=np.array([True, False, True]), other=0).tolist() == [
        1,
        0,
        9,
    ]


def test_k17_an_integer_outside_reads_as_uninitialized_and_is_not_written():
    @xlab.jit
    def run(i):
        ref = xlab.new_ref(jnp.arange(3.0))
        value = load(ref, i)
        store(ref, i, 7.0)
        return value, ref[...]

    value, after = run(5)
    assert np.isnan(value) and after.tolist() == [0, 1, 2]
    assert run(1)[1].tolist() == [0, 7, 2]


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (lambda r: load(r, mask=np.ones(3, bool)), r"Cannot broadcast mask shape \(3,\) to load shape \(8,\)"),
        (lambda r: store(r, None, X, mask=np.ones(3, bool)), r"mask shape \(3,\) to store shape \(8,\)"),
        (lambda r: load(r, mask=np.ones(8)), "the mask of `load` holds booleans, got float"),
        (lambda r: load(r, other=0.0), "`other` together with a mask"),
        (lambda r: load(r, mask=np.ones(8, bool), other=np.zeros(3)), "Cannot broadcast `other` shape"),
        (lambda r: load(r, mask=np.ones(8, bool), other=np.int32(1)), "Invalid `other` for `load`"),
        (lambda r: store(r, None, 1.0), "Invalid shape for `swap`"),
        (lambda r: store(r, None, np.ones(8, bool)), "Invalid dtype for `swap`"),
        (lambda r: store(r, None, r), "Cannot store a Ref into another Ref"),
        (lambda r: load(X), "Can only call `load` on a `Ref`, got array"),
        (lambda r: load(r, xlab.ds(6, 4)), "Out of bound slice: start=6, size=4"),
    ],
)  # fmt: skip
def test_k17_what_does_not_fit_is_refused(access, words):
    with pytest.raises(ValueError, match=words):
        access(xlab.new_ref(X))


def program(x, i, mask):
    ref = xlab.new_ref(x)
    a = load(ref, xlab.ds(i, 3), mask=mask, other=0.0)
    old = swap(ref, xlab.ds(i + 1, 3), a * a, mask=mask)
    return jnp.where(mask, old, 0).sum() + a.sum(), ref[...]


def test_k17_masked_accesses_are_batched_like_a_loop():
    xs, starts = np.stack([X, X * 2, X + 1]), np.array([0, 2, 4], np.int32)
    masks = np.array([[True, False, True], [True, True, True], [False, False, True]])
    for axes in ((0, None, None), (0, 0, None), (0, None, 0), (0, 0, 0)):
        args = [v if a == 0 else v[1] for v, a in zip((xs, starts, masks), axes)]
        got = xlab.vmap(program, in_axes=axes)(*args)
        for k in range(3):
            wanted = xlab.jit(program)(*(v[k] if a == 0 else v for v, a in zip(args, axes)))
            np.testing.assert_allclose(got[0][k], wanted[0], rtol=1e-6)
            np.testing.assert_allclose(got[1][k], wanted[1], rtol=1e-6)


def test_k17_a_mask_per_example_reads_a_reference_of_all():
    ref = xlab.new_ref(X)
    masks = np.array([[True, False], [False, True]])
    got = xlab.jit(xlab.vmap(lambda m: load(ref, slice(2, 4), mask=m, other=-1.0)))(masks)
    assert got.tolist() == [[2, -1], [-1, 3]]


def test_k16_what_every_example_would_write_is_refused():
    ref = xlab.new_ref(X)
    with pytest.raises(ValueError, match="unbatched array reference"):
        xlab.vmap(lambda v: store(ref, None, v, mask=np.ones(8, bool)))(np.stack([X, X]))


def test_k17_tangents_follow_masks():
    mask = np.array([True, False, True])
    tangent = np.cos(X)
    _, (value_t, new_t) = xlab.jvp(lambda x: program(x, 2, mask), (X,), (tangent,))
    step = 1e-3
    up, down = (program(X + s * tangent, 2, mask) for s in (step, -step))
    np.testing.assert_allclose(value_t, (up[0] - down[0]) / (2 * step), rtol=2e-2)
    np.testing.assert_allclose(new_t, (up[1] - down[1]) / (2 * step), rtol=2e-2, atol=1e-2)
    other_t = xlab.jvp(
        lambda o: load(xlab.new_ref(X), slice(0, 3), mask=mask, other=o), (1.0,), (5.0,)
    )[1]
    assert other_t.tolist() == [0, 5, 0]


def test_k17_how_they_print_and_what_stays_a_plain_access():
    def kernel(ref, i, m):
        a = load(ref, xlab.ds(i, 3), mask=m, other=0.0)
        store(ref, xlab.ds(i, 3), a)
        store(ref, slice(0, 3), a)
        return load(ref, 2)

    closed = xlab.make_jaxpr(kernel)(xlab.new_ref(X), 1, np.ones(3, bool))
    text = str(closed)
    assert " <- a[b:b+3] if c else " in text and "a[:3] <- " in text and "a[b:b+3] <- " in text
    names = [e.primitive.name for e in closed.eqns]
    assert names.count("masked_load") == 1 and names.count("masked_swap") == 1
    assert names.count("get") == 1 and names.count("swap") == 1
    assert [str(sorted(map(repr, e.effects))) for e in closed.eqns if e.primitive in (masked_load_p, masked_swap_p)] == [
        "['Read<0>']", "['Write<0>']"]  # fmt: skip


def test_k13_masked_accesses_are_discharged():
    def kernel(ref, i, m):
        store(ref, xlab.ds(i, 3), load(ref, xlab.ds(i, 3), mask=m, other=0.0) + 1, mask=m)

    m = np.array([True, False, True])
    closed = xlab.make_jaxpr(kernel)(xlab.new_ref(X), 1, m)
    values = discharge_state(closed)
    assert not {"masked_load", "masked_swap"} & {e.primitive.name for e in values.eqns}
    (new,) = eval_jaxpr(values.jaxpr, values.consts, X, 6, m)
    assert np.asarray(new).tolist() == [0, 1, 2, 3, 4, 5, 7, 7]


@pytest.mark.usefixtures("both")
def test_k17_in_a_kernel():
    def kernel(n_ref, x_ref, o_ref):
        lanes = jnp.arange(8) < n_ref[0]
        o_ref[...] = jnp.zeros(8)
        store(o_ref, None, load(x_ref, mask=lanes, other=0.0) * 2, mask=lanes)

    out = kernel_call(kernel, xlab.ShapeDtypeStruct((8,), "float32"), interpret=True)(
        np.array([3], np.int32), X
    )
    assert out.tolist() == [0, 2, 4, 0, 0, 0, 0, 0]


def test_k17_of_several_references_one_that_a_value_chooses():
    @xlab.jit
    def run(i):
        a, b = xlab.new_ref(jnp.zeros(3)), xlab.new_ref(jnp.ones(3))
        one = xlab.ref.select_ref(i, a, b)
        mask = jnp.arange(3) > 0
        got = load(one, mask=mask, other=-1.0)
        store(one, None, jnp.full(3, 5.0), mask=mask)
        return got, a[...], b[...]

    got, a, b = run(1)
    assert (got.tolist(), a.tolist(), b.tolist()) == ([-1, 1, 1], [0, 0, 0], [1, 5, 5])
