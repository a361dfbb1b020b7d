"""Counts of arithmetic and bytes: closed formulas, and the numbers of the reference where both mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.experimental.roofline import (
    RooflineResult,
    RooflineRuleContext,
    RooflineShape,
    register_roofline,
    register_standard_roofline,
    roofline,
    roofline_and_grad,
)
from xlab.sharding import PartitionSpec as P

X, Y = jnp.ones((8, 16)), jnp.ones((16, 4))

# (flops, unfused flops, bytes, peak, unfused bytes), as the reference counts them.
SAME = {
    "product": (lambda x, y: x @ y, (1024, 1024, 896, 768, 896)),
    "fused": (lambda x, y: jnp.sin(x @ y) + 1, (1024, 1088, 896, 768, 1412)),
    "two": (lambda x, y: (x @ y) @ (x @ y).T, (2560, 2560, 2304, 896, 2304)),
    "sum": (lambda x, y: x.sum(0), (0, 112, 0, 768, 576)),
    "log": (lambda x, y: jnp.log(x), (0, 128, 0, 768, 1024)),
    "jit": (lambda x, y: xlab.jit(lambda x: x * 2)(x), (0, 128, 0, 768, 1028)),
    "moved": (lambda x, y: x.T.reshape(-1), (0, 0, 0, 768, 0)),
    "cumulative": (lambda x, y: jnp.cumsum(x.reshape(-1)), (0, 128, 0, 768, 1024)),
}


@pytest.mark.parametrize("name", SAME)
def test_counts(name):
    f, expected = SAME[name]
    shapes, r = roofline(f)(X, Y)
    found = (r.flops, r.unfused_flops, r.hbm_bytes, r.peak_hbm_bytes, r.unfused_hbm_bytes)
    assert found == expected
    assert shapes.shape == f(X, Y).shape


def test_types_serve_as_arguments():
    given = xlab.ShapeDtypeStruct((8, 16), np.float32), xlab.ShapeDtypeStruct((16, 4), np.float32)
    assert roofline(lambda x, y: x @ y)(*given)[1] == roofline(lambda x, y: x @ y)(X, Y)[1]


def test_loops_and_branches():
    loop = lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, length=5)[0]
    assert roofline(loop)(jnp.ones((4, 4)))[1].flops == 5 * 2 * 4**3
    branch = lambda x: lax.cond(True, lambda x: x @ x, lambda x: x, x)
    assert roofline(branch)(jnp.ones((4, 4)))[1].flops == 2 * 4**3


def test_a_convolution_is_products():
    f = lambda x: lax.conv(x, jnp.ones((5, 3, 2, 2)), (1, 1), "VALID")
    assert roofline(f)(jnp.ones((1, 3, 6, 6)))[1].flops == 2 * (5 * 5 * 5) * (3 * 2 * 2)


MESH = xlab.make_mesh((2, 4), ("a", "b"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)


@pytest.mark.parametrize(
    ("f", "out", "sent"),
    [
        (lambda x: lax.psum(x, "b"), P("a"), {"b": 96}),
        (lambda x: lax.psum(x, ("a", "b")), P(), {"a": 56, "b": 56}),
        (lambda x: lax.ppermute(x, "b", [(0, 1), (1, 0)]), P("a", "b"), {"b": 64}),
        (
            lambda x: lax.psum_scatter(x, "b", scatter_dimension=1, tiled=True),
            P("a", "b"),
            {"b": 48},
        ),
    ],
)
def test_bytes_between_devices(f, out, sent):
    _, r = roofline(f, MESH, P("a", "b"), out)(X)
    assert r.ici_bytes == sent and r.peak_hbm_bytes == 64 and set(r.ici_latency) == set(sent)


def test_forwards_and_backwards():
    f = lambda x, y: lax.psum(x @ y, "b")
    shapes, forwards, backwards = roofline_and_grad(f, MESH, (P("a", "b"), P("b", None)), P("a"))(
        X, Y
    )
    assert shapes.shape == (8, 4) and (forwards.flops, forwards.ici_bytes) == (128, {"b": 96})
    assert backwards.flops == 256 and set(backwards.ici_bytes) == {"a"}


def test_operands_in_fast_memory_are_not_read():
    assert roofline(lambda x, y: x @ y, pin_lhs_in_vmem=True)(X, Y)[1].hbm_bytes == 256


def test_rules_of_ones_own():
    from xlab.core.primitive import Primitive

    own_p = Primitive("own_counted", hidden=True)
    own_p.def_abstract_eval(lambda x: x)
    assert roofline(own_p.bind)(X)[1].hbm_bytes == 0

    @register_roofline(own_p)
    def _own(ctx, x):
        return RooflineResult(hbm_bytes=3 * x.bytes)

    assert (
        roofline(own_p.bind)(X)[1].hbm_bytes
        == 3 * 512
        == 3 * RooflineShape((8, 16), np.float32).bytes
    )


def test_a_primitive_may_count_as_others_that_are_fused():
    from xlab.core.primitive import Primitive

    fused_p, seen = Primitive("fused_as_others", hidden=True), []
    fused_p.def_abstract_eval(lambda x: x)
    register_standard_roofline(fused_p)
    counted = roofline(fused_p.bind)(X)[1]
    assert (counted.flops, counted.unfused_flops) == (0, X.size)
    assert (counted.hbm_bytes, counted.unfused_hbm_bytes) == (0, 2 * X.nbytes)
    register_roofline(fused_p)(lambda ctx, x: seen.append(ctx) or RooflineResult(flops=7))
    assert roofline(fused_p.bind)(X)[1].flops == 7
    (ctx,) = seen
    assert type(ctx) is RooflineRuleContext and ctx.primitive is fused_p
    assert [a.shape for a in (*ctx.avals_in, *ctx.avals_out)] == [X.shape] * 2


def test_results_add_up():
    a = RooflineResult(flops=1, ici_bytes={"a": 2}, peak_hbm_bytes=5)
    b = RooflineResult(flops=2, ici_bytes={"a": 1, "b": 3}, peak_hbm_bytes=7)
    assert a + b == RooflineResult(flops=3, ici_bytes={"a": 3, "b": 3}, peak_hbm_bytes=7)
    assert 3 * a == RooflineResult(flops=3, ici_bytes={"a": 6}, peak_hbm_bytes=5)
    assert RooflineResult.zeros() + a == a
