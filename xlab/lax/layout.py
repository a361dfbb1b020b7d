"""`with_layout_constraint`: fixes the memory layout of an intermediate value."""

from __future__ import annotations

from typing import Any

from xlab import tree as _tree
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax import sharding_in_types
from xlab.sharding.placement import Layout

__all__ = ["layout_constraint_p", "with_layout_constraint"]


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Asks the compiler to lay values out in a given order of dimensions at this point of the program.

    Args:
        x: array or pytree.
        layouts: a `Layout`, or a pytree prefix of `x` of them; None leaves a value to the compiler.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> from xlab.experimental.layout import Layout
        >>> f = xlab.jit(lambda x: with_layout_constraint(x * 2, Layout((1, 0))))
        >>> "LayoutConstraint" in f.lower(jnp.ones((2, 3))).as_text()
        True
    """
    leaves, treedef = _tree.flatten(x)
    given = _tree.flatten_prefix(
        "with_layout_constraint layouts",
        layouts,
        x,
        is_leaf=lambda v: v is None or isinstance(v, Layout),
    )
    return _tree.unflatten(treedef, [_constrained(v, layout) for v, layout in zip(leaves, given)])


def _constrained(x, layout):
    if layout is None:
        return x
    aval = aval_of(x)
    if not isinstance(layout, Layout):
        raise ValueError(
            f"with_layout_constraint takes a Layout such as Layout(major_to_minor=(1, 0)), got {layout!r}"
        )
    if len(layout.major_to_minor) != aval.ndim:
        raise ValueError(
            f"with_layout_constraint: {layout} orders {len(layout.major_to_minor)} dimensions, but the value is {aval} with "
            f"{aval.ndim}"
        )
    return layout_constraint_p.bind(x, layout=layout)


layout_constraint_p = Primitive("layout_constraint")
layout_constraint_p.linear_in_unreduced = True
layout_constraint_p.def_abstract_eval(lambda x, *, layout: x)
ad.deflinear2(
    layout_constraint_p, lambda ct, x, *, layout: [layout_constraint_p.bind(ct, layout=layout)]
)
sharding_rules[layout_constraint_p] = sharding_in_types.first_operand


def _batch(operands, dims, *, layout):
    """Examples lie one after the other, each in its layout."""
    x, d = operands[0], dims[0]
    order = (d, *(i + (i >= d) for i in layout.major_to_minor))
    return layout_constraint_p.bind(x, layout=Layout(order)), d


def _lowering(ctx, x, *, layout):
    aval = mlir.values.physical_aval(ctx.avals_in[0])
    if not isinstance(aval, ShapedArray) or not aval.ndim:
        return x
    extra = range(len(layout.major_to_minor), aval.ndim)  # what the elements of keys are made of
    order = [*reversed(extra), *layout.minor_to_major]
    text = f"[dense<{order}> : tensor<{aval.ndim}xindex>]"
    kind = mlir.tensor_type(aval)
    return ctx.op(
        f'stablehlo.custom_call @LayoutConstraint({x}) {{backend_config = "", operand_layouts = {text}, '
        f"result_layouts = {text}}} : ({kind}) -> {kind}"
    )


batching.primitive_batchers[layout_constraint_p] = _batch
mlir.register_text_lowering(layout_constraint_p, _lowering)

costs.register(costs.free, layout_constraint_p)
