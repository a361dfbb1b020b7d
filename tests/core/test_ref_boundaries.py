"""K2, K2a, K3: references at the boundaries of functions; what is given up, returned, passed twice, or both passed and closed over."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.effects import AccumEffect, ReadEffect, WriteEffect
from xlab.ref import freeze, new_ref

X = np.arange(3, dtype=np.float32)


# -- K1: the type -----------------------------------------------------------------------------------------------


class TestType:
    def test_k1_memory_space_of_the_array_inside(self):
        from xlab.core.avals import ShapedArray
        from xlab.core.refs import AbstractRef

        plain = ShapedArray((4,), np.float32)
        host = plain.update(memory_space="host")
        ref = AbstractRef(host)
        assert ref.memory_space == "host" and ref.inner_aval is plain
        assert ref is AbstractRef(host, "host") is AbstractRef(plain, "host")
        assert ref != AbstractRef(plain) and ref != AbstractRef(plain, "host", "no_grad_no_remat")
        assert len({ref, AbstractRef(plain), AbstractRef(plain, "host")}) == 2
        with pytest.raises(ValueError, match=r"memory space any cannot hold .* lives in host"):
            AbstractRef(host, "any")
        assert (
            ref.str_short(short_dtypes=True),
            AbstractRef(plain).str_short(short_dtypes=True),
        ) == (
            "Ref<host>{f32[4]}",
            "Ref{f32[4]}",
        )

    def test_k1_forwards_and_iterates(self):
        ref = new_ref(X.reshape(3, 1))
        assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((3, 1), X.dtype, 2, 3, 3)
        assert [row.tolist() for row in ref] == [[0], [1], [2]]
        assert new_ref(2.0).aval.weak_type and not ref.aval.weak_type
        for f in (len, lambda r: xlab.jit(lambda r: len(r))(r)):
            with pytest.raises(TypeError, match=r"len\(\) of"):
                f(new_ref(1.0))

    @pytest.mark.parametrize(
        "f",
        [lambda r: r + 1, lambda r: 2 * r, lambda r: -r, lambda r: r @ r, lambda r: r < 1, lambda r: np.ones(3) - r, lambda r: abs(r),
         lambda r: jnp.ones(3) / r],
    )  # fmt: skip
    def test_k1_is_no_number(self, f):
        with pytest.raises(TypeError, match=r"Read it with \[\.\.\.\] first|read it first"):
            f(new_ref(X))
        with pytest.raises(TypeError, match=r"read it first, as ref\[\.\.\.\]"):
            xlab.jit(f)(new_ref(X))


# -- K2 ---------------------------------------------------------------------------------------------------------


class TestCells:
    def test_k2_text(self):
        made = xlab.make_jaxpr(lambda a: freeze(new_ref(a)))(X)
        assert "b:Ref{f32[3]} = new_ref[kind=None memory_space=None] a" in str(made)
        assert repr(new_ref(X)) == "Ref([0., 1., 2.], dtype=float32)"

    def test_k2_empty(self):
        for ref in (
            xlab.empty_ref((2, 3), "int32"),
            xlab.empty_ref((2, 3), dtype=np.int32),
            xlab.empty_ref(xlab.ShapeDtypeStruct((2, 3), np.int32)),
            xlab.empty_ref(xlab.typeof(jnp.zeros((2, 3), int))),
        ):
            assert (ref.shape, ref.dtype) == ((2, 3), np.int32)
        assert xlab.empty_ref(4, "float32").shape == (4,)
        assert str(xlab.empty_ref((2,), "any", dtype="int8").aval) == "Ref<any>{int8[2]}"
        for wrong in [((2,),), (jnp.zeros(2),), (xlab.typeof(X), None)]:
            with pytest.raises(TypeError, match="shape and a dtype"):
                xlab.empty_ref(*wrong, **({"dtype": "int8"} if wrong[-1] is None else {}))

    def test_k2_used_after_freeze_in_a_program(self):
        def f(x):
            ref = new_ref(x)
            y = freeze(ref)
            return ref[...] + y

        for run in (lambda: f(X), lambda: xlab.jit(f)(X), lambda: xlab.vmap(xlab.jit(f))(X)):
            with pytest.raises(ValueError, match=r"given up by freeze"):
                run()
        with pytest.raises(
            ValueError, match=r"freeze at .*test_ref_boundaries.*afterwards by get at"
        ):
            xlab.jit(f)(X)
        with pytest.raises(ValueError, match=r"given up by free_ref at .*afterwards by swap"):
            xlab.jit(lambda r: (xlab.free_ref(r), r.set(X))[1])(new_ref(X))
        with pytest.raises(ValueError, match="Can only call `freeze` on a `Ref`"):
            freeze(new_ref(X).at[0])


# -- K2a --------------------------------------------------------------------------------------------------------


class TestArguments:
    def test_k2a_arguments_and_closures_are_written(self):
        closed, given = new_ref(X), new_ref(X)

        @xlab.jit
        def f(tree, v):
            tree["a"][1] = v
            closed[0] += tree["a"][1]
            return tree["b"][...] * 2

        assert f({"a": given, "b": new_ref(X * 3)}, 5.0).tolist() == [0, 6, 12]
        assert given[...].tolist() == [0, 5, 2] and closed[...].tolist() == [5, 1, 2]

    @pytest.mark.parametrize(
        ("f", "words"),
        [
            (lambda r: r, "passed in as the argument r"),
            (lambda r: new_ref(r[...]), r"made at .*test_ref_boundaries"),
            (lambda r: {"a": (r[0], new_ref(0.0))}, r"result\['a'\]\[1\].*made at .*test_ref_boundaries"),
        ],
    )  # fmt: skip
    def test_k2a_returned(self, f, words):
        for transform in (
            xlab.jit,
            xlab.make_jaxpr,
            xlab.checkpoint,
            lambda f: xlab.jit(xlab.jit(f)),
        ):
            with pytest.raises(ValueError, match=f"returned a mutable array reference.*{words}"):
                transform(f)(new_ref(X))

    @pytest.mark.parametrize(
        "call",
        [
            lambda r: xlab.jit(lambda a, b: a[0] + b[0])(r, r),
            lambda r: xlab.jit(lambda r: xlab.jit(lambda a, b: a[0] + b[0])(r, r))(r),
            lambda r: xlab.vmap(lambda a, b: 0.0)(r, r),
            lambda r: xlab.checkpoint(lambda a, b: a[0] + b[0])(r, r),
            lambda r: lax.cond(True, lambda a, b: a[0], lambda a, b: b[0], r, r),
            lambda r: xlab.jit(lambda r, p: lax.cond(p, lambda a, b: a[0], lambda a, b: b[0], r, r))(r, True),
            lambda r: lax.scan(lambda c, ab: (c + ab[0][...], None), 0.0, (r, r)),
        ],
    )  # fmt: skip
    def test_k2a_twice(self, call):
        with pytest.raises(
            ValueError, match=r"appeared at both (a|args\[1\]|ab\[0\]) and (b|args\[2\]|ab\[1\])"
        ):
            call(new_ref(X))

    def test_k2a_twice_in_trees(self):
        ref = new_ref(X)
        with pytest.raises(ValueError, match=r"both d\['a'\] and d\['b'\]\[0\]"):
            xlab.jit(lambda d: 0)({"a": ref, "b": [ref]})

    @pytest.mark.parametrize(
        "call",
        [
            lambda r: xlab.jit(lambda a: a[0] + r[0])(r),
            lambda r: lax.cond(True, lambda a: a.set(r[...]), lambda a: None, r),
            lambda r: lax.switch(1, [lambda a: None, lambda a: r.set(a[...])], r),
            lambda r: lax.scan(lambda c, a: (c, r.set(X)), 0.0, r),
            lambda r: xlab.checkpoint(lambda a: a[0] + r[0])(r),
            lambda r: xlab.jit(lambda r: xlab.checkpoint(lambda a: a[0] + r[0])(r))(r),
        ],
    )
    def test_k2a_passed_and_closed_over(self, call):
        with pytest.raises(ValueError, match="both closed over and passed as the argument a"):
            call(new_ref(X))

    def test_k2a_calls_with_custom_derivatives(self):
        @xlab.custom_jvp
        def f(a, b):
            return a[0] + b[0]

        f.defjvp(lambda p, t: (f(*p), 0.0))
        with pytest.raises(ValueError, match=r"appeared at both args\[0\] and args\[1\]"):
            xlab.jit(lambda r: f(r, r))(new_ref(X))

        @xlab.custom_vjp
        def g(a):
            return a[0]

        g.defvjp(lambda a: (a[0], None), lambda _, ct: (None,))
        ref = new_ref(X)
        assert float(xlab.jit(lambda r: g(r))(ref)) == 0.0

    def test_k2a_donated(self):
        ref = new_ref(jnp.zeros(100))
        ref[0] = 1.0
        step = xlab.jit(lambda r: r.T.addupdate(1.0, 0))
        step(ref)
        address = ref.unsafe_buffer_pointer()
        step(ref)
        assert ref.unsafe_buffer_pointer() == address and float(ref[0]) == 3


# -- K3 ---------------------------------------------------------------------------------------------------------


class TestEffects:
    def effects(self, f, *args):
        return {e for e in xlab.make_jaxpr(f)(*args).jaxpr.effects if hasattr(e, "input")}

    def test_k3_equal(self):
        assert ReadEffect(1) == ReadEffect(1) != ReadEffect(0) and ReadEffect(0) != WriteEffect(0)
        assert [repr(e(2)) for e in (ReadEffect, WriteEffect, AccumEffect)] == [
            "Read<2>",
            "Write<2>",
            "Accum<2>",
        ]

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda f: f, xlab.jit, xlab.checkpoint,
            lambda f: lambda p, a, b: lax.cond(p, f, f, p, a, b),
            lambda f: lambda p, a, b: lax.fori_loop(0, 3, lambda i, c: (f(p, a, b), c)[1], 0),
            lambda f: lambda p, a, b: lax.while_loop(lambda c: c < 3, lambda c: (f(p, a, b), c + 1)[1], 0),
            lambda f: lambda p, a, b: (xlab.ref.addupdate(new_ref(X), 0, 1.0), f(p, a, b))[1],
        ],
    )  # fmt: skip
    def test_k3_through_calls_and_control_flow(self, wrap):
        def f(p, a, b):
            a.T[0] = b.at[1:][0]
            xlab.ref.addupdate(b.reshape(3, 1), 0, X[:1])

        got = self.effects(wrap(f), True, new_ref(X), new_ref(X))
        assert got == {WriteEffect(1), ReadEffect(2), AccumEffect(2)}


def test_references_and_custom_rules():
    from xlab.transforms.custom_vjp import custom_vjp

    @custom_vjp
    def returns(x, r):
        return r

    @custom_vjp
    def both(a, b):
        return a[...] + b[...]

    for f in (returns, both):
        f.defvjp(lambda *args: (1.0, None), lambda res, g: (None, None))
    r = xlab.new_ref(1.0)
    with pytest.raises(ValueError, match="returned a mutable array reference"):
        returns(1.0, r)
    with pytest.raises(ValueError, match="appeared at both a and b"):
        both(r, r)
    assert float(both(r, xlab.new_ref(2.0))) == 3


# -- shard_map ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Explicit", "Auto"])
def test_references_go_into_shard_map_by_parts(kind):
    axis_types = (xlab.sharding.AxisType[kind],)
    mesh = xlab.make_mesh((4,), ("i",), axis_types=axis_types)
    lies = xlab.NamedSharding(mesh, xlab.P("i"))

    def body(ref):
        assert ref.shape == (2, 3)
        ref[...] += xlab.lax.axis_index("i").astype(np.float32)

    ref = new_ref(xlab.device_put(jnp.ones((8, 3)), lies))
    rows = np.repeat(np.arange(4), 2)
    for times, run in enumerate((lambda f: f, xlab.jit), 1):
        run(xlab.shard_map(body, mesh=mesh, in_specs=xlab.P("i"), out_specs=None))(ref)
        np.testing.assert_array_equal(ref[...][:, 0], 1 + times * rows)
