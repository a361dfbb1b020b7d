"""Callbacks in regions that are manual over some mesh axes only: one call for each place along these, with whole values.

Over the axes that are left to the compiler a value lies in parts. There a callback is put into a nested region over these axes, where
every device has the whole value; on the first of them the user's function runs, and the others get what it returned.
"""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.interpreters import mlir
from xlab.interpreters import partial_eval as pe
from xlab.lax import callback_calls
from xlab.lax.callback_calls import FlatCallback
from xlab.lax.callbacks import io_callback_p, pure_callback_p
from xlab.lax.collectives.axis_index import axis_index
from xlab.lax.collectives.psum import psum
from xlab.lax.comparison import eq
from xlab.lax.convert import bitcast_convert_type, convert_element_type
from xlab.parallel.manual import body_context
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.sharding import PartitionSpec

_WHOLE = PartitionSpec()


class _Once(FlatCallback):
    """A callback with an operand in front that says whether to call; otherwise its results are zeros."""

    __slots__ = ("callback", "result_avals")

    def __init__(self, callback: FlatCallback, result_avals):
        super().__init__(callback.callback_func, callback.in_tree, callback.api)
        self.callback, self.result_avals = callback, result_avals

    def __call__(self, first, *flat):
        if not first:
            return [np.zeros(a.shape, a.dtype) for a in self.result_avals]
        return self.callback(*flat)

    def __eq__(self, other):
        return type(other) is _Once and self.callback == other.callback

    __hash__ = FlatCallback.__hash__


def _lower(ctx, callback: FlatCallback, operands, has_side_effect: bool):
    mesh, avals = ctx.mesh, tuple(ctx.avals_out)
    names = tuple(n for n in mesh.axis_names if n not in ctx.manual)

    def once(*xs):
        first = eq(sum((axis_index(n) for n in names[1:]), axis_index(names[0])), np.int32(0))
        outs = io_callback_p.bind(
            first,
            *xs,
            callback=_Once(callback, avals),
            result_avals=avals,
            ordered=False,
            sharding=None,
        )
        return [_unbits(psum(_bits(x), names), a) for x, a in zip(outs, avals)]

    def on_all(*xs):  # a pure function, which may run as often as the program likes
        return pure_callback_p.bind(*xs, **ctx.eqn.params)

    def region(*xs):
        with body_context(mesh, frozenset(names), False):
            jaxpr, consts = pe.trace_to_jaxpr(
                once if has_side_effect else on_all, [aval_of(x) for x in xs]
            )
        return shard_map_p.bind(
            *consts,
            *xs,
            jaxpr=pe.convert_constvars_jaxpr(jaxpr),
            mesh=mesh,
            in_specs=(_WHOLE,) * (len(consts) + len(xs)),
            out_specs=(_WHOLE,) * len(jaxpr.outvars),
            check_vma=False,
            newly_manual_axes=frozenset(names),
        )

    return mlir.lower_fun(region)(ctx, *operands)


def _bits(x):
    """A value as numbers whose sum with zeros is itself, to the last bit."""
    dtype = aval_of(x).dtype
    if dtype == np.bool_:
        return convert_element_type(x, np.uint8)
    if dtypes.issubdtype(dtype, np.floating) and np.dtype(dtype).itemsize in (2, 4, 8):
        return bitcast_convert_type(x, f"uint{8 * np.dtype(dtype).itemsize}")
    return x


def _unbits(x, aval):
    if aval_of(x).dtype == aval.dtype:
        return x
    if aval.dtype == np.bool_:
        return convert_element_type(x, np.bool_)
    return bitcast_convert_type(x, aval.dtype)


callback_calls.set_partly_manual(_lower)
