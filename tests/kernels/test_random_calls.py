"""Random kernel calls: the compiled path gives what a model in NumPy gives, and what the reference gives (K104 f, K33–K37, K44).

XLAB_KERNEL_CALLS says how many are tried; a run takes some of them.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import numpy as np
import pytest

import xlab
from tests.kernels.random_calls import ALL_KINDS, PLAIN, Ours, Statement, Theirs, build, draw, model
from xlab.kernels import InterpretParams

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

COUNT = int(os.environ.get("XLAB_KERNEL_CALLS", "25"))
# What a compiled program does with blocks outside.
CLAMP = InterpretParams(out_of_bounds_reads="clamp")


def results(call, side, args, wrap=lambda f: f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some kernels write to their inputs
        return [np.asarray(x) for x in wrap(build(call, side))(*args)]


def check(call, got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w, err_msg=str(call))


def tried(count=COUNT):
    return hypothesis.settings(max_examples=count)


@tried()
@hypothesis.given(st.integers(0, 10**6))
def test_k104f_compiled_calls_are_the_model(seed):
    call = draw(seed, ALL_KINDS)
    args = call.arguments()
    check(call, results(call, Ours(), args), model(call, args))


@tried(max(COUNT // 3, 5))
@hypothesis.given(st.integers(0, 10**6))
def test_k104f_under_jit_and_vmap(seed):
    call = draw(seed, ALL_KINDS)
    args = call.arguments()
    want = model(call, args)
    check(call, results(call, Ours(), args, xlab.jit), want)
    if call.scratch or any(s.to < len(args) for s in call.statements):
        return  # scratch lives from example to example
    other = [x[..., ::-1] for x in args]
    both = [np.stack(pair, 1) for pair in zip(args, other)]
    got = results(call, Ours(), both, lambda f: xlab.vmap(f, in_axes=1))
    check(call, [g[0] for g in got], want)
    check(call, [g[1] for g in got], model(call, other))


@tried(max(COUNT // 3, 5))
@hypothesis.given(st.integers(0, 10**6))
def test_k47_derivatives_are_slopes_of_the_model(seed):
    call = draw(seed, ALL_KINDS)
    n, m = len(call.inputs), len(call.outputs)
    # Outputs and scratch hold something of the arguments from the start.
    first = [Statement("copy", n + k, seed % n, 2) for k in range(m + len(call.scratch))]
    call = replace(
        call,
        aliases={},
        dynamic=False,
        dtype=np.dtype(np.float64),
        statements=(*first, *call.statements),
    )
    args = call.arguments()
    tangents = [np.cos(7 * x) for x in args]
    step = 1e-6

    def shifted(by):
        return model(call, [x + by * t for x, t in zip(args, tangents)])

    want = [(b - a) / (2 * step) for a, b in zip(shifted(-step), shifted(step))]
    with warnings.catch_warnings(), xlab.enable_x64(True):
        warnings.simplefilter("ignore")
        primals, slopes = xlab.jvp(build(call, Ours()), tuple(args), tuple(tangents))
        for primal, p, slope, w in zip(model(call, args), primals, slopes, want, strict=True):
            known = np.isfinite(primal)
            np.testing.assert_allclose(p, primal, rtol=1e-9, atol=1e-9, err_msg=str(call))
            np.testing.assert_allclose(
                np.asarray(slope)[known], w[known], rtol=1e-5, atol=1e-5, err_msg=str(call)
            )


@pytest.mark.reference
@tried(max(COUNT // 2, 5))
@hypothesis.given(st.integers(0, 10**6))
def test_k104f_the_reference_is_the_model(seed):
    pytest.importorskip("jax")
    call = draw(seed, PLAIN)
    if call.reference_has_it:
        args = call.arguments()
        check(call, results(call, Theirs(), args), model(call, args))
        check(call, results(call, Ours(), args), model(call, args))


@tried(max(COUNT // 2, 5))
@hypothesis.given(st.integers(0, 10**6))
def test_k104f_the_value_interpreter_is_the_model(seed):
    call = draw(seed, ALL_KINDS)
    if call.alias_mode == "shared" and call.aliases:
        return  # one buffer for two paddings is a matter of the compiled path alone
    args = call.arguments()
    check(call, results(call, Ours(CLAMP), args), model(call, args))
