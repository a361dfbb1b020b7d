"""Casts between manual axis types (varying, invarying, unreduced, reduced), without moving data.

Over each mesh axis a value inside `shard_map` is *varying* (V: each device has its own), *invarying* (I: all equal), *unreduced* (U: the
devices hold summands) or *reduced* (R: all equal, and its cotangent is unreduced). Casts transpose to each other or to sums.
"""

from __future__ import annotations

from typing import Any

from xlab import tree as _tree
from xlab.core import trace as _trace
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.trace import state
from xlab.core.typing import AxisName
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.lojax import recast
from xlab.lax.collectives.common import AxisPrimitive, mat_of, refuse_unfinished, vma_state
from xlab.sharding import get_abstract_mesh

__all__ = ["pcast"]


def pcast(x: Any, axis_name: AxisName, *, to: str) -> Any:
    """Declares that a value varies (`to='varying'`), is a summand (`'unreduced'`) or is reduced (`'reduced'`) over mesh axes.

    No data moves; what changes is the type, and with it what the transpose does.

    Args:
        x: array or pytree inside `shard_map`.
        axis_name: a mesh axis or a tuple of them.
        to: 'varying' (from invarying or reduced), 'unreduced' (from varying) or 'reduced' (from invarying).

    Example:
        >>> import xlab
        >>> from xlab.sharding import PartitionSpec as P
        >>> f = xlab.shard_map(lambda x: xlab.lax.pcast(x, "i", to="varying"), mesh=xlab.make_mesh((1,), ("i",), axis_types=xlab.sharding.AxisType.Auto),
        ...                    in_specs=P(), out_specs=P("i"))
        >>> print(f(xlab.lax.full((2,), 3.0)))
        [3. 3.]
    """
    axes = _axes("pcast", axis_name)
    if not axes:
        return x
    if to not in ("unreduced", "reduced", "varying"):
        raise ValueError(
            f"Got unexpected `to` value {to!r}. Allowed `to` values are: {{'unreduced', 'reduced', 'varying'}}"
        )
    if not _inside("pcast", axes):
        return x
    axes = _in_mesh_order(axes)

    def leaf(v):
        source = vma_state("pcast", v, axes)
        prim = _CASTS.get((source, to))
        if prim is None:
            raise ValueError(
                f"Unsupported pcast from={source}, to={to!r} of a value of type {v.aval if hasattr(v, 'aval') else v}. "
                f"Possible are {', '.join(f'{a} to {b}' for a, b in _CASTS)}"
            )
        return prim.bind(v, axes=axes)

    return _tree.map(leaf, x)


def pvary(x, axis_name):
    """Declares that an invarying (or reduced) value varies over mesh axes; axes over which it varies already are an error."""
    axes = _axes("pvary", axis_name)
    if not axes or not _inside("pvary", axes):
        return x
    axes = _in_mesh_order(axes)
    return _tree.map(lambda v: pvary_p.bind(v, axes=axes), x)


def preduced(x, axis_name):
    """Marks an invarying value as reduced: its cotangent stays a sum of summands until it leaves."""
    axes = _axes("preduced", axis_name)
    return (
        _tree.map(lambda v: preduced_p.bind(v, axes=_in_mesh_order(axes)), x)
        if axes and _inside("preduced", axes)
        else x
    )


def vary_unreduced_cast(x, axis_name):
    """Declares that the varying values are the summands of one value."""
    axes = _axes("vary_unreduced_cast", axis_name)
    if not axes or not _inside("vary_unreduced_cast", axes):
        return x
    return _tree.map(lambda v: vary_unreduced_cast_p.bind(v, axes=_in_mesh_order(axes)), x)


def reduced_vary_cast(x, axis_name):
    """A reduced value as a varying one."""
    axes = _axes("reduced_vary_cast", axis_name)
    if not axes or not _inside("reduced_vary_cast", axes):
        return x
    return _tree.map(lambda v: reduced_vary_cast_p.bind(v, axes=_in_mesh_order(axes)), x)


def _axes(api: str, axis_name) -> tuple:
    """The mesh axes of a cast as a tuple."""
    if isinstance(axis_name, (set, frozenset, list)):
        kind = "list" if isinstance(axis_name, list) else "set"
        raise TypeError(f"{api} takes one axis name or a tuple of them, got the {kind} {axis_name}")
    axes = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{api} got a repeated axis in {axes}: each axis may be named once")
    if any(type(a) is int for a in axes):
        raise NotImplementedError(f"{api} works on mesh axes, not on array axes: got {axes}")
    return axes


def vary(x, axes):
    """Casts a value to vary over more axes; inserted where operands are joined."""
    mat = mat_of(x)
    if type(aval_of(x)) is not ShapedArray:  # a token has no data that could vary
        return x
    reduced = tuple(a for a in axes if a in mat.reduced)
    missing = tuple(a for a in axes if a not in mat.reduced and a not in mat.varying)
    if reduced:
        x = reduced_vary_cast_p.bind(x, axes=_in_mesh_order(reduced))
    return pvary_p.bind(x, axes=_in_mesh_order(missing)) if missing else x


def match(x, mat):
    """Casts an invarying value to the manual axis type of another."""
    have = mat_of(x)
    if have == mat:
        return x
    x = vary(x, tuple((mat.varying | mat.unreduced) - have.varying - have.unreduced))
    unreduced = tuple(mat.unreduced - have.unreduced)
    if unreduced:
        x = vary_unreduced_cast_p.bind(x, axes=_in_mesh_order(unreduced))
    reduced = tuple(mat.reduced - have.reduced)
    return preduced_p.bind(x, axes=_in_mesh_order(reduced)) if reduced else x


def _inside(api: str, axes) -> bool:
    """Whether types vary here; ValueError outside of `shard_map`."""
    if state.manual_mesh is None:
        raise ValueError(
            f"{api} should be called under shard_map, which binds the mesh axes {axes}"
        )
    for a in axes:
        _trace.find_axis(a, api)
    return state.manual is not None


def _in_mesh_order(axes) -> tuple:
    mesh = state.manual_mesh
    if mesh is None or len(axes) < 2:
        return tuple(axes)
    return tuple(
        sorted(axes, key=lambda a: mesh.axis_names.index(a) if a in mesh.axis_names else -1)
    )


class CastPrimitive(AxisPrimitive):
    """A cast over mesh axes. Types refer to them inside of `shard_map`, and where a mesh with Explicit axes is set."""

    def unbound(self, name):
        """What happens where an axis is not bound."""
        if name not in get_abstract_mesh().axis_names:
            _inside(self.name, (name,))


def _cast(name: str, change):
    prim = CastPrimitive(name, auto_pvary=False)

    @prim.def_abstract_eval
    def aval(x, *, axes):
        if any(type(a) is int for a in axes):
            raise NotImplementedError(f"{name} works on mesh axes, not on array axes: got {axes}")
        return x.update(mat=change(x, frozenset(axes)))

    batching.defvectorized(prim)
    mlir.register_text_lowering(prim, lambda ctx, x, *, axes: x)
    return prim


def _need(api, x, axes, have, what):
    wrong = axes - have
    if wrong:
        raise ValueError(
            f"{api} needs a value that is {what} over {tuple(sorted(map(str, axes)))}, got {x}, which is not "
            f"{what} over {tuple(sorted(map(str, wrong)))}"
        )


def _pvary_mat(x, axes):
    refuse_unfinished("pvary", x, axes)
    if axes & x.mat.varying:
        raise ValueError(
            f"pvary over {tuple(sorted(map(str, axes)))} of a value of type {x}, which varies over "
            f"{tuple(sorted(map(str, axes & x.mat.varying)))} already"
        )
    return x.mat.update(varying=x.mat.varying | axes)


def _preduced_mat(x, axes):
    if axes & (x.mat.varying | x.mat.unreduced | x.mat.reduced):
        raise ValueError(
            f"a value becomes reduced only over axes over which all its copies are equal: got {x} and axes "
            f"{tuple(sorted(map(str, axes)))}"
        )
    return x.mat.update(reduced=x.mat.reduced | axes)


def _to_unreduced_mat(x, axes):
    refuse_unfinished("vary_unreduced_cast", x, axes)
    _need("vary_unreduced_cast", x, axes, x.mat.varying, "varying")
    return x.mat.update(varying=x.mat.varying - axes, unreduced=x.mat.unreduced | axes)


def _from_reduced_mat(x, axes):
    _need("reduced_vary_cast", x, axes, x.mat.reduced, "reduced")
    return x.mat.update(reduced=x.mat.reduced - axes, varying=x.mat.varying | axes)


pvary_p = _cast("pvary", _pvary_mat)
preduced_p = _cast("preduced", _preduced_mat)
vary_unreduced_cast_p = _cast("vary_unreduced_cast", _to_unreduced_mat)
reduced_vary_cast_p = _cast("reduced_vary_cast", _from_reduced_mat)


def _left_of_pvary(x, params):
    # An array out of a value of a hi type whose type does not say over which axes it varies.
    axes = tuple(a for a in params["axes"] if a not in aval_of(x).mat.varying)
    return {"axes": axes} if axes else None


recast[pvary_p] = _left_of_pvary

_CASTS = {
    ("invarying", "varying"): pvary_p,
    ("invarying", "reduced"): preduced_p,
    ("varying", "unreduced"): vary_unreduced_cast_p,
    ("reduced", "varying"): reduced_vary_cast_p,
}

# The transposes of the first two are sums and stand in psum.py.
ad.deflinear2(pvary_p)
ad.deflinear2(preduced_p)
ad.deflinear2(
    vary_unreduced_cast_p, lambda ct, x, *, axes: [reduced_vary_cast_p.bind(ct, axes=axes)]
)
ad.deflinear2(
    reduced_vary_cast_p,
    lambda ct, x, *, axes: [vary_unreduced_cast_p.bind(vary(ct, axes), axes=axes)],
)

_trace.set_pvary(vary, match)

costs.register(costs.free, pvary_p, preduced_p, vary_unreduced_cast_p, reduced_vary_cast_p)
