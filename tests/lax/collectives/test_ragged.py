"""`ragged_all_to_all` against a NumPy model: pieces of random sizes, empty ones included, on meshes and under vmap, derived and transposed."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.lax.collectives import models
from xlab import lax
from xlab.config import enable_debug_checks
from xlab.interpreters import mlir
from xlab.interpreters.communication import collective_rules
from xlab.observe.overview.transfers import transfers
from xlab.sharding import AxisType, P, make_mesh

MESHES = {"8": ((8,), ("a",)), "4x2": ((4, 2), ("a", "b")), "1": ((1,), ("a",))}
PLACES = [("8", ("a",)), ("4x2", ("a",)), ("4x2", ("b",)), ("4x2", ("b", "a")), ("1", ("a",))]


def mesh_of(key):
    shape, names = MESHES[key]
    return make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


def pieces(rng, rows, m=2, most=3):
    """Random sizes; pieces of one sender follow each other, and so do those that a receiver gets."""
    devices, n = sum(map(len, rows)), len(rows[0])
    sizes = rng.integers(0, most + 1, (devices, n * m)).astype(np.int32)
    starts = np.cumsum(sizes, 1, dtype=np.int32) - sizes
    targets, received = np.zeros_like(sizes), np.zeros_like(sizes)
    for row in rows:
        for r, d in enumerate(row):
            at = 0
            for s, e in enumerate(row):
                for j in range(m):
                    targets[e, r * m + j] = at
                    received[d, s * m + j] = sizes[e, r * m + j]
                    at += sizes[e, r * m + j] + (j == 0)  # a gap now and then
    return starts, sizes, targets, received


def model(operand, output, starts, sizes, targets, _, rows):
    out = np.array(output)
    for row in rows:
        m = starts.shape[1] // len(row)
        for e in row:
            for k in range(starts.shape[1]):
                for i in range(sizes[e, k]):
                    if 0 <= targets[e, k] + i < out.shape[1]:
                        out[row[k // m], targets[e, k] + i] = operand[e, starts[e, k] + i]
    return out


def problem(key, axes, dtype=np.float32, tail=(2,), seed=0, **options):
    rows = models.groups(*MESHES[key], axes)
    rng = np.random.default_rng(seed)
    vectors = pieces(rng, rows, **options)
    devices, n = sum(map(len, rows)), len(rows[0])
    operand = rng.integers(-9, 9, (devices, 6 * n, *tail)).astype(dtype)
    output = rng.integers(-9, 9, (devices, 7 * n, *tail)).astype(dtype)
    return (operand, output, *vectors), rows


def on_mesh(key, axes, **options):
    """The exchange as a function of what all devices hold, stacked."""
    mesh, groups = mesh_of(key), options.pop("groups", None)
    where = P(mesh.axis_names)

    def body(*xs):
        return lax.expand_dims(
            lax.ragged_all_to_all(*(x[0] for x in xs), axis_name=axes, axis_index_groups=groups),
            (0,),
        )

    return xlab.shard_map(body, mesh=mesh, in_specs=where, out_specs=where, **options)


@pytest.mark.parametrize(
    ("key", "axes"), PLACES, ids=lambda v: v if isinstance(v, str) else "".join(v)
)
@pytest.mark.parametrize("check", [True, False])
def test_against_the_model(key, axes, check):
    args, rows = problem(key, axes)
    f = on_mesh(key, axes, check_vma=check)
    want = model(*args, rows)
    np.testing.assert_array_equal(np.asarray(f(*args)), want)
    np.testing.assert_array_equal(np.asarray(xlab.jit(f)(*args)), want)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "complex64"])
@pytest.mark.parametrize("tail", [(), (2, 3)])
def test_dtypes_and_ranks(dtype, tail):
    args, rows = problem("8", ("a",), dtype=jnp.dtype(dtype), tail=tail, seed=3)
    out = on_mesh("8", ("a",))(*args)
    assert out.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(out), model(*args, rows))


def test_bits_are_kept():
    (operand, output, *vectors), rows = problem("8", ("a",), tail=(), seed=1)
    bits = np.resize(np.uint32([0x80000000, 0x7FC01234, 0xFF800001, 0]), operand.shape)
    out = on_mesh("8", ("a",))(bits.view(np.float32), output, *vectors)
    np.testing.assert_array_equal(
        np.asarray(out).view(np.uint32), model(bits, output.view(np.uint32), *vectors, rows)
    )


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32])
def test_types_of_offsets(kind):
    (operand, output, *vectors), rows = problem("4x2", ("a",))
    out = on_mesh("4x2", ("a",))(operand, output, *(v.astype(kind) for v in vectors))
    np.testing.assert_array_equal(np.asarray(out), model(operand, output, *vectors, rows))


def test_groups():
    args, _ = problem("4x2", ("a",), seed=5)  # groups of four
    groups = ((0, 2, 4, 6), (1, 3, 5, 7))
    np.testing.assert_array_equal(
        np.asarray(on_mesh("8", "a", groups=groups, check_vma=False)(*args)), model(*args, groups)
    )


def test_later_pieces_win_and_rows_past_the_end_are_dropped():
    rows = [[0, 1, 2, 3, 4, 5, 6, 7]]
    operand = np.arange(8 * 4, dtype=np.float32).reshape(8, 4)
    output = np.full((8, 5), -1, np.float32)
    starts, sizes = np.zeros((8, 8), np.int32), np.full((8, 8), 3, np.int32)
    targets = np.repeat(
        np.arange(8, dtype=np.int32)[:, None], 8, 1
    )  # sender e writes rows e, e + 1, e + 2 of everyone
    args = (operand, output, starts, sizes, targets, sizes)
    np.testing.assert_array_equal(np.asarray(on_mesh("8", "a")(*args)), model(*args, rows))


def test_without_rows():
    (_, output, *vectors), _ = problem("8", ("a",))
    operand, nothing = np.zeros((8, 0, 2), np.float32), np.zeros((8, 16), np.int32)
    np.testing.assert_array_equal(
        np.asarray(on_mesh("8", "a")(operand, output, *[nothing] * 4)), output
    )
    empty = np.zeros((8, 0, 2), np.float32)
    assert on_mesh("8", "a")(output, empty, *vectors).shape == (8, 0, 2)


def test_under_vmap_of_its_own_axis():
    args, _ = problem("4x2", ("a",))
    four = tuple(x[::2] for x in args)
    f = xlab.vmap(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="v"), axis_name="v")
    np.testing.assert_array_equal(np.asarray(f(*four)), model(*four, [[0, 1, 2, 3]]))
    shared = xlab.vmap(
        lambda x, *xs: lax.ragged_all_to_all(x, jnp.zeros((28, 2)), *xs, axis_name="v"),
        axis_name="v",
        in_axes=(None, 0, 0, 0, 0),
    )
    got = shared(four[0][0], *four[2:])
    want = model(
        np.stack([four[0][0]] * 4), np.zeros((4, 28, 2), np.float32), *four[2:], [[0, 1, 2, 3]]
    )
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize(
    "in_axes",
    [0, (1, 3, 2, 0, 1, 0), (0, None, None, None, None, None), (None, None, 0, 0, 0, 0)],
    ids=str,
)
def test_vmap_of_another_axis(in_axes):
    f = on_mesh("4x2", "a")
    problems = [problem("4x2", ("a",), seed=s)[0] for s in range(3)]
    dims = (0,) * 6 if in_axes == 0 else in_axes
    stacked = [x[0] if d is None else np.stack(x, d) for x, d in zip(zip(*problems), dims)]
    want = [
        f(*(x[0] if d is None else x[i] for x, d in zip(zip(*problems), dims))) for i in range(3)
    ]
    np.testing.assert_array_equal(
        np.asarray(xlab.vmap(f, in_axes=in_axes)(*stacked)), np.stack(want)
    )


@pytest.mark.parametrize(
    ("key", "axes"), PLACES, ids=lambda v: v if isinstance(v, str) else "".join(v)
)
@pytest.mark.parametrize("check", [True, False])
def test_derivatives(key, axes, check):
    """A linear map of operand and output: the tangent is the map itself, and <f(u), w> = <u, transpose(w)>."""
    (operand, output, *vectors), _ = problem(key, axes, seed=2)
    f = on_mesh(key, axes, check_vma=check)

    def g(x, y):
        return f(x, y, *vectors)

    rng = np.random.default_rng(7)
    u, v, w = (rng.integers(-9, 9, x.shape).astype(np.float32) for x in (operand, output, output))
    _, tangent = xlab.jvp(g, (operand, output), (u, v))
    np.testing.assert_array_equal(np.asarray(tangent), np.asarray(g(u, v)))
    du, dv = xlab.jit(xlab.vjp(g, operand, output)[1])(w)
    assert np.vdot(np.asarray(g(u, v)), w) == np.vdot(u, np.asarray(du)) + np.vdot(
        v, np.asarray(dv)
    )
    (dv,) = xlab.vjp(lambda y: g(operand, y), output)[1](w)
    assert np.vdot(np.asarray(g(0 * u, v)), w) == np.vdot(v, np.asarray(dv))
    (du,) = xlab.linear_transpose(lambda x: g(x, 0 * v), u)(w)
    assert np.vdot(np.asarray(g(u, 0 * v)), w) == np.vdot(u, np.asarray(du))


def test_a_result_made_inside_has_the_right_derivative():
    """An `output` that is the same everywhere becomes one that varies: the result does, so its cotangents must not be added up."""
    (operand, _, *vectors), _ = problem("8", ("a",), seed=2)
    mesh = mesh_of("8")

    def body(x, *vs):
        return lax.ragged_all_to_all(x[0], jnp.zeros((56, 2)), *(v[0] for v in vs), axis_name="a")[
            None
        ]

    f = xlab.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    got = xlab.grad(lambda x: f(x, *vectors).sum())(operand)
    want = [(np.arange(48) < vectors[1][d].sum())[:, None] * np.ones(2) for d in range(8)]
    np.testing.assert_array_equal(np.asarray(got), np.stack(want))


def test_the_instruction_of_accelerators():
    args, _ = problem("4x2", ("a",))
    text = mlir.module.lower_module(
        xlab.make_jaxpr(on_mesh("4x2", "a"))(*args), "f", platform="cuda", devices=8
    ).text
    assert "stablehlo.custom_call @ragged_all_to_all(" in text
    assert (
        "channel_id = 1 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>"
        in text
    )


def test_what_it_moves():
    args, _ = problem("8", ("a",))
    (shard,) = xlab.make_jaxpr(on_mesh("8", "a"))(*args).eqns
    (eqn,) = (e for e in shard.params["jaxpr"].eqns if e.primitive is lax.ragged_all_to_all_p)
    move = collective_rules[eqn.primitive](
        [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params
    )
    assert (move.kind, move.axes, move.bytes_in) == ("ragged_all_to_all", ("a",), 48 * 2 * 4)
    assert [t.kind for t in transfers(on_mesh("8", "a"), *args)] == [
        "all_gather",
        *["all_to_all"] * 3,
    ]  # the emulation is shown


ROWS, FOUR = np.ones((8, 16, 2), np.float32), np.zeros((8, 8), np.int32)


def given(**changed):
    args = dict(
        zip(
            ("operand", "output", "input_offsets", "send_sizes", "output_offsets", "recv_sizes"),
            (ROWS, ROWS, *[FOUR] * 4),
        )
    )
    return list({**args, **changed}.values())


CASES = {
    **{f"float_{n}": (ValueError, f"{n} must be integer type", {n: FOUR.astype(np.float32)})
       for n in ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")},
    **{f"rank_{n}": (ValueError, rf"{n} must be rank 1 with positive dimension size, but got shape \(8, 1\)", {n: FOUR[..., None]})
       for n in ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")},
    "empty": (ValueError, r"send_sizes must be rank 1 with positive dimension size, but got shape \(0,\)", {"send_sizes": FOUR[:, :0]}),
    "lengths": (ValueError, "one length.*input_offsets 8, send_sizes 16", {"send_sizes": np.zeros((8, 16), np.int32)}),
    "multiple": (ValueError, "multiple of 8", dict.fromkeys(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), FOUR[:, :4])),
    "rows": (ValueError, "rows of one shape", {"output": np.ones((8, 16, 3), np.float32)}),
    "dtype": (ValueError, "one dtype.*astype", {"output": ROWS.astype(np.int32)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name):
    kind, words, changed = CASES[name]
    with pytest.raises(kind, match=words):
        on_mesh("8", "a")(*given(**changed))


def test_errors_of_axes():
    args = [x[0] for x in given()]
    with pytest.raises(RuntimeError, match="mapped context"):
        lax.ragged_all_to_all(*args, axis_name="q")
    with pytest.raises(RuntimeError, match="mapped context"):
        lax.ragged_all_to_all_p.bind(*args, axis_name=("q",), axis_index_groups=None)
    with pytest.raises(NameError, match=r"'q'.*ragged_all_to_all"):
        xlab.make_jaxpr(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="q"))(*args)
    with pytest.raises(ValueError, match="equally sized"):
        on_mesh("8", "a", groups=[[0], [1, 2, 3, 4, 5, 6, 7]])(*given())
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        xlab.vmap(on_mesh("8", "a", groups=[[0, 1, 2, 3], [4, 5, 6, 7]]))(
            *(np.stack([x, x]) for x in given())
        )
    with pytest.raises(NotImplementedError, match="once per axis"):
        xlab.vmap(
            lambda *xs: xlab.vmap(
                lambda *ys: lax.ragged_all_to_all(*ys, axis_name=("u", "w")), axis_name="w"
            )(*xs),
            axis_name="u",
        )(*(x.reshape(2, 4, *x.shape[1:]) for x in given()))


def test_derivatives_under_vmap_of_its_own_axis():
    """Both orders of vmap and grad give what the mesh gives."""
    (operand, output, *vectors), _ = problem("8", ("a",), seed=4)

    def loss(f):
        return xlab.grad(lambda x, y: (f(x, y, *vectors) ** 2).sum(), (0, 1))(operand, output)

    def one(*xs):
        return lax.ragged_all_to_all(*xs, axis_name="v")

    inside = xlab.vmap(
        lambda x, y, *vs: xlab.vjp(lambda x, y: one(x, y, *vs), x, y)[1](2 * one(x, y, *vs)),
        axis_name="v",
    )
    want = loss(on_mesh("8", "a"))
    for got in (loss(xlab.vmap(one, axis_name="v")), inside(operand, output, *vectors)):
        for g, w in zip(got, want):
            np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


BROKEN = {
    "recv_sizes are not what the others send.*on ranks 0, 3": (5, 0, {0: 1, 3: 1}),
    "input_offsets and send_sizes take rows outside of the operand, on rank 2": (2, 1, {2: 90}),
    "output_offsets and send_sizes write rows outside of the result, on rank 1": (4, 1, {1: -90}),
}


@pytest.mark.parametrize("match", BROKEN)
@pytest.mark.parametrize("how", ["mesh", "vmap"])
def test_a_broken_contract_is_told_where_checks_are_on(how, match):
    """C78: all ranks fail together, so that none waits for another."""
    args, _ = problem("8", ("a",))
    which, column, change = BROKEN[match]
    broken = [np.array(v) for v in args]
    for rank, by in change.items():
        broken[which][rank, column] += by
    if how == "mesh":
        f = xlab.jit(on_mesh("8", ("a",)))
    else:
        f = xlab.vmap(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="a"), axis_name="a")
    np.asarray(f(*broken))  # nothing is checked
    with enable_debug_checks(True):
        np.testing.assert_array_equal(f(*args), model(*args, models.groups((8,), ("a",), ("a",))))
        xlab.effects_barrier()
        with pytest.raises(Exception, match=f"ragged_all_to_all: {match}"):
            np.asarray(f(*broken))
            xlab.effects_barrier()
