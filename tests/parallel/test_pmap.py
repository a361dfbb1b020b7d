"""pmap against loops and against vmap."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax

X = np.arange(8, dtype=np.float32)


def test_one_example_per_device():
    out = xlab.pmap(lambda x: x * 2)(X[:5])
    assert np.asarray(out).tolist() == (2 * X[:5]).tolist()
    assert out.sharding.num_devices == 5 and out.committed


def test_collectives_by_name():
    assert (
        np.asarray(xlab.pmap(lambda x: lax.psum(x, "a"), axis_name="a")(X)).tolist() == [28.0] * 8
    )
    assert (
        np.asarray(xlab.pmap(lambda x: x / lax.axis_size("a"), axis_name="a")(X)).tolist()
        == (X / 8).tolist()
    )


@pytest.mark.parametrize(("ins", "outs"), [(0, 0), (1, 1), (-1, -1), (0, 1), (1, 0)])
def test_axes_as_for_vmap(ins, outs):
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    want = xlab.vmap(jnp.sin, in_axes=ins, out_axes=outs)(x)
    got = xlab.pmap(jnp.sin, in_axes=ins, out_axes=outs)(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_trees_replicated_and_static_arguments():
    out = xlab.pmap(
        lambda d, w, n: {"p": d["x"] * w, "q": w * n},
        in_axes=({"x": 0}, None, 0),
        out_axes={"p": 0, "q": None},
        static_broadcasted_argnums=2,
    )({"x": X}, np.float32(3), 2)
    assert np.asarray(out["p"]).tolist() == (3 * X).tolist() and float(out["q"]) == 6.0
    assert np.asarray(xlab.pmap(lambda x, *, y: x + y)(X, y=X)).tolist() == (2 * X).tolist()


def test_gradient_and_jit():
    f = xlab.pmap(lambda x: lax.psum(x, "a") * x, axis_name="a")
    want = np.asarray(
        xlab.grad(lambda x: xlab.vmap(lambda v: lax.psum(v, "a") * v, axis_name="a")(x).sum())(X)
    )
    np.testing.assert_allclose(np.asarray(xlab.grad(lambda x: f(x).sum())(X)), want)
    np.testing.assert_allclose(np.asarray(xlab.jit(f)(X)), 28 * X)


def test_traced_once():
    count = []

    def body(x):
        count.append(1)
        return x + 1

    f = xlab.pmap(body)
    f(X), f(X), f(X + 1)
    assert len(count) == 1


def test_equal_functions_share_what_lives_as_long_as_one_of_them():
    class Model:
        def apply(self, x):
            return x * 2

    model = Model()
    one, other = xlab.pmap(model.apply), xlab.pmap(model.apply)  # two bound methods, equal
    del one
    gc.collect()
    np.testing.assert_array_equal(other(np.ones((2, 3), np.float32)), np.full((2, 3), 2.0))


def test_made_again_and_again_it_is_traced_once():
    count = []

    def body(x):
        count.append(1)
        return x * 2

    for _ in range(4):
        xlab.pmap(body)(X)
    assert len(count) == 1
    xlab.pmap(body, axis_name="a")(X)
    assert len(count) == 2
    dead = weakref.ref(body)
    del body
    gc.collect()
    assert dead() is None


class TestNested:
    """The axes of maps in maps are axes of one mesh; values are those of nested vmaps."""

    @staticmethod
    def both(body, *names):
        mapped, want = body, body
        for name in names:
            mapped, want = xlab.pmap(mapped, axis_name=name), xlab.vmap(want, axis_name=name)
        return mapped, want

    def test_collectives_over_inner_outer_and_both(self):
        x = X.reshape(2, 4)
        mapped, want = self.both(
            lambda y: y + lax.psum(y, "j") + 10 * lax.psum(y, "i") + 100 * lax.psum(y, ("i", "j")),
            "j",
            "i",
        )
        assert np.asarray(mapped(x))[0].tolist() == [2846, 2867, 2888, 2909]
        assert mapped(x).sharding.num_devices == 8
        for make in (xlab.jit, lambda f: xlab.grad(lambda v: (f(v) ** 2).sum()), xlab.vmap):
            given = np.stack([x, x + 1]) if make is xlab.vmap else x
            np.testing.assert_allclose(make(mapped)(given), make(want)(given), rtol=1e-6)
        with xlab.disable_jit():
            np.testing.assert_array_equal(mapped(x), want(x))

    def test_three_deep_and_without_names(self):
        x = X.reshape(2, 2, 2)
        mapped, want = self.both(lambda y: y + lax.psum(y, ("a", "c")), "c", "b", "a")
        np.testing.assert_array_equal(mapped(x), want(x))
        np.testing.assert_array_equal(
            xlab.pmap(xlab.pmap(lambda v: v + 1))(X.reshape(2, 4)), X.reshape(2, 4) + 1
        )

    def test_in_the_middle_of_a_body(self):
        def body(r):
            inner = xlab.pmap(lambda v: v + lax.psum(v, "j"), axis_name="j")
            return lax.scan(lambda c, _: (inner(c), None), r, None, length=2)[0] + lax.psum(
                r.sum(), "i"
            )

        once = [r + r.sum() for r in X.reshape(2, 4)]
        want = [r + r.sum() + 28 for r in once]
        np.testing.assert_allclose(xlab.pmap(body, axis_name="i")(X.reshape(2, 4)), want)

    @pytest.mark.parametrize(
        ("inner", "shape", "words"),
        [
            ({"axis_name": "j"}, (4, 4), "16 devices.*4 x 4.*only 8"),
            ({"axis_name": "i"}, (2, 4), "axis 'i'.*each its own axis_name"),
            ({"devices": xlab.devices()[:2]}, (2, 2), "only the outermost"),
        ],
    )
    def test_refused(self, inner, shape, words):
        with pytest.raises(ValueError, match=f"(?s){words}"):
            xlab.pmap(xlab.pmap(lambda v: v, **inner), axis_name="i")(np.ones(shape))


class TestInputsElsewhere:
    """Inputs come to where the map runs, whatever devices they are committed to."""

    def test_results_of_another_map(self):
        devices = xlab.devices()
        y = xlab.pmap(lambda x: x, devices=devices[:4])(X[:4])
        moved = xlab.pmap(lambda x: x + 1, devices=devices[4:])(y)
        assert np.asarray(moved).tolist() == (X[:4] + 1).tolist() and moved.devices() == set(
            devices[4:]
        )

    def test_one_device_broadcast_and_keys(self):
        w, x = (xlab.device_put(v, xlab.devices()[5]) for v in (np.float32(3), X[:4]))
        assert (
            np.asarray(xlab.pmap(lambda x, w: x * w, in_axes=(0, None))(X[:4], w)).tolist()
            == (3 * X[:4]).tolist()
        )
        assert np.asarray(xlab.pmap(lambda x: x * 2)(x)).tolist() == (2 * X[:4]).tolist()
        keys = xlab.random.split(xlab.random.key(0), 4)
        draw = xlab.random.normal
        np.testing.assert_array_equal(
            xlab.pmap(draw)(xlab.device_put(keys, xlab.devices()[3])), xlab.vmap(draw)(keys)
        )


def test_devices_in_a_column_and_axes_of_dynamic_arguments_alone():
    column = np.array(xlab.devices()[:2], dtype=object).reshape(2, 1)
    assert np.asarray(xlab.pmap(lambda x: x + 1, devices=column)(X[:2])).tolist() == [1, 2]
    f = xlab.pmap(lambda n, x: x * n, in_axes=(0,), static_broadcasted_argnums=0)
    assert np.asarray(f(3, X[:2])).tolist() == [0, 3]


def _named_body(x, n):
    return x


ERRORS = {
    "function": (TypeError, "function", lambda: xlab.pmap(3)),
    "axes": (TypeError, "in_axes leaves must be int or None.*'a'", lambda: xlab.pmap(lambda x: x, in_axes="a")),
    "out_axes": (TypeError, "out_axes", lambda: xlab.pmap(lambda x: x, out_axes="a")),
    "nothing": (ValueError, "at least one mapped argument", lambda: xlab.pmap(lambda x: x, in_axes=None)(X)),
    "sizes": (ValueError, "inconsistent", lambda: xlab.pmap(lambda x, y: x)(X, X[:4])),
    "sizes_named": (ValueError, r"`x` of type f32\[8\] has 8 along axis 0; `y\['b'\]` of type f32\[4\] has 4", lambda: xlab.pmap(
        lambda x, y: x)(X, {"b": X[:4]})),
    "empty": (ValueError, "axis of size 0", lambda: xlab.pmap(lambda x: x)(X[:0])),
    "no_devices": (ValueError, "non-empty", lambda: xlab.pmap(lambda x: x, devices=[])(X)),
    "unhashable": (ValueError, r"body was given \[1\] of type list as its static argument 1", lambda: xlab.pmap(
        _named_body, static_broadcasted_argnums=1)(X, [1])),
    "grid": (ValueError, "in a row", lambda: xlab.pmap(lambda x: x, devices=np.array(xlab.devices()[:4]).reshape(2, 2))),
    "devices": (ValueError, "9 devices.*only 8", lambda: xlab.pmap(lambda x: x)(np.ones(9))),
    "both": (ValueError, "static and donated", lambda: xlab.pmap(
        lambda x: x, static_broadcasted_argnums=0, donate_argnums=0)),
    "static_count": (ValueError, r"static_broadcasted_argnums=\(1,\)", lambda: xlab.pmap(
        lambda x, n: x, static_broadcasted_argnums=1)(X)),
    "range": (ValueError, "out of range", lambda: xlab.pmap(lambda x: x, in_axes=1)(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    kind, words, act = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        act()
