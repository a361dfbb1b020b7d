"""What goes to neighbors and to others: edges, shifts and traced places, their causes, and the placements that were compiled."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import P, observe
from xlab.sharding import AxisType, NamedSharding, make_mesh

BIG = np.ones((128, 256), np.float32)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.roll(x, 1, 0),
        lambda x: jnp.roll(x, 13, 0),
        lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) - 2 * x,
        lambda x: x[1:] - x[:-1],
    ],
    ids=["roll", "roll over two devices", "stencil", "differences"],
)
def test_a_change_to_what_goes_to_neighbors_was_compiled(rows, f):
    """Although what is sent is no argument, but cut out of one."""
    f = xlab.jit(f)
    moved = [t for t in observe.transfers(f, rows(BIG, "data")) if t.kind == "collective_permute"]
    assert moved and all(t.tried for t in moved)
    found = observe.findings(f, rows(BIG, "data"), tries=0)
    assert "halo exchange" in {p.name for p in found.patterns}
    assert {t.fix for t in moved} == {"give `x` the sharding P(None, 'data') where it is made"}
    assert not [
        t for t in observe.transfers(f, rows(BIG, None, "data")) if t.kind == "collective_permute"
    ]


def test_advice_names_the_operand_that_is_split(rows):
    """And not the one that is an argument itself, which lies whole on every device."""
    smooth = lambda x, k: xlab.lax.conv(x.T[None], k, (1,), "SAME")
    kernel = np.ones((5, 8, 3), np.float32)
    moved = observe.transfers(xlab.jit(smooth), rows(np.ones((64, 8), np.float32), "data"), kernel)
    assert moved
    assert all("another dimension of `x`" in t.fix and "`k`" not in t.fix for t in moved)


def _conv(x, f):
    return xlab.lax.conv(x, f, (1,) * (x.ndim - 2), "SAME")


FILTER = np.ones((3, 3, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("f", "images"),
    [
        (lambda x: _conv(x, FILTER), (16, 3, 32, 32)),
        (lambda x: _conv(jnp.tanh(_conv(jnp.sin(x), FILTER)), FILTER), (16, 3, 32, 32)),
        (lambda x: xlab.grad(lambda f: (_conv(x, f) ** 2).mean())(FILTER), (8, 3, 32, 32)),
    ],
    ids=["one", "one behind another", "of the gradient of its filter"],
)
def test_a_convolution_split_over_space_is_compiled_with_its_batch_split(rows, f, images):
    """Before it is offered: no edges are sent then."""
    f, x = xlab.jit(f), np.ones(images, np.float32)
    moved = [t for t in observe.transfers(f, rows(x, None, None, "data")) if t.kind == "collective_permute"]  # fmt: skip
    assert moved and all(t.tried and "needs entries that neighbors hold" in t.reason for t in moved)
    assert {t.fix for t in moved} == {
        "give `x` the sharding P('data', None, None, None) where it is made"
    }
    after = observe.transfers(f, rows(x, "data"))
    assert not [t for t in after if t.kind == "collective_permute"]


@pytest.mark.parametrize("images", [(1, 3, 32, 32), (3, 3, 32, 32), (2, 1, 64, 8)])
def test_a_convolution_with_nothing_but_space_to_split_is_offered_no_change(rows, images):
    """Its windows reach over the other dimensions of space as they do over this one."""
    filters = np.ones((3, images[1], 3, 3), np.float32)
    moved = observe.transfers(
        xlab.jit(lambda x: _conv(x, filters)), rows(np.ones(images, np.float32), None, None, "data")
    )
    assert [t for t in moved if t.kind == "collective_permute"]
    assert not [t for t in moved if t.fix or t.tried]


@pytest.mark.parametrize(
    ("f", "name", "whose"),
    [
        (lambda x: x[1:] - x[:-1], "halo exchange", "neighbors"),
        (lambda x: jnp.roll(x, -1, 0) + x, "halo exchange", "neighbors"),
        (lambda x: jnp.roll(x, 32, 0), "shift", "others"),
        (lambda x: jnp.roll(x, 40, 0), "shift", "others"),
        (lambda x: x[:64] * 2, "redistribution", "others"),
        (lambda x: x[16:80] * 2, "redistribution", "others"),
        (lambda x: x[1:113] * 2, "redistribution", "neighbors"),
    ],
    ids=["differences", "roll by one", "roll by two blocks", "roll by more", "first half", "middle", "shorter"],
)  # fmt: skip
def test_what_a_slice_moves_has_the_name_of_what_it_is(rows, f, name, whose):
    """Edges of blocks to neighbors, all entries by some devices, or blocks of another length, which is none of both."""
    f, x = xlab.jit(f), rows(BIG, "data")
    moved = [t for t in observe.transfers(f, x) if t.kind == "collective_permute"]
    assert moved and any(f"needs entries that {whose} hold" in t.reason for t in moved)
    assert {p.name for p in observe.findings(f, x, tries=0).patterns} == {name}


def test_half_of_two_devices_is_no_halo_exchange():
    mesh = make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    x = xlab.device_put(BIG, NamedSharding(mesh, P("data")))
    found = observe.findings(xlab.jit(lambda x: x[:64] * 2), x, tries=0)
    assert [p.name for p in found.patterns] == ["redistribution"]


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x, n: jnp.roll(x, n, 0), "roll by a traced amount (line"),
        (lambda x, n: xlab.lax.dynamic_slice_in_dim(x, n, 8, 0), "dynamic_slice at a traced place (line"),
        (lambda x, n: jnp.roll(jnp.sin(x), n, 0), "roll by a traced amount (line"),
    ],
    ids=["roll", "slice", "roll of a value"],
)  # fmt: skip
def test_a_traced_place_is_the_cause_of_what_it_brings_together(rows, f, words):
    """And the other dimension, which is taken whole, may be split without any."""
    f, n = xlab.jit(f), np.int32(3)
    found = observe.transfers(f, rows(BIG, "data"), n)
    (moved,) = [t for t in found if t.kind == "all_gather"]
    assert words in moved.reason and "any device may be asked for any entry" in moved.reason
    assert "give `x` the sharding P(None, 'data') where it is made" in {t.fix for t in found}
    assert not observe.transfers(f, rows(BIG, None, "data"), n)


def test_a_slice_at_a_known_place_is_not_called_traced(rows):
    """Of a row that a loop reads, nor where the dimension that is split is taken whole."""
    whole = xlab.jit(lambda x, n: xlab.lax.dynamic_slice(x, (0, n), (128, 8)))
    twice = xlab.jit(lambda x: jnp.concatenate([x, x]))
    for f, args in ((whole, (rows(BIG, "data"), np.int32(3))), (twice, (rows(BIG, "data"),))):
        assert not [t for t in observe.transfers(f, *args) if "traced" in t.reason]


def test_entries_of_devices_that_are_no_neighbors_are_not_called_so(rows):
    (moved,) = observe.transfers(xlab.jit(lambda x: x[::-1]), rows(BIG, "data"))
    assert "needs entries that others hold" in moved.reason
