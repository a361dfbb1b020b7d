"""`composite`: a named operation that compilers may know, with a decomposition for those that do not."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.array import is_native_array
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import Tracer
from xlab.errors import UnexpectedTracerError
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.interpreters.mlir.values import dense_text, escape, scalar_text
from xlab.lax.control.common import args_tree, trace_body
from xlab.lax.hashable import HashableArray

__all__ = ["composite", "composite_p"]


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """A function that becomes one named operation; compilers that do not know the name run `decomposition`.

    Args:
        decomposition: the meaning. Positional arguments are operands, keyword arguments attributes: numbers, strings, NumPy arrays
            or tuples of these. Attributes that are None are left out of the operation.
        name: of the operation, usually with a namespace, as `"my.square"`.
        version: of its meaning.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> square = lax.composite(lambda x: x * x, name="my.square")
        >>> float(square(3.0)), "stablehlo.composite" in xlab.jit(square).lower(3.0).as_text()
        (9.0, True)
    """

    @functools.wraps(decomposition)
    def composed(*args, **attributes):
        flat, in_tree = args_tree(*args)
        kept = tuple(_attribute(name, k, v) for k, v in attributes.items())
        closed, consts, out_tree = trace_body(
            functools.partial(decomposition, **attributes), in_tree, [aval_of(x) for x in flat]
        )
        if any(isinstance(c, Tracer) for c in consts):
            raise _known_only(name, "as a constant")
        outs = composite_p.bind(
            *consts, *flat, name=name, attributes=kept, version=version, jaxpr=closed
        )
        return _tree.unflatten(out_tree, outs)

    return composed


def _known_only(name, role):
    return UnexpectedTracerError(
        f"Found a tracer {role} in the decomposition for the composite op {name!r}: the decomposition uses a value that a transformation "
        f"such as jit or grad stands a tracer for. Pass it as a positional argument; attributes are numbers, strings or NumPy arrays"
    )


def _attribute(name, key, value):
    leaves, structure = _tree.flatten(value)
    if any(isinstance(v, Tracer) for v in leaves):
        raise _known_only(name, "as an attribute")
    return (
        key,
        tuple(
            HashableArray(v) if isinstance(v, np.ndarray) or is_native_array(v) else v
            for v in leaves
        ),
        structure,
    )


composite_p = Primitive("composite", multiple_results=True)


@composite_p.def_effectful_abstract_eval
def _composite_aval(*avals, jaxpr, **_):
    if _effects.in_order(jaxpr.effects):
        raise NotImplementedError(
            "the decomposition of a composite operation cannot have ordered effects such as callbacks with ordered=True"
        )
    return jaxpr.out_avals, jaxpr.effects


def _composite_jvp(primals, tangents, *, name, **_):
    raise ValueError(
        f"JVP rule for composite not implemented: the derivative of the named operation {name!r} is not known. Give the function "
        f"around it one with xlab.custom_jvp or xlab.custom_vjp"
    )


ad.primitive_jvps[composite_p] = _composite_jvp
ad.primitive_transposes.excuse(composite_p, "it is not taken apart into linear operations")
batching.primitive_batchers.excuse(
    composite_p,
    "what the named operation means on a batch is not known; give the function around it a "
    "rule with xlab.custom_batching.custom_vmap",
)


def _text(value) -> str:
    """An attribute as MLIR spells it."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{escape(value)}"'
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{scalar_text(value, np.float64)} : f64"
    if isinstance(value, HashableArray):
        shape = "".join(f"{d}x" for d in value.val.shape)
        return f"{dense_text(value.val, value.val.dtype)} : tensor<{shape}{dtypes.mlir_type(value.val.dtype)}>"
    if isinstance(value, np.generic):
        return f"{scalar_text(value, value.dtype)} : {dtypes.mlir_type(value.dtype)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{_dictionary(value.items())}}}"
    raise TypeError(
        f"an attribute of a composite operation is a number, a string, an array, or a list, tuple or dict of these; got {value!r} "
        f"of type {type(value).__name__}"
    )


def _dictionary(items) -> str:
    return ", ".join(f'"{escape(str(k))}" = {_text(v)}' for k, v in items if v is not None)


def _lowering(ctx, *xs, name, attributes, version, jaxpr):
    symbol = ctx.function(("composite", jaxpr), name, jaxpr)
    given = _dictionary(
        (k, _tree.unflatten(structure, leaves)) for k, leaves, structure in attributes
    )
    parts = [
        *([f"composite_attributes = {{{given}}}"] if given else []),
        f"decomposition = @{symbol}",
        *([f"version = {version} : i32"] if version else []),
    ]
    types_out = ", ".join(map(mlir.tensor_type, ctx.avals_out))
    return ctx.ops(
        f'stablehlo.composite "{escape(name)}" {", ".join(xs)} {{{", ".join(parts)}}} : ({ctx.types_in()}) -> ({types_out})',
        len(ctx.avals_out),
    )


control_flow_rules[composite_p] = lambda params: CallFlow(params["jaxpr"])
mlir.register_text_lowering(composite_p, _lowering)
