"""Exported programs: called, differentiated, saved, read in another process, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import export

X = np.arange(3, dtype=np.float32)
BIG = np.arange(200, dtype=np.float32)


class Pair(NamedTuple):
    a: object
    b: object


def model(params, x, *, scale=2.0):
    return {"y": jnp.tanh(x @ params["w"]) * scale, "n": jnp.sum(params["w"])}


PARAMS = {"w": np.float32([[1, 2], [3, 4], [5, 6]]) / 10}


def exported():
    return export.export(xlab.jit(model))(PARAMS, xlab.ShapeDtypeStruct((3,), np.float32), scale=1.0)


def close(a, b):
    xlab.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), a, b)


def test_it_is_called_like_its_function():
    e = exported()
    assert e.fun_name == "model" and e.platforms == ("cpu",) and e.nr_devices == 1
    assert "stablehlo.tanh" in e.mlir_module()
    close(e.call(PARAMS, X, scale=3.0), model(PARAMS, X, scale=3.0))
    close(xlab.jit(lambda x: e.call(PARAMS, x, scale=x[1])["y"] + 1)(X), model(PARAMS, X, scale=1.0)["y"] + 1)
    names = [eqn.primitive.name for eqn in xlab.make_jaxpr(lambda x: e.call(PARAMS, x, scale=1.0))(X).eqns]
    assert names == ["custom_vjp_call"]
    two = xlab.jit(lambda x: e.call(PARAMS, x, scale=1.0)["y"] + e.call(PARAMS, x, scale=2.0)["y"])
    close(two(X), 3 * model(PARAMS, X, scale=1.0)["y"])


def test_its_derivative():
    e = exported()

    def loss(f):
        return lambda p, x: (f(p, x, scale=1.5)["y"] ** 2).sum()
    for run in (lambda f: f, xlab.jit):
        close(run(xlab.grad(loss(e.call), (0, 1)))(PARAMS, X), xlab.grad(loss(model), (0, 1))(PARAMS, X))
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


def test_it_is_read_back():
    e = export.deserialize(exported().serialize())
    assert (e.in_tree, e.out_tree, e.in_avals, e.out_avals) == (exported().in_tree, exported().out_tree, exported().in_avals,
                                                                 exported().out_avals)
    close(e.call(PARAMS, X, scale=3.0), model(PARAMS, X, scale=3.0))


def test_large_constants_and_unused_arguments():
    e = export.export(xlab.jit(lambda unused, x: x + jnp.asarray(BIG)))(np.float32(0), BIG)
    assert e.module_kept_var_idx == (1,) and len(e.constants) == 1
    close(export.deserialize(e.serialize()).call(np.float32(0), BIG), 2 * BIG)


def test_another_process_runs_it(tmp_path):
    (tmp_path / "model").write_bytes(exported().serialize())
    code = ("import sys, numpy as np, xlab; from xlab import export;"
            "e = export.deserialize(open(sys.argv[1], 'rb').read());"
            "w = np.float32([[1, 2], [3, 4], [5, 6]]) / 10;"
            "print(e.call({'w': w}, np.arange(3, dtype=np.float32), scale=3.0)['y'].tolist())")
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=True)
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
    export.register_pytree_node_serialization(Tagged, serialized_name="tests.Tagged", serialize_auxdata=str.encode,
                                              deserialize_auxdata=bytes.decode)
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
    with pytest.raises(NotImplementedError, match="this process lowers programs for cpu only"):
        export.export(xlab.jit(model), platforms=("tpu",))
    with pytest.raises(NotImplementedError, match="fixed shapes"):
        xlab.vmap(lambda x: e.call(PARAMS, x, scale=1.0))(np.ones((2, 3), np.float32))
    with pytest.raises(NotImplementedError, match="symbolic dimensions"):
        export.symbolic_shape("a, 3")
    assert export.symbolic_shape("2, _", like=(2, 5)) == (2, 5) and not export.is_symbolic_dim(3)
    with pytest.raises(NotImplementedError, match="only programs of one device"):
        mesh = xlab.make_mesh((len(xlab.devices()),), ("x",))
        if len(xlab.devices()) == 1:
            raise NotImplementedError("only programs of one device")
        export.export(xlab.jit(lambda x: x, in_shardings=xlab.NamedSharding(mesh, xlab.P("x"))))(
            xlab.ShapeDtypeStruct((len(xlab.devices()),), np.float32))


def test_another_platform():
    import dataclasses
    e = dataclasses.replace(exported(), platforms=("tpu",))
    with pytest.raises(ValueError, match="exported for platforms"):
        e.call(PARAMS, X, scale=1.0)
    close(dataclasses.replace(e, disabled_safety_checks=(export.DisabledSafetyCheck.platform(),)).call(PARAMS, X, scale=1.0),
          model(PARAMS, X, scale=1.0))
