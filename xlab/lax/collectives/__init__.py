"""Collectives: operations over named axes, between devices under `shard_map` and `pmap` or between examples under `vmap`.

Reading order: `common.py` (names, groups, types), `casts.py` (how values behave over mesh axes), `psum.py`, `all_gather.py`,
`psum_scatter.py`, `all_to_all.py`, `ragged_all_to_all.py`, `ppermute.py`, `one_sided.py`,
`axis_index.py`; then `starting.py` and `start_functions.py` (collectives in two parts, a start and a wait). Each primitive comes with its type rule,
derivative, transpose, batching (also over the axis it names), StableHLO, what it moves between devices and who has to arrive.
"""

from xlab.lax.collectives.all_gather import (
    all_gather,
    all_gather_invariant_p,
    all_gather_p,
    all_gather_reduced_p,
)
from xlab.lax.collectives.all_to_all import all_to_all, all_to_all_p, pswapaxes
from xlab.lax.collectives.axis_index import axis_index, axis_index_p, axis_size
from xlab.lax.collectives.casts import (
    pcast,
    preduced_p,
    pvary_p,
    reduced_vary_cast_p,
    vary_unreduced_cast_p,
)
from xlab.lax.collectives.one_sided import precv, precv_p, psend, psend_p
from xlab.lax.collectives.ppermute import pbroadcast, pbroadcast_p, ppermute, ppermute_p, pshuffle
from xlab.lax.collectives.psum import (
    pargmax,
    pargmin,
    pmax,
    pmax_p,
    pmean,
    pmin,
    pmin_p,
    psum,
    psum_invariant_p,
    psum_p,
    unreduced_psum_p,
)
from xlab.lax.collectives.psum_scatter import (
    psum_scatter,
    reduce_scatter_p,
    unreduced_reduce_scatter_p,
)
from xlab.lax.collectives.ragged_all_to_all import ragged_all_to_all, ragged_all_to_all_p
from xlab.lax.collectives.start_functions import (
    all_gather_start,
    all_to_all_start,
    pbroadcast_start,
    ppermute_start,
    psum_scatter_start,
    psum_start,
)

__all__ = ["all_gather_start", "all_to_all_start", "pbroadcast_start", "ppermute_start", "psum_scatter_start", "psum_start", "all_gather", "all_gather_invariant_p", "all_gather_p", "all_gather_reduced_p", "all_to_all", "all_to_all_p",
           "axis_index", "axis_index_p", "axis_size", "pargmax", "pargmin", "pbroadcast", "pbroadcast_p", "pcast", "pmax", "pmax_p",
           "pmean", "pmin", "pmin_p", "ppermute", "ppermute_p", "precv", "precv_p", "preduced_p", "psend", "psend_p", "pshuffle", "psum", "psum_invariant_p", "psum_p",
           "psum_scatter", "pswapaxes", "pvary_p", "ragged_all_to_all", "ragged_all_to_all_p", "reduce_scatter_p",
           "reduced_vary_cast_p", "unreduced_psum_p", "unreduced_reduce_scatter_p", "vary_unreduced_cast_p"]  # fmt: skip
