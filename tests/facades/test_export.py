"""Exported programs: called, differentiated, saved, read in another process, and what they refuse."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import export, lax

X = np.arange(3, dtype=np.float32)
BIG = np.arange(200, dtype=np.float32)


class Pair(NamedTuple):
    a: object
    b: object


def model(params, x, *, scale=2.0):
    return {"y": jnp.tanh(x @ params["w"]) * scale, "n": jnp.sum(params["w"])}


PARAMS = {"w": np.float32([[1, 2], [3, 4], [5, 6]]) / 10}


def exported():
    return export.export(xlab.jit(model))(
        PARAMS, xlab.ShapeDtypeStruct((3,), np.float32), scale=1.0
    )


def close(a, b):
    xlab.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), a, b)


def test_it_is_called_like_its_function():
    e = exported()
    assert e.fun_name == "model" and e.platforms == ("cpu",) and e.nr_devices == 1
    assert "stablehlo.tanh" in e.mlir_module()
    close(e.call(PARAMS, X, scale=3.0), model(PARAMS, X, scale=3.0))
    close(
        xlab.jit(lambda x: e.call(PARAMS, x, scale=x[1])["y"] + 1)(X),
        model(PARAMS, X, scale=1.0)["y"] + 1,
    )
    names = [
        eqn.primitive.name
        for eqn in xlab.make_jaxpr(lambda x: e.call(PARAMS, x, scale=1.0))(X).eqns
    ]
    assert names == ["custom_vjp_call"]
    two = xlab.jit(lambda x: e.call(PARAMS, x, scale=1.0)["y"] + e.call(PARAMS, x, scale=2.0)["y"])
    close(two(X), 3 * model(PARAMS, X, scale=1.0)["y"])


def test_its_derivative():
    e = exported()

    def loss(f):
        return lambda p, x: (f(p, x, scale=1.5)["y"] ** 2).sum()

    for run in (lambda f: f, xlab.jit):
        close(
            run(xlab.grad(loss(e.call), (0, 1)))(PARAMS, X),
            xlab.grad(loss(model), (0, 1))(PARAMS, X),
        )
    assert e.has_vjp()
    with_derivative = export.deserialize(e.serialize(vjp_order=1))
    close(xlab.grad(loss(with_derivative.call))(PARAMS, X), xlab.grad(loss(model))(PARAMS, X))
    plain = export.deserialize(e.serialize())
    assert not plain.has_vjp()
    with pytest.raises(ValueError, match="No VJP is available"):
        xlab.grad(loss(plain.call))(PARAMS, X)


def test_integers_have_no_cotangent():
    e = export.export(xlab.jit(lambda i, x: x * i))(np.int32(3), X)
    close(xlab.grad(lambda x: e.call(np.int32(3), x).sum())(X), np.full(3, 3.0))


def test_integer_results_have_float0_cotangents():
    e = export.export(xlab.jit(lambda i, x: (x * i, i + 1)))(np.int32(3), X)
    for program in (e, export.deserialize(e.serialize(vjp_order=1))):
        found = xlab.grad(lambda x: program.call(np.int32(3), x)[0].sum())(X)
        close(found, np.full(3, 3.0))
        pullback = program.vjp()
        assert [a.dtype.kind for a in pullback.in_avals] == ["i", "f", "f", "V"]
        of_integer, of_array = pullback.call(np.int32(3), X, X, np.zeros((), xlab.dtypes.float0))
        assert of_integer.dtype == xlab.dtypes.float0
        close(of_array, 3 * X)


def test_it_is_read_back():
    e = export.deserialize(exported().serialize())
    assert (e.in_tree, e.out_tree, e.in_avals, e.out_avals) == (
        exported().in_tree,
        exported().out_tree,
        exported().in_avals,
        exported().out_avals,
    )
    close(e.call(PARAMS, X, scale=3.0), model(PARAMS, X, scale=3.0))


def test_large_constants_and_unused_arguments():
    e = export.export(xlab.jit(lambda unused, x: x + jnp.asarray(BIG)))(np.float32(0), BIG)
    assert e.module_kept_var_idx == (1,) and len(e.constants) == 1
    close(export.deserialize(e.serialize()).call(np.float32(0), BIG), 2 * BIG)


def test_another_process_runs_it(tmp_path):
    (tmp_path / "model").write_bytes(exported().serialize())
    code = (
        "import sys, numpy as np, xlab; from xlab import export;"
        "e = export.deserialize(open(sys.argv[1], 'rb').read());"
        "w = np.float32([[1, 2], [3, 4], [5, 6]]) / 10;"
        "print(e.call({'w': w}, np.arange(3, dtype=np.float32), scale=3.0)['y'].tolist())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == str(model(PARAMS, X, scale=3.0)["y"].tolist())


def test_registered_classes():
    e = export.export(xlab.jit(lambda p: Pair(p.b, (p.a, None))))(Pair(X, 1.0))
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        e.serialize()
    export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
    out = export.deserialize(e.serialize()).call(Pair(X, 2.0))
    assert isinstance(out, Pair) and float(out.a) == 2.0 and out.b[1] is None
    with pytest.raises(ValueError, match="registered for serialization already"):
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Other")

    @xlab.tree_util.register_pytree_node_class
    class Tagged:
        def __init__(self, x, tag):
            self.x, self.tag = x, tag

        def tree_flatten(self):
            return (self.x,), self.tag

        @classmethod
        def tree_unflatten(cls, tag, children):
            return cls(*children, tag)

    export.register_pytree_node_serialization(
        Tagged,
        serialized_name="tests.Tagged",
        serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode,
    )
    e = export.export(xlab.jit(lambda t: Tagged(t.x * 2, "out")))(Tagged(X, "in"))
    out = export.deserialize(e.serialize()).call(Tagged(X, "in"))
    assert out.tag == "out" and out.x.tolist() == [0, 2, 4]


def test_what_it_refuses():
    e = exported()
    with pytest.raises(ValueError, match="Shape mismatch for argument 1"):
        e.call(PARAMS, X[:2], scale=1.0)
    with pytest.raises(ValueError, match="Dtype mismatch for argument 1"):
        e.call(PARAMS, X.astype(int), scale=1.0)
    with pytest.raises(ValueError, match="same pytree structure"):
        e.call(PARAMS, X)
    with pytest.raises(ValueError, match="result of `jit`"):
        export.export(model)
    with pytest.raises(ValueError, match="not an exported program"):
        export.deserialize(b"xx")
    with pytest.raises(ValueError, match="is none of cpu, cuda, rocm, tpu"):
        export.export(xlab.jit(model), platforms=("abacus",))
    with pytest.raises(NotImplementedError, match="fixed shapes"):
        xlab.vmap(lambda x: e.call(PARAMS, x, scale=1.0))(np.ones((2, 3), np.float32))


def test_another_platform():
    import dataclasses

    e = dataclasses.replace(exported(), platforms=("tpu",))
    with pytest.raises(ValueError, match="exported for platforms"):
        e.call(PARAMS, X, scale=1.0)
    close(
        dataclasses.replace(
            e, disabled_safety_checks=(export.DisabledSafetyCheck.platform(),)
        ).call(PARAMS, X, scale=1.0),
        model(PARAMS, X, scale=1.0),
    )


def both(e):
    """The program as it is, and as it comes back from a file."""
    return e, export.deserialize(e.serialize())


class TestPlatforms:
    @staticmethod
    def dependent(x):
        return lax.platform_dependent(
            x, cpu=lambda x: x + 1, tpu=lambda x: x + 2, default=lambda x: x + 3
        )

    def test_programs_that_agree_are_one(self):
        e = export.export(xlab.jit(jnp.sin), platforms=("cpu", "tpu", "cuda"))(X)
        assert e.platforms == ("cpu", "tpu", "cuda") and not e.other_programs
        close(e.call(X), np.sin(X))

    def test_programs_that_differ(self):
        for e in both(export.export(xlab.jit(self.dependent), platforms=("tpu", "cpu", "cuda"))(X)):
            close(e.call(X), X + 1)
            close(xlab.jit(e.call)(X), X + 1)
            twos = [
                f"dense<{n}.000000e+00>" in e.mlir_module(p)
                for p, n in (("tpu", 2), ("cpu", 1), ("cuda", 3))
            ]
            assert (
                e.platforms == ("tpu", "cpu", "cuda")
                and all(twos)
                and e.mlir_module() == e.mlir_module("tpu")
            )

    def test_one_within_another(self):
        inner = export.export(xlab.jit(self.dependent), platforms=("tpu", "cpu"))(X)
        outer = export.export(xlab.jit(lambda x: inner.call(x) * 2), platforms=("cpu", "tpu"))(X)
        close(outer.call(X), 2 * (X + 1))

    def test_of_another_platform_only(self):
        e = export.export(xlab.jit(self.dependent), platforms=("tpu",))(X)
        with pytest.raises(ValueError, match="exported for platforms"):
            e.call(X)

    def test_linear_algebra_of_other_platforms(self):
        m = np.eye(3, dtype=np.float32) + 1
        e = export.export(
            xlab.jit(
                lambda m: xlab.scipy.linalg.solve_triangular(
                    jnp.linalg.cholesky(m), m[0], lower=True
                )
            ),
            platforms=("cpu", "tpu"),
        )(m)
        assert "lapack" in e.mlir_module("cpu") and "lapack" not in e.mlir_module("tpu")
        with pytest.raises(NotImplementedError, match="not found for platform tpu"):
            export.export(xlab.jit(jnp.linalg.eigh), platforms=("tpu",))(m)
        assert (
            "func.func public @main"
            in xlab.jit(jnp.sin).trace(X).lower(lowering_platforms=("cpu", "tpu")).as_text()
        )

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: lax.erf_inv(x / 4),
            lambda x: lax.top_k(x, 2)[0],
            lambda x: xlab.random.normal(xlab.random.key(0), x.shape),
        ],
        ids=["erf_inv", "top_k", "random"],
    )
    def test_special_functions(self, f):
        for e in both(export.export(xlab.jit(f), platforms=("cpu", "tpu"))(X)):
            close(e.call(X), f(X))


@pytest.mark.skipif(len(xlab.devices()) < 8, reason="needs 8 devices")
class TestSeveralDevices:
    Y = np.arange(8, dtype=np.float32)

    def mesh(self, n=4):
        return xlab.make_mesh((n,), ("x",), axis_types=xlab.sharding.AxisType.Auto)

    def laid(self, n=4):
        return xlab.NamedSharding(self.mesh(n), xlab.P("x"))

    def program(self):
        return export.export(
            xlab.jit(lambda a: a * 2 + a.sum(), in_shardings=self.laid(), out_shardings=self.laid())
        )(self.Y)

    def test_calls(self):
        x = xlab.device_put(self.Y, self.laid())
        for e in both(self.program()):
            assert e.nr_devices == 4
            assert (
                e.in_shardings_jax(self.mesh())
                == e.out_shardings_jax(self.mesh())
                == (self.laid(),)
            )
            for y in (e.call(x), xlab.jit(e.call)(x)):
                close(y, 2 * self.Y + self.Y.sum())
                assert y.sharding.spec == xlab.P("x")
            close(xlab.jit(lambda x: e.call(x) - e.call(x + 1))(x), np.full(8, -10))

    def test_other_numbers_of_devices(self):
        e = self.program()
        for x in (self.Y, xlab.device_put(self.Y, self.laid(2))):
            with pytest.raises(ValueError, match="exported for 4 devices"):
                e.call(x)
        with pytest.raises(ValueError, match="over a mesh of axes"):
            e.in_shardings_jax(self.mesh(2))
        one = export.export(xlab.jit(lambda a: a * 2))(self.Y)
        close(one.call(xlab.device_put(self.Y, self.laid())), 2 * self.Y)

    def test_derivative(self):
        e = self.program()
        kept = export.deserialize(e.serialize(vjp_order=1))
        x = xlab.device_put(self.Y, self.laid())
        for p in (e, kept):
            close(xlab.grad(lambda x, p=p: p.call(x).sum())(x), np.full(8, 10))

    def test_shard_map(self):
        f = xlab.jit(
            xlab.shard_map(
                lambda a: lax.psum(a, "x"),
                mesh=self.mesh(),
                in_specs=xlab.P("x"),
                out_specs=xlab.P(),
            )
        )
        x = xlab.device_put(self.Y, self.laid())
        for e in both(export.export(f)(self.Y)):
            close(e.call(x), f(x))
            close(xlab.jit(lambda x: f(x) + e.call(x))(x), 2 * f(x))

    def test_other_meshes_in_the_program_around(self):
        e, mesh = (
            self.program(),
            xlab.make_mesh((2, 2), ("a", "b"), axis_types=(xlab.sharding.AxisType.Auto,) * 2),
        )
        x = xlab.device_put(self.Y, xlab.NamedSharding(mesh, xlab.P(("a", "b"))))
        close(xlab.jit(lambda x: e.call(x * 2))(x), 4 * self.Y + 2 * self.Y.sum())


@pytest.mark.skipif(len(xlab.devices()) < 8, reason="needs 8 devices")
@pytest.mark.parametrize(
    "kind", [xlab.sharding.AxisType.Auto, xlab.sharding.AxisType.Explicit], ids=["auto", "explicit"]
)
class TestMeshesWithoutDevices:
    X = np.arange(32, dtype=np.float32).reshape(8, 4)

    def abstract(self, kind, sizes=(4, 2)):
        return xlab.sharding.AbstractMesh(sizes, ("a", "b"), (kind,) * 2)

    def spec(self, mesh, shape=(8, 4)):
        return xlab.ShapeDtypeStruct(
            shape, np.float32, sharding=xlab.NamedSharding(mesh, xlab.P("a"))
        )

    @staticmethod
    def f(x):
        return x * 2 + x.sum()

    def real(self, kind):
        mesh = xlab.make_mesh((4, 2), ("a", "b"), axis_types=(kind,) * 2)
        return mesh, xlab.device_put(self.X, xlab.NamedSharding(mesh, xlab.P("a")))

    def test_it_runs_on_a_mesh_of_that_size(self, kind):
        mesh, x = self.real(kind)
        for e in both(export.export(xlab.jit(self.f))(self.spec(self.abstract(kind)))):
            assert e.nr_devices == 8 and e.in_shardings_hlo == e.out_shardings_hlo == (None,)
            assert e.in_shardings_jax(mesh) == (x.sharding,) and str(e.in_avals[0]) == str(
                xlab.typeof(x)
            )
            for out in (e.call(x), xlab.jit(e.call)(x)):
                close(out, self.f(self.X))
                assert out.sharding.is_equivalent_to(x.sharding, 2)
            with pytest.raises(ValueError, match="exported for 8 devices"):
                e.call(self.X)
        kept = export.deserialize(
            export.export(xlab.jit(self.f))(self.spec(self.abstract(kind))).serialize(vjp_order=1)
        )
        close(xlab.grad(lambda x: kept.call(x).sum())(x), np.full((8, 4), 34.0))

    def test_where_the_mesh_comes_from(self, kind):
        x = self.real(kind)[1]
        over = xlab.NamedSharding(self.abstract(kind), xlab.P("a"))
        asked = export.export(xlab.jit(self.f, in_shardings=over, out_shardings=over))(self.X)
        mapped = export.export(
            xlab.jit(
                xlab.shard_map(
                    lambda a: lax.psum(a, "a"),
                    mesh=over.mesh,
                    in_specs=xlab.P("a"),
                    out_specs=xlab.P(),
                )
            )
        )
        with xlab.sharding.use_abstract_mesh(over.mesh):
            inside = export.export(xlab.jit(self.f))(self.X)
        assert (asked.nr_devices, mapped(self.spec(over.mesh)).nr_devices, inside.nr_devices) == (
            8,
            8,
            8,
        )
        close(mapped(self.spec(over.mesh)).call(x), self.X.reshape(4, 2, 4).sum(0))
        close(
            xlab.jit(self.f, in_shardings=over)(x), self.f(self.X)
        )  # the argument says which devices
        assert (
            export.export(xlab.jit(self.f, in_shardings=over))(self.spec(over.mesh)).nr_devices == 8
        )
        with pytest.raises(ValueError, match="but in_shardings asks"):
            xlab.jit(self.f, in_shardings=xlab.NamedSharding(over.mesh, xlab.P("b")))(x)
        many = export.export(xlab.jit(self.f), platforms=("tpu",))(
            self.spec(self.abstract(kind, (64, 32)), (128, 4))
        )
        assert many.nr_devices == 2048 and '"a"=64, "b"=32' in many.mlir_module()

    def test_what_it_refuses(self, kind):
        traced = xlab.jit(self.f).trace(self.spec(self.abstract(kind)))
        with pytest.raises(ValueError, match="meshes without devices.*lowering_platforms"):
            traced.lower()
        with pytest.raises(RuntimeError, match="lowered for a mesh without devices"):
            traced.lower(lowering_platforms=("cpu",)).compile()
        two = self.abstract(kind), self.abstract(kind, (2, 2))
        with pytest.raises(
            ValueError, match="AbstractMesh of size 4|Mesh for all inputs should be equal"
        ):
            export.export(xlab.jit(lambda x, y: x + y.sum()))(*map(self.spec, two))


@pytest.mark.skipif(len(xlab.devices()) < 8, reason="needs 8 devices")
def test_constraints_over_a_mesh_without_devices():
    mesh = xlab.sharding.AbstractMesh((4, 2), ("a", "b"), (xlab.sharding.AxisType.Auto,) * 2)
    where = xlab.NamedSharding(mesh, xlab.P("b"))
    for f in (
        lambda x: lax.with_sharding_constraint(x * 2, where),
        lambda x: xlab.device_put(x * 2, where),
    ):
        e = export.export(xlab.jit(f))(X[:2])
        assert e.nr_devices == 8 and '[{"b"}]' in e.mlir_module()


def test_a_wrapper_of_a_jitted_function_is_none():
    """`functools.wraps` copies `lower`: what is exported has to be what is called."""
    inner = xlab.jit(lambda x: x + 1)

    @functools.wraps(inner)
    def twice(x):
        return 2 * inner(x)

    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export.export(twice)


def test_foreign_functions_have_to_be_answered_for():
    def f(x):
        return xlab.ffi.ffi_call("of_this_process", xlab.ShapeDtypeStruct(x.shape, x.dtype))(x) + 1

    with pytest.raises(
        ValueError, match="no compatibility guarantees: f calls 'of_this_process'.*custom_call"
    ):
        export.export(xlab.jit(f))(X)
    check = export.DisabledSafetyCheck.custom_call("of_this_process")
    with pytest.raises(ValueError, match="of_this_process"):
        export.export(
            xlab.jit(f), disabled_checks=[export.DisabledSafetyCheck.custom_call("another")]
        )(X)
    e = export.export(xlab.jit(f), disabled_checks=[check])(X)
    assert export.deserialize(e.serialize()).disabled_safety_checks == (check,)
    assert (
        check.is_custom_call() == "of_this_process"
        and export.DisabledSafetyCheck.platform().is_custom_call() is None
    )
    # What the package itself calls needs no such word.
    export.export(xlab.jit(lambda m: xlab.numpy.linalg.eigh(m @ m.T)))(np.eye(3, dtype=np.float32))
