"""The transformations of a ladder: each takes a function with the types of its arguments and gives another.

They are the public transformations, applied as a user would; `TRANSFORMATIONS` says what each does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.hi_states import MutableHiType
from xlab.core.hi_types import is_high
from xlab.core.jaxpr import ClosedJaxpr
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.units import plural
from xlab.parallel.shard_map import shard_map
from xlab.sharding import PartitionSpec, get_mesh
from xlab.transforms.grad import grad
from xlab.transforms.jvp import jvp
from xlab.transforms.make_jaxpr import eval_shape
from xlab.transforms.vjp import vjp
from xlab.transforms.vmap import vmap

RUNGS = ("jvp", "linearize", "transpose", "grad", "vmap", "shard_map")
EXAMPLES = 2
"""Examples in a batch of the `vmap` rung, and on each device of the `shard_map` rung."""


class Form(NamedTuple):
    """A function, its arguments' types, and which arguments are transformed: input and output of a rung.

    `tangents` are the positions of tangents among the flat inputs of what `jvp` made.
    """

    fun: Callable
    args: tuple
    argnums: int | tuple[int, ...]
    in_axes: tuple[int | None, ...]
    tangents: range = range(0)

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums

    @property
    def chosen(self) -> tuple:
        """The arguments that are differentiated."""
        return tuple(self.args[n] for n in self.numbers)

    def of_chosen(self, args: Sequence) -> Callable:
        """The function of the chosen arguments alone, the others being what they are in `args`."""

        def fun(*values: Any) -> Any:
            given = dict(zip(self.numbers, values, strict=True))
            return self.fun(*(given.get(i, x) for i, x in enumerate(args)))

        return fun


class Transformation(NamedTuple):
    """One transformation: its description, and how it is applied to a `Form`."""

    says: str
    make: Callable[[Form], Form]


def positions(argnums: Any, n: int) -> int | tuple[int, ...]:
    several = () if isinstance(argnums, int) else tuple(argnums)
    for number in several or (argnums,):
        if not isinstance(number, int) or not -n <= number < max(n, 1):
            raise ValueError(
                f"argnums is the position of an argument, or of several; given {argnums!r} with {plural(n, 'argument')}"
            )
    return tuple(sorted({number % n for number in several})) if several else argnums % max(n, 1)


def batch_axes(in_axes: Any, n: int, first: int = 0) -> tuple[int | None, ...]:
    if in_axes is None:
        return tuple(0 if i == first else None for i in range(n))
    axes = (in_axes,) * n if isinstance(in_axes, int) else tuple(in_axes)
    if len(axes) != n or not all(
        axis is None or (isinstance(axis, int) and axis >= 0) for axis in axes
    ):
        raise ValueError(
            f"in_axes has a dimension, counted from 0, or None for each argument; given {in_axes!r} with {plural(n, 'argument')}"
        )
    return axes


def types_of(args: tuple) -> tuple:
    def typed(x: Any) -> Any:
        aval: Any = aval_of(x) if not isinstance(x, ShapeDtypeStruct) else x
        if is_high(aval):  # a value that changes in place stands for itself
            return x if isinstance(aval, MutableHiType) else aval
        return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    return _tree.map(typed, tuple(args))


def _of_floats(form: Form, what: str) -> None:
    if not form.args:
        raise TypeError(f"{what} needs an argument")
    for n, arg in zip(form.numbers, form.chosen, strict=True):
        leaves = _tree.leaves(arg)
        if not leaves or not all(dtypes.issubdtype(x.dtype, np.inexact) for x in leaves):
            raise TypeError(
                f"{'the first argument' if n == 0 else f'argument {n}'} is not of real or complex numbers: "
                f"{', '.join(str(x.dtype) for x in leaves) or 'it is empty'}"
                + ("; argnums says which argument to differentiate" if len(form.args) > 1 else "")
            )


def _jvp(form: Form) -> Form:
    """A function of the arguments, the tangents right behind the last that has one."""
    _of_floats(form, "jvp")
    at, chosen = form.numbers[-1] + 1, form.chosen

    def fun(*xs: Any) -> Any:
        args, tangents = (*xs[:at], *xs[at + len(chosen) :]), xs[at : at + len(chosen)]
        return jvp(form.of_chosen(args), tuple(args[n] for n in form.numbers), tuple(tangents))

    before = len(_tree.leaves(form.args[:at]))
    return form._replace(
        fun=fun,
        args=(*form.args[:at], *chosen, *form.args[at:]),
        in_axes=(*form.in_axes[:at], *(None,) * len(chosen), *form.in_axes[at:]),
        tangents=range(before, before + len(_tree.leaves(chosen))),
    )


def pulled(form: Form, args: tuple) -> Any:
    """The pullback of a function at arguments that are being traced: the real one, with what it keeps as values of that trace."""
    return vjp(form.of_chosen(args), *(args[n] for n in form.numbers))


def _linearize(form: Form) -> Form:
    _of_floats(form, "linearize")
    return form


def linear_part(form: Form) -> ProgramStages:
    kept: list[Any] = []

    def run(*xs: Any) -> Any:
        kept.append(pulled(form, xs)[1])
        return ()

    jit(run).trace(*form.args)
    return ProgramStages(
        ClosedJaxpr(kept[0].jaxpr, [0] * len(kept[0].jaxpr.constvars)), "linearize"
    )


def _transpose(form: Form) -> Form:
    """A function of the results' cotangents and of what linearization kept."""
    _of_floats(form, "transpose")
    kept: list[Any] = []

    def values(*xs: Any) -> Any:
        out, pullback = pulled(form, xs)
        kept.append(pullback)
        return out, pullback.consts

    out, residuals = jit(values).trace(*form.args).out_info
    aux = _tree.structure(kept[0])
    if any(not dtypes.issubdtype(x.dtype, np.inexact) for x in _tree.leaves(out)):
        raise TypeError("the result is not of real or complex numbers")

    def back(cotangent: Any, residuals: Any) -> Any:
        return _tree.unflatten(aux, residuals)(cotangent)

    return Form(back, (out, list(residuals)), 0, (0, None))


def _grad(form: Form) -> Form:
    """The gradient; of a number that comes along with something else, such as a loss with its predictions, the number's."""
    _of_floats(form, "grad")
    out = eval_shape(form.fun, *form.args)
    pair = type(out) is tuple and len(out) == 2 and getattr(out[0], "shape", None) == ()
    return form._replace(fun=grad(form.fun, form.argnums, has_aux=pair))


def _vmap(form: Form) -> Form:
    return _batched(form, EXAMPLES)


def _batched(form: Form, size: int) -> Form:
    """The function of batches of `size`, along the dimension of each argument that `in_axes` says."""
    if all(
        axis is None or not _tree.leaves(arg)
        for axis, arg in zip(form.in_axes, form.args, strict=True)
    ):
        raise TypeError("vmap needs an argument")

    def batch(arg: Any, axis: int | None) -> Any:
        if axis is None:
            return arg
        for x in _tree.leaves(arg):
            if axis > len(x.shape):
                raise ValueError(
                    f"in_axes={axis} needs {plural(axis, 'dimension')} before the new one; given an array of shape {x.shape}"
                )
        return _tree.map(
            lambda x: ShapeDtypeStruct((*x.shape[:axis], size, *x.shape[axis:]), x.dtype), arg
        )

    return form._replace(
        fun=vmap(form.fun, in_axes=form.in_axes), args=tuple(map(batch, form.args, form.in_axes))
    )


def _shard_map(form: Form) -> Form:
    mesh = get_mesh()
    axis = mesh.axis_names[0]
    specs = tuple(
        PartitionSpec() if at is None else PartitionSpec(*(None,) * at, axis) for at in form.in_axes
    )
    on_each = _batched(form, EXAMPLES).fun
    whole = _batched(form, EXAMPLES * mesh.shape[axis])
    return whole._replace(
        fun=shard_map(on_each, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(axis))
    )


TRANSFORMATIONS = {
    "jvp": Transformation("values with their tangents: each primitive's rule gives both", _jvp),
    "linearize": Transformation("only the tangents: what the values gave is constant", _linearize),
    "transpose": Transformation(
        "the linear program backwards: from cotangents of results to cotangents of the argument",
        _transpose,
    ),
    "grad": Transformation(
        "the values forwards, then their linear program backwards from 1", _grad
    ),
    "vmap": Transformation(
        f"a batch of {EXAMPLES} examples: each primitive's rule places the batch dimension", _vmap
    ),
    "shard_map": Transformation(
        f"the batched program on each device, {EXAMPLES} examples each", _shard_map
    ),
}
