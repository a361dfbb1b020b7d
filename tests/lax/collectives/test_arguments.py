"""What collectives are given: numbers that are no ranks, values that have no sum, empty ones, and machines that are not here."""

from __future__ import annotations

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
                f"{'psum' if f is lax.pmean else f.__name__} needs numbers, got key<fry>",
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
