"""Collectives with random axes, orders, groups, shapes and positions, on meshes and under vmap, against the models in NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlab
from tests.lax.collectives import models
from xlab import lax
from xlab.sharding import AxisType, P, make_mesh

MESHES = {"8": ((8,), "a"), "4x2": ((4, 2), "ab"), "2x2x2": ((2, 2, 2), "abc")}


@st.composite
def cases(draw, vmapped=False):
    """A mesh, some of its axes in any order, perhaps groups of their ranks, a block's shape, and a collective with its model."""
    shape, names = MESHES["8" if vmapped else draw(st.sampled_from(sorted(MESHES)))]
    axes = tuple(draw(st.permutations(names)))[: draw(st.integers(1, len(names)))]
    rows = models.groups(shape, tuple(names), axes)
    size = len(rows[0])
    kind = draw(
        st.sampled_from(["psum", "pmax", "pmean", "gather", "scatter", "exchange", "permute"])
    )
    groups = None
    if kind != "permute" and draw(st.booleans()):
        ranks = draw(st.permutations(range(size)))
        reduces = kind in ("psum", "pmax", "pmean")
        if reduces and draw(st.booleans()):  # any sizes
            cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=3))) if size > 1 else []
            groups = [list(g) for g in np.split(ranks, cuts)]
        else:
            k = draw(st.sampled_from([d for d in (1, 2, 4, 8) if size % d == 0]))
            groups = np.reshape(ranks, (-1, k)).tolist()
        rows = [[row[i] for i in g] for row in rows for g in groups]
    n = len(rows[0])
    block = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(block) - 1))
    other = draw(st.integers(0, len(block) - 1))
    tiled = draw(st.booleans())
    named = {} if groups is None else {"axis_index_groups": groups}
    if kind in ("psum", "pmax", "pmean"):
        f = functools.partial(getattr(lax, kind), axis_name=axes, **named)
        model = getattr(models, kind)
    elif kind == "gather":
        f = functools.partial(lax.all_gather, axis_name=axes, axis=axis, tiled=tiled, **named)
        rule = models.all_gather_tiled if tiled else models.all_gather
        model = functools.partial(rule, axis=axis)
    elif kind == "scatter":
        block[axis] = n * block[axis] if tiled else n
        f = functools.partial(
            lax.psum_scatter, axis_name=axes, scatter_dimension=axis - len(block) * draw(st.booleans()), tiled=tiled, **named
        )  # fmt: skip
        rule = models.psum_scatter_tiled if tiled else models.psum_scatter
        model = functools.partial(rule, axis=axis)
    elif kind == "exchange":
        block[axis] = n * block[axis] if tiled else n
        f = functools.partial(
            lax.all_to_all, axis_name=axes, split_axis=axis, concat_axis=other, tiled=tiled, **named
        )
        rule = models.all_to_all_tiled if tiled else models.all_to_all
        model = functools.partial(rule, split=axis, concat=other)
    else:
        targets = draw(st.permutations(range(size)))
        perm = list(enumerate(targets))[: draw(st.integers(0, size))]
        f = functools.partial(lax.ppermute, axis_name=axes, perm=perm)
        model = functools.partial(models.ppermute, perm=perm)
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(-9, 9, (8, *block))
    return shape, names, f, x.astype(np.float32), model, rows


def by_row(x, model, rows):
    """What the model gives, group by group: other devices are left out."""
    out = {}
    for row in rows:
        small = [list(range(len(row)))]
        for d, v in zip(row, model(x[row], small)):
            out[d] = v
    return np.stack([out[d] for d in range(8)])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cases())
def test_on_a_mesh(case):
    """C115."""
    shape, names, f, x, model, rows = case
    mesh = make_mesh(shape, tuple(names), axis_types=(AxisType.Auto,) * len(shape))
    g = xlab.shard_map(
        lambda v: f(v[0])[None], mesh=mesh, in_specs=P(tuple(names)), out_specs=P(tuple(names)), check_vma=False
    )  # fmt: skip
    if getattr(f, "func", None) is lax.ppermute:
        rows = [sorted(r) for r in rows]
    np.testing.assert_allclose(xlab.jit(g)(x), by_row(x, model, rows), rtol=1e-6)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cases(vmapped=True))
def test_under_vmap(case):
    """C42, C112, C115: groups too, of unequal sizes in sums."""
    _, names, f, x, model, rows = case
    in_axis = x.ndim - 1 if x.size % 2 else 0
    g = xlab.jit(xlab.vmap(f, in_axes=in_axis, axis_name=names))
    np.testing.assert_allclose(g(np.moveaxis(x, 0, in_axis)), by_row(x, model, rows), rtol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_groups_of_an_unbatched_value(k):
    groups = [list(range(k)), list(range(k, 6))] if k == 2 else [[5, 0, 3], [2, 4, 1]]
    f = xlab.vmap(
        lambda v, w: lax.psum(w, "i", axis_index_groups=groups) + v,
        in_axes=(0, None),
        axis_name="i",
    )
    sizes = {i: len(g) for g in groups for i in g}
    got = xlab.jit(f)(np.zeros(6, np.float32), np.float32(1))
    assert got.tolist() == [sizes[i] for i in range(6)]


def test_groups_under_vmap_are_differentiable():
    groups = [[0, 2], [3, 1]]
    x = np.arange(4, dtype=np.float32)

    def f(x):
        y = xlab.vmap(lambda v: lax.psum(v * v, "i", axis_index_groups=groups), axis_name="i")(x)
        return (y * np.float32([1, 2, 3, 4])).sum()

    # each square is counted by both members of its group
    assert xlab.grad(f)(x).tolist() == (2 * x * np.float32([4, 6, 4, 6])).tolist()
