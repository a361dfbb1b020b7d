"""Roofline counts of a program before it is compiled: arithmetic, bytes of memory, bytes between devices.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model" (2009): a program takes no less than its arithmetic at the
peak rate, nor than its bytes at the bandwidth of the memory. Counted are the equations of the traced program, those of one device inside of
`shard_map`. Elementwise operations are taken to be fused into products of matrices, so that `flops` and `hbm_bytes` are those of products and convolutions;
`unfused_flops` and `unfused_hbm_bytes` count every equation as if it stood alone. A loop counts as often as it runs, where that is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.stages import ShapeDtypeStruct
from xlab.compile.tracing import trace_program
from xlab.core import dtypes
from xlab.core.avals import AbstractValue, ShapedArray, aval_of
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, last_uses, open_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.rules import RuleTable
from xlab.interpreters.communication import by_pairs, collective_rules
from xlab.interpreters.communication_costs import price, sent_per_device
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.interpreters.costs import Cost, cost_of
from xlab.parallel.shard_map import shard_map
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.transforms.vjp import vjp as _vjp


@dataclass(frozen=True)
class RooflineResult:
    """What a program, or a part of it, needs on one device.

    Attributes:
        flops: arithmetic operations of products of matrices.
        unfused_flops: of all equations.
        ici_bytes: bytes sent, by mesh axis.
        ici_latency: messages sent one after the other, by mesh axis.
        hbm_bytes: bytes read and written by products of matrices.
        peak_hbm_bytes: the most bytes of values that are alive between two equations.
        unfused_hbm_bytes: bytes read and written if each equation stood alone.
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: Mapping[Any, int] = field(default_factory=dict)
    ici_latency: Mapping[Any, int] = field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """Nothing."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        """One after the other: the larger of both peaks, the sums of everything else."""
        added = lambda a, b: {
            k: a.get(k, 0) + b.get(k, 0) for k in (*a, *(k for k in b if k not in a))
        }
        return RooflineResult(
            self.flops + other.flops,
            self.unfused_flops + other.unfused_flops,
            added(self.ici_bytes, other.ici_bytes),
            added(self.ici_latency, other.ici_latency),
            self.hbm_bytes + other.hbm_bytes,
            max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )

    def __mul__(self, times: int) -> RooflineResult:
        """The same so many times, one after the other."""
        many = lambda given: {k: v * times for k, v in given.items()}
        return RooflineResult(
            self.flops * times,
            self.unfused_flops * times,
            many(self.ici_bytes),
            many(self.ici_latency),
            self.hbm_bytes * times,
            self.peak_hbm_bytes,
            self.unfused_hbm_bytes * times,
        )

    __rmul__ = __mul__


@dataclass(frozen=True)
class RooflineShape:
    """The shape and dtype of an operand or a result."""

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> RooflineShape:
        """That of a type."""
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"a roofline is about arrays, got a value of type {aval}")
        return cls(tuple(aval.shape), aval.dtype)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.size * dtypes.itemsize(self.dtype)

    @classmethod
    def total_bytes(cls, avals: Sequence[Any]) -> int:
        """The bytes of all values of these types."""
        return sum(cls.from_aval(a).bytes for a in avals if isinstance(a, ShapedArray))


@dataclass(frozen=True)
class RooflineRuleContext:
    """What a rule is told besides the types of operands and the parameters of an equation."""

    primitive: Primitive
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    mesh: Any = None
    pin_lhs_in_vmem: bool = False
    pin_rhs_in_vmem: bool = False


roofline_rules = RuleTable(
    "rooflines.roofline_rules",
    "count arithmetic and bytes of",
    "rule(ctx, *shapes, **params) -> RooflineResult",
    required=False,
)
"""For primitives whose roofline is not what `costs.cost_rules` counts. Worked example, for one that reads its operand once:
`lambda ctx, x: RooflineResult(hbm_bytes=x.bytes)`."""


def register_roofline(prim: Primitive) -> Callable:
    """Decorates the rule of a primitive: `rule(ctx, *shapes, **params) -> RooflineResult`."""

    def register(rule: Callable) -> Callable:
        roofline_rules[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: Primitive) -> None:
    """Counts a primitive as one that costs nothing where it is fused: one operation per element of its results, and its bytes, alone."""

    @register_roofline(prim)
    def rule(ctx, *shapes, **params):
        return alone(ctx, sum(RooflineShape.from_aval(a).size for a in ctx.avals_out))


def alone(ctx: RooflineRuleContext, flops: int) -> RooflineResult:
    """What an equation costs that is fused into others: arithmetic and bytes only if it stood alone."""
    nbytes = RooflineShape.total_bytes([*ctx.avals_in, *ctx.avals_out])
    return RooflineResult(unfused_flops=int(flops), unfused_hbm_bytes=nbytes if flops else 0)


def _product(ctx: RooflineRuleContext, cost: Cost) -> RooflineResult:
    """What a product of matrices costs, which nothing else is fused into."""
    sizes = [RooflineShape.from_aval(a).bytes for a in ctx.avals_in]
    # An operand that is kept in fast memory is not read, and then the result stays there too.
    kept = (ctx.pin_lhs_in_vmem, ctx.pin_rhs_in_vmem)
    read = sum(n for n, k in zip(sizes, (*kept, *[False] * len(sizes))) if not k)
    nbytes = read + (0 if any(kept) else RooflineShape.total_bytes(ctx.avals_out))
    return RooflineResult(
        flops=cost.flops, unfused_flops=cost.flops, hbm_bytes=nbytes, unfused_hbm_bytes=nbytes
    )


class _Counter:
    """Walks through programs; `mesh` is the one whose axes are named."""

    def __init__(self, mesh: Any, pin_lhs: bool, pin_rhs: bool):
        self.mesh, self.pins = mesh, (pin_lhs, pin_rhs)

    def program(self, jaxpr: Jaxpr | ClosedJaxpr) -> RooflineResult:
        jaxpr = open_jaxpr(jaxpr)
        alive = {v: RooflineShape.total_bytes([v.aval]) for v in (*jaxpr.constvars, *jaxpr.invars)}
        total = RooflineResult(peak_hbm_bytes=sum(alive.values()))
        for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr)):
            total = total + self.equation(eqn)
            alive.update((v, RooflineShape.total_bytes([v.aval])) for v in eqn.outvars)
            for v in dead:
                alive.pop(v, None)
            total = total + RooflineResult(peak_hbm_bytes=sum(alive.values()))
        return total

    def equation(self, eqn: JaxprEqn) -> RooflineResult:
        prim, ins, outs = eqn.primitive, [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
        ctx = RooflineRuleContext(prim, ins, outs, self.mesh, *self.pins)
        rule = roofline_rules.get(prim)
        if rule is not None:
            return rule(ctx, *map(RooflineShape.from_aval, ins), **eqn.params)
        if prim in collective_rules:
            return self.collective(eqn, ins, outs)
        cost = cost_of(eqn)
        if cost is not None:
            return (
                _product(ctx, cost)
                if cost.unit == "matrix"
                else alone(ctx, cost.flops + cost.transcendentals)
            )
        flow = flow_of(eqn)
        if type(flow) is CallFlow:
            return self.program(flow.jaxpr)
        if type(flow) is BranchFlow:
            return max(map(self.program, flow.branches), key=lambda r: (r.flops, r.unfused_flops))
        if type(flow) is LoopFlow:
            return self.program(flow.body) * (1 if flow.length is None else flow.length)
        return RooflineResult()

    def collective(self, eqn: JaxprEqn, ins: Sequence, outs: Sequence) -> RooflineResult:
        op = collective_rules[eqn.primitive](ins, outs, **eqn.params)
        sizes = [self.mesh.shape[a] for a in op.axes] if self.mesh is not None else []
        n = math.prod(sizes)
        if op.groups:
            n = len(op.groups[0])
        if by_pairs(op.kind):
            sent, steps = op.bytes_in, 1
        else:
            sent = sent_per_device(op.kind, n, op.bytes_in)
            found = price(op.kind, n, op.bytes_in) if n > 1 else None
            steps = found.steps if found is not None else 0
        k = max(1, len(op.axes))
        # Axes carry parts of it at once.
        return RooflineResult(
            ici_bytes={a: int(sent / k) for a in op.axes}, ici_latency=dict.fromkeys(op.axes, steps)
        )


def roofline(
    f: Callable,
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable:
    """A function that counts what `f` needs, without running it.

    Args:
        f: the function; with `mesh` that of one device, as for `shard_map`.
        mesh: the devices, which need not be there.
        in_specs, out_specs: as of `shard_map`.
        pin_lhs_in_vmem, pin_rhs_in_vmem: take an operand of products to be in fast memory.
        vjp: count the backward pass, given residuals and a cotangent.
        print_jaxpr: print the program that is counted.

    Returns:
        A function of arrays, or of their types, that returns the types of the results and a `RooflineResult`.

    Example:
        >>> import xlab.numpy as jnp
        >>> _, counts = roofline(lambda a, b: jnp.sin(a @ b))(jnp.ones((4, 8)), jnp.ones((8, 16)))
        >>> counts.flops, counts.hbm_bytes, counts.unfused_flops
        (1024, 896, 1088)
    """

    def count(*args):
        fun = f if mesh is None else shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        flat, in_tree = _tree.flatten((args, {}))
        avals = [a if isinstance(a, ShapedArray) else _type_of(a) for a in flat]
        forward = trace_program(fun, in_tree, avals)
        found = [ShapeDtypeStruct(a.shape, a.dtype) for a in forward.closed.out_avals]
        shapes = _tree.unflatten(forward.out_tree, found)
        closed = forward.closed
        if vjp:
            closed = _backward(fun, in_tree, avals)
        if print_jaxpr:
            print(closed)
        return shapes, _Counter(mesh, pin_lhs_in_vmem, pin_rhs_in_vmem).program(_one_device(closed))

    return count


def _type_of(x: Any) -> AbstractValue:
    return (
        ShapedArray(tuple(x.shape), np.dtype(x.dtype))
        if isinstance(x, ShapeDtypeStruct)
        else aval_of(x)
    )


def _one_device(closed: ClosedJaxpr) -> Jaxpr:
    """The program of one device, where all of a program is one `shard_map`."""
    jaxpr = closed.jaxpr
    flow = flow_of(jaxpr.eqns[0]) if len(jaxpr.eqns) == 1 else None
    if isinstance(flow, CallFlow) and jaxpr.eqns[0].primitive is shard_map_p:
        return open_jaxpr(flow.jaxpr)
    return jaxpr


def _backward(fun: Callable, in_tree: Any, avals: Sequence) -> ClosedJaxpr:
    """The program of the backward pass: cotangents of the results, and residuals, to cotangents of the arguments."""
    kept: list[Any] = []

    def forward(*flat):
        args, kwargs = _tree.unflatten(in_tree, flat)
        out, back = _vjp(lambda *a: fun(*a, **kwargs), *args)
        leaves, structure = _tree.flatten(back)
        kept[:] = [structure]
        return leaves, out

    args_tree = _tree.structure((tuple(avals), {}))
    traced = trace_program(forward, args_tree, avals)
    residuals, out = _tree.unflatten(traced.out_tree, traced.closed.out_avals)
    flat, tree = _tree.flatten(((residuals, out), {}))
    return trace_program(lambda r, ct: _tree.unflatten(kept[0], r)(ct), tree, flat).closed


def roofline_and_grad(
    f: Callable,
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable:
    """As `roofline`; the function returns the types of the results, the counts of `f`, and those of its backward pass."""
    options = {
        "pin_lhs_in_vmem": pin_lhs_in_vmem,
        "pin_rhs_in_vmem": pin_rhs_in_vmem,
        "print_jaxpr": print_jaxpr,
    }

    def count(*args):
        shapes, forwards = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        _, backwards = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)(*args)
        return shapes, forwards, backwards

    return count
