"""`buffer_callback`: a Python function that writes its results into the memory of the program, without copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import tree as _tree
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.callback_calls import FlatCallback, _called, _failed, _layout
from xlab.lax.callbacks import batch_callback, result_types


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: dict[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable:
    """A function that calls Python with the buffers of a program.

    Args:
        callback: `callback(ctx, out, *args, **kwargs)`: `ctx` says the stage of the call, `out` is the tree of results and `args` the
            operands, all as buffers, which `np.asarray` looks into without a copy. It writes the results and returns nothing.
            Buffers are gone after the call.
        result_shape_dtypes: a pytree of `ShapeDtypeStruct`s: what is to be written.
        has_side_effect: whether the call stays where its results are not used.
        vmap_method: how `vmap` maps it, as for `pure_callback`.
        input_output_aliases: from the number of an operand to that of the result that shares its memory: the result begins as it.
        command_buffer_compatible: whether calls on GPUs may be recorded; has no effect on CPU.

    Returns:
        A function of the operands, pytrees of arrays.

    Raises:
        ValueError: if aliased operands and results differ in type, and by derivatives: those need a custom rule.

    Example:
        >>> import numpy as np, xlab, xlab.numpy as jnp
        >>> def double(ctx, out, x):
        ...     np.asarray(out)[...] = 2 * np.asarray(x)
        >>> f = buffer_callback(double, xlab.ShapeDtypeStruct((3,), np.float32))
        >>> xlab.jit(f)(jnp.arange(3.)).tolist()
        [0.0, 2.0, 4.0]
    """
    if not callable(callback):
        raise TypeError(f"buffer_callback takes a function, got {callback!r}")
    avals, out_tree = result_types(result_shape_dtypes)

    def call(*args, **kwargs):
        flat, in_tree = _tree.flatten((args, kwargs))
        aliases = tuple((input_output_aliases or {}).items())
        for i, o in aliases:
            if not (0 <= i < len(flat) and 0 <= o < len(avals)):
                raise ValueError(
                    f"buffer_callback: input_output_aliases names operand {i} and result {o}, of {len(flat)} and {len(avals)}"
                )
            given = aval_of(flat[i])
            if (given.shape, given.dtype) != (avals[o].shape, avals[o].dtype):
                raise ValueError(
                    f"buffer_callback: operand {i} of type {given} cannot share its memory with result {o} of type {avals[o]}"
                )
        outs = buffer_callback_p.bind(
            *flat,
            callback=callback,
            result_avals=avals,
            in_tree=in_tree,
            out_tree=out_tree,
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
            input_output_aliases=aliases,
            command_buffer_compatible=bool(command_buffer_compatible),
        )
        return _tree.unflatten(out_tree, outs)

    return call


buffer_callback_p = Primitive(
    "buffer_callback", multiple_results=True, auto_pvary=False, context_dependent=True
)


@buffer_callback_p.def_effectful_abstract_eval
def _aval(*avals, result_avals, has_side_effect, **_):
    return result_avals, {_effects.io_effect} if has_side_effect else _effects.NO_EFFECTS


def _jvp(*_, **__):
    raise ValueError(
        "Buffer callbacks do not support JVP. Please use `xlab.custom_jvp` to use callbacks while taking gradients."
    )


def _transpose(*_, **__):
    raise ValueError(
        "Buffer callbacks do not support transpose. Please use `xlab.custom_vjp` to use callbacks while taking gradients."
    )


def _batch(axis, args, dims, *, vmap_method, result_avals, **params):
    if vmap_method is None:
        raise NotImplementedError(
            "vmap is only supported for the buffer_callback primitive when vmap_method is one of 'sequential', "
            "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'. Got vmap_method=None."
        )
    params = {**params, "vmap_method": vmap_method}
    return batch_callback(buffer_callback_p, axis, args, dims, vmap_method, result_avals, params)


class _BufferCall:
    """What the compiled program calls, with the buffers of operands and results."""

    __slots__ = ("callback", "continues_after_failure", "failures", "in_tree", "joint", "out_tree", "where")  # fmt: skip

    def __init__(self, callback, in_tree, out_tree, where):
        self.callback, self.in_tree, self.out_tree, self.where = callback, in_tree, out_tree, where
        self.joint, self.continues_after_failure, self.failures = False, False, []

    def __call__(self, ctx, *buffers):
        # Operands come first, then results.
        n = len(buffers) - self.out_tree.num_leaves
        args, kwargs = _tree.unflatten(self.in_tree, buffers[:n])
        try:
            with _called(self.joint):
                self.callback(ctx, _tree.unflatten(self.out_tree, buffers[n:]), *args, **kwargs)
        except Exception as e:
            flat = FlatCallback(self.callback, self.in_tree, "buffer_callback")
            short, long = _failed(flat, self.where, e)
            raise RuntimeError(f"{short}\n{long}") from None


def _lowering(ctx, *args, callback, in_tree, out_tree, has_side_effect, input_output_aliases, **_):
    if ctx.module.devices > 1 and not ctx.manual:
        raise NotImplementedError(
            "buffer_callback in a program of several devices: call it in shard_map, where each device has its own buffers"
        )
    index = len(ctx.module.callbacks)
    ctx.module.callbacks.append(_BufferCall(callback, in_tree, out_tree, str(ctx.eqn.source_info)))
    types_in, types_out = (
        [mlir.tensor_type(a) for a in avals] for avals in (ctx.avals_in, ctx.avals_out)
    )
    layouts = [", ".join(_layout(a.ndim) for a in avals) for avals in (ctx.avals_in, ctx.avals_out)]
    several = len(types_out) != 1
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if several else ''}], operand_index = {i}, operand_tuple_indices = []>"
        for i, o in input_output_aliases
    )
    results = ", ".join(types_out)
    return ctx.ops(
        f"stablehlo.custom_call @xla_buffer_python_cpu_callback({', '.join(args)}) {{api_version = 4 : i32, "
        f"has_side_effect = {'true' if has_side_effect else 'false'}, backend_config = {{index = {index} : ui64}}, "
        f"operand_layouts = [{layouts[0]}], result_layouts = [{layouts[1]}]"
        f"{f', output_operand_aliases = [{aliases}]' if aliases else ''}}} : "
        f"({', '.join(types_in)}) -> {f'({results})' if several else results}",
        len(types_out),
    )


ad.primitive_jvps[buffer_callback_p] = _jvp
ad.primitive_transposes[buffer_callback_p] = _transpose
batching.axis_primitive_batchers[buffer_callback_p] = _batch
mlir.register_text_lowering(buffer_callback_p, _lowering)

__all__ = ["buffer_callback"]

costs.register(costs.host, buffer_callback_p)
