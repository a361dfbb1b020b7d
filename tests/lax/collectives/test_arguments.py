"""What collectives are given: numbers that are no ranks, values that have no sum, empty ones, and machines that are not here."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab.lax import parallel
from xlab.sharding import AxisType, P, make_mesh

X = np.arange(64, dtype=np.float32)


def on_devices(f, *args, check_vma=False):
    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)
    return xlab.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check_vma)(
        *args or (X,)
    )


def keys():
    return xlab.random.split(xlab.random.key(0), 8)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (
            lambda v: lax.ppermute(v, "i", [(0.9, 1.2)]),
            "ppermute: the ranks of pairs are whole numbers.*got 0.9 of type float",
        ),
        (lambda v: lax.pshuffle(v, "i", [0.0, 1.0]), "pshuffle: .* whole numbers.*got 0.0"),
        (lambda v: lax.pbroadcast(v, "i", 1.9), "pbroadcast: sources are whole numbers.*got 1.9"),
        (
            lambda v: lax.pbroadcast(v, "i", "a"),
            "pbroadcast: sources are whole numbers.*got 'a' of type str",
        ),
        (
            lambda v: lax.psum(v, "i", axis_index_groups=[[0.5, 1, 2, 3, 4, 5, 6, 7]]),
            "psum: the members of axis_index_groups.*got 0.5",
        ),
        (
            lambda v: lax.psum(v, "i", axis_index_groups=[["0", 1, 2, 3, 4, 5, 6, 7]]),
            "psum: the members of axis_index_groups.*got '0'",
        ),
        (
            lambda v: lax.ppermute(v, "i", [(0,)]),
            r"ppermute takes pairs of ranks \(source, destination\).*got \[\(0,\)\]",
        ),
        (
            lambda v: lax.psum(v, "i", axis_index_groups=[0, 1, 2]),
            r"psum: axis_index_groups is a sequence of groups.*got \[0, 1, 2\]",
        ),
        *(
            (
                lambda v, f=f: f(v, 0),
                f"{f.__name__} works over named axes, got 0: an int is an axis of the array",
            )
            for f in (lax.all_gather, lax.psum_scatter)
        ),
        (lambda v: lax.all_to_all(v, 0, 0, 0), "all_to_all works over named axes, got 0"),
        (lambda v: lax.ppermute(v, 0, [(0, 1)]), "ppermute works over named axes, got 0"),
        *(
            (
                lambda v, f=f: f(keys(), "i"),
                f"{f.__name__} needs numbers, got key<fry>",
            )
            for f in (lax.psum, lax.pmean, lax.pmax, lax.pmin, lax.psum_scatter)
        ),
    ],
)
def test_what_is_no_argument(f, match):
    with pytest.raises(TypeError, match=match):
        on_devices(f)


def test_ranks_may_be_numpys():
    assert (
        on_devices(lambda v: lax.ppermute(v, "i", np.array([(0, 1)])))[8:16].tolist()
        == X[:8].tolist()
    )
    assert (
        on_devices(lambda v: lax.psum(v, "i", axis_index_groups=np.arange(8).reshape(2, 4)))[0]
        == X[:32:8].sum()
    )
    assert on_devices(lambda v: lax.pbroadcast(v, "i", np.int64(1)))[0] == 8.0


@pytest.mark.parametrize("f", [lax.all_gather, lax.all_to_all, lax.ppermute, lax.pbroadcast])
def test_keys_can_be_moved(f):
    rest = {
        lax.all_to_all: ("i", 0, 0),
        lax.ppermute: ("i", [(0, 1)]),
        lax.pbroadcast: ("i", 3),
    }.get(f, ("i",))
    words = [
        on_devices(
            lambda v, cast=cast: (
                v
                + (
                    cast(
                        f(
                            xlab.random.split(xlab.random.key(lax.axis_index("i")), 8)
                            if how
                            else words_of(),
                            *rest,
                        )
                    )
                    .astype(np.float32)
                    .sum()
                    % 1000
                )
            )
        )
        for how, cast in ((True, xlab.random.key_data), (False, lambda w: w))
    ]
    assert words[0].tolist() == words[1].tolist()


def words_of():
    return xlab.random.key_data(xlab.random.split(xlab.random.key(lax.axis_index("i")), 8))


@pytest.mark.parametrize("tiled", [True, False])
@pytest.mark.parametrize("check_vma", [True, False])
def test_empty_values(tiled, check_vma):
    def f(v):
        return (
            lax.all_gather(v[:0], "i", tiled=tiled),
            lax.psum_scatter(v[:0], "i", tiled=True),
            lax.all_to_all(v[:0], "i", 0, 0, tiled=True),
            lax.ppermute(v[:0], "i", [(0, 1)]),
            lax.psum_scatter(v.reshape(8, 1)[:, :0], "i"),
        )

    assert [x.shape for x in on_devices(f, check_vma=check_vma)] == [
        (0,) if tiled else (64, 0),
        (0,),
        (0,),
        (0,),
        (0,),
    ]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("pargmax", lambda v: parallel.pargmax(v, "q")),
        ("pargmin", lambda v: parallel.pargmin(v, "q")),
        ("pshuffle", lambda v: lax.pshuffle(v, "q", [0])),
        ("pswapaxes", lambda v: lax.pswapaxes(v, "q", 0)),
        ("pmean", lambda v: lax.pmean(v, "q")),
        (
            "all_gather",
            lambda v: parallel.all_gather_p.bind(
                v,
                all_gather_dimension=0,
                axis_name=("q",),
                axis_size=8,
                tiled=True,
                axis_index_groups=None,
            ),
        ),
    ],
)
def test_an_unbound_axis_is_told_by_the_function_that_was_called(name, call):
    with pytest.raises(NameError, match=f"unbound axis name 'q' in {name}"):
        on_devices(call)


@pytest.mark.parametrize("f", [lax.pmax, lax.pmin])
@pytest.mark.parametrize("check_vma", [True, False])
def test_a_nan_wins_where_asked_for(f, check_vma):
    x = X.copy()
    x[11] = np.nan
    got = np.asarray(
        on_devices(lambda v: v * 0 + f(v, "i", nan_safe=True), check_vma=check_vma)
    ).reshape(8, 8)
    want = (np.max if f is lax.pmax else np.min)(X.reshape(8, 8), 0)
    got = np.asarray(
        xlab.shard_map(
            lambda v: f(v, "i", nan_safe=True),
            mesh=make_mesh((8,), ("i",), axis_types=AxisType.Auto),
            in_specs=P("i"),
            out_specs=P(),
            check_vma=check_vma,
        )(x)
    )
    want[3] = np.nan
    np.testing.assert_array_equal(got, want)
    assert on_devices(
        lambda v: f(v.astype(np.int32), "i", nan_safe=True) + 0 * v.astype(np.int32)
    ).shape == (64,)


def test_nothing_is_cast_where_that_is_off():
    calls = {
        "psum": lambda v: lax.psum(v, "i"),
        "pmax": lambda v: lax.pmax(v, "i"),
        "ppermute": lambda v: lax.ppermute(v, "i", [(0, 1)]),
        "all_gather": lambda v: lax.all_gather(v, "i"),
        "psum_scatter": lambda v: lax.psum_scatter(v, "i"),
        "all_to_all": lambda v: lax.all_to_all(v, "i", 0, 0),
    }

    def same():
        return lax.sin(np.ones(8, np.float32))

    for name, call in calls.items():
        xlab.make_jaxpr(
            lambda v, call=call: on_devices(lambda u: (call(same()), u)[1], v, check_vma=True)
        )(X)
        with xlab.auto_pcast(False):
            with pytest.raises(
                ValueError, match=f"{name} must be applied to a device-varying type.*pcast"
            ):
                xlab.make_jaxpr(
                    lambda v, call=call: on_devices(
                        lambda u: (call(same()), u)[1], v, check_vma=True
                    )
                )(X)
            xlab.make_jaxpr(
                lambda v, call=call: on_devices(
                    lambda u: (call(lax.pcast(same(), "i", to="varying")), u)[1], v, check_vma=True
                )
            )(X)


def lowered(f, platform):
    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)
    g = xlab.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    return xlab.jit(g).trace(X).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_broadcasts_are_an_instruction_of_gpus(platform):
    text = lowered(lambda v: lax.pbroadcast(v, "i", 3), platform)
    assert "stablehlo.collective_broadcast" in text and "all_gather" not in text
    assert "dense<[[3, 0, 1, 2, 4, 5, 6, 7]]> : tensor<1x8xi64>" in text
    for other in ("cpu", "tpu"):
        assert "collective_broadcast" not in lowered(lambda v: lax.pbroadcast(v, "i", 3), other)


def test_groups_are_equal_on_tpus():
    def uneven(v):
        return lax.psum(v, "i", axis_index_groups=[[0], [1, 2], [3, 4, 5, 6, 7]])

    with pytest.raises(ValueError, match="psum: axis_index_groups must have equal sizes on TPU"):
        lowered(uneven, "tpu")
    assert "all_reduce" in lowered(uneven, "cuda")


def test_a_large_broadcast_goes_by_doubling(monkeypatch):
    """C75: whoever has the value sends it on, and bits stay as they are."""
    monkeypatch.setattr(sys.modules[lax.ppermute.__module__], "DOUBLING_FROM", 0)
    bits = np.arange(32, dtype=np.uint32).reshape(4, 2, 4) * 0x07FFFFFF + 0x7F800001
    bits[2] = [[0x80000000, 0x7FC00001, 0xFFFFFFFF, 1]] * 2  # -0.0, NaN with a payload, ...
    mesh = make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
    x = bits.view(np.float32)
    for axes, source, where in (("i", 2, P("i")), (("j", "i"), 5, P("i"))):
        f = xlab.jit(
            xlab.shard_map(
                lambda v, axes=axes, source=source: lax.pbroadcast(v, axes, source),
                mesh=mesh, in_specs=where, out_specs=where, check_vma=False,
            )
        )  # fmt: skip
        text = f.lower(x).as_text()
        assert "all_gather" not in text
        assert text.count("collective_permute") == 2 * (2 if axes == "i" else 3)
        # rank 5 over (j, i) is j = 1, i = 1: in both cases blocks along j are the same
        want = np.broadcast_to(bits[2 if axes == "i" else 1], (4, 2, 4))
        np.testing.assert_array_equal(np.asarray(f(x)).view(np.uint32), want)
    monkeypatch.undo()
    assert "all_gather" in lowered(lambda v: lax.pbroadcast(v, "i", 3), "cpu")


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("f", [lax.pmax, lax.pmin])
def test_extrema_are_differentiable_where_asked_for(f, check_vma):
    """C44: the derivative of the value that wins, the mean where several do; nothing without the option."""
    mesh = make_mesh((8,), ("i",), axis_types=AxisType.Auto)
    x = np.float32([3, 1, 3, 0, 2, 0, 3, 1])
    weights = np.arange(8, dtype=np.float32)

    def g(x):
        return xlab.shard_map(
            lambda v: f(v, "i"), mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=check_vma
        )(x)[0]

    best = x == (x.max() if f is lax.pmax else x.min())
    with pytest.raises(
        NotImplementedError, match="has no derivative rule.*config.pmax_subgradient"
    ):
        xlab.jvp(g, (x,), (weights,))
    with subgradients():
        value, tangent = xlab.jvp(g, (x,), (weights,))
        np.testing.assert_allclose(tangent, weights[best].mean(), rtol=1e-6)
        np.testing.assert_allclose(xlab.grad(g)(x), best / best.sum(), rtol=1e-6)
        mapped = xlab.grad(lambda x: xlab.vmap(lambda v: f(v, "i"), axis_name="i")(x).sum())(x)
        np.testing.assert_allclose(mapped, best / best.sum() * 8, rtol=1e-6)
    assert value == (3 if f is lax.pmax else 0)


@contextlib.contextmanager
def subgradients():
    xlab.config.update("pmax_subgradient", True)
    try:
        yield
    finally:
        xlab.config.update("pmax_subgradient", False)


def test_what_collectives_of_ones_own_need_is_public():
    """C12, C24."""
    effect = parallel.SingleSideCollectiveEffect()
    assert (
        effect == parallel.single_side_collective_effect
        and str(effect) == "one-sided communication"
    )
    seen = []

    def body(v):
        seen.append(parallel.collective_vma_rule("mine", "i", xlab.typeof(v)))
        with pytest.raises(
            ValueError, match="mine must be applied to a device-varying type.*pcast"
        ):
            parallel.collective_vma_rule("mine", ("i",), xlab.typeof(xlab.numpy.ones(3)))
        return v

    on_devices(body, check_vma=True)
    on_devices(lambda v: seen.append(parallel.collective_vma_rule("mine", "i", None)) or v)
    assert seen == [{"i"}, frozenset()]
