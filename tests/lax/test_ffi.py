"""Foreign functions, called here on LAPACK's, which jaxlib brings."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

import xlab
from xlab import ffi, lax

pytest.importorskip("scipy")
S = xlab.ShapeDtypeStruct
LOWER = np.uint8(ord("L"))


@pytest.fixture(scope="module")
def matrices():
    from xlab.backend import lapack

    lapack.ready()
    a = np.random.RandomState(0).rand(5, 3, 3).astype(np.float32)
    return a @ a.transpose(0, 2, 1) + 3 * np.eye(3, dtype=np.float32)


def cholesky(a, **options):
    call = ffi.ffi_call(
        "lapack_spotrf_ffi",
        (S(a.shape, a.dtype), S(a.shape[:-2], np.int32)),
        input_layouts=[(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)],
        output_layouts=[(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2), tuple(range(a.ndim - 2))],
        **options,
    )
    factor, info = call(a, uplo=LOWER)
    return xlab.numpy.tril(factor), info


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit], ids=["eager", "jit"])
def test_a_call(wrap, matrices):
    factor, info = wrap(cholesky)(matrices[0])
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrices[0]), rtol=1e-4)
    assert int(info) == 0


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
)
def test_vmap(method, matrices):
    factor, info = xlab.jit(xlab.vmap(lambda a: cholesky(a, vmap_method=method)))(matrices)
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrices), rtol=1e-4)
    assert info.shape == (5,) and not info.any()


def test_aliases(matrices):
    factor, _ = xlab.jit(lambda a: cholesky(a, input_output_aliases={0: 0}))(matrices[0])
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrices[0]), rtol=1e-4)


def test_attributes_are_written_by_type(matrices):
    def f(x):
        return ffi.ffi_call("anything", S((), np.float32))(
            x,
            a=1.5,
            b='s"',
            c=np.arange(3),
            d=True,
            e=np.int32(3),
            f=3,
            g={"h": np.float32(2)},
            t=(1, np.uint8(2)),
        )

    text = xlab.jit(f).lower(1.0).as_text()
    for part in (
        "a = 1.5 : f64",
        'b = "s\\22"',
        "c = dense<[0, 1, 2]> : tensor<3xi64>",
        "d = true",
        "e = 3 : i32",
        "f = 3 : i64",
        ": f32}",
        "t = [1 : i64, 2 : ui8]",
    ):
        assert part in text, text
    xlab.backend.ir.verify(text)


def test_a_primitive_of_ones_own(matrices):
    from xlab.extend.core import Primitive
    from xlab.interpreters import mlir

    prim = Primitive("my_cholesky")
    prim.multiple_results = True
    prim.def_abstract_eval(lambda a, uplo: [a, a.update(shape=(), dtype=np.dtype(np.int32))])
    layouts = {"operand_layouts": [(1, 0)], "result_layouts": [(1, 0), ()]}
    mlir.register_lowering(prim, ffi.ffi_lowering("lapack_spotrf_ffi", **layouts))
    factor, _ = xlab.jit(lambda a: prim.bind(a, uplo=LOWER))(matrices[0])
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrices[0]), rtol=1e-4)
    mlir.register_lowering(
        prim,
        lambda ctx, a, uplo: (
            ffi.build_ffi_lowering_function("lapack_spotrf_ffi", **layouts)(
                ctx, a, uplo=uplo
            ).results
        ),
    )
    factor, _ = xlab.jit(lambda a: prim.bind(a, uplo=LOWER))(matrices[1])
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrices[1]), rtol=1e-4)


def test_effects():
    f = lambda x: ffi.ffi_call("anything", S((), np.float32), has_side_effect=True)(x)
    assert {str(e) for e in xlab.make_jaxpr(f)(1.0).effects} == {"FFI"}
    assert not xlab.make_jaxpr(lambda x: ffi.ffi_call("anything", S((), np.float32))(x))(
        1.0
    ).effects


def test_mistakes(matrices):
    one = S((), np.float32)
    with pytest.raises(xlab.errors.JaxRuntimeError, match="No FFI handler"):
        ffi.ffi_call("no_such_function", one)(1.0)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        xlab.grad(ffi.ffi_call("anything", one))(1.0)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        xlab.vmap(ffi.ffi_call("anything", one))(np.ones(3))
    with pytest.raises(ValueError, match="vmap_method"):
        ffi.ffi_call("anything", one, vmap_method="all")
    with pytest.raises(ValueError, match="custom_call_api_version < 4"):
        ffi.ffi_call("anything", one, legacy_backend_config="x")
    with pytest.raises(TypeError, match="Non-hashable"):
        ffi.ffi_call("anything", one)(1.0, a=[1])
    with pytest.raises(TypeError, match="NoneType"):
        xlab.jit(lambda x: ffi.ffi_call("anything", one)(x, a=None)).lower(1.0)
    with pytest.raises(ValueError, match="once"):
        ffi.ffi_call("anything", one, input_layouts=[(0, 0)])(matrices[0])
    with pytest.raises(ValueError, match="1 input_layouts for 2"):
        ffi.ffi_call("anything", one, input_layouts=[()])(1.0, 2.0)
    for aliases, words in (
        ({1: 0}, "input index 1"),
        ({0: 1}, "output index 1"),
        ({0: 0}, "one type"),
    ):
        with pytest.raises(ValueError, match=words):
            ffi.ffi_call("anything", one, input_output_aliases=aliases)(matrices[0])
    with pytest.raises(xlab.errors.JaxRuntimeError):
        ffi.register_ffi_target("not_a_capsule", 3)
    with pytest.raises(TypeError, match="unexpected"):
        ffi.register_ffi_target("name", 3, flavour="x")


def test_capsules_and_headers():
    assert type(ffi.pycapsule(ctypes.CDLL(None).malloc)).__name__ == "PyCapsule"
    assert os.path.exists(os.path.join(ffi.include_dir(), "xla", "ffi", "api", "ffi.h"))
    assert lax.sin(0.0) == 0
