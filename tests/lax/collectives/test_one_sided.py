"""`psend` and `precv`: types, effects, the instructions of GPUs, and the emulation on CPU against the model of `ppermute`."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.lax.collectives import models
from xlab import lax
from xlab.interpreters import mlir
from xlab.interpreters.communication import collective_rules
from xlab.lax.collectives.one_sided import SingleSideCollectiveEffect
from xlab.observe.overview.transfers import transfers
from xlab.sharding import AxisType, P, make_mesh

MESHES = {"8": ((8,), ("a",)), "4x2": ((4, 2), ("a", "b")), "1": ((1,), ("a",))}
PLACES = [("8", ("a",)), ("4x2", ("a",)), ("4x2", ("b",)), ("4x2", ("b", "a")), ("1", ("a",))]
X = np.arange(16, dtype=np.float32).reshape(8, 2)
RING = [(i, (i + 1) % 8) for i in range(8)]


@pytest.fixture
def emulated():
    xlab.config.update("emulate_send_recv", True)
    yield
    xlab.config.update("emulate_send_recv", False)


def on_mesh(f, key="8", **options):
    shape, names = MESHES[key]
    mesh = make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))
    where = P(names)
    return xlab.shard_map(
        lambda x: lax.expand_dims(f(x[0]), (0,)),
        mesh=mesh,
        in_specs=where,
        out_specs=where,
        **options,
    )


def passed(x, axes="a", perm=RING, through=lambda token: token):
    return lax.precv(through(lax.psend(x, axes, perm)), x, axes, perm)


def body_of(f, x=X):
    (shard,) = xlab.make_jaxpr(f)(x).eqns
    return shard.params["jaxpr"]


@pytest.mark.parametrize(
    ("key", "axes"), PLACES, ids=lambda v: v if isinstance(v, str) else "".join(v)
)
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("partial", [True, False])
def test_emulation_against_the_model(emulated, key, axes, check, partial):
    rows = models.groups(*MESHES[key], axes)
    n = len(rows[0])
    perm = [(n - 1, 0)] if partial else [(i, (i + 1) % n) for i in range(n)]
    x = np.arange(len(rows) * n * 3, dtype=np.float32).reshape(-1, 3)
    f = on_mesh(lambda v: passed(v, axes, perm), key, check_vma=check)
    want = models.ppermute(x, rows, perm)
    np.testing.assert_array_equal(np.asarray(f(x)), want)
    np.testing.assert_array_equal(np.asarray(xlab.jit(f)(x)), want)


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64"])
def test_emulation_of_dtypes(emulated, dtype):
    x = X.astype(jnp.dtype(dtype))
    out = on_mesh(passed)(x)
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(out), np.roll(x, 1, 0))


def test_emulation_keeps_bits(emulated):
    bits = np.resize(np.uint32([0x80000000, 0x7FC01234, 0xFF800001]), (8, 3))
    np.testing.assert_array_equal(
        np.asarray(on_mesh(passed)(bits.view(np.float32))).view(np.uint32), np.roll(bits, 1, 0)
    )


def test_emulation_of_two_at_once(emulated):
    back = [(d, s) for s, d in RING]

    def f(x):
        there, here = lax.psend([x, 2 * x], "a", RING), lax.psend(x, "a", back)
        return (
            lax.precv(there[1], x, "a", RING)
            - lax.precv(here, x, "a", back)
            + lax.precv(there[0], x, "a", RING)
        )

    np.testing.assert_array_equal(
        np.asarray(on_mesh(f)(X)), 3 * np.roll(X, 1, 0) - np.roll(X, -1, 0)
    )


def test_emulation_through_barriers(emulated):
    def f(x):
        y, token = lax.optimization_barrier((x + 1, lax.psend(x, "a", RING)))
        return y + lax.precv(lax.optimization_barrier(token), x, "a", RING)

    np.testing.assert_array_equal(np.asarray(on_mesh(f)(X)), X + 1 + np.roll(X, 1, 0))
    np.testing.assert_array_equal(
        np.asarray(xlab.vmap(on_mesh(f))(X[None])[0]), X + 1 + np.roll(X, 1, 0)
    )


def test_emulation_inside_control_flow(emulated):
    def loop(x):
        return lax.fori_loop(0, 3, lambda _, v: passed(v), x)

    np.testing.assert_array_equal(np.asarray(on_mesh(loop)(X)), np.roll(X, 3, 0))

    def branch(x):
        token = lax.psend(x, "a", RING)
        return lax.cond(
            lax.psum(x.sum(), "a") > 0,
            lambda t: lax.precv(t, x, "a", RING),
            lambda t: 2 * lax.precv(t, x, "a", RING),
            token,
        )

    np.testing.assert_array_equal(np.asarray(on_mesh(branch)(X)), np.roll(X, 1, 0))
    np.testing.assert_array_equal(np.asarray(on_mesh(branch)(-X)), -2 * np.roll(X, 1, 0))
    np.testing.assert_array_equal(
        np.asarray(on_mesh(lambda x: xlab.jit(passed)(x))(X)), np.roll(X, 1, 0)
    )


def test_vmap_of_another_axis(emulated):
    f = on_mesh(passed)
    x = np.stack([X, X + 1, X * 2])
    want = np.roll(x, 1, 1)
    np.testing.assert_array_equal(np.asarray(xlab.vmap(f)(x)), want)
    np.testing.assert_array_equal(
        np.asarray(xlab.vmap(f, in_axes=2, out_axes=2)(np.moveaxis(x, 0, 2))),
        np.moveaxis(want, 0, 2),
    )
    inside = on_mesh(lambda v: xlab.vmap(passed)(jnp.stack([v, v + 1])))
    np.testing.assert_array_equal(np.asarray(inside(X)), np.roll(np.stack([X, X + 1], 1), 1, 0))


def test_what_is_never_received_is_dropped_with_a_warning(emulated):
    def f(x):
        lax.psend(x, "a", RING)
        return x + 1

    with pytest.warns(
        UserWarning, match=r"psend of float32\[2\].*test_one_sided.py.*never received"
    ):
        out = xlab.jit(on_mesh(f))(X)
    np.testing.assert_array_equal(np.asarray(out), X + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xlab.jit(on_mesh(passed))(X)


def unmatched(x):
    return lax.precv(lax.create_token(), x, "a", RING)


MISMATCHES = {
    "no_send": ("does not come from a psend", unmatched),
    "pairs": (
        "same axes and pairs",
        lambda x: lax.precv(lax.psend(x, "a", RING), x, "a", RING[:2]),
    ),
    "shape": (
        r"precv expects float32\[3\], but the psend of its token sends float32\[2\]",
        lambda x: lax.precv(
            lax.psend(x, "a", RING), xlab.ShapeDtypeStruct((3,), np.float32), "a", RING
        ),
    ),
    "twice": (
        "psend sources and destinations must be unique",
        lambda x: lax.psend(x, "a", [(0, 1), (0, 2)]),
    ),
    "range": (
        "precv ranks.*less than 8",
        lambda x: lax.precv(lax.psend(x, "a", RING), x, "a", [(0, 8)]),
    ),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(emulated, name):
    words, f = MISMATCHES[name]
    with pytest.raises(ValueError, match=words):
        xlab.jit(on_mesh(f))(X)


def test_only_gpus_without_the_emulation():
    for f in (on_mesh(passed), xlab.jit(on_mesh(passed))):
        with pytest.raises(
            NotImplementedError,
            match="psend is currently only implemented on GPU, not on cpu.*emulate_send_recv",
        ):
            f(X)
    with pytest.raises(NotImplementedError, match="precv is currently only implemented on GPU"):
        xlab.jit(on_mesh(unmatched))(X)
    with pytest.raises(
        NotImplementedError, match="psend is currently only implemented on GPU, not on tpu"
    ):
        mlir.module.lower_module(
            xlab.make_jaxpr(on_mesh(passed))(X), "f", platform="tpu", devices=8
        )


def test_the_instructions_of_gpus():
    text = mlir.module.lower_module(
        xlab.make_jaxpr(on_mesh(lambda x: passed(x, "a", [(0, 3)]), "4x2"))(X),
        "f",
        platform="cuda",
        devices=8,
    ).text
    pairs = "source_target_pairs = dense<[[0, 6], [1, 7]]> : tensor<2x2xi64>"
    assert text.count(pairs) == text.count('mhlo.sharding = "{manual}"') == 2
    assert '"stablehlo.send"(' in text
    assert "(tensor<2xf32>, !stablehlo.token) -> !stablehlo.token" in text
    assert "(!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)" in text


def test_types_and_effects():
    body = body_of(on_mesh(passed))
    send, recv = (e for e in body.eqns if e.primitive in (lax.psend_p, lax.precv_p))
    assert str(send.outvars[0].aval) == "Tok"
    assert str(recv.outvars[0].aval) == "float32[2]{V:a}"
    for eqn in (send, recv):
        assert SingleSideCollectiveEffect() in eqn.effects
        assert len(eqn.effects) == 2
        assert "one-sided communication" in map(str, eqn.effects)
    assert xlab.make_jaxpr(on_mesh(passed))(X).effects == {SingleSideCollectiveEffect()}
    text = str(body)
    assert ":Tok = psend[" in text
    assert "out_shape=float32[2]" in text
    unchecked = body_of(on_mesh(passed, check_vma=False))
    assert "{V" not in str(unchecked)


def test_both_sides_stay_in_the_program():
    def f(x):
        passed(x)
        return x

    (shard,) = xlab.make_jaxpr(xlab.jit(on_mesh(f)))(X).eqns
    assert "psend" in str(shard)
    assert "precv" in str(shard)


def test_what_it_moves(emulated):
    """The message is that of the precv, with the bytes of what it receives."""
    eqn = next(e for e in body_of(on_mesh(passed)).eqns if e.primitive is lax.precv_p)
    move = collective_rules[lax.precv_p](
        [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params
    )
    assert (move.kind, move.axes, move.perm[0], move.bytes_in) == (
        "collective_permute",
        ("a",),
        (0, 1),
        8,
    )
    assert lax.psend_p not in collective_rules
    (record,) = transfers(on_mesh(passed), X)
    assert (record.kind, record.times) == ("collective_permute", 1)


def test_errors():
    with pytest.raises(NameError, match="'q'.*psend"):
        lax.psend(X, "q", RING)
    with pytest.raises(NameError, match="'q'.*psend"):
        xlab.make_jaxpr(lambda x: lax.psend(x, "q", RING))(X)
    with pytest.raises(TypeError, match="precv takes a token"):
        on_mesh(lambda x: lax.precv(x, x, "a", RING))(X)
    with pytest.raises(TypeError, match="precv takes a token.*NoneType"):
        on_mesh(lambda x: lax.precv(None, x, "a", RING))(X)
    with pytest.raises(TypeError, match="out_shape needs"):
        on_mesh(lambda x: lax.precv(lax.psend(x, "a", RING), (2,), "a", RING))(X)
    with pytest.raises(
        NotImplementedError, match="psend works between devices.*'v' is an axis of vmap"
    ):
        xlab.vmap(lambda x: passed(x, "v"), axis_name="v")(X)
    with pytest.raises(NotImplementedError, match="psend"):
        xlab.grad(lambda x: on_mesh(passed)(x).sum())(X)
