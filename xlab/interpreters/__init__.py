"""One meaning of the primitives each, with its empty rule table.

`partial_eval.py` (Python to jaxpr, known and unknown parts, dead code), `ad/` (jvp, linearize, transpose),
`batching.py`, `mlir/` (jaxpr to StableHLO), `communication.py` (collectives as messages). An interpreter never names a
primitive: rules are written beside the primitives in `lax` and looked up here. May import core and below.

Also: `calls.py` (primitives that call a jaxpr on all their operands), `control_flow.py` (how values flow through the
jaxprs inside an equation), `discharge.py` (references to values), `divergence.py` (which collectives not all of their
devices may reach), `extension.py` (questions about the transformations around the code that asks), `provenance.py`
(where the equations of a transformed program come from), `ref_flow.py` (which mutable references have to wait),
`vmappable.py` (classes of one's own that `vmap` maps over).
"""
