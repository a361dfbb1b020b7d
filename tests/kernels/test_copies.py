"""Copies between references, their semaphores, and remarks on memory spaces."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.kernels import (
    ANY,
    BlockSpec,
    InterpretParams,
    MemorySpace,
    SemaphoreType,
    async_copy,
    interpret_mode,
    kernel_call,
    make_async_copy,
    run_scoped,
    semaphore_read,
    sync_copy,
    with_memory_space_constraint,
)

X = np.arange(8, dtype=np.float32)
pytestmark = pytest.mark.filterwarnings("ignore:.*ends with the count")
F8 = xlab.ShapeDtypeStruct((8,), "float32")
DMA = SemaphoreType.DMA


def run(body, *args, out=F8, scratch=(DMA,), **options):
    return kernel_call(body, out, scratch_shapes=list(scratch), interpret=True, **options)(*args)


@pytest.mark.usefixtures("both")
def test_k25_a_copy_counts_elements_and_the_wait_takes_them_away():
    def body(x, o, count, sem):
        copy = make_async_copy(x.at[2:6], o.at[0:4], sem)
        count[0] = semaphore_read(sem)
        copy.start()
        count[1] = semaphore_read(sem)
        copy.wait()
        count[2] = semaphore_read(sem)
        o[4:] = x[:4]

    o, count = run(body, X, out=[F8, xlab.ShapeDtypeStruct((3,), "int32")])
    assert o.tolist() == [2, 3, 4, 5, 0, 1, 2, 3] and count.tolist() == [0, 4, 0]


@pytest.mark.usefixtures("both")
def test_k25_one_wait_for_several_copies_of_more_than_a_semaphore_counts_to():
    n = 50_000

    def body(x, o, count, sem):
        for k in range(2):
            async_copy(x.at[k * n : (k + 1) * n], o.at[k * n : (k + 1) * n], sem)
        make_async_copy(x, o, sem).wait()
        count[0] = semaphore_read(sem)

    x = np.arange(2 * n, dtype=np.int32)
    o, count = run(
        body,
        x,
        out=[xlab.ShapeDtypeStruct((2 * n,), "int32"), xlab.ShapeDtypeStruct((1,), "int32")],
    )
    assert (o == x).all() and count.tolist() == [0]


@pytest.mark.usefixtures("both")
def test_k25_sync_copy_between_spaces_and_within_one_reference():
    def body(x, o, tmp):
        sync_copy(x.at[::2], tmp)
        sync_copy(tmp, o.at[4:])
        sync_copy(o.at[4:], o.at[:4])

    anywhere = BlockSpec(memory_space=ANY)
    got = run(
        body,
        X,
        scratch=[MemorySpace.SHARED((4,), "float32")],
        in_specs=[anywhere],
        out_specs=anywhere,
    )
    assert got.tolist() == [0, 2, 4, 6, 0, 2, 4, 6]


@pytest.mark.usefixtures("both")
def test_k25_a_copy_may_add():
    def body(x, o, sem):
        o[...] = jnp.ones(8)
        async_copy(x, o, sem, add=True).wait()
        sync_copy(x.at[:2], o.at[6:], add=True)

    assert run(body, X).tolist() == [1, 2, 3, 4, 5, 6, 7, 9]


@pytest.mark.usefixtures("both")
def test_k25_starts_that_are_values():
    def body(i_ref, x, o, sem):
        o[...] = jnp.zeros(8)
        async_copy(x.at[xlab.ds(i_ref[0], 2)], o.at[xlab.ds(i_ref[1], 2)], sem).wait()

    assert run(body, np.array([5, 1], np.int32), X).tolist() == [0, 5, 6, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x, o, s, r: async_copy(x.at[:3], o, s), r"one shape and dtype, got float32\[3\] and float32\[8\]"),
        (lambda x, o, s, r: sync_copy(x.at[:3], o.at[:4]), "one shape and dtype"),
        (lambda x, o, s, r: make_async_copy(x, r, s), "one shape and dtype"),
        (lambda x, o, s, r: make_async_copy(x, o, o.at[0]), "kind SemaphoreType.DMA, got .* which is no semaphore"),
        (lambda x, o, s, r: make_async_copy(x, o, 3), "Can only call `async_copy` on a `Ref`, got 3"),
        (lambda x, o, s, r: make_async_copy(X, o, s), "Can only call `async_copy` on a `Ref`, got array"),
    ],
)  # fmt: skip
def test_k25_what_cannot_be_copied_is_refused(use, words):
    def body(x, o, s, r):
        use(x, o, s, r)

    with pytest.raises(ValueError, match=words):
        run(body, X, scratch=[DMA, MemorySpace.LOCAL((8,), "int32")])


def test_k25_only_dma_semaphores_count_copies_and_one_at_a_time():
    with pytest.raises(ValueError, match="SemaphoreType.DMA, got .* of the kind 'regular'"):
        run(lambda x, o, s: async_copy(x, o, s), X, scratch=[SemaphoreType.REGULAR])
    with pytest.raises(ValueError, match="non-\\(\\)-shaped semaphore"):
        run(lambda x, o, s: async_copy(x, o, s), X, scratch=[DMA((2,))])


def test_k25_tangents_are_copied_too():
    def f(x):
        src, dst = xlab.new_ref(x), xlab.new_ref(jnp.zeros(8))

        def body(sem):
            async_copy(src.at[:4], dst.at[4:], sem).wait()
            async_copy(src.at[:4], dst.at[2:6], sem, add=True).wait()

        run_scoped(body, DMA)
        return dst[...]

    value, tangent = xlab.jvp(f, (X,), (np.ones(8, np.float32),))
    assert value.tolist() == [0, 0, 0, 1, 2, 4, 2, 3]
    assert tangent.tolist() == [0, 0, 1, 1, 2, 2, 1, 1]
    with pytest.raises(ValueError, match="has no derivative"):
        place = xlab.new_ref(jnp.zeros(8))
        xlab.jvp(lambda x: sync_copy(xlab.new_ref(x), place), (X,), (X,))


def test_k25_how_they_print():
    def body(x, o, s):
        copy = async_copy(x.at[1:3], o.at[:2], s, add=True)
        copy.wait()

    text = str(
        xlab.make_jaxpr(lambda x, o: run_scoped(lambda s: body(x, o, s), DMA))(
            xlab.new_ref(X), xlab.new_ref(X)
        )
    )
    assert "dma_start d[:2] += c[1:3] (e[...])" in text, text
    assert "dma_wait d[:2] += c[1:3] (e[...])" in text


def test_k25_copies_are_not_for_single_examples():
    def f(x):
        ref = xlab.new_ref(x)
        return sync_copy(ref, xlab.new_ref(jnp.zeros(8)))

    with pytest.raises(NotImplementedError, match="counts for all examples at once"):
        xlab.vmap(f)(np.stack([X, X]))


def test_k23_a_memory_space_constraint_is_the_identity():
    f = lambda x: with_memory_space_constraint(x, MemorySpace.LOCAL) * 2
    assert xlab.jit(f)(X).tolist() == (X * 2).tolist()
    assert "with_memory_space_constraint[memory_space=local]" in str(xlab.make_jaxpr(f)(X))
    assert xlab.jit(xlab.vmap(f))(X).tolist() == (X * 2).tolist()
    assert xlab.jit(xlab.grad(lambda x: f(x).sum()))(X).tolist() == [2] * 8


def test_k23_constraints_are_for_arrays_of_traced_programs():
    with pytest.raises(ValueError, match="Cannot eagerly run with_memory_space_constraint"):
        with_memory_space_constraint(jnp.ones(3), MemorySpace.HOST)
    with pytest.raises(NotImplementedError, match="takes arrays, got Ref"):
        with_memory_space_constraint(xlab.new_ref(X), MemorySpace.HOST)


@pytest.mark.usefixtures("both")
def test_k25_between_references_that_a_value_chooses():
    def body(i_ref, x, o, p, sem):
        o[...], p[...] = jnp.zeros(8), jnp.zeros(8)
        async_copy(x.at[:4], xlab.ref.select_ref(i_ref[0], o, p).at[4:], sem).wait()

    o, p = run(body, np.array([1], np.int32), X, out=[F8, F8])
    assert o.tolist() == [0] * 8 and p.tolist() == [0, 0, 0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize(("mode", "before"), [("on_wait", [0, 0]), ("eager", [1, 2])])
def test_k25_when_a_copy_happens(mode, before):
    def body(x, o, seen, sem):
        o[...] = jnp.zeros(8)
        copy = async_copy(x.at[1:3], o.at[:2], sem)
        seen[...] = o[:2]
        copy.wait()

    with interpret_mode(InterpretParams(dma_execution_mode=mode)):
        o, seen = run(body, X, out=[F8, xlab.ShapeDtypeStruct((2,), "float32")])
    assert seen.tolist() == before and o.tolist() == [1, 2, 0, 0, 0, 0, 0, 0]


def test_k48_what_is_copied_from_a_mapped_operand_is_mapped(both):
    """A copy makes its destination depend on its source: an output that only copies reach differs from example to example."""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    out = xlab.ShapeDtypeStruct((2,), "float32")
    scratch = [MemorySpace.LOCAL((2,), "float32"), SemaphoreType.DMA]

    def kernel(x, o, s, sem):
        copy = make_async_copy(x, s, sem)
        copy.start()
        copy.wait()
        o[...] = s[...] * 2

    call = kernel_call(kernel, out, scratch_shapes=scratch, interpret=True)
    np.testing.assert_array_equal(xlab.vmap(call)(x), x * 2)
    np.testing.assert_array_equal(xlab.jit(xlab.vmap(call))(x), x * 2)
    straight = kernel_call(lambda x, o: sync_copy(x, o), out, interpret=True)
    np.testing.assert_array_equal(xlab.vmap(straight)(x), x)
