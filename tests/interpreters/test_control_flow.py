"""How values flow through inner jaxprs: one entry for every primitive that has any, and what it says fits the equation."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.reference.sample import namespaces
from xlab import lax
from xlab.core.jaxpr import inner_jaxprs, open_jaxpr
from xlab.extend.core import Primitive
from xlab.interpreters.control_flow import (
    BranchFlow,
    CallFlow,
    LoopFlow,
    OpaqueFlow,
    control_flow_rules,
    flow_of,
)

TABLES = (
    "tests.lax.samples_control",
    "tests.lax.samples_refs",
    "tests.lax.samples_solve",
    "tests.lax.samples_windows",
    "tests.lax.samples_staging",
    "tests.transforms.samples_custom_calls",
    "tests.transforms.samples_programs",
    "tests.parallel.samples",
)
X = np.asarray([0.3, -0.7, 1.1], np.float32)


def equations(jaxpr):
    """Every equation of a program, inner ones included."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn.params):
            yield from equations(inner)


def fits(eqn, flow):
    """What is wrong with how values are said to flow through an equation."""
    n_in, n_out = len(eqn.invars), len(eqn.outvars)
    sizes = [(len(open_jaxpr(j).invars), len(open_jaxpr(j).outvars)) for _, j in flow.jaxprs]
    if type(flow) is CallFlow:
        return sizes == [(n_in, n_out)]
    if type(flow) is BranchFlow:
        return all(size == (n_in - 1, n_out) for size in sizes)
    if type(flow) is LoopFlow:
        cond, consts, carry, xs = flow.split(eqn.invars)
        body = sizes[-1]
        return body == (len(consts) + len(carry) + len(xs), n_out) and (
            flow.cond is None or sizes[0] == (len(cond) + len(carry), 1)
        )
    return type(flow) is OpaqueFlow


@pytest.mark.parametrize("table", TABLES)
def test_every_primitive_with_inner_jaxprs_has_an_entry(table):
    n, missing, wrong = namespaces("xlab"), set(), set()
    for sample in import_module(table).SAMPLES:
        if sample.error or sample.x64:
            continue
        for fun in (
            lambda *args, f=sample.fun: f(n, *args),
            lambda *args, f=sample.fun: xlab.vmap(lambda _: f(n, *args), axis_size=2)(
                jnp.arange(2)
            ),
        ):
            try:
                jaxpr = xlab.make_jaxpr(fun)(*sample.args).jaxpr
            except Exception:
                continue  # what cannot be traced has no program
            for eqn in equations(jaxpr):
                if inner_jaxprs(eqn.params):
                    if eqn.primitive not in control_flow_rules:
                        missing.add(eqn.primitive.name)
                    elif not fits(eqn, flow_of(eqn)):
                        wrong.add(eqn.primitive.name)
    assert not missing, f"inner jaxprs and no entry in {control_flow_rules.name}: {sorted(missing)}"
    assert not wrong, (
        f"an entry in {control_flow_rules.name} does not fit its equation: {sorted(wrong)}"
    )


def test_labels():
    def program(x):
        y = lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)
        y = lax.while_loop(lambda v: v[0] < 3, lambda v: v + 1, y)
        return lax.scan(lambda c, v: (c + v, c), y, x)

    flows = {
        e.primitive.name: flow_of(e)
        for e in xlab.make_jaxpr(program)(X).eqns
        if inner_jaxprs(e.params)
    }
    assert [name for name, _ in flows["cond"].jaxprs] == ["branch 0", "branch 1"]
    assert [name for name, _ in flows["while"].jaxprs] == ["condition", "body"]
    assert [name for name, _ in flows["scan"].jaxprs] == ["body"]
    assert (flows["scan"].num_carry, flows["scan"].length, flows["scan"].reverse) == (1, 3, False)
    assert flow_of(xlab.make_jaxpr(jnp.sin)(X).eqns[0]) is None


def test_a_primitive_without_an_entry_is_opaque():
    prim = Primitive("holds", multiple_results=True)
    prim.def_abstract_eval(lambda x, *, inner: [x])
    inner = xlab.make_jaxpr(jnp.sin)(X)
    (eqn,) = xlab.make_jaxpr(lambda x: prim.bind(x, inner=inner))(X).eqns
    flow = flow_of(eqn)
    assert type(flow) is OpaqueFlow and flow.jaxprs == (("inner", inner),)
