"""Why programs were traced and compiled; used only on a cache miss.

`provenance.py` (notes of a program on its origin), `explain.py` (the sentence: which earlier program was nearest, and what
differs), `parts.py` (cache keys, part by part), `ledger.py` (the latest compiles of the process),
`unlisted.py` (compiles that it leaves out).
"""
