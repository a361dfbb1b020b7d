"""Wrong calls of every public function end with an error people can catch, soon, and with the process alive.

`XLAB_FUZZ_CALLS` raises the number of calls per function (4 here; a nightly run takes 100).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness import calls

ROOT = Path(__file__).resolve().parents[2]
COUNT = os.environ.get("XLAB_FUZZ_CALLS", "4")
SEED = os.environ.get("XLAB_FUZZ_SEED", "0")
# What a wrong call may end with.
DOCUMENTED = {"returned", "TypeError", "ValueError", "IndexError", "KeyError", "OverflowError", "NameError",
              "NotImplementedError", "ZeroDivisionError", "LinAlgError", "MemoryError", "BufferError"}  # fmt: skip
# Errors of other classes that the field has, by their words: memory that is not there, and names it chose.
EXPECTED = {
    "JaxRuntimeError": ("RESOURCE_EXHAUSTED", "Out of memory", "pure_callback failed"),
    "RuntimeError": (
        "Unknown backend",
        "mapped context",
        "should only be called once",
        "already in use",
        "Unrecognized padding type",
    ),
    "AttributeError": ("result_shape_dtypes",),
}


def problem(line: dict) -> str:
    """What is wrong with the end of a call, or nothing."""
    kinds = set(line["kind"].split("/"))
    if any(words in line["words"] for words in EXPECTED.get(line["kind"].split("/")[0], ())):
        return ""
    if not kinds & DOCUMENTED:
        return f"ended with {line['kind']}: {line['words']}"
    if ("KeyError" in kinds and len(line["words"]) < 20) or "pop from an empty" in line["words"]:
        return f"ended with a bare {line['kind']}: {line['words']}"
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("module", calls.MODULES, ids=lambda m: m or "xlab")
def test_wrong_calls(module):
    child = subprocess.run(
        [sys.executable, "-m", "tests.robustness.calls", "xlab", module, COUNT, SEED],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "XLAB_NUM_CPU_DEVICES": "8"},
        timeout=1200,
    )
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    ended = [line for line in lines if "end" in line]
    begun = next((line["begin"] for line in reversed(lines) if "begin" in line), "nothing")
    assert child.returncode == 0, (
        f"the process ended with {child.returncode} in {begun}:\n{child.stderr[-2000:]}"
    )
    assert len(ended) > 20
    wrong = [f"{line['end']} {problem(line)}" for line in ended if problem(line)]
    assert not wrong, "\n".join(wrong)


def test_what_counts_as_a_problem():
    assert problem({"kind": "AttributeError", "words": "x", "seconds": 0.0})
    assert problem({"kind": "JaxRuntimeError/RuntimeError", "words": "INTERNAL: x", "seconds": 0.0})
    assert problem({"kind": "never ended", "words": "", "seconds": 60.0})
    assert not problem(
        {"kind": "InvalidInputException/XlabError/TypeError", "words": "x", "seconds": 0.0}
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x, n: x.lax.rng_uniform(True, True, (2, 3)), TypeError),  # ended the process
        (lambda x, n: x.numpy.array_split(n.ones(3, n.float32), 10**12), ValueError),  # never ended
        (lambda x, n: x.scipy.special.bernoulli(10**12), ValueError),  # never ended
        (lambda x, n: x.tree_util.register_dataclass(()), TypeError),
        (lambda x, n: x.make_array_from_single_device_arrays((3,), n.ones(2), []), TypeError),
        (lambda x, n: x.numpy.from_dlpack(n.array([None])), BufferError),
        (lambda x, n: x.lax.bitcast_convert_type(n.ones(2, n.complex64), None), ValueError),
        (
            lambda x, n: x.lax.ragged_dot_general(n.ones(3), n.ones(3), n.ones(3, int), -1),
            TypeError,
        ),
        (lambda x, n: x.lax.reduce_precision(n.arange(3), 5, 5), TypeError),
        (lambda x, n: x.lax.reduce_precision(n.ones(3, n.float32), 0, 5), ValueError),
        (lambda x, n: x.lax.reduce_precision(n.ones(3, n.float32), 7, 10**12), ValueError),
        (lambda x, n: x.numpy.eye(10**12), ValueError),  # the compiler ended the process
        (lambda x, n: x.numpy.zeros((2**40, 2**40, 0)), ValueError),
        (
            lambda x, n: x.lax.broadcast(n.ones(0, n.float32), (10**6, 10**6)),
            ValueError,
        ),  # never ended
        (lambda x, n: x.jit(lambda y: x.lax.broadcast(y, (2**61,)).sum()).lower(1.0), ValueError),
        (
            lambda x, n: x.jit(lambda y: y.sum()).lower(x.ShapeDtypeStruct((2**60, 2), n.float32)),
            ValueError,
        ),
        (lambda x, n: x.numpy.trim_zeros(n.ones(3), trim=None), TypeError),
        (
            lambda x, n: x.lax.sort_key_val(
                n.array([True, False]), x.random.split(x.random.key(0))
            ),
            TypeError,
        ),
    ],
    ids=[
        "rng_uniform",
        "array_split",
        "bernoulli",
        "register_dataclass",
        "single_device_arrays",
        "from_dlpack",
        "bitcast",
        "ragged_dot",
        "reduce_precision_of_integers",
        "no_exponent",
        "huge_mantissa",
        "huge_eye",
        "huge_and_empty",
        "never_filled",
        "huge_value",
        "huge_argument",
        "trim_where",
        "sorted_keys",
    ],
)
def test_found_by_long_runs(call, error):
    import numpy

    import xlab
    import xlab.scipy.special

    with pytest.raises(error):
        call(xlab, numpy)


def test_own_arrays_of_every_dtype_pass_dlpack():
    from xlab import numpy as jnp

    x = jnp.ones(3, jnp.bfloat16)
    assert jnp.from_dlpack(x).dtype == jnp.bfloat16
    assert float(jnp.sum(jnp.from_dlpack(x))) == 3.0
