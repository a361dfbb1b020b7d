"""Differential tests: one table of samples, run here under xlab and, in a second process, under the reference.

Reading order: `sample.py` (what a row says), `run.py` (a row under a transformation becomes an outcome),
`compare.py` (two outcomes become a list of differences), `worker.py` and `oracle.py` (the second process and
its client), `laws.py` (what has to hold with no reference at all), `harness.py` (what a test file uses),
`table.py` (how pytest finds the tables).

A table is a file `samples*.py` with `SAMPLES` beside the tests of its room. It is a test file itself:
`pytest tests/lax/samples.py` compares its samples with the reference and checks their laws.

Functions in a table are written once: their first argument `n` holds the namespaces `n.jax`, `n.jnp`, `n.lax`,
`n.nn`, `n.random` of whichever side runs them. Neither side is imported by a table.
"""
