"""Differential tests: one table of samples, run here under xlab and, in a second process, under the reference.

Reading order: `sample.py` (what a row says), `run.py` (a row under a transformation becomes an outcome),
`compare.py` (two outcomes become a list of differences), `worker.py` and `oracle.py` (the second process and
its client), `laws.py` (what has to hold with no reference at all), `harness.py` (what a test file uses).

A table is a module with `SAMPLES`; a test file for it is four lines:

    from tests.reference.harness import check, cases

    @cases("tests.lax.samples")
    def test_reference(case, oracle):
        check(case, oracle)

Functions in a table are written once: their first argument `n` holds the namespaces `n.jax`, `n.jnp`, `n.lax`,
`n.nn`, `n.random` of whichever side runs them. Neither side is imported by a table.
"""
