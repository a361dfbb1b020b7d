"""`custom_partitioning`: functions whose user says how they are split over devices.

The function is one operation of the program, with a rule along which shardings propagate through it (`sharding/factor_rules.py`). When the
compiler has decided where everything lies, it calls `partition`, which says in which shardings the operation takes its operands and
leaves its results, and gives the function that each device runs on its shards: it is traced and lowered then
(`partition_calls.py`). On one device, and within `shard_map`, the plain function runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import ir
from xlab.compile.tracing import trace_flat
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.printing import hide_params
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import Tracer
from xlab.errors import UnexpectedTracerError
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.lax.control.common import args_tree
from xlab.parallel.partition_calls import Partitioner, call_text
from xlab.sharding import AbstractMesh, NamedSharding, PartitionSpec
from xlab.sharding.factor_rules import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    parse_rule,
)
from xlab.sharding.factor_rules import (
    ShardingRule as SdyShardingRule,
)
from xlab.sharding.typed import entries

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "CompoundFactor",
    "SdyShardingRule",
    "custom_partitioning",
    "custom_partitioning_p",
]


class custom_partitioning:
    """Makes of a function an operation that is split over devices as its user says.

    Args:
        fun: takes and returns arrays, or pytrees of them.
        static_argnums: positions of arguments that are no arrays but hashable constants; the callbacks get them first.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import AxisType, NamedSharding, P
        >>> @custom_partitioning
        ... def halves(x):
        ...     return x / 2
        >>> def partition(mesh, arg_shapes, result_shape):
        ...     return mesh, lambda x: x * 0.5, result_shape.sharding, (arg_shapes[0].sharding,)
        >>> _ = halves.def_partition(partition, sharding_rule="... -> ...")
        >>> mesh = xlab.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
        >>> float(xlab.jit(halves)(xlab.device_put(np.ones(4, np.float32), NamedSharding(mesh, P("x"))))[3])
        0.5
    """

    def __init__(self, fun: Callable, static_argnums: int | Sequence[int] = ()):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.static_argnums = (
            (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        )
        self.partition: Callable | None = None

    def def_partition(
        self,
        partition: Callable,
        infer_sharding_from_operands: Callable | None = None,
        propagate_user_sharding: Callable | None = None,
        decode_shardings: bool = True,
        sharding_rule: SdyShardingRule | str | Callable | None = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable:
        """Says how the operation is split; returns `partition`, so that it can decorate one.

        Args:
            partition: `partition(*static, mesh, arg_shapes, result_shape)`, with trees of `ShapeDtypeStruct` whose `sharding` is what the
                compiler found. Returns `(mesh, lower_fn, result_shardings, arg_shardings)`: what each device runs on its shards, with
                the axes of the mesh bound for collectives, and the shardings that this needs. Operands come in those, whatever they
                had.
            infer_sharding_from_operands: `(*static, mesh, arg_shapes, result_shape)` to the shardings of the results. Without a `sharding_rule`
                it is asked once what becomes of each dimension of the operands, and makes the rule.
            propagate_user_sharding: taken, and never asked: rules work in both directions.
            decode_shardings: whether `sharding` is expressed over the mesh where it can be; else it is always a `GSPMDSharding`.
            sharding_rule: along which shardings propagate: a string as `"... i k, k j -> ... i j"`, an `SdyShardingRule`, or
                `(*static, mesh, operand_types, result_types)` that makes one of these. Without a rule nothing propagates.
            reduction_factors, need_replication_factors, permutation_factors, factor_sizes: of a rule given as a string, as
                `SdyShardingRule` takes them.

        Raises:
            ValueError, TypeError: when the rule cannot be read.

        Example:
            >>> f = custom_partitioning(lambda x: x + 1)
            >>> f.def_partition(lambda mesh, args, res: (mesh, f.fun, res.sharding, (res.sharding,)), sharding_rule="i j -> i k").__name__
            '<lambda>'
        """
        for what, f in (
            ("partition", partition),
            ("infer_sharding_from_operands", infer_sharding_from_operands),
            ("propagate_user_sharding", propagate_user_sharding),
        ):
            if not callable(f) and not (f is None and what != "partition"):
                raise TypeError(f"def_partition: {what} must be a function, got {f!r}")
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        self.decode_shardings = decode_shardings
        kinds = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if (
            sharding_rule is None
            or callable(sharding_rule)
            or isinstance(sharding_rule, SdyShardingRule)
        ):
            given = [*(k for k, v in kinds.items() if v), *factor_sizes]
            if given:
                raise ValueError(
                    f"def_partition: {', '.join(given)} belong to a sharding_rule that is a string; an SdyShardingRule takes them itself"
                )
            self.sharding_rule = sharding_rule
        else:
            self.sharding_rule = parse_rule(sharding_rule, **kinds, **factor_sizes)
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.partition is None:
            raise AttributeError(
                f"custom_partitioning of {self._name()}: nothing says how it is split. Call {self._name()}.def_partition(partition, "
                f"sharding_rule=...) first"
            )
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"custom_partitioning of {self._name()}: arguments are positional, got the keyword-only {sorted(bound.kwargs)}"
            )
        args = bound.args
        static = tuple(args[i] for i in self.static_argnums)
        fixed = dict(zip((i % len(args) for i in self.static_argnums), static)) if static else {}
        flat, in_tree = args_tree(*(x for i, x in enumerate(args) if i not in fixed))

        def fun(*dynamic):
            rest = iter(dynamic)
            return self.fun(*(fixed[i] if i in fixed else next(rest) for i in range(len(args))))

        avals = [aval_of(x) for x in flat]
        closed, out_tree = trace_flat(
            functools.wraps(self.fun)(fun), in_tree, [a.strip_weak_type() for a in avals]
        )
        self._check(avals, closed)
        outs = custom_partitioning_p.bind(
            *flat,
            call=closed,
            partition=self.partition,
            infer_sharding_from_operands=self.infer_sharding_from_operands,
            propagate_user_sharding=self.propagate_user_sharding,
            decode_shardings=self.decode_shardings,
            sharding_rule=self.sharding_rule,
            in_tree=_tree.structure(_tree.unflatten(in_tree, range(len(flat)))[0]),
            out_tree=out_tree,
            static_args=static,
            batches=(),
        )
        return _tree.unflatten(out_tree, outs)

    def _check(self, avals: Sequence, closed: Any) -> None:
        if any(isinstance(c, Tracer) for c in closed.consts):
            raise UnexpectedTracerError(
                f"custom_partitioning of {self._name()}: the function uses a value that a transformation such as jit or grad stands a "
                f"tracer for. Pass it as an argument"
            )
        for a in (*avals, *closed.out_avals):
            if not isinstance(a, ShapedArray) or dtypes.is_extended(a.dtype):
                raise TypeError(
                    f"custom_partitioning of {self._name()} takes and returns plain arrays, got {a}: of keys, pass random.key_data(key)"
                )
        if closed.effects:
            raise NotImplementedError(
                f"custom_partitioning of {self._name()}: the function has effects ({', '.join(map(str, closed.effects))}), and what becomes of "
                f"them when it is split nobody says. Leave them outside"
            )

    def _name(self) -> str:
        return getattr(self.fun, "__name__", "a function")


def sharding_rule_of(params: dict, mesh: Any, operands: Sequence, results: Sequence) -> Any:
    """The factors that an equation's shardings propagate along, batches included; None where it says nothing.

    Args:
        mesh: of the program, handed to a rule that is a function.
        operands, results: the types, with their batch dimensions.
    """
    leading_in, leading_out = leading(params, len(operands), len(results))
    plain = [a.update(shape=a.shape[n.bit_count() :]) for a, n in zip(operands, leading_in)]
    plain_out = [a.update(shape=a.shape[n.bit_count() :]) for a, n in zip(results, leading_out)]
    rule = params["sharding_rule"]
    if rule is None:
        rule = _inferred_rule(params, plain, plain_out)
    elif callable(rule):
        types = [[ir.type_of(mlir.tensor_type(a)) for a in side] for side in (plain, plain_out)]
        rule = rule(*params["static_args"], mesh, *types)
        if isinstance(rule, str):
            rule = parse_rule(rule)
        elif not isinstance(rule, SdyShardingRule):
            raise ValueError(
                f"sharding_rule callable must produce either an SdyShardingRule object or an Einsum-like notation string, got {rule!r}"
            )
    if rule is None:
        return None
    factors = rule.factors([a.shape for a in plain], [a.shape for a in plain_out])
    sizes = [
        next(
            a.shape[(n & ((1 << b) - 1)).bit_count()]
            for a, n in zip(operands, leading_in)
            if n >> b & 1
        )
        for b in range(len(params["batches"]))
    ]
    return factors.leading(leading_in, leading_out, sizes)


def leading(params: dict, operands: int, results: int) -> tuple[list[int], list[int]]:
    """Which batches are leading dimensions of each operand and result, as bits; the first batch comes first."""
    batches = params["batches"]
    ins = [sum(flags[k] << b for b, flags in enumerate(batches)) for k in range(operands)]
    return ins, [(1 << len(batches)) - 1] * results


def _inferred_rule(params: dict, operands: Sequence, results: Sequence) -> SdyShardingRule | None:
    """The rule that `infer_sharding_from_operands` follows: where an axis of each operand's dimension comes out."""
    infer = params["infer_sharding_from_operands"]
    if infer is None:
        return None
    names = [[f"o{k}d{d}" for d in range(a.ndim)] for k, a in enumerate(operands)]
    axes = [n for dims in names for n in dims] or ["none"]
    mesh = AbstractMesh((1,) * len(axes), tuple(axes))
    from xlab.compile.stages import ShapeDtypeStruct

    given = [
        ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, PartitionSpec(*dims)))
        for a, dims in zip(operands, names)
    ]
    shapes = _tree.unflatten(
        params["out_tree"], [ShapeDtypeStruct(a.shape, a.dtype) for a in results]
    )
    found = infer(*params["static_args"], mesh, _tree.unflatten(params["in_tree"], given), shapes)
    outs = _tree.broadcast_prefix(found, shapes)
    mappings = []
    for k, (s, a) in enumerate(zip(outs, results)):
        spec = s.spec if isinstance(s, NamedSharding) else PartitionSpec()
        mappings.append(tuple((spec.axes_of(d) or (f"r{k}d{d}",))[0] for d in range(a.ndim)))
    return SdyShardingRule(tuple(map(tuple, names)), tuple(mappings))


# -- the primitive ----------------------------------------------------------------------------------------

custom_partitioning_p = Primitive("custom_partitioning", multiple_results=True)
mlir.lowered_with_devices.add(custom_partitioning_p)


@custom_partitioning_p.def_effectful_abstract_eval
def _custom_partitioning_aval(*avals, call, **_):
    return [a.update(weak_type=False, sharding=None) for a in call.out_avals], _effects.NO_EFFECTS


# Types of results along Explicit axes are those of the plain function.
sharding_rules[custom_partitioning_p] = lambda ins, outs, call, **_: list(
    map(entries, call.out_avals)
)


def _jvp(primals, tangents, *, call, **_):
    raise NotImplementedError(
        f"Differentiation rule for 'custom_partitioning' not implemented: how the derivative of "
        f"{call.jaxpr.debug_info.name} is split is not known. Give the function around it one with xlab.custom_vjp or "
        f"xlab.custom_jvp"
    )


ad.primitive_jvps[custom_partitioning_p] = _jvp
ad.primitive_transposes.excuse(
    custom_partitioning_p, "it is not taken apart into linear operations"
)


@functools.partial(batching.axis_primitive_batchers.__setitem__, custom_partitioning_p)
def _batch(axis, operands, dims, *, call, batches, **params):
    # The batch is one more dimension that the rule passes through, and the function of a device is mapped over its part of it.
    flags = tuple(d is not None for d in dims)
    moved = [
        x if d is None else batching.move_batch_dim_to(x, d, axis.size, 0)
        for x, d in zip(operands, dims)
    ]
    batched, _ = batching.batch_jaxpr(call, axis, flags, True)
    outs = custom_partitioning_p.bind(
        *moved, call=batched, batches=((*map(int, flags),), *batches), **params
    )
    return outs, [0] * len(outs)


def _lowering(ctx, *xs, call, **params):
    module = ctx.module
    if module.devices == 1 or ctx.manual:
        return ctx.jaxpr(call, xs)
    partitioner = Partitioner(params, ctx, call, leading(params, len(xs), len(ctx.avals_out)))
    try:
        factors = sharding_rule_of(params, partitioner.mesh(), ctx.avals_in, ctx.avals_out)
        attribute = "" if factors is None else factors.attribute()
    except Exception as error:
        error.add_note(
            f"This is the sharding rule of `{call.jaxpr.debug_info.name}`, called at {ctx.eqn.source_info}."
        )
        raise
    return call_text(ctx, xs, partitioner, attribute)


hide_params(
    "custom_partitioning",
    "in_tree",
    "out_tree",
    when={
        "batches": (),
        "decode_shardings": True,
        "infer_sharding_from_operands": None,
        "propagate_user_sharding": None,
        "static_args": (),
    },
)
control_flow_rules[custom_partitioning_p] = lambda params: CallFlow(params["call"])
mlir.register_text_lowering(custom_partitioning_p, _lowering)
