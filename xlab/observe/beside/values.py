"""JAX's types, shardings, parameters and arrays as ours."""

from __future__ import annotations

import dataclasses
import enum
import importlib
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import TOKEN, ManualAxisType, ShapedArray
from xlab.observe.beside.recognize import is_theirs, jax
from xlab.parallel.put import device_put
from xlab.random.bits import implementations
from xlab.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

_HOMES = ("xlab.lax", "xlab.random", "xlab.numpy", "xlab.lax.control.linear_solve")


class Untranslatable(TypeError):
    """Something of JAX's that has nothing like it here; its equation stays JAX's own."""


def dtype(d: Any) -> Any:
    """A dtype; keys by the name of their implementation.

    Raises:
        Untranslatable: an extended type that we do not have.
    """
    if hasattr(d, "_impl"):
        found = implementations.get(d._impl.name)
        if found is None:
            raise Untranslatable(f"keys of implementation {d._impl.name!r}")
        return found.dtype
    if isinstance(d, np.dtype):
        return dtypes.float0 if d == jax().dtypes.float0 else d
    raise Untranslatable(f"the type {d}")


def aval(a: Any) -> Any:
    """A type of a value."""
    if type(a).__name__ == "AbstractToken":
        return TOKEN
    if not hasattr(a, "shape") or not hasattr(a, "dtype") or type(a).__name__ != "ShapedArray":
        raise Untranslatable(f"a value of type {a}")
    if not all(isinstance(n, int) for n in a.shape):
        raise Untranslatable(f"the symbolic shape {a.shape}")
    laid = getattr(a, "sharding", None)
    explicit = None
    if laid is not None and any(t.name == "Explicit" for t in laid.mesh.axis_types):
        explicit = sharding(laid)
    mat = getattr(a, "mat", None)
    varying = getattr(a, "vma", None) or getattr(mat, "varying", ())
    made = {"mat": ManualAxisType(
        varying, getattr(mat, "unreduced", ()), getattr(mat, "reduced", ()))} if varying or mat else {}  # fmt: skip
    return ShapedArray(
        tuple(a.shape),
        dtype(a.dtype),
        bool(getattr(a, "weak_type", False)),
        sharding=explicit,
        **made,
    )


def mesh(m: Any) -> Any:
    """A mesh over JAX's own devices, or an abstract one."""
    kinds = tuple(AxisType[t.name] for t in m.axis_types)
    if type(m).__name__ == "Mesh":
        return Mesh(m.devices, m.axis_names, axis_types=kinds)
    return AbstractMesh(tuple(m.axis_sizes), tuple(m.axis_names), axis_types=kinds)


def spec(s: Any) -> PartitionSpec:
    """A partition spec."""
    free = jax().sharding.PartitionSpec.UNCONSTRAINED
    entries = [PartitionSpec.UNCONSTRAINED if e is free else e for e in s]
    named = {k: frozenset(getattr(s, k)) for k in ("unreduced", "reduced") if getattr(s, k, None)}
    return PartitionSpec(*entries, **named)


def sharding(s: Any) -> Any:
    """A sharding; None where JAX left it open."""
    kind = type(s).__name__
    if s is None or kind in ("UnspecifiedValue", "AUTO"):
        return None
    memory = getattr(s, "memory_kind", None)
    if kind == "NamedSharding":
        return NamedSharding(
            mesh(s.mesh), spec(s.spec), memory if memory not in (None, "device") else None
        )
    if kind == "SingleDeviceSharding":
        return SingleDeviceSharding(next(iter(s.device_set)))
    raise Untranslatable(f"a sharding of class {kind}")


def param(value: Any) -> Any:
    """A parameter that holds no program.

    Raises:
        Untranslatable: an object of JAX's that has nothing like it here.
    """
    kind = type(value)
    if isinstance(value, enum.Enum) and _is_jaxs(kind):
        ours = _class(kind.__name__)
        found = getattr(ours, value.name, None)
        if found is not None:
            return found
        raise Untranslatable(f"{kind.__name__}.{value.name}")
    if kind in (list, tuple):
        return kind(map(param, value))
    if isinstance(value, dict):
        return {k: param(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if _is_jaxs(kind):
            return _class(kind.__name__)(*map(param, value))
        return kind(*map(param, value))
    if isinstance(value, np.integer):
        return int(value)
    if not _is_jaxs(kind):
        return array(value) if is_theirs(value) else value
    name = kind.__name__
    if name == "ShapedArray":
        return aval(value)
    if name == "PRNGImpl":
        return implementations[value.name]
    if name in ("UnspecifiedValue", "NamedSharding", "SingleDeviceSharding"):
        return sharding(value)
    if name in ("Mesh", "AbstractMesh"):
        return mesh(value)
    if isinstance(value, jax().sharding.PartitionSpec):
        return spec(value)
    if name == "TypedNdArray":
        return np.asarray(value)
    if dataclasses.is_dataclass(value):
        ours = _class(name)
        return ours(**{f.name: param(getattr(value, f.name)) for f in dataclasses.fields(value)})
    raise Untranslatable(f"a parameter of class {kind.__module__}.{name}")


def _is_jaxs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "jax"


def _class(name: str) -> Any:
    for home in _HOMES:
        found = getattr(importlib.import_module(home), name, None)
        if found is not None:
            return found
    raise Untranslatable(f"the class {name}")


def array(x: Any) -> Any:
    """An array of JAX's as one of ours with the same values on the same devices, or host data where that is not one sharding."""
    if type(x).__name__ == "PRNGKeyArray":
        words = array(jax().random.key_data(x))
        return KeyArray(words, dtype(x.dtype))
    if not is_theirs(x):
        return x
    if x.is_deleted():
        raise RuntimeError(
            f"an array of type {x.dtype}{list(x.shape)} was donated or deleted: its values are gone"
        )
    try:
        where = sharding(x.sharding)
    except Untranslatable:
        where = None
    if x.dtype == jax().dtypes.float0:
        return np.zeros(x.shape, dtypes.float0)
    if where is None:
        return np.asarray(x)
    # What nobody has placed is moved to where a program runs, as by JAX.
    return device_put(np.asarray(x), where if x.committed else None)


def back(x: Any) -> Any:
    """An array of ours as one of JAX's, where JAX puts it by default."""
    if isinstance(x, KeyArray):
        found = jax()
        return found.random.wrap_key_data(back(x.base), impl=x.dtype.impl.name)
    return jax().numpy.asarray(np.asarray(x))


def ours(kind: type) -> Any:
    """Our class for a named tuple of JAX's; the user's own for another."""
    return _class(kind.__name__) if _is_jaxs(kind) else lambda *parts: kind(*parts)


def laid_out(what: Any, shape: Any, element: Any) -> tuple[Any, Any, Any]:
    """An array or a sharding of JAX's as a sharding of ours with a shape and a dtype; anything else as it is."""
    found = jax()
    if found is None:
        return what, shape, element
    if is_theirs(what):
        return sharding(what.sharding), tuple(what.shape), dtype(what.dtype)
    if isinstance(what, found.sharding.Sharding) and not isinstance(what, Sharding):
        return sharding(what), shape, element
    if isinstance(what, found.sharding.PartitionSpec):
        return spec(what), shape, element
    return what, shape, element
