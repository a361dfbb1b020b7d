"""From a function that calls one kernel to the program that a machine runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.tracing import trace_flat
from xlab.core.avals import aval_of
from xlab.core.jaxpr import Jaxpr, JaxprEqn, Literal, inner_jaxprs, open_jaxpr
from xlab.core.trace import EVAL, set_trace
from xlab.interpreters.control_flow import CallFlow, flow_of
from xlab.kernels.call_primitive import kernel_call_p
from xlab.kernels.core_map import as_mpmd_map, core_map_p
from xlab.kernels.interpret import InterpretParams, value_params
from xlab.kernels.machine.programs import KernelProgram, kernel_program, mesh_program
from xlab.kernels.mpmd_primitive import mpmd_map_p
from xlab.kernels.value_path import as_typed

KERNELS = (kernel_call_p, mpmd_map_p, core_map_p)


def captured_program(
    call: Callable[..., Any], args: Sequence[Any], params: InterpretParams | None
) -> tuple[KernelProgram, InterpretParams]:
    """The program of the kernel that a function calls, and the call's own options.

    Raises:
        ValueError: the function calls no kernel, or several.
    """
    eqn, operands = traced_kernel(call, args)
    own = eqn.params.get("interpret")
    params = params or value_params(own)
    return program_of_equation(eqn.primitive, eqn.params, operands, params), params


def program_of_equation(
    prim: Any,
    eqn_params: dict[str, Any],
    operands: Sequence[Any],
    params: InterpretParams,
    device: Any = None,
) -> KernelProgram:
    """The program of a kernel's equation on concrete operands."""
    if prim is kernel_call_p:
        return kernel_program(operands, params, device=device, **eqn_params)
    if prim is core_map_p:
        eqn_params = as_mpmd_map(eqn_params, len(operands))
    return mesh_program(operands, device=device, **eqn_params)


def traced_kernel(call: Callable[..., Any], args: Sequence[Any]) -> tuple[JaxprEqn, list]:
    """The equation of the kernel that a function calls, and its operands, evaluated."""
    if not callable(call):
        raise TypeError(
            f"a machine runs a call: what kernel_call or mpmd_map gives, or a function with one such call; got {call!r} of "
            f"type {type(call).__name__}"
        )
    leaves, in_tree = _tree.flatten((tuple(args), {}))

    @functools.wraps(call)
    def traced(*given):
        return call(*given)

    closed, _ = trace_flat(traced, in_tree, [aval_of(x) for x in leaves])
    count = _count(closed.jaxpr)
    if count != 1:
        name = getattr(call, "__name__", str(call))
        found = "calls no kernel" if count == 0 else f"calls {count} kernels"
        raise ValueError(
            f"a machine runs one kernel, but {name} {found}: give it the result of kernel_call or mpmd_map, or a function with one "
            f"such call"
        )
    return _find(closed.jaxpr, [*closed.consts, *map(as_typed, leaves)])


def _count(jaxpr: Jaxpr) -> int:
    return sum(
        1 if e.primitive in KERNELS else sum(map(_count, inner_jaxprs(e.params)))
        for e in jaxpr.eqns
    )


def _find(jaxpr: Jaxpr, values: Sequence[Any]) -> tuple[JaxprEqn, list]:
    """Evaluates up to the kernel."""
    env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values))
    for eqn in jaxpr.eqns:
        given = [a.val if type(a) is Literal else env[a] for a in eqn.invars]
        if eqn.primitive in KERNELS:
            return eqn, given
        if any(_count(j) for j in inner_jaxprs(eqn.params)):
            flow = flow_of(eqn)
            if type(flow) is not CallFlow:
                raise ValueError(
                    f"the kernel stands inside {eqn.primitive} at {eqn.source_info}, which may run it any number of times: give the "
                    f"machine the call itself, with the operands of one run"
                )
            inner = flow.jaxpr
            consts = getattr(inner, "consts", [])
            return _find(open_jaxpr(inner), [*consts, *given])
        params = eqn.params
        if "donated_invars" in params:
            params = {**params, "donated_invars": (False,) * len(given)}
        with set_trace(EVAL):
            out = eqn.primitive.bind(*given, **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    raise AssertionError("the kernel that was counted is not there")
