"""`pmap`: one call per device, along one mapped axis; a `shard_map` over a mesh of one axis, or of as many as there are maps in maps.

Where several processes work together, each calls with its own rows and gets its own rows of the results; collectives inside go over all.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.backend import processes as _processes
from xlab.compile.jit import jit
from xlab.compile.runtime_checks import replay
from xlab.compile.stages import ShapeDtypeStruct
from xlab.compile.tracing import function_name
from xlab.config import config, idle_argument
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import aval_of
from xlab.core.jaxpr import Jaxpr, Var
from xlab.core.trace import check_axis_name, state
from xlab.errors import ForbiddenMapError, IncompatibleDevices, InvalidInputException
from xlab.interpreters.followed import following
from xlab.lax.shape import expand_dims, squeeze
from xlab.parallel.by_operation import is_traced, runs_on_values
from xlab.parallel.host_local import to_global, to_local
from xlab.parallel.pmap_arguments import PmapArguments, canonical_axis, row_of_devices
from xlab.parallel.put import device_put
from xlab.parallel.replica_mode import (
    check_collectives,
    own_example,
    some_are_refused,
    spread,
    warn_of_jit,
)
from xlab.parallel.shard_map import Mapped
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.sharding import Mesh, NamedSharding, PartitionSpec
from xlab.transforms.vmap import vmap

__all__ = ["pmap"]

PRIVATE_AXIS = "_internal_pmap_axis_name"
"""Names of axes begin so where the user gave none."""


def pmap(
    fun: Callable,
    axis_name: Hashable | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
    global_arg_shapes: None = None,
) -> Callable:
    """Runs a function on several devices at once, one example of the mapped axis on each.

    It is one compiled program. Under `disable_jit` the body runs operation by operation, and Python can print and compare the values of
    all devices (unless the option `eager_pmap` is off). Maps in maps run over a mesh with an axis for each of them.

    Args:
        fun: function of one example.
        axis_name: name of the mapped axis, for collectives.
        in_axes, out_axes: position of the mapped axis in arguments and results, as for `vmap`; None for values that are the same.
        static_broadcasted_argnums: arguments that are Python values, part of the program.
        devices: where to run; by default the first devices, or those of all processes.
        axis_size: size of the mapped axis, over all processes; normally read off the arguments.
        donate_argnums: arguments whose buffers results may take over.

    Example:
        >>> import numpy as np, xlab
        >>> print(xlab.pmap(lambda x: xlab.lax.sin(x))(np.zeros((1, 2), np.float32)))
        [[0. 0.]]
    """
    idle_argument(
        "pmap", "global_arg_shapes", global_arg_shapes, "the arguments are the whole arrays"
    )
    if not callable(fun):
        raise TypeError(f"pmap takes a function, got {fun!r} of type {type(fun).__name__}")
    static = (
        (static_broadcasted_argnums,)
        if isinstance(static_broadcasted_argnums, int)
        else tuple(static_broadcasted_argnums)
    )
    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
    both = sorted(set(static) & set(donated))
    if both:
        raise ValueError(
            f"pmap of {function_name(fun)}: arguments {both} are both static and donated; a static argument has no "
            f"buffer to donate"
        )
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for leaf in _tree.leaves(axes, is_leaf=lambda a: a is None):
            if leaf is not None and type(leaf) is not int:
                raise TypeError(
                    f"pmap {what} leaves must be int or None, got {leaf!r} of type {type(leaf).__name__}"
                )
    check_axis_name(axis_name, "pmap")
    fun, mapped = _shared(
        fun,
        (
            PRIVATE_AXIS if axis_name is None else axis_name,
            in_axes,
            out_axes,
            static,
            donated,
            row_of_devices(devices),
            backend,
            axis_size,
        ),
    )

    @functools.wraps(fun)
    def pmap_fun(*args, **kwargs):
        return mapped(fun, args, kwargs)

    def staged(stage):
        def run(*args, **kwargs):
            args, kwargs = mapped.staged(fun, args, kwargs)
            made = stage(*args, **kwargs)
            traced = getattr(made, "traced", made)
            traced.known_shardings = _result_shardings(traced.jaxpr.jaxpr)
            return made

        return run

    pmap_fun.lower, pmap_fun.trace = staged(mapped.compiled.lower), staged(mapped.compiled.trace)
    return pmap_fun


def _result_shardings(jaxpr: Jaxpr) -> tuple:
    """Where the results lie that a map over devices makes; None for others, and with a map inside, which places them too."""
    made = {
        v: NamedSharding(eqn.params["mesh"], spec)
        for eqn in jaxpr.eqns
        if eqn.primitive is shard_map_p
        and len(eqn.params["newly_manual_axes"]) == len(eqn.params["mesh"].axis_names)
        for v, spec in zip(eqn.outvars, eqn.params["out_specs"])
    }
    return tuple(made.get(v) if type(v) is Var else None for v in jaxpr.outvars)


_known: weakref.WeakKeyDictionary[Callable, dict[Any, _Pmapped]] = weakref.WeakKeyDictionary()


def _shared(fun: Callable, options: tuple) -> tuple[Callable, _Pmapped]:
    """The cached `_Pmapped` of a function and these options, kept as long as the function lives.

    With it the function it was made for, which the caller keeps: an equal one, as every `model.apply` is a new object.
    """
    axes, structure = _tree.flatten(options[1:3], is_leaf=lambda a: a is None)
    try:
        key = (*options[:1], tuple(axes), structure, *options[3:])
        per_function = _known.setdefault(fun, {})
        mapped = per_function.get(key)
        first = mapped._fun() if mapped is not None else None
        if mapped is None or first is None:
            first, mapped = fun, _Pmapped(weakref.ref(fun), *options)
            per_function[key] = mapped
        return first, mapped
    except TypeError:  # not hashable, or not weakly referable
        return fun, _Pmapped(lambda: fun, *options)


class _Nest(threading.local):
    """The mesh of the outermost active `pmap`, None outside, how many devices it could have, and whether it runs in replica mode."""

    mesh: Mesh | None = None
    available = 0
    replicas = False


_nest = _Nest()


class _Wanted(BaseException):
    """Raised when a nested `pmap` needs an axis that the mesh does not have yet."""

    def __init__(self, name, size):
        super().__init__(name, size)
        self.name, self.size = name, size


class _Pmapped(PmapArguments):
    """A pmapped function: reads the axis size off the arguments and runs a `shard_map`. It refers to the function weakly."""

    def __init__(self, fun, name, in_axes, out_axes, static, donated, devices, backend, axis_size):
        super().__init__(fun, in_axes, static, axis_size)
        self.name, self.out_axes, self.devices, self.backend = name, out_axes, devices, backend

        def run(*args, **kwargs):
            return self.call(args, kwargs)

        run.__name__ = self.label
        with contextlib.suppress(TypeError, ValueError):  # no signature is known
            run.__signature__ = inspect.signature(fun())  # for the names of arguments
        self.compiled = jit(
            run,
            static_argnums=static,
            static_argnames=(),
            donate_argnums=donated,
            donate_argnames=(),
            name=f"pmap({self.label})",
        )

    def __call__(self, fun, args, kwargs):
        if self.static:
            self.check_static(args)
        if _processes.joined() and _nest.mesh is None and self.spans():
            return self.over_processes(args, kwargs)
        if config.pmap_replica_mode and _nest.mesh is None and is_traced():
            return self.as_replicas(args, kwargs)
        try:
            return self.compiled(*args, **kwargs)
        except IncompatibleDevices:
            moved = self.brought(args, kwargs)
            if moved is None:
                raise
        except InvalidInputException:
            self.check_values(args)
            raise
        return self.compiled(*moved[0], **moved[1])

    def as_replicas(self, args, kwargs):
        """The call as part of a larger program, in replica mode: on whole arrays."""
        before, _nest.replicas = _nest.replicas, True
        try:
            return self.call(args, kwargs)
        finally:
            _nest.replicas = before

    # -- the traced call -------------------------------------------------------------------------------------

    def call(self, args, kwargs):
        flat, in_tree, axes = self.flatten(args, kwargs)
        size = self.size_of(flat, axes, args, kwargs)
        if _nest.mesh is not None and state.manual_mesh is not None:
            return self.inside(size, flat, in_tree, axes, args)
        if state.manual_mesh is not None:
            raise ForbiddenMapError(
                f"pmap of {self.label} is called in the body of a shard_map over {state.manual_mesh}: every device runs that body already, so "
                f"none is left for a pmap. Map with xlab.vmap there, or shard_map over another axis of the mesh"
            )
        devices = self.chosen(size)
        extra: list[tuple[Any, int]] = []
        while True:  # each iteration adds one axis of a nested map
            names, shape = (self.name, *(n for n, _ in extra)), (size, *(n for _, n in extra))
            needed = math.prod(shape)
            if needed > len(devices):
                raise ValueError(
                    f"pmap of {self.label} with the pmaps in it requires {needed} devices ({' x '.join(map(str, shape))} over the axes "
                    f"{self.shown(names)}), but only {len(devices)} are available: map fewer examples, or vmap the rest"
                )
            mesh = Mesh(np.array(devices[:needed], dtype=object).reshape(shape), names)
            before = _nest.mesh, _nest.available
            _nest.mesh, _nest.available = mesh, len(devices)
            try:
                results = self.mapped(mesh, self.name, flat, in_tree, axes, args)
            except _Wanted as wanted:
                extra.append((wanted.name, wanted.size))
                continue
            finally:
                _nest.mesh, _nest.available = before
            if self.devices is not None and needed != len(devices):
                raise ValueError(
                    f"Leading axis size that is pmapped over is {size} and devices has {len(devices)} entries: they must be equal"
                    + (
                        f", or the entries as many as the {needed} of the pmaps in it"
                        if extra
                        else ""
                    )
                )
            return results

    def inside(self, size, flat, in_tree, axes, args):
        """The call in the body of another map: over an axis of its own of the same mesh."""
        if self.devices is not None:
            raise ValueError(
                f"pmap of {self.label} is called inside another pmap, and gives devices: only the outermost can say where to run"
            )
        mesh, name = state.manual_mesh, self.name
        if name == PRIVATE_AXIS:
            name += f"_{sum(str(n).startswith(PRIVATE_AXIS) for n in state.axes)}"
        around = math.prod(mesh.shape[n] for n in mesh.axis_names if n in state.axes)
        beside = (
            name not in state.axes and around < mesh.size
        )  # another map in the same body has the devices
        if name not in mesh.axis_names:
            if beside and around * size <= _nest.available < mesh.size * size:
                return self.batched(size, name, flat, in_tree, axes, args)
            raise _Wanted(name, size)
        if beside and mesh.shape[name] != size and around * size <= _nest.available:
            return self.batched(size, name, flat, in_tree, axes, args)
        if mesh.shape[name] != size or name in state.axes:
            raise ValueError(
                f"pmap of {self.label} maps {size} examples over an axis {self.shown((name,))} inside another pmap, where that is "
                f"the name of an axis of size {mesh.shape[name]} already: give each its own axis_name"
            )
        return self.mapped(mesh, name, flat, in_tree, axes, args)

    def batched(self, size, name, flat, in_tree, axes, args):
        """The call as a `vmap`: beside another map in one body, whose axis has the devices that it could run on."""
        fun = self._fun()

        def body(leaves):
            a, k = self.restored(in_tree, leaves, args)
            return fun(*a, **k)

        return vmap(body, (axes,), self.out_axes, axis_name=name, axis_size=size)(flat)

    @staticmethod
    def shown(names) -> str:
        return ", ".join("(unnamed)" if str(n).startswith(PRIVATE_AXIS) else repr(n) for n in names)

    def mapped(self, mesh, name, flat, in_tree, axes, args):
        fun, out, replicas = self._fun(), {}, _nest.replicas
        size = mesh.shape[name]
        if replicas:
            warn_of_jit(self.label, mesh.size)

        def body(*blocks):
            if replicas:
                examples = [own_example(x, a, name) for x, a in zip(blocks, axes)]
            else:
                examples = [x if a is None else squeeze(x, (a,)) for x, a in zip(blocks, axes)]
            a, k = self.restored(in_tree, examples, args)
            results, out["tree"] = _tree.flatten(fun(*a, **k))
            wanted = self.prefix(
                "out_axes", self.out_axes, _tree.unflatten(out["tree"], list(map(aval_of, results)))
            )
            out["axes"] = [
                canonical_axis(w, aval_of(x).ndim + 1, "out_axes", fun)
                for x, w in zip(results, wanted)
            ]
            if replicas:
                return tuple(spread(x, w, name, size) for x, w in zip(results, out["axes"]))
            return tuple(
                x if w is None else expand_dims(x, (w,)) for x, w in zip(results, out["axes"])
            )

        body.__name__ = f"pmap({self.label})"  # so that views and tools tell it from a shard_map

        def specs(found):
            return tuple(_spec(name, None if replicas else a) for a in found)

        whole = Mapped(
            body, mesh, specs(axes), lambda: specs(out["axes"]), frozenset({name}), False
        )
        by_operation = (
            replay.active or (config.disable_jit and config.eager_pmap)
        ) and runs_on_values()
        run = whole.run if following() is None else whole.stage
        results = (run if by_operation else whole.as_program)(tuple(flat))
        return _tree.unflatten(out["tree"], results)

    def chosen(self, size):
        available = self.available()
        if size > len(available):
            if self.devices is not None:
                raise ValueError(
                    f"pmap of {self.label} maps {size} examples, and its devices are {len(available)}, with ids {[d.id for d in available]}: "
                    f"give as many devices as examples, or map fewer (vmap the rest)"
                )
            raise ValueError(
                f"compiling pmap of {self.label} requires {size} devices, one for each example, but only "
                f"{len(available)} are available: set config.num_cpu_devices before the first use of a device, or map "
                f"fewer examples (vmap the rest)"
            )
        return available

    def available(self) -> tuple:
        """The devices to choose from, those of one process after those of another."""
        if self.devices is not None:
            return self.devices
        found = _client.devices(backend=self.backend)
        return (
            tuple(sorted(found, key=lambda d: (d.process_index, d.id)))
            if _processes.joined()
            else tuple(found)
        )

    def brought(self, args, kwargs):
        """The arguments, those on other devices moved to the map's devices; None if none had to move."""
        flat, in_tree, axes = self.flatten(args, kwargs)
        mesh = Mesh(
            np.array(self.chosen(n := self.size_of(flat, axes, args, kwargs))[:n], dtype=object),
            (self.name,),
        )
        put = [
            (is_native_array(x) or isinstance(x, KeyArray))
            and x.committed
            and x.sharding.devices_in_order != mesh.devices_in_order
            for x in flat
        ]
        if not any(put):
            return None
        return self.restored(
            in_tree,
            [
                device_put(x, NamedSharding(mesh, _spec(self.name, s))) if p else x
                for x, s, p in zip(flat, axes, put)
            ],
            args,
        )

    # -- several processes -----------------------------------------------------------------------------------

    def spans(self) -> bool:
        """Whether devices of other processes take part."""
        return any(d.process_index != _client.process_index() for d in self.available())

    def rows(self) -> Mesh:
        return Mesh(np.array(self.available(), dtype=object), (self.name,))

    def over_processes(self, args, kwargs):
        """Each process gives rows for its own devices, and receives theirs of the results."""
        flat, in_tree, axes = self.flatten(args, kwargs)
        mesh = self.rows()
        self.check_rows(flat, axes, mesh)
        a, k = self.restored(in_tree, [to_global(x, mesh, s) for x, s in zip(flat, axes)], args)
        if some_are_refused():
            check_collectives(self.compiled.trace(*a, **k).jaxpr.jaxpr, self.label)
        outs, out_tree = _tree.flatten(self.compiled(*a, **k))
        wanted = self.prefix("out_axes", self.out_axes, _tree.unflatten(out_tree, outs))
        return _tree.unflatten(
            out_tree,
            [
                to_local(x, mesh, canonical_axis(w, aval_of(x).ndim, "out_axes", self._fun()))
                for x, w in zip(outs, wanted)
            ],
        )

    def check_rows(self, flat, axes, mesh) -> None:
        here, everywhere = len(mesh.local_devices), mesh.size
        if self.axis_size is not None and self.axis_size != everywhere:
            raise ValueError(
                f"pmap of {self.label} has axis_size={self.axis_size}, and the processes have {everywhere} devices together: they must be "
                f"equal"
            )
        for x, a in zip(flat, axes):
            whole = is_native_array(x) and not x.is_fully_addressable
            if a is not None and aval_of(x).shape[a] != (everywhere if whole else here):
                raise ValueError(
                    f"pmap of {self.label}: where several processes work together, each gives one row for each of its own devices, of which "
                    f"there are {here} here (process {_client.process_index()}, {everywhere} in all); got a leading axis size of "
                    f"{aval_of(x).shape[a]} in {aval_of(x).str_short(short_dtypes=True)}. Give that many rows, or name fewer devices with devices=."
                )

    def staged(self, fun, args, kwargs):
        """The types of the arguments as global arrays of all processes; in one process the arguments."""
        if not _processes.joined() or not self.spans():
            return args, kwargs
        flat, in_tree, axes = self.flatten(args, kwargs)
        here, everywhere = len(self.rows().local_devices), len(self.available())

        def grown(x, a):
            aval = aval_of(x)
            return ShapeDtypeStruct(
                aval.shape
                if a is None
                else (*aval.shape[:a], aval.shape[a] // here * everywhere, *aval.shape[a + 1 :]),
                aval.dtype,
            )

        return self.restored(in_tree, [grown(x, a) for x, a in zip(flat, axes)], args)


def _spec(name, axis) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*(None,) * axis, name)
