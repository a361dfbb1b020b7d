"""Arguments of a pmapped function: along which axis each is mapped, how many examples there are, and what errors call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.tracing import argument_names, function_name
from xlab.core.avals import aval_of, value_and_type
from xlab.errors import InvalidInputException

_KEYWORDS = "Arguments that are passed by keyword are not compared with it: they are mapped along their leading axis."


class PmapArguments:
    """The options of one `pmap` about its arguments. It refers to the function weakly: `fun()` is the function."""

    def __init__(
        self, fun: Callable[[], Callable], in_axes: Any, static: tuple, axis_size: int | None
    ):
        self._fun, self.in_axes, self.static, self.axis_size = fun, in_axes, static, axis_size
        self.label = function_name(fun())

    def check_static(self, args) -> None:
        if max(self.static) >= len(args):
            raise ValueError(
                f"pmapped function {self.label} has static_broadcasted_argnums={self.static} but was called with only "
                f"{len(args)} positional argument{'s' if len(args) != 1 else ''}. All static broadcasted arguments must "
                f"be passed positionally."
            )
        for i in self.static:
            try:
                hash(args[i])
            except TypeError:
                raise ValueError(
                    f"Non-hashable static arguments are not supported, as this would make each call a new program: pmapped function "
                    f"{self.label} was given {args[i]!r} of type {type(args[i]).__name__} as its static argument {i}"
                ) from None

    def check_values(self, args) -> None:
        """Raises for a positional argument that has a leaf which is no array."""
        for i, arg in enumerate(args):
            for path, x in () if i in self.static else _tree.flatten_with_path(arg)[0]:
                try:
                    aval_of(x)
                except InvalidInputException as e:
                    name = self.names([None] * i + [0], {}, 1)[0] + _tree.keystr(path)
                    raise InvalidInputException(
                        f"cannot call pmap of {self.label}: argument `{name}` is {value_and_type(x)}, which is not an array "
                        f"value. Convert it, or make it a constant of the program with static_broadcasted_argnums={i}"
                    ) from e

    def flatten(self, args, kwargs):
        """Dynamic leaves, their structure, and along which axis each is mapped."""
        dynamic = tuple(a for i, a in enumerate(args) if i not in self.static)
        in_axes = self.in_axes
        if isinstance(in_axes, (tuple, list)):
            if len(in_axes) == len(args):
                in_axes = tuple(a for i, a in enumerate(in_axes) if i not in self.static)
            elif len(in_axes) != len(dynamic):
                raise ValueError(
                    f"pmap in_axes must have one entry per positional argument of {self.label}: got "
                    f"{len(in_axes)} entries for {len(args)} arguments. {_KEYWORDS}"
                )
            in_axes = tuple(in_axes)
        else:
            in_axes = (in_axes,) * len(dynamic)
        flat, in_tree = _tree.flatten((dynamic, kwargs))
        axes = self.prefix(
            "in_axes", in_axes, _tree.unflatten(in_tree, list(map(aval_of, flat)))[0]
        )
        axes += [0] * (len(flat) - len(axes))
        return (
            flat,
            in_tree,
            [
                canonical_axis(a, aval_of(x).ndim, "in_axes", self._fun())
                for x, a in zip(flat, axes)
            ],
        )

    def prefix(self, what: str, axes, like) -> list:
        """One axis for each leaf of the positional arguments, or of the results; those have types for leaves."""
        try:
            return _tree.flatten_prefix(f"pmap {what}", axes, like, is_leaf=lambda a: a is None)
        except ValueError as e:
            whole = (
                f"the tuple of positional arguments. {_KEYWORDS}"
                if what == "in_axes"
                else "what it returns."
            )
            raise ValueError(
                f"{what} of pmap of {self.label} must be a pytree prefix of {whole} {e}"
            ) from None

    def restored(self, in_tree, leaves, args):
        """Arguments made of these leaves, and of the static ones among `args`."""
        dynamic, kwargs = _tree.unflatten(in_tree, leaves)
        positional = list(dynamic)
        for i in sorted(self.static):
            positional.insert(i, args[i])
        return positional, kwargs

    def size_of(self, flat, axes, args, kwargs) -> int:
        sizes = sorted({aval_of(x).shape[a] for x, a in zip(flat, axes) if a is not None})
        if not sizes:
            if self.axis_size is None:
                raise ValueError(
                    f"pmap of {self.label} requires at least one mapped argument: every argument has in_axes=None"
                )
            sizes = [self.axis_size]
        if len(sizes) > 1 or (self.axis_size is not None and self.axis_size != sizes[0]):
            listed = [
                f"`{name}` of type {aval_of(x).str_short(short_dtypes=True)} has {aval_of(x).shape[a]} along axis {a}"
                for x, a, name in zip(flat, axes, self.names(args, kwargs, len(flat)))
                if a is not None
            ]
            raise ValueError(
                f"pmap got inconsistent sizes for array axes to be mapped by {self.label}: {'; '.join(listed)}"
                + (f"; axis_size is {self.axis_size}" if self.axis_size is not None else "")
            )
        if sizes[0] < 1:
            raise ValueError(
                f"pmap of {self.label} maps an axis of size {sizes[0]}: it runs once per example on a device of its own, so there has to "
                f"be one at least"
            )
        return sizes[0]

    def names(self, args, kwargs, n):
        """The names of the dynamic leaves, for error messages."""
        kept = tuple(() if i in self.static else a for i, a in enumerate(args))
        return argument_names(self._fun(), _tree.structure((kept, kwargs)), n)


def row_of_devices(devices) -> tuple | None:
    """The devices as a flat list; a column of devices is accepted too."""
    if devices is None:
        return None
    grid = np.array(list(devices), dtype=object)
    if grid.size == 0:
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    ids = [d.id for d in grid.flat if hasattr(d, "id")]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise ValueError(
            f"pmap was given the devices with ids {twice} more than once, in {ids}: each example runs on a device of its own"
        )
    if grid.ndim > 1 and grid.size != len(grid):
        raise ValueError(
            f"pmap takes its devices in a row, one for each example, got them in the shape {grid.shape}"
        )
    return tuple(grid.flat)


def canonical_axis(axis, ndim, what, fun):
    if axis is None:
        return None
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"pmap of {function_name(fun)}: {what} entry {axis} is out of range for a value with {ndim} dimensions"
        )
    return axis % ndim
