"""Manual axis types say the truth: a program over unreduced and reduced values equals the one with the sums written out, or is refused.

Each operation runs with every state of its operands over one mesh axis and, for two operands, over two: a part of them always, all with
`XLAB_TYPES=all`.
"""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.errors import ShardingTypeError
from xlab.lax import parallel
from xlab.sharding import AxisType, P, make_mesh, reshard

MESH = make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = make_mesh((4, 2), ("x", "y"))
RNG = np.random.RandomState(0)
X, Y = (RNG.uniform(0.5, 1.5, (2, 2, 4, 4)).astype(np.float32) for _ in range(2))
STATES = "VIUR"
WHOLE = os.environ.get("XLAB_TYPES") == "all"

UNARY = {
    "neg": lambda x: -x, "sin": jnp.sin, "abs": jnp.abs, "exp": jnp.exp, "square": jnp.square, "twice": lambda x: x * 2.0,
    "half": lambda x: x / 2.0, "inverse": lambda x: 1.0 / x, "plus_one": lambda x: x + 1.0, "plus_zero": lambda x: 0.0 + x,
    "transpose": jnp.transpose, "reshape": lambda x: x.reshape(2, 8), "slice": lambda x: x[1:, :2], "row": lambda x: x[1],
    "pad": lambda x: jnp.pad(x, 1), "pad_ones": lambda x: jnp.pad(x, 1, constant_values=1.0), "rev": lambda x: x[::-1],
    "gather": lambda x: x[np.array([2, 0])], "take": lambda x: jnp.take(x, np.array([1, 3]), axis=1),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (np.int32(1), np.int32(0)), (2, 4)), "sum": lambda x: x.sum(0),
    "max": lambda x: x.max(0), "prod": lambda x: x.prod(0), "cumsum": lambda x: jnp.cumsum(x, 0), "cumprod": lambda x: jnp.cumprod(x, 0),
    "sort": lambda x: jnp.sort(x, 0), "argmax": lambda x: jnp.argmax(x, 0), "astype": lambda x: x.astype("bfloat16").astype("float32"),
    "to_int": lambda x: (8 * x).astype("int32"), "to_bool": lambda x: (x - x).astype(bool), "copy": jnp.copy, "broadcast": lambda x: jnp.broadcast_to(x, (3, 4, 4)),
    "squeeze": lambda x: x[None].squeeze(0), "tile": lambda x: jnp.tile(x, 2), "fft": lambda x: jnp.fft.fft(x), "complex": lambda x: lax.complex(x, x),
    "stop_gradient": lax.stop_gradient, "reduce_precision": lambda x: lax.reduce_precision(x, 8, 20), "barrier": lax.optimization_barrier,
    "split": lambda x: jnp.split(x, 2)[1], "unstack": lambda x: jnp.unstack(x)[1], "own_product": lambda x: x * x, "own_matmul": lambda x: x @ x,
    "own_sum": lambda x: x + x, "clip": lambda x: lax.clamp(np.float32(0.6), x, np.float32(0.9)), "is_finite": jnp.isfinite,
    "where_literal": lambda x: jnp.where(np.eye(4, dtype=bool), x, 0.0), "tril": jnp.tril, "cholesky": lambda x: lax.linalg.cholesky(x @ x.T + jnp.eye(4)),
    "scan": lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros_like(x[0]), x)[0], "cond": lambda x: lax.cond(True, lambda v: v + v, lambda v: v, x),
    "while": lambda x: lax.fori_loop(0, 3, lambda k, c: c + x, x), "checkpoint": xlab.checkpoint(lambda x: x + x),
    "vmap": xlab.vmap(lambda v: v + v), "at_set": lambda x: x.at[0].set(x[1]), "at_add": lambda x: x.at[0].add(x[1]),
    "zeros_like": lambda x: x + jnp.zeros_like(x), "window_sum": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"),
    "softmax": lambda x: xlab.nn.softmax(x), "logistic": lax.logistic, "tanh": jnp.tanh, "sqrt": jnp.sqrt,
}  # fmt: skip
BINARY = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "max": jnp.maximum, "dot": jnp.dot, "gt": jnp.greater,
    "pow": jnp.power, "concatenate": lambda x, y: jnp.concatenate([x, y]), "stack": lambda x, y: jnp.stack([x, y]),
    "where": lambda x, y: jnp.where(np.eye(4, dtype=bool), x, y), "where_mask": lambda x, y: jnp.where(x > 1, y, y + y),
    "update": lambda x, y: lax.dynamic_update_slice(x, y[:1], (1, 0)), "scatter_add": lambda x, y: x.at[np.array([0, 2])].add(y[:2]),
    "pad": lambda x, y: lax.pad(x, y[0, 0], ((1, 0, 0), (0, 0, 0))), "index": lambda x, y: x[(y[0] > 1).astype("int32")],
    "dynamic_slice": lambda x, y: lax.dynamic_slice(x, ((y[0, 0] > 1).astype("int32"), 0), (2, 4)), "conv": lambda x, y: jnp.convolve(x[0], y[0]),
    "complex": lax.complex, "clamp": lambda x, y: lax.clamp(x, y, x + x), "cond": lambda x, y: lax.cond(True, lambda x, y: x, lambda x, y: y, x, y),
    "carry": lambda x, y: lax.fori_loop(0, 2, lambda k, c: c + y, x), "solve": lambda x, y: lax.linalg.triangular_solve(jnp.tril(x), y, left_side=True, lower=True),
    "select_n": lambda x, y: lax.select_n(np.eye(4, dtype=bool), x, y), "barrier": lambda x, y: lax.optimization_barrier((x, y))[1],
}  # fmt: skip


def states(pairs):
    """The values of a state over each axis, from one part per device: as the body sees it, and with the sums written out."""

    def given(x):
        for axis, s in pairs:
            if s in "IR":
                x = lax.psum(x, axis)
        for axis, s in pairs:
            if s in "UR":
                x = lax.pcast(x, axis, to="unreduced" if s == "U" else "reduced")
        return x

    def written(x):
        for axis, s in pairs:
            if s != "V":
                x = lax.psum(x, axis)
        return x

    return given, written


def finished(out):
    """Results of a body, each as parts of one array per device."""

    def leaf(x):
        mat = xlab.typeof(x).mat
        for a in mat.unreduced:
            x = lax.psum(x, a)
        if mat.reduced:
            x = lax.pcast(x, tuple(sorted(mat.reduced)), to="varying")
        missing = tuple(sorted({"i", "j"} - xlab.typeof(x).mat.varying))
        return (lax.pcast(x, missing, to="varying") if missing else x)[None, None]

    return xlab.tree.map(leaf, out)


def compare(f, kinds):
    """Runs `f` over operands of these states and with the sums written out; whether it was accepted."""
    both = [states(k) for k in kinds]
    parts = (X, Y)[: len(kinds)]

    def run(which):
        def body(*xs):
            return finished(f(*(b[which](x[0, 0]) for b, x in zip(both, xs))))

        return xlab.jit(
            xlab.shard_map(body, mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", "j"))
        )(*parts)

    try:
        got = run(0)
    except ShardingTypeError:
        return False
    except (
        NotImplementedError,
        TypeError,
    ) as e:  # no rule; or carries and branches that would have to be cast
        if not any(words in str(e) for words in ("unreduced rule for", "carry", "branch")):
            raise
        return False
    np.testing.assert_allclose(
        np.asarray(got), np.asarray(run(1)), rtol=2e-2, atol=2e-2, err_msg=str(kinds)
    )
    return True


LINEAR = {"neg", "twice", "half", "plus_zero", "transpose", "reshape", "slice", "row", "pad", "rev", "gather", "take", "dynamic_slice", "sum", "cumsum",
          "astype", "copy", "broadcast", "squeeze", "tile", "fft", "complex", "stop_gradient", "reduce_precision", "barrier", "split", "unstack",
          "own_sum", "scan", "cond", "while", "checkpoint", "vmap", "at_set", "at_add", "zeros_like", "window_sum"}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name):
    for s in STATES if WHOLE else "UR":
        accepted = compare(UNARY[name], [[("i", s)]])
        if s in "VI" or (s == "U" and name in LINEAR):
            assert accepted, s
    assert compare(UNARY[name], [[("i", "U"), ("j", "V")]]) == (
        name in LINEAR or compare(UNARY[name], [[("i", "U")]])
    )


@pytest.mark.parametrize("name", BINARY if WHOLE else list(BINARY)[::2])
def test_two_operands(name):
    for a, b in (
        itertools.product(STATES, repeat=2) if WHOLE else ("UU", "UR", "RU", "UI", "RI", "RV")
    ):
        compare(BINARY[name], [[("i", a)], [("i", b)]])


@pytest.mark.parametrize("name", BINARY if WHOLE else ["add", "mul", "where"])
def test_two_axes(name):
    cases = list(itertools.product(STATES, repeat=4))
    for a, b, c, d in cases if WHOLE else cases[::31]:
        compare(BINARY[name], [[("i", a), ("j", b)], [("i", c), ("j", d)]])


SMOOTH = [n for n in UNARY if n not in ("argmax", "to_int", "to_bool", "is_finite", "complex", "fft", "cholesky")]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH if WHOLE else SMOOTH[::4])
def test_gradients_of_every_state(name):
    """A gradient through values of a state is that through the sums written out, wherever it is accepted."""

    def gradient(which, kind):
        given = states([("i", kind)])[which]

        def loss(x):
            out = UNARY[name](given(x[0, 0]))
            (out,) = xlab.tree.leaves(finished(out))
            weights = jnp.cos(jnp.arange(out.size, dtype=np.float32)).reshape(out.shape)
            return lax.psum(jnp.sum(weights * out.astype(np.float32)), ("i", "j"))

        f = xlab.shard_map(xlab.grad(loss), mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", "j"))
        return np.asarray(xlab.jit(f)(X))

    for kind in STATES if WHOLE else "UR":
        try:
            got = gradient(0, kind)
        except (ShardingTypeError, NotImplementedError):
            continue
        np.testing.assert_allclose(got, gradient(1, kind), rtol=2e-2, atol=2e-2, err_msg=kind)


def test_refusals():
    def refused(f, a, b):
        return not compare(f, [[("i", a)], [("i", b)]])

    for f, a, b in (
        (jnp.add, "U", "R"),
        (jnp.add, "R", "U"),
        (jnp.subtract, "U", "R"),
        (jnp.multiply, "U", "U"),
        (jnp.multiply, "U", "I"),
        (jnp.add, "U", "I"),
        (jnp.dot, "U", "R"),
        (jnp.add, "R", "I"),
    ):
        assert refused(f, a, b)
    assert (
        not refused(jnp.multiply, "U", "R")
        and not refused(jnp.multiply, "R", "U")
        and not refused(jnp.multiply, "R", "R")
    )


W = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 5
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2) / 4
LOSSES = {
    "item": lambda w, x: (x @ w[0].T).sum(),
    "slice": lambda w, x: (x @ w[0, :2].T).sum(),
    "loop": lambda w, x: lax.fori_loop(
        0, 2, lambda k, c: c + (x @ w[k].T).sum(), jnp.zeros_like(x.sum())
    ),
    "split": lambda w, x: sum((x @ p[0].T).sum() for p in jnp.split(w, 2)),
    "concatenate": lambda w, x: (x @ jnp.concatenate([w[0], w[1]]).T).sum(),
    "checkpoint": lambda w, x: xlab.checkpoint(lambda w: jnp.sin(x @ w[0].T).sum())(w),
    "vmap": lambda w, x: xlab.vmap(lambda w: (x @ w.T).sum())(w).sum(),
    "scan": lambda w, x: lax.scan(lambda c, w: (jnp.tanh(c @ w[:2]), None), x, w)[0].sum(),
    "product": lambda w, x: (x @ (w[0] * w[1]).T).sum(),
    "square": lambda w, x: (x @ (w[0] ** 2).T).sum(),
    "tanh": lambda w, x: (x @ jnp.tanh(w[0]).T).sum(),
    "gather": lambda w, x: (x @ w[jnp.array([0, 1, 0])][2].T).sum(),
    "update": lambda w, x: (x @ w.at[0].set(w[1])[0].T).sum(),
    "bfloat16": lambda w, x: (
        (x.astype("bfloat16") @ w[0].T.astype("bfloat16")).sum().astype("float32")
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_reduced_weights(name):
    """The sum over devices is deferred, inside of `shard_map` and along Explicit axes."""
    loss = LOSSES[name]
    want = xlab.grad(loss)(W, ROWS)
    got = xlab.shard_map(
        lambda w, x: lax.psum(xlab.grad(loss)(lax.pcast(w, "i", to="reduced"), x), "i"),
        mesh=MESH,
        in_specs=(P(), P("i")),
        out_specs=P(),
    )(W, ROWS)
    np.testing.assert_allclose(got, want, rtol=2e-2)
    with xlab.set_mesh(EXPLICIT):
        x = xlab.device_put(ROWS, P("y"))
        g = xlab.jit(xlab.grad(loss))(reshard(W, P(reduced={"y"})), x)
        assert xlab.typeof(g).mat.unreduced == {"y"}
        np.testing.assert_allclose(reshard(g, P()), want, rtol=2e-2)


@pytest.mark.parametrize(("to", "seen"), [("unreduced", "R"), ("reduced", "U")])
def test_cotangents_at_the_border(to, seen):
    def body(x):
        def f(v):
            return (
                lax.pcast(v * 2.0, "i", to="unreduced")
                if to == "unreduced"
                else lax.all_gather(v * 2.0, "i", to="reduced", tiled=True)
            )

        out, pull = xlab.vjp(f, x)
        ct = (
            lax.pcast(np.ones(out.shape, np.float32), "i", to="reduced")
            if to == "unreduced"
            else lax.pcast(
                lax.pcast(np.ones(out.shape, np.float32), "i", to="varying"), "i", to="unreduced"
            )
        )
        with pytest.raises(
            ValueError, match=rf"takes a cotangent of type float32\[\d\]\{{{seen}:i\}}"
        ):
            pull(out)
        return pull(ct)[0]

    got = xlab.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i"))(np.ones(4, np.float32))
    assert np.asarray(got).tolist() == [2.0 if to == "unreduced" else 4.0] * 4


def test_arrays_like_others_keep_their_axes():
    def body(x):
        for like in (
            jnp.zeros_like,
            jnp.ones_like,
            jnp.empty_like,
            lambda v: jnp.full_like(v, 2),
            lambda v: lax.full_like(v, 2.0, np.int32),
            lambda v: jnp.zeros_like(v, dtype=int),
            lambda v: jnp.ones_like(v, shape=(3,)),
        ):
            assert xlab.typeof(like(x)).vma == {"i"}
        return lax.fori_loop(0, 2, lambda k, c: c + x, jnp.zeros_like(x)) + lax.cond(
            True, jnp.zeros_like, lambda v: v, x
        )

    f = xlab.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i"))
    assert np.asarray(f(np.arange(4, dtype=np.float32))).tolist() == [0, 2, 4, 6]


CHAINS = {
    "twice": lambda u: u + u,
    "transpose": lambda u: u.T,
    "astype": lambda u: u.astype("bfloat16").astype("float32"),
    "copy": jnp.copy,
    "neg": lambda u: -u,
    "sum": lambda u: u.sum(1),
    "scaled": lambda u: u * 2.0,
    "slice": lambda u: u[:, :2],
    "one": lambda u: u.at[:, 0].get(),
    "concatenate": lambda u: jnp.concatenate([u, u], 1),
    "stack": lambda u: jnp.stack([u, u]),
    "where": lambda u: jnp.where(np.arange(8)[None] > 3, u, u + u),
    "loop": lambda u: lax.fori_loop(0, 3, lambda k, c: c + u, u),
    "scan": lambda u: lax.scan(lambda c, _: (c + u, c), u, None, length=3)[1],
    "cond": lambda u: lax.cond(True, lambda u: u + u, lambda u: u, u),
    "filled": lambda u: u.at[:, np.array([1, 9])].get(mode="fill", fill_value=0),
}


@pytest.mark.parametrize(
    "name", CHAINS if WHOLE else ["twice", "transpose", "loop", "scan", "stack"]
)
@pytest.mark.parametrize(
    "spec", [P(None, None, unreduced={"y"}), P("x", None, unreduced={"y"})], ids=str
)
def test_results_stay_sums(name, spec):
    """What leaves a program unreduced is the sum once, however it was made."""
    f, a = CHAINS[name], np.arange(64, dtype=np.float32).reshape(8, 8) / 16
    want = np.asarray(f(jnp.asarray(a @ a)))
    with xlab.set_mesh(EXPLICIT):
        p, q = xlab.device_put(a, P(spec.partitions[0], "y")), xlab.device_put(a, P("y"))
        u = jnp.dot(p, q, out_sharding=spec)
        for out in (f(u), xlab.jit(f)(u), xlab.jit(f).lower(u).compile()(u)):
            np.testing.assert_allclose(reshard(out, P()), want, rtol=2e-2)


def test_put_as_a_sum():
    a = np.arange(16, dtype=np.float32).reshape(8, 2)
    with xlab.set_mesh(EXPLICIT):
        for x in (a, jnp.asarray(a), xlab.device_put(a, P("x"))):
            u = xlab.device_put(x, P("x", unreduced={"y"}))
            np.testing.assert_array_equal(reshard(u, P()), a)
            np.testing.assert_array_equal(xlab.device_put(u, P("x")), a)


def test_the_axes_that_do_not_fit_are_named():
    def body(x):
        u = lax.pcast(lax.pcast(x, ("i", "j"), to="varying"), "i", to="unreduced")
        for f in (
            lambda: parallel.unreduced_psum(u, ("i", "j")),
            lambda: parallel.unreduced_psum_scatter(u, ("i", "j"), tiled=True),
            lambda: parallel.all_gather_reduced(u, ("j", "i")),
        ):
            with pytest.raises(ValueError, match=r"not (unreduced|varying) over \('[ij]',\)"):
                f()
        with pytest.raises(ValueError, match="to='varying'"):
            lax.psum(lax.pcast(x, "i", to="reduced"), "i")
        return x

    xlab.shard_map(body, mesh=MESH, in_specs=P(), out_specs=P())(np.ones(4, np.float32))
