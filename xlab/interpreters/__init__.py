"""One meaning of the primitives each, with its empty rule table.

`partial_eval.py` (Python to jaxpr, known and unknown parts, dead code), `ad/` (jvp, linearize, transpose),
`batching.py`, `mlir/` (jaxpr to StableHLO), `communication.py` (collectives as messages). An interpreter never names a
primitive: rules are written beside the primitives in `lax` and looked up here. May import core and below.
"""
