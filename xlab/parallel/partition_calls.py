"""What the compiler calls when it splits an operation of `custom_partitioning`, and the operation in the program.

A `Partitioner` asks the user's `partition` with the shardings that were found, traces the function that each device runs over the axes
of the mesh, and gives its text. It holds what the equation said; the lowered program keeps it alive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import JaxRuntimeError, partitioners
from xlab.compile.devices import PlaceholderDevice
from xlab.compile.stages import ShapeDtypeStruct
from xlab.compile.tracing import trace_flat
from xlab.config import FLAGS, config, flag_context
from xlab.core import effects as _effects
from xlab.core import source_info
from xlab.core.avals import ShapedArray
from xlab.core.trace import EVAL, set_trace, state
from xlab.interpreters import mlir
from xlab.parallel.manual import body_context
from xlab.sharding import (
    AbstractMesh,
    GSPMDSharding,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    from_hlo_sharding,
)
from xlab.transforms.vmap import vmap

__all__ = ["Partitioner", "call_text"]


class Partitioner:
    """Splits one equation over devices, when the compiler asks.

    Attributes:
        failure: the error of the user's function, which the compiler tells in other words.
    """

    def __init__(self, params: dict, ctx: Any, call: Any, leading: tuple[list[int], list[int]]):
        self.params, self.leading = params, leading
        self.name = call.jaxpr.debug_info.name
        self.place = str(ctx.eqn.source_info)
        self.avals_in, self.avals_out = tuple(ctx.avals_in), tuple(ctx.avals_out)
        self.platform, self.devices = ctx.module.platform, ctx.module.devices
        self.assignment, self.meshes = tuple(ctx.module.assignment), ctx.module.meshes
        self.typed_mesh = ctx.module.typed_mesh
        self.settings = {f: config.__dict__[f] for f in FLAGS if f in config.__dict__}
        self.failure: BaseException | None = None

    def mesh(self) -> Any:
        """The first mesh of the program, over its devices."""
        axes, ids = self.meshes.first(self.devices) or ((("device", self.devices),), None)
        names, sizes = tuple(n for n, _ in axes), tuple(s for _, s in axes)
        if not self.assignment or isinstance(self.assignment[0], PlaceholderDevice):
            return AbstractMesh(sizes, names)
        order = np.array(self.assignment, dtype=object)[list(ids or range(self.devices))]
        return Mesh(order.reshape(sizes), names)

    def __call__(self, operands: Sequence, results: Sequence) -> tuple[str, list, list]:
        """Tilings of operands and results as found; gives the text of the devices' program, and the tilings it is for."""
        with contextlib.ExitStack() as here:
            for name, value in self.settings.items():
                here.enter_context(flag_context(name, value))
            here.enter_context(set_trace(EVAL))
            saved = state.axes, state.manual, state.manual_mesh
            state.axes, state.manual, state.manual_mesh = {}, None, None
            try:
                return self._split(operands, results)
            except BaseException as error:
                self.failure = error
                raise
            finally:
                state.axes, state.manual, state.manual_mesh = saved

    def raise_failure(self) -> None:
        """Raises if the user's functions failed, in their words and with the place of the operation."""
        if self.failure is not None:
            error, self.failure = self.failure, None
            tb = error.__traceback__
            while tb is not None and source_info.is_internal(tb.tb_frame.f_code.co_filename):
                tb = tb.tb_next
            raise JaxRuntimeError(
                f"INTERNAL: custom_partitioner: splitting {self.name} over {self.devices} devices failed: {type(error).__name__}: {error}\n"
                f"It is called at {self.place}, and its partition function is {_place_of(self.params['partition'])}."
            ) from error.with_traceback(tb)

    def _split(self, operands, results):
        params, mesh = self.params, self.mesh()
        ins = [self._found(h, a, mesh) for h, a in zip(operands, self.avals_in)]
        outs = [self._found(h, a, mesh) for h, a in zip(results, self.avals_out)]
        lead_in, lead_out = (list(map(int.bit_count, bits)) for bits in self.leading)
        given = params["partition"](
            *params["static_args"],
            mesh,
            self._shapes(params["in_tree"], self.avals_in, ins, lead_in, mesh),
            self._shapes(params["out_tree"], self.avals_out, outs, lead_out, mesh),
        )
        if not isinstance(given, tuple | list) or len(given) != 4:
            raise TypeError(
                f"partition has to return (mesh, lower_fn, result_shardings, arg_shardings), got {given!r}"
            )
        mesh, lower_fn, out_shardings, in_shardings = given
        if not isinstance(mesh, Mesh | AbstractMesh) or not callable(lower_fn):
            raise TypeError(
                f"partition has to return a mesh and a function first, got {type(mesh).__name__} and {type(lower_fn).__name__}"
            )
        ins_plain = _shardings(in_shardings, params["in_tree"], mesh, "arg_shardings")
        outs_plain = _shardings(out_shardings, params["out_tree"], mesh, "result_shardings")
        batch = self._batch_axes(outs[0] if outs else None, (*ins_plain, *outs_plain), mesh)
        ins = [
            _batched(s, mesh, batch, bits)
            for s, bits in zip(ins_plain, self.leading[0], strict=True)
        ]
        outs = [
            _batched(s, mesh, batch, bits)
            for s, bits in zip(outs_plain, self.leading[1], strict=True)
        ]
        local_in = [
            _local(a, s, f"operand {k}") for k, (a, s) in enumerate(zip(self.avals_in, ins))
        ]
        local_out = [
            _local(a, s, f"result {k}") for k, (a, s) in enumerate(zip(self.avals_out, outs))
        ]
        text = self._lower(lower_fn, mesh, local_in, local_out)
        return (
            text,
            [s.to_hlo_sharding(a.ndim) for s, a in zip(ins, self.avals_in)],
            [s.to_hlo_sharding(a.ndim) for s, a in zip(outs, self.avals_out)],
        )

    def _found(self, hlo_sharding, aval, mesh):
        spec = from_hlo_sharding(hlo_sharding, mesh, aval.ndim)
        return (
            NamedSharding(mesh, spec)
            if spec is not None
            else GSPMDSharding(self.assignment, hlo_sharding)
        )

    def _shapes(self, tree, avals, shardings, lead, mesh):
        """What `partition` sees: types and shardings without the batches."""
        out = []
        for a, s, n in zip(avals, shardings, lead):
            if n:  # along a batch the operation is split already
                spec = s.spec if isinstance(s, NamedSharding) else PartitionSpec()
                s = NamedSharding(mesh, PartitionSpec(*spec[n:]))
            if not self.params["decode_shardings"] and isinstance(s, NamedSharding):
                s = GSPMDSharding(self.assignment, s.to_hlo_sharding(a.ndim - n))
            out.append(ShapeDtypeStruct(a.shape[n:], a.dtype, sharding=s))
        return _tree.unflatten(tree, out)

    def _batch_axes(self, found, plain, mesh) -> list[tuple]:
        """Per batch the mesh axes that it is split along: those found, as far as the operation itself leaves them."""
        batches = self.params["batches"]
        if not isinstance(found, NamedSharding):
            return [()] * len(batches)
        taken = {a for s in plain if isinstance(s, NamedSharding) for a in s.spec.axes()}
        return [
            tuple(a for a in found.spec.axes_of(b) if a in mesh.axis_names and a not in taken)
            for b in range(len(batches))
        ]

    def _lower(self, lower_fn, mesh, local_in, local_out) -> str:
        in_tree, out_tree = self.params["in_tree"], self.params["out_tree"]

        def run(*flat):
            outs = lower_fn(*_tree.unflatten(in_tree, flat))
            leaves, found = _tree.flatten(outs)
            if found != out_tree:
                raise ValueError(
                    f"the function that partition returned gives results of the structure {found}, and the operation has {out_tree}"
                )
            return leaves

        fun: Callable = run
        for flags in reversed(self.params["batches"]):
            fun = vmap(fun, in_axes=tuple(0 if f else None for f in flags))
        names = frozenset(mesh.axis_names)
        flat_tree = _tree.structure((tuple(local_in), {}))
        with body_context(mesh, names, False):
            closed, _ = trace_flat(lambda *flat: tuple(fun(*flat)), flat_tree, local_in)
            wrong = [
                f"result {k} is {got.str_short(short_dtypes=True)}, and a device's part of it is {want.str_short(short_dtypes=True)} under its sharding"
                for k, (got, want) in enumerate(zip(closed.out_avals, local_out))
                if got.shape != want.shape or got.dtype != want.dtype
            ]
            if wrong:
                raise ValueError(
                    f"Mismatch in result shapes of the function that partition returned: {'; '.join(wrong)}. It gets the shards, and "
                    f"returns shards in the result_shardings"
                )
            effects = _effects.without_axes(closed.effects, names)
            if effects:
                raise NotImplementedError(
                    f"the function that partition returned has effects ({', '.join(map(str, effects))}): callbacks cannot be added "
                    f"while a program is compiled. Leave them outside of the operation"
                )
            return mlir.lower_module(
                closed,
                self.name,
                platform=self.platform,
                devices=self.devices,
                assignment=self.assignment,
                manual_mesh=mesh,
            ).text


def _shardings(given, tree, mesh, what: str) -> list:
    """One sharding per leaf, from a tree of shardings, specs or None for what is whole everywhere."""
    full = _tree.unflatten(tree, range(tree.num_leaves))
    try:
        flat = _tree.broadcast_prefix(
            given, full, is_leaf=lambda x: x is None or isinstance(x, PartitionSpec)
        )
    except ValueError as error:
        raise ValueError(
            f"the {what} that partition returned do not fit: Tuple arity mismatch, {given!r} for {tree.num_leaves} of them. {error}"
        ) from None
    out = []
    for s in flat:
        s = PartitionSpec() if s is None else s
        s = NamedSharding(mesh, s) if isinstance(s, PartitionSpec) else s
        if not isinstance(s, Sharding):
            raise TypeError(
                f"the {what} that partition returned are shardings, specs or None, got {s!r}"
            )
        out.append(s)
    return out


def _batched(sharding, mesh, batch: Sequence[tuple], bits: int):
    """A sharding of the plain operation for a value with the batches in `bits` in front."""
    if not bits:
        return sharding
    spec = sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
    front = (axes for b, axes in enumerate(batch) if bits >> b & 1)
    return NamedSharding(mesh, PartitionSpec(*front, *spec))


def _local(aval: ShapedArray, sharding, what: str) -> ShapedArray:
    try:
        return ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
    except ValueError as error:
        raise ValueError(f"partition asks for {what} as {sharding}: {error}") from None


def _place_of(fun: Any) -> str:
    fun = getattr(fun, "func", fun)
    code = getattr(fun, "__code__", None)
    name = getattr(fun, "__name__", type(fun).__name__)
    if code is None:
        return f"`{name}`"
    file = source_info.shown_name(code.co_filename) or code.co_filename
    return f"`{name}` ({file}:{code.co_firstlineno})"


def call_text(ctx: Any, xs: Sequence[str], partitioner: Partitioner, rule: str) -> list[str]:
    """Emits the operation; returns the names of its results."""
    module = ctx.module
    module.partitioners.append(partitioner)
    number = partitioners.add(partitioner)
    types_out = ", ".join(map(mlir.tensor_type, ctx.avals_out))
    said = f", sdy.sharding_rule = {rule}" if rule else ""
    return ctx.ops(
        f"stablehlo.custom_call @{partitioners.TARGET}({', '.join(xs)}) {{api_version = 2 : i32, "
        f'backend_config = "{number}"{said}}} : ({ctx.types_in()}) -> '
        f"{types_out if len(ctx.avals_out) == 1 else f'({types_out})'}",
        len(ctx.avals_out),
    )
