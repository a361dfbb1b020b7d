import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from xlab.config import enable_x64, numpy_dtype_promotion
from xlab.core import dtypes
from xlab.core.avals import ShapedArray

NAMES = [
    "bool", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64", "int2", "int4", "int8", "int16", "int32", "int64",
    "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16", "float16", "float32", "float64", "complex64",
    "complex128"]  # fmt: skip
TABLE = r"""
import json, sys, itertools, warnings
import numpy as np, ml_dtypes
warnings.simplefilter("ignore")
names = json.loads(sys.argv[1])
def dt(n): return np.dtype(getattr(ml_dtypes, n, None) or n)
wide = ["int8", "uint8", "int16", "uint32", "int32", "bfloat16", "float16", "float32", "complex64"]
def table(lib):
    out = {}
    for x64, mode in itertools.product((False, True), ("standard", "strict")):
        def fill(weak):
            values = {"int": 1, "float": 1.0, "complex": 1j} | {n: dt(n) for n in names} | weak
            for a, b in itertools.product(values, values):
                try:
                    d, w = lib.result(values[a], values[b])
                    found = [str(d), bool(w)]
                except ValueError:
                    found = "error"
                out[f"{x64} {mode} {a} {b}"] = found
            try:
                out[f"{x64} {mode} three"] = str(lib.result(dt("int8"), dt("uint8"), dt("float16"))[0])
            except ValueError:
                out[f"{x64} {mode} three"] = "error"
        with lib.x64(x64), lib.mode(mode):
            lib.with_weak(wide, fill)
    for a, b in itertools.product(names, [np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger,
                                          np.inexact, np.floating, np.complexfloating, np.bool_, dt("bfloat16"), np.int8]):
        out[f"sub {a} {b}"] = bool(lib.sub(dt(a), b))
    for a in names:
        out[f"bits {a}"] = int(lib.bits(dt(a)))
    return out
"""
REFERENCE = (
    TABLE
    + r"""
import jax
class lib:
    x64, mode = staticmethod(jax.enable_x64), staticmethod(jax.numpy_dtype_promotion)
    def with_weak(names, fill):
        # Only traced and concrete arrays carry weak types of every width.
        specs = [jax.ShapeDtypeStruct((), dt(n), weak_type=True) for n in names]
        jax.make_jaxpr(lambda *xs: fill({f"weak {n}": x for n, x in zip(names, xs)}))(*specs)
    result = lambda *a: jax.dtypes.result_type(*a, return_weak_type_flag=True)
    sub, bits = jax.dtypes.issubdtype, jax.dtypes.itemsize_bits
print(json.dumps(table(lib)))
"""
)


class Ours:
    x64, mode = staticmethod(enable_x64), staticmethod(numpy_dtype_promotion)

    @staticmethod
    def with_weak(names, fill):
        fill({f"weak {n}": ShapedArray((), dtypes.to_dtype(n), weak_type=True) for n in names})

    result = staticmethod(lambda *a: dtypes.result_type(*a, return_weak_type_flag=True))
    sub, bits = staticmethod(dtypes.issubdtype), staticmethod(dtypes.itemsize_bits)


@pytest.mark.reference
def test_whole_table_agrees_with_the_reference():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REFERENCE, json.dumps(NAMES)],
        capture_output=True,
        text=True,
    )
    if "No module named 'jax'" in done.stderr:
        pytest.skip("the reference is not installed in this environment")
    assert done.returncode == 0, done.stderr[-2000:]
    scope = {"NAMES": NAMES}
    exec(compile(TABLE.replace("json.loads(sys.argv[1])", "NAMES"), "table", "exec"), scope)
    ours, theirs = scope["table"](Ours), json.loads(done.stdout)
    different = {k: (ours[k], theirs[k]) for k in theirs if ours[k] != theirs[k]}
    assert not different, "\n".join(f"{k}: {v}" for k, v in list(different.items())[:40])
    assert len(theirs) > 4000


def test_names():
    assert [
        dtypes.short_name(np.dtype(t)) for t in (bool, np.uint8, np.int64, np.float32, np.complex64)
    ] == ["bool", "u8", "i64", "f32", "c64"]
    assert dtypes.short_name(dtypes.bfloat16) == "bf16"
    assert dtypes.short_name(ml_dtypes.int4) == "i4"
    assert dtypes.short_name(np.dtype(ml_dtypes.float8_e4m3fn)) == "f8_e4m3fn"
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert [
        dtypes.mlir_type(t) for t in ("bool", "uint16", "complex128", "bfloat16", "float8_e5m2fnuz")
    ] == ["i1", "ui16", "complex<f64>", "bf16", "f8E5M2FNUZ"]
    with pytest.raises(TypeError, match="no form in StableHLO"):
        dtypes.mlir_type(np.dtype("U3"))


def test_every_name_is_understood_by_the_compiler():
    from xlab.backend import ir

    for name in NAMES:
        ir.parse(f"func.func @main(%a: tensor<2x{dtypes.mlir_type(name)}>) {{ return }}")


def test_canonical_types_and_requests():
    assert dtypes.canonicalize_dtype(int) == np.int32
    assert dtypes.canonicalize_dtype("float64") == np.float32
    with enable_x64(True):
        assert dtypes.canonicalize_dtype(complex) == np.complex128
    with pytest.warns(UserWarning, match="enable_x64"):
        assert dtypes.check_user_dtype("int64", "zeros") == np.int32
    assert dtypes.check_user_dtype(float, "zeros") == np.float32
    with pytest.raises(TypeError, match="no array can have"):
        dtypes.check_user_dtype("U3", "zeros")


def test_keys_are_a_category_of_their_own():
    key = dtypes.KeyDType("fry", (2,))
    assert str(key) == dtypes.short_name(key) == "key<fry>"
    assert key == dtypes.KeyDType("fry", (2,))
    assert dtypes.issubdtype(key, dtypes.prng_key)
    assert dtypes.issubdtype(key, dtypes.extended)
    assert not dtypes.issubdtype(key, np.number)
    assert dtypes.is_extended(key)
    assert dtypes.is_dtype(key)
    with pytest.raises(dtypes.TypePromotionError, match="does not promote"):
        dtypes.result_type(key, np.float32)
    assert dtypes.result_type(key, key) == key


def test_promotion_mistakes_say_why():
    with pytest.raises(dtypes.TypePromotionError, match="8-bit floats never promote"):
        dtypes.result_type("float8_e4m3fn", "float32")
    with numpy_dtype_promotion("strict"), pytest.raises(dtypes.TypePromotionError, match="strict"):
        dtypes.result_type(np.int32, np.float32)


def test_scalars_and_limits():
    assert [
        dtypes.scalar_type_of(x) for x in (1, 2.0, True, 1j, np.float32(1), np.int8, "bfloat16")
    ] == [int, float, bool, complex, float, int, float]
    assert float(dtypes.finfo("bfloat16").eps) == 0.0078125
    assert dtypes.iinfo("int4").max == 7
