"""The value of a symbolic dimension in a program: `x.shape[0] * y`."""

from __future__ import annotations

from typing import NoReturn

from xlab.core.avals import aval_of
from xlab.core.dims import set_as_array
from xlab.core.primitive import Primitive
from xlab.errors import InconclusiveDimensionOperation
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.partial_eval import set_dim_as_value


def dim_as_value(dim):
    """A dimension as an integer of the program, of weak type.

    Args:
        dim: a symbolic dimension.
    """
    return dim_as_value_p.bind(dim=dim)


def _eager(*, dim) -> NoReturn:
    raise InconclusiveDimensionOperation(
        f"the value of the symbolic dimension '{dim}' is asked for outside of a program that is traced: it has none before the exported "
        f"program is called. Compute with it in the function that is exported."
    )


dim_as_value_p = Primitive("dim_as_value")
dim_as_value_p.def_abstract_eval(lambda *, dim: aval_of(dim))
dim_as_value_p.def_impl(_eager)
ad.defzero(dim_as_value_p)
batching.primitive_batchers.excuse(dim_as_value_p, "it has no operands to batch")
mlir.register_text_lowering(
    dim_as_value_p,
    lambda ctx, *, dim: ctx.op(f"stablehlo.constant dense<{dim}> : {ctx.type_out()}"),
)
set_as_array(dim_as_value)
set_dim_as_value(dim_as_value_p)

costs.register(costs.free, dim_as_value_p)
