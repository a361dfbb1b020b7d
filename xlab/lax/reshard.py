"""`reshard`: changes the sharding over Explicit mesh axes; and `auto_axes`, `explicit_axes`.

With Explicit axes the type of every value says how it lies, and operations follow their operands. `reshard` is where data moves;
`auto_axes` hands part of a program to the compiler, `explicit_axes` takes it back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.compile.devices import sharding_sources
from xlab.compile.dispatch import apply_primitive
from xlab.compile.jit import jit
from xlab.compile.placement import place
from xlab.compile.tracing import function_name
from xlab.core import dtypes
from xlab.core import trace as _trace
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.printing import hide_params
from xlab.core.trace import EVAL, state
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.shardings import constrain
from xlab.lax import sharding_in_types
from xlab.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = ["auto_axes", "explicit_axes", "reshard"]


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Brings values to a sharding over Explicit mesh axes, moving data where it must.

    Args:
        xs: array or pytree.
        out_shardings: a `PartitionSpec` for the current mesh, a `NamedSharding`, or a pytree prefix of them.

    Example:
        >>> import xlab
        >>> from xlab.sharding import PartitionSpec as P
        >>> with xlab.set_mesh(xlab.make_mesh((1,), ("i",))):
        ...     print(xlab.typeof(xlab.reshard(xlab.lax.iota("float32", 4), P("i"))).str_short(short_dtypes=True))
        f32[4@i]
    """
    leaves, treedef = _tree.flatten(xs)
    given = _tree.flatten_prefix(
        "reshard out_shardings",
        out_shardings,
        xs,
        is_leaf=lambda s: isinstance(s, (PartitionSpec, NamedSharding)),
    )
    return _tree.unflatten(treedef, [_resharded(x, s) for x, s in zip(leaves, given)])


def _resharded(x, sharding):
    aval = aval_of(x)
    asked = canonical_out_sharding(sharding, "reshard", aval.ndim)
    if asked is None:
        raise TypeError(
            "reshard needs a PartitionSpec or a NamedSharding for every value, got None"
        )
    asked.shard_shape(aval.shape)  # raises where the value does not divide
    mesh = sharding.mesh if isinstance(sharding, NamedSharding) else get_mesh()
    return bind_reshard(x, asked, mesh if isinstance(mesh, Mesh) and not mesh.empty else None)


def bind_reshard(x, sharding, concrete_mesh=None):
    """`reshard` to a sharding over an abstract mesh, whose axes may be of any type."""
    explicit = aval_of(x).explicit_sharding
    return reshard_p.bind(
        x,
        dst_sharding=sharding,
        concrete_mesh=concrete_mesh,
        src_mesh=explicit.mesh if explicit is not None else get_abstract_mesh(),
    )


reshard_p = Primitive("reshard", auto_pvary=False)
hide_params("reshard", "dst_sharding", "concrete_mesh", "src_mesh")


@reshard_p.def_abstract_eval
def _aval(x, *, dst_sharding, **_):
    if not isinstance(x, ShapedArray):
        return x
    mat, spec = x.mat, dst_sharding.spec
    if mat.unreduced or mat.reduced or spec.unreduced or spec.reduced:
        kept = frozenset(
            a for a in dst_sharding.mesh.axis_names if a not in dst_sharding.mesh.explicit_axes
        )
        mat = mat.update(
            unreduced=mat.unreduced & kept | spec.unreduced,
            reduced=mat.reduced & kept | spec.reduced,
        )
    return x.update(sharding=dst_sharding, mat=mat)


@reshard_p.def_impl
def _impl(x, *, dst_sharding, concrete_mesh, **params):
    """Eager rule: reshards the value on its own mesh."""
    aval = aval_of(x)
    where = getattr(x, "sharding", None)
    here = where.mesh if isinstance(where, NamedSharding) and x.committed else None
    mesh = next(
        (
            m
            for m in (here, concrete_mesh, get_mesh())
            if m is not None and m.shape_tuple == dst_sharding.mesh.shape_tuple
        ),
        None,
    )
    sums = dst_sharding.spec.unreduced or aval.mat.unreduced
    if mesh is None or mesh.auto_axes or sums or dtypes.is_extended(aval.dtype):
        return apply_primitive(
            reshard_p, x, dst_sharding=dst_sharding, concrete_mesh=concrete_mesh, **params
        )
    return place(x, aval, NamedSharding(mesh, dst_sharding.spec))


def _transpose(ct, x, *, dst_sharding, concrete_mesh, src_mesh):
    aval = x.aval
    if aval.explicit_sharding is None and src_mesh.empty:
        src_mesh = dst_sharding.mesh
    back = (
        aval.explicit_sharding
        if aval.explicit_sharding is not None
        else NamedSharding(src_mesh, PartitionSpec(*(None,) * aval.ndim))
    )
    explicit, mat = frozenset(back.mesh.explicit_axes), aval.mat
    back = back.update(
        spec=back.spec.update(unreduced=mat.reduced & explicit, reduced=mat.unreduced & explicit)
    )
    return [bind_reshard(ct, back, concrete_mesh)]


def _batch(xs, dims, *, dst_sharding, concrete_mesh, src_mesh):
    (x,), (d,) = xs, dims
    explicit = aval_of(x).explicit_sharding
    spec = list(dst_sharding.spec)
    spec.insert(d, explicit.spec[d] if explicit is not None else None)
    spec = dst_sharding.spec.update(partitions=tuple(spec))
    return reshard_p.bind(
        x,
        dst_sharding=NamedSharding(dst_sharding.mesh, spec),
        concrete_mesh=concrete_mesh,
        src_mesh=src_mesh,
    ), d


def _lowering(ctx, x, *, dst_sharding, **_):
    before, after = ctx.avals_in[0], ctx.avals_out[0]
    if after.mat.unreduced - before.mat.unreduced:
        # Held as one value first: the compiler would otherwise take what led here for summands too.
        x = constrain(ctx, x, after.update(mat=before.mat), dst_sharding)
    return constrain(ctx, x, ctx.avals_out[0], dst_sharding)


ad.deflinear2(reshard_p, _transpose)
batching.primitive_batchers[reshard_p] = _batch
mlir.register_text_lowering(reshard_p, _lowering)
sharding_sources[reshard_p] = lambda eqn: [
    NamedSharding(m, PartitionSpec()) for m in (eqn.params["concrete_mesh"],) if m is not None
]
ad.set_reshard(
    lambda ct, aval: bind_reshard(ct, sharding_in_types.like(aval, aval_of(ct)) or aval.sharding)
)
_trace.set_reshard(
    lambda x, aval: bind_reshard(x, aval.sharding) if not aval.sharding.mesh.empty else x
)


# -- regions ----------------------------------------------------------------------------------------------


def auto_axes(
    f: Callable | None = None, /, *, axes: Any = None, out_sharding: Any = None
) -> Callable:
    """Makes mesh axes Auto inside a function; its results get the requested shardings.

    Args:
        f: the function; without it, a decorator.
        axes: the mesh axes to hand over, by default all.
        out_sharding: a spec per result, or a pytree prefix of them; may also be given in the call.

    Example:
        >>> import xlab
        >>> from xlab.sharding import PartitionSpec as P, auto_axes
        >>> with xlab.set_mesh(xlab.make_mesh((1,), ("i",))):
        ...     y = auto_axes(lambda x: x * 2, out_sharding=P("i"))(xlab.lax.iota("float32", 4))
        >>> xlab.typeof(y).str_short(short_dtypes=True)
        'f32[4@i]'
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    programs: dict = {}

    @functools.wraps(f)
    def region(*args, out_sharding=out_sharding, **kwargs):
        if out_sharding is None:
            raise TypeError(
                f"auto_axes of {function_name(f)}: Missing required keyword argument: 'out_sharding'. What the compiler did "
                f"inside says nothing about the results: give it to auto_axes or to the call."
            )
        mesh = _context_mesh(args, kwargs)
        if mesh.empty:
            return f(*args, **kwargs)
        inside = _with_types(mesh, axes, AxisType.Auto)

        def run(args, kwargs):
            args, kwargs = _tree.map(lambda x: _entering(x, inside), (args, kwargs))
            with use_abstract_mesh(inside):
                out = f(*args, **kwargs)
                leaves, treedef = _tree.flatten(out)
            specs = _tree.flatten_prefix(
                "auto_axes out_sharding", out_sharding, out, is_leaf=_is_spec
            )
            with use_abstract_mesh(mesh):
                asked = [
                    canonical_out_sharding(s, "auto_axes", aval_of(x).ndim)
                    for x, s in zip(leaves, specs)
                ]
            with use_abstract_mesh(inside):
                return _tree.unflatten(treedef, [bind_reshard(x, s) for x, s in zip(leaves, asked)])

        return _run(programs, (mesh, out_sharding), run, f, args, kwargs)

    return region


def explicit_axes(
    f: Callable | None = None, /, *, axes: Any = None, in_sharding: Any = None
) -> Callable:
    """Makes mesh axes Explicit inside a function; its arguments get the requested shardings.

    Args:
        f: the function; without it, a decorator.
        axes: the mesh axes that become Explicit, by default all.
        in_sharding: a spec per argument, or a pytree prefix of them; may also be given in the call.

    Example:
        >>> import xlab
        >>> from xlab.sharding import AxisType, PartitionSpec as P, explicit_axes
        >>> with xlab.set_mesh(xlab.make_mesh((1,), ("i",), axis_types=AxisType.Auto)):
        ...     y = explicit_axes(lambda x: x * 2, in_sharding=P("i"))(xlab.lax.iota("float32", 4))
        >>> y.shape
        (4,)
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    programs: dict = {}

    @functools.wraps(f)
    def region(*args, in_sharding=in_sharding, **kwargs):
        if in_sharding is None:
            raise TypeError(
                f"explicit_axes of {function_name(f)}: Missing required keyword argument: 'in_sharding'. The types of the "
                f"arguments must say how they lie over the axes that become Explicit."
            )
        mesh = _context_mesh(args, kwargs)
        if mesh.empty:
            raise ValueError(
                f"explicit_axes of {function_name(f)} needs a mesh: set one with xlab.set_mesh(mesh)"
            )
        inside = _with_types(mesh, axes, AxisType.Explicit)

        def run(args, kwargs):
            specs = _tree.flatten_prefix(
                "explicit_axes in_sharding",
                in_sharding if isinstance(in_sharding, tuple) else (in_sharding,) * len(args),
                args,
                is_leaf=_is_spec,
            )
            leaves, treedef = _tree.flatten(args)
            with use_abstract_mesh(inside):
                asked = [
                    canonical_out_sharding(s, "explicit_axes", aval_of(x).ndim)
                    for x, s in zip(leaves, specs)
                ]
            args = _tree.unflatten(treedef, [bind_reshard(x, s) for x, s in zip(leaves, asked)])
            with use_abstract_mesh(inside):
                out = f(*args, **kwargs)
                return _tree.map(lambda x: _entering(x, mesh), out)

        return _run(programs, (mesh, in_sharding), run, f, args, kwargs)

    return region


def _is_spec(x):
    return x is None or isinstance(x, (PartitionSpec, NamedSharding))


def _context_mesh(args, kwargs):
    """The mesh that types refer to here: the current one, else that of the arguments."""
    mesh = get_abstract_mesh()
    if mesh.empty:
        explicit = next(
            (
                c
                for c in (aval_of(x).explicit_sharding for x in _tree.leaves((args, kwargs)))
                if c is not None
            ),
            None,
        )
        mesh = explicit.mesh if explicit is not None else mesh
    return mesh


def _with_types(mesh, axes, kind):
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    for name in names:
        if name not in mesh.axis_names:
            raise KeyError(f"{name!r} is not an axis of the mesh, which has {mesh.axis_names}")
    return mesh.update_axis_types(dict.fromkeys(names, kind))


def _entering(x, mesh):
    """A value in a region: it keeps its sharding along axes that are Explicit there."""
    aval = aval_of(x)
    explicit = mesh.explicit_axes
    dim_axes = [
        tuple(
            a
            for a in (
                aval.explicit_sharding.spec.axes_of(d) if aval.explicit_sharding is not None else ()
            )
            if a in explicit
        )
        for d in range(aval.ndim)
    ]
    return bind_reshard(x, NamedSharding(mesh, PartitionSpec(*dim_axes)))


def _run(programs, key, run, f, args, kwargs):
    """The region inline in a program that is being traced; eagerly as one program of its own, kept in `programs`."""
    if state.trace is not EVAL:
        return run(args, kwargs)
    leaves, treedef = _tree.flatten(key, is_leaf=_is_spec)
    key = (tuple(leaves), treedef)
    if key not in programs:
        programs[key] = jit(run, name=function_name(f))
    return programs[key](args, kwargs)


costs.register(costs.moves, reshard_p)
