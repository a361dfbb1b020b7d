"""Derivatives, batching, partial evaluation and dead code of kernel calls (K47, K48)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.kernels import (
    ANY,
    BlockSpec,
    BoundedSlice,
    CostEstimate,
    Indirect,
    PrefetchGridSpec,
    kernel_call,
    num_programs,
    program_id,
    when,
)

X = jnp.arange(8.0) / 8
OUT = xlab.ShapeDtypeStruct((8,), "float32")
BLOCK = BlockSpec((4,), lambda i: (i,))
BLOCKS = {"grid": 2, "in_specs": [BLOCK], "out_specs": BLOCK, "interpret": True}


def out(*shape, dtype="float32"):
    return xlab.ShapeDtypeStruct(shape, dtype)


def sine(x_ref, o_ref):
    o_ref[...] = jnp.sin(x_ref[...])


SINE = kernel_call(sine, OUT, **BLOCKS)


def calls(f, *args):
    found = []

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "kernel_call":
                found.append(eqn)
            elif eqn.primitive.name == "jit":
                walk(eqn.params["jaxpr"])

    walk(xlab.make_jaxpr(f)(*args))
    return found


# -- derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_k47_forward_mode(wrap):
    f = wrap(SINE)
    y, dy = xlab.jvp(f, (X,), (jnp.full(8, 2.0),))
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(dy, 2 * np.cos(X), rtol=1e-6)
    second = lambda x: xlab.jvp(f, (x,), (jnp.ones(8),))[1]
    np.testing.assert_allclose(xlab.jvp(second, (X,), (jnp.ones(8),))[1], -np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(xlab.jacfwd(f)(X), np.diag(np.cos(X)), rtol=1e-6)


def test_k47_operands_and_outputs_are_doubled_with_the_same_blocks():
    f = kernel_call(sine, OUT, cost_estimate=CostEstimate(1, 2, 3), **BLOCKS)
    (eqn,) = calls(lambda x: xlab.jvp(f, (x,), (x,)), X)
    mapping = eqn.params["grid_mapping"]
    assert (mapping.num_inputs, mapping.num_outputs) == (2, 2)
    assert len({m.block_shape for m in mapping.block_mappings}) == 1
    assert [m.origin for m in mapping.block_mappings] == [
        "args[0]",
        "tangent of args[0]",
        "outputs",
        "tangent of outputs",
    ]
    assert eqn.params["cost_estimate"] == CostEstimate(2, 4, 6)


def product(a, b, o, count, s):
    @when(program_id(0) == 0)
    def _():
        s[...] = jnp.zeros_like(s)

    s[...] += a[...] * b[0]
    o[...] = s[...] * a[...]
    count[0] = program_id(0)


PRODUCT = kernel_call(
    product, (OUT, out(2, dtype="int32")), grid=2, interpret=True, scratch_shapes=[ANY((4,), "float32")],
    in_specs=[BLOCK, BlockSpec((1,), lambda i: i)], out_specs=(BLOCK, BlockSpec((1,), lambda i: i)),
)  # fmt: skip


def product_of_values(a, b):
    s = a[:4] * b[0]
    first = s * a[:4]
    s = s + a[4:] * b[1]
    return jnp.concatenate([first, s * a[4:]]), jnp.arange(2)


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)])
def test_k47_scratch_integers_and_operands_without_tangents(which):
    b = jnp.array([2.0, 3.0])

    def partly(f):
        return lambda *given: f(*(g if w else c for g, w, c in zip(given, which, (X, b))))

    tangents = (jnp.cos(X), b * 0.5)
    got = xlab.jvp(partly(PRODUCT), (X, b), tangents)
    want = xlab.jvp(partly(product_of_values), (X, b), tangents)
    for g, w in zip(xlab.tree.leaves(got), xlab.tree.leaves(want)):
        if g.dtype == np.float32:
            np.testing.assert_allclose(g, w, rtol=1e-6)
        else:
            assert g.shape == w.shape and g.dtype == w.dtype


def test_k47_control_flow_and_custom_rules_inside():
    @xlab.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))

    def body(x, o):
        def step(t, c):
            o[...] = o[...] + cube(x[...]) * c
            return c + 1.0

        o[...] = jnp.zeros_like(o)
        lax.fori_loop(0, 3, step, 1.0)
        lax.cond(program_id(0) == 0, lambda: o.__setitem__(0, x[1] * x[1]), lambda: None)

    f = kernel_call(body, OUT, **BLOCKS)
    y, dy = xlab.jvp(f, (X,), (jnp.ones(8),))
    want, slope = 6 * X**3, 18 * X**2
    np.testing.assert_allclose(y, want.at[0].set(X[1] ** 2), rtol=1e-6)
    np.testing.assert_allclose(dy, slope.at[0].set(2 * X[1]), rtol=1e-5)


def test_k47_captured_references():
    def f(x):
        ref = xlab.new_ref(jnp.zeros(4))

        def body(x, o):
            ref[...] += x[...]
            o[...] = ref[...] * x[...]

        y = kernel_call(body, OUT, **BLOCKS)(x)
        return y, ref[...]

    def model(x):
        a, b = x[:4], x[4:]
        return jnp.concatenate([a * a, (a + b) * b]), a + b

    got, want = (xlab.jvp(g, (X,), (jnp.sin(X + 1),)) for g in (f, model))
    for g, w in zip(xlab.tree.leaves(got), xlab.tree.leaves(want)):
        np.testing.assert_allclose(g, w, rtol=1e-6)


def dynamic(x):
    n = lax.convert_element_type(x[0] * 0 + 2, np.int32)
    return kernel_call(sine, OUT, **{**BLOCKS, "grid": (n,)})(x)


def prefetched(x):
    spec = PrefetchGridSpec(
        1,
        grid=2,
        in_specs=[BlockSpec((4,), lambda i, p: p[i])],
        out_specs=BlockSpec((4,), lambda i, p: i),
    )
    return kernel_call(lambda p, x, o: sine(x, o), OUT, grid_spec=spec, interpret=True)(
        jnp.arange(2), x
    )


def aliased(x):
    return kernel_call(sine, OUT, input_output_aliases={0: 0}, **BLOCKS)(x)


@pytest.mark.parametrize(
    ("f", "reason"),
    [(dynamic, "sizes that are known only at run time"), (prefetched, "prefetched scalars"), (aliased, "input_output_aliases")],
)  # fmt: skip
@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_k47_what_has_no_derivative(f, reason, wrap):
    np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)
    with pytest.raises(
        NotImplementedError, match=f"cannot be differentiated: it.*{reason}.*custom_vjp"
    ):
        xlab.jvp(wrap(f), (X,), (X,))


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit, xlab.checkpoint])
def test_k47_reverse_mode_is_told_of_custom_vjp(wrap):
    with pytest.raises(
        NotImplementedError,
        match=r"kernel call of sine has no reverse-mode derivative.*xlab\.custom_vjp",
    ):
        xlab.grad(lambda x: wrap(SINE)(x).sum())(X)


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_k47_linearize(wrap):
    y, f_lin = xlab.linearize(wrap(SINE), X)
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(f_lin(jnp.ones(8)), np.cos(X), rtol=1e-6)
    (y, n), f_lin = xlab.linearize(lambda a: wrap(PRODUCT)(a, jnp.array([2.0, 3.0])), X)
    np.testing.assert_allclose(y, product_of_values(X, [2.0, 3.0])[0], rtol=1e-6)
    np.testing.assert_array_equal(n, [0, 1])
    want = xlab.jvp(lambda a: product_of_values(a, [2.0, 3.0])[0], (X,), (X + 1,))[1]
    np.testing.assert_allclose(f_lin(X + 1)[0], want, rtol=1e-6)


@xlab.custom_vjp
def with_kernels(x, w):
    return kernel_call(
        lambda x, w, o: o.__setitem__(..., jnp.sin(x[...]) * w[...]), OUT, interpret=True
    )(x, w)


def _backward(residuals, ct):
    def body(x, w, ct, dx, dw):
        dx[...] = jnp.cos(x[...]) * w[...] * ct[...]
        dw[...] = jnp.sin(x[...]) * ct[...]

    return kernel_call(body, (OUT, OUT), interpret=True)(*residuals, ct)


with_kernels.defvjp(lambda x, w: (with_kernels(x, w), (x, w)), _backward)


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit, xlab.checkpoint])
def test_k47_custom_vjp_of_kernels(wrap):
    w = X + 1
    dx, dw = xlab.grad(lambda x, w: wrap(with_kernels)(x, w).sum(), (0, 1))(X, w)
    np.testing.assert_allclose(dx, np.cos(X) * w, rtol=1e-6)
    np.testing.assert_allclose(dw, np.sin(X), rtol=1e-6)
    both = xlab.vmap(xlab.grad(lambda x, w: wrap(with_kernels)(x, w).sum()))(
        jnp.stack([X, w]), jnp.stack([w, w])
    )
    np.testing.assert_allclose(both, np.cos(np.stack([X, w])) * w, rtol=1e-6)


def test_remat_of_kernels_whose_derivative_is_not_asked_for():
    def f(x):
        scale = kernel_call(sine, OUT, **BLOCKS)(lax.stop_gradient(x))
        return (scale * x).sum()

    for g in (f, xlab.jit(f), xlab.checkpoint(f)):
        np.testing.assert_allclose(xlab.grad(g)(X), np.sin(X), rtol=1e-6)


def test_integers_have_no_tangents():
    f = kernel_call(
        lambda i, x, o: o.__setitem__(..., x[...] * i[0].astype("float32")), OUT, interpret=True
    )
    got = xlab.jvp(lambda x: f(jnp.array([3]), x), (X,), (jnp.ones(8),))[1]
    np.testing.assert_allclose(got, np.full(8, 3.0))


# -- batching -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_k48_batches_anywhere(size, axis):
    batch = jnp.stack([X + i for i in range(size)], axis)
    got = xlab.vmap(SINE, in_axes=axis, out_axes=axis)(batch)
    np.testing.assert_allclose(got, np.sin(batch), rtol=1e-6)
    np.testing.assert_allclose(
        xlab.jit(xlab.vmap(SINE, axis))(batch), np.sin(np.moveaxis(batch, axis, 0)), rtol=1e-6
    )


def test_k48_an_axis_of_the_grid_in_front():
    (eqn,) = calls(xlab.vmap(SINE), jnp.ones((3, 8)))
    mapping = eqn.params["grid_mapping"]
    assert mapping.grid == (3, 2) and mapping.vmapped_dims == (0,)
    assert [str(m.array_aval) for m in mapping.block_mappings] == ["float32[3,8]"] * 2
    assert [m.block_aval.shape for m in mapping.block_mappings] == [(4,)] * 2
    (eqn,) = calls(xlab.vmap(SINE, 1), jnp.ones((8, 3)))
    assert "Squeezed" in str(eqn.params["grid_mapping"].block_mappings[0].block_shape[1])
    (eqn,) = calls(xlab.vmap(xlab.vmap(SINE)), jnp.ones((3, 2, 8)))
    assert eqn.params["grid_mapping"].vmapped_dims == (0, 1)
    np.testing.assert_allclose(
        xlab.vmap(xlab.vmap(SINE))(jnp.ones((3, 2, 8))), np.full((3, 2, 8), np.sin(1.0)), rtol=1e-6
    )


def test_k48_kernels_do_not_see_the_new_axis():
    def body(x, o):
        o[...] = x[...] + 10 * program_id(0) + 100 * num_programs(0)
        with pytest.raises(ValueError, match="has 1 axes"):
            program_id(1)

    f = kernel_call(body, OUT, **BLOCKS)
    got = xlab.vmap(f)(jnp.zeros((2, 8)))
    np.testing.assert_array_equal(got, [[200] * 4 + [210] * 4] * 2)
    g = kernel_call(
        lambda o: o.__setitem__(0, lax.axis_index("i")),
        out(2, dtype="int32"),
        grid=(("i", 2),),
        out_specs=BlockSpec((1,), lambda i: i),
        interpret=True,
    )
    np.testing.assert_array_equal(
        xlab.vmap(lambda x: g())(X), [0, 1] if g().ndim == 0 else [[0, 1]] * 8
    )


def test_k48_unbatched_operands_and_calls():
    f = kernel_call(
        lambda a, b, o: o.__setitem__(..., a[...] + b[...]),
        OUT,
        grid=2,
        in_specs=[BLOCK, BLOCK],
        out_specs=BLOCK,
        interpret=True,
    )
    got = xlab.vmap(f, (0, None))(jnp.stack([X, X + 1]), X)
    np.testing.assert_allclose(got, np.stack([2 * X, 2 * X + 1]), rtol=1e-6)
    (eqn,) = calls(xlab.vmap(f, (0, None)), jnp.stack([X, X]), X)
    assert [str(v.aval) for v in eqn.invars] == ["float32[2,8]", "float32[8]"]
    (eqn,) = calls(xlab.vmap(lambda x: f(X, X)), X)
    assert eqn.params["grid_mapping"].grid == (2,)


@pytest.mark.parametrize("size", [1, 3])
def test_k48_outputs_that_no_batched_operand_reaches_are_not_batched(size):
    def body(a, b, o, p):
        o[...], p[...] = a[...] + b[...], a[...] * 2

    f = kernel_call(body, (OUT, OUT), interpret=True)
    got, same = xlab.vmap(f, (None, 0), (0, None))(X, jnp.ones((size, 8)))
    np.testing.assert_allclose(got, np.stack([X + 1] * size), rtol=1e-6)
    np.testing.assert_allclose(same, 2 * X, rtol=1e-6)


def test_k48_batched_prefetch_and_sizes_are_a_loop():
    batch = jnp.stack([X, X + 1])
    spec = PrefetchGridSpec(
        1,
        grid=2,
        in_specs=[BlockSpec((4,), lambda i, p: p[i])],
        out_specs=BlockSpec((4,), lambda i, p: i),
    )
    f = kernel_call(lambda p, x, o: o.__setitem__(..., x[...]), OUT, grid_spec=spec, interpret=True)
    order = jnp.array([[1, 0], [0, 1]])
    swapped = lambda x: jnp.concatenate([x[4:], x[:4]])
    np.testing.assert_array_equal(xlab.vmap(f)(order, batch), jnp.stack([swapped(X), X + 1]))
    np.testing.assert_array_equal(xlab.vmap(f, (0, None))(order, X), jnp.stack([swapped(X), X]))
    np.testing.assert_array_equal(
        xlab.vmap(f, (None, 1))(order[0], batch.T), jnp.stack([swapped(X), swapped(X + 1)])
    )

    def counted(n):
        body = lambda o: o.__setitem__(0, program_id(0))
        return kernel_call(
            body,
            out(3, dtype="int32"),
            grid=(n,),
            out_specs=BlockSpec((1,), lambda i: i),
            interpret=True,
        )()

    low = np.iinfo(np.int32).min
    np.testing.assert_array_equal(
        xlab.vmap(counted)(jnp.array([2, 0, 3])), [[0, 1, low], [low] * 3, [0, 1, 2]]
    )
    np.testing.assert_array_equal(xlab.jit(xlab.vmap(counted))(jnp.array([1])), [[0, low, low]])


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("mode", ["copy", "shared"])
def test_k48_aliases(axis, mode):
    def body(x, y, o):
        o[0] = x[1] + y[0]

    f = kernel_call(body, OUT, input_output_aliases={0: 0}, alias_mode=mode, interpret=True)
    x = X if axis is None else jnp.stack([X, X + 1], axis)
    y = jnp.stack([X, X])
    got = xlab.vmap(f, (axis, 0))(x, y)
    rows = np.stack([X, X]) if axis is None else np.moveaxis(x, axis, 0)
    rows = np.asarray(rows)
    want = rows.copy()
    want[:, 0] = rows[:, 1] + X[0]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_k48_blocks_of_every_kind():
    spec = BlockSpec(
        (Indirect(2), BoundedSlice(3)), lambda i: (jnp.arange(2) * 2 + i, xlab.ds(i, 2))
    )
    f = kernel_call(
        lambda x, o: o.__setitem__(..., x[...]),
        out(4, 3),
        grid=2,
        in_specs=[spec],
        out_specs=BlockSpec((2, 3), lambda i: (i, 0)),
        interpret=True,
    )
    x = jnp.arange(40.0).reshape(2, 4, 5)
    want = np.stack([f(x[0]), f(x[1])])
    np.testing.assert_array_equal(xlab.vmap(f)(x), want)
    np.testing.assert_array_equal(xlab.vmap(f, 2)(jnp.moveaxis(x, 0, 2)), want)
    np.testing.assert_array_equal(
        xlab.vmap(f, 1, 1)(jnp.moveaxis(x, 0, 1)), np.moveaxis(want, 0, 1)
    )


def test_k48_an_unbatched_input_that_is_written_belongs_to_each_example():
    def body(x, y, o):
        x[0] = x[0] + y[0]
        o[0] = x[0]

    f = kernel_call(body, out(1), interpret=True)
    with pytest.warns(UserWarning, match="writes to its input"):
        got = xlab.vmap(f, (None, 0))(jnp.zeros(1), jnp.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(got, [[1], [2]])


def accumulating(x):
    ref = xlab.new_ref(x * 0)

    def body(x, o):
        ref[...] += x[...]
        o[...] = ref[...]

    y = kernel_call(body, OUT, grid=2, interpret=True)(x)
    return y, ref[...]


def test_k48_captured_references_made_for_each_example():
    batch = jnp.stack([X, X + 1])
    y, last = xlab.vmap(accumulating)(batch)
    np.testing.assert_allclose(y, 2 * batch, rtol=1e-6)
    np.testing.assert_allclose(last, 2 * batch, rtol=1e-6)
    np.testing.assert_allclose(
        xlab.jit(xlab.vmap(accumulating, 1, 1))(batch.T)[0], 2 * batch.T, rtol=1e-6
    )
    np.testing.assert_allclose(xlab.vmap(accumulating)(X[None])[0], 2 * X[None], rtol=1e-6)


def test_k48_writes_to_an_unbatched_reference():
    ref = xlab.new_ref(jnp.zeros(8))
    f = kernel_call(lambda x, o: ref.__setitem__(..., x[...]), OUT, interpret=True)
    with pytest.raises(
        ValueError, match=r"writes to the reference .*unbatched.*[Mm]ove it to an argument"
    ):
        xlab.vmap(f)(jnp.ones((2, 8)))
    g = kernel_call(lambda x, o: o.__setitem__(..., x[...] + ref[...]), OUT, interpret=True)
    np.testing.assert_array_equal(xlab.vmap(g)(jnp.ones((2, 8))), np.ones((2, 8)))


def test_k48_derivatives_and_batches_together():
    batch = jnp.stack([X, X + 1])
    slope = lambda x: xlab.jvp(SINE, (x,), (jnp.ones(8),))[1]
    np.testing.assert_allclose(xlab.vmap(slope)(batch), np.cos(batch), rtol=1e-6)
    np.testing.assert_allclose(
        xlab.jvp(xlab.vmap(SINE), (batch,), (batch,))[1], np.cos(batch) * batch, rtol=1e-6
    )
    np.testing.assert_allclose(lax.map(SINE, batch), np.sin(batch), rtol=1e-6)


def test_k48_the_mapped_axis_by_name():
    def body(x, o):
        o[...] = x[...] * lax.axis_index("b")

    with pytest.raises(
        NotImplementedError, match="uses the axis 'b' of a vmap around it.*pass what it needs"
    ):
        xlab.vmap(kernel_call(body, OUT, interpret=True), axis_name="b")(jnp.ones((2, 8)))
    sized = kernel_call(
        lambda x, o: o.__setitem__(..., x[...] * lax.axis_size("b")), OUT, interpret=True
    )
    np.testing.assert_array_equal(
        xlab.vmap(sized, axis_name="b")(jnp.ones((2, 8))), np.full((2, 8), 2)
    )
    named = kernel_call(sine, OUT, name="b", interpret=True)
    np.testing.assert_allclose(
        xlab.vmap(lambda x: named(X), axis_name="b")(jnp.ones(2)),
        np.sin(np.stack([X, X])),
        rtol=1e-6,
    )


def test_k48_spmd_axis_name():
    mesh = xlab.make_mesh((8,), ("d",), axis_types=(xlab.sharding.AxisType.Auto,))
    where = xlab.sharding.NamedSharding(mesh, xlab.sharding.PartitionSpec("d"))
    batch = xlab.device_put(jnp.ones((8, 8)), where)
    got = xlab.jit(xlab.vmap(SINE, spmd_axis_name="d"))(batch)
    np.testing.assert_allclose(got, np.sin(np.ones((8, 8))), rtol=1e-6)
