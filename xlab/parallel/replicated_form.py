"""Programs of replicas: the former shape of a program for many devices, beside that of partitions.

A `shard_map` over all axes of a mesh can be compiled in two forms. Today's is one program over whole arrays, which the compiler cuts into as
many partitions as there are devices. The former is the program of one device, of which each device runs its own copy, a replica: arrays
are cut before it and put together after it. Values are the same; the module says `num_replicas` where the other says `num_partitions`,
its arguments have the shapes of parts, and its collectives name replicas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import compiling as _compiling
from xlab.compile.jit import jit
from xlab.compile.placement import physical_sharding, place
from xlab.compile.tracing import function_name
from xlab.core import effects as _effects
from xlab.core.array import KeyArray
from xlab.core.avals import aval_of
from xlab.core.dtypes import is_extended
from xlab.core.jaxpr import ClosedJaxpr, Literal, open_jaxpr
from xlab.core.key_array import words_of
from xlab.interpreters import mlir
from xlab.interpreters.mlir.values import physical_aval
from xlab.parallel.shard_map import shard_map
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.sharding import Mesh, NamedSharding

__all__ = ["LoweredReplicas", "lower_replicas"]


def lower_replicas(
    f: Callable, *args: Any, mesh: Mesh, in_specs: Any, out_specs: Any, check_vma: bool = True
) -> LoweredReplicas:
    """Lowers a function of one device to a program of which every device of a mesh runs its own copy.

    Args:
        f: the function, as for `shard_map` over all axes of the mesh.
        args: whole arrays, or their types.
        mesh, in_specs, out_specs, check_vma: as for `shard_map`.

    Returns:
        The program: `as_text()` shows it, and called with whole arrays it runs and gives whole arrays.

    Raises:
        ValueError: the mesh has no devices, or the function has callbacks or effects that come in an order: those need partitions.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=xlab.sharding.AxisType.Auto)
        >>> x = np.arange(4, dtype=np.float32)
        >>> low = lower_replicas(lambda x: x * 2, x, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
        >>> print(low(x))
        [0. 2. 4. 6.]
    """
    if not isinstance(mesh, Mesh) or mesh.empty:
        raise ValueError(
            f"lower_replicas needs the devices that run a replica each, got {mesh!r}: give it a Mesh (xlab.make_mesh)"
        )
    whole = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma)
    traced = jit(lambda *a: whole(*a)).trace(*args)
    closed, name = traced.jaxpr, function_name(f)
    (eqn,) = (e for e in closed.jaxpr.eqns if e.primitive is shard_map_p)
    ordered = _effects.in_order(eqn.effects)
    if ordered:
        raise ValueError(
            f"replicas of {name} do not run in an order, and it has the ordered effects {list(ordered)}: leave ordered=True out, or run it "
            f"with shard_map"
        )
    body = ClosedJaxpr(open_jaxpr(eqn.params["jaxpr"]), [])
    module = mlir.lower_module(
        body, name, devices=1, assignment=eqn.params["mesh"].devices_in_order, manual_mesh=eqn.params["mesh"]
    )  # fmt: skip
    if module.callbacks or module.partitioners or module.hoisted:
        raise ValueError(
            f"{name} calls back to Python, which programs of replicas do not: run it with shard_map"
        )
    return LoweredReplicas(closed, eqn, _of_replicas(module.text, eqn.params["mesh"].size), traced)


def _of_replicas(text: str, count: int) -> str:
    """The module of one device among partitions as that of one among replicas."""
    text = text.replace("mhlo.num_replicas = 1 : i32", f"mhlo.num_replicas = {count} : i32", 1)
    text = re.sub(r"(, )?channel_handle = #stablehlo\.channel_handle<[^>]*>", "", text)
    text = text.replace("<{, ", "<{").replace(", use_global_device_ids", "")
    return text.replace("stablehlo.partition_id", "stablehlo.replica_id")


class LoweredReplicas:
    """A program of replicas, compiled when it is first called."""

    def __init__(self, closed: ClosedJaxpr, eqn: Any, text: str, traced: Any):
        self.closed, self.eqn, self.text, self.traced = closed, eqn, text, traced
        self.mesh = eqn.params["mesh"]
        self._native: Any = None

    def as_text(self) -> str:
        """The module, as StableHLO."""
        return self.text

    def compile(self) -> LoweredReplicas:
        """Compiles it; returns itself."""
        if self._native is None:
            devices = self.mesh.devices_in_order
            self._native = _compiling.compile_text(self.text, devices, partitions=1)
            self._handlers = [
                _arrays.result_handler(physical_aval(v.aval), self._lies(v.aval, s))
                for v, s in zip(self.eqn.outvars, self.eqn.params["out_specs"])
            ]
        return self

    def _lies(self, aval: Any, spec: Any) -> Any:
        return physical_sharding(NamedSharding(self.mesh, spec), aval)

    def hlo(self) -> str:
        """The optimized program of one replica."""
        return _compiling.hlo_text(self.compile()._native)

    def __call__(self, *args: Any) -> Any:
        flat = _tree.leaves(args)
        want = [v.aval for v in self.closed.jaxpr.invars]
        got = list(map(aval_of, flat))
        if [(a.shape, a.dtype) for a in got] != [(a.shape, a.dtype) for a in want]:
            raise TypeError(
                f"replicas were lowered for arguments of types {_types(want)}, and called with {_types(got)}"
            )
        self.compile()
        values = dict(zip(self.closed.jaxpr.invars, flat)) | dict(
            zip(self.closed.jaxpr.constvars, self.closed.consts)
        )
        given = [
            place(
                words_of(a.val if isinstance(a, Literal) else values[a]),
                physical_aval(a.aval),
                self._lies(a.aval, spec),
                committed=None,
            )
            for a, spec in zip(self.eqn.invars, self.eqn.params["in_specs"])
        ]
        outs = _arrays.execute_in_turn(self._native, given, self._handlers)
        made = {
            v: KeyArray(x, v.aval.dtype) if is_extended(v.aval.dtype) else x
            for v, x in zip(self.eqn.outvars, outs)
        }
        results = [made.get(v, values.get(v)) for v in self.closed.jaxpr.outvars]
        return _tree.unflatten(self.traced.out_tree, results)


def _types(avals: Sequence) -> str:
    return "(" + ", ".join(a.str_short(short_dtypes=True) for a in avals) + ")"
