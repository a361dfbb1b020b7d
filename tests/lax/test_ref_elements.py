"""Elements that an access of a reference touches (K11, K13, K82): what NumPy says, and what compiled programs do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlab
import xlab.numpy as jnp
from xlab import tree
from xlab.lax.indexers import NDIndexer, Slice, indexer
from xlab.lax.ref_elements import put, reach, region, take, touched
from xlab.lax.ref_transforms import RefBitcaster, RefReshaper, RefTransposer, read, write

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def in_jit(transforms):
    """The transforms with every position as NumPy integers, as an interpreter of equations has them."""
    leaves, structure = tree.flatten(transforms)
    return tree.unflatten(structure, [np.asarray(v) for v in leaves])


@st.composite
def indices(draw, shape, inside=True):
    """An index of a shape as programs write it."""
    out, n_arrays = [], draw(st.integers(0, 2))
    for n in shape:
        kinds = ["slice", "ds", "int", "array", "dynamic", "window"]
        kind = draw(st.sampled_from(kinds if n else kinds[:1]))
        low, high = (-n, n - 1) if inside else (-2 * n - 1, 2 * n)
        if kind == "slice":
            step = draw(st.integers(1, 3))
            out.append(slice(draw(st.integers(0, n)), draw(st.integers(0, n)), step))
        elif kind in ("ds", "window"):
            stride = draw(st.integers(1, 2))
            size = draw(st.integers(0, (n - 1) // stride + 1))
            last = n - ((size - 1) * stride + 1) if size else n
            if kind == "ds":
                out.append(Slice(draw(st.integers(0, last)), size, stride))
            else:
                start = draw(st.integers(0, last) if inside else st.integers(low, high))
                out.append(Slice(jnp.int32(start), size, stride))
        elif kind == "int":
            out.append(draw(st.integers(-n, n - 1)))
        elif kind == "dynamic":
            out.append(("dynamic", draw(st.integers(low, high))))
        else:
            rank = draw(st.sampled_from([(2,), (3, 1), (2, 1)][: n_arrays + 1]))
            size = int(np.prod(rank))
            values = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
            out.append(np.array(values, np.int32).reshape(rank))
    return tuple(out)


@st.composite
def views(draw, shape, inside=True):
    """A chain of transforms of an array of float32."""
    out, dtype = [], np.dtype(np.float32)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["index", "index", "reshape", "transpose", "bitcast"]))
        if kind == "reshape":
            size = int(np.prod(shape))
            new = draw(st.sampled_from([(-1,), (size, 1), (1, size), shape[::-1]]))
            t = RefReshaper.of(shape, new) if size else RefReshaper.of(shape, shape[::-1])
        elif kind == "transpose":
            t = RefTransposer.of(shape, draw(st.permutations(range(len(shape)))))
        elif kind == "bitcast":
            if not shape:
                continue
            bits = dtype.itemsize
            new = np.dtype(draw(st.sampled_from(["int8", "int16", "int32", "float32"])))
            if shape[-1] * bits % new.itemsize:
                continue
            t = RefBitcaster.of(shape, dtype, new)
            dtype = np.dtype(new)
        else:
            try:
                t = _dynamic(draw(indices(shape, inside)), shape)
            except ValueError:  # arrays that do not broadcast
                continue
        out.append(t)
        shape = t.result_shape()
    return tuple(out)


def _dynamic(index, shape):
    made = indexer(tuple(0 if isinstance(i, tuple) else i for i in index), shape)
    if made is None:
        return NDIndexer((), shape)
    entries = [np.int32(i[1]) if isinstance(i, tuple) else e for i, e in zip(index, made.indices)]
    return NDIndexer(entries, shape, made.int_indexer_shape)


SHAPES = st.sampled_from([(2, 3, 4), (4,), (3, 2), (1, 5), ()])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_numpy_and_compiled_agree_inside(data):
    _compare(data, inside=True)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_numpy_and_compiled_agree_outside(data):
    _compare(data, inside=False)


def _compare(data, inside):
    shape = data.draw(SHAPES)
    transforms = data.draw(views(shape, inside))
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    known = in_jit(transforms)
    with xlab.disable_jit():
        got = np.asarray(read(jnp.asarray(x), transforms))
    part = take(x, known)
    np.testing.assert_array_equal(_bits(part), _bits(got))
    assert part.dtype == got.dtype
    value = (np.arange(got.size).reshape(got.shape) + 50).astype(got.dtype)
    for update in ("set", "add"):
        if (
            update == "add"
            and got.dtype == np.float32
            and any(type(t) is RefBitcaster for t in transforms)
        ):
            continue  # sums of bit patterns round
        after = x.copy()
        put(after, known, value, update)
        want = np.asarray(write(jnp.asarray(x), transforms, jnp.asarray(value), update))
        np.testing.assert_array_equal(_bits(after), _bits(want))
        numbers = touched(known, shape, x.dtype, writing=True)
        changed = np.flatnonzero(_bits(after).reshape(x.shape) != _bits(x))
        assert set(changed) <= set(numbers.ravel())
    numbers = touched(known, shape, x.dtype)
    assert numbers.shape[:-1] == got.shape
    bounds = region(known, shape, x.dtype)
    if numbers.size and shape:
        places = np.unravel_index(numbers, shape)
        assert bounds == tuple((p.min(), p.max() + 1) for p in places)


def _bits(x):
    x = np.ascontiguousarray(x)
    return x.view(f"u{x.dtype.itemsize}")


def test_a_position_outside_is_missing_or_moved():
    (index,) = in_jit((NDIndexer((Slice(jnp.int32(6), 4),), (8,)),))
    x = np.arange(8)
    assert take(x, (index,)).tolist() == [4, 5, 6, 7]
    assert take(x, (index,), "missing", -9).tolist() == [6, 7, -9, -9]
    assert touched((index,), (8,), x.dtype, "missing")[:, 0].tolist() == [6, 7, -1, -1]
    assert reach((index,)) == ["start=6, size=4, stride=1 in dimension 0 of size 8"]
    put(x, (index,), np.array([60, 70, 80, 90]), outside="missing")
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 60, 70]


def test_reach_counts_from_the_end():
    def said(*entries, shape=(3, 4)):
        return reach((NDIndexer(entries, shape),))

    assert said(np.int32(-3), np.int32(3)) == []
    assert said(np.int32(-4), np.int32(4)) == [
        "index -4 in dimension 0 of size 3",
        "index 4 in dimension 1 of size 4",
    ]
    assert said(Slice(np.int32(-2), 2), Slice(np.int32(1), 2, 2)) == []
    assert len(said(Slice(np.int32(-1), 2), Slice(np.int32(2), 2, 2))) == 2


def test_elements_of_a_bitcast_come_in_groups():
    wide = RefBitcaster.of((4, 2), np.dtype("int16"), "int32")
    assert touched((wide,), (4, 2), np.int16).tolist() == [[[0, 1]], [[2, 3]], [[4, 5]], [[6, 7]]]
    narrow = RefBitcaster.of((2,), np.dtype("int16"), "int8")
    assert touched((narrow,), (2,), np.int16).ravel().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint16", "bfloat16", "float32"])
@pytest.mark.parametrize("new", ["int4", "uint4", "int8", "bfloat16", "int32"])
def test_bits_of_narrow_numbers(dtype, new):
    x = np.array((jnp.arange(16) % 7 - (3 if dtype[0] != "u" else 0)).astype(dtype).reshape(2, 8))
    cast = (RefBitcaster.of(x.shape, x.dtype, new),)
    got, want = take(x, cast), np.asarray(read(jnp.asarray(x), cast))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(_bits(got), _bits(want))
    back = (RefBitcaster.of(got.shape, got.dtype, x.dtype),)
    np.testing.assert_array_equal(_bits(take(got, back)), _bits(x))
    index = (*cast, indexer((1,), got.shape))
    put(x, index, got[0])
    np.testing.assert_array_equal(_bits(x[1]), _bits(x[0]))
