"""Why programs were traced and compiled; entered on a miss only.

`provenance.py` (what a program carries of how it came to be), `explain.py` (the sentence: which earlier program was nearest, and what
differs), `parts.py` (everything that chose a program, part by part), `ledger.py` (the latest compiles of the process).
"""
