"""K4 to K10, K12: what reads and writes say of themselves, which values and positions they refuse, unwritten memory."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.errors import NonConcreteBooleanIndexError
from xlab.lax.indexers import NDIndexer, Slice
from xlab.lax.refs import addupdate_p, get_p, swap_p
from xlab.lax.uninitialized import uninitialized_value

M = np.arange(12, dtype=np.float32).reshape(3, 4)


def ref():
    return xlab.new_ref(M)


def text(f, *args):
    return " ".join(str(xlab.make_jaxpr(f)(*args)).split())


class TestText:
    @pytest.mark.parametrize(
        ("f", "want"),
        [
            (lambda c: c[...], "b:f32[3,4] <- a[...]"),
            (lambda c: c[1, :2], "b:f32[2] <- a[1,:2]"),
            (lambda c: c[1:, ::2], "b:f32[2,2] <- a[1:,:3:2]"),
            (lambda c: c.swap(M), "c:f32[3,4], b[...] <- b[...], a in"),
            (lambda c: c.set(1.0, (0, 0)), "a[0,0] <- 1.0:f32[]"),
            (lambda c: c.addupdate(1.0, (0, -1)), "a[0,3] += 1.0:f32[]"),
        ],
    )
    def test_k4_k5_k6(self, f, want):
        assert want in text(f, ref())

    def test_k4_traced_start(self):
        assert "c:f32[2,4] <- a[b:b+2,:]" in text(lambda r, i: r[xlab.ds(i, 2)], ref(), 1)


class TestWrongValues:
    @pytest.mark.parametrize("prim", [get_p, swap_p, addupdate_p])
    def test_k4_operands(self, prim):
        values = [M] if prim is get_p else [M, M]
        with pytest.raises(ValueError, match=f"`{prim.name}` must be called on `Ref` types"):
            prim.bind(*map(jnp.asarray, values), tree=xlab.tree.structure(()))

    @pytest.mark.parametrize("write", ["set", "swap", "addupdate"])
    @pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
    def test_k5_k6(self, write, wrap):
        def attempt(value, idx):
            return wrap(lambda r, v: getattr(r, write)(v, idx) and None)(ref(), value)

        shape = r"Ref shape: \(3, 4\). Expected shape: \(4,\). Value shape: "
        for value, words in [(jnp.float32(1), r"\(\)"), (jnp.ones(1), r"\(1,\)"), (M, r"\(3, 4\)")]:
            with pytest.raises(ValueError, match=shape + words):
                attempt(value, 0)
        for value in (jnp.int32(1), jnp.float16(1), jnp.asarray(True)):
            with pytest.raises(ValueError, match="Ref dtype: float32. Value dtype: "):
                attempt(value, (0, 0))

    def test_k5_reference_into_reference(self):
        for value in (ref(), ref().at[0], ref().T):
            with pytest.raises(ValueError, match="Cannot store a Ref into another Ref"):
                ref().set(value)

    def test_k5_weak_values(self):
        half, small = xlab.new_ref(jnp.zeros(2, jnp.bfloat16)), xlab.new_ref(jnp.zeros(2, jnp.int8))
        half[0], small[0] = 1.5, 3
        assert half[...].tolist() == [1.5, 0] and small[...].tolist() == [3, 0]
        for wrong in (
            lambda: half.set(1, 0),
            lambda: small.set(1.0, 0),
            lambda: small.set(True, 0),
        ):
            with pytest.raises(ValueError, match="Invalid dtype"):
                wrong()

    def test_k7_only_on_references(self):
        for name, args in [("get", ()), ("set", (1.0,)), ("swap", (1.0,)), ("addupdate", (1.0,))]:
            with pytest.raises(ValueError, match=f"Can only call `ref_{name}` on a `Ref`"):
                getattr(xlab.ref, name)(jnp.ones(3), 0, *args)

    @pytest.mark.parametrize("everything", [None, ..., ()])
    def test_k7_everything(self, everything):
        r = ref()
        assert xlab.ref.get(r, everything).tolist() == r.get(everything).tolist() == M.tolist()
        r.set(jnp.zeros((3, 4)), everything)
        xlab.ref.addupdate(r, everything, jnp.ones((3, 4)))
        assert r.swap(jnp.asarray(M), everything).tolist() == np.ones((3, 4)).tolist()


class TestIndices:
    def test_k8_ds(self):
        assert xlab.ds(slice(1, 6, 2)) == xlab.ds(1, 3, 2) == Slice(1, 3, 2)
        assert xlab.ds(slice(None, 3)) == xlab.ds(3) == Slice(0, 3)
        assert xlab.ds(slice(4, 2)) == Slice(4, 0)
        assert xlab.ds(slice(1, None)) == slice(1, None) and xlab.ds(None) == slice(None)
        assert ref()[xlab.ds(slice(1, 3)), xlab.ds(slice(1, None, 2))].tolist() == [[5, 7], [9, 11]]
        for wrong, error in [
            (lambda: xlab.ds(slice(4, 0, -1)), ValueError),
            (lambda: xlab.ds(slice(1, 3), 2), TypeError),
            (lambda: xlab.ds(1, -1), ValueError),
            (lambda: xlab.ds(1, 2, 0), ValueError),
            (lambda: xlab.ds(1.5, 2), TypeError),
            (lambda: xlab.jit(lambda i: xlab.ds(slice(i, 3)))(1), TypeError),
        ]:
            with pytest.raises(error):
                wrong()

    def test_k8_a_traced_size_is_for_index_maps(self):
        @xlab.jit
        def f(r, n):
            made = xlab.ds(0, n)
            leaves, structure = xlab.tree.flatten(made)
            assert leaves == [n] and xlab.tree.unflatten(structure, leaves).size is n
            return r[made]

        with pytest.raises(
            TypeError, match=r"size of ds must be a Python int .* ~int32\[\] in dimension 0"
        ):
            f(ref(), 2)

    @pytest.mark.parametrize(
        ("index", "words"),
        [
            ((..., ...), "Only one ellipsis"),
            ((0, 0, 0), r"3 indices for a reference of shape \(3, 4\)"),
            (slice(None, None, -1), r"step >= 1 \(found: -1\)"),
            ((None, 0), "cannot get new dimensions"),
            (None, "cannot get new dimensions"),
            ((np.array([0, 1]), np.array([0, 1, 2])), r"got shapes \[\(2,\), \(3,\)\]"),
            (xlab.ds(2, 2), "Out of bound slice: start=2, size=2, stride=1, dim=3"),
            ((0, xlab.ds(0, 3, 2)), "Out of bound slice: start=0, size=3, stride=2, dim=4"),
            (xlab.ds(-1, 1), "Out of bound slice: start=-1"),
            (3, "Out of bound indexer: idx=3, dim=3"),
            ((0, -5), "Out of bound indexer: idx=-5, dim=4"),
            (np.int32(7), "Out of bound indexer: idx=7, dim=3"),
            (np.array([0, 3]), "Out of bound indexer: idx=3, dim=3"),
            ((slice(None), np.array([[-5]])), "Out of bound indexer: idx=-5, dim=4"),
        ],
    )  # fmt: skip
    def test_k8_k10_refused(self, index, words):
        for use in (
            lambda: ref()[index],
            lambda: ref().at[index],
            lambda: xlab.jit(lambda r: r[index])(ref()),
            lambda: ref().T.T[index],
        ):
            with pytest.raises(ValueError, match=words):
                use()

    def test_k8_masks(self):
        for mask in (M[0] > 1, True, np.array(False)):
            with pytest.raises(NonConcreteBooleanIndexError, match="cannot be indexed by booleans"):
                ref()[0, mask]

    @pytest.mark.parametrize(
        ("index", "shape"),
        [
            ((slice(1), slice(2)), (1, 2)),
            ((0, slice(2)), (2,)),
            ((0, np.zeros((5, 6), int)), (5, 6)),
            ((np.zeros((5, 1), int), np.zeros(6, int)), (5, 6)),
            ((slice(2), np.zeros((5, 6), int)), (2, 5, 6)),
            ((np.zeros(5, int), slice(2)), (5, 2)),
            ((-1, -1), ()),
        ],
    )
    def test_k9_shapes(self, index, shape):
        assert ref()[index].shape == ref().at[index].shape == M[index].shape == shape

    def test_k9_integers_apart_come_first(self):
        x = np.arange(120).reshape(2, 3, 4, 5)
        for index in [
            (np.zeros(6, int), slice(None), np.ones(6, int)),
            (0, slice(None), np.array([1, 0])),
            (slice(None), np.array([[1], [0]]), slice(2), np.array([1, 2])),
            (slice(None), 1, np.array([1, 2])),
        ]:
            np.testing.assert_array_equal(xlab.new_ref(x)[index], x[index])
        made = NDIndexer((Slice(0, 2), np.zeros(6, int), Slice(0, 4), 1), x.shape, (6,))
        assert made.result_shape() == (6, 2, 4) and made.layout()[0] == ("int", 0)

    def test_k10_moved_inside(self):
        r = xlab.new_ref(jnp.arange(8))
        get = xlab.jit(lambda r, i: r[xlab.ds(i, 4)])
        assert [get(r, i).tolist()[0] for i in (6, 20, -3, -20)] == [4, 4, 4, 0]
        point = xlab.jit(lambda r, i: r[i])
        assert [int(point(r, i)) for i in (9, -1, -20)] == [7, 7, 0]


UNWRITTEN = {
    "float32": np.nan, "float16": np.nan, "bfloat16": np.nan, "float8_e4m3fn": np.nan, "float8_e5m2": np.nan, "int8": -128, "int32": -(2**31),
    "int4": -8, "uint4": 0, "uint8": 0, "uint32": 0, "int16": 0, "bool": False, "complex64": complex(np.nan, np.nan),
}  # fmt: skip


class TestUnwritten:
    @pytest.mark.parametrize("dtype", UNWRITTEN)
    def test_k12(self, dtype):
        want = UNWRITTEN[dtype]
        eager = xlab.empty_ref((2,), dtype)[...]
        compiled = xlab.jit(lambda: xlab.empty_ref((2,), dtype)[...])()
        for got in (*eager.tolist(), *compiled.tolist(), uninitialized_value(dtype).item()):
            parts = [(got.real, np.real(want)), (got.imag, np.imag(want))]
            assert all(a == b or (a != a and b != b) for a, b in parts)
        assert eager.dtype == compiled.dtype == jnp.dtype(dtype)

    def test_k12_keys(self):
        made = xlab.empty_ref(xlab.typeof(xlab.random.key(3)))[...]
        assert not xlab.random.key_data(made).any()

    def test_k12_zeros_by_option(self):
        f = xlab.jit(lambda: xlab.empty_ref((2,), "float32")[...])
        assert np.isnan(f()).all()
        with xlab.uninitialized_memory("zero"):
            assert not f().any() and not xlab.empty_ref((2,), "int8")[...].any()
            assert uninitialized_value("complex64") == 0
            assert np.isnan(uninitialized_value("float32", "nan"))
        assert np.isnan(f()).all() and uninitialized_value("int8", "zero") == 0
        with pytest.raises(ValueError, match=r"'nan', 'zero'.*got 'some'"):
            xlab.uninitialized_memory("some")


class TestPositions:
    """K10: positions of every integer type, and dimensions without elements."""

    @pytest.mark.parametrize(
        ("dtype", "value", "at"),
        [("int8", -1, 299), ("int8", 100, 100), ("uint8", 200, 200), ("int16", -300, 0), ("uint32", 2**31 + 5, 299), ("int32", 2**31 - 1, 299), ("uint32", 7, 7)],
    )  # fmt: skip
    def test_integer_types(self, dtype, value, at):
        i = jnp.asarray(np.array(value, dtype))
        get = xlab.jit(
            lambda r, i: (r[i], r[xlab.ds(i, 1)][0], r[i[None]][0], r[xlab.ds(i, 2, 2)][0])
        )
        assert [int(v) for v in get(xlab.new_ref(jnp.arange(300)), i)] == [at] * 4
        strided = xlab.jit(lambda r, i: r[xlab.ds(i, 2, 2)])
        second = {-1: 1, -300: 2}.get(value, min(at + 2, 299))  # counted from the end one by one
        assert int(strided(xlab.new_ref(jnp.arange(300)), i)[1]) == second
        ref = xlab.new_ref(jnp.zeros(300, int))

        @xlab.jit
        def put(r, i):
            r[i] = 1
            r.addupdate(jnp.ones(1, int), xlab.ds(i, 1))

        put(ref, i)
        assert np.flatnonzero(ref[...]).tolist() == [at] and int(ref[at]) == 2

    def test_no_elements(self):
        r = xlab.new_ref(jnp.zeros((0, 3)))
        assert (
            r[...].shape == r[0:0].shape == r[jnp.zeros(0, int)].shape == r.T.T[...].shape == (0, 3)
        )
        assert r.T[1].shape == (0,) and r.reshape(3, 0)[0].shape == (0,)
        r[jnp.zeros(0, int)] = jnp.ones((0, 3))
        r.T[2] = jnp.ones(0)
        for index in (0, jnp.array([0]), xlab.ds(0, 1)):
            with pytest.raises(ValueError, match="Out of bound"):
                r[index]
        for traced in (
            lambda r, i: r[i],
            lambda r, i: r[xlab.ds(i, 1)],
            lambda r, i: r.set(0.0, (i, 0)),
        ):
            with pytest.raises(ValueError, match=r"Out of bound .*dim=0"):
                xlab.jit(traced)(r, 0)
        full = xlab.new_ref(M)
        assert full[xlab.ds(3, 0)].shape == (0, 4) and full[:, jnp.zeros((2, 0), int)].shape == (
            3,
            2,
            0,
        )
        full[jnp.zeros(0, int)] = jnp.ones((0, 4))
        assert full[...].tolist() == M.tolist()

    @pytest.mark.parametrize(
        "dtype", ["bool", "complex64", "bfloat16", "int4", "float8_e4m3fn", "key"]
    )
    def test_every_kind_of_element(self, dtype):
        x = xlab.random.split(xlab.random.key(0), 6) if dtype == "key" else (jnp.arange(6) % 3).astype(dtype)  # fmt: skip
        bits = xlab.random.key_data if dtype == "key" else lambda x: x
        r = xlab.new_ref(x)
        r.reshape(2, 3).T[1] = r[:2]
        i = jnp.int32(1)
        got = [r[jnp.array([1, 5])], r[xlab.ds(i, 2)], r[0:6:2], r[xlab.ds(i, 2, 3)], r.T[i]]
        want = [0, 0, 2, 3, 1, 5]
        want[4] = 1
        for part, places in zip(got, [[1, 5], [1, 2], [0, 2, 4], [1, 4], 1]):
            assert (bits(part) == bits(x)[jnp.array(want)[jnp.array(places)]]).all()


def test_results_have_shardings_and_what_references_get_has_not():
    r = ref()

    def f(x, r):
        r[...] += 1
        return x + r[0, 0]

    device = xlab.devices()[1]
    out = xlab.jit(f, out_shardings=xlab.sharding.SingleDeviceSharding(device))(
        xlab.device_put(1.0, device), xlab.new_ref(xlab.device_put(M, device))
    )
    assert float(out) == 2.0 and out.devices() == {device}
    assert float(xlab.jit(f, out_shardings=None)(1.0, r)) == 2.0 and float(r[0, 0]) == 1.0
