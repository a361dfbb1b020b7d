"""`shard_map` of functions of values of hi types: their arrays are sharded, and each device has the value of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.hi_types import HiPspec, HiType, as_value, in_use, is_high, lower
from xlab.parallel.manual import is_spec
from xlab.sharding import PartitionSpec


def is_any_spec(x: Any) -> bool:
    """Whether a node is a leaf in a pytree of specs."""
    return isinstance(x, HiPspec) or is_spec(x)


def has_hi_specs(*specs: Any) -> bool:
    """Whether some of these pytrees of specs say how values of hi types lie."""
    return any(isinstance(s, HiPspec) for s in _tree.leaves(specs, is_leaf=is_any_spec))


def has_hi_values(args: Any) -> bool:
    """Whether some arguments are values of hi types."""
    return in_use.types and any(is_high(aval_of(x)) for x in _tree.leaves(args))


def on_arrays(shard_map: Callable, f: Callable, in_specs: Any, out_specs: Any) -> Callable:
    """The mapped function; `shard_map(body, in_specs, out_specs)(args)` maps one of arrays, where `out_specs` is a function."""

    def call(*args):
        leaves, in_tree = _tree.flatten(args)
        specs = _tree.flatten_prefix("shard_map in_specs", in_specs, args, is_leaf=is_any_spec)
        types = list(map(aval_of, leaves))
        found: dict[str, Any] = {}

        def body(*parts):
            values = [_whole(p, t) for p, t in zip(parts, types)]
            result = f(*_tree.unflatten(in_tree, values))
            outs, found["tree"] = _tree.flatten(result)
            given = _tree.flatten_prefix(
                "shard_map out_specs", out_specs, result, is_leaf=is_any_spec
            )
            found["types"] = list(map(aval_of, outs))
            found["specs"] = tuple(map(_specs, given, found["types"]))
            return tuple(map(_parts, outs, found["types"]))

        body.__name__ = getattr(f, "__name__", "body")
        mapped = shard_map(body, tuple(map(_specs, specs, types)), lambda: found["specs"])
        outs = mapped(tuple(map(_parts, leaves, types)))
        return _tree.unflatten(found["tree"], list(map(_whole, outs, found["types"])))

    return call


def _specs(spec: Any, ty: Any) -> tuple:
    n = len(ty.lo_ty())
    if isinstance(spec, HiPspec) and not is_high(ty):
        raise TypeError(
            f"shard_map got the spec {spec!r} for an array of type {ty}: it is for values of a hi type, arrays take a PartitionSpec"
        )
    specs = tuple(spec.to_lo()) if isinstance(spec, HiPspec) else (spec,) * n
    if len(specs) != n or not all(isinstance(s, PartitionSpec) for s in specs):
        raise TypeError(
            f"shard_map needs a PartitionSpec for each of the {n} arrays of a value of type {ty}, got {specs!r} from {spec!r}"
        )
    return specs


def _parts(x: Any, ty: Any) -> tuple:
    return tuple(lower(x, ty)) if isinstance(ty, HiType) else (x,)


def _whole(parts: Any, ty: Any) -> Any:
    return as_value(ty.raise_val(*parts)) if isinstance(ty, HiType) else parts[0]
