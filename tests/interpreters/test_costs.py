"""The cost of equations: no holes, and closed formulas."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.primitive import all_primitives
from xlab.interpreters import costs
from xlab.interpreters.communication import collective_rules
from xlab.interpreters.control_flow import control_flow_rules

for _room in ("lax", "transforms", "parallel", "random", "kernels", "sparse"):
    for _found in pkgutil.walk_packages([f"{xlab.__path__[0]}/{_room}"], f"xlab.{_room}."):
        import_module(_found.name)

# What is made of the programs inside it, where these are no parameters that values flow through.
OF_INNER_PROGRAMS = {"core_map", "run_scoped"}


def test_every_primitive_has_a_cost_or_a_reason():
    holes = [
        f"{p.name} in {p.module}: {costs.cost_rules.name}[{p.name}_p] = {costs.cost_rules.signature}"
        for p in all_primitives()
        if p.module.startswith("xlab/")
        and p not in costs.cost_rules
        and p not in collective_rules
        and p not in control_flow_rules
        and p.name not in OF_INNER_PROGRAMS
        and len((costs.cost_rules.excuse_for(p) or "").split()) < 4
    ]
    assert not holes, "\n".join(holes)


def test_units_are_known():
    x = [costs.ShapedArray((4, 4), np.dtype("float32"))] * 3
    for p, rule in costs.cost_rules.items():
        if rule.__name__ in ("free", "moves", "fused_moves", "reads_result", "host", "reduction"):
            assert rule(x, x).unit in costs.UNITS, p


def counted(f, *args):
    """Operations of a function's equations, inner programs included."""
    found = costs.total(xlab.make_jaxpr(f)(*args).jaxpr)
    return found.flops, found.transcendentals


S = np.ones((6, 6), np.float32)
COUNTS = {
    "add": (lambda x: x + x, (36, 0)),
    "exp": (lambda x: jnp.exp(x), (0, 36)),
    "product": (lambda x: x @ x, (2 * 6**3, 0)),
    "sum": (lambda x: x.sum(), (35, 0)),
    "sum of nothing": (lambda x: lax.reduce_sum(x, (0, 1)), (0, 0)),
    "max over a row": (lambda x: x.max(1), (30, 0)),
    "transposed": (lambda x: x.T, (0, 0)),
    "slice": (lambda x: x[1:3], (0, 0)),
    "cumsum": (lambda x: lax.cumsum(x), (36, 0)),
    "sort": (lambda x: lax.sort(x[:4], dimension=0), (24 * 2, 0)),
    "fft": (lambda x: lax.fft(x[0, :4] + 0j, "FFT", (4,)), (4 + 5 * 4 * 2, 0)),
    "cholesky": (lambda x: lax.linalg.cholesky_p.bind(x), (6**3 // 3, 0)),
    "triangular solve": (lambda x: lax.linalg.triangular_solve(x, x), (6**3, 0)),
    "convolution": (
        lambda x: lax.conv(x[None, None], jnp.ones((5, 1, 3, 3)), (1, 1), "VALID"),
        (2 * 5 * 4 * 4 * 9, 0),
    ),
    "convolution backwards": (
        lambda x: xlab.linear_transpose(
            lambda x: lax.conv(x, jnp.ones((5, 1, 2, 2)), (2, 2), "VALID"),
            jnp.ones((1, 1, 6, 6)),
        )(jnp.ones((1, 5, 3, 3))),
        (2 * 5 * 3 * 3 * 4, 0),  # as forwards, whatever the strides
    ),
    "window": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"),
        (9 * 3, 0),
    ),
    "loop": (lambda x: lax.scan(lambda c, _: (c * c, None), x, None, length=5)[0], (180, 0)),
    "scatter": (lambda x: jnp.asarray(x).at[0].add(1.0), (6, 0)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    f, wanted = COUNTS[name]
    found = counted(f, S[:0] if name == "sum of nothing" else S)
    if name == "scatter":  # besides it, the index is worked out
        assert wanted[0] <= found[0] <= wanted[0] + 12
    else:
        assert found == wanted


def test_bytes_are_those_of_operands_and_results_unless_a_rule_knows_better():
    def alone(f, *args):
        eqn = xlab.make_jaxpr(f)(*args).jaxpr.eqns[-1]
        return costs.bytes_alone(eqn, costs.cost_of(eqn))

    assert alone(lambda x: x + x, S) == 3 * S.nbytes
    assert alone(lambda x: lax.reshape(x, (36,)), S) == 0
    assert alone(lambda x: lax.slice(x, (0, 0), (2, 6)), S) == 2 * 48
    assert alone(lambda x: lax.dynamic_update_slice(x, x[:1], (0, 0)), S) == 2 * 24 + 2 * 4


def test_programs_inside_run_as_often_as_they_do():
    eqn = xlab.make_jaxpr(lambda x: lax.scan(lambda c, _: (c, c), x, None, length=7))(S).eqns[0]
    assert [(r.times, r.branch) for r in costs.runs(eqn)] == [(7, -1)]
    eqn = xlab.make_jaxpr(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x))(S[0])
    assert [r.times for r in costs.runs(eqn.eqns[0])] == [None, None]
    eqn = xlab.make_jaxpr(lambda x: lax.cond(x[0, 0] > 0, lambda x: x, lambda x: -x, x))(S).eqns[-1]
    assert [r.branch for r in costs.runs(eqn)] == [0, 1]
