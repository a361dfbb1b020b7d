"""The interpreters of primitives, each with its own (initially empty) rule table.

`partial_eval.py` (Python to jaxpr, known and unknown parts), `followed.py` (the same for one run, whose values Python sees), `dead_code.py` (what a program does not need), `ad/` (jvp, linearize, transpose),
`batching.py`, `mlir/` (jaxpr to StableHLO), `schedules.py` (who passes which chunk on to whom), `communication.py` (collectives as
messages), `communication_costs.py` (their predicted time), `costs.py` (arithmetic and bytes of each equation), `slices.py` and `dataflow.py` (which slice goes where). An interpreter never names a primitive: rules are written beside the primitives in `lax` and looked up here. May import
core and below.

Types of the user's own: `hi_primitives.py` (operations on their values), `lojax.py` (arrays in the place of values, before a program is compiled).

Eager evaluation: `xla.py` (its rule, by the name that programs import).

Also: `constants.py` (programs and their constants), `leaks.py` (values that outlive their trace), `calls.py` (primitives that call a jaxpr on all their operands), `control_flow.py` (data flow through the
jaxprs inside an equation), `discharge.py` (references to values), `divergence.py` (collectives that some of their
devices may not reach), `jet.py` (Taylor polynomials), `key_reuse.py` (random keys that a program uses twice), `provenance.py`
(where the equations of a transformed program come from), `ref_flow.py` (mutable references in partial evaluation),
`vmappable.py` (user classes that `vmap` maps over).
"""
