"""`xlab.lax.parallel`: all collectives under one name, with the casts and variants that are not part of `xlab.lax` itself."""

from __future__ import annotations

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.pending import AbstractFuture as AbstractFuture
from xlab.core.pending import AbstractTodo as AbstractTodo
from xlab.core.pending import Future as Future
from xlab.core.pending import Todo as Todo
from xlab.lax.collectives import *  # noqa: F403
from xlab.lax.collectives.all_gather import all_gather
from xlab.lax.collectives.all_gather import all_gather_reduced_p as _gather_reduced_p
from xlab.lax.collectives.casts import preduced as preduced
from xlab.lax.collectives.casts import pvary as pvary
from xlab.lax.collectives.casts import reduced_vary_cast as reduced_vary_cast
from xlab.lax.collectives.casts import vary_unreduced_cast as vary_unreduced_cast
from xlab.lax.collectives.common import axis_names, require_varying, size_of
from xlab.lax.collectives.common import collective_vma_rule as collective_vma_rule
from xlab.lax.collectives.one_sided import SingleSideCollectiveEffect as SingleSideCollectiveEffect
from xlab.lax.collectives.one_sided import (
    single_side_collective_effect as single_side_collective_effect,
)
from xlab.lax.collectives.psum import bind_psum_invariant as bind_psum_invariant
from xlab.lax.collectives.psum import unreduced_psum_p as _unreduced_psum_p
from xlab.lax.collectives.psum_scatter import unreduced_reduce_scatter_p as _unreduced_scatter_p
from xlab.lax.collectives.starting import (
    all_gather_done_p as all_gather_done_p,
)
from xlab.lax.collectives.starting import (
    all_gather_reduced_start_p as all_gather_reduced_start_p,
)
from xlab.lax.collectives.starting import (
    all_gather_start_p as all_gather_start_p,
)
from xlab.lax.collectives.starting import (
    all_to_all_done_p as all_to_all_done_p,
)
from xlab.lax.collectives.starting import (
    all_to_all_start_p as all_to_all_start_p,
)
from xlab.lax.collectives.starting import (
    pbroadcast_done_p as pbroadcast_done_p,
)
from xlab.lax.collectives.starting import (
    pbroadcast_start_p as pbroadcast_start_p,
)
from xlab.lax.collectives.starting import (
    ppermute_done_p as ppermute_done_p,
)
from xlab.lax.collectives.starting import (
    ppermute_start_p as ppermute_start_p,
)
from xlab.lax.collectives.starting import (
    psum_done_p as psum_done_p,
)
from xlab.lax.collectives.starting import (
    psum_invariant_start_p as psum_invariant_start_p,
)
from xlab.lax.collectives.starting import (
    psum_start_p as psum_start_p,
)
from xlab.lax.collectives.starting import (
    reduce_scatter_done_p as reduce_scatter_done_p,
)
from xlab.lax.collectives.starting import (
    reduce_scatter_start_p as reduce_scatter_start_p,
)
from xlab.lax.collectives.starting import (
    unreduced_psum_start_p as unreduced_psum_start_p,
)
from xlab.lax.collectives.starting import (
    unreduced_reduce_scatter_start_p as unreduced_reduce_scatter_start_p,
)
from xlab.lax.shape import canonical_axis


def all_gather_invariant(x, axis_name, *, axis: int = 0, tiled: bool = False):
    """`all_gather` whose result is known to be the same everywhere."""
    return all_gather(x, axis_name, axis=axis, tiled=tiled, to="invarying")


def all_gather_reduced(x, axis_name, *, axis: int = 0, tiled: bool = False):
    """`all_gather` whose result is reduced: its transpose sums and scatters."""
    names = axis_names(axis_name, "all_gather_reduced", lists=False)
    if not names:
        return x
    return _tree.map(
        lambda v: _gather_reduced_p.bind(
            v,
            all_gather_dimension=canonical_axis(axis, aval_of(v).ndim + (not tiled)),
            axis_name=names,
            axis_size=size_of(names),
            tiled=tiled,
        ),
        x,
    )


def unreduced_psum(x, axis_name):
    """Carries out the sum of an unreduced value."""
    names = axis_names(axis_name, "unreduced_psum")
    if not names:
        return x
    return _tree.map(lambda v: _unreduced_psum_p.bind(v, axes=names), x)


def unreduced_psum_scatter(x, axis_name, *, scatter_dimension: int = 0, tiled: bool = False):
    """Carries out the sum of an unreduced value; each member keeps its block."""
    names = axis_names(axis_name, "unreduced_psum_scatter", lists=False)
    if not names:
        return x
    return _tree.map(
        lambda v: _unreduced_scatter_p.bind(
            v,
            axis_name=names,
            scatter_dimension=canonical_axis(scatter_dimension, aval_of(v).ndim),
            axis_size=size_of(names),
            tiled=tiled,
        ),
        x,
    )


def insert_collective_pvary(axis_name, x):
    """The value as one that varies over the named mesh axes; as it is where types do not vary."""
    return require_varying("pvary", x, axis_names(axis_name, "pvary"))
