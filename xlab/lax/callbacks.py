"""Calling Python from programs: `pure_callback` and `io_callback`.

In a compiled program a callback is a call back into this process, once per run (or once per device where the program is
written per device); eagerly it is an ordinary call. Callbacks for the user's eyes are in `debugging.py`, and both leave
the program through `emit_python_callback`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile.effects import runtime_tokens
from xlab.compile.runtime_checks import check_eager
from xlab.config import config
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray, value_and_type
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.callback_calls import (
    FlatCallback,
    arguments,
    call_eagerly,
    emit_python_callback,
    results,
)
from xlab.sharding import SingleDeviceSharding

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
    None,
)


def pure_callback(
    callback: Callable,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function without side effects from inside a program.

    The function may run any number of times, or not at all when its results are unused. Derivatives need
    `custom_jvp` or `custom_vjp` around it.

    Args:
        callback: takes arrays like `args` and `kwargs`, returns arrays of the shapes and dtypes of `result_shape_dtypes`.
        result_shape_dtypes: a pytree of objects with `shape` and `dtype`, such as `xlab.ShapeDtypeStruct`.
        args, kwargs: pytrees of arrays for the callback.
        sharding: a `SingleDeviceSharding` that says where a program on several devices makes the call.
        vmap_method: how vmap calls it: 'sequential' (once per example), 'sequential_unrolled', 'expand_dims' (once, with a
            leading axis of size 1 on what is not mapped), 'broadcast_all' (once, everything with the mapped axis), or
            'legacy_vectorized' (once, unmapped arguments as they are). None: vmap is an error.

    Example:
        >>> import numpy as np, xlab
        >>> import xlab.numpy as jnp
        >>> f = xlab.jit(lambda x: xlab.pure_callback(np.sort, xlab.ShapeDtypeStruct(x.shape, x.dtype), x))
        >>> print(f(jnp.array([3, 1, 2])))
        [1 2 3]
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {list(VMAP_METHODS)}, but got: {vmap_method}"
        )
    flat, in_tree = _tree.flatten((args, kwargs))
    result_avals, out_tree = result_types(result_shape_dtypes)
    outs = pure_callback_p.bind(
        *flat,
        callback=FlatCallback(callback, in_tree, "pure_callback"),
        result_avals=result_avals,
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return _tree.unflatten(out_tree, outs)


def io_callback(
    callback: Callable, result_shape_dtypes, *args, sharding=None, ordered: bool = False, **kwargs
):
    """Calls a Python function with side effects from inside a program, every time this point is reached.

    Args:
        callback: takes arrays like `args` and `kwargs`, returns arrays of the shapes and dtypes of `result_shape_dtypes`.
        result_shape_dtypes: a pytree of objects with `shape` and `dtype`; None for a callback that returns None.
        sharding: a `SingleDeviceSharding` that says where a program on several devices makes the call.
        ordered: calls happen in program order, also from one program to the next.

    Example:
        >>> import xlab
        >>> from xlab.experimental import io_callback
        >>> seen = []
        >>> @xlab.jit
        ... def f(x):
        ...     io_callback(lambda v: seen.append(float(v)), None, x, ordered=True)
        ...     io_callback(lambda v: seen.append(float(v)), None, x + 1, ordered=True)
        >>> f(1.0)
        >>> xlab.effects_barrier()
        >>> seen
        [1.0, 2.0]
    """
    flat, in_tree = _tree.flatten((args, kwargs))
    result_avals, out_tree = result_types(result_shape_dtypes)
    outs = io_callback_p.bind(
        *flat,
        callback=FlatCallback(callback, in_tree, "io_callback"),
        result_avals=result_avals,
        sharding=sharding,
        ordered=bool(ordered),
    )
    return _tree.unflatten(out_tree, outs)


def result_types(result_shape_dtypes):
    """Flat types of the described results, and their structure."""
    leaves, out_tree = _tree.flatten(result_shape_dtypes)
    avals = []
    for x in leaves:
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise AttributeError(
                f"result_shape_dtypes holds {value_and_type(x)}, which has no shape and dtype: describe "
                f"each result with xlab.ShapeDtypeStruct(shape, dtype)"
            )
        if dtypes.is_extended(x.dtype):
            raise TypeError(
                f"a callback cannot return random keys ({x.dtype}): return their bits and wrap them with "
                f"xlab.random.wrap_key_data"
            )
        dtype = np.dtype(x.dtype)
        if not config.enable_x64 and dtype != dtypes.canonicalize_dtype(dtype):
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled"
            )
        avals.append(ShapedArray(tuple(x.shape), dtype))
    return tuple(avals), out_tree


def _on_one_device(sharding) -> None:
    if sharding is not None and not isinstance(sharding, SingleDeviceSharding):
        raise NotImplementedError(
            f"pure_callback only supports SingleDeviceSharding, but got {type(sharding)}: one device makes the call"
        )


# -- pure_callback ----------------------------------------------------------------------------------------

pure_callback_p = Primitive(
    "pure_callback", multiple_results=True, auto_pvary=False, context_dependent=True
)
pure_callback_p.def_abstract_eval(lambda *avals, result_avals, **_: result_avals)


@pure_callback_p.def_impl
def _pure_impl(*args, callback, result_avals, sharding, **_):
    outs = call_eagerly(callback, arguments(args), result_avals)
    return check_eager("pure_callback", results(outs, result_avals, sharding))


def _pure_jvp(*_, **__):
    raise ValueError(
        "Pure callbacks do not support JVP. Please use `xlab.custom_jvp` to use callbacks while taking gradients."
    )


def _pure_transpose(*_, **__):
    raise ValueError(
        "Pure callbacks do not support transpose. Please use `xlab.custom_vjp` to use callbacks while taking gradients."
    )


ad.primitive_jvps[pure_callback_p] = _pure_jvp
ad.primitive_transposes[pure_callback_p] = _pure_transpose


def _pure_batch(axis, args, dims, *, vmap_method, result_avals, **params):
    if vmap_method is None:
        raise NotImplementedError(
            "vmap is only supported for the pure_callback primitive when vmap_method is one of 'sequential', "
            "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'. Got "
            "vmap_method=None."
        )
    params = {**params, "vmap_method": vmap_method}
    return batch_callback(pure_callback_p, axis, args, dims, vmap_method, result_avals, params)


def batch_callback(prim, axis, args, dims, vmap_method, result_avals, params):
    """The batching rule of callbacks and foreign calls, by `vmap_method`."""
    if vmap_method.startswith("sequential"):
        unroll = axis.size if vmap_method == "sequential_unrolled" else 1
        return _one_by_one(prim, axis, args, dims, {**params, "result_avals": result_avals}, unroll)
    wide = tuple(a.update(shape=(axis.size, *a.shape)) for a in result_avals)
    new = []
    for x, d in zip(args, dims):
        if d is not None:
            new.append(batching.moveaxis(x, d, 0))
        elif vmap_method == "legacy_vectorized":
            new.append(x)
        else:
            new.append(batching.broadcast(x, axis.size if vmap_method == "broadcast_all" else 1, 0))
    outs = prim.bind(*new, result_avals=wide, **params)
    return outs, [0] * len(outs)


def _one_by_one(prim, axis, args, dims, params, unroll=1):
    from xlab.lax.control import scan

    mapped = [batching.moveaxis(x, d, 0) for x, d in zip(args, dims) if d is not None]

    def body(_, given):
        given = iter(given)
        return None, prim.bind(
            *(x if d is None else next(given) for x, d in zip(args, dims)), **params
        )

    _, outs = scan(body, None, mapped, length=axis.size, unroll=unroll)
    return outs, [0] * len(outs)


batching.axis_primitive_batchers[pure_callback_p] = _pure_batch


def _pure_lowering(ctx, *args, callback, sharding, result_avals, **_):
    _on_one_device(sharding)
    return emit_python_callback(ctx, callback, args, has_side_effect=False, sharding=sharding)


mlir.register_text_lowering(pure_callback_p, _pure_lowering)


# -- io_callback ------------------------------------------------------------------------------------------

io_callback_p = Primitive(
    "io_callback", multiple_results=True, auto_pvary=False, context_dependent=True
)


@io_callback_p.def_effectful_abstract_eval
def _io_aval(*avals, result_avals, ordered, **_):
    return result_avals, {_effects.ordered_io_effect if ordered else _effects.io_effect}


@io_callback_p.def_impl
def _io_impl(*args, callback, result_avals, ordered, sharding):
    if ordered:
        runtime_tokens.wait_for(_effects.ordered_io_effect)
    outs = call_eagerly(callback, arguments(args), result_avals)
    return check_eager("io_callback", results(outs, result_avals, sharding))


def _io_jvp(*_, **__):
    raise ValueError(
        "IO callbacks do not support JVP: a side effect has no derivative. Give it lax.stop_gradient(x), or wrap the "
        "function in custom_jvp."
    )


def _io_transpose(*_, **__):
    raise ValueError("IO callbacks do not support transpose.")


ad.primitive_jvps[io_callback_p] = _io_jvp
ad.primitive_transposes[io_callback_p] = _io_transpose


def _io_batch(axis, args, dims, *, ordered, **params):
    if ordered:
        raise ValueError(
            "Cannot `vmap` ordered IO callback. The examples of a batch have no order: map with lax.map, or leave "
            "ordered=True out."
        )
    return _one_by_one(io_callback_p, axis, args, dims, {**params, "ordered": False})


batching.axis_primitive_batchers[io_callback_p] = _io_batch


def _io_lowering(ctx, *args, callback, sharding, ordered, **_):
    _on_one_device(sharding)
    return emit_python_callback(
        ctx,
        callback,
        args,
        effect=_effects.ordered_io_effect if ordered else None,
        has_side_effect=True,
        sharding=sharding,
    )


mlir.register_text_lowering(io_callback_p, _io_lowering)
mlir.lowered_with_devices |= {pure_callback_p, io_callback_p}

costs.register(costs.host, pure_callback_p, io_callback_p)
