"""What each collective moves between devices, and who takes part: the entries of `communication.collective_rules` and `divergence.arrivals`."""

from __future__ import annotations

from xlab.interpreters.communication import CollectiveOp, collective_rules, moving, reducing, size
from xlab.interpreters.divergence import Arrival, arrivals
from xlab.lax.collectives.all_gather import (
    all_gather_invariant_p,
    all_gather_p,
    all_gather_reduced_p,
)
from xlab.lax.collectives.all_to_all import all_to_all_p
from xlab.lax.collectives.one_sided import precv_p, psend_p
from xlab.lax.collectives.ppermute import pbroadcast_p, ppermute_p
from xlab.lax.collectives.psum import pmax_p, pmin_p, psum_invariant_p, psum_p, unreduced_psum_p
from xlab.lax.collectives.psum_scatter import reduce_scatter_p, unreduced_reduce_scatter_p
from xlab.lax.collectives.ragged_all_to_all import ragged_all_to_all_p

for _p in (psum_p, psum_invariant_p, unreduced_psum_p):
    collective_rules[_p] = reducing("all_reduce", "add")
collective_rules[pmax_p] = reducing("all_reduce", "max")
collective_rules[pmin_p] = reducing("all_reduce", "min")
for _p in (reduce_scatter_p, unreduced_reduce_scatter_p):
    collective_rules[_p] = reducing("reduce_scatter", "add")
for _p in (all_gather_p, all_gather_invariant_p, all_gather_reduced_p):
    collective_rules[_p] = moving("all_gather")
collective_rules[all_to_all_p] = moving("all_to_all")
collective_rules[ppermute_p] = moving("collective_permute")
collective_rules[precv_p] = lambda avals_in, avals_out, axis_name, perm, **_: CollectiveOp(          # what its psend gave away
    "collective_permute", axis_name, "", size(avals_out), size(avals_out), perm=perm)
collective_rules[pbroadcast_p] = moving("collective_broadcast")
collective_rules[ragged_all_to_all_p] = lambda avals_in, avals_out, axis_name, axis_index_groups: CollectiveOp(
    "ragged_all_to_all", axis_name, "", size(avals_in[:1]), size(avals_out), axis_index_groups)


# -- who has to arrive: the entries of `divergence.arrivals` ------------------------------------------------------


def _everyone_alike(p):
    axes = p["axes"] if "axes" in p else p["axis_name"]
    return Arrival(axes, same=len(p.get("axis_index_groups") or ((),)) == 1)


for _p in (psum_p, psum_invariant_p, unreduced_psum_p, pmax_p, pmin_p, all_gather_p, all_gather_invariant_p, all_gather_reduced_p,
           pbroadcast_p):
    arrivals[_p] = _everyone_alike
for _p in (reduce_scatter_p, unreduced_reduce_scatter_p, all_to_all_p, ragged_all_to_all_p):
    arrivals[_p] = lambda p: Arrival(p["axis_name"] if isinstance(p["axis_name"], tuple) else (p["axis_name"],))
for _p in (ppermute_p, psend_p, precv_p):       # on CPU all devices of the mesh meet, whatever the pairs are
    arrivals[_p] = lambda p: Arrival(p["axis_name"], everybody=True)
