"""`checkify` of a `shard_map`: every device checks its own shard, and one failure is reported."""

from __future__ import annotations

from xlab.core.avals import aval_of
from xlab.interpreters import partial_eval as pe
from xlab.lax.collectives import casts
from xlab.lax.shape import broadcast_in_dim
from xlab.parallel.shard_map_primitive import shard_map_call, shard_map_p
from xlab.sharding import PartitionSpec
from xlab.transforms.checkify import checkify_rules
from xlab.transforms.checks import one_failure


def _rule(checker, failure, eqn, operands):
    p, jaxpr = eqn.params, eqn.params["jaxpr"]
    names = tuple(n for n in p["mesh"].axis_names if n in p["newly_manual_axes"])

    def run(*args):
        start = checker.nothing()
        if p["check_vma"]:
            start = [casts.vary(x, names) for x in start]
        outs, found = checker.run(pe.close_jaxpr(jaxpr), args, start)
        found = [
            broadcast_in_dim(x, (1, *aval_of(x).shape), tuple(range(1, 1 + aval_of(x).ndim)))
            for x in found
        ]
        return [*found, *outs]

    with shard_map_call.context(p):
        closed = pe.trace_to_closed_jaxpr(run, [v.aval for v in jaxpr.invars], jaxpr.debug_info)
    n = len(failure)
    outs = shard_map_call.bind(
        closed, operands, {**p, "out_specs": (PartitionSpec(names),) * n + tuple(p["out_specs"])}
    )
    failed, code, *values = one_failure(outs[:n], [0] * n)
    return outs[n:], checker.fail(failure, failed, code, checker.slots, values)


checkify_rules[shard_map_p] = _rule
