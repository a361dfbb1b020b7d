"""Views of references and accesses through them: eager = jit = discharged = NumPy, derivatives, batches, printing, errors."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.jaxpr import eval_jaxpr, subjaxprs
from xlab.interpreters.discharge import discharge_state
from xlab.ref import TransformedRef, select_ref

M = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
STATE = {"get", "swap", "addupdate", "new_ref", "freeze", "free_ref", "empty_ref"}
EXAMPLES = int(os.environ.get("XLAB_REF_PROGRAMS", "6"))


def names(jaxpr):
    found = {e.primitive.name for e in jaxpr.eqns}
    return found.union(*map(names, subjaxprs(jaxpr))) if jaxpr.eqns else found


def text(f, *args):
    return " ".join(str(xlab.make_jaxpr(f)(*args)).split())


# -- what views mean ------------------------------------------------------------------------------------------


class TestViews:
    """K11."""

    def test_nested_indices(self):
        ref = xlab.new_ref(M)
        view = ref.at[1].at[1:]
        assert isinstance(view, TransformedRef) and view.shape == (2, 4) and view.ndim == 2
        view.at[0][1] = -1.0
        assert float(ref[1, 1, 1]) == -1.0
        assert view.at[0].get(1) == view[0, 1] == view[0][1] == -1.0

    def test_every_way_to_use_one(self):
        ref = xlab.new_ref(M)
        view = ref.reshape(6, 4).at[2:4]
        view.set(jnp.zeros(4), 0)
        assert view.swap(jnp.ones(4), 1).tolist() == M.reshape(6, 4)[3].tolist()
        view.addupdate(jnp.ones((2, 4)))
        view[1, 0] += 5.0
        want = M.copy().reshape(6, 4)
        want[2], want[3] = 1, [7, 2, 2, 2]
        np.testing.assert_array_equal(ref[...], want.reshape(2, 3, 4))
        assert len(view) == 2 and [v.tolist() for v in view] == want[2:4].tolist()
        xlab.ref.set(view, (0, 0), 9.0)
        xlab.ref.addupdate(view, (0, 0), 1.0)
        assert (
            float(xlab.ref.swap(view, (0, 0), 0.0))
            == 10.0
            == 10 + float(xlab.ref.get(view, (0, 0)))
        )

    def test_reshape(self):
        ref = xlab.new_ref(M)
        for shape in [(24,), (4, -1), (-1,), (2, 1, 12), ((3, 8),), ([6, 4],)]:
            view = ref.reshape(*shape)
            want = M.reshape(*shape)
            assert view.shape == want.shape
            np.testing.assert_array_equal(view[...], want)
        assert xlab.new_ref(1.0).reshape(1, 1).shape == (1, 1)
        assert xlab.new_ref(jnp.zeros((0, 3))).reshape(3, 0).shape == (3, 0)

    @pytest.mark.parametrize(
        ("shape", "words"),
        [((-1, -1), "At most one dimension can be -1"), ((5,), r"\(2, 3, 4\) into shape \(5,\)"),
         ((-2, -12), "cannot reshape"), ((5, -1), "cannot reshape")],
    )  # fmt: skip
    def test_reshape_errors(self, shape, words):
        with pytest.raises(ValueError, match=words):
            xlab.new_ref(M).reshape(*shape)

    def test_transpose(self):
        ref = xlab.new_ref(M)
        for order in [(2, 0, 1), ((1, 0, 2),), (-1, 0, 1), (), (None,)]:
            want = M.transpose(*order)
            np.testing.assert_array_equal(ref.transpose(*order)[...], want)
        np.testing.assert_array_equal(ref.T[...], M.T)
        ref.T[0] = -jnp.ones((3, 2))
        assert float(ref[..., 0].max()) == -1
        for order in [(0, 1), (0, 0, 1), (0, 1, 3)]:
            with pytest.raises(ValueError, match="takes an order of its dimensions 0 to 2"):
                ref.transpose(*order)

    @pytest.mark.parametrize("dtype", ["int32", "uint8", "int16", "float16", "uint32"])
    def test_bitcast(self, dtype):
        ref = xlab.new_ref(M)
        view = ref.bitcast(dtype)
        np.testing.assert_array_equal(view[...], M.view(dtype))
        np.testing.assert_array_equal(view.bitcast("float32")[...], M)
        view[0] = jnp.zeros(view.shape[1:], dtype)
        assert not ref[0].any() and (ref[1] == M[1]).all()
        assert view.dtype == dtype and view.shape == M.view(dtype).shape

    def test_bitcast_errors(self):
        for ref, dtype, words in [
            (xlab.new_ref(jnp.zeros(3, jnp.int16)), "int32", "multiple of 2"),
            (xlab.new_ref(1.0), "int16", "needs a dimension"),
            (xlab.new_ref(True), "int8", "cannot be read by their bits"),
            (xlab.new_ref(jnp.zeros(2, complex)), "float32", "complex64 cannot be read"),
            (xlab.new_ref(xlab.random.key(0)), "uint32", "cannot be read"),
            (xlab.new_ref(M), bool, "bool cannot be read"),
        ]:
            with pytest.raises(ValueError, match=words):
                ref.bitcast(dtype)

    def test_of_a_traced_reference(self):
        @xlab.jit
        def f(ref):
            ref.T.at[0][0, 0] = 100.0
            ref.reshape(24).addupdate(1.0, 1)
            ref.set(7.0, (1, 2, 3))
            return (
                ref.get((0, 0)),
                ref.bitcast(int)[0, 0, 0],
                ref.swap(0.0, (0, 0, 0)),
                ref.transpose(1, 0, 2)[2],
            )

        ref = xlab.new_ref(M)
        row, bits, old, rest = f(ref)
        assert row.tolist() == [100, 2, 2, 3] and old == 100 and rest[1, 3] == 7
        assert int(bits) == int(np.float32(100).view(np.int32)) and float(ref[0, 0, 0]) == 0

    def test_traced_arrays_keep_their_methods(self):
        y = xlab.jit(lambda x: x.reshape(4, 6).T.transpose(1, 0))(M)
        assert y.shape == (4, 6)
        with pytest.raises(AttributeError, match="bitcast"):
            xlab.jit(lambda x: x.bitcast(int))(M)
        with pytest.raises(AttributeError, match="swap"):
            xlab.jit(lambda x: x.swap(1))(M)

    @pytest.mark.parametrize(
        "use",
        [
            lambda v: jnp.sin(v), lambda v: lax.sin(v), lambda v: v + 1, lambda v: 1 - v, lambda v: jnp.ones(4) * v, lambda v: -v,
            lambda v: np.asarray(v), lambda v: xlab.jit(lambda x: x)(v), lambda v: xlab.grad(lambda x: x)(v), lambda v: v < 2,
            lambda v: xlab.vmap(lambda x: x)(v), lambda v: lax.scan(lambda c, _: (c, None), v, None, length=1), lambda v: xlab.new_ref(v), lambda v: bool(v),
        ],
    )  # fmt: skip
    def test_is_no_operand(self, use):
        with pytest.raises(TypeError, match=r"\[\.\.\.\]"):
            use(xlab.new_ref(M).at[0, 0])

    def test_text(self):
        ref = xlab.new_ref(M)
        assert "<- a[0,:,:]{reshape([12])} in" in text(lambda r: r.at[0].reshape(12)[...], ref)
        assert "<- a{reshape([2, 12])}[0,:] in" in text(lambda r: r.reshape(2, -1)[0], ref)
        assert "<- a{transpose([2, 0, 1])}[0,:,:]" in text(lambda r: r.transpose(2, 0, 1)[0], ref)
        assert "<- a{bitcast(int32)}[0,:,:]" in text(lambda r: r.bitcast(int)[0], ref)
        assert "<- a[0,:,:][1:,:][1,:]" in text(lambda r: r.at[0].at[1:][1], ref)
        assert "a{reshape([24])}[:3] += b" in text(
            lambda r, v: r.reshape(24).addupdate(v, slice(0, 3)), ref, jnp.ones(3)
        )
        assert repr(ref.at[0].T) == (
            "TransformedRef(Ref{float32[2,3,4]}, [NDIndexer(0,:,:, shape=(2, 3, 4)), "
            "RefTransposer(old=(3, 4), permutation=(1, 0))])"
        )


class TestSelection:
    """K11: one of several references."""

    @staticmethod
    def program(x, i):
        a, b = xlab.new_ref(x), xlab.new_ref(x * 2)
        chosen = select_ref(i, a, b).at[0].reshape(2, 2)
        chosen[0] = chosen[1] * 2
        chosen.addupdate(x[0, 0], (0, 0))
        old = chosen.swap(jnp.sin(x[0].reshape(2, 2)))
        return a[...].sum() + 3 * b[...].sum() + (old**2).sum()

    @staticmethod
    def pure(x, i):
        parts = [x, x * 2]
        v = parts[i][0].reshape(2, 2)
        v = v.at[0].set(v[1] * 2).at[0, 0].add(x[0, 0])
        parts[i] = parts[i].at[0].set(jnp.sin(x[0]))
        return parts[0].sum() + 3 * parts[1].sum() + (v**2).sum()

    @pytest.mark.parametrize("i", [0, 1])
    def test_value_and_gradient(self, i):
        x = jnp.asarray(M[0])
        want = xlab.value_and_grad(self.pure)(x, i)
        for f in (self.program, xlab.jit(self.program)):
            got = xlab.value_and_grad(f)(x, i)
            np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
            np.testing.assert_allclose(got[1], want[1], rtol=1e-6)

    def test_batches(self):
        x, which = jnp.asarray(M[0]), jnp.array([1, 0, 1])
        want = [self.program(x, int(i)) for i in which]
        np.testing.assert_allclose(
            xlab.vmap(self.program, (None, 0))(x, which), jnp.stack(want), rtol=1e-6
        )

    def test_shared_references_cannot_be_written_by_examples(self):
        a, b = xlab.new_ref(1.0), xlab.new_ref(2.0)
        assert xlab.vmap(lambda i: select_ref(i, a, b)[...])(jnp.array([1, 0])).tolist() == [2, 1]
        with pytest.raises(ValueError, match="unbatched"):
            xlab.vmap(lambda i: select_ref(i, a, b).set(0.0))(jnp.array([1, 0]))

    def test_errors(self):
        a, b = xlab.new_ref(1.0), xlab.new_ref(jnp.zeros(2))
        with pytest.raises(TypeError, match=r"reference 1 is Ref\{float32\[2\]\}"):
            select_ref(0, a, b)
        with pytest.raises(TypeError, match="integer scalar"):
            select_ref(0.5, a, a)
        with pytest.raises(ValueError, match="got none"):
            select_ref(0)
        with pytest.raises(ValueError, match="2 references to choose from, got number 2"):
            select_ref(2, b, b.at[:])
        with pytest.raises(ValueError, match="Can only call `select_ref` on a `Ref`"):
            select_ref(0, jnp.zeros(2))


# -- programs: eager = jit = discharged = NumPy ---------------------------------------------------------------


@st.composite
def indices(draw, shape):
    """Pairs of an index of a reference and of the NumPy array; positions may be traced."""
    ours, theirs, rank = [], [], draw(st.integers(1, 2))
    for n in shape:
        kind = draw(st.sampled_from(["slice", "ds", "int", "array", "window"] if n else ["slice"]))
        if kind == "slice":
            s = slice(draw(st.integers(0, n)), draw(st.integers(0, n)), draw(st.integers(1, 3)))
            ours.append(s)
            theirs.append(s)
        elif kind in ("ds", "window"):
            stride = draw(st.integers(1, 2))
            size = draw(st.integers(1, (n - 1) // stride + 1))
            start = draw(st.integers(0, n - ((size - 1) * stride + 1)))
            ours.append(xlab.ds(start if kind == "ds" else jnp.int32(start), size, stride))
            theirs.append(slice(start, start + (size - 1) * stride + 1, stride))
        elif kind == "int":
            i = draw(st.integers(-n, n - 1))
            ours.append(i)
            theirs.append(i)
        else:
            size = draw(st.sampled_from([(2,), (3, 2)]) if rank == 2 else st.just((3,)))
            values = draw(
                st.lists(st.integers(-n, n - 1), min_size=math.prod(size), max_size=math.prod(size))
            )
            i = np.array(values, np.int32).reshape(size)
            ours.append(jnp.asarray(i))
            theirs.append(i)
    return tuple(ours), tuple(theirs)


@st.composite
def programs(draw):
    """A list of accesses: transforms, then get, swap or addupdate; each as (our view, NumPy's index or shape, what)."""
    shape = draw(st.sampled_from([(2, 3, 4), (4, 3), (6,), (1, 5)]))
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        view, at = [], shape
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(["at", "reshape", "transpose"]))
            if kind == "reshape":
                new = draw(st.sampled_from([(math.prod(at),), (1, *at), at[::-1]]))
                view.append((kind, new, new))
                at = new
            elif kind == "transpose":
                order = tuple(draw(st.permutations(range(len(at)))))
                view.append((kind, order, order))
                at = tuple(at[d] for d in order)
            else:
                ours, theirs = draw(indices(at).filter(lambda p: _broadcast(p[1])))
                if any(isinstance(i, np.ndarray) for i in theirs):
                    continue  # NumPy gives copies
                view.append((kind, ours, theirs))
                at = np.empty(at)[theirs].shape
        ours, theirs = draw(indices(at).filter(lambda p: _broadcast(p[1])))
        what = draw(st.sampled_from(["get", "set", "swap", "add"]))
        steps.append((view, ours, theirs, what))
    return shape, steps


# How a program runs one of its accesses, and how often that is. The loop without a known length has no reverse mode.
CONSTRUCTS = {
    "plain": (lambda access, zero, yes: access(), 1),
    "jit": (lambda access, zero, yes: xlab.jit(access)(), 1),
    "checkpoint": (lambda access, zero, yes: xlab.checkpoint(access)(), 1),
    "cond": (lambda access, zero, yes: lax.cond(yes, access, lambda: zero), 1),
    "other branch": (lambda access, zero, yes: lax.cond(yes, lambda: zero, access), 0),
    "switch": (lambda access, zero, yes: lax.switch(yes + 1, [lambda: zero, lambda: zero, access]), 1),
    "scan": (lambda access, zero, yes: lax.scan(lambda c, _: (c + access(), None), zero, None, length=2)[0], 2),
    "fori": (lambda access, zero, yes: lax.fori_loop(0, 2, lambda i, c: c + access(), zero), 2),
    "while": (lambda access, zero, yes: lax.while_loop(lambda s: s[0] < 2 * yes, lambda s: (s[0] + 1, s[1] + access()), (0, zero))[1], 2),
    "nested": (lambda access, zero, yes: lax.fori_loop(
        0, 2, lambda i, c: c + lax.cond(yes, lambda: xlab.jit(access)(), lambda: zero), zero), 2),
}  # fmt: skip


def _broadcast(index):
    try:
        np.broadcast_shapes(*(i.shape for i in index if isinstance(i, np.ndarray)))
    except ValueError:
        return False
    return True


def run_refs(x, seed, steps, constructs=()):
    ref, outs, chosen = xlab.new_ref(x), [], iter(constructs)
    for view, ours, _, what in steps:
        v = ref
        for kind, given_, _ in view:
            v = v.at[given_] if kind == "at" else getattr(v, kind)(*given_)
        shape = xlab.eval_shape(lambda v=v, ours=ours: v[ours]).shape
        value = jnp.cos(jnp.arange(math.prod(shape), dtype=x.dtype).reshape(shape) + seed)

        def access(v=v, ours=ours, what=what, value=value):
            if what == "get":
                return v[ours]
            if what == "swap":
                return xlab.ref.swap(v, ours, value)
            if what == "set":
                v[ours] = value
            else:
                xlab.ref.addupdate(v, ours, value)
            return jnp.zeros_like(value)

        run, _ = CONSTRUCTS[next(chosen, "plain")]
        out = run(access, jnp.zeros_like(value), jnp.asarray(seed > 0).astype(int))
        if what in ("get", "swap"):
            outs.append(out)
    return outs, ref[...]


def run_numpy(x, seed, steps, constructs=()):
    array, outs, chosen = np.array(x), [], iter(constructs)
    for view, _, theirs, what in steps:
        numbers = np.arange(array.size).reshape(array.shape)
        for kind, _, given_ in view:
            numbers = numbers[given_] if kind == "at" else getattr(numbers, kind)(*given_)
        numbers = numbers[theirs]
        value = np.cos(np.arange(numbers.size, dtype=array.dtype).reshape(numbers.shape) + seed)
        flat, out = array.reshape(-1), np.zeros_like(value)
        for _ in range(CONSTRUCTS[next(chosen, "plain")][1]):
            out = out + flat[numbers]
            if what in ("set", "swap"):
                flat[numbers.ravel()] = value.ravel()
            elif what == "add":
                np.add.at(flat, numbers.ravel(), value.ravel())
        if what in ("get", "swap"):
            outs.append(out)
    return outs, array


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs(), st.booleans(), st.lists(st.sampled_from(sorted(CONSTRUCTS)), min_size=4, max_size=4))  # fmt: skip
def test_programs(program, transformed, constructs):
    """K8, K9, K13, K14: eager, jit and discharged programs are NumPy; K15 and K16: so are derivatives and batches."""
    shape, steps = program
    if transformed:
        constructs = ["fori" if c == "while" else c for c in constructs]
    x = np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)
    want = run_numpy(x, 0.5, steps, constructs)

    def f(x, seed):
        return run_refs(x, seed, steps, constructs)

    def same(got, want=want):
        for a, b in zip(xlab.tree.leaves(got), xlab.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    same(f(jnp.asarray(x), 0.5))
    same(xlab.jit(f)(x, 0.5))
    with xlab.disable_jit():
        same(f(jnp.asarray(x), 0.5))
    closed = xlab.make_jaxpr(f)(x, 0.5)
    pure = discharge_state(closed)
    assert not names(pure.jaxpr) & STATE
    same(eval_jaxpr(pure.jaxpr, pure.consts, x, np.float32(0.5)), xlab.tree.leaves(want))
    if not transformed:
        return

    def loss(x, seed):
        outs, last = f(x, seed)
        return sum((o * (k + 2)).sum() for k, o in enumerate(outs)) + (last**2).sum()

    # The program is linear in x and in what it writes: a derivative is a difference.
    t, eps = np.cos(np.arange(x.size, dtype=np.float32)).reshape(shape), 1e-2
    numeric = (loss(x + eps * t, 0.5) - loss(x - eps * t, 0.5)) / (2 * eps)
    along = xlab.jvp(lambda x: loss(x, 0.5), (x,), (t,))[1]
    slope = xlab.grad(loss)(x, 0.5)
    np.testing.assert_allclose(along, numeric, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose((slope * t).sum(), along, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(xlab.grad(xlab.jit(loss))(x, 0.5), slope, rtol=1e-4, atol=1e-5)
    xs = np.stack([x, 2 * x, -x])
    batch = xlab.vmap(f, (0, None))(xs, 0.5)
    each = [run_numpy(x, 0.5, steps, constructs) for x in xs]
    same(batch, xlab.tree.map(lambda *v: np.stack(v), *each))
    np.testing.assert_allclose(xlab.vmap(xlab.grad(loss), (0, None))(xs, 0.5)[0], slope, rtol=1e-4, atol=1e-4)  # fmt: skip


# -- derivatives ----------------------------------------------------------------------------------------------


class TestDerivatives:
    """K15."""

    @staticmethod
    def viewed(x):
        ref = xlab.new_ref(x * 1)
        v = ref.at[1:].T.reshape(2, 4)
        v[0] = jnp.sin(v[1]) * x[0]
        v.addupdate(x[0, :2] ** 2, (slice(None), 1))
        return (ref[...] ** 2).sum() + v.swap(x[:2])[0, 1]

    @staticmethod
    def pure(x):
        def part(a):
            return a[1:].T.reshape(2, 4)

        def back(a, v):
            return a.at[1:].set(v.reshape(4, 2).T)

        a = x * 1
        v = part(a)
        a = back(a, v.at[0].set(jnp.sin(v[1]) * x[0]))
        a = back(a, part(a).at[:, 1].add(x[0, :2] ** 2))
        return (a**2).sum() + part(a)[0, 1]

    @pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit, xlab.checkpoint])
    def test_views(self, wrap):
        x = jnp.arange(1.0, 13).reshape(3, 4)
        want = xlab.grad(self.pure)(x)
        np.testing.assert_allclose(xlab.grad(wrap(self.viewed))(x), want, rtol=1e-5)
        np.testing.assert_allclose(
            xlab.vmap(xlab.grad(wrap(self.viewed)))(jnp.stack([x, -x]))[0], want, rtol=1e-5
        )
        np.testing.assert_allclose(
            xlab.jvp(self.viewed, (x,), (x,))[1], (want * x).sum(), rtol=1e-5
        )

    def test_the_tangent_reference_gets_the_same_accesses(self):
        def f(r, v):
            r.T[0] = v * r.T[1]
            r.reshape(-1).addupdate(v[:1] ** 2, jnp.array([5]))
            return (r[...] ** 2).sum()

        def pure(x, v):
            x = x.at[:, 0].set(v * x[:, 1]).at[1, 1].add(v[0] ** 2)
            return (x**2).sum(), x

        x, v = jnp.asarray(M[0]), jnp.arange(1.0, 4)
        ref, tangent = xlab.new_ref(x), xlab.new_ref(jnp.ones((3, 4)))
        y, t = xlab.jvp(f, (ref, v), (tangent, v * 2))
        (want, end), (want_t, end_t) = xlab.jvp(pure, (x, v), (jnp.ones((3, 4)), v * 2))
        np.testing.assert_allclose([y, t], [want, want_t], rtol=1e-6)
        np.testing.assert_allclose(ref[...], end, rtol=1e-6)
        np.testing.assert_allclose(tangent[...], end_t, rtol=1e-6)

    def test_jacobians(self):
        def f(x):
            ref = xlab.new_ref(x)
            ref.reshape(2, 2).T.addupdate(x[:2] ** 3, 0)
            return (ref[...] ** 2).sum()

        def pure(x):
            return (x.at[jnp.array([0, 2])].add(x[:2] ** 3) ** 2).sum()

        x = jnp.arange(1.0, 5)
        for transform in (xlab.jacfwd, xlab.jacrev, xlab.hessian):
            np.testing.assert_allclose(transform(f)(x), transform(pure)(x), rtol=1e-5)

    def test_repeated_positions(self):
        """Of several values for one position only the last has a slope, and all of them read what was there."""

        def f(x):
            ref = xlab.new_ref(x * 2)
            old = ref.swap(jnp.sin(x[1:, :3]), (jnp.array([[1], [1]]), jnp.array([0, 2, 2])))
            return (ref[...] ** 2 * old.sum()).sum() + (old**2).sum()

        x = jnp.linspace(0, 1, 12).reshape(3, 4)
        basis = jnp.eye(12).reshape(12, 3, 4)
        want = np.array([xlab.jvp(f, (x,), (e,))[1] for e in basis]).reshape(3, 4)
        for g in (xlab.grad(f), xlab.grad(xlab.jit(f))):
            np.testing.assert_allclose(g(x), want, rtol=1e-5, atol=1e-5)

    def test_bits_are_constant(self):
        def f(x):
            ref = xlab.new_ref(x * 2)
            bits = ref.bitcast(jnp.int32)
            bits[1, :2] = bits[1, :2] & 0
            ref.bitcast(jnp.int16)[1, jnp.array([4, 5, 6, 7, 7])] = jnp.zeros(5, jnp.int16)
            return (ref[...] ** 2).sum() + (bits[0] * 0).sum()

        x = jnp.arange(1.0, 13).reshape(3, 4)
        want = (8 * x).at[1].set(0)
        assert xlab.grad(f)(x).tolist() == xlab.grad(xlab.jit(f))(x).tolist() == want.tolist()
        assert float(xlab.jvp(f, (x,), (x,))[1]) == float((want * x).sum())
        assert xlab.vmap(xlab.grad(f))(jnp.stack([x, x]))[1].tolist() == want.tolist()

    def test_bits_as_numbers_have_no_derivative(self):
        def read(x):
            return xlab.new_ref(x).bitcast("int32").bitcast("float32")[0]

        def add(x):
            ref = xlab.new_ref(x)
            ref.bitcast("int32").addupdate(1, 0)
            return ref[0]

        with pytest.raises(NotImplementedError, match="bitcast from float32 to float32"):
            xlab.grad(read)(jnp.ones(2))
        with pytest.raises(NotImplementedError, match="addupdate through a bitcast"):
            xlab.grad(add)(jnp.ones(2))

    def test_kind_keeps_out_of_derivatives(self):
        def f(x):
            kept = xlab.new_ref(x * 0, kind="no_grad_no_remat")
            kept.T[...] = (x * x).T
            xlab.ref.addupdate(kept, 0, x[0])
            return (kept[...] * x).sum()

        x = jnp.arange(1.0, 7).reshape(2, 3)
        want = (x * x).at[0].add(x[0])
        assert xlab.grad(f)(x).tolist() == xlab.grad(xlab.jit(f))(x).tolist() == want.tolist()

    @pytest.mark.parametrize("write", ["set", "addupdate"])
    def test_a_reference_without_tangent(self, write):
        ref = xlab.new_ref(jnp.zeros((2, 3)))

        def f(x):
            getattr(ref.T, write)(x, 0)
            return x.sum()

        for run in (lambda: xlab.grad(f)(jnp.ones(2)), lambda: xlab.jvp(f, (jnp.ones(2),) * 1, (jnp.ones(2),))):  # fmt: skip
            with pytest.raises(ValueError, match="argument of the differentiated function"):
                run()

    def test_an_unused_reference_has_a_zero_gradient(self):
        assert xlab.grad(lambda r: 0.0)(xlab.new_ref(jnp.ones(2))).tolist() == [0, 0]


# -- batches --------------------------------------------------------------------------------------------------


class TestBatches:
    """K16."""

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_views(self, axis):
        def f(ref, i):
            v = ref.T
            out = v[i], ref.reshape(-1)[xlab.ds(i, 2)], ref.bitcast(jnp.int16).at[0][1:3]
            v[i] = v[i] * 10 + i
            ref.reshape(-1).addupdate(jnp.ones(2), xlab.ds(i, 2))
            old = ref.at[0].reshape(1, -1).swap(jnp.zeros((1, ref.shape[1])))
            return *out, old

        which = jnp.arange(M.shape[axis]) % 2
        ref = xlab.new_ref(M)
        outs = xlab.vmap(f, (axis, 0))(ref, which)
        alone = [xlab.new_ref(np.take(M, k, axis)) for k in range(len(which))]
        want = [f(r, i) for r, i in zip(alone, which)]
        for k, out in enumerate(outs):
            np.testing.assert_array_equal(out, np.stack([w[k] for w in want]))
        np.testing.assert_array_equal(ref[...], np.stack([r[...] for r in alone], axis))

    def test_scalars(self):
        bits = xlab.vmap(lambda r: r.bitcast(jnp.int32)[...])(xlab.new_ref(jnp.arange(3.0)))
        assert bits.tolist() == np.arange(3, dtype=np.float32).view(np.int32).tolist()

    @pytest.mark.parametrize("write", ["set", "addupdate"])
    def test_examples_cannot_write_one_place(self, write):
        ref = xlab.new_ref(jnp.zeros((2, 3)))
        for f, xs in [
            (lambda x: getattr(ref.T, write)(x, 0), jnp.ones((4, 2))),
            (lambda i: getattr(ref.reshape(6), write)(1.0, i), jnp.arange(4)),
        ]:
            with pytest.raises(ValueError, match=r"unbatched array reference.*Move the array"):
                xlab.vmap(f)(xs)
        assert xlab.vmap(lambda i: ref.T[i])(jnp.arange(2)).shape == (2, 2)
