"""The language: types, primitives, tracing, jaxprs.

Reading order: `avals.py` (types), `primitive.py` (what a program is made of), `trace.py` (who gets to intercept a
primitive), `jaxpr.py` (programs as data), `check.py` and `printing.py`, `source.py`, `effects.py`, `rules.py`,
`dtypes.py`, `array.py`. May import sharding, tree, backend and the ground floor. It promises that equal types are
identical objects and that no primitive is named here.
"""
