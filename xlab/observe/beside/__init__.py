"""JAX beside xlab in one process: what the user wrote for JAX, as the programs that every view takes.

`recognize.py` tells a call of JAX's from one of ours, `convert.py` makes our jaxpr of JAX's, with types, shardings and parameters from
`values.py`, custom derivative rules from `rules.py`, loops over examples from `loops.py`, and primitives that are JAX's alone from `opaque.py`; `held.py` keeps what is no array out of its tracing; `calls.py` has JAX trace, lower,
compile and run, and `placements.py` have it do so for other placements; `checking.py` sets what stepping gave beside what JAX gives. Nothing here imports JAX: it is what the user imported, found by `recognize.jax()`. The programs that are read, measured
and run as a whole are JAX's own; only stepping and the ladder apply our rules, and stepping compares its end with JAX's result.
"""
